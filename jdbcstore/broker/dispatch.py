"""Dispatch: what is in a queue is handed out to those who can take it, in turn, a slice at a time."""

from __future__ import annotations

from collections import deque
from itertools import islice
from time import perf_counter
from typing import Final

from jdbcstore.broker.delivery import Consumer, Delivery
from jdbcstore.broker.delivery_counts import DeliveryCounts
from jdbcstore.broker.destination_host import DestinationHost
from jdbcstore.broker.queue_consumers import QueueConsumers
from jdbcstore.broker.queue_contents import QueueContents
from jdbcstore.broker.redelivery import Redelivery
from jdbcstore.broker.reload import Reload
from jdbcstore.broker.removal import Removal
from jdbcstore.broker.rotation import SLICE_S
from jdbcstore.broker.selection import Selection

__all__ = ["Dispatch"]

#: What is done in one go: deliveries, and messages skipped because nobody may have them. Large enough that what each of
#: a few consumers gets is worth a write to its socket; the clock is asked from time to time.
_STEPS_AT_ONCE: Final = 512
_STEPS_BETWEEN_LOOKS: Final = 64
#: Deliveries that are handed out together, which each consumer gets its share of, and their size. Whether they still
#: take more is looked at in between.
_TOGETHER_MAX: Final = 64
_TOGETHER_BYTES: Final = 256 << 10
_DISPATCH_S: Final = 4 * SLICE_S
_SKIPPED_AT_ONCE: Final = 50
#: How many dead letters are made in one go: each takes a third of a millisecond.
_BURIED_AT_ONCE: Final = 8


class Dispatch:
    """Hands out the messages of one queue.

    Args:
        broker: gives memory, options and the time.
        contents: what is in the queue.
        consumers: who takes part.
        removal: where expired messages go.
        redelivery: knows what was delivered too often.
        reload: reads what memory had no room for.
        in_flight_bytes_max: how much consumers may have in memory; of what is beyond it only ids are kept.
        is_marked: whether the store is told before a message is delivered.
        counts: how often messages were delivered before, where that is not the store's business.
    """

    def __init__(
        self,
        broker: DestinationHost,
        contents: QueueContents,
        consumers: QueueConsumers,
        removal: Removal,
        redelivery: Redelivery,
        reload: Reload,
        in_flight_bytes_max: int,
        counts: DeliveryCounts | None,
        *,
        is_marked: bool,
    ) -> None:
        self._broker = broker
        self._contents = contents
        self._consumers = consumers
        self._removal = removal
        self._redelivery = redelivery
        self._reload = reload
        self._in_flight_bytes_max = in_flight_bytes_max
        self._counts = counts
        self._is_marked = is_marked
        #: How many messages went to nobody when their turn came.
        self._skipped = 0

    def dispatch(self) -> bool:
        """Hand out what is there to those that can take it.

        Returns:
            Whether that was all that could be done now.
        """
        consumers = self._consumers
        ready = consumers.ready
        now_ms = self._broker.now_ms()
        memory = self._broker.memory
        in_flight_bytes_max, share = self._in_flight_bytes_max, 0
        if memory.is_short:
            in_flight_bytes_max, share = 0, memory.deliveries_share
        if not consumers.is_plain:
            return self._dispatch_by_rank(now_ms, in_flight_bytes_max, share)
        may_go_together = self._counts is None and not self._is_marked and not share
        began_s = perf_counter()
        deadline_s = began_s + _DISPATCH_S
        steps, looked = 0, 0
        while steps < _STEPS_AT_ONCE:
            if steps - looked >= _STEPS_BETWEEN_LOOKS:
                looked = steps
                if perf_counter() > deadline_s:
                    break
            if not ready:
                return True
            consumer = ready[0]
            has_enough = share > 0 and consumer.prefetch - consumer.credit >= share
            if has_enough or not consumer.can_take:
                consumer.parked.append(consumers.queue)
                if has_enough:
                    memory.parked[consumer] = None
                ready.popleft()
                steps += 1
                continue
            deliveries = self._contents.hand_out_first(_room(ready), _TOGETHER_BYTES, now_ms) if may_go_together else []
            if not deliveries:
                skipped = self._skipped
                delivery = self._take(now_ms)
                if delivery is None:
                    return not consumers.is_awake
                delivery.hand_out()
                deliveries = [delivery]
                if self._skipped > skipped:  # which takes longer than to hand out: many are dead letters
                    deadline_s = began_s + SLICE_S
                    looked = steps - _STEPS_BETWEEN_LOOKS
            steps += len(deliveries)
            self._hand_in_turn(ready, deliveries, in_flight_bytes_max)
        consumers.go_on()
        return False

    def _hand_in_turn(self, ready: deque[Consumer], deliveries: list[Delivery], in_flight_bytes_max: int) -> None:
        """Deliver to those that are ready, one to each in turn; who would be next is the first then."""
        count = len(ready)
        if count == 1:
            ready[0].deliver(*deliveries)
        else:
            receivers = list(islice(ready, len(deliveries)))
            ready.rotate(-len(deliveries))
            for place, consumer in enumerate(receivers):
                consumer.deliver(*deliveries[place::count])
        lane = deliveries[0].lane
        if lane is not None and lane.in_flight_bytes > in_flight_bytes_max:
            self._contents.unload(*deliveries)

    def _dispatch_by_rank(self, now_ms: int, in_flight_bytes_max: int, share: int) -> bool:
        """`dispatch` where not everybody may have everything, or some go before others.

        The ready ones stand in their rank; the first `passed` of them have been asked, and there is nothing for them.
        """
        consumers = self._consumers
        deadline_s = perf_counter() + SLICE_S
        for _ in range(_STEPS_AT_ONCE):
            ready = consumers.ranked()
            if consumers.passed >= len(ready):
                return True
            place = consumers.passed  # which changes with `wake`
            consumer = ready[place]
            has_enough = share > 0 and consumer.prefetch - consumer.credit >= share
            if has_enough or not consumer.can_take:
                consumer.parked.append(consumers.queue)
                if has_enough:
                    self._broker.memory.parked[consumer] = None
                del ready[place]
                continue
            delivery = self._take_for(consumer, now_ms)
            if delivery is not None:
                self._hand_to(consumer, place, delivery, in_flight_bytes_max)
            elif consumers.is_awake:  # it is not sure yet that there is nothing
                return False
            else:
                consumers.passed += 1
            if perf_counter() > deadline_s:
                break
        consumers.go_on()
        return False

    def _hand_to(self, consumer: Consumer, place: int, delivery: Delivery, in_flight_bytes_max: int) -> None:
        """Deliver to the consumer at this place, whose turn it is; then it is that of the next one of its rank."""
        groups = self._consumers.groups
        if groups is not None:
            self._consumers.freed(groups.deliver(delivery, consumer))
        delivery.hand_out()
        consumer.deliver(delivery)
        lane = delivery.lane
        if lane is not None and lane.in_flight_bytes > in_flight_bytes_max:
            self._contents.unload(delivery)
        self._consumers.move_on(consumer, place)

    def _take_for(self, consumer: Consumer, now_ms: int) -> Delivery | None:
        """The next message to deliver to a consumer; None if there is none for it, or it is not ready yet."""
        consumers = self._consumers
        if consumers.exclusive is not None and consumer is not consumers.exclusive:
            return None
        selection = consumers.selections.get(consumer.interest)
        if selection is None:
            return self._take(now_ms)
        buried = 0
        for _ in range(_SKIPPED_AT_ONCE):
            delivery = selection.first(consumer)
            if delivery is None:
                return None
            if delivery.failed:
                self._take_out(delivery, selection)
                self._contents.drop(delivery)
            elif delivery.message is None:
                self._reload.begin(delivery)
                return None
            elif 0 < delivery.message.expiration < now_ms:
                self._take_out(delivery, selection)
                self._removal.expire(delivery)
                if (buried := buried + 1) == _BURIED_AT_ONCE:
                    break
            elif self._is_marked and not delivery.is_marked:
                self._broker.redeliveries.mark(delivery)
                if not delivery.is_marked:
                    return None
            elif delivery.message.group_id is not None and consumers.groups is None:
                consumers.begin_groups()
                return None
            else:
                self._take_out(delivery, selection)
                return delivery
        self._consumers.wake()  # to go on skipping
        return None

    def _take_out(self, delivery: Delivery, selection: Selection) -> None:
        """Take a waiting delivery from wherever it waits."""
        if selection.strike(delivery):
            return
        self._contents.take_out(delivery)

    def _take(self, now_ms: int) -> Delivery | None:
        """The next message to deliver; None if there is none, or it is not ready yet."""
        contents, buried = self._contents, 0
        for _ in range(_SKIPPED_AT_ONCE):
            delivery = contents.first()
            if delivery is None or not delivery.visible:
                return None
            if delivery.failed:
                contents.pop(delivery)
                contents.forget(delivery)
                self._skipped += 1
            elif delivery.message is None:
                self._reload.begin(delivery)
                return None
            elif 0 < delivery.message.expiration < now_ms:
                contents.pop(delivery)
                self._removal.expire(delivery)
                self._skipped += 1
                if (buried := buried + 1) == _BURIED_AT_ONCE:
                    break
            elif self._is_marked and not delivery.is_marked:
                self._mark(delivery)
                if not delivery.is_marked:
                    return None
            elif delivery.message.group_id is not None and self._counts is None:
                self._consumers.begin_groups()
                return None
            else:
                contents.pop(delivery)
                if self._counts is None or self._is_deliverable(self._counts, delivery):
                    return delivery
                self._skipped += 1
        self._consumers.wake()  # to go on skipping
        return None

    def _mark(self, first: Delivery) -> None:
        """Let the store know what is going to be delivered: as much as the consumers that are ready can take."""
        self._broker.redeliveries.mark(first)
        credit = sum([max(consumer.credit, 0) for consumer in self._consumers.ready])  # below 0: one that is withheld
        room = min(credit, self._broker.options.page_messages_max)
        for delivery in islice(self._contents.waiting(), room):
            if delivery.visible and not delivery.is_marked and delivery.message is not None:
                self._broker.redeliveries.mark(delivery)

    def _is_deliverable(self, counts: DeliveryCounts, delivery: Delivery) -> bool:
        """Whether a message may be delivered again; if not, it becomes a dead letter."""
        counts.apply(delivery)
        if self._redelivery.is_too_often(delivery):
            self._redelivery.give_up(delivery)
            return False
        return True


def _room(ready: deque[Consumer]) -> int:
    """How many messages those that are ready can take, one each in turn, before one of them cannot any more."""
    count = len(ready)
    if count == 1:
        return min(ready[0].credit, _TOGETHER_MAX)
    rounds = _TOGETHER_MAX // count
    for place, consumer in enumerate(islice(ready, _TOGETHER_MAX)):
        if not consumer.can_take:
            return place
        rounds = min(rounds, consumer.credit)
    return min(max(rounds, 1) * count, _TOGETHER_MAX)
