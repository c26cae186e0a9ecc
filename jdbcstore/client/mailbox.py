"""What was delivered to one subscription and is not taken yet."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from jdbcstore.broker.delivery import Consumer
from jdbcstore.client.received import Arrival

__all__ = ["Mailbox"]

#: A subscription that has so many bytes waiting gets no more before half of them are taken.
_WAITING_BYTES: Final = 1 << 20


class Mailbox:
    """The messages of one subscription. Everything happens in the broker's event loop.

    They come as long as the subscription has credit, and there are no more bytes than a limit: one subscription that
    nobody reads does not keep others waiting, and does not fill the memory.

    Args:
        key: names the subscription among those of its client.
        place: where its messages come from, for people.
    """

    def __init__(self, key: str, place: str) -> None:
        self.key = key
        self._place: Final = place
        self.is_ended = False
        self._ready: deque[Arrival] = deque()
        self._bytes = 0
        self._withheld: Consumer | None = None
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._error: BaseException | None = None
        self._trouble: BaseException | None = None

    def put(self, arrival: Arrival) -> None:
        """A message has arrived."""
        self._ready.append(arrival)
        self._bytes += arrival.delivery.size
        if self._bytes > _WAITING_BYTES and self._withheld is None:
            self._withheld = arrival.consumer
            arrival.consumer.withhold()
        self._wake()

    def put_back(self, arrival: Arrival) -> None:
        """A message was taken, and could not be given to the application: it is the next one again."""
        if not self.is_ended:
            self._ready.appendleft(arrival)
            self._bytes += arrival.delivery.size
            self._wake()

    async def take(self, timeout_s: float | None = None) -> Arrival | None:
        """The next message; waits for one. None if the subscription has come to its end.

        Cancelling this loses nothing.

        Args:
            timeout_s: how long to wait, in seconds; None for ever.

        Raises:
            TimeoutError: none came.
            JdbcStoreError: the connection has failed, or an acknowledgement (once; the subscription goes on).
        """
        if not self._ready or self._trouble is not None:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._something()
            except TimeoutError:
                raise TimeoutError(f"no message came from {self._place} within {timeout_s:g} s") from None
        return self._pop() if self._ready else None

    async def _something(self) -> None:
        """Wait for a message or the end."""
        while True:
            if (trouble := self._trouble) is not None:
                self._trouble = None
                raise trouble
            if self._ready:
                return
            if self._error is not None:
                raise self._error
            if self.is_ended:
                return
            await self._woken()

    async def _woken(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._wake()  # somebody else's turn
            raise

    def _pop(self) -> Arrival:
        arrival = self._ready.popleft()
        self._bytes -= arrival.delivery.size
        if self._withheld is not None and self._bytes <= _WAITING_BYTES // 2:
            withheld, self._withheld = self._withheld, None
            withheld.grant()
        return arrival

    def trouble(self, error: BaseException) -> None:
        """Have this raised to who asks next, once."""
        self._trouble = error
        self._wake()

    def finish(self) -> None:
        """There are no more messages than those that wait here."""
        self.is_ended = True
        self._wake_all()

    def end(self, error: BaseException | None = None) -> None:
        """The subscription has ended: what waits here has gone back.

        Args:
            error: raised to whoever asks for messages; None if it was the application that ended it.
        """
        if self.is_ended:
            return
        self._error = error
        self._ready.clear()
        self._bytes = 0
        self.finish()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _wake_all(self) -> None:
        while self._waiters:
            self._wake()
