"""The generic store of brokers before KahaDB ("Kaha"): lists and maps of items in index files, values in data files.

``index-<container>`` holds items of 51 bytes: a magic number, whether it is in use, the offsets of the item before and
behind it, and where key and value stand in ``data-<container>-<n>``: file, offset, size. There a value has a byte
with its type and an int32 with its size in front. The first item of a list or a map is its root, which only says which
item is the first one. Hash indexes (``hash-index-*``) only help to find a key sooner and are not read.

Source of the format: reference stores that ActiveMQ 5.3.2 wrote.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from jdbcstore.errors import StoreError
from jdbcstore.store.journal.file_errors import reading

__all__ = ["NAME_MAX", "Container", "Item", "KahaDamaged", "safe_name", "unsafe_name"]

_ITEM: Final = struct.Struct(">2sbqqiqiiqi")
_MAGIC: Final = b"zU"
_VALUE_HEAD: Final = struct.Struct(">bi")
_NOWHERE: Final = -1
#: Longer names lose what they begin with.
NAME_MAX: Final = 64
#: Where an item says which one follows.
_NEXT_OFFSET: Final = 11
_HEX: Final = re.compile(r"#([0-9a-f]{1,4})")


class KahaDamaged(StoreError):
    """A reference store that is not what it should be; the text says what."""


class Item(NamedTuple):
    """Something in a list or a map."""

    offset: int
    """Where it stands in the index file."""
    before: int
    behind: int
    key: tuple[int, int, int]
    """File, offset and size."""
    value: tuple[int, int, int]


class Container:
    """The index file of a container and its data files.

    Args:
        directory: of the store.
        name: of the container.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self.path: Final = directory / f"index-{safe_name(name)}"
        self._directory = directory
        self._name = safe_name(name)
        self._index: bytes | None = None
        self._data: dict[int, bytes] = {}

    @property
    def exists(self) -> bool:
        """Whether it is there."""
        return self.path.is_file()

    def items(self, root: int = 0) -> Iterator[Item]:
        """What the list or map whose root stands here holds, in its order.

        Raises:
            KahaDamaged: it does not hold together.
            StoreError: it cannot be read.
        """
        seen: set[int] = set()
        offset = self._item(root).behind
        while offset != _NOWHERE:
            if offset in seen:
                raise KahaDamaged(f"{self.path}: the item at {offset} follows itself")
            seen.add(offset)
            item = self._item(offset)
            yield item
            offset = item.behind

    def _item(self, offset: int) -> Item:
        if self._index is None:
            with reading(str(self.path)):
                self._index = self.path.read_bytes()
        try:
            magic, used, before, behind, *places = _ITEM.unpack_from(self._index, offset)
        except struct.error:
            raise KahaDamaged(f"{self.path}: there is no item at {offset}") from None
        if magic != _MAGIC or not used:
            raise KahaDamaged(f"{self.path}: the item at {offset} is not in use")
        return Item(offset, before, behind, tuple(places[:3]), tuple(places[3:]))

    def read(self, place: tuple[int, int, int]) -> bytes:
        """A key or a value.

        Raises:
            KahaDamaged: there is none.
            StoreError: it cannot be read.
        """
        number, offset, size = place
        data = self._data.get(number)
        if data is None:
            path = self.data_path(number)
            with reading(str(path)):
                data = self._data[number] = path.read_bytes()
        try:
            _, length = _VALUE_HEAD.unpack_from(data, offset)
        except struct.error:
            raise KahaDamaged(f"{self.data_path(number)}: there is nothing at {offset}") from None
        start = offset + _VALUE_HEAD.size
        if length != size or start + size > len(data):
            raise KahaDamaged(f"{self.data_path(number)}: no value of {size} bytes at {offset}")
        return data[start : start + size]

    def data_path(self, number: int) -> Path:
        """One of its data files."""
        return self._directory / f"data-{self._name}-{number}"

    @staticmethod
    def value_offset(place: tuple[int, int, int]) -> int:
        """Where the bytes of a value stand in its data file."""
        return place[1] + _VALUE_HEAD.size

    @staticmethod
    def link(item: Item) -> tuple[int, bytes]:
        """Where the item before it names its follower, and what has to stand there to leave this one out."""
        return item.before + _NEXT_OFFSET, struct.pack(">q", item.behind)


def safe_name(name: str) -> str:
    """A name as it stands in the name of a file: what is no ASCII letter, digit, ``_``, ``-``, ``.`` or ``#`` as ``#``
    and its code in hex; the last 64 characters of that."""
    kept = (c if c.isascii() and (c.isalnum() or c in "_-.#") else f"#{ord(c):x}" for c in name)
    return "".join(kept)[-NAME_MAX:]


def unsafe_name(name: str) -> str:
    """The other way round, for names that were not cut."""
    return _HEX.sub(lambda match: chr(int(match[1], 16)), name)
