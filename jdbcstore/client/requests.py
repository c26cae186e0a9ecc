"""The requests of one client: futures, made in the order in which they are asked for.

While the broker holds the client they wait here; what cannot begin yet (it returned False) is made again, before those
behind it. Acknowledgements of one turn of the loop are one write: they are collected, and settled before the next other
request, or at the end of the turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeAlias

from jdbcstore.broker.client import Client
from jdbcstore.broker.delivery import Consumer, Delivery
from jdbcstore.broker.rotation import SLICE_S
from jdbcstore.broker.subscription_request import AcknowledgeMode

__all__ = ["Requests", "Run"]

#: Acknowledgements that are one write; less than the broker would settle by itself.
_SETTLED_AT_ONCE: Final = 500

#: Makes a request of the broker, which completes the future; returns False if it has to be made again.
Run: TypeAlias = Callable[[asyncio.Future[Any]], "bool | None"]


class _Request(NamedTuple):
    run: Run
    future: asyncio.Future[Any]
    size: int
    is_acknowledgement: bool


class Requests:
    """What one client has asked for. Everything happens in the broker's event loop.

    Args:
        client: the broker's face.
        loop: the broker's event loop.
    """

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop
        self._waiting: deque[_Request] = deque()
        self._waiting_bytes = 0
        #: What was begun and is not answered, with what its future is to give.
        self._asked: dict[asyncio.Future[Any], object] = {}
        #: Acknowledgements that are collected.
        self._settling: list[asyncio.Future[Any]] = []
        self._is_settling_soon = self._is_next = False

    def ask(self, run: Run, size: int = 0, *, is_acknowledgement: bool = False) -> asyncio.Future[Any]:
        """Make a request, in its turn.

        Args:
            run: makes it; raises what refuses it.
            size: bytes that it keeps while it waits.
            is_acknowledgement: whether it is collected.

        Returns:
            Done when the request has taken effect. Who cancels it does not take back what has begun.
        """
        request = _Request(run, self._loop.create_future(), size, is_acknowledgement)
        if self._waiting or self._client.is_held or not self._make(request):
            self._waiting.append(request)
            self._count_waiting(size)
            if not self._client.is_held:
                self.resume()
        return request.future

    def begun(self, future: asyncio.Future[Any], result: object = None) -> None:
        """A request was made; if it takes effect its future gives this."""
        self._asked[future] = result

    def answer(self, future: asyncio.Future[Any], error: BaseException | None = None) -> None:
        """A request has taken effect, or has failed."""
        result = self._asked.pop(future, None)
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def resume(self) -> None:
        """Go on in another turn of the loop."""
        if not self._is_next:
            self._is_next = True
            self._loop.call_soon(self._go_on)

    def end(self, refused: BaseException, unknown: BaseException) -> None:
        """The client is gone: answer all who wait.

        Args:
            refused: told to those whose requests were not begun.
            unknown: told to the others.
        """
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            self.answer(request.future, refused)
        for future in list(self._asked):
            self.answer(future, unknown)

    def _make(self, request: _Request) -> bool:
        """Returns whether that is done; if not, it is to be made again when the broker lets us go on."""
        client, future = self._client, request.future
        if client.consumers.acknowledged and not request.is_acknowledgement:
            self._settle()
            if client.is_held:
                return False
        if future.cancelled():
            return True
        self.begun(future)
        try:
            if request.run(future) is False:
                self._asked.pop(future, None)
                return False
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told to who has asked
            told, is_fatal = client.error_of(error, "a request")
            self.answer(future, told)
            if is_fatal:
                client.callbacks.dismiss(str(told))
        return True

    def _count_waiting(self, size: int) -> None:
        self._waiting_bytes += size
        self._client.account.backlog_is(self._waiting_bytes)

    def _go_on(self) -> None:
        """Make the requests that wait, for a slice of time."""
        self._is_next = False
        client, deadline_s = self._client, perf_counter() + SLICE_S
        while self._waiting and not client.is_held and not client.is_over:
            request = self._waiting.popleft()
            if not self._make(request):
                self._waiting.appendleft(request)
                break
            self._count_waiting(-request.size)
            if perf_counter() > deadline_s:
                break
        if client.is_over or client.is_held:
            return
        if client.consumers.acknowledged:
            self._settle()
        if self._waiting and not client.is_held:
            self.resume()

    # -- acknowledgements ------------------------------------------------------------------------------------------

    def acknowledge(self, consumer: Consumer, delivery: Delivery, future: asyncio.Future[Any]) -> None:
        """Acknowledge a pending delivery outside of transactions; a request that is an acknowledgement does this."""
        client = self._client
        self._settling.append(future)
        if consumer.mode is AcknowledgeMode.CUMULATIVE:  # perhaps more than are collected: it is settled at once
            settling, self._settling = self._settling, []
            client.consumers.acknowledge(consumer, delivery, settling)
            return
        client.consumers.acknowledge(consumer, delivery, None)
        if len(self._settling) >= _SETTLED_AT_ONCE:
            self._settle()
        elif not self._is_settling_soon:
            self._is_settling_soon = True
            self._loop.call_soon(self._settle_soon)

    def _settle_soon(self) -> None:
        self._is_settling_soon = False
        client = self._client
        if client.consumers.acknowledged and not client.is_held and not client.is_over:
            self._settle()

    def _settle(self) -> None:
        settling, self._settling = self._settling, []
        try:
            self._client.consumers.settle(settling)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told to who has asked
            told, _ = self._client.error_of(error, "acknowledgements")
            for future in settling:
                self.answer(future, told)
