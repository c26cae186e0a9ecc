"""Counters of the index that ActiveMQ keeps as serialised Java objects, written so that it reads them.

Without ``:log-refs`` it deletes files of the log with messages in them, without ``:collection-meta`` it gives sequences
twice. Source: Java's object serialization protocol, and what a broker wrote.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

__all__ = ["collection_meta", "log_positions", "log_references"]

_MAGIC: Final = b"\xac\xed\x00\x05"
_LONG: Final = struct.Struct(">q")
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">H")
_COUNTER: Final = "org.apache.activemq.leveldb.util.LongCounter"
_META: Final = "org.apache.activemq.leveldb.LevelDBClient$CollectionMeta"
#: serialVersionUIDs as ActiveMQ 5.16.8 has them; those in an index that is there go before.
_UIDS: Final = {_COUNTER: bytes.fromhex("f0d2d8239708f04d"), _META: bytes.fromhex("b0a93f04749b5e82")}
_BYTES_CLASS: Final = b"\x72\x00\x02[B\xac\xf3\x17\xf8\x06\x08\x54\xe0\x02\x00\x00\x78\x70"
_BYTES_TYPE: Final = b"t\x00\x02[B"
_HANDLE: Final = 0x7E0000
_BLOCK_MAX: Final = 255


def log_references(counts: Mapping[int, int], before: bytes = b"") -> bytes:
    """``:log-refs``: how many entries refer to each file of the log.

    Args:
        counts: by the files' positions.
        before: what stood there, of which class version.
    """
    out = bytearray(_MAGIC)
    head = _INT.pack(len(counts))
    for n, (position, count) in enumerate(counts.items()):
        out += _block(head + _LONG.pack(position))
        out += b"\x73" + (_reference(0) if n else _class(_COUNTER, b"\x00\x01J\x00\x05value", before))
        out += _LONG.pack(count)
        head = b""
    return bytes(out + _block(head))


def collection_meta(collections: Iterable[tuple[int, int, int | None]], before: bytes = b"") -> bytes:
    """``:collection-meta``: of each collection its key, how many entries it has, and its last sequence.

    Args:
        collections: the last sequence is None if there never was one.
        before: what stood there, of which class version.
    """
    listed = list(collections)
    out = bytearray(_MAGIC)
    head, handle, bytes_class = _INT.pack(len(listed)), 2, 0
    for n, (key, size, last) in enumerate(listed):
        out += _block(head + _LONG.pack(key))
        fields = b"\x00\x02J\x00\x04size[\x00\x08last_key" + _BYTES_TYPE
        out += b"\x73" + (_reference(0) if n else _class(_META, fields, before)) + _LONG.pack(size)
        handle += 1
        head = b""
        if last is None:
            out += b"\x70"
            continue
        out += b"\x75" + (_reference(bytes_class) if bytes_class else _BYTES_CLASS)
        if not bytes_class:
            bytes_class, handle = handle, handle + 1
        handle += 1
        out += _INT.pack(_LONG.size) + _LONG.pack(last)
    return bytes(out + _block(head))


def log_positions(positions: Iterable[int]) -> bytes:
    """``:logs``: the positions of the files of the log."""
    listed = list(positions)
    return _MAGIC + _block(_INT.pack(len(listed)) + b"".join(map(_LONG.pack, listed)))


def _block(data: bytes) -> bytes:
    parts = [data[o : o + _BLOCK_MAX] for o in range(0, len(data), _BLOCK_MAX)]
    return b"".join(b"\x77" + bytes((len(part),)) + part for part in parts)


def _class(name: str, fields: bytes, before: bytes) -> bytes:
    text = name.encode()
    found = before.find(text)
    uid = before[found + len(text) : found + len(text) + 8] if found >= 0 else b""
    return b"\x72" + _SHORT.pack(len(text)) + text + (uid if len(uid) == 8 else _UIDS[name]) + b"\x02" + fields + b"xp"


def _reference(handle: int) -> bytes:
    return b"\x71" + _INT.pack(_HANDLE + handle)
