"""What is in a KahaDB directory, by its journals alone; also while a broker writes to them.

All files are opened at the beginning, so that none is lost that the broker deletes meanwhile, and read once from the
first record to the last that is there then. That is a prefix of what the broker has written, so it is what a broker
would find that is started now.
"""

from __future__ import annotations

import logging
import resource
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, ClassVar, Final, TypeVar

from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import CodecError, ConfigurationError, JournalDamaged, StoreError, StoreUnavailable
from jdbcstore.identifiers import MessageId, ProducerId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.migration.contents import MARKER, Contents, Damages, PreparedContents, StoredHere, name_of, require_id
from jdbcstore.store.contract import ScheduledJob
from jdbcstore.store.journal import remarks
from jdbcstore.store.journal.amq.adapter import is_amq_store, refuse_what_is_no_amq_store
from jdbcstore.store.journal.amq.decoding import message_of
from jdbcstore.store.journal.amq.reference_store import known_queues
from jdbcstore.store.journal.amq.store_journal import StoreJournal
from jdbcstore.store.journal.commands import AddMessage, Trace, UpdateMessage
from jdbcstore.store.journal.kahadb.branches import correct_branches
from jdbcstore.store.journal.kahadb.directory_kind import refuse_another_store, what_it_is
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.kahadb.pagefile import PageFile
from jdbcstore.store.journal.kahadb.scheduler import DIRECTORY, replay_scheduler
from jdbcstore.store.journal.kahadb.scheduler import ScheduledJob as StoredJob
from jdbcstore.store.journal.known import named_destination
from jdbcstore.store.journal.records import AnyJournal, AnyJournalFile, Damage, DirectoryJournal, Location, Record
from jdbcstore.store.journal.replay import Replay
from jdbcstore.store.journal.shared_file_lock import SharedFileLocker
from jdbcstore.store.journal.state import State, StoredDestination, StoredSubscription, Tier
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = [
    "JournalContents",
    "added_at",
    "contents_of_amq_store",
    "contents_of_journals",
    "is_locked",
    "is_prioritized",
    "may_open",
    "scheduled_in",
    "scheduler_in",
    "scheduler_of",
    "subscription_info",
]

log = logging.getLogger(__name__)

#: Bytes of a file that are read at once where messages are looked up one after the other.
_LOOK_BYTES: Final = 64 << 10
#: Descriptors that are left for everything else.
_DESCRIPTORS_LEFT: Final = 100
#: How often a directory is listed anew because a file of the list was deleted before it could be opened.
_LISTINGS: Final = 20


@contextmanager
def contents_of_journals(
    directory: Path, scheduler: Path | None = None, *, skips_damage: bool = False
) -> Iterator[JournalContents]:
    """The contents of a KahaDB directory as they are now.

    Args:
        directory: where the ``db-<n>.log`` are.
        scheduler: the directory of the scheduler's journal; None if there is none.
        skips_damage: whether what cannot be read is left out and listed.

    Raises:
        ConfigurationError: there is no journal, or it is another store's.
        StoreError: it cannot be read, or is damaged.
    """
    refuse_another_store(directory, ignores_missing=True)
    with ExitStack() as stack:
        opened = stack.enter_context(_all_opened(directory, _OpenedJournal))
        if not opened.files:
            raise ConfigurationError(f"{directory} {what_it_is(directory)}")
        other = Path(directory).parent / "txStore"
        tx_store = stack.enter_context(_all_opened(other, _OpenedJournal)) if other.is_dir() else None
        jobs = None if scheduler is None else stack.enter_context(_all_opened(scheduler, _OpenedJournal))
        yield JournalContents(opened, jobs, tx_store, is_live=is_locked(directory), skips_damage=skips_damage)


@contextmanager
def contents_of_amq_store(
    directory: Path, scheduler: Path | None = None, *, skips_damage: bool = False, salvages: bool = False
) -> Iterator[JournalContents]:
    """The contents of an AMQ store as they are now.

    Args:
        directory: the one with ``journal`` and ``kr-store`` in it.
        scheduler: the directory of the scheduler's journal; None if there is none.
        skips_damage: whether what cannot be read is left out and listed.
        salvages: whether of a damaged batch is read what looks good.

    Raises:
        ConfigurationError: there is no journal, or it is another store's.
        StoreError: it cannot be read, or is damaged.
    """
    refuse_what_is_no_amq_store(directory)
    if not is_amq_store(directory):
        raise ConfigurationError(f"{directory} is no AMQ store: it holds no journal (journal/data-1, ...)")
    with ExitStack() as stack:
        opened = stack.enter_context(_all_opened(directory, _OpenedAMQJournal))
        opened.salvages = salvages
        jobs = None if scheduler is None else stack.enter_context(_all_opened(scheduler, _OpenedJournal))
        yield AMQContents(opened, jobs, None, is_live=is_locked(directory), skips_damage=skips_damage)


def scheduler_of(directory: Path) -> Path | None:
    """Where the scheduled messages of the broker of a KahaDB directory are: ``scheduler`` in it, or beside it."""
    return scheduler_in(directory) or scheduler_in(directory.absolute().parent)


def scheduler_in(directory: Path) -> Path | None:
    """The directory of scheduled messages in a directory, if there are journals in it."""
    found = directory / DIRECTORY
    return found if found.is_dir() and Journal(found).files else None


def may_open(files: int, directory: Path) -> None:
    """Make sure that this process may open so many files of a directory. Raises `StoreError` when it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = soft + files
    if files + _DESCRIPTORS_LEFT > soft:
        if hard != resource.RLIM_INFINITY and wanted > hard:
            raise StoreError(
                f"{directory} has {files} journal files and this process may open {hard}: raise the limit (ulimit -Hn)"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class _Opened(DirectoryJournal):
    """A journal whose files are open, and stay what they are."""

    def open_all(self, stack: ExitStack) -> None:
        """Open them."""
        may_open(len(self.files), self.directory)
        self._sources: dict[int, BinaryIO] = {
            number: stack.enter_context(path.open("rb", buffering=0)) for number, path in self.files.items()
        }

    @contextmanager
    def opened(self, number: int) -> Iterator[BinaryIO]:
        yield self._sources[number]


class _OpenedJournal(_Opened, Journal):
    """Of KahaDB."""


class _OpenedAMQJournal(_Opened, StoreJournal):
    """Of an AMQ store."""


OpenedT = TypeVar("OpenedT", _OpenedJournal, _OpenedAMQJournal)


@contextmanager
def _all_opened(directory: Path, kind: type[OpenedT]) -> Iterator[OpenedT]:
    """A broker deletes only files that nobody needs any more, but perhaps between our listing and our opening."""
    for attempt in range(_LISTINGS):
        with ExitStack() as stack:
            try:
                journal = kind(directory)
                journal.open_all(stack)
            except FileNotFoundError as error:
                if attempt == _LISTINGS - 1:
                    raise StoreError(f"cannot read {error.filename}: {error.strerror}") from error
                continue
            except OSError as error:
                raise StoreError(f"cannot read {error.filename}: {error.strerror}") from error
            yield journal
            return


def is_locked(directory: Path) -> bool:
    """Whether a broker has the directory."""
    try:
        return SharedFileLocker(directory).status().holder is not None
    except StoreUnavailable as error:  # the copy of a directory that nobody may write to
        log.info("%s", error)
        return False


def _empty_queues(directory: Path) -> set[Destination]:
    """Queues that a Java broker knows; the journal tells only of those that had a message."""
    if not (directory / "db.data").exists():
        return set()
    try:
        with PageFile(directory) as index:
            return {one.destination for one in index.destinations() if isinstance(one.destination, Queue)}
    except StoreError as error:  # of a broker at work, or one that was killed; nothing else is taken from there
        log.warning("which empty queues there are is not known: %s", error)
        return set()


class JournalContents(Contents):
    """The contents of a KahaDB directory. Made by `contents_of_journals` only."""

    #: Of its URL.
    scheme: ClassVar[str] = "kahadb:"

    def __init__(
        self,
        journal: DirectoryJournal,
        jobs: Journal | None,
        tx_store: Journal | None,
        *,
        is_live: bool,
        skips_damage: bool,
    ) -> None:
        self.name = f"{self.scheme}{self._store_directory(journal)}"
        self.is_live = is_live
        self.damages = Damages(are_skipped=skips_damage)
        self._journal = journal
        self._jobs = jobs
        self._with_priority: set[Destination] = set()
        self._known = self._empty_queues(journal)
        self._producers: dict[str, int] = {}
        # The two journals are not of one moment. A job that is fired in between is here twice rather than not at all.
        self._scheduled = None if jobs is None else replay_scheduler(jobs)
        if jobs is not None:
            self._meet(jobs, jobs.damages)
        self._state = self._replayed(tx_store)
        for destination, stored in self._state.destinations.items():
            if is_prioritized(stored):
                self._with_priority.add(destination)
        self.prioritized = frozenset(self._with_priority)
        self._infos: dict[tuple[Destination, str], SubscriptionInfo | None] = {
            (destination, key): self._info(destination, one)
            for destination, stored in self._state.destinations.items()
            if isinstance(destination, Topic)
            for key, one in stored.subscriptions.items()
        }
        self._files: dict[int, AnyJournalFile] = {}

    def _store_directory(self, journal: DirectoryJournal) -> Path:
        return journal.directory

    def _empty_queues(self, journal: DirectoryJournal) -> set[Destination]:
        """Queues that a Java broker knows; the journal tells only of those that had a message."""
        return _empty_queues(journal.directory)

    def _correct(self, progress: Replay) -> None:
        """Apply what is known better than by the journal."""
        correct_branches(progress, self._journal, self._journal.directory)

    def _message_of(self, add: AddMessage) -> Message:
        return add.unmarshal()

    def _replayed(self, tx_store: AnyJournal | None) -> State:
        journal = self._journal
        progress = Replay(journal.files)
        progress.apply(self._looked_at(journal.records()))
        if tx_store is not None:
            progress.decide(tx_store)
        self._correct(progress)
        state = progress.finish()
        self._meet(journal, sorted([*journal.damages, *state.damages]))
        return state

    def _looked_at(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records, and a look at which destinations have priorities."""
        found = self._with_priority
        for record in records:
            command = record[1]
            if isinstance(command, AddMessage):
                if command.priority_supported and command.destination is not None:
                    found.add(command.destination)
            elif isinstance(command, Trace):
                self._remark(command)
            yield record

    def _remark(self, trace: Trace) -> None:
        """What our own store notes beside what brokers do."""
        match remarks.of_trace(trace):
            case "known", name:
                self._known.add(named_destination(name))
            case "released", name:
                self._known.discard(named_destination(name))
            case "producer", about:
                last, _, producer = about.partition(" ")
                self._producers[producer] = max(int(last), self._producers.get(producer, -1))
            case "producers", _:
                self._producers.clear()

    def _meet(self, journal: DirectoryJournal, damages: Sequence[Damage]) -> None:
        last = max(journal.files, default=0)
        for damage in damages:
            # The last batch of a broker that was killed, or that is writing it just now.
            if not (damage.at_the_end and damage.file == last):
                self.damages.meet(str(journal.directory), str(damage))

    def _info(self, topic: Topic, stored: StoredSubscription) -> SubscriptionInfo | None:
        try:
            return subscription_info(topic, stored)
        except CodecError as error:
            self.damages.meet(f"{stored.location}: subscription {stored.key} to {topic}", error)
            return None

    # -- what is there -------------------------------------------------------------------------------------------

    def destinations(self) -> Mapping[Destination, int]:
        found = {
            destination: len(stored)
            for destination, stored in self._state.destinations.items()
            if len(stored) or stored.subscriptions or isinstance(destination, Queue)
        }
        return {**dict.fromkeys(self._known, 0), **found}

    def message_ids(self, destination: Destination) -> set[str]:
        """The ids of the messages of a destination, as the journal has them."""
        stored = self._state.destinations.get(destination)
        return set() if stored is None else {message.message_id for message in stored.all()}

    def sizes(self) -> Mapping[Destination, int]:
        stored = self._state.destinations.items()
        return {destination: sum(message.location.size for message in one.all()) for destination, one in stored}

    def subscriptions(self) -> Sequence[SubscriptionInfo]:
        return [info for info in self._infos.values() if info is not None]

    def messages(self) -> Iterator[StoredHere]:
        everything = (
            (message.order, destination, message)
            for destination, stored in self._state.destinations.items()
            for message in stored.all()
        )
        for order, destination, found in sorted(everything, key=lambda one: one[0]):
            waiting: list[SubscriptionKey] = []
            if destination.is_topic:
                for key, subscription in self._state.destinations[destination].subscriptions.items():
                    info = self._infos[destination, key]
                    if info is not None and found.sequence in subscription.pending:
                        waiting.append(info.key)
                if not waiting:
                    continue
            message = self._message(found.location, f"{destination}, {found.message_id}")
            if message is not None:
                yield StoredHere(order, destination, message, found.location.size, waiting)

    def _message(self, location: Location, what: str) -> Message | None:
        file = self._files.get(location.file)
        if file is None:
            with self._journal.opened(location.file) as source:
                file = self._files[location.file] = self._journal.file(source, location.file, chunk_bytes=_LOOK_BYTES)
        try:
            message = self._message_of(added_at(file, location))
            require_id(message)
        except (CodecError, ConfigurationError, JournalDamaged) as error:
            self.damages.meet(f"{location}: {what}", error)
            return None
        return message

    @property
    def in_doubt(self) -> Sequence[XATransactionId]:
        return [one for one in self._state.prepared if isinstance(one, XATransactionId)]

    def prepared(self) -> Sequence[PreparedContents]:
        found = []
        for xid, transaction in self._state.prepared.items():
            assert isinstance(xid, XATransactionId)  # only those can be prepared
            in_doubt = PreparedContents(xid)
            for destination, text, location in transaction.added:
                message = self._message(location, f"{destination}, {text}, in doubt")
                if message is not None:
                    in_doubt.added.append((destination, message))
            for destination, text, key in transaction.acknowledged:
                message_id = self._id(destination, text)
                if message_id is None:
                    continue
                if key is None:
                    in_doubt.removed.append((destination, message_id))
                elif isinstance(destination, Topic) and (info := self._infos.get((destination, key))) is not None:
                    in_doubt.acknowledged.append((destination, info.key, message_id))
            found.append(in_doubt)
        return found

    def _id(self, destination: Destination, text: str) -> MessageId | None:
        """The id of a message that is there. Foreign ones cannot be read from their text."""
        stored = self._state.destinations.get(destination)
        found = None if stored is None else stored.get(text)
        message = None if found is None else self._message(found.location, f"{destination}, {text}")
        return None if message is None else name_of(message)

    def jobs(self) -> Iterator[ScheduledJob]:
        yield from _jobs(self._scheduled or {}, self.damages)

    def producers(self) -> Mapping[ProducerId, int]:
        return {ProducerId.parse(one): last for one, last in self._producers.items() if not one.startswith(MARKER)}


def scheduled_in(directory: Path, damages: Damages) -> Iterator[ScheduledJob]:
    """The scheduled messages of a scheduler's directory."""
    with _all_opened(directory, _OpenedJournal) as journal:
        scheduled = replay_scheduler(journal)
        for damage in journal.damages:
            if not damage.at_the_end:
                damages.meet(str(directory), str(damage))
        yield from _jobs(scheduled, damages)


def _jobs(found: Mapping[str, Sequence[StoredJob]], damages: Damages) -> Iterator[ScheduledJob]:
    seen: set[str] = set()
    for scheduled in found.values():
        for job in scheduled:
            try:
                message = job.unmarshal()
                require_id(message)
            except (CodecError, ConfigurationError) as error:
                damages.meet(f"{job.location}: job {job.job_id}", error)
                continue
            # Here one message may be scheduled several times; elsewhere a job's id is its own.
            job_id, number = job.job_id, 1
            while job_id in seen:
                number += 1
                job_id = f"{job.job_id}-{number}"
            seen.add(job_id)
            due_ms, repeat = job.next_execution_time, job.repeat
            yield ScheduledJob(job_id, message, due_ms, job.delay, job.period, repeat, job.cron_entry)


class AMQContents(JournalContents):
    """The contents of an AMQ store. Made by `contents_of_amq_store` only."""

    scheme = "amq:"

    def _store_directory(self, journal: DirectoryJournal) -> Path:
        return journal.directory.parent

    def _empty_queues(self, journal: DirectoryJournal) -> set[Destination]:
        return set(known_queues(self._store_directory(journal)))

    def _correct(self, progress: Replay) -> None:
        assert isinstance(self._journal, StoreJournal)
        self._journal.correct(progress)

    def _message_of(self, add: AddMessage) -> Message:
        return message_of(add)


def added_at(file: AnyJournalFile, location: Location) -> AddMessage:
    """The message that stands at a place, as it was added or changed.

    Raises:
        JournalDamaged: none stands there.
        StoreError: the file cannot be read.
    """
    command = file.read(location)
    add = command.message if isinstance(command, UpdateMessage) else command
    if not isinstance(add, AddMessage):
        raise JournalDamaged(f"{location}: no message stands there any more")
    return add


def is_prioritized(stored: StoredDestination) -> bool:
    """Whether messages of a destination show that they are ordered by priority."""
    return any(message.tier is not Tier.DEFAULT for message in stored.all())


def subscription_info(topic: Topic, stored: StoredSubscription) -> SubscriptionInfo:
    """A durable subscription as the contract has it.

    Raises:
        CodecError: its bytes are not OpenWire.
    """
    found = stored.info
    subscribed: Destination = found.subscribed_destination or found.destination or topic
    key = SubscriptionKey(found.client_id or "", found.subscription_name or "")
    return SubscriptionInfo(key, topic, subscribed, found.selector, found.no_local)
