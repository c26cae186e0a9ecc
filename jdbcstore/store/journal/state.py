"""What a broker knows of a KahaDB directory: destinations, their messages and subscriptions, transactions in doubt.

Messages are not in it, only where they stand; `jdbcstore.store.journal.records.AnyJournal.message` gets one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, cast

from jdbcstore.destination import Destination
from jdbcstore.identifiers import TransactionId
from jdbcstore.openwire import unmarshal
from jdbcstore.openwire.commands import SubscriptionInfo
from jdbcstore.store.journal.records import Damage, Location
from jdbcstore.store.journal.sequences import SequenceSet

__all__ = [
    "LastAck",
    "LostByBroker",
    "State",
    "StoredDestination",
    "StoredMessage",
    "StoredSubscription",
    "StoredTransaction",
    "Tier",
]


class Tier(IntEnum):
    """KahaDB knows three priorities: above the default, the default, below. In one tier the older message is first."""

    HIGH = 9
    DEFAULT = 4
    LOW = 0

    @classmethod
    def of(cls, priority: int) -> Tier:
        """The tier of a JMS priority."""
        if priority == cls.DEFAULT:
            return cls.DEFAULT
        return cls.HIGH if priority > cls.DEFAULT else cls.LOW


class StoredMessage(NamedTuple):
    """A message of a destination."""

    message_id: str
    sequence: int
    """Its place in the destination, given out when it was committed. Not kept in the journal: never compare it with an
    index."""
    location: Location
    tier: Tier
    order: int = 0
    """Its place among all messages of the directory, those of other destinations too: the location of the record that
    made it visible, its own or the commit of its transaction, as file number * 2**32 + offset, or a little more where
    a commit made several visible. If an ack compaction has copied this commit, the file is the one that was copied. It
    stays the same when messages are removed or updated."""


class LastAck(NamedTuple):
    """What a durable subscription acknowledged last. Not all before it is acknowledged."""

    sequence: int
    tier: Tier


@dataclass(slots=True)
class StoredSubscription:
    """A durable subscription."""

    key: str
    """``<client id>:<subscription name>``."""
    location: Location
    retroactive: bool
    info_bytes: bytes
    last_ack: LastAck
    pending: SequenceSet
    """Sequences of messages that it has not acknowledged, and the one behind the last of them, as in ActiveMQ."""
    began_in: int = 0
    """File of the record that began it; `location` is that of the last that changed it."""

    @property
    def info(self) -> SubscriptionInfo:
        """Client, name, selector and destination.

        Raises:
            CodecError: the bytes are not OpenWire.
        """
        return cast(SubscriptionInfo, unmarshal(self.info_bytes))


class StoredDestination:
    """A destination and what is in it."""

    __slots__ = ("_by_id", "_by_sequence", "destination", "next_sequence", "subscriptions")

    def __init__(self, destination: Destination) -> None:
        self.destination = destination
        self.next_sequence = 0
        #: Durable subscriptions by their key; empty for a queue.
        self.subscriptions: dict[str, StoredSubscription] = {}
        self._by_id: dict[str, StoredMessage] = {}
        # Only subscriptions look for a sequence.
        self._by_sequence: dict[int, StoredMessage] | None = {} if destination.is_topic else None

    def __len__(self) -> int:
        return len(self._by_id)

    def __bool__(self) -> bool:
        # Without messages it is one, too: it may have subscriptions.
        return True

    def all(self) -> Collection[StoredMessage]:
        """Its messages in no order."""
        return self._by_id.values()

    def messages(self) -> list[StoredMessage]:
        """Its messages in the order in which the broker reads them."""
        return sorted(self._by_id.values(), key=_reading_order)

    def pending(self, subscription: StoredSubscription) -> list[StoredMessage]:
        """What one of its subscriptions has not acknowledged, in the order in which the broker reads it."""
        return [message for message in self.messages() if message.sequence in subscription.pending]

    def get(self, message_id: str) -> StoredMessage | None:
        """The message of this id."""
        return self._by_id.get(message_id)

    def put(self, message: StoredMessage) -> None:
        """Take a message in, in place of the one of its id."""
        self._by_id[message.message_id] = message
        if self._by_sequence is not None:
            self._by_sequence[message.sequence] = message

    def remove(self, message_id: str) -> StoredMessage | None:
        """Take a message out; the message if it was there."""
        message = self._by_id.pop(message_id, None)
        if message is not None and self._by_sequence is not None:
            del self._by_sequence[message.sequence]
        return message

    def remove_unless_pending(self, sequence: int) -> None:
        """Take the message of a topic out if no subscription waits for it."""
        if any(sequence in subscription.pending for subscription in self.subscriptions.values()):
            return
        message = (self._by_sequence or {}).get(sequence)
        if message is not None:
            self.remove(message.message_id)


def _reading_order(message: StoredMessage) -> tuple[int, int]:
    return -message.tier, message.order


class Acknowledgement(NamedTuple):
    """A message that a transaction acknowledges."""

    destination: Destination
    message_id: str
    subscription_key: str | None


@dataclass(slots=True)
class StoredTransaction:
    """A transaction whose end the journal does not tell."""

    transaction_id: TransactionId
    added: list[tuple[Destination, str, Location]] = field(default_factory=list)
    """Messages it sends, invisible until its commit: destination, message id, where it stands."""
    acknowledged: list[Acknowledgement] = field(default_factory=list)
    """Messages that it takes. Until its end they are in the store, and no consumer gets them."""
    acknowledged_at: list[Location] = field(default_factory=list)
    """Where the records of these acknowledgements stand."""
    prepared_at: Location | None = None
    """Where the record stands that prepared it, if it is in doubt."""

    @property
    def operations(self) -> list[Location]:
        """Where the records of both stand, in their order."""
        return sorted([*self.acknowledged_at, *(location for _, _, location in self.added)])


@dataclass(slots=True)
class LostByBroker:
    """What a broker forgets when it has to rebuild its index, and we do not.

    After an ack compaction and a restart brokers write new messages into the file of the copies. A rebuild leaves this
    file out as long as the file that was copied exists.
    """

    marker: Location
    """Of the record that makes the broker leave the rest of the file out."""
    source: int
    """Number of the file that was copied."""
    messages: list[tuple[Destination, str]] = field(default_factory=list)
    """Messages that it would lose."""
    acknowledged: list[tuple[Destination, str]] = field(default_factory=list)
    """Messages that it would deliver again."""
    others: int = 0
    """Changes of another kind: subscriptions, removed destinations, updates."""

    def __str__(self) -> str:
        return (
            f"{self.marker}: a broker that rebuilds its index leaves the rest of this file out while"
            f" db-{self.source}.log exists: it loses {len(self.messages)} messages, delivers {len(self.acknowledged)}"
            f" again and misses {self.others} other changes"
        )


@dataclass(slots=True)
class State:
    """What a broker would know after it read the whole journal."""

    destinations: dict[Destination, StoredDestination] = field(default_factory=dict)
    """Those that a record is about. The journal does not tell of empty destinations that never had a message."""
    prepared: dict[TransactionId, StoredTransaction] = field(default_factory=dict)
    """XA transactions in doubt."""
    unfinished: dict[TransactionId, StoredTransaction] = field(default_factory=dict)
    """Transactions that were neither ended nor prepared: a broker that starts rolls them back."""
    ack_files: dict[int, set[int]] = field(default_factory=dict)
    """Which file holds acknowledgements for messages of which files: it must be kept while one of them is."""
    needed_files: dict[int, set[int]] = field(default_factory=dict)
    """The same for what brokers forget to ask: which file removes messages or subscriptions of which files in another
    way, so that they would be there again in a rebuild without it."""
    rewritten_files: set[int] = field(default_factory=set)
    """Files with copies of an ack compaction of a broker. Without them a broker's rebuild comes to the same."""
    skipped_files: set[int] = field(default_factory=set)
    """Those of them that such a rebuild leaves out although they hold something else than copies, too."""
    misplaced_files: set[int] = field(default_factory=set)
    """Those of them whose copies do not count where they stand: the file that was copied is gone, and in its place they
    send messages or acknowledge some."""
    lost_by_broker: list[LostByBroker] = field(default_factory=list)
    revived_by_broker: list[tuple[Destination, str]] = field(default_factory=list)
    """Messages that are gone, and that a broker delivers again when it has to rebuild its index: a compaction separated
    their acknowledgement from the commit of its transaction, or copied their commit behind what removed them."""
    perhaps_acknowledged: list[tuple[Destination, str]] = field(default_factory=list)
    """Messages of `destinations` that were acknowledged in a transaction whose end is not in the journal any more."""
    damages: list[Damage] = field(default_factory=list)
    """What could not be read or applied. The state is what the rest says."""
    damages_unlisted: int = 0

    def dispatchable(self, destination: Destination) -> list[StoredMessage]:
        """What consumers of a queue may get: its messages but those that a prepared transaction has acknowledged."""
        stored = self.destinations.get(destination)
        hidden = self._hidden(destination, None)
        return [] if stored is None else [message for message in stored.messages() if message.message_id not in hidden]

    def pending(self, destination: Destination, subscription_key: str) -> list[StoredMessage]:
        """What a durable subscription may get: the same of its pending messages."""
        stored = self.destinations.get(destination)
        subscription = None if stored is None else stored.subscriptions.get(subscription_key)
        if stored is None or subscription is None:
            return []
        hidden = self._hidden(destination, subscription_key)
        return [message for message in stored.pending(subscription) if message.message_id not in hidden]

    def _hidden(self, destination: Destination, subscription_key: str | None) -> set[str]:
        return {
            ack.message_id
            for transaction in self.prepared.values()
            for ack in transaction.acknowledged
            if ack.destination == destination and ack.subscription_key == subscription_key
        }
