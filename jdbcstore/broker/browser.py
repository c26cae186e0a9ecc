"""A browser: shows a client what is in a queue, without taking anything out of it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from math import inf
from time import perf_counter
from typing import Final, TypeAlias

from jdbcstore.broker.delivery import Consumer, Delivery, Receiver
from jdbcstore.broker.host import Host
from jdbcstore.broker.interest import EVERYTHING, Interest
from jdbcstore.broker.queue import Queue
from jdbcstore.broker.rotation import SLICE_S
from jdbcstore.broker.subscription_request import AcknowledgeMode
from jdbcstore.destination import Destination
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.store.contract import Cursor, MessageStore, Page

__all__ = ["Browser"]

log = logging.getLogger(__name__)

#: What is read at once while there is little memory.
_SPARSE_MESSAGES: Final = 16
_SPARSE_BYTES: Final = 64 << 10


class _Page:
    """How many messages of one queue may still be shown."""

    __slots__ = ("left",)

    def __init__(self, messages_max: int) -> None:
        self.left: float = messages_max or inf


#: A message, how often it was delivered before, and what it is shown of.
_Shown: TypeAlias = tuple[Message, int, _Page]


class Browser(Consumer):
    """A subscription that shows what its queue holds when it begins, and ends.

    What is in a store is read from there, page by page with a cursor of the browser's own, as fast as the client
    takes it. Messages that consumers hold unacknowledged are shown, too, as in ActiveMQ. What is only in memory is
    listed at the beginning, and shown at the end. Of each queue it shows no more than the policy's
    `max_browse_page_size`.

    Args:
        broker: gives limits and the threads that read.
        client, subscription_id, destination, mode, prefetch, interest: as `Consumer`.
    """

    __slots__ = ("_broker", "_closed", "_counts", "_cursor", "_listed", "_page_bytes", "_reading", "_ready", "_stores")

    is_browser = True

    def __init__(
        self,
        broker: Host,
        client: Receiver,
        subscription_id: str | None,
        destination: Destination,
        mode: AcknowledgeMode,
        prefetch: int,
        interest: Interest = EVERYTHING,
    ) -> None:
        super().__init__(client, subscription_id, destination, mode, prefetch, interest)
        self._broker = broker
        self._closed = False
        self._reading = False
        self._cursor = Cursor()
        #: Stores to be read, each with the last sequence that counts.
        self._stores: deque[tuple[MessageStore, int, _Page]] = deque()
        #: How often what is not acknowledged was delivered before, where the store may not know it.
        self._counts: dict[MessageId, int] = {}
        #: Of the page that is being shown.
        self._page_bytes = 0
        self._ready: deque[_Shown] = deque()
        #: What no store has.
        self._listed: deque[_Shown] = deque()

    def begin(self, queues: list[Queue]) -> None:
        """Take note of what there is, and start to show it."""
        for queue in queues:
            stores = []
            page = _Page(queue.policy.max_browse_page_size)
            self._listed.extend((message, count, page) for message, count in queue.contents.memory_only())
            for lane in queue.lanes():
                self._counts |= queue.contents.counts(lane)
                if lane.holds_anything and lane.store not in stores:  # lanes of several priorities share one
                    stores.append(lane.store)
                    self._stores.append((lane.store, lane.last_sequence, page))
        self._broker.loop.call_soon(self.resume)

    def resume(self) -> None:
        """Show more, as far as the client takes it; at the end tell that it is the end."""
        if self._closed:
            return
        now_ms, deadline_s = self._broker.now_ms(), perf_counter() + SLICE_S
        while self._ready and self.can_take:
            message, redeliveries, page = self._ready.popleft()
            if page.left and not message.expired(now_ms) and self.interest.wants(message):
                page.left -= 1
                delivery = Delivery(message)
                delivery.redeliveries = redeliveries
                self.deliver(delivery)
            if perf_counter() > deadline_s:
                self._broker.loop.call_soon(self.resume)
                return
        if self._ready or self._reading:
            return
        while self._stores and not self._stores[0][2].left:
            self._next_store()
        if self._stores:
            if self.can_take:
                self._read(*self._stores[0])
        elif self._listed:
            self._ready, self._listed = self._listed, deque()
            self.resume()
        else:
            self._end()
            self.client.browsed(self)

    @property
    def is_settled(self) -> bool:
        return self._closed

    def release(self, count: int = 1) -> None:
        """The client has taken so many: show as many more."""
        self.credit += count
        if self.extension:
            self._shorten(count)
        self.resume()

    def closing(self) -> Iterator[None]:
        """Stop showing."""
        self.is_closed = True
        self._end()
        self._ready.clear()
        self._listed.clear()
        self._counts.clear()
        self._stores.clear()
        self.unacknowledged.clear()
        return iter(())

    def _end(self) -> None:
        self._closed = True
        self._broker.memory.used -= self._page_bytes
        self._page_bytes = 0

    def _count_of(self, message: Message) -> int:
        known = None if message.message_id is None else self._counts.get(message.message_id)
        return message.redelivery_counter if known is None else max(known, message.redelivery_counter)

    def _next_store(self) -> None:
        self._stores.popleft()
        self._cursor = Cursor()

    def _read(self, store: MessageStore, last: int, of: _Page) -> None:
        options, memory = self._broker.options, self._broker.memory
        messages_max, bytes_max = options.page_messages_max, options.page_bytes_max
        if not memory.has_room(bytes_max):
            messages_max, bytes_max = min(_SPARSE_MESSAGES, messages_max), min(_SPARSE_BYTES, bytes_max)

        def finish(future: asyncio.Future[Page]) -> None:
            self._reading = False
            if self._closed or future.cancelled():
                return
            if (error := future.exception()) is not None:
                log.warning("browsing failed destination=%s error=%r", self.destination, str(error))
                self.close()
                self.client.browsing_failed(self, error)
                return
            page = future.result()
            is_end = page.cursor == self._cursor or page.cursor.positions[0] >= last
            self._cursor = page.cursor
            shown = [m for m in page.messages if m.message_id is not None and m.message_id.broker_sequence_id <= last]
            self._ready.extend((message, self._count_of(message), of) for message in shown)
            memory.used -= self._page_bytes
            self._page_bytes = sum([message.size for message in shown])
            memory.used += self._page_bytes
            if is_end:
                self._next_store()
            self.resume()

        self._reading = True
        reading = self._broker.read_patiently(store.recover_next_messages, self._cursor, messages_max, bytes_max)
        reading.add_done_callback(finish)
