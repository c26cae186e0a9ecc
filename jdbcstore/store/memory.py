"""The memory store: the contract in its shortest form. Nothing survives the process.

Read this to learn what a store has to do; the SQL store does the same with rows.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Final

from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import StoreClosed, StoreError, TransientStoreError
from jdbcstore.identifiers import MessageId, ProducerId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import (
    VIRTUAL_TOPIC_CONSUMERS,
    Commit,
    Cursor,
    Expired,
    ExpiredPage,
    MessageStore,
    Page,
    PersistenceAdapter,
    PreparedTransaction,
    TopicMessageStore,
    TransactionStore,
)
from jdbcstore.store.jobs import HELD_MS, FiredJob, JobChange, JobPage, JobPlace, JobStore, ScheduledJob
from jdbcstore.store.transactions import BufferedTransaction, BufferedTransactionStore
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = ["MemoryJobStore", "MemoryMessageStore", "MemoryPersistenceAdapter", "MemoryTopicMessageStore"]


class MemoryMessageStore(MessageStore):
    """Messages of one destination in a dictionary, and their sequences in order, one list for each priority."""

    def __init__(self, adapter: MemoryPersistenceAdapter, destination: Destination, *, prioritized: bool) -> None:
        self.destination = destination
        self.prioritized = prioritized
        self._adapter = adapter
        self._messages: dict[int, Message] = {}
        self._levels = self._no_levels()

    def add_message(self, message: Message) -> Completion[int]:
        with self._adapter.lock:
            self._adapter.check_open()
            return Completion.resolved(self._put(message))

    def get_message(self, message_id: MessageId) -> Message | None:
        with self._adapter.lock:
            found = self._messages.get(self._sequence_of(message_id))
            return None if found is None else found.copy()

    def remove_message(self, *message_ids: MessageId) -> Completion[None]:
        with self._adapter.lock:
            self._adapter.check_open()
            for message_id in message_ids:
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
            self._clear()
            return Completion.resolved(None)

    def recover_next_messages(self, cursor: Cursor, messages_max: int, bytes_max: int) -> Page:
        with self._adapter.lock:
            self._adapter.check_open()
            return self._page(self._levels, cursor, messages_max, bytes_max)

    @property
    def message_count(self) -> int:
        return len(self._messages)

    def _page(self, levels: list[list[int]], cursor: Cursor, messages_max: int, bytes_max: int) -> Page:
        positions = list(cursor.positions)
        messages: list[Message] = []
        room = bytes_max
        for priority in reversed(range(len(levels))):
            level = levels[priority]
            for sequence in level[bisect_right(level, positions[priority]) :]:
                if len(messages) == messages_max or room <= 0:
                    break
                message = self._messages[sequence].copy()
                messages.append(message)
                positions[priority] = sequence
                room -= message.size
        return Page(messages, Cursor(tuple(positions) if self.prioritized else (positions[0],) * 10))

    def hide(self, message_id: MessageId) -> Message | None:
        """Take a message out that may come back. The caller holds the lock."""
        message = self._messages.get(self._sequence_of(message_id))
        if message is not None:
            self._drop(_id_of(message))
        return message

    def show(self, message: Message) -> None:
        """Put it back where it was. The caller holds the lock."""
        sequence = _id_of(message).broker_sequence_id
        self._messages[sequence] = message
        insort(self._levels[self._level(message)], sequence)
        self._adapter.note_expiration(message, self)

    def prepare(self, message: Message) -> Message:
        return message.copy()

    def _put(self, message: Message, copy: Message | None = None) -> int:
        sequence = self._adapter.next_sequence(message)
        if copy is None:
            copy = message.copy()
        else:
            _id_of(copy).broker_sequence_id = sequence
        self._messages[sequence] = copy
        insort(self._levels[self._level(message)], sequence)
        self._adapter.note_expiration(message, self)
        return sequence

    def _drop(self, message_id: MessageId) -> None:
        sequence = self._sequence_of(message_id)
        message = self._messages.pop(sequence, None)
        if message is not None:
            _take(self._levels[self._level(message)], sequence)
            self._adapter.forget_expiration(message.expiration, sequence)

    def expired(self, sequence: int) -> Expired | None:
        """What the adapter tells of an expired message; None if it is not there. The caller holds the lock."""
        message = self._messages.get(sequence)
        return None if message is None else Expired(self.destination, sequence, self._level(message))

    def empty(self) -> None:
        """Drop all messages. The caller holds the lock."""
        self._clear()

    def _clear(self) -> None:
        for sequence, message in reversed(self._messages.items()):  # nothing is behind it in the list then
            self._adapter.forget_expiration(message.expiration, sequence)
        self._messages.clear()
        self._levels = self._no_levels()

    def _no_levels(self) -> list[list[int]]:
        return [[] for _ in range(10 if self.prioritized else 1)]

    def _level(self, message: Message) -> int:
        return min(max(message.priority, 0), 9) if self.prioritized else 0

    def _sequence_of(self, message_id: MessageId) -> int:
        if message_id.broker_sequence_id > 0:
            return message_id.broker_sequence_id
        return next((s for s, m in self._messages.items() if m.message_id == message_id), 0)


class MemoryTopicMessageStore(MemoryMessageStore, TopicMessageStore):
    """Messages of one topic, and for each durable subscription the sequences it has not acknowledged.

    A message goes when the last subscription has acknowledged it, so nothing is left to clean up.
    """

    def __init__(self, adapter: MemoryPersistenceAdapter, destination: Destination, *, prioritized: bool) -> None:
        super().__init__(adapter, destination, prioritized=prioritized)
        #: What prepared transactions acknowledge: it has to stay until their outcome.
        self._in_doubt: list[tuple[SubscriptionKey, int]] = []
        self._subscriptions: dict[SubscriptionKey, tuple[SubscriptionInfo, list[list[int]]]] = {}

    def add_subscription(self, info: SubscriptionInfo, *, retroactive: bool = False) -> Completion[None]:
        info.require_topic(self.destination)
        with self._adapter.lock:
            self._adapter.check_open()
            known = self._subscriptions.get(info.key)
            if known is None or not known[0].goes_on_with(info):
                outstanding = [list(level) for level in self._levels] if retroactive else self._no_levels()
                self._subscriptions[info.key] = info, outstanding
                if known is not None:
                    self._let_go_of(known[1])
            return Completion.resolved(None)

    def delete_subscription(self, key: SubscriptionKey) -> Completion[None]:
        with self._adapter.lock:
            self._adapter.check_open()
            known = self._subscriptions.pop(key, None)
            if known is not None:
                self._let_go_of(known[1])
            return Completion.resolved(None)

    def lookup_subscription(self, key: SubscriptionKey) -> SubscriptionInfo | None:
        found = self._subscriptions.get(key)
        return None if found is None else found[0]

    def all_subscriptions(self) -> list[SubscriptionInfo]:
        return [info for info, _ in list(self._subscriptions.values())]

    def expired(self, sequence: int) -> Expired | None:
        found = super().expired(sequence)
        if found is None:
            return None
        keys = [key for key, (_, levels) in self._subscriptions.items() if _has(levels[found.level], sequence)]
        return replace(found, subscriptions=keys) if keys else None

    def acknowledge(self, key: SubscriptionKey, *message_ids: MessageId) -> Completion[None]:
        with self._adapter.lock:
            self._adapter.check_open()
            self._acknowledge(key, message_ids)
            return Completion.resolved(None)

    def recover_next_subscription_messages(
        self, key: SubscriptionKey, cursor: Cursor, messages_max: int, bytes_max: int
    ) -> Page:
        with self._adapter.lock:
            self._adapter.check_open()
            return self._page(self._outstanding(key), cursor, messages_max, bytes_max)

    def subscription_message_count(self, key: SubscriptionKey) -> int:
        return sum(map(len, self._outstanding(key)))

    @property
    def is_known(self) -> bool:
        """Whether there is anything in it, or anybody waits for it."""
        return bool(self._messages or self._subscriptions)

    def forget(self) -> None:
        """Drop messages and subscriptions. The caller holds the lock."""
        self._subscriptions.clear()
        self._clear()

    def _acknowledge(self, key: SubscriptionKey, message_ids: Sequence[MessageId]) -> None:
        for sequence in map(self._sequence_of, message_ids):
            message = self._messages.get(sequence)
            if message is not None and key in self._subscriptions:
                _take(self._outstanding(key)[self._level(message)], sequence)
                self._drop_unless_waited_for(sequence)

    def hide_from(self, key: SubscriptionKey, message_id: MessageId) -> int:
        """Acknowledge in doubt; returns the sequence, 0 if there is nothing. The caller holds the lock."""
        sequence = self._sequence_of(message_id)
        message = self._messages.get(sequence)
        if message is None or key not in self._subscriptions:
            return 0
        level = self._outstanding(key)[self._level(message)]
        if not _has(level, sequence):
            return 0
        _take(level, sequence)
        self._in_doubt.append((key, sequence))
        return sequence

    def decide(self, key: SubscriptionKey, sequence: int, *, acknowledged: bool) -> None:
        """The outcome of that. The caller holds the lock."""
        self._in_doubt.remove((key, sequence))
        message = self._messages.get(sequence)
        if message is not None and not acknowledged and key in self._subscriptions:
            insort(self._outstanding(key)[self._level(message)], sequence)
        self._drop_unless_waited_for(sequence)

    def _outstanding(self, key: SubscriptionKey) -> list[list[int]]:
        if key not in self._subscriptions:
            raise StoreError(f"{self.destination} has no durable subscription {key}")
        return self._subscriptions[key][1]

    def _put(self, message: Message, copy: Message | None = None) -> int:
        if not self._subscriptions:
            return self._adapter.next_sequence(message)
        sequence = super()._put(message, copy)
        for _, levels in self._subscriptions.values():
            levels[self._level(message)].append(sequence)
        return sequence

    def _drop(self, message_id: MessageId) -> None:
        sequence = self._sequence_of(message_id)
        super()._drop(message_id)
        for _, levels in self._subscriptions.values():
            for level in levels:
                _take(level, sequence)

    def _clear(self) -> None:
        super()._clear()
        for _, levels in self._subscriptions.values():
            levels[:] = self._no_levels()

    def _let_go_of(self, outstanding: Sequence[Sequence[int]]) -> None:
        """A subscription waits for these no more, which may be all there are."""
        if not self._subscriptions:
            self._clear()
            return
        in_doubt = {sequence for key, sequence in self._in_doubt if key in self._subscriptions}
        for priority, level in enumerate(outstanding):
            waited_for = (levels[priority] for _, levels in self._subscriptions.values())
            for sequence in sorted(set(level).difference(in_doubt, *waited_for), reverse=True):
                super()._drop(MessageId(None, 0, sequence))

    def _drop_unless_waited_for(self, sequence: int) -> None:
        message = self._messages.get(sequence)
        if message is not None and not self._is_waited_for(sequence, self._level(message)):
            super()._drop(MessageId(None, 0, sequence))

    def _is_waited_for(self, sequence: int, level: int) -> bool:
        in_doubt = any(other == sequence and key in self._subscriptions for key, other in self._in_doubt)
        return in_doubt or any(_has(levels[level], sequence) for _, levels in self._subscriptions.values())


@dataclass(slots=True)
class _Prepared:
    """A prepared transaction: what it took away, and what it will add."""

    added: list[tuple[MemoryMessageStore, Message]] = field(default_factory=list)
    removed: list[tuple[MemoryMessageStore, Message]] = field(default_factory=list)
    acknowledged: list[tuple[MemoryTopicMessageStore, SubscriptionKey, int]] = field(default_factory=list)


class MemoryTransactionStore(BufferedTransactionStore):
    """Prepared transactions in a dictionary: whoever prepares takes away, and a rollback puts back."""

    def __init__(self, adapter: MemoryPersistenceAdapter) -> None:
        super().__init__(adapter, adapter)
        self._memory = adapter
        self._prepared: dict[XATransactionId, _Prepared] = {}

    def is_prepared(self, transaction_id: XATransactionId) -> bool:
        self._memory.check_open()
        return transaction_id in self._prepared

    def prepared_transactions(self) -> list[PreparedTransaction]:
        with self._memory.lock:
            self._memory.check_open()
            return [
                PreparedTransaction(
                    xid,
                    [message.copy() for _, message in one.added],
                    [(store.destination, _sequence_only(message)) for store, message in one.removed],
                    [(store.destination, key, MessageId(None, 0, s)) for store, key, s in one.acknowledged],
                )
                for xid, one in self._prepared.items()
            ]

    def forget_all(self) -> None:
        """Everything is deleted."""
        self._prepared.clear()

    def _prepare(self, transaction: BufferedTransaction) -> Completion[None]:
        memory, xid = self._memory, transaction.transaction_id
        assert isinstance(xid, XATransactionId)
        with memory.lock:
            memory.check_open()
            removes = [(memory.own(store), message_id) for store, message_id in transaction.removes]
            for store, message_id in removes:
                if self._removes(store, message_id):
                    done: Completion[None] = Completion()
                    done.fail(StoreError(f"message {message_id} is in doubt: another transaction removes it"))
                    return done
            prepared = self._prepared[xid] = _Prepared()
            for target, message in transaction.adds:
                message.transaction_id = xid
                memory.next_sequence(message)
                prepared.added.append((memory.own(target), message.copy()))
            for own, message_id in removes:
                hidden = own.hide(message_id)
                if hidden is not None:
                    prepared.removed.append((own, hidden))
            for topic_store, key, message_id in transaction.acknowledged:
                topic = memory.own(topic_store)
                if isinstance(topic, MemoryTopicMessageStore) and (sequence := topic.hide_from(key, message_id)):
                    prepared.acknowledged.append((topic, key, sequence))
            return Completion.resolved(None)

    def _removes(self, store: MemoryMessageStore, message_id: MessageId) -> bool:
        """Whether a prepared transaction removes a message."""
        removed = [message for one in self._prepared.values() for other, message in one.removed if other is store]
        sequence = message_id.broker_sequence_id
        return any(
            _id_of(m).broker_sequence_id == sequence if sequence > 0 else _id_of(m) == message_id for m in removed
        )

    def _commit(self, transaction_id: XATransactionId) -> Completion[None]:
        with self._memory.lock:
            self._memory.check_open()
            prepared = self._prepared.pop(transaction_id)
            for store, message in prepared.added:
                self._memory.now(store)._put(message)
            for topic, key, sequence in prepared.acknowledged:
                topic.decide(key, sequence, acknowledged=True)
            return Completion.resolved(None)

    def _roll_back(self, transaction_id: XATransactionId) -> Completion[None]:
        with self._memory.lock:
            self._memory.check_open()
            prepared = self._prepared.pop(transaction_id)
            for store, message in prepared.removed:
                self._memory.now(store).show(message)
            for topic, key, sequence in prepared.acknowledged:
                topic.decide(key, sequence, acknowledged=False)
            return Completion.resolved(None)


class MemoryJobStore(JobStore):
    """Scheduled messages in a dictionary, and their places in order."""

    def __init__(self, adapter: MemoryPersistenceAdapter) -> None:
        self._adapter = adapter
        self._jobs: dict[str, ScheduledJob] = {}
        self._places: list[JobPlace] = []

    def due_jobs(self, now_ms: int, jobs_max: int, bytes_max: int) -> JobPage:
        return self.jobs(None, jobs_max, bytes_max, last_ms=min(now_ms, HELD_MS - 1))

    def next_due_ms(self) -> int | None:
        with self._adapter.lock:
            self._adapter.check_open()
            first = self._places[0][0] if self._places else HELD_MS
            return None if first == HELD_MS else first

    def jobs(
        self, after: JobPlace | None, jobs_max: int, bytes_max: int, first_ms: int = 0, last_ms: int = HELD_MS
    ) -> JobPage:
        with self._adapter.lock:
            self._adapter.check_open()
            jobs: list[ScheduledJob] = []
            room = bytes_max
            for due_ms, job_id in self._places[bisect_right(self._places, after or (first_ms, "")) :]:
                if due_ms > last_ms:
                    break
                if len(jobs) == jobs_max or room <= 0:
                    return JobPage(jobs, end=jobs[-1].place)
                job = self._jobs[job_id]
                jobs.append(replace(job, message=job.message.copy()))
                room -= job.message.size
            return JobPage(jobs)

    def get_job(self, job_id: str) -> ScheduledJob | None:
        with self._adapter.lock:
            self._adapter.check_open()
            job = self._jobs.get(job_id)
            return None if job is None else replace(job, message=job.message.copy())

    def job_count(self) -> int:
        return len(self._jobs)

    def remove_job(self, job_id: str) -> Completion[None]:
        with self._adapter.lock:
            self._adapter.check_open()
            self._drop(job_id)
            return Completion.resolved(None)

    def remove_jobs(self, first_ms: int = 0, last_ms: int = HELD_MS) -> Completion[None]:
        with self._adapter.lock:
            self._adapter.check_open()
            for due_ms, job_id in list(self._places):
                if first_ms <= due_ms <= last_ms:
                    self._drop(job_id)
            return Completion.resolved(None)

    def refusal(self, jobs: Sequence[JobChange]) -> StoreError | None:
        """Why these changes cannot be made, if so. The caller holds the lock."""
        for job in jobs:
            known = self._jobs.get(job.job_id)
            if isinstance(job, ScheduledJob) and known is not None:
                return StoreError(f"there is a job {job.job_id} already")
            if isinstance(job, FiredJob) and (known is None or known.due_ms != job.due_ms):
                return StoreError(f"the job {job.job_id} is not due at {job.due_ms}")
        return None

    def change(self, jobs: Sequence[JobChange]) -> None:
        """Make changes. The caller holds the lock."""
        for job in jobs:
            if isinstance(job, ScheduledJob):
                self._put(replace(job, message=job.message.copy()))
                continue
            known = self._jobs[job.job_id]
            self._drop(job.job_id)
            if job.next_due_ms is not None:
                self._put(replace(known, due_ms=job.next_due_ms, repeat=job.repeat))

    def clear(self) -> None:
        """Forget all. The caller holds the lock."""
        self._jobs.clear()
        self._places.clear()

    def _put(self, job: ScheduledJob) -> None:
        self._jobs[job.job_id] = job
        insort(self._places, job.place)

    def _drop(self, job_id: str) -> None:
        job = self._jobs.pop(job_id, None)
        if job is not None:
            self._places.remove(job.place)


class MemoryPersistenceAdapter(PersistenceAdapter):
    """All queues and topics of one broker, in memory.

    Args:
        virtual_topic_consumers: the queues that are known although they are empty; a wildcard.
        transaction_messages_max: the most messages that one transaction adds, removes and acknowledges.
        transaction_bytes_max: the most message bytes in one transaction.
    """

    def __init__(
        self,
        virtual_topic_consumers: Queue = VIRTUAL_TOPIC_CONSUMERS,
        *,
        transaction_messages_max: int = 100_000,
        transaction_bytes_max: int = 100 << 20,
    ) -> None:
        self.transaction_messages_max: Final = transaction_messages_max
        self.transaction_bytes_max: Final = transaction_bytes_max
        self._transactions = MemoryTransactionStore(self)
        self.lock: Final = threading.Lock()
        self._virtual_topic_consumers = virtual_topic_consumers
        self._stores: dict[Queue, MemoryMessageStore] = {}
        self._topics: dict[Topic, MemoryTopicMessageStore] = {}
        self._kept: set[Queue] = set()
        self._sequence = 0
        self._producers: dict[ProducerId, int] = {}
        self._jobs = MemoryJobStore(self)
        self._open = False
        #: When messages expire, with their sequences, in order; and where they are.
        self._expirations: list[tuple[int, int]] = []
        self._expiring: dict[tuple[int, int], MemoryMessageStore] = {}

    @property
    def location(self) -> str:
        return "memory:"

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
            queues = {queue for queue, store in self._stores.items() if store.message_count}
            return {*queues, *self._kept, *(topic for topic, store in self._topics.items() if store.is_known)}

    def queue_message_store(self, queue: Queue, *, prioritized: bool = False) -> MemoryMessageStore:
        with self.lock:
            self.check_open()
            if queue not in self._stores:
                self._stores[queue] = MemoryMessageStore(self, queue, prioritized=prioritized)
                if self._virtual_topic_consumers.matches(queue):
                    self._kept.add(queue)
            return self._stores[queue]

    def remove_queue_message_store(self, queue: Queue) -> None:
        with self.lock:
            if queue in self._stores and not self._stores[queue].message_count:
                del self._stores[queue]

    def topic_message_store(self, topic: Topic, *, prioritized: bool = False) -> MemoryTopicMessageStore:
        """As `SupportsTopics`."""
        with self.lock:
            self.check_open()
            if topic not in self._topics:
                self._topics[topic] = MemoryTopicMessageStore(self, topic, prioritized=prioritized)
            return self._topics[topic]

    def remove_topic_message_store(self, topic: Topic) -> None:
        """As `SupportsTopics`."""
        with self.lock:
            if topic in self._topics and not self._topics[topic].is_known:
                del self._topics[topic]

    def transaction_store(self) -> TransactionStore:
        """As `SupportsTransactions`."""
        self.check_open()
        return self._transactions

    def clean_up(self) -> int:
        """As `SupportsTopics`; there is never anything left."""
        return 0

    def job_store(self) -> MemoryJobStore:
        """As `SupportsScheduling`."""
        return self._jobs

    def remove_destination(self, destination: Queue | Topic) -> Completion[None]:
        with self.lock:
            self.check_open()
            if isinstance(destination, Queue):
                if destination in self._stores:
                    self._stores.pop(destination).empty()
                self._kept.discard(destination)
            elif destination in self._topics:
                self._topics.pop(destination).forget()
            return Completion.resolved(None)

    def commit_together(self, commit: Commit) -> Completion[None]:
        if commit.taken is not None:
            raise StoreError("a store in memory is not loaded in bulk: no other process can reach it")
        with self.lock:
            self.check_open()
            for earlier in commit.follows:
                if earlier.error is not None:
                    failed: Completion[None] = Completion()
                    failed.fail(TransientStoreError(f"not stored, because what it follows was not: {earlier.error}"))
                    return failed
            if (refused := self._jobs.refusal(commit.jobs)) is not None:
                failed = Completion()
                failed.fail(refused)
                return failed
            self._jobs.change(commit.jobs)
            for (store, message), copy in zip_longest(commit.adds, commit.prepared):
                self.own(store)._put(message, copy if isinstance(copy, Message) else None)
            for store, message_id in commit.removes:
                self.own(store)._drop(message_id)
            for topic_store, key, message_id in commit.acknowledged:
                own = self.own(topic_store)
                if isinstance(own, MemoryTopicMessageStore):
                    own._acknowledge(key, [message_id])
            for producer_id, sequence in commit.producers.items():
                self._remember(producer_id, sequence)
            return Completion.resolved(None)

    def expired_messages(self, now_ms: int, messages_max: int, after: tuple[int, int] = (0, 0)) -> ExpiredPage:
        with self.lock:
            self.check_open()
            start, end = bisect_right(self._expirations, after), bisect_left(self._expirations, (now_ms, 0))
            looked_at = self._expirations[start : min(end, start + messages_max)]
            found = [one for place in looked_at if (one := self._expiring[place].expired(place[1])) is not None]
            return ExpiredPage(found, looked_at[-1] if len(looked_at) == messages_max else None)

    def note_expiration(self, message: Message, store: MemoryMessageStore) -> None:
        """Keep in mind when a stored message expires. The caller holds the lock."""
        if message.expiration > 0:
            place = message.expiration, _id_of(message).broker_sequence_id
            insort(self._expirations, place)
            self._expiring[place] = store

    def forget_expiration(self, expiration: int, sequence: int) -> None:
        """A message is gone. The caller holds the lock."""
        if self._expiring.pop((expiration, sequence), None) is not None:
            del self._expirations[bisect_left(self._expirations, (expiration, sequence))]

    def last_message_broker_sequence_id(self) -> int:
        return self._sequence

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        return self._producers.get(producer_id, -1)

    def delete_all_messages(self) -> None:
        with self.lock:
            self.check_open()
            self._expirations.clear()
            self._expiring.clear()
            self._stores.clear()
            for store in self._topics.values():
                store.forget()
            self._topics.clear()
            self._kept.clear()
            self._producers.clear()
            self._jobs.clear()
            self._transactions.forget_all()

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

    def now(self, store: MemoryMessageStore) -> MemoryMessageStore:
        """The store of the same destination, which may have been deleted meanwhile. The caller holds the lock."""
        if isinstance(store, MemoryTopicMessageStore) and isinstance(store.destination, Topic):
            return self._topics.setdefault(store.destination, store)
        if isinstance(store.destination, Queue):
            return self._stores.setdefault(store.destination, store)
        return store

    def own(self, store: MessageStore) -> MemoryMessageStore:
        """A store that was made here. Raises ValueError when it is another."""
        if not isinstance(store, MemoryMessageStore) or store._adapter is not self:
            raise ValueError(f"{store!r} is not a store of this adapter")
        return store


def _id_of(message: Message) -> MessageId:
    if message.message_id is None:
        raise ValueError("a message needs a message id before it can be stored")
    return message.message_id


def _sequence_only(message: Message) -> MessageId:
    return MessageId(None, 0, _id_of(message).broker_sequence_id)


def _has(level: Sequence[int], sequence: int) -> bool:
    place = bisect_right(level, sequence) - 1
    return place >= 0 and level[place] == sequence


def _take(level: list[int], sequence: int) -> None:
    if _has(level, sequence):
        del level[bisect_right(level, sequence) - 1]
