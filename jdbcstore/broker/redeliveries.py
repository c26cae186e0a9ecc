"""How often a message was delivered before: counted in memory, and kept in the store so that the next master knows it.

There is one number, `Delivery.redeliveries`. It begins with what the message says that came from the store; whatever
is written to the store is this number, not a difference. So nothing is ever added twice.

Usually it is written when a consumer gives a message back, which costs nothing as long as all goes well; after
``kill -9`` the count is what was written before. It is written without anybody waiting for it, and only so much of it
as is cheap: a client that goes has perhaps a thousand messages of which its application has seen the first, and
each write is the whole message again. The first ones are written, those that it was sent first; of the others the count
is in memory only.

With ``persist_jms_redelivered`` it is written before each delivery, as ActiveMQ does it, and the delivery waits for
that. Then a message that comes again has ``redelivered:true`` also after ``kill -9``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from jdbcstore.broker.delivery import Delivery
from jdbcstore.broker.host import Host
from jdbcstore.errors import JdbcStoreError

__all__ = ["Redeliveries"]

log = logging.getLogger(__name__)

#: Counts that the store has not answered yet, over all queues: beyond that no more are written, so that a broker which
#: stops with thousands of clients is not kept from handing over.
_PENDING_MAX: Final = 10_000
_PENDING_BYTES_MAX: Final = 16 << 20


class Redeliveries:
    """Writes counts down.

    Args:
        broker: gives options and completions.
    """

    def __init__(self, broker: Host) -> None:
        self._broker = broker
        self._pending = self._pending_bytes = 0

    def given_back(self, deliveries: Iterable[Delivery]) -> None:
        """A consumer has given back messages of one queue, their counts are raised: keep the first of them."""
        options = self._broker.options
        if options.persist_jms_redelivered:
            return  # that was done before they were delivered
        room = options.redelivery_writes_max
        for delivery in deliveries:
            if not room or self._pending >= _PENDING_MAX or self._pending_bytes >= _PENDING_BYTES_MAX:
                return
            if delivery.is_rewritable:
                self._write(delivery, delivery.redeliveries)
                room -= 1

    def mark(self, delivery: Delivery) -> None:
        """A message is going to be delivered: let the store know first. `Delivery.is_marked` tells when it does."""
        if not delivery.is_rewritable:
            delivery.is_marked = True
        elif not delivery.is_being_marked:
            delivery.is_being_marked = True
            self._write(delivery, delivery.redeliveries + 1)

    def _write(self, delivery: Delivery, count: int) -> None:
        message, lane = delivery.message, delivery.lane
        if message is None or lane is None:
            raise ValueError(f"{delivery!r} cannot be rewritten")
        message.redelivery_counter = count
        try:
            completion = lane.store.update_message(message)
        except JdbcStoreError as error:
            self._done(delivery, error)
            return
        self._pending += 1
        self._pending_bytes += delivery.size
        self._broker.completions.expect(completion, self._written, delivery)

    def _written(self, delivery: Delivery, error: BaseException | None) -> None:
        self._pending -= 1
        self._pending_bytes -= delivery.size
        self._done(delivery, error)

    def _done(self, delivery: Delivery, error: BaseException | None) -> None:
        if error is not None:  # the message is none the worse for it
            log.info("redelivery count is not stored message_id=%s error=%r", delivery.message_id, str(error))
        if delivery.is_being_marked:
            delivery.is_being_marked, delivery.is_marked = False, True
            if delivery.lane is not None:
                delivery.lane.queue.wake()
