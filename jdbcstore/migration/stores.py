"""What is in a store of any kind, read through the contract; nobody may write to it meanwhile.

A store gives pages of one destination; they are merged by sequence, which grows over all destinations.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import ConfigurationError
from jdbcstore.identifiers import MessageId, ProducerId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.migration.contents import Contents, Damages, PreparedContents, StoredHere, name_of, require_id
from jdbcstore.store.contract import (
    PRIORITY_LEVELS,
    Cursor,
    MessageStore,
    Page,
    PersistenceAdapter,
    PreparedTransaction,
    ScheduledJob,
    SupportsScheduling,
    SupportsTopics,
    SupportsTransactions,
    TopicMessageStore,
)
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = ["StoreContents"]

_PAGE_MESSAGES: Final = 500
#: What is in memory of all destinations together, as far as single messages are not larger.
_MEMORY_BYTES: Final = 32 << 20
_PAGE_BYTES_LEAST: Final = 16 << 10
_JOBS_BYTES: Final = 4 << 20


class StoreContents(Contents):
    """The contents of a started store.

    Args:
        adapter: started, and used by nobody else.
        name: of the store, for people.
        prioritized: destinations whose messages are ordered by priority; a store does not tell.
        skips_damage: whether what cannot be read is left out and listed.
    """

    is_live = False

    def __init__(
        self,
        adapter: PersistenceAdapter,
        name: str,
        prioritized: Collection[Destination] = (),
        *,
        skips_damage: bool = False,
    ) -> None:
        self.name = name
        self.damages = Damages(are_skipped=skips_damage)
        self.prioritized = frozenset(prioritized)
        self._adapter = adapter
        # Not by priority, whatever they are: in the order of their numbers.
        self._stores: dict[Destination, MessageStore] = {}
        for destination in sorted(adapter.destinations(), key=str):
            if isinstance(destination, Queue):
                self._stores[destination] = adapter.queue_message_store(destination)
            elif isinstance(destination, Topic) and isinstance(adapter, SupportsTopics):
                self._stores[destination] = adapter.topic_message_store(destination)
        self._transactions: list[PreparedTransaction] = (
            adapter.transaction_store().prepared_transactions() if isinstance(adapter, SupportsTransactions) else []
        )
        self._page_bytes = _PAGE_BYTES_LEAST
        self._named: dict[tuple[Destination, int], MessageId] = {}

    def destinations(self) -> Mapping[Destination, int]:
        return {destination: store.message_count for destination, store in self._stores.items()}

    def sizes(self) -> None:
        return None

    def _topics(self) -> list[TopicMessageStore]:
        return [store for store in self._stores.values() if isinstance(store, TopicMessageStore)]

    def subscriptions(self) -> Sequence[SubscriptionInfo]:
        return [info for store in self._topics() for info in store.all_subscriptions()]

    def messages(self) -> Iterator[StoredHere]:
        in_doubt = [(where, one) for found in self._transactions for where, one in found.removed]
        acknowledged = [(where, key, one) for found in self._transactions for where, key, one in found.acknowledged]
        readers = len(self._stores) + len(self.subscriptions())
        self._page_bytes = max(_PAGE_BYTES_LEAST, _MEMORY_BYTES // max(1, readers))
        named = {(where, one.broker_sequence_id) for where, one in in_doubt}
        named |= {(where, one.broker_sequence_id) for where, _, one in acknowledged}
        sources = [self._of_destination(store) for store in self._stores.values()]
        hidden = sorted((self._hidden(where, one) for where, one in in_doubt), key=_place)
        for stored in heapq.merge(*sources, hidden, key=_place):
            if (stored.destination, stored.place) in named:
                self._named[stored.destination, stored.place] = name_of(stored.message)
            if stored.waiting or not stored.destination.is_topic:
                yield stored

    def _of_destination(self, store: MessageStore) -> Iterator[StoredHere]:
        waits: list[tuple[SubscriptionKey, _Waiting]] = []
        if isinstance(store, TopicMessageStore):
            for info in store.all_subscriptions():
                read = partial(_waiting, store, info.key, self._page_bytes)
                numbers = map(_number, self._in_order(store, read))
                waits.append((info.key, _Waiting(numbers, self._doubted(store, info.key))))
        for message in self._in_order(store, partial(_all, store, self._page_bytes)):
            try:
                place = require_id(message).broker_sequence_id
            except ConfigurationError as error:
                self.damages.meet(f"{store.destination}", error)
                continue
            waiting = [key for key, one in waits if one.includes(place)]
            yield StoredHere(place, store.destination, message, message.size, waiting)

    def _in_order(self, store: MessageStore, read: Callable[[Cursor], Page]) -> Iterator[Message]:
        """Messages by their numbers, also if somebody has opened their store by priority before."""
        if not store.prioritized:
            return self._walk(store, read, Cursor())
        levels = [self._walk(store, read, Cursor.in_level(level, 0)) for level in range(PRIORITY_LEVELS)]
        return heapq.merge(*levels, key=_number)

    def _walk(self, store: MessageStore, read: Callable[[Cursor], Page], cursor: Cursor) -> Iterator[Message]:
        while True:
            page = read(cursor)
            for sequence, error in page.unreadable:
                self.damages.meet(f"{store.destination}, number {sequence}", error)
            yield from page.messages
            if page.cursor == cursor:
                return
            cursor = page.cursor

    def _doubted(self, store: MessageStore, key: SubscriptionKey) -> set[int]:
        return {
            one.broker_sequence_id
            for found in self._transactions
            for where, whose, one in found.acknowledged
            if where == store.destination and whose == key
        }

    def _hidden(self, where: Destination, message_id: MessageId) -> StoredHere:
        """A message that a prepared transaction removes."""
        store = self._stores.get(where)
        if store is None and isinstance(where, Queue):
            store = self._stores[where] = self._adapter.queue_message_store(where)
        message = None if store is None else store.get_message(message_id)
        if message is None:
            raise ConfigurationError(
                f"a prepared transaction removes messages of {where}, and this kind of store does not give them out:"
                " commit it or roll it back first (jdbcstore transactions)"
            )
        return StoredHere(message_id.broker_sequence_id, where, message, message.size)

    @property
    def in_doubt(self) -> Sequence[XATransactionId]:
        return [one.transaction_id for one in self._transactions]

    def prepared(self) -> Sequence[PreparedContents]:
        found = []
        for transaction in self._transactions:
            in_doubt = PreparedContents(transaction.transaction_id)
            for message in transaction.added:
                if message.destination is None:
                    self.damages.meet(f"transaction {transaction.transaction_id}", "a message without destination")
                    continue
                in_doubt.added.append((message.destination, message))
            for where, one in transaction.removed:
                in_doubt.removed.append((where, self._named[where, one.broker_sequence_id]))
            for where, key, one in transaction.acknowledged:
                message_id = self._named.get((where, one.broker_sequence_id))
                if message_id is not None and isinstance(where, Topic):
                    in_doubt.acknowledged.append((where, key, message_id))
            found.append(in_doubt)
        return found

    def jobs(self) -> Iterator[ScheduledJob]:
        if not isinstance(self._adapter, SupportsScheduling):
            return
        store, after = self._adapter.job_store(), None
        while True:
            page = store.jobs(after, _PAGE_MESSAGES, _JOBS_BYTES)
            for place, error in page.unreadable:
                self.damages.meet(f"job {place[1]}", error)
            yield from page.jobs
            if page.end is None or page.end == after:
                return
            after = page.end

    def producers(self) -> Mapping[ProducerId, int] | None:
        return None


class _Waiting:
    """What a durable subscription waits for, asked in the order of the messages.

    Args:
        numbers: of those that it has not acknowledged, in order.
        in_doubt: of those that it acknowledges in doubt.
    """

    def __init__(self, numbers: Iterator[int], in_doubt: set[int]) -> None:
        self._numbers = numbers
        self._in_doubt = in_doubt
        self._next = next(numbers, None)

    def includes(self, number: int) -> bool:
        """Whether it waits for this message, or acknowledges it in doubt."""
        while self._next is not None and self._next < number:
            self._next = next(self._numbers, None)
        return self._next == number or number in self._in_doubt


def _all(store: MessageStore, bytes_max: int, cursor: Cursor) -> Page:
    return store.recover_next_messages(cursor, _PAGE_MESSAGES, bytes_max)


def _waiting(store: TopicMessageStore, key: SubscriptionKey, bytes_max: int, cursor: Cursor) -> Page:
    return store.recover_next_subscription_messages(key, cursor, _PAGE_MESSAGES, bytes_max)


def _number(message: Message) -> int:
    return 0 if message.message_id is None else message.message_id.broker_sequence_id


def _place(stored: StoredHere) -> int:
    return stored.place
