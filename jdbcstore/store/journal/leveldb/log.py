"""The files of a LevelDB log: their names, units of work, and where the last whole one ends.

A file is named by the *global position* of its first byte; positions go on from file to file. Records count once the
record that ends their unit of work is there, which names the position where the unit began. Behind the last unit stand
zeros, for files are made as long as they will become.

**What is whole.** ActiveMQ looks at the last file only, cuts it behind the last unit before the first byte that is
wrong, and believes everything else. Here every record is checked. A torn unit at the end is left out. A damaged record
in the middle is left out alone if the records around it can be told; where they cannot, the next whole unit is looked
for: it names its own position, so that a log inside of a message is not taken for one.
"""

from __future__ import annotations

import errno
import os
import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple
from zlib import crc32

from jdbcstore.store.journal.file_errors import reading
from jdbcstore.store.journal.journal_files import journal_files
from jdbcstore.store.journal.journal_format import BatchPlace, FramedBatch, Tail
from jdbcstore.store.journal.leveldb.records import (
    DATA,
    HEADER,
    HEADER_BYTES,
    SEQUENCE,
    UNIT_END,
    UPDATE_ENTRY,
    framed,
)

__all__ = [
    "FILE_PATTERN",
    "LevelDBFormat",
    "LogFlaw",
    "LogScan",
    "Record",
    "Unit",
    "content",
    "file_name",
    "file_number",
    "log_files",
]

FILE_PATTERN: Final = "*.log"
_NAME: Final = re.compile(r"([0-9a-fA-F]{16})\.log")
_POSITION_MAX: Final = (1 << 63) - 1
_FILE_BYTES_MAX: Final = (1 << 31) - 1
_END_BYTES: Final = HEADER_BYTES + SEQUENCE.size
#: Where a record may begin.
_START: Final = re.compile(rb"\*[\x01-\x07]")
_CHUNK_BYTES: Final = 1 << 16


def file_name(position: int) -> str:
    """The name of the file whose first byte has this position."""
    return f"{position:016x}.log"


def file_number(name: str) -> int | None:
    """The position of its first byte, None if it is no file of the log."""
    found = _NAME.fullmatch(name)
    return None if found is None else int(found[1], 16)


def log_files(directory: Path) -> dict[int, Path]:
    """The files of a log that are not empty, by position.

    Raises:
        StoreError: there is no such directory.
    """
    return journal_files(directory, file_number)


class LogFlaw(NamedTuple):
    """Bytes of a file that are left out."""

    file: int
    offset: int
    length: int
    what: str
    at_the_end: bool = False

    def __str__(self) -> str:
        return f"{file_name(self.file)}:{self.offset}: {self.what} ({self.length} bytes)"


class Record(NamedTuple):
    """A record of a whole unit. `data` is None for a message, which is read where it stands."""

    kind: int
    position: int
    data: bytes | None


class Unit(NamedTuple):
    """A whole unit of work: its first position, the one behind it, and its records."""

    start: int
    end: int
    records: list[Record]


class LogScan:
    """Reads one file, unit by unit.

    Args:
        data: of the whole file.
        base: its position.
        start: the offset of the first unit that is wanted; one begins there.
        is_last: whether nothing follows the file: then a damaged unit at its end was never finished.
    """

    def __init__(self, data: bytes, base: int, start: int = 0, *, is_last: bool = True) -> None:
        self.flaws: list[LogFlaw] = []
        #: Behind the last whole unit, and where that begins; -1 if there is none.
        self.end, self.last = start, -1
        self._data = data
        self._view = memoryview(data)
        self._base = base
        self._is_last = is_last
        self._used = _used(data)

    @property
    def is_blank_behind(self) -> bool:
        """Whether only zeros stand behind the last whole unit. After `units`."""
        return self.end >= self._used

    def units(self) -> Iterator[Unit]:
        """All whole units. What is left out is in `flaws` afterwards."""
        data, view, base, size = self._data, self._view, self._base, len(self._data)
        unpack, begins, used, made = HEADER.unpack_from, SEQUENCE.unpack_from, self._used, tuple.__new__
        o = begun = self.end
        records: list[Record] = []
        damaged: list[LogFlaw] = []
        #: Damaged units that nothing whole follows: whether they are the end of the log must not depend on what is cut.
        held: list[tuple[Unit, list[LogFlaw]]] = []
        while o < used:
            try:
                star, kind, checksum, length = unpack(data, o)
            except struct.error:
                star, kind, checksum, length = b"", 0, 0, -1
            end = o + HEADER_BYTES + length
            is_framed = star == b"*" and length >= 0 and end <= size and UNIT_END <= kind <= UPDATE_ENTRY and kind
            is_right = is_framed and crc32(view[o + HEADER_BYTES : end]) == checksum
            if not is_right and not (is_framed and self._goes_on(kind, end)):
                found = self._next_unit(max(o, begun) + 1)
                if found is None:
                    break
                self._leave_out(begun, found, "damaged: what was written here cannot be read")
                o = begun = found
                records, damaged = [], []
                continue
            if kind != UNIT_END:
                if not is_right:
                    damaged.append(LogFlaw(base, o, end - o, "a record does not fit its checksum"))
                elif kind == DATA:
                    records.append(made(Record, (kind, base + o, None)))
                else:
                    records.append(made(Record, (kind, base + o, data[o + HEADER_BYTES : end])))
                o = end
                continue
            if is_right and length == SEQUENCE.size and begins(data, o + HEADER_BYTES)[0] == base + begun:
                start = begun
            else:
                start = self._unit_start(o, end, checksum, begun, damaged)
            if start != begun:
                self._leave_out(begun, start, "a unit of work without its end")
                records = [record for record in records if record.position >= base + start]
            unit = Unit(base + start, base + end, records)
            if damaged:
                held.append((unit, damaged))
            else:
                for one in held:
                    yield self._take(*one)
                held = []
                self.last, self.end = start, end
                yield unit
            o = begun = end
            records, damaged = [], []
        if held and self._is_last:
            begun = held[0][0].start - base
        else:
            for one in held:
                yield self._take(*one)
        if begun < self._used:
            what = "a unit of work without its end"
            self.flaws.append(LogFlaw(base, begun, self._used - begun, what, at_the_end=True))

    def _take(self, unit: Unit, damaged: Sequence[LogFlaw]) -> Unit:
        self.flaws += damaged
        self.last, self.end = unit.start - self._base, unit.end - self._base
        return unit

    def _leave_out(self, start: int, end: int, what: str) -> None:
        self.flaws.append(LogFlaw(self._base, start, end - start, what))

    def _goes_on(self, kind: int, end: int) -> bool:
        """Whether a record that does not fit its checksum is as long as it says: another one follows."""
        data = self._data
        if end >= self._used:
            return False
        return data[end : end + 1] == b"*" and (kind == UNIT_END or end + HEADER_BYTES <= len(data))

    def _unit_start(self, o: int, end: int, checksum: int, begun: int, damaged: list[LogFlaw]) -> int:
        """The offset where the unit began whose last record stands at `o`."""
        body = self._view[o + HEADER_BYTES : end]
        if crc32(body) != checksum or len(body) != SEQUENCE.size:
            damaged.append(LogFlaw(self._base, o, end - o, "the end of a unit of work does not fit its checksum"))
            return begun
        start = int(SEQUENCE.unpack(body)[0]) - self._base
        return start if begun <= start <= o else begun

    def _next_unit(self, o: int) -> int | None:
        """Where the next whole unit begins, at this offset or behind it."""
        for found in _START.finditer(self._data, o, self._used):
            if self._is_whole(found.start()):
                return found.start()
        return None

    def _is_whole(self, start: int) -> bool:
        o, size = start, len(self._data)
        while o + HEADER_BYTES <= size:
            star, kind, checksum, length = HEADER.unpack_from(self._data, o)
            end = o + HEADER_BYTES + length
            if star != b"*" or length < 0 or end > size or crc32(self._view[o + HEADER_BYTES : end]) != checksum:
                return False
            if kind == UNIT_END:
                body = self._view[o + HEADER_BYTES : end]
                return len(body) == SEQUENCE.size and SEQUENCE.unpack(body)[0] == self._base + start
            o = end
        return False


def _used(data: bytes) -> int:
    """Behind the last byte that is not zero, and perhaps a few zeros that belong to it."""
    end = len(data)
    while end > 0:
        start = max(0, end - _CHUNK_BYTES)
        left = data[start:end].rstrip(b"\0")
        if left:
            return start + len(left)
        end = start
    return 0


def content(source: BinaryIO) -> bytes:
    """What stands in a file, without the zeros at its end. Files are made long, with holes that need not be read.

    Raises:
        OSError: as the system does.
    """
    end = _end_of_data(source) + SEQUENCE.size  # a unit may end in zeros
    source.seek(0)
    return source.read(end)


def _end_of_data(source: BinaryIO) -> int:
    """Behind the last stretch of the file in which anything but zeros stands; perhaps later."""
    size = source.seek(0, os.SEEK_END)
    try:
        descriptor = source.fileno()
    except OSError:  # not of a disk
        return size
    end = o = 0
    while o < size:
        try:
            start = os.lseek(descriptor, o, os.SEEK_DATA)
            o = os.lseek(descriptor, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                break
            return size  # the file system does not tell
        if o - start > _CHUNK_BYTES or any(os.pread(descriptor, o - start, start)):
            end = o
    return end


class LevelDBFormat:
    """The log as the engine writes it; as `jdbcstore.store.journal.journal_format.JournalFormat`. Its numbers are
    positions."""

    file_pattern: Final = FILE_PATTERN
    number_max: Final = _POSITION_MAX
    file_bytes_max: Final = _FILE_BYTES_MAX
    end_mark: Final = b""
    ends_with_data: Final = False
    #: Their names are positions, which may lie before a snapshot, or not where the log ends.
    uses_blank_files: Final = False
    file_head: Final = b""

    def __init__(self) -> None:
        #: Where the newest snapshot stands: what is written before that may never be read again.
        self.least = 0

    def file_name(self, number: int) -> str:
        """As `file_name`."""
        return file_name(number)

    def file_number(self, name: str) -> int | None:
        """As `file_number`."""
        return file_number(name)

    def next_number(self, highest: int, number: int, end: int) -> int:
        """The position behind the last unit, or that of the snapshot if the log ends before it."""
        return max(number + end, self.least)

    def batch_size(self, payloads: Sequence[bytes]) -> int:
        """Records as they are, and the end of the unit."""
        return sum(map(len, payloads)) + _END_BYTES

    def batch(self, payloads: Sequence[bytes], size: int, number: int, offset: int) -> FramedBatch[int]:
        """One unit of work. The payloads are framed records."""
        position = number + offset
        locations: list[int] = []
        place = position
        for payload in payloads:
            locations.append(place)
            place += len(payload)
        data = bytearray().join([*payloads, framed(UNIT_END, SEQUENCE.pack(position))])
        return FramedBatch(data, locations, crc32(data))

    def tail(self, source: BinaryIO, number: int) -> Tail:
        """Its last whole unit. Every broker goes on in a new file."""
        with reading(file_name(number)):
            data = content(source)
        scan = LogScan(data, number)
        for _ in scan.units():
            pass
        last = None
        if scan.last >= 0:
            last = BatchPlace(number, scan.last, crc32(memoryview(data)[scan.last : scan.end]))
        return Tail(scan.end, last, tuple(scan.flaws), scan.is_blank_behind, scan.end > 0 or number < self.least)

    def end_from(self, source: BinaryIO, number: int, start: int) -> int:
        """Where units end that follow each other from one on."""
        with reading(file_name(number)):
            scan = LogScan(content(source), number, start)
        for _ in scan.units():
            pass
        return scan.end
