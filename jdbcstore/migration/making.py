"""``migrate``: copy, compare, let brokers in."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TextIO

from jdbcstore.config.inspection import check_url, is_journal
from jdbcstore.config.urls import kahadb_options
from jdbcstore.destination import Destination, Queue
from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.migration.contents import Contents
from jdbcstore.migration.copying import Copy
from jdbcstore.migration.directories import check_directory, directory_target
from jdbcstore.migration.holding import location_of
from jdbcstore.migration.journals import contents_of_journals, scheduler_of
from jdbcstore.migration.marker import Marker
from jdbcstore.migration.progress import shown
from jdbcstore.migration.summary import Summarizing, Summary, transaction_name
from jdbcstore.migration.tables import contents_of_tables
from jdbcstore.migration.target import Target, check_table_target, table_target
from jdbcstore.store.contract import SupportsTransactions

__all__ = ["Migrated", "Moved", "Showing", "migrate", "migrate_contents"]

#: How often progress is told, in messages.
_TOLD_EVERY: Final = 200
_KAHADB: Final = "kahadb:"


@dataclass
class Moved:
    """What was done about one destination.

    Args:
        messages, bytes: how many, and what they take as they are compared; in a dry run what is stored.
        content: a hash of them and their order, the same in both stores; empty in a dry run.
        seconds: from its first message to its last; destinations that are mixed take turns.
    """

    messages: int = 0
    bytes: int | None = 0
    content: str = ""
    seconds: float = 0.0


@dataclass
class Migrated:
    """What a migration did, or would do.

    Args:
        source, target: without passwords.
        is_dry: whether nothing was done.
        is_live: whether a broker was at work on the source: what it did since is not in the target.
        is_resumed: whether an earlier run had begun it.
        messages, bytes: of all destinations.
        copied: how many messages were copied by this run.
        destinations: by name.
        subscriptions: by topic, client and name: how many messages each waits for.
        transactions: prepared ones by name: added + removed + acknowledged, and a hash of them.
        jobs: how many scheduled messages.
        producers: how many producers' numbers.
        damages: what could not be read and was left out.
        damages_unlisted: how many more there are.
        seconds: all of it.
    """

    source: str
    target: str
    is_dry: bool = False
    is_live: bool = False
    is_resumed: bool = False
    messages: int = 0
    bytes: int = 0
    copied: int = 0
    destinations: dict[str, Moved] = field(default_factory=dict)
    subscriptions: dict[str, int] = field(default_factory=dict)
    transactions: dict[str, str] = field(default_factory=dict)
    jobs: int = 0
    producers: int = 0
    damages: list[str] = field(default_factory=list)
    damages_unlisted: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Showing:
    """Where and how progress is shown.

    Args:
        stream: where to; a bar if it is a terminal, else lines.
        is_quiet: whether nothing is shown.
    """

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    is_quiet: bool = False

    def say(self, line: str) -> None:
        """Say something."""
        if not self.is_quiet:
            print(line, file=self.stream, flush=True)


def migrate(
    source: str,
    target: str,
    *,
    is_dry: bool = False,
    skips_damage: bool = False,
    prioritized: Collection[Destination] = (),
    scheduler: Path | None = None,
    showing: Showing | None = None,
) -> Migrated:
    """Bring everything of a store into an empty one of any kind, and compare them.

    It may be run again after anything, and goes on where it stopped. Until it is complete no broker gets the target.

    Args:
        source: the URL of a SQL store, or ``kahadb:DIRECTORY``. A broker may be at work on it: what is migrated is what
            is there when the migration begins.
        target: the same, of an empty store; what is missing of it is made.
        is_dry: only say what would be done.
        skips_damage: leave out what cannot be read, and list it.
        prioritized: destinations whose messages are ordered by priority, beside those that show it; wildcards too.
        scheduler: of KahaDB: the directory of scheduled messages; None for ``scheduler`` in the directory or beside it.
        showing: how progress is shown; None for not at all.

    Raises:
        ConfigurationError: one of the stores cannot be used so; the text says why.
        LockHeld: a broker or another migration has the target.
        StoreError: they cannot be read or written, or are not alike afterwards.
    """
    began = time.monotonic()
    showing = showing or Showing(is_quiet=True)
    with _contents(source, scheduler, skips_damage=skips_damage) as contents:
        contents.prioritized |= _named(contents, prioritized)
        if contents.is_live:
            showing.say("a broker is at work on the source: what it does from now on is not migrated")
        if is_dry:
            done = _looked_at(contents, _checked(target))
        else:
            queues = [
                one for one, messages in contents.destinations().items() if isinstance(one, Queue) and not messages
            ]
            with _target(target, contents.name, queues) as held:
                if held.name == contents.name:
                    raise ConfigurationError("source and target are the same store")
                done = migrate_contents(contents, held, showing)
    done.seconds = round(time.monotonic() - began, 3)
    return done


def _contents(source: str, scheduler: Path | None, *, skips_damage: bool) -> AbstractContextManager[Contents]:
    if is_journal(source):
        directory = kahadb_options(source)[0] if source.startswith(_KAHADB) else Path(source)
        return contents_of_journals(directory, scheduler or scheduler_of(directory), skips_damage=skips_damage)
    check_url(source)
    return contents_of_tables(location_of(source), skips_damage=skips_damage)


def _target(target: str, source: str, queues: Collection[Queue]) -> AbstractContextManager[Target]:
    if target.startswith(_KAHADB):
        return directory_target(target, queues)
    if str(location_of(target)) == source:
        raise ConfigurationError("source and target are the same store")
    return table_target(target, source, queues)


def _checked(target: str) -> str:
    return check_directory(target) if target.startswith(_KAHADB) else check_table_target(target)


def _named(contents: Contents, patterns: Collection[Destination]) -> frozenset[Destination]:
    found = contents.destinations() if patterns else {}
    return frozenset(one for one in found if any(pattern.matches(one) for pattern in patterns))


def _looked_at(contents: Contents, target: str) -> Migrated:
    done = Migrated(contents.name, target, is_dry=True, is_live=contents.is_live)
    sizes = contents.sizes()
    for destination, messages in sorted(contents.destinations().items(), key=lambda one: str(one[0])):
        size = None if sizes is None else sizes.get(destination, 0)
        done.destinations[destination.qualified_name] = Moved(messages, size)
        done.messages += messages
        done.bytes += size or 0
    done.transactions = {transaction_name(xid): "" for xid in contents.in_doubt}
    done.jobs = sum(1 for _ in contents.jobs())
    done.producers = len(contents.producers() or {})
    done.subscriptions = {
        f"{info.destination} {info.key.client_id}/{info.key.subscription_name}": 0 for info in contents.subscriptions()
    }
    done.damages, done.damages_unlisted = contents.damages.listed, contents.damages.unlisted
    return done


class _Changed(Exception):
    """What an earlier run copied is not in the source any more as it was."""


def migrate_contents(contents: Contents, target: Target, showing: Showing | None = None) -> Migrated:
    """Copy everything into a store that is held, compare, and let brokers in.

    Args:
        contents: of the source.
        target: empty, or what an earlier run has left.
        showing: how progress is shown.

    Raises:
        As `migrate`.
    """
    showing = showing or Showing(is_quiet=True)
    done = Migrated(contents.name, target.name, is_live=contents.is_live)
    try:
        _run(contents, target, showing, done)
    except _Changed:
        # A live source, or one on which a broker has worked since the run before: nothing of that copy holds.
        showing.say("the source has changed since the run before: beginning anew")
        target.empty()
        contents.damages.listed.clear()
        _run(contents, target, showing, done)
    return done


def _run(contents: Contents, target: Target, showing: Showing, done: Migrated) -> None:
    marker = Marker(target.adapter, contents.name, has_begun=bool(target.found()))
    is_resumed = marker.place >= 0
    done.is_resumed = done.is_resumed or is_resumed
    marker.begin()
    copying = _Copying(contents, target, marker, showing)
    summary = copying.run()
    done.copied += copying.copied
    with target.contents(contents.prioritized) as found:
        different = _differences(contents, summary, found, showing)
    if different and is_resumed:
        raise _Changed
    if different:
        more = f" and {len(different) - 5} more" if len(different) > 5 else ""
        raise StoreError(
            f"the stores are not alike: {'; '.join(different[:5])}{more}. The target stays closed to brokers; empty it,"
            " and run the migration again"
        )
    seconds = copying.seconds
    for name, digest in sorted(summary.destinations.items()):
        content = f"{digest.content:016x}"
        done.destinations[name] = Moved(digest.messages, digest.bytes, content, round(seconds[name], 3))
    done.messages = summary.messages
    done.bytes = sum(one.bytes for one in summary.destinations.values())
    done.subscriptions = {name: one.messages for name, one in summary.subscriptions.items()}
    done.transactions, done.jobs = summary.prepared, len(summary.jobs)
    done.producers = len(contents.producers() or {})
    done.damages, done.damages_unlisted = contents.damages.listed, contents.damages.unlisted
    target.finish(marker)


class _Copying:
    """Reading the source once: what an earlier run has copied is only counted, the rest is copied."""

    def __init__(self, contents: Contents, target: Target, marker: Marker, showing: Showing) -> None:
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

    def run(self) -> Summary:
        """What the source comes to, when all of it is in the target."""
        contents, place = self._contents, self._marker.place
        summarizing = Summarizing(contents.subscriptions())
        before: dict[Destination, int] = defaultdict(int)
        with _step(self._showing, "copying") as self._tell:
            copy = Copy(self._target.adapter, contents, self._marker, self._committed)
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

    def _require_unchanged(self, copy: Copy, before: dict[Destination, int]) -> None:
        """What was copied has to be what stands up to the marker, by counting; the comparison at the end is exact."""
        adapter = self._target.adapter
        if isinstance(adapter, SupportsTransactions) and adapter.transaction_store().prepared_transactions():
            return  # all messages were copied, and some of them do not count
        if copy.count({*before, *adapter.destinations()}) != sum(before.values()):
            raise _Changed


def _differences(contents: Contents, summary: Summary, found: Contents, showing: Showing) -> list[str]:
    summarizing = Summarizing(found.subscriptions())
    with _step(showing, "comparing") as tell:
        for number, stored in enumerate(found.messages()):
            summarizing.message(stored)
            if number % _TOLD_EVERY == 0:
                tell(number, summary.messages)
    different = summary.differences(summarizing.finish(found))
    known = found.destinations()
    different += [
        f"{destination}: not known there"
        for destination in contents.destinations()
        if isinstance(destination, Queue) and destination not in known
    ]
    remembered = found.producers()
    if remembered is not None:
        producers = (contents.producers() or {}).items()
        different += [f"producer {one}" for one, last in producers if remembered.get(one, -1) < last]
    return different


@contextmanager
def _step(showing: Showing, title: str) -> Iterator[Callable[[int, int], None]]:
    began = time.monotonic()
    with shown(title, showing.stream, "messages", is_quiet=showing.is_quiet) as tell:
        yield tell
    if not showing.stream.isatty():
        showing.say(f"{title}: done in {time.monotonic() - began:.1f} s")
