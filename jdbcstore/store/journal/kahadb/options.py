"""Options of the KahaDB store, named as ActiveMQ's, with their units at the end, and with its defaults.

`KahaDBOptions.from_activemq` takes ActiveMQ's own names and spellings (``journalMaxFileLength=16mb``).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple, Self

from jdbcstore.destination import Destination, Queue
from jdbcstore.errors import ConfigurationError
from jdbcstore.option_values import as_boolean, as_integer, as_number, as_size
from jdbcstore.store.contract import VIRTUAL_TOPIC_CONSUMERS
from jdbcstore.store.lease import LockerOptions

__all__ = [
    "ACTIVEMQ_OPTIONS",
    "ActiveMQOption",
    "KahaDBOptions",
]

SYNC_STRATEGIES: Final = ("ALWAYS", "PERIODIC", "NEVER")
PREALLOCATION_SCOPES: Final = ("ENTIRE_JOURNAL", "ENTIRE_JOURNAL_ASYNC", "NONE")
PREALLOCATION_STRATEGIES: Final = ("SPARSE_FILE", "ZEROS", "CHUNKED_ZEROS", "OS_KERNEL_COPY")
XA_STRATEGIES: Final = ("NEVER", "COMMIT", "ROLLBACK")

#: A location in a file is an int of Java.
_INT_MAX: Final = (1 << 31) - 1
_FILE_LEAST_BYTES: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class KahaDBOptions:
    """How a KahaDB store is kept. Where ActiveMQ has an option it has this name in camel case, and this default.

    Args:
        index_directory: where the index is; empty for the store's directory.
        journal_max_file_length_bytes: how long a journal file becomes; a larger record makes a longer one.
        journal_max_write_batch_size_bytes: how much one write to the journal carries; one record always fits.
        journal_disk_sync_strategy: when the journal is forced to the disk: ``ALWAYS`` before a write is called stored,
            ``PERIODIC`` every `journal_disk_sync_interval_ms`, ``NEVER`` when the system likes. With the last two a
            power failure loses what was called stored, the end of a process does not.
        journal_disk_sync_interval_ms: for ``PERIODIC``.
        preallocation_scope: ``ENTIRE_JOURNAL`` makes a journal file as long as it will be when it is begun,
            ``ENTIRE_JOURNAL_ASYNC`` the next one ahead, ``NONE`` lets files grow.
        preallocation_strategy: ``SPARSE_FILE`` sets the length only, ``ZEROS`` and ``CHUNKED_ZEROS`` write zeros, at
            once or a MiB at a time, ``OS_KERNEL_COPY`` lets the system reserve the room without writing.
        check_for_corrupt_journal_files: read all journal files at the start, not the last one only, and refuse to start
            if one is damaged.
        ignore_missing_journal_files: start although journal files are missing that messages stand in, or are damaged;
            what is lost is logged.
        archive_data_logs: keep journal files that are not needed any more in `directory_archive`.
        directory_archive: empty for ``data-archive`` in the store's directory.
        archive_corrupted_index: keep an index that cannot be read.
        force_recover_index: make the index anew from the journal at the start.
        checkpoint_interval_ms: how often the index is written; after a crash what came later is read from the journal.
            0 leaves it to stopping.
        cleanup_interval_ms: how often journal files are looked for that are not needed; 0 is never.
        cleanup_on_stop: look for them at the end, too.
        enable_ack_compaction: write acknowledgements anew, if they are all that a journal file is kept for.
        compact_acks_after_no_gc: how many cleanups have to find nothing before that.
        compact_acks_ignores_store_growth: do it also while new files are begun.
        index_cache_size_pages: how much of the index is kept in memory, in pages of 4 KiB.
        concurrent_store_and_dispatch_queues: let a message of a queue that is acknowledged before it was written skip
            the journal. The consumer had it, so a crash loses nothing.
        purge_recovered_xa_transaction_strategy: what happens at the start to XA transactions that are prepared:
            ``NEVER`` they wait for their manager, ``COMMIT``, ``ROLLBACK``.
        use_lock: make sure that one broker at most uses the directory.
        lock_keep_alive_period_ms: how often the master looks whether the lock is still its own; 0 is never, but for
            every write, which does.
        lock_acquire_sleep_interval_ms: how often a standby tries to get the lock.
        fail_if_database_is_locked: end instead of waiting for the lock.
        lease_holder_id: what the master calls itself in the lock file, usually the broker's name; a random part
            follows it.
        store_open_wire_version: of new messages in the journal; the journal does not tell it, so a broker that reads it
            has to know. (An attribute of the broker in ActiveMQ.)
        virtual_topic_consumers: queues that are to be known although they are empty, several separated by commas, with
            wildcards; empty for none. (ActiveMQ takes them from its virtual destinations.)
        message_bytes_max: the largest stored message.
        transaction_messages_max: the most messages that one transaction adds, removes and acknowledges.
        transaction_bytes_max: the most message bytes in one transaction.
        producer_memory_s: how long the number of a producer's last message is remembered after it was sent.

    Raises:
        ConfigurationError: a value that nothing can be done with.
    """

    #: As people call it.
    store: ClassVar[str] = "KahaDB"

    index_directory: str = ""
    journal_max_file_length_bytes: int = 32 << 20
    journal_max_write_batch_size_bytes: int = 4 << 20
    journal_disk_sync_strategy: str = "ALWAYS"
    journal_disk_sync_interval_ms: int = 1000
    preallocation_scope: str = "ENTIRE_JOURNAL"
    preallocation_strategy: str = "SPARSE_FILE"
    check_for_corrupt_journal_files: bool = False
    ignore_missing_journal_files: bool = False
    archive_data_logs: bool = False
    directory_archive: str = ""
    archive_corrupted_index: bool = False
    force_recover_index: bool = False
    checkpoint_interval_ms: int = 5000
    cleanup_interval_ms: int = 30_000
    cleanup_on_stop: bool = True
    enable_ack_compaction: bool = True
    compact_acks_after_no_gc: int = 10
    compact_acks_ignores_store_growth: bool = False
    index_cache_size_pages: int = 10_000
    concurrent_store_and_dispatch_queues: bool = True
    purge_recovered_xa_transaction_strategy: str = "NEVER"
    use_lock: bool = True
    lock_keep_alive_period_ms: int = 0
    lock_acquire_sleep_interval_ms: int = 10_000
    fail_if_database_is_locked: bool = False
    lease_holder_id: str = "jdbcstore"
    store_open_wire_version: int = 11
    virtual_topic_consumers: str = VIRTUAL_TOPIC_CONSUMERS.physical_name
    message_bytes_max: int = 100 << 20
    transaction_messages_max: int = 100_000
    transaction_bytes_max: int = 100 << 20
    producer_memory_s: float = 24 * 3600.0

    def __post_init__(self) -> None:
        for name, known in (
            ("journal_disk_sync_strategy", SYNC_STRATEGIES),
            ("preallocation_scope", PREALLOCATION_SCOPES),
            ("preallocation_strategy", PREALLOCATION_STRATEGIES),
            ("purge_recovered_xa_transaction_strategy", XA_STRATEGIES),
        ):
            value = getattr(self, name).strip().upper()
            if value not in known:
                raise ConfigurationError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
            object.__setattr__(self, name, value)
        for name, least, most in (
            ("journal_max_file_length_bytes", _FILE_LEAST_BYTES, _INT_MAX),
            ("journal_max_write_batch_size_bytes", _FILE_LEAST_BYTES, _INT_MAX // 2),
            ("journal_disk_sync_interval_ms", 1, _INT_MAX),
            ("checkpoint_interval_ms", 0, _INT_MAX),
            ("cleanup_interval_ms", 0, _INT_MAX),
            ("compact_acks_after_no_gc", 0, _INT_MAX),
            ("index_cache_size_pages", 1, _INT_MAX),
            ("lock_keep_alive_period_ms", 0, _INT_MAX),
            ("lock_acquire_sleep_interval_ms", 1, _INT_MAX),
            ("store_open_wire_version", 1, 12),
            ("message_bytes_max", 1, _INT_MAX // 2),
            ("transaction_messages_max", 1, _INT_MAX),
            ("transaction_bytes_max", 1, _INT_MAX // 2),
            ("producer_memory_s", 1, _INT_MAX),
        ):
            if not least <= getattr(self, name) <= most:
                raise ConfigurationError(f"{name} must be {least} to {most}, got {getattr(self, name)}")

    def is_kept(self, queue: Destination) -> bool:
        """Whether a queue is to be known although it is empty."""
        names = (name.strip() for name in self.virtual_topic_consumers.split(","))
        return any(Queue(name).matches(queue) for name in names if name)

    @property
    def lock(self) -> LockerOptions:
        """The options of the directory's locker. The lock of a file knows no lease; it is as long as it has to be."""
        alive_ms, sleep_ms = self.lock_keep_alive_period_ms, self.lock_acquire_sleep_interval_ms
        return LockerOptions(
            lease_ms=max(LockerOptions().lease_ms, 2 * alive_ms + 1, sleep_ms),
            lock_keep_alive_period_ms=alive_ms,
            lock_acquire_sleep_interval_ms=sleep_ms,
            lease_holder_id=self.lease_holder_id,
            fail_if_locked=self.fail_if_database_is_locked,
        )

    @classmethod
    def activemq_options(cls) -> Mapping[str, ActiveMQOption]:
        """What ActiveMQ knows of this store, by its names."""
        return ACTIVEMQ_OPTIONS

    @classmethod
    def from_activemq(cls, given: Mapping[str, str], options: Self | None = None) -> tuple[Self, tuple[str, ...]]:
        """Options by ActiveMQ's names, as they stand in its ``activemq.xml``.

        Args:
            given: texts by the names, for example ``{"journalMaxFileLength": "16mb"}``.
            options: what they go before; None for the defaults.

        Returns:
            The options, and for each that was accepted but means nothing here one clause that says why.

        Raises:
            ConfigurationError: an unknown name (the text tells the nearest), or a value that cannot be.
        """
        values: dict[str, Any] = {}
        notes: list[str] = []
        for name, text in given.items():
            option = cls.activemq_options().get(name)
            if option is None:
                raise ConfigurationError(f"{cls.store} has no option {name!r}{_nearest(name, cls.activemq_options())}")
            try:
                value = option.read(text)
            except ConfigurationError as error:
                raise ConfigurationError(f"{name}: {error}") from None
            if not option.field:
                if text.strip().lower() != option.default.lower():
                    notes.append(f"{name}={text} is not used: {option.about}")
            elif option.field in values and values[option.field] != value:
                raise ConfigurationError(
                    f"{name}={text} contradicts {_named(cls.activemq_options(), option.field, name, given)}"
                )
            else:
                values[option.field] = value
        return replace(options or cls(), **values), tuple(notes)


def _nearest(name: str, options: Mapping[str, ActiveMQOption]) -> str:
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.0)
    return f"; the nearest is {close[0]!r}" if close else ""


def _named(options: Mapping[str, ActiveMQOption], field: str, other: str, given: Mapping[str, str]) -> str:
    return next(f"{name}={given[name]}" for name in given if name != other and options[name].field == field)


class ActiveMQOption(NamedTuple):
    """An option as ActiveMQ knows it."""

    default: str
    """As ActiveMQ writes it; empty for none."""
    read: Callable[[str], object]
    """Makes the value of the text; raises `ConfigurationError`."""
    field: str = ""
    """Of `KahaDBOptions`; empty if the option means nothing here."""
    about: str = ""
    """Why it means nothing, or what is different."""


def _syncs(text: str) -> str:
    return "ALWAYS" if as_boolean(text) else "NEVER"


_PRODUCERS: Final = "how far producers came is remembered for kahadb.producer_memory_s, however many there are"
_PAGE_FILE: Final = "the index is a SQLite database, not a page file"

#: All of ActiveMQ 5.17 and 6.3 by their names there, but for `directory` and the locker.
ACTIVEMQ_OPTIONS: Final[Mapping[str, ActiveMQOption]] = {
    "indexDirectory": ActiveMQOption("", str.strip, "index_directory"),
    "journalMaxFileLength": ActiveMQOption("32mb", as_size, "journal_max_file_length_bytes"),
    "journalMaxWriteBatchSize": ActiveMQOption("4mb", as_size, "journal_max_write_batch_size_bytes"),
    "journalDiskSyncStrategy": ActiveMQOption("ALWAYS", str, "journal_disk_sync_strategy"),
    "journalDiskSyncInterval": ActiveMQOption("1000", as_integer, "journal_disk_sync_interval_ms"),
    "enableJournalDiskSyncs": ActiveMQOption(
        "true", _syncs, "journal_disk_sync_strategy", "old: true is journalDiskSyncStrategy=ALWAYS, false is NEVER"
    ),
    "preallocationScope": ActiveMQOption("ENTIRE_JOURNAL", str, "preallocation_scope"),
    "preallocationStrategy": ActiveMQOption("SPARSE_FILE", str, "preallocation_strategy"),
    "checksumJournalFiles": ActiveMQOption("true", as_boolean, about="every batch has a checksum"),
    "checkForCorruptJournalFiles": ActiveMQOption("false", as_boolean, "check_for_corrupt_journal_files"),
    "ignoreMissingJournalfiles": ActiveMQOption("false", as_boolean, "ignore_missing_journal_files"),
    "archiveDataLogs": ActiveMQOption("false", as_boolean, "archive_data_logs"),
    "directoryArchive": ActiveMQOption("", str.strip, "directory_archive"),
    "archiveCorruptedIndex": ActiveMQOption("false", as_boolean, "archive_corrupted_index"),
    "forceRecoverIndex": ActiveMQOption("false", as_boolean, "force_recover_index"),
    "checkpointInterval": ActiveMQOption("5000", as_integer, "checkpoint_interval_ms"),
    "cleanupInterval": ActiveMQOption("30000", as_integer, "cleanup_interval_ms"),
    "cleanupOnStop": ActiveMQOption("true", as_boolean, "cleanup_on_stop"),
    "enableAckCompaction": ActiveMQOption("true", as_boolean, "enable_ack_compaction"),
    "compactAcksAfterNoGC": ActiveMQOption("10", as_integer, "compact_acks_after_no_gc"),
    "compactAcksIgnoresStoreGrowth": ActiveMQOption("false", as_boolean, "compact_acks_ignores_store_growth"),
    "indexCacheSize": ActiveMQOption("10000", as_integer, "index_cache_size_pages"),
    "indexWriteBatchSize": ActiveMQOption("1000", as_integer, about=_PAGE_FILE),
    "enableIndexWriteAsync": ActiveMQOption("false", as_boolean, about=_PAGE_FILE),
    "enableIndexDiskSyncs": ActiveMQOption("true", as_boolean, about=_PAGE_FILE),
    "enableIndexRecoveryFile": ActiveMQOption("true", as_boolean, about=_PAGE_FILE),
    "enableIndexPageCaching": ActiveMQOption("true", as_boolean, about=_PAGE_FILE),
    "useIndexLFRUEviction": ActiveMQOption("false", as_boolean, about=_PAGE_FILE),
    "indexLFUEvictionFactor": ActiveMQOption("0.2", as_number, about=_PAGE_FILE),
    "concurrentStoreAndDispatchQueues": ActiveMQOption("true", as_boolean, "concurrent_store_and_dispatch_queues"),
    "concurrentStoreAndDispatchTopics": ActiveMQOption(
        "false", as_boolean, about="a message of a topic is always written before it is delivered"
    ),
    "concurrentStoreAndDispatchTransactions": ActiveMQOption(
        "false", as_boolean, about="a transaction is always written before its end is answered, in ActiveMQ too"
    ),
    "maxAsyncJobs": ActiveMQOption("10000", as_integer, about="the broker's memory bounds what waits to be written"),
    "maxFailoverProducersToTrack": ActiveMQOption("64", as_integer, about=_PRODUCERS),
    "failoverProducersAuditDepth": ActiveMQOption("2048", as_integer, about=_PRODUCERS),
    "enableSubscriptionStatistics": ActiveMQOption("false", as_boolean, about="pending messages are counted anyway"),
    "purgeRecoveredXATransactionStrategy": ActiveMQOption("NEVER", str, "purge_recovered_xa_transaction_strategy"),
    "useLock": ActiveMQOption("true", as_boolean, "use_lock"),
    "lockKeepAlivePeriod": ActiveMQOption("0", as_integer, "lock_keep_alive_period_ms"),
    "lockAcquireSleepInterval": ActiveMQOption("10000", as_integer, "lock_acquire_sleep_interval_ms"),
    "databaseLockedWaitDelay": ActiveMQOption(
        "10000", as_integer, "lock_acquire_sleep_interval_ms", "old name of lockAcquireSleepInterval"
    ),
    "failIfDatabaseIsLocked": ActiveMQOption("false", as_boolean, "fail_if_database_is_locked"),
    "storeOpenWireVersion": ActiveMQOption("11", as_integer, "store_open_wire_version", "an attribute of the broker"),
}
