"""What SQLAlchemy and Alembic have to know of the database."""

from __future__ import annotations

from alembic.ddl.sqlite import SQLiteImpl
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

__all__ = ["SecondLite", "SecondLiteImpl"]


class SecondLite(SQLiteDialect_pysqlite):
    """Of SQLAlchemy."""

    name = "secondlite"
    supports_statement_cache = True


class SecondLiteImpl(SQLiteImpl):
    """Of Alembic, which finds it by the name."""

    __dialect__ = "secondlite"
