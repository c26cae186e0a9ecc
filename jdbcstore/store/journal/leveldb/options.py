"""Options of the LevelDB store, named as ActiveMQ's, with their units at the end, and with its defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jdbcstore.destination import Destination, Queue
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.contract import VIRTUAL_TOPIC_CONSUMERS
from jdbcstore.store.lease import LockerOptions

__all__ = ["LevelDBOptions"]

_COMPRESSIONS: Final = ("AS_FOUND", "NONE", "SNAPPY")
_INT_MAX: Final = (1 << 31) - 1
_LOG_LEAST_BYTES: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelDBOptions:
    """How a LevelDB store is kept. Where ActiveMQ has an option it has this name in camel case, and this default.

    Args:
        log_directory: where the files of the log are; empty for the store's directory.
        sync: force to the disk what was written before anybody is told that it is stored.
        log_size_bytes: a unit of work that would make a file of the log longer begins the next one.
        log_compression: whether messages are written as Snappy blocks. The log does not tell, so a broker that reads it
            has to know: ``AS_FOUND`` does as the newest message does, ``NONE``, ``SNAPPY``.
        cleanup_interval_ms: how often files of the log are looked for that are not needed (ActiveMQ: 10 seconds); 0 is
            never.
        snapshot_interval_ms: the least time between two snapshots of the index while messages come; there is one when
            a collection was removed, since ActiveMQ's own replay ends there, and at the end.
        concurrent_store_and_dispatch_queues: let a message of a queue that is acknowledged before it was written skip
            the log, as ActiveMQ's ``flushDelay`` does.
        use_lock: make sure that one broker at most uses the directory.
        lock_keep_alive_period_ms: how often the master looks whether the lock is still its own; 0 is never, but for
            every write, which does.
        lock_acquire_sleep_interval_ms: how often a standby tries to get the lock.
        fail_if_locked: end instead of waiting for the lock.
        lease_holder_id: what the master calls itself in the lock file, usually the broker's name.
        store_open_wire_version: of new messages in a new directory; else they are written as the newest one there.
        virtual_topic_consumers: queues that are to be known although they are empty, several separated by commas, with
            wildcards; empty for none. (ActiveMQ knows all queues that ever were.)
        message_bytes_max: the largest stored message.
        batch_bytes_max: the largest unit of work, unless one message or transaction is larger.
        transaction_messages_max: the most messages that one transaction adds, removes and acknowledges.
        transaction_bytes_max: the most message bytes in one transaction.
        producer_memory_s: how long the number of a producer's last message is remembered after it was sent.

    Raises:
        ConfigurationError: a value that nothing can be done with.
    """

    log_directory: str = ""
    sync: bool = True
    log_size_bytes: int = 100 << 20
    log_compression: str = "AS_FOUND"
    cleanup_interval_ms: int = 10_000
    snapshot_interval_ms: int = 5000
    concurrent_store_and_dispatch_queues: bool = True
    use_lock: bool = True
    lock_keep_alive_period_ms: int = 0
    lock_acquire_sleep_interval_ms: int = 10_000
    fail_if_locked: bool = False
    lease_holder_id: str = "jdbcstore"
    store_open_wire_version: int = 11
    virtual_topic_consumers: str = VIRTUAL_TOPIC_CONSUMERS.physical_name
    message_bytes_max: int = 100 << 20
    batch_bytes_max: int = 4 << 20
    transaction_messages_max: int = 10_000
    transaction_bytes_max: int = 100 << 20
    producer_memory_s: float = 24 * 3600.0

    def __post_init__(self) -> None:
        compression = self.log_compression.strip().upper()
        if compression not in _COMPRESSIONS:
            raise ConfigurationError(
                f"log_compression must be one of {', '.join(_COMPRESSIONS)}, got {self.log_compression!r}"
            )
        object.__setattr__(self, "log_compression", compression)
        for name, least, most in (
            ("log_size_bytes", _LOG_LEAST_BYTES, _INT_MAX),
            ("cleanup_interval_ms", 0, _INT_MAX),
            ("snapshot_interval_ms", 0, _INT_MAX),
            ("lock_keep_alive_period_ms", 0, _INT_MAX),
            ("lock_acquire_sleep_interval_ms", 1, _INT_MAX),
            ("store_open_wire_version", 1, 12),
            ("message_bytes_max", 1, _INT_MAX // 2),
            ("batch_bytes_max", 1, _INT_MAX // 2),
            ("transaction_messages_max", 1, _INT_MAX),
            ("transaction_bytes_max", 1, _INT_MAX // 2),
            ("producer_memory_s", 1, _INT_MAX),
        ):
            if not least <= getattr(self, name) <= most:
                raise ConfigurationError(f"{name} must be {least} to {most}, got {getattr(self, name)}")

    # -- as the engine's writer asks -----------------------------------------------------------------------------

    @property
    def journal_max_file_length_bytes(self) -> int:
        """As `log_size_bytes`."""
        return self.log_size_bytes

    @property
    def journal_disk_sync_strategy(self) -> str:
        """As `sync`."""
        return "ALWAYS" if self.sync else "NEVER"

    @property
    def journal_disk_sync_interval_ms(self) -> int:
        """Not used."""
        return 1000

    @property
    def preallocation_scope(self) -> str:
        """Files are made as long as they will be."""
        return "ENTIRE_JOURNAL"

    @property
    def preallocation_strategy(self) -> str:
        """By their length alone, as ActiveMQ does."""
        return "SPARSE_FILE"

    @property
    def check_for_corrupt_journal_files(self) -> bool:
        """Recovery reads what is there and tells."""
        return False

    @property
    def ignore_missing_journal_files(self) -> bool:
        """Files go when nobody needs them."""
        return True

    # -- as the store asks ---------------------------------------------------------------------------------------

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
            fail_if_locked=self.fail_if_locked,
        )
