"""Options of the AMQ store, named as ActiveMQ's (``amqPersistenceAdapter`` of 5.3), with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from jdbcstore.option_values import as_boolean, as_integer, as_size
from jdbcstore.store.journal.amq.encoding import WIRE_VERSION
from jdbcstore.store.journal.kahadb.options import (
    ActiveMQOption,
    KahaDBOptions,
)

__all__ = ["AMQ_OPTIONS", "AMQOptions"]

_INDEX: Final = "the index is a SQLite database, not Kaha's hash index"
_FORCED: Final = "every write is forced to the disk before it is called stored"
_REPLAYED: Final = "a journal that the index does not know is always read"


def _lock(text: str) -> bool:
    return not as_boolean(text)


#: All of ActiveMQ 5.3 and 5.4 by their names there, but for `directory`.
AMQ_OPTIONS: Final[Mapping[str, ActiveMQOption]] = {
    "useNio": ActiveMQOption("true", as_boolean, about="the bytes are the same in either way"),
    "syncOnWrite": ActiveMQOption("false", as_boolean, about=_FORCED),
    "syncOnTransaction": ActiveMQOption("true", as_boolean, about=_FORCED),
    "maxFileLength": ActiveMQOption("32mb", as_size, "journal_max_file_length_bytes"),
    "persistentIndex": ActiveMQOption("true", as_boolean, about=_INDEX),
    "maxCheckpointMessageAddSize": ActiveMQOption(
        "4096", as_size, about="the index is written every checkpointInterval, whatever came"
    ),
    "checkpointInterval": ActiveMQOption("20000", as_integer, "checkpoint_interval_ms"),
    "cleanupInterval": ActiveMQOption("30000", as_integer, "cleanup_interval_ms"),
    "indexBinSize": ActiveMQOption("1024", as_integer, about=_INDEX),
    "indexMaxBinSize": ActiveMQOption("16384", as_integer, about=_INDEX),
    "indexLoadFactor": ActiveMQOption("50", as_integer, about=_INDEX),
    "indexKeySize": ActiveMQOption("96", as_integer, about="message ids may have any length"),
    "indexPageSize": ActiveMQOption("1024", as_size, about=_INDEX),
    "maxReferenceFileLength": ActiveMQOption("2mb", as_size, about=_INDEX),
    "directoryArchive": ActiveMQOption("", str.strip, "directory_archive"),
    "archiveDataLogs": ActiveMQOption("false", as_boolean, "archive_data_logs"),
    "disableLocking": ActiveMQOption("false", _lock, "use_lock"),
    "recoverReferenceStore": ActiveMQOption("true", as_boolean, about=_REPLAYED),
    "forceRecoverReferenceStore": ActiveMQOption("false", as_boolean, "force_recover_index"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AMQOptions(KahaDBOptions):
    """How an AMQ store is kept: as a KahaDB store is, with the defaults of ``amqPersistenceAdapter``.

    Args:
        directory_archive: empty for ``archive`` in the store's directory.
        store_open_wire_version: what brokers 5.1 to 5.3 read; it is not to be changed.
        enable_ack_compaction: brokers of that time do none.
    """

    store: ClassVar[str] = "An AMQ store"

    preallocation_scope: str = "NONE"
    checkpoint_interval_ms: int = 20_000
    store_open_wire_version: int = WIRE_VERSION

    @classmethod
    def activemq_options(cls) -> Mapping[str, ActiveMQOption]:
        return AMQ_OPTIONS
