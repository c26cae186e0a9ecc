"""The map that a KahaDB broker keeps with its journal: which file acknowledges messages of which files.

It is a Java object, a ``HashMap`` of numbers to ``HashSet`` of numbers, in Java's own serialisation. Only what such an
object needs of that format is read here. Source: java.io.ObjectStreamConstants, and maps of ActiveMQ 5.17.2.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from jdbcstore.errors import JournalDamaged

__all__ = ["read_ack_map"]

_MAGIC: Final = b"\xac\xed\x00\x05"
_NULL, _REFERENCE, _CLASS, _OBJECT, _BLOCK, _END = 0x70, 0x71, 0x72, 0x73, 0x77, 0x78
_FIRST_HANDLE: Final = 0x7E0000
_FIELDS: Final = {"I": ">i", "F": ">f"}


def read_ack_map(data: bytes) -> dict[int, set[int]]:
    """The map in a record of `jdbcstore.store.journal.commands.AckMessageFileMap`.

    Raises:
        JournalDamaged: it is none.
    """
    try:
        if data[:4] != _MAGIC:
            raise JournalDamaged("a map of acknowledgements that is no Java object")
        found = _Stream(data).value()
    except (IndexError, struct.error, RecursionError, UnicodeDecodeError):
        raise JournalDamaged("a map of acknowledgements that ends within a value") from None
    if not isinstance(found, dict) or not all(isinstance(files, set) for files in found.values()):
        raise JournalDamaged(f"a map of acknowledgements that is a {type(found).__name__}")
    return found


class _Stream:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._o = len(_MAGIC)
        self._handles: list[Any] = []

    def _take(self, what: str) -> Any:
        (value,) = struct.unpack_from(what, self._data, self._o)
        self._o += struct.calcsize(what)
        return value

    def _text(self) -> str:
        length = self._take(">H")
        self._o += length
        return self._data[self._o - length : self._o].decode()

    def _expect(self, kind: int) -> None:
        found = self._take(">B")
        if found != kind:
            raise JournalDamaged(f"a map of acknowledgements with {found:#x} where {kind:#x} is expected")

    def _class(self) -> tuple[str, list[str]] | None:
        """Name and kinds of fields of a class."""
        kind = self._take(">B")
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            found: tuple[str, list[str]] = self._handles[self._take(">i") - _FIRST_HANDLE]
            return found
        if kind != _CLASS:
            raise JournalDamaged(f"a map of acknowledgements with {kind:#x} where a class is expected")
        name = self._text()
        self._take(">q")
        self._take(">B")
        fields: list[str] = []
        self._handles.append((name, fields))
        for _ in range(self._take(">h")):
            fields.append(chr(self._take(">B")))
            self._text()
        self._expect(_END)
        above = self._class()
        if above is not None:
            fields[:0] = above[1]
        return name, fields

    def value(self) -> Any:
        kind = self._take(">B")
        if kind == _REFERENCE:
            return self._handles[self._take(">i") - _FIRST_HANDLE]
        if kind != _OBJECT:
            raise JournalDamaged(f"a map of acknowledgements with {kind:#x} where an object is expected")
        described = self._class()
        if described is None:
            raise JournalDamaged("a map of acknowledgements with an object of no class")
        name, fields = described
        place = len(self._handles)
        self._handles.append(None)
        values = [self._take(_FIELDS.get(kind, ">q")) for kind in fields]
        value: Any
        if name == "java.lang.Integer" and fields == ["I"]:
            value = values[0]
        elif name == "java.util.HashMap":
            _, size = self._block(">ii")
            value = {self._number(): self.value() for _ in range(size)}
            self._expect(_END)
        elif name == "java.util.HashSet":
            _, _, size = self._block(">ifi")
            value = {self._number() for _ in range(size)}
            self._expect(_END)
        else:
            raise JournalDamaged(f"a map of acknowledgements with a {name!r}")
        self._handles[place] = value
        return value

    def _block(self, what: str) -> tuple[Any, ...]:
        self._expect(_BLOCK)
        length = self._take(">B")
        self._o += length
        return struct.unpack(what, self._data[self._o - length : self._o])

    def _number(self) -> int:
        value = self.value()
        if not isinstance(value, int):
            raise JournalDamaged(f"a map of acknowledgements with a {type(value).__name__} for a number")
        return value
