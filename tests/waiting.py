"""Waiting for what nothing tells of: a row, a line in a log, a state. Where there is an event, wait for that.

And for how long the machine stood still meanwhile, which who promises to do something in time cannot help.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

__all__ = ["Standstill", "wait_until"]

_PAUSE_S = 0.005
_PAUSE_MAX_S = 0.05


def wait_until(
    condition: Callable[[], object], what: str | Callable[[], str] = "the condition holds", *, timeout_s: float = 90.0
) -> None:
    """Return when a condition holds; look often at first, and less often the longer it takes.

    Args:
        condition: looked at until it is true; what it raises ends the waiting.
        what: is waited for, for whoever reads the failure; a function is asked when it is too late.
        timeout_s: how long, in seconds.

    Raises:
        AssertionError: it never holds.
    """
    deadline, pause_s = time.monotonic() + timeout_s, _PAUSE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:g} s in vain until {what() if callable(what) else what}")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _PAUSE_MAX_S)


class Standstill:
    """Notes when this process was given no processor although it wanted one. A context manager."""

    _LOOK_AGAIN_S: Final = 0.02
    #: Less than this is no standstill.
    _LEAST_S: Final = 0.1

    def __init__(self) -> None:
        self._gaps: list[tuple[float, float]] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._look, name="standstill")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()

    def between(self, began_s: float, ended_s: float) -> float:
        """For how long the machine stood still between two times of the monotonic clock, in seconds."""
        return sum(max(0.0, min(end, ended_s) - max(begin, began_s)) for begin, end in list(self._gaps))

    def _look(self) -> None:
        last_s = time.monotonic()
        while not self._ending.wait(self._LOOK_AGAIN_S):
            now_s = time.monotonic()
            if now_s - last_s > self._LEAST_S:
                self._gaps.append((last_s, now_s))
            last_s = now_s
