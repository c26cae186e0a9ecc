"""Order within message groups, checked with arbitrary histories; see `test_lane`.

Whatever consumers do and whatever becomes of writes: who is given a message has, or has been done with, everything of
its group that was sent before, and nobody else has anything of it.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jdbcstore import Message
from jdbcstore.broker import redelivery
from jdbcstore.broker.delivery import Consumer, Delivery, Receiver, giving_back
from jdbcstore.broker.destination_policy import GROUP_MAPS, DestinationPolicy, RedeliveryPolicy
from jdbcstore.broker.interest import EVERYTHING, Interest
from jdbcstore.broker.subscription_request import AcknowledgeMode
from jdbcstore.selector import Selector
from tests.examples import examples
from tests.unit.broker.test_lane import NAME, Client, World

#: The groups of messages 5, 6, … in turn.
GROUPS: Final = ("a", "b", "a", None, "c")
RED: Final = Interest(Selector.parse("colour = 'red'"))
BLUE: Final = Interest(Selector.parse("colour = 'blue'"))
PREFETCH: Final = (1, 2, 4, 50)
MEMBERS_MAX: Final = 4
#: Turns of the loop that a delay takes.
DELAY_TURNS: Final = 5


@dataclass
class GroupClient(Client):
    """Tells the world what it is given, before it takes note."""

    world: GroupWorld | None = None

    def deliver(self, consumer: Consumer, deliveries: Sequence[Delivery]) -> None:
        assert self.world is not None
        for delivery in deliveries:
            self.world.given(consumer, delivery)
        super().deliver(consumer, deliveries)


class GroupWorld(World):
    """Consumers come and go, a slice at a time, and acknowledge in transactions, which outlive them."""

    def __init__(self, *, interests: Sequence[Interest], is_exclusive: bool = False, **more: Any) -> None:
        self.messages: dict[int, Message] = {}
        super().__init__(**more)
        self.consumer.close()
        self.interests = interests
        self.is_exclusive = is_exclusive
        self.subscribed = 0
        self.members: list[Consumer] = []
        self.transactions: deque[list[Delivery]] = deque()
        self.jobs: deque[Iterator[None]] = deque()
        #: What did not hold. Whoever delivers logs what is raised there, and goes on.
        self.wrong: list[str] = []
        #: Who was given a message the last time, and how.
        self.holders: dict[int, tuple[Consumer, Delivery]] = {}

    def _message(self) -> Message:
        message = super()._message()
        message.group_id = GROUPS[self.sent % len(GROUPS)]
        message.properties = {"colour": "red" if self.sent % 3 else "blue"}
        self.messages[self.sent] = message
        return message

    # -- what has to hold ----------------------------------------------------------------------------------------------

    def given(self, consumer: Consumer, delivery: Delivery) -> None:
        """A consumer is given a message."""
        number = delivery.message_id.producer_sequence_id
        if number in self.acknowledged:
            self.wrong.append(f"{number} is given again")
        group = self.messages[number].group_id
        for other, message in self.messages.items():
            if other == number or group is None or message.group_id != group:
                continue
            holder = self._holder(other)
            if holder not in (None, consumer):
                self.wrong.append(f"{number} is given while somebody else has {other}")
            is_done = other in self.acknowledged or other in self.refused
            if other < number and consumer.interest.wants(message) and not is_done and holder is None:
                self.wrong.append(f"{number} overtakes {other}")
        self.holders[number] = consumer, delivery

    def _holder(self, number: int) -> Consumer | None:
        """Who has a message, or has acknowledged it without an answer yet."""
        consumer, delivery = self.holders.get(number, (None, None))
        if delivery is None or number in self.acknowledged or number in self.refused:
            return None
        return consumer if delivery.is_out else None

    # -- what happens --------------------------------------------------------------------------------------------------

    def send(self, count: int) -> None:
        """So many, one after the other."""
        for _ in range(count):
            self.add()

    def join(self, number: int) -> None:
        """A consumer comes."""
        if len(self.members) >= MEMBERS_MAX:
            return
        interest = self.interests[self.subscribed % len(self.interests)]
        self.subscribed += 1
        client = GroupClient(self.broker, world=self)
        mode, prefetch = AcknowledgeMode.INDIVIDUAL, PREFETCH[number % len(PREFETCH)]
        consumer = Consumer(cast(Receiver, client), "1", NAME, mode, prefetch, interest, is_exclusive=self.is_exclusive)
        consumer.queues[self.queue] = None
        self.members.append(consumer)
        self.queue.add_consumer(consumer)

    def leave(self, number: int) -> None:
        """A consumer goes, with what it has."""
        if self.members:
            self.begin(self.members.pop(number % len(self.members)).closing())

    def begin(self, job: Iterator[None]) -> None:
        """The first slice of a job runs at once."""
        if next(job, self) is not self:
            self.jobs.append(job)

    def work(self, count: int) -> None:
        """Others have their turns."""
        for _ in range(min(count, len(self.jobs))):
            self.begin(self.jobs.popleft())

    def take(self, number: int) -> list[Delivery]:
        """A consumer acknowledges the first messages that it has."""
        if not self.members:
            return []
        consumer = self.members[number % len(self.members)]
        taken = list(consumer.unacknowledged.items())[: 1 + number % 3]
        for key, _ in taken:
            del consumer.unacknowledged[key]
        consumer.release(len(taken))
        return [delivery for _, delivery in taken]

    def acknowledge_some(self, number: int) -> None:
        """Without a transaction."""
        if taken := self.take(number):
            self.queue.removal.acknowledge(taken, self._acknowledged)

    def transact(self, number: int) -> None:
        """In one, which is open then."""
        if taken := self.take(number):
            self.transactions.append(taken)

    def commit(self, _: int) -> None:
        """The oldest transaction is committed."""
        if self.transactions:
            self.queue.removal.acknowledge(self.transactions.popleft(), self._acknowledged)

    def abort(self, _: int) -> None:
        """The oldest transaction is rolled back."""
        if self.transactions:
            self.restore(self.transactions.popleft())

    def _acknowledged(self, deliveries: Sequence[Delivery], error: BaseException | None) -> None:
        if error is None:
            super()._acknowledged(deliveries, None)
        else:
            self.restore(deliveries)

    def restore(self, deliveries: Sequence[Delivery]) -> None:
        """Consumers have these still, if they are there."""
        lost: list[Delivery] = []
        for delivery in deliveries:
            consumer = delivery.consumer
            if consumer is None or consumer.is_closed:
                lost.append(delivery)
            else:
                consumer.unacknowledged[str(delivery.order)] = delivery
                consumer.credit -= 1
        if lost:
            self.begin(giving_back(lost))

    def choke(self, number: int) -> None:
        """A consumer does not read, or does again."""
        if self.members:
            consumer = self.members[number % len(self.members)]
            consumer.client.is_choked = not consumer.client.is_choked
            consumer.resume()

    async def finish(self) -> None:
        """Everything comes to its end."""
        while self.transactions:
            self.abort(0)
        while self.members:
            self.leave(0)
        self.interests = [EVERYTHING]
        self.join(2)
        for _ in range(10 * self.sent + 50):
            self.work(len(self.jobs))
            self.store.commit(1000)
            self.acknowledge_some(2)
            await self.settle()
            if self.queue.depth == 0 and not (self.store.waiting or self.jobs):
                break


async def turn(number: int) -> None:
    """The loop goes on."""
    for _ in range(number):
        await asyncio.sleep(0)


HISTORY: dict[str, Callable[[GroupWorld, int], object]] = {
    "send": GroupWorld.send,
    "send together": lambda world, number: world.add_together(1 + number),
    "commit": lambda world, number: world.store.commit(number),
    "refuse": lambda world, _: world.store.refuse(1),
    "join": GroupWorld.join,
    "leave": GroupWorld.leave,
    "work": GroupWorld.work,
    "acknowledge": GroupWorld.acknowledge_some,
    "transact": GroupWorld.transact,
    "commit a transaction": GroupWorld.commit,
    "abort a transaction": GroupWorld.abort,
    "choke": GroupWorld.choke,
    "turn": lambda _, number: turn(number),
}
#: How often each of them happens.
WEIGHTS: Final = (3, 2, 6, 1, 4, 2, 4, 5, 3, 2, 2, 1, 8)
STEPS: Final = 150


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
@given(
    chance=st.randoms(use_true_random=True),
    window=st.sampled_from([1, 3, 6, 50]),
    stored=st.integers(0, 20),
    concurrent=st.booleans(),
    read_early=st.booleans(),
    is_exclusive=st.booleans(),
    interests=st.sampled_from([[EVERYTHING], [RED, BLUE], [EVERYTHING, RED]]),
    policy=st.builds(
        DestinationPolicy,
        message_group_map=st.sampled_from(GROUP_MAPS),
        message_groups_max=st.sampled_from([1, 2, 100]),
        persist_jms_redelivered=st.booleans(),
    ),
    redelivery_delay_ms=st.sampled_from([0, 1]),
    memory_bytes=st.sampled_from([64 << 10, 256 << 20]),
    in_flight_bytes=st.sampled_from([1, 32 << 20]),
)
def test_nobody_is_given_a_message_before_those_of_its_group_that_were_sent_earlier(
    chance: random.Random,
    redelivery_delay_ms: int,
    **world: Any,
) -> None:
    delays = RedeliveryPolicy(initial_redelivery_delay_ms=redelivery_delay_ms, redelivery_delay_ms=redelivery_delay_ms)

    async def scenario() -> GroupWorld:
        loop = asyncio.get_running_loop()

        def call_later(_: float, callback: Callable[..., object], *arguments: Any) -> asyncio.Handle:
            return loop.call_soon(_after_turns, loop, DELAY_TURNS, callback, arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(redelivery, "_RETURNED_AT_ONCE", 2)
            patch.setattr(loop, "call_later", call_later)
            groups = GroupWorld(redelivery=delays, **world)
            for step in chance.choices(list(HISTORY), WEIGHTS, k=STEPS):
                done = HISTORY[step](groups, chance.randint(1, 4))
                if isinstance(done, Coroutine):
                    await done
            await groups.finish()
        return groups

    groups = asyncio.run(scenario())
    assert not groups.wrong
    wanted = set(range(1, groups.sent + 1)) - groups.refused
    assert len(groups.acknowledged) == len(set(groups.acknowledged)), "acknowledged twice"
    assert wanted <= set(groups.acknowledged), "lost"
    assert groups.queue.depth == 0
    assert groups.broker.memory.used == 0


def test_a_spool_that_is_closed_takes_no_group_from_its_consumer() -> None:
    async def scenario() -> None:
        world = GroupWorld(interests=[EVERYTHING], window=50, concurrent=True, read_early=False, stored=0)
        world.join(0)
        world.join(0)
        for _ in range(5):
            world.add()
        lane = world.queue.contents.transient_lane(world.messages[1])
        assert lane.store.message_count == 0  # it is open
        await world.settle()
        world.queue.let_go_of_spool()
        assert lane.is_closed
        for _ in range(4):
            world.store.commit(10)
            world.acknowledge_some(0)
            await world.settle()
        assert (sorted(world.holders), world.acknowledged, world.wrong) == ([1, 2, 3, 4], [1, 3, 4], [])

    asyncio.run(scenario())


def _after_turns(
    loop: asyncio.AbstractEventLoop, turns: int, callback: Callable[..., object], arguments: tuple[Any, ...]
) -> None:
    if turns:
        loop.call_soon(_after_turns, loop, turns - 1, callback, arguments)
    else:
        callback(*arguments)
