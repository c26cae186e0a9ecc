"""Calls of what blocks, from the event loop: a store is opened and closed, its lock is asked for.

Each call has a thread of its own: a driver may hang in one that nothing can end, and must neither keep others waiting
nor the process from its end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from jdbcstore.errors import StoreClosed

__all__ = ["BlockingCalls", "GivenUp"]

T = TypeVar("T")


class GivenUp(StoreClosed):
    """Nobody waits any more for what was called."""


class BlockingCalls:
    """Makes calls for one broker. Constructed and used in its event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._given_up: asyncio.Future[None] = self._loop.create_future()

    async def call(self, function: Callable[..., T], *args: object) -> T:
        """Call a function in a thread and wait for it.

        Raises:
            GivenUp: after `give_up`; the call goes on, nobody waits for it.
            Exception: whatever it raises.
        """
        answer: asyncio.Future[T] = self._loop.create_future()
        work = threading.Thread(
            target=self._run, args=(answer, function, args), name="jdbcstore-mastership", daemon=True
        )
        work.start()
        await asyncio.wait((answer, self._given_up), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        answer.add_done_callback(asyncio.Future.exception)  # nobody else looks at it
        raise GivenUp("the store did not answer within stop_timeout_s")

    def give_up(self) -> None:
        """Wait for no call any more, neither for those that are under way nor for later ones."""
        if not self._given_up.done():
            self._given_up.set_result(None)

    def _run(self, answer: asyncio.Future[T], function: Callable[..., T], args: tuple[Any, ...]) -> None:
        try:
            result = function(*args)
        except BaseException as error:  # noqa: BLE001  # raised again where the call was made
            self._tell(answer.set_exception, error)
        else:
            self._tell(answer.set_result, result)

    def _tell(self, how: Callable[[Any], None], what: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(how, what)
