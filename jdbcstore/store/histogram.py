"""Histograms: how many numbers are how large, as Prometheus wants them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

__all__ = ["Histogram"]


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

    def add_all(self, numbers: Sequence[float]) -> None:
        """Count several numbers."""
        counts, bounds = self.counts, self.bounds
        for number in numbers:
            counts[bisect_left(bounds, number)] += 1
        self.total += sum(numbers)

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
