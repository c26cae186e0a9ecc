"""How often messages of a durable subscription were delivered: the store has one row for all subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from jdbcstore.broker.delivery import Delivery
from jdbcstore.broker.topic_history import TopicHistory

__all__ = ["DeliveryCounts"]


class DeliveryCounts:
    """The counts of one subscription to one topic.

    Args:
        by_sequence: of messages that were given back; kept up to date, also for the next client.
        left: the messages themselves that no store has.
    """

    __slots__ = ("_by_sequence", "_left")

    def __init__(self, by_sequence: dict[int, int], left: TopicHistory) -> None:
        self._by_sequence = by_sequence
        self._left = left

    def apply(self, delivery: Delivery) -> None:
        """A message is going to be delivered: let it know how often it was."""
        if self._by_sequence and delivery.stored:
            before = delivery.redeliveries
            delivery.redeliveries = self._by_sequence.get(delivery.message_id.broker_sequence_id, before)

    def keep(self, delivery: Delivery) -> None:
        """A message was given back, and counted."""
        if delivery.stored and delivery.lane is not None and delivery.lane.is_durable:
            self._by_sequence[delivery.message_id.broker_sequence_id] = delivery.redeliveries

    def leave(self, delivery: Delivery) -> None:
        """The client is gone: a message that no store has is kept for the next one, with its count."""
        if delivery.message is not None and not (delivery.stored or delivery.failed):
            message = delivery.message.copy()
            message.redelivery_counter = delivery.redeliveries
            self._left.add(message, delivery.order)

    def forget(self, deliveries: Sequence[Delivery]) -> None:
        """Messages have left the subscription."""
        for delivery in deliveries:
            self._by_sequence.pop(delivery.message_id.broker_sequence_id, None)
