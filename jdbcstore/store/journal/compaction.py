"""Acknowledgements written again, when they are all that a journal file is kept for.

A file with acknowledgements stays as long as the messages that they acknowledge can be read in other files, and may be
full of messages that are long gone. ActiveMQ copies such acknowledgements into a file of their own, behind a marker,
and after a restart writes new messages behind them; when it has to rebuild its index then, it leaves them out. Here the
copies are plain records at the end of the journal, in the order in which they were made, and nothing marks them for
brokers. So a rebuild of theirs and of ours reads them like any other.

What a copy at another place could change is not copied, and its file stays:

* the acknowledgement of a message whose id is there again: at the end it would take the new one;
* acknowledgements of a topic's messages from before a retroactive subscription, which has taken over what was not
  acknowledged then;
* commits, rollbacks and operations of transactions, ends of subscriptions and destinations, updates: they count where
  they stand.

Only acknowledgements of messages that can still be read somewhere are copied, and none if they are more than half of
their file, which would gain little. Reading happens in a thread of its own; the thread that commits writes some copies
at a time. With the last of them a remark says that the file is not needed any more, and the next cleanup removes it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from typing import Final

from jdbcstore.destination import Destination
from jdbcstore.errors import JdbcStoreError
from jdbcstore.store.completion import Completion
from jdbcstore.store.journal import remarks
from jdbcstore.store.journal.applier import SCHEDULER_COMMANDS, Hint
from jdbcstore.store.journal.cleanup import Cleanup
from jdbcstore.store.journal.commands import (
    AckMessageFileMap,
    AddMessage,
    ProducerAudit,
    RemoveMessage,
    Rollback,
    Trace,
    UpdateMessage,
)
from jdbcstore.store.journal.index import Index, id_hash
from jdbcstore.store.journal.kept_queue import KEEPING
from jdbcstore.store.journal.records import DirectoryJournal, Location, Record
from jdbcstore.store.journal.work import Part, Plan

__all__ = ["Compaction"]

log = logging.getLogger(__name__)

#: Copies in one batch.
_COPIES_MAX: Final = 1000
#: What may stand in a file that goes; what is said of jobs is in their journal, too. Anything else counts where it is.
_MAY_GO: Final = (AckMessageFileMap, AddMessage, ProducerAudit, RemoveMessage, Trace, *SCHEDULER_COMMANDS)
#: Records between two looks whether somebody wants us to stop.
_RECORDS_UNASKED: Final = 4096


class _Stays(Exception):
    """Why a file is not compacted."""


class _Stopped(Exception):
    """Somebody wants us to stop."""


class Compaction:
    """Writes the acknowledgements of one file at a time again.

    Args:
        index: of the store.
        cleanup: knows which files are kept for acknowledgements only.
        journal: opens the journal as it is now.
        write: has a part written, alone in its batch.
    """

    def __init__(
        self,
        index: Index,
        cleanup: Cleanup,
        journal: Callable[[], DirectoryJournal],
        write: Callable[[Part], Completion[None]],
    ) -> None:
        self._index = index
        self._cleanup = cleanup
        self._journal = journal
        self._write = write
        #: Files that stay, and the files that they were needed for: as long as that is so, nobody looks again.
        self._stays: dict[int, frozenset[int]] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Compact one file in a thread, unless one is being compacted."""
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._in_thread, name="jdbcstore-compaction", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                log.warning("acknowledgements are not compacted now, a later cleanup tries again error=%r", str(error))
            else:
                self._thread = thread

    def cancel(self) -> None:
        """Stop at the next opportunity."""
        self._stopping.set()

    def stop(self) -> None:
        """Stop, and wait until that is done."""
        self.cancel()
        if self._thread is not None:
            self._thread.join()

    def _in_thread(self) -> None:
        try:
            self.run()
        except JdbcStoreError as error:
            if not self._stopping.is_set():
                log.warning("acknowledgements cannot be written again: %s", error)

    def run(self) -> int | None:
        """Compact the first file that can be.

        Returns:
            Its number; the next cleanup removes it. None if there is none.

        Raises:
            StoreError, LeaseLost: a file cannot be read, or copies cannot be written. The file stays.
        """
        try:
            for number, needed_for in self._cleanup.kept_for_others():
                if self._stays.get(number) == needed_for:
                    continue
                try:
                    copies = self._compact(number, needed_for)
                except _Stays as reason:
                    self._stays[number] = needed_for
                    log.debug("journal file %d stays: %s", number, reason)
                else:
                    log.info("acknowledgements of journal file %d were written again records=%d", number, copies)
                    return number
        except _Stopped:
            pass
        return None

    def _compact(self, number: int, needed_for: frozenset[int]) -> int:
        journal = self._journal()
        copies = self._copies(journal, number, needed_for)
        chunks = [copies[i : i + _COPIES_MAX] for i in range(0, len(copies), _COPIES_MAX)] or [[]]
        for chunk in chunks:
            released = number if chunk is chunks[-1] else None
            part = _Copies(chunk, needed_for, released)
            self._write(part).result()
            if part.reason is not None:
                raise _Stays(part.reason)
        return len(copies)

    def _copies(
        self, journal: DirectoryJournal, number: int, needed_for: Collection[int]
    ) -> list[tuple[Location, RemoveMessage]]:
        """The acknowledgements of a file that are still needed."""
        removed: set[int] = set()
        added: set[int] = set()
        end = 0
        for location, command in self._records(journal, number):
            if not isinstance(command, _MAY_GO) and command != Rollback(KEEPING):
                raise _Stays(f"{location} is a {type(command).__name__}")
            if isinstance(command, RemoveMessage):
                if command.transaction is not None:
                    raise _Stays(f"{location} is part of a transaction")
                removed.add(hash((command.destination, command.message_id)))
            elif isinstance(command, AddMessage):
                added.add(hash((command.destination, command.message_id)))
            end = location.offset + location.size
        needed: set[int] = set()
        for other in sorted(needed_for):
            for location, command in self._records(journal, other):
                add = command.message if isinstance(command, UpdateMessage) else command
                if isinstance(add, AddMessage):
                    key = hash((add.destination, add.message_id))
                    if isinstance(command, UpdateMessage) and key in added:
                        # The older record tells its place, and keeps what acknowledged it before the update.
                        raise _Stays(f"{location} updates a message of it")
                    if key in removed:
                        needed.add(key)
        copies: list[tuple[Location, RemoveMessage]] = []
        size = 0
        for location, command in self._records(journal, number):
            if isinstance(command, RemoveMessage) and hash((command.destination, command.message_id)) in needed:
                copies.append((location, command._replace(ack=None)))
                size += location.size
                if 2 * size > end:
                    raise _Stays("more than half of it is needed")
        return copies

    def _records(self, journal: DirectoryJournal, number: int) -> Iterator[Record]:
        if number not in journal.files:
            return
        with journal.opened(number) as source:
            file = journal.file(source, number)
            records = chain.from_iterable(map(file.records_of, file.batches()))
            for place, record in enumerate(records):
                if place % _RECORDS_UNASKED == 0 and self._stopping.is_set():
                    raise _Stopped
                yield record
            if file.damages:
                raise _Stays(f"it is damaged: {file.damages[0]}")


def _live(index: Index, ids: Sequence[str]) -> Iterator[tuple[str, Destination, tuple[int, int]]]:
    """Id, destination and place of messages that are there and perhaps have one of these ids."""
    for row in index.rows_by_hash([id_hash(one) for one in ids]):
        yield row.message_id, index.known.by_id(row.destination).destination, (row.file, row.offset)


class _Copies:
    """Copies of acknowledgements.

    Args:
        copies: with the places of the originals.
        needed_for: the files whose messages they acknowledge.
        released: the file that is not needed any more with them.
    """

    takes_room = True

    def __init__(
        self, copies: Sequence[tuple[Location, RemoveMessage]], needed_for: Collection[int], released: int | None
    ) -> None:
        self._copies = copies
        self._needed_for = needed_for
        self._released = released
        #: Why nothing was done, if so.
        self.reason: str | None = None
        self.size = sum(location.size for location, _ in copies)

    def looks(self) -> Sequence[int]:
        """Nothing."""
        return ()

    def plan(self, plan: Plan) -> None:
        places = {(copy.message_id or "", copy.destination): location for location, copy in self._copies}
        for message_id, destination, place in _live(plan.index, [copy.message_id or "" for _, copy in self._copies]):
            location = places.get((message_id, destination))
            if location is not None and (destination.is_queue or place > location[:2]):
                self.reason = f"message {message_id} is there again"
                return
        for location, copy in self._copies:
            if copy.destination is not None and copy.destination.is_topic:
                known = plan.index.known.of(copy.destination)
                if any(one.retroactive and one.location > location for one in known.subscriptions.values()):
                    self.reason = f"a subscription to {copy.destination} began with what others had not acknowledged"
                    return
        if self._copies:
            plan.record(remarks.acknowledges(self._needed_for))
        for _, copy in self._copies:
            plan.record(copy, Hint())
        if self._released is not None:
            plan.record(remarks.compacted(self._released))
