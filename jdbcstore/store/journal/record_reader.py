"""Messages of the journal by their places, read from many threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from jdbcstore.errors import CodecError, JournalDamaged
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.store.journal.commands import AddMessage, Command, UpdateMessage
from jdbcstore.store.journal.file_reader import FileReader, runs
from jdbcstore.store.journal.records import Location
from jdbcstore.store.journal.store_format import StoreFormat

__all__ = ["RecordReader"]


class RecordReader:
    """Reads single records.

    Args:
        directory: of the journal.
        store_format: of the journal.
    """

    def __init__(self, directory: Path, store_format: StoreFormat) -> None:
        self._files = FileReader(directory, store_format.file_name)
        self._command_at = store_format.command_at
        self._message_of = store_format.message

    def read(self, location: Location) -> Command:
        """One record.

        Raises:
            JournalDamaged: there is no such record at this place, or no such file.
            StoreError: the file cannot be read.
        """
        return self._command_at(self._files.read(*location), 0, location)

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
            data = self._files.read(*location)
        except JournalDamaged as error:
            raise CodecError(str(error)) from error
        return self._message(data, 0, location, sequence)

    def messages(self, places: Iterable[tuple[Location, int]]) -> Iterator[Message | CodecError]:
        """What `message` returns or raises for each of these. What stands together is read at once.

        Args:
            places: locations, and the sequences of the messages there.

        Raises:
            StoreError: a file cannot be read.
        """
        for run in runs(places):
            first, last = run[0][0], run[-1][0]
            try:
                data = self._files.read(first.file, first.offset, last.offset + last.size - first.offset)
            except JournalDamaged as error:
                yield from (CodecError(str(error)) for _ in run)
                continue
            for location, sequence in run:
                try:
                    yield self._message(data, location.offset - first.offset, location, sequence)
                except CodecError as error:
                    yield error

    def forget(self, number: int) -> None:
        """A file is gone."""
        self._files.forget(number)

    def close(self) -> None:
        """Let go of all files."""
        self._files.close()

    def _message(self, data: bytes, o: int, location: Location, sequence: int) -> Message:
        """The message of the record that stands at `o`. Raises `CodecError`."""
        try:
            command = self._command_at(data, o, location)
        except JournalDamaged as error:
            raise CodecError(str(error)) from error
        add = command.message if isinstance(command, UpdateMessage) else command
        if not isinstance(add, AddMessage):
            raise CodecError(f"{location}: no message, but a record of {type(command).__name__}")
        message = self._message_of(add)
        if message.message_id is None:
            message.message_id = MessageId(None, 0)
        message.message_id.broker_sequence_id = sequence
        return message
