"""Tables on SQLite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, TextClause
from sqlalchemy.exc import DBAPIError

from jdbcstore.errors import LockHeld
from jdbcstore.store.jdbc.dialect.base.catalogue import FoundColumn, FoundTable
from jdbcstore.store.jdbc.dialect.base.schema import LockedNames, Schema
from jdbcstore.store.jdbc.dialect.base.session import Dialect

__all__ = ["SQLiteSchema"]


#: Names without quotes are compared without regard to case.
_WANTED: Final = "sqlite_master m JOIN {} WHERE m.type IN ('table', 'view') AND lower(m.name) IN ({})"
_COLUMNS: Final = f'SELECT lower(m.name), c.name, c.type, c."notnull", c.pk FROM {_WANTED} ORDER BY c.pk'
#: Those of keys and constraints have names of their own. An expression has none.
_INDEXES: Final = (
    f"SELECT lower(m.name), i.name, upper(coalesce(k.name, '')) FROM {_WANTED}"
    " AND i.name NOT LIKE 'sqlite\\_autoindex\\_%' ESCAPE '\\' ORDER BY i.name, k.seqno"
)


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

    def found_tables(self, connection: Connection, names: Sequence[str]) -> dict[str, FoundTable]:
        asked = {name.lower(): name for name in names}
        marks = ", ".join("?" * len(asked))

        def rows(question: str, catalogues: str) -> Iterable[Any]:
            return connection.exec_driver_sql(question.format(catalogues, marks), tuple(asked))

        columns: dict[str, dict[str, FoundColumn]] = {}
        keys: dict[str, tuple[str, ...]] = {}
        for table, name, declared, is_needed, is_key in rows(_COLUMNS, "pragma_table_info(m.name) c"):
            word = declared.partition("(")[0].strip().lower()
            columns.setdefault(table, {})[name.upper()] = FoundColumn(word, "blob" in word, not is_needed)
            if is_key:
                keys[table] = (*keys.get(table, ()), name.upper())
        indexes: dict[str, dict[str, tuple[str, ...]]] = {table: {} for table in columns}
        of_tables = "pragma_index_list(m.name) i JOIN pragma_index_info(i.name) k"
        for table, index, column in rows(_INDEXES, of_tables):
            indexes[table][index] = (*indexes[table].get(index, ()), column)
        return {asked[table]: FoundTable(of, keys.get(table, ()), indexes[table]) for table, of in columns.items()}

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
