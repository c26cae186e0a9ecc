"""The journal of an AMQ store: files of records without checksums, and the batches that this store makes of them.

A file ``data-<n>`` is a run of records: an int32 with the size of the whole record, a type, 21 zeros, ``SOR``, the
payload, ``EOR``. A record is good if both marks stand where its size says; nothing else tells damage. An open file of a
broker is longer than what is in it, and cut when it is closed: after a crash it ends in zeros. Files are read in the
order of their numbers and have gaps. All numbers are big-endian.

**Batches.** The format has none, and a write that was torn by a power failure may have a hole of zeros within a record
that has both marks. So each batch of this store begins with a record of its own, a trace that brokers ignore, with the
length of what follows and its CRC-32. Such a batch is read as a whole or not at all. Every record that stands outside
of one was written by a broker, and is a batch by itself.

**Zeros.** A broker that replays stops at the first zeros, and does not look at the files behind. This reader goes on
with the next file, and tells (`Journal.ends_early`).

Source of the format: AsyncDataManager of ActiveMQ 5.3.2, and journals that it wrote.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from jdbcstore.errors import JournalDamaged
from jdbcstore.identifiers import TransactionId
from jdbcstore.store.journal import records
from jdbcstore.store.journal.amq.decoding import Decoder, Malformed
from jdbcstore.store.journal.commands import (
    AddMessage,
    Command,
    Commit,
    Prepare,
    RemoveMessage,
    Rollback,
    Trace,
)
from jdbcstore.store.journal.file_window import FileWindow
from jdbcstore.store.journal.journal_format import BatchPlace
from jdbcstore.store.journal.records import CHUNK_BYTES, DAMAGES_MAX, Batch, Damage, Location, Record

__all__ = [
    "BATCH_HEAD_SIZE",
    "FILE_BYTES_MAX",
    "FILE_NUMBER_MAX",
    "FILE_PATTERN",
    "FRAME_SIZE",
    "RECOVERED",
    "AMQDamage",
    "AMQJournal",
    "AMQLocation",
    "Journal",
    "JournalFile",
    "batch_head",
    "command_at",
    "file_name",
    "file_number",
    "framed",
]

_FILE_NAME: Final = re.compile(r"data-(\d{1,10})", re.ASCII)
#: Journal files, with wildcards.
FILE_PATTERN: Final = "data-*"
#: Numbers of files are ints of Java.
FILE_NUMBER_MAX: Final = (1 << 31) - 1
#: So are offsets.
FILE_BYTES_MAX: Final = (1 << 31) - 1

#: Size of the record, its type, 21 bytes that are reserved, the mark.
_HEAD: Final = struct.Struct(">ib21s3s")
_START_MARK: Final = b"SOR"
_END_MARK: Final = b"EOR"
_RESERVED: Final = bytes(21)
#: What a record takes beside its payload.
FRAME_SIZE: Final = _HEAD.size + len(_END_MARK)
_USER: Final = 1
#: The types of records: marks (the state of `data-control`), users', and those for a redo that nothing writes.
_TYPES: Final = (-1, _USER, 2)
#: How the trace begins that every broker writes when it starts: what was not prepared then was rolled back.
RECOVERED: Final = "RECOVERED "
_RECOVERED: Final = RECOVERED.encode()

_BATCH: Final = b"jdbcstore batch "
#: The payload of the record in front of a batch: JournalTrace in OpenWire, loose; then length and CRC-32 in hex.
_BATCH_PAYLOAD: Final = struct.Struct(f">ibbH{len(_BATCH)}s8sc8s")
_BATCH_TEXT_SIZE: Final = len(_BATCH) + 17
_BATCH_PREFIX: Final = struct.pack(f">ibbH{len(_BATCH)}s", _BATCH_PAYLOAD.size - 4, 53, 1, _BATCH_TEXT_SIZE, _BATCH)
#: The record in front of a batch.
BATCH_HEAD_SIZE: Final = FRAME_SIZE + _BATCH_PAYLOAD.size


class AMQLocation(Location):
    """Where a record stands, in ``data-<n>``."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"data-{self.file}:{self.offset}"

    def damage(self, what: str) -> Damage:
        return AMQDamage(self.file, self.offset, self.offset + self.size, what)


class AMQDamage(Damage):
    """Bytes of ``data-<n>`` that were left out."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"data-{self.file}:{self.offset}-{self.end}: {self.what}"


class _Together(Batch):
    """A batch of this store, with a record in front."""

    __slots__ = ()


class _Single(Batch):
    """A record outside of such a batch. The format has no checksum for it: ours is made when somebody asks."""

    __slots__ = ()

    def place(self, number: int) -> BatchPlace:
        return BatchPlace(number, self.offset, zlib.crc32(memoryview(self.data)[self.start : self.end]))


def framed(payload: bytes) -> bytes:
    """A record."""
    return _HEAD.pack(len(payload) + FRAME_SIZE, _USER, _RESERVED, _START_MARK) + payload + _END_MARK


def batch_head(data: bytes | bytearray | memoryview) -> bytes:
    """The record in front of a batch of these bytes."""
    crc = zlib.crc32(data)
    return framed(_BATCH_PREFIX + b"%08x %08x" % (len(data), crc))


def file_name(number: int) -> str:
    """The name of a journal file."""
    return f"data-{number}"


def file_number(name: str) -> int | None:
    """The number of a journal file by its name; None for other files."""
    match = _FILE_NAME.fullmatch(name)
    return None if match is None or int(match[1]) > FILE_NUMBER_MAX else int(match[1])


class JournalFile:
    """One file, read on its own from its beginning to its end, or from a batch on.

    Args:
        source: the bytes, seekable.
        number: the file's, the first part of all locations.
        chunk_bytes: how much is read at once.
        start: where to begin, 0 or the offset of a batch.
        decoder: of payloads; one for all files of a journal is faster.
        salvages: whether the good records of a damaged batch of this store are read, if others follow in the file. What
            is in them may be damaged.
    """

    def __init__(
        self,
        source: BinaryIO,
        number: int,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        start: int = 0,
        decoder: Decoder | None = None,
        salvages: bool = False,
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
        self._decoder = decoder or Decoder()
        self._salvages = salvages
        self._window: FileWindow | None = None

    def _new_window(self) -> FileWindow:
        return FileWindow(self._source, file_name(self.number), max(self._chunk_bytes, BATCH_HEAD_SIZE))

    # -- batches -------------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[Batch]:
        """All batches, each checked before it is given out; a record outside of one is one.

        Raises:
            StoreError: the file cannot be read.
        """
        self.damages, self.damages_unlisted, self.append_offset = [], 0, self._start
        window = self._new_window()
        size, head, head_size, new = window.size, _HEAD.unpack_from, _HEAD.size, tuple.__new__
        data, base, o = window.data, self._start, 0
        while base + o + FRAME_SIZE <= size:
            if o + BATCH_HEAD_SIZE > len(data):
                data, base, o = window.at(base + o, min(BATCH_HEAD_SIZE, size - base - o))
                if o + FRAME_SIZE > len(data):
                    break  # the file has become shorter
            length, kind, reserved, mark = head(data, o)
            end = o + length
            if mark == _START_MARK and kind in _TYPES and FRAME_SIZE <= length <= size - base - o:
                if end > len(data):
                    data, base, o = window.at(base + o, length)
                    end = o + length
                    if end > len(data):
                        break
                if data.startswith(_END_MARK, end - 3) and reserved == _RESERVED:
                    if kind == _USER and data.startswith(_BATCH_PREFIX, o + head_size):
                        announced = _announced(data, o)
                        if announced is not None:
                            start, (length, crc) = end, announced
                            end = start + length
                            if end > len(data) and end <= size - base:
                                data, base, at = window.at(base + o, end - o)
                                start, end, o = start - o + at, end - o + at, at
                            if end <= len(data) and zlib.crc32(memoryview(data)[start:end]) == crc:
                                self.append_offset = base + end
                                yield _Together(base + o, data, start, end, crc)
                                o = end
                                continue
                            found = self._behind_batch(window, base + o, base + end)
                            if found is None:
                                return
                            data, base, o = window.at(found, min(BATCH_HEAD_SIZE, size - found))
                            continue
                    self.append_offset = base + end
                    yield new(_Single, (base + o, data, o, end, 0))
                    o = end
                    continue
            if not length and not kind and window.is_blank(base + o):
                return
            found = self._behind(window, base + o)
            if found is None:
                return
            data, base, o = window.at(found, min(BATCH_HEAD_SIZE, size - found))
        if base + o < size and not window.is_blank(base + o):
            self._damaged(base + o, size, "a record that was cut off", at_the_end=True)

    def is_blank_behind(self) -> bool:
        """Whether nothing but zeros stands behind `append_offset`, once all batches were read.

        Raises:
            StoreError: the file cannot be read.
        """
        return self._new_window().is_blank(self.append_offset)

    def has_zeros_behind(self) -> bool:
        """Whether the file is longer than what is in it, once all batches were read."""
        return self._new_window().size > self.append_offset

    def _behind_batch(self, window: FileWindow, offset: int, end: int) -> int | None:
        """Note that a batch of this store is damaged; the offset of what is read next.

        Nothing within it is read, with one exception: a broker that starts on a directory in which a batch was cut off
        takes all good records for its own, and goes on behind them.
        """
        start = offset + BATCH_HEAD_SIZE
        if self._was_taken_over(window, start, min(end, window.size)):
            self._damaged(offset, start, "the head of a batch that was cut off; a broker went on behind its records")
            return start
        what = "a batch with a wrong checksum" if end <= window.size else "a batch that was cut off"
        found = self._find(window, end) if end < window.size else None
        if found is not None and self._salvages:
            self._damaged(offset, start, f"{what}, whose good records are read one by one")
            return start
        self._damaged(offset, window.size if found is None else found, what, at_the_end=found is None)
        return found

    def _was_taken_over(self, window: FileWindow, offset: int, end: int) -> bool:
        """Whether good records from here on lead to one that a broker writes when it starts."""
        while offset + FRAME_SIZE <= end:
            length, kind, reserved, mark = _HEAD.unpack(window.peek(offset, _HEAD.size))
            if mark != _START_MARK or kind not in _TYPES or reserved != _RESERVED or length < FRAME_SIZE:
                return False
            if window.peek(offset + length - 3, 3) != _END_MARK:
                return False
            if window.peek(offset + _HEAD.size + 8, len(_RECOVERED)) == _RECOVERED:
                return True
            offset += length
        return False

    def _behind(self, window: FileWindow, offset: int) -> int | None:
        """Note that no record begins at this offset; the offset of the next one."""
        found = self._find(window, offset + 1)
        end = window.size if found is None else found
        self._damaged(offset, end, "no record begins here", at_the_end=found is None)
        return found

    def _find(self, window: FileWindow, offset: int) -> int | None:
        """The offset of the first good record from this one on."""
        at = window.find(_START_MARK, offset + _HEAD.size - 3)
        while at is not None:
            start = at - _HEAD.size + 3
            head = window.peek(start, _HEAD.size)
            length, kind, reserved, _ = _HEAD.unpack(head)
            fits = reserved == _RESERVED and kind in _TYPES and FRAME_SIZE <= length <= window.size - start
            if fits and window.peek(start + length - 3, 3) == _END_MARK:
                return start
            at = window.find(_START_MARK, at + 1)
        return None

    def _damaged(self, offset: int, end: int, what: str, at_the_end: bool = False) -> None:
        if len(self.damages) < DAMAGES_MAX:
            self.damages.append(AMQDamage(self.number, offset, end, what, at_the_end))
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

    def record_of(self, batch: _Single) -> Record | None:
        """What a record outside of batches says, if that is anything. One that is no command is listed as damage."""
        offset, data, o, end, _ = batch
        if data[o + 4] != _USER:
            return None
        try:
            command = self._decoder.decode(data, o + _HEAD.size, end - 3)
        except Malformed as error:
            self._damaged(offset, offset + end - o, f"a record that cannot be read: {error}")
            return None
        return None if command is None else (tuple.__new__(AMQLocation, (self.number, offset, end - o)), command)

    def records_of(self, batch: Batch) -> Iterator[Record]:
        """The records of one batch of this file. One that is no command is listed as damage."""
        if isinstance(batch, _Single):
            if (record := self.record_of(batch)) is not None:
                yield record
            return
        number, new, unpack = self.number, tuple.__new__, _HEAD.unpack_from
        offset, data, o, end, _ = batch
        decode = self._decoder.decode_together
        base = offset + BATCH_HEAD_SIZE - o
        while o + FRAME_SIZE <= end:
            size, kind, _, mark = unpack(data, o)
            stop = o + size
            if mark != _START_MARK or stop > end or size < FRAME_SIZE:
                self._damaged(base + o, base + end, "a record that does not fit into its batch")
                return
            if kind == _USER:
                try:
                    command = decode(data, o + _HEAD.size, stop - 3)
                except Malformed as error:
                    self._damaged(base + o, base + stop, f"a record that cannot be read: {error}")
                else:
                    if command is not None:
                        yield new(AMQLocation, (number, base + o, size)), command
            o = stop

    def read(self, location: Location) -> Command:
        """One record of this file. Many are read fastest in the order of their offsets.

        Raises:
            JournalDamaged: there is no such record at this place.
            StoreError: the file cannot be read.
        """
        if self._window is None:
            self._window = self._new_window()
        data, _, o = self._window.at(location.offset, location.size)
        return command_at(data, o, location, self._decoder)


def _announced(data: bytes, o: int) -> tuple[int, int] | None:
    """Length and CRC-32 of the batch behind its head at `o`; None if it is none."""
    text = o + _HEAD.size + len(_BATCH_PREFIX)
    try:
        return int(data[text : text + 8], 16), int(data[text + 9 : text + 17], 16)
    except ValueError:
        return None


def command_at(data: bytes, o: int, location: Location, decoder: Decoder | None = None) -> Command:
    """The command of a record that was read.

    Args:
        data: with the record in it.
        o: where the record begins in it.
        location: of the record.
        decoder: of its payload.

    Raises:
        JournalDamaged: there is no such record at this place.
    """
    where = AMQLocation(*location)
    if o + FRAME_SIZE > len(data):
        raise JournalDamaged(f"{where}: no record of {location.size} bytes")
    size, kind, _, mark = _HEAD.unpack_from(data, o)
    stop = o + size
    if size != location.size or stop > len(data) or mark != _START_MARK or not data.startswith(_END_MARK, stop - 3):
        raise JournalDamaged(f"{where}: no record of {location.size} bytes")
    if kind != _USER:
        raise JournalDamaged(f"{where}: a record of type {kind}")
    try:
        command = (decoder or Decoder()).decode(data, o + _HEAD.size, stop - 3)
    except Malformed as error:
        raise JournalDamaged(f"{where}: a record that cannot be read: {error}") from None
    if command is None:
        raise JournalDamaged(f"{where}: a record that means nothing by itself")
    return command


class AMQJournal(records.AnyJournal):
    """Files of an AMQ store's journal, wherever they are."""

    #: Files that are longer than what is in them although others follow, and where what is in them ends: a broker that
    #: replays them stops there. Complete when `records` was read to its end.
    ends_early: list[AMQLocation]
    #: As `JournalFile` has it.
    salvages = False

    def file(self, source: BinaryIO, number: int, *, chunk_bytes: int = CHUNK_BYTES, start: int = 0) -> JournalFile:
        return JournalFile(source, number, chunk_bytes=chunk_bytes, start=start, salvages=self.salvages)

    def batches(self, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[int, JournalFile, Batch]]:
        self.damages, self.damages_unlisted, self.ends_early, self.last_read = [], 0, [], None
        decoder, last = Decoder(), max(self.files, default=0)
        for number in self.files:
            with self.opened(number) as source:
                file = JournalFile(source, number, chunk_bytes=chunk_bytes, decoder=decoder, salvages=self.salvages)
                for batch in file.batches():
                    self.last_read = number, batch
                    yield number, file, batch
                self.damages += file.damages
                self.damages_unlisted += file.damages_unlisted
                if number != last and file.has_zeros_behind() and file.is_blank_behind():
                    self.ends_early.append(AMQLocation(number, file.append_offset, 0))

    def records(self, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Record]:
        return rolled_back(self._records(chunk_bytes))

    def _records(self, chunk_bytes: int) -> Iterator[Record]:
        for _, file, batch in self.batches(chunk_bytes=chunk_bytes):
            if type(batch) is _Single:
                if (record := file.record_of(batch)) is not None:
                    yield record
            else:
                yield from file.records_of(batch)


class Journal(AMQJournal, records.DirectoryJournal):
    """All files of a directory. The reference store of the directory is not looked at.

    Args:
        directory: where the ``data-<n>`` are.

    Raises:
        StoreError: no such directory, or two files have one number.
    """

    def __init__(self, directory: Path | str) -> None:
        super().__init__(directory, file_number)
        self.ends_early = []


def rolled_back(source: Iterator[Record]) -> Iterator[Record]:
    """Records, and where a broker started the end of the transactions that were neither prepared nor ended before.

    A broker forgets them when it starts and writes nothing of it. An XA transaction may be begun again under its id.
    """
    begun: dict[TransactionId, None] = {}
    for location, command in source:
        if isinstance(command, AddMessage | RemoveMessage):
            if command.transaction is not None:
                begun[command.transaction] = None
        elif isinstance(command, Commit | Rollback | Prepare):
            if command.transaction is not None:
                begun.pop(command.transaction, None)
        elif isinstance(command, Trace) and command.message is not None and command.message.startswith(RECOVERED):
            for transaction in begun:
                yield location, Rollback(transaction)
            begun.clear()
        yield location, command
