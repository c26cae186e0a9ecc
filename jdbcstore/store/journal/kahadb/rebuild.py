"""What a Java broker makes of the journal when it has no index: it has to be what there is.

A start of ours overtakes the index of the broker that was here before (``db.data``), and so removes it; the next Java
broker makes it anew from the journal. There are directories in which that comes to something else than the index said:

* Behind the marker of an ack compaction a rebuild leaves out the rest of the file while the copied file exists. After a
  restart a broker writes new messages there. **The marker is told not to do so**: two bytes, nothing moves; the file is
  written anew beside itself and renamed, so it is there whole at any time.
* A compaction copies commits and acknowledgements behind all that came after them. So messages come last, or come back,
  or come to subscriptions that began later. **The file that was copied is made anew from the copies**, if it is gone.
* A compaction may separate acknowledgements from their commit: then they are forgotten. **They are written again.**
* A compaction copies no rollback and no prepare. So a branch (XA) that was rolled back may be in doubt again, and one
  in doubt may be forgotten. The index tells the first transaction in progress. **The record is written again.**
* Files with the end of a destination or a subscription may be gone while what it ended is not: then it is there again.
  **The end is written again**, if the index was closed in order and so can be believed.
* A copied acknowledgement may hit a message that came later under the same id. **The message is written again**, behind
  the others of its destination.

All that is on the disk before the index goes. Until then the index is as good as it was: no record has moved, and what
was appended, or stands in a file made anew, changes nothing for who has applied it already. After a crash at any point
the next start, ours or Java's, finds either index or journal sufficient, and ours begins anew.

What is not understood is refused while the index is still there.
"""

from __future__ import annotations

import logging
import os
import struct
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from jdbcstore.destination import Destination
from jdbcstore.errors import IndexDamaged, JournalDamaged, StoreError
from jdbcstore.store.journal.commands import (
    COMMANDS,
    AddMessage,
    Command,
    Commit,
    Prepare,
    RemoveMessage,
    RewrittenDataFile,
    Rollback,
    Subscription,
    UpdateMessage,
)
from jdbcstore.store.journal.file_errors import reading, writing
from jdbcstore.store.journal.file_replacement import replaced_file
from jdbcstore.store.journal.journal_writer import JournalWriter
from jdbcstore.store.journal.kahadb.appender import KAHADB
from jdbcstore.store.journal.kahadb.blank_index import is_brokers_index
from jdbcstore.store.journal.kahadb.branches import branches_by_index, last_update_of
from jdbcstore.store.journal.kahadb.encoding import encode
from jdbcstore.store.journal.kahadb.journal import (
    CONTROL,
    CONTROL_HEAD,
    FILE_PATTERN,
    Journal,
    JournalFile,
    Location,
    Record,
    file_name,
    up_to,
)
from jdbcstore.store.journal.kahadb.pagefile import IndexDestination, IndexMessage, PageFile
from jdbcstore.store.journal.kept_queue import keeping
from jdbcstore.store.journal.known import destination_name
from jdbcstore.store.journal.replay import Replay
from jdbcstore.store.journal.state import State, StoredDestination, StoredSubscription

__all__ = ["make_rebuild_complete", "rebuilt"]

log = logging.getLogger(__name__)

#: Of one write.
_BATCH_BYTES: Final = 1 << 20
_COPY_BYTES: Final = 4 << 20
#: In one batch of a file that is made anew.
_COPIES: Final = 1000
_MARKER: Final = COMMANDS.index(RewrittenDataFile)
#: Size of a record, its type, and the kind of its command.
_RECORD_HEAD: Final = struct.Struct(">ibb")
#: Ends of a marker: the kind of rewriting, or that the file is skipped, and in its place that it is not.
_SKIPS: Final = (b"\x10\x01", b"\x18\x01")
_SKIPS_NOT: Final = b"\x18\x00"

#: Who waits for a message: durable subscriptions, or None for the consumers of a queue.
_Waiting: TypeAlias = frozenset[str | None]
_NOBODY: Final[_Waiting] = frozenset()
_CONSUMERS: Final[_Waiting] = frozenset((None,))
_Place: TypeAlias = tuple[Destination, str]


def rebuilt(journal: Journal) -> State:
    """What a Java broker has that makes its index anew.

    Raises:
        StoreError: a file cannot be read.
    """
    progress = Replay(journal.files)
    progress.apply(_brokers_records(journal.records(), journal.files))
    return progress.finish()


def _brokers_records(records: Iterable[Record], files: Collection[int]) -> Iterator[Record]:
    """What a rebuild reads; copies are records like others for it."""
    skipped = -1
    for record in records:
        location, command = record
        if location.file == skipped:
            continue
        if not isinstance(command, RewrittenDataFile):
            yield record
        elif command.skip_if_source_exists and command.source in files:
            skipped = location.file


def make_rebuild_complete(
    directory: Path,
    index_directory: Path,
    appender: JournalWriter[Location],
    state: State,
    remarked: Collection[str] = (),
    kept: Callable[[Destination], bool] = lambda _: False,
    *,
    ignores_missing: bool = False,
) -> bool:
    """See to it that a broker's rebuild comes to what there is.

    Args:
        directory: of the journal.
        index_directory: of the broker's index, if there is one.
        appender: open.
        state: what the journal tells.
        remarked: names of queues that it says are to be known although they are empty.
        kept: whether a queue that the index knows is to be.
        ignores_missing: whether messages that only the index knows, and whose records are gone, are given up.

    Returns:
        Whether the journal was changed; then it has to be read again.

    Raises:
        StoreError: the disk refuses, or a rebuild would lose something that cannot be written again. A broker's index
            is as good as before.
    """
    if _put_back_copies(directory, state):
        return True
    skipping = state.skipped_files | {lost.marker.file for lost in state.lost_by_broker}
    for number in sorted(skipping):
        _read_on(directory / file_name(number), number)
    if skipping:
        log.warning(
            "a broker that has to make its index anew would have left out messages behind the copies of an ack"
            " compaction, and is told to read them directory=%s files=%s messages=%d",
            directory,
            ", ".join(map(file_name, sorted(skipping))),
            sum(len(lost.messages) for lost in state.lost_by_broker),
        )
    believed = _believed(directory, index_directory, state)
    journal = Journal(directory)
    theirs = rebuilt(journal) if state.rewritten_files else state
    _refuse_other_transactions(directory, state, theirs)
    commands = list(_Differences(journal, state, theirs, believed, ignores_missing=ignores_missing).commands())
    commands += [keeping(queue) for queue in believed.queues if kept(queue) and destination_name(queue) not in remarked]
    if commands:
        log.warning(
            "written again, what a broker that makes its index anew would not know directory=%s records=%d",
            directory,
            sum(map(len, commands)),
        )
        _append(appender, commands)
    return bool(skipping or commands)


def _put_back_copies(directory: Path, state: State) -> bool:
    """Make the files anew that ack compactions have copied, with what is left of them; whether there are such."""
    journal = Journal(directory)
    there = set(journal.files)
    for number in sorted(state.misplaced_files):
        source, copies = _copies(journal, number)
        if source in there or not 0 < source < number:
            continue
        _read_on(directory / file_name(number), number)
        _put_back(directory / file_name(source), source, copies)
        there.add(source)
        log.info(
            "made a journal file anew that an ack compaction has copied directory=%s file=%s records=%d",
            directory,
            file_name(source),
            len(copies),
        )
    return len(there) > len(journal.files)


def _copies(journal: Journal, number: int) -> tuple[int, list[Commit | RemoveMessage]]:
    """What a file begins with if it is one with copies: the number of the file that was copied, and what is left."""
    copies: list[Commit | RemoveMessage] = []
    with journal.opened(number) as file:
        records = JournalFile(file, number).records()
        _, marker = next(records, (None, None))
        if not isinstance(marker, RewrittenDataFile):
            return 0, copies
        for _, command in records:
            if not isinstance(command, Commit | RemoveMessage):
                break
            copies.append(command)
    return marker.source, copies


def _put_back(path: Path, number: int, copies: Iterable[Command]) -> None:
    payloads = [encode(copy) for copy in copies]
    offset = 0
    with writing(str(path)), replaced_file(path, FILE_PATTERN) as file:
        for first in range(0, len(payloads), _COPIES):
            batch = payloads[first : first + _COPIES]
            size = KAHADB.batch_size(batch)
            file.write(KAHADB.batch(batch, size, number, offset).data, offset)
            offset += size


def _refuse_other_transactions(directory: Path, state: State, theirs: State) -> None:
    def listed(of: State) -> dict[object, tuple[object, object]]:
        return {key: (one.added, one.acknowledged) for key, one in of.prepared.items()}

    if listed(state) != listed(theirs):
        raise StoreError(
            f"{directory}: a Java broker that makes its index anew would not know the {len(state.prepared)}"
            " transactions in doubt that there are, with all that they do. Its index is still there: let its own broker"
            " start and its transaction manager decide about them, or run 'jdbcstore kahadb repair' to a new directory"
        )


def _append(appender: JournalWriter[Location], groups: Iterable[list[Command]]) -> None:
    """Write these records and force them to the disk; each group is there as a whole or not at all."""
    payloads: list[bytes] = []
    for group in groups:
        if sum(map(len, payloads)) > _BATCH_BYTES:
            appender.append(payloads)
            payloads = []
        payloads += [encode(command) for command in group]
    appender.append(payloads)
    appender.force()


# --- the marker -------------------------------------------------------------------------------------------------------


def _read_on(path: Path, number: int) -> None:
    """Write a file anew; a rebuild goes on behind its markers."""
    with reading(str(path)):
        source = path.open("rb")
    with source, writing(str(path)), replaced_file(path, FILE_PATTERN) as target:
        size = os.fstat(source.fileno()).st_size
        for offset in range(0, size, _COPY_BYTES):
            chunk = source.read(_COPY_BYTES)
            if chunk.count(0) < len(chunk):
                target.write(chunk, offset)
        target.truncate(size)
        for offset, data, start, end, checksum in JournalFile(source, number).batches():
            records = _without_skip(data[start:end])
            if records is not None:
                checksum = checksum and zlib.adler32(records)
                target.write(CONTROL.pack(CONTROL_HEAD, end - start, checksum) + records, offset)


def _without_skip(records: bytes) -> bytes | None:
    """The records of a batch with markers that leave nothing out; None if there is no other one in it."""
    changed = bytearray(records)
    o = 0
    while o + _RECORD_HEAD.size < len(records):
        size, _, kind = _RECORD_HEAD.unpack_from(records, o)
        if size <= _RECORD_HEAD.size:
            break
        if kind == _MARKER and not records.endswith(_SKIPS_NOT, o, o + size):
            if not records.endswith(_SKIPS, o, o + size):
                raise StoreError(f"a marker of an ack compaction that is not known: {records[o : o + size].hex()}")
            changed[o + size - len(_SKIPS_NOT) : o + size] = _SKIPS_NOT
        o += size
    return None if changed == records else bytes(changed)


# --- the index --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Believed:
    """What a broker's index says otherwise than the journal, which has lost it.

    Args:
        over: messages that some wait for by the journal, and not by the index.
        ended: subscriptions that there are not any more.
        there: messages that the journal says are gone: where their records stand, and who waits.
        queues: that the index knows, also empty ones.
        branches: how transactions ended, or that they are in doubt.
    """

    over: dict[_Place, _Waiting] = field(default_factory=dict)
    ended: set[_Place] = field(default_factory=set)
    there: list[tuple[Destination, IndexMessage, _Waiting]] = field(default_factory=list)
    queues: list[Destination] = field(default_factory=list)
    branches: list[Rollback | Prepare] = field(default_factory=list)


def _believed(directory: Path, index_directory: Path, state: State) -> _Believed:
    """What the index of the broker that was here says otherwise.

    What it does not know although it stands in the journal is gone for this broker: it acknowledged it, or removed its
    destination or subscription, and the record of that is gone. One that was not closed in order is only asked about
    what nobody else can tell.
    """
    found = _Believed()
    if not is_brokers_index(index_directory):
        return found
    try:
        with PageFile(index_directory) as index:
            journal = Journal(directory)
            last = last_update_of(index, journal)
            if last is None:
                return found
            progress = Replay(journal.files)
            progress.apply(up_to(journal.records(), last))
            asked = None if index.closed_cleanly else set(state.perhaps_acknowledged)
            left = dict(progress.state.destinations)
            for indexed in index.destinations():
                if indexed.destination.is_queue:
                    found.queues.append(indexed.destination)
                stored = left.pop(indexed.destination, None) or StoredDestination(indexed.destination)
                _compare(found, indexed, stored, state, asked)
            for destination, stored in left.items():
                _compare(found, IndexDestination(destination, {}, lambda: iter(())), stored, state, asked)
            found.branches = branches_by_index(index, last, state)
    except IndexDamaged as error:
        log.warning(
            "the index of the broker cannot be read, the journal alone counts directory=%s: %s", directory, error
        )
        return _Believed()
    return found


def _compare(
    found: _Believed,
    indexed: IndexDestination,
    stored: StoredDestination,
    state: State,
    asked: set[_Place] | None,
) -> None:
    where = indexed.destination
    known: set[str] = set()
    for message in indexed.messages():
        known.add(message.message_id)
        waiting = _waiting_in_index(indexed, message)
        other = stored.get(message.message_id)
        if other is not None:
            _note_over(found, state, asked, where, message.message_id, _waiting(stored, other.message_id) - waiting)
        elif (
            asked is None
            and waiting
            and not _is_damaged(state, message.location)
            and not _waiting(state.destinations.get(where), message.message_id)
        ):
            found.there.append((where, message, waiting))
    for other in stored.all():
        if other.message_id not in known:
            _note_over(found, state, asked, where, other.message_id, _waiting(stored, other.message_id))
    if asked is None:
        now = state.destinations.get(where)
        found.ended |= {
            (where, key)
            for key in stored.subscriptions
            if key not in indexed.subscriptions
            and now is not None
            and key in now.subscriptions
            and now.subscriptions[key].location == stored.subscriptions[key].location
        }


def _note_over(
    found: _Believed, state: State, asked: set[_Place] | None, where: Destination, message_id: str, over: _Waiting
) -> None:
    if over and (asked is None or (where, message_id) in asked):
        over &= _waiting(state.destinations.get(where), message_id)
        if over:
            found.over[where, message_id] = over


def _waiting_in_index(indexed: IndexDestination, message: IndexMessage) -> _Waiting:
    if not indexed.destination.is_topic:
        return _CONSUMERS
    return frozenset(key for key, one in indexed.subscriptions.items() if message.sequence in one.pending)


def _waiting(stored: StoredDestination | None, message_id: str) -> _Waiting:
    message = None if stored is None else stored.get(message_id)
    if stored is None or message is None:
        return _NOBODY
    if not stored.destination.is_topic:
        return _CONSUMERS
    return frozenset(key for key, one in stored.subscriptions.items() if message.sequence in one.pending)


def _is_damaged(state: State, location: Location) -> bool:
    return any(one.file == location.file and one.offset <= location.offset < one.end for one in state.damages)


# --- what is written again --------------------------------------------------------------------------------------------


class _Differences:
    """What has to be written so that journal, rebuild and index say the same.

    Args:
        journal: of the directory.
        state: what it tells us.
        theirs: what it tells a broker's rebuild; the same object if that cannot be anything else.
        believed: what the index says otherwise.
        ignores_missing: as `make_rebuild_complete` has it.
    """

    def __init__(
        self, journal: Journal, state: State, theirs: State, believed: _Believed, *, ignores_missing: bool
    ) -> None:
        self._journal = journal
        self._state = state
        self._theirs = theirs
        self._believed = believed
        self._ignores_missing = ignores_missing

    def commands(self) -> Iterator[list[Command]]:
        """Groups of records; those of a group belong together."""
        for command in self._believed.branches:
            yield [command]
        yield from self._subscriptions()
        for where, message_id in self._places():
            commands = self._message(where, message_id)
            if commands:
                yield commands
        for where, message, waiting in self._believed.there:
            try:
                yield self._again(where, message.message_id, message.location, waiting)
            except JournalDamaged as error:
                if not self._ignores_missing:
                    raise JournalDamaged(
                        f"the broker's index knows the message {message.message_id} of {where}, and its record is gone:"
                        f" {error}. Restore the journal file, or run 'jdbcstore kahadb repair' to a new directory;"
                        " ignoreMissingJournalfiles=true starts without what is gone"
                    ) from error
                log.warning("lost is the message %s of %s: %s", message.message_id, where, error)

    def _subscriptions(self) -> Iterator[list[Command]]:
        for where in {*self._state.destinations, *self._theirs.destinations}:
            ours, theirs = self._of(self._state, where), self._of(self._theirs, where)
            for key in {*ours, *theirs}:
                if key not in ours or (where, key) in self._believed.ended:
                    yield [Subscription(where, key)]
                elif key not in theirs or theirs[key].info_bytes != ours[key].info_bytes:
                    yield [Subscription(where, key, False, ours[key].info_bytes)]

    @staticmethod
    def _of(state: State, where: Destination) -> Mapping[str, StoredSubscription]:
        stored = state.destinations.get(where)
        return {} if stored is None else stored.subscriptions

    def _places(self) -> Iterable[_Place]:
        """Messages that may be meant, in their order."""
        if self._theirs is self._state:
            return list(self._believed.over)
        found: dict[_Place, None] = {}
        for state in (self._state, self._theirs):
            for where, stored in state.destinations.items():
                found |= dict.fromkeys((where, message.message_id) for message in stored.messages())
        return found

    def _message(self, where: Destination, message_id: str) -> list[Command]:
        ended = {key for destination, key in self._believed.ended if destination == where}
        here = self._state.destinations.get(where)
        ours = _waiting(here, message_id) - ended
        theirs = _waiting(self._theirs.destinations.get(where), message_id) - ended
        wanted = ours - self._believed.over.get((where, message_id), _NOBODY)
        if ours == theirs == wanted:
            return []
        acknowledged = [RemoveMessage(None, where, message_id, None, key) for key in _sorted((ours | theirs) - wanted)]
        if wanted <= theirs:
            return list[Command](acknowledged)
        assert here is not None
        message = here.get(message_id)
        assert message is not None
        gone = [RemoveMessage(None, where, message_id, None, key) for key in _sorted(ours | theirs)]
        return [*gone, *self._again(where, message_id, message.location, wanted)]

    def _again(self, where: Destination, message_id: str, location: Location, wanted: _Waiting) -> list[Command]:
        """A message as if it had come just now, and who does not want it."""
        command = self._journal.read(location)
        add = command.message if isinstance(command, UpdateMessage) else command
        if not isinstance(add, AddMessage) or add.message_id != message_id:
            raise JournalDamaged(
                f"{location}: {message_id} of {where} is to stand here, and does not; a broker that makes its index"
                " anew would lose it. Run 'jdbcstore kahadb check', and 'jdbcstore kahadb repair' to a new directory"
            )
        keys = [key for key in self._of(self._state, where) if (where, key) not in self._believed.ended]
        return [
            AddMessage(None, where, message_id, add.message, add.priority, add.priority_supported),
            *(RemoveMessage(None, where, message_id, None, key) for key in keys if key not in wanted),
        ]


def _sorted(waiting: Iterable[str | None]) -> list[str | None]:
    return sorted(waiting, key=lambda key: key or "")
