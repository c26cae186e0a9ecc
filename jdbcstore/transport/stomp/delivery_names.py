"""The names by which STOMP's ACK and NACK mean messages.

======= =====================================================================================
version the client names a message by
======= =====================================================================================
1.0     its message id, perhaps with the subscription's id; without one all are searched
1.1     its message id and the subscription's id
1.2     the ``ack`` header that came with it
======= =====================================================================================

Each name is looked up in a dictionary, whatever the version: a client may send names that there are not as fast as it
can, and may have a hundred thousand messages.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from jdbcstore.broker.delivery import Consumer, Delivery
from jdbcstore.broker.subscription_request import AcknowledgeMode
from jdbcstore.errors import ProtocolError
from jdbcstore.stomp.events import Ack, Nack

__all__ = ["StompNames"]

K = TypeVar("K", bound=Hashable)


class StompNames:
    """Names deliveries of one connection, and finds them by their names (`jdbcstore.broker.pending_acks`)."""

    __slots__ = ("_ack_id_stem", "_by_ack_id", "_by_message_id", "_is_nameless", "_twins")

    def __init__(self) -> None:
        self._ack_id_stem: str | None = None
        self._by_ack_id: dict[str, Delivery] = {}
        #: Of 1.0, where an ACK need not name its subscription: by message id, in the order of sending.
        self._by_message_id: dict[str, OrderedDict[Delivery, None]] = {}
        self._is_nameless = False
        #: Deliveries of a message that their consumer has already, from another queue: by consumer and message id.
        self._twins: dict[tuple[Consumer, str], OrderedDict[Delivery, None]] = {}

    def use_ack_ids(self, stem: str) -> None:
        """From now on messages are named by ids of their own, made of this stem and a number (STOMP 1.2)."""
        self._ack_id_stem = stem

    def use_message_ids_alone(self) -> None:
        """From now on messages may be named without their subscription (STOMP 1.0)."""
        self._is_nameless = True

    @property
    def has_ack_ids(self) -> bool:
        """Whether `Delivery.key` is to be told as ``ack``."""
        return self._ack_id_stem is not None

    def find(self, event: Ack | Nack, subscriptions: Mapping[str, Consumer]) -> tuple[Delivery, Consumer]:
        """The delivery that an ACK or NACK names.

        Raises:
            ProtocolError: the client has no such message.
        """
        delivery = None
        if event.id is not None:
            delivery = self._by_ack_id.get(event.id)
        elif event.message_id is not None:
            delivery = self._by_name(event.message_id, event.subscription, subscriptions)
        if delivery is None or delivery.consumer is None:
            name = "null" if event.message_id is None else event.message_id
            raise ProtocolError(
                f"Unexpected {type(event).__name__.upper()} received for message-id [{name}]: it was"
                " acknowledged before, or never delivered to this client"
            )
        return delivery, delivery.consumer

    def take(self, ack_id: str) -> Delivery | None:
        """The delivery of this id, which cannot be named any more, if an ACK of it means this one alone; else None, and
        nothing has changed."""
        delivery = self._by_ack_id.pop(ack_id, None)
        if delivery is None:
            return None
        if delivery.consumer is None or delivery.consumer.mode is not AcknowledgeMode.INDIVIDUAL:
            self._by_ack_id[ack_id] = delivery
            return None
        return delivery

    # -- what the broker tells ---------------------------------------------------------------------------------------

    def enter(self, consumer: Consumer, delivery: Delivery) -> str:
        """Name a message that is being sent."""
        if self._ack_id_stem is not None:
            ack_id = f"{self._ack_id_stem}{delivery.sent}"
            self._by_ack_id[ack_id] = delivery
            return ack_id
        key = str(delivery.message_id)
        if key in consumer.unacknowledged:
            # The same message from two queues of a composite or wildcard: the second ACK of this id will mean it.
            key = f"{key}\n{delivery.sent}"
        self._note(consumer, key, delivery)
        return key

    def put_back(self, consumer: Consumer, delivery: Delivery) -> None:
        """It can be named again."""
        if self._ack_id_stem is not None:
            self._by_ack_id[delivery.key] = delivery
        else:
            self._note(consumer, delivery.key, delivery)

    def settle(self, consumer: Consumer, deliveries: Iterable[Delivery]) -> None:
        """These cannot be named any more."""
        if self._ack_id_stem is not None:
            by_ack_id = self._by_ack_id
            for delivery in deliveries:
                by_ack_id.pop(delivery.key, None)
        elif self._is_nameless or self._twins:
            for delivery in deliveries:
                message_id = delivery.key.partition("\n")[0]
                _remove(self._twins, (consumer, message_id), delivery)
                _remove(self._by_message_id, message_id, delivery)

    def forget(self) -> None:
        """Nothing can be named any more."""
        self._by_ack_id.clear()
        self._by_message_id.clear()
        self._twins.clear()

    # -- names before 1.2 --------------------------------------------------------------------------------------------

    def _note(self, consumer: Consumer, key: str, delivery: Delivery) -> None:
        """Make a delivery known that is not found by its consumer and its id."""
        message_id, twin, _ = key.partition("\n")
        if twin:
            self._twins.setdefault((consumer, message_id), OrderedDict())[delivery] = None
        if self._is_nameless:
            self._by_message_id.setdefault(message_id, OrderedDict())[delivery] = None

    def _by_name(
        self, message_id: str, subscription: str | None, subscriptions: Mapping[str, Consumer]
    ) -> Delivery | None:
        if subscription is None:
            return _first(self._by_message_id.get(message_id))
        consumer = subscriptions.get(subscription)
        if consumer is None:
            return None
        delivery = consumer.unacknowledged.get(message_id)
        return delivery if delivery is not None else _first(self._twins.get((consumer, message_id)))


def _first(deliveries: OrderedDict[Delivery, None] | None) -> Delivery | None:
    return next(iter(deliveries)) if deliveries else None


def _remove(index: dict[K, OrderedDict[Delivery, None]], key: K, delivery: Delivery) -> None:
    deliveries = index.get(key)
    if deliveries is not None:
        deliveries.pop(delivery, None)
        if not deliveries:
            del index[key]
