"""Compiles the field tables to functions that read frames of connections: tight or loose, with or without the cache.

Stores have readers of their own (`jdbcstore.openwire.readers`), which know one encoding and are faster for it. A
function here reads one type in one `Encoding`. Flags come from the frame's boolean stream, one byte each (``bits`` from
``b`` on), if the encoding is tight, else from the data.

Everything is bounded by the frame: lengths and counts are compared with what remains before anything is allocated,
objects nest `NESTING_MAX` deep, and the elements of all arrays and the bytes of cached values are counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from jdbcstore.destination import Destination
from jdbcstore.modified_utf8 import decode_modified_utf8
from jdbcstore.openwire.commands import StackTraceElement, Throwable
from jdbcstore.openwire.encoding import EIGHT_BYTES, MARSHAL_AWARE, NO_BYTES, Encoding, numbers_of, usual_flags
from jdbcstore.openwire.fields import COMMANDS, Command, Field, Kind, Usually
from jdbcstore.openwire.object_cache import ReadCache
from jdbcstore.openwire.readers import NESTING_MAX
from jdbcstore.openwire.source import Malformed, Part, Source, struct_of

__all__ = ["ConnectionReader", "ConnectionReaders", "connection_readers", "flags_of"]

#: Of (data, offset, levels of nesting left, flags, next flag, cache); gives the value, and the next offset and flag.
ConnectionReader: TypeAlias = Callable[[bytes, int, int, bytes, int, ReadCache], tuple[Any, int, int]]

_BY_ID: Final = {command.type_id: command for command in COMMANDS}
_IDS: Final = {command.cls: command.type_id for command in COMMANDS}
_AWARE_IDS: Final = frozenset(_IDS[cls] for cls in MARSHAL_AWARE)

#: What clients send.
_USUAL: Final = {Usually.ZERO: NO_BYTES, Usually.TIME: EIGHT_BYTES, Usually.STAMP: NO_BYTES}

#: The eight flags of a byte, least significant first.
_FLAGS: Final = tuple(bytes(byte >> bit & 1 for bit in range(8)) for byte in range(256))


@cache
def connection_readers(encoding: Encoding) -> ConnectionReaders:
    """The readers of one encoding."""
    return ConnectionReaders(encoding)


def flags_of(data: bytes, offset: int) -> tuple[bytes, int]:
    """Read a boolean stream.

    Args:
        data: the frame.
        offset: where the stream begins.

    Returns:
        A byte of 0 or 1 for each flag, and the offset behind the stream.

    Raises:
        Malformed: it does not fit into the frame.
    """
    count = data[offset]
    start = offset + 1
    if count == 0xC0:
        count = data[start]
        start += 1
    elif count == 0x80:
        count = _I16.unpack_from(data, start)[0]
        start += 2
    elif count >= 64:
        raise Malformed(f"a boolean stream that begins with {count}")
    end = start + count
    if not start <= end <= len(data):
        raise Malformed(f"a boolean stream of {count} bytes where {len(data) - start} remain")
    return b"".join([_FLAGS[byte] for byte in data[start:end]]), end


class ConnectionReaders(dict[int, ConnectionReader]):
    """The readers of one encoding by type id, compiled when first asked for."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding

    def __missing__(self, type_id: int) -> ConnectionReader:
        command = _BY_ID.get(type_id)
        if command is None:
            raise Malformed(f"{type_id} is no type id")
        if command.since > self.encoding.version:
            raise Malformed(f"wire version {self.encoding.version} has no type {type_id}")
        reader = self[type_id] = _Compiler(command, self).reader()
        return reader


_I16 = struct_of("h")


class _Compiler:
    """Turns one command's table into a reader."""

    def __init__(self, command: Command, readers: ConnectionReaders) -> None:
        self.command = command
        self.encoding = readers.encoding
        self.fields = command.fields_at(readers.encoding.version)
        name = f"read_{command.cls.__name__}_{self.encoding.name}"
        self.source = Source(name, "data, o, depth, bits, b, cache")
        self.scope: dict[str, Any] = {
            "AWARE": _AWARE_IDS,
            "BOOL": (False, True),
            "CLASS": command.cls,
            "I8": struct_of("b").unpack_from,
            "I16": _I16.unpack_from,
            "U16": struct_of("H").unpack_from,
            "I32": struct_of("i").unpack_from,
            "U32": struct_of("I").unpack_from,
            "I64": struct_of("q").unpack_from,
            "Malformed": Malformed,
            "READ": readers,
            "new": object.__new__,
            "read_text": _read_tight_text if self.encoding.tight else _read_loose_text,
            "read_throwable": _read_throwable,
            "encoding": self.encoding,
        }
        # Frozen values are made from local variables, the others are filled in place.
        cls = command.cls
        self.is_frozen = issubclass(cls, Destination) or cls.__dataclass_params__.frozen  # type: ignore[attr-defined]  # a dataclass

    def reader(self) -> ConnectionReader:
        source, cls = self.source, self.command.cls
        with source.block("if depth < 0:"):
            source.line(f"raise Malformed('objects nest deeper than {NESTING_MAX}')")
        if not self.is_frozen:
            source.line("v = new(CLASS)")
            present = {field.name for field in self.fields}
            for slot in dataclasses.fields(cls):
                if slot.name not in present:
                    source.line(f"v.{slot.name} = {self._constant(slot.default)}")
        for is_together, fields in self.encoding.runs(self.fields):
            (self._as_usual if is_together else self._one_by_one)(fields)
        if issubclass(cls, Destination):
            with source.block("if not physical_name:"):
                source.line("raise Malformed('a destination without a name')", Part(self.fields[0]))
            source.line("return CLASS.decoded(physical_name), o, b")
        elif self.is_frozen:
            source.line(f"return CLASS({', '.join(field.name for field in self.fields)}), o, b")
        else:
            source.line("return v, o, b")
        return source.compile(self.scope)

    def _one_by_one(self, fields: Sequence[Field]) -> None:
        for field in fields:
            self._field(field)

    def _as_usual(self, fields: Sequence[Field]) -> None:
        """Read fields in one go if their flags are those that clients send usually, else one by one."""
        source = self.source
        data = numbers_of(fields, _USUAL)
        unpack = struct_of(field.kind.value for field in data)
        flags = [field for field in fields if field.kind is Kind.FLAG]
        known = usual_flags(fields, _USUAL)
        count = len(next(iter(known)))
        source.line(f"f = {self._constant(known)}.get(bits[b:b + {count}])")
        with source.block(f"if f is not None and o + {unpack.size} <= len(data):"):
            if flags:
                source.line(f"{''.join(f'{self._target(field)}, ' for field in flags)}= f")
            if data:
                targets = "".join(f"{self._target(field)}, " for field in data)
                source.line(f"{targets}= {self._constant(unpack.unpack_from)}(data, o)")
            for value, absent in (
                ("None", [field for field in fields if field.mostly_null]),
                ("0", [field for field in fields if field.usually and field not in data]),
            ):
                if absent:
                    source.line(f"{''.join(f'{self._target(field)} = ' for field in absent)}{value}")
            source.line(f"o += {unpack.size}")
            source.line(f"b += {count}")
        with source.block("else:"):
            self._one_by_one(fields)

    def _target(self, field: Field) -> str:
        return field.name if self.is_frozen else f"v.{field.name}"

    def _constant(self, value: object) -> str:
        name = f"K{len(self.scope)}"
        self.scope[name] = value
        return name

    def _flag(self, target: str, field: Field) -> None:
        """Read a flag into a variable."""
        if self.encoding.tight:
            self.source.line(f"{target} = BOOL[bits[b]]", Part(field))
            self.source.line("b += 1")
        else:
            self.source.line(f"{target} = BOOL[data[o]]", Part(field))
            self.source.line("o += 1")

    def _field(self, field: Field) -> None:
        source, part, target = self.source, Part(field), self._target(field)
        if field.kind is Kind.FLAG:
            self._flag(target, field)
        elif field.kind is Kind.I64 and self.encoding.tight:
            self._short_number(target, field)
        elif field.kind is Kind.CONST8:
            source.line(f"{target} = data[o:o + 8]")
            with source.block(f"if len({target}) != 8:"):
                source.line("raise Malformed('truncated')", part)
            source.line("o += 8")
        elif field.kind.is_fixed:
            source.line(f"{target} = {field.kind.name}(data, o)[0]", part)
            source.line(f"o += {field.kind.width}")
        elif field.kind is Kind.TEXT:
            source.line(f"{target}, o, b = read_text(data, o, bits, b)", part)
        elif field.kind is Kind.THROWABLE:
            source.line(
                f"{target}, o, b = read_throwable(data, o, depth - 1, bits, b, cache, read_text, encoding)", part
            )
        elif field.kind is Kind.OBJECT and field.cached and self.encoding.cached:
            self._cached(field)
        else:
            self._flag("p", field)
            with source.block("if p:"):
                {Kind.BYTES: self._bytes, Kind.OBJECT: self._object, Kind.ARRAY: self._array}[field.kind](target, field)
            with source.block("else:"):
                source.line(f"{target} = None")

    def _short_number(self, target: str, field: Field) -> None:
        source, part = self.source, Part(field)
        source.line("p = bits[b] << 1 | bits[b + 1]", part)
        source.line("b += 2")
        for header, read, width in (("if p == 0:", "", 0), ("elif p == 1:", "U16", 2), ("elif p == 2:", "U32", 4)):
            with source.block(header):
                source.line(f"{target} = {f'{read}(data, o)[0]' if width else 0}", part)
                if width:
                    source.line(f"o += {width}")
        with source.block("else:"):
            source.line(f"{target} = I64(data, o)[0]", part)
            source.line("o += 8")

    def _bytes(self, target: str, field: Field) -> None:
        source, part = self.source, Part(field)
        source.line("s = o + 4")
        source.line("n = s + U32(data, o)[0]", part)
        with source.block("if n > len(data):"):
            source.line("raise Malformed(f'{n - s} bytes announced where {len(data) - s} remain')", part)
        source.line(f"{target} = data[s:n]")
        source.line("o = n")

    def _object(self, target: str, field: Field) -> None:
        """Read an object whose presence flag was set."""
        source, part = self.source, Part(field)
        source.line("t = data[o]", part)
        ids = sorted(_IDS[cls] for cls in field.of)
        if ids:
            with source.block(f"if t not in {self._constant(frozenset(ids))}:"):
                expected = " or ".join(map(str, ids))
                source.line(f"raise Malformed(f'an object of type {{t}}, expected {expected}')", part)
        if self.encoding.tight and (not ids or _AWARE_IDS.intersection(ids)):
            with source.block("if t in AWARE:"):
                with source.block("if bits[b]:", part):
                    source.line("raise Malformed('a stored form within a frame')", part)
                source.line("b += 1")
        source.line(f"{target}, o, b = READ[t](data, o + 1, depth - 1, bits, b, cache)", part)

    def _cached(self, field: Field) -> None:
        source, part = self.source, Part(field)
        self._flag("p", field)
        source.line("c = I16(data, o)[0]", part)
        source.line("o += 2")
        with source.block("if p:"):
            source.line("s = o")
            self._flag("p", field)
            with source.block("if p:"):
                self._object("x", field)
            with source.block("else:"):
                source.line("x = None")
            source.line("cache.put(c, x, o - s)", part)
        with source.block("else:"):
            source.line("x = cache.filled(c)", part)
            with source.block("if x is None:"):
                source.line("raise Malformed(f'cache slot {c} is empty')", part)
            source.line("x = x[0]")
            with source.block(f"if x is not None and x.__class__ not in {self._constant(frozenset(field.of))}:"):
                source.line("raise Malformed(f'a {x.__class__.__name__} in cache slot {c}')", part)
        source.line(f"{self._target(field)} = x")

    def _array(self, target: str, field: Field) -> None:
        source, part = self.source, Part(field)
        source.line("i = None")
        source.line("c = I16(data, o)[0]", part)
        source.line("o += 2")
        # An element takes a flag at least.
        source.line("n = len(bits) - b" if self.encoding.tight else "n = len(data) - o")
        with source.block("if not 0 <= c <= n:"):
            source.line("raise Malformed(f'an array of {c} elements where {n} fit')", part)
        source.line("cache.take(c)", part)
        source.line("xs = []")
        with source.block("for i in range(c):"):
            self._flag("p", field)
            with source.block("if p:"):
                self._object("x", field)
            with source.block("else:"):
                source.line("x = None")
            source.line("xs.append(x)")
        source.line(f"{target} = tuple(xs)")


# --- texts and exceptions ---------------------------------------------------------------------------------------------

_ReadText: TypeAlias = Callable[[bytes, int, bytes, int], tuple[str | None, int, int]]

_LENGTH = struct_of("H")
_LINE = struct_of("i")
_TIGHT_TEXT_BYTES_MAX: Final = 0x7FFF


def _read_loose_text(data: bytes, o: int, bits: bytes, b: int) -> tuple[str | None, int, int]:
    if not _read_loose_flag(data, o):
        return None, o + 1, b
    start = o + 3
    end = start + _LENGTH.unpack_from(data, o + 1)[0]
    return decode_modified_utf8(_cut(data, start, end), start), end, b


def _read_tight_text(data: bytes, o: int, bits: bytes, b: int) -> tuple[str | None, int, int]:
    if not bits[b]:
        return None, o, b + 1
    start = o + 2
    length = _LENGTH.unpack_from(data, o)[0]
    end = start + length
    if bits[b + 1]:
        if length > _TIGHT_TEXT_BYTES_MAX:
            raise Malformed(f"a text of {length} bytes, {_TIGHT_TEXT_BYTES_MAX} is the longest")
        return str(_cut(data, start, end), "latin-1"), end, b + 2
    return decode_modified_utf8(_cut(data, start, end), start), end, b + 2


def _cut(data: bytes, start: int, end: int) -> bytes:
    if end > len(data):
        raise Malformed(f"a text of {end - start} bytes where {len(data) - start} remain")
    return data[start:end]


def _read_loose_flag(data: bytes, o: int) -> bool:
    if data[o] > 1:
        raise Malformed(f"a flag of {data[o]}, 0 or 1 expected")
    return data[o] == 1


def _read_throwable(
    data: bytes, o: int, depth: int, bits: bytes, b: int, cache: ReadCache, read_text: _ReadText, encoding: Encoding
) -> tuple[Throwable | None, int, int]:
    """An exception: names and lines, never Java objects."""
    if depth < 0:
        raise Malformed(f"objects nest deeper than {NESTING_MAX}")
    if encoding.tight:
        present = bits[b] == 1
        b += 1
    else:
        present = _read_loose_flag(data, o)
        o += 1
    if not present:
        return None, o, b
    throwable = Throwable()
    throwable.class_name, o, b = read_text(data, o, bits, b)
    throwable.message, o, b = read_text(data, o, bits, b)
    if encoding.stack_traces:
        count = _I16.unpack_from(data, o)[0]
        o += 2
        if not 0 <= count <= (len(data) - o) // _LINE.size:
            raise Malformed(f"a stack of {count} lines in {len(data) - o} bytes")
        cache.take(count)
        stack = []
        for _ in range(count):
            line = StackTraceElement()
            line.class_name, o, b = read_text(data, o, bits, b)
            line.method, o, b = read_text(data, o, bits, b)
            line.file, o, b = read_text(data, o, bits, b)
            line.line = _LINE.unpack_from(data, o)[0]
            o += _LINE.size
            stack.append(line)
        throwable.stack = tuple(stack)
        throwable.cause, o, b = _read_throwable(data, o, depth - 1, bits, b, cache, read_text, encoding)
    return throwable, o, b
