"""A file that is cut and read in parts gives what it gives as a whole, damage included, wherever the cuts are."""

from __future__ import annotations

import random
from io import BytesIO
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.destination import Queue
from jdbcstore.store.journal.commands import AddMessage, Trace
from jdbcstore.store.journal.kahadb.journal import Damage, JournalFile, Record
from tests.unit.kahadb.journals import CONTROL_BYTES, END, batch, control, record


def whole(data: bytes) -> tuple[list[Record], list[Damage]]:
    file = JournalFile(BytesIO(data), 1)
    return list(file.records()), file.damages


def in_parts(data: bytes, distance: int) -> tuple[list[Record], list[Damage], list[int]]:
    starts = JournalFile(BytesIO(data), 1).starts(distance)
    records: list[Record] = []
    damages: list[Damage] = []
    for start, stop in zip(starts, [*starts[1:], None], strict=True):
        file = JournalFile(BytesIO(data), 1, start=start, stop=stop, chunk_bytes=100)
        records += file.records()
        damages += file.damages
    return records, damages, starts


def journal(depth: int = 0) -> st.SearchStrategy[bytes]:
    """Batches, good and bad. A message may be a journal, good and bad."""
    trace = st.integers(0, 40).map(lambda size: Trace("x" * size))
    command = (
        trace if depth == 2 else trace | journal(depth + 1).map(lambda one: AddMessage(None, Queue("A"), "1", one))
    )
    good = st.lists(command, min_size=1, max_size=3).map(lambda commands: batch(*commands))
    wrong = st.tuples(command, st.sampled_from([0, 1, 7])).map(lambda it: batch(it[0], checksum=it[1]))
    headless = command.map(lambda one: b"\xff" * CONTROL_BYTES + record(one))
    flipped = st.tuples(good, st.integers(0, 1 << 30)).map(lambda it: _flipped(*it))
    odd = st.sampled_from([record(b"\x11\x00"), record(b"\x00\x80")]).map(lambda one: control(one) + one)
    hole = st.integers(1, 99).map(bytes)
    parts = st.lists(good | good | wrong | headless | flipped | odd | hole, max_size=8)
    tail = st.sampled_from([b"", END, END + bytes(50), bytes(50), control(b""), b"\x00\x00\x00\x1c\x02WRITE"])
    return st.tuples(parts, tail).map(lambda it: b"".join(it[0]) + it[1])


def _flipped(data: bytes, place: int) -> bytes:
    found = bytearray(data)
    found[place % len(found)] ^= 1 << place % 8
    return bytes(found)


@given(journal(), st.integers(1, 500))
def test_parts_are_the_whole(data: bytes, distance: int) -> None:
    records, damages, starts = in_parts(data, distance)
    assert (records, damages) == whole(data)
    assert all(stop - start >= distance for start, stop in pairwise(starts))


@pytest.mark.parametrize("zeros", range(90, 110))
def test_the_end_mark_of_an_unused_file_may_be_read_in_two_chunks(zeros: int) -> None:
    records, damages, _ = in_parts(bytes(zeros) + END, 1)
    assert (records, damages) == ([], [])


@pytest.mark.parametrize("seed", range(3))
def test_a_large_journal_in_parts(seed: int) -> None:
    """Longer than what is read at once, with a journal in each tenth message and each twentieth batch damaged."""
    chance = random.Random(seed)
    inner = b"".join(batch(Trace("never happened")) for _ in range(200))
    data = bytearray()
    for number in range(2000):
        content = inner if number % 10 == 0 else chance.randbytes(chance.randrange(2000))
        one = batch(AddMessage(None, Queue("A"), f"ID:{number}", content))
        data += _flipped(one, chance.randrange(CONTROL_BYTES + 40)) if number % 20 == 0 else one
    records, damages, starts = in_parts(bytes(data + END), 100_000)
    assert (records, damages) == whole(bytes(data + END))
    assert len(starts) > 15
    assert damages


@pytest.mark.parametrize("distance", [1, 60, 200, 400])
def test_no_cut_is_in_a_message_that_a_wrong_length_leads_into(distance: int) -> None:
    inner = b"".join(batch(Trace("never happened")) for _ in range(10))
    long = bytearray(batch(Trace("damaged")))
    long[16:20] = (len(long) + 20).to_bytes(4, "big")
    data = bytes(long) + batch(AddMessage(None, Queue("A"), "ID:1", bytes(30) + inner)) + batch(Trace("last")) + END
    records, damages, _ = in_parts(data, distance)
    assert (records, damages) == whole(data)
    assert [type(command) for _, command in records] == [AddMessage, Trace]


def test_cuts_are_found_without_reading_messages() -> None:
    """Where a file is far away, planning reads control records and one batch for each cut, not the file."""

    class Counting(BytesIO):
        bytes_read = 0

        def read(self, size: int | None = -1) -> bytes:
            data = super().read(size)
            self.bytes_read += len(data)
            return data

    source = Counting(batch(AddMessage(None, Queue("A"), "ID:1", bytes(1 << 20))) * 64 + END)
    assert len(JournalFile(source, 1).starts(20 << 20)) == 4
    assert source.bytes_read < 20 << 20
