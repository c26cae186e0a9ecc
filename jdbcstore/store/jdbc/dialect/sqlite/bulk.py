"""Very many rows on SQLite: executemany."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jdbcstore.errors import LeaseLost
from jdbcstore.store.jdbc.dialect.base.bulk import BulkSession, Place
from jdbcstore.store.jdbc.dialect.base.load_block import LoadRow
from jdbcstore.store.jdbc.dialect.base.session import Dialect
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.rows import Change

__all__ = ["SQLiteBulkSession"]


class SQLiteBulkSession(BulkSession):
    """executemany. Whoever is in a writing transaction is alone with the file, so the proofs come as they come."""

    def _insert_ledger_row(self, key: tuple[str, int]) -> bool:
        parts = self.statements.load_parts
        return self._execute(f"INSERT OR IGNORE INTO {parts} (JOB,PART,ROWS_LOADED) VALUES (?,?,0)", key) == 1

    def insert(self, place: Place, rows: Iterable[LoadRow]) -> int:
        count = 0

        def numbered(first: int, lead: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
            nonlocal count
            for producer, sequence, container, expiration, priority, blob in self._checked(rows):
                yield (*lead, first + count, producer, sequence, container, expiration, priority, blob)
                count += 1

        if isinstance(place, int):
            self.raw.executemany(self.statements.message_insert + "(?,?,?,?,?,?,?)", numbered(place, ()))
        else:
            columns = "JOB,PART,NUMBER,MSGID_PROD,MSGID_SEQ,CONTAINER,EXPIRATION,PRIORITY,MSG"
            insert = f"INSERT INTO {self.statements.staged} ({columns}) VALUES (?,?,?,?,?,?,?,?,?)"
            self.raw.executemany(insert, numbered(0, place))
        return count

    @classmethod
    def insert_rows(
        cls, raw: Any, dialect: Dialect, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
    ) -> None:
        raw.executemany(f"INSERT INTO {table} ({','.join(columns)}) VALUES ({','.join('?' * len(columns))})", rows)

    def conclude(self, changes: Sequence[Change], job: str, fence: Fence | None) -> None:
        loads, lock = self.statements.loads, self.statements.lock
        own = f"SELECT 1 FROM {loads} WHERE JOB=? AND STATE='loading' AND HOLDER=?"
        is_ours = self._first(own, (job, self.holder)) is not None
        is_master = fence is None or self._first(f"SELECT 1 FROM {lock} WHERE ID=1 AND BROKER_NAME=?", (fence.holder,))
        if not (is_ours and is_master):
            raise LeaseLost("this run of the load is over")
        for statement, values in changes:
            self._execute(statement, values)
        self._execute("COMMIT")

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        return int(self.raw.execute(statement, tuple(values)).rowcount)

    def _first(self, statement: str, values: Sequence[Any]) -> Sequence[Any] | None:
        row: Sequence[Any] | None = self.raw.execute(statement, tuple(values)).fetchone()
        return row
