"""From threads into an event loop that may end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

from jdbcstore.errors import ConnectionClosed

__all__ = ["ThreadBridge", "ended"]

#: How often a thread that waits looks whether there is still a loop that may answer.
_LOOK_S: Final = 1.0

T = TypeVar("T")


class ThreadBridge:
    """From threads into the event loop of a broker.

    Args:
        loop: runs in another thread, perhaps not for ever.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    @property
    def is_gone(self) -> bool:
        """Whether nobody answers any more."""
        return self._loop.is_closed()

    def call(self, coroutine: Coroutine[Any, Any, T], untaken: Callable[[T], object] | None = None) -> T:
        """Run a coroutine in the loop, and wait for it.

        Args:
            coroutine: what is to be done.
            untaken: called in the loop with a result that was there when this thread was interrupted.
        """
        future = self._begin(coroutine)
        try:
            return self._result_of(future)
        except CancelledError:
            raise ended(is_unknown=True) from None
        except BaseException:
            if not future.done():
                future.cancel()
            elif untaken is not None and not future.cancelled() and future.exception() is None:
                self.soon(untaken, future.result())
            raise

    def _result_of(self, future: Future[T]) -> T:
        while True:
            try:
                return future.result(_LOOK_S)
            except TimeoutError:
                if future.done():
                    return future.result()  # it may be its own timeout
                self._check(is_unknown=True)

    def _begin(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            self._check(is_unknown=False)
            if _running_loop() is self._loop:
                raise RuntimeError("this would wait for its own event loop: use jdbcstore.connect_async here")
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except BaseException:
            coroutine.close()
            raise

    def soon(self, function: Callable[..., object], *args: object) -> None:
        """Call a function in the loop, and do not wait for it."""
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            raise ended(is_unknown=False) from None

    def acquire(self, room: threading.Semaphore) -> None:
        """Wait until there is room."""
        while not room.acquire(timeout=_LOOK_S):
            self._check(is_unknown=False)

    def _check(self, *, is_unknown: bool) -> None:
        if self.is_gone:
            raise ended(is_unknown=is_unknown)


def ended(*, is_unknown: bool) -> ConnectionClosed:
    """The error when the loop has ended.

    Args:
        is_unknown: whether what was asked for may have taken effect.
    """
    then = "it may have taken effect or not" if is_unknown else "nothing was done"
    return ConnectionClosed(f"The connection has ended (the broker has stopped): {then}", is_unknown=is_unknown)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
