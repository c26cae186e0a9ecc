"""Messages of the journal by their places, read from many threads."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from jdbcstore.errors import CodecError, JournalDamaged, StoreError
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.store.journal.kahadb.commands import AddMessage, Command, UpdateMessage
from jdbcstore.store.journal.kahadb.journal import Location, command_at, file_name, reading

__all__ = ["RecordReader"]

#: Files that are kept open.
_FILES_MAX: Final = 64
#: What is read at once although it is not asked for, and how much is read at once, unless one record is larger.
_GAP_BYTES: Final = 1 << 10
_RUN_BYTES: Final = 1 << 20


class _Opened:
    """An open file; closed when nobody reads it any more."""

    __slots__ = ("descriptor",)

    def __init__(self, path: Path) -> None:
        self.descriptor: Final = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        # Not opened: then there is nothing to close.
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


class RecordReader:
    """Reads single records.

    Args:
        directory: of the journal.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._opened: OrderedDict[int, _Opened] = OrderedDict()

    def read(self, location: Location) -> Command:
        """One record.

        Raises:
            JournalDamaged: there is no such record at this place, or no such file.
            StoreError: the file cannot be read.
        """
        return command_at(self._bytes(location), 0, location)

    def message(self, location: Location, sequence: int) -> Message:
        """The message that stands here.

        Args:
            location: of its record.
            sequence: its own; what the bytes say does not count.

        Raises:
            CodecError: it cannot be read.
            StoreError: the file cannot be read.
        """
        try:
            data = self._bytes(location)
        except JournalDamaged as error:
            raise CodecError(str(error)) from error
        return _message(data, 0, location, sequence)

    def messages(self, places: Iterable[tuple[Location, int]]) -> Iterator[Message | CodecError]:
        """What `message` returns or raises for each of these. What stands together is read at once.

        Args:
            places: locations, and the sequences of the messages there.

        Raises:
            StoreError: a file cannot be read.
        """
        for run in _runs(places):
            first, last = run[0][0], run[-1][0]
            whole = Location(first.file, first.offset, last.offset + last.size - first.offset)
            try:
                data = self._bytes(whole)
            except JournalDamaged as error:
                yield from (CodecError(str(error)) for _ in run)
                continue
            for location, sequence in run:
                try:
                    yield _message(data, location.offset - first.offset, location, sequence)
                except CodecError as error:
                    yield error

    def _bytes(self, location: Location) -> bytes:
        try:
            opened = self._file(location.file)
        except FileNotFoundError:
            raise JournalDamaged(f"{location}: there is no such file in the journal") from None
        with reading(file_name(location.file)):
            return os.pread(opened.descriptor, location.size, location.offset)

    def forget(self, number: int) -> None:
        """A file is gone."""
        with self._lock:
            self._opened.pop(number, None)

    def close(self) -> None:
        """Let go of all files."""
        with self._lock:
            self._opened.clear()

    def _file(self, number: int) -> _Opened:
        with self._lock:
            opened = self._opened.get(number)
            if opened is None:
                path = self._directory / file_name(number)
                try:
                    opened = _Opened(path)
                except FileNotFoundError:
                    raise
                except OSError as error:
                    raise StoreError(f"cannot read {path.name}: {error.strerror or error}") from error
                self._opened[number] = opened
                if len(self._opened) > _FILES_MAX:
                    self._opened.popitem(last=False)
            else:
                self._opened.move_to_end(number)
            return opened


def _message(data: bytes, o: int, location: Location, sequence: int) -> Message:
    """The message of the record that stands at `o`. Raises `CodecError`."""
    try:
        command = command_at(data, o, location)
    except JournalDamaged as error:
        raise CodecError(str(error)) from error
    add = command.message if isinstance(command, UpdateMessage) else command
    if not isinstance(add, AddMessage):
        raise CodecError(f"{location}: no message, but a record of {type(command).__name__}")
    message = add.unmarshal()
    if message.message_id is None:
        message.message_id = MessageId(None, 0)
    message.message_id.broker_sequence_id = sequence
    return message


def _runs(places: Iterable[tuple[Location, int]]) -> Iterator[list[tuple[Location, int]]]:
    """Neighbours in the journal, and what stands between them is little."""
    run: list[tuple[Location, int]] = []
    end = limit = 0
    for place in places:
        file, offset, size = place[0]
        if run and (file != run[0][0].file or not end <= offset <= end + _GAP_BYTES or offset + size > limit):
            yield run
            run = []
        if not run:
            limit = offset + _RUN_BYTES
        run.append(place)
        end = offset + size
    if run:
        yield run
