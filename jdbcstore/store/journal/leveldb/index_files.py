"""The files of a LevelDB database: logs of blocks, batches, version edits, sorted tables. Read, and written as logs.

Source: LevelDB's ``log_format.md``, ``table_format.md`` and ``impl.md``. A database whose tables were never compacted
is nothing but a log, so whoever writes one needs no tables.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from jdbcstore.store.journal.leveldb import snappy
from jdbcstore.store.journal.leveldb.crc32c import masked
from jdbcstore.store.journal.leveldb.varints import Malformed, read_varint, varint

__all__ = ["VersionEdit", "batch", "batch_entries", "log_records", "table_entries", "written_log"]

_BLOCK_BYTES: Final = 32768
_HEADER: Final = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_BATCH: Final = struct.Struct("<QI")
_PUT: Final = 1
_COMPARATOR: Final = b"leveldb.BytewiseComparator"
_FOOTER_BYTES: Final = 48
_MAGIC: Final = struct.pack("<Q", 0xDB4775248B80FB57)
_TRAILER_BYTES: Final = 5
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")


# -- logs --------------------------------------------------------------------------------------------------------------


def log_records(data: bytes, name: str) -> Iterator[bytes]:
    """The records of a log up to a torn end.

    Raises:
        Malformed: a record does not fit its checksum although others follow.
    """
    parts: list[bytes] = []
    o, size = 0, len(data)
    while o + _HEADER.size <= size:
        room = _BLOCK_BYTES - o % _BLOCK_BYTES
        if room < _HEADER.size:
            o += room
            continue
        checksum, length, kind = _HEADER.unpack_from(data, o)
        end = o + _HEADER.size + length
        if not kind and not length:
            o += room  # made ahead
            continue
        if end > size:
            return
        body = data[o + _HEADER.size : end]
        if masked(data[o + 6 : end]) != checksum:
            if end + _HEADER.size >= size:
                return
            raise Malformed(f"{name}:{o}: a record does not fit its checksum")
        if kind in (_FULL, _FIRST):
            parts = []
        parts.append(body)
        if kind in (_FULL, _LAST):
            yield b"".join(parts)
            parts = []
        o = end


def written_log(records: Iterable[bytes]) -> bytes:
    """A log of these records."""
    out = bytearray()
    for record in records:
        o, is_first = 0, True
        while is_first or o < len(record):
            room = _BLOCK_BYTES - len(out) % _BLOCK_BYTES
            if room < _HEADER.size:
                out += bytes(room)
                continue
            piece = record[o : o + room - _HEADER.size]
            o += len(piece)
            is_last = o == len(record)
            kind = (_FULL if is_last else _FIRST) if is_first else (_LAST if is_last else _MIDDLE)
            checked = bytes((kind,)) + piece
            out += _HEADER.pack(masked(checked), len(piece), kind) + piece
            is_first = False
    return bytes(out)


def batch_entries(data: bytes) -> Iterator[tuple[int, bytes, bytes | None]]:
    """What a batch writes: number, key, and value, None if the key is deleted. Raises `Malformed`."""
    if len(data) < _BATCH.size:
        raise Malformed("a batch is too short")
    sequence, count = _BATCH.unpack_from(data)
    o = _BATCH.size
    for number in range(sequence, sequence + count):
        if o >= len(data):
            raise Malformed("a batch ends before its count")
        is_put = data[o] == _PUT
        key, o = _slice(data, o + 1)
        value: bytes | None = None
        if is_put:
            value, o = _slice(data, o)
        yield number, key, value


def batch(sequence: int, entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A batch that puts entries."""
    body, count = bytearray(), 0
    for key, value in entries:
        body += b"\x01" + varint(len(key)) + key + varint(len(value)) + value
        count += 1
    return _BATCH.pack(sequence, count) + bytes(body)


def _slice(data: bytes, o: int) -> tuple[bytes, int]:
    length, o = read_varint(data, o)
    if o + length > len(data):
        raise Malformed("a text goes beyond its record")
    return data[o : o + length], o + length


# -- versions ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class VersionEdit:
    """What a manifest says: which logs and tables there are. Edits are added up."""

    log_number: int = 0
    previous_log_number: int = 0
    next_file: int = 0
    last_sequence: int = 0
    tables: set[int] = field(default_factory=set)

    def take(self, data: bytes) -> None:
        """One more edit. Raises `Malformed`."""
        o = 0
        while o < len(data):
            tag, o = read_varint(data, o)
            if tag == 1:
                name, o = _slice(data, o)
                if name != _COMPARATOR:
                    raise Malformed(f"the keys are in another order: {name!r}")
            elif tag == 2:
                self.log_number, o = read_varint(data, o)
            elif tag == 9:
                self.previous_log_number, o = read_varint(data, o)
            elif tag == 3:
                self.next_file, o = read_varint(data, o)
            elif tag == 4:
                self.last_sequence, o = read_varint(data, o)
            elif tag == 5:
                _, o = read_varint(data, o)
                _, o = _slice(data, o)
            elif tag == 6:
                _, o = read_varint(data, o)
                number, o = read_varint(data, o)
                self.tables.discard(number)
            elif tag == 7:
                _, o = read_varint(data, o)
                number, o = read_varint(data, o)
                _, o = read_varint(data, o)
                _, o = _slice(data, o)
                _, o = _slice(data, o)
                self.tables.add(number)
            else:
                raise Malformed(f"a version edit with the tag {tag}")

    def written(self) -> bytes:
        """One edit of a database without tables."""
        return (
            b"\x01" + varint(len(_COMPARATOR)) + _COMPARATOR
            + b"\x02" + varint(self.log_number)
            + b"\x09" + varint(self.previous_log_number)
            + b"\x03" + varint(self.next_file)
            + b"\x04" + varint(self.last_sequence)
        )  # fmt: skip


# -- tables ------------------------------------------------------------------------------------------------------------


def table_entries(data: bytes, name: str) -> Iterator[tuple[int, bytes, bytes | None]]:
    """The entries of a sorted table: number, key, and value, None if the key is deleted.

    Raises:
        Malformed: it is none, or damaged.
    """
    if len(data) < _FOOTER_BYTES or data[-8:] != _MAGIC:
        raise Malformed(f"{name}: no table, or not all of it")
    footer = data[-_FOOTER_BYTES:]
    o = 0
    for _ in range(2):  # the metaindex first
        _, o = read_varint(footer, o)
        _, o = read_varint(footer, o)
    _, o = read_varint(footer, 0)
    _, o = read_varint(footer, o)
    for _, handle in _block_entries(_block(data, footer, o, name)):
        for key, value in _block_entries(_block(data, handle, 0, name)):
            if len(key) < _U64.size:
                raise Malformed(f"{name}: a key is too short")
            tail = _U64.unpack_from(key, len(key) - _U64.size)[0]
            yield tail >> 8, key[: -_U64.size], value if tail & 0xFF == _PUT else None


def _block(data: bytes, handle: bytes, o: int, name: str) -> bytes:
    start, o = read_varint(handle, o)
    length, _ = read_varint(handle, o)
    end = start + length
    if end + _TRAILER_BYTES > len(data):
        raise Malformed(f"{name}:{start}: a block goes beyond the table")
    if masked(data[start : end + 1]) != _U32.unpack_from(data, end + 1)[0]:
        raise Malformed(f"{name}:{start}: a block does not fit its checksum")
    if data[end] == 1:
        return snappy.decompress(data[start:end])
    if data[end]:
        raise Malformed(f"{name}:{start}: a block that is packed in an unknown way ({data[end]})")
    return data[start:end]


def _block_entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    if len(block) < _U32.size:
        raise Malformed("a block is too short")
    end = len(block) - _U32.size * (1 + _U32.unpack_from(block, len(block) - _U32.size)[0])
    o, key = 0, b""
    while o < end:
        shared, o = read_varint(block, o)
        rest, o = read_varint(block, o)
        length, o = read_varint(block, o)
        if shared > len(key) or o + rest + length > end:
            raise Malformed("an entry goes beyond its block")
        key = key[:shared] + block[o : o + rest]
        o += rest
        yield key, block[o : o + length]
        o += length
