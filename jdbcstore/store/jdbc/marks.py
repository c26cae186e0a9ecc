"""What a durable subscription has acknowledged: a mark, and ranges above it.

ActiveMQ keeps one number for a subscription, column LAST_ACKED_ID: everything up to it is acknowledged. That is right
for acknowledgements in order and loses messages for all others. Here the number, the *mark*, tells no more than what is
true, and what is acknowledged above it is kept as ranges of ids.

**Theory.** Ids grow, and messages of one destination become visible in their order. So once a message with id `x` is
visible, no message of this destination with a lower id will ever appear (one that was prepared gets a new id when it is
committed). If `p` is the message before `x`, then none is between them, and to acknowledge `x` is to acknowledge the
whole interval ``p + 1 … x``. What is acknowledged is the union of such intervals, and intervals that touch are one.

From that follows all the rest. The interval from the beginning on is the mark. It moves when the message right behind
it is acknowledged, and then takes in every range that it reaches. It never goes back. Two neighbouring messages that
are acknowledged in any order become one range, so there are no more ranges than messages that were left out between
them: a client that holds on to one message and acknowledges a million others has a mark and one range.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

__all__ = ["NOTHING", "Acknowledged", "Draft", "Range"]

#: The mark of a retroactive subscription that has not acknowledged anything; ActiveMQ's, too.
NOTHING: Final = -1


class Range(NamedTuple):
    """Ids from the first to the last, both included."""

    first: int
    last: int


class Acknowledged:
    """A mark and ranges above it, as they are committed. Never changed, so that any thread may read it.

    Args:
        mark: everything up to this id.
        ranges: in order, apart from one another and from the mark.
    """

    __slots__ = ("firsts", "lasts", "mark")

    def __init__(self, mark: int, ranges: Sequence[Range] = ()) -> None:
        self.mark = mark
        self.firsts = [one.first for one in ranges]
        self.lasts = [one.last for one in ranges]

    @property
    def ranges(self) -> list[Range]:
        """What is acknowledged above the mark, in order."""
        return [Range(first, last) for first, last in zip(self.firsts, self.lasts, strict=True)]

    def __contains__(self, id: int) -> bool:
        if id <= self.mark:
            return True
        place = bisect_right(self.firsts, id)
        return place > 0 and id <= self.lasts[place - 1]

    def end_below(self, id: int) -> int:
        """The last acknowledged id below one that is not acknowledged."""
        place = bisect_left(self.firsts, id)
        return self.lasts[place - 1] if place else self.mark

    def skipped(self, id: int) -> int:
        """Where to go on reading behind this id: the end of the range that follows right upon it, else `id`."""
        if id < self.mark:
            return self.mark
        place = bisect_right(self.firsts, id + 1)
        return max(id, self.lasts[place - 1]) if place else id

    def gaps(self, last: int) -> Iterator[Range]:
        """What is not acknowledged up to `last`."""
        before = self.mark
        for first, end in zip(self.firsts, self.lasts, strict=True):
            yield Range(before + 1, min(first - 1, last))
            before = end
        yield Range(before + 1, last)


class Draft(Acknowledged):
    """What will be acknowledged when a batch is committed.

    Args:
        committed: what is.
    """

    __slots__ = ("added", "touched")

    def __init__(self, committed: Acknowledged) -> None:
        self.mark = committed.mark
        self.firsts = list(committed.firsts)
        self.lasts = list(committed.lasts)
        #: Where the ranges begin, or began, that are not as they were.
        self.touched: set[int] = set()
        #: Messages that are acknowledged now and were not.
        self.added = 0

    def add(self, first: int, last: int) -> None:
        """Acknowledge an interval. One that reaches the mark moves it, over every range that it meets."""
        if first <= max(self.mark, 0) + 1:  # no message has the id 0
            self._move(last)
            return
        left = bisect_left(self.lasts, first - 1)
        right = bisect_right(self.firsts, last + 1)
        if left < right:
            first, last = min(first, self.firsts[left]), max(last, self.lasts[right - 1])
        self.touched.update(self.firsts[left:right])
        self.touched.add(first)
        self.firsts[left:right] = [first]
        self.lasts[left:right] = [last]
        # That says nothing new. But the next subscription of this name may be retroactive and begin at -1, and what
        # this one has acknowledged must be told from that.
        self.mark = max(self.mark, 0)

    def _move(self, mark: int) -> None:
        self.mark = max(self.mark, mark)
        met = bisect_right(self.firsts, self.mark + 1)
        if met:
            self.mark = max(self.mark, self.lasts[met - 1])
            self.touched.update(self.firsts[:met])
            del self.firsts[:met], self.lasts[:met]

    def committed(self) -> Acknowledged:
        """This, when it is."""
        return Acknowledged(self.mark, self.ranges)
