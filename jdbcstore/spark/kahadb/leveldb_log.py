"""The directory of a LevelDB store: what a broker would have, and what keeps each file of the log.

It is read where Spark plans and by each task, so it has to be at the same path everywhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from jdbcstore.destination import Destination
from jdbcstore.message import Message
from jdbcstore.openwire import unmarshal_message
from jdbcstore.spark.kahadb.files import RemoteFile, local_path
from jdbcstore.store.journal.commands import AddMessage
from jdbcstore.store.journal.kahadb.directory_kind import refuse_a_mixture
from jdbcstore.store.journal.leveldb.directory_kind import is_leveldb
from jdbcstore.store.journal.leveldb.inspection import units_of
from jdbcstore.store.journal.leveldb.log import LogFlaw
from jdbcstore.store.journal.leveldb.records import KIND_NAMES
from jdbcstore.store.journal.leveldb.recovery import recover
from jdbcstore.store.journal.leveldb.stored_state import message_at, numbered, stored_state
from jdbcstore.store.journal.records import Location
from jdbcstore.store.journal.state import State, StoredMessage

__all__ = ["LevelDBDirectory", "is_leveldb_directory"]


@dataclass(frozen=True, slots=True)
class _LogFile:
    """A file of the log that is open."""

    source: BinaryIO
    number: int

    def read(self, location: Location) -> AddMessage:
        """A message. Raises `JournalDamaged` if there is none."""
        return AddMessage(message=message_at(self.source, location))


class _RemoteLogFile(RemoteFile):
    """A file of the log."""

    __slots__ = ()

    def messages(self, source: BinaryIO) -> _LogFile:
        return _LogFile(source, self.number)

    def location(self, offset: int, size: int) -> Location:
        return Location(self.number, offset, size)


def is_leveldb_directory(uri: str) -> bool:
    """Whether a local directory holds a LevelDB store, by the names in it. Raises `ConfigurationError` if there are
    files of another one, too."""
    path = local_path(uri)
    if path is None or not is_leveldb(path):
        return False
    refuse_a_mixture(path, {file.name for file in path.iterdir()})
    return True


class LevelDBDirectory:
    """The directory of a LevelDB store.

    Args:
        uri: of a local directory.
        log_directory: where its log is, if that is elsewhere.

    Raises:
        ConfigurationError: it is no such directory.
        StoreError: it cannot be read.
    """

    def __init__(self, uri: str, log_directory: str | None = None) -> None:
        path = local_path(uri)
        assert path is not None
        self._found = recover(path, None if log_directory is None else Path(log_directory))
        #: By number.
        self.files: dict[int, RemoteFile] = {
            number: _RemoteLogFile(str(file.parent), str(file), number, file.stat().st_size)
            for number, file in numbered(self._found).items()
        }

    def state(self) -> State:
        """What is there. Raises `StoreError` if a file cannot be read."""
        return stored_state(self._found)

    def message(self, location: Location) -> Message:
        """A message. Raises `CodecError`, `StoreError`."""
        with self.files[location.file].opened() as source:
            return unmarshal_message(message_at(source, location))

    def file_rows(self, state: State) -> Iterator[dict[str, Any]]:
        """For ``view=files``: of each file what the columns of these names say, and ``live``: messages by destination.

        Raises:
            StoreError: a file cannot be read.
        """
        live: dict[int, dict[Destination, list[StoredMessage]]] = defaultdict(lambda: defaultdict(list))
        for destination, stored in state.destinations.items():
            for message in stored.messages():
                live[message.location.file][destination].append(message)
        doubtful: dict[int, set[str]] = defaultdict(set)
        for xid, transaction in state.prepared.items():
            for location in transaction.operations:
                doubtful[location.file].add(str(xid))
        counts: dict[int, Counter[str]] = defaultdict(Counter)
        damages: dict[int, list[str]] = defaultdict(list)
        for base, unit in units_of(self._found):
            if isinstance(unit, LogFlaw):
                damages[base].append(str(unit))
            else:
                counts[base].update(KIND_NAMES.get(record.kind, "Unknown") for record in unit.records)
        listed = {text for found in damages.values() for text in found}
        others = [str(damage) for damage in state.damages if str(damage) not in listed]
        snapshot, last = self._found.snapshot or 0, max(self._found.files, default=0)
        for (base, following), (number, file) in zip(
            zip(self._found.files, [*list(self._found.files)[1:], None], strict=True), self.files.items(), strict=True
        ):
            is_needed = number in live or number in doubtful or following is None or following > snapshot
            yield {
                "file": number,
                "path": file.path,
                "bytes": file.size,
                "usedBytes": max(0, self._found.ends.get(base, base) - base),
                "records": list(counts[base].items()),
                "live": live[number],
                "acknowledges": [],
                "subscriptions": [],
                "transactions": sorted(doubtful[number]),
                "removable": not is_needed,
                "damages": damages[base] + (others if base == last else []),
            }
