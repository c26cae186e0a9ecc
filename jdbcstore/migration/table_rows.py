"""From one SQL store to another: rows as they are, with their ids, so that all marks of durable subscriptions hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import Table, inspect, select, text

from jdbcstore.errors import ConfigurationError
from jdbcstore.migration.lease import MigrationLease
from jdbcstore.migration.locations import require_no_master
from jdbcstore.migration.migrated import Migrated, Moved
from jdbcstore.migration.plan import MigrationPlan, Workers
from jdbcstore.migration.row_copier import Copied, IdRange, RowCopier, digests_of_ranges
from jdbcstore.migration.rows import MESSAGE_COLUMNS, Digest, digests, ranges_of, rows_of
from jdbcstore.migration.table_target import RowTarget, row_target
from jdbcstore.store.jdbc.connection import Opened, opened
from jdbcstore.store.jdbc.location import StoreLocation
from jdbcstore.store.jdbc.statements import Statements, text_of
from jdbcstore.store.jdbc.tables import Tables

__all__ = ["TableRows", "table_plan"]


def table_plan(source: StoreLocation, target: StoreLocation, workers: Workers) -> MigrationPlan[RowTarget]:
    """Everything of a SQL store into another.

    Raises:
        ConfigurationError: they are the same.
        LockHeld: a broker is master of the source.
        StoreError: the source cannot be read.
    """
    names = source.options.table_names
    if (source.url, names) == (target.url, target.options.table_names):
        raise ConfigurationError("source and target are the same store: name another target")
    with opened(source) as store:
        require_no_master(store, "source")
    hold = partial(row_target, target, f"{source} {names}")
    return MigrationPlan(str(source), str(target), TableRows(source, workers), hold)


class TableRows(RowCopier):
    """Copies all tables.

    Args:
        source: where from; nobody writes to it.
        workers: who does it.
    """

    rest_title = "copying subscriptions and the rest"

    def __init__(self, source: StoreLocation, workers: Workers) -> None:
        super().__init__(workers)
        self._source: Final = source

    def survey(self, done: Migrated) -> None:
        with opened(self._source) as store:
            container = store.dialect.container_expression(collation_is_binary=False)
            counted = text(Statements(self._source.options.table_names, container).containers_sized)
            for name, messages, size in sorted(store.connection.execute(counted).all()):
                done.count(text_of(name), Moved(int(messages), int(size or 0)))

    def copy_messages(self, lease: MigrationLease, tasks_max: int | None) -> list[Copied]:
        ranges = self._ranges()
        if lease.is_resumed:
            _keep_ranges(lease, ranges)
        return self.workers.map(partial(_copied, self._source, lease), ranges, tasks_max)

    def copy_rest(self, lease: MigrationLease) -> dict[str, int]:
        return _copy_tables(self._source, lease)

    def digests(self) -> list[dict[str, Digest]]:
        return self.workers.map(partial(digests_of_ranges, self._source), self._ranges())

    def _ranges(self) -> list[IdRange]:
        with opened(self._source) as store:
            return ranges_of(store)


def _keep_ranges(lease: MigrationLease, ranges: list[IdRange]) -> None:
    """Remove what an earlier run has copied, and the source has lost since, where no range reaches."""
    outside = f"ID < {ranges[0][0]} OR ID > {ranges[-1][1]}" if ranges else "1 = 1"
    with opened(lease.location) as store, store.transaction(lease.fence):
        store.connection.exec_driver_sql(f"DELETE FROM {store.statements.messages} WHERE {outside}")


def _copied(source: StoreLocation, lease: MigrationLease, ranges: Iterable[IdRange]) -> Iterator[Copied]:
    with opened(source) as origin, opened(lease.location) as store:
        for one in ranges:
            yield _copied_range(origin, store, lease, *one)


def _copied_range(origin: Opened, store: Opened, lease: MigrationLease, first: int, last: int) -> Copied:
    about = f"SELECT COUNT(*), SUM(LENGTH(MSG)) FROM {{}} WHERE ID BETWEEN {first} AND {last}"
    there, here = (
        tuple(one.connection.execute(text(about.format(one.statements.messages))).one()) for one in (origin, store)
    )
    count = int(there[0])
    if there == here and digests(rows_of(origin, first, last)) == digests(rows_of(store, first, last)):
        return Copied(count, skipped=count)
    with store.transaction(lease.fence):
        # Of an earlier attempt, or of an earlier run while the source was another.
        delete = f"DELETE FROM {store.statements.messages} WHERE ID BETWEEN {first} AND {last}"
        store.connection.exec_driver_sql(delete)
        store.insert(store.statements.messages, MESSAGE_COLUMNS, rows_of(origin, first, last))
    return Copied(count, skipped=0)


def _copy_tables(source: StoreLocation, lease: MigrationLease) -> dict[str, int]:
    """Copy durable subscriptions, what they acknowledged, prepared acknowledgements, scheduled messages and producers'
    numbers; all of them together or none. Returns how many rows each table has."""
    with opened(source) as origin, opened(lease.location) as store:
        catalogue = inspect(origin.connection)
        from_tables = Tables.on(origin.connection, source.options.table_names)
        to_tables = Tables.on(store.connection, lease.location.options.table_names)
        counts = {}
        with store.transaction(lease.fence):
            for there, here in zip(_others(from_tables), _others(to_tables), strict=True):
                store.connection.exec_driver_sql(f"DELETE FROM {here.name}")
                if catalogue.has_table(there.name):
                    rows = [_plain(row) for row in origin.connection.execute(select(there))]
                    store.insert(here.name, [column.key for column in here.columns], rows)
                    counts[to_tables.plain(here.name).upper()] = len(rows)
        return counts


def _others(tables: Tables) -> tuple[Table, ...]:
    return tables.acks, *(table for own, table in tables.own.items() if own.is_contents)


def _plain(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(bytes(value) if isinstance(value, memoryview | bytearray) else value for value in row)
