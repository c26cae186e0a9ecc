"""What is in a queue, and where it stands: in lanes, given back, or waiting for the time of a redelivery."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from weakref import ref

from jdbcstore.broker.delivery import Delivery, DeliverySource
from jdbcstore.broker.host import Host
from jdbcstore.broker.lane import Lane, LaneQueue
from jdbcstore.broker.returned import Returned
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.store.contract import PRIORITY_LEVELS

__all__ = ["QueueContents"]

_by_order = attrgetter("order")


class QueueContents:
    """The contents of one queue.

    Args:
        broker: gives options, memory and completions.
        queue: whose lanes they are; it is not kept by this, so that both are freed when nobody has the queue any more.
        has_store: whether it has a store in the broker's store; a temporary queue has none.

    Attributes:
        persistent: one lane, or one for each priority from 0 on; an empty list without a store.
        transient: likewise, of what does not have to survive; an empty list until there is such a message.
        returned: what consumers gave back.
        delayed: given back, and waiting for the time of their redelivery.
    """

    def __init__(self, broker: Host, queue: LaneQueue, *, has_store: bool) -> None:
        self._broker = broker
        self._queue = ref(queue)
        self._has_store = has_store
        self._is_prioritized = queue.policy.prioritized_messages
        self.returned = Returned()
        self.delayed: dict[Delivery, asyncio.TimerHandle] = {}
        self.persistent = self._new_persistent()
        self.transient: list[Lane] = []

    # -- lanes ---------------------------------------------------------------------------------------------------

    def _new_persistent(self) -> list[Lane]:
        return self._new_lanes(memory_first=False) if self._has_store else []

    def _new_lanes(self, *, memory_first: bool) -> list[Lane]:
        queue = self._queue()
        assert queue is not None
        open_store = queue.open_spool if memory_first else queue.open_store
        levels = range(PRIORITY_LEVELS) if self._is_prioritized else [None]
        return [Lane(self._broker, queue, open_store, memory_first=memory_first, level=level) for level in levels]

    def persistent_lane(self, message: Message) -> Lane:
        """The lane over the broker's store. A temporary queue has none: nothing survives its connection anyway."""
        return self._of(self.persistent, message) if self.persistent else self.transient_lane(message)

    def transient_lane(self, message: Message) -> Lane:
        """The lane of what does not have to survive."""
        if not self.transient:
            self.transient = self._new_lanes(memory_first=True)
        return self._of(self.transient, message)

    def _of(self, lanes: list[Lane], message: Message) -> Lane:
        if len(lanes) == 1:
            return lanes[0]
        if lanes[0].is_durable:
            _open(lanes)  # all at once, so that none counts what this message is going to add
        return lanes[min(max(message.priority, 0), PRIORITY_LEVELS - 1)]

    def load(self) -> None:
        """Count what the store has. A queue that was not counted looks empty, and is forgotten as such."""
        _open(self.persistent)

    def lanes(self) -> Sequence[Lane]:
        """Those lanes that are there, those of higher priorities first."""
        return [lane for lanes in (self.persistent, self.transient) for lane in reversed(lanes)]

    def reopen(self) -> None:
        """The broker's store was closed and no client is left: forget what was in it. What is only in memory stays."""
        if self.persistent:
            for lane in self.persistent:
                self._close(lane)
            self.persistent = self._new_persistent()

    def needs_spool(self) -> bool:
        """Whether messages of it are in the spool, or on their way."""
        lanes = self.transient
        is_used = self.delayed or self.returned or any(lane.in_flight or not lane.idle for lane in lanes)
        return bool(is_used) and any(lane.is_open for lane in lanes)

    def let_go_of_spool(self) -> None:
        """It is closed: the next message that needs one opens another. Nothing may be in it."""
        if any(lane.is_open for lane in self.transient):
            for lane in self.transient:
                self._close(lane)
            self.transient = []

    def close(self) -> None:
        """Forget everything that is in memory; no client is left."""
        for lane in self.lanes():
            self._close(lane)

    @property
    def is_given_back(self) -> bool:
        """Whether nobody has anything of it, and nothing is under way."""
        return not self.delayed and all(lane.is_given_back for lane in self.lanes())

    def part(self) -> None:
        """The queue is over, and `is_given_back`: its lanes keep it no more."""
        self.persistent = []
        self.transient = []

    def _close(self, lane: Lane) -> None:
        for delivery in [delivery for delivery in self.delayed if delivery.lane is lane]:
            self.delayed.pop(delivery).cancel()
            self.forget(delivery)
        returned = [delivery for delivery in self.returned if delivery.lane is lane]
        for delivery in [*lane.close(), *returned]:
            self.forget(delivery)
        for delivery in returned:
            self.returned.discard(delivery)

    # -- how much there is -----------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Deliveries that are with consumers, or whose removal the store has not answered yet."""
        return sum(lane.in_flight for lane in self.lanes())

    @property
    def memory_bytes(self) -> int:
        """What windows and deliveries in flight take."""
        return sum(lane.window_bytes + lane.in_flight_bytes for lane in self.lanes())

    def depth(self, picks: Iterable[Delivery]) -> int:
        """Messages that nobody has acknowledged. `picks` are those that selections have taken from the store."""
        lanes = self.lanes()
        back = [delivery.lane for delivery in (*self.returned, *self.delayed, *picks)]
        if len(self.persistent) > 1 and self.persistent[0].is_open:  # only all together have a count
            persistent, lanes = self.persistent, self.transient
            stored = persistent[0].store.message_count + sum(lane.undecided for lane in persistent)
            in_memory = sum(len(lane.window) + lane.in_flight for lane in persistent)
            in_memory += sum(lane in persistent for lane in back)
            back = [lane for lane in back if lane not in persistent]
            return max(stored, in_memory) + sum(lane.depth + lane.in_flight for lane in lanes) + len(back)
        return sum(lane.depth for lane in lanes) + len(back) + self.in_flight

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in it, and nothing is under way."""
        return not self.in_flight and not self.returned and not self.delayed and all(lane.idle for lane in self.lanes())

    # -- what goes next --------------------------------------------------------------------------------------------

    def waiting(self) -> Iterator[Delivery]:
        """What is in memory and may go: what was given back first, then the windows."""
        return chain(self.returned, *(lane.window for lane in self.lanes()))

    def first(self) -> Delivery | None:
        """What goes first; None if there is nothing, or it is not known yet. It stays."""
        if self._is_prioritized:
            return self._first_by_priority()
        if self.returned.members:
            return self.returned.first()
        first = None
        for lanes in (self.persistent, self.transient):
            if lanes and lanes[0].window:
                head = lanes[0].window[0]
                if first is None or head.order < first.order:
                    first = head
        return first

    def _first_by_priority(self) -> Delivery | None:
        """The first of the highest priority that has any; None while it is not known which that is."""
        returned = self.returned.first()
        returned_level = -1 if returned is None or returned.lane is None else returned.lane.level
        for level in reversed(range(PRIORITY_LEVELS)):
            if level == returned_level:
                return returned
            lanes = [of_kind[level] for of_kind in (self.persistent, self.transient) if of_kind]
            heads = [lane.window[0] for lane in lanes if lane.window and lane.window[0].visible]
            if heads:
                return min(heads, key=_by_order)
            if any(lane.is_behind for lane in lanes if not lane.window):
                return None
        return None

    def pop(self, delivery: Delivery) -> None:
        """Take out what goes first."""
        if not (self.returned.members and self.returned.discard(delivery)) and delivery.lane is not None:
            delivery.lane.pop()

    def hand_out_first(self, count_max: int, bytes_max: int, now_ms: int) -> list[Delivery]:
        """Take out what goes first, as `Lane.hand_out_first`; nothing if it is not just a part of one window."""
        if self._is_prioritized or self.returned.members:
            return []
        windows = [lanes[0] for lanes in (self.persistent, self.transient) if lanes and lanes[0].window]
        return windows[0].hand_out_first(count_max, bytes_max, now_ms) if len(windows) == 1 else []

    def take_out(self, delivery: Delivery) -> None:
        """Take out what waits anywhere."""
        if not self.returned.discard(delivery) and delivery.lane is not None:
            delivery.lane.take_out(delivery)

    def returned_of(self, lane: DeliverySource, message: Message) -> Delivery | None:
        """The delivery of a message of a lane's store, if it was given back; it stays."""
        sequence = 0 if message.message_id is None else message.message_id.broker_sequence_id
        return self.returned.stored(lane, sequence)

    def take_returned(self, lane: Lane, message: Message) -> Delivery | None:
        """Take out the delivery of a message of a lane's store, if it was given back; it has its message then."""
        delivery = self.returned_of(lane, message)
        if delivery is not None:
            self.returned.discard(delivery)
            if delivery.message is None:
                self.keep(delivery, message)
        return delivery

    def take_if_there(self, delivery: Delivery) -> bool:
        """Take out what waited anywhere when somebody looked, also for its time. Returns False if it does not now."""
        again = self.delayed.pop(delivery, None)
        if again is not None:
            again.cancel()
        elif not self.returned.discard(delivery):
            return not delivery.is_out and delivery.lane is not None and delivery.lane.take_out(delivery)
        return True

    def given_back(self, lane: Lane) -> list[Delivery]:
        """What was given back to a lane, also what waits for its time, in order."""
        return sorted((one for one in (*self.returned, *self.delayed) if one.lane is lane), key=_by_order)

    def memory_only(self) -> list[tuple[Message, int]]:
        """The messages that no store has, wherever they are: with consumers, given back, in windows; and how often each
        was delivered before."""
        found: list[tuple[Message, int]] = []
        for lane in reversed(self.transient):
            deliveries = [*lane.with_consumers(), *self.given_back(lane), *lane.window]
            found += [
                (one.message, one.redeliveries) for one in deliveries if one.message is not None and not one.stored
            ]
        return found

    def counts(self, lane: Lane) -> dict[MessageId, int]:
        """How often what is with consumers, or was given back, was delivered before; the store may know less."""
        deliveries = (*lane.with_consumers(), *self.given_back(lane))
        return {one.message_id: one.redeliveries for one in deliveries if one.redeliveries}

    def take_all_back(self) -> list[Delivery]:
        """Take out everything that was given back, also what waits for its time."""
        taken = self.returned.take_all()
        for delivery, again in self.delayed.items():
            again.cancel()
            taken.append(delivery)
        self.delayed.clear()
        return taken

    # -- memory --------------------------------------------------------------------------------------------------

    def keep(self, delivery: Delivery, message: Message) -> None:
        """A message was read again."""
        delivery.message = message
        self._broker.memory.used += delivery.size

    def forget(self, *deliveries: Delivery) -> None:
        """The messages are gone from memory."""
        size = 0
        for delivery in deliveries:
            if delivery.message is not None:
                size += delivery.size
                delivery.message = None
        self._broker.memory.used -= size

    def drop(self, delivery: Delivery) -> None:
        """The store refused a message; it has been taken out of the window."""
        delivery.is_out = True
        self.forget(delivery)

    def unload(self, *deliveries: Delivery) -> None:
        """Keep only the ids of these: the store has the rest, should it be needed again."""
        self.forget(*[delivery for delivery in deliveries if delivery.durable])


def _open(lanes: list[Lane]) -> None:
    if lanes and not lanes[0].is_open:
        for lane in lanes:
            lane.store  # noqa: B018
