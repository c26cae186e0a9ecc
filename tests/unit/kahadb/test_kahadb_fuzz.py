"""Damaged journals: a state and a list of damage, never another exception, a hang or a heap of memory."""

from __future__ import annotations

import os
import random
import tracemalloc
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.store.journal.kahadb.journal import JournalFile, Record
from jdbcstore.store.journal.replay import Replay
from tests.examples import sampled
from tests.unit.kahadb.journals import CONTROL_BYTES, control, unpack

MUTANTS = int(os.environ.get("KAHADB_FUZZ_MUTANTS", "300"))
PEAK_BYTES_MAX = 32 << 20
NAMES = ["basic", "expired", "priorities", "transactions", "scheduled"]


def replayed(data: bytes, chunk_bytes: int) -> tuple[list[Record], JournalFile]:
    file = JournalFile(BytesIO(data), 1, chunk_bytes=chunk_bytes)
    records = list(file.records())
    progress = Replay({1})
    progress.apply(records)
    state = progress.finish()
    for destination, stored in state.destinations.items():
        assert len(state.dispatchable(destination)) <= len(stored) <= len(records)
        for key in stored.subscriptions:
            assert len(state.pending(destination, key)) <= len(stored)
    return records, file


def consistent(data: bytes, chunk_bytes: int) -> list[Record]:
    """What is read and what is damaged does not overlap, and lies in the file."""
    records, file = replayed(data, chunk_bytes)
    extents = sorted(
        [(location.offset, location.offset + location.size) for location, _ in records]
        + [(damage.offset, damage.end) for damage in file.damages]
    )
    assert all(0 <= start < end <= len(data) for start, end in extents)
    assert all(end <= start for (_, end), (start, _) in pairwise(extents))
    return records


def mutate(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    match chance.randrange(6):
        case 0:
            data[at] ^= 1 << chance.randrange(8)
        case 1:
            data[at : at + 4] = chance.choice((0, 5, 7, 1 << 30, -1, 1)).to_bytes(4, "big", signed=True)
        case 2:
            del data[at : at + chance.randrange(1, 200)]
        case 3:
            data[at:at] = chance.randbytes(chance.randrange(1, 50))
        case 4:
            other = chance.randrange(len(data))
            data[at:at] = data[other : other + chance.randrange(2000)]
        case _:
            del data[at:]


def seal(data: bytearray) -> None:
    """Let checksums be no protection: batches as damaged as they are with a right length and checksum."""
    at = data.find(b"WRITE BATCH")
    while at >= 0:
        behind = data.find(b"\x00\x00\x00\x1c\x02WRITE BATCH", at)
        if behind < 0:
            behind = len(data)
        start = at - 5 + CONTROL_BYTES
        if at >= 5 and start < behind:
            data[at - 5 : start] = control(bytes(data[start:behind]))
        at = data.find(b"WRITE BATCH", behind)


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    found = []
    for name in NAMES:
        folder: Path = tmp_path_factory.mktemp(name)
        unpack(name, folder)
        found += [path.read_bytes().rstrip(b"\0")[:20_000] for path in sorted(folder.rglob("db-*.log"))]
    return found


@pytest.mark.parametrize("is_sealed", [False, True])
@pytest.mark.parametrize("seed", sampled(range(4), 1))
def test_damaged_journals(seed: int, is_sealed: bool, journals: list[bytes]) -> None:
    chance = random.Random(f"{seed} {is_sealed}")
    for _ in range(MUTANTS // 8):
        data = bytearray(chance.choice(journals))
        for _ in range(chance.choice((1, 1, 2, 8))):
            if data:
                mutate(data, chance)
        if is_sealed:
            seal(data)
        small, large = (consistent(bytes(data), chunk_bytes) for chunk_bytes in (300, 1 << 20))
        assert small == large


@given(st.binary(max_size=400), st.lists(st.binary(max_size=60), max_size=5), st.integers(1, 100))
def test_any_bytes(data: bytes, records: list[bytes], chunk_bytes: int) -> None:
    framed = b"".join((5 + len(one)).to_bytes(4, "big") + b"\x01" + one for one in records)
    consistent(control(framed) + framed + data, chunk_bytes)


def test_a_length_takes_no_memory() -> None:
    data = bytearray(control(b"x"))
    data[16:20] = b"\x7f\xff\xff\xff"
    tracemalloc.start()
    try:
        replayed(bytes(data) * 1000, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < PEAK_BYTES_MAX
    finally:
        tracemalloc.stop()
