"""What a journal is to everything behind its files: records that stand at places, and what is wrong with them.

A format derives from `AnyJournal` and `AnyJournalFile` and turns its bytes into the commands of
`jdbcstore.store.journal.commands`. Its `Location` and `Damage` name its files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Protocol, TypeAlias

from jdbcstore.errors import JournalDamaged
from jdbcstore.message import Message
from jdbcstore.store.journal.commands import AddMessage, Command, UpdateMessage
from jdbcstore.store.journal.file_errors import reading
from jdbcstore.store.journal.journal_files import journal_files
from jdbcstore.store.journal.journal_format import BatchPlace

__all__ = [
    "CHUNK_BYTES",
    "DAMAGES_MAX",
    "AnyJournal",
    "AnyJournalFile",
    "Batch",
    "Damage",
    "DirectoryJournal",
    "Location",
    "Record",
    "up_to",
]

#: Bytes that are read at once; a larger batch is read whole.
CHUNK_BYTES: Final = 4 << 20
#: More damages of one file are counted, not listed.
DAMAGES_MAX: Final = 10_000


class Damage(NamedTuple):
    """Bytes of a file that were left out, or a record that cannot be what it says."""

    file: int
    offset: int
    end: int
    what: str
    """One clause for people."""
    at_the_end: bool = False
    """Whether nothing whole follows in this file; in the last file that is what a kill leaves behind."""

    def __str__(self) -> str:
        return f"file {self.file}:{self.offset}-{self.end}: {self.what}"


class Location(NamedTuple):
    """Where a record stands. Locations are in the order in which the records were written."""

    file: int
    offset: int
    size: int
    """Its bytes, the header included."""

    def __str__(self) -> str:
        return f"file {self.file}:{self.offset}"

    def damage(self, what: str) -> Damage:
        """That this record is left out."""
        return Damage(self.file, self.offset, self.offset + self.size, what)


class Batch(NamedTuple):
    """Records that were written together; intact, as far as a checksum tells."""

    offset: int
    """Where it begins in the file."""
    data: bytes
    start: int
    """Where in `data` the records begin."""
    end: int
    checksum: int
    """With its place it tells this batch from any other one."""

    def place(self, number: int) -> BatchPlace:
        """Where it stands, in the file of this number."""
        return BatchPlace(number, self.offset, self.checksum)


#: What `AnyJournal.records` gives.
Record: TypeAlias = tuple[Location, Command]


class AnyJournalFile(Protocol):
    """One file, read on its own from its beginning to its end, or a part of it."""

    #: What was found so far; complete when the reading is.
    damages: list[Damage]
    #: Damages that are not listed, because there are too many.
    damages_unlisted: int
    #: Where the next batch would be written: behind the last one that was read.
    append_offset: int

    def batches(self) -> Iterator[Batch]:
        """All batches, each checked before it is given out. Raises `StoreError` when the file cannot be read."""

    def records_of(self, batch: Batch) -> Iterator[Record]:
        """The records of one of its batches. One that is no command is listed as damage."""

    def read(self, location: Location) -> Command:
        """One record of this file.

        Raises:
            JournalDamaged: there is no such record at this place.
            StoreError: the file cannot be read.
        """


class AnyJournal(ABC):
    """Files of a journal in the order of their numbers, wherever they are."""

    #: By number; those that are not empty.
    files: Mapping[int, object]
    #: What was found so far; complete when `records` was read to its end.
    damages: list[Damage]
    damages_unlisted: int
    #: The number of the file and the batch that were read last.
    last_read: tuple[int, Batch] | None = None

    @property
    def last_batch(self) -> BatchPlace | None:
        """The last batch that was read; None when none was."""
        return None if self.last_read is None else self.last_read[1].place(self.last_read[0])

    @abstractmethod
    def opened(self, number: int) -> AbstractContextManager[BinaryIO]:
        """The file of this number, seekable.

        Raises:
            StoreError: it cannot be opened.
        """

    @abstractmethod
    def file(self, source: BinaryIO, number: int, *, chunk_bytes: int = CHUNK_BYTES, start: int = 0) -> AnyJournalFile:
        """An open file as its format reads it, from the batch at `start` on."""

    def batches(self, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[int, AnyJournalFile, Batch]]:
        """All batches of all files, in their order, with the number of the file and the file.

        Raises:
            StoreError: a file cannot be read.
        """
        self.damages, self.damages_unlisted, self.last_read = [], 0, None
        for number in self.files:
            with self.opened(number) as source:
                file = self.file(source, number, chunk_bytes=chunk_bytes)
                for batch in file.batches():
                    self.last_read = number, batch
                    yield number, file, batch
                self.damages += file.damages
                self.damages_unlisted += file.damages_unlisted

    def records(self, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Record]:
        """All records of all files, in their order.

        Raises:
            StoreError: a file cannot be read.
        """
        for _, file, batch in self.batches(chunk_bytes=chunk_bytes):
            yield from file.records_of(batch)

    def message(self, location: Location) -> Message:
        """The message that stands here, for instance that of a `jdbcstore.store.journal.state.StoredMessage`.

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
            return self.file(source, location.file, chunk_bytes=location.size).read(location)

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
                file = self.file(source, number)
                for location in wanted:
                    found: Command | JournalDamaged
                    try:
                        found = file.read(location)
                    except JournalDamaged as error:
                        found = error
                    yield location, found


class DirectoryJournal(AnyJournal):
    """All files of a directory. The index of the directory is not looked at.

    Args:
        directory: where the files are.
        file_number: the number of a file by its name; None for files that are none of the journal.

    Raises:
        StoreError: no such directory, or two files have one number.
    """

    def __init__(self, directory: Path | str, file_number: Callable[[str], int | None]) -> None:
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


def up_to(records: Iterator[Record], last: tuple[int, int] | None) -> Iterator[Record]:
    """Records up to the one at this file and offset, which is the last that is taken from the others; None is none."""
    if last is None:
        return
    for record in records:
        yield record
        if record[0][:2] >= last:
            return
