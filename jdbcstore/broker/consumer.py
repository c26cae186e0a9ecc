"""A subscription of one client: how much it may be sent, and what it has not acknowledged yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from jdbcstore.broker.delivery import Delivery
from jdbcstore.broker.interest import EVERYTHING, Interest
from jdbcstore.destination import Destination
from jdbcstore.stomp.events import AckMode

if TYPE_CHECKING:
    from jdbcstore.broker.queue import Queue
    from jdbcstore.transport.stomp.session import Session

__all__ = ["Consumer", "give_back", "giving_back"]

_by_sent: Final = attrgetter("sent")
#: The credit of a consumer that is closed.
_NEVER: Final = -(1 << 62)
#: Queues that are asked for more in one go.
_QUEUES_AT_ONCE: Final = 50


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
        priority: -128 to 127; while one of a higher priority can take messages it gets none.
    """

    __slots__ = (
        "ack_mode",
        "credit",
        "destination",
        "interest",
        "is_auto",
        "is_awake",
        "is_closed",
        "is_exclusive",
        "kept_bytes",
        "parked",
        "prefetch",
        "priority",
        "queues",
        "restored",
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
        priority: int = 0,
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
        self.priority = priority
        #: What is counted for it.
        self.kept_bytes = 0
        #: By the name that the client's ACK will use, in the order of delivery, except for what was put back
        #: (`jdbcstore.broker.pending_acks`).
        self.unacknowledged: dict[str, Delivery] = {}
        #: Those of them that were put back, a heap by their old place; only where an ACK covers those before it.
        self.restored: list[tuple[int, Delivery]] = []
        #: The queues that it takes part in, in order; a dictionary for its order.
        self.queues: dict[Queue, None] = {}
        #: Those that wait for it to be able to take more, in turn.
        self.parked: deque[Queue] = deque()
        #: Whether they are going to be told that it is.
        self.is_awake = False
        self.is_closed = False

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
        """Ask the queues for more, at the end of this turn of the loop, if there is room."""
        if self.parked and not self.is_awake and self.can_take:
            self.is_awake = True
            self.session.awake(self)

    def dispatch(self) -> bool:
        """Let the queues that wait for it hand out what they have, in turn, as long as it can take more.

        One that has more than that waits again, behind the others; one that has nothing is not asked again. So each
        acknowledgement costs one of them, not all.

        Returns:
            Whether that was all that could be done now.
        """
        self.is_awake = False
        for _ in range(_QUEUES_AT_ONCE):
            if not self.parked or not self.can_take:
                return True
            self.parked.popleft().resume(self)
        self.resume()
        return not self.is_awake

    def close(self) -> None:
        """Leave all queues; what was not acknowledged goes back to them."""
        for _ in self.closing():
            pass

    def closing(self) -> Iterator[None]:
        """`close`, as a job (`jdbcstore.broker.slices`)."""
        self.is_closed = True
        self.credit = _NEVER
        deliveries, self.unacknowledged = sorted(self.unacknowledged.values(), key=_by_sent), {}
        self.restored.clear()
        return giving_back(deliveries, self._leaving())

    def _leaving(self) -> Iterator[None]:
        self.parked.clear()
        queues, self.queues = self.queues, {}
        for queue in queues:
            queue.remove_consumer(self)
            yield


def give_back(deliveries: Iterable[Delivery]) -> None:
    """Return deliveries to the queues that they came from; a topic's are gone."""
    for _ in giving_back(deliveries):
        pass


def giving_back(deliveries: Iterable[Delivery], before: Iterable[None] = ()) -> Iterator[None]:
    """`give_back`, as a job. No queue delivers anything until it has all of its own back, so that its order holds.

    Args:
        deliveries: what to give back.
        before: a job to be done first.
    """
    by_queue: dict[Queue, list[Delivery]] = {}
    for delivery in deliveries:
        if delivery.lane is not None:
            by_queue.setdefault(delivery.lane.queue, []).append(delivery)
    for queue in by_queue:
        queue.pause()
    try:
        yield from before
        while by_queue:
            queue, returned = by_queue.popitem()
            try:
                yield from queue.giving_back(returned)
            finally:
                queue.proceed()
    finally:
        for queue in by_queue:
            queue.proceed()
