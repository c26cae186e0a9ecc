"""What a write returns: the promise that it is durable.

A `Completion` is a future cut down to what the hot path needs (a standard one costs five microseconds and a condition
variable each). It is resolved exactly once, by the store's writer, after the COMMIT and never before.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from jdbcstore.errors import JdbcStoreError

__all__ = ["Completion"]

log = logging.getLogger(__name__)

T = TypeVar("T")

# One lock for all completions: it is held for a few instructions, and a lock each would cost more than the waiting.
_transition: Final = threading.Lock()


class Completion(Generic[T]):
    """The outcome of one write: pending, then a result or an error, for ever."""

    __slots__ = ("_callbacks", "_error", "_event", "_result", "done")

    #: Whether the outcome is known.
    done: bool

    def __init__(self) -> None:
        self.done = False
        self._result: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Completion[T]], object]] | None = None
        self._event: threading.Event | None = None

    @classmethod
    def resolved(cls, result: T) -> Completion[T]:
        """A completion that is successful from the start."""
        completion = cls()
        completion.resolve(result)
        return completion

    def result(self, timeout_s: float | None = None) -> T:
        """Wait for the outcome.

        Args:
            timeout_s: seconds to wait at most; None waits for ever.

        Raises:
            TimeoutError: the outcome is not known yet.
            JdbcStoreError: the write failed; the text and type say how.
        """
        error = self.exception(timeout_s)
        if error is not None:
            raise error
        return self._result  # type: ignore[return-value]  # a resolved completion holds a T

    def exception(self, timeout_s: float | None = None) -> BaseException | None:
        """Wait for the outcome and return the error, None after a success. Raises TimeoutError like `result`."""
        if not self.done:
            with _transition:
                event = self._event = self._event or threading.Event()
                if self._is_done():  # finished while we came for the lock
                    event.set()
            if not event.wait(timeout_s):
                raise TimeoutError(f"the store did not answer within {timeout_s} s")
        return self._error

    def _is_done(self) -> bool:
        return self.done

    @property
    def error(self) -> BaseException | None:
        """The error of a finished write, without waiting."""
        return self._error

    def add_done_callback(self, callback: Callable[[Completion[T]], object]) -> None:
        """Call `callback` with this completion when the outcome is known, at once if it is.

        It runs in the thread that finished the write: it must be short. What it raises there is logged.
        """
        if not self.done:
            with _transition:
                if not self.done:
                    if self._callbacks is None:
                        self._callbacks = [callback]
                    else:
                        self._callbacks.append(callback)
                    return
        callback(self)

    def resolve(self, result: T) -> None:
        """The store's side: the write is durable."""
        self._finish(result, None)

    def fail(self, error: JdbcStoreError) -> None:
        """The store's side: the write is not durable, or nobody knows (`OutcomeUnknown`)."""
        self._finish(None, error)

    def _finish(self, result: T | None, error: JdbcStoreError | None) -> None:
        with _transition:
            if self.done:
                raise RuntimeError("a completion is resolved once")
            self._result, self._error = result, error
            self.done = True  # last: who sees it reads the outcome without the lock
            callbacks, self._callbacks = self._callbacks, None
            if self._event is not None:
                self._event.set()
        if callbacks:
            for callback in callbacks:
                try:
                    callback(self)
                except Exception:  # the writer's thread must go on, and the other callbacks hear of the outcome too
                    log.exception("defect in a callback of a write")
