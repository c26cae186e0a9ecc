"""Messages are read by their places, those that stand together at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jdbcstore.destination import Queue
from jdbcstore.errors import CodecError
from jdbcstore.store.journal import file_reader
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.journal.kahadb.appender import KAHADB
from jdbcstore.store.journal.kahadb.journal import Location
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.record_reader import RecordReader
from jdbcstore.testing.messages import text_message

_COUNT = 60


@pytest.fixture
def places(tmp_path: Path) -> list[tuple[Location, int]]:
    """Where messages stand, in several files."""
    adapter = KahaDBPersistenceAdapter(tmp_path, KahaDBOptions(journal_max_file_length_bytes=8 << 10))
    with adapter:
        store = adapter.queue_message_store(Queue("A"))
        for number in range(1, _COUNT + 1):
            store.add_message(text_message(number, "x" * (number * 97 % 1500))).result(30)
        index = adapter.reading()
        rows = [index.row(sequence) for sequence in range(1, _COUNT + 1)]
    return [(Location(row.file, row.offset, row.size), row.sequence) for row in rows if row is not None]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all reads."""
    sizes: list[int] = []
    pread = os.pread

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        sizes.append(size)
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", counted)
    return sizes


def sequences(found: list[object]) -> list[int | None]:
    return [
        None if isinstance(one, CodecError) else one.message_id.broker_sequence_id  # type: ignore[attr-defined]
        for one in found
    ]


def test_neighbours_are_read_at_once(tmp_path: Path, places: list[tuple[Location, int]], reads: list[int]) -> None:
    found = list(RecordReader(tmp_path, KAHADB).messages(places))
    assert sequences([*found]) == list(range(1, _COUNT + 1))
    assert len(reads) == len({location.file for location, _ in places}) < 12


@pytest.mark.parametrize(("gap", "limit"), [(-1, 1 << 20), (1 << 10, 2000), (1 << 10, 1)])
def test_however_they_are_read_the_messages_are_the_same(
    tmp_path: Path,
    places: list[tuple[Location, int]],
    reads: list[int],
    gap: int,
    limit: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(file_reader, "_GAP_BYTES", gap)
    monkeypatch.setattr(file_reader, "_RUN_BYTES", limit)
    reader = RecordReader(tmp_path, KAHADB)
    alone = [reader.message(*place) for place in places]
    del reads[:]
    mixed = [*places[::2], *places[1::2], places[0]]
    together = list(reader.messages(mixed))
    by_sequence = {one.message_id.broker_sequence_id: one for one in alone if one.message_id is not None}
    assert [one.content for one in together if not isinstance(one, CodecError)] == [
        by_sequence[sequence].content for _, sequence in mixed
    ]
    assert max(reads) <= max(limit, *(location.size for location, _ in places))


def test_what_cannot_be_read_is_left_out_alone(tmp_path: Path, places: list[tuple[Location, int]]) -> None:
    broken, _ = places[5]
    with (tmp_path / f"db-{broken.file}.log").open("r+b") as file:
        file.seek(broken.offset + 5)
        file.write(b"\xff" * (broken.size - 5))
    gone = places[-1][0].file
    (tmp_path / f"db-{gone}.log").unlink()
    found = sequences([*RecordReader(tmp_path, KAHADB).messages(places)])
    assert found == [None if location == broken or location.file == gone else sequence for location, sequence in places]
