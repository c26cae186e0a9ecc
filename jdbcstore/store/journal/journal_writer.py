"""Writing to the journal: batches behind the last one, file after file.

A batch is one write to the disk and lies in one file; one that does not fit into the rest of the file begins the next,
one that fits into no file makes a longer one of its own. What the bytes of a batch are, and where the last whole one
ends, is the format's (`jdbcstore.store.journal.journal_format.JournalFormat`).

**After a crash** the last batch may be there in parts, and parts of it may be there although its beginning is not.
`JournalWriter.open` finds the last whole batch and removes what stands behind it, so that the leftovers of a batch are
never read as part of a later one. Bytes of files that are new read as zeros, for the same reason.

**When a write fails** it is undone and nothing happened. When forcing to the disk fails nobody knows what is there, and
asking again would answer that all is well (the system forgets what it could not write, and goes on showing it to
readers). So a writer that was told so never writes again.

**What `JournalWriter.open` finds is what is on the disk.** What was written last may be in the system's memory only:
because forcing it failed, or because a broker was killed before it had forced it. Nobody can tell by reading. So it is
written once more and forced, with the names of the files, before anybody is told that it is there: the last batch,
since ``ALWAYS`` forces each; with ``PERIODIC`` the last file, since the one before is forced when a new one is begun.

A file that the format calls closed is not continued. No number is used again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from threading import Thread
from typing import Final, Generic, NoReturn, TypeVar

from jdbcstore.errors import JournalDamaged, MessageTooLarge, StoreClosed, StoreError, StoreFull, StoreUnavailable
from jdbcstore.store.disk import Disk, DiskFile, make_directory, mode_like
from jdbcstore.store.journal.file_errors import reading, refused, writing
from jdbcstore.store.journal.file_replacement import replaced_file
from jdbcstore.store.journal.journal_files import journal_files
from jdbcstore.store.journal.journal_format import BatchPlace, Flaw, JournalFormat, Tail, WriterOptions
from jdbcstore.store.lease import Clock, boot_time_ns

__all__ = ["JournalWriter"]

_LOG: Final = logging.getLogger(__name__)
_NS_PER_MS: Final = 1_000_000
#: What is written anew at once.
_CHUNK_BYTES: Final = 4 << 20

LocationT = TypeVar("LocationT")


class JournalWriter(Generic[LocationT]):
    """Writes batches to the journal of a directory. Not for several threads at once.

    Args:
        directory: where the files are; made if it is not there. Nobody else writes to it (the lock).
        journal_format: how files are named and framed.
        options: lengths of files, how they are allocated, when they are forced to the disk.
        disk: what writes; a test watches it.
        clock: for ``PERIODIC``.
    """

    def __init__(
        self,
        directory: Path | str,
        journal_format: JournalFormat[LocationT],
        options: WriterOptions,
        *,
        disk: Disk | None = None,
        clock: Clock = boot_time_ns,
    ) -> None:
        self.directory: Final = Path(directory)
        self.options: Final = options
        #: What `open` found that is no accident of the last write: bytes that are left out when the journal is read.
        self.damages: tuple[Flaw, ...] = ()
        #: The last batch, None if there is none in the file that is written.
        self.last_batch: BatchPlace | None = None
        self._format = journal_format
        self._end_mark = journal_format.end_mark
        self._head = journal_format.file_head
        self._disk = disk or Disk(self.directory)
        self._clock = clock
        self._file: DiskFile | None = None
        self._number = 0
        self._offset = 0
        self._highest = 0
        #: Files that are made and not used, ascending.
        self._unused: list[int] = []
        self._preparing: _Preparing | None = None
        self._failure: str | None = None
        self._unforced_since_ns: int | None = None
        self._forced_ns = 0

    # -- its life ------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Find the end of the journal, or begin one.

        The rest of a batch that was being written when a broker ended is removed; what is whole is forced to the disk,
        unless nothing ever is (``NEVER``). With ``checkForCorruptJournalFiles`` all files are read, not the last one
        only.

        Raises:
            JournalDamaged: ``checkForCorruptJournalFiles`` found damage, and ``ignoreMissingJournalfiles`` is not set.
            StoreFull, StoreReadOnly, StoreUnavailable: the disk refuses, or does not keep what it showed.
            StoreError: a file cannot be read.
        """
        with writing(str(self.directory)):
            make_directory(self.directory)
            self._disk.mode = mode_like(self.directory, self._format.file_pattern)
            numbers = [self._format.file_number(path.name) for path in self.directory.iterdir()]
            if self._format.ends_with_data:
                self._remove_empty()
            if self._is_forcing:
                self._disk.sync()  # a broker may have been killed before it had forced the name of a new file
        self._highest = max((number for number in numbers if number is not None), default=0)
        self._failure, self._unforced_since_ns, self._unused = None, None, []
        files = journal_files(self.directory, self._format.file_number)
        tail: Tail | None = None
        for number in reversed(files):
            found = self._tail(files[number], number)
            if found.last is not None or found.flaws:
                tail, self._number = found, number
                break
            if not self._format.uses_blank_files:
                with writing(files[number].name):
                    self._disk.remove(files[number].name)
            else:
                self._unused.insert(0, number)
        self._check(files, tail)
        try:
            if tail is not None:
                self._continue_file(tail)
            if tail is None or tail.is_closed:
                self._begin_file()
        except StoreError:
            self.abandon()
            raise
        self._forced_ns = self._clock()

    def _remove_empty(self) -> None:
        """Remove files that a crash left empty."""
        for path in list(self.directory.iterdir()):
            if self._format.file_number(path.name) is not None and path.is_file() and not path.stat().st_size:
                self._disk.remove(path.name)

    def _tail(self, path: Path, number: int) -> Tail:
        with reading(str(path)):
            source = path.open("rb")
        with source:
            return self._format.tail(source, number)

    def _check(self, files: Mapping[int, Path], tail: Tail | None) -> None:
        torn: Flaw | None = None
        damages = list(tail.flaws) if tail is not None else []
        if damages and damages[-1].at_the_end:
            torn = damages.pop()
            _LOG.warning("%s: removed, what was being written when a broker ended", torn)
        if self.options.check_for_corrupt_journal_files:
            for number in [number for number in files if number < self._number]:
                damages += self._tail(files[number], number).flaws
        self.damages = tuple(sorted(damages, key=attrgetter("file", "offset")))
        for damage in self.damages:
            _LOG.warning("%s: left out", damage)
        if self.damages and self.options.check_for_corrupt_journal_files:
            if self.options.ignore_missing_journal_files:
                return
            raise JournalDamaged(
                f"{self.directory}: {len(self.damages)} damages in the journal, the first is {self.damages[0]};"
                " ignoreMissingJournalfiles=true starts without what is damaged"
            )

    def _continue_file(self, tail: Tail) -> None:
        name = self._format.file_name(self._number)
        with writing(name):
            file = self._disk.open(name)
            self._file = file
            if not tail.is_blank_behind:
                self._cut(file, tail.end)
            if self._is_forcing:
                self._force_anew(file, tail)
        self._offset, self.last_batch = tail.end, tail.last

    @property
    def _is_forcing(self) -> bool:
        return self.options.journal_disk_sync_strategy != "NEVER"

    def _force_anew(self, file: DiskFile, tail: Tail) -> None:
        """Write once more, and force, what is perhaps in the memory of the system only."""
        is_batch = self.options.journal_disk_sync_strategy == "ALWAYS" and tail.last is not None
        start = tail.last.offset if is_batch and tail.last is not None else 0
        for offset in range(start, tail.end, _CHUNK_BYTES):
            file.write(file.read(min(_CHUNK_BYTES, tail.end - offset), offset), offset)
        file.sync()
        with file.path.open("rb") as source:
            end = self._format.end_from(source, self._number, start)
        if end != tail.end:
            raise StoreUnavailable(
                f"{file.path.name} ended at {tail.end}, and ends at {end} now that it was forced to the disk: the disk"
                " does not keep what is written"
            )

    def close(self) -> None:
        """Force to the disk what was written, and let go of the files. Closing twice is fine.

        Raises:
            StoreError: the disk does not take it.
        """
        try:
            if self._file is not None and self._failure is None:
                self.force()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of the files and force nothing."""
        if self._preparing is not None:
            self._preparing.wait()
            self._preparing = None
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    # -- writing -------------------------------------------------------------------------------------------------

    @property
    def end(self) -> tuple[int, int]:
        """File and offset where the next batch is written, unless it begins a new file."""
        return self._number, self._offset

    def append(self, payloads: Sequence[bytes]) -> list[LocationT]:
        """Write one batch with one write. `sync` makes it safe.

        Args:
            payloads: of its records, at least one, as the format encodes them.

        Returns:
            Where each record stands.

        Raises:
            MessageTooLarge: more than fits into a file of this format.
            StoreFull, StoreReadOnly, StoreUnavailable: the disk refuses. Nothing was written; trying again may help.
            StoreError: forcing the file before to the disk failed, or an earlier write could neither be done nor
                undone: nothing will be written any more.
            StoreClosed: not open.
        """
        assert payloads, "a batch has a record"
        self._opened()
        size, room = self._format.batch_size(payloads), len(self._end_mark)
        if size + room > self._format.file_bytes_max:
            raise MessageTooLarge(f"a batch of {size} bytes, {self._format.file_bytes_max} fit into a journal file")
        if self._offset > len(self._head) and self._offset + size + room > self.options.journal_max_file_length_bytes:
            self._begin_file()
        number, offset = self._number, self._offset
        data, locations, checksum = self._format.batch(payloads, size, number, offset)
        self._write(data)
        self.last_batch = BatchPlace(number, offset, checksum)
        self._offset = offset + size
        if self._unforced_since_ns is None:
            self._unforced_since_ns = self._clock()
        return locations

    def _write(self, data: bytearray) -> None:
        file = self._opened()
        try:
            file.write(data, self._offset)
        except OSError as error:
            try:
                self._cut(file, self._offset)
            except OSError as second:
                self._fail(f"a write to {file.path.name} could neither be done nor undone", second)
            raise refused(file.path.name, error) from error

    def sync(self) -> None:
        """Make safe what was written, as ``journalDiskSyncStrategy`` says.

        ``ALWAYS`` forces it to the disk, ``PERIODIC`` does so if that was not done for ``journalDiskSyncInterval``;
        `sync_due_ns` tells when somebody has to call again. ``NEVER`` does nothing.

        Raises:
            StoreError: nobody knows what is on the disk; nothing will be written any more.
        """
        strategy = self.options.journal_disk_sync_strategy
        due_ns = self.sync_due_ns
        if strategy == "ALWAYS" or (due_ns is not None and due_ns <= self._clock()):
            self.force()

    @property
    def sync_due_ns(self) -> int | None:
        """When `sync` has to be called again, by the clock, under ``PERIODIC``; None if it has not."""
        if self.options.journal_disk_sync_strategy != "PERIODIC" or self._unforced_since_ns is None:
            return None
        return self._forced_ns + self.options.journal_disk_sync_interval_ms * _NS_PER_MS

    def force(self) -> None:
        """Return when everything that was written survives a power failure, whatever the strategy.

        Raises:
            StoreError: nobody knows what is on the disk; nothing will be written any more.
            StoreClosed: not open.
        """
        file = self._opened()
        if self._unforced_since_ns is None:
            return
        try:
            file.sync()
        except OSError as error:
            self._fail(f"{file.path.name} could not be forced to the disk", error)
        self._unforced_since_ns, self._forced_ns = None, self._clock()

    def _opened(self) -> DiskFile:
        if self._failure is not None:
            raise StoreError(self._failure)
        if self._file is None:
            raise StoreClosed("the journal is not open")
        return self._file

    def _fail(self, what: str, error: OSError) -> NoReturn:
        self._failure = (
            f"{what} ({error.strerror or error}): the journal is not written any more until it is opened anew"
        )
        raise StoreError(self._failure) from error

    # -- files ---------------------------------------------------------------------------------------------------

    def _begin_file(self) -> None:
        """Go on at the beginning of the next file."""
        if self._file is not None and self._is_forcing:
            self.force()  # what the next file holds must not survive what this one holds
        number = self._next_unused()
        name = self._format.file_name(number)
        try:
            with writing(name):
                file = self._disk.open(name)
        except StoreError:
            self._unused.insert(0, number)
            raise
        before, self._file = self._file, file
        self._number, self._offset, self.last_batch = number, len(self._head), None
        if before is not None:
            before.close()
        if self._preallocation == "ENTIRE_JOURNAL_ASYNC" and not self._unused:
            self._preparing = _Preparing(self._make_file)

    def _next_unused(self) -> int:
        if self._preparing is not None:
            made = self._preparing.wait()
            self._preparing = None
            if made is not None:
                self._unused.append(made)
        if not self._unused:
            self._unused.append(self._make_file())
        return self._unused.pop(0)

    def _make_file(self) -> int:
        """A new file with room for batches and none in it; its number."""
        highest = self._highest
        number_max = self._format.number_max
        number = self._format.next_number(highest, self._number, self._offset)
        if number > number_max:
            last = self._format.file_name(number_max)
            raise StoreFull(f"{self.directory}: {last} is the last name that a journal file can have")
        name = self._format.file_name(number)
        with writing(name):
            self._highest = number
            if self._head:
                self._make_with_head(name)
                return number
            # Where numbers are positions the highest may be that of an empty file, left by a kill: it is the next one.
            file = self._disk.open(name, create=number != highest or not (self.directory / name).exists())
            try:
                self._allocate(file)
                if self._is_forcing:
                    file.sync()
                    self._disk.sync()
            except OSError:
                # Whoever looks for the next file finds an empty one, which is no harm.
                with suppress(OSError):
                    file.truncate(0)
                    self._disk.remove(name)
                    self._highest = highest
                raise
            finally:
                file.close()
        return number

    def _make_with_head(self, name: str) -> None:
        """A new file that has what it begins with from its first moment on."""
        with replaced_file(self.directory / name, self._format.file_pattern) as file:
            file.write(self._head, 0)

    @property
    def _preallocation(self) -> str:
        return "NONE" if self._format.ends_with_data else self.options.preallocation_scope

    def _allocate(self, file: DiskFile) -> None:
        length = self.options.journal_max_file_length_bytes
        if self._preallocation == "NONE":
            file.write(self._end_mark, 0)
            return
        strategy = self.options.preallocation_strategy
        if strategy == "SPARSE_FILE":
            file.truncate(length)
            file.write(self._end_mark, length - len(self._end_mark))
        elif strategy == "OS_KERNEL_COPY":
            file.reserve(length)
        elif strategy == "ZEROS":
            file.write_zeros(length, length)
        else:
            file.write_zeros(length)
        file.write(self._end_mark, 0)

    def _cut(self, file: DiskFile, end: int) -> None:
        """Remove what stands behind the last batch; the file stays as long as it is, unless the format forbids that."""
        size = max(file.size(), end + len(self._end_mark))
        file.truncate(end)
        if self._format.ends_with_data:
            return
        file.truncate(size)
        try:
            file.write(self._end_mark, end)
        except OSError:  # the disk is full; zeros are an end, too
            file.truncate(end)
            file.truncate(size)


class _Preparing:
    """Makes a file in a thread."""

    def __init__(self, make: Callable[[], int]) -> None:
        self._make = make
        self._made: int | None = None
        self._thread: Thread | None = None
        thread = Thread(target=self._run, name="journal-preallocation", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system gives none
            self._tell(error)
        else:
            self._thread = thread

    def _run(self) -> None:
        try:
            self._made = self._make()
        except StoreError as error:
            self._tell(error)

    @staticmethod
    def _tell(error: Exception) -> None:
        _LOG.warning("the next journal file could not be made ahead, it will be made when it is needed: %s", error)

    def wait(self) -> int | None:
        """The number of the file, None if it could not be made."""
        if self._thread is not None:
            self._thread.join()
        return self._made
