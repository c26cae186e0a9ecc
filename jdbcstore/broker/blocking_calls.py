"""Calls of what blocks, from the event loop: a store is opened and closed, its lock is asked for.

Each call has a thread for itself while it lasts: a driver may hang in one that nothing can end, and must neither keep
others waiting nor the process from its end. A thread whose call has ended waits for the next one: a broker that has
begun can come to a clean end also where the system gives it no more threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from jdbcstore.errors import StoreClosed, TransientStoreError

__all__ = ["BlockingCalls", "GivenUp"]

T = TypeVar("T")
#: What a thread is to do: whom to tell, and what to call with which arguments; None is its end.
_Calls: TypeAlias = "SimpleQueue[tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]] | None]"


class GivenUp(StoreClosed):
    """Nobody waits any more for what was called."""


class BlockingCalls:
    """Makes calls for one broker. Constructed and used in its event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._given_up: asyncio.Future[None] = self._loop.create_future()
        #: By which to reach the threads that have nothing to do.
        self._idle: list[_Calls] = []
        self._is_over = False

    async def call(self, function: Callable[..., T], *args: object) -> T:
        """Call a function in a thread and wait for it.

        Raises:
            GivenUp: after `give_up`; the call goes on, nobody waits for it.
            TransientStoreError: the system gives this process no thread.
            Exception: whatever it raises.
        """
        calls = self._idle.pop() if self._idle else self._new_thread()
        answer: asyncio.Future[T] = self._loop.create_future()
        calls.put((answer, function, args))
        await asyncio.wait((answer, self._given_up), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        answer.add_done_callback(asyncio.Future.exception)  # nobody else looks at it
        raise GivenUp("the store did not answer within stop_timeout_s")

    def give_up(self) -> None:
        """Wait for no call any more, neither for those that are under way nor for later ones."""
        if not self._given_up.done():
            self._given_up.set_result(None)

    def end(self) -> None:
        """There will be no more calls: threads end, those with a call when it has ended."""
        self._is_over = True
        while self._idle:
            self._idle.pop().put(None)

    def _new_thread(self) -> _Calls:
        calls: _Calls = SimpleQueue()
        thread = threading.Thread(target=self._run, args=(calls,), name="jdbcstore-mastership", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise TransientStoreError(
                "the system gives this process no more threads: raise the limit (ulimit -u, pids of a container), or"
                " the memory that it may have"
            ) from error
        return calls

    def _run(self, calls: _Calls) -> None:
        while (call := calls.get()) is not None:
            answer, function, args = call
            how: Callable[[Any], None] = answer.set_result
            what: Any
            try:
                what = function(*args)
            except BaseException as error:  # noqa: BLE001  # raised again where the call was made
                how, what = answer.set_exception, error
            try:
                self._loop.call_soon_threadsafe(self._ended, calls, how, what)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return
            del call, answer, function, args, how, what  # nothing is kept alive by a thread that waits

    def _ended(self, calls: _Calls, how: Callable[[Any], None], what: object) -> None:
        how(what)
        if self._is_over:
            calls.put(None)
        else:
            self._idle.append(calls)
