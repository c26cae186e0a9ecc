"""What is in a LevelDB directory: its log from the first byte, or the newest snapshot of the index and the log behind.

**Whom to believe.** A log that begins at position 0 and has no gap holds everything: it is replayed as a whole,
whatever the index says. ActiveMQ replays from its snapshot and ends at the first removed collection (see
`jdbcstore.store.journal.leveldb.state`), so its index may have lost what the log still has. Where the log begins in the
middle or has a gap, because files went that nobody needed, acknowledgements went with them: then the newest snapshot
that can be read says what is there, and the log from its position on; so does one that this store has written, which
says so itself. Without a snapshot the log says what it can.

**Where the log is damaged** the index may know what stood there: of what no record of the log mentions, the snapshot is
believed, also one that is damaged itself (`jdbcstore.store.journal.leveldb.salvage`).

A replicated store that was being copied keeps what it had before in ``stash``; like a master, we believe that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Final

from jdbcstore.destination import Destination, Topic
from jdbcstore.errors import CodecError, ConfigurationError, StoreError
from jdbcstore.store.journal.file_errors import reading
from jdbcstore.store.journal.leveldb.index_reader import index_state, read_index, salvaged_index, snapshots
from jdbcstore.store.journal.leveldb.log import FILE_PATTERN, LogFlaw, LogScan, content, file_name, log_files
from jdbcstore.store.journal.leveldb.message_reader import MessageReader
from jdbcstore.store.journal.leveldb.records import QUEUE, TOPIC
from jdbcstore.store.journal.leveldb.salvage import Mentioned, adopt, forget_unknown
from jdbcstore.store.journal.leveldb.state import Collection, State

__all__ = ["OURS", "STASH", "VERSION_FILE", "Recovered", "recover", "stashed"]

VERSION_FILE: Final = "store-version.txt"
#: The key in a snapshot that says that this store has written it: its position, and where the log was complete. One
#: that ActiveMQ made of it has another position.
OURS: Final = b":jdbcstore"
STASH: Final = "stash"
#: How often a directory is read in which files go meanwhile.
_TRIES: Final = 5
#: Files of the log, and snapshots.
_KEPT: Final = re.compile(r"[0-9a-fA-F]{16}\.(log|index)")
_VERSION: Final = re.compile(r"activemq_leveldb_store:(\d+)")


@dataclass(slots=True)
class Recovered:
    """What was found.

    Args:
        state: collections, and remarks about them.
        log_directory: where the files of the log are.
        files: position → path.
        ends: position → where the last whole unit of that file ends, as a position.
        snapshot: the position of the newest snapshot that can be read; None if there is none.
        index: what that holds.
        is_from_index: whether the state began with it.
        salvaged: what can be read of the newest snapshot, if none is whole.
    """

    state: State
    log_directory: Path
    files: dict[int, Path]
    ends: dict[int, int] = field(default_factory=dict)
    snapshot: int | None = None
    index: dict[bytes, bytes] = field(default_factory=dict)
    is_from_index: bool = False
    salvaged: dict[bytes, bytes] = field(default_factory=dict)

    @property
    def clean_end(self) -> int:
        """Where the log ended for good when this store wrote the snapshot; -1 if it did not."""
        position, _, end = self.index.get(OURS, b"").partition(b" ")
        if self.snapshot is None or position != f"{self.snapshot:x}".encode():
            return -1
        return int(end, 16)

    @property
    def end(self) -> int:
        """Where the log ends."""
        return max(self.ends.values(), default=0)


def recover(directory: Path, log_directory: Path | None = None) -> Recovered:
    """Read a directory; nothing is changed. A broker may run on it: if files go meanwhile it is read once more.

    Args:
        directory: of the store.
        log_directory: of its log, if that is elsewhere (``logDirectory``).

    Raises:
        ConfigurationError: there is no LevelDB store, or one of a later version.
        StoreError: it cannot be read.
    """
    for _ in range(_TRIES):
        before = _names(directory, log_directory)
        try:
            found = _recover(directory, log_directory)
        except StoreError:
            if before <= _names(directory, log_directory):
                raise
            continue
        if before <= _names(directory, log_directory):
            return found
    raise StoreError(
        f"{directory}: a broker removes files faster than they are read; try again when it has less to do, or stop it"
    )


def _names(directory: Path, log_directory: Path | None) -> set[Path]:
    """Files of the log and snapshots of the index that there are. Those that come are no matter, those that go are."""
    places = [place for place in {directory, log_directory or directory} if place.is_dir()]
    found: set[Path] = set()
    for place in places:
        with reading(str(place)):
            found.update(path for path in place.iterdir() if _KEPT.fullmatch(path.name))
    return found


def _recover(directory: Path, log_directory: Path | None) -> Recovered:
    _require_version(directory, log_directory or directory)
    remarks: list[str] = []
    stash = stashed(directory)
    if stash is not None:
        remarks.append(f"{directory} was being copied from a master: read is what it had before, in {STASH}")
        directory, log_directory = stash, None
    logs = log_directory or directory
    files = log_files(logs) if logs.is_dir() else {}
    found = Recovered(State(), logs, files)
    found.state.remarks += remarks
    _find_snapshot(found, directory)
    if not files and found.snapshot is None and not (directory / VERSION_FILE).exists():
        raise ConfigurationError(f"{logs} holds no log of a LevelDB store ({FILE_PATTERN})")
    if not files and (found.snapshot or (directory / "dirty.index").is_dir()):
        known = f" up to position {found.snapshot:#x}" if found.snapshot else ""
        raise ConfigurationError(
            f"{directory} has an index{known}, and {logs} no log: the messages are in the log; say where it is (option"
            " logDirectory: in a URL leveldb:DIRECTORY?logDirectory=LOGS, of 'jdbcstore journal' --log-directory LOGS)"
        )
    gap = _gap(files)
    if (gap is not None or found.clean_end >= 0) and found.snapshot is not None:
        found.is_from_index = True
        index_state(found.index, found.state)
    elif gap is not None:
        found.state.remark("gap", f"{gap}, and there is no index: messages that were acknowledged may come back")
    _replay(found)
    if found.salvaged and (gap is not None or found.state.damages):
        adopt(found.state, found.salvaged, _mentioned(found), list(found.files))
    _judge(found)
    _name(found)
    found.state.finish()
    return found


def _require_version(directory: Path, logs: Path) -> None:
    """Make sure that a directory is one that can be read."""
    path = directory / VERSION_FILE
    if not path.exists():
        return
    with reading(str(path)):
        text = path.read_text("utf-8", "replace").strip()
    if not text:  # a broker was killed when it began
        return
    found = _VERSION.fullmatch(text)
    if found is None and logs.is_dir() and log_files(logs):
        return  # damaged; what the log is, it says by itself
    if found is None or int(found[1]) != 1:
        raise ConfigurationError(f"{path} says {text[:60]!r}, and only activemq_leveldb_store:1 is known")


def stashed(directory: Path) -> Path | None:
    """Where a slave keeps what it had while it copies from its master; None if it does not."""
    stash = directory / STASH
    return stash if stash.is_dir() and log_files(stash) else None


def _find_snapshot(found: Recovered, directory: Path) -> None:
    for position, path in snapshots(directory).items() if directory.is_dir() else ():
        try:
            found.index = read_index(path)
        except StoreError as error:
            found.state.remark("index", f"{path.name} cannot be read: {error}")
            found.salvaged = found.salvaged or salvaged_index(path)
            continue
        found.snapshot = position
        return


def _gap(files: dict[int, Path]) -> str | None:
    """Why the log does not hold everything; None if it does. Sizes of files tell: they are cut when the next begins."""
    if not files:
        return None
    first = next(iter(files))
    if first:
        return f"the log begins at position {first:#x}, the files before are gone"
    for one, following in pairwise(files):
        with reading(str(files[one])):
            size = files[one].stat().st_size
        if one + size < following:
            return f"the log has a gap from {one + size:#x} to {following:#x}"
    return None


def _replay(found: Recovered) -> None:
    state, last = found.state, _last_used(found.files)
    start = found.snapshot if found.is_from_index and found.snapshot is not None else 0
    #: Where the index may know what cannot be read before.
    meets = None if found.is_from_index else found.snapshot
    files = list(found.files)
    for base, following in zip_longest(files, files[1:]):
        if following is not None and following <= start:
            found.ends[base] = following
            continue
        with reading(file_name(base)), found.files[base].open("rb") as source:
            data = content(source)
        scan = LogScan(data, base, max(0, start - base), is_last=base >= last)
        for unit in scan.units():
            if meets is not None and unit.start >= meets:
                meets = None
                _help_out(found, scan)
            state.apply(unit)
        found.ends[base] = base + scan.end
        state.flawed(scan.flaws if following is None or base >= last else _in_the_middle(scan, base, following))
    if meets is not None:
        _help_out(found, None, is_short=meets > found.end)


def _in_the_middle(scan: LogScan, base: int, following: int) -> list[LogFlaw]:
    """What is left out of a file that others follow: it goes on to the next one, so nothing is missing at its end."""
    flaws = [flaw._replace(at_the_end=False) for flaw in scan.flaws]
    behind = max([scan.end, *(flaw.offset + flaw.length for flaw in flaws)])
    if base + behind < following:
        flaws.append(LogFlaw(base, behind, following - base - behind, "nothing is written here, and the log goes on"))
    return flaws


def _help_out(found: Recovered, scan: LogScan | None, *, is_short: bool = False) -> None:
    """The log was replayed up to the snapshot: what could not be read, the index knows."""
    state = found.state
    if not state.damages and not is_short and not (scan is not None and scan.flaws):
        return
    mentioned = _mentioned(found, found.snapshot)
    if not state.removals:  # no replay of ActiveMQ's has ended early
        forget_unknown(state, found.index)
    adopt(state, found.index, mentioned, list(found.files))


def _mentioned(found: Recovered, end: int | None = None) -> Mentioned:
    """What records of the log say something about, up to a position."""
    mentioned = Mentioned()
    for base, path in found.files.items():
        if end is not None and base >= end:
            break
        with reading(file_name(base)), path.open("rb") as source:
            data = content(source)
        for unit in LogScan(data, base).units():
            if end is not None and unit.start >= end:
                break
            mentioned.take(unit)
    return mentioned


def _last_used(files: dict[int, Path]) -> int:
    """The last file in which something stands; files are made before they are used."""
    for base, path in reversed(files.items()):
        with reading(str(path)), path.open("rb") as source:
            data = content(source)
        if data.count(0) != len(data):
            return base
    return 0


def _judge(found: Recovered) -> None:
    """What ActiveMQ would have made of it."""
    state, snapshot = found.state, found.snapshot
    if snapshot is not None and snapshot > found.end:
        state.damaged(
            "short",
            f"the log ends at {found.end:#x}, before the index, which knows it up to {snapshot:#x}: messages that stood"
            " behind are lost",
        )
    _judge_replay(found)


def _judge_replay(found: Recovered) -> None:
    """ActiveMQ begins at its snapshot, and ends at the first removed collection behind it."""
    state = found.state
    for position, units in state.removals:
        behind = state.units - units
        if position >= (found.snapshot or 0):
            if behind:
                state.remark(
                    "replay",
                    f"ActiveMQ's own replay would have ended at position {position:#x}, where a collection is removed,"
                    f" without an error: {behind} units of work behind it were lost to it and are read here",
                )
            return


def _name(found: Recovered) -> None:
    """Queues and topics whose records are gone: their messages name them."""
    unnamed = [one for one in found.state.collections.values() if not one.meta]
    if not unnamed:
        return
    reader = MessageReader(found.log_directory, found.files)
    try:
        for one in unnamed:
            name = next(_destinations(one, reader), None)
            if name is None:
                found.state.remark("unnamed", f"what is in collection {one.key} cannot be told, it is left out")
                del found.state.collections[one.key]
                continue
            one.type = TOPIC if isinstance(name, Topic) else QUEUE
            one.meta = name.qualified_name.encode()
            found.state.remark("unnamed", f"collection {one.key} is {name}, as its messages say")
    finally:
        reader.close()


def _destinations(collection: Collection, reader: MessageReader) -> Iterator[Destination]:
    for sequence, place in collection.entries.items():
        try:
            destination = reader.message(*place, sequence).destination
        except CodecError:
            continue
        if destination is not None:
            yield destination
