"""SQLite, with the standard library's driver.

WAL with synchronous=FULL: a commit survives the loss of power, readers never wait for the writer. When forcing the
log to the disk fails, SQLite takes the transaction back, and the next one is written over it. But a process may end
behind the write of a commit and before its force, also a failed one, and the next process reads the commit out of the
system's memory. So whoever begins to write copies the log into the database first, which forces both: nothing is
believed that the disk has not. Rows go in by
multi-row INSERTs of a power of two each: every step of a statement hands the interpreter lock over and has to win it
back, so a statement a row would cost a wait a row while the broker's loop is busy; a few fixed sizes keep the
statement cache warm.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, text
from sqlalchemy.engine.interfaces import DBAPIConnection

from jdbcstore.errors import (
    DuplicateMessage,
    LeaseLost,
    MessageTooLarge,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreReadOnly,
    TransientStoreError,
)
from jdbcstore.store import disk
from jdbcstore.store.jdbc.dialect import ConnectionLost, Dialect
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.rows import Batch

__all__ = ["SQLiteDialect"]

log = logging.getLogger(__name__)

_ROWS_AT_ONCE: Final = 256

_KINDS: Final[Mapping[str, type[StoreError]]] = {
    "SQLITE_CONSTRAINT": DuplicateMessage,
    "SQLITE_READONLY": StoreReadOnly,
    "SQLITE_FULL": StoreFull,
    "SQLITE_BUSY": TransientStoreError,
    "SQLITE_LOCKED": TransientStoreError,
    "SQLITE_IOERR": TransientStoreError,
    "SQLITE_CANTOPEN": ConnectionLost,
    "SQLITE_TOOBIG": MessageTooLarge,
    "SQLITE_CORRUPT": StoreError,
    "SQLITE_NOTADB": StoreError,
}


class SQLiteDialect(Dialect):
    """SQLite 3.35 and newer, one file."""

    index_hint = "INDEXED BY {index}"
    epoch_ms = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
    begin = "BEGIN IMMEDIATE"
    has_server = False
    gains_by_rebuilding = True
    locked_codes = frozenset({"SQLITE_BUSY", "SQLITE_LOCKED"})

    @classmethod
    def engine_arguments(cls, options: JdbcOptions) -> dict[str, Any]:
        return {
            "connect_args": {"timeout": options.query_timeout_s, "check_same_thread": False, "cached_statements": 256},
        }

    @classmethod
    def make_file(cls, arguments: Sequence[object]) -> None:
        # SQLite would make it readable for everybody; its other files get the mode of this one.
        place = str(arguments[0]) if arguments else ""
        if place and place != ":memory:" and not place.startswith("file:"):
            with suppress(OSError):  # it is there, or SQLite says what is wrong
                disk.DiskFile(Path(place), create=True).close()

    def connected(self, connection: Connection) -> None:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=4000", "cache_size=-32000"):
            connection.exec_driver_sql(f"PRAGMA {pragma}")
        # Until its next statement, a connection that has made a WAL file of another is said to be reading it.
        connection.exec_driver_sql("SELECT COUNT(*) FROM sqlite_master").one()
        _, frames, copied = connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)").one()
        if copied < frames:
            log.warning("somebody reads an old state: what was committed last is forced with the next commit only")
        limit = sqlite3.SQLITE_LIMIT_LENGTH
        raw: Any = connection.connection.dbapi_connection
        self.message_bytes_max = min(self.options.message_bytes_max, raw.getlimit(limit) - 4096)

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

    def take_over(self, connection: Connection, parameters: Mapping[str, object]) -> bool:
        names = self.statements
        take = (
            f"UPDATE {names.lock} SET BROKER_NAME = :holder, TIME = {names.lease_end}"
            f" WHERE ID = 1 AND {names.lease_is_free} AND (SELECT TERM FROM {names.term} WHERE ID = 1) = :seen"
        )
        connection.exec_driver_sql(self.begin)
        taken = connection.execute(text(take), parameters).rowcount > 0
        if taken:
            connection.execute(text(names.term_next), {"holder": parameters["holder"]})
        connection.exec_driver_sql("COMMIT")
        return taken

    def literal(self, value: str | int | bytes | None) -> bytes:
        if isinstance(value, bytes):
            return b"x'%s'" % value.hex().encode()
        if isinstance(value, str):
            return b"'" + value.encode().replace(b"'", b"''") + b"'"
        return b"NULL" if value is None else b"%d" % value

    def rollback(self, connection: DBAPIConnection) -> None:
        raw: Any = connection
        if raw.in_transaction:
            raw.execute("ROLLBACK")

    def error_code(self, error: BaseException) -> str:
        name = getattr(error, "sqlite_errorname", "")
        if not name and isinstance(error, sqlite3.OperationalError) and "no such" in str(error):
            return "SCHEMA"
        if name == "SQLITE_ERROR" and "no such" in str(error):
            return "SCHEMA"
        # Extended names such as SQLITE_IOERR_WRITE belong to their family.
        return next((family for family in _KINDS if str(name).startswith(family)), str(name))

    def error_kinds(self) -> Mapping[str, type[StoreError]]:
        return {**_KINDS, "SCHEMA": SchemaMismatch}


def _slices(total: int) -> Iterator[tuple[int, int]]:
    """Cut `total` into starts and lengths, each length a power of two."""
    start, size = 0, _ROWS_AT_ONCE
    while start < total:
        while size > total - start:
            size >>= 1
        yield start, size
        start += size
