"""Streams lose nothing and read nothing twice, in whatever order messages become visible: offsets without a database.

The world is a table in memory and writers that take numbers in order and commit out of order; Spark is a loop that
keeps offsets, repeats batches and dies. Both do what the real ones do, on a clock that is turned by hand.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.spark.intervals import Interval, clipped, joined, without
from jdbcstore.spark.offsets import GAPS_MAX, IDLE_IDS, LAST_ID, Offset, Progress, batch_of

SETTLE_MS = 1000


@dataclass(frozen=True)
class Row:
    message: int
    wanted: bool
    prepared: bool


class Table:
    """The rows that are there, by id, each with its message. It is its own `View`."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.committed: list[int] = []
        self._messages = count()

    def commit(self, *ids: int, wanted: bool = True, prepared: bool = False) -> None:
        for id in ids:
            row = self.rows[id] = Row(next(self._messages), wanted, prepared)
            if wanted and not prepared:
                self.committed.append(row.message)

    def decide(self, id: int, *, commits: bool) -> None:
        """The end of a prepared transaction."""
        row = self.rows.pop(id)
        if commits:
            self.rows[id] = replace(row, prepared=False)
            if row.wanted:
                self.committed.append(row.message)

    def within(self, intervals: Sequence[Interval]) -> list[int]:
        firsts = [first for first, _ in intervals]
        found = []
        for id in sorted(self.rows):
            place = bisect_right(firsts, id) - 1
            if place >= 0 and id <= intervals[place][1]:
                found.append(id)
        return found

    def read(self, intervals: Sequence[Interval]) -> list[int]:
        """The messages of these ids."""
        return [self.rows[id].message for id in self.within(intervals) if self.rows[id].wanted]

    def top(self) -> int:
        return max(self.rows, default=0)

    def trace(self, id: int) -> str | None:
        return f"message {self.rows[id].message}" if id in self.rows else None

    def runs(self, intervals: Sequence[Interval], most: int) -> list[Interval]:
        return joined((id, id) for id in self.within(intervals))[:most]

    def runs_back(self, last: int, most: int) -> list[Interval]:
        return joined((id, id) for id in self.rows if id <= last)[-most:]

    def doubtful(self, intervals: Sequence[Interval], most: int) -> list[int]:
        return [id for id in self.within(intervals) if self.rows[id].prepared][:most]

    def last_of(self, intervals: Sequence[Interval], rows: int) -> int | None:
        found = self._wanted(intervals)
        return found[rows - 1] if len(found) >= rows else None

    def count(self, intervals: Sequence[Interval]) -> int:
        return len(self._wanted(intervals))

    def _wanted(self, intervals: Sequence[Interval]) -> list[int]:
        return [id for id in self.within(intervals) if self.rows[id].wanted and not self.rows[id].prepared]


class Clock:
    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> int:
        return self.ms


class Stream:
    """What Spark does with a source: it writes down where a batch ends, reads it, and goes on from there."""

    def __init__(self, table: Table, clock: Clock, rows_max: int | None = None, first: Offset | None = None) -> None:
        self.table, self.clock, self.rows_max = table, clock, rows_max
        self.got: list[int] = []
        self.log = [json.dumps((first or Offset(is_first=True)).to_json())]
        self.start_process()

    @property
    def gaps(self) -> list[Interval]:
        return list(self.start.gaps)

    def start_process(self) -> None:
        self.progress = Progress(SETTLE_MS, self.clock)
        self.is_new = True

    @property
    def start(self) -> Offset:
        return Offset.of(json.loads(self.log[-1]))

    def poll(self, *, dies: bool = False) -> list[int]:
        """One trigger. With `dies` the process ends when the batch was read and before that counts; the next one reads
        it again."""
        start = self.start
        if self.is_new:
            self.progress.resume(start, self.table)
            self.is_new = False
        end = self.progress.next(start, self.table, self.clock.ms, self.rows_max)
        if end == start:
            return []
        text = json.dumps(end.to_json())
        assert len(end.gaps) <= GAPS_MAX
        read = self.table.read(batch_of(start, end))
        assert len(read) == end.rows
        assert self.rows_max is None or end.rows <= self.rows_max
        if dies:
            self.start_process()
            assert self.table.read(batch_of(self.start, Offset.of(json.loads(text)))) == read
        self.got += read
        self.log.append(text)
        return read


# -- random worlds -----------------------------------------------------------------------------------------------------


class World:
    """Writers that take numbers and commit, roll back or prepare them some time below the settle delay later."""

    def __init__(self, seed: int, rows_max: int | None) -> None:
        self.chance = random.Random(seed)
        self.table, self.clock = Table(), Clock()
        self.stream = Stream(self.table, self.clock, rows_max)
        self.pending: list[tuple[int, int]] = []  # when it is decided, the number
        self.prepared: list[tuple[int, int]] = []
        self.next_id = 1
        #: Whether the process that reads must not end now, since it alone knows that numbers have begun again.
        self.is_alone = False

    def run(self) -> None:
        chance = self.chance
        for _ in range(chance.randrange(10, 80)):
            self.clock.ms += chance.choice((0, 1, 20, 100, 300))
            self.take_numbers()
            self.decide()
            if chance.random() < 0.2:
                self.consume(chance.choice((0.2, 0.9, 1.0)))
            if chance.random() < 0.05:
                self.restart_broker()
            if chance.random() < 0.1 and not self.is_alone:
                self.stream.start_process()
            if chance.random() < 0.7:
                self.poll(dies=chance.random() < 0.2)
        self.clock.ms += 10 * SETTLE_MS
        self.decide()
        while len(self.stream.got) < len(self.table.committed):
            self.clock.ms += SETTLE_MS
            before = len(self.stream.got)
            self.poll()
            self.clock.ms += SETTLE_MS
            assert self.poll() or len(self.stream.got) > before, "messages are left that are never read"
        assert sorted(self.stream.got) == sorted(self.table.committed)

    def take_numbers(self) -> None:
        for _ in range(self.chance.choice((0, 0, 1, 1, 2, 8))):
            self.pending.append((self.clock.ms + self.chance.randrange(SETTLE_MS), self.next_id))
            self.next_id += 1

    def decide(self) -> None:
        for due_ms, id in [one for one in self.pending if one[0] <= self.clock.ms]:
            self.pending.remove((due_ms, id))
            fate = self.chance.random()
            if fate < 0.9:
                self.table.commit(id, wanted=self.chance.random() < 0.8, prepared=fate < 0.06)
                if fate < 0.06:
                    self.prepared.append((self.clock.ms + self.chance.randrange(5 * SETTLE_MS), id))
        for due_ms, id in [one for one in self.prepared if one[0] <= self.clock.ms]:
            self.prepared.remove((due_ms, id))
            self.table.decide(id, commits=self.chance.random() < 0.5)

    def consume(self, share: float) -> None:
        """Remove messages that were read."""
        got = set(self.stream.got)
        for id, row in list(self.table.rows.items()):
            if (row.message in got or not row.wanted) and not row.prepared and self.chance.random() < share:
                del self.table.rows[id]

    def restart_broker(self) -> None:
        """A broker goes on behind the highest number that is in the table. Meanwhile the stream looks once."""
        self.pending.clear()
        self.poll()
        self.consume(1.0)
        if not self.poll():
            self.is_alone = True
        self.next_id = self.table.top() + 1

    def poll(self, *, dies: bool = False) -> list[int]:
        read = self.stream.poll(dies=dies)
        self.is_alone &= not read
        got = self.stream.got
        assert len(got) == len(set(got)), "something was read twice"
        assert set(read) <= set(self.table.committed)
        return read


@pytest.mark.parametrize("rows_max", [None, 1, 7])
@settings(max_examples=100)
@given(seed=st.integers(0, 1 << 32))
def test_every_committed_message_once(rows_max: int | None, seed: int) -> None:
    World(seed, rows_max).run()


# -- one thing at a time -----------------------------------------------------------------------------------------------


def stream_of(*ids: int, rows_max: int | None = None, first: Offset | None = None) -> tuple[Table, Clock, Stream]:
    table, clock = Table(), Clock()
    table.commit(*ids)
    return table, clock, Stream(table, clock, rows_max, first)


def test_only_gaps_wait() -> None:
    table, clock, stream = stream_of(1, 2, 5, 6, 9)
    assert len(stream.poll()) == 5
    assert (stream.start.id, stream.gaps) == (9, [(3, 4), (7, 8)])
    table.commit(4, 10)
    assert len(stream.poll()) == 2
    assert stream.gaps == [(3, 3), (7, 8)]
    clock.ms = SETTLE_MS - 1
    table.commit(11, 13)
    stream.poll()
    assert stream.gaps == [(3, 3), (7, 8), (12, 12)]
    clock.ms = SETTLE_MS
    table.commit(14)
    stream.poll()
    assert stream.gaps == [(12, 12)]  # the others lie below an id that was seen so long ago


def test_a_process_that_was_stopped_while_it_looked_closes_no_gap() -> None:
    table, clock, stream = stream_of(1, 3)
    stream.poll()
    look = table.top

    def stopped() -> int:
        found = look()
        clock.ms += 5 * SETTLE_MS
        return found

    table.top = stopped  # type: ignore[method-assign]  # the view is taken, then time passes
    table.commit(4)
    stream.poll()
    assert stream.gaps == [(2, 2)]


@pytest.mark.parametrize("rows_max", [None, 50])
def test_more_gaps_than_an_offset_takes(rows_max: int | None) -> None:
    table, clock, stream = stream_of(*range(2, 4 * GAPS_MAX, 2), rows_max=rows_max)
    while stream.poll():
        assert len(stream.start.gaps) <= GAPS_MAX
    assert stream.progress.is_full
    assert stream.start.id == 2 * GAPS_MAX  # the next id would need one gap more
    table.commit(3, 2 * GAPS_MAX + 1)
    assert len(stream.poll()) > 1  # there is room now
    clock.ms += SETTLE_MS
    while stream.poll():
        pass
    assert sorted(stream.got) == sorted(table.committed)


@pytest.mark.parametrize("step", [1, 2])
def test_more_prepared_messages_than_an_offset_takes(step: int) -> None:
    table, clock, stream = stream_of()
    table.commit(*range(1, 3 * GAPS_MAX), prepared=True)
    for id in range(2, 3 * GAPS_MAX, 2) if step == 2 else ():
        table.decide(id, commits=True)
    while stream.poll():
        clock.ms += SETTLE_MS
    assert len(stream.got) == (GAPS_MAX if step == 2 else 0)
    assert stream.progress.is_full
    for id in range(1, 3 * GAPS_MAX, step):
        table.decide(id, commits=True)
    while stream.poll():
        pass
    assert sorted(stream.got) == sorted(table.committed)


def test_without_a_settle_delay_there_are_no_gaps() -> None:
    table, clock = Table(), Clock()
    table.commit(*range(2, 4 * GAPS_MAX, 2))
    end = Progress(0, clock).next(Offset(), table, 0)
    assert (end.id, end.gaps) == (4 * GAPS_MAX - 2, ())


def test_ids_in_stripes() -> None:
    stripe = 1 << 32
    table, clock, stream = stream_of(*(part * stripe + id for part in (1, 2, 9) for id in range(5)), 3)
    stream.poll()
    assert stream.start.gaps[0] == (1, 2)
    assert stream.start.id == 9 * stripe + 4
    table.commit(stripe + 5)
    clock.ms += SETTLE_MS
    stream.poll()
    assert (stream.start.gaps, len(stream.got)) == ((), 17)


def test_a_stream_that_begins_at_the_end_begins_there_also_when_its_first_batch_is_done_again() -> None:
    table, clock, _ = stream_of(1, 2, 4)
    table.commit(5, prepared=True)
    first = Progress(SETTLE_MS, clock).latest(table)
    assert (first.id, first.gaps) == (4, ((3, 3),))
    table.commit(6)
    table.decide(5, commits=True)
    table.commit(3)
    end = Progress(SETTLE_MS, clock).next(first, table, clock.ms)
    assert table.read(batch_of(first, end)) == [table.rows[id].message for id in (3, 5, 6)]
    table.commit(7)
    again = Progress(SETTLE_MS, clock).latest(table)  # Spark asks for the beginning anew until a batch is done
    assert table.read(batch_of(again, end)) == [table.rows[id].message for id in (3, 5, 6)]


def test_beginning_at_the_end_of_a_table_full_of_holes() -> None:
    table, clock, _ = stream_of(*range(1, 4 * GAPS_MAX, 2))
    first = Progress(SETTLE_MS, clock).latest(table)
    assert len(first.gaps) == GAPS_MAX - 1
    assert first.gaps[-1] == (4 * GAPS_MAX - 2, 4 * GAPS_MAX - 2)


def test_what_is_not_wanted_makes_an_empty_batch_now_and_then() -> None:
    table, _, stream = stream_of()
    table.commit(1, IDLE_IDS - 1, wanted=False)
    stream.poll()
    assert stream.start.id == 0
    table.commit(IDLE_IDS, wanted=False)
    stream.poll()
    assert stream.start.id == IDLE_IDS


def test_a_stream_that_was_stopped_while_numbers_began_again() -> None:
    table, _, stream = stream_of(1, 2, 3)
    stream.poll()
    start = stream.start
    progress = Progress(SETTLE_MS, stream.clock)
    assert progress.resume(start, table) is None
    table.rows.clear()
    table.commit(1, 2)
    assert "highest id is 2" in (progress.resume(start, table) or "")
    table.commit(3, 4)
    assert "begun to number messages again" in (progress.resume(start, table) or "")
    end = progress.next(start, table, 0)
    assert len(table.read(batch_of(start, end))) == 4


def test_an_offset_of_another_version_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="version 2, this release reads 1"):
        Offset.of({"version": 2, "id": 1, "gaps": []})
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Offset.of({"version": 1, "id": 1, "gaps": [1]})
    with pytest.raises(StoreError, match="use a new checkpoint"):
        batch_of(Offset(4), Offset(5, numbering=2))


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 5))),
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 5))),
)
def test_intervals_are_sets(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    def ids(intervals: Sequence[Interval]) -> set[int]:
        return {id for first, last in intervals for id in range(first, last + 1)}

    this, that = (joined((first, first + more) for first, more in some) for some in (one, other))
    assert all(before[1] + 1 < behind[0] for before, behind in pairwise(this))
    assert ids(without(this, that)) == ids(this) - ids(that)
    assert ids(clipped(this, 7, 20)) == ids(this) & set(range(7, 21))
    assert without([(1, LAST_ID)], without([(1, LAST_ID)], this)) == this
