"""What a consumer did not acknowledge comes back: it is delivered again, in its old order, or becomes a dead letter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from jdbcstore.broker.delivery import Delivery
from jdbcstore.broker.delivery_counts import DeliveryCounts
from jdbcstore.broker.destination_host import DestinationHost
from jdbcstore.broker.destination_policy import RedeliveryPolicy
from jdbcstore.broker.queue_consumers import QueueConsumers
from jdbcstore.broker.queue_contents import QueueContents
from jdbcstore.broker.removal import Removal

__all__ = ["Redelivery"]

#: What is taken back in one go.
_RETURNED_AT_ONCE: Final = 100


class Redelivery:
    """Takes messages of one queue back.

    Args:
        broker: writes down how often they were delivered, and gives the loop.
        policy: how often they are delivered again, and when.
        contents: what is in the queue.
        consumers: who takes part.
        removal: where messages go that were delivered too often.
        counts: how often messages were delivered before, where that is not the store's business.

    Attributes:
        is_over: whether the queue is gone: what comes back is forgotten.
    """

    def __init__(
        self,
        broker: DestinationHost,
        policy: RedeliveryPolicy,
        contents: QueueContents,
        consumers: QueueConsumers,
        removal: Removal,
        counts: DeliveryCounts | None,
    ) -> None:
        self.is_over = False
        self._broker = broker
        self._policy = policy
        self._contents = contents
        self._consumers = consumers
        self._removal = removal
        self._counts = counts

    def taking_back(self, deliveries: Iterable[Delivery]) -> Iterator[None]:
        """Take back what a consumer did not acknowledge; a job (`jdbcstore.broker.slices`)."""
        counted: list[Delivery] = []
        remaining = iter(deliveries)
        while some := list(islice(remaining, _RETURNED_AT_ONCE)):
            counted += self._take_back(some)
            yield
        self._broker.redeliveries.given_back(counted)

    def _take_back(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Take some back. Returns those that will be delivered again."""
        returned: list[Delivery] = []
        delayed: list[Delivery] = []
        for delivery in deliveries:
            delivery.take_back()
            delivery.consumer = None
            delivery.is_out = False
            if delivery.is_counted:
                delivery.redeliveries += 1
            delivery.is_counted = True
            delivery.is_marked = False
            if self._counts is not None:
                self._counts.keep(delivery)
            if self.is_over or delivery.is_late:
                if self._counts is not None:
                    self._counts.leave(delivery)
                self._contents.forget(delivery)
            elif self.is_too_often(delivery):
                self.give_up(delivery)
            elif delay_ms := self._policy.delay_ms(delivery.redeliveries):
                again = self._broker.loop.call_later(delay_ms / 1000, self._delay_is_over, delivery)
                self._contents.delayed[delivery] = again
                delivery.is_out = True
                delayed.append(delivery)
            else:
                returned.append(delivery)
        not_yet = set(delayed)  # what is delayed holds up its group until it is ready
        self._consumers.done(delivery for delivery in deliveries if delivery not in not_yet)
        self._consumers.put_back(returned)
        return [*returned, *delayed]

    def put_back_untouched(self, deliveries: Iterable[Delivery]) -> None:
        """Take back what nobody had: it was taken out for another purpose, which came to nothing."""
        deliveries = list(deliveries)
        for delivery in deliveries:
            delivery.take_back()
            delivery.is_out = False
            if delivery.is_late:
                self._contents.forget(delivery)
        self._consumers.done(deliveries)
        self._consumers.put_back(delivery for delivery in deliveries if not delivery.is_late)

    def _delay_is_over(self, delivery: Delivery) -> None:
        del self._contents.delayed[delivery]
        delivery.is_out = False
        self._consumers.done([delivery])
        self._consumers.put_back([delivery])

    def is_too_often(self, delivery: Delivery) -> bool:
        """Whether a message was delivered as often as it may be."""
        return 0 <= self._policy.maximum_redeliveries < delivery.redeliveries and not delivery.failed

    def give_up(self, delivery: Delivery) -> None:
        """A message that was delivered as often as it may be goes to the dead letters, or away."""
        most = self._policy.maximum_redeliveries
        delivery.cause = f"Exceeded redelivery policy limit: maximumRedeliveries={most}"
        delivery.hand_out()
        if self._policy.send_to_dlq_if_max_retries_exceeded:
            self._removal.bury(delivery)
        else:
            self._removal.discard(delivery)
