"""A lane: the messages of one queue in one store, of which only a window is in memory.

A queue has two: one for persistent messages, over the broker's store, and one for non-persistent ones, over a store
that lives as long as the process and gets only what does not fit into memory. The rules are the same.

**Theory.** All of this runs in the event loop. The store gives sequences in the order of our adds, so for one lane
the order of calls, of sequences and of visibility is the same. A single number, `_position`, therefore cuts the lane
in two:

* *at or below* the position: messages that this object has taken note of. They are in the window, or with a consumer,
  or gone.
* *above* it, the tail: messages that are in the store only, or on their way there.

The tail is counted, not listed: ``_unpaged`` messages, of which ``_pending`` are not committed yet. From that follows
what may be done:

1. A fresh message may enter the window directly only if the tail is empty and no page is being read (and there is
   room). It moves the position to its own sequence. Otherwise it joins the tail; the position stays.
2. A page is read from the position on. The store shows committed messages only, in order, without gaps, so the page
   is exactly the beginning of the tail: its messages enter the window, the position moves to the page's end, the
   count goes down by its length.
3. If a write in the tail fails, the count goes down. If one in the window fails, the delivery is marked and skipped;
   when its consumer gives it back, it is dropped. A write whose outcome is unknown stays where it is: delivering it
   twice is better than never.
4. A message is taken out of the store only by who has its delivery, so the tail changes by rules 1 to 3 alone, and by
   a purge, which empties tail and window and makes a page that is being read void (``_generation``).
5. A selection (`jdbcstore.broker.selection`), or who looks for expired messages, may pick a message from the tail,
   one that it has just read there and that was not picked before. It is a delivery from then on. The count goes down,
   and a page leaves the message out. It is remembered (``_picked``) until the position is past it, or the store has
   removed it and no page is being read that may still show it.
6. A message may take its place in the tail before it is submitted (`take_place`), as one that is not committed yet: the
   tail is counted, not listed, so its place among the others is the one that the store gives it. A commit of thousands
   does that ahead. What is never submitted leaves the tail like a write that failed.

So nothing is skipped (only rules 1 and 2 move the position, and only over what they put into the window) and nothing
is doubled (a message enters the window once: directly or by a page, never both). Should the count be too high all the
same, because the outcome of a write was unknown, an empty page proves that the tail is no more than what was pending
when it began and what came since, and the count is put right.

**Priorities.** A queue that goes by priority has a lane for each, and the store keeps them apart, so all of the above
holds for each alone. Between them one rule is enough: a lower lane is served only while no higher one has anything in
its window, and none in the store only (`is_behind`). How many messages each has is not known at first: each then takes
all for its own, and its first page puts that right.

**How long the window is.** Pages keep it as long as consumers need it. What has just come may make it longer (rule 1),
since it need not be read again then: as long as the account of memory shows that nobody else is short of it.

With *concurrent store and dispatch* a message of rule 1 may be delivered before its commit; without, it waits in its
place, and so do those behind it. Writes are committed in order, so they do not wait long.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Final, Protocol

from jdbcstore.broker.delivery import Consumer, Delivery, DeliveryQueue
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.broker.host import Host
from jdbcstore.broker.interest import Interest
from jdbcstore.broker.memory import DELIVERY_BYTES
from jdbcstore.errors import JdbcStoreError, OutcomeUnknown, StoreClosed
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Cursor, MessageStore, Page
from jdbcstore.store.refusals import Refusals

__all__ = ["Lane", "LaneQueue"]

log = logging.getLogger(__name__)

#: What a queue may page in although all queues together have used up their memory.
_SPARSE_MESSAGES: Final = 16
_SPARSE_BYTES: Final = 256 << 10
_RETRY_FIRST_S: Final = 0.1
_RETRY_MOST_S: Final = 10.0
#: A window is in order.
_order: Final = attrgetter("order")


class LaneQueue(DeliveryQueue, Protocol):
    """A queue as its lanes see it."""

    policy: DestinationPolicy
    is_advising: bool

    def open_store(self) -> MessageStore:
        """Open its store in the broker's store."""

    def open_spool(self) -> MessageStore:
        """Open its store in the spool."""

    def advise(self, message: Message) -> None:
        """Those who listen to advisories are told that a message has arrived."""

    @property
    def consumers(self) -> Iterable[Consumer]:
        """Who takes part."""

    @property
    def has_consumers(self) -> bool:
        """Whether anybody may want the next page."""

    @property
    def selections(self) -> Mapping[Interest, object]:
        """What those consumers get that do not want everything."""

    def next_order(self) -> int:
        """The next place in the queue, for a lane's next delivery."""

    def wanted(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Those messages of a page that may enter memory."""

    def entered(self, delivery: Delivery) -> None:
        """A lane's window has a new delivery, and there are selections."""

    def drop(self, delivery: Delivery) -> None:
        """The store refused a message; it has been taken out of the window."""


class Lane:
    """The persistent, or the non-persistent messages of a queue.

    Args:
        broker: gives options, memory, completions and the threads that read.
        queue: whose lane it is.
        open_store: called once, when the store is needed for the first time.
        memory_first: keep messages in memory only as long as they fit (the non-persistent lane).
        level: the priority that it is for; None in a queue that does not go by priority.
    """

    __slots__ = (
        "_broker",
        "_generation",
        "_gone",
        "_is_read_up",
        "_level",
        "_memory_first",
        "_open_store",
        "_paged_max",
        "_pending",
        "_picked",
        "_position",
        "_reading",
        "_retry_s",
        "_store",
        "_tail_adds",
        "_tail_answers",
        "_unpaged",
        "_window_bytes",
        "_window_bytes_max",
        "in_flight",
        "in_flight_bytes",
        "is_closed",
        "level",
        "memory",
        "queue",
        "scanning",
        "window",
    )

    def __init__(
        self,
        broker: Host,
        queue: LaneQueue,
        open_store: Callable[[], MessageStore],
        *,
        memory_first: bool,
        level: int | None = None,
    ) -> None:
        self._broker = broker
        self.memory = broker.memory
        self.queue = queue
        self._open_store = open_store
        self._memory_first = memory_first
        #: Its place among the lanes of the queue, the higher goes first.
        self.level = level or 0
        self._level = level
        self._store: MessageStore | None = None
        #: Deliveries ready to go, in order.
        self.window: deque[Delivery] = deque()
        #: Deliveries that are with consumers, or whose removal the store has not answered yet.
        self.in_flight = self.in_flight_bytes = 0
        #: Whether another lane has taken its place: what comes for this one is too late.
        self.is_closed = False
        self._window_bytes = 0
        #: So long a window is kept by pages, which are read when it is half as long. With what has just come it may be
        #: longer.
        self._paged_max = broker.options.paged_messages_max
        limit_bytes = queue.policy.memory_limit_bytes or broker.options.window_bytes_max
        self._window_bytes_max = min(limit_bytes, broker.options.window_bytes_max)
        self._position = 0
        self._unpaged = 0
        self._pending = 0
        self._tail_adds = self._tail_answers = 0
        self._reading = False
        #: Sequences that were picked from the tail (rule 5), and those of them that have left the store.
        self._picked: set[int] = set()
        self._gone: list[int] = []
        #: Pages of the tail that selections are reading.
        self.scanning = 0
        self._is_read_up = False
        self._generation = 0
        self._retry_s = 0.0

    @property
    def store(self) -> MessageStore:
        """The store, opened at the first use: what it holds then is the tail."""
        if self._store is None:
            self._store = self._open_store()
            if self._level is None or not self._memory_first:
                # With levels it is the count of all of them, which the first page puts right. A spool was empty.
                self._unpaged = self._store.message_count
        return self._store

    @property
    def is_open(self) -> bool:
        """Whether the store was needed already."""
        return self._store is not None

    @property
    def is_durable(self) -> bool:
        """Whether its messages survive the process."""
        return not self._memory_first

    @property
    def is_behind(self) -> bool:
        """Whether there may be messages in the store that go before those of lower levels, and are being read."""
        return not self._is_read_up and (self._reading or self._unpaged > self._pending)

    @property
    def is_being_read(self) -> bool:
        """Whether a page is on its way from the store."""
        return self._reading or self.scanning > 0

    @property
    def undecided(self) -> int:
        """Messages of window and tail that are on their way to the store."""
        return self._pending + sum(not delivery.durable for delivery in self.window)

    @property
    def depth(self) -> int:
        """Messages in window and tail: all that nobody has."""
        return len(self.window) + self._unpaged

    @property
    def window_bytes(self) -> int:
        """What the messages of the window take."""
        return self._window_bytes

    @property
    def idle(self) -> bool:
        """Whether nothing is in it and nothing is under way."""
        return not self.window and not self._unpaged and not self._pending and not self._reading

    @property
    def is_given_back(self) -> bool:
        """Whether nobody has anything of it, and nothing is under way."""
        return not self.in_flight and not self._pending and not self._reading

    @property
    def holds_anything(self) -> bool:
        """Whether its store may hold messages."""
        return not self._memory_first or self._store is not None

    @property
    def last_sequence(self) -> int:
        """A sequence that no message of this lane is above at the moment."""
        adapter = self._broker.spool if self._memory_first else self._broker.adapter
        return adapter.last_message_broker_sequence_id()

    def with_consumers(self) -> list[Delivery]:
        """What consumers have of it."""
        return [
            one for consumer in self.queue.consumers for one in consumer.unacknowledged.values() if one.lane is self
        ]

    def close(self) -> list[Delivery]:
        """The store was closed under it. Returns what was ready to go; what is still under way comes too late."""
        self.is_closed = True
        self.memory.used -= self.in_flight * DELIVERY_BYTES  # whoever has them, nobody counts them here any more
        self._generation += 1
        window, self.window = self.window, deque()
        self._window_bytes = 0
        return list(window)

    # -- in ------------------------------------------------------------------------------------------------------

    def add(self, message: Message, *, visible: bool) -> tuple[Completion[int] | None, Delivery | None]:
        """Store a message, or keep it if that is enough; then offer it.

        Args:
            message: what to add.
            visible: whether it may be delivered before it is stored.

        Returns:
            The completion of the write, None if nothing is written; and what `added` has to be told with it.

        Raises:
            JdbcStoreError: the store refuses the message; nothing was done.
        """
        if self._memory_first and (self._has_room(message.size) or self._waits_for_spool()):
            delivery = Delivery(message, self, self.queue.next_order())
            self._enter(delivery)
            return None, delivery
        store = self._store or self.store
        completion = store.add_message(message)
        return completion, self.admit(message, visible=visible)

    def add_together(
        self, messages: Sequence[Message], *, visible: bool
    ) -> tuple[Completion[Refusals], list[Delivery | None]] | None:
        """Store several messages in one go; otherwise as `add`, for each.

        Returns:
            As `add`, with what `added` has to be told for each message. None if the store does not take them so:
            nothing was done.

        Raises:
            JdbcStoreError: the store refuses one; nothing was done.
        """
        store = self._store or self.store
        completion = store.add_messages(messages)
        if completion is None:
            return None
        if not self._has_room(sum([message.size for message in messages]), len(messages)):
            return completion, [self.admit(message, visible=visible) for message in messages]
        order = self.queue.next_order
        deliveries = [Delivery(message, self, order(), stored=True, visible=visible) for message in messages]
        self._enter_together(deliveries)
        self._position = deliveries[-1].message_id.broker_sequence_id
        return completion, [*deliveries]

    def admit(self, message: Message, *, visible: bool) -> Delivery | None:
        """Take note of a message whose write has just been submitted (rule 1).

        Returns:
            Its delivery if it entered the window, None if it joined the tail. `added` wants it back.
        """
        if not self._memory_first and self._has_room(message.size):
            delivery = Delivery(message, self, self.queue.next_order(), stored=True, visible=visible)
            self._enter(delivery)
            self._position = delivery.message_id.broker_sequence_id
            return delivery
        self.take_place()
        return None

    def take_place(self, count: int = 1) -> None:
        """So many messages join the tail; they are submitted, or are going to be (rule 6). `places_added` is told."""
        self._unpaged += count
        self._pending += count
        self._tail_adds += count

    def reappeared(self, sequences: Iterable[int]) -> None:
        """Messages are again in their old places in the store, which did not show them for a while. The lane will come
        to those above its `position`. It has passed the others, unless they are of other lanes of the same store."""
        ahead = sum([sequence > self._position for sequence in sequences])
        if ahead:
            self._generation += 1  # a page that is being read may show them or not
            self._unpaged += ahead
            self._is_read_up = False
            self.page()

    def pass_over(self, message: Message) -> bool:
        """Take note of a message whose write has just been submitted, and that nobody here wants.

        Returns:
            Whether that was all. If not, there is a tail that it has to join (`admit`), and leaves with a page.
        """
        if self._store is None or self._unpaged or self._reading or message.message_id is None:
            return False
        self._position = message.message_id.broker_sequence_id
        return True

    def added(self, delivery: Delivery | None, error: BaseException | None) -> None:
        """The store has answered the write of a message (rule 3)."""
        if delivery is None:
            self.places_added(1, error)
        elif error is None or isinstance(error, OutcomeUnknown):
            delivery.durable = error is None
            if not delivery.visible:
                delivery.visible = True
                self.queue.wake()
        else:
            delivery.failed = delivery.visible = True
            if self.take_out(delivery):  # perhaps nobody looks at it for a long time
                self.queue.drop(delivery)
            self.queue.wake()

    def places_added(self, count: int, error: BaseException | None) -> None:
        """The store has answered the write of so many messages that took their places ahead; as `added` of each."""
        unknown = isinstance(error, OutcomeUnknown)
        self._pending -= count
        self._is_read_up = False
        self._tail_answers += count
        if self.queue.selections:
            self.queue.wake()
        if error is not None and not unknown:
            self._unpaged -= count
        self.page()

    def all_added(self, deliveries: Iterable[Delivery | None]) -> None:
        """The store has several messages; instead of `added`, for each."""
        for delivery in deliveries:
            if delivery is not None and delivery.visible:
                delivery.durable = True
            else:
                self.added(delivery, None)

    def _has_room(self, size: int, count: int = 1) -> bool:
        """Whether so many messages of this size may enter the window now."""
        if self._store is None and not self._memory_first:
            self.store  # noqa: B018  # opening it finds out how long the tail is
        return (
            not self._unpaged
            and not self._reading
            and (len(self.window) + count <= self._paged_max or self._may_keep_more(size, count))
            and (self._window_bytes + size <= self._window_bytes_max or not self.window)
            and self.memory.has_room(size)
        )

    def _may_keep_more(self, size: int, count: int) -> bool:
        """Whether messages may stay in memory that a page could bring as well: nobody else is short of it then, and
        nobody takes messages out of the middle of a long window."""
        is_long = len(self.window) + count > self._broker.options.window_messages_max
        return not is_long and not self.queue.selections and self.memory.has_plenty(size)

    def _waits_for_spool(self) -> bool:
        """Whether a message that finds no room stays in memory, since the spool is only just being opened: nobody else
        is served while somebody waits for that here. Clients that send more are held back meanwhile
        (`Client.may_send`)."""
        return self._store is None and self._broker.is_spool_opening

    def _enter(self, delivery: Delivery) -> None:
        """Put a delivery into the window."""
        size = delivery.size
        self.window.append(delivery)
        self._window_bytes += size
        self.memory.used += size
        if self.queue.selections:
            self.queue.entered(delivery)
        if delivery.visible:
            self.queue.wake()

    def _enter_together(self, deliveries: Sequence[Delivery]) -> None:
        """Put those of a page into the window."""
        size = sum([delivery.size for delivery in deliveries])
        self.window.extend(deliveries)
        if self.queue.selections:
            for delivery in deliveries:
                self.queue.entered(delivery)
        self._window_bytes += size
        self.memory.used += size
        if deliveries and deliveries[-1].visible:
            self.queue.wake()

    # -- the tail, for selections --------------------------------------------------------------------------------

    @property
    def has_tail(self) -> bool:
        """Whether the store may show something above the position."""
        return not self.is_closed and self._unpaged > self._pending

    @property
    def is_crowded(self) -> bool:
        """Whether the window is too full for another page."""
        return len(self.window) > self._paged_max // 2 or self._window_bytes > self._window_bytes_max // 2

    @property
    def position(self) -> int:
        """What is above is in the tail, or picked."""
        return self._position

    @property
    def answers(self) -> int:
        """Grows with every write of the tail that the store has answered."""
        return self._tail_answers

    @property
    def generation(self) -> int:
        """Changes when pages that are being read become void."""
        return self._generation

    def cursor_at(self, sequence: int) -> Cursor:
        """The place in the store behind this sequence of the lane."""
        return Cursor.after(sequence) if self._level is None else Cursor.in_level(self._level, sequence)

    def pick(self, message: Message) -> Delivery | None:
        """Take a message out of the tail that was just read there (rule 5); None if it is not, or no more, in it."""
        sequence = 0 if message.message_id is None else message.message_id.broker_sequence_id
        if sequence <= self._position or sequence in self._picked:
            return None
        self._picked.add(sequence)
        self._unpaged = max(self._unpaged - 1, 0)
        delivery = Delivery(message, self, self.queue.next_order(), stored=True, durable=True)
        self.memory.used += delivery.size
        return delivery

    def scanned(self) -> None:
        """A selection has read its page."""
        self.scanning -= 1
        self._forget_gone()

    def removed(self, deliveries: Sequence[Delivery]) -> None:
        """Deliveries of this lane that were in flight have left the store, if they were there."""
        self._count_in_flight(-len(deliveries), -sum([delivery.size for delivery in deliveries]))
        if self._picked:
            self._gone += [delivery.message_id.broker_sequence_id for delivery in deliveries]
            self._forget_gone()

    def _forget_gone(self) -> None:
        if self._gone and not self.scanning and not self._reading:
            self._picked.difference_update(self._gone)
            self._gone.clear()

    # -- out -----------------------------------------------------------------------------------------------------

    def hand_out(self, delivery: Delivery) -> None:
        """A delivery of this lane is in flight now."""
        delivery.is_out = True
        self._count_in_flight(1, delivery.size)

    def take_back(self, delivery: Delivery) -> None:
        """A delivery of this lane is in flight no more."""
        self._count_in_flight(-1, -delivery.size)

    def _count_in_flight(self, count: int, size: int) -> None:
        self.in_flight += count
        self.in_flight_bytes += size
        if not self.is_closed:  # `close` has taken back what it counted
            self.memory.used += count * DELIVERY_BYTES

    def hand_out_first(self, count_max: int, bytes_max: int, now_ms: int) -> list[Delivery]:
        """Take the first deliveries out of the window; they are in flight now.

        Args:
            count_max: how many at most.
            bytes_max: no more of them when they have reached that.
            now_ms: the time.

        Returns:
            As many as may go just as they are. What is behind them, or the first one if there are none, is to be looked
            at alone: it is not ready, has expired, has to be read again, or is of a group.
        """
        window, deliveries, size = self.window, list[Delivery](), 0
        for delivery in islice(window, count_max):
            message = delivery.message
            if (
                message is None
                or delivery.failed
                or not delivery.visible
                or message.group_id is not None
                or 0 < message.expiration < now_ms
            ):
                break
            deliveries.append(delivery)
            size += delivery.size
            if size >= bytes_max:
                break
        for delivery in deliveries:
            delivery.is_out = True
            window.popleft()
        self._count_in_flight(len(deliveries), size)
        self._shortened(size)
        return deliveries

    def take_out(self, delivery: Delivery) -> bool:
        """Take a delivery out of the window, wherever it is there; False if it is not.

        It is looked for by its order: when a store fails, it fails thousands of a long window.
        """
        window = self.window
        place = bisect_left(window, delivery.order, key=_order)
        if place == len(window) or window[place] is not delivery:
            return False
        del window[place]
        self._shortened(delivery.size)
        return True

    def pop(self) -> Delivery:
        """Take the first delivery out of the window."""
        delivery = self.window.popleft()
        self._shortened(delivery.size)
        return delivery

    def _shortened(self, size: int) -> None:
        """So many bytes were taken out of the window: there may be room for a page."""
        self._window_bytes -= size
        if self._unpaged and len(self.window) <= self._paged_max // 2:
            self.page()

    def claim(self, message: Message) -> Delivery | None:
        """Take a message out of its turn that was just read from the store; None if a consumer has it, or it is gone.

        Who reads has to count in `scanning` meanwhile.
        """
        picked = self.pick(message)
        if picked is not None:
            return picked
        for delivery in self.window:
            if (
                delivery.durable
                and not delivery.failed
                and _sequence(message) == delivery.message_id.broker_sequence_id
            ):
                self.take_out(delivery)
                return delivery
        return None

    def remove(self, deliveries: Sequence[Delivery]) -> Completion[None] | None:
        """Take acknowledged messages out of the store. None if none was ever there.

        Raises:
            JdbcStoreError: the store does not take the order; the messages stay.
        """
        stored = [delivery.message_id for delivery in deliveries if delivery.stored and not delivery.failed]
        return self.store.remove_message(*stored) if stored else None

    def purge(self) -> Completion[None] | None:
        """Forget everything that nobody has; None if the store has nothing to do with it.

        Raises:
            JdbcStoreError: the store does not take the order; nothing was forgotten.
        """
        completion = None if self._memory_first and self._store is None else self.store.remove_all_messages()
        self.memory.used -= self._window_bytes
        self.window.clear()
        self._window_bytes = 0
        self._unpaged = self._pending  # those answer for themselves; an empty page puts the count right
        self._generation += 1
        return completion

    # -- pages ---------------------------------------------------------------------------------------------------

    def page(self) -> None:
        """Read the next page if there is one and the window has room for it, in a thread (rule 2)."""
        options, memory = self._broker.options, self.memory
        if (
            self.is_closed
            or self._unpaged <= self._pending
            or self._reading
            or self._retry_s > 0
            or self.is_crowded
            or not self.queue.has_consumers
        ):
            return
        messages_max, bytes_max = options.page_messages_max, min(options.page_bytes_max, self._window_bytes_max)
        messages_max = min(self.queue.policy.max_page_size or messages_max, messages_max)
        if not memory.has_room(bytes_max):
            if self.window:
                return
            messages_max, bytes_max = min(_SPARSE_MESSAGES, messages_max), min(_SPARSE_BYTES, bytes_max)
        self._read(messages_max, bytes_max)

    def _read(self, messages_max: int, bytes_max: int) -> None:
        self._reading = True
        self.memory.reading += bytes_max  # many queues may ask before the first page is there
        pending, adds = self._pending, self._tail_adds
        generation = self._generation

        def finish(future: asyncio.Future[Page]) -> None:
            self._reading = False
            self.memory.reading -= bytes_max
            if generation != self._generation or future.cancelled():
                self._retry_s = 0.0
                self.page()
            elif (error := future.exception()) is not None:
                self._page_failed(error)
            else:
                page = future.result()
                # Its end was the end of the tail: what is there now came since, and lower levels need not wait for it
                # in this turn. Otherwise a stream of such messages would hold them up for ever.
                self._is_read_up = (
                    len(page.messages) < messages_max
                    and sum(message.size for message in page.messages) < bytes_max // 2
                )
                self._paged(page, pending, adds)
            self._forget_gone()

        cursor = self.cursor_at(self._position)
        self._broker.read(self.store.recover_next_messages, cursor, messages_max, bytes_max).add_done_callback(finish)

    def _paged(self, page: Page, pending: int, adds: int) -> None:
        """A page has arrived; `pending` and `adds` are what was pending, and the tail adds so far, when it began."""
        self._retry_s = 0.0
        position = page.cursor.positions[self.level]
        if position == self._position:  # nothing is behind it
            most = pending + self._tail_adds - adds
            self._unpaged = min(self._unpaged, most) if pending else most
            self.page()
            if self._level is not None:
                self.queue.wake()  # lower levels may have waited for this
            return
        self._position = position
        messages = page.messages
        if self._picked:
            messages = [message for message in messages if _sequence(message) not in self._picked]
            self._picked = {sequence for sequence in self._picked if sequence > position}
        self._unpaged = max(self._unpaged - len(messages) - len(page.unreadable), 0)
        order = self.queue.next_order
        entering = [
            Delivery(message, self, order(), stored=True, durable=True) for message in self.queue.wanted(messages)
        ]
        self._enter_together(entering)
        for sequence, error in page.unreadable:
            # What nobody can read must not hold up what is behind it. It stays in the store.
            log.error(
                "unreadable message skipped, it stays in the store destination=%s id=%d error=%r",
                self.queue.destination,
                sequence,
                str(error),
            )
        self.page()

    def _page_failed(self, error: BaseException) -> None:
        if isinstance(error, StoreClosed) or not isinstance(error, Exception):
            return
        self._retry_s = min(max(self._retry_s * 2, _RETRY_FIRST_S), _RETRY_MOST_S)
        level = logging.WARNING if isinstance(error, JdbcStoreError) else logging.ERROR
        log.log(
            level, "page read failed destination=%s retry_s=%s error=%r", self.queue.destination, self._retry_s, error
        )
        self._broker.loop.call_later(self._retry_s, self._page_again, self._retry_s)

    def _page_again(self, waited_s: float) -> None:
        # The pause itself bars other reads; it is kept in `_retry_s` so that the next failure waits twice as long.
        self._retry_s = 0.0
        self.page()
        if self._reading:
            self._retry_s = waited_s


def _sequence(message: Message) -> int:
    return 0 if message.message_id is None else message.message_id.broker_sequence_id
