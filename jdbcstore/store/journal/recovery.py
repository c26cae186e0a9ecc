"""What happens at the start: the index is brought up to date with the journal, or made anew from it.

The index says which batch was the last that is in it. If that batch is there, what stands behind it is applied.
Otherwise, and if a broker was here meanwhile, the journal is replayed from its first record, as a broker does that has
lost its index, and what comes out is loaded into a new index. What brokers of a format leave behind that tells of them,
and what the next of them needs, is a `Predecessor`'s to know.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

from jdbcstore.errors import CodecError, JournalDamaged, StoreError
from jdbcstore.identifiers import XATransactionId
from jdbcstore.openwire import STORE_VERSION, unmarshal, unmarshal_message
from jdbcstore.store.disk import make_directory, move
from jdbcstore.store.journal import index as sql
from jdbcstore.store.journal import remarks
from jdbcstore.store.journal.applier import (
    SCHEDULER_COMMANDS,
    Applier,
    ForeignRecord,
    expiration_of,
    level_of,
)
from jdbcstore.store.journal.asked_subscriptions import AskedSubscriptions
from jdbcstore.store.journal.commands import (
    AddMessage,
    AddScheduledJob,
    Command,
    Subscription,
    Trace,
    UpdateMessage,
)
from jdbcstore.store.journal.index import HIDDEN, VISIBLE, WAITING, Index, id_hash
from jdbcstore.store.journal.journal_format import BatchPlace
from jdbcstore.store.journal.known import DEFAULT_LEVEL, KnownDestination, KnownSubscription, named_destination
from jdbcstore.store.journal.records import DirectoryJournal, Location, Record
from jdbcstore.store.journal.replay import Replay
from jdbcstore.store.journal.scheduling import Scheduling
from jdbcstore.store.journal.state import State, StoredMessage, StoredTransaction
from jdbcstore.store.journal.store_format import StoreFormat, StoreOptions

__all__ = ["Noted", "Predecessor", "jobs_of", "known", "made_anew", "open_index", "refuse_lost_journal"]

log = logging.getLogger(__name__)

#: How many of the last commands for the scheduler are compared with its journal when the index is made anew.
_SCHEDULED_MAX: Final = 100_000
#: How often something may be written to the journal for who makes an index anew, and the journal be read again.
_ROUNDS: Final = 3
#: What brokers before 5.12 wrote, and later ones in their directories.
_OLD_WIRE_VERSION: Final = 6
#: Records that are applied in one go.
_RECORDS: Final = 4000


class Predecessor(Protocol):
    """Who wrote a directory before: a broker of its format, or nobody."""

    def left(self) -> str | None:
        """Why the index is to be made anew: a broker was here, or it is asked for."""

    def complete(self, state: State, noted: Noted) -> bool:
        """Write to the journal what only a broker's index tells; whether there was something.

        Raises:
            StoreError: it cannot be written. The broker's index is as good as before.
        """

    def correct(self, progress: Replay) -> None:
        """Apply what is known better than by the journal, behind its last record."""

    def noted(self) -> Noted:
        """What is noted while the journal is read; new."""

    def journal(self, directory: Path) -> DirectoryJournal:
        """The journal as it is to be replayed: with what a broker's index knows better."""


def open_index(
    directory: Path,
    store_format: StoreFormat,
    options: StoreOptions,
    scheduler: Scheduling,
    before: Predecessor,
) -> tuple[Index, Noted | None]:
    """The index of a directory, as the journals have it. Their ends are repaired already.

    Args:
        directory: of the journal.
        store_format: of the journal.
        options: where the index is, how much of it is in memory.
        scheduler: open; it gets what a crash has kept from it.
        before: who wrote before.

    Returns:
        The index; if it was made anew also what was noted of the journal.

    Raises:
        JournalDamaged: journal files are missing that messages stand in, and ``ignoreMissingJournalfiles`` is not set.
        StoreError: the journal cannot be read, or the index not be written.
    """
    place = Path(options.index_directory) if options.index_directory else directory
    make_directory(place)
    path = place / sql.FILE_NAME
    try:
        reason = before.left()
        if reason is None:
            index = Index(path, options.index_cache_size_pages)
            try:
                journal = store_format.journal(directory)
                reason = _catch_up(index, journal, store_format, scheduler)
                reason = reason or _missing(index, journal, store_format, options)
                if reason is None:
                    return known(index), None
            except BaseException:
                index.close()
                raise
            index.close()
    except (sqlite3.Error, ForeignRecord, LookupError, ValueError) as error:
        reason = f"it cannot be used: {error}"
    log.warning("the index is made anew from the journal directory=%s: %s", directory, reason)
    if options.archive_corrupted_index and path.exists():
        move(path, path.with_name(f"{path.name}.{time.time_ns() // 1_000_000}"))
    return made_anew(path, directory, options, scheduler, before, is_written=True)


def refuse_lost_journal(directory: Path, place: Path, store_format: StoreFormat, options: StoreOptions) -> None:
    """Make sure, before a journal is made, that there is no index of ours of one that is gone.

    Args:
        directory: of the journal; made if it is not there.
        place: where the index is.
        store_format: of the journal.
        options: whether files of the journal may be missing.

    Raises:
        JournalDamaged: there is, and it tells of messages.
    """
    path = place / sql.FILE_NAME
    if not path.exists():
        return
    make_directory(directory)
    journal = store_format.journal(directory)
    if journal.files:
        return
    try:
        index = Index(path, options.index_cache_size_pages)
    except (sqlite3.Error, LookupError, ValueError) as error:
        log.warning("the index of a journal that is gone cannot be used path=%s error=%r", path, str(error))
        return
    try:
        _missing(index, journal, store_format, options)
    finally:
        index.close()


def known(index: Index) -> Index:
    """Nothing more is asked for than what is there."""
    for one in index.known:
        one.asked = AskedSubscriptions(subscription.info for subscription in one.subscriptions.values())
    return index


def _missing(index: Index, journal: DirectoryJournal, store_format: StoreFormat, options: StoreOptions) -> str | None:
    """Why the index cannot be used although it is up to date."""
    files, file_name = journal.files, store_format.file_name
    missing = sorted(number for number in index.live if number not in files)
    if not missing:
        return None
    names = ", ".join(file_name(number) for number in missing)
    messages = sum(index.live[number] for number in missing)
    if not options.ignore_missing_journal_files:
        raise JournalDamaged(
            f"{journal.directory}: {messages} messages stand in journal files that are missing: {names};"
            " ignoreMissingJournalfiles=true starts without them"
        )
    return f"{messages} messages are lost with {names}"


def _catch_up(index: Index, journal: DirectoryJournal, store_format: StoreFormat, scheduler: Scheduling) -> str | None:
    """Apply what the index has not. Returns why that is not possible, if so."""
    position = index.position
    if index.is_new:
        if any(_has_records(journal, number) for number in journal.files) or scheduler.last_batch is not None:
            return "there is none"
        index.checkpoint(time.time_ns() // 1_000_000)
        return None
    if position.file and position.file not in journal.files:
        return f"there is no {store_format.file_name(position.file)}"
    applier, applied, jobs = Applier(index), 0, _Scheduled(scheduler, index.job_position)
    with index.lock:
        for number in [number for number in journal.files if number >= position.file]:
            is_first = number == position.file
            with journal.opened(number) as source:
                file = journal.file(source, number, start=position.offset if is_first else 0)
                batches = file.batches()
                if is_first:
                    first = next(batches, None)
                    if first is None or first.place(number) != position:
                        return f"the batch at {position.offset} of {store_format.file_name(number)} is another one"
                for batch in batches:
                    records = list(file.records_of(batch))
                    scheduled = jobs.places([command for _, command in records])
                    applier.apply(((location, command, None) for location, command in records), scheduled)
                    applied += len(records)
                    index.position = batch.place(number)
        jobs.finish(index)
        index.job_position = scheduler.last_batch or index.job_position
    index.given = max(index.given, index.written)
    if applied:
        log.info("applied what stood behind the last checkpoint records=%d", applied)
    return None


class _Scheduled:
    """The scheduler's journal behind the last checkpoint, which gets what it has not.

    Args:
        journal: open.
        position: its last batch that is in the index.
    """

    def __init__(self, journal: Scheduling, position: BatchPlace) -> None:
        self._journal = journal
        self._copies: list[Record] = []
        self._there = deque(self._behind(position))

    def _behind(self, position: BatchPlace) -> Iterator[Record]:
        for location, command, is_copy in jobs_of(self._journal.behind(position)):
            if is_copy:
                self._copies.append((location, command))
            else:
                yield location, command

    def places(self, commands: list[Command]) -> list[Location]:
        """Where the scheduler's commands of a batch stand in its journal, all of them in the end."""
        found: list[Location] = []
        missing: list[Command] = []
        for command in commands:
            if not isinstance(command, SCHEDULER_COMMANDS):
                continue
            if not self._there:
                missing.append(command)
                continue
            location, there = self._there.popleft()
            if there != command:
                raise ForeignRecord(f"the scheduler's {location} is {there!r}, and {command!r} was given to it")
            found.append(location)
        return [*found, *self._journal.append(missing)] if missing else found

    def finish(self, index: Index) -> None:
        """There must be nothing more. Jobs that were copied stand where their copies are."""
        if self._there:
            raise ForeignRecord(f"the scheduler's {self._there[0][0]} is not by this store")
        for location, command in self._copies:
            if isinstance(command, AddScheduledJob):
                index.move_job(command.job_id or "", location)


def jobs_of(records: Iterable[Record]) -> Iterator[tuple[Location, Command, bool]]:
    """The scheduler's commands, and whether each is a copy."""
    copies = 0
    for location, command in records:
        if isinstance(command, SCHEDULER_COMMANDS):
            yield location, command, copies > 0
            copies = max(0, copies - 1)
        elif isinstance(command, Trace):
            match remarks.of_trace(command):
                case "copied", about:
                    copies = int(about)


def _has_records(journal: DirectoryJournal, number: int) -> bool:
    with journal.opened(number) as source:
        return next(journal.file(source, number).batches(), None) is not None


# -- from the journal alone --------------------------------------------------------------------------------------------


class Noted:
    """What the records say and the state that a replay gives does not: when messages expire, and our own remarks."""

    def __init__(self) -> None:
        self.expirations: dict[Location, int] = {}
        self.levels: dict[Location, int] = {}
        self.remarked = remarks.Remarked()
        self.last: BatchPlace | None = None
        self.scheduled: deque[Command] = deque(maxlen=_SCHEDULED_MAX)
        self._is_current = self._is_old = False

    @property
    def wire_version(self) -> int | None:
        """In which OpenWire version the messages are, by how they look; None if that is what brokers expect."""
        return _OLD_WIRE_VERSION if self._is_old and not self._is_current else None

    def noting(self, records: Iterator[Record]) -> Iterator[Record]:
        """The records, while they go by."""
        for location, command in records:
            if isinstance(command, Trace):
                self.remarked.take(command)
            elif isinstance(command, AddMessage | UpdateMessage):
                self._message(location, command)
            elif isinstance(command, SCHEDULER_COMMANDS):
                self.scheduled.append(command)
            elif isinstance(command, Subscription) and command.info is not None:
                self._look(command.info)
            yield location, command

    def _message(self, location: Location, command: AddMessage | UpdateMessage) -> None:
        add = command.message if isinstance(command, UpdateMessage) else command
        if add is None:
            return
        if expiration := self.expiration(add):
            self.expirations[location] = expiration
        if (level := level_of(add)) != DEFAULT_LEVEL:
            self.levels[location] = level

    def expiration(self, add: AddMessage) -> int:
        """When a message expires, epoch milliseconds; 0 if never, or if it cannot be read."""
        try:
            message = unmarshal_message(add.message or b"", STORE_VERSION)
        except CodecError:
            self._look(add.message)
            return expiration_of(add)
        self._is_current = True
        return message.expiration

    def _look(self, data: bytes | None) -> None:
        """Note the version of a message or a subscription."""
        for version in (STORE_VERSION, _OLD_WIRE_VERSION):
            try:
                unmarshal(data or b"", version)
            except CodecError:
                continue
            self._is_current |= version == STORE_VERSION
            self._is_old |= version == _OLD_WIRE_VERSION
            return


def _replayed(directory: Path, before: Predecessor) -> tuple[State, Noted]:
    noted = before.noted()
    journal = before.journal(directory)
    progress = Replay(journal.files)
    progress.apply(noted.noting(journal.records()))
    before.correct(progress)
    noted.last = journal.last_batch
    state = progress.finish()
    state.damages = [*journal.damages, *state.damages]
    return state, noted


def made_anew(
    path: Path,
    directory: Path,
    options: StoreOptions,
    scheduler: Scheduling,
    before: Predecessor,
    *,
    is_written: bool,
) -> tuple[Index, Noted]:
    """A new index from the journals alone.

    Args:
        path: of the index; one that is there is removed.
        directory: of the journal.
        options: how much of the index is in memory.
        scheduler: open if something may be written; it gets what a crash has kept from it.
        before: who wrote before.
        is_written: whether the journals may be written; else they are only read.

    Raises:
        StoreError: the journal cannot be read, or the index not be written; also if `Predecessor.complete` says so.
    """
    began_s = time.monotonic()
    state, noted = _replayed(directory, before)
    rounds = 0
    while is_written and before.complete(state, noted):
        rounds += 1
        if rounds == _ROUNDS:
            raise StoreError(
                f"{directory}: a Java broker that makes its index anew would see something else than this one, whatever"
                " is written for it. Its index is still there. Run 'jdbcstore kahadb repair' to a new directory"
            )
        state, noted = _replayed(directory, before)
    for damage in state.damages:
        log.warning("%s: left out", damage)
    Index.remove(path)
    index = Index(path, options.index_cache_size_pages)
    try:
        messages = _load(index, state, noted)
        if is_written:
            _complete(scheduler, noted)
            index.job_position = scheduler.last_batch or index.job_position
        _load_jobs(index, scheduler)
        index.checkpoint(time.time_ns() // 1_000_000, force=True)
    except BaseException:
        index.close()
        raise
    log.info("made the index messages=%d seconds=%.1f", messages, time.monotonic() - began_s)
    return known(index), noted


def _load(index: Index, state: State, noted: Noted) -> int:
    """Fill an index; the number of messages."""
    with index.lock:
        loading = _Loading(index, noted)
        for name in noted.remarked.known:
            index.known.of(named_destination(name)).is_kept = True
        messages = loading.messages(state)
        for transaction in state.prepared.values():
            loading.prepared(transaction)
        loading.finish()
        for file, needed in [*state.ack_files.items(), *state.needed_files.items()]:
            for message_file in needed:
                index.refer(file, message_file)
        for producer, last in noted.remarked.producers.items():
            index.producers[producer] = max(last, index.producers.get(producer, -1))
        index.position = noted.last or BatchPlace(0, 0, 0)
    return messages


def _complete(scheduler: Scheduling, noted: Noted) -> None:
    """Give the scheduler's journal what stands behind its last command in the journal of the messages."""
    last: Command | None = None
    for _, command, is_copy in jobs_of(scheduler.records()):
        if not is_copy:
            last = command
    missing: list[Command] = []
    for command in reversed(noted.scheduled):
        if command == last:
            break
        missing.insert(0, command)
    else:
        if last is not None:
            return  # all that this store knows of is long since there, or a broker went on
    if missing:
        scheduler.append(missing)
        scheduler.force()


def _load_jobs(index: Index, scheduler: Scheduling) -> None:
    applier = Applier(index)
    with index.lock:
        for command, location, rescheduled in scheduler.jobs():
            assert isinstance(command, AddScheduledJob)
            applier.put_job(command, location, rescheduled)


class _Loading:
    """Rows of a new index.

    Args:
        index: new.
        noted: while the journal was read.
    """

    def __init__(self, index: Index, noted: Noted) -> None:
        self._index = index
        self._noted = noted
        self._sequence = 0
        self._rows: list[tuple[object, ...]] = []
        self._pending: list[tuple[int, int, int]] = []
        #: Sequence and level of messages that are acknowledged in doubt, by destination and id.
        self._places: dict[tuple[int, str], tuple[int, int]] = {}

    def messages(self, state: State) -> int:
        """All that are there, in the order in which they came to be."""
        index = self._index
        found: list[tuple[int, KnownDestination, StoredMessage, list[KnownSubscription]]] = []
        in_doubt = {(ack.destination, ack.message_id) for one in state.prepared.values() for ack in one.acknowledged}
        for destination, stored in state.destinations.items():
            known = index.known.of(destination)
            subscriptions = []
            for text, one in stored.subscriptions.items():
                subscription = KnownSubscription(
                    self._subscription(known, text, one.info_bytes, one.location, retroactive=one.retroactive),
                    text,
                    one.info_bytes,
                    one.location,
                    destination,
                    retroactive=one.retroactive,
                )
                known.subscriptions[text] = subscription
                subscriptions.append((subscription, one.pending))
            found += [
                (
                    message.order,
                    known,
                    message,
                    [subscription for subscription, pending in subscriptions if message.sequence in pending],
                )
                for message in stored.all()
            ]
        found.sort(key=lambda one: one[0])
        for _, known, message, waiting in found:
            sequence, level = self._add(known, message.message_id, message.location, len(waiting), VISIBLE)
            known.count += 1
            for subscription in waiting:
                subscription.count += 1
                self._pending.append((subscription.id, level, sequence))
            if (known.destination, message.message_id) in in_doubt:
                self._places[known.id, message.message_id] = sequence, level
        return len(found)

    def _subscription(
        self, known: KnownDestination, text: str, info: bytes, location: Location, *, retroactive: bool
    ) -> int:
        id = self._index.connection.execute(
            "INSERT INTO subscriptions (destination, text, info, retroactive, file, offset, size, count)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
            (known.id, text, info, retroactive, *location),
        ).lastrowid
        assert id is not None
        return id

    def _add(
        self, known: KnownDestination, message_id: str, location: Location, waiting: int, state: int
    ) -> tuple[int, int]:
        index, noted = self._index, self._noted
        self._sequence = sequence = self._sequence + 1
        index.written = index.given = sequence
        level = noted.levels.get(location, DEFAULT_LEVEL)
        known.levels.add(level)
        index.live[location.file] = index.live.get(location.file, 0) + 1
        producer, _, number = message_id.rpartition(":")
        if producer and len(number) < 19 and number.isdecimal():
            index.producers[producer] = max(int(number), index.producers.get(producer, -1))
        expiration = noted.expirations.get(location, 0)
        row = (sequence, known.id, level, message_id, id_hash(message_id), *location, expiration, waiting, state)
        self._rows.append(row)
        if len(self._rows) == _RECORDS:
            self._flush()
        return sequence, level

    def _flush(self) -> None:
        sql.insert(self._index.connection, sql.ADD, self._rows)
        sql.insert(self._index.connection, sql.PEND, self._pending)
        self._rows.clear()
        self._pending.clear()

    def prepared(self, transaction: StoredTransaction) -> None:
        """What a transaction in doubt has done."""
        self._flush()
        index, connection, xid = self._index, self._index.connection, transaction.transaction_id
        if not isinstance(xid, XATransactionId):
            raise StoreError(f"the local transaction {xid} is prepared")
        operations: list[tuple[bool, int, int, int]] = []
        files: set[int] = set()
        for destination, message_id, location in transaction.added:
            sequence, _ = self._add(index.known.of(destination), message_id, location, 0, WAITING)
            operations.append((True, sequence, 0, location.file))
            files.add(location.file)
        self._flush()
        for ack, at in zip(transaction.acknowledged, transaction.acknowledged_at, strict=True):
            known = index.known.of(ack.destination)
            place = self._places.get((known.id, ack.message_id))
            if place is None:
                continue
            sequence, level = place
            files.add(at.file)
            if ack.subscription_key is None:
                connection.execute("UPDATE messages SET state = ? WHERE sequence = ?", (HIDDEN, sequence))
                known.count -= 1
                operations.append((False, sequence, 0, at.file))
                continue
            subscription = known.subscriptions.get(ack.subscription_key)
            if subscription is None:
                continue
            values = (subscription.id, level, sequence)
            if connection.execute(sql.ACKNOWLEDGE, values).rowcount:
                subscription.count -= 1
                operations.append((False, sequence, subscription.id, at.file))
        last = (index.live and max(index.live)) or 0
        id = connection.execute(
            "INSERT INTO transactions (format, global, branch, first_file, last_file) VALUES (?, ?, ?, ?, ?)",
            (xid.format_id, xid.global_transaction_id, xid.branch_qualifier, min(files, default=last), last),
        ).lastrowid
        connection.executemany(
            "INSERT INTO operations VALUES (?, ?, ?, ?, ?, ?)",
            [(id, place, *operation) for place, operation in enumerate(operations)],
        )

    def finish(self) -> None:
        """The last rows."""
        self._flush()
