"""The journal of a KahaDB directory: files of batches of records, and what is wrong with them.

A file ``db-<n>.log`` is a run of batches, a batch what one disk write carried: a control record of 28 bytes and the
records it announces, under one Adler-32 checksum. Behind the last batch stands the end record, or zeros in files of
brokers before 5.14. Files may be much longer than what is in them, are read in the order of their numbers, and have
gaps, because a broker deletes those that it needs no more. All numbers are big-endian.

Damage never stops the reading. A batch that is not what it should be is left out whole and listed, and reading goes on
at the next one: where the damaged batch ends if that can be told, else at the next control record that is found. What
the reader leaves out is what a broker started with ``checkForCorruptJournalFiles`` and ``ignoreMissingJournalfiles``
leaves out. (By default a broker checks only the last file, and delivers damaged messages of the others.) In the last
file a damaged last batch is no accident: the broker was killed while it wrote.

Source of the format: journals of ActiveMQ 5.17.2.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias

from jdbcstore.errors import JournalDamaged, StoreError
from jdbcstore.message import Message
from jdbcstore.store.kahadb.commands import COMMANDS, AddMessage, Command, UpdateMessage
from jdbcstore.store.kahadb.decoding import READERS, Malformed, varint

__all__ = ["Batch", "Damage", "Journal", "JournalFile", "Location", "Record"]

#: Bytes that are read at once; a larger batch is read whole.
CHUNK_BYTES: Final = 4 << 20
#: More damages of one file are counted, not listed.
DAMAGES_MAX: Final = 10_000

_CONTROL_HEAD: Final = b"\x00\x00\x00\x1c\x02WRITE BATCH"
_CONTROL: Final = struct.Struct(">16siq")
_END_RECORD: Final = b"-qMa4"
_NO_RECORD: Final = bytes(5)
_RECORD: Final = struct.Struct(">ibb")
_USER_RECORD: Final = 1
#: Size, type, number of the command, length of the command.
_RECORD_LEAST: Final = 7

_FILE_NAME: Final = re.compile(r"db-(\d{1,10})\.log", re.ASCII)
_FILE_NUMBER_MAX: Final = (1 << 31) - 1


class Location(NamedTuple):
    """Where a record stands. Locations are in the order in which the records were written."""

    file: int
    offset: int
    size: int
    """Its bytes, the header included."""

    def __str__(self) -> str:
        return f"db-{self.file}.log:{self.offset}"


class Damage(NamedTuple):
    """Bytes of a file that were left out, or a record that cannot be what it says."""

    file: int
    offset: int
    end: int
    what: str
    """One clause for people."""
    at_the_end: bool = False
    """Whether no batch follows in this file; in the last file that is what a kill leaves behind."""

    def __str__(self) -> str:
        return f"db-{self.file}.log:{self.offset}-{self.end}: {self.what}"


class Batch(NamedTuple):
    """Records that were written together; intact, as far as a checksum tells."""

    offset: int
    """Of its control record in the file."""
    data: bytes
    start: int
    """Where in `data` the records begin."""
    end: int


#: What `JournalFile.records` gives.
Record: TypeAlias = tuple[Location, Command]


class JournalFile:
    """One file, read on its own from its beginning to its end.

    Args:
        source: the bytes, seekable.
        number: the file's, the first part of all locations.
        chunk_bytes: how much is read at once.
    """

    def __init__(self, source: BinaryIO, number: int, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.number: Final = number
        #: What was found so far; complete when the reading is.
        self.damages: list[Damage] = []
        #: Damages that are not listed, because there are too many.
        self.damages_unlisted = 0
        #: Where the next batch would be written: behind the last one that was read.
        self.append_offset = 0
        self._source = source
        self._chunk_bytes = chunk_bytes

    # -- batches -------------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[Batch]:
        """All batches, each checked before it is given out.

        Raises:
            StoreError: the file cannot be read.
        """
        self.damages, self.damages_unlisted, self.append_offset = [], 0, 0
        window = _Window(self._source, self.number, self._chunk_bytes)
        size, control, adler32 = window.size, _CONTROL, zlib.adler32
        data, base, o = window.data, 0, 0
        view = memoryview(data)
        while True:
            if o + control.size > len(data):
                data, base, o = window.at(base + o, control.size)
                view = memoryview(data)
                if o + control.size > len(data):
                    break
            head, length, checksum = control.unpack_from(data, o)
            if head == _CONTROL_HEAD and 0 < length <= size - base - o - control.size:
                start = o + control.size
                end = start + length
                if end > len(data):
                    data, base, o = window.at(base + o, control.size + length)
                    view = memoryview(data)
                    start, end = o + control.size, o + control.size + length
                    if end > len(data):
                        break  # the file has become shorter
                # 0 stands for no checksum, or for the rest of a batch that never reached the disk.
                if adler32(view[start:end]) == checksum if checksum > 0 else data[start : start + 5] != _NO_RECORD:
                    self.append_offset = base + end
                    yield Batch(base + o, data, start, end)
                    o = end
                    continue
            if self._is_end(data[o : o + 5], head, length):
                return
            found = self._behind(window, base + o)
            if found is None:
                return
            data, base, o = window.at(found, control.size)
            view = memoryview(data)
        self._tail(window, base + o)

    @staticmethod
    def _is_end(first: bytes, head: bytes, length: int) -> bool:
        return first == _END_RECORD or (head == _CONTROL_HEAD and length == 0)

    def _behind(self, window: _Window, offset: int) -> int | None:
        """Note that the batch at this offset is damaged; the offset of the next one."""
        head: bytes
        length: int
        head, length, checksum = _CONTROL.unpack(window.peek(offset, _CONTROL.size))
        remaining = window.size - offset - _CONTROL.size
        if head == _CONTROL_HEAD:
            what = "a batch with a wrong checksum" if checksum else "a batch of zeros"
            if not 0 <= length <= remaining:
                what = f"a batch of {length} bytes where {remaining} remain"
        else:
            what = "no batch begins here"
        # A message may contain a whole journal. So a control record is looked for behind the batch first.
        if 0 < length <= remaining:
            behind = offset + _CONTROL.size + length
            follows = window.peek(behind, len(_CONTROL_HEAD))
            if follows == _CONTROL_HEAD:
                self._damaged(offset, behind, what)
                return behind
            if follows.startswith(_END_RECORD):
                self._damaged(offset, behind, what, at_the_end=True)
                return None
        found = window.find(_CONTROL_HEAD, offset + 1)
        if found is not None:
            self._damaged(offset, found, what)
        elif head != _CONTROL_HEAD and window.is_blank(offset):
            pass  # a file of an older broker, or one that is not used yet
        else:
            self._damaged(offset, window.size, what, at_the_end=True)
        return found

    def _tail(self, window: _Window, offset: int) -> None:
        """The file ends with fewer bytes than a control record has."""
        rest = window.peek(offset, _CONTROL.size)
        if rest and not _END_RECORD.startswith(rest[:5]) and rest.strip(b"\x00"):
            self._damaged(offset, window.size, "a batch that was cut off", at_the_end=True)

    def _damaged(self, offset: int, end: int, what: str, at_the_end: bool = False) -> None:
        last = self.damages[-1] if self.damages else None
        if last is not None and last.end == offset and last.what == what:
            self.damages[-1] = last._replace(end=end, at_the_end=at_the_end)
        elif len(self.damages) < DAMAGES_MAX:
            self.damages.append(Damage(self.number, offset, end, what, at_the_end))
        else:
            self.damages_unlisted += 1

    # -- records -------------------------------------------------------------------------------------------------

    def records(self) -> Iterator[Record]:
        """All records of all intact batches, in their order. One that is no command is listed as damage.

        Raises:
            StoreError: the file cannot be read.
        """
        number, readers, new, unpack = self.number, READERS, tuple.__new__, _RECORD.unpack_from
        commands = len(readers)
        for offset, data, o, end in self.batches():
            base = offset + _CONTROL.size - o
            while end - o >= _RECORD_LEAST:
                size, kind, code = unpack(data, o)
                stop = o + size
                if size < _RECORD_LEAST or stop > end:
                    break
                try:
                    if kind != _USER_RECORD or not 0 <= code < commands:
                        raise Malformed(_unknown(kind, code))
                    length = data[o + 6]
                    start = o + 7
                    if length > 127:
                        length, start = _long_length(data, o + 6, stop)
                    if start + length != stop:
                        raise Malformed(f"a command of {length} bytes in {stop - start}")
                    command = readers[code](data, start, stop)
                except Malformed as error:
                    name = f" ({COMMANDS[code].__name__})" if kind == _USER_RECORD and 0 <= code < commands else ""
                    self._damaged(base + o, base + stop, f"a record that cannot be read{name}: {error}")
                else:
                    yield new(Location, (number, base + o, size)), command
                o = stop
            if o != end:
                self._damaged(base + o, base + end, "a record that does not fit into its batch")


def _long_length(data: bytes, o: int, stop: int) -> tuple[int, int]:
    try:
        length, size = varint(data[o:stop], 0)
    except IndexError:
        raise Malformed("it ends within its length") from None
    return length, o + size


def _unknown(kind: int, code: int) -> str:
    if kind != _USER_RECORD:
        return f"a record of type {kind}"
    return f"command {code} is unknown"


class _Window:
    """A file's bytes, a few MiB at a time. It only goes forward, but for what `peek` and `find` look at."""

    def __init__(self, source: BinaryIO, number: int, chunk_bytes: int) -> None:
        self._source = source
        self._number = number
        self._chunk_bytes = max(chunk_bytes, _CONTROL.size)
        with _reading(f"db-{number}.log"):
            self.size = source.seek(0, 2)
        self.data = b""
        self._base = 0

    def at(self, offset: int, least: int) -> tuple[bytes, int, int]:
        """Data with `least` bytes at this offset, fewer if the file ends: data, its own offset, and where to look."""
        o = offset - self._base
        if not 0 <= o <= len(self.data) - least:
            self.data, self._base, o = self.peek(offset, max(least, self._chunk_bytes)), offset, 0
        return self.data, self._base, o

    def peek(self, offset: int, length: int) -> bytes:
        """The bytes at this offset, fewer if the file ends."""
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        with _reading(f"db-{self._number}.log"):
            self._source.seek(offset)
            return self._source.read(length)

    def find(self, what: bytes, offset: int) -> int | None:
        """The first place from this offset on where it stands."""
        if 0 <= offset - self._base <= len(self.data):
            found = self.data.find(what, offset - self._base)
            if found >= 0:
                return self._base + found
            offset = max(offset, self._base + len(self.data) - len(what) + 1)
        while offset < self.size:
            data = self.peek(offset, self._chunk_bytes + len(what))
            found = data.find(what)
            if found >= 0:
                return offset + found
            offset += self._chunk_bytes
        return None

    def is_blank(self, offset: int) -> bool:
        """Whether only zeros follow, and perhaps the end record in the last bytes, as in an unused file."""
        while offset < self.size:
            data = self.peek(offset, self._chunk_bytes)
            offset += self._chunk_bytes
            if offset >= self.size:
                data = data.removesuffix(_END_RECORD)
            if data.count(0) != len(data):
                return False
        return True


@contextmanager
def _reading(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot read {what}: {error.strerror or error}") from error


class Journal:
    """All files of a directory, in the order of their numbers. The index of the directory is not looked at.

    Args:
        directory: where the ``db-<n>.log`` are.

    Raises:
        StoreError: no such directory, or two files have one number.
    """

    def __init__(self, directory: Path | str) -> None:
        self.directory: Final = Path(directory)
        #: By number; those that are not empty.
        self.files: Final = _journal_files(self.directory)
        #: What was found so far; complete when `records` was read to its end.
        self.damages: list[Damage] = []
        self.damages_unlisted = 0

    def records(self, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Record]:
        """All records of all files, in their order.

        Raises:
            StoreError: a file cannot be read.
        """
        self.damages, self.damages_unlisted = [], 0
        for number, path in self.files.items():
            with _opened(path) as source:
                file = JournalFile(source, number, chunk_bytes=chunk_bytes)
                yield from file.records()
                self.damages += file.damages
                self.damages_unlisted += file.damages_unlisted

    def message(self, location: Location) -> Message:
        """The message that stands here, for instance that of a `jdbcstore.store.kahadb.state.StoredMessage`.

        Raises:
            JournalDamaged: there is no message at this place.
            CodecError: its bytes are none.
            StoreError: the file cannot be read.
        """
        command = self.read(location)
        add = command.message if isinstance(command, UpdateMessage) else command
        if not isinstance(add, AddMessage):
            raise JournalDamaged(f"{location}: no message, but a record of {type(command).__name__}")
        return add.unmarshal()

    def read(self, location: Location) -> Command:
        """One record.

        Raises:
            JournalDamaged: there is no such record at this place.
            StoreError: the file cannot be read.
        """
        path = self.files.get(location.file)
        if path is None:
            raise JournalDamaged(f"{location}: there is no such file in {self.directory}")
        with _opened(path) as source:
            window = _Window(source, location.file, location.size)
            data = window.peek(location.offset, location.size)
        # The record alone, dressed up as a file.
        alone = JournalFile(BytesIO(_CONTROL.pack(_CONTROL_HEAD, len(data), 0) + data), location.file)
        found = [command for _, command in alone.records()]
        if alone.damages or len(found) != 1 or len(data) != location.size:
            what = alone.damages[0].what if alone.damages else f"no record of {location.size} bytes"
            raise JournalDamaged(f"{location}: {what}")
        return found[0]


def _journal_files(directory: Path) -> dict[int, Path]:
    found: dict[int, Path] = {}
    with _reading(str(directory)):
        for path in directory.iterdir():
            match = _FILE_NAME.fullmatch(path.name)
            if match is None or int(match[1]) > _FILE_NUMBER_MAX or not path.is_file() or not path.stat().st_size:
                continue
            number = int(match[1])
            if number in found:
                raise StoreError(f"{path} and {found[number].name} have the same number: one of them is a copy")
            found[number] = path
    return dict(sorted(found.items()))


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with _reading(str(path)):
        source = path.open("rb")
    with source:
        yield source
