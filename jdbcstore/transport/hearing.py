"""Who is heard when: clients that say much wait for each other, and all others are served in between.

In one turn of the loop what arrives is heard for a certain time, and what arrives after that waits. So does what one
client says beyond its slice. Those who wait are heard in rotation, for one slice in each turn. So however many clients
say however much, one that says little is heard in the turn in which its bytes arrive, or a few turns later.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final

from jdbcstore.broker.slices import SLICE_S

__all__ = ["Hearing"]

log = logging.getLogger(__name__)

#: How long what arrives in one turn is heard at once.
_ARRIVALS_S: Final = 2 * SLICE_S


class Hearing:
    """The clients of one broker that have said more than was done.

    Args:
        loop: the event loop that they are heard in.
    """

    __slots__ = ("_is_scheduled", "_loop", "_until_s", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_scheduled = False
        #: Until when arrivals are heard at once, by `perf_counter`; 0 before the first one of a turn.
        self._until_s = 0.0

    @property
    def has_time(self) -> bool:
        """Whether what arrives now is to be heard now; otherwise stop reading, and hear it `later`."""
        if self._until_s == 0:
            self._until_s = perf_counter() + _ARRIVALS_S
            self._schedule()
            return True
        return perf_counter() < self._until_s

    def later(self, hear: Callable[[], object]) -> None:
        """Hear somebody in one of the next turns, behind those who wait already.

        Args:
            hear: hears for one slice, and asks for more time by another call of this.
        """
        self._waiting.append(hear)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        self._until_s = 0.0
        deadline_s = perf_counter() + SLICE_S
        for _ in range(len(self._waiting)):
            hear = self._waiting.popleft()
            try:
                hear()
            except Exception:
                log.exception("defect in hearing a client")  # the other clients are heard
            if perf_counter() > deadline_s:
                break
        if self._waiting:
            self._schedule()
