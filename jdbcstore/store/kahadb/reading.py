"""Messages of the journal by their places, read from many threads."""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

from jdbcstore.errors import CodecError, JournalDamaged
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.store.kahadb.commands import AddMessage, Command, UpdateMessage
from jdbcstore.store.kahadb.journal import Location, command_at, file_name, reading

__all__ = ["RecordReader"]

#: Files that are kept open.
_FILES_MAX: Final = 64


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
        try:
            opened = self._file(location.file)
        except FileNotFoundError:
            raise JournalDamaged(f"{location}: there is no such file in the journal") from None
        with reading(file_name(location.file)):
            data = os.pread(opened.descriptor, location.size, location.offset)
        return command_at(data, 0, location)

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
            command = self.read(location)
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
                with reading(file_name(number)):
                    try:
                        opened = _Opened(self._directory / file_name(number))
                    except OSError as error:
                        if error.errno == errno.ENOENT:
                            raise FileNotFoundError(number) from None
                        raise
                self._opened[number] = opened
                if len(self._opened) > _FILES_MAX:
                    self._opened.popitem(last=False)
            else:
                self._opened.move_to_end(number)
            return opened
