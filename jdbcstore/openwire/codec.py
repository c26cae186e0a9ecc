"""`unmarshal` and `marshal`: frames to values and back."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, Final, NoReturn, TypeAlias

from jdbcstore.errors import CodecError
from jdbcstore.message import Message
from jdbcstore.openwire.fields import VERSION_MAX, Kind
from jdbcstore.openwire.readers import NESTING_MAX, Reader, Readers
from jdbcstore.openwire.source import UNREADABLE, UNWRITABLE, Malformed, Part, misfits, trace
from jdbcstore.openwire.writers import Writers

__all__ = ["STORE_VERSION", "Value", "marshal", "unmarshal", "unmarshal_message"]

#: The wire version that ActiveMQ writes to its stores since 5.12, and we.
STORE_VERSION: Final = 11

#: Anything that OpenWire can carry: a message, a command, an identifier, a destination.
Value: TypeAlias = Any

#: Versions to try when none is given. The first four cover all messages; the others matter for some commands, by
#: themselves or within an advisory. Versions left out read like one that is listed.
_VERSIONS_TRIED: Final = (11, 6, 2, 1, 12, 10, 8, 7, 5, 4, 3)

_SIZE = struct.Struct(">i")
_BODY_OFFSET: Final = 5
_NULL_FRAME: Final = b"\x00\x00\x00\x01\x00"


@cache
def _readers(version: int, stack_traces: bool) -> Readers:
    return Readers(version, stack_traces)


@cache
def _writers(version: int) -> Writers:
    return Writers(version)


_STORE_READERS: Final = _readers(STORE_VERSION, False)
_STORE_WRITERS: Final = _writers(STORE_VERSION)


def unmarshal(data: bytes | bytearray | memoryview, version: int | None = None) -> Value:
    """Read one frame in loose encoding, as stores hold them.

    Reading is strict: what it accepts, `marshal` with the same version gives back byte for byte.

    Args:
        data: the frame, its size prefix included, and nothing else.
        version: wire version, 1 to 12. None recognises it: frames do not say it, but only one layout fits.

    Returns:
        A `Message`, a command of `jdbcstore.openwire.commands`, an identifier, a destination, None for the null frame.

    Raises:
        CodecError: truncated, trailing bytes, malformed; it names byte and field. If no layout fits, it is about
            the one of ActiveMQ's stores.
    """
    if not isinstance(data, bytes):
        data = bytes(data)
    end = len(data)
    if end < _BODY_OFFSET or _SIZE.unpack_from(data)[0] != end - 4:
        _reject_size(data)
    if version is None or version == STORE_VERSION:
        try:
            value, offset = _STORE_READERS[data[4]](data, _BODY_OFFSET, end, NESTING_MAX)
            if offset == end:
                return value
        except UNREADABLE:
            pass  # found again, and named, below
    return _recognise(data, _VERSIONS_TRIED if version is None else (_checked(version),))


def unmarshal_message(data: bytes | bytearray | memoryview, version: int | None = None) -> Message:
    """`unmarshal` where only a message will do.

    Raises:
        CodecError: also if the frame holds something else.
    """
    value = unmarshal(data, version)
    if not isinstance(value, Message):
        raise CodecError(f"a message expected, the frame holds a {type(value).__name__}", offset=4)
    return value


def marshal(value: Value, version: int = STORE_VERSION) -> bytes:
    """Write one frame in loose encoding, as stores hold them.

    Args:
        value: what `unmarshal` returns.
        version: wire version, 1 to 12. Fields that it does not have are left out.

    Returns:
        The frame, its size prefix included.

    Raises:
        CodecError: a value does not fit its field, or the version has no such type; it names the field.
    """
    writers = _STORE_WRITERS if version == STORE_VERSION else _writers(_checked(version))
    if value is None:
        return _NULL_FRAME
    try:
        body = writers[value.__class__](value, NESTING_MAX)
        return _SIZE.pack(len(body)) + body
    except UNWRITABLE as error:
        raise _unwritable(error) from error


def _checked(version: int) -> int:
    if version not in range(1, VERSION_MAX + 1):
        raise CodecError(f"there is no wire version {version!r}, only 1 to {VERSION_MAX}")
    return version


def _reject_size(data: bytes) -> NoReturn:
    if len(data) < _BODY_OFFSET:
        raise CodecError(f"{len(data)} bytes, the shortest frame has {_BODY_OFFSET}", offset=len(data), field="size")
    size = _SIZE.unpack_from(data)[0]
    raise CodecError(f"the frame announces {size} bytes and {len(data) - 4} follow", offset=0, field="size")


def _recognise(data: bytes, versions: tuple[int, ...]) -> Value:
    """Read `data` with the first of the versions that fits, without stack traces and then with."""
    if data == _NULL_FRAME:
        return None
    first: CodecError | None = None
    for stack_traces in (False, True):
        for version in versions:
            try:
                return _read_frame(_readers(version, stack_traces), data)
            except CodecError as error:
                first = first or error
    assert first is not None
    raise first


def _read_frame(readers: Readers, data: bytes) -> Value:
    end = len(data)
    try:
        reader: Reader = readers[data[4]]
    except Malformed as error:
        raise CodecError(str(error), offset=4, field="type") from None
    try:
        value, offset = reader(data, _BODY_OFFSET, end, NESTING_MAX)
    except UNREADABLE as error:
        raise _unreadable(error, end) from error
    if offset != end:
        raise CodecError(f"{end - offset} bytes follow the last field", offset=offset)
    return value


def _unreadable(error: Exception, end: int) -> CodecError:
    path, offset = list[str](), 0
    message = str(error)
    for parts, found in trace(error):
        offset = found["o"]
        if parts:
            # Of fields that are read together the guilty one is the first that lacks bytes, if any does.
            part = next((part for part in parts if _lacks_bytes(part, offset, end)), parts[0])
            offset += part.distance
            path.append(_name(part, found))
            if isinstance(error, IndexError | struct.error):
                message = "truncated"
                if part.field.kind is Kind.FLAG and not _lacks_bytes(part, found["o"], end):
                    message = "a flag other than 0 and 1"
    if isinstance(error, CodecError) and error.offset is not None:
        offset, message = error.offset, message.removesuffix(f" at byte {error.offset}")
    return CodecError(message, offset=min(offset, end), field=".".join(path) or None)


def _lacks_bytes(part: Part, offset: int, end: int) -> bool:
    width = part.field.kind.width if part.field.kind.is_fixed else 1
    return offset + part.distance + width > end


def _unwritable(error: Exception) -> CodecError:
    path = []
    message = str(error)
    for parts, found in trace(error):
        if parts:
            part = next((part for part in parts if misfits(part, found["v"])), parts[0])
            path.append(_name(part, found))
            if part.field.kind.is_fixed and not isinstance(error, Malformed):
                message = f"{getattr(found['v'], part.field.name)!r:.100} does not fit, {_EXPECTED[part.field.kind]}"
    return CodecError(message, field=".".join(path) or None)


_EXPECTED: Final = {
    Kind.FLAG: "True or False expected",
    Kind.I8: "an integer of 8 bits expected",
    Kind.I32: "an integer of 32 bits expected",
    Kind.I64: "an integer of 64 bits expected",
    Kind.CONST8: "8 bytes expected",
}


def _name(part: Part, found: dict[str, Any]) -> str:
    index = found.get("i") if part.field.kind is Kind.ARRAY else None
    return part.field.name if index is None else f"{part.field.name}[{index}]"
