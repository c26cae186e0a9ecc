"""A queue: store first, then offer; each message to one consumer, in order, until it is acknowledged.

Where the messages are is the business of the two lanes (`jdbcstore.broker.lane`, read its theory). The queue merges
them by the order in which they entered memory, hands them to its consumers in turn, and takes back what a consumer
did not acknowledge: that is delivered again before everything else, in its old order.

::

    add ──▶ lane ──▶ window ──▶ dispatch ──▶ consumer ──▶ removal ──▶ lane.remove
                      returned ◀── redelivery ◀─┘

Each of its parts is a module: `queue_contents` (what is in it), `queue_consumers` (whose turn it is, and who may have
what), `dispatch`, `removal`, `redelivery`, and `reload` (of what memory had no room for).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import Final, TypeAlias

from jdbcstore.broker.delivery import Answer, Answers, Consumer, Delivery, by_lane
from jdbcstore.broker.delivery_counts import DeliveryCounts
from jdbcstore.broker.destination_host import DestinationHost
from jdbcstore.broker.dispatch import Dispatch
from jdbcstore.broker.groups import MessageGroups
from jdbcstore.broker.interest import Interest
from jdbcstore.broker.lane import Lane
from jdbcstore.broker.queue_consumers import QueueConsumers
from jdbcstore.broker.queue_contents import QueueContents
from jdbcstore.broker.redelivery import Redelivery
from jdbcstore.broker.reload import Reload
from jdbcstore.broker.removal import Removal
from jdbcstore.broker.watchdog import subject
from jdbcstore.destination import Destination
from jdbcstore.errors import JdbcStoreError
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import PRIORITY_LEVELS, Cursor, MessageStore
from jdbcstore.store.refusals import NOTHING_REFUSED, Refusals

__all__ = ["Queue"]

log = logging.getLogger(__name__)

#: How long a queue waits for as many consumers as its policy wants, if that does not say how long.
_START_MS: Final = 1000


#: Messages that are being stored in one go, with what `Lane.added` has to be told for each.
_Together: TypeAlias = tuple[Lane, Completion[Refusals], Sequence[Message], Sequence[Delivery | None], Answers]


class Queue:
    """One queue of the running broker.

    Args:
        broker: gives options, stores, completions and memory.
        destination: its name; a temporary queue keeps nothing in the broker's store.
        counts: how often messages were delivered before, where that is not the store's business.

    Attributes:
        enqueued, enqueued_bytes: messages added, since this object exists, and what they take in memory.
        contents: what is in it.
        removal: by which messages leave it.
        selections: what those consumers get that do not want everything.
    """

    #: Whether others have the same messages in the store, so that these are not ours to change.
    is_shared = False

    def __init__(self, broker: DestinationHost, destination: Destination, counts: DeliveryCounts | None = None) -> None:
        self.destination = destination
        self.last_used_s = broker.loop.time()
        self.enqueued = self.enqueued_bytes = 0
        self.policy = broker.policy_for(destination)
        #: Whether it has to be told of each message that it has arrived.
        self.is_advising = self.policy.advises_arrivals
        self._broker = broker
        self._order = 0
        #: How many give back what they have, and are not done: nothing is delivered meanwhile.
        self._pauses = 0
        #: Whether an operator wants nothing to be delivered.
        self.is_paused = False
        #: While the first consumer waits for others.
        self._start_timer: asyncio.TimerHandle | None = None
        limit_bytes = self.policy.memory_limit_bytes or broker.options.in_flight_bytes_max
        contents = self.contents = QueueContents(broker, self, has_store=not destination.is_temporary)
        consumers = self._consumers = QueueConsumers(broker, self, contents, self.policy, is_shared=self.is_shared)
        self.selections: Mapping[Interest, object] = consumers.selections
        self.removal = Removal(broker, destination, contents, consumers, counts)
        self._redelivery = Redelivery(
            broker, broker.redelivery_policy_for(destination), contents, consumers, self.removal, counts
        )
        self._reload = Reload(broker, destination, contents, consumers.wake)
        #: Something has come, or somebody: dispatch at the end of this turn of the loop.
        self.wake: Callable[[], None] = consumers.wake
        self._dispatch = Dispatch(
            broker,
            contents,
            consumers,
            self.removal,
            self._redelivery,
            self._reload,
            min(limit_bytes, broker.options.in_flight_bytes_max),
            counts,
            is_marked=self.policy.persist_jms_redelivered,
        )

    def __repr__(self) -> str:
        return f"<{self.destination} depth={self.depth} in_flight={self.in_flight} consumers={len(self.consumers)}>"

    # -- what is in it -------------------------------------------------------------------------------------------------

    def open_store(self) -> MessageStore:
        """Open its store in the broker's store."""
        return self._broker.queue_store(self._broker.adapter, self.destination)

    def open_spool(self) -> MessageStore:
        """Open its store in the spool."""
        return self._broker.queue_store(self._broker.spool, self.destination)

    def lanes(self) -> Sequence[Lane]:
        """Those lanes that are there, those of higher priorities first."""
        return self.contents.lanes()

    def reopen(self) -> None:
        """The broker's store was closed and no client is left: forget what was in it. What is only in memory stays."""
        self.contents.reopen()
        self._consumers.groups = None

    def needs_spool(self) -> bool:
        """Whether messages of it are in the spool, or on their way."""
        return self.contents.needs_spool()

    def let_go_of_spool(self) -> None:
        """It is closed: the next message that needs one opens another. Nothing may be in it."""
        self.contents.let_go_of_spool()

    def close(self) -> None:
        """Forget everything that is in memory; no client is left."""
        self.contents.close()
        self._consumers.groups = None

    def part(self) -> None:
        """It is over. It and its lanes know each other; if all is given back they are parted, so that it is freed and
        need not wait for the garbage collector."""
        if self.contents.is_given_back:
            self.contents.part()
            self._consumers.part()
            self.wake = self._consumers.wake

    def next_order(self) -> int:
        """The next place in the queue, for a lane's next delivery."""
        self._order += 1
        return self._order

    async def first_came_ms(self) -> int | None:
        """When the first message that it has has come, with a consumer or not; None if it is empty.

        Raises:
            JdbcStoreError: the store could not be read.
        """
        returned, has_delayed = self.contents.returned.first(), bool(self.contents.delayed)
        first = [*(lane.window[0] for lane in self.lanes() if lane.window), *([] if returned is None else [returned])]
        messages = [delivery.message for delivery in first if delivery.message is not None]
        stores: list[MessageStore] = []
        for lane in self.lanes():
            # With nothing in flight, given back or unread the window begins with the first message.
            is_elsewhere = lane.in_flight or returned is not None or has_delayed or lane.depth > len(lane.window)
            if lane.is_open and is_elsewhere and lane.store not in stores:
                stores.append(lane.store)
        for store in stores:
            messages += (await self._broker.read(store.recover_next_messages, Cursor(), 1, 1)).messages
        times = (message.broker_in_time or message.timestamp for message in messages)
        return min((time for time in times if time > 0), default=None)

    @property
    def in_flight(self) -> int:
        """Deliveries that are with consumers, or whose removal the store has not answered yet."""
        return self.contents.in_flight

    @property
    def depth(self) -> int:
        """Messages that nobody has acknowledged."""
        return self.contents.depth(self._consumers.picks())

    @property
    def dequeued(self) -> int:
        """Messages acknowledged, dead-lettered or dropped, since this object exists."""
        return self.removal.dequeued

    @property
    def expired(self) -> int:
        """Messages dropped as expired, since this object exists."""
        return self.removal.expired

    @property
    def idle(self) -> bool:
        """Whether the object can go: nobody uses it, nothing is in it, nothing is under way."""
        return not self.consumers and self.contents.is_idle and not self._pauses and not self._reload.is_under_way

    @property
    def is_settled(self) -> bool:
        """Whether nothing is being read or handed out: there is nothing now for those who have got nothing."""
        return not (
            self._consumers.is_awake
            or self._pauses
            or self._reload.is_under_way
            or any(lane.is_being_read for lane in self.contents.lanes())
        )

    # -- in ------------------------------------------------------------------------------------------------------

    def add(self, message: Message, answer: Answer) -> None:
        """Store the message, offer it, and answer when the store has; the answer may come before this returns."""
        if self.is_advising:
            answer = partial(self._arrived, message, answer)
        contents = self.contents
        lane = contents.persistent_lane(message) if message.persistent else contents.transient_lane(message)
        try:
            completion, delivery = lane.add(message, visible=self._broker.options.concurrent_store_and_dispatch_queues)
        except JdbcStoreError as error:
            answer(error)
            return
        self.enqueued += 1
        self.enqueued_bytes += message.size
        if completion is None:
            answer(None)
        else:
            self._broker.completions.expect(completion, self._added, (lane, delivery, answer))

    def add_together(self, messages: Sequence[Message], answers: Answers) -> None:
        """Store persistent messages in one go, if that can be done, and offer them; otherwise as `add`, for each."""
        lanes, added = self.contents.persistent, None
        if len(lanes) == 1 and not self.is_advising:
            visible = self._broker.options.concurrent_store_and_dispatch_queues
            with suppress(JdbcStoreError):  # which concerns one, as a rule; it is told below
                added = lanes[0].add_together(messages, visible=visible)
        if added is None:
            for place, message in enumerate(messages):
                self.add(message, partial(answers.answered, place))
            return
        self.enqueued += len(messages)
        self.enqueued_bytes += sum([message.size for message in messages])
        completion, deliveries = added
        self._broker.completions.expect(
            completion, self._added_together, (lanes[0], completion, messages, deliveries, answers)
        )

    def _added_together(self, together: _Together, error: BaseException | None) -> None:
        lane, completion, messages, deliveries, answers = together
        refusals = completion.result() if error is None else NOTHING_REFUSED
        if error is None and not refusals:
            try:
                lane.all_added(deliveries)
            finally:
                answers.stored()
            return
        outcomes = [error or _refusal(refusals, message) for message in messages]
        try:
            for delivery, outcome in zip(deliveries, outcomes, strict=True):
                lane.added(delivery, outcome)
        finally:
            for place, outcome in enumerate(outcomes):
                answers.answered(place, outcome)

    def _added(self, subject: tuple[Lane, Delivery | None, Answer], error: BaseException | None) -> None:
        lane, delivery, answer = subject
        try:
            lane.added(delivery, error)
        finally:
            answer(error)

    def _arrived(self, message: Message, answer: Answer, error: BaseException | None) -> None:
        try:
            if error is None:
                self.advise(message)
        finally:
            answer(error)

    def advise(self, message: Message) -> None:
        """Those who listen to advisories are told that a message has arrived."""
        self._broker.advisories.arrived(message, self.destination, is_attended=bool(self.consumers))

    def wanted(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Those messages of a page that may enter memory: all, in a queue."""
        return messages

    def entered(self, delivery: Delivery) -> None:
        """A lane's window has a new delivery, and there are selections."""
        self._consumers.entered(delivery)

    def drop(self, delivery: Delivery) -> None:
        """The store refused a message; it has been taken out of the window."""
        self.contents.drop(delivery)

    # -- consumers -----------------------------------------------------------------------------------------------

    @property
    def consumers(self) -> Mapping[Consumer, None]:
        """Who takes part, in the order in which they came."""
        return self._consumers.members

    @property
    def has_consumers(self) -> bool:
        """Whether anybody may want the next page."""
        return bool(self._consumers.members)

    @property
    def groups(self) -> MessageGroups | None:
        """Once a message of a group has come."""
        return self._consumers.groups

    def begin_groups(self) -> None:
        """A message of a group has come: from the first one on it is looked at who may have what."""
        self._consumers.begin_groups()

    def add_consumer(self, consumer: Consumer) -> None:
        """Let a consumer take part. What is in the store begins to come into memory."""
        self._consumers.add(consumer)
        if not self.is_shared:
            self._await_others()
        self.contents.load()
        for lane in self.contents.lanes():
            lane.page()
        self.wake()

    def remove_consumer(self, consumer: Consumer) -> None:
        """Let a consumer go. What it has must be given back by `giving_back`."""
        self._consumers.remove(consumer)
        if not self.consumers:
            self._start()
        self.last_used_s = self._broker.loop.time()

    def _await_others(self) -> None:
        """Deliver nothing to the first consumer before there are as many as the policy wants, or its time is over."""
        wanted, wait_ms = self.policy.consumers_before_dispatch_starts, self.policy.time_before_dispatch_starts_ms
        if len(self.consumers) == 1 and (wanted > 1 or (wanted <= 0 and wait_ms > 0)):
            self.pause()
            self._start_timer = self._broker.loop.call_later((wait_ms or _START_MS) / 1000, self._start)
        elif 0 < wanted <= len(self.consumers):
            self._start()

    def _start(self) -> None:
        if self._start_timer is not None:
            self._start_timer.cancel()
            self._start_timer = None
            self.proceed()

    def resume(self, consumer: Consumer) -> None:
        """A consumer that could not take more can again: hand out what there is."""
        self._consumers.resume(consumer)
        self.dispatch()

    # -- out and back ------------------------------------------------------------------------------------------------

    def awake(self) -> None:
        """There is something to dispatch: do that at the end of this turn of the loop."""
        self._broker.awake(self)

    def dispatch(self) -> bool:
        """Hand out what is there to those that can take it, in turn; not more than a slice of it at a time.

        Returns:
            Whether that was all that could be done now.
        """
        self._consumers.is_awake = False
        return self._pauses > 0 or self._dispatch.dispatch()

    def pause(self) -> None:
        """Deliver nothing for now: something is given back, and goes first. Pauses add up."""
        self._pauses += 1

    def proceed(self) -> None:
        """Take one pause back."""
        self._pauses -= 1
        self.wake()

    @property
    def is_getting_back(self) -> bool:
        """Whether something is being given back by consumers that have left."""
        return self._pauses > self.is_paused

    def halt(self, *, is_on: bool) -> None:
        """Deliver nothing until this is called again with False, by order of an operator; once is enough for each."""
        if is_on != self.is_paused:
            self.is_paused = is_on
            self.pause() if is_on else self.proceed()

    def giving_back(self, deliveries: Iterable[Delivery]) -> Iterator[None]:
        """Take back what a consumer did not acknowledge; it is delivered again first, in its old order. A job
        (`jdbcstore.broker.slices`); nothing is delivered until it is done."""
        self.pause()
        try:
            yield from self._redelivery.taking_back(deliveries)
        finally:
            self.proceed()

    # -- expired, or not wanted any more -------------------------------------------------------------------------------

    def expire(self, message: Message, level: int, *, is_buried: bool = True) -> bool:
        """Remove an expired message of the store.

        Args:
            message: as the store has it.
            level: its place in a cursor.
            is_buried: whether it may become a dead letter; otherwise it is only removed.

        Returns:
            False if a consumer has it, or it is gone already.
        """
        persistent = self.contents.persistent
        if not persistent:
            return False
        lane = persistent[level if len(persistent) > 1 else 0]
        return self.removal.expire_stored(message, lane, is_buried=is_buried)

    @contextmanager
    def being_read(self) -> Iterator[None]:
        """While somebody reads messages of the store that he is going to let expire."""
        lanes = [lane for lane in self.contents.lanes() if lane.is_durable or lane.is_open]
        for lane in lanes:
            lane.store  # noqa: B018  # opening it finds out how long the tail is
            lane.scanning += 1
        try:
            yield
        finally:
            for lane in lanes:
                lane.scanned()

    def claim(self, message: Message, *, is_durable: bool) -> Delivery | None:
        """Take a message out of its turn that was just read from its store (`being_read`), for an operator.

        Args:
            message: as the store has it.
            is_durable: whether it was read from the broker's store; else from the spool.

        Returns:
            Its delivery, in flight and with nobody; None if a consumer has it, or it is gone. `Broker.transfer` lets it
            go, `unclaim` gives it back.
        """
        lanes = self.contents.persistent if is_durable else self.contents.transient
        if not lanes:
            return None
        lane = lanes[min(max(message.priority, 0), PRIORITY_LEVELS - 1) if len(lanes) > 1 else 0]
        delivery = lane.claim(message) or self.contents.take_returned(lane, message)
        if delivery is not None:
            delivery.hand_out()
            if delivery.message is None:
                self.contents.keep(delivery, message)
        return delivery

    def claim_in_memory(self, wants: Callable[[Message], bool]) -> Iterator[Delivery | None]:
        """Take out, one after the other, what no store has: non-persistent messages that found room in memory.

        A job; what it yields is None for a message that stays.
        """
        contents = self.contents
        for lane in contents.transient:
            for delivery in [*contents.given_back(lane), *lane.window]:  # the caller may wait for commits in between
                message = delivery.message
                is_wanted = not delivery.stored and message is not None and wants(message)
                if is_wanted and contents.take_if_there(delivery):
                    delivery.hand_out()
                    yield delivery
                else:
                    yield None

    def unclaim(self, deliveries: Sequence[Delivery]) -> None:
        """Give back what was claimed, as it was: it goes first, and no delivery is counted."""
        self._redelivery.put_back_untouched(deliveries)

    def expiring_in_memory(self, now_ms: int) -> Iterator[None]:
        """Let those messages go that are not in the broker's store, of the first ones, as many as the policy says; a
        job."""
        for lane in list(self.contents.transient):
            first = list(islice(lane.window, self.policy.max_expire_page_size))
            for delivery in first:
                message = delivery.message
                has_expired = message is not None and message.expired(now_ms) and delivery.visible
                if has_expired and lane.take_out(delivery):
                    self.removal.expire(delivery)
                yield

    def purge(self, answer: Answer) -> None:
        """Forget all messages that no consumer has."""
        dropped = [*self.contents.take_all_back(), *self._consumers.forget_waiting()]
        for lane, deliveries in by_lane(dropped):
            if lane is not None:
                for delivery in deliveries:
                    delivery.hand_out()
                self.removal.discard(*deliveries)
        completions = [completion for lane in self.lanes() if (completion := lane.purge()) is not None]
        if completions:
            self._broker.completions.expect(completions[0], lambda _, error: answer(error), None)
        else:
            answer(None)

    def delete(self) -> None:
        """Forget everything, and also what consumers will give back. For temporary queues, whose connection is gone."""
        self._redelivery.is_over = True
        for consumer in list(self.consumers):
            self.remove_consumer(consumer)
            del consumer.queues[self]
        self.purge(self._purged)

    def _purged(self, error: BaseException | None) -> None:
        self.part()
        if error is not None:
            log.warning(
                "queue could not be purged, its messages stay in the store destination=%s error=%r",
                self.destination,
                str(error),
            )


@subject.register
def _subject(queue: Queue) -> str:
    return str(queue.destination)


def _refusal(refusals: Refusals, message: Message) -> JdbcStoreError | None:
    return None if message.message_id is None else refusals.get(message.message_id.broker_sequence_id)
