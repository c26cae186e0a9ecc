"""Options of the LevelDB store, named as ActiveMQ's (``levelDB`` of 5.16), with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from jdbcstore.errors import ConfigurationError
from jdbcstore.option_values import as_boolean, as_integer, as_size
from jdbcstore.store.journal.kahadb.options import (
    ActiveMQOption,
    KahaDBOptions,
)

__all__ = ["LEVELDB_OPTIONS", "LevelDBOptions"]

_COMPRESSIONS: Final = ("AS_FOUND", "NONE", "SNAPPY")
_INT_MAX: Final = (1 << 31) - 1
_INDEX: Final = "the index is in memory, and its snapshots are written at once"
_CHECKED: Final = "every record is checked"
_PRODUCERS: Final = "how far producers came is remembered for producer_memory_s, however many there are"
_LOCKED: Final = "an attribute of every store with a lock"


def _syncs(text: str) -> str:
    return "ALWAYS" if as_boolean(text) else "NEVER"


#: All of ActiveMQ 5.16 by their names there, but for `directory`.
LEVELDB_OPTIONS: Final[Mapping[str, ActiveMQOption]] = {
    "logDirectory": ActiveMQOption("", str.strip, "log_directory"),
    "sync": ActiveMQOption("true", _syncs, "journal_disk_sync_strategy", "true is ALWAYS, false is NEVER"),
    "logSize": ActiveMQOption("104857600", as_size, "journal_max_file_length_bytes"),
    "verifyChecksums": ActiveMQOption("false", as_boolean, about=_CHECKED),
    "paranoidChecks": ActiveMQOption("false", as_boolean, about=_CHECKED),
    "indexFactory": ActiveMQOption(
        "org.fusesource.leveldbjni.JniDBFactory, org.iq80.leveldb.impl.Iq80DBFactory", str.strip, about=_INDEX
    ),
    "indexMaxOpenFiles": ActiveMQOption("1000", as_integer, about=_INDEX),
    "indexBlockRestartInterval": ActiveMQOption("16", as_integer, about=_INDEX),
    "indexWriteBufferSize": ActiveMQOption("6291456", as_size, about=_INDEX),
    "indexBlockSize": ActiveMQOption("4096", as_size, about=_INDEX),
    "indexCacheSize": ActiveMQOption("268435456", as_size, about=_INDEX),
    "indexCompression": ActiveMQOption("snappy", str.strip, about=_INDEX),
    "logCompression": ActiveMQOption("none", str.strip, "log_compression"),
    "flushDelay": ActiveMQOption(
        "0",
        as_integer,
        about="what waits is written together, and what is acknowledged before that is not written, without a delay",
    ),
    "asyncBufferSize": ActiveMQOption("4194304", as_size, about="the broker's memory bounds what waits to be written"),
    "monitorStats": ActiveMQOption("false", as_boolean, about="the broker has metrics"),
    "autoCompactionRatio": ActiveMQOption("250", as_integer, about=_INDEX),
    "failoverProducersAuditDepth": ActiveMQOption("2048", as_integer, about=_PRODUCERS),
    "maxFailoverProducersToTrack": ActiveMQOption("64", as_integer, about=_PRODUCERS),
    "readThreads": ActiveMQOption("10", as_integer, about="it stands in ActiveMQ's documentation only"),
    "useLock": ActiveMQOption("true", as_boolean, "use_lock", _LOCKED),
    "lockKeepAlivePeriod": ActiveMQOption("0", as_integer, "lock_keep_alive_period_ms", _LOCKED),
    "lockAcquireSleepInterval": ActiveMQOption("10000", as_integer, "lock_acquire_sleep_interval_ms", _LOCKED),
    "failIfLocked": ActiveMQOption("false", as_boolean, "fail_if_database_is_locked", "of the locker"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelDBOptions(KahaDBOptions):
    """How a LevelDB store is kept: as a KahaDB store is, with the defaults of ``levelDB``.

    Args:
        log_directory: where the files of the log are; empty for the store's directory.
        log_compression: whether messages are written as Snappy blocks. The log does not tell, so a broker that reads it
            has to know: ``AS_FOUND`` does as the newest message does, ``NONE``, ``SNAPPY``.
        snapshot_interval_ms: the least time between two snapshots of the index while messages come; there is one when
            a collection was removed, since ActiveMQ's own replay ends there, when a file of the log is begun, and at
            the end.

    Raises:
        ConfigurationError: a value that nothing can be done with.
    """

    store: ClassVar[str] = "LevelDB"

    log_directory: str = ""
    log_compression: str = "AS_FOUND"
    snapshot_interval_ms: int = 5000
    journal_max_file_length_bytes: int = 100 << 20
    cleanup_interval_ms: int = 10_000

    def __post_init__(self) -> None:
        super(LevelDBOptions, self).__post_init__()  # slots make another class of this one
        compression = self.log_compression.strip().upper()
        if compression not in _COMPRESSIONS:
            raise ConfigurationError(
                f"log_compression must be one of {', '.join(_COMPRESSIONS)}, got {self.log_compression!r}"
            )
        object.__setattr__(self, "log_compression", compression)
        if not 0 <= self.snapshot_interval_ms <= _INT_MAX:
            raise ConfigurationError(f"snapshot_interval_ms must be 0 to {_INT_MAX}, got {self.snapshot_interval_ms}")

    @classmethod
    def activemq_options(cls) -> Mapping[str, ActiveMQOption]:
        return LEVELDB_OPTIONS
