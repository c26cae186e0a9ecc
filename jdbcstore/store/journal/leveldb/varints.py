"""Base-128 varints and fields of protocol buffers, as far as the records of a log need them."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["Malformed", "fields", "read_varint", "signed", "tagged_bytes", "tagged_varint", "varint"]

_BITS_MAX = 70
_MASK = (1 << 64) - 1


class Malformed(Exception):
    """Bytes that are not what they should be."""


def varint(value: int) -> bytes:
    """A number as its varint; a negative one takes ten bytes."""
    value &= _MASK
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, o: int) -> tuple[int, int]:
    """The number at an offset, unsigned, and the offset behind it. Raises `Malformed`."""
    value = shift = 0
    try:
        while True:
            byte = data[o]
            o += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, o
            shift += 7
            if shift > _BITS_MAX:
                raise Malformed("a varint is longer than ten bytes")
    except IndexError:
        raise Malformed("a varint goes beyond its end") from None


def signed(value: int) -> int:
    """A 64-bit number with its sign."""
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: number, and the varint or the bytes. Raises `Malformed`."""
    o, end = 0, len(data)
    while o < end:
        tag, o = read_varint(data, o)
        kind = tag & 7
        if kind == 0:
            value, o = read_varint(data, o)
            yield tag >> 3, value
        elif kind == 2:
            length, o = read_varint(data, o)
            if o + length > end:
                raise Malformed("a field goes beyond its message")
            yield tag >> 3, data[o : o + length]
            o += length
        else:
            raise Malformed(f"a field of wire type {kind}")


def tagged_varint(number: int, value: int) -> bytes:
    """A field that is a number."""
    return varint(number << 3) + varint(value)


def tagged_bytes(number: int, value: bytes) -> bytes:
    """A field that is bytes."""
    return varint(number << 3 | 2) + varint(len(value)) + value
