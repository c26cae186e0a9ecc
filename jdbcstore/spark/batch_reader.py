"""The batch reader of ``format("activemq")``: partitions, pushed filters, rows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType
from sqlalchemy import Connection, text

from jdbcstore.errors import ConfigurationError, SchemaMismatch
from jdbcstore.spark.cycles import modules_aside
from jdbcstore.spark.decoder import Decoder
from jdbcstore.spark.filters import Term, pushed
from jdbcstore.spark.one_line import one_line
from jdbcstore.spark.options import EARLIEST, LATEST, Offsets, ReadOptions
from jdbcstore.spark.ranges import id_ranges
from jdbcstore.spark.scan import Scan, dialect_of, driver_for, reading_errors
from jdbcstore.store.jdbc.connection import tell_of_standby
from jdbcstore.store.jdbc.dialect import database_for, dialect_at, url_for_reading
from jdbcstore.store.jdbc.line_watch import engine_for
from jdbcstore.store.jdbc.schema_inspection import inspect_messages

__all__ = ["ActiveMQReader", "Slice", "containers_of", "inspected", "planned", "read_slice"]

_UPGRADE: Final = "jdbcstore schema upgrade"


@dataclass(frozen=True)
class Slice(InputPartition):
    """What one task reads. Holds the password, as Spark's own JDBC source does; shows none.

    Args:
        scan: of the table.
        starting, ending: by CONTAINER the first id that is read, and the first that is not any more.
    """

    scan: Scan
    starting: Mapping[str, int]
    ending: Mapping[str, int]


class ActiveMQReader(DataSourceReader):
    """Reads a store once.

    Args:
        options: of the read.
        schema: the columns that are asked for. Others are neither read nor decoded.

    Raises:
        ConfigurationError: options or schema are wrong.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        _check_offsets(options)
        Decoder(schema, on_corrupt=options.on_corrupt, selector=options.selector)  # refuses a wrong schema early
        self._options = options
        self._schema = schema
        self._terms: tuple[Term, ...] = ()
        # Spark refuses to read, while its setting for pushing filters is off, from a class that defines `pushFilters`.
        self.pushFilters = _Pushing(self)  # type: ignore[method-assign]

    def push(self, filters: list[Filter]) -> list[Filter]:
        """Take the filters that the database can apply; returns those that Spark has to look at again."""
        terms, again = pushed(filters)
        self._terms = tuple(terms)
        return again

    @one_line()
    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        wanted = options.partitions or max(options.partitions_min or 1, os.cpu_count() or 1)
        return planned(options, self._decoder().table_columns, self._terms, wanted)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Slice):  # else there is nothing, which Spark wants to be read too
            with one_line(), modules_aside():
                yield from read_slice(partition, self._decoder())

    def _decoder(self) -> Decoder:
        return Decoder(self._schema, on_corrupt=self._options.on_corrupt, selector=self._options.selector)


class _Pushing:
    """`pushFilters`, such that Spark does not find it overridden, but calls it where filters are pushed.

    Spark asks whether ``reader.pushFilters.__func__`` is that of its own class.
    """

    def __init__(self, reader: ActiveMQReader) -> None:
        self._reader = reader
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        return self._reader.push(filters)


def planned(
    options: ReadOptions, columns: Sequence[str], terms: Sequence[Term] = (), count: int = 1
) -> Sequence[InputPartition]:
    """Look into the store and cut the work into slices.

    Args:
        options: of the read.
        columns: of the table.
        terms: what rows have to meet besides.
        count: how many slices.

    Raises:
        ConfigurationError, StoreError: the store cannot be read; one line that says what to do.
    """
    location = options.location
    driver_for(location.url, location.driver)
    by_container = isinstance(options.starting, Mapping) or isinstance(options.ending, Mapping)
    columns = tuple(dict.fromkeys((*columns, *(("ID", "CONTAINER") if by_container else ()))))
    first, last = _bounds(options, terms)
    all_terms = list(terms)
    if not options.include_prepared:
        all_terms.append(Term("XID", "is null"))
    engine = engine_for(url_for_reading(location.url), location.options)
    try:
        with reading_errors(location.url, location.options), engine.connect() as connection:
            tell_of_standby(connection, dialect_at(location.url, location.options))
            is_bytewise = inspected(connection, options, {*columns, *(term.column for term in all_terms)})
            if options.subscribe:
                all_terms.append(Term("CONTAINER", "in", tuple(dict.fromkeys(options.subscribe))))
            elif options.subscribe_pattern is not None:
                pattern = re.compile(options.subscribe_pattern)
                found = containers_of(
                    connection, options.location.options.table_names.full("ACTIVEMQ_MSGS"), is_bytewise
                )
                all_terms.append(Term("CONTAINER", "in", tuple(name for name in found if pattern.fullmatch(name))))
            if any(term.operator == "in" and not term.value for term in all_terms):
                return []
            scan = Scan(
                location.url,
                columns,
                options=location.options,
                first=first,
                last=last,
                terms=tuple(all_terms),
                batch_bytes=options.batch_bytes,
                is_bytewise=is_bytewise,
                driver=location.driver,
            )
            ranges = id_ranges(connection, scan, count)
    finally:
        engine.dispose()
    starting, ending = _by_container(options.starting), _by_container(options.ending)
    return [Slice(replace(scan, first=each.first, last=each.last), starting, ending) for each in ranges]


def read_slice(given: Slice, decoder: Decoder) -> Iterator[pa.RecordBatch]:
    """Read and decode what one task has to.

    Raises:
        StoreError: the database failed; CodecError: see `Decoder.decode`.
    """
    for raw in given.scan.batches():
        for container, id in given.starting.items():
            raw = raw.filter(
                pc.or_(pc.not_equal(raw.column("CONTAINER"), container), pc.greater_equal(raw.column("ID"), id))
            )
        for container, id in given.ending.items():
            raw = raw.filter(pc.or_(pc.not_equal(raw.column("CONTAINER"), container), pc.less(raw.column("ID"), id)))
        if raw.num_rows:
            yield decoder.decode(raw)


def _check_offsets(options: ReadOptions) -> None:
    starting, ending = options.starting, options.ending
    if LATEST in (starting.values() if isinstance(starting, Mapping) else [starting]):
        raise ConfigurationError("startingOffsets must not be latest for a batch, which ends there: leave it out")
    if EARLIEST in (ending.values() if isinstance(ending, Mapping) else [ending]):
        raise ConfigurationError("endingOffsets must not be earliest for a batch, which begins there: leave it out")


def _by_container(offsets: Offsets) -> dict[str, int]:
    return {name: id for name, id in offsets.items() if id >= 0} if isinstance(offsets, Mapping) else {}


def _bounds(options: ReadOptions, terms: Sequence[Term]) -> tuple[int | None, int | None]:
    """The first and last id of a read, as options and filters say them."""
    firsts, lasts = [], []
    if isinstance(options.starting, int) and options.starting >= 0:
        firsts.append(options.starting)
    if isinstance(options.ending, int) and options.ending >= 0:
        lasts.append(options.ending - 1)
    for term in terms:
        if term.column == "ID" and isinstance(term.value, int):
            if term.operator in ("=", ">", ">="):
                firsts.append(term.value)
            if term.operator in ("=", "<", "<="):
                lasts.append(term.value)
    return max(firsts, default=None), min(lasts, default=None)


def inspected(connection: Connection, options: ReadOptions, columns: set[str]) -> bool:
    """Whether the table is there with these columns; returns whether it tells all texts apart."""
    location = options.location
    table = location.options.table_names.full("ACTIVEMQ_MSGS")
    found = inspect_messages(connection, location.options.table_names)
    if found is None:
        raise SchemaMismatch(f"there is no table {table}; check the database and tablePrefix")
    missing = sorted(column for column in columns if f"ACTIVEMQ_MSGS.{column}" in found.missing_columns)
    if missing:
        raise SchemaMismatch(f"table {table} of an old ActiveMQ has no {', '.join(missing)}: run {_UPGRADE}")
    foreign = sorted(name for name in found.foreign_columns if name.startswith("ACTIVEMQ_MSGS."))
    if foreign:
        raise SchemaMismatch(f"table {table} is none of ActiveMQ: {', '.join(foreign)} missing or of another type")
    return found.collation_is_binary


def containers_of(connection: Connection, table: str, is_bytewise: bool) -> list[str]:
    """The values of CONTAINER: by a probe of its index each, or, if that confuses some, by all of the index."""
    if not is_bytewise:
        database = connection.dialect.name
        bytewise = database_for(database).scanner().bytewise(dialect_of(database)).format("CONTAINER")
        query = f"SELECT DISTINCT {bytewise} FROM {table}"
        found: list[Any] = list(connection.execute(text(query)).scalars())
        return sorted(name.decode() if isinstance(name, bytes) else name for name in found if name is not None)
    names: list[str] = []
    name = connection.execute(text(f"SELECT MIN(CONTAINER) FROM {table}")).scalar()
    query = f"SELECT MIN(CONTAINER) FROM {table} WHERE CONTAINER > :last"
    while name is not None:
        names.append(name)
        name = connection.execute(text(query), {"last": name}).scalar()
    return names
