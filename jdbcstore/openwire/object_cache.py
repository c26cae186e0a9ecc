"""The object cache of a connection: values that were sent before are sent as the number of a slot.

Each direction has its own slots. A reader obeys the numbers that it is given; a writer hands them out in order, wraps
around, and before each frame frees the oldest slots until `FREE_SLOTS` are free. Source: ActiveMQ's wire format.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from jdbcstore.openwire.source import Malformed

__all__ = ["CACHED_BYTES_MAX", "FREE_SLOTS", "NO_SLOT", "SLOTS_MAX", "SLOT_BYTES", "ReadCache", "WriteCache"]

#: Slots if the negotiated cache size is 0, and the most that there can be.
SLOTS_MAX: Final = 16383

_SLOT: Final = struct.Struct(">h")

#: What stands in a frame in front of a value that gets none.
NO_SLOT: Final = _SLOT.pack(-1)

#: Stands in a slot that has no value; None is one.
_FREE: Final = object()

#: Slots that a writer frees before each frame.
FREE_SLOTS: Final = 100

#: Bytes of a peer's frames that its cached values may have taken altogether.
CACHED_BYTES_MAX: Final = 4 * 1024 * 1024

#: The object, its place, and the numbers of a cached value, beside its encoded bytes (380 measured).
SLOT_BYTES: Final = 400

#: Characters of the longest value that a writer caches.
_CACHED_TEXT_MAX: Final = 200

#: Elements that the arrays and stack traces of one frame may have altogether.
ELEMENTS_MAX: Final = 0xFFFF


class ReadCache:
    """What the peer has put into its slots, and how much of a frame's allowance is used.

    Args:
        slots: how many there are.
        bytes_max: encoded bytes of all values in slots.

    Attributes:
        filled: the value in a slot, and its size; None if the peer never filled it.
    """

    __slots__ = ("_bytes", "_bytes_max", "_elements", "_slots", "_values", "filled")

    def __init__(self, slots: int = SLOTS_MAX, bytes_max: int = CACHED_BYTES_MAX) -> None:
        self._slots = slots
        self._bytes_max = bytes_max
        self._bytes = 0
        self._elements = 0
        # Grows as the peer fills it: most connections use a few slots.
        self._values: dict[int, tuple[Any, int]] = {}
        self.filled = self._values.get  # asked several times for each command

    @property
    def kept_bytes(self) -> int:
        """What the values take in memory, roughly."""
        return self._bytes + len(self._values) * SLOT_BYTES

    def begin_frame(self) -> None:
        """A new frame, a new allowance of elements."""
        self._elements = 0

    def take(self, elements: int) -> None:
        """Count elements before they are read.

        Raises:
            Malformed: the frame has too many.
        """
        self._elements += elements
        if self._elements > ELEMENTS_MAX:
            raise Malformed(f"more than {ELEMENTS_MAX} array elements in a frame")

    def put(self, slot: int, value: Any, size: int) -> None:
        """Fill a slot; -1 is no slot.

        Args:
            slot: its number.
            value: the value.
            size: encoded bytes of the value.

        Raises:
            Malformed: there is no such slot, or the cached values are too large.
        """
        if slot == -1:
            return
        if not 0 <= slot < self._slots:
            raise Malformed(f"cache slot {slot}, there are {self._slots}")
        replaced = self._values.get(slot)
        self._bytes += size - (replaced[1] if replaced is not None else 0)
        if self._bytes > self._bytes_max:
            raise Malformed(f"more than {self._bytes_max} bytes of cached values")
        self._values[slot] = (value, size)


class WriteCache:
    """The slots that this side has filled at the peer.

    Args:
        slots: how many there are.

    Attributes:
        get: the slot of an equal value, as it stands in a frame; None if it has to be written.
        get_same: likewise, by the `id` of the value; None also if only an equal one is there. Most values are the same
            as in the frame before, and to compute a hash takes longer.
    """

    __slots__ = ("_added", "_eviction", "_kept_max", "_next", "_same", "_slots", "_taken", "_values", "get", "get_same")

    def __init__(self, slots: int = SLOTS_MAX) -> None:
        self._slots = slots
        self._kept_max = max(0, slots - FREE_SLOTS)
        self._next = 0
        self._eviction = 0
        self._taken: dict[Any, bytes] = {}
        self.get = self._taken.get  # asked several times for each message
        #: By `id` of what is in `_values`, which lives as long.
        self._same: dict[int, bytes] = {}
        self.get_same = self._same.get
        #: By slot; grows as slots are taken for the first time, in order.
        self._values: list[Any] = []
        self._added: list[int] = []

    def begin_frame(self) -> None:
        """Free the oldest slots, so that the frame finds room."""
        self._added.clear()
        while len(self._taken) > self._kept_max:
            self._free(self._eviction)
            self._eviction = (self._eviction + 1) % self._slots

    def abandon_frame(self) -> None:
        """The frame was not written: forget what it put into slots."""
        for slot in self._added:
            self._free(slot)
        self._added.clear()

    def add(self, value: Any) -> bytes:
        """A slot for a value, as it stands in a frame; `NO_SLOT` if there is no room in this frame, or the value is
        long: the cache would keep it while the connection lives."""
        if len(str(value)) > _CACHED_TEXT_MAX:
            return NO_SLOT
        slot = self._next
        self._next = (slot + 1) % self._slots
        if len(self._taken) >= self._slots:
            return NO_SLOT
        if slot == len(self._values):
            self._values.append(value)
        else:
            self._free(slot)
            self._values[slot] = value
        self._taken[value] = self._same[id(value)] = encoded = _SLOT.pack(slot)
        self._added.append(slot)
        return encoded

    def _free(self, slot: int) -> None:
        if slot < len(self._values) and (value := self._values[slot]) is not _FREE:
            self._values[slot] = _FREE
            del self._taken[value], self._same[id(value)]
