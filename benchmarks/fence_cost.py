"""What proving the term costs, with and without a fence turn and turn about, on the writer's own connection.

``python -m benchmarks.fence_cost [seconds] [locker]`` starts a PostgreSQL, a MariaDB and a MySQL and uses a SQLite
file; the locker is ``lease`` or ``database``. Every other commit has a fence, and the medians of the times are
compared, so that a noisy machine disturbs both alike. Two costs are told: of a commit as the group-commit writer makes
it, from what many producers have submitted to their answers, and of its statements alone.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.contestants import DATABASES, database
from jdbcstore.config.urls import open_store
from jdbcstore.openwire import marshal
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.dialect import raw_connection
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.line_watch import engine_for
from jdbcstore.store.jdbc.lockers import DatabaseLocker, LeaseDatabaseLocker
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.writer import Writer
from jdbcstore.store.jdbc.writes import Batch, Write
from jdbcstore.store.lease import LockerOptions
from jdbcstore.testing import text_message

BATCHES: Final = (1, 10, 100)
BODY: Final = "x" * 1024

#: Without and with the fence, in seconds.
Times: TypeAlias = tuple[list[float], list[float]]


class Commits:
    """Commits batches of new rows as the writer's thread does, which is not started."""

    def __init__(self, adapter: JdbcPersistenceAdapter, fence: Fence) -> None:
        self.writer = Writer(engine_for(adapter.url, adapter.options), adapter.dialect, adapter.options, fence=fence)
        self.writer._connect()  # as a session that has a fence
        self.dialect = adapter.dialect
        self.fence = fence
        self.id = 0
        self.blob = marshal(text_message(1, BODY))

    def times(self, rows: int, seconds: float) -> tuple[Times, Times]:
        """How long commits and how long their statements took, in seconds, each without and with the fence."""
        commits: Times = ([], [])
        statements: Times = ([], [])
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            # A, B, B, A: whatever comes every so many commits meets both.
            for is_fenced in (False, True, True, False):
                self.writer._fence = self.fence if is_fenced else None
                writes = self._writes(rows)
                began = time.perf_counter()
                self.writer.commits.commit_now(writes)
                commits[is_fenced].append(time.perf_counter() - began)
                writes[-1].completion.result()
                raw, batch = raw_connection(self.writer._connect()), Batch(self._writes(rows))
                began = time.perf_counter()
                self.dialect.write(raw, batch, self.writer._fence)
                statements[is_fenced].append(time.perf_counter() - began)
        return commits, statements

    def _writes(self, rows: int) -> list[Write]:
        first, self.id = self.id + 1, self.id + rows
        ids = range(first, first + rows)
        return [Write.of_rows([(id, "ID:fence-1:1:1", id, "queue://FENCE", 0, 0, self.blob)]) for id in ids]


def measure(kind: str, seconds: float, locker_kind: str) -> None:
    """Print a line for each batch size."""
    with tempfile.TemporaryDirectory() as folder, database(kind, Path(folder)) as found:
        adapter = open_store(found.url, locker="none")
        master = open_store(found.url, JdbcOptions(locker=locker_kind, lock=LockerOptions(lease_ms=3_600_000)))
        assert isinstance(adapter, JdbcPersistenceAdapter)
        assert isinstance(master, JdbcPersistenceAdapter)
        with adapter:
            locker = master.locker()
            assert isinstance(locker, LeaseDatabaseLocker | DatabaseLocker)
            locker.acquire()
            assert locker.fence is not None
            commits = Commits(adapter, locker.fence)
            for rows in BATCHES:
                commits.times(rows, seconds / 10)
                whole, statements = commits.times(rows, seconds)
                fenced = statistics.median(whole[True])
                print(
                    f"{kind:<11} batch {rows:>4}  fenced {rows / fenced:>8.0f} rows/s  {1e3 * fenced:7.2f} ms"
                    f"  cost of the commit {cost(whole):5.1f} %, of its statements {cost(statements):5.1f} %",
                    flush=True,
                )
                adapter.delete_all_messages()
            commits.writer.stop()
            locker.release()


def cost(times: Times) -> float:
    """How much longer it takes with the fence, in per cent of that."""
    free, fenced = map(statistics.median, times)
    return 100 * (1 - free / fenced)


if __name__ == "__main__":
    length_s = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    kind_of_locker = sys.argv[2] if len(sys.argv) > 2 else "lease"
    for each in DATABASES:
        if each != "sqlite" or kind_of_locker == "lease":  # a file has no rows to lock
            measure(each, length_s, kind_of_locker)
