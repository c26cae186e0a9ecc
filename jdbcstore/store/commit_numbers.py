"""How the thread that commits is doing: how many commits, how long they take, how much each of them carries.

Kept by that thread alone, and read by others without a lock: a reader may see a commit in one number and not yet in
the next.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

__all__ = ["CommitNumbers", "CountsCommits", "Histogram"]

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_WRITES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


class Histogram:
    """Numbers counted by size, as Prometheus wants them.

    Args:
        bounds: the largest number of each bucket, rising; above the last there is one bucket more.

    Attributes:
        counts: how many fell into each bucket, and the one above.
        total: their sum.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, number: float, times: int = 1) -> None:
        """Count a number."""
        self.counts[bisect_left(self.bounds, number)] += times
        self.total += number * times

    @property
    def count(self) -> int:
        """How many were counted."""
        return sum(self.counts)

    def quantile(self, part: float, before: Sequence[int] = ()) -> float | None:
        """The bound that this part of the numbers is not above; None if there are none.

        Args:
            part: 0 to 1.
            before: `counts` at an earlier time, to leave out what was counted until then.
        """
        counts = [now - then for now, then in zip(self.counts, before or [0] * len(self.counts), strict=True)]
        rank = part * sum(counts)
        seen = 0
        for count, bound in zip(counts, (*self.bounds, self.bounds[-1]), strict=True):
            seen += count
            if count and seen >= rank:
                return bound
        return None


class CommitNumbers:
    """The numbers of one store since it was opened.

    Attributes:
        seconds: how long each commit took, from its beginning until it was durable.
        writes: how many writes were in it.
        failures: batches that were not committed, or not in one piece.
    """

    __slots__ = ("failures", "seconds", "writes")

    def __init__(self) -> None:
        self.seconds = Histogram(_SECONDS)
        self.writes = Histogram(_WRITES)
        self.failures = 0


@runtime_checkable
class CountsCommits(Protocol):
    """A store with a thread that commits."""

    @property
    def commit_numbers(self) -> CommitNumbers | None:
        """How it is doing; None while the store is closed."""

    @property
    def writes_waiting(self) -> int:
        """Writes that no commit has taken up yet."""
