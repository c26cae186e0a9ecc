"""Who is heard when: clients that say much wait for each other, and all others are served in between.

In one turn of the loop what arrives is heard for a certain time, and what arrives after that waits. So does what one
client says beyond its slice. Those who wait are heard in rotation, for one slice in each turn. So however many clients
say however much, one that says little is heard in the turn in which its bytes arrive, or a few turns later.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Final

from jdbcstore.broker.rotation import SLICE_S, Rotation

__all__ = ["Arrivals"]

#: How long what arrives in one turn is heard at once.
_ARRIVALS_S: Final = 2 * SLICE_S


class Arrivals(Rotation):
    """The clients of one broker that have said more than was done.

    Args:
        loop: the event loop that they are heard in.
    """

    __slots__ = ("_until_s",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
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

    def _turn(self) -> None:
        self._until_s = 0.0
        Rotation._turn(self)  # without `super`: it is called in every turn
