"""The stream reader of ``format("activemq")``.

Spark keeps one reader in a process of its own on the driver's host for as long as the stream runs, and asks it how far
the stream can go and what there is between two offsets; tasks read. What an offset is: `jdbcstore.spark.offsets`.
"""

from __future__ import annotations

import logging
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType
from sqlalchemy import Connection, Engine, inspect

from jdbcstore.errors import ConfigurationError, StoreError, TransientStoreError
from jdbcstore.spark.batch_reader import containers_of, inspected
from jdbcstore.spark.consumer import Consumer, check_consumer
from jdbcstore.spark.cycles import modules_aside
from jdbcstore.spark.decoder import Decoder
from jdbcstore.spark.filters import Term
from jdbcstore.spark.intervals import Interval, clipped
from jdbcstore.spark.offsets import LAST_ID, Offset, Progress, batch_of, unread_before
from jdbcstore.spark.options import EARLIEST, LATEST, ReadOptions
from jdbcstore.spark.ranges import id_ranges
from jdbcstore.spark.scan import Scan, driver_for, reading_errors
from jdbcstore.spark.view import TableView
from jdbcstore.store.jdbc.line_watch import engine_for
from jdbcstore.store.jdbc.own_tables import LOADS
from jdbcstore.store.jdbc.snapshot import snapshot

__all__ = ["ActiveMQStreamReader", "StreamSlice"]

log = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")

#: For how long a database that cannot be reached is asked again, and how long to wait in between at most.
RETRY_S: Final = 120.0
_RETRY_PAUSE_S: Final = 2.0
#: The first look at a store of many millions of rows takes its time.
_QUERY_S: Final = 300.0
#: So many rows are worth a task of their own.
_TASK_ROWS: Final = 10_000
#: Ids of gaps that have rows now: so many in one statement, and so many at all before ranges are read instead.
_IDS_AT_ONCE: Final = 1_000
_IDS_MAX: Final = 10_000
#: How often to look whether a gap has closed that everything waits for.
_LOOK_AGAIN_S: Final = 0.2


@dataclass(frozen=True)
class StreamSlice(InputPartition):
    """What one task reads: some scans, one after the other, without the rows in some gaps."""

    scans: tuple[Scan, ...]
    gaps: tuple[Interval, ...]
    floors: tuple[tuple[str, int], ...]


class ActiveMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a store as it grows.

    Args:
        options: of the read.
        schema: the columns that are asked for.

    Raises:
        ConfigurationError: options or schema are wrong.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._decoder()  # refuses a wrong schema early
        _check(options)
        if options.location.options.read_from != "primary":
            raise ConfigurationError("a stream reads from the primary, where its offsets count: leave readFrom out")
        self._engine: Engine | None = None
        self._is_bytewise: bool | None = None
        self._consumer = Consumer(options.location, self._subscription) if options.consume else None
        self._progress = Progress(
            0 if options.consume else options.settle_delay_ms,
            _now_ms,
            subscription=self._subscription if options.consume else None,
        )
        self._first: Offset | None = None
        self._target: int | None = None
        self._is_resumed = False
        #: What was planned here, and needs not be counted again.
        self._planned: Offset | None = None
        self._seen: Offset | None = None
        self._load: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get what they need, connections stay."""
        return {"_options": self._options, "_schema": self._schema}

    @property
    def _subscription(self) -> str:
        options = self._options
        return options.subscribe_pattern or ",".join(sorted(options.subscribe))

    # -- what Spark asks on the driver ---------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        if self._first is None:  # Spark asks again until the first batch is done
            self._first = self._patiently(self._beginning)
        return self._first.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        rows = self._options.offsets_max
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        def top() -> int:
            with self._view() as view:
                return view.top()

        self._target = self._patiently(top)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        offset = Offset.of(start)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = self._patiently(lambda: self._next(offset, rows))
        if self._target is not None:
            # Nobody asks again when there is nothing; what waits for gaps is there already, so it has to come.
            give_up_s = time.monotonic() + 2 * self._options.settle_delay_ms / 1000
            while end == offset and self._progress.is_full and time.monotonic() < give_up_s:
                time.sleep(_LOOK_AGAIN_S)
                end = self._patiently(lambda: self._next(offset, rows))
        if end == offset and self._progress.is_full:
            log.info("no room for more gaps, the stream waits for settleDelay or for prepared transactions")
        self._planned = end
        return start if end == offset else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._seen is None else self._seen.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._patiently(lambda: self._slices(Offset.of(start), Offset.of(end)))

    def commit(self, end: dict[str, Any]) -> None:
        if self._consumer is not None:
            self._consume(Offset.of(end))

    def stop(self) -> None:
        if self._consumer is not None:
            self._consumer.stop()
        if self._engine is not None:
            self._engine.dispose()

    # -- what tasks do -------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, StreamSlice):  # there is nothing, which Spark wants to be read too
            return
        with modules_aside():
            yield from _read_slice(partition, self._decoder())

    # -- looking -------------------------------------------------------------------------------------------------

    def _decoder(self) -> Decoder:
        return Decoder(self._schema, on_corrupt=self._options.on_corrupt, selector=self._options.selector)

    def _beginning(self) -> Offset:
        starting = self._options.starting
        if isinstance(starting, Mapping):
            with self._view() as view:
                top = view.top()
            floors = {name: top + 1 if id == LATEST else id for name, id in starting.items() if id != EARLIEST}
            return Offset(floors=tuple(sorted(floors.items())), is_first=True)
        if starting == LATEST:
            with self._view() as view:
                return self._progress.latest(view)
        return Offset(0 if starting == EARLIEST else max(starting - 1, 0), is_first=True)

    def _next(self, start: Offset, rows: int | None) -> Offset:
        self._consume(start)  # asking what comes behind it, Spark says that it is committed
        if self._consumer is not None:
            self._progress.begin_again(start)  # what was read is gone, so whatever is there is to be read
        elif not self._is_resumed and not start.is_first:
            with self._view(start.floors) as view:
                self._tell(self._progress.resume(start, view))
        self._is_resumed = True
        taken_ms = _now_ms()
        with self._view(start.floors) as view:
            end = self._progress.next(start, view, taken_ms, rows, LAST_ID if self._target is None else self._target)
            self._seen, load = Offset(view.top()), view.first_of_load()
        if load != self._load:
            self._load = load
            if load is not None:
                log.info(
                    "a load is not finished, what comes behind it waits: until it is committed, or its driver is"
                    " gone and another jdbcstore has removed it first_id=%d",
                    load,
                )
        return end

    def _slices(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        self._consume(start)
        begun = unread_before(start, end)
        batch = batch_of(start, end)
        new, old = clipped(batch, begun.id + 1, LAST_ID), clipped(batch, 1, begun.id)
        with self._view(end.floors) as view:
            if end != self._planned and (left := view.count(batch)) < end.rows:
                self._tell(
                    f"{end.rows - left} of {end.rows} messages of a batch that is done again are gone: they were"
                    " acknowledged or have expired since it was planned"
                )
            decoder = self._decoder()
            columns = dict.fromkeys((*decoder.table_columns, "ID", *(("CONTAINER",) if end.floors else ())))
            scan = replace(view.scan, columns=tuple(columns), batch_bytes=self._options.batch_bytes, is_ordered=True)
            scans = [*self._scans_of_gaps(view, scan, old)]
            if new:
                behind = replace(scan, first=new[0][0], last=new[-1][1])
                ranges = id_ranges(view.connection, behind, self._tasks(end.rows))
                scans += [replace(scan, first=each.first, last=each.last) for each in ranges]
        count = max(1, min(len(scans), self._tasks(end.rows)))
        cuts = [len(scans) * place // count for place in range(count + 1)]
        slices = [tuple(scans[low:high]) for low, high in pairwise(cuts)]
        return [StreamSlice(some, end.gaps, end.floors) for some in slices if some]

    @staticmethod
    def _scans_of_gaps(view: TableView, scan: Scan, old: Sequence[Interval]) -> Iterator[Scan]:
        """Of what is closed of gaps only the rows that are there: most of it is empty for good."""
        ids = view.ids(old, _IDS_MAX) if old else []
        if len(ids) == _IDS_MAX:
            for first, last in view.runs(old, LAST_ID):
                yield replace(scan, first=first, last=last)
            return
        for place in range(0, len(ids), _IDS_AT_ONCE):
            some = tuple(ids[place : place + _IDS_AT_ONCE])
            yield replace(scan, terms=(*scan.terms, Term("ID", "in", some)), first=some[0], last=some[-1])

    def _tasks(self, rows: int) -> int:
        options = self._options
        if options.partitions is not None:
            return options.partitions
        return max(options.partitions_min or 1, min(os.cpu_count() or 1, math.ceil(rows / _TASK_ROWS)), 1)

    @contextmanager
    def _view(self, floors: Sequence[tuple[str, int]] = ()) -> Iterator[TableView]:
        """The table as it is when the first question is asked."""
        location = self._options.location
        if self._engine is None:
            driver_for(location.url, location.driver)
            patient = replace(location.options, query_timeout_s=max(location.options.query_timeout_s, _QUERY_S))
            self._engine = engine_for(location.url, replace(patient, pool_size=1))
        with reading_errors(location.url, location.options), self._engine.connect() as connection:
            if self._is_bytewise is None:
                self._is_bytewise = inspected(connection, self._options, {"ID", "CONTAINER", "XID"})
            with snapshot(connection):
                yield TableView(connection, self._scan(connection), floors, _loads_of(connection, self._options))

    def _scan(self, connection: Connection) -> Scan:
        options, location = self._options, self._options.location
        assert self._is_bytewise is not None
        terms: tuple[Term, ...] = ()
        if options.subscribe:
            terms = (Term("CONTAINER", "in", options.subscribe),)
        elif options.subscribe_pattern is not None:
            pattern = re.compile(options.subscribe_pattern)
            table = location.options.table_names.full("ACTIVEMQ_MSGS")
            found = containers_of(connection, table, self._is_bytewise)
            terms = (Term("CONTAINER", "in", tuple(name for name in found if pattern.fullmatch(name))),)
        if options.consume:
            terms += (Term("CONTAINER", "starts with", "queue://"),)
        return Scan(
            location.url,
            ("ID",),
            options=location.options,
            terms=terms,
            is_bytewise=self._is_bytewise,
            driver=location.driver,
        )

    # -- when something is wrong ---------------------------------------------------------------------------------

    def _tell(self, text: str | None) -> None:
        """Messages are lost to this stream, or may be."""
        if text is None:
            return
        if self._options.fail_on_data_loss:
            raise StoreError(f"{text}. The stream stops because of failOnDataLoss=true")
        log.warning("%s", text)

    def _patiently(self, ask: Callable[[], _Answer]) -> _Answer:
        """Ask a database that may be away for a while."""
        return next(_repeated(lambda: iter((ask(),)), "asked"))

    def _consume(self, end: Offset) -> None:
        """Remove what a committed batch has read."""
        if self._consumer is None:
            return
        self._consumer.start()
        if end.since is None or self._consumer.has_removed(end):
            return
        self._consumer.remove(self._view, end)


def _now_ms() -> int:
    """A clock that only goes forward, and stands still while the machine does."""
    return time.monotonic_ns() // 1_000_000


def _check(options: ReadOptions) -> None:
    if options.include_prepared:
        raise ConfigurationError("includePrepared is for batches: a stream reads messages when they are committed")
    if options.ending != LATEST:
        raise ConfigurationError("endingOffsets is for batches: a stream that ends has .trigger(availableNow=True)")
    if options.consume:
        check_consumer(options)


def _loads_of(connection: Connection, options: ReadOptions) -> str | None:
    """The table of loads, if there is one."""
    name = options.location.options.table_names.full(LOADS.name)
    known = {each.lower() for each in inspect(connection).get_table_names()}
    return name if name.rpartition(".")[2].lower() in known else None


def _repeated(ask: Callable[[], Iterator[_Answer]], what: str) -> Iterator[_Answer]:
    """Answers of a database that may be away for a while; `ask` goes on behind what it gave before."""
    since_s: float | None = None
    pause_s = 0.05
    while True:
        try:
            for answer in ask():
                if since_s is not None:
                    log.warning("the database is there again after %.1f s", time.monotonic() - since_s)
                    since_s, pause_s = None, 0.05
                yield answer
        except TransientStoreError as error:
            if since_s is None:
                since_s = time.monotonic()
                log.warning("the database cannot be %s, trying again for %.0f s error=%r", what, RETRY_S, str(error))
            elif time.monotonic() - since_s >= RETRY_S:
                raise
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _RETRY_PAUSE_S)
        else:
            return


def _read_slice(given: StreamSlice, decoder: Decoder) -> Iterator[pa.RecordBatch]:
    """What one task has to read."""
    for scan in given.scans:
        for raw in _patient_batches(scan):
            wanted = _without_gaps(raw, given.gaps)
            for container, id in given.floors:
                is_other = pc.not_equal(wanted.column("CONTAINER"), container)
                wanted = wanted.filter(pc.or_(is_other, pc.greater_equal(wanted.column("ID"), id)))
            if wanted.num_rows:
                yield decoder.decode(wanted)


def _patient_batches(scan: Scan) -> Iterator[pa.RecordBatch]:
    """The batches of a scan in the order of ids, each row once although the database may go away in between."""
    last: int | None = None

    def ask() -> Iterator[pa.RecordBatch]:
        nonlocal last
        rest = scan if last is None else replace(scan, first=last + 1)
        for batch in rest.batches():
            last = batch.column("ID")[-1].as_py() if batch.num_rows else last
            yield batch

    yield from _repeated(ask, "read")


def _without_gaps(raw: pa.RecordBatch, gaps: Sequence[Interval]) -> pa.RecordBatch:
    """The rows that are in no gap: what has appeared in one since is of a later batch."""
    if not raw.num_rows:
        return raw
    ids = raw.column("ID")
    for first, last in clipped(gaps, ids[0].as_py(), ids[-1].as_py()):
        raw = raw.filter(pc.or_(pc.less(raw.column("ID"), first), pc.greater(raw.column("ID"), last)))
    return raw
