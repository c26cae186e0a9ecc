"""Values in order, in blocks: adding, removing and finding the next ones cost the same wherever they are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

__all__ = ["Ordered"]

_BLOCK_MAX: Final = 1024


T = TypeVar("T", int, tuple[int, int, int])


class Ordered(Generic[T]):
    """A sorted set."""

    __slots__ = ("_blocks", "_lasts", "_length")

    def __init__(self) -> None:
        self._blocks: list[list[T]] = []
        self._lasts: list[T] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        for block in list(self._blocks):
            yield from list(block)

    def __contains__(self, value: T) -> bool:
        place = bisect_left(self._lasts, value)
        if place == len(self._blocks):
            return False
        block = self._blocks[place]
        found = bisect_left(block, value)
        return found < len(block) and block[found] == value

    @property
    def first(self) -> T | None:
        """The least one."""
        return self._blocks[0][0] if self._blocks else None

    @property
    def last(self) -> T | None:
        """The greatest one."""
        return self._lasts[-1] if self._lasts else None

    def add(self, value: T) -> bool:
        """Take one in; whether it is new."""
        blocks, lasts = self._blocks, self._lasts
        if not lasts or lasts[-1] < value:  # nearly always
            if blocks and len(blocks[-1]) < _BLOCK_MAX:
                blocks[-1].append(value)
                lasts[-1] = value
            else:
                blocks.append([value])
                lasts.append(value)
            self._length += 1
            return True
        place = bisect_left(lasts, value)
        block = blocks[place]
        found = bisect_left(block, value)
        if block[found] == value:
            return False
        block.insert(found, value)
        if len(block) > 2 * _BLOCK_MAX:
            half = block[_BLOCK_MAX:]
            del block[_BLOCK_MAX:]
            blocks.insert(place + 1, half)
            lasts[place : place + 1] = [block[-1], half[-1]]
        self._length += 1
        return True

    def discard(self, value: T) -> bool:
        """Take one out; whether it was there."""
        blocks, lasts = self._blocks, self._lasts
        place = bisect_left(lasts, value)
        if place == len(blocks):
            return False
        block = blocks[place]
        found = bisect_left(block, value)
        if found == len(block) or block[found] != value:
            return False
        del block[found]
        if not block:
            del blocks[place], lasts[place]
        elif found == len(block):
            lasts[place] = block[-1]
        self._length -= 1
        return True

    def after(self, value: T, count: int) -> list[T]:
        """The next ones behind a value."""
        place = bisect_right(self._lasts, value)
        if place == len(self._blocks):
            return []
        block = self._blocks[place]
        start = bisect_right(block, value)
        found = block[start : start + count]
        while len(found) < count and place + 1 < len(self._blocks):
            place += 1
            found += self._blocks[place][: count - len(found)]
        return found

    def clear(self) -> None:
        """Take all out."""
        self._blocks, self._lasts, self._length = [], [], 0
