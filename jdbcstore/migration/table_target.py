"""A SQL store as the target of a migration: for its rows, or for contents of any other store."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Final

from sqlalchemy import text

from jdbcstore.config.urls import store_file
from jdbcstore.destination import Destination, Queue
from jdbcstore.errors import StoreReadOnly
from jdbcstore.migration.contents import Contents
from jdbcstore.migration.lease import HOLDER_PREFIX, MigrationLease, hold, release
from jdbcstore.migration.locations import location_of, require_empty, require_no_master
from jdbcstore.migration.tables import contents_of_tables
from jdbcstore.migration.target import ContentsTarget, Target
from jdbcstore.store.contract import VIRTUAL_TOPIC_CONSUMERS
from jdbcstore.store.disk import make_directory
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.connection import opened
from jdbcstore.store.jdbc.location import StoreLocation
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.schema import inspect_schema

__all__ = ["RowTarget", "check_table_target", "row_target", "table_target", "writing_options"]

_ROWS_AT_ONCE: Final = 5000
_NO_LIMIT: Final = 1 << 62
_FOREVER_S: Final = 10 * 365 * 86_400.0


class RowTarget(Target):
    """The tables of a SQL store. Made by `row_target` only.

    Args:
        lease: which each transaction proves.
    """

    def __init__(self, lease: MigrationLease) -> None:
        super().__init__(str(lease.location))
        self.lease: Final = lease


@contextmanager
def row_target(location: StoreLocation, source: str) -> Iterator[RowTarget]:
    """The tables of a SQL store. Its lease names the migration until it is complete, also after a crash.

    Args:
        location: of the store; its tables are made when they are missing.
        source: what tells this migration from others, without a password.

    Raises:
        LockHeld: a broker or another migration has it.
        ConfigurationError: it is not empty.
        StoreError: it cannot be opened.
    """
    target = RowTarget(hold(source, location))
    yield target
    if target.is_complete:
        release(target.lease)


class _TableTarget(ContentsTarget):
    def __init__(self, adapter: JdbcPersistenceAdapter, rows: RowTarget) -> None:
        super().__init__(adapter, rows.name)
        self._rows = rows

    def contents(self, prioritized: Collection[Destination]) -> AbstractContextManager[Contents]:
        return contents_of_tables(self._rows.lease.location)

    def finish(self) -> None:
        self._rows.finish()


@contextmanager
def table_target(url: str, source: str, empty_queues: Collection[Queue]) -> Iterator[ContentsTarget]:
    """A SQL store for contents of any other.

    Args:
        url: of the store; its tables are made when they are missing.
        source: as `row_target` takes it.
        empty_queues: queues that are to be known although they are empty.

    Raises:
        As `row_target`.
    """
    location = location_of(url)
    if (file := store_file(location.url)) is not None:
        make_directory(file.parent)
    known = [VIRTUAL_TOPIC_CONSUMERS, *(queue for queue in empty_queues if not queue.is_composite)]
    options = replace(
        writing_options(location),
        batch_rows_max=_ROWS_AT_ONCE,
        transaction_messages_max=_NO_LIMIT,
        transaction_bytes_max=_NO_LIMIT,
        producer_memory_s=_FOREVER_S,
        virtual_topic_consumers=",".join(queue.physical_name for queue in known),
    )
    with (
        row_target(location, f"{source} by one process") as rows,
        JdbcPersistenceAdapter(location.url, options, rows.lease.fence) as adapter,
    ):
        yield _TableTarget(adapter, rows)


def writing_options(location: StoreLocation) -> JdbcOptions:
    """Options of a store that only a migration writes to, whose lease it has by itself."""
    return replace(
        location.options,
        locker="none",
        create_tables_on_startup=False,
        cleanup_period_ms=0,
        vacuum_rows=0,
        virtual_topic_consumers="",
    )


def check_table_target(url: str) -> str:
    """Make sure that a migration to a SQL store would begin, or go on; changes nothing. Returns the store's name.

    Raises:
        LockHeld: a broker or another migration has it.
        ConfigurationError: it is not empty, or the URL wants a standby.
        StoreReadOnly: it is a standby.
        StoreError: it cannot be reached.
    """
    location = location_of(url)
    location.options.require_primary("a migration")
    if (file := store_file(location.url)) is None or file.exists():
        with opened(location) as store:
            if not (found := store.dialect.replication(store.connection)).takes_writes:
                raise StoreReadOnly(f"the server takes no writes: {found.told}")
            if not inspect_schema(store.connection, location.options.table_names).missing_tables:
                holder = store.connection.execute(text(store.statements.lease_holder)).scalar()
                if not str(holder or "").startswith(HOLDER_PREFIX):
                    require_no_master(store, "target")
                    require_empty(store)
    return str(location)
