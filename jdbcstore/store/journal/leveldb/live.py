"""What is in the store, in memory: messages by destination, what subscriptions wait for, what is in doubt.

Read by many threads and changed by the one that commits, both under `Live.lock`. Message bodies stay in the log.

A message's sequence is its key in the log. ActiveMQ counts them for each destination, this store goes on behind the
highest of all: so sequences of new messages grow over all destinations, and the old ones keep theirs.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Final

from jdbcstore.destination import Destination
from jdbcstore.identifiers import MessageId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.store.contract import PRIORITY_LEVELS
from jdbcstore.store.journal.asked_subscriptions import AskedSubscriptions
from jdbcstore.store.journal.leveldb.ordered import Ordered
from jdbcstore.store.journal.leveldb.state import Collection
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = [
    "Live",
    "LiveDestination",
    "LiveMessage",
    "LiveSubscription",
    "LiveTransaction",
    "Numbers",
    "TransactedAck",
    "TransactedAdd",
    "id_hash",
]


#: Producers whose last numbers are kept in memory although nobody asked for that.
_SEEN_MAX: Final = 100_000


def id_hash(message_id: MessageId) -> int:
    """A number that is the same for equal ids, in this process."""
    return hash((message_id.producer_id, message_id.producer_sequence_id))


class LiveMessage:
    """A message that is there: where it stands in the log, and what has to be known without reading it."""

    __slots__ = ("expiration", "id_hash", "length", "level", "location", "sequence", "shows")

    def __init__(self, sequence: int, location: int, length: int, message: Message | None) -> None:
        self.sequence = sequence
        self.location = location
        self.length = length
        self.level = 4
        self.expiration = 0
        self.id_hash = 0
        #: How far its producer came with it; None once that is known.
        self.shows: tuple[str, int] | None = None
        if message is not None:
            self.describe(message)

    def describe(self, message: Message) -> None:
        """Take what the message says."""
        self.level = min(max(message.priority, 0), PRIORITY_LEVELS - 1)
        self.expiration = message.expiration
        if message.message_id is not None:
            self.id_hash = id_hash(message.message_id)
            if message.message_id.producer_id is not None:
                self.shows = str(message.message_id.producer_id), message.message_id.producer_sequence_id

    def renumbered(self, sequence: int) -> LiveMessage:
        """The same with another number, not written yet."""
        new = LiveMessage(sequence, 0, self.length, None)
        new.level, new.expiration, new.id_hash, new.shows = self.level, self.expiration, self.id_hash, self.shows
        return new


class Numbers:
    """Sequences in order, and on demand also apart by priority."""

    __slots__ = ("all", "levels")

    def __init__(self) -> None:
        self.all: Ordered[int] = Ordered()
        self.levels: list[Ordered[int]] | None = None

    def add(self, message: LiveMessage) -> None:
        """One more."""
        if self.all.add(message.sequence) and self.levels is not None:
            self.levels[message.level].add(message.sequence)

    def discard(self, message: LiveMessage) -> bool:
        """One less; whether it was there."""
        if not self.all.discard(message.sequence):
            return False
        if self.levels is not None:
            self.levels[message.level].discard(message.sequence)
        return True

    def by_level(self, messages: dict[int, LiveMessage]) -> list[Ordered[int]]:
        """Apart by priority, from now on."""
        if self.levels is None:
            levels: list[Ordered[int]] = [Ordered() for _ in range(PRIORITY_LEVELS)]
            for sequence in self.all:
                levels[messages[sequence].level].add(sequence)
            self.levels = levels
        return self.levels


class LiveSubscription:
    """A durable subscription: what it has not acknowledged."""

    __slots__ = ("hidden", "info", "key", "pending", "position")

    def __init__(self, key: int, info: SubscriptionInfo, position: int) -> None:
        #: Of its collection.
        self.key: Final = key
        self.info: Final = info
        #: As the log has it: all up to here are acknowledged.
        self.position = position
        self.pending = Numbers()
        #: What transactions in doubt acknowledge; each is in one.
        self.hidden: Ordered[int] = Ordered()


class LiveDestination:
    """A queue or a topic."""

    __slots__ = (
        "asked",
        "destination",
        "hidden",
        "ids",
        "is_kept",
        "key",
        "last",
        "messages",
        "numbers",
        "subscriptions",
    )

    def __init__(self, destination: Destination) -> None:
        self.destination: Final = destination
        #: Of its collection; 0 if it has none in the log.
        self.key = 0
        self.is_kept = False
        #: All messages, also those that transactions in doubt remove.
        self.messages: dict[int, LiveMessage] = {}
        #: Those that are seen.
        self.numbers = Numbers()
        self.ids: dict[int, int | set[int]] = {}
        self.hidden: set[int] = set()
        self.last = 0
        self.subscriptions: dict[SubscriptionKey, LiveSubscription] = {}
        self.asked = AskedSubscriptions()

    @property
    def count(self) -> int:
        """Messages that are seen."""
        return len(self.numbers.all)

    def by_hash(self, wanted: int) -> tuple[int, ...]:
        """Sequences of messages whose ids have this number."""
        found = self.ids.get(wanted, ())
        return (found,) if isinstance(found, int) else tuple(sorted(found))

    def note_id(self, message: LiveMessage) -> None:
        """One more of an id."""
        known = self.ids.setdefault(message.id_hash, message.sequence)
        if isinstance(known, set):
            known.add(message.sequence)
        elif known != message.sequence:
            self.ids[message.id_hash] = {known, message.sequence}

    def forget_id(self, message: LiveMessage) -> None:
        """One less."""
        known = self.ids.get(message.id_hash)
        if isinstance(known, set):
            known.discard(message.sequence)
            if len(known) == 1:
                self.ids[message.id_hash] = known.pop()
        elif known == message.sequence:
            del self.ids[message.id_hash]


class TransactedAdd:
    """A message that a transaction in doubt adds: its number there, and what it will be."""

    __slots__ = ("destination", "message", "number")

    def __init__(self, number: int, message: LiveMessage, destination: Destination) -> None:
        self.number = number
        self.message = message
        self.destination = destination


class TransactedAck:
    """A message that a transaction in doubt removes, or acknowledges for a subscription; those that it hides."""

    __slots__ = ("destination", "hides", "number", "sequence", "subscription")

    def __init__(
        self, number: int, destination: Destination, sequence: int, subscription: LiveSubscription | None
    ) -> None:
        self.number = number
        self.destination = destination
        self.sequence = sequence
        self.subscription = subscription
        self.hides: list[int] = []


class LiveTransaction:
    """A transaction in doubt."""

    __slots__ = ("acks", "adds", "is_each", "key", "xid")

    def __init__(self, key: int, xid: XATransactionId, *, is_each: bool = True) -> None:
        self.key: Final = key
        #: Whether acknowledgements of subscriptions stand for their messages only; ActiveMQ's stand for all before.
        self.is_each: Final = is_each
        self.xid: Final = xid
        self.adds: list[TransactedAdd] = []
        self.acks: list[TransactedAck] = []


class Live:
    """All of it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.destinations: dict[Destination, LiveDestination] = {}
        self.transactions: dict[XATransactionId, LiveTransaction] = {}
        #: The highest sequence that was given out. Changed under the adapter's `order`.
        self.given = 0
        self.last_key = 0
        #: How far producers came that are to be remembered, and when that was (epoch ms).
        self.producers: dict[str, tuple[int, int]] = {}
        #: How far messages show that they came.
        self.seen: dict[str, int] = {}
        self.expirations: Ordered[tuple[int, int, int]] = Ordered()
        self._by_id: dict[int, LiveDestination] = {}
        #: How many messages refer to each file of the log.
        self.references: Counter[int] = Counter()
        #: Collections that are not understood. Snapshots go on holding them, and their files stay.
        self.unknown: list[Collection] = []

    def of(self, destination: Destination) -> LiveDestination:
        """The one, made known."""
        found = self.destinations.get(destination)
        if found is None:
            with self.lock:
                found = self.destinations.setdefault(destination, LiveDestination(destination))
        return found

    def subscriptions(self) -> Iterator[tuple[LiveDestination, LiveSubscription]]:
        """All durable subscriptions."""
        for one in list(self.destinations.values()):
            for subscription in list(one.subscriptions.values()):
                yield one, subscription

    # -- changes; the caller holds the lock ----------------------------------------------------------------------

    def add(self, where: LiveDestination, message: LiveMessage, base: int, *, is_new: bool = True) -> None:
        """A message is there. Its subscriptions wait for it if it is new."""
        where.messages[message.sequence] = message
        where.numbers.add(message)
        where.note_id(message)
        where.last = max(where.last, message.sequence)
        self.references[base] += 1
        if message.shows is not None:
            self._see(*message.shows)
            message.shows = None
        if message.expiration > 0:
            self._by_id[id(where)] = where
            self.expirations.add((message.expiration, message.sequence, id(where)))
        if is_new:
            for subscription in where.subscriptions.values():
                subscription.pending.add(message)

    def _see(self, producer: str, last: int) -> None:
        seen = self.seen
        if seen.get(producer, -1) < last:
            seen[producer] = last
            if len(seen) > _SEEN_MAX:
                del seen[next(iter(seen))]

    def drop(self, where: LiveDestination, message: LiveMessage, base: int) -> None:
        """A message goes."""
        if where.messages.pop(message.sequence, None) is None:
            return
        where.numbers.discard(message)
        where.hidden.discard(message.sequence)
        where.forget_id(message)
        self.references[base] -= 1
        if not self.references[base]:
            del self.references[base]
        if message.expiration > 0:
            self.expirations.discard((message.expiration, message.sequence, id(where)))
        for subscription in where.subscriptions.values():
            subscription.pending.discard(message)
            subscription.hidden.discard(message.sequence)

    def expired(self, now_ms: int, count: int, after: tuple[int, int]) -> list[tuple[int, int, LiveDestination]]:
        """The next ones that expired before a time: when, their sequences, where they are."""
        found = self.expirations.after((*after, 1 << 63), count)
        return [(at_ms, sequence, self._by_id[where]) for at_ms, sequence, where in found if at_ms < now_ms]

    def is_waited_for(self, where: LiveDestination, sequence: int) -> bool:
        """Whether a subscription has not acknowledged a message for good."""
        return any(
            sequence in subscription.pending.all or sequence in subscription.hidden
            for subscription in where.subscriptions.values()
        )
