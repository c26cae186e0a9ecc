"""The power fails while a KahaDB directory is written: it is there as a whole, or not at all under its name."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from jdbcstore.destination import Queue
from jdbcstore.migration import migrate
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.kahadb.repair import repair
from jdbcstore.testing.messages import text_message
from tests.power.recording import Recorder
from tests.power.search import FAST
from tests.power.states import State, states
from tests.power.trace import Trace
from tests.unit.kahadb.test_kahadb_power import PRODUCER, Case, Session, foreign, opened, short, watched_index

CASE: Final = Case(short, KahaDBOptions(virtual_topic_consumers=""))
SMALL: Final = KahaDBOptions(journal_max_file_length_bytes=2048, preallocation_scope="NONE")
LOOKS_MAX: Final = 60
THERE: Final = {"A 2", "A 3", "subscription", "T 10", "job 20"}


def _migrate(folder: Path) -> None:
    migrate(f"kahadb:{folder / 'source'}", f"kahadb:{folder / 'store'}?journalMaxFileLength=2048")


def _repair(folder: Path) -> None:
    repair(folder / "source", folder / "store", options=SMALL)


WAYS: Final[dict[str, Callable[[Path], None]]] = {"migrate": _migrate, "repair": _repair}


def _source(folder: Path, *, with_job: bool) -> None:
    adapter = KahaDBPersistenceAdapter(folder / "source", SMALL)
    with adapter:
        session = Session(Recorder(folder), adapter)
        for number in range(1, 4):
            session.add(number, text="x" * 800)
        session.remove(1)
        session.subscribe()
        session.publish(10)
        if with_job:
            session.schedule(20)


@cache
def recorded(way: str) -> Trace:
    """What is done, and when it was said that it is done."""
    folder = Path(tempfile.mkdtemp(dir=FAST))
    _source(folder, with_job=way == "migrate")
    recorder = Recorder(folder, foreign)
    with watched_index(recorder), recorder.recording() as trace:
        WAYS[way](folder)
        recorder.note("done")
    shutil.rmtree(folder)
    return trace


def first_loss(way: str, trace: Trace, sector: int = 512, looks_max: int | None = None) -> str | None:
    """What is wrong with the first state that is."""
    found = list(states(trace, sector=sector))
    if looks_max is not None:
        found = random.Random(sector).sample(found, min(looks_max, len(found)))
    there = THERE if way == "migrate" else THERE - {"job 20"}
    with tempfile.TemporaryDirectory(dir=FAST) as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(os, "fdatasync", lambda _: None)
        for number, state in enumerate(found):
            wrong = _wrong(state, Path(place) / str(number), there)
            if wrong is not None:
                return f"after {state.moment} operations: {wrong}; files {sorted(state.files)}"
    return None


def _wrong(state: State, folder: Path, there: set[str]) -> str | None:
    if "store" not in state.folders:
        return "it is not there, although it was said to be" if "done" in state.notes else None
    folder.mkdir()
    state.write(folder)
    found = opened(folder, CASE)
    shutil.rmtree(folder)
    return None if found == there else f"found {sorted(found)}"


@pytest.mark.parametrize("sector", [512, 4096])
@pytest.mark.parametrize("way", WAYS)
def test_the_directory_is_there_as_a_whole_or_not_at_all(way: str, sector: int) -> None:
    assert first_loss(way, recorded(way), sector, LOOKS_MAX) is None


#: The forces that make it so.
NEEDED: Final = {
    "migrate": ["directories._name move", "journal_writer.JournalWriter.force DiskFile.sync"],
    "repair": [
        "repair.repair move",
        "journal_writer.JournalWriter.force DiskFile.sync",
        "journal_writer.JournalWriter._make_file Disk.sync",
    ],
}


@pytest.mark.parametrize(("way", "site"), [(way, site) for way, sites in NEEDED.items() for site in sites])
def test_without_one_force_a_part_is_missing(way: str, site: str) -> None:
    assert site in recorded(way).sites
    assert first_loss(way, recorded(way).without(site)) is not None


def test_what_an_interrupted_repair_has_left_is_written_anew(tmp_path: Path) -> None:
    _source(tmp_path, with_job=False)
    left = tmp_path / "store.repairing"
    with KahaDBPersistenceAdapter(left, SMALL) as adapter:
        adapter.queue_message_store(Queue("A")).add_message(text_message(99, producer_id=PRODUCER)).result(30)
    for path in left.iterdir():
        if not path.name.endswith(".log"):
            path.unlink()
    _repair(tmp_path)
    assert not left.exists()
    assert opened(tmp_path, CASE) == THERE - {"job 20"}
