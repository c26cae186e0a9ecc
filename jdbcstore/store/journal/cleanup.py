"""Journal files that nobody needs any more: which they are, and how they go.

By ActiveMQ's rules a file stays if it is the one that is written or a later one, if it lies between the first and the
last operation of a transaction in doubt, if a live message or the record of a durable subscription stands in it, or if
it acknowledges messages of a file that stays. The last rule makes chains: one message may keep many files.

Brokers forget that other records remove things, too: those that end a subscription or remove a destination. Without
them a rebuild of the index would bring back what they removed. Here such a file stays like one with acknowledgements
(`Index.ack_files`, `State.needed_files`).

What only stands in a file that is to go, and is still needed, is written again at the end of the journal first: a
subscription that nothing waits for, which queues are known although they are empty, how far producers came. A file is
removed behind a forced checkpoint, so no index needs it after a crash, and the lowest number goes first, so that no
acknowledgement goes before its message. That they go in this order after a power failure, too, needs the directory to
be forced in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from jdbcstore.store.journal import remarks
from jdbcstore.store.journal.commands import Subscription
from jdbcstore.store.journal.index import Index
from jdbcstore.store.journal.journal_directory import JournalDirectory, candidates, unneeded
from jdbcstore.store.journal.journal_writer import JournalWriter
from jdbcstore.store.journal.kept_queue import keeping
from jdbcstore.store.journal.known import KnownDestination, KnownSubscription
from jdbcstore.store.journal.records import Location
from jdbcstore.store.journal.store_format import StoreFormat, StoreOptions
from jdbcstore.store.journal.work import Part, Plan

__all__ = ["Cleanup"]

log = logging.getLogger(__name__)

#: Files that one cleanup removes; what is left goes with the next.
_FILES_MAX: Final = 200
#: Producers that one cleanup writes again; while there are more, nothing is removed.
_PRODUCERS_MAX: Final = 2000


class Checkpoint(Protocol):
    """Writes the index."""

    def __call__(self, *, force: bool = False) -> object:
        """With `force` it is on the disk then, whatever happens."""


class Cleanup:
    """Looks for files that are not needed. Runs in the thread that commits.

    Args:
        index: of the store.
        appender: of the journal.
        options: where files go.
        forget: told the number of a file before it goes.
        store_format: of the journal.
        archive: where files go that are not needed; None removes them.
    """

    def __init__(
        self,
        index: Index,
        appender: JournalWriter[Location],
        options: StoreOptions,
        forget: Callable[[int], object],
        store_format: StoreFormat,
        archive: Path | None,
    ) -> None:
        self._index = index
        self._appender = appender
        self._options = options
        self._forget = forget
        self._files = JournalDirectory(appender.directory, store_format.file_name, store_format.file_number, archive)
        #: No queue is known by a record before this file.
        self._known_from = 0
        #: Called when acknowledgements are to be written again.
        self.compact: Callable[[], object] = lambda: None
        self._runs_without = 0
        self._end_before = 0

    def run(self, commit: Callable[[Part], object], prove: Callable[[], object], checkpoint: Checkpoint) -> list[int]:
        """Remove what is not needed.

        Args:
            commit: makes a part durable, and applies it to the index.
            prove: raises `LeaseLost` if we are not master.
            checkpoint: writes the index.

        Returns:
            The files that are gone.

        Raises:
            StoreError, LeaseLost: something could not be written; nothing is removed then.
        """
        index = self._index
        checkpoint()
        with index.lock:
            found, moved = self._look()
        gone = sorted(found)[:_FILES_MAX]
        self._count(gone)
        if not gone:
            return []
        producers = index.producers_up_to(gone[-1], _PRODUCERS_MAX + 1)
        is_known_again = gone[-1] >= self._known_from
        moved = [(known, one) for known, one in moved if one.location[0] in gone]
        commit(_Again(moved, producers[:_PRODUCERS_MAX], with_known=is_known_again))
        self._appender.force()
        if is_known_again:
            self._known_from = index.position.file
        if len(producers) > _PRODUCERS_MAX:
            return []
        needs = {number: set(index.ack_files.get(number, ())) for number in gone}
        index.forget_files(gone)
        checkpoint(force=True)
        prove()
        return self._files.remove(gone, needs, self._forget)

    def _count(self, gone: Sequence[int]) -> None:
        """Compact acknowledgements when cleanups find nothing, by ActiveMQ's rules."""
        options, end = self._options, self._appender.end[0]
        self._runs_without = 0 if gone else self._runs_without + 1
        if options.enable_ack_compaction and self._runs_without >= max(1, options.compact_acks_after_no_gc):
            self._runs_without = 0
            if end == self._end_before or options.compact_acks_ignores_store_growth:
                self.compact()
            self._end_before = end

    def unneeded(self) -> set[int]:
        """The files that the next cleanup removes."""
        with self._index.lock:
            return self._look()[0]

    def kept_for_others(self) -> list[tuple[int, frozenset[int]]]:
        """Files that are kept only because they acknowledge messages of others, the lowest number first; and these."""
        index = self._index
        with index.lock:
            files = self._files.numbers()
            end = min(index.position.file, self._appender.end[0])
            left = candidates(files, end, index.live.keys(), index.transaction_files()) - index.subscription_files()
            there = set(files)
            return [
                (file, frozenset(index.ack_files.get(file, ())) & there - {file})
                for file in sorted(left - unneeded(left, files, index.ack_files))
            ]

    def _look(self) -> tuple[set[int], list[tuple[KnownDestination, KnownSubscription]]]:
        """Files that go, and subscriptions that have to be written again before."""
        index, files = self._index, self._files.numbers()
        end = min(index.position.file, self._appender.end[0])
        left = candidates(files, end, index.live.keys(), index.transaction_files())
        first = min(left, default=0)
        moved: list[tuple[KnownDestination, KnownSubscription]] = []
        for known in index.known:
            for one in known.subscriptions.values():
                if one.location[0] == first and one.count == 0 and not self._is_needed_by_others(known):
                    moved.append((known, one))
                else:
                    left.discard(one.location[0])
        gone = unneeded(left, files, index.ack_files)
        return gone, moved if first in gone else []

    def _is_needed_by_others(self, known: KnownDestination) -> bool:
        """Whether a rebuild that meets the subscriptions of a topic later would not find a message.

        A subscription may have taken over messages that others waited for, and a transaction in doubt may give one
        back.
        """
        took_over = any(one.retroactive and one.count for one in known.subscriptions.values())
        return took_over or self._index.is_in_doubt(known.id)


class _Again:
    """Records that stand in files that go, written again."""

    takes_room = False

    def __init__(
        self,
        subscriptions: Sequence[tuple[KnownDestination, KnownSubscription]],
        producers: Sequence[tuple[str, int]],
        *,
        with_known: bool,
    ) -> None:
        self._subscriptions = subscriptions
        self._producers = producers
        self._with_known = with_known
        self.size = 256 * (len(subscriptions) + len(producers))

    def looks(self) -> Sequence[int]:
        """Nothing."""
        return ()

    def plan(self, plan: Plan) -> None:
        for known, one in self._subscriptions:
            # Not retroactive: it has had what was there when it began.
            plan.record(Subscription(known.destination, one.text, info=one.info_bytes))
        for producer, last in self._producers:
            plan.record(remarks.still(producer, last))
        if self._with_known:
            plan.record(remarks.unknown())
            for known in plan.index.known:
                if known.is_kept:
                    for command in keeping(known.destination):
                        plan.record(command)
