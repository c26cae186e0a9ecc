"""The power fails while a LevelDB store is at work: whatever is left of it, what was answered is there.

As `tests.unit.kahadb.test_kahadb_power`; that this can fail is shown for each force of the store.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from jdbcstore.destination import Queue
from jdbcstore.store.journal.leveldb.adapter import LevelDBPersistenceAdapter
from jdbcstore.store.journal.leveldb.options import LevelDBOptions
from jdbcstore.testing.messages import text_message
from tests.examples import sampled
from tests.power import search
from tests.power.recording import Killed, Recorder
from tests.power.search import FAST
from tests.power.states import State
from tests.power.trace import Trace
from tests.unit.kahadb.test_kahadb_power import TOPIC, Expected, Session

SMALL: Final = LevelDBOptions(
    journal_max_file_length_bytes=1024, cleanup_interval_ms=0, snapshot_interval_ms=600_000, virtual_topic_consumers=""
)
#: States of one case that are looked at.
LOOKS_MAX: Final = 40


class LevelDBSession(Session):
    """One store at work, and what it has answered."""

    adapter: Any

    def snapshot(self) -> None:
        self.adapter.committer.run(self.adapter.committer._snapshot_now)


def facts(adapter: LevelDBPersistenceAdapter) -> set[str]:
    """What is in a store, once each."""
    found: list[str] = []
    for name in ("A", "B"):
        store = adapter.queue_message_store(Queue(name))
        found += [f"{name} {one.message_id.producer_sequence_id}" for one in store.recover() if one.message_id]
    topic = adapter.topic_message_store(TOPIC)
    if topic.all_subscriptions():
        found.append("subscription")
        found += [f"T {one.message_id.producer_sequence_id}" for one in topic.recover() if one.message_id]
    assert len(found) == len(set(found)), f"there more than once: {found}"
    return set(found)


def opened(folder: Path, options: LevelDBOptions) -> set[str]:
    """What a store is found to hold, and that it goes on."""
    adapter = LevelDBPersistenceAdapter(folder / "store", options)
    adapter.start()
    try:
        found = facts(adapter)
        store = adapter.queue_message_store(Queue("C"))
        store.add_message(text_message(1)).result(30)
        return found
    finally:
        adapter.abandon()
        assert adapter.committer.has_ended(30)


def short(session: LevelDBSession) -> None:
    """From no directory on."""
    session.add(1)
    session.add(2)
    session.remove(1)
    session.snapshot()
    session.add(3)


def files_that_go(session: LevelDBSession) -> None:
    """Acknowledgements stand in other files than messages; the files go, and only a snapshot tells of them."""
    for number in range(1, 9):
        session.add(number, text="x" * 200)
        if number > 2:
            session.remove(number - 2)
    session.adapter.remove_unneeded_files()
    session.subscribe()
    for number in range(20, 24):
        session.publish(number)
    session.acknowledge(22)
    session.acknowledge(20)
    session.restart()
    session.add(30, text="x" * 700)
    session.remove(7, 8)
    session.adapter.remove_unneeded_files()
    session.add(32)


def failed_force(session: LevelDBSession) -> None:
    """The disk refuses to force a unit of work; who sent it asks again."""
    session.add(1)
    with session.refusing(OSError(errno.EIO, "Input/output error"), "journal_writer.JournalWriter.force DiskFile.sync"):
        session.add_unanswered(2)
        session.restart(is_clean=False)
    session.resend(2)
    session.add(3)


def killed(session: LevelDBSession) -> None:
    """The process ends between a write and its force; who sent it asks again."""
    session.add(1)
    with session.refusing(Killed(errno.EIO, "killed"), "journal_writer.JournalWriter.force DiskFile.sync"):
        session.add_unanswered(2)
        session.restart(is_clean=False)
    session.resend(2)


@dataclass(frozen=True)
class Case:
    """A store at work, once."""

    work: Callable[[LevelDBSession], None]
    options: LevelDBOptions = SMALL
    all_subsets: int = 6


CASES: Final = {
    "short": Case(short, all_subsets=8),
    "files that go": Case(files_that_go),
    "files that are archived": Case(files_that_go, replace(SMALL, archive_data_logs=True)),
    "failed force": Case(failed_force),
    "killed": Case(killed),
}


@cache
def recorded(name: str) -> Trace:
    """The trace of a case."""
    case = CASES[name]
    folder = Path(tempfile.mkdtemp(dir=FAST))
    recorder = Recorder(folder)
    adapter: Any = LevelDBPersistenceAdapter(folder / "store", case.options)
    with recorder.recording() as trace:
        adapter.start()
        try:
            case.work(LevelDBSession(recorder, adapter))
        finally:
            adapter.stop()
    shutil.rmtree(folder)
    return trace


def first_loss(trace: Trace, case: Case, sector: int = 512, looks_max: int | None = None) -> tuple[int, str | None]:
    """As `tests.power.search.first_loss`."""

    def wrong(state: State, folder: Path) -> str | None:
        return Expected(state.notes).wrong(opened(folder, case.options))

    return search.first_loss(trace, wrong, sector, case.all_subsets, looks_max)


@pytest.mark.parametrize("sector", sampled([512, 4096], 1))
@pytest.mark.parametrize("name", CASES)
def test_whatever_a_power_failure_leaves_what_was_answered_is_there(name: str, sector: int) -> None:
    looked, wrong = first_loss(recorded(name), CASES[name], sector, LOOKS_MAX)
    assert wrong is None, f"state {looked}, {wrong}"
    assert looked > 15


#: Forces of the store, and a case in which something is lost without each.
NEEDED: Final = {
    "journal_writer.JournalWriter._force_anew DiskFile.sync": "killed",
    "journal_writer.JournalWriter._make_file Disk.sync": "short",
    "journal_writer.JournalWriter.force DiskFile.sync": "short",
    "shared_file_lock.SharedFileLocker._take make_directory": "short",
    "snapshot._write DiskFile.sync": "files that go",
    "snapshot.write_snapshot force_directory": "files that go",
    "snapshot.write_snapshot move": "files that go",
}
#: Those without which nothing is lost when the power fails, and why they are there.
NOT_NEEDED: Final = {
    "file_replacement.replaced_file DiskFile.sync": "an empty version file is none",
    "file_replacement.replaced_file move": "a directory without one is taken, too",
    "journal_directory.JournalDirectory._removed make_directory": "outside of it; here `move` forces its name, too",
    "journal_directory.JournalDirectory.remove force_directory": "a file that is still there goes the next time",
    "journal_directory._move move": "likewise",
    "journal_writer.JournalWriter._make_file DiskFile.sync": "the first batch does not wait for length or zeros",
    "journal_writer.JournalWriter.open Disk.sync": "the KahaDB store shows it, the engine is the same",
    "shared_file_lock.SharedFileLocker._write rewrite": "who looks at the lock over a network sees who has it",
    "snapshot.write_snapshot make_directory": "`move` forces the directory that it stands in",
}


@pytest.mark.parametrize("site", sampled([*NEEDED], 2))
def test_without_one_force_something_is_lost(site: str) -> None:
    name = NEEDED[site]
    trace = recorded(name)
    assert site in trace.sites
    _, wrong = first_loss(trace.without(site), CASES[name])
    assert wrong is not None


def test_every_force_is_in_the_lists() -> None:
    assert set().union(*(recorded(name).sites for name in CASES)) == NEEDED.keys() | NOT_NEEDED.keys()
