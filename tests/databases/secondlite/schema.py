"""How it keeps tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, TextClause
from sqlalchemy.exc import DBAPIError

from jdbcstore.errors import LockHeld
from jdbcstore.store.jdbc.dialect.base.schema import LockedNames, Schema
from jdbcstore.store.jdbc.dialect.base.session import Dialect

__all__ = ["SecondLiteSchema"]


class SecondLiteSchema(Schema):
    """One file, any value in any column, all changes in one transaction."""

    message_type = "blob"
    message_bytes_max = 1_000_000_000
    has_column_types = False
    names_begin_with_letter = True
    isolation_level = "SERIALIZABLE"
    row_lock = ""

    def index_options(self, condition: TextClause) -> dict[str, Any]:
        return {"sqlite_where": condition}

    def key_change(self, connection: Connection, table: str, columns: Sequence[str], *, has_key: bool) -> str | None:
        return None

    @contextmanager
    def lock(self, connection: Connection, dialect: Dialect, names: LockedNames, wait_s: float) -> Iterator[Connection]:
        raw: Any = connection.connection.dbapi_connection
        raw.rollback()
        before_ms = connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one()
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(wait_s * 1000)}")
        try:
            self._begin_alone(connection, dialect, wait_s)
            yield connection
        finally:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {before_ms}")

    def _begin_alone(self, connection: Connection, dialect: Dialect, wait_s: float) -> None:
        try:
            connection.exec_driver_sql("BEGIN EXCLUSIVE")
        except DBAPIError as error:
            if not dialect.is_locked(error):
                raise
            raise LockHeld(f"the file is in use for more than {wait_s:g} s: stop the broker first") from error
