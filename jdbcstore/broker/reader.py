"""Reading the store: that blocks, so it is done in a few threads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from jdbcstore.broker.ready_threads import ReadyThreads
from jdbcstore.errors import StoreClosed, StoreUnavailable, TransientStoreError

__all__ = ["Reader", "failure_of"]

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Threads that read. More would only queue up at the store.
_THREADS: Final = 4
_PAUSE_FIRST_S: Final = 0.1
_PAUSE_MOST_S: Final = 10.0


class Reader:
    """The threads of one broker.

    Args:
        loop: where the answers arrive.
        is_serving: whether there is still a store to ask, and a client to be told.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, is_serving: Callable[[], bool]) -> None:
        self._loop = loop
        self._is_serving = is_serving
        self._threads: ReadyThreads | None = None

    def start(self) -> None:
        """Begin. Raises RuntimeError if the system does not give enough threads."""
        self._threads = ReadyThreads(_THREADS, "jdbcstore-reader")

    def shutdown(self) -> None:
        """Wait until nothing is read any more."""
        if self._threads is not None:
            self._threads.shutdown()

    def read(self, function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Call a function that blocks."""
        reading = self._loop.run_in_executor(self._threads, function, *args)
        reading.add_done_callback(_seen)
        return reading

    def read_patiently(self, function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """As `read`, for a client that waits. A broken line and the like are waited through, as for a write: until the
        store itself has lost its patience (`StoreUnavailable`), or clients are dropped."""
        answer: asyncio.Future[T] = self._loop.create_future()
        answer.add_done_callback(_seen)
        self._ask(answer, _PAUSE_FIRST_S, function, args)
        return answer

    def _ask(
        self, answer: asyncio.Future[T], pause_s: float, function: Callable[..., T], args: tuple[Any, ...]
    ) -> None:
        if not self._is_serving():
            answer.set_exception(StoreClosed("the store was closed before it was read"))
            return

        def told(reading: asyncio.Future[T]) -> None:
            if answer.done() or reading.cancelled():
                answer.cancel()
                return
            error = reading.exception()
            if error is None:
                answer.set_result(reading.result())
            elif isinstance(error, TransientStoreError) and not isinstance(error, StoreUnavailable):
                log.warning("reading from the store failed, trying again retry_s=%s error=%r", pause_s, str(error))
                self._loop.call_later(pause_s, self._ask, answer, min(2 * pause_s, _PAUSE_MOST_S), function, args)
            else:
                answer.set_exception(error)

        self.read(function, *args).add_done_callback(told)


def failure_of(reading: asyncio.Future[Any]) -> BaseException | None:
    """Why a reading that is over has no result; None if it has one."""
    return StoreClosed("the broker serves nobody now") if reading.cancelled() else reading.exception()


def _seen(reading: asyncio.Future[Any]) -> None:
    """Who has no use for an answer any more does not look at it: a queue is emptied or a client is gone while a page is
    read. That is no error which nobody has handled, as asyncio would tell the log."""
    if not reading.cancelled():
        reading.exception()
