"""SQLite 3.35 and newer, one file."""

from __future__ import annotations

from typing import ClassVar

from jdbcstore.store.jdbc.dialect.base.bulk import BulkSession
from jdbcstore.store.jdbc.dialect.base.database import Database
from jdbcstore.store.jdbc.dialect.base.scan import TableScanner
from jdbcstore.store.jdbc.dialect.base.session import Dialect
from jdbcstore.store.jdbc.dialect.sqlite.schema import SQLiteSchema

__all__ = ["DATABASE"]


class _SQLite(Database):
    name = "sqlite"
    driver = "sqlite"
    example = "sqlite:///FILE"
    is_file = True
    writers_max = 1
    schema = SQLiteSchema()
    application_drivers: ClassVar = {"sqlite3": "?"}

    def dialect(self) -> type[Dialect]:
        from jdbcstore.store.jdbc.dialect.sqlite.session import SQLiteDialect

        return SQLiteDialect

    def bulk_session(self) -> type[BulkSession]:
        from jdbcstore.store.jdbc.dialect.sqlite.bulk import SQLiteBulkSession

        return SQLiteBulkSession

    def scanner(self) -> TableScanner:
        from jdbcstore.store.jdbc.dialect.sqlite.scan import SQLiteScanner

        return SQLiteScanner()


DATABASE = _SQLite()
