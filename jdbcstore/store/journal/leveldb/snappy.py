"""Snappy blocks without their native library: the raw format, as in Google's format description.

Reading is complete. Writing makes valid blocks of literals, which take a few bytes more than what is in them: whoever
needs them smaller has a directory that no ActiveMQ of today opens.
"""

from __future__ import annotations

from typing import Final

from jdbcstore.store.journal.leveldb.varints import Malformed, read_varint, varint

__all__ = ["compress", "decompress"]

#: The longest literal that is written.
_LITERAL_BYTES: Final = 1 << 16
#: What one block of a damaged file may claim to hold.
_BYTES_MAX: Final = 1 << 30


def decompress(data: bytes) -> bytes:
    """The content of a block. Raises `Malformed`."""
    length, o = read_varint(data, 0)
    if length > min(_BYTES_MAX, 64 * len(data) + 64):
        raise Malformed(f"a block that claims to hold {length} bytes")
    out, end = bytearray(), len(data)
    try:
        while o < end:
            tag = data[o]
            o += 1
            if not tag & 3:
                size = tag >> 2
                if size >= 60:
                    width = size - 59
                    size, o = int.from_bytes(data[o : o + width], "little"), o + width
                size += 1
                if o + size > end:
                    raise Malformed("a literal goes beyond its block")
                out += data[o : o + size]
                o += size
                continue
            if tag & 3 == 1:
                size, offset = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | data[o]
                o += 1
            else:
                width = 2 if tag & 3 == 2 else 4
                size, offset, o = (tag >> 2) + 1, int.from_bytes(data[o : o + width], "little"), o + width
            _copy(out, offset, size)
            if len(out) > length:
                break
    except IndexError:
        raise Malformed("a block ends in the middle of an element") from None
    if len(out) != length:
        raise Malformed(f"a block of {len(out)} bytes that should hold {length}")
    return bytes(out)


def _copy(out: bytearray, offset: int, size: int) -> None:
    start = len(out) - offset
    if offset == 0 or start < 0:
        raise Malformed("a copy from before the beginning")
    piece = bytes(out[start : start + size])
    while len(piece) < size:
        piece += piece[: size - len(piece)]
    out += piece


def compress(data: bytes) -> bytes:
    """A block that holds these bytes as they are."""
    out = bytearray(varint(len(data)))
    for o in range(0, len(data), _LITERAL_BYTES):
        piece = data[o : o + _LITERAL_BYTES]
        out += bytes((61 << 2,)) + (len(piece) - 1).to_bytes(2, "little") + piece
    return bytes(out)
