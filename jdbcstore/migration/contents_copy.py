"""Writing what was read into another store, in commits that say how far they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import ConfigurationError
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.migration.contents import Contents, PreparedContents, StoredHere, require_id
from jdbcstore.migration.marker import Marker
from jdbcstore.store.contract import (
    Commit,
    Completion,
    JobChange,
    MessageStore,
    PersistenceAdapter,
    SupportsScheduling,
    SupportsTopics,
    SupportsTransactions,
    TopicMessageStore,
)
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = ["ContentsCopy"]

_BATCH_MESSAGES: Final = 1500
_BATCH_BYTES: Final = 2 << 20
#: What is under way at once, or one message that is larger.
_UNDER_WAY_BYTES: Final = 12 << 20


class ContentsCopy:
    """A copy under way.

    Args:
        target: started.
        contents: of the source.
        marker: begun.
        copied: called with how many messages were committed just now.
    """

    def __init__(
        self, target: PersistenceAdapter, contents: Contents, marker: Marker, copied: Callable[[int], object]
    ) -> None:
        self._target = target
        self._contents = contents
        self._marker = marker
        self._copied = copied
        self._infos: dict[Topic, dict[SubscriptionKey, SubscriptionInfo]] = {}
        for info in contents.subscriptions():
            assert isinstance(info.destination, Topic)
            self._infos.setdefault(info.destination, {})[info.key] = info
        self._stores: dict[Destination, MessageStore] = {}
        self._adds: list[tuple[MessageStore, Message]] = []
        self._acknowledged: list[tuple[TopicMessageStore, SubscriptionKey, MessageId]] = []
        self._bytes = 0
        self._place = 0
        self._last: Completion[Any] | None = None
        self._under_way: deque[tuple[Completion[None], int, int]] = deque()
        self._under_way_bytes = 0
        _require_abilities(target, contents)

    def count(self, destinations: Iterable[Destination]) -> int:
        """How many messages of some destinations the target has."""
        return sum(self._store(destination).message_count for destination in destinations)

    def add(self, stored: StoredHere) -> None:
        """Copy the next message; it is under way when this returns.

        Raises:
            StoreError: the target does not take it, or one before.
        """
        if self._adds and self._bytes + stored.size > _BATCH_BYTES:
            self._submit()
        store = self._store(stored.destination)
        if isinstance(store, TopicMessageStore):
            self._subscribe(store, stored)
        while self._under_way and self._under_way_bytes + stored.size > _UNDER_WAY_BYTES:
            self._wait()
        self._adds.append((store, stored.message))
        self._bytes += stored.size
        self._place = stored.place
        if len(self._adds) >= _BATCH_MESSAGES:
            self._submit()

    def _subscribe(self, store: TopicMessageStore, stored: StoredHere) -> None:
        """A subscription begins with the first message that it waits for; from then on it acknowledges the others."""
        assert isinstance(stored.destination, Topic)
        for key, info in self._infos[stored.destination].items():
            if key in stored.waiting:
                if store.lookup_subscription(key) is None:
                    self._submit()
                    self._last = store.add_subscription(info)
            elif store.lookup_subscription(key) is not None:
                self._acknowledged.append((store, key, require_id(stored.message)))

    def _submit(self) -> None:
        if not self._adds:
            return
        follows = [] if self._last is None else [self._last]
        done = self._target.commit_together(
            Commit(
                adds=self._adds,
                producers={self._marker.producer: self._place},
                follows=follows,
                acknowledged=self._acknowledged,
            )
        )
        self._under_way.append((done, len(self._adds), self._bytes))
        self._under_way_bytes += self._bytes
        self._last = done
        self._adds, self._acknowledged, self._bytes = [], [], 0
        while self._under_way_bytes > _UNDER_WAY_BYTES:
            self._wait()

    def _wait(self) -> None:
        done, messages, size = self._under_way.popleft()
        done.result()
        self._under_way_bytes -= size
        self._copied(messages)

    def flush(self) -> None:
        """Wait until all messages are committed."""
        self._submit()
        while self._under_way:
            self._wait()

    def finish(self) -> None:
        """Copy everything else; the messages have all been added. What is there already is left.

        Raises:
            StoreError: the target does not take it.
        """
        self.flush()
        for destination in sorted(self._contents.destinations(), key=str):
            if isinstance(destination, Queue):
                self._store(destination)  # known from now on, also if it is empty
        for topic, infos in self._infos.items():
            store = self._store(topic)
            assert isinstance(store, TopicMessageStore)
            for info in infos.values():
                if store.lookup_subscription(info.key) is None:
                    store.add_subscription(info).result()
        self._prepare()
        self._schedule()
        self._remember()
        # Behind everything that a store does without telling when it is done.
        self._target.commit_together(Commit(producers={self._marker.producer: self._place})).result()

    def _prepare(self) -> None:
        found = [one for one in self._contents.prepared() if not one.is_empty]
        if not found:
            return
        assert isinstance(self._target, SupportsTransactions)
        store = self._target.transaction_store()
        there = {one.transaction_id for one in store.prepared_transactions()}
        for one in found:
            if one.transaction_id not in there:
                self._prepare_one(one)

    def _prepare_one(self, found: PreparedContents) -> None:
        assert isinstance(self._target, SupportsTransactions)
        transaction = self._target.transaction_store().begin(found.transaction_id)
        for destination, message in found.added:
            transaction.add_message(self._store(destination), message)
        for destination, message_id in found.removed:
            transaction.remove_message(self._store(destination), message_id.copy())
        for topic, key, message_id in found.acknowledged:
            store = self._store(topic)
            assert isinstance(store, TopicMessageStore)
            transaction.acknowledge(store, key, message_id.copy())
        transaction.prepare().result()

    def _schedule(self) -> None:
        if not isinstance(self._target, SupportsScheduling):
            return  # and there are none
        store = self._target.job_store()
        jobs: list[JobChange] = []
        size = 0
        for job in self._contents.jobs():
            if store.get_job(job.job_id) is not None:
                continue
            jobs.append(job)
            size += job.message.size
            if len(jobs) >= _BATCH_MESSAGES or size >= _BATCH_BYTES:
                self._target.commit_together(Commit(jobs=jobs)).result()
                jobs, size = [], 0
        if jobs:
            self._target.commit_together(Commit(jobs=jobs)).result()

    def _remember(self) -> None:
        producers = list((self._contents.producers() or {}).items())
        for start in range(0, len(producers), _BATCH_MESSAGES):
            self._target.commit_together(Commit(producers=dict(producers[start : start + _BATCH_MESSAGES]))).result()

    def _store(self, destination: Destination) -> MessageStore:
        store = self._stores.get(destination)
        if store is None:
            prioritized = destination in self._contents.prioritized
            if isinstance(destination, Topic):
                assert isinstance(self._target, SupportsTopics)
                store = self._target.topic_message_store(destination, prioritized=prioritized)
            elif isinstance(destination, Queue):
                store = self._target.queue_message_store(destination, prioritized=prioritized)
            else:
                raise ConfigurationError(f"{destination} is temporary: it does not outlive its connection")
            self._stores[destination] = store
        return store


def _require_abilities(target: PersistenceAdapter, contents: Contents) -> None:
    """Make sure that the target can keep what the source has.

    Raises:
        ConfigurationError: it cannot.
    """
    if contents.subscriptions() and not isinstance(target, SupportsTopics):
        raise ConfigurationError(
            "the source has durable subscriptions, and the target cannot keep any: migrate to another kind of store"
        )
    if contents.in_doubt and not isinstance(target, SupportsTransactions):
        raise ConfigurationError(
            "the source has prepared transactions, and the target cannot keep any: migrate to another kind of store"
        )
    if not isinstance(target, SupportsScheduling) and next(contents.jobs(), None) is not None:
        raise ConfigurationError(
            "the source has scheduled messages, and the target cannot keep any: migrate to another kind of store"
        )
