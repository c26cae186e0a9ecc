"""The memory store: the contract in its shortest form. Nothing survives the process.

Read this to learn what a store has to do; the SQL store does the same with rows.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jdbcstore.destination import Destination, Queue
from jdbcstore.errors import StoreClosed, TransientStoreError
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Cursor, MessageStore, Page, PersistenceAdapter

__all__ = ["MemoryMessageStore", "MemoryPersistenceAdapter"]


class MemoryMessageStore(MessageStore):
    """Messages of one queue in a dictionary, and their sequences in order, one list for each priority."""

    def __init__(self, adapter: MemoryPersistenceAdapter, destination: Destination, *, prioritized: bool) -> None:
        self.destination = destination
        self.prioritized = prioritized
        self._adapter = adapter
        self._messages: dict[int, Message] = {}
        self._levels: list[list[int]] = [[] for _ in range(10 if prioritized else 1)]

    def add_message(self, message: Message) -> Completion[int]:
        with self._adapter.lock:
            self._adapter.check_open()
            return Completion.resolved(self._put(message))

    def get_message(self, message_id: MessageId) -> Message | None:
        with self._adapter.lock:
            found = self._messages.get(self._sequence_of(message_id))
            return None if found is None else found.copy()

    def remove_message(self, message_id: MessageId) -> Completion[None]:
        with self._adapter.lock:
            self._adapter.check_open()
            self._drop(message_id)
            return Completion.resolved(None)

    def update_message(self, message: Message) -> Completion[None]:
        with self._adapter.lock:
            self._adapter.check_open()
            sequence = self._sequence_of(_id_of(message))
            if sequence in self._messages:
                self._messages[sequence] = message.copy()
            return Completion.resolved(None)

    def remove_all_messages(self) -> Completion[None]:
        with self._adapter.lock:
            self._adapter.check_open()
            self._messages.clear()
            for level in self._levels:
                level.clear()
            return Completion.resolved(None)

    def recover_next_messages(self, cursor: Cursor, messages_max: int, bytes_max: int) -> Page:
        with self._adapter.lock:
            self._adapter.check_open()
            positions = list(cursor.positions)
            messages: list[Message] = []
            room = bytes_max
            for priority in reversed(range(len(self._levels))):
                level = self._levels[priority]
                for sequence in level[bisect_right(level, positions[priority]) :]:
                    if len(messages) == messages_max or room <= 0:
                        break
                    message = self._messages[sequence].copy()
                    messages.append(message)
                    positions[priority] = sequence
                    room -= message.size
            return Page(messages, Cursor(tuple(positions) if self.prioritized else (positions[0],) * 10))

    @property
    def message_count(self) -> int:
        return len(self._messages)

    def _put(self, message: Message) -> int:
        sequence = self._adapter.next_sequence(message)
        self._messages[sequence] = message.copy()
        insort(self._level(message), sequence)
        return sequence

    def _drop(self, message_id: MessageId) -> None:
        sequence = self._sequence_of(message_id)
        message = self._messages.pop(sequence, None)
        if message is not None:
            level = self._level(message)
            del level[bisect_right(level, sequence) - 1]

    def _level(self, message: Message) -> list[int]:
        return self._levels[min(max(message.priority, 0), 9) if self.prioritized else 0]

    def _sequence_of(self, message_id: MessageId) -> int:
        if message_id.broker_sequence_id > 0:
            return message_id.broker_sequence_id
        return next((s for s, m in self._messages.items() if m.message_id == message_id), 0)


class MemoryPersistenceAdapter(PersistenceAdapter):
    """All queues of one broker, in memory."""

    def __init__(self) -> None:
        self.lock: Final = threading.Lock()
        self._stores: dict[Queue, MemoryMessageStore] = {}
        self._sequence = 0
        self._producers: dict[ProducerId, int] = {}
        self._open = False

    def start(self) -> None:
        self._open = True

    def stop(self) -> None:
        self._open = False

    def check_open(self) -> None:
        """Raise `StoreClosed` unless started."""
        if not self._open:
            raise StoreClosed("the memory store is stopped; start it first")

    def destinations(self) -> set[Destination]:
        with self.lock:
            return {queue for queue, store in self._stores.items() if store.message_count}

    def queue_message_store(self, queue: Queue, *, prioritized: bool = False) -> MemoryMessageStore:
        with self.lock:
            self.check_open()
            if queue not in self._stores:
                self._stores[queue] = MemoryMessageStore(self, queue, prioritized=prioritized)
            return self._stores[queue]

    def remove_queue_message_store(self, queue: Queue) -> None:
        with self.lock:
            if queue in self._stores and not self._stores[queue].message_count:
                del self._stores[queue]

    def commit_together(
        self,
        adds: Sequence[tuple[MessageStore, Message]],
        removes: Sequence[tuple[MessageStore, MessageId]],
        producers: Mapping[ProducerId, int] | None = None,
        follows: Sequence[Completion[Any]] = (),
    ) -> Completion[None]:
        with self.lock:
            self.check_open()
            for earlier in follows:
                if earlier.error is not None:
                    failed: Completion[None] = Completion()
                    failed.fail(TransientStoreError(f"not stored, because what it follows was not: {earlier.error}"))
                    return failed
            for store, message in adds:
                self._own(store)._put(message)
            for store, message_id in removes:
                self._own(store)._drop(message_id)
            for producer_id, sequence in (producers or {}).items():
                self._remember(producer_id, sequence)
            return Completion.resolved(None)

    def last_message_broker_sequence_id(self) -> int:
        return self._sequence

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        return self._producers.get(producer_id, -1)

    def delete_all_messages(self) -> None:
        with self.lock:
            self.check_open()
            self._stores.clear()
            self._producers.clear()

    def checkpoint(self) -> None:
        self.check_open()

    def next_sequence(self, message: Message) -> int:
        """Give the message the next number of the store. The caller holds the lock."""
        message_id = _id_of(message)
        self._sequence = message_id.broker_sequence_id = self._sequence + 1
        if message_id.producer_id is not None:
            self._remember(message_id.producer_id, message_id.producer_sequence_id)
        return self._sequence

    def _remember(self, producer_id: ProducerId, sequence: int) -> None:
        self._producers[producer_id] = max(self._producers.get(producer_id, -1), sequence)

    def _own(self, store: MessageStore) -> MemoryMessageStore:
        if not isinstance(store, MemoryMessageStore) or store._adapter is not self:
            raise ValueError(f"{store!r} is not a store of this adapter")
        return store


def _id_of(message: Message) -> MessageId:
    if message.message_id is None:
        raise ValueError("a message needs a message id before it can be stored")
    return message.message_id
