"""What proving the term costs: the writer's own statements with and without a fence, turn and turn about.

``python -m benchmarks.fence_cost [seconds]`` starts a PostgreSQL, a MariaDB and a MySQL and uses a SQLite file. Every
other commit has a fence, and the medians of the times are compared, so that a noisy machine disturbs both alike.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from sqlalchemy import text

from benchmarks.contestants import DATABASES, database
from jdbcstore.config.urls import open_store
from jdbcstore.openwire import marshal
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.lockers import LeaseDatabaseLocker
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.rows import Batch, Write
from jdbcstore.store.jdbc.writer import raw_connection
from jdbcstore.store.lease import LockerOptions
from jdbcstore.testing import text_message

BATCHES: Final = (1, 10, 100)
BODY: Final = "x" * 1024


class Commits:
    """Commits batches of new rows on a connection set up as the writer's."""

    def __init__(self, adapter: JdbcPersistenceAdapter, fence: Fence) -> None:
        self.adapter = adapter
        self.fence = fence
        self.id = 0
        self.blob = marshal(text_message(1, BODY))

    def times(self, rows: int, seconds: float) -> tuple[list[float], list[float]]:
        """Commit alternately without and with the fence; returns how long each took, in seconds."""
        free: list[float] = []
        fenced: list[float] = []
        with self.adapter.reading() as connection:
            dialect = self.adapter.dialect
            dialect.connected(connection)
            dialect.fenced(connection, self.fence)
            raw = raw_connection(connection)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                # A, B, B, A: whatever comes every so many commits meets both.
                for fence, times in ((None, free), (self.fence, fenced), (self.fence, fenced), (None, free)):
                    batch = self._batch(rows)
                    began = time.perf_counter()
                    dialect.write(raw, batch, fence)
                    times.append(time.perf_counter() - began)
            connection.execute(text(self.adapter.statements.messages_delete_all))
            connection.invalidate()
        return free, fenced

    def _batch(self, rows: int) -> Batch:
        first, self.id = self.id + 1, self.id + rows
        ids = range(first, first + rows)
        return Batch([Write.of_rows([(id, "ID:fence-1:1:1", id, "queue://FENCE", 0, 0, self.blob) for id in ids])])


def measure(kind: str, seconds: float) -> None:
    """Print a line for each batch size."""
    with tempfile.TemporaryDirectory() as folder, database(kind, Path(folder)) as found:
        adapter = open_store(found.url, JdbcOptions(locker="lease", lock=LockerOptions(lease_ms=3_600_000)))
        assert isinstance(adapter, JdbcPersistenceAdapter)
        locker = adapter.locker()
        assert isinstance(locker, LeaseDatabaseLocker)
        locker.acquire()
        fence = locker.fence
        assert fence is not None
        with adapter:
            commits = Commits(adapter, fence)
            for rows in BATCHES:
                commits.times(rows, seconds / 10)
                free, fenced = (statistics.median(times) for times in commits.times(rows, seconds))
                print(
                    f"{kind:<11} batch {rows:>4}  fenced {rows / fenced:>8.0f} rows/s  {1e3 * fenced:7.2f} ms"
                    f"  cost {100 * (1 - free / fenced):5.1f} %",
                    flush=True,
                )
        locker.release()


if __name__ == "__main__":
    length_s = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    for each in DATABASES:
        measure(each, length_s)
