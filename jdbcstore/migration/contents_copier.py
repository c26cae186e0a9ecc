"""In this process, through the contract: from a store of any kind into another of any kind."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from jdbcstore.destination import Destination, Queue
from jdbcstore.migration.contents import Contents
from jdbcstore.migration.contents_copy import ContentsCopy
from jdbcstore.migration.marker import Marker
from jdbcstore.migration.migrated import Migrated, Moved
from jdbcstore.migration.progress import Showing
from jdbcstore.migration.summary import Summarizing, Summary, transaction_name
from jdbcstore.migration.target import ContentsTarget
from jdbcstore.store.contract import SupportsTransactions

__all__ = ["ContentsCopier"]

#: How often progress is told, in messages.
_TOLD_EVERY: Final = 200


class _Changed(Exception):
    """What an earlier run copied is not in the source any more as it was."""


class ContentsCopier:
    """Reads contents, and adds them to a store that is started.

    Args:
        contents: of the source.
        showing: how progress is shown.
    """

    advice = "empty it, and run the migration again"

    def __init__(self, contents: Contents, showing: Showing) -> None:
        self._contents = contents
        self._showing = showing

    def survey(self, done: Migrated) -> None:
        contents = self._contents
        sizes = contents.sizes()
        for destination, messages in sorted(contents.destinations().items(), key=lambda one: str(one[0])):
            size = None if sizes is None else sizes.get(destination, 0)
            done.count(destination.qualified_name, Moved(messages, size))
        done.transactions = {transaction_name(xid): "" for xid in contents.in_doubt}
        done.jobs = sum(1 for _ in contents.jobs())
        done.subscriptions = {
            f"{info.destination} {info.key.client_id}/{info.key.subscription_name}": 0
            for info in contents.subscriptions()
        }
        self._tell_rest(done)

    def _tell_rest(self, done: Migrated) -> None:
        contents = self._contents
        done.producers = len(contents.producers() or {})
        done.damages, done.damages_unlisted = contents.damages.listed, contents.damages.unlisted

    def copy(self, target: ContentsTarget, done: Migrated) -> list[str]:
        try:
            return self._copy(target, done)
        except _Changed:
            # A live source, or one on which a broker has worked since the run before: nothing of that copy holds.
            self._showing.say("the source has changed since the run before: beginning anew")
            target.empty()
            self._contents.damages.listed.clear()
            return self._copy(target, done)

    def _copy(self, target: ContentsTarget, done: Migrated) -> list[str]:
        marker = target.marker(self._contents.name)
        is_resumed = marker.place >= 0
        done.is_resumed = done.is_resumed or is_resumed
        marker.begin()
        run = _Run(self._contents, target, marker, self._showing)
        summary = run.copy()
        done.copied += run.copied
        with target.contents(self._contents.prioritized) as found:
            different = _differences(self._contents, summary, found, self._showing)
        if different and is_resumed:
            raise _Changed
        self._tell(done, summary, run.seconds)
        return different

    def _tell(self, done: Migrated, summary: Summary, seconds: dict[str, float]) -> None:
        for name, digest in sorted(summary.destinations.items()):
            done.count(name, Moved(digest.messages, digest.bytes, digest.words, round(seconds[name], 3)))
        done.subscriptions = {name: one.messages for name, one in summary.subscriptions.items()}
        done.transactions, done.jobs = summary.prepared, len(summary.jobs)
        self._tell_rest(done)


class _Run:
    """Reading the source once: what an earlier run has copied is only counted, the rest is copied."""

    def __init__(self, contents: Contents, target: ContentsTarget, marker: Marker, showing: Showing) -> None:
        self._contents = contents
        self._target = target
        self._marker = marker
        self._showing = showing
        self._passed = 0
        self._tell: Callable[[int, int], None] = lambda done, known: None
        self._total = sum(contents.destinations().values())
        #: How many messages were committed.
        self.copied = 0
        #: By destination, when its first message was read, and when its last one was handed over.
        self._first: dict[Destination, float] = {}
        self._last: dict[Destination, float] = {}

    @property
    def seconds(self) -> dict[str, float]:
        """How long each destination took."""
        return {one.qualified_name: last - self._first[one] for one, last in self._last.items()}

    def copy(self) -> Summary:
        """What the source comes to, when all of it is in the target."""
        contents, place = self._contents, self._marker.place
        summarizing = Summarizing(contents.subscriptions())
        before: dict[Destination, int] = defaultdict(int)
        with self._showing.step("copying", "messages") as self._tell:
            copy = ContentsCopy(self._target.adapter, contents, self._marker, self._committed)
            is_checked = place < 0
            for stored in contents.messages():
                self._first.setdefault(stored.destination, time.monotonic())
                summarizing.message(stored)
                if stored.place <= place:
                    before[stored.destination] += 1
                    self._pass(1)
                else:
                    if not is_checked:
                        self._require_unchanged(copy, before)
                        is_checked = True
                    copy.add(stored)
                self._last[stored.destination] = time.monotonic()
            if not is_checked:
                self._require_unchanged(copy, before)
            copy.finish()
            self._tell(self._passed, self._passed)  # what nobody waits for was counted, and not met
        return summarizing.finish(contents)

    def _committed(self, messages: int) -> None:
        self.copied += messages
        self._pass(messages)

    def _pass(self, messages: int) -> None:
        self._passed += messages
        if messages > 1 or self._passed % _TOLD_EVERY == 0:
            self._tell(self._passed, self._total)

    def _require_unchanged(self, copy: ContentsCopy, before: dict[Destination, int]) -> None:
        """What was copied has to be what stands up to the marker, by counting; the comparison at the end is exact."""
        adapter = self._target.adapter
        if isinstance(adapter, SupportsTransactions) and adapter.transaction_store().prepared_transactions():
            return  # all messages were copied, and some of them do not count
        if copy.count({*before, *adapter.destinations()}) != sum(before.values()):
            raise _Changed


def _differences(contents: Contents, summary: Summary, found: Contents, showing: Showing) -> list[str]:
    summarizing = Summarizing(found.subscriptions())
    with showing.step("comparing", "messages") as tell:
        for number, stored in enumerate(found.messages()):
            summarizing.message(stored)
            if number % _TOLD_EVERY == 0:
                tell(number, summary.messages)
    different = summary.differences(summarizing.finish(found))
    known = found.destinations()
    different += [
        f"{destination}: not known there"
        for destination, messages in contents.destinations().items()
        if isinstance(destination, Queue)
        and destination not in known
        and (not messages or destination.qualified_name in summary.destinations)  # else none of them could be read
    ]
    remembered = found.producers()
    if remembered is not None:
        producers = (contents.producers() or {}).items()
        different += [f"producer {one}" for one, last in producers if remembered.get(one, -1) < last]
    return different
