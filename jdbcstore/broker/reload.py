"""A message that memory had no room for is read again when it is to be delivered again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from jdbcstore.broker.delivery import Delivery
from jdbcstore.broker.host import Host
from jdbcstore.broker.queue_contents import QueueContents
from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError
from jdbcstore.message import Message

__all__ = ["Reload"]

log = logging.getLogger(__name__)

_RETRY_S: Final = 1.0


class Reload:
    """Reads one message at a time for one queue.

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
        self._reading: asyncio.Future[Message | None] | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a message is being read."""
        return self._reading is not None

    def begin(self, delivery: Delivery) -> None:
        """Read a message again, unless another one is being read, and go on dispatching then."""
        if self._reading is None and delivery.lane is not None:
            self._reading = self._broker.read(delivery.lane.store.get_message, delivery.message_id)
            self._reading.add_done_callback(lambda future: self._read(delivery, future))

    def _read(self, delivery: Delivery, future: asyncio.Future[Message | None]) -> None:
        self._reading = None
        if future.cancelled():
            return
        error = future.exception()
        if delivery.is_late:
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
            message = future.result()
            if message is None:
                delivery.failed = True
            else:
                self._contents.keep(delivery, message)
            self._wake()
