"""Messages of the log by their positions, read from many threads."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final
from zlib import crc32

from jdbcstore.errors import CodecError, JournalDamaged
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.openwire import unmarshal_message
from jdbcstore.store.journal.file_reader import FileReader, runs
from jdbcstore.store.journal.leveldb.log import file_name
from jdbcstore.store.journal.leveldb.records import DATA, HEADER, HEADER_BYTES, message_bytes

__all__ = ["MessageReader", "data_record"]


class MessageReader:
    """Reads data records.

    Args:
        directory: of the log.
        files: the positions of its files.
    """

    def __init__(self, directory: Path, files: Iterable[int]) -> None:
        self._files = FileReader(directory, file_name)
        self._bases: list[int] = sorted(files)

    def begin(self, base: int) -> None:
        """There is a file more."""
        if not self._bases or base > self._bases[-1]:
            self._bases = [*self._bases, base]

    def forget(self, base: int) -> None:
        """A file is gone."""
        self._bases = [one for one in self._bases if one != base]
        self._files.forget(base)

    def hold(self) -> None:
        """Open all files: they may be removed while they are read. Raises `StoreError`, `JournalDamaged`."""
        self._files.hold(self._bases)

    def close(self) -> None:
        """Let go of all files."""
        self._files.close()

    def base(self, location: int) -> int:
        """The position of the file in which a record stands; -1 if it is gone."""
        bases = self._bases
        found = bisect_right(bases, location)
        return bases[found - 1] if found else -1

    def data(self, location: int, length: int) -> bytes:
        """The data of one record as it stands in the log.

        Raises:
            CodecError: there is no such record, or it is damaged.
            StoreError: the file cannot be read.
        """
        base = self.base(location)
        if base < 0:
            raise CodecError(f"position {location:#x}: the file of the log is gone")
        try:
            data = self._files.read(base, location - base, HEADER_BYTES + length)
            if not length and len(data) == HEADER_BYTES:  # an index does not always tell
                length = HEADER.unpack(data)[3]
                data = self._files.read(base, location - base, HEADER_BYTES + max(0, length))
        except JournalDamaged as error:
            raise CodecError(str(error)) from error
        return data_record(data, 0, location, length)

    def message(self, location: int, length: int, sequence: int) -> Message:
        """A message. Its sequence is what is given; what the bytes say does not count. Raises as `data`."""
        return _message(self.data(location, length), sequence)

    def messages(self, places: Sequence[tuple[int, int, int]]) -> Iterator[Message | CodecError]:
        """What `message` returns or raises for each location, length and sequence. What stands together is read at
        once.

        Raises:
            StoreError: a file cannot be read.
        """
        wanted = (
            ((base, location - base, HEADER_BYTES + length), (location, length, sequence))
            for location, length, sequence in places
            for base in (self.base(location),)
        )
        for run in runs(wanted):
            first, last = run[0][0], run[-1][0]
            try:
                data = self._files.read(first[0], first[1], last[1] + last[2] - first[1]) if first[0] >= 0 else b""
            except JournalDamaged as error:
                yield from (CodecError(str(error)) for _ in run)
                continue
            for (_, offset, _), (location, length, sequence) in run:
                try:
                    if length and data:
                        yield _message(data_record(data, offset - first[1], location, length), sequence)
                    else:
                        yield self.message(location, length, sequence)
                except CodecError as error:
                    yield error


def data_record(data: bytes, o: int, location: int, length: int) -> bytes:
    """The data of a data record.

    Args:
        data: with the record in it, at `o`.
        location, length: of the record, and of its data, as the log tells them elsewhere.

    Raises:
        CodecError: there is no such record, or it is damaged.
    """
    end: Final = o + HEADER_BYTES + length
    if len(data) < end:
        raise CodecError(f"position {location:#x}: the log ends there")
    star, kind, checksum, found = HEADER.unpack_from(data, o)
    body = data[o + HEADER_BYTES : end]
    if star != b"*" or kind != DATA or found != length:
        raise CodecError(f"position {location:#x}: no message of {length} bytes stands there")
    if crc32(body) != checksum:
        raise CodecError(f"position {location:#x}: the message does not fit its checksum")
    return body


def _message(data: bytes, sequence: int) -> Message:
    message = unmarshal_message(message_bytes(data)[0])
    if message.message_id is None:
        message.message_id = MessageId(None, 0)
    message.message_id.broker_sequence_id = sequence
    return message
