"""A topic whose store takes its time: who is there gets a message after its commit, in the order of publication."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import cast

from jdbcstore import BrokerOptions, Completion, Message, Topic, TransientStoreError
from jdbcstore.broker.access import Access
from jdbcstore.broker.broker import Broker
from jdbcstore.broker.completion_bridge import CompletionBridge
from jdbcstore.broker.delivery import Consumer, Delivery, Receiver
from jdbcstore.broker.subscription_request import AcknowledgeMode
from jdbcstore.broker.topic import TopicConsumer, TopicSubscription
from jdbcstore.store.memory import MemoryPersistenceAdapter, MemoryTopicMessageStore
from jdbcstore.subscription import SubscriptionKey
from jdbcstore.testing.messages import text_message

NAME = Topic("T")


class SlowStore(MemoryTopicMessageStore):
    """Adds wait."""

    def __init__(self) -> None:
        super().__init__(MemoryPersistenceAdapter(), NAME, prioritized=False)
        self.waiting: deque[Completion[int]] = deque()

    def add_message(self, message: Message) -> Completion[int]:
        self.waiting.append(Completion())
        return self.waiting[-1]


class Client:
    """A session that only takes notes."""

    is_choked = False

    def __init__(self, broker: Broker) -> None:
        self.got: list[int] = []
        self.access = Access(broker, "a client")

    def deliver(self, consumer: Consumer, deliveries: Sequence[Delivery]) -> None:
        self.got += [delivery.message_id.producer_sequence_id for delivery in deliveries]


class InUse:
    """A durable subscription whose client is there, and takes nothing."""

    has_ended = False

    def admit(self, message: Message) -> None:
        """It does not want it."""

    def offer(self, message: Message, publisher: object) -> None:
        """Nor this one."""


def test_after_the_commit_and_in_order() -> None:
    async def scenario() -> None:
        store = SlowStore()

        class Adapter(MemoryPersistenceAdapter):
            def topic_message_store(self, topic: Topic, *, prioritized: bool = False) -> MemoryTopicMessageStore:
                return store

        broker = Broker(Adapter(), BrokerOptions())
        broker.loop = asyncio.get_running_loop()
        broker.completions = CompletionBridge(broker.loop, lambda: None, broker.turn)
        client, answers = Client(broker), list[tuple[int, bool]]()
        topic = broker.topic(NAME)
        key = SubscriptionKey("ann", "news")
        topic.durable.add(key)
        topic.subscriptions[key] = cast(TopicSubscription, InUse())
        consumer = TopicConsumer(broker, cast(Receiver, client), "1", NAME, AcknowledgeMode.AUTO, 100)
        list(broker.subscribing(consumer))

        def publish(number: int, *, persistent: bool) -> None:
            message = text_message(number, destination=NAME)
            message.persistent = persistent
            topic.publish(message, None, lambda error: answers.append((number, error is None)))

        for number, persistent in enumerate((False, True, False, True, True), 1):
            publish(number, persistent=persistent)
        await asyncio.sleep(0)
        assert (client.got, answers) == ([1], [(1, True), (3, True)])
        first, refused, last = store.waiting
        last.resolve(5)
        await asyncio.sleep(0.01)
        assert client.got == [1]
        first.resolve(2)
        refused.fail(TransientStoreError("scripted"))
        while len(client.got) < 4:
            await asyncio.sleep(0)
        assert client.got == [1, 2, 3, 5]
        assert answers[2:] == [(5, True), (2, True), (4, False)]

    asyncio.run(scenario())
