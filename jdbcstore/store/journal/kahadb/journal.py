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
from pathlib import Path
from typing import BinaryIO, Final

from jdbcstore.errors import JournalDamaged
from jdbcstore.store.journal import records
from jdbcstore.store.journal.commands import COMMANDS, Command
from jdbcstore.store.journal.file_window import FileWindow
from jdbcstore.store.journal.kahadb.decoding import READERS, Malformed, varint
from jdbcstore.store.journal.records import CHUNK_BYTES, DAMAGES_MAX, Batch, Damage, Location, Record, up_to

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
    "KahaDBDamage",
    "KahaDBLocation",
    "Location",
    "Record",
    "command_at",
    "command_of",
    "file_name",
    "file_number",
    "up_to",
]

#: Bytes that are read at once where only control records are looked at.
_STRIDE_BYTES: Final = 64 << 10

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


class KahaDBLocation(Location):
    """Where a record stands, in ``db-<n>.log``."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"db-{self.file}.log:{self.offset}"

    def damage(self, what: str) -> Damage:
        return KahaDBDamage(self.file, self.offset, self.offset + self.size, what)


class KahaDBDamage(Damage):
    """Bytes of ``db-<n>.log`` that were left out."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"db-{self.file}.log:{self.offset}-{self.end}: {self.what}"


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
                    yield Batch(base + o, data, start, end, checksum)
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
            self.damages.append(KahaDBDamage(self.number, offset, end, what, at_the_end))
        else:
            self.damages_unlisted += 1

    # -- records -------------------------------------------------------------------------------------------------

    def records(self) -> Iterator[Record]:
        """All records of all intact batches, in their order. One that is no command is listed as damage.

        Raises:
            StoreError: the file cannot be read.
        """
        for batch in self.batches():
            yield from self.records_of(batch)

    def records_of(self, batch: Batch) -> Iterator[Record]:
        """The records of one batch of this file. One that is no command is listed as damage."""
        number, new, unpack, read = self.number, tuple.__new__, _RECORD.unpack_from, _command
        offset, data, o, end, _ = batch
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
                yield new(KahaDBLocation, (number, base + o, size)), command
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
        raise JournalDamaged(f"{KahaDBLocation(*location)}: no record of {location.size} bytes")
    size, kind, code = _RECORD.unpack_from(data, o)
    if size != location.size or size < _RECORD_LEAST or stop > len(data):
        raise JournalDamaged(f"{KahaDBLocation(*location)}: a record that does not fit into {location.size} bytes")
    try:
        return _command(data, o, stop, kind, code)
    except Malformed as error:
        raise JournalDamaged(f"{KahaDBLocation(*location)}: a record that cannot be read{error}") from None


def command_of(payload: bytes) -> Command:
    """The command of what `jdbcstore.store.journal.kahadb.encoding.encode` made. Raises `Malformed` if it is none."""
    if not payload:
        raise Malformed("no command")
    data = _RECORD.pack(0, USER_RECORD, payload[0]) + payload[1:]
    return _command(data, 0, len(data), USER_RECORD, payload[0])


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


class AnyJournal(records.AnyJournal):
    """Files of a KahaDB journal, wherever they are."""

    def file(self, source: BinaryIO, number: int, *, chunk_bytes: int = CHUNK_BYTES, start: int = 0) -> JournalFile:
        return JournalFile(source, number, chunk_bytes=chunk_bytes, start=start)


def file_name(number: int) -> str:
    """The name of a journal file."""
    return f"db-{number}.log"


def file_number(name: str) -> int | None:
    """The number of a journal file by its name; None for other files."""
    match = _FILE_NAME.fullmatch(name)
    return None if match is None or int(match[1]) > FILE_NUMBER_MAX else int(match[1])


class Journal(AnyJournal, records.DirectoryJournal):
    """All files of a directory. The index of the directory is not looked at.

    Args:
        directory: where the ``db-<n>.log`` are.

    Raises:
        StoreError: no such directory, or two files have one number.
    """

    def __init__(self, directory: Path | str) -> None:
        super().__init__(directory, file_number)
