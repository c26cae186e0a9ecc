"""Java's primitive values as ActiveMQ writes them: tagged values and primitive maps.

Message properties, map bodies and stream bodies are made of these. Decoding keeps the Java type, so that encoding gives
the same bytes again:

======== ====== ====================================================================
tag      Java   Python
======== ====== ====================================================================
0        null   None
1        bool   bool
2        byte   `Byte` (an int)
3        char   `Char` (a str of one UTF-16 unit)
4        short  `Short` (an int)
5        int    int; a plain int that fits 32 bits is written so
6        long   `Long` (an int); a plain int that does not fit 32 bits is written so
7        double float
8        float  `Float` (a float)
9, 13    String str; 13 from 8191 UTF-16 units on
10       byte[] bytes
11       Map    dict
12       List   list
======== ====== ====================================================================

Strings and keys are modified UTF-8. Source: ActiveMQ's primitive map format as observed.

Everything read here is bounded by the bytes it was given: counts and lengths are compared with what remains before
anything is allocated, and containers nest at most `NESTING_MAX` deep.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from jdbcstore.errors import CodecError
from jdbcstore.modified_utf8 import SUPPLEMENTARY, decode_any_utf8, encode_modified_utf8

__all__ = [
    "NESTING_MAX",
    "Byte",
    "Char",
    "Float",
    "Long",
    "Short",
    "Value",
    "decode_map",
    "decode_values",
    "encode_map",
    "encode_values",
    "java_type",
]

#: How deep maps and lists may nest; the limit of newer ActiveMQ readers.
NESTING_MAX: Final = 127

#: From this many UTF-16 units on a string takes a four-byte length (tag 13).
BIG_STRING_UNITS: Final = 8191

_UTF_BYTES_MAX: Final = 0xFFFF

NULL, BOOLEAN, BYTE, CHAR, SHORT, INT, LONG, DOUBLE, FLOAT, STRING, BYTES, MAP, LIST, BIG_STRING = range(14)

Value: TypeAlias = "bool | int | float | str | bytes | Sequence[Value] | Mapping[str, Value] | None"


class _Sized(int):
    """An int that remembers which of Java's integer types it is."""

    __slots__ = ()
    _bits = 64

    def __new__(cls, value: int) -> _Sized:
        self = super().__new__(cls, value)
        if not -(1 << cls._bits - 1) <= self < 1 << cls._bits - 1:
            raise ValueError(f"{int(self)} does not fit a {cls.__name__.lower()} of {cls._bits} bits")
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self)})"

    __str__ = int.__repr__


class Byte(_Sized):
    """A Java byte: 8 bits, signed."""

    __slots__ = ()
    _bits = 8


class Short(_Sized):
    """A Java short: 16 bits, signed."""

    __slots__ = ()
    _bits = 16


class Long(_Sized):
    """A Java long: 64 bits, signed."""

    __slots__ = ()
    _bits = 64


class Char(str):
    """A Java char: one UTF-16 unit, surrogates included."""

    __slots__ = ()

    def __new__(cls, value: str) -> Char:
        if len(value) != 1 or value > "\uffff":
            raise ValueError(f"{value!r} is not one UTF-16 unit")
        return super().__new__(cls, value)

    def __repr__(self) -> str:
        return f"Char({super().__repr__()})"


class Float(float):
    """A Java float: 32 bits. The value is rounded to one; `raw` keeps its four bytes, so that any NaN survives."""

    __slots__ = ("raw",)

    raw: bytes

    def __new__(cls, value: float) -> Float:
        try:
            return cls.from_raw(_FLOAT.pack(value))
        except OverflowError:
            raise ValueError(f"{value!r} does not fit a float of 32 bits") from None

    @classmethod
    def from_raw(cls, raw: bytes) -> Float:
        """The float with exactly these four bytes (IEEE 754, big-endian)."""
        self = super().__new__(cls, _FLOAT.unpack(raw)[0])
        self.raw = raw
        return self

    def __repr__(self) -> str:
        return f"Float({super().__repr__()})"

    __str__ = float.__repr__


# --- reading values ---------------------------------------------------------------------------------------------------

_LENGTH = struct.Struct(">i")
_STRING = struct.Struct(">BH")
_CHAR = struct.Struct(">H")
_SHORT = struct.Struct(">h")
_LONG = struct.Struct(">q")
_DOUBLE = struct.Struct(">d")
_FLOAT = struct.Struct(">f")


#: Of (data, offset, end of data, levels of nesting left); gives the value and the offset behind it.
_Reader: TypeAlias = Callable[[bytes, int, int, int], "tuple[Value, int]"]


def decode_map(data: bytes, field: str = "map") -> dict[str, Value]:
    """Read a primitive map that fills `data` completely.

    Args:
        data: the bytes, from the count on. A count of -1 is Java's null map and reads as an empty one.
        field: what the map is, for errors.

    Raises:
        CodecError: truncated, trailing bytes, an unknown tag, nested too deep, not text; `offset` counts from `data`.
    """
    try:
        entries, offset = _read_map(data, 0, len(data), NESTING_MAX)
    except (IndexError, struct.error) as error:
        raise CodecError(f"ends in the middle after {len(data)} bytes", field=field) from error
    except CodecError as error:
        raise _inside(error, field) from error
    if offset != len(data):
        raise CodecError(f"{len(data) - offset} bytes follow the last entry", offset=offset, field=field)
    return {} if entries is None else entries


def decode_values(data: bytes, field: str = "stream") -> list[Value]:
    """Read tagged values one after another until `data` ends: the body of a stream message.

    Raises:
        CodecError: as `decode_map`.
    """
    values: list[Value] = []
    offset, end = 0, len(data)
    try:
        while offset < end:
            value, offset = _read_value(data, offset + 1, end, data[offset], NESTING_MAX)
            values.append(value)
    except (IndexError, struct.error) as error:
        raise CodecError(f"ends in the middle after {end} bytes", field=f"{field}[{len(values)}]") from error
    except CodecError as error:
        raise _inside(error, f"{field}[{len(values)}]") from error
    return values


def _inside(error: CodecError, field: str) -> CodecError:
    located = CodecError(str(error), field=field)
    located.offset = error.offset
    return located


def _read_map(data: bytes, offset: int, end: int, depth: int) -> tuple[dict[str, Value] | None, int]:
    count = _LENGTH.unpack_from(data, offset)[0]
    offset += 4
    if count < 0:
        if count == -1:
            return None, offset
        raise CodecError(f"a map of {count} entries", offset=offset - 4)
    if count * 3 > end - offset:
        raise CodecError(f"a map of {count} entries in {end - offset} bytes", offset=offset - 4)
    if depth < 0:
        raise CodecError(f"maps and lists nest deeper than {NESTING_MAX}", offset=offset)
    entries: dict[str, Value] = {}
    for _ in range(count):
        start = offset + 2
        offset = start + (data[offset] << 8 | data[offset + 1])
        tag = data[offset]
        key = data[start:offset]
        name = key.decode("ascii") if key.isascii() else decode_any_utf8(key, start)
        if tag == STRING:
            start = offset + 3
            offset = start + (data[offset + 1] << 8 | data[offset + 2])
            if offset > end:
                raise CodecError(f"a string of {offset - start} bytes where {end - start} remain", offset=start)
            text = data[start:offset]
            entries[name] = text.decode("ascii") if text.isascii() else decode_any_utf8(text, start)
        else:
            entries[name], offset = _read_value(data, offset + 1, end, tag, depth)
    return entries, offset


def _read_value(data: bytes, offset: int, end: int, tag: int, depth: int) -> tuple[Value, int]:
    if tag >= len(_READERS):
        raise CodecError(f"{tag} is no primitive's tag", offset=offset - 1)
    return _READERS[tag](data, offset, end, depth)


def _fixed(code: str, kind: Callable[[Any], Value]) -> _Reader:
    """A reader of values of fixed width: `code` is their `struct` format."""
    fixed = struct.Struct(">" + code)

    def read(data: bytes, offset: int, end: int, depth: int) -> tuple[Value, int]:
        return kind(fixed.unpack_from(data, offset)[0]), offset + fixed.size

    return read


def _counted(code: str, kind: Callable[[bytes, int], Value]) -> _Reader:
    """A reader of values that begin with their length in bytes: `code` is its `struct` format."""
    prefix = struct.Struct(">" + code)

    def read(data: bytes, offset: int, end: int, depth: int) -> tuple[Value, int]:
        length = prefix.unpack_from(data, offset)[0]
        start = offset + prefix.size
        if not 0 <= length <= end - start:
            raise CodecError(f"{length} bytes announced where {end - start} remain", offset=start)
        return kind(data[start : start + length], start), start + length

    return read


def _read_nested_map(data: bytes, offset: int, end: int, depth: int) -> tuple[Value, int]:
    return _read_map(data, offset, end, depth - 1)


def _read_list(data: bytes, offset: int, end: int, depth: int) -> tuple[Value, int]:
    count = _LENGTH.unpack_from(data, offset)[0]
    offset += 4
    if not 0 <= count <= end - offset:
        raise CodecError(f"a list of {count} values in {end - offset} bytes", offset=offset - 4)
    if depth <= 0:
        raise CodecError(f"maps and lists nest deeper than {NESTING_MAX}", offset=offset)
    values: list[Value] = []
    for _ in range(count):
        value, offset = _read_value(data, offset + 1, end, data[offset], depth - 1)
        values.append(value)
    return values, offset


#: By tag.
_READERS: Final[tuple[_Reader, ...]] = (
    lambda data, offset, end, depth: (None, offset),
    _fixed("?", bool),
    _fixed("b", Byte),
    _fixed("H", lambda unit: Char(chr(unit))),
    _fixed("h", Short),
    _fixed("i", int),
    _fixed("q", Long),
    _fixed("d", float),
    _fixed("4s", Float.from_raw),
    _counted("H", decode_any_utf8),
    _counted("i", lambda data, offset: data),
    _read_nested_map,
    _read_list,
    _counted("i", decode_any_utf8),
)


# --- writing values ---------------------------------------------------------------------------------------------------


def encode_map(entries: Mapping[str, Value], field: str = "map") -> bytes:
    """A primitive map, in the order of `entries`.

    Args:
        entries: keys are strings of at most 65535 bytes, values what the table above lists.
        field: what the map is, for errors.

    Raises:
        CodecError: a key or value has no counterpart in Java, does not fit, or nests too deep.
    """
    try:
        return _write_map(entries, NESTING_MAX)
    except _Misfit as misfit:
        raise CodecError(misfit.reason, field=field + misfit.path) from None


def encode_values(values: Sequence[Value], field: str = "stream") -> bytes:
    """Tagged values one after another: the body of a stream message.

    Raises:
        CodecError: as `encode_map`; also for maps and lists, which do not occur in streams.
    """
    written = list[bytes]()
    try:
        for value in values:
            if isinstance(value, Mapping | list | tuple):
                raise _Misfit("a stream holds no maps and lists")
            written.append(_write_value(value, 0))
    except _Misfit as misfit:
        raise CodecError(misfit.reason, field=f"{field}[{len(written)}]") from None
    return b"".join(written)


def java_type(value: Value) -> str:
    """The name of the Java type that `value` is written as: ``"int"``, ``"string"``, ``"null"`` ...

    Raises:
        CodecError: there is none.
    """
    if isinstance(value, Mapping):
        return "map"
    if isinstance(value, list | tuple):
        return "list"
    try:
        return _TYPE_NAMES[_write_value(value, 0)[0]]
    except _Misfit as misfit:
        raise CodecError(misfit.reason) from None


_TYPE_NAMES: Final = (
    "null",
    "boolean",
    "byte",
    "char",
    "short",
    "int",
    "long",
    "double",
    "float",
    "string",
    "bytes",
    "map",
    "list",
    "string",
)


class _Misfit(Exception):
    """A value that cannot be written; the path to it grows on the way out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = ""


def _write_map(entries: Mapping[str, Value], depth: int) -> bytes:
    if depth < 0:
        raise _Misfit(f"maps and lists nest deeper than {NESTING_MAX}")
    parts = [_LENGTH.pack(len(entries))]
    key = None
    try:
        for key, value in entries.items():
            parts.append(_write_key(key))
            parts.append(_write_value(value, depth))
    except _Misfit as misfit:
        misfit.path = f".{key}{misfit.path}"
        raise
    return b"".join(parts)


def _write_key(key: str) -> bytes:
    if not isinstance(key, str):
        raise _Misfit(f"a key has to be a string, not {key!r}")
    name = encode_modified_utf8(key)
    if len(name) > _UTF_BYTES_MAX:
        raise _Misfit(f"a key of {len(name)} bytes, {_UTF_BYTES_MAX} is the longest")
    return _CHAR.pack(len(name)) + name


def _write_value(value: Value, depth: int) -> bytes:
    write = _WRITERS.get(value.__class__)
    if write is not None:
        return write(value, depth)
    for kind in (str, bytes, bool, int, float, list, tuple):
        if isinstance(value, kind):
            return _WRITERS[kind](value, depth)
    if isinstance(value, Mapping):
        return _write_nested_map(value, depth)
    raise _Misfit(f"{type(value).__name__} has no counterpart among Java's primitives")


def _write_string(value: str, depth: int) -> bytes:
    data = encode_modified_utf8(value)
    units = len(value)
    if len(data) >= BIG_STRING_UNITS and not value.isascii():
        units += len(SUPPLEMENTARY.findall(value))
    if units < BIG_STRING_UNITS:
        return _STRING.pack(STRING, len(data)) + data
    return b"\x0d" + _LENGTH.pack(len(data)) + data


def _write_integer(value: int, depth: int) -> bytes:
    if -(1 << 31) <= value < 1 << 31:
        return b"\x05" + _LENGTH.pack(value)
    if -(1 << 63) <= value < 1 << 63:
        return b"\x06" + _LONG.pack(value)
    raise _Misfit(f"an integer of {value.bit_length()} bits does not fit a long of 64")


def _write_nested_map(value: Mapping[str, Value], depth: int) -> bytes:
    return b"\x0b" + _write_map(value, depth - 1)


def _write_list(values: Sequence[Value], depth: int) -> bytes:
    if depth <= 0:
        raise _Misfit(f"maps and lists nest deeper than {NESTING_MAX}")
    written = list[bytes]()
    try:
        for value in values:
            written.append(_write_value(value, depth - 1))
    except _Misfit as misfit:
        misfit.path = f"[{len(written)}]{misfit.path}"
        raise
    return b"\x0c" + _LENGTH.pack(len(values)) + b"".join(written)


def _write_bytes(value: bytes, depth: int) -> bytes:
    return b"\x0a" + _LENGTH.pack(len(value)) + value


_WRITERS: Final[dict[type, Callable[..., bytes]]] = {
    type(None): lambda value, depth: b"\x00",
    bool: lambda value, depth: b"\x01\x01" if value else b"\x01\x00",
    Byte: lambda value, depth: b"\x02" + (value & 0xFF).to_bytes(1, "big"),
    Char: lambda value, depth: b"\x03" + _CHAR.pack(ord(value)),
    Short: lambda value, depth: b"\x04" + _SHORT.pack(value),
    int: _write_integer,
    Long: lambda value, depth: b"\x06" + _LONG.pack(value),
    float: lambda value, depth: b"\x07" + _DOUBLE.pack(value),
    Float: lambda value, depth: b"\x08" + value.raw,
    str: _write_string,
    bytes: _write_bytes,
    list: _write_list,
    tuple: _write_list,
    dict: _write_nested_map,
}
