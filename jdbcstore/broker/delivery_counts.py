"""How often messages of a durable subscription were delivered: the store has one row for all subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from jdbcstore.broker.delivery import Delivery

__all__ = ["DeliveryCounts"]


class DeliveryCounts:
    """The counts of one subscription to one topic.

    Args:
        by_sequence: of messages that were given back; kept up to date, also for the next client.
    """

    __slots__ = ("_by_sequence",)

    def __init__(self, by_sequence: dict[int, int]) -> None:
        self._by_sequence = by_sequence

    def apply(self, delivery: Delivery) -> None:
        """A message is going to be delivered: let it know how often it was."""
        if self._by_sequence and delivery.stored:
            before = delivery.redeliveries
            delivery.redeliveries = self._by_sequence.get(delivery.message_id.broker_sequence_id, before)

    def keep(self, delivery: Delivery) -> None:
        """A message was given back, and counted."""
        if delivery.stored and delivery.lane is not None and delivery.lane.is_durable:
            self._by_sequence[delivery.message_id.broker_sequence_id] = delivery.redeliveries

    def forget(self, deliveries: Sequence[Delivery]) -> None:
        """Messages have left the subscription."""
        for delivery in deliveries:
            self._by_sequence.pop(delivery.message_id.broker_sequence_id, None)
