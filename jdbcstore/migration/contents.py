"""What is in a store at one moment, whatever kind of store it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from jdbcstore.destination import Destination, Topic
from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.identifiers import MessageId, ProducerId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.store.contract import ScheduledJob
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = ["MARKER", "Contents", "Damages", "PreparedContents", "StoredHere", "name_of", "require_id"]

#: Producers whose names begin so are none: they tell how far a migration has come.
MARKER: Final = "jdbcstore-migration-"

#: Damages that are listed; more are counted.
_LISTED_MAX: Final = 1000


class StoredHere(NamedTuple):
    """A message of a store.

    Args:
        place: grows from message to message over all destinations, and is the same each time the store is read.
        destination: where it is.
        message: as it was sent.
        size: its stored bytes.
        waiting: of a topic's message: the durable subscriptions that have not acknowledged it for good.
    """

    place: int
    destination: Destination
    message: Message
    size: int
    waiting: Sequence[SubscriptionKey] = ()


@dataclass(slots=True)
class PreparedContents:
    """A prepared transaction. What it removes and acknowledges is named by producer and its sequence."""

    transaction_id: XATransactionId
    added: list[tuple[Destination, Message]] = field(default_factory=list)
    removed: list[tuple[Destination, MessageId]] = field(default_factory=list)
    acknowledged: list[tuple[Topic, SubscriptionKey, MessageId]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to decide, such as when nothing of it can be read. Stores do not keep such."""
        return not (self.added or self.removed or self.acknowledged)


class Damages:
    """What could not be read.

    Args:
        are_skipped: whether it is left out and listed; if not, the first one ends the reading.
    """

    def __init__(self, *, are_skipped: bool) -> None:
        self.are_skipped: Final = are_skipped
        self.listed: list[str] = []
        self.unlisted = 0

    def meet(self, where: str, error: Exception | str) -> None:
        """Something cannot be read.

        Raises:
            StoreError: and it must not be left out.
        """
        line = f"{where}: {error}"
        if not self.are_skipped:
            raise StoreError(f"{line}. With --skip-damage what can be read is migrated")
        if len(self.listed) < _LISTED_MAX:
            self.listed.append(line)
        else:
            self.unlisted += 1


class Contents(ABC):
    """Everything in a store at one moment.

    `messages` is read to its end before `prepared` is asked.
    """

    #: The store, without a password.
    name: str
    #: Whether a broker is at work on it, so that what it does from now on is not in this.
    is_live: bool
    #: What could not be read so far.
    damages: Damages
    #: Destinations whose messages are ordered by priority before sequence.
    prioritized: frozenset[Destination]

    @abstractmethod
    def destinations(self) -> Mapping[Destination, int]:
        """Those with messages, durable subscriptions, or that are known although they are empty, and how many messages
        each has. Messages that nobody waits for any more may be counted."""

    @abstractmethod
    def sizes(self) -> Mapping[Destination, int] | None:
        """The stored bytes of those with messages; None if only reading everything would tell."""

    @abstractmethod
    def subscriptions(self) -> Sequence[SubscriptionInfo]:
        """All durable subscriptions."""

    @abstractmethod
    def messages(self) -> Iterator[StoredHere]:
        """All messages in the order of their places, also those that a prepared transaction removes; without those that
        it adds, and without those of topics that nobody waits for.

        Raises:
            StoreError: the store cannot be read.
        """

    @property
    @abstractmethod
    def in_doubt(self) -> Sequence[XATransactionId]:
        """The prepared transactions, by their ids."""

    @abstractmethod
    def prepared(self) -> Sequence[PreparedContents]:
        """The transactions in doubt."""

    @abstractmethod
    def jobs(self) -> Iterator[ScheduledJob]:
        """The scheduled messages, in the order of their due times."""

    @abstractmethod
    def producers(self) -> Mapping[ProducerId, int] | None:
        """What is remembered of producers beside their messages; None if the store does not tell."""


def require_id(message: Message) -> MessageId:
    """The id of a message.

    Raises:
        ConfigurationError: it has none, or none with a producer: no store takes it.
    """
    message_id = message.message_id
    if message_id is None or message_id.producer_id is None:
        raise ConfigurationError("a message without an id, or without a producer in it")
    return message_id


def name_of(message: Message) -> MessageId:
    """What names a message in every store: its id without the number that one of them gave it."""
    message_id = require_id(message)
    return MessageId(message_id.producer_id, message_id.producer_sequence_id, 0, message_id.text_view)
