"""The ledger of a connection: what its client was sent and has to acknowledge, under the names that an ACK will use.

======= =====================================================================================
version the client names a message by
======= =====================================================================================
1.0     its message id, perhaps with the subscription's id; without one all are searched
1.1     its message id and the subscription's id
1.2     the ``ack`` header that came with it
======= =====================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping

from jdbcstore.broker.consumer import Consumer
from jdbcstore.broker.delivery import Delivery
from jdbcstore.errors import ProtocolError
from jdbcstore.stomp.events import Ack, AckMode, Nack

__all__ = ["Ledger"]


class Ledger:
    """Names deliveries, and finds them by their names. The deliveries themselves stand with their consumers."""

    __slots__ = ("_ack_id_stem", "_by_ack_id", "_count")

    def __init__(self) -> None:
        self._ack_id_stem: str | None = None
        self._by_ack_id: dict[str, Delivery] = {}
        self._count = 0

    def use_ack_ids(self, stem: str) -> None:
        """From now on messages are named by ids of their own, made of this stem and a number (STOMP 1.2)."""
        self._ack_id_stem = stem

    def enter(self, consumer: Consumer, delivery: Delivery) -> str | None:
        """A message is being sent that has to be acknowledged: name it.

        Returns:
            The id that its ACK will use, to be told as ``ack``; None before 1.2.
        """
        self._count = delivery.sent = self._count + 1
        if self._ack_id_stem is not None:
            ack_id = delivery.key = f"{self._ack_id_stem}{self._count}"
            self._by_ack_id[ack_id] = consumer.unacknowledged[ack_id] = delivery
            return ack_id
        key = str(delivery.message_id)
        if key in consumer.unacknowledged:
            # The same message from two queues of a composite or wildcard: the second ACK of this id will mean it.
            key = f"{key}\n{self._count}"
        delivery.key = key
        consumer.unacknowledged[key] = delivery
        return None

    def find(self, event: Ack | Nack, subscriptions: Mapping[str, Consumer]) -> tuple[Delivery, Consumer]:
        """The delivery that an ACK or NACK names.

        Raises:
            ProtocolError: the client has no such message.
        """
        delivery = None
        if event.id is not None:
            delivery = self._by_ack_id.get(event.id)
        elif event.message_id is not None:
            delivery = _by_message_id(event.message_id, event.subscription, subscriptions)
        if delivery is None or delivery.consumer is None:
            name = "null" if event.message_id is None else event.message_id
            raise ProtocolError(f"Unexpected {type(event).__name__.upper()} received for message-id [{name}]")
        return delivery, delivery.consumer

    def covered(self, delivery: Delivery, consumer: Consumer) -> list[Delivery]:
        """What an ACK of this delivery acknowledges: in mode client also everything sent before it."""
        if consumer.ack_mode is not AckMode.CLIENT:
            return [delivery]
        deliveries = []
        for earlier in consumer.unacknowledged.values():
            deliveries.append(earlier)
            if earlier is delivery:
                break
        return deliveries

    def take(self, consumer: Consumer, deliveries: list[Delivery]) -> None:
        """These are not the client's to acknowledge any more."""
        for delivery in deliveries:
            del consumer.unacknowledged[delivery.key]
            self._by_ack_id.pop(delivery.key, None)
        consumer.release(len(deliveries))

    def put_back(self, consumer: Consumer, delivery: Delivery) -> None:
        """The client has it still, in its old place."""
        kept = [*consumer.unacknowledged.values(), delivery]
        kept.sort(key=lambda entry: entry.sent)
        consumer.unacknowledged = {entry.key: entry for entry in kept}
        consumer.credit -= 1
        if self._ack_id_stem is not None:
            self._by_ack_id[delivery.key] = delivery

    def strike(self, consumer: Consumer, delivery: Delivery) -> None:
        """A message was not sent after all. It may not have been entered."""
        if consumer.unacknowledged.get(delivery.key) is delivery:
            del consumer.unacknowledged[delivery.key]
            self._by_ack_id.pop(delivery.key, None)

    def forget(self, consumer: Consumer) -> None:
        """A subscription ends: its messages cannot be acknowledged any more."""
        for key in consumer.unacknowledged:
            self._by_ack_id.pop(key, None)


def _by_message_id(message_id: str, subscription: str | None, subscriptions: Mapping[str, Consumer]) -> Delivery | None:
    if subscription is None:
        candidates = list(subscriptions.values())
    else:
        candidates = [subscriptions[subscription]] if subscription in subscriptions else []
    for candidate in candidates:
        delivery = candidate.unacknowledged.get(message_id)
        if delivery is not None:
            return delivery
    for candidate in candidates:
        for key, delivery in candidate.unacknowledged.items():
            if key.startswith(message_id + "\n"):
                return delivery
    return None
