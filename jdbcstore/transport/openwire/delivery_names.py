"""The names by which acknowledgements mean messages: the message's id, and its destination where that is not enough."""

from __future__ import annotations

from collections.abc import Iterable

from jdbcstore.broker.delivery import Consumer, Delivery
from jdbcstore.destination import Destination
from jdbcstore.identifiers import MessageId

__all__ = ["OpenWireNames"]


class OpenWireNames:
    """Names deliveries of one connection, and finds them by their names (`jdbcstore.broker.pending_acks`).

    A consumer of a composite or a wildcard may have the same message from two destinations. The second one has a longer
    name then.
    """

    __slots__ = ()

    def find(self, consumer: Consumer, message_id: MessageId, destination: Destination | None) -> Delivery | None:
        """The pending delivery of a consumer that an acknowledgement names; None if there is none."""
        key = str(message_id)
        found = consumer.unacknowledged.get(key)
        if destination is None or (found is not None and _source(found) in (None, destination)):
            return found
        return consumer.unacknowledged.get(_longer(key, destination), found)

    # -- what the broker tells ---------------------------------------------------------------------------------------

    def enter(self, consumer: Consumer, delivery: Delivery) -> str:
        """Name a message that is being sent."""
        key = str(delivery.message_id)
        if key not in consumer.unacknowledged:
            return key
        message = delivery.message
        destination = _source(delivery) or (None if message is None else message.destination)
        key = _longer(key, destination)
        while key in consumer.unacknowledged:  # somebody has sent it twice
            key += "+"
        return key

    def put_back(self, consumer: Consumer, delivery: Delivery) -> None:
        """The consumer has it still: nothing is to be known but its name."""

    def settle(self, consumer: Consumer, deliveries: Iterable[Delivery]) -> None:
        """Likewise."""


def _source(delivery: Delivery) -> Destination | None:
    return None if delivery.lane is None else delivery.lane.queue.destination


def _longer(key: str, destination: Destination | None) -> str:
    return f"{key} {destination}"
