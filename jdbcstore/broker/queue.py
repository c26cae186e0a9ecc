"""A queue: store first, then offer; each message to one consumer, in order, until it is acknowledged.

Where the messages are is the business of the two lanes (`jdbcstore.broker.lane`, read its theory). The queue merges
them by the order in which they entered memory, hands them to its consumers in turn, and takes back what a consumer
did not acknowledge: that is delivered again before everything else, in its old order.

::

    add ──▶ lane ──▶ window ──▶ dispatch ──▶ consumer ──▶ acknowledge ──▶ lane.remove
                      returned ◀── give_back ◀──┘
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from operator import attrgetter
from time import perf_counter
from typing import Final

from jdbcstore.broker.delivery import Answer, Consumer, Delivery, DeliveryAnswer, by_lane
from jdbcstore.broker.destination_host import DestinationHost
from jdbcstore.broker.groups import MessageGroups
from jdbcstore.broker.interest import Interest
from jdbcstore.broker.lane import Lane
from jdbcstore.broker.returned import Returned
from jdbcstore.broker.selection import Selection
from jdbcstore.broker.slices import SLICE_S
from jdbcstore.broker.watchdog import subject
from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError, JdbcStoreError, StoreClosed, may_pass
from jdbcstore.message import Message
from jdbcstore.store.contract import PRIORITY_LEVELS, MessageStore

__all__ = ["Queue"]

log = logging.getLogger(__name__)

_by_order = attrgetter("order")
_RETRY_S: Final = 1.0
#: What is done in one go: deliveries, messages skipped because nobody may have them, messages taken back.
_STEPS_AT_ONCE: Final = 200
_SKIPPED_AT_ONCE: Final = 50
_RETURNED_AT_ONCE: Final = 100
#: Consumers that are gone, but may still stand among the ready ones, besides half of those.
_GONE_MAX: Final = 16


class Queue:
    """One queue of the running broker.

    Args:
        broker: gives options, stores, inbox and memory.
        destination: its name; a temporary queue keeps nothing in the broker's store.
    """

    #: Whether others have the same messages in the store, so that these are not ours to change.
    is_shared = False

    def __init__(self, broker: DestinationHost, destination: Destination) -> None:
        self.destination = destination
        #: In the order in which they came; a dictionary for its order.
        self.consumers: dict[Consumer, None] = {}
        self.last_used_s = broker.loop.time()
        #: Messages added, settled, dead-lettered or dropped as expired, since this object exists.
        self.enqueued = self.dequeued = self.expired = 0
        self._broker = broker
        self._ready: deque[Consumer] = deque()
        self._returned = Returned()
        #: How many give back what they have, and are not done: nothing is delivered meanwhile.
        self._pauses = 0
        #: Consumers among the ready ones that are gone, at most.
        self._gone = 0
        #: Consumers in a row that there was nothing for.
        self._passed = 0
        self._order = 0
        self._is_awake = self._is_deleted = False
        #: Given back, and waiting for the time of their redelivery.
        self._delayed: dict[Delivery, asyncio.TimerHandle] = {}
        self.policy = broker.policy_for(destination)
        self._redelivery = broker.redelivery_policy_for(destination)
        limit_bytes = self.policy.memory_limit_bytes or broker.options.in_flight_bytes_max
        self._in_flight_bytes_max = min(limit_bytes, broker.options.in_flight_bytes_max)
        self._marks = self.policy.persist_jms_redelivered
        self._loading: asyncio.Future[Message | None] | None = None
        #: What those consumers get that do not want everything.
        self.selections: dict[Interest, Selection] = {}
        self._exclusive: Consumer | None = None
        #: Once a message of a group has come; who may have what is the business of `selections` then.
        self.groups: MessageGroups | None = None
        #: Consumers with a priority, if that counts here.
        self._with_priority = 0
        #: Whether every consumer may have every message, in turn.
        self._is_plain = not self.policy.strict_order_dispatch
        #: Whether the ready ones stand in the order of `_rank`, and up to which change of the groups.
        self._is_ranked = False
        self._changes = -1
        #: One lane, or one for each priority from 0 on; those that are not there (yet) are an empty list.
        self._persistent = [] if destination.is_temporary else self._new_lanes(self._open_store, memory_first=False)
        self._transient: list[Lane] = []

    def __repr__(self) -> str:
        return f"<{self.destination} depth={self.depth} in_flight={self.in_flight} consumers={len(self.consumers)}>"

    # -- lanes ---------------------------------------------------------------------------------------------------

    def _open_store(self) -> MessageStore:
        return self._broker.queue_store(self._broker.adapter, self.destination)

    def _open_spool(self) -> MessageStore:
        return self._broker.queue_store(self._broker.spool, self.destination)

    def _new_lanes(self, open_store: Callable[[], MessageStore], *, memory_first: bool) -> list[Lane]:
        levels = range(PRIORITY_LEVELS) if self.policy.prioritized_messages else [None]
        return [Lane(self._broker, self, open_store, memory_first=memory_first, level=level) for level in levels]

    def persistent(self, message: Message) -> Lane:
        """The lane over the broker's store. A temporary queue has none: nothing survives its connection anyway."""
        return self._of(self._persistent, message) if self._persistent else self.transient(message)

    def transient(self, message: Message) -> Lane:
        """The lane of what does not have to survive."""
        if not self._transient:
            self._transient = self._new_lanes(self._open_spool, memory_first=True)
        return self._of(self._transient, message)

    @staticmethod
    def _of(lanes: list[Lane], message: Message) -> Lane:
        if len(lanes) == 1:
            return lanes[0]
        if lanes[0].is_durable:
            Queue._open(lanes)  # all at once, so that none counts what this message is going to add
        return lanes[min(max(message.priority, 0), PRIORITY_LEVELS - 1)]

    @staticmethod
    def _open(lanes: list[Lane]) -> None:
        if not lanes[0].is_open:
            for lane in lanes:
                lane.store  # noqa: B018

    def load(self) -> None:
        """Count what the store has of it. A queue that was not counted looks empty, and is forgotten as such."""
        self._open(self._persistent)

    def lanes(self) -> Sequence[Lane]:
        """Those lanes that are there, those of higher priorities first."""
        return [lane for lanes in (self._persistent, self._transient) for lane in reversed(lanes)]

    def reopen(self) -> None:
        """The broker's store was closed and no client is left: forget what was in it. What is only in memory stays."""
        if self._persistent:
            for lane in self._persistent:
                self._close(lane)
            self._persistent = self._new_lanes(self._open_store, memory_first=False)

    def needs_spool(self) -> bool:
        """Whether messages of it are in the spool, or on their way."""
        lanes = self._transient
        is_used = self._delayed or self._returned or any(lane.in_flight or not lane.idle for lane in lanes)
        return bool(is_used) and any(lane.is_open for lane in lanes)

    def let_go_of_spool(self) -> None:
        """It is closed: the next message that needs one opens another. Nothing may be in it."""
        if any(lane.is_open for lane in self._transient):
            for lane in self._transient:
                self._close(lane)
            self._transient = []

    def close(self) -> None:
        """Forget everything that is in memory; no client is left."""
        for lane in self.lanes():
            self._close(lane)

    def _close(self, lane: Lane) -> None:
        for delivery in [delivery for delivery in self._delayed if delivery.lane is lane]:
            self._delayed.pop(delivery).cancel()
            self._forget(delivery)
        returned = [delivery for delivery in self._returned if delivery.lane is lane]
        for delivery in [*lane.close(), *returned]:
            self._forget(delivery)
        for delivery in returned:
            self._returned.discard(delivery)
        self.groups = None

    def next_order(self) -> int:
        """The next place in the queue, for a lane's next delivery."""
        self._order += 1
        return self._order

    @property
    def in_flight(self) -> int:
        """Deliveries that are with consumers, or whose removal the store has not answered yet."""
        return sum(lane.in_flight for lane in self.lanes())

    @property
    def depth(self) -> int:
        """Messages that nobody has acknowledged."""
        lanes = self.lanes()
        picks = chain.from_iterable(selection.picks for selection in self.selections.values())
        back = [delivery.lane for delivery in (*self._returned, *self._delayed, *picks)]
        if len(self._persistent) > 1 and self._persistent[0].is_open:  # only all together have a count
            persistent, lanes = self._persistent, self._transient
            stored = persistent[0].store.message_count + sum(lane.undecided for lane in persistent)
            in_memory = sum(len(lane.window) + lane.in_flight for lane in persistent)
            in_memory += sum(lane in persistent for lane in back)
            back = [lane for lane in back if lane not in persistent]
            return max(stored, in_memory) + sum(lane.depth + lane.in_flight for lane in lanes) + len(back)
        return sum(lane.depth for lane in lanes) + len(back) + self.in_flight

    @property
    def has_consumers(self) -> bool:
        """Whether anybody may want the next page."""
        return bool(self.consumers)

    @property
    def idle(self) -> bool:
        """Whether the object can go: nobody uses it, nothing is in it, nothing is under way."""
        return (
            not self.consumers
            and not self.in_flight
            and not self._returned
            and not self._delayed
            and not self._pauses
            and self._loading is None
            and all(lane.idle for lane in self.lanes())
        )

    # -- in ------------------------------------------------------------------------------------------------------

    def add(self, message: Message, answer: Answer) -> None:
        """Store the message, offer it, and answer when the store has; the answer may come before this returns."""
        if 0 < message.expiration < self._broker.now_ms():
            self._arrived_too_late(message, answer)
            return
        lane = self.persistent(message) if message.persistent else self.transient(message)
        try:
            completion, delivery = lane.add(message, visible=self._broker.options.concurrent_store_and_dispatch_queues)
        except JdbcStoreError as error:
            answer(error)
            return
        self.enqueued += 1
        if completion is None:
            answer(None)
        else:
            self._broker.inbox.expect(completion, self._added, (lane, delivery, answer))

    def _added(self, subject: tuple[Lane, Delivery | None, Answer], error: BaseException | None) -> None:
        lane, delivery, answer = subject
        try:
            lane.added(delivery, error)
        finally:
            answer(error)

    def _arrived_too_late(self, message: Message, answer: Answer) -> None:
        self.expired += 1
        self._broker.dead_letter_arrival(message, answer)

    def wanted(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Those messages of a page that may enter memory: all, in a queue."""
        return messages

    # -- consumers -----------------------------------------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        """Let a consumer take part. What is in the store begins to come into memory."""
        self.consumers[consumer] = None
        self._ready.append(consumer)
        self._with_priority += self._priority_of(consumer) != 0
        # The first one that wants the queue for itself has it as long as it is there, and none of a higher priority.
        if consumer.is_exclusive and (self._exclusive is None or consumer.priority > self._exclusive.priority):
            self._give_to(consumer)
        if not self.is_shared and (self.groups is not None or not consumer.interest.is_everything):
            self._selection(consumer.interest).users += 1
        self._look_who_may()
        for lane in self._persistent:
            lane.store  # noqa: B018  # opening it finds out how much there is
        for lane in self.lanes():
            lane.page()
        self.wake()

    def remove_consumer(self, consumer: Consumer) -> None:
        """Let a consumer go. What it has must be given back by `give_back`."""
        del self.consumers[consumer]
        self._gone += 1
        if self._gone > _GONE_MAX + len(self._ready) // 2:
            self._ready = deque(ready for ready in self._ready if ready in self.consumers)
            self._gone = 0
        self._with_priority -= self._priority_of(consumer) != 0
        if consumer is self._exclusive:
            wanting = (other for other in self.consumers if other.is_exclusive)
            self._give_to(max(wanting, key=attrgetter("priority"), default=None))
        selection = self.selections.get(consumer.interest)
        if selection is not None:
            selection.users -= 1
            if not selection.users:
                del self.selections[consumer.interest]
                self._put_back(selection.picks)
            else:
                selection.left(consumer)
        if self.groups is not None:
            self._freed(self.groups.left(consumer))
        self._look_who_may()
        self.wake()
        self.last_used_s = self._broker.loop.time()

    def resume(self, consumer: Consumer) -> None:
        """A consumer that could not take more can again: hand out what there is."""
        if self._is_ranked and not self.policy.strict_order_dispatch:
            self._ready.insert(bisect_right(self._ready, self._rank(consumer), key=self._rank), consumer)
        else:
            self._ready.append(consumer)
            self._is_ranked = False
        self._passed = 0
        self.dispatch()

    def pause(self) -> None:
        """Deliver nothing for now: something is given back, and goes first. Pauses add up."""
        self._pauses += 1

    def proceed(self) -> None:
        """Take one pause back."""
        self._pauses -= 1
        self.wake()

    def _give_to(self, exclusive: Consumer | None) -> None:
        """Somebody has the queue for itself, or nobody any more."""
        self._exclusive = exclusive
        if exclusive is not None and self.groups is not None:
            for consumer in self.consumers:
                if consumer is not exclusive:
                    self._freed(self.groups.left(consumer))

    def _look_who_may(self) -> None:
        self._is_ranked = False
        self._is_plain = (
            not self.selections
            and self._exclusive is None
            and self.groups is None
            and not self._with_priority
            and not self.policy.strict_order_dispatch
        )

    def _priority_of(self, consumer: Consumer) -> int:
        return consumer.priority if self.policy.use_consumer_priority else 0

    def _rank(self, consumer: Consumer) -> tuple[int, int]:
        """Who is asked first: the lowest. Among equal ones it is whose turn it is that counts."""
        return -self._priority_of(consumer), 0 if self.groups is None else self.groups.count(consumer)

    def begin_groups(self) -> None:
        """A message of a group has come: from the first one on it is looked at who may have what."""
        if self.groups is not None:
            return
        self.groups = MessageGroups(self.policy.message_group_map, self.policy.message_groups_max)
        for consumer in self.consumers:
            if consumer.interest.is_everything:
                self._selection(consumer.interest).users += 1
        self._look_who_may()
        self.wake()

    def _freed(self, deliveries: Collection[Delivery]) -> None:
        """These need not wait for the consumer of their group any more."""
        waiting = [delivery for delivery in deliveries if not delivery.is_out]
        if waiting:
            for selection in self.selections.values():
                selection.came_back(waiting)
            self.wake()

    def _selection(self, interest: Interest) -> Selection:
        selection = self.selections.get(interest)
        if selection is None:
            selection = self.selections[interest] = Selection(self._broker, self, interest)
            selection.came_back(chain(self._returned, *(lane.window for lane in self.lanes())))
        return selection

    def _put_back(self, deliveries: Iterable[Delivery]) -> None:
        """These wait for another consumer, before everything that is in the window."""
        deliveries = list(deliveries)
        if deliveries:
            self._returned.add(deliveries)
            for selection in self.selections.values():
                selection.came_back(deliveries)
            self.wake()

    def entered(self, delivery: Delivery) -> None:
        """A lane's window has a new delivery, and there are selections."""
        for selection in self.selections.values():
            selection.entered(delivery)

    # -- out -----------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something has come, or somebody: dispatch at the end of this turn of the loop."""
        self._passed = 0
        if not self._is_awake and self._ready:
            self._is_awake = True
            self._broker.awake(self)

    def dispatch(self) -> bool:
        """Hand out what is there to those that can take it, in turn; not more than a slice of it at a time.

        Returns:
            Whether that was all that could be done now.
        """
        self._is_awake = False
        if self._pauses:
            return True
        ready = self._ready
        now_ms = self._broker.now_ms()
        memory = self._broker.memory
        in_flight_bytes_max, share = self._in_flight_bytes_max, 0
        if memory.is_short:
            in_flight_bytes_max, share = 0, memory.deliveries_share
        if not self._is_plain:
            return self._dispatch_by_rank(now_ms, in_flight_bytes_max, share)
        for _ in range(_STEPS_AT_ONCE):
            if not ready:
                return True
            consumer = ready[0]
            has_enough = share > 0 and consumer.prefetch - consumer.credit >= share
            if has_enough or not consumer.can_take:
                consumer.parked.append(self)
                if has_enough:
                    memory.parked[consumer] = None
                ready.popleft()
                continue
            delivery = self._take(now_ms)
            if delivery is None:
                return not self._is_awake
            lane = delivery.lane  # `_hand_out`, without its call
            in_flight_bytes = 0 if lane is None else lane.hand_out(delivery)
            consumer.deliver(delivery)
            if in_flight_bytes > in_flight_bytes_max:
                self._unload(delivery)
            if len(ready) > 1:
                ready.rotate(-1)
        return self._go_on()

    def _go_on(self) -> bool:
        """There may be more to hand out, in another turn of the loop."""
        if not self._is_awake:
            self._is_awake = True
            self._broker.awake(self)
        return False

    def _dispatch_by_rank(self, now_ms: int, in_flight_bytes_max: int, share: int) -> bool:
        """`dispatch` where not everybody may have everything, or some go before others.

        The ready ones stand in their rank; the first `_passed` of them have been asked, and there is nothing for them.
        """
        deadline_s = perf_counter() + SLICE_S
        for _ in range(_STEPS_AT_ONCE):
            ready = self._ranked()
            if self._passed >= len(ready):
                return True
            place = self._passed  # which changes with `wake`
            consumer = ready[place]
            has_enough = share > 0 and consumer.prefetch - consumer.credit >= share
            if has_enough or not consumer.can_take:
                consumer.parked.append(self)
                if has_enough:
                    self._broker.memory.parked[consumer] = None
                del ready[place]
                continue
            delivery = self._take_for(consumer, now_ms)
            if delivery is not None:
                self._hand_to(consumer, place, delivery, in_flight_bytes_max)
            elif self._is_awake:  # it is not sure yet that there is nothing
                return False
            else:
                self._passed += 1
            if perf_counter() > deadline_s:
                break
        return self._go_on()

    def _ranked(self) -> deque[Consumer]:
        if self.groups is not None and self._changes != self.groups.changes:
            self._changes = self.groups.changes  # there may be something for somebody who had nothing
            self._is_ranked = False
        if not self._is_ranked:
            self._is_ranked, self._passed = True, 0
            ready: Iterable[Consumer] = self._ready
            if self.policy.strict_order_dispatch:  # then it does not matter whose turn it would be
                are_ready = set(ready)
                ready = (consumer for consumer in self.consumers if consumer in are_ready)
            self._ready = deque(sorted(ready, key=self._rank))
        return self._ready

    def _hand_to(self, consumer: Consumer, place: int, delivery: Delivery, in_flight_bytes_max: int) -> None:
        """Deliver to the consumer at this place, whose turn it is; then it is that of the next one of its rank."""
        if self.groups is not None:
            self._freed(self.groups.deliver(delivery, consumer))
        in_flight_bytes = _hand_out(delivery)
        consumer.deliver(delivery)
        if in_flight_bytes > in_flight_bytes_max:
            self._unload(delivery)
        if not self.policy.strict_order_dispatch:
            del self._ready[place]
            self._ready.insert(bisect_right(self._ready, self._rank(consumer), key=self._rank), consumer)

    def _take_for(self, consumer: Consumer, now_ms: int) -> Delivery | None:
        """The next message to deliver to a consumer; None if there is none for it, or it is not ready yet."""
        if self._exclusive is not None and consumer is not self._exclusive:
            return None
        selection = self.selections.get(consumer.interest)
        if selection is None:
            return self._take(now_ms)
        for _ in range(_SKIPPED_AT_ONCE):
            delivery = selection.first(consumer)
            if delivery is None:
                return None
            if delivery.failed:
                self._take_out(delivery, selection)
                self.drop(delivery)
            elif delivery.message is None:
                self._load(delivery)
                return None
            elif 0 < delivery.message.expiration < now_ms:
                self._take_out(delivery, selection)
                self._expire(delivery)
            elif self._marks and not delivery.is_marked:
                self._broker.redeliveries.mark(delivery)
                if not delivery.is_marked:
                    return None
            elif delivery.message.group_id is not None and self.groups is None:
                self.begin_groups()
                return None
            else:
                self._take_out(delivery, selection)
                return delivery
        self.wake()  # to go on skipping
        return None

    def drop(self, delivery: Delivery) -> None:
        """The store refused a message; it has been taken out of the window."""
        delivery.is_out = True
        self._forget(delivery)

    def _take_out(self, delivery: Delivery, selection: Selection) -> None:
        """Take a waiting delivery from wherever it waits."""
        if selection.strike(delivery):
            return
        if not self._returned.discard(delivery) and delivery.lane is not None:
            delivery.lane.take_out(delivery)

    def _take(self, now_ms: int) -> Delivery | None:
        """The next message to deliver; None if there is none, or it is not ready yet."""
        for _ in range(_SKIPPED_AT_ONCE):
            delivery = self._first()
            if delivery is None or not delivery.visible:
                return None
            if delivery.failed:
                self._pop(delivery)
                self._forget(delivery)
            elif delivery.message is None:
                self._load(delivery)
                return None
            elif 0 < delivery.message.expiration < now_ms:
                self._pop(delivery)
                self._expire(delivery)
            elif self._marks and not delivery.is_marked:
                self._mark(delivery)
                if not delivery.is_marked:
                    return None
            elif delivery.message.group_id is not None and not self.is_shared:
                self.begin_groups()
                return None
            else:
                self._pop(delivery)
                return delivery
        self.wake()  # to go on skipping
        return None

    def _mark(self, first: Delivery) -> None:
        """Let the store know what is going to be delivered: as much as the consumers that are ready can take."""
        self._broker.redeliveries.mark(first)
        credit = sum([max(consumer.credit, 0) for consumer in self._ready])  # below 0: one that is withheld
        room = min(credit, self._broker.options.page_messages_max)
        waiting = chain(self._returned, *(lane.window for lane in self.lanes()))
        for delivery in islice(waiting, room):
            if delivery.visible and not delivery.is_marked and delivery.message is not None:
                self._broker.redeliveries.mark(delivery)

    def _first(self) -> Delivery | None:
        if self.policy.prioritized_messages:
            return self._first_by_priority()
        if self._returned.members:
            return self._returned.first()
        first = None
        for lanes in (self._persistent, self._transient):
            if lanes and lanes[0].window:
                head = lanes[0].window[0]
                if first is None or head.order < first.order:
                    first = head
        return first

    def _first_by_priority(self) -> Delivery | None:
        """The first of the highest priority that has any; None while it is not known which that is."""
        returned = self._returned.first()
        returned_level = -1 if returned is None or returned.lane is None else returned.lane.level
        for level in reversed(range(PRIORITY_LEVELS)):
            if level == returned_level:
                return returned
            lanes = [of_kind[level] for of_kind in (self._persistent, self._transient) if of_kind]
            heads = [lane.window[0] for lane in lanes if lane.window and lane.window[0].visible]
            if heads:
                return min(heads, key=_by_order)
            if any(lane.is_behind for lane in lanes if not lane.window):
                return None
        return None

    def _pop(self, delivery: Delivery) -> None:
        if not (self._returned.members and self._returned.discard(delivery)) and delivery.lane is not None:
            delivery.lane.pop()

    def _forget(self, delivery: Delivery) -> None:
        """The message is gone from memory."""
        if delivery.message is not None:
            self._broker.memory.used -= delivery.size
            delivery.message = None

    # -- back and done -------------------------------------------------------------------------------------------

    def give_back(self, deliveries: Iterable[Delivery]) -> None:
        """Take back what a consumer did not acknowledge; it is delivered again first, in its old order."""
        for _ in self.giving_back(deliveries):
            pass

    def giving_back(self, deliveries: Iterable[Delivery]) -> Iterator[None]:
        """`give_back`, as a job (`jdbcstore.broker.slices`). Nothing is delivered until it is done."""
        self.pause()
        try:
            counted: list[Delivery] = []
            remaining = iter(deliveries)
            while some := list(islice(remaining, _RETURNED_AT_ONCE)):
                counted += self._take_in(some)
                yield
            self._broker.redeliveries.given_back(counted)
        finally:
            self.proceed()

    def _take_in(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Take some back. Returns those that will be delivered again."""
        returned: list[Delivery] = []
        delayed: list[Delivery] = []
        deliveries = list(deliveries)
        for delivery in deliveries:
            _take_back(delivery)
            delivery.consumer = None
            delivery.is_out = False
            delivery.redeliveries += 1
            delivery.is_marked = False
            if self._is_deleted or _is_late(delivery):
                self._forget(delivery)
            elif self._is_delivered_too_often(delivery):
                self._give_up(delivery)
            elif delay_ms := self._redelivery.delay_ms(delivery.redeliveries):
                again = self._broker.loop.call_later(delay_ms / 1000, self._delay_is_over, delivery)
                self._delayed[delivery] = again
                delayed.append(delivery)
            else:
                returned.append(delivery)
        if self.groups is not None:  # what is delayed holds up its group until it is ready
            not_yet = set(delayed)
            self._freed(self.groups.done(delivery for delivery in deliveries if delivery not in not_yet))
        self._put_back(returned)
        return [*returned, *delayed]

    def _delay_is_over(self, delivery: Delivery) -> None:
        del self._delayed[delivery]
        if self.groups is not None:
            self._freed(self.groups.done([delivery]))
        self._put_back([delivery])

    def _is_delivered_too_often(self, delivery: Delivery) -> bool:
        return 0 <= self._redelivery.maximum_redeliveries < delivery.redeliveries and not delivery.failed

    def _give_up(self, delivery: Delivery) -> None:
        """A message that was delivered as often as it may be goes to the dead letters."""
        most = self._redelivery.maximum_redeliveries
        delivery.cause = f"Exceeded redelivery policy limit: maximumRedeliveries={most}"
        _hand_out(delivery)
        self.bury(delivery)

    def acknowledge(self, deliveries: Sequence[Delivery], answer: DeliveryAnswer) -> None:
        """Consumers are done with messages of one lane. After an error a delivery is still its consumer's."""
        lane = deliveries[0].lane
        try:
            completion = None if lane is None else lane.remove(deliveries)
        except JdbcStoreError as error:
            answer(deliveries, error)
            return
        if completion is None or (completion.done and completion.error is None):
            self._removed((deliveries, answer), None)
            return
        self._broker.inbox.expect(completion, self._removed, (deliveries, answer))
        for delivery in deliveries:
            if delivery.durable:
                self._forget(delivery)  # should the store refuse, it can be read again

    def _removed(self, subject: tuple[Sequence[Delivery], DeliveryAnswer], error: BaseException | None) -> None:
        deliveries, answer = subject
        if error is not None:  # what the store never had is gone all the same
            kept = [delivery for delivery in deliveries if not delivery.failed]
            if kept:
                answer(kept, error)
            deliveries = [delivery for delivery in deliveries if delivery.failed]
        if deliveries:
            try:
                self.settled(deliveries)
            finally:
                answer(deliveries, None)

    def settled(self, deliveries: Sequence[Delivery]) -> None:
        """Deliveries have left the store, or go with the commit that just succeeded."""
        for delivery in deliveries:
            if delivery.lane is not None:
                delivery.lane.removed(delivery)
            if delivery.message is not None:
                self._forget(delivery)
        self.dequeued += len(deliveries)
        if self.groups is not None:
            self._freed(self.groups.done(deliveries))

    def _expire(self, delivery: Delivery) -> None:
        """Let a message go whose time is over, to the dead letters or nowhere."""
        self.expired += 1
        _hand_out(delivery)
        self.bury(delivery)

    def expire(self, message: Message, level: int, *, is_buried: bool = True) -> bool:
        """Let a message of the store go whose time is over.

        Args:
            message: as the store has it.
            level: its place in a cursor.
            is_buried: whether it may become a dead letter; otherwise it is only removed.

        Returns:
            False if a consumer has it, or it is gone already.
        """
        if not self._persistent:
            return False
        lane = self._persistent[level if len(self._persistent) > 1 else 0]
        delivery = lane.claim(message) or self._take_returned(lane, message)
        if delivery is None:
            return False
        if is_buried:
            self._expire(delivery)
        else:
            _hand_out(delivery)
            self.discard(delivery)
        return True

    @contextmanager
    def being_read(self) -> Iterator[None]:
        """While somebody reads messages of the store that he is going to let expire."""
        lanes = list(self._persistent)
        for lane in lanes:
            lane.store  # noqa: B018  # opening it finds out how long the tail is
            lane.scanning += 1
        try:
            yield
        finally:
            for lane in lanes:
                lane.scanned()

    def _take_returned(self, lane: Lane, message: Message) -> Delivery | None:
        sequence = 0 if message.message_id is None else message.message_id.broker_sequence_id
        delivery = self._returned.stored(lane, sequence)
        if delivery is not None:
            self._returned.discard(delivery)
            if delivery.message is None:
                delivery.message = message
                self._broker.memory.used += delivery.size
        return delivery

    def expire_in_memory(self, now_ms: int) -> None:
        """Let those messages go that are not in the broker's store, of the first ones, as many as the policy says."""
        for lane in self._transient:
            first = list(islice(lane.window, self.policy.max_expire_page_size))
            for delivery in first:
                if delivery.message is not None and delivery.message.expired(now_ms) and delivery.visible:
                    lane.take_out(delivery)
                    self._expire(delivery)

    def refuse(self, delivery: Delivery, answer: DeliveryAnswer) -> None:
        """The consumer refuses the message (NACK): it becomes a dead letter. After an error nothing has changed."""
        lane = delivery.lane
        if delivery.message is not None or lane is None:
            self._move(delivery, answer)
            return

        def loaded(future: asyncio.Future[Message | None]) -> None:
            if future.cancelled():
                return
            error = future.exception()
            if error is not None:
                answer([delivery], error)
                return
            if _is_late(delivery):
                answer([delivery], StoreClosed("the store was closed before this was done"))
                return
            delivery.message = future.result()
            if delivery.message is None:  # somebody removed it from the store meanwhile: nothing is left to be kept
                self.settled([delivery])
                answer([delivery], None)
            else:
                self._broker.memory.used += delivery.size
                self._move(delivery, answer)

        self._broker.read_patiently(lane.store.get_message, delivery.message_id).add_done_callback(loaded)

    def _move(self, delivery: Delivery, answer: DeliveryAnswer) -> None:
        """Move a message to the dead letters. Whatever is wrong with it, this raises nothing, and answers."""
        try:
            self._broker.dead_letter(delivery, answer)
        except Exception as error:
            log.exception("defect in making a dead letter message_id=%s", delivery.message_id)
            answer([delivery], error)

    def cannot_deliver(self, delivery: Delivery, error: BaseException, protocol: str) -> None:
        """A transport cannot send a message: it becomes a dead letter. One that is there already stays, unseen."""
        if self._broker.is_for_dead_letters(self.destination):
            self._leave(delivery, error)
        else:
            delivery.cause = f"Cannot be delivered to a {protocol} client: {type(error).__name__}: {error}"
            self.bury(delivery)

    def _leave(self, delivery: Delivery, error: BaseException) -> None:
        """Let a message stay in the store as if it were not there, until the store is read anew."""
        log.error(
            "message can be neither delivered nor moved, it stays where it is destination=%s message_id=%s error=%r",
            self.destination,
            delivery.message_id,
            str(error),
        )
        _take_back(delivery)
        self._forget(delivery)

    def bury(self, delivery: Delivery) -> None:
        """Move a message that cannot be delivered to the dead letters, however long it takes the store to do it.

        If that can never be, it is left alone until the store is read anew.
        """
        self.refuse(delivery, self._buried)

    def _buried(self, deliveries: Sequence[Delivery], error: BaseException | None) -> None:
        if error is None:
            return
        if may_pass(error):
            self._try_again(self.bury, deliveries, error)
            return
        for delivery in deliveries:
            self._leave(delivery, error)

    def consumed(self, *deliveries: Delivery) -> None:
        """Consumers in mode auto have messages of one lane. They get room for others when these are removed."""
        self.acknowledge(deliveries, self._consumed)

    def _consumed(self, deliveries: Sequence[Delivery], error: BaseException | None) -> None:
        if error is not None:
            self._try_again(self.consumed, deliveries, error)
            return
        for delivery in deliveries:
            if delivery.consumer is not None:
                delivery.consumer.release()

    def discard(self, delivery: Delivery) -> None:
        """Remove a message that nobody waits for, however long it takes the store to do it."""
        self.acknowledge([delivery], self._discarded)

    def _discarded(self, deliveries: Sequence[Delivery], error: BaseException | None) -> None:
        if error is not None:
            self._try_again(self.discard, deliveries, error)

    def _try_again(
        self, action: Callable[[Delivery], None], deliveries: Sequence[Delivery], error: BaseException
    ) -> None:
        """Nobody else will do it. But while the broker does not serve, it is left to who reads the store next."""
        for delivery in deliveries:
            if not self._broker.is_running or _is_late(delivery):
                self._forget(delivery)
            else:
                log.warning("message could not be removed destination=%s error=%r", self.destination, str(error))
                self._broker.loop.call_later(_RETRY_S, self._again, action, delivery)

    def _again(self, action: Callable[[Delivery], None], delivery: Delivery) -> None:
        if _is_late(delivery):
            self._forget(delivery)
        else:
            action(delivery)

    def purge(self, answer: Answer) -> None:
        """Forget all messages that no consumer has."""
        dropped = self._returned.take_all()
        for selection in self.selections.values():
            dropped += selection.picks
            selection.picks.clear()
            selection.forget()
        if self.groups is not None:
            self.groups.forget_waiting()
        for delivery, again in self._delayed.items():
            again.cancel()
            dropped.append(delivery)
        self._delayed.clear()
        for lane, deliveries in by_lane(dropped):
            if lane is not None:
                for delivery in deliveries:
                    _hand_out(delivery)
                self.acknowledge(deliveries, self._discarded)
        completions = [completion for lane in self.lanes() if (completion := lane.purge()) is not None]
        if completions:
            self._broker.inbox.expect(completions[0], lambda _, error: answer(error), None)
        else:
            answer(None)

    def delete(self) -> None:
        """Forget everything, and also what consumers will give back. For temporary queues, whose connection is gone."""
        self._is_deleted = True
        for consumer in list(self.consumers):
            self.remove_consumer(consumer)
            del consumer.queues[self]
        self.purge(self._purged)

    def _purged(self, error: BaseException | None) -> None:
        if error is not None:
            log.warning("queue could not be emptied destination=%s error=%r", self.destination, str(error))

    # -- memory --------------------------------------------------------------------------------------------------

    def _unload(self, delivery: Delivery) -> None:
        """Keep only the id of a delivered message: the store has the rest, should it be needed again."""
        if delivery.durable:
            self._forget(delivery)

    def _load(self, delivery: Delivery) -> None:
        """Read a message again that is to be delivered again, and go on dispatching then."""
        if self._loading is not None or delivery.lane is None:
            return

        def loaded(future: asyncio.Future[Message | None]) -> None:
            self._loading = None
            if future.cancelled():
                return
            error = future.exception()
            if _is_late(delivery):
                self.wake()
                return
            if isinstance(error, CodecError):
                log.error("unreadable message skipped destination=%s error=%r", self.destination, str(error))
                delivery.failed = True  # it stays in the store
                self.wake()
                return
            if error is not None:
                log.warning("message could not be read again destination=%s error=%r", self.destination, error)
                self._broker.loop.call_later(_RETRY_S, self.wake)
                return
            delivery.message = future.result()
            if delivery.message is None:
                delivery.failed = True
            else:
                self._broker.memory.used += delivery.size
            self.wake()

        self._loading = self._broker.read(delivery.lane.store.get_message, delivery.message_id)
        self._loading.add_done_callback(loaded)


def _hand_out(delivery: Delivery) -> int:
    """The delivery is in flight now; returns how many bytes of its lane are."""
    lane = delivery.lane
    return 0 if lane is None else lane.hand_out(delivery)


def _take_back(delivery: Delivery) -> None:
    """The delivery is in flight no more."""
    if delivery.lane is not None:
        delivery.lane.take_back(delivery)


def _is_late(delivery: Delivery) -> bool:
    """Whether the store that the delivery came from was closed since."""
    return delivery.lane is not None and delivery.lane.is_closed


@subject.register
def _subject(queue: Queue) -> str:
    return str(queue.destination)
