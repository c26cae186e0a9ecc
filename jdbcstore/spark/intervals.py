"""Sets of ids as intervals: both ends included, ascending, none touching the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

__all__ = ["Interval", "clipped", "joined", "without"]

Interval: TypeAlias = tuple[int, int]


def joined(intervals: Iterable[Interval]) -> list[Interval]:
    """Any intervals as a set: sorted, those that touch or overlap made one."""
    result: list[Interval] = []
    for first, last in sorted(intervals):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], last))
        else:
            result.append((first, last))
    return result


def clipped(intervals: Iterable[Interval], first: int, last: int) -> list[Interval]:
    """What of a set lies from `first` to `last`."""
    return [(max(low, first), min(high, last)) for low, high in intervals if low <= last and high >= first]


def without(intervals: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """What of a set is not in another."""
    return list(_without(intervals, others))


def _without(intervals: Sequence[Interval], others: Sequence[Interval]) -> Iterator[Interval]:
    place = 0
    for low, high in intervals:
        while place < len(others) and others[place][1] < low:
            place += 1
        at = place
        while at < len(others) and others[at][0] <= high:
            if low < others[at][0]:
                yield low, others[at][0] - 1
            low = others[at][1] + 1
            at += 1
        if low <= high:
            yield low, high
