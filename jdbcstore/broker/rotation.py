"""Calls that wait for each other: in one turn of the event loop there is one slice of them, in rotation."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final

__all__ = ["SLICE_S", "Rotation"]

log = logging.getLogger(__name__)

#: How long one slice takes, and whatever else of one client is done in one turn of the loop.
SLICE_S: Final = 0.005


class Rotation:
    """Calls that are made in later turns of the loop, in order: in each turn as many as begin within one slice.

    Args:
        loop: the event loop that they are made in.
    """

    __slots__ = ("_is_scheduled", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_scheduled = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def later(self, call: Callable[[], object]) -> None:
        """Make a call in one of the next turns, behind those that wait already.

        Args:
            call: works for one slice at most, and asks for more time by another call of this. What it raises is a
                defect, which is logged.
        """
        self._waiting.append(call)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        waiting = self._waiting
        if not waiting:
            return
        deadline_s = perf_counter() + SLICE_S
        for _ in range(len(waiting)):
            call = waiting.popleft()
            try:
                call()
            except Exception:
                log.exception("defect in %r", call)  # the others go on
            if perf_counter() > deadline_s:
                break
        if waiting:
            self._schedule()
