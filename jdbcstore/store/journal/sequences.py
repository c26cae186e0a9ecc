"""A set of numbers, kept as ranges, because what a durable subscription has not acknowledged is mostly that."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

__all__ = ["SequenceSet"]


class SequenceSet:
    """A set of numbers that is small when they are neighbours."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def add(self, first: int, last: int) -> None:
        """Take in all numbers from the first to the last, both included."""
        firsts, lasts = self._firsts, self._lasts
        if lasts and firsts[-1] <= first <= lasts[-1] + 1:  # nearly always: the next message
            lasts[-1] = max(last, lasts[-1])
            return
        left = bisect_left(lasts, first - 1)
        right = bisect_right(firsts, last + 1)
        if left < right:
            first, last = min(first, firsts[left]), max(last, lasts[right - 1])
        firsts[left:right] = [first]
        lasts[left:right] = [last]

    def remove(self, number: int) -> bool:
        """Take one number out; whether it was there."""
        firsts, lasts = self._firsts, self._lasts
        place = bisect_right(firsts, number) - 1
        if place < 0 or number > lasts[place]:
            return False
        first, last = firsts[place], lasts[place]
        kept = [(a, b) for a, b in ((first, number - 1), (number + 1, last)) if a <= b]
        firsts[place : place + 1] = [a for a, _ in kept]
        lasts[place : place + 1] = [b for _, b in kept]
        return True

    def update(self, other: SequenceSet) -> None:
        """Take in all of another set."""
        for first, last in other.ranges():
            self.add(first, last)

    def ranges(self) -> list[tuple[int, int]]:
        """First and last of each range, in order."""
        return list(zip(self._firsts, self._lasts, strict=True))

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._firsts, number) - 1
        return place >= 0 and number <= self._lasts[place]

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges():
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def __repr__(self) -> str:
        return f"SequenceSet({self.ranges()})"
