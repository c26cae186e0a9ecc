"""The theory of `jdbcstore.broker.selection`, checked with arbitrary histories; see `test_lane`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jdbcstore import Message
from jdbcstore.broker.delivery import Consumer, Receiver
from jdbcstore.broker.interest import Interest
from jdbcstore.broker.subscription_request import AcknowledgeMode
from jdbcstore.selector import Selector
from tests.examples import examples
from tests.unit.broker.test_lane import NAME, STEPS, Client, World, run

#: By JMSPriority: two of a kind, another one, and one that overlaps with both.
SELECTORS = ("JMSPriority = 0", "JMSPriority = 0", "JMSPriority = 1", "JMSPriority < 2")


class SelectingWorld(World):
    """Consumers with selectors beside, or without, the plain one. Message n has the priority n % 3."""

    def __init__(
        self,
        *,
        window: int,
        concurrent: bool,
        read_early: bool,
        stored: int,
        plain: bool,
        is_slow: bool = False,
        page: int | None = None,
    ) -> None:
        self.is_slow = is_slow
        super().__init__(window=window, concurrent=concurrent, read_early=read_early, stored=stored, page=page)
        self.plain = plain
        if not plain:
            self.consumer.close()
        self.selecting = [self._select(text) for text in SELECTORS]
        self.reconnects = 0
        #: What each consumer was sent for the first time, by how it was sent.
        self.seen: dict[Consumer, list[int]] = {}

    def _read(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        if not self.is_slow:
            return super()._read(function, *arguments)
        future = self.broker.loop.create_future()
        result = function(*arguments)

        def arrive(turns: int) -> None:
            if turns:
                self.broker.loop.call_soon(arrive, turns - 1)
            else:
                future.set_result(result)

        arrive(12)
        return future

    def _message(self) -> Message:
        message = super()._message()
        message.priority = self.sent % 3
        return message

    def _select(self, text: str) -> Consumer:
        interest = Interest(Selector.parse(text))
        consumer = Consumer(cast(Receiver, Client(self.broker)), "1", NAME, AcknowledgeMode.INDIVIDUAL, 2, interest)
        consumer.queues[self.queue] = None
        self.queue.add_consumer(consumer)
        return consumer

    def consumers(self) -> list[Consumer]:
        return [*([self.consumer] if self.plain else []), *self.selecting]

    def acknowledge(self) -> None:
        for consumer in self.consumers():
            for key, delivery in list(consumer.unacknowledged.items())[:2]:
                del consumer.unacknowledged[key]
                consumer.release()
                self.queue.removal.acknowledge([delivery], self._acknowledged)

    def reconnect(self) -> None:
        self.note()
        self.reconnects += 1
        place = self.reconnects % len(SELECTORS)
        self.selecting[place].close()
        self.selecting[place] = self._select(SELECTORS[place])

    def note(self) -> None:
        for consumer in self.consumers():
            client = cast(Client, consumer.client)
            for delivery in client.delivered:
                assert delivery.message is None or consumer.interest.wants(delivery.message), "not what it wants"
                if not delivery.redeliveries:
                    self.seen.setdefault(consumer, []).append(delivery.message_id.producer_sequence_id)
            client.delivered.clear()

    async def finish(self) -> None:
        quiet = 0
        while quiet < 10:
            before = len(self.acknowledged), self.queue.depth
            self.store.commit(1000)
            self.acknowledge()
            await self.settle()
            quiet = quiet + 1 if before == (len(self.acknowledged), self.queue.depth) else 0


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=STEPS,
    window=st.sampled_from([1, 2, 3, 5, 50]),
    concurrent=st.booleans(),
    read_early=st.booleans(),
    stored=st.integers(0, 12),
    plain=st.booleans(),
    is_slow=st.booleans(),
)
def test_every_message_finds_who_wants_it(
    steps: list[tuple[str, int]],
    window: int,
    concurrent: bool,
    read_early: bool,
    stored: int,
    plain: bool,
    is_slow: bool,
) -> None:
    async def scenario() -> SelectingWorld:
        world = SelectingWorld(
            window=window,
            concurrent=concurrent,
            read_early=read_early,
            stored=stored,
            plain=plain,
            is_slow=is_slow,
        )
        await run(world, steps)
        return world

    world = asyncio.run(scenario())
    sent = set(range(1, world.sent + 1)) - world.refused
    wanted = {number for number in sent if plain or number % 3 < 2}
    assert len(world.acknowledged) == len(set(world.acknowledged)), "acknowledged twice"
    assert wanted <= set(world.acknowledged), "lost"
    assert {message.message_id.producer_sequence_id for message in world.store.rows.values() if message.message_id} == (
        sent - wanted
    )
    for seen in world.seen.values():
        assert seen == sorted(set(seen)), "overtaken or delivered twice as new"
    assert world.queue.in_flight == 0
    assert world.queue.depth == len(sent - wanted)


@pytest.mark.parametrize("plain", [True, False])
def test_memory_stays_bounded_and_the_store_is_read_once(plain: bool) -> None:
    async def scenario() -> None:
        world = SelectingWorld(window=10, concurrent=True, read_early=False, stored=0, plain=plain)
        pages = 0
        store_read = world.store.recover_next_messages

        def counted(*arguments: object) -> object:
            nonlocal pages
            pages += 1
            return store_read(*arguments)  # type: ignore[arg-type]

        world.store.recover_next_messages = counted  # type: ignore[method-assign, assignment]
        for _ in range(600):
            world.add()
        world.store.commit(10_000)
        await world.finish()
        [lane] = world.queue.lanes()
        assert len(lane.window) <= 10 + 5
        assert not lane._picked
        assert len(world.acknowledged) == (600 if plain else 400)
        assert pages < 600 / 5 * (len(set(SELECTORS)) + 1) * 1.2

    asyncio.run(scenario())


def test_a_window_of_which_not_everybody_wants_everything_stays_short() -> None:
    """Whoever takes messages out of its middle would pass over all the others each time."""

    async def scenario() -> None:
        world = SelectingWorld(window=80, concurrent=True, read_early=False, stored=0, plain=False, page=5)
        for _ in range(100):
            world.add()
        [lane] = world.queue.lanes()
        assert len(lane.window) == 20
        world.store.commit(1000)
        await world.finish()
        assert len(world.acknowledged) == 67

    asyncio.run(scenario())


class HoldingWorld(SelectingWorld):
    """The first page that a selection has read behind a full window arrives when the test says so."""

    held: asyncio.Future[Any] | None = None
    page: Any = None

    def _read(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        [lane] = self.queue.lanes()
        is_full = len(lane.window) > self.broker.options.window_messages_max // 2  # of what nobody wants
        if self.held is not None or not (lane.scanning and is_full):
            return super()._read(function, *arguments)
        self.held, self.page = self.broker.loop.create_future(), function(*arguments)
        return self.held


def test_a_page_that_arrives_late_shows_what_another_selection_has_taken_meanwhile() -> None:
    async def scenario() -> None:
        world = HoldingWorld(window=8, concurrent=True, read_early=False, stored=60, plain=False)
        for _ in range(30):
            await world.settle()
            world.acknowledge()
            world.store.commit(100)
        assert world.held is not None
        assert world.held.done() is False
        late = {message.message_id.producer_sequence_id for message in world.page.messages if message.priority == 0}
        assert late & set(world.acknowledged), "nobody has taken what is on the late page"
        world.held.set_result(world.page)
        await world.finish()
        world.note()
        assert sorted(world.acknowledged) == [number for number in range(1, 61) if number % 3 < 2]

    asyncio.run(scenario())
