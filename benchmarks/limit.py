"""What the database itself can do: rows as a broker writes them, by the fastest means of its driver, on one connection.

Same tables, same indexes, a commit for every batch. Nothing between the rows and the database but the driver. For a
journal: as many bytes appended and forced to the disk.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from jdbcstore.config.urls import open_store
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.dialect import raw_connection
from jdbcstore.store.jdbc.rows import MessageRow
from jdbcstore.store.jdbc.writes import Batch, Write

__all__ = ["Limit", "measure"]

#: What a message has beside its body.
_OVERHEAD_BYTES = 250
#: A journal's file.
_FILE_BYTES = 32 << 20


@dataclass(frozen=True)
class Limit:
    """Rows a second at one size of batch."""

    batch_rows: int
    rate: float


def measure(url: str, body_bytes: int, batch_rows: int, seconds: float = 3.0) -> Limit:
    """Write for a while.

    Args:
        url: of an empty database.
        body_bytes: of each message; the row has some 250 more.
        batch_rows: rows in one commit.
        seconds: for how long.
    """
    if url.startswith("kahadb:"):
        return _measure_files(Path(url.removeprefix("kahadb:")).parent, body_bytes, batch_rows, seconds)
    adapter = open_store(url)
    assert isinstance(adapter, JdbcPersistenceAdapter)
    with adapter, adapter.reading() as connection:
        adapter.dialect.connected(connection)
        raw = raw_connection(connection)
        adapter.delete_all_messages()
        blob = b"x" * (body_bytes + _OVERHEAD_BYTES)
        began, id = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - began) < seconds:
            rows: list[MessageRow] = [
                (id + n, "ID:benchmark-1:1:1:1", id + n, "queue://LIMIT", 0, 0, blob) for n in range(1, batch_rows + 1)
            ]
            id += batch_rows
            adapter.dialect.write(raw, Batch([Write.of_rows(rows)]))
        adapter.delete_all_messages()
    return Limit(batch_rows, id / elapsed)


def _measure_files(folder: Path, body_bytes: int, batch_rows: int, seconds: float) -> Limit:
    """As a journal does: each batch behind the last one, never over another, in files that are made as long as they
    will be and have no room on the disk before they are written (``preallocationStrategy=SPARSE_FILE``)."""
    batch = bytes(batch_rows * (body_bytes + _OVERHEAD_BYTES))
    with tempfile.TemporaryDirectory(dir=folder) as directory:
        began, count, offset, file = time.perf_counter(), 0, _FILE_BYTES, -1
        try:
            while (elapsed := time.perf_counter() - began) < seconds:
                if offset + len(batch) > _FILE_BYTES:
                    file, before, offset = _new_file(Path(directory) / str(count)), file, 0
                    if before >= 0:
                        os.close(before)
                os.pwrite(file, batch, offset)
                os.fdatasync(file)
                count += batch_rows
                offset += len(batch)
        finally:
            if file >= 0:
                os.close(file)
    return Limit(batch_rows, count / elapsed)


def _new_file(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    os.truncate(file, _FILE_BYTES)
    os.fdatasync(file)
    directory = os.open(path.parent, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)
    return file
