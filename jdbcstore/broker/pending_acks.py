"""The ledger of a connection: what its client was sent and has to acknowledge, under the names that an ACK will use.

======= =====================================================================================
version the client names a message by
======= =====================================================================================
1.0     its message id, perhaps with the subscription's id; without one all are searched
1.1     its message id and the subscription's id
1.2     the ``ack`` header that came with it
======= =====================================================================================

Each name is looked up in a dictionary, whatever the version: a client may send names that there are not as fast as it
can, and may have a hundred thousand messages.

In mode client an ACK covers everything sent before. So `Consumer.unacknowledged` is in the order of sending, except for
what was put back (an ABORT, a write that failed): that stands behind what was there then, and also in a heap by its
old place. Who walks through the dictionary may stop at the first one that was sent later than the one that is named:
what stands behind it was sent later still, or is in the heap.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final, TypeVar

from jdbcstore.broker.consumer import Consumer
from jdbcstore.broker.delivery import Delivery
from jdbcstore.errors import ProtocolError
from jdbcstore.stomp.events import Ack, AckMode, Nack

__all__ = ["Ledger"]

K = TypeVar("K", bound=Hashable)

#: How many places of acknowledged messages `Consumer.unacknowledged` may have before those of others: a dictionary
#: keeps them until it grows, and whoever looks for its first entry walks over them.
_GAPS_MAX: Final = 1024


class Ledger:
    """Names deliveries, and finds them by their names. The deliveries themselves stand with their consumers."""

    __slots__ = ("_ack_id_stem", "_by_ack_id", "_by_message_id", "_count", "_gaps", "_is_nameless", "_twins")

    def __init__(self) -> None:
        self._ack_id_stem: str | None = None
        self._by_ack_id: dict[str, Delivery] = {}
        #: Of 1.0, where an ACK need not name its subscription: by message id, in the order of sending.
        self._by_message_id: dict[str, OrderedDict[Delivery, None]] = {}
        self._is_nameless = False
        #: Deliveries of a message that their consumer has already, from another queue: by consumer and message id.
        self._twins: dict[tuple[Consumer, str], OrderedDict[Delivery, None]] = {}
        self._count = 0
        #: By consumer in mode client: what was acknowledged since its dictionary was made.
        self._gaps: dict[Consumer, int] = {}

    def use_ack_ids(self, stem: str) -> None:
        """From now on messages are named by ids of their own, made of this stem and a number (STOMP 1.2)."""
        self._ack_id_stem = stem

    def use_message_ids_alone(self) -> None:
        """From now on messages may be named without their subscription (STOMP 1.0)."""
        self._is_nameless = True

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
        message_id = delivery.key = str(delivery.message_id)
        if message_id in consumer.unacknowledged:
            # The same message from two queues of a composite or wildcard: the second ACK of this id will mean it.
            delivery.key = f"{message_id}\n{self._count}"
        consumer.unacknowledged[delivery.key] = delivery
        self._note(consumer, delivery)
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
            delivery = self._by_name(event.message_id, event.subscription, subscriptions)
        if delivery is None or delivery.consumer is None:
            name = "null" if event.message_id is None else event.message_id
            raise ProtocolError(f"Unexpected {type(event).__name__.upper()} received for message-id [{name}]")
        return delivery, delivery.consumer

    def take(self, consumer: Consumer, delivery: Delivery, count_max: int = sys.maxsize) -> list[Delivery]:
        """An ACK names this delivery: what it covers is not the client's any more. In mode client that is also
        everything sent before.

        Args:
            consumer: whose it is.
            delivery: which one.
            count_max: how many it may be at most.

        Returns:
            What it covers, in the order of sending; nothing if it is more than that, then nothing has changed.
        """
        is_cumulative = consumer.ack_mode is AckMode.CLIENT
        deliveries = _covered(consumer, delivery, count_max) if is_cumulative else [delivery]
        if len(deliveries) > count_max:
            return []
        self.settle(consumer, deliveries)
        if is_cumulative:
            self._close_gaps(consumer, len(deliveries))
        return deliveries

    def settle(self, consumer: Consumer, deliveries: list[Delivery]) -> None:
        """These are not the client's to acknowledge any more."""
        unacknowledged, by_ack_id = consumer.unacknowledged, self._by_ack_id
        for delivery in deliveries:
            del unacknowledged[delivery.key]
            by_ack_id.pop(delivery.key, None)
        if self._ack_id_stem is None:
            for delivery in deliveries:
                self._unnote(consumer, delivery)
        consumer.release(len(deliveries))

    def put_back(self, consumer: Consumer, delivery: Delivery) -> None:
        """The client has it still, in its old place."""
        consumer.unacknowledged[delivery.key] = delivery
        consumer.credit -= 1
        if consumer.ack_mode is AckMode.CLIENT:
            heappush(consumer.restored, (delivery.sent, delivery))
        if self._ack_id_stem is not None:
            self._by_ack_id[delivery.key] = delivery
        else:
            self._note(consumer, delivery)

    def strike(self, consumer: Consumer, delivery: Delivery) -> None:
        """A message was not sent after all. It may not have been entered."""
        if consumer.unacknowledged.get(delivery.key) is delivery:
            del consumer.unacknowledged[delivery.key]
            self._by_ack_id.pop(delivery.key, None)
            self._unnote(consumer, delivery)

    def forget(self, consumer: Consumer) -> None:
        """A subscription ends: its messages cannot be acknowledged any more."""
        self._gaps.pop(consumer, None)
        if self._ack_id_stem is None:
            for delivery in consumer.unacknowledged.values():
                self._unnote(consumer, delivery)
            return
        for key in consumer.unacknowledged:
            self._by_ack_id.pop(key, None)

    # -- names before 1.2 ----------------------------------------------------------------------------------------

    def _note(self, consumer: Consumer, delivery: Delivery) -> None:
        """Make a delivery known that is not found by its consumer and its id."""
        message_id, twin, _ = delivery.key.partition("\n")
        if twin:
            self._twins.setdefault((consumer, message_id), OrderedDict())[delivery] = None
        if self._is_nameless:
            self._by_message_id.setdefault(message_id, OrderedDict())[delivery] = None

    def _unnote(self, consumer: Consumer, delivery: Delivery) -> None:
        if not self._is_nameless and not self._twins:
            return
        message_id = delivery.key.partition("\n")[0]
        _remove(self._twins, (consumer, message_id), delivery)
        _remove(self._by_message_id, message_id, delivery)

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

    def _close_gaps(self, consumer: Consumer, count: int) -> None:
        gaps = self._gaps.get(consumer, 0) + count
        if gaps > _GAPS_MAX + len(consumer.unacknowledged):
            consumer.unacknowledged = dict(consumer.unacknowledged.items())
            gaps = 0
        self._gaps[consumer] = gaps


def _covered(consumer: Consumer, delivery: Delivery, count_max: int) -> list[Delivery]:
    """What was sent up to a delivery, in order; more than `count_max` only to tell that it is more."""
    deliveries: list[Delivery] = []
    for earlier in consumer.unacknowledged.values():
        if earlier.sent > delivery.sent or len(deliveries) > count_max:
            break
        deliveries.append(earlier)
    if not consumer.restored or len(deliveries) > count_max:
        return deliveries
    found = dict.fromkeys(deliveries)
    heap, popped = consumer.restored, []
    while heap and heap[0][0] <= delivery.sent and len(found) <= count_max:
        popped.append(heappop(heap))
        one = popped[-1][1]
        if consumer.unacknowledged.get(one.key) is one:
            found[one] = None
    if len(found) > count_max:
        for entry in popped:
            heappush(heap, entry)
    return sorted(found, key=attrgetter("sent"))


def _first(deliveries: OrderedDict[Delivery, None] | None) -> Delivery | None:
    return next(iter(deliveries)) if deliveries else None


def _remove(index: dict[K, OrderedDict[Delivery, None]], key: K, delivery: Delivery) -> None:
    deliveries = index.get(key)
    if deliveries is not None:
        deliveries.pop(delivery, None)
        if not deliveries:
            del index[key]
