"""What a subscriber of a topic loses that does not keep up, if its policy lets it lose something.

Ten thousand messages may wait for each of many subscribers, and then each message that comes makes one go, of each. So
what goes is not searched for among all that waits: each strategy knows it by an index.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Final

from jdbcstore.broker.delivery import Delivery
from jdbcstore.errors import CodecError
from jdbcstore.message import Message

__all__ = ["EvictionQueue"]


class _Entry:
    """A delivery that waits.

    Args:
        number: its place; later ones have higher numbers.
        delivery: which.
        key: what the strategy chooses by.
    """

    __slots__ = ("delivery", "is_there", "key", "number")

    def __init__(self, number: int, delivery: Delivery, key: object) -> None:
        self.number = number
        self.delivery = delivery
        self.key = key
        self.is_there = True


_number = attrgetter("number")


def _take_out(entries: deque[_Entry], entry: _Entry) -> None:
    """Take an entry out of those that are in order; as a rule it is the first."""
    if entries[0] is entry:
        entries.popleft()
    else:
        del entries[bisect_left(entries, entry.number, key=_number)]


class _Strategy(ABC):
    """Knows which entries go."""

    def key_of(self, message: Message) -> object:
        """What it chooses by."""
        return None

    def add(self, entry: _Entry) -> None:  # noqa: B027  # the oldest is known without it
        """It waits behind all others."""

    def remove(self, entry: _Entry) -> None:  # noqa: B027
        """It waits no more."""

    @abstractmethod
    def choose(self, first: _Entry) -> Sequence[_Entry]:
        """Those that go, one at least.

        Args:
            first: it and those behind it may go.
        """


class _Oldest(_Strategy):
    """The oldest goes."""

    def choose(self, first: _Entry) -> Sequence[_Entry]:
        return [first]


class _OldestLowestPriority(_Strategy):
    """The oldest of the lowest priority goes."""

    def __init__(self) -> None:
        self._levels: dict[int, deque[_Entry]] = {}

    def key_of(self, message: Message) -> int:
        return message.priority

    def add(self, entry: _Entry) -> None:
        assert isinstance(entry.key, int)
        self._levels.setdefault(entry.key, deque()).append(entry)

    def remove(self, entry: _Entry) -> None:
        assert isinstance(entry.key, int)
        level = self._levels[entry.key]
        _take_out(level, entry)
        if not level:
            del self._levels[entry.key]

    def choose(self, first: _Entry) -> Sequence[_Entry]:
        for _, level in sorted(self._levels.items()):
            place = bisect_left(level, first.number, key=_number)
            if place < len(level):
                return [level[place]]
        return [first]


class _UniqueProperty(_Strategy):
    """All but the last ones with each value of a property go; the oldest if each has a value of its own, or none has
    one.

    Args:
        name: of the property.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        #: Those that have a value, all together and by it, and those that are not the last ones with their value. Each
        #: in its order, by number.
        self._valued: dict[int, _Entry] = {}
        self._same: dict[object, dict[int, _Entry]] = {}
        self._others: dict[int, _Entry] = {}

    def key_of(self, message: Message) -> object:
        try:
            value = message.properties.get(self._name)
        except CodecError:  # what cannot be read has none
            return None
        if value is None:
            return None
        return type(value), repr(value) if isinstance(value, Mapping | list | tuple) else value

    def add(self, entry: _Entry) -> None:
        if entry.key is None:
            self._others[entry.number] = entry
            return
        same = self._same.setdefault(entry.key, {})
        if same:
            before = _last(same)
            self._others[before.number] = before
        same[entry.number] = self._valued[entry.number] = entry

    def remove(self, entry: _Entry) -> None:
        self._others.pop(entry.number, None)
        if entry.key is None:
            return
        same = self._same[entry.key]
        del same[entry.number], self._valued[entry.number]
        if same:
            self._others.pop(_last(same).number, None)
        else:
            del self._same[entry.key]

    def choose(self, first: _Entry) -> Sequence[_Entry]:
        if not self._valued or _last(self._valued).number < first.number:
            return [first]
        gone = [entry for entry in self._others.values() if entry.number >= first.number]
        return sorted(gone, key=_number) or [first]


def _last(entries: dict[int, _Entry]) -> _Entry:
    return next(reversed(entries.values()))


def _strategy(name: str, property_name: str) -> _Strategy:
    match name:
        case "oldest_lowest_priority":
            return _OldestLowestPriority()
        case "unique_property":
            return _UniqueProperty(property_name)
        case _:
            return _Oldest()


class EvictionQueue:
    """Deliveries that wait for a subscriber, in order, of which some may have to go.

    Args:
        strategy: one of `jdbcstore.broker.destination_policy.EVICTIONS`.
        property_name: of ``unique_property``.
    """

    __slots__ = ("_count", "_entries", "_expiring", "_strategy")

    def __init__(self, strategy: str, property_name: str = "") -> None:
        self._strategy: Final = _strategy(strategy, property_name)
        self._entries: deque[_Entry] = deque()
        #: When those expire that do; also of some that wait no more.
        self._expiring: list[tuple[int, int, _Entry]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, delivery: Delivery) -> None:
        """A delivery waits behind all others."""
        message = delivery.message
        if message is None:
            raise ValueError(f"{delivery!r} holds no message that could wait")
        self._count += 1
        entry = _Entry(self._count, delivery, self._strategy.key_of(message))
        self._entries.append(entry)
        self._strategy.add(entry)
        if message.expiration > 0:
            if len(self._expiring) > 2 * len(self._entries) + 64:
                self._expiring = [expiring for expiring in self._expiring if expiring[-1].is_there]
                heapify(self._expiring)
            heappush(self._expiring, (message.expiration, entry.number, entry))

    def popleft(self) -> Delivery:
        """Take the first one."""
        entry = self._entries.popleft()
        entry.is_there = False
        self._strategy.remove(entry)
        return entry.delivery

    def clear(self) -> None:
        """Forget all of them."""
        while self._entries:
            self.popleft()
        self._expiring.clear()

    def expired(self, now_ms: int) -> list[Delivery]:
        """Take out what has expired.

        Args:
            now_ms: epoch milliseconds.
        """
        gone: list[_Entry] = []
        while self._expiring and self._expiring[0][0] < now_ms:
            entry = heappop(self._expiring)[-1]
            if entry.is_there:
                gone.append(entry)
        return self._take_out(gone)

    def evicted(self, held: int) -> list[Delivery]:
        """Take out what goes, one at least.

        Args:
            held: so many of the first ones may not go; there are more.
        """
        return self._take_out(self._strategy.choose(self._entries[held]))

    def _take_out(self, gone: Sequence[_Entry]) -> list[Delivery]:
        for entry in gone:
            entry.is_there = False
            self._strategy.remove(entry)
        if len(gone) > len(self._entries) // 32 + 1:  # then it costs less to look at all
            self._entries = deque(entry for entry in self._entries if entry.is_there)
        else:
            for entry in gone:
                _take_out(self._entries, entry)
        return [entry.delivery for entry in gone]
