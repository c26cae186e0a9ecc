"""Looking at a KahaDB directory from outside, whether a broker runs on it or not. Nothing is written, no lock taken."""

from __future__ import annotations

import os
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from jdbcstore.errors import ConfigurationError, IndexDamaged, JournalDamaged, StoreError
from jdbcstore.store.journal import remarks
from jdbcstore.store.journal.commands import (
    AckMessageFileMap,
    Prepare,
    ProducerAudit,
    RewrittenDataFile,
    Rollback,
    Trace,
)
from jdbcstore.store.journal.kahadb.ackmap import read_ack_map
from jdbcstore.store.journal.kahadb.branches import settle_branches
from jdbcstore.store.journal.kahadb.diagnosis import Pins
from jdbcstore.store.journal.kahadb.directory_kind import foreign_store, stores_in, what_it_is
from jdbcstore.store.journal.kahadb.journal import Journal, KahaDBLocation, Location, Record, up_to
from jdbcstore.store.journal.kahadb.pagefile import IndexPlace, PageFile
from jdbcstore.store.journal.replay import Replay
from jdbcstore.store.journal.state import State

__all__ = ["NOBODY", "Survey", "lock_holder", "open_journal", "survey"]

#: Nobody holds the lock.
NOBODY: Final = 0


def lock_holder(directory: Path) -> int | None:
    """Who holds the lock of a directory, as a Java broker takes it. It is only asked for.

    Not to be called in a process that holds this lock itself: POSIX takes it away when the file is closed.

    Returns:
        The process; `NOBODY`; or None if this platform or file system cannot tell. -1 is somebody of whom the process
        is not known: on another host, in another container, or a broker of ours, which locks the open file.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    if sys.platform == "darwin":
        layout, order = "@qqihh", (2, 3)
    else:
        layout, order = "@hhqqi0q", (4, 0)
    values = [0] * 5
    values[order[1]] = fcntl.F_WRLCK
    try:
        with (directory / "lock").open("rb") as file:
            asked = struct.unpack(layout, fcntl.fcntl(file, fcntl.F_GETLK, struct.pack(layout, *values)))
    except FileNotFoundError:
        return NOBODY
    except OSError:
        return None
    if asked[order[1]] == fcntl.F_UNLCK:
        return NOBODY
    pid: int = asked[order[0]]
    return pid or -1


def open_journal(directory: Path) -> Journal:
    """The journal of a directory.

    Raises:
        ConfigurationError: there is none; the text says what the directory is instead.
    """
    try:
        if not directory.exists():
            raise ConfigurationError(f"{directory} does not exist")
        if not directory.is_dir():
            raise ConfigurationError(f"{directory} is no directory: give the one that holds the broker's db-1.log")
        found = foreign_store({path.name for path in directory.iterdir()}, stores_in(directory))
        if found is not None:
            raise ConfigurationError(f"{directory} {found}")
        journal = Journal(directory)
        if not journal.files:
            raise ConfigurationError(f"{directory} {what_it_is(directory)}")
    except StoreError as error:
        raise ConfigurationError(str(error)) from error
    except OSError as error:
        raise ConfigurationError(f"cannot read {directory}: {error.strerror or error}") from error
    return journal


@dataclass(slots=True)
class Survey:
    """What a directory holds. Close it for its index, or use it as a context manager.

    Args:
        holder: what `lock_holder` said.
        sizes: of the journal files, in bytes.
        ends: where in each file the next batch would be written, behind its last record.
        commands: how many records of each kind.
        last: the last record.
        audit, ack_map: the newest records of these kinds.
        remarked: what brokers of ours remarked.
        compacted: files that begin with copies of acknowledgements, and the file that was copied.
        branches: what only the index tells of transactions; it is in `state`.
        index: the index, opened; None if there is none or it is damaged.
        index_error: why it cannot be read.
    """

    directory: Path
    journal: Journal
    holder: int | None
    state: State
    sizes: dict[int, int]
    ends: dict[int, int]
    commands: Counter[type]
    last: Location | None = None
    audit: Location | None = None
    ack_map: Location | None = None
    remarked: remarks.Remarked = field(default_factory=remarks.Remarked)
    compacted: dict[int, int] = field(default_factory=dict)
    branches: list[Rollback | Prepare] = field(default_factory=list)
    index: PageFile | None = None
    index_error: IndexDamaged | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the index go. What was read stays."""
        if self.index is not None:
            self.index.close()

    @property
    def running(self) -> bool:
        """Whether a broker runs, as far as can be told."""
        return self.holder not in (NOBODY, None)

    def acks(self) -> tuple[dict[int, set[int]], str | None]:
        """Which file acknowledges messages of which files, as the broker knows it; and what is wrong with its map."""
        known = self.state.ack_files
        if self.index is None or self.index.ack_map is None:
            return known, None
        place = self.index.ack_map
        try:
            found = read_ack_map(self._ack_map_at(place))
        except JournalDamaged as error:
            return known, f"{place}: {error}"
        if self.index.closed_cleanly and not self.running:
            return found, None
        return {file: known.get(file, set()) | found.get(file, set()) for file in {*known, *found}}, None

    def _ack_map_at(self, place: IndexPlace) -> bytes:
        if place.file not in self.journal.files:
            raise JournalDamaged("there is no such file in the journal")
        with self.journal.opened(place.file) as source:
            source.seek(place.offset)
            size = int.from_bytes(source.read(4), "big", signed=True)
        command = self.journal.read(KahaDBLocation(place.file, place.offset, max(size, 0)))
        if not isinstance(command, AckMessageFileMap) or command.ack_message_file_map is None:
            raise JournalDamaged("no map of acknowledgements stands here")
        return command.ack_message_file_map

    def pins(self) -> Pins:
        """What a cleanup of the broker would look at."""
        index = self.index
        last: Location | IndexPlace | None = self.last
        audit: Location | IndexPlace | None = self.audit
        ack_map: Location | IndexPlace | None = self.ack_map
        if index is not None and self.running:
            last = index.last_update  # a few seconds old
        elif index is not None and index.closed_cleanly:
            last, audit, ack_map = index.last_update, index.producer_audit, index.ack_map
        elif not self.running:
            audit = ack_map = None  # a broker that starts after a crash writes them anew
        return Pins.of(
            self.state,
            self.sizes,
            max(self.sizes) if last is None else last.file,
            acks=self.acks()[0],
            audit=None if audit is None else audit.file,
            ack_map=None if ack_map is None else ack_map.file,
            running=self.running,
        )


def survey(
    directory: Path | str,
    *,
    index_directory: Path | str | None = None,
    at_last_update: Callable[[Survey, PageFile, State], None] | None = None,
) -> Survey:
    """Read a directory to its end.

    Args:
        directory: where the journal is.
        index_directory: where ``db.data`` is, if not there.
        at_last_update: is called with the survey so far, with the index, and with the state that the journal tells up
            to the last record that is in the index. The state goes on afterwards, and is not finished.

    Raises:
        ConfigurationError: it is no KahaDB directory.
        StoreError: a file cannot be read.
    """
    directory = Path(directory)
    journal = open_journal(directory)
    found = Survey(directory, journal, lock_holder(directory), State(), {}, {}, Counter())
    where = directory if index_directory is None else Path(index_directory)
    if (where / "db.data").exists():
        try:
            found.index = PageFile(where)
        except IndexDamaged as error:
            found.index_error = error
    try:
        _replay(found, at_last_update)
    except BaseException:
        found.close()
        raise
    return found


def _replay(found: Survey, at_last_update: Callable[[Survey, PageFile, State], None] | None) -> None:
    journal, index = found.journal, found.index
    progress = Replay(journal.files)
    records = _noted(found)
    if index is not None and at_last_update is not None:
        if not index.closed_cleanly or found.running:
            progress.apply(up_to(records, index.last_update))
            at_last_update(found, index, progress.state)
            progress.apply(records)
        else:
            progress.apply(records)
            at_last_update(found, index, progress.state)
    else:
        progress.apply(records)
    damages, unlisted = journal.damages, journal.damages_unlisted
    tx_store = found.directory.parent / "txStore"
    if tx_store.is_dir() and tx_store != found.directory:
        progress.decide(Journal(tx_store))
    if index is not None:
        try:
            found.branches = settle_branches(progress, journal, index)
        except IndexDamaged as error:
            found.index_error = error
    state = progress.finish()
    state.damages = sorted([*damages, *state.damages])
    state.damages_unlisted += unlisted
    found.state = state


def _noted(found: Survey) -> Iterator[Record]:
    """All records; on the way it is noted what is not in the state."""
    for number, path in found.journal.files.items():
        found.sizes[number] = os.stat(path).st_size
        found.ends[number] = 0
    counts, ends = found.commands, found.ends
    for record in found.journal.records():
        location, command = record
        cls = type(command)
        counts[cls] += 1
        ends[location.file] = location.offset + location.size
        if cls is ProducerAudit:
            found.audit = location
        elif cls is AckMessageFileMap:
            found.ack_map = location
        elif isinstance(command, Trace):
            found.remarked.take(command)
        elif isinstance(command, RewrittenDataFile):
            found.compacted.setdefault(location.file, command.source)
        found.last = location
        yield record
