"""Very many rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jdbcstore.errors import LeaseLost
from jdbcstore.store.jdbc.dialect.base.bulk import BulkSession, LoadRow, Place
from jdbcstore.store.jdbc.dialect.base.session import Dialect
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.rows import Change

__all__ = ["SecondLiteBulkSession"]


class SecondLiteBulkSession(BulkSession):
    """executemany, with the literals of the statements put in by the base."""

    def insert(self, place: Place, rows: Iterable[LoadRow]) -> int:
        statements, checked = self.statements, list(self._checked(rows))
        if isinstance(place, int):
            numbered = [(place + number, *row) for number, row in enumerate(checked)]
            self.raw.executemany(statements.message_insert + "(?,?,?,?,?,?,?)", numbered)
        else:
            columns = ["NUMBER", "MSGID_PROD", "MSGID_SEQ", "CONTAINER", "EXPIRATION", "PRIORITY", "MSG", "JOB", "PART"]
            staged = [(number, *row, *place) for number, row in enumerate(checked)]
            self.insert_rows(self.raw, self.dialect, statements.staged, columns, staged)
        return len(checked)

    @classmethod
    def insert_rows(
        cls, raw: Any, dialect: Dialect, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
    ) -> None:
        marks = ",".join("?" * len(columns))
        raw.executemany(f"INSERT INTO {table} ({','.join(columns)}) VALUES ({marks})", rows)

    def conclude(self, changes: Sequence[Change], job: str, fence: Fence | None) -> None:
        ours = f"SELECT 1 FROM {self.statements.loads} WHERE JOB=? AND STATE='loading' AND HOLDER=?"
        if self._first(ours, (job, self.holder)) is None:
            raise LeaseLost("this run of the load is over")
        if fence is not None:
            self.dialect.prove(self.raw, fence)
        for statement, values in changes:
            self._execute(statement, values)
        self._execute("COMMIT")

    def _insert_ledger_row(self, key: tuple[str, int]) -> bool:
        insert = (
            f"INSERT INTO {self.statements.load_parts} (JOB,PART,ROWS_LOADED) VALUES (?,?,0) ON CONFLICT DO NOTHING"
        )
        return self._execute(insert, key) == 1

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        return int(self.raw.execute(statement, tuple(values)).rowcount)

    def _first(self, statement: str, values: Sequence[Any]) -> Sequence[Any] | None:
        row: Sequence[Any] | None = self.raw.execute(statement, tuple(values)).fetchone()
        return row
