"""What a format is to the engine: how bytes of a journal are framed, and nothing of what they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO, Generic, NamedTuple, Protocol, TypeVar

__all__ = ["BatchPlace", "Flaw", "FramedBatch", "JournalFormat", "Tail", "WriterOptions"]

LocationT = TypeVar("LocationT")


class BatchPlace(NamedTuple):
    """Where a batch stands, and what tells it from another one."""

    file: int
    offset: int
    checksum: int


class Flaw(Protocol):
    """Bytes of a file that are left out when it is read. Its text names the place, and what is wrong there."""

    @property
    def file(self) -> int:
        """The file's number."""

    @property
    def offset(self) -> int:
        """Where in the file they begin."""

    @property
    def at_the_end(self) -> bool:
        """Whether nothing whole follows in this file: in the last one that is what a kill leaves behind."""


class Tail(NamedTuple):
    """What was found in a journal file that is to be continued."""

    end: int
    """Behind the last whole batch: where the next one goes."""
    last: BatchPlace | None
    """The last whole batch; None if there is none in the file."""
    flaws: tuple[Flaw, ...]
    """In the order of their offsets."""
    is_blank_behind: bool
    """Whether nothing stands behind `end` that could be taken for the rest of a batch."""
    is_closed: bool
    """Whether the next batch has to begin a file of its own, for a reason that is the format's."""


class FramedBatch(NamedTuple, Generic[LocationT]):
    """A batch as it is written."""

    data: bytearray
    """All bytes, the format's end mark behind them included."""
    locations: list[LocationT]
    """Of its records, in their order."""
    checksum: int
    """With its place it tells this batch from any other one."""


class JournalFormat(Protocol[LocationT]):
    """How the files of a journal are named and framed.

    The engine (`jdbcstore.store.journal.journal_writer.JournalWriter`) finds the end of the journal, removes what a
    crash left there, writes batches behind it, begins files, and forces them to the disk; it asks the format for every
    byte that it writes, and for the meaning of every byte that it finds. So a format is written from four answers:

    **What are the files called?** `file_name`, `file_number`, `file_pattern`, and which number follows (`next_number`).
    KahaDB and the AMQ store count: ``db-1.log``, ``data-1``. LevelDB names a file by the position of its first byte in
    the whole log, which is the number before and the length of that file.

    **What is a batch?** The bytes that one write carries: whole or torn, never half meant. Where a format has batches
    of its own (KahaDB's control record, LevelDB's unit of work) it is one of them. A format with records only (the AMQ
    store) writes them one behind the other, and has to take care by itself that a torn batch means nothing.
    `batch_size` is asked first, because a batch that does not fit into the rest of a file begins the next one; `batch`
    is asked when its place is known. Both are called once for each batch, in the thread that commits: they are the hot
    path.

    **What stands behind the last batch?** `end_mark`, which is part of each write and which the next batch overwrites;
    empty if zeros are the end. The engine writes it into new files, too.

    **What is whole?** `tail` and `end_from` read a file up to its last whole batch. They never raise because of what
    stands in a file: what is not whole is a `Flaw`. What a record says does not matter here, except that a format may
    forbid to continue a file (`Tail.is_closed`).

    Opening a journal costs one `tail` of the last file that is used, and those of all files if everything is to be
    checked.
    """

    @property
    def file_pattern(self) -> str:
        """Names of journal files with wildcards; new files get the mode of the newest one there is."""

    @property
    def number_max(self) -> int:
        """The highest number that a file can have."""

    @property
    def file_bytes_max(self) -> int:
        """The most bytes of a file, and so of a batch with the end mark."""

    @property
    def end_mark(self) -> bytes:
        """Stands behind the last batch; may be empty."""

    @property
    def ends_with_data(self) -> bool:
        """Whether files may be no longer than what is in them, and not be empty: then nothing is made longer ahead, and
        what a broker has is cut off."""

    @property
    def uses_blank_files(self) -> bool:
        """Whether the last files, if nothing stands in them, are those that are written next; else they are removed."""

    @property
    def file_head(self) -> bytes:
        """What a new file begins with, a batch by itself; it is there from the moment on when the file is. May be
        empty."""

    def file_name(self, number: int) -> str:
        """The name of a file."""

    def file_number(self, name: str) -> int | None:
        """The number of a file by its name; None for files that are none of the journal."""

    def next_number(self, highest: int, number: int, end: int) -> int:
        """The number of the file that follows. It was never used before, or it is that of the highest, empty file.

        Args:
            highest: the highest number that ever was; 0 if there is none.
            number: of the file that is written; 0 if there is none.
            end: where the batches in that one end. A file that is made ahead (``ENTIRE_JOURNAL_ASYNC``) is made before
                this is known; a format that needs it does not offer that.
        """

    def batch_size(self, payloads: Sequence[bytes]) -> int:
        """The bytes that a batch of these records takes, without the end mark."""

    def batch(self, payloads: Sequence[bytes], size: int, number: int, offset: int) -> FramedBatch[LocationT]:
        """A batch to be written.

        Args:
            payloads: its records, at least one.
            size: what `batch_size` says.
            number: of the file.
            offset: in it, where the batch begins.
        """

    def tail(self, source: BinaryIO, number: int) -> Tail:
        """Read a file from its beginning.

        Args:
            source: its bytes, seekable.
            number: the file's.

        Raises:
            StoreError: the file cannot be read.
        """

    def end_from(self, source: BinaryIO, number: int, start: int) -> int:
        """Where the last whole batch ends, if batches are read from the one at `start` on.

        Raises:
            StoreError: the file cannot be read.
        """


class WriterOptions(Protocol):
    """What a user may say about the files of a journal, by ActiveMQ's names."""

    @property
    def journal_max_file_length_bytes(self) -> int:
        """A batch that would make a file longer begins the next one."""

    @property
    def journal_disk_sync_strategy(self) -> str:
        """``ALWAYS``, ``PERIODIC`` or ``NEVER``."""

    @property
    def journal_disk_sync_interval_ms(self) -> int:
        """For ``PERIODIC``."""

    @property
    def preallocation_scope(self) -> str:
        """``ENTIRE_JOURNAL``, ``ENTIRE_JOURNAL_ASYNC`` or ``NONE``."""

    @property
    def preallocation_strategy(self) -> str:
        """``SPARSE_FILE``, ``OS_KERNEL_COPY``, ``ZEROS`` or ``CHUNKED_ZEROS``."""

    @property
    def check_for_corrupt_journal_files(self) -> bool:
        """Read all files at the start, not the last one only, and refuse damaged ones."""

    @property
    def ignore_missing_journal_files(self) -> bool:
        """Do not refuse them."""
