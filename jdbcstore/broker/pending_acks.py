"""What a client was sent and has to acknowledge.

In mode cumulative an acknowledgement covers everything sent before. So `Consumer.unacknowledged` is in the order of
sending, except for what was put back (a transaction that was rolled back, a write that failed): that stands behind what
was there then, and also in a heap by its old place. Who walks through the dictionary may stop at the first one that was
sent later than the one that is named: what stands behind it was sent later still, or is in the heap. In mode range the
heap only says that the dictionary has to be put in order before somebody walks through it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final, Protocol

from jdbcstore.broker.delivery import Consumer, Delivery
from jdbcstore.broker.subscription_request import AcknowledgeMode

__all__ = ["DeliveryNames", "PendingAcks"]

#: How many places of acknowledged messages `Consumer.unacknowledged` may have before those of others: a dictionary
#: keeps them until it grows, and whoever looks for its first entry walks over them.
_GAPS_MAX: Final = 1024


class DeliveryNames(Protocol):
    """Names deliveries in the words of a protocol, and knows which ones are pending."""

    def enter(self, consumer: Consumer, delivery: Delivery) -> str:
        """A message is being sent that has to be acknowledged. Returns its name, unique among those of its consumer."""

    def put_back(self, consumer: Consumer, delivery: Delivery) -> None:
        """It is pending again, under the name that it has (`Delivery.key`): the old one unless another delivery of the
        consumer has that now."""

    def settle(self, consumer: Consumer, deliveries: Iterable[Delivery]) -> None:
        """These are pending no more."""


class _Numbers:
    """Names for nobody: a transport that keeps the deliveries themselves needs none."""

    __slots__ = ()

    def enter(self, consumer: Consumer, delivery: Delivery) -> str:
        return str(delivery.sent)

    def put_back(self, consumer: Consumer, delivery: Delivery) -> None:
        """There is nothing to be known."""

    def settle(self, consumer: Consumer, deliveries: Iterable[Delivery]) -> None:
        """Likewise."""


class PendingAcks:
    """The pending acknowledgements of one client. The deliveries themselves stand with their consumers.

    Args:
        names: see `DeliveryNames`; None if nobody needs names.
    """

    __slots__ = ("_count", "_gaps", "_names")

    def __init__(self, names: DeliveryNames | None = None) -> None:
        self._names: DeliveryNames = _Numbers() if names is None else names
        self._count = 0
        #: By consumer in mode cumulative: what was acknowledged since its dictionary was made.
        self._gaps: dict[Consumer, int] = {}

    def enter(self, consumer: Consumer, deliveries: Iterable[Delivery]) -> None:
        """Messages are being sent that have to be acknowledged."""
        count, name, unacknowledged = self._count, self._names.enter, consumer.unacknowledged
        for delivery in deliveries:
            count += 1
            delivery.sent = count
            key = delivery.key = name(consumer, delivery)
            unacknowledged[key] = delivery
        self._count = count

    def take(self, consumer: Consumer, delivery: Delivery, count_max: int = sys.maxsize) -> list[Delivery]:
        """A delivery is acknowledged: what that covers is not the client's any more. In mode cumulative that is also
        everything sent before.

        Args:
            consumer: whose it is.
            delivery: which one.
            count_max: how many it may be at most.

        Returns:
            What it covers, in the order of sending; nothing if it is more than that, then nothing has changed.
        """
        is_cumulative = consumer.mode is AcknowledgeMode.CUMULATIVE
        deliveries = _covered(consumer, delivery, count_max) if is_cumulative else [delivery]
        if len(deliveries) > count_max:
            return []
        self.settle(consumer, deliveries)
        if is_cumulative:
            self._close_gaps(consumer, len(deliveries))
        return deliveries

    def covered(self, consumer: Consumer, first: Delivery | None, last: Delivery) -> list[Delivery]:
        """What was sent to a consumer in mode range from one delivery on up to another, in order.

        Args:
            consumer: whose they are.
            first: where to begin; None for the oldest.
            last: where to end.
        """
        if first is last:
            return [last]
        if consumer.restored:
            by_sending = sorted(consumer.unacknowledged.items(), key=lambda entry: entry[1].sent)
            consumer.unacknowledged = dict(by_sending)
            consumer.restored.clear()
        from_ = 0 if first is None else first.sent
        deliveries: list[Delivery] = []
        for delivery in consumer.unacknowledged.values():
            if delivery.sent > last.sent:
                break
            if delivery.sent >= from_:
                deliveries.append(delivery)
        return deliveries

    def take_all(self, consumer: Consumer, deliveries: list[Delivery]) -> None:
        """Just these are acknowledged: they are not the client's any more."""
        self.settle(consumer, deliveries)
        self._close_gaps(consumer, len(deliveries))

    def settle(self, consumer: Consumer, deliveries: list[Delivery]) -> None:
        """These are not the client's to acknowledge any more."""
        unacknowledged = consumer.unacknowledged
        for delivery in deliveries:
            del unacknowledged[delivery.key]
        self._names.settle(consumer, deliveries)
        consumer.release(len(deliveries))

    def put_back(self, consumer: Consumer, delivery: Delivery) -> None:
        """The client has it still, in its old place."""
        if delivery.key in consumer.unacknowledged:  # the same message of another destination has its name now
            delivery.key = self._names.enter(consumer, delivery)
        consumer.unacknowledged[delivery.key] = delivery
        if consumer.prefetch:
            consumer.credit -= 1
        else:
            consumer.extension += 1  # it was asked for
        if consumer.mode is not AcknowledgeMode.INDIVIDUAL:
            heappush(consumer.restored, (delivery.sent, delivery))
        self._names.put_back(consumer, delivery)

    def strike(self, consumer: Consumer, delivery: Delivery) -> None:
        """A message was not sent after all. It may not have been entered."""
        if consumer.unacknowledged.get(delivery.key) is delivery:
            del consumer.unacknowledged[delivery.key]
            self._names.settle(consumer, (delivery,))

    def forget(self, consumer: Consumer) -> None:
        """A subscription ends: its messages cannot be acknowledged any more."""
        self._gaps.pop(consumer, None)
        self._names.settle(consumer, consumer.unacknowledged.values())

    def close(self) -> None:
        """The client is gone: so are all its subscriptions."""
        self._gaps.clear()

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
