"""Consumers of a queue that do not want everything: what they want is found without holding up anybody.

**Theory.** The window of a lane (`jdbcstore.broker.lane`) is bounded, and may be full of messages that a selector
leaves out, with those that it wants far behind. So for each selector in use a queue has a `Selection`, shared by the
consumers that have the same one. It looks at every message once, in two places:

* *In memory.* What enters the window, or is given back, is put on the selection's list of candidates. A candidate is
  looked at when a consumer wants one: it is taken out of the window, or struck from the list. Others may have taken it
  in the meantime; `Delivery.is_out` tells.
* *In the tail*, when no candidate is left: the selection reads the store page by page with a cursor of its own, behind
  the lane's position. What matches is *picked* (`Lane.pick`): it is a delivery from then on, the tail is shorter by it,
  and the lane remembers its sequence until its own pages are past it, or the store does not have it any more. What
  does not match is forgotten; the cursor is past it.

A page of the selection and one of the lane may show the same message. It is in the window if it is not above the
lane's position, and picked if the lane remembers it; each is checked when the page arrives, in the event loop, so
exactly one gets it. In memory is what was picked of one page and not delivered yet, and the candidates, which are in
the window anyway. The next page is read when all of that is gone. So the store is read once for each selector in use,
whatever the selector leaves out; a message may be looked at twice, if the lane pages it in after the selection has
passed it.

**Groups.** In a queue with message groups (`jdbcstore.broker.groups`) there is a selection for the consumers that want
everything, too, since not each of them may have every message. What is looked at and has to wait for another consumer
leaves the list of candidates: it waits with its group (`Group.waiting`) and, if the consumer is one of the selection's,
in this one's *backlog*, in order. So each message is looked at once, however many wait for a consumer that is full.
From the first message of a group on nothing is picked from the tail: what two selections pick there, and what pages
bring in between, does not come in the order of the store, and within a group that order is what counts.

In ActiveMQ a consumer gets nothing while ``maxPageSize`` messages that nobody wants stand before those it wants.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import insort
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from time import perf_counter
from typing import Final, Protocol

from jdbcstore.broker.delivery import Consumer, Delivery, by_place
from jdbcstore.broker.groups import MessageGroups
from jdbcstore.broker.host import Host
from jdbcstore.broker.interest import Interest
from jdbcstore.broker.lane import Lane
from jdbcstore.broker.rotation import SLICE_S
from jdbcstore.destination import Destination
from jdbcstore.store.contract import Page

__all__ = ["SelectedQueue", "Selection"]

log = logging.getLogger(__name__)

_RETRY_S: Final = 1.0


class SelectedQueue(Protocol):
    """A queue as its selections see it."""

    @property
    def destination(self) -> Destination:
        """Its name."""

    @property
    def groups(self) -> MessageGroups | None:
        """Once a message of a group has come."""

    def lanes(self) -> Sequence[Lane]:
        """Its lanes, those of higher priorities first."""

    def wake(self) -> None:
        """There is something to deliver, or to look at."""

    def begin_groups(self) -> None:
        """A message of a group has come."""


class _Scan:
    """How far a selection has come in the tail of one lane."""

    __slots__ = ("answers", "cursor", "is_reading")

    def __init__(self) -> None:
        self.cursor = 0
        self.is_reading = False
        #: When everything committed was seen: how many adds the store had answered then, else None.
        self.answers: int | None = None


class Selection:
    """What consumers with one and the same interest get of one queue.

    Args:
        broker: gives options, memory and the threads that read.
        queue: the queue.
        interest: what they want.
    """

    def __init__(self, broker: Host, queue: SelectedQueue, interest: Interest) -> None:
        self.interest = interest
        #: How many consumers have it.
        self.users = 0
        #: Picked from the tail, to be delivered.
        self.picks: list[Delivery] = []
        self._broker = broker
        self._queue = queue
        self._candidates: list[Delivery] = []
        #: Candidates that were given back, a heap: they are many, or come one by one before many others.
        self._back: list[tuple[tuple[int, int], Delivery]] = []
        self._candidates_max = 4 * broker.options.paged_messages_max
        #: Whether candidates are left that were not looked at, since that takes long.
        self._is_looking = False
        self._scans: dict[Lane, _Scan] = {}
        self._is_pausing = False
        #: What waits for a consumer, in order, because of its groups; perhaps also what somebody has taken since.
        self._backlogs: dict[Consumer, list[tuple[tuple[int, int], Delivery]]] = {}

    def entered(self, delivery: Delivery) -> None:
        """A message has entered the window."""
        insort(self._candidates, delivery, key=by_place)
        if len(self._candidates) > self._candidates_max:  # nobody looks at them while others take them
            self._candidates = [one for one in self._candidates if not one.is_out]
            self._candidates_max = max(self._candidates_max, 2 * len(self._candidates))

    def came_back(self, deliveries: Iterable[Delivery]) -> None:
        """Messages were given back, or are all that is there: they are looked at (again), in order."""
        if self._candidates or self._back:
            for delivery in deliveries:
                heappush(self._back, (by_place(delivery), delivery))
        else:
            self._candidates = sorted(deliveries, key=by_place)

    def forget(self) -> None:
        """The queue was emptied."""
        self._candidates.clear()
        self._back.clear()
        self._backlogs.clear()

    def left(self, consumer: Consumer) -> None:
        """A consumer has left, others with the same interest stay."""
        self._backlogs.pop(consumer, None)

    def first(self, consumer: Consumer) -> Delivery | None:
        """The first waiting message that is wanted, and that this consumer may have; None if there is none, or it is
        not ready yet.

        It stays where it is until `strike` takes it.
        """
        groups = self._queue.groups
        first = self._first_candidate() if groups is None else self._first_of_groups(consumer, groups)
        if self._is_looking:
            self._queue.wake()
            return None
        if groups is None and self.picks and (first is None or by_place(self.picks[0]) < by_place(first)):
            first = self.picks[0]
        above = None if first is None or first.lane is None else first.lane.level
        if self._look_further(above):
            return None
        return first if first is not None and first.visible else None

    def _first_candidate(self) -> Delivery | None:
        """The first one that is wanted, or cannot be told: it failed, or has to be read again first.

        A selector may take long, so that is given up after a while; `_is_looking` tells.
        """
        deadline_s = perf_counter() + SLICE_S
        self._is_looking = False
        back = self._first_back(deadline_s)
        if self._is_looking:
            return None
        for place, delivery in enumerate(self._candidates):
            is_behind = back is not None and by_place(back) < by_place(delivery)
            if is_behind or self._is_candidate(delivery):
                del self._candidates[:place]
                return back if is_behind else delivery
            if perf_counter() > deadline_s:
                del self._candidates[: place + 1]
                self._is_looking = True
                return None
        self._candidates.clear()
        return back

    def _first_back(self, deadline_s: float) -> Delivery | None:
        while self._back:
            delivery = self._back[0][1]
            if self._is_candidate(delivery):
                return delivery
            heappop(self._back)
            if perf_counter() > deadline_s:
                self._is_looking = True
                return None
        return None

    def _is_candidate(self, delivery: Delivery) -> bool:
        return not delivery.is_out and (
            delivery.failed or delivery.message is None or self.interest.wants(delivery.message)
        )

    def strike(self, delivery: Delivery) -> bool:
        """The first one is taken. Returns whether it was picked from the tail, and so is in no window."""
        if self.picks and self.picks[0] is delivery:
            del self.picks[0]
            return True
        if self._back and self._back[0][1] is delivery:
            heappop(self._back)
        elif self._candidates and self._candidates[0] is delivery:
            del self._candidates[0]
        return False  # what stands in a backlog leaves it when that is looked at

    # -- groups --------------------------------------------------------------------------------------------------

    def _first_of_groups(self, consumer: Consumer, groups: MessageGroups) -> Delivery | None:
        """`_first_candidate`, picks included, for one consumer."""
        deadline_s = perf_counter() + SLICE_S
        self._is_looking = False
        found = (
            self._first_of_backlog(consumer, groups),
            self._first_back_for(consumer, groups, deadline_s),
            self._first_of_candidates(consumer, groups, deadline_s),
            self.picks[0] if self.picks else None,  # from before there were groups
        )
        return min((delivery for delivery in found if delivery is not None), key=by_place, default=None)

    def _first_of_backlog(self, consumer: Consumer, groups: MessageGroups) -> Delivery | None:
        backlog = self._backlogs.get(consumer)
        while backlog:
            delivery = backlog[0][1]
            group = groups.group_of(delivery)
            if not delivery.is_out and group is not None and group.consumer is consumer and delivery in group.waiting:
                return delivery
            heappop(backlog)  # taken, or it waits for nobody any more and is among the candidates again
        return None

    def _first_back_for(self, consumer: Consumer, groups: MessageGroups, deadline_s: float) -> Delivery | None:
        while (delivery := self._first_back(deadline_s)) is not None:
            if groups.may_deliver(delivery, consumer):
                return delivery
            heappop(self._back)
            self._wait(delivery, groups)
        return None

    def _first_of_candidates(self, consumer: Consumer, groups: MessageGroups, deadline_s: float) -> Delivery | None:
        found, place = None, 0
        for delivery in self._candidates:
            if self._is_candidate(delivery):
                if groups.may_deliver(delivery, consumer):
                    found = delivery
                    break
                self._wait(delivery, groups)
            place += 1
            if perf_counter() > deadline_s:
                self._is_looking = True
                break
        del self._candidates[:place]
        return found

    def _wait(self, delivery: Delivery, groups: MessageGroups) -> None:
        group = groups.group_of(delivery)
        if group is None:
            return
        group.waiting[delivery] = None
        if len(group.waiting) > self._candidates_max:  # some have expired
            group.waiting = {one: None for one in group.waiting if not one.is_out}
        if group.consumer is not None and group.consumer.interest == self.interest:
            backlog = self._backlogs.setdefault(group.consumer, [])
            if len(backlog) > self._candidates_max:
                backlog[:] = [entry for entry in backlog if not entry[1].is_out]
                heapify(backlog)
            heappush(backlog, (by_place(delivery), delivery))

    # -- the tail ------------------------------------------------------------------------------------------------

    def _look_further(self, above: int | None) -> bool:
        """Read on in the tails of the lanes above a priority, or all. Returns whether there is one to wait for."""
        is_looking = False
        for lane in self._queue.lanes():
            if above is not None and lane.level <= above:
                continue
            if self._queue.groups is not None:
                is_looking = is_looking or (lane.is_behind and not lane.is_crowded)
                continue
            scan = self._scans.setdefault(lane, _Scan())
            if not (scan.is_reading or self._is_pausing) and lane.has_tail and scan.answers != lane.answers:
                self._read(lane, scan)
            is_looking = is_looking or scan.is_reading
        return is_looking

    def _read(self, lane: Lane, scan: _Scan) -> None:
        options = self._broker.options
        start, answers, generation = max(scan.cursor, lane.position), lane.answers, lane.generation

        def finish(future: asyncio.Future[Page]) -> None:
            scan.is_reading = False
            if not future.cancelled() and generation == lane.generation and self.users:
                if (error := future.exception()) is not None:
                    self._failed(error)
                else:
                    self._looked(lane, scan, future.result(), start, answers)
            lane.scanned()

        scan.is_reading = True
        lane.scanning += 1
        reading = self._broker.read(
            lane.store.recover_next_messages, lane.cursor_at(start), options.page_messages_max, options.page_bytes_max
        )
        reading.add_done_callback(finish)

    def _looked(self, lane: Lane, scan: _Scan, page: Page, start: int, answers: int) -> None:
        scan.cursor = page.cursor.positions[lane.level]
        if scan.cursor == start:
            scan.answers = answers
        for message in page.messages:
            if self._queue.groups is not None or message.group_id is not None:
                self._queue.begin_groups()
                break
            if self.interest.wants(message) and (delivery := lane.pick(message)) is not None:
                insort(self.picks, delivery, key=by_place)
        self._queue.wake()  # to deliver them, or to look further

    def _failed(self, error: BaseException) -> None:
        log.warning(
            "reading a page of the queue failed, trying again destination=%s error=%r",
            self._queue.destination,
            str(error),
        )
        self._is_pausing = True
        self._broker.loop.call_later(_RETRY_S, self._go_on)

    def _go_on(self) -> None:
        self._is_pausing = False
        self._queue.wake()
