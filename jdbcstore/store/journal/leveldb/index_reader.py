"""The index: a LevelDB database in a directory, read whole. Nothing is changed in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from jdbcstore.errors import StoreError
from jdbcstore.store.journal.file_errors import reading
from jdbcstore.store.journal.leveldb.index_files import VersionEdit, batch_entries, log_records, table_entries
from jdbcstore.store.journal.leveldb.records import SEQUENCE, CollectionRecord, EntryRecord
from jdbcstore.store.journal.leveldb.state import Collection, State
from jdbcstore.store.journal.leveldb.varints import Malformed

__all__ = ["index_state", "read_index", "salvaged_index", "snapshots"]

_SNAPSHOT: Final = re.compile(r"([0-9a-fA-F]{16})\.index")
_LOG: Final = re.compile(r"(\d+)\.log")
_MANIFEST: Final = re.compile(r"MANIFEST-\d+")
#: Whether the index is at work. With counters, that it is not ends a snapshot.
_DIRTY: Final = b":dirty"
_KEY_BYTES: Final = 1 + SEQUENCE.size

#: By key: the number of its last entry, and the value; None if it is deleted.
Numbered: TypeAlias = dict[bytes, tuple[int, bytes | None]]


def snapshots(directory: Path) -> dict[int, Path]:
    """The snapshots of an index by the position of the log up to which they are valid, the newest first."""
    found: dict[int, Path] = {}
    with reading(str(directory)):
        for path in directory.iterdir():
            name = _SNAPSHOT.fullmatch(path.name)
            if name is not None and path.is_dir():
                found[int(name[1], 16)] = path
    return dict(sorted(found.items(), reverse=True))


def read_index(directory: Path) -> dict[bytes, bytes]:
    """All that is in a database.

    Raises:
        StoreError: it cannot be read, or is damaged or not whole.
    """
    with reading(str(directory)):
        try:
            found = _read(directory)
        except (Malformed, UnicodeDecodeError) as error:
            raise StoreError(f"{directory} is damaged: {error}") from error
    last = max(found, key=lambda key: found[key][0], default=b"")
    if last[:1] != _DIRTY[:1] or found.get(_DIRTY, (0, b""))[1] != b"false":
        raise StoreError(f"{directory} is damaged: its end is missing")
    return _values(found)


def salvaged_index(directory: Path) -> dict[bytes, bytes]:
    """What can be read of a database that is damaged, of whatever age. Raises `StoreError` when a file cannot be."""
    found: Numbered = {}
    with reading(str(directory)):
        tables = sorted(path for path in directory.iterdir() if path.suffix in (".sst", ".ldb"))
        for path in tables:
            with suppress(Malformed):
                _take(found, table_entries(path.read_bytes(), path.name))
        for _, path in _logs(directory):
            with suppress(Malformed):
                for record in log_records(path.read_bytes(), path.name):
                    _take(found, batch_entries(record))
    return _values(found)


def _values(found: Numbered) -> dict[bytes, bytes]:
    return {key: value for key, (_, value) in sorted(found.items()) if value is not None}


def _read(directory: Path) -> Numbered:
    current = (directory / "CURRENT").read_text("ascii").strip()
    if not _MANIFEST.fullmatch(current):
        raise Malformed(f"CURRENT names {current!r}")
    version = VersionEdit()
    for edit in log_records((directory / current).read_bytes(), current):
        version.take(edit)
    found: Numbered = {}
    for number in version.tables:
        path = next((one for ending in ("sst", "ldb") if (one := directory / f"{number:06d}.{ending}").exists()), None)
        if path is None:
            raise Malformed(f"the table {number:06d} is missing")
        _take(found, table_entries(path.read_bytes(), path.name))
    for number, path in _logs(directory):
        if number < version.log_number and number != version.previous_log_number:
            continue
        for record in log_records(path.read_bytes(), path.name):
            _take(found, batch_entries(record))
    return found


def _logs(directory: Path) -> list[tuple[int, Path]]:
    return sorted((int(name[1]), path) for path in directory.iterdir() if (name := _LOG.fullmatch(path.name)))


def _take(found: Numbered, entries: Iterable[tuple[int, bytes, bytes | None]]) -> None:
    """Of each key the entry with the highest number."""
    for sequence, key, value in entries:
        known = found.get(key)
        if known is None or known[0] <= sequence:
            found[key] = sequence, value


def index_state(entries: dict[bytes, bytes], state: State) -> None:
    """Take what an index says into an empty state: collections (``c``) and their entries (``e``)."""
    for key, value in entries.items():
        if key[:1] == b"c" and len(key) == _KEY_BYTES:
            try:
                record = CollectionRecord.read(value)
            except Malformed as error:
                state.remark("malformed", f"index: collection {key!r} cannot be read: {error}")
                continue
            state.collections[record.key] = Collection(*record)
    for key, value in entries.items():
        if key[:1] == b"e" and len(key) > _KEY_BYTES:
            _entry(key, value, state)


def _entry(key: bytes, value: bytes, state: State) -> None:
    number = SEQUENCE.unpack_from(key, 1)[0]
    collection = state.collections.get(number)
    if collection is None:
        # Left over: a replay of ActiveMQ's that removes a collection, or a crash in between.
        state.remark("left over", f"index: an entry of collection {number}, which is not there")
        return
    try:
        record = EntryRecord.read(value)._replace(collection=number, key=key[_KEY_BYTES:])
        state.put(collection, record)
    except Malformed as error:
        state.remark("malformed", f"index: entry {key!r} cannot be read: {error}")
