"""Why a KahaDB store is full: what keeps each journal file, by the rules of ActiveMQ's cleanup.

Pure: what `Pins` says is all that a broker looks at. A file is removed unless

1. it is the one of the last record in the index, or a later one, or the last of all;
2. it holds the newest producer audit, or the newest map of acknowledgements;
3. it lies between the first and the last operation of all transactions that are open;
4. it holds a live message;
5. it holds the record of a durable subscription. If this is the first file that could go, and nothing waits for the
   subscription, the record is written anew at the journal's end instead;
6. it acknowledges messages of a file that exists and is kept. Files are asked once, in ascending order.

By rule 6 one message may keep a chain of files. Source of the rules: ActiveMQ 5.17.2, what its brokers kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from jdbcstore.destination import Destination
from jdbcstore.identifiers import TransactionId
from jdbcstore.store.journal.kahadb.journal import Location
from jdbcstore.store.journal.state import State, StoredMessage, StoredTransaction

__all__ = ["Diagnosis", "FileDiagnosis", "Freed", "Held", "Holder", "Pins", "Span", "SubscriptionPin", "removable"]

#: What somebody can do something about: consume a destination, end a transaction.
Holder: TypeAlias = Destination | TransactionId

_NOBODY: Final[frozenset[Holder]] = frozenset()


class Held(NamedTuple):
    """Live messages of one destination in one file."""

    messages: int
    bytes: int
    """Of their records."""
    first: StoredMessage


class SubscriptionPin(NamedTuple):
    """Where the record of a durable subscription stands."""

    file: int
    destination: Destination
    key: str
    idle: bool
    """Whether nothing waits for it."""


class Span(NamedTuple):
    """From the first to the last operation of an open transaction."""

    transaction_id: TransactionId
    first: Location
    last: Location
    prepared: bool


@dataclass(frozen=True, slots=True)
class Pins:
    """All that a cleanup looks at.

    Args:
        files: the sizes of the files that exist, in bytes, by number.
        last_update: the file of the last record that is in the index.
        live: live messages by file and destination.
        subscriptions: durable subscriptions.
        transactions: open transactions.
        acks: which file acknowledges messages of which files.
        audit: the file of the newest producer audit.
        ack_map: the file of the newest map of acknowledgements.
    """

    files: Mapping[int, int]
    last_update: int
    live: Mapping[int, Mapping[Destination, Held]] = field(default_factory=dict)
    subscriptions: Sequence[SubscriptionPin] = ()
    transactions: Sequence[Span] = ()
    acks: Mapping[int, AbstractSet[int]] = field(default_factory=dict)
    audit: int | None = None
    ack_map: int | None = None

    @property
    def current_from(self) -> int:
        """The first file that stays in any case; also if the index goes further than the journal."""
        return min(self.last_update, max(self.files, default=0))

    @classmethod
    def of(
        cls,
        state: State,
        files: Mapping[int, int],
        last_update: int,
        *,
        acks: Mapping[int, AbstractSet[int]] | None = None,
        audit: int | None = None,
        ack_map: int | None = None,
        running: bool = False,
    ) -> Pins:
        """What a state pins.

        Args:
            acks: the broker's map of acknowledgements, if its index tells; else that of the state.
            running: whether a broker runs; one that starts rolls back what is neither ended nor prepared.
        """
        live: dict[int, dict[Destination, Held]] = defaultdict(dict)
        subscriptions: list[SubscriptionPin] = []
        for destination, stored in state.destinations.items():
            for message in stored.all():
                held = live[message.location.file].get(destination)
                size = message.location.size
                if held is None:
                    held = Held(1, size, message)
                else:
                    first = message if message.order < held.first.order else held.first
                    held = Held(held.messages + 1, held.bytes + size, first)
                live[message.location.file][destination] = held
            subscriptions += [
                SubscriptionPin(one.location.file, destination, key, len(one.pending) <= 1)
                for key, one in stored.subscriptions.items()
            ]
        spans = [_span(one, prepared=True) for one in state.prepared.values() if one.operations]
        if running:
            spans += [_span(one, prepared=False) for one in state.unfinished.values() if one.operations]
        return cls(
            files=files,
            last_update=last_update,
            live=live,
            subscriptions=subscriptions,
            transactions=spans,
            acks=state.ack_files if acks is None else acks,
            audit=audit,
            ack_map=ack_map,
        )


def _span(transaction: StoredTransaction, *, prepared: bool) -> Span:
    return Span(transaction.transaction_id, min(transaction.operations), max(transaction.operations), prepared)


def removable(pins: Pins, without: AbstractSet[Holder] = _NOBODY) -> set[int]:
    """The files that the next cleanup removes.

    Args:
        without: destinations that are taken to be empty, and transactions that are taken to be ended.
    """
    return _cleanup(pins, without)[0]


def _cleanup(pins: Pins, without: AbstractSet[Holder]) -> tuple[set[int], set[SubscriptionPin]]:
    """Files that go, and subscriptions whose record is written anew."""
    left = {file for file in pins.files if file < pins.current_from}
    left -= {pins.audit, pins.ack_map}
    spans = [span for span in pins.transactions if span.transaction_id not in without]
    if spans:
        first, last = min(span.first for span in spans).file, max(span.last for span in spans).file
        left = {file for file in left if not first <= file <= last}
    left -= {file for file, held in pins.live.items() if any(holder not in without for holder in held)}
    moved: set[SubscriptionPin] = set()
    for subscription in pins.subscriptions:
        idle = subscription.idle or subscription.destination in without
        if idle and left and subscription.file == min(left):
            moved.add(subscription)
        else:
            left.discard(subscription.file)
    for file in sorted(left):
        if any(other in pins.files and other not in left for other in pins.acks.get(file, ())):
            left.discard(file)
    return left, moved


def _settled(pins: Pins, without: AbstractSet[Holder] = _NOBODY) -> set[int]:
    """The files that go sooner or later, if nothing else happens: a cleanup may make the next one possible."""
    gone: set[int] = set()
    for _ in range(len(pins.files) + 2):
        left, moved = _cleanup(pins, without)
        end = max(pins.files)
        # The newest audit is written anew when its file is the first one, the map when something went.
        audit = end if pins.audit is not None and pins.audit == min(pins.files) < pins.current_from else pins.audit
        ack_map = end if pins.ack_map is not None and left & set(pins.acks) else pins.ack_map
        if not left and not moved and audit == pins.audit:
            break
        gone |= left
        pins = replace(
            pins,
            files={file: size for file, size in pins.files.items() if file not in left},
            acks={file: acks for file, acks in pins.acks.items() if file not in left},
            subscriptions=[one._replace(file=end) if one in moved else one for one in pins.subscriptions],
            audit=audit,
            ack_map=ack_map,
        )
    return gone


class Freed(NamedTuple):
    """What goes when a holder lets go: files that are not removable now."""

    files: list[int]
    bytes: int


@dataclass(frozen=True, slots=True)
class FileDiagnosis:
    """One file, and what keeps it."""

    number: int
    bytes: int
    removable: bool
    current: bool
    """Whether it is the one of the last record in the index, or a later one."""
    held: Mapping[Destination, Held]
    subscriptions: Sequence[SubscriptionPin]
    transactions: Sequence[Span]
    audit: bool
    ack_map: bool
    acknowledges: Sequence[int]
    """Kept files whose messages it acknowledges."""
    chain: Sequence[int]
    """If only these keep it: from the first of them to a file that is kept for itself, the shortest way."""

    @property
    def live_bytes(self) -> int:
        """Bytes of live messages."""
        return sum(held.bytes for held in self.held.values())

    @property
    def messages(self) -> int:
        """Live messages."""
        return sum(held.messages for held in self.held.values())

    @property
    def for_itself(self) -> bool:
        """Whether something else than acknowledgements keeps it."""
        return bool(self.current or self.held or self.subscriptions or self.transactions or self.audit or self.ack_map)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All files, and what could be done."""

    files: Mapping[int, FileDiagnosis]
    """By number, ascending."""
    holders: Mapping[Holder, Freed]
    """Destinations with messages and open transactions, and what goes when they are consumed or ended; those that free
    most first."""
    everything: Freed
    """What goes if all of them are."""
    later: Sequence[int]
    """Files that go without that, but not with the next cleanup."""

    @classmethod
    def of(cls, pins: Pins) -> Diagnosis:
        """Look at what is pinned."""
        left, moved = _cleanup(pins, _NOBODY)
        kept = {file for file in pins.files if file not in left}
        files = {file: _file(pins, file, left, kept, moved) for file in sorted(pins.files)}
        files = {
            number: file if file.removable or file.for_itself else replace(file, chain=_chain(files, number))
            for number, file in files.items()
        }
        settled = _settled(pins)
        held: dict[Holder, int] = defaultdict(int)
        alone: set[Holder] = {span.transaction_id for span in pins.transactions}
        for file in files.values():
            holders = {*file.held, *(span.transaction_id for span in file.transactions)}
            # A subscription's record keeps its file only while something waits for it.
            holders |= {one.destination for one in file.subscriptions}
            for destination, one in file.held.items():
                held[destination] += one.bytes
            for holder in holders:
                held[holder] += 0
            if len(holders) == 1 and not file.current:
                alone |= holders
        freed = {
            # Who shares all his files with others frees none.
            holder: _freed(pins, {holder}, settled) if holder in alone else Freed([], 0)
            for holder in held
        }
        ordered = sorted(freed, key=lambda holder: (-freed[holder].bytes, -held[holder], str(holder)))
        return cls(
            files,
            {holder: freed[holder] for holder in ordered},
            _freed(pins, set(held), settled),
            sorted(settled - left),
        )

    def roots(self, number: int) -> list[Holder]:
        """Who keeps a file, itself or through its acknowledgements; nobody if it is removable, or kept for the broker's
        own records alone."""
        found: dict[Holder, None] = {}
        seen = {number}
        left = [number]
        while left:
            file = self.files[left.pop(0)]
            if file.removable:
                continue
            held = sorted(file.held.items(), key=lambda one: -one[1].bytes)
            found |= dict.fromkeys(destination for destination, _ in held)
            found |= dict.fromkeys(span.transaction_id for span in file.transactions)
            found |= dict.fromkeys(one.destination for one in file.subscriptions)
            following = [other for other in file.acknowledges if other not in seen]
            seen.update(following)
            left += following
        return list(found)


def _freed(pins: Pins, holders: AbstractSet[Holder], settled: AbstractSet[int]) -> Freed:
    files = sorted(_settled(pins, holders) - settled)
    return Freed(files, sum(pins.files[file] for file in files))


def _file(
    pins: Pins, number: int, left: AbstractSet[int], kept: AbstractSet[int], moved: AbstractSet[SubscriptionPin]
) -> FileDiagnosis:
    others = pins.acks.get(number, ())
    spans = [span for span in pins.transactions if span.first.file <= number <= span.last.file]
    if not spans and number not in left and any(span.first.file <= number for span in pins.transactions):
        # Between two of them: a broker keeps everything from the first operation of all to the last of all.
        spans = [] if all(span.last.file < number for span in pins.transactions) else list(pins.transactions)
    return FileDiagnosis(
        number=number,
        bytes=pins.files[number],
        removable=number in left,
        current=number >= pins.current_from,
        held=pins.live.get(number, {}),
        subscriptions=[one for one in pins.subscriptions if one.file == number and one not in moved],
        transactions=spans,
        audit=number == pins.audit,
        ack_map=number == pins.ack_map,
        acknowledges=[] if number in left else sorted(other for other in others if other in kept and other != number),
        chain=(),
    )


def _chain(files: Mapping[int, FileDiagnosis], number: int) -> list[int]:
    """The shortest way over acknowledgements to a file that is kept for itself."""
    came: dict[int, int] = {}
    left = [number]
    while left:
        at = left.pop(0)
        for other in files[at].acknowledges:
            if other in came or other == number:
                continue
            came[other] = at
            if files[other].for_itself:
                way = [other]
                while came[way[0]] != number:
                    way.insert(0, came[way[0]])
                return way
            left.append(other)
    return []
