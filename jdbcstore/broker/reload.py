"""Messages that memory had no room for are read again when they are to be delivered again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from jdbcstore.broker.delivery import Delivery, DeliverySource
from jdbcstore.broker.host import Host
from jdbcstore.broker.queue_contents import QueueContents
from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.store.contract import Cursor, MessageStore

__all__ = ["Reload"]

log = logging.getLogger(__name__)

_RETRY_S: Final = 1.0


class Reload:
    """Reads messages again for one queue, in the order in which they wait, one page at a time.

    A consumer that goes may give back a thousand: one at a time they would cost a round trip each. What was given back
    together mostly stands together in the store. Where it does not, most of a page would be read for nothing, so the
    next one is shorter.

    Args:
        broker: reads, and counts memory.
        destination: the queue, for the log.
        contents: what is in it.
        wake: called when there is something to dispatch again.
    """

    def __init__(
        self, broker: Host, destination: Destination, contents: QueueContents, wake: Callable[[], object]
    ) -> None:
        self._broker = broker
        self._destination = destination
        self._contents = contents
        self._wake = wake
        self._reading: asyncio.Future[Sequence[Message]] | None = None
        #: How many the next page is to have at most.
        self._ahead = broker.options.page_messages_max

    @property
    def is_under_way(self) -> bool:
        """Whether messages are being read."""
        return self._reading is not None

    def begin(self, delivery: Delivery) -> None:
        """Read a message again, with what waits behind it, and go on dispatching then; nothing if one is being read."""
        lane = delivery.lane
        if self._reading is not None or lane is None:
            return
        options, memory = self._broker.options, self._broker.memory
        count_max = min(self._ahead, len(self._contents.returned) or 1)
        bytes_max = min(options.page_bytes_max, options.window_bytes_max)
        if not lane.is_durable or not memory.has_room(bytes_max):  # what only the spool has is not known by number
            count_max = 1
        if count_max == 1:
            bytes_max = 0  # one message may always be read
        memory.reading += bytes_max
        cursor = lane.cursor_at(max(delivery.message_id.broker_sequence_id - 1, 0))
        self._reading = self._broker.read(_read_again, lane.store, delivery.message_id, cursor, count_max, bytes_max)
        self._reading.add_done_callback(lambda future: self._read(delivery, lane, bytes_max, future))

    def _read(
        self, delivery: Delivery, lane: DeliverySource, bytes_max: int, future: asyncio.Future[Sequence[Message]]
    ) -> None:
        self._reading = None
        self._broker.memory.reading -= bytes_max
        if future.cancelled():
            return
        error = future.exception()
        if delivery.is_late or delivery.is_out:  # somebody has removed it meanwhile
            self._wake()
        elif isinstance(error, CodecError):
            log.error(
                "unreadable message skipped, it stays in the store destination=%s message_id=%s error=%r",
                self._destination,
                delivery.message_id,
                str(error),
            )
            delivery.failed = True  # it stays in the store
            self._wake()
        elif error is not None:
            log.warning(
                "message could not be read, trying again destination=%s message_id=%s error=%r",
                self._destination,
                delivery.message_id,
                str(error),
            )
            self._broker.loop.call_later(_RETRY_S, self._wake)
        else:
            self._keep(delivery, lane, future.result())
            self._wake()

    def _keep(self, delivery: Delivery, lane: DeliverySource, messages: Sequence[Message]) -> None:
        if not messages:
            delivery.failed = True
            return
        self._contents.keep(delivery, messages[0])
        kept = 1
        for message in messages[1:]:
            other = self._contents.returned_of(lane, message)
            if other is not None and other.message is None:
                self._contents.keep(other, message)
                kept += 1
        self._ahead = min(4 * kept, self._broker.options.page_messages_max)


def _read_again(
    store: MessageStore, message_id: MessageId, cursor: Cursor, count_max: int, bytes_max: int
) -> Sequence[Message]:
    """A message and what stands behind it; nothing if it is gone. Called in a thread.

    Args:
        store: where it is.
        message_id: its id.
        cursor: the place before it.
        count_max: how many messages at most; for 1 no page is read.
        bytes_max: no more when they have so many bytes.

    Raises:
        CodecError: it cannot be read.
        StoreError: the store cannot, now.
    """
    if count_max > 1:
        messages = store.recover_next_messages(cursor, count_max, bytes_max).messages
        first = messages[0].message_id if messages else None
        if first is not None and first.broker_sequence_id == message_id.broker_sequence_id:
            return messages
    # A page does not show what cannot be read, or is in doubt.
    message = store.get_message(message_id)
    return [] if message is None else [message]
