"""One message on its way to one consumer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message

if TYPE_CHECKING:
    from jdbcstore.broker.consumer import Consumer
    from jdbcstore.broker.groups import Group
    from jdbcstore.broker.lane import Lane

__all__ = ["Delivery", "by_lane", "by_place"]


class Delivery:
    """A message that waits in a window, or is with a consumer that has not acknowledged it.

    Args:
        message: the message. None later on, when memory is short: it is read again if it has to be delivered again.
        lane: where it came from and goes back to; None for a topic's message, which nobody keeps.
        order: its place among the deliveries of its queue.
        stored: whether the lane's store has it, or was asked to.
        durable: whether it is known that the store has it.
        visible: whether it may be delivered; False until the commit if the queue waits for commits.
    """

    __slots__ = (
        "cause",
        "consumer",
        "durable",
        "failed",
        "group",
        "is_being_marked",
        "is_marked",
        "is_out",
        "key",
        "lane",
        "message",
        "message_id",
        "order",
        "redeliveries",
        "sent",
        "size",
        "stored",
        "visible",
    )

    def __init__(
        self,
        message: Message,
        lane: Lane | None = None,
        order: int = 0,
        *,
        stored: bool = False,
        durable: bool = False,
        visible: bool = True,
    ) -> None:
        if message.message_id is None:
            raise ValueError("a message needs a message id before it can be delivered")
        self.message: Message | None = message
        self.message_id: MessageId = message.message_id
        self.lane = lane
        self.order = order
        self.size = message.size
        self.stored = stored
        self.durable = durable
        self.visible = visible
        #: The store refused it after it had been offered: it must not be delivered (again).
        self.failed = False
        #: Why it is going to be a dead letter; None if its consumer refused it, or it expired.
        self.cause: str | None = None
        #: How often it was delivered before: what the store knew, and what was counted since.
        self.redeliveries = message.redelivery_counter
        #: Whether the store knows that it is going to be delivered, and whether it is being told.
        self.is_marked = self.is_being_marked = False
        #: Whether it has been taken out of window or store, for a consumer or to be removed.
        self.is_out = False
        self.consumer: Consumer | None = None
        #: The message group that it is under way for.
        self.group: Group | None = None
        #: Its place among all that was sent to the connection; a cumulative acknowledgement goes by it.
        self.sent = 0
        #: What the consumer's acknowledgement will call it.
        self.key = ""

    @property
    def is_rewritable(self) -> bool:
        """Whether the store has it, for longer than this process, and we have all of it."""
        lane = self.lane
        return (
            self.stored
            and not self.failed
            and self.message is not None
            and lane is not None
            and lane.is_durable
            and not lane.is_closed
            and not lane.queue.is_shared
        )


def by_lane(deliveries: Iterable[Delivery]) -> Iterable[tuple[Lane | None, list[Delivery]]]:
    """What of each lane is among deliveries; of None what nobody keeps, a topic's."""
    found: dict[Lane | None, list[Delivery]] = {}
    for delivery in deliveries:
        found.setdefault(delivery.lane, []).append(delivery)
    return found.items()


def by_place(delivery: Delivery) -> tuple[int, int]:
    """Sorts deliveries of one queue into the order in which they go."""
    return 0 if delivery.lane is None else -delivery.lane.level, delivery.order
