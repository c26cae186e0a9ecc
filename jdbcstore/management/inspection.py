"""Views that are made when somebody asks: clients, subscriptions, the store, what waits for its time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import monotonic
from typing import Final, TypeVar

from jdbcstore.broker.broker import Broker
from jdbcstore.broker.client import Client
from jdbcstore.broker.delivery import Consumer
from jdbcstore.broker.durable import DurableConsumer, KnownSubscription
from jdbcstore.broker.topic import TopicConsumer
from jdbcstore.errors import JdbcStoreError, SchemaMismatch
from jdbcstore.management.views import (
    ConnectionView,
    LoadView,
    MemoryView,
    PreparedView,
    ScheduledView,
    StoreView,
    SubscriptionView,
)
from jdbcstore.store.commit_numbers import CountsCommits
from jdbcstore.store.contract import (
    Locker,
    LockStatus,
    PreparedTransaction,
    SupportsIntake,
    SupportsLocking,
    SupportsTopics,
    SupportsTransactions,
)
from jdbcstore.store.jobs import SupportsScheduling
from jdbcstore.store.lease import FOREVER_NS, boot_time_ns
from jdbcstore.subscription import SubscriptionKey

__all__ = ["Inspection"]

T = TypeVar("T")

_JOBS_MAX: Final = 1000
#: How long the count of standbys holds: a page that is looked at asks every five seconds.
_STANDBYS_S: Final = 12.0
_JOBS_BYTES: Final = 4 << 20


class Inspection:
    """Looks into one broker.

    Args:
        broker: whose.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._asking_standbys = asyncio.Lock()
        self._standbys_told: int | None = None
        self._standbys_until_s = 0.0

    # -- clients -------------------------------------------------------------------------------------------------

    async def connections(self) -> Sequence[ConnectionView]:
        """All clients."""
        return await self._collected(map(_connection, list(self._broker.clients)))

    async def subscriptions(self) -> Sequence[SubscriptionView]:
        """All subscriptions, durable ones that nobody uses among them."""
        broker = self._broker
        used: dict[SubscriptionKey, SubscriptionView] = {}
        views = [view for view in await self._collected(self._used(used)) if view is not None]
        durable = [_durable(known, used.get(known.key), await self._lag(known)) for known in broker.durables.all()]
        return [*durable, *views]

    def _used(self, durable: dict[SubscriptionKey, SubscriptionView]) -> Iterator[SubscriptionView | None]:
        """The subscriptions of all clients; None for durable ones, which are put down by their keys."""
        for client in list(self._broker.clients):
            for consumer in list(client.consumers.by_key.values()):
                view = _subscription(client, consumer)
                if isinstance(consumer, DurableConsumer):
                    durable[consumer.key] = view
                    yield None
                else:
                    yield view

    async def _lag(self, known: KnownSubscription) -> int | None:
        """Messages that wait for a durable subscription, whatever its selector."""
        broker, lag = self._broker, 0
        if not isinstance(broker.adapter, SupportsTopics):
            return None
        for name in list(known.topics):
            store = broker.topic_store(name)
            if store is not None:
                try:
                    lag += await broker.read(store.subscription_message_count, known.key)
                except JdbcStoreError:
                    return None  # it was removed meanwhile
        return lag

    async def _collected(self, views: Iterator[T]) -> list[T]:
        """Make very many views in slices."""
        found: list[T] = []

        def collecting() -> Iterator[None]:
            for view in views:
                found.append(view)
                yield

        await self._broker.slices.complete(collecting())
        return found

    # -- store and memory ----------------------------------------------------------------------------------------

    async def store(self) -> StoreView:
        """The store, and what it says about mastership."""
        broker, adapter = self._broker, self._broker.adapter
        numbers = adapter.commit_numbers if isinstance(adapter, CountsCommits) else None
        trusted_ns = broker.trusted_until_ns
        has_lease = 0 < trusted_ns < FOREVER_NS
        lock, standbys = LockStatus(None, 0, None), None
        if isinstance(adapter, SupportsLocking):
            locker = adapter.locker()
            lock = await self._in_thread(locker.status) or lock
            standbys = await self._standbys(locker)
        commits = 0 if numbers is None else numbers.writes.count
        writes = 0 if numbers is None else int(numbers.writes.total)
        half, most = (None if numbers is None else numbers.seconds.quantile(part) for part in (0.5, 0.95))
        return StoreView(
            kind=adapter.location.partition(":")[0].partition("+")[0],
            location=adapter.location,
            commits=commits,
            writes=writes,
            failures=0 if numbers is None else numbers.failures,
            commit_ms=(None if half is None else half * 1000, None if most is None else most * 1000),
            batch=writes / commits if commits else 0.0,
            waiting=adapter.writes_waiting if isinstance(adapter, CountsCommits) else 0,
            size_bytes=await self._in_thread(adapter.size_bytes) if broker.is_running else None,
            lease_left_s=max(trusted_ns - boot_time_ns(), 0) / 1e9 if has_lease else None,
            lock_holder=lock.holder,
            lock_term=lock.term or None,
            lock_expires_ms=lock.expires_in_ms,
            standbys=standbys,
        )

    async def _standbys(self, locker: Locker) -> int | None:
        """How many standbys wait, asked a few seconds ago at most: each question is a connection of its own."""
        async with self._asking_standbys:
            if monotonic() > self._standbys_until_s:
                self._standbys_told = await self._in_thread(locker.standbys)
                self._standbys_until_s = monotonic() + _STANDBYS_S
            return self._standbys_told

    async def _in_thread(self, question: Callable[[], T]) -> T | None:
        """Ask the store something that blocks; None if it does not answer, or cannot."""
        try:
            async with asyncio.timeout(5.0):
                return await self._broker.loop.run_in_executor(None, question)
        except (JdbcStoreError, TimeoutError, OSError):
            return None

    def memory(self) -> MemoryView:
        """The account of memory."""
        memory = self._broker.memory
        return MemoryView(
            memory.bytes_max,
            memory.used,
            memory.messages_max,
            memory.kept,
            memory.kept_max,
            memory.uncommitted,
            memory.uncommitted_max,
            len(memory.waiting),
            len(memory.senders),
            len(memory.parked),
        )

    # -- what waits ----------------------------------------------------------------------------------------------

    async def scheduled(self, after: tuple[int, str] | None, jobs_max: int) -> tuple[Sequence[ScheduledView], object]:
        """Scheduled messages in the order of their times, and the place to go on from; None at the end."""
        adapter = self._broker.adapter
        if not isinstance(adapter, SupportsScheduling):
            return [], None
        try:
            store = adapter.job_store()
        except SchemaMismatch:
            return [], None
        page = await self._broker.read(store.jobs, after, min(jobs_max, _JOBS_MAX), _JOBS_BYTES)
        return ScheduledView.of_page(page), page.end

    async def prepared(self) -> Sequence[PreparedView]:
        """Transactions in doubt: those of the store, and behind them those that end with the broker."""
        adapter = self._broker.adapter
        found: Sequence[PreparedTransaction] = []
        if isinstance(adapter, SupportsTransactions):
            found = await self._broker.read(adapter.transaction_store().prepared_transactions)
        return [PreparedView.of(one) for one in (*found, *self._broker.in_doubt.beside_the_store())]

    async def loads(self) -> Sequence[LoadView]:
        """The bulk load that is taken in now, if there is one."""
        adapter = self._broker.adapter
        store = adapter.intake_store() if isinstance(adapter, SupportsIntake) else None
        load = None if store is None else await self._broker.read(store.waiting_load)
        return [] if load is None else [LoadView(load.job, load.messages, load.taken, load.refused)]


def _connection(client: Client) -> ConnectionView:
    consumers = client.consumers
    principal = client.access.principal
    return ConnectionView(
        client.connection_id,
        client.client_id,
        client.peer,
        client.callbacks.protocol,
        None if principal is None else principal.name,
        len(consumers.by_key),
        sum(len(consumer.unacknowledged) for consumer in consumers.by_key.values()),
        client.producer.sent,
        client.account.kept,
        client.is_held,
        consumers.is_choked,
    )


def _subscription(client: Client, consumer: Consumer) -> SubscriptionView:
    lag = None
    if isinstance(consumer, DurableConsumer):
        kind = "durable"
    elif consumer.is_browser:
        kind = "browser"
    elif isinstance(consumer, TopicConsumer):
        kind, lag = "topic", consumer.pending
    else:
        kind = "queue"
    selector = consumer.interest.selector
    return SubscriptionView(
        kind,
        str(consumer.destination),
        client.connection_id,
        client.peer,
        client.client_id,
        None,
        None if selector is None else selector.text,
        consumer.prefetch,
        len(consumer.unacknowledged),
        lag,
        not consumer.can_take,
        consumer.mode.value,
    )


def _durable(known: KnownSubscription, used: SubscriptionView | None, lag: int | None) -> SubscriptionView:
    """A durable subscription; `used` is what its client has of it, None if nobody uses it."""
    key, destination = known.key, str(known.subscribed)
    if used is None:
        used = SubscriptionView("durable", destination, None, None, None, None, None, 0, 0, None, False, None)
    return replace(
        used,
        destination=destination,
        client_id=key.client_id,
        name=key.subscription_name,
        selector=known.selector,
        lag=lag,
    )
