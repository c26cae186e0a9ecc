"""The persistence-adapter API: what a broker asks of a store, and what every store promises.

The nouns are ActiveMQ's. A `PersistenceAdapter` hands out one `MessageStore` per queue. What not every store can do is
a capability of its own (`SupportsTopics`, `SupportsTransactions`, `SupportsScheduling`, `SupportsLocking`): an adapter
that lacks one simply is not an instance of it, and the broker asks with ``isinstance`` instead of finding out by an
error.

**Promises of every adapter** (the contract suite in `jdbcstore.testing` checks them):

1. A `Completion` succeeds only when the write survives the death of this process.
2. Sequence numbers grow in the order of the `add_message` calls, over all destinations, and also over restarts while
   any higher number is still in the store. Messages become visible in that order: a page never skips a message that
   appears later.
3. A bad write fails alone. A failed commit fails everything that was in it, and nothing of it is visible.
4. All methods may be called from any thread. Reads block; writes return at once.
5. Bytes come back as they went in: a stored message differs from the sent one in its sequence only.
6. The cost of a page does not grow with what lies before or behind it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, Self, runtime_checkable

from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import CodecError
from jdbcstore.identifiers import MessageId, ProducerId, TransactionId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.intake import IntakeStore, SupportsIntake, TakenIn, WaitingLoad
from jdbcstore.store.jobs import FiredJob, JobChange, JobPage, JobStore, ScheduledJob, SupportsScheduling
from jdbcstore.store.lease import Lease, LockerOptions
from jdbcstore.store.refusals import Refusals
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = [
    "Commit",
    "Completion",
    "Cursor",
    "Expired",
    "ExpiredPage",
    "FiredJob",
    "IntakeStore",
    "JobChange",
    "JobPage",
    "JobStore",
    "LockStatus",
    "Locker",
    "MessageStore",
    "Page",
    "PersistenceAdapter",
    "PreparedTransaction",
    "Refusals",
    "ScheduledJob",
    "SupportsIntake",
    "SupportsLocking",
    "SupportsScheduling",
    "SupportsTopics",
    "SupportsTransactions",
    "TakenIn",
    "TopicMessageStore",
    "Transaction",
    "TransactionStore",
    "WaitingLoad",
]

#: JMS knows ten priorities, 0 to 9.
PRIORITY_LEVELS: Final = 10
#: Nothing is behind this sequence, which is the last that fits.
LAST_SEQUENCE: Final = (1 << 63) - 1

#: Queues of consumers of virtual topics, by ActiveMQ's default: they are known although they are empty.
VIRTUAL_TOPIC_CONSUMERS: Final = Queue("Consumer.*.VirtualTopic.>")


_NOBODY: Final[Mapping[ProducerId, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a reader has come: for each priority the last sequence it has seen.

    A store that is not prioritised moves all ten together. With ten positions a late message of a high priority is on
    the next page although the reader is past its number.
    """

    positions: tuple[int, ...] = (0,) * PRIORITY_LEVELS

    @classmethod
    def after(cls, sequence: int) -> Cursor:
        """The place behind the message with this sequence, at every priority."""
        return cls((sequence,) * PRIORITY_LEVELS)

    @classmethod
    def in_level(cls, level: int, sequence: int) -> Cursor:
        """The place behind this sequence at one priority; of the others nothing is wanted."""
        positions = [LAST_SEQUENCE] * PRIORITY_LEVELS
        positions[level] = sequence
        return cls(tuple(positions))


@dataclass(frozen=True, slots=True)
class Page:
    """Some messages in the order of delivery, and where to go on.

    `unreadable` lists what stands in the store but is no message: the sequence and what is wrong. The cursor is past
    them; they stay where they are until somebody looks after them.
    """

    messages: Sequence[Message]
    cursor: Cursor
    unreadable: Sequence[tuple[int, CodecError]] = ()


@dataclass(frozen=True, slots=True)
class Expired:
    """An expired message; it is not read.

    Args:
        destination: where it is.
        sequence: its number.
        level: its place in a cursor, if the destination is prioritised.
        subscriptions: of a topic's message: the durable subscriptions that have not acknowledged it.
    """

    destination: Destination
    sequence: int
    level: int = 0
    subscriptions: Sequence[SubscriptionKey] = ()


@dataclass(frozen=True, slots=True)
class ExpiredPage:
    """Some expired messages, those that expired first before the others, and where to go on; None at the end."""

    messages: Sequence[Expired]
    place: tuple[int, int] | None


class MessageStore(ABC):
    """The messages of one destination.

    The sequence of a message is `message.message_id.broker_sequence_id`; `add_message` sets it, pages come with it set.
    """

    #: Where the messages belong.
    destination: Destination
    #: Whether pages are ordered by priority before sequence.
    prioritized: bool

    @abstractmethod
    def add_message(self, message: Message) -> Completion[int]:
        """Store a message and give it its sequence.

        Args:
            message: what to store. Its `message_id.broker_sequence_id` is set before this returns; do not change the
                message until the completion is done.

        Returns:
            The sequence, once the message is durable.

        Raises:
            MessageTooLarge, CodecError: this message can never be stored. Nothing was done.
            StoreClosed: the adapter is stopped.
        """

    def add_messages(self, messages: Sequence[Message]) -> Completion[Refusals] | None:
        """Store several messages in one go, at a part of the cost of as many `add_message`. It is no transaction: a
        message that cannot be stored does not keep the others from it.

        Args:
            messages: at least one; as `add_message`, in this order.

        Returns:
            Why some are not stored, by their sequences, once the others are durable; it fails if none is stored. None
            if this store does not take these in one go: nothing was done, add them one by one.

        Raises:
            As `add_message`, because of any of them. Nothing was done.
        """
        return None

    def prepare(self, message: Message) -> object:
        """Do ahead what adding a message costs, for `PersistenceAdapter.commit_together`. Nothing is stored.

        So a commit of very many messages is short, and what comes before it can be interrupted.

        Returns:
            What only this store knows, good for as long as the message is not changed; None if there is nothing to do.

        Raises:
            As `add_message`.
        """
        return None

    @abstractmethod
    def get_message(self, message_id: MessageId) -> Message | None:
        """The stored message of this id, None when there is none in this destination."""

    @abstractmethod
    def remove_message(self, *message_ids: MessageId) -> Completion[None]:
        """Forget acknowledged messages, all of them in one commit. One that is not there is not an error.

        Args:
            message_ids: found by their `broker_sequence_id` when that is set, else by producer and producer sequence.
        """

    @abstractmethod
    def update_message(self, message: Message) -> Completion[None]:
        """Replace the bytes of a stored message, e.g. by those with a higher redelivery counter."""

    @abstractmethod
    def remove_all_messages(self) -> Completion[None]:
        """Forget everything that was added to this destination before this call."""

    @abstractmethod
    def recover_next_messages(self, cursor: Cursor, messages_max: int, bytes_max: int) -> Page:
        """The next messages behind a cursor. Waiting (uncommitted) and in-doubt messages are not seen.

        Args:
            cursor: where the last page ended; ``Cursor()`` is the beginning.
            messages_max: the most messages to return, at least 1.
            bytes_max: stop after the message that reaches this many stored bytes; one message always fits.

        Returns:
            The page; empty when there is nothing behind the cursor.
        """

    @property
    @abstractmethod
    def message_count(self) -> int:
        """How many committed messages there are. Kept, not counted: costs nothing."""

    def recover(self, page_messages: int = 500, page_bytes: int = 8 << 20) -> Iterator[Message]:
        """All messages from the first on, page by page."""
        cursor = Cursor()
        while True:
            page = self.recover_next_messages(cursor, page_messages, page_bytes)
            if page.cursor == cursor:  # not at an empty page: its messages may be unreadable, or removed just now
                return
            yield from page.messages
            cursor = page.cursor


class Commit(NamedTuple):
    """What becomes durable together or not at all: one value all the way from a session to the database.

    Give its fields by name. It is a tuple because those are made in half the time, and there is one for each numbered
    message.

    Args:
        adds: messages with the stores to add them to, in the order of their sequences.
        prepared: for each of the `adds` what `MessageStore.prepare` gave, or None; empty if nothing was prepared.
        removes: ids with the stores to remove them from, as `MessageStore.remove_message`.
        acknowledged: what durable subscriptions are done with, as `TopicMessageStore.acknowledge`.
        producers: how far producers come with this; `PersistenceAdapter.last_producer_sequence_id` knows it also when
            their messages are gone. It never goes back.
        jobs: scheduled messages to keep, and those that are fired with this; only of an adapter that
            `SupportsScheduling`.
        taken: what leaves the waiting room of bulk loads with this; only of an adapter that `SupportsIntake`.
        follows: writes submitted before. This is done only if they succeed, and otherwise fails.
    """

    adds: Sequence[tuple[MessageStore, Message]] = ()
    prepared: Sequence[object] = ()
    removes: Sequence[tuple[MessageStore, MessageId]] = ()
    acknowledged: Sequence[tuple[TopicMessageStore, SubscriptionKey, MessageId]] = ()
    producers: Mapping[ProducerId, int] = _NOBODY
    jobs: Sequence[JobChange] = ()
    taken: TakenIn | None = None
    follows: Sequence[Completion[Any]] = ()


class PersistenceAdapter(ABC):
    """A store: all destinations of one broker. Also a context manager that starts and stops."""

    @property
    def location(self) -> str:
        """Where it is, for people: its URL without a password. What is before the first colon is its kind."""
        return type(self).__name__

    def size_bytes(self) -> int | None:
        """What its files take, now; None if it does not know. It blocks."""
        return None

    @abstractmethod
    def start(self) -> None:
        """Open the store and find out what is in it; reads no message bodies.

        Raises:
            SchemaMismatch, TransientStoreError, ConfigurationError: it cannot be opened; nothing is left half open.
        """

    @abstractmethod
    def stop(self) -> None:
        """Finish what was submitted, then close. Stopping twice is fine."""

    def abandon(self) -> None:
        """Close at once, without waiting for whatever the store is on. What it has not answered yet fails:
        `OutcomeUnknown` if it may be stored, else `StoreUnavailable`. `start` may be called again."""
        self.stop()

    @property
    def remembers_producers(self) -> bool:
        """Whether `Commit.producers` can be stored, so that it is known how far they came when messages are gone."""
        return True

    @abstractmethod
    def destinations(self) -> set[Destination]:
        """Every destination that has messages or durable subscriptions, and queues that are to be known although they
        are empty: those of consumers of virtual topics, which get what is published from the moment they are known."""

    @abstractmethod
    def queue_message_store(self, queue: Queue, *, prioritized: bool = False) -> MessageStore:
        """The store of one queue, the same object for the same queue.

        Args:
            queue: not a composite and not a wildcard.
            prioritized: whether the queue's policy asks for order by priority; counts at the first call for a queue.
        """

    @abstractmethod
    def remove_queue_message_store(self, queue: Queue) -> None:
        """Let go of the queue's store object. Its messages stay; `MessageStore.remove_all_messages` removes them."""

    @abstractmethod
    def remove_destination(self, destination: Queue | Topic) -> Completion[None]:
        """Forget a destination for good: its messages, its durable subscriptions, and that it is known.

        Messages in doubt stay; when they are committed the destination is there again.
        """

    @abstractmethod
    def commit_together(self, commit: Commit) -> Completion[None]:
        """Add, remove and acknowledge over several destinations in one commit, all or nothing.

        Args:
            commit: what is done. Of the messages added each gets its sequence before this returns.

        Raises:
            SchemaMismatch: this store cannot remember producers, acknowledgements, jobs or loads; the text says what to
                do.
            As `MessageStore.add_message`; then nothing was done.
        """

    def move_message(
        self, message_id: MessageId, source: MessageStore, moved: Message, target: MessageStore
    ) -> Completion[None]:
        """Remove a message from `source` and add `moved` to `target` in one commit: what a dead-letter queue needs."""
        return self.commit_together(Commit(adds=[(target, moved)], removes=[(source, message_id)]))

    def check_subscription(self, info: SubscriptionInfo) -> None:  # noqa: B027  # most stores keep what is asked for
        """Refuse what `TopicMessageStore.add_subscription` would refuse, before anything is made for it.

        Args:
            info: what a client asks for; its `destination` may be a wildcard.

        Raises:
            ConfigurationError: a name or the selector is too long for the store.
            SchemaMismatch: this store cannot keep acknowledgements.
        """

    @abstractmethod
    def expired_messages(self, now_ms: int, messages_max: int, after: tuple[int, int] = (0, 0)) -> ExpiredPage:
        """Find messages that have expired, over all destinations. What it costs depends on `messages_max` alone.

        Messages in doubt, and those of topics that every subscription has acknowledged, are left out; so there may be
        fewer than `messages_max` although there is more behind them.

        Args:
            now_ms: epoch milliseconds; what expires then or later is not found.
            messages_max: how many to look at, at least 1.
            after: the `place` of the page before.
        """

    @abstractmethod
    def last_message_broker_sequence_id(self) -> int:
        """The highest sequence given out so far, 0 for an empty store."""

    @abstractmethod
    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        """The highest producer sequence stored of this producer, also when its messages are gone if it was to be
        remembered (`commit_together`); -1 when none is known. What was submitted before counts.

        A producer that was not heard of for a time that the store's options say, a day or so, may be forgotten.
        """

    def last_whole_sequence_id(self, producer_id: ProducerId) -> int:
        """The highest producer sequence of this producer up to which each message was stored in all of its destinations
        at once, -1 when none is known. `last_producer_sequence_id` may be higher by one message that another kind of
        broker has stored, one destination after the other; only a store that can tell says so.
        """
        return self.last_producer_sequence_id(producer_id)

    @abstractmethod
    def delete_all_messages(self) -> None:
        """Empty the store, durable subscriptions and scheduled messages included. Waits until it is done."""

    @abstractmethod
    def checkpoint(self) -> None:
        """Prove that the store can be reached. Raises `TransientStoreError` when it cannot."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


# -- topics ----------------------------------------------------------------------------------------------------------


class TopicMessageStore(MessageStore):
    """The messages of one topic, stored once, and the durable subscriptions to it.

    **Promises**, beside those of every store:

    1. A message is stored if and only if there is a durable subscription at the time of `add_message`; without one it
       only gets a sequence. It stays until every subscription has acknowledged it, and for a while after that.
    2. Acknowledgements come in any order. Once its completion succeeded none is forgotten: a page never has that
       message again for that subscription, also after a crash. What was not acknowledged is never left out.
    3. A subscription begins behind everything that was added before `add_subscription` was called.
    4. A page costs what it returns: neither other topics, other subscriptions nor what is acknowledged count.

    The methods of `MessageStore` see every message of the topic, whoever has acknowledged it. `remove_message` and
    `remove_all_messages` take messages away from all subscriptions, which stay.
    """

    @abstractmethod
    def add_subscription(self, info: SubscriptionInfo, *, retroactive: bool = False) -> Completion[None]:
        """Create a durable subscription, or do nothing when it exists with the same selector and destination.

        One with another selector, or that was subscribed by way of another destination, begins anew.

        Args:
            info: who subscribes, to which (perhaps wildcard) destination, with which selector. Its `destination` is
                that of this store: a wildcard subscription is one subscription in the store of each topic it matches.
            retroactive: start with the oldest stored message instead of the next one.

        Raises:
            ConfigurationError: a name or the selector is too long for the store, or `info` is about another topic.
            SchemaMismatch: this store cannot keep acknowledgements; the text says what to do.
        """

    @abstractmethod
    def delete_subscription(self, key: SubscriptionKey) -> Completion[None]:
        """Forget a subscription and, with cleanup, what only it kept. One that is not there is not an error."""

    @abstractmethod
    def lookup_subscription(self, key: SubscriptionKey) -> SubscriptionInfo | None:
        """The subscription, None when there is none. Kept in memory: costs nothing."""

    @abstractmethod
    def all_subscriptions(self) -> list[SubscriptionInfo]:
        """Every durable subscription to this topic. Kept in memory: costs nothing."""

    @abstractmethod
    def acknowledge(self, key: SubscriptionKey, *message_ids: MessageId) -> Completion[None]:
        """One subscription is done with these messages, in any order: consumed, expired, or not selected.

        A message or a subscription that is not there (any more) is not an error. Hand over many at once where you have
        them, such as what a selector left out of a page: that costs a write for all of them, not one for each.

        Args:
            key: whose subscription.
            message_ids: found by their `broker_sequence_id` when that is set, else by producer and its sequence.
        """

    @abstractmethod
    def recover_next_subscription_messages(
        self, key: SubscriptionKey, cursor: Cursor, messages_max: int, bytes_max: int
    ) -> Page:
        """The next messages that this subscription has not acknowledged; arguments as `recover_next_messages`.

        The selector is the caller's affair: what it does not match is on the page, and to be acknowledged.

        Raises:
            StoreError: there is no such subscription.
        """

    @abstractmethod
    def subscription_message_count(self, key: SubscriptionKey) -> int:
        """How many messages the subscription has not acknowledged, whatever its selector. Counted at the first call,
        and kept from then on.

        Raises:
            StoreError: there is no such subscription.
        """


@runtime_checkable
class SupportsTopics(Protocol):
    """An adapter that keeps durable subscriptions."""

    def topic_message_store(self, topic: Topic, *, prioritized: bool = False) -> TopicMessageStore:
        """The store of one topic, the same object for the same topic; arguments as `queue_message_store`."""

    def remove_topic_message_store(self, topic: Topic) -> None:
        """Let go of the topic's store object. Its messages and subscriptions stay."""

    def clean_up(self) -> int:
        """Remove at once what every durable subscription has acknowledged; returns how many messages.

        The store does that by itself, sooner or later.

        Raises:
            StoreError: the store could not read or write; what was removed until then is.
        """


# -- transactions ----------------------------------------------------------------------------------------------------


class Transaction(ABC):
    """Adds, removes and acknowledgements that become durable together or not at all.

    They are kept in memory until then, within limits that are options of the store. A transaction is used by one thread
    at a time. When `prepare` or `commit` failed nothing was done, and it may be tried again or rolled back; unless the
    error is `OutcomeUnknown`.
    """

    #: Whose it is: `LocalTransactionId`, or `XATransactionId` for one that may be prepared.
    transaction_id: TransactionId

    @abstractmethod
    def add_message(self, store: MessageStore, message: Message) -> None:
        """Add to be done at commit; sequences are given then, so the order is that of the commits.

        Args:
            store: of a queue or topic of this adapter.
            message: not to be changed until the commit is answered. To prepare it sets its `transaction_id`: ActiveMQ
                knows by that whose it is.

        Raises:
            StoreError: the transaction is full, or over.
        """

    @abstractmethod
    def remove_message(self, store: MessageStore, message_id: MessageId) -> None:
        """Remove to be done at commit; arguments as `MessageStore.remove_message`. Of queues only in XA. Raises as
        `add_message`."""

    @abstractmethod
    def acknowledge(self, store: TopicMessageStore, key: SubscriptionKey, message_id: MessageId) -> None:
        """Durable acknowledgement to be done at commit. Raises as `add_message`."""

    @abstractmethod
    def prepare(self) -> Completion[None]:
        """XA only: make everything durable but invisible, until it is committed or rolled back.

        What it adds is not seen, what it removes or acknowledges is not seen any more, nor counted. It survives a
        restart; only its outcome is still open. One with nothing in it may leave nothing behind: then it is unknown
        after a restart, and nothing is lost.

        Raises:
            StoreError: it is a local transaction, or over. A message that another prepared transaction removes cannot
                be removed; that is told by the completion.
            SchemaMismatch: the store cannot keep acknowledgements in doubt; the text says what to do.
        """

    @abstractmethod
    def commit(self) -> Completion[None]:
        """Make everything durable and visible, in one commit; of a prepared one, `TransactionStore.commit_prepared`."""

    @abstractmethod
    def rollback(self) -> Completion[None]:
        """Forget everything; of a prepared one, `TransactionStore.rollback_prepared`."""


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """Work in doubt.

    The ids of what is removed or acknowledged have their `broker_sequence_id` set, and no more. Of acknowledgements
    that a Java broker has prepared the last one stands for all before it.
    """

    transaction_id: XATransactionId
    added: Sequence[Message]
    removed: Sequence[tuple[Destination, MessageId]]
    acknowledged: Sequence[tuple[Destination, SubscriptionKey, MessageId]]


class TransactionStore(ABC):
    """Begins transactions and knows the prepared ones."""

    @abstractmethod
    def begin(self, transaction_id: TransactionId) -> Transaction:
        """A new transaction.

        Raises:
            StoreError: one of this id has begun or is prepared, or the id is too long for the store.
        """

    @abstractmethod
    def prepared_transactions(self) -> list[PreparedTransaction]:
        """Everything in doubt, found in the store, with the messages as they will be."""

    @abstractmethod
    def commit_prepared(self, transaction_id: XATransactionId) -> Completion[None]:
        """Second phase: make it visible, behind everything committed before.

        When it fails the transaction is in doubt as before, also after `OutcomeUnknown`: doing it again is safe, and so
        is `UnknownTransaction` then, which tells that it had worked.

        Raises:
            UnknownTransaction: none of this id is prepared.
            StoreError: somebody else commits it or rolls it back just now.
        """

    @abstractmethod
    def rollback_prepared(self, transaction_id: XATransactionId) -> Completion[None]:
        """Second phase: as if it had never been. What it removed or acknowledged is in its old place, which readers
        may have passed. Raises as `commit_prepared`."""


@runtime_checkable
class SupportsTransactions(Protocol):
    """An adapter with transactions."""

    def transaction_store(self) -> TransactionStore:
        """The one transaction store of this adapter."""


# -- mastership ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LockStatus:
    """Who is master: the holder's id, its term, and how long the lock is still its own by the store's clock."""

    holder: str | None
    term: int
    expires_in_ms: int | None


class Locker(ABC):
    """Makes sure that one broker at most writes. Leadership is a term, not a boolean.

    The order of a broker's life: `acquire` until it gives a term, with a `wait` in between, start the adapter, `renew`
    in time (`LockKeeper` does), stop the adapter, `release`. The methods block, for the options' timeouts at most, and
    may be called from any thread.
    """

    #: How long a lease is, when to renew it, how often a standby looks.
    options: LockerOptions

    @property
    @abstractmethod
    def lease(self) -> Lease | None:
        """What we hold, as far as we know; None when we are not master. Costs nothing, asks nobody."""

    @abstractmethod
    def acquire(self) -> int | None:
        """Try once to become master. Returns the term, None while somebody else is master.

        Raises:
            LockHeld: somebody else is master and ``fail_if_locked`` is set.
            LeaseLost: we were master, and are not any more; the next attempt begins anew.
            TransientStoreError: the store cannot be asked; try again.
            SchemaMismatch: there is nothing to hold; the text says what to run.
        """

    @abstractmethod
    def renew(self) -> None:
        """Stay master.

        Raises:
            LeaseLost: somebody else is master, or the lease ran out before; `lease` is None from now on.
            TransientStoreError: the store cannot be asked; `lease` stays what it was, and its trust runs out.
        """

    @abstractmethod
    def release(self) -> None:
        """Let the next broker in at once, and close what `acquire` opened. Fine when we are not master."""

    def wait(self, timeout_s: float) -> None:
        """Block until the holder may have released, at most `timeout_s`. A hint for a standby: only `acquire` knows.

        Never raises because the store cannot be asked; then it just waits.
        """
        time.sleep(timeout_s)

    @abstractmethod
    def status(self) -> LockStatus:
        """What the store says about mastership."""

    def standbys(self) -> int | None:
        """How many brokers wait to become master at the moment; None where the store cannot tell."""
        return None


@runtime_checkable
class SupportsLocking(Protocol):
    """An adapter that several brokers may share as master and standbys."""

    def locker(self) -> Locker:
        """The adapter's locker; its writer proves the locker's term in every commit."""
