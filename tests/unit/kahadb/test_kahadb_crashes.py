"""A KahaDB store is killed, and the machine fails: every answered write is there, and no half batch is."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.destination import Queue
from jdbcstore.errors import JdbcStoreError, OutcomeUnknown, StoreError, StoreFull, StoreUnavailable
from jdbcstore.identifiers import ProducerId
from jdbcstore.store.disk import Disk, DiskFile
from jdbcstore.store.journal.adapter import JournalPersistenceAdapter
from jdbcstore.store.journal.kahadb import adapter as adapter_module
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.journal.kahadb.appender import Appender
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.testing.messages import text_message
from tests.unit.kahadb.test_kahadb_recovery import Doings, dump

#: No disk has to be safe here, and nothing comes into the index but what a test asks for.
FAST = KahaDBOptions(
    journal_max_file_length_bytes=16 << 10, journal_disk_sync_strategy="NEVER", checkpoint_interval_ms=0
)


def kahadb(directory: Path) -> KahaDBPersistenceAdapter:
    return KahaDBPersistenceAdapter(directory, FAST)


def written(
    directory: Path,
    seed: int,
    doings: int,
    store: Callable[[Path], JournalPersistenceAdapter] = kahadb,
    start: int = 0,
    *,
    twins: bool = True,
) -> list[tuple[tuple[int, int], dict[str, Any]]]:
    """Do something after a checkpoint, end without another one; what was there after each step, and where it ended.

    Args:
        directory: of the store.
        seed: of what is done.
        doings: how much.
        store: makes one.
        start: where the first batch of a file begins.
        twins: whether ids come twice.
    """
    adapter = store(directory)
    todo = Doings(seed, twins=twins)
    with adapter:
        for _ in range(30):
            todo.do(adapter)
    adapter.start()
    states: list[tuple[tuple[int, int], dict[str, Any]]] = []
    for step in range(doings + 1):
        if step:
            todo.do(adapter)
        state = dump(adapter)
        end, batch = adapter._appender.end, state["position"]
        if step and end != states[-1][0]:  # else a crash may leave half of a step
            assert (batch.file, batch.offset) in (states[-1][0], (end[0], start)), "more than one batch"
        states.append((end, state))
        scheduled = directory / "scheduler"
        if scheduled.is_dir():  # it never has what the other journal has not
            shutil.copytree(scheduled, directory.with_name(f"scheduler-{step}"))
    adapter.abandon()
    adapter.wait_for_abandoned()
    return states


def cut(directory: Path, file: int, offset: int, *, zeros: bool) -> int:
    """What a crash leaves that came after so many bytes; how many are as they were."""
    for path in directory.glob("db-*.log"):
        if int(path.stem[3:]) > file:
            path.unlink()
    with (directory / f"db-{file}.log").open("r+b") as journal:
        journal.seek(offset)
        behind = journal.read()
        journal.truncate(offset)
        if zeros:
            journal.truncate(offset + len(behind))
            offset += len(behind) - len(behind.lstrip(b"\0"))
    return offset


def places(states: list[tuple[tuple[int, int], dict[str, Any]]], chosen: random.Random) -> Iterator[tuple[int, int]]:
    """Every byte of some batches, and some bytes of all."""
    ends = [end for end, _ in states]
    for (file, offset), (next_file, next_offset) in pairwise(ends):
        start = offset if next_file == file else 0
        length = next_offset - start
        if length <= 400 and chosen.random() < 0.1:
            yield from ((next_file, start + o) for o in range(length + 1))
        else:
            yield from ((next_file, start + chosen.randint(0, length)) for _ in range(2))


@pytest.mark.parametrize(
    ("seed", "places_max"),
    [(0, 60), pytest.param(0, 1000, marks=pytest.mark.exhaustive), pytest.param(1, 300, marks=pytest.mark.exhaustive)],
)
def test_wherever_the_journal_ends_all_whole_batches_are_there(tmp_path: Path, seed: int, places_max: int) -> None:
    states = written(tmp_path / "whole", seed, 40)
    chosen = random.Random(seed)
    everywhere = list(places(states, chosen))
    for file, offset in chosen.sample(everywhere, min(places_max, len(everywhere))):
        shutil.copytree(tmp_path / "whole", tmp_path / "cut")
        offset = cut(tmp_path / "cut", file, offset, zeros=chosen.random() < 0.5)
        step, expected = [(step, state) for step, (end, state) in enumerate(states) if end <= (file, offset)][-1]
        shutil.rmtree(tmp_path / "cut" / "scheduler", ignore_errors=True)
        if (scheduled := tmp_path / f"scheduler-{chosen.randint(0, step)}").is_dir():
            shutil.copytree(scheduled, tmp_path / "cut" / "scheduler")
        adapter = KahaDBPersistenceAdapter(tmp_path / "cut", FAST)
        adapter.start()
        assert dump(adapter) == expected
        if chosen.random() < 0.1:  # it goes on, and what it writes is found
            store = adapter.queue_message_store(Queue("A"))
            store.add_message(text_message(1)).result(30)
            went_on = dump(adapter)
            adapter.abandon()
            adapter.start()
            assert dump(adapter) == went_on
        adapter.abandon()
        adapter.wait_for_abandoned()
        shutil.rmtree(tmp_path / "cut")
    assert len(everywhere) > 70


class ForgettingFile(DiskFile):
    """What is written is on the disk when it was forced there, and not before."""

    def __init__(self, path: Path, disk: ForgettingDisk, *, create: bool) -> None:
        super().__init__(path, create=create)
        self._disk = disk
        self._writes: list[tuple[bytes, int]] = []

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        if self._disk.refuses_write is not None:
            raise self._disk.refuses_write
        self._writes.append((bytes(data), offset))

    def sync(self) -> None:
        if self._disk.refuses_sync is not None:
            raise self._disk.refuses_sync
        for data, offset in self._writes:
            super().write(data, offset)
        self._writes.clear()
        super().sync()


class ForgettingDisk(Disk):
    """A disk with a cache that is lost."""

    refuses_sync: OSError | None = None
    refuses_write: OSError | None = None

    def open(self, name: str, *, create: bool = False) -> DiskFile:
        return ForgettingFile(self.directory / name, self, create=create)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ForgettingDisk:
    """What the stores of this test write to."""
    (tmp_path / "store").mkdir()
    disk = ForgettingDisk(tmp_path / "store")
    monkeypatch.setattr(adapter_module, "Appender", partial(Appender, disk=disk))
    return disk


def test_what_was_answered_is_there_although_the_machine_fails(tmp_path: Path, disk: ForgettingDisk) -> None:
    answered: set[str] = set()
    adapter = KahaDBPersistenceAdapter(tmp_path / "store", KahaDBOptions(journal_max_file_length_bytes=64 << 10))

    def produce(number: int) -> None:
        producer = ProducerId(f"ID:test-{number}", 1, 1)
        for n in range(1000):
            message = text_message(n, producer_id=producer)
            try:
                store.add_message(message).result(30)
            except JdbcStoreError:
                return
            answered.add(str(message.message_id))

    for _ in range(3):
        adapter.start()
        store = adapter.queue_message_store(Queue("A"))
        before = len(answered)
        with ThreadPoolExecutor(4) as pool:
            for number in range(4):
                pool.submit(produce, len(answered) + number)
            while len(answered) < before + 150:
                threading.Event().wait(0.001)
            adapter.abandon()  # and what was not forced to the disk is gone
        adapter.start()
        there = {str(message.message_id) for message in adapter.queue_message_store(Queue("A")).recover()}
        assert answered <= there
        adapter.stop()


def test_behind_a_sync_that_failed_nothing_is_written_until_it_is_started_again(
    tmp_path: Path, disk: ForgettingDisk
) -> None:
    adapter = KahaDBPersistenceAdapter(tmp_path / "store")
    adapter.start()
    store = adapter.queue_message_store(Queue("A"))
    store.add_message(text_message(1)).result(30)
    disk.refuses_sync = OSError(5, "Input/output error")
    with pytest.raises(OutcomeUnknown, match="Input/output error"):
        store.add_message(text_message(2)).result(30)
    disk.refuses_sync = None
    calls: list[Callable[[], object]] = [
        lambda: store.add_message(text_message(3)).result(30),
        lambda: list(store.recover()),
        adapter.checkpoint,
    ]
    for call in calls:
        with pytest.raises(StoreUnavailable, match="opened anew"):
            call()
    adapter.abandon()
    adapter.start()
    store = adapter.queue_message_store(Queue("A"))
    store.add_message(text_message(4)).result(30)
    assert [message.message_id.producer_sequence_id for message in store.recover() if message.message_id] == [1, 4]
    adapter.stop()


def test_a_full_disk_fails_what_needs_room_and_nothing_of_it_stays(tmp_path: Path, disk: ForgettingDisk) -> None:
    adapter = KahaDBPersistenceAdapter(tmp_path / "store")
    adapter.start()
    store = adapter.queue_message_store(Queue("A"))
    store.add_message(text_message(1)).result(30)
    disk.refuses_write = OSError(28, "No space left on device")
    with pytest.raises(StoreFull, match="No space"):
        store.add_message(text_message(2)).result(30)
    disk.refuses_write = None
    store.add_message(text_message(3)).result(30)
    before = dump(adapter)
    adapter.abandon()
    adapter.start()
    assert dump(adapter) == before
    store = adapter.queue_message_store(Queue("A"))
    assert [message.message_id.producer_sequence_id for message in store.recover() if message.message_id] == [1, 3]
    adapter.stop()


def test_two_stores_on_one_directory(tmp_path: Path) -> None:
    with KahaDBPersistenceAdapter(tmp_path) as first:
        with pytest.raises((StoreError, JdbcStoreError), match="locked"):
            KahaDBPersistenceAdapter(tmp_path).start()
        first.checkpoint()
