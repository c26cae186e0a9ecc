"""Options of the SQL store, named as ActiveMQ's where ActiveMQ has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from jdbcstore.errors import ConfigurationError
from jdbcstore.store.contract import VIRTUAL_TOPIC_CONSUMERS
from jdbcstore.store.jdbc.table_names import TableNames
from jdbcstore.store.lease import LockerOptions

__all__ = ["JdbcOptions"]

_LOCKERS: Final = ("lease", "database", "none")
_READ_FROM: Final = ("primary", "standby")
_REQUIRED: Final = ("none", "any", "quorum")
#: ActiveMQ's elements.
_ACTIVEMQ_LOCKERS: Final = {"lease-database-locker": "lease", "database-locker": "database"}


@dataclass(frozen=True, slots=True)
class JdbcOptions:
    """How a SQL store behaves.

    Args:
        table_prefix: put before the table names, letters, digits and underscores (ActiveMQ: ``tablePrefix``).
        message_table_name, durable_sub_acks_table_name, lock_table_name: what ActiveMQ's tables are called behind the
            prefix (ActiveMQ: ``messageTableName``, ``durableSubAcksTableName``, ``lockTableName``).
        create_tables_on_startup: create the tables when there are none, and our table of terms when only ActiveMQ's are
            there (ActiveMQ: ``createTablesOnStartup``). Tables that are there are never altered at start; ``jdbcstore
            schema upgrade`` does that.
        concurrent_store_and_dispatch_queues: let a message that is acknowledged before its commit began skip the
            database (ActiveMQ: the KahaDB option of this name). The consumer had it, so a crash loses nothing.
        batch_rows_max: the most rows in one commit.
        batch_bytes_max: the most message bytes in one commit; one message always fits.
        message_bytes_max: the largest stored message.
        transaction_messages_max: the most messages that one transaction adds, removes and acknowledges.
        transaction_bytes_max: the most message bytes in one transaction.
        pool_size: connections for reading; the writer has one of its own.
        query_timeout_s: how long a statement may take before it counts as failed (ActiveMQ: ``queryTimeout``).
        retry_s: how long the writer goes on reconnecting and trying again before it fails what is waiting.
        vacuum_rows: PostgreSQL: vacuum the message table after this many removed rows, 0 to leave it to the server.
        cleanup_period_ms: how often all topics are looked at for messages that every durable subscription has
            acknowledged (ActiveMQ: ``cleanupPeriod``); while the broker works they are also removed soon after. 0 turns
            removing off, for those who only look into a store.
        virtual_topic_consumers: queues that are to be known although they are empty, several separated by commas, with
            wildcards; empty for none. (ActiveMQ takes them from its virtual destinations.)
        producer_memory_s: how long the number of a producer's last message is remembered after it was sent, for
            producers that number their messages themselves: what they send again is not stored again.
        outbox_poll_ms: how often a master looks into the outbox of applications, where the database does not tell it of
            new messages (PostgreSQL does).
        locker: how several brokers share the tables: ``lease`` (ActiveMQ: ``lease-database-locker``), ``database`` (an
            exclusive lock on the row of ACTIVEMQ_LOCK, ActiveMQ's default, ``database-locker``) or ``none``: this
            process is the only one that writes, and nobody checks. ActiveMQ's names are taken too.
        require_replication: what the database's replicas have to have of an answered commit before anybody becomes
            master: ``none``: nothing, the log tells; ``any``: one more server has it; ``quorum``: more than half of
            the servers have it. While the database gives less nobody is master (`jdbcstore.errors.NotReplicated`).
        read_from: ``primary``, or ``standby`` for who only looks: the server that is read is one that takes no writes,
            and shows them as soon as it has them. Who writes refuses it.
        password_file: a file whose first line is the password of the database's user, if the URL has none. Without one
            a driver may know others: libpq reads ``PGPASSWORD``, ``PGPASSFILE`` and ``~/.pgpass``.
        lock: options of the locker.
    """

    table_prefix: str = ""
    message_table_name: str = "ACTIVEMQ_MSGS"
    durable_sub_acks_table_name: str = "ACTIVEMQ_ACKS"
    lock_table_name: str = "ACTIVEMQ_LOCK"
    create_tables_on_startup: bool = True
    concurrent_store_and_dispatch_queues: bool = True
    batch_rows_max: int = 1000
    batch_bytes_max: int = 8 << 20
    message_bytes_max: int = 100 << 20
    transaction_messages_max: int = 100_000
    transaction_bytes_max: int = 100 << 20
    pool_size: int = 5
    query_timeout_s: float = 30.0
    retry_s: float = 10.0
    vacuum_rows: int = 20_000
    cleanup_period_ms: int = 300_000
    virtual_topic_consumers: str = VIRTUAL_TOPIC_CONSUMERS.physical_name
    producer_memory_s: float = 24 * 3600.0
    outbox_poll_ms: int = 50
    locker: str = "lease"
    require_replication: str = "none"
    read_from: str = "primary"
    password_file: str = ""
    lock: LockerOptions = field(default_factory=LockerOptions)

    def require_primary(self, who: str) -> None:
        """Raise `ConfigurationError` unless the server that is found is the one that takes writes."""
        if self.read_from != "primary":
            raise ConfigurationError(
                f"read_from = {self.read_from} is for who only reads a store, and {who} writes: leave it out"
            )

    @property
    def producer_memory_ms(self) -> int:
        """`producer_memory_s` as databases count."""
        return round(self.producer_memory_s * 1000)

    @property
    def connect_timeout_s(self) -> int:
        """How long connecting may take: a server that answers at all answers within seconds."""
        return min(10, max(2, round(self.query_timeout_s / 3)))

    @property
    def table_names(self) -> TableNames:
        """All names together."""
        return TableNames(
            self.table_prefix, self.message_table_name, self.durable_sub_acks_table_name, self.lock_table_name
        )

    def __post_init__(self) -> None:
        _ = self.table_names  # refuses what would need quotes
        object.__setattr__(self, "locker", _ACTIVEMQ_LOCKERS.get(self.locker, self.locker))
        if self.locker not in _LOCKERS:
            raise ConfigurationError(f"locker {self.locker!r} is none of {', '.join((*_LOCKERS, *_ACTIVEMQ_LOCKERS))}")
        if self.require_replication not in _REQUIRED:
            raise ConfigurationError(
                f"require_replication {self.require_replication!r} is none of {', '.join(_REQUIRED)}"
            )
        if self.read_from not in _READ_FROM:
            raise ConfigurationError(f"read_from {self.read_from!r} is none of {', '.join(_READ_FROM)}")
        for name, least in (
            ("batch_rows_max", 1),
            ("batch_bytes_max", 1),
            ("message_bytes_max", 1),
            ("transaction_messages_max", 1),
            ("transaction_bytes_max", 1),
            ("pool_size", 1),
            ("query_timeout_s", 0.1),
            ("retry_s", 0),
            ("vacuum_rows", 0),
            ("producer_memory_s", 1),
            ("cleanup_period_ms", 0),
            ("outbox_poll_ms", 1),
        ):
            if getattr(self, name) < least:
                raise ConfigurationError(f"{name} must be at least {least}, got {getattr(self, name)}")
