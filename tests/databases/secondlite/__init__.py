"""A database that jdbcstore does not know: SQLite's library under another name, written from docs/adding-a-database.md.

Nothing here uses the folders of the databases that jdbcstore brings along.
"""

from __future__ import annotations

from jdbcstore.store.jdbc.dialect.base.bulk import BulkSession
from jdbcstore.store.jdbc.dialect.base.database import Database
from jdbcstore.store.jdbc.dialect.base.session import Dialect

from .schema import SecondLiteSchema

__all__ = ["DATABASE"]


class _SecondLite(Database):
    name = "secondlite"
    driver = "secondlite"
    example = "secondlite:///FILE"
    is_file = True
    writers_max = 1
    schema = SecondLiteSchema()

    def dialect(self) -> type[Dialect]:
        from .session import SecondLiteDialect

        return SecondLiteDialect

    def bulk_session(self) -> type[BulkSession]:
        from .bulk import SecondLiteBulkSession

        return SecondLiteBulkSession


DATABASE = _SecondLite()
