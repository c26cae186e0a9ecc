"""SQLite, with the standard library's driver.

WAL with synchronous=FULL: a commit survives the loss of power, readers never wait for the writer. Rows go in by
multi-row INSERTs of a power of two each: every step of a statement hands the interpreter lock over and has to win it
back, so a statement a row would cost a wait a row while the broker's loop is busy; a few fixed sizes keep the
statement cache warm.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.engine.interfaces import DBAPIConnection

from jdbcstore.errors import (
    DuplicateMessage,
    MessageTooLarge,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreReadOnly,
    TransientStoreError,
)
from jdbcstore.store.jdbc.dialect import ConnectionLost, Dialect
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.rows import Batch

__all__ = ["SQLiteDialect"]

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

    @classmethod
    def engine_arguments(cls, options: JdbcOptions) -> dict[str, Any]:
        return {
            "connect_args": {"timeout": options.query_timeout_s, "check_same_thread": False, "cached_statements": 256},
        }

    def connected(self, connection: Connection) -> None:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=4000", "cache_size=-32000"):
            connection.exec_driver_sql(f"PRAGMA {pragma}")
        limit = sqlite3.SQLITE_LIMIT_LENGTH
        raw: Any = connection.connection.dbapi_connection
        self.message_bytes_max = min(self.options.message_bytes_max, raw.getlimit(limit) - 4096)

    def write(self, connection: DBAPIConnection, batch: Batch) -> int:
        cursor: Any = connection.cursor()
        table = self.statements.messages
        cursor.execute("BEGIN IMMEDIATE")
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
        removed = 0
        for start, rows in _slices(len(batch.removes)):
            marks = ",".join("?" * rows)
            cursor.execute(f"DELETE FROM {table} WHERE ID IN ({marks})", batch.removes[start : start + rows])
            removed += cursor.rowcount
        cursor.execute("COMMIT")
        return removed

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
