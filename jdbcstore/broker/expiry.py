"""The sweep: expired messages leave the store although nobody consumes, and without their backlog.

The store tells which messages have expired, by an index, without reading any. How often that is asked, and how many of
one destination go at a time, is a matter of policies (``expire_messages_period_ms``, ``max_expire_page_size``). Only
messages that go are read, since they become dead letters.

What a consumer holds is left alone: it goes when the consumer acknowledges it, or when it comes back. A queue knows
what it has in memory (`Queue.expire`); of a durable subscription that nobody uses nothing is in memory. What is in
doubt the store does not even tell.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from time import perf_counter
from typing import Final

from jdbcstore.broker.queue import Queue
from jdbcstore.broker.region_host import RegionHost
from jdbcstore.broker.rotation import SLICE_S
from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError, JdbcStoreError, StoreClosed
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.store.contract import Expired, MessageStore, TopicMessageStore
from jdbcstore.trouble import Trouble

__all__ = ["ExpirySweep"]

log = logging.getLogger(__name__)

#: Messages in one look at the index, and looks in one round: the rest has to wait for the next round.
_LOOK: Final = 400
_LOOKS_MAX: Final = 50


class ExpirySweep:
    """Looks for expired messages while the broker is master.

    Args:
        broker: whose.
    """

    def __init__(self, broker: RegionHost) -> None:
        self._broker = broker
        self._task: asyncio.Task[None] | None = None
        #: By period: when it was over the last time, by the loop's clock.
        self._last_s: dict[int, float] = {}
        #: Where the next round begins.
        self._place = (0, 0)
        #: Messages of topics that have expired, since the broker exists; queues count their own.
        self.expired = 0
        self._trouble = Trouble()

    def begin(self) -> None:
        """Clients are let in."""
        periods = {period for period in self._broker.expiry_periods_ms if period > 0}
        if periods:
            now_s = self._broker.loop.time()
            self._last_s = dict.fromkeys(periods, now_s)
            self._place = (0, 0)
            self._task = self._broker.loop.create_task(self._run(min(periods) / 1000))

    def end(self) -> None:
        """Clients are dropped."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def _run(self, pause_s: float) -> None:
        while True:
            await asyncio.sleep(pause_s)
            try:
                await self._round()
                if failures := self._trouble.is_over():
                    log.warning("the search for expired messages is done again failures=%d", failures)
            except StoreClosed:
                return
            except JdbcStoreError as error:
                if self._trouble.goes_on(error):
                    log.warning(
                        "the search for expired messages failed, it is done again every %g s error=%r",
                        pause_s,
                        str(error),
                    )
            except Exception:
                log.exception("defect in the search for expired messages")

    async def _round(self) -> None:
        now_s = self._broker.loop.time()
        due = {period for period, last_s in self._last_s.items() if now_s - last_s >= period / 1000 * 0.99}
        self._last_s.update(dict.fromkeys(due, now_s))
        self._broker.slices.run(self._broker.expiring_in_memory(due))
        taken: Counter[Destination] = Counter()
        for _ in range(_LOOKS_MAX):
            now_ms = self._broker.now_ms()
            page = await self._broker.read(self._broker.adapter.expired_messages, now_ms, _LOOK, self._place)
            chosen: dict[Destination, list[Expired]] = {}
            for one in page.messages:
                policy = self._broker.policy_for(one.destination)
                is_due = policy.expire_messages_period_ms in due and not one.destination.is_temporary
                if is_due and taken[one.destination] < policy.max_expire_page_size:
                    taken[one.destination] += 1
                    chosen.setdefault(one.destination, []).append(one)
            for destination, expired in chosen.items():
                await self._expire(destination, expired)
            self._place = page.place or (0, 0)
            if page.place is None:
                return

    async def _expire(self, destination: Destination, expired: Sequence[Expired]) -> None:
        """Let messages of one destination go, as many at a time as a page may have bytes."""
        broker = self._broker
        store: MessageStore | None
        topic = None
        if destination.is_queue:
            store = broker.queue_store(broker.adapter, destination)
        else:
            store = topic = broker.topic_store(destination)
        if store is None:
            return
        waiting = list(expired)
        while waiting:
            queues: list[Queue] = [broker.queue(destination)] if topic is None else []
            if topic is not None:
                queues += broker.topic(destination).subscriptions.values()
            with ExitStack() as reading:
                for queue in queues:
                    reading.enter_context(queue.being_read())
                messages, done = await broker.read(_load, store, waiting, broker.options.page_bytes_max)
                deadline_s = perf_counter() + SLICE_S
                for one in waiting[:done]:
                    if perf_counter() > deadline_s:
                        await asyncio.sleep(0)  # the others have a turn
                        deadline_s = perf_counter() + SLICE_S
                    if not broker.is_running:
                        return
                    message = messages.get(one.sequence)
                    if message is None:
                        continue  # gone meanwhile, or nobody can read it
                    if topic is None:
                        queues[0].expire(message, one.level)
                    else:
                        self._expire_of_topic(topic, message, one)
            waiting = waiting[done:]

    def _expire_of_topic(self, store: TopicMessageStore, message: Message, one: Expired) -> None:
        """Let the message of a topic go for each subscription that does not hold it. The first one makes it a dead
        letter, the others only if each of them has dead letters of its own."""
        broker, destination = self._broker, one.destination
        in_use = broker.topic(destination).subscriptions
        strategy = broker.policy_for(destination).dead_letter_strategy
        each = strategy.kind == "individual" and strategy.destination_per_durable_subscriber
        has_gone = False
        for key in one.subscriptions:
            is_buried = each or not has_gone
            subscription = in_use.get(key)
            if subscription is not None:
                has_gone |= subscription.expire(message, one.level, is_buried=is_buried)
                continue
            broker.expire_unused(message, store, key, is_buried=is_buried)
            has_gone = True
        self.expired += has_gone


def _load(store: MessageStore, expired: Sequence[Expired], bytes_max: int) -> tuple[Mapping[int, Message], int]:
    """Read messages as long as they fit; returns them by sequence, and how many of `expired` were looked at."""
    found: dict[int, Message] = {}
    size = 0
    for number, one in enumerate(expired, 1):
        try:
            message = store.get_message(MessageId(None, 0, one.sequence))
        except CodecError as error:
            reason = str(error)
            log.warning(
                "unreadable expired message stays in the store destination=%s id=%d error=%r",
                one.destination,
                one.sequence,
                reason,
            )
            continue
        if message is not None:
            found[one.sequence] = message
            size += message.size
        if size >= bytes_max:
            return found, number
    return found, len(expired)
