"""Tables on SQLite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, TextClause
from sqlalchemy.exc import DBAPIError

from jdbcstore.errors import LockHeld
from jdbcstore.store.jdbc.dialect.base.schema import LockedNames, Schema
from jdbcstore.store.jdbc.dialect.base.session import Dialect

__all__ = ["SQLiteSchema"]


class SQLiteSchema(Schema):
    """SQLite keeps any value in any column, changes everything in one transaction, and no key of a table."""

    message_type = "blob"
    message_bytes_max = 1_000_000_000  # as it is usually compiled
    has_column_types = False
    names_begin_with_letter = True
    isolation_level = "SERIALIZABLE"
    row_lock = ""  # who is in an exclusive transaction is alone

    def index_options(self, condition: TextClause) -> dict[str, Any]:
        return {"sqlite_where": condition}

    @contextmanager
    def looked_at(self, connection: Connection) -> Iterator[None]:
        # Indexes are listed first, and each is looked up then. In between a bulk load may drop one.
        connection.exec_driver_sql("SAVEPOINT inspection")  # begins a transaction unless there is one
        try:
            yield
        finally:
            connection.exec_driver_sql("RELEASE inspection")

    def key_change(self, connection: Connection, table: str, columns: Sequence[str], *, has_key: bool) -> str | None:
        return None

    @contextmanager
    def lock(self, connection: Connection, dialect: Dialect, names: LockedNames, wait_s: float) -> Iterator[Connection]:
        timeout_ms = connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one()
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(wait_s * 1000)}")
        try:
            raw = connection.connection.dbapi_connection
            if raw is not None and getattr(raw, "in_transaction", False):
                raw.rollback()  # the engine's own BEGIN, which is not an exclusive one
            try:
                connection.exec_driver_sql("BEGIN EXCLUSIVE")
            except DBAPIError as error:
                if not dialect.is_locked(error):
                    raise
                raise LockHeld(
                    f"the database file is in use for more than {wait_s:g} s: stop the broker first"
                ) from error
            yield connection
        finally:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {timeout_ms}")
