"""Answers to requests: a temporary queue, and who waits for which of its messages."""

from __future__ import annotations

import asyncio
import logging

from jdbcstore.broker.subscription_request import AcknowledgeMode, SubscriptionRequest
from jdbcstore.client.mailbox import Mailbox
from jdbcstore.client.port import Port
from jdbcstore.client.received import Arrival
from jdbcstore.destination import Destination

__all__ = ["Replies"]

log = logging.getLogger(__name__)


class Replies(Mailbox):
    """The mailbox of the temporary queue that answers come to; nobody takes from it, each goes to who has asked.

    Args:
        port: whose.
    """

    def __init__(self, port: Port) -> None:
        super().__init__(port.next_key(), "a temporary queue")
        self._port = port
        self._expected: dict[str, asyncio.Future[Arrival]] = {}
        self._opening: asyncio.Task[Destination] | None = None

    async def destination(self) -> Destination:
        """The temporary queue, made at the first use."""
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            self._opening = asyncio.ensure_future(self._open())
        return await asyncio.shield(self._opening)

    async def _open(self) -> Destination:
        destination = await self._port.temporary(is_queue=True)
        wanted = SubscriptionRequest(
            key=self.key, destination=destination, mode=AcknowledgeMode.INDIVIDUAL, label=str(destination), tag=self
        )
        await self._port.subscribe(wanted, self)
        return destination

    def expect(self, correlation_id: str) -> asyncio.Future[Arrival]:
        """The answer that has this correlation id. Raises ValueError if one is expected already."""
        if correlation_id in self._expected:
            raise ValueError(f"an answer to {correlation_id} is expected already: use another correlation_id")
        expected = self._expected[correlation_id] = asyncio.get_running_loop().create_future()

        def done(future: asyncio.Future[Arrival]) -> None:
            self._expected.pop(correlation_id, None)
            if not future.cancelled():
                future.exception()  # who has asked may hear of the end from elsewhere

        expected.add_done_callback(done)
        return expected

    def put(self, arrival: Arrival) -> None:
        correlation_id = arrival.message.correlation_id
        expected = None if correlation_id is None else self._expected.pop(correlation_id, None)
        if expected is None or expected.done():
            log.info("nobody waits for an answer (any more) correlation_id=%r", correlation_id)
        else:
            expected.set_result(arrival)
        self._port.acknowledge_taken(arrival)

    def end(self, error: BaseException | None = None) -> None:
        for expected in list(self._expected.values()):
            if not expected.done():
                if error is None:
                    expected.cancel()
                else:
                    expected.set_exception(error)
        super().end(error)
