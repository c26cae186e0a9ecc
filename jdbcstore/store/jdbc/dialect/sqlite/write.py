"""A batch on SQLite, with the standard library's driver.

Rows go in by multi-row INSERTs of a power of two each: every step of a statement hands the interpreter lock over and
has to win it back, so a statement a row would cost a wait a row while the broker's loop is busy; a few fixed sizes keep
the statement cache warm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy.engine.interfaces import DBAPIConnection

from jdbcstore.errors import LeaseLost
from jdbcstore.store.jdbc.dialect.base.session import Dialect
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.writes import Batch

__all__ = ["SQLiteStatements"]

_ROWS_AT_ONCE: Final = 256


class SQLiteStatements(Dialect):
    """What is asked of SQLite to read and write messages."""

    index_hint = "INDEXED BY {index}"
    epoch_ms = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
    begin = "BEGIN IMMEDIATE"

    def write(self, connection: DBAPIConnection, batch: Batch, fence: Fence | None = None) -> int:
        cursor: Any = connection.cursor()
        table = self.statements.messages
        cursor.execute(self.begin)
        if fence is not None:
            self.prove(connection, fence)
        for start, rows in _slices(len(batch.adds)):
            values = ",".join(("(?,?,?,?,?,?,?)",) * rows)
            cursor.execute(
                self.statements.message_insert + values,
                [value for row in batch.adds[start : start + rows] for value in row],
            )
        for id, blob in batch.updates:
            cursor.execute(f"UPDATE {table} SET MSG=? WHERE ID=?", (blob, id))
        purge = f"DELETE FROM {table} {self.hint} WHERE CONTAINER=? AND ID<=? AND XID IS NULL"
        for container, last in batch.purges:
            cursor.execute(purge, (container, last))
        self._mark(cursor, batch)
        for statement, given in batch.changes:
            cursor.execute(statement, given)
        removed = 0
        for start, rows in _slices(len(batch.removes)):
            marks = ",".join("?" * rows)
            cursor.execute(f"DELETE FROM {table} WHERE ID IN ({marks})", batch.removes[start : start + rows])
            removed += cursor.rowcount
        cursor.execute("COMMIT")
        return removed

    def _mark(self, cursor: Any, batch: Batch) -> None:
        """Remember and forget of producers what a batch says."""
        table, now = self.statements.producers, self.epoch_ms
        marks = list(batch.producers.items())
        for start, rows in _slices(len(marks)):
            values = ",".join((f"(?,?,{now})",) * rows)
            cursor.execute(
                f"INSERT INTO {table} (PRODUCER,LAST_SEQ,LAST_USED_MS) VALUES {values} ON CONFLICT (PRODUCER) DO UPDATE"
                " SET LAST_SEQ=MAX(LAST_SEQ,EXCLUDED.LAST_SEQ),LAST_USED_MS=EXCLUDED.LAST_USED_MS",
                [value for mark in marks[start : start + rows] for value in mark],
            )
        for start, rows in _slices(len(batch.forgets)):
            names = ",".join("?" * rows)
            cursor.execute(
                f"DELETE FROM {table} WHERE LAST_USED_MS<{now}-? AND PRODUCER IN ({names})",
                [self.options.producer_memory_ms, *batch.forgets[start : start + rows]],
            )

    def prove(self, connection: DBAPIConnection, fence: Fence) -> None:
        # Whoever is in a writing transaction is alone with the file.
        names = self.statements
        cursor: Any = connection.cursor()
        cursor.execute(
            f"SELECT COUNT(*) FROM {names.lock} l JOIN {names.term} t ON t.ID = l.ID"
            " WHERE l.ID = 1 AND l.BROKER_NAME = ? AND t.TERM = ?",
            (fence.holder, fence.term),
        )
        if cursor.fetchone()[0] != 1:
            raise LeaseLost("another broker is master of this store")

    def transact(self, connection: DBAPIConnection, statements: Sequence[str], fence: Fence | None) -> None:
        cursor: Any = connection.cursor()
        cursor.execute(self.begin)
        if fence is not None:
            self.prove(connection, fence)
        for statement in statements:
            cursor.execute(statement)
        cursor.execute("COMMIT")

    def literal(self, value: str | int | bytes | None) -> bytes:
        if isinstance(value, bytes):
            return b"x'%s'" % value.hex().encode()
        if isinstance(value, str):
            return b"'" + value.encode().replace(b"'", b"''") + b"'"
        return b"NULL" if value is None else b"%d" % value


def _slices(total: int) -> Iterator[tuple[int, int]]:
    """Cut `total` into starts and lengths, each length a power of two."""
    start, size = 0, _ROWS_AT_ONCE
    while start < total:
        while size > total - start:
            size >>= 1
        yield start, size
        start += size
