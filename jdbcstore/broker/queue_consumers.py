"""Who takes part in a queue, whose turn it is, and who may have what."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable
from itertools import chain
from operator import attrgetter
from typing import Final, Protocol
from weakref import ref

from jdbcstore.broker.delivery import Consumer, Delivery, DeliveryQueue
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.broker.groups import MessageGroups
from jdbcstore.broker.host import Host
from jdbcstore.broker.interest import Interest
from jdbcstore.broker.queue_contents import QueueContents
from jdbcstore.broker.selection import SelectedQueue, Selection
from jdbcstore.destination import Destination

__all__ = ["QueueConsumers"]

#: Consumers that are gone, but may still stand among the ready ones, besides half of those.
_GONE_MAX: Final = 16


class ConsumedQueue(SelectedQueue, DeliveryQueue, Protocol):
    """A queue as its consumers see it."""

    @property
    def destination(self) -> Destination:
        """Its name."""

    def wake(self) -> None:
        """There is something to deliver, or to look at."""

    def awake(self) -> None:
        """There is something to dispatch; called once until `QueueConsumers.is_awake` is taken back."""


class QueueConsumers:
    """The consumers of one queue.

    Args:
        broker: gives what selections need.
        queue: whose consumers they are; it is not kept by this, so that both are freed when nobody has the queue any
            more.
        contents: what is in the queue.
        policy: how the queue treats them.
        is_shared: whether they may all have everything, as others have the same messages in the store.

    Attributes:
        members: in the order in which they came; a dictionary for its order.
        ready: those that may be able to take a message, whose turn it is first.
        passed: how many of them in a row there was nothing for.
        is_awake: whether the queue is going to be dispatched at the end of this turn of the loop.
        is_plain: whether every consumer may have every message, in turn.
        exclusive: who has the queue for itself; None for nobody.
        selections: what those consumers get that do not want everything.
        groups: once a message of a group has come; who may have what is the business of `selections` then.
    """

    def __init__(
        self,
        broker: Host,
        queue: ConsumedQueue,
        contents: QueueContents,
        policy: DestinationPolicy,
        *,
        is_shared: bool,
    ) -> None:
        self.members: dict[Consumer, None] = {}
        self.ready: deque[Consumer] = deque()
        self.passed = 0
        self.is_awake = False
        self.is_plain = not policy.strict_order_dispatch
        self.exclusive: Consumer | None = None
        self.selections: dict[Interest, Selection] = {}
        self.groups: MessageGroups | None = None
        self._broker = broker
        self._queue = ref(queue)
        self._contents = contents
        self._policy = policy
        self._is_shared = is_shared
        #: Those among the ready ones that are gone, at most.
        self._gone = 0
        #: Those with a priority, if that counts here.
        self._with_priority = 0
        #: Whether the ready ones stand in the order of ``_rank``, and up to which change of the groups.
        self._is_ranked = False
        self._changes = -1

    def add(self, consumer: Consumer) -> None:
        """Let a consumer take part."""
        self.members[consumer] = None
        self.ready.append(consumer)
        self._with_priority += self._priority_of(consumer) != 0
        # The first one that wants the queue for itself has it as long as it is there, and none of a higher priority.
        if consumer.is_exclusive and (self.exclusive is None or consumer.priority > self.exclusive.priority):
            self._give_to(consumer)
        if not self._is_shared and (self.groups is not None or not consumer.interest.is_everything):
            self._selection(consumer.interest).users += 1
        self._look_who_may()

    def remove(self, consumer: Consumer) -> None:
        """Let a consumer go."""
        del self.members[consumer]
        self._gone += 1
        if self._gone > _GONE_MAX + len(self.ready) // 2:
            self.ready = deque(ready for ready in self.ready if ready in self.members)
            self._gone = 0
        self._with_priority -= self._priority_of(consumer) != 0
        if consumer is self.exclusive:
            wanting = (other for other in self.members if other.is_exclusive)
            self._give_to(max(wanting, key=attrgetter("priority"), default=None))
        selection = self.selections.get(consumer.interest)
        if selection is not None:
            selection.users -= 1
            if not selection.users:
                del self.selections[consumer.interest]
                self.put_back(selection.picks)
            else:
                selection.left(consumer)
        if self.groups is not None:
            self.freed(self.groups.left(consumer))
        self._look_who_may()
        self.wake()

    @property
    def queue(self) -> ConsumedQueue:
        """Whose consumers they are."""
        queue = self._queue()
        assert queue is not None
        return queue

    def part(self) -> None:
        """The queue is over: those who stood in line keep it no more."""
        self.ready.clear()

    # -- whose turn it is -------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something has come, or somebody: dispatch at the end of this turn of the loop."""
        self.passed = 0
        if not self.is_awake and self.ready:
            self.is_awake = True
            self.queue.awake()

    def go_on(self) -> None:
        """There may be more to dispatch, in another turn of the loop."""
        if not self.is_awake:
            self.is_awake = True
            self.queue.awake()

    def resume(self, consumer: Consumer) -> None:
        """A consumer that could not take more can again."""
        if self._is_ranked and not self._policy.strict_order_dispatch:
            self._insert(consumer)
        else:
            self.ready.append(consumer)
            self._is_ranked = False
        self.passed = 0

    def move_on(self, consumer: Consumer, place: int) -> None:
        """The ready one at this place has got a message: it is the turn of the next one of its rank."""
        if not self._policy.strict_order_dispatch:
            del self.ready[place]
            self._insert(consumer)

    def _insert(self, consumer: Consumer) -> None:
        self.ready.insert(bisect_right(self.ready, self._rank(consumer), key=self._rank), consumer)

    def ranked(self) -> deque[Consumer]:
        """The ready ones in the order in which they are asked."""
        if self.groups is not None and self._changes != self.groups.changes:
            self._changes = self.groups.changes  # there may be something for somebody who had nothing
            self._is_ranked = False
        if not self._is_ranked:
            self._is_ranked, self.passed = True, 0
            ready: Iterable[Consumer] = self.ready
            if self._policy.strict_order_dispatch:  # then it does not matter whose turn it would be
                are_ready = set(ready)
                ready = (consumer for consumer in self.members if consumer in are_ready)
            self.ready = deque(sorted(ready, key=self._rank))
        return self.ready

    # -- who may have what -------------------------------------------------------------------------------------------

    def _give_to(self, exclusive: Consumer | None) -> None:
        """Somebody has the queue for itself, or nobody any more."""
        self.exclusive = exclusive
        if exclusive is not None and self.groups is not None:
            for consumer in self.members:
                if consumer is not exclusive:
                    self.freed(self.groups.left(consumer))

    def _look_who_may(self) -> None:
        self._is_ranked = False
        self.is_plain = (
            not self.selections
            and self.exclusive is None
            and self.groups is None
            and not self._with_priority
            and not self._policy.strict_order_dispatch
        )

    def _priority_of(self, consumer: Consumer) -> int:
        return consumer.priority if self._policy.use_consumer_priority else 0

    def _rank(self, consumer: Consumer) -> tuple[int, int]:
        """Who is asked first: the lowest. Among equal ones it is whose turn it is that counts."""
        return -self._priority_of(consumer), 0 if self.groups is None else self.groups.count(consumer)

    def begin_groups(self) -> None:
        """A message of a group has come: from the first one on it is looked at who may have what."""
        if self.groups is not None:
            return
        self.groups = MessageGroups(self._policy.message_group_map, self._policy.message_groups_max)
        for consumer in self.members:
            if consumer.interest.is_everything:
                self._selection(consumer.interest).users += 1
        self._look_who_may()
        self.wake()

    def freed(self, deliveries: Collection[Delivery]) -> None:
        """These need not wait for the consumer of their group any more."""
        waiting = [delivery for delivery in deliveries if not delivery.is_out]
        if waiting:
            for selection in self.selections.values():
                selection.came_back(waiting)
            self.wake()

    def _selection(self, interest: Interest) -> Selection:
        selection = self.selections.get(interest)
        if selection is None:
            selection = self.selections[interest] = Selection(self._broker, self.queue, interest)
            selection.came_back(self._contents.waiting())
        return selection

    def put_back(self, deliveries: Iterable[Delivery]) -> None:
        """These wait for another consumer, before everything that is in the window."""
        deliveries = list(deliveries)
        if deliveries:
            self._contents.returned.add(deliveries)
            for selection in self.selections.values():
                selection.came_back(deliveries)
            self.wake()

    def entered(self, delivery: Delivery) -> None:
        """A lane's window has a new delivery, and there are selections."""
        for selection in self.selections.values():
            selection.entered(delivery)

    def done(self, deliveries: Iterable[Delivery]) -> None:
        """Messages are out of the store, or ready to be delivered again: their groups may go on."""
        if self.groups is not None:
            self.freed(self.groups.done(deliveries))

    def picks(self) -> Iterable[Delivery]:
        """What selections have taken from the store, and nobody has."""
        return chain.from_iterable(selection.picks for selection in self.selections.values())

    def forget_waiting(self) -> list[Delivery]:
        """The queue is emptied: forget what waits for somebody. Returns what was picked for selections."""
        dropped: list[Delivery] = []
        for selection in self.selections.values():
            dropped += selection.picks
            selection.picks.clear()
            selection.forget()
        if self.groups is not None:
            self.groups.forget_waiting()
        return dropped
