"""Waiting for what nothing tells of: a row, a line in a log, a state. Where there is an event, wait for that."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["wait_until"]

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
