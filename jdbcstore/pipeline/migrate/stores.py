"""From one SQL store to another: rows as they are, with their ids, so that all marks of durable subscriptions hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from sqlalchemy import Table, inspect, select, text

from jdbcstore.migration.holding import Held, Opened, opened
from jdbcstore.migration.rows import MESSAGE_COLUMNS, digests, rows_of
from jdbcstore.spark.one_line import one_line
from jdbcstore.store.jdbc.location import StoreLocation
from jdbcstore.store.jdbc.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["COMPARED", "compared", "copied", "copy_tables"]

#: What the comparison tells of each range and destination: in both stores alike, or not.
COMPARED: Final = "destination string, messages long, bytes long, content decimal(20,0), same boolean"
_COPIED: Final = "messages long, skipped long"


def copied(
    spark: SparkSession, source: StoreLocation, held: Held, ranges: Sequence[tuple[int, int]], tasks: int | None
) -> DataFrame:
    """Copies the ranges, each in a transaction of its own; what is there already is left.

    Args:
        spark: the session.
        source: where from.
        held: where to.
        ranges: of ids.
        tasks: how many; None for one for each range.

    Returns:
        A DataFrame that does it when it is collected: of each range how many messages, and how many of them skipped.
    """

    def work(range_: tuple[int, int], origin: Opened, store: Opened) -> tuple[int, int]:
        first, last = range_
        about = f"SELECT COUNT(*), SUM(LENGTH(MSG)) FROM {{}} WHERE ID BETWEEN {first} AND {last}"
        there, here = (
            tuple(one.connection.execute(text(about.format(one.statements.messages))).one()) for one in (origin, store)
        )
        if there == here and digests(rows_of(origin, first, last)) == digests(rows_of(store, first, last)):
            return int(there[0]), int(there[0])
        with store.transaction(held.fence):
            # Of an earlier attempt, or of an earlier run while the source was another.
            delete = f"DELETE FROM {store.statements.messages} WHERE ID BETWEEN {first} AND {last}"
            store.connection.exec_driver_sql(delete)
            rows = rows_of(origin, first, last)
            store.insert(store.statements.messages, MESSAGE_COLUMNS, rows)
        return int(there[0]), 0

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with one_line(), opened(source) as origin, opened(held.location) as store:
            for batch in batches:
                done = [work(ranges[place], origin, store) for place in batch.column(0).to_pylist()]
                columns = list(zip(*done, strict=True))
                yield pa.RecordBatch.from_arrays(
                    [pa.array(one, pa.int64()) for one in columns], ["messages", "skipped"]
                )

    return _over(spark, ranges, tasks, run, _COPIED)


def compared(spark: SparkSession, source: StoreLocation, held: Held, ranges: Sequence[tuple[int, int]]) -> DataFrame:
    """Compares the ranges in both stores; arguments and answer as `copied`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with one_line(), opened(source) as origin, opened(held.location) as store:
            for batch in batches:
                found: list[dict[str, Any]] = []
                for place in batch.column(0).to_pylist():
                    there, here = (digests(rows_of(one, *ranges[place])) for one in (origin, store))
                    for name in sorted({*there, *here}):
                        digest = there.get(name) or here[name]
                        found.append(
                            {
                                "destination": name,
                                "messages": digest.messages,
                                "bytes": digest.bytes,
                                "content": digest.content,
                                "same": there.get(name) == here.get(name),
                            }
                        )
                yield pa.RecordBatch.from_pylist(found, _compared_schema())

    rows = _over(spark, ranges, None, run, COMPARED)
    return (
        rows.groupBy("destination")
        .agg(
            F.sum("messages").alias("messages"),
            F.sum("bytes").alias("bytes"),
            F.sum("content").alias("content"),
            F.min("same").alias("same"),
        )
        .orderBy("destination")
    )


def _compared_schema() -> pa.Schema:
    kinds = (pa.string(), pa.int64(), pa.int64(), pa.decimal128(20, 0), pa.bool_())
    return pa.schema(list(zip(("destination", "messages", "bytes", "content", "same"), kinds, strict=True)))


def _over(
    spark: SparkSession,
    ranges: Sequence[tuple[int, int]],
    tasks: int | None,
    run: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: str,
) -> DataFrame:
    count = len(ranges)
    return spark.range(0, count, 1, max(1, min(count, tasks or count))).mapInArrow(run, schema)


# -- everything else ---------------------------------------------------------------------------------------------------


def copy_tables(source: StoreLocation, held: Held) -> dict[str, int]:
    """Copy durable subscriptions, what they acknowledged, prepared acknowledgements, scheduled messages and producers'
    numbers; all of them together or none.

    Returns:
        How many rows each table has.
    """
    with opened(source) as origin, opened(held.location) as store:
        catalogue = inspect(origin.connection)
        from_tables = Tables.on(origin.connection, source.options.table_names)
        to_tables = Tables.on(store.connection, held.location.options.table_names)
        pairs = list(zip(_others(from_tables), _others(to_tables), strict=True))
        counts = {}
        with store.transaction(held.fence):
            for there, here in pairs:
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
