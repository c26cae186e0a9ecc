"""The power fails while a KahaDB store is at work: whatever is left of it, what was answered is there.

What the store does to its directory is recorded, and every state that a power failure could leave, or many of them, is
made and opened. That this can fail is shown for each force of the store: without it, it does.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import JdbcStoreError, OutcomeUnknown
from jdbcstore.identifiers import ProducerId
from jdbcstore.store.contract import Commit
from jdbcstore.store.jobs import FiredJob, ScheduledJob
from jdbcstore.store.journal.adapter import JournalPersistenceAdapter
from jdbcstore.store.journal.index import FILE_NAME, Index
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing.messages import text_message
from tests.examples import sampled
from tests.power import search
from tests.power.recording import Killed, Recorder
from tests.power.search import FAST
from tests.power.states import State
from tests.power.trace import Forced, Noted, Trace, Wrote

SMALL: Final = KahaDBOptions(
    journal_max_file_length_bytes=1024, checkpoint_interval_ms=0, cleanup_interval_ms=0, virtual_topic_consumers=""
)
#: States of one case that are looked at.
LOOKS_MAX: Final = 60
PRODUCER: Final = ProducerId("ID:power", 1, 1)
TOPIC: Final = Topic("T")
KEY: Final = SubscriptionKey("ann", "news")


class Expected:
    """What has to be there and what must not, by what was noted."""

    def __init__(self, notes: Sequence[object]) -> None:
        self.there: set[str] = set()
        self.unsure: set[str] = set()
        for note in notes:
            if isinstance(note, tuple):
                what, facts = note
                self.unsure -= facts
                self.there -= facts
                if what == "there":
                    self.there |= facts
                elif what == "unsure":
                    self.unsure |= facts

    def wrong(self, found: set[str]) -> str | None:
        """What is not as it should be."""
        missing, too_many = self.there - found, found - self.there - self.unsure
        return f"missing {sorted(missing)}, too many {sorted(too_many)}" if missing or too_many else None


class Session:
    """One store at work, and what it has answered.

    Args:
        recorder: gets the notes.
        adapter: of the directory ``store`` below what is recorded.
    """

    def __init__(self, recorder: Recorder, adapter: JournalPersistenceAdapter) -> None:
        self.recorder = recorder
        self.adapter = adapter

    def do(self, doing: Callable[[], Any], *, there: Sequence[str] = (), gone: Sequence[str] = ()) -> None:
        """Do something, and note what has to be there or gone when it was answered."""
        self.recorder.note(("unsure", {*there, *gone}))
        result = doing()
        if hasattr(result, "result"):
            result.result(30)
        self.recorder.note(("there", set(there)))
        self.recorder.note(("gone", set(gone)))

    def add(self, number: int, queue: str = "A", text: str = "") -> None:
        store = self.adapter.queue_message_store(Queue(queue))
        message = text_message(number, text, producer_id=PRODUCER)
        self.do(lambda: store.add_message(message), there=[f"{queue} {number}"])

    def remove(self, *numbers: int, queue: str = "A") -> None:
        store = self.adapter.queue_message_store(Queue(queue))
        ids = {one.message_id.producer_sequence_id: one.message_id for one in store.recover() if one.message_id}
        for number in numbers:
            self.do(lambda number=number: store.remove_message(ids[number]), gone=[f"{queue} {number}"])  # type: ignore[misc]

    def subscribe(self) -> None:
        topic = self.adapter.topic_message_store(TOPIC)
        self.do(lambda: topic.add_subscription(SubscriptionInfo(KEY, TOPIC, TOPIC)), there=["subscription"])

    def publish(self, number: int) -> None:
        topic = self.adapter.topic_message_store(TOPIC)
        message = text_message(number, producer_id=PRODUCER)
        self.do(lambda: topic.add_message(message), there=[f"T {number}"])

    def acknowledge(self, number: int) -> None:
        topic = self.adapter.topic_message_store(TOPIC)
        ids = {one.message_id.producer_sequence_id: one.message_id for one in topic.recover() if one.message_id}
        self.do(lambda: topic.acknowledge(KEY, ids[number]), gone=[f"T {number}"])

    def schedule(self, number: int) -> None:
        job = ScheduledJob(str(number), text_message(number, "x" * 100, producer_id=PRODUCER), number, 1, 10, 0, "")
        self.do(lambda: self.adapter.commit_together(Commit(jobs=[job])), there=[f"job {number}"])

    def fire(self, number: int) -> None:
        store = self.adapter.queue_message_store(Queue("A"))
        message = text_message(number, producer_id=PRODUCER)
        self.do(
            lambda: self.adapter.commit_together(Commit(adds=[(store, message)], jobs=[FiredJob(str(number), number)])),
            there=[f"A {number}"],
            gone=[f"job {number}"],
        )

    def checkpoint(self) -> None:
        """Write the index, as the committer does now and then; the scheduler's journal is made smaller behind it."""
        committer = self.adapter.committer
        self.run(committer.checkpoint)
        self.run(committer._clean_scheduler)

    def run(self, task: Callable[[], object]) -> None:
        """Do something in the thread that commits."""
        from jdbcstore.store.completion import Completion
        from jdbcstore.store.journal.writes import Write

        completion: Completion[None] = Completion()
        self.adapter.committer.submit(Write(completion, is_alone=True, task=task))
        completion.result(30)

    def restart(self, *, is_clean: bool = True) -> None:
        if is_clean:
            self.adapter.stop()
        else:
            self.adapter.abandon()
        self.adapter.start()

    @contextmanager
    def refusing(self, error: BaseException, site: str) -> Iterator[None]:
        """Forces of a site fail, or the process ends before them."""

        def before(one: str) -> None:
            if one == site:
                raise error

        self.recorder.before_force = before
        yield
        self.recorder.before_force = lambda _: None

    def add_unanswered(self, number: int) -> None:
        store = self.adapter.queue_message_store(Queue("A"))
        self.recorder.note(("unsure", {f"A {number}"}))
        with pytest.raises(OutcomeUnknown):
            store.add_message(text_message(number, producer_id=PRODUCER)).result(30)

    def resend(self, number: int) -> None:
        """What a producer does that got no answer; like the broker, the store is asked whether it is there already."""
        if self.adapter.last_producer_sequence_id(PRODUCER) >= number:
            self.recorder.note(("there", {f"A {number}"}))
        else:
            self.add(number)


def facts(adapter: JournalPersistenceAdapter) -> set[str]:
    """What is in a store, once each."""
    found: list[str] = []
    index = adapter.reading()
    for name in ("A", "B"):
        store = adapter.queue_message_store(Queue(name))
        found += [f"{name} {one.message_id.producer_sequence_id}" for one in store.recover() if one.message_id]
    topic = adapter.topic_message_store(TOPIC)
    if any(known.subscriptions for known in index.known):
        found.append("subscription")
        found += [f"T {one.message_id.producer_sequence_id}" for one in topic.recover() if one.message_id]
    found += [f"job {job.job_id}" for job in adapter.job_store().jobs(None, 100, 1 << 20).jobs]
    twice = [one for one, times in Counter(found).items() if times > 1]
    assert not twice, f"there more than once: {twice}"
    return set(found)


def opened(folder: Path, case: Case) -> set[str]:
    """What a store is found to hold, and that it goes on."""
    adapter = case.store(folder / "store", case.options)
    adapter.start()
    try:
        found = facts(adapter)
        adapter.queue_message_store(Queue("C")).add_message(text_message(1)).result(30)
        return found
    finally:
        adapter.abandon()
        adapter.wait_for_abandoned()


class Work(Protocol):
    """What a store does while it is recorded."""

    def __call__(self, session: Session) -> None: ...


def short(session: Session) -> None:
    """From no directory on."""
    session.add(1)
    session.add(2)
    session.remove(1)
    session.checkpoint()
    session.add(3)


def files_that_go(session: Session) -> None:
    """Acknowledgements stand in other files than messages; the files go."""
    for number in range(1, 13):
        session.add(number, text="x" * 200)
        if number > 2:
            session.remove(number - 2)
    session.adapter.remove_unneeded_files()
    session.subscribe()
    for number in range(20, 26):
        session.publish(number)
        session.acknowledge(number)
    session.restart()
    session.add(30, text="x" * 700)
    session.remove(11, 12)
    session.add(31, text="x" * 700)
    session.adapter.remove_unneeded_files()
    session.add(32)


def order(session: Session) -> None:
    """Two files go at once, the second has the acknowledgements of the first."""
    session.add(1, text="x" * 400)
    session.add(2, text="x" * 400)
    session.remove(1)
    session.remove(2)
    session.add(3, text="x" * 600)
    session.adapter.remove_unneeded_files()


def killed_while_a_file_is_made(session: Session) -> None:
    """The name of a file is not forced yet when the process ends; the next one finds the file, and uses it."""
    with (
        session.refusing(KeyboardInterrupt(), "journal_writer.JournalWriter._make_file Disk.sync"),
        pytest.raises(KeyboardInterrupt),
    ):
        session.adapter.start()
    session.adapter.start()
    session.add(1)


def jobs(session: Session) -> None:
    """Two journals, of which one is forced now and then."""
    session.schedule(1)
    session.schedule(2)
    session.add(3)
    session.checkpoint()
    session.fire(1)
    for number in range(10, 14):
        session.schedule(number)
        session.fire(number)
        session.remove(number)
    session.checkpoint()
    session.remove(1, 3)
    session.add(20, text="x" * 700)
    session.add(21, text="x" * 700)
    session.adapter.remove_unneeded_files()
    session.restart(is_clean=False)
    session.schedule(30)


def failed_force(session: Session) -> None:
    """The disk refuses to force a batch; who sent it asks again."""
    session.add(1)
    with session.refusing(OSError(errno.EIO, "Input/output error"), "journal_writer.JournalWriter.force DiskFile.sync"):
        session.add_unanswered(2)
        session.restart(is_clean=False)
    session.resend(2)
    session.add(3)


def killed(session: Session) -> None:
    """The process ends between a write and its force; who sent it asks again."""
    session.add(1)
    with session.refusing(Killed(errno.EIO, "killed"), "journal_writer.JournalWriter.force DiskFile.sync"):
        session.add_unanswered(2)
        session.restart(is_clean=False)
    session.resend(2)


def failed_jobs(session: Session) -> None:
    """The same with the journal of the scheduler, which nobody waits for."""
    session.add(1)
    session.schedule(2)
    with (
        session.refusing(OSError(errno.EIO, "Input/output error"), "journal_writer.JournalWriter.force DiskFile.sync"),
        pytest.raises(JdbcStoreError),
    ):
        session.checkpoint()
    session.restart(is_clean=False)
    session.remove(1)
    session.add(20, text="x" * 700)
    session.add(21, text="x" * 700)
    session.adapter.remove_unneeded_files()
    session.add(22)


@dataclass(frozen=True)
class Case:
    """A store at work, once.

    Args:
        work: what it does.
        options: how.
        is_started: whether the store is when the work begins.
        all_subsets: see `states`.
        store: of which kind it is.
    """

    work: Work
    options: KahaDBOptions = SMALL
    is_started: bool = True
    all_subsets: int = 6
    store: Callable[[Path, Any], JournalPersistenceAdapter] = KahaDBPersistenceAdapter


CASES: Final = {
    "short": Case(short, all_subsets=9),
    "files that go": Case(files_that_go),
    "files that are archived": Case(files_that_go, replace(SMALL, archive_data_logs=True)),
    "growing files": Case(files_that_go, replace(SMALL, preallocation_scope="NONE")),
    "files made ahead": Case(files_that_go, replace(SMALL, preallocation_scope="ENTIRE_JOURNAL_ASYNC")),
    "order": Case(order),
    "order in the archive": Case(order, replace(SMALL, archive_data_logs=True)),
    "killed while a file is made": Case(killed_while_a_file_is_made, is_started=False),
    "jobs": Case(jobs),
    "failed force": Case(failed_force),
    "killed": Case(killed),
    "failed jobs": Case(failed_jobs),
}


def foreign(name: str) -> str | None:
    return "index" if name.startswith(FILE_NAME) else None


@contextmanager
def watched_index(recorder: Recorder) -> Iterator[None]:
    """What SQLite promises of the index: it is as it was at a checkpoint, at the last one that was forced or later."""
    checkpoint, removal = Index.checkpoint, Index.remove

    def watched(index: Index, now_ms: int, *, force: bool = False) -> None:
        checkpoint(index, now_ms, force=force)
        recorder.version(index.path.parent, "index", is_forced=force)

    def removed(path: Path) -> None:
        removal(path)
        recorder.version(path.parent, "index", is_forced=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Index, "checkpoint", watched)
        patch.setattr(Index, "remove", staticmethod(removed))
        yield


@cache
def recorded(name: str) -> Trace:
    """The trace of a case."""
    return record(CASES[name])


def record(case: Case) -> Trace:
    """What a case does to its directory."""
    folder = Path(tempfile.mkdtemp(dir=FAST))
    recorder = Recorder(folder, foreign)
    adapter = case.store(folder / "store", case.options)
    with watched_index(recorder), recorder.recording() as trace:
        if case.is_started:
            adapter.start()
        try:
            case.work(Session(recorder, adapter))
        finally:
            adapter.stop()
    shutil.rmtree(folder)
    return trace


def first_loss(trace: Trace, case: Case, sector: int = 512, looks_max: int | None = None) -> tuple[int, str | None]:
    """As `tests.power.search.first_loss`."""

    def wrong(state: State, folder: Path) -> str | None:
        return Expected(state.notes).wrong(opened(folder, case))

    return search.first_loss(trace, wrong, sector, case.all_subsets, looks_max)


@pytest.mark.parametrize("sector", sampled([512, 4096], 1))
@pytest.mark.parametrize("name", CASES)
def test_whatever_a_power_failure_leaves_what_was_answered_is_there(name: str, sector: int) -> None:
    looked, wrong = first_loss(recorded(name), CASES[name], sector, LOOKS_MAX)
    assert wrong is None, f"state {looked}, {wrong}"
    assert looked > 20


#: Forces of the store, and a case in which something is lost without each.
NEEDED: Final = {
    "journal_writer.JournalWriter._force_anew DiskFile.sync": "killed",
    "journal_writer.JournalWriter._make_file Disk.sync": "short",
    "journal_writer.JournalWriter.force DiskFile.sync": "short",
    "journal_writer.JournalWriter.open Disk.sync": "killed while a file is made",
    "journal_writer.JournalWriter.open make_directory": "jobs",
    "journal_directory.JournalDirectory.remove force_directory": "order",
    "journal_directory._move move": "order in the archive",
    "shared_file_lock.SharedFileLocker._take make_directory": "short",
}
#: Those without which nothing is lost when the power fails, and why they are there.
NOT_NEEDED: Final = {
    "journal_writer.JournalWriter._make_file DiskFile.sync": "the first batch does not wait for length or zeros",
    "journal_directory.JournalDirectory._removed make_directory": "outside of it; here `move` forces its name, too",
    "shared_file_lock.SharedFileLocker._write rewrite": "who looks at the lock over a network sees who has it",
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


@pytest.mark.parametrize("name", ["failed force", "failed jobs"])
def test_what_a_failed_force_left_is_lost_unless_it_is_written_again(name: str) -> None:
    trace = recorded(name)
    ops = list(trace.ops)
    for place, op in enumerate(trace.ops):
        if isinstance(op, Forced) and op.site == "journal_writer.JournalWriter._force_anew DiskFile.sync":
            before = place - 1
            while isinstance(trace.ops[before], Wrote):
                ops[before] = Noted(None)
                before -= 1
    assert ops != trace.ops
    assert first_loss(Trace(ops, trace.files, trace.folders), CASES[name])[1] is not None


def test_a_file_that_is_changed_beside_the_module_fails_the_recording(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    with pytest.raises(AssertionError, match=r"open .*beside"), recorder.recording():
        (tmp_path / "beside").write_bytes(b"")
