"""What queues and topics get of the broker besides what all its parts get: policies, stores, dead letters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from jdbcstore.broker.delivery import Consumer, Delivery, DeliveryAnswer
from jdbcstore.broker.destination_policy import DestinationPolicy, RedeliveryPolicy
from jdbcstore.broker.host import Host
from jdbcstore.broker.redeliveries import Redeliveries
from jdbcstore.destination import Destination
from jdbcstore.destination import Queue as QueueName
from jdbcstore.message import Message
from jdbcstore.store.contract import MessageStore, PersistenceAdapter, TopicMessageStore
from jdbcstore.subscription import SubscriptionKey

__all__ = ["DestinationAdvisories", "DestinationHost", "Publisher"]


class Publisher(Protocol):
    """Who publishes, and may have to wait for slow subscribers."""

    def hold(self) -> None:
        """Wait. Holds add up."""

    def let_go(self) -> None:
        """Take one hold back."""


class DestinationAdvisories(Protocol):
    """Advisories that queues and topics make (`jdbcstore.broker.advisories`)."""

    def arrived(self, message: Message, source: Destination, *, is_attended: bool) -> None:
        """A message has arrived; whether anybody is subscribed to its destination."""

    def consumed(self, message: Message, source: Destination) -> None:
        """A consumer is done with a message."""

    def slow_consumer(self, consumer: Consumer, sources: Iterable[Destination]) -> None:
        """A subscriber of these topics does not keep up with what comes from them."""

    def subscription_removed(self, key: SubscriptionKey, destination: Destination, connection_id: str | None) -> None:
        """A durable subscription is gone, by the order of this connection, or of none."""


class DestinationHost(Host, Protocol):
    """A running broker, as its queues and topics see it."""

    @property
    def advisories(self) -> DestinationAdvisories:
        """Told of what becomes of messages and durable subscriptions."""

    @property
    def redeliveries(self) -> Redeliveries:
        """Writes down how often messages were delivered."""

    def policy_for(self, destination: Destination) -> DestinationPolicy:
        """The policy of a destination."""

    def redelivery_policy_for(self, destination: Destination) -> RedeliveryPolicy:
        """How often messages of this destination are delivered again, and when."""

    def queue_store(self, adapter: PersistenceAdapter, destination: Destination) -> MessageStore:
        """The store of a queue in an adapter, in the order that its policy asks for."""

    def topic_store(self, destination: Destination) -> TopicMessageStore | None:
        """The store of a topic; None if the broker's store keeps no topics."""

    def forget_in_spool(self, queue: QueueName) -> None:
        """There is nothing of a queue in the spool any more."""

    def is_for_dead_letters(self, destination: Destination) -> bool:
        """Whether dead letters go there."""

    def discarded(self, consumer: Consumer, count: int, message: Message, publisher: Publisher | None) -> None:
        """A subscriber of a topic has lost a message, the last of so many: a dead letter if its policy says so."""

    def refused(self, delivery: Delivery, answer: DeliveryAnswer) -> None:
        """A client refuses a message: send it again later, or move it to the dead letters, in one commit."""

    def dead_letter(self, delivery: Delivery, answer: DeliveryAnswer) -> None:
        """Move a delivered message to the dead letters, in one commit, or drop it if its policy says so."""
