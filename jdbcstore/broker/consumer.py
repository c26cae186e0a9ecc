"""A subscription of one client: how much it may be sent, and what it has not acknowledged yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jdbcstore.broker.delivery import Delivery
from jdbcstore.broker.interest import EVERYTHING, Interest
from jdbcstore.destination import Destination
from jdbcstore.stomp.events import AckMode

if TYPE_CHECKING:
    from jdbcstore.broker.queue import Queue
    from jdbcstore.broker.session import Session

__all__ = ["Consumer"]


class Consumer:
    """A subscription. It may hold `prefetch` unacknowledged messages, and gets none while its client does not read.

    Args:
        session: the client.
        subscription_id: what the client calls it; None if it gave no name (STOMP 1.0).
        destination: what it subscribed to, perhaps a wildcard or a composite.
        ack_mode: how it acknowledges.
        prefetch: how many messages it may hold.
        interest: which messages it wants.
        is_exclusive: whether it wants its queues for itself.
    """

    __slots__ = (
        "ack_mode",
        "credit",
        "destination",
        "interest",
        "is_auto",
        "is_exclusive",
        "parked",
        "prefetch",
        "queues",
        "session",
        "subscription_id",
        "unacknowledged",
    )

    is_browser = False

    def __init__(
        self,
        session: Session,
        subscription_id: str | None,
        destination: Destination,
        ack_mode: AckMode,
        prefetch: int,
        interest: Interest = EVERYTHING,
        *,
        is_exclusive: bool = False,
    ) -> None:
        self.session = session
        self.subscription_id = subscription_id
        self.destination = destination
        self.ack_mode = ack_mode
        self.is_auto = ack_mode is AckMode.AUTO
        self.prefetch = prefetch
        self.credit = prefetch
        self.interest = interest
        self.is_exclusive = is_exclusive
        #: By the name that the client's ACK will use, in the order of delivery.
        self.unacknowledged: dict[str, Delivery] = {}
        #: The queues that it takes part in.
        self.queues: list[Queue] = []
        #: Those that wait for it to be able to take more.
        self.parked: list[Queue] = []

    @property
    def can_take(self) -> bool:
        """Whether it may be sent a message now."""
        return self.credit > 0 and not self.session.is_choked

    def deliver(self, delivery: Delivery) -> None:
        """Send a message to the client."""
        self.credit -= 1
        delivery.consumer = self
        self.session.deliver(self, delivery)

    def release(self, count: int = 1) -> None:
        """So many messages are acknowledged: there is room for as many."""
        self.credit += count
        if self.parked:
            self.resume()

    def resume(self) -> None:
        """Ask the queues for more if there is room."""
        if self.parked and self.can_take:
            parked, self.parked = self.parked, []
            for queue in parked:
                queue.consumer_ready(self)

    def close(self) -> None:
        """Leave all queues; what was not acknowledged goes back to them."""
        for queue in self.queues:
            queue.remove_consumer(self)
        self.queues.clear()
        self.parked.clear()
        deliveries, self.unacknowledged = list(self.unacknowledged.values()), {}
        give_back(deliveries)


def give_back(deliveries: list[Delivery]) -> None:
    """Return deliveries to the queues that they came from; a topic's are gone."""
    by_queue: dict[Queue, list[Delivery]] = {}
    for delivery in deliveries:
        if delivery.lane is not None:
            by_queue.setdefault(delivery.lane.queue, []).append(delivery)
    for queue, returned in by_queue.items():
        queue.give_back(returned)
