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
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias

from jdbcstore.errors import JournalDamaged
from jdbcstore.message import Message
from jdbcstore.store.journal.file_errors import reading
from jdbcstore.store.journal.file_window import FileWindow
from jdbcstore.store.journal.journal_files import journal_files
from jdbcstore.store.journal.kahadb.commands import COMMANDS, AddMessage, Command, UpdateMessage
from jdbcstore.store.journal.kahadb.decoding import READERS, Malformed, varint

__all__ = [
    "CONTROL",
    "CONTROL_HEAD",
    "END_RECORD",
    "FILE_NUMBER_MAX",
    "FILE_PATTERN",
    "USER_RECORD",
    "AnyJournal",
    "Batch",
    "Damage",
    "Journal",
    "JournalFile",
    "Location",
    "Record",
    "file_name",
    "file_number",
    "up_to",
]

#: Bytes that are read at once; a larger batch is read whole.
CHUNK_BYTES: Final = 4 << 20
#: Bytes that are read at once where only control records are looked at.
_STRIDE_BYTES: Final = 64 << 10
#: More damages of one file are counted, not listed.
DAMAGES_MAX: Final = 10_000

#: How a control record begins.
CONTROL_HEAD: Final = b"\x00\x00\x00\x1c\x02WRITE BATCH"
#: A control record: how it begins, the bytes of its records, their checksum.
CONTROL: Final = struct.Struct(">16siq")
#: Stands behind the last batch of a file.
END_RECORD: Final = b"-qMa4"
_NO_RECORD: Final = bytes(5)
_RECORD: Final = struct.Struct(">ibb")
#: The type of all records but control and end records.
USER_RECORD: Final = 1
#: Size, type, number of the command, length of the command.
_RECORD_LEAST: Final = 7
_COMMANDS: Final = len(COMMANDS)

_FILE_NAME: Final = re.compile(r"db-(\d{1,10})\.log", re.ASCII)
#: Journal files, with wildcards.
FILE_PATTERN: Final = "db-*.log"
#: Numbers of files are ints of Java.
FILE_NUMBER_MAX: Final = (1 << 31) - 1


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
    """One file, read on its own from its beginning to its end, or a part of it.

    Args:
        source: the bytes, seekable.
        number: the file's, the first part of all locations.
        chunk_bytes: how much is read at once.
        start: where to begin, 0 or one of `starts`.
        stop: where to stop, one of `starts`; None for the end.
    """

    def __init__(
        self,
        source: BinaryIO,
        number: int,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        start: int = 0,
        stop: int | None = None,
    ) -> None:
        self.number: Final = number
        #: What was found so far; complete when the reading is.
        self.damages: list[Damage] = []
        #: Damages that are not listed, because there are too many.
        self.damages_unlisted = 0
        #: Where the next batch would be written: behind the last one that was read.
        self.append_offset = start
        self._source = source
        self._chunk_bytes = chunk_bytes
        self._start = start
        self._stop = stop
        self._window: FileWindow | None = None

    # -- batches -------------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[Batch]:
        """All batches, each checked before it is given out.

        Raises:
            StoreError: the file cannot be read.
        """
        self.damages, self.damages_unlisted, self.append_offset = [], 0, self._start
        window = self._new_window(self._chunk_bytes)
        size, control, adler32 = window.size, CONTROL, zlib.adler32
        stop = size if self._stop is None else min(self._stop, size)
        data, base, o = window.data, self._start, 0
        view = memoryview(data)
        while base + o < stop:
            if o + control.size > len(data):
                data, base, o = window.at(base + o, control.size)
                view = memoryview(data)
                if o + control.size > len(data):
                    break
            head, length, checksum = control.unpack_from(data, o)
            if head == CONTROL_HEAD and 0 < length <= size - base - o - control.size:
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
        if base + o < stop:
            self._tail(window, base + o)

    def is_blank_behind(self) -> bool:
        """Whether nothing stands behind `append_offset`, once all batches were read: no leftovers of any batch.

        Raises:
            StoreError: the file cannot be read.
        """
        window = self._new_window(self._chunk_bytes)
        offset = self.append_offset
        if window.peek(offset, len(END_RECORD)) == END_RECORD:
            offset += len(END_RECORD)
        return window.is_blank(offset, END_RECORD)

    def starts(self, distance: int) -> list[int]:
        """Offsets at which a file may be cut: its parts together give the records and the damages of the whole.

        A message may contain a whole journal, so no search for a control record finds where a batch begins. This goes
        from batch to batch as `batches` does. It reads control records only: where the next batch follows at once,
        `batches` goes on there whatever the checksum says. A cut is made behind an intact batch, so no damage is cut.

        Args:
            distance: the least number of bytes from one to the next.

        Returns:
            Ascending, the first is 0.

        Raises:
            StoreError: the file cannot be read.
        """
        found, o = [0], 0
        window = self._new_window(_STRIDE_BYTES)
        while True:
            data, _, at = window.at(o, CONTROL.size)
            if at + CONTROL.size <= len(data):
                head, length, _ = CONTROL.unpack_from(data, at)
                behind = o + CONTROL.size + length
                if head == CONTROL_HEAD and length > 0 and behind < found[-1] + distance:
                    data, _, at = window.at(behind, len(CONTROL_HEAD))
                    if data.startswith(CONTROL_HEAD, at):
                        o = behind
                        continue
            rest = JournalFile(self._source, self.number, chunk_bytes=_STRIDE_BYTES, start=o)
            batch = next(rest.batches(), None)
            if batch is None:
                return found
            o = rest.append_offset
            if o >= found[-1] + distance:
                found.append(o)

    def _new_window(self, chunk_bytes: int) -> FileWindow:
        return FileWindow(self._source, file_name(self.number), max(chunk_bytes, CONTROL.size))

    @staticmethod
    def _is_end(first: bytes, head: bytes, length: int) -> bool:
        return first == END_RECORD or (head == CONTROL_HEAD and length == 0)

    def _behind(self, window: FileWindow, offset: int) -> int | None:
        """Note that the batch at this offset is damaged; the offset of the next one."""
        head: bytes
        length: int
        head, length, checksum = CONTROL.unpack(window.peek(offset, CONTROL.size))
        remaining = window.size - offset - CONTROL.size
        if head == CONTROL_HEAD:
            what = "a batch with a wrong checksum" if checksum else "a batch of zeros"
            if not 0 <= length <= remaining:
                what = f"a batch of {length} bytes where {remaining} remain"
        else:
            what = "no batch begins here"
        # A message may contain a whole journal. So a control record is looked for behind the batch first.
        if 0 < length <= remaining:
            behind = offset + CONTROL.size + length
            follows = window.peek(behind, len(CONTROL_HEAD))
            if follows == CONTROL_HEAD:
                self._damaged(offset, behind, what)
                return behind
            if follows.startswith(END_RECORD):
                self._damaged(offset, behind, what, at_the_end=True)
                return None
        found = window.find(CONTROL_HEAD, offset + 1)
        if found is not None:
            self._damaged(offset, found, what)
        elif head != CONTROL_HEAD and window.is_blank(offset, END_RECORD):
            pass  # a file of an older broker, or one that is not used yet
        else:
            self._damaged(offset, window.size, what, at_the_end=True)
        return found

    def _tail(self, window: FileWindow, offset: int) -> None:
        """The file ends with fewer bytes than a control record has."""
        rest = window.peek(offset, CONTROL.size)
        if rest and not END_RECORD.startswith(rest[:5]) and rest.strip(b"\x00"):
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
        number, new, unpack, read = self.number, tuple.__new__, _RECORD.unpack_from, _command
        for offset, data, o, end in self.batches():
            base = offset + CONTROL.size - o
            while end - o >= _RECORD_LEAST:
                size, kind, code = unpack(data, o)
                stop = o + size
                if size < _RECORD_LEAST or stop > end:
                    break
                try:
                    command = read(data, o, stop, kind, code)
                except Malformed as error:
                    self._damaged(base + o, base + stop, f"a record that cannot be read{error}")
                else:
                    yield new(Location, (number, base + o, size)), command
                o = stop
            if o != end:
                self._damaged(base + o, base + end, "a record that does not fit into its batch")

    def read(self, location: Location) -> Command:
        """One record of this file. Many are read fastest in the order of their offsets.

        Raises:
            JournalDamaged: there is no such record at this place.
            StoreError: the file cannot be read.
        """
        if self._window is None:
            self._window = self._new_window(self._chunk_bytes)
        data, _, o = self._window.at(location.offset, location.size)
        return command_at(data, o, location)


def command_at(data: bytes, o: int, location: Location) -> Command:
    """The command of a record that was read.

    Args:
        data: with the record in it.
        o: where the record begins in it.
        location: of the record.

    Raises:
        JournalDamaged: there is no such record at this place.
    """
    stop = o + location.size
    if o + _RECORD_LEAST > len(data):
        raise JournalDamaged(f"{location}: no record of {location.size} bytes")
    size, kind, code = _RECORD.unpack_from(data, o)
    if size != location.size or size < _RECORD_LEAST or stop > len(data):
        raise JournalDamaged(f"{location}: a record that does not fit into {location.size} bytes")
    try:
        return _command(data, o, stop, kind, code)
    except Malformed as error:
        raise JournalDamaged(f"{location}: a record that cannot be read{error}") from None


def _command(data: bytes, o: int, stop: int, kind: int, code: int) -> Command:
    """The command of a record of at least `_RECORD_LEAST` bytes from `o` to `stop`."""
    if kind != USER_RECORD:
        raise Malformed(f": a record of type {kind}")
    if not 0 <= code < _COMMANDS:
        raise Malformed(f": command {code} is unknown")
    try:
        length = data[o + 6]
        start = o + 7
        if length > 127:
            length, start = _long_length(data, o + 6, stop)
        if start + length != stop:
            raise Malformed(f"a command of {length} bytes in {stop - start}")
        return READERS[code](data, start, stop)
    except Malformed as error:
        raise Malformed(f" ({COMMANDS[code].__name__}): {error}") from None


def _long_length(data: bytes, o: int, stop: int) -> tuple[int, int]:
    try:
        length, size = varint(data[o:stop], 0)
    except IndexError:
        raise Malformed("it ends within its length") from None
    return length, o + size


class AnyJournal(ABC):
    """Files of a journal in the order of their numbers, wherever they are."""

    #: By number; those that are not empty.
    files: Mapping[int, object]
    #: What was found so far; complete when `records` was read to its end.
    damages: list[Damage]
    damages_unlisted: int

    @abstractmethod
    def opened(self, number: int) -> AbstractContextManager[BinaryIO]:
        """The file of this number, seekable.

        Raises:
            StoreError: it cannot be opened.
        """

    def records(self, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Record]:
        """All records of all files, in their order.

        Raises:
            StoreError: a file cannot be read.
        """
        self.damages, self.damages_unlisted = [], 0
        for number in self.files:
            with self.opened(number) as source:
                file = JournalFile(source, number, chunk_bytes=chunk_bytes)
                yield from file.records()
                self.damages += file.damages
                self.damages_unlisted += file.damages_unlisted

    def message(self, location: Location) -> Message:
        """The message that stands here, for instance that of a `jdbcstore.store.journal.kahadb.state.StoredMessage`.

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
        if location.file not in self.files:
            raise JournalDamaged(f"{location}: there is no such file in the journal")
        with self.opened(location.file) as source:
            return JournalFile(source, location.file, chunk_bytes=location.size).read(location)

    def read_many(self, locations: Iterable[Location]) -> Iterator[tuple[Location, Command | JournalDamaged]]:
        """Records at these places, which are fastest in their own order, each with what is wrong instead if it is none.

        Raises:
            StoreError: a file cannot be read.
        """
        for number, wanted in groupby(locations, key=attrgetter("file")):
            if number not in self.files:
                yield from (
                    (place, JournalDamaged(f"{place}: there is no such file in the journal")) for place in wanted
                )
                continue
            with self.opened(number) as source:
                file = JournalFile(source, number)
                for location in wanted:
                    found: Command | JournalDamaged
                    try:
                        found = file.read(location)
                    except JournalDamaged as error:
                        found = error
                    yield location, found


class Journal(AnyJournal):
    """All files of a directory. The index of the directory is not looked at.

    Args:
        directory: where the ``db-<n>.log`` are.

    Raises:
        StoreError: no such directory, or two files have one number.
    """

    def __init__(self, directory: Path | str) -> None:
        self.directory: Final = Path(directory)
        self.files: Mapping[int, Path] = journal_files(self.directory, file_number)
        self.damages = []
        self.damages_unlisted = 0

    @contextmanager
    def opened(self, number: int) -> Iterator[BinaryIO]:
        path = self.files[number]
        with reading(str(path)):
            source = path.open("rb")
        with source:
            yield source


def file_name(number: int) -> str:
    """The name of a journal file."""
    return f"db-{number}.log"


def file_number(name: str) -> int | None:
    """The number of a journal file by its name; None for other files."""
    match = _FILE_NAME.fullmatch(name)
    return None if match is None or int(match[1]) > FILE_NUMBER_MAX else int(match[1])


def up_to(records: Iterator[Record], last: tuple[int, int] | None) -> Iterator[Record]:
    """Records up to the one at this file and offset, which is the last that is taken from the others; None is none."""
    if last is None:
        return
    for record in records:
        yield record
        if record[0][:2] >= last:
            return
