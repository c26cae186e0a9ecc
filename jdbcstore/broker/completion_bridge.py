"""The bridge from the store's writer thread to the event loop.

Completions are resolved in the writer thread, one after the other, hundreds per commit. Waking the loop for each
would cost more than the commit. So they are put into a deque, and the loop is woken only if nobody has woken it since
it last looked: one wake-up per burst.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, TypeAlias

from jdbcstore.broker.rotation import SLICE_S
from jdbcstore.store.completion import Completion

__all__ = ["CompletionBridge", "resolve"]

log = logging.getLogger(__name__)

#: Told about one finished write, in the event loop: what the caller left with `CompletionBridge.expect`, and the error
#: or None. If a client waits for it, its answer is given in a ``finally``: whatever goes wrong besides, the client is
#: told how the write went.
Handler: TypeAlias = Callable[[Any, BaseException | None], None]


def resolve(answered: asyncio.Future[None], error: BaseException | None) -> None:
    """Tell whoever awaits an outcome, unless he has given up; a `Handler`."""
    if answered.done():
        return
    if error is None:
        answered.set_result(None)
    else:
        answered.set_exception(error)


class CompletionBridge:
    """Carries finished completions into the event loop, where each meets the handler that waits for it.

    Args:
        loop: the event loop that all handlers run in.
        before_burst: called before the handlers of a burst.
        after_burst: called once after them; what they produced leaves the process then.
        failed: told the error of a write that failed, before its handler is.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        before_burst: Callable[[], None],
        after_burst: Callable[[], None],
        failed: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        self._loop = loop
        self._before_burst, self._after_burst = before_burst, after_burst
        self._failed = failed
        self._finished: deque[Completion[Any]] = deque()
        self._waiting: dict[Completion[Any], tuple[Handler, Any]] = {}
        self._woken = False
        self._put = self.put  # one bound method for all completions

    def expect(self, completion: Completion[Any], handler: Handler, subject: object) -> None:
        """Call ``handler(subject, error)`` in the event loop when the completion is done. Call this in the event loop.

        The handler never runs before this returns.
        """
        self._waiting[completion] = (handler, subject)
        completion.add_done_callback(self._put)

    def put(self, completion: Completion[Any]) -> None:
        """Take a finished completion, from any thread."""
        self._finished.append(completion)
        # Set after the append and cleared before the loop takes anything out: a wake-up may be one too many, never
        # one too few.
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:  # the loop is closed: the broker stopped, nobody is left to be told
                log.debug("a completion arrived after the event loop was closed")

    @property
    def expected(self) -> int:
        """How many writes the store has not answered yet."""
        return len(self._waiting)

    def _drain(self) -> None:
        self._woken = False
        finished, waiting = self._finished, self._waiting
        deadline_s = perf_counter() + SLICE_S
        self._before_burst()
        try:
            while finished:
                completion = finished.popleft()
                handler, subject = waiting.pop(completion)
                error = completion.error
                try:
                    try:
                        if error is not None:
                            self._failed(error)
                    finally:
                        handler(subject, error)
                except Exception:  # a defect must not cost the others their answers
                    log.exception("handler of a finished write failed")
                if perf_counter() > deadline_s:
                    if finished and not self._woken:
                        self._woken = True
                        self._loop.call_soon(self._drain)
                    break
        finally:
            self._after_burst()
