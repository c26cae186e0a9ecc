"""Messages on their way to consumers: a delivery, the consumer that has it, and the group that it is under way for.

The three know each other, and nobody else: where a delivery comes from (`jdbcstore.broker.lane`, a queue) and who
receives it (`jdbcstore.broker.client`) are the faces at the top.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final, Protocol, TypeAlias

from jdbcstore.broker.access import Access
from jdbcstore.broker.interest import EVERYTHING, Interest
from jdbcstore.broker.subscription_request import AcknowledgeMode
from jdbcstore.destination import Destination
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Cursor, MessageStore

__all__ = [
    "Answer",
    "Answers",
    "Consumer",
    "Delivery",
    "DeliveryAnswer",
    "DeliveryQueue",
    "DeliverySource",
    "Group",
    "Receiver",
    "by_lane",
    "by_place",
    "give_back",
    "giving_back",
]

#: Told once how a write ended: None, or the error.
Answer: TypeAlias = Callable[[BaseException | None], None]
#: The same for some of the deliveries that were asked about; told once of each.
DeliveryAnswer: TypeAlias = Callable[[Sequence["Delivery"], BaseException | None], None]


class Answers(Protocol):
    """Told once how the writes of several messages ended: by one `stored`, or by `answered` for each."""

    def stored(self) -> None:
        """All of them are stored."""

    def answered(self, place: int, error: BaseException | None) -> None:
        """What became of one of them."""


_by_sent: Final = attrgetter("sent")
#: The credit of a consumer that is closed.
_NEVER: Final = -(1 << 62)
#: Credit that is taken from a consumer that is to get nothing for now.
_WITHHELD: Final = 1 << 40
#: Queues that are asked for more in one go.
_QUEUES_AT_ONCE: Final = 50


class DeliverySource(Protocol):
    """Where a delivery comes from and goes back to: a lane of a queue."""

    @property
    def queue(self) -> DeliveryQueue:
        """Whose lane it is."""

    @property
    def level(self) -> int:
        """Its place among the lanes of the queue, the higher goes first."""

    @property
    def store(self) -> MessageStore:
        """Where its messages are."""

    @property
    def is_durable(self) -> bool:
        """Whether its messages survive the process."""

    @property
    def is_closed(self) -> bool:
        """Whether another lane has taken its place."""

    def cursor_at(self, sequence: int) -> Cursor:
        """The place in the store behind this sequence of the lane."""

    def hand_out(self, delivery: Delivery) -> None:
        """A delivery of this lane is in flight now."""

    @property
    def in_flight_bytes(self) -> int:
        """How many bytes of the lane are in flight."""

    def take_back(self, delivery: Delivery) -> None:
        """A delivery of this lane is in flight no more."""

    def pop(self) -> Delivery:
        """Take the first delivery out of the window."""

    def take_out(self, delivery: Delivery) -> bool:
        """Take a delivery out of the window, wherever it is there; False if it is not."""

    def remove(self, deliveries: Sequence[Delivery]) -> Completion[None] | None:
        """Take acknowledged messages out of the store."""

    def removed(self, deliveries: Sequence[Delivery]) -> None:
        """Deliveries of this lane that were in flight have left the store."""


class DeliveryQueue(Protocol):
    """What gives deliveries to consumers, and takes them back: `jdbcstore.broker.queue.Queue`, which says more."""

    enqueued: int
    enqueued_bytes: int

    @property
    def destination(self) -> Destination:
        """Its name."""

    @property
    def is_shared(self) -> bool:
        """Whether others have the same messages in the store."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing is being read or handed out."""

    def wake(self) -> None:
        """Something has come, or somebody."""

    def pause(self) -> None:
        """Deliver nothing for now."""

    def proceed(self) -> None:
        """Take one pause back."""

    def resume(self, consumer: Consumer) -> None:
        """A consumer that could not take more can again."""

    def remove_consumer(self, consumer: Consumer) -> None:
        """Let a consumer go."""

    def giving_back(self, deliveries: Iterable[Delivery]) -> Iterator[None]:
        """Take back what a consumer did not acknowledge; a job."""

    @property
    def removal(self) -> DeliveryRemoval:
        """By which messages leave it."""


class DeliveryRemoval(Protocol):
    """By which messages leave a queue: `jdbcstore.broker.removal`, which says more."""

    def acknowledge(self, deliveries: Sequence[Delivery], answer: DeliveryAnswer) -> None:
        """Consumers are done with messages of one lane."""

    def consumed(self, *deliveries: Delivery) -> None:
        """Consumers in mode auto have messages of one lane."""

    def settled(self, deliveries: Sequence[Delivery]) -> None:
        """Deliveries of one lane have left the store."""

    def discard(self, *deliveries: Delivery) -> None:
        """Remove messages that nobody waits for."""

    def refuse(self, delivery: Delivery, answer: DeliveryAnswer) -> None:
        """The consumer refuses the message."""

    def cannot_deliver(self, delivery: Delivery, error: BaseException, protocol: str) -> None:
        """A transport cannot send a message."""


class Receiver(Protocol):
    """The client of a consumer, as the consumer sees it."""

    is_choked: bool

    @property
    def access(self) -> Access:
        """What it may do."""

    def deliver(self, consumer: Consumer, deliveries: Sequence[Delivery]) -> None:
        """Send messages to it."""

    def awake(self, consumer: Consumer) -> None:
        """A consumer can take more."""

    def disconnect(self, text: str, *, reason: str) -> None:
        """End its connection with an error."""

    def keep_place(self, consumer: Consumer, destination: Destination, size: int) -> None:
        """Count the place of a wildcard's subscription in one more destination.

        Args:
            consumer: whose.
            destination: its name.
            size: bytes that it takes until the subscription ends.

        Raises:
            ProtocolError: it is too much for the connection, or for all of them together.
        """

    def give_up_place(self, consumer: Consumer, size: int) -> None:
        """It is there no more."""

    def browsed(self, consumer: Consumer) -> None:
        """A browser has shown everything."""

    def browsing_failed(self, consumer: Consumer, error: BaseException) -> None:
        """A browser cannot go on."""

    def has_still(self, consumer: Consumer, delivery: Delivery) -> bool:
        """What it has acknowledged did not take effect: it has that still. Returns whether it does, or is gone."""


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
        "is_counted",
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
        lane: DeliverySource | None = None,
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
        #: Whether this delivery counts as one when it comes back: False if it is known that no application has seen it.
        self.is_counted = True
        #: Whether it has been taken out of window or store, for a consumer or to be removed, or waits for the time of
        #: its redelivery: whoever has noted it before must not take it.
        self.is_out = False
        self.consumer: Consumer | None = None
        #: The message group that it is under way for.
        self.group: Group | None = None
        #: Its place among all that was sent to the connection; a cumulative acknowledgement goes by it.
        self.sent = 0
        #: What the consumer's acknowledgement will call it.
        self.key = ""

    @property
    def is_late(self) -> bool:
        """Whether the store that it came from was closed since."""
        return self.lane is not None and self.lane.is_closed

    def hand_out(self) -> None:
        """It is in flight now."""
        if self.lane is not None:
            self.lane.hand_out(self)

    def take_back(self) -> None:
        """It is in flight no more."""
        if self.lane is not None:
            self.lane.take_back(self)

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


class Consumer:
    """A subscription. It may hold `prefetch` unacknowledged messages, and gets none while its client does not read.

    Args:
        client: the client.
        subscription_id: what the client calls it; None if it gave no name.
        destination: what it subscribed to, perhaps a wildcard or a composite.
        mode: how it acknowledges.
        prefetch: how many messages it may hold.
        interest: which messages it wants.
        is_exclusive: whether it wants its queues for itself.
        priority: -128 to 127; while one of a higher priority can take messages it gets none.
    """

    __slots__ = (
        "client",
        "command",
        "credit",
        "destination",
        "extension",
        "interest",
        "is_auto",
        "is_awake",
        "is_closed",
        "is_exclusive",
        "is_extended",
        "is_slow",
        "kept_bytes",
        "mode",
        "parked",
        "prefetch",
        "priority",
        "queues",
        "restored",
        "subscription_id",
        "tag",
        "unacknowledged",
    )

    is_browser = False
    is_retroactive = False

    def __init__(
        self,
        client: Receiver,
        subscription_id: str | None,
        destination: Destination,
        mode: AcknowledgeMode,
        prefetch: int,
        interest: Interest = EVERYTHING,
        *,
        is_exclusive: bool = False,
        priority: int = 0,
    ) -> None:
        self.client = client
        self.subscription_id = subscription_id
        self.destination = destination
        self.mode = mode
        self.is_auto = mode is AcknowledgeMode.AUTO
        self.prefetch = prefetch
        self.credit = prefetch
        #: How much of the credit is for messages that are with the application, and not acknowledged (`extend`).
        self.extension = 0
        self.interest = interest
        #: Whether it gets more for what it has acknowledged in a transaction, or is with its application, as if that
        #: were acknowledged.
        self.is_extended = True
        #: What its transport wanted to find here.
        self.tag: object = None
        #: The command by which its client has asked for it (`jdbcstore.advisory`).
        self.command: object = None
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
        self.queues: dict[DeliveryQueue, None] = {}
        #: Those that wait for it to be able to take more, in turn.
        self.parked: deque[DeliveryQueue] = deque()
        #: Whether they are going to be told that it is.
        self.is_awake = False
        self.is_closed = False
        #: Whether more of its topics waits than it takes at once, which was told.
        self.is_slow = False

    @property
    def durable_name(self) -> str | None:
        """What its client calls the durable subscription that it uses; None if it uses none."""
        return None

    @property
    def is_settled(self) -> bool:
        """Whether nothing is being read or handed out where it takes part: there is nothing for it now."""
        return not self.is_awake and all(queue.is_settled for queue in self.queues)

    @property
    def can_take(self) -> bool:
        """Whether it may be sent a message now."""
        return self.credit > 0 and not self.client.is_choked

    def deliver(self, *deliveries: Delivery) -> None:
        """Send messages to the client, in this order."""
        self.credit -= len(deliveries)
        for delivery in deliveries:
            delivery.consumer = self
        self.client.deliver(self, deliveries)

    def release(self, count: int = 1) -> None:
        """So many messages are acknowledged: there is room for as many."""
        self.credit += count
        if self.extension:
            self._shorten(count)
        if self.parked:
            self.resume()

    def end(self) -> None:
        """Nothing reaches its client any more. What that has not acknowledged is its own until its connection ends."""

    def _shorten(self, count: int) -> None:
        """So many of those are acknowledged that it had credit for already."""
        taken = min(count, self.extension)
        self.extension -= taken
        self.credit -= taken

    def extend(self, count: int) -> None:
        """The application has the first `count` of those that are not acknowledged: it may be sent as many more, unless
        its policy keeps it from that."""
        more = count - self.extension
        if more > 0 and self.is_extended:
            self.extension += more
            self.credit += more
            self.resume()

    def change_prefetch(self, prefetch: int) -> None:
        """It may hold so many messages from now on; 0 is none but those that it asks for (`jdbcstore.broker.pulls`)."""
        if prefetch:
            self.credit += prefetch - self.prefetch - self.extension
            self.extension = 0
        else:  # what it holds does not count for what it asks for
            withheld = (_WITHHELD // 2 - self.credit) // _WITHHELD * _WITHHELD
            self.extension += self.prefetch - self.credit - withheld
            self.credit = -withheld
        self.prefetch = prefetch
        self.resume()

    def withhold(self, count: int = _WITHHELD) -> None:
        """Deliver so many messages less to this subscription until `grant`; without a number, none. Others of the same
        client get theirs."""
        self.credit -= count

    def grant(self, count: int = _WITHHELD) -> None:
        """Take one `withhold` back."""
        if not self.is_closed:
            self.credit += count
            self.resume()

    def resume(self) -> None:
        """Ask the queues for more, at the end of this turn of the loop, if there is room."""
        if self.parked and not self.is_awake and self.can_take:
            self.is_awake = True
            self.client.awake(self)

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


class Group:
    """A group that a consumer has, or a bucket of groups."""

    __slots__ = ("consumer", "in_flight", "key", "waiting")

    def __init__(self, key: str | int, consumer: Consumer) -> None:
        self.key = key
        #: Who has it; None when that consumer has left, and not everything is decided that it had.
        self.consumer: Consumer | None = consumer
        #: Messages that were delivered and are neither out of the store nor ready to be delivered again.
        self.in_flight = 0
        #: Messages that nobody else may have.
        self.waiting: dict[Delivery, None] = {}


def by_lane(deliveries: Iterable[Delivery]) -> Iterable[tuple[DeliverySource | None, list[Delivery]]]:
    """What of each lane is among deliveries; of None what nobody keeps, a topic's."""
    found: dict[DeliverySource | None, list[Delivery]] = {}
    for delivery in deliveries:
        found.setdefault(delivery.lane, []).append(delivery)
    return found.items()


def by_place(delivery: Delivery) -> tuple[int, int]:
    """Sorts deliveries of one queue into the order in which they go."""
    return 0 if delivery.lane is None else -delivery.lane.level, delivery.order


def give_back(deliveries: Iterable[Delivery]) -> None:
    """Return deliveries to the queues that they came from; a topic's are gone."""
    for _ in giving_back(deliveries):
        pass


def giving_back(deliveries: Iterable[Delivery], before: Iterable[None] = ()) -> Iterator[None]:
    """`give_back`, as a job. From this call on no queue delivers anything until it has all of its own back, so that its
    order holds.

    Args:
        deliveries: what to give back.
        before: a job to be done first.
    """
    by_queue: dict[DeliveryQueue, list[Delivery]] = {}
    for delivery in deliveries:
        if delivery.lane is not None:
            by_queue.setdefault(delivery.lane.queue, []).append(delivery)
    for queue in by_queue:
        queue.pause()
    return _giving_back(by_queue, before)


def _giving_back(by_queue: dict[DeliveryQueue, list[Delivery]], before: Iterable[None]) -> Iterator[None]:
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
