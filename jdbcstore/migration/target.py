"""The store that is migrated to: empty at the beginning, and nobody else's until the migration is complete."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Final

from sqlalchemy import text

from jdbcstore.config.urls import store_file
from jdbcstore.destination import Destination, Queue
from jdbcstore.migration.contents import Contents
from jdbcstore.migration.holding import hold, location_of, opened, release, require_empty, require_no_master
from jdbcstore.migration.marker import Marker
from jdbcstore.migration.stores import StoreContents
from jdbcstore.migration.tables import contents_of_tables
from jdbcstore.store.contract import (
    VIRTUAL_TOPIC_CONSUMERS,
    PersistenceAdapter,
    SupportsScheduling,
    SupportsTransactions,
)
from jdbcstore.store.disk import make_directory
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.location import StoreLocation
from jdbcstore.store.jdbc.schema import inspect_schema

__all__ = ["StoreTarget", "Target", "check_table_target", "table_target"]

_ROWS_AT_ONCE: Final = 5000
_NO_LIMIT: Final = 1 << 62
_FOREVER_S: Final = 10 * 365 * 86_400.0


class Target(ABC):
    """A store that is held for a migration, and started.

    Args:
        adapter: what to write with.
        name: of the store, without a password.
    """

    def __init__(self, adapter: PersistenceAdapter, name: str) -> None:
        self.adapter: Final = adapter
        self.name: Final = name

    @abstractmethod
    def contents(self, prioritized: Collection[Destination]) -> AbstractContextManager[Contents]:
        """What is in it now, read anew. Nothing is written to it from then on."""

    @abstractmethod
    def finish(self, marker: Marker) -> None:
        """Let brokers in."""

    def found(self) -> list[str]:
        """What is in it, in words; nothing if it is empty."""
        adapter = self.adapter
        found = sorted(str(one) for one in adapter.destinations())
        if isinstance(adapter, SupportsTransactions) and adapter.transaction_store().prepared_transactions():
            found.append("prepared transactions")
        if isinstance(adapter, SupportsScheduling) and adapter.job_store().job_count():
            found.append("scheduled messages")
        return found

    def empty(self) -> None:
        """Remove what an earlier run has left."""
        self.adapter.delete_all_messages()


class StoreTarget(Target):
    """A store of any kind. Who gives it sees to it that nobody else gets it."""

    @contextmanager
    def contents(self, prioritized: Collection[Destination]) -> Iterator[Contents]:
        yield StoreContents(self.adapter, self.name, prioritized)

    def finish(self, marker: Marker) -> None:
        marker.end()


class _TableTarget(Target):
    def __init__(self, adapter: JdbcPersistenceAdapter, location: StoreLocation) -> None:
        super().__init__(adapter, str(location))
        self._location = location
        self.is_complete = False

    def contents(self, prioritized: Collection[Destination]) -> AbstractContextManager[Contents]:
        return contents_of_tables(self._location)

    def finish(self, marker: Marker) -> None:
        self.is_complete = True


@contextmanager
def table_target(url: str, source: str, empty_queues: Collection[Queue]) -> Iterator[Target]:
    """A SQL store. Its lease names the migration until it is complete, also after a crash.

    Args:
        url: of the store; its tables are made when they are missing.
        source: what tells this migration from others, without a password.
        empty_queues: queues that are to be known although they are empty.

    Raises:
        LockHeld: a broker or another migration has it.
        ConfigurationError: it is not empty.
        StoreError: it cannot be opened.
    """
    location = location_of(url)
    if (file := store_file(location.url)) is not None:
        make_directory(file.parent)
    held = hold(f"{source} by one process", location)
    known = [VIRTUAL_TOPIC_CONSUMERS, *(queue for queue in empty_queues if not queue.is_composite)]
    options = replace(
        location.options,
        locker="none",
        create_tables_on_startup=False,
        cleanup_period_ms=0,
        vacuum_rows=0,
        batch_rows_max=_ROWS_AT_ONCE,
        transaction_messages_max=_NO_LIMIT,
        transaction_bytes_max=_NO_LIMIT,
        producer_memory_s=_FOREVER_S,
        virtual_topic_consumers=",".join(queue.physical_name for queue in known),
    )
    adapter = JdbcPersistenceAdapter(location.url, options, held.fence)
    with adapter:
        target = _TableTarget(adapter, location)
        yield target
    if target.is_complete:
        release(held)


def check_table_target(url: str) -> str:
    """Make sure that a migration to a SQL store would begin, or go on; changes nothing. Returns the store's name.

    Raises:
        LockHeld: a broker or another migration has it.
        ConfigurationError: it is not empty.
        StoreError: it cannot be reached.
    """
    location = location_of(url)
    if (file := store_file(location.url)) is None or file.exists():
        with opened(location) as store:
            if not inspect_schema(store.connection, location.options.table_names).missing_tables:
                holder = store.connection.execute(text(store.statements.lease_holder)).scalar()
                if not str(holder or "").startswith("jdbcstore-migrate-"):
                    require_no_master(store, "target")
                    require_empty(store)
    return str(location)
