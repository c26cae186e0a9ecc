"""PostgreSQL 13 and newer."""

from __future__ import annotations

from typing import ClassVar

from jdbcstore.store.jdbc.dialect.base.bulk import BulkSession
from jdbcstore.store.jdbc.dialect.base.database import Database
from jdbcstore.store.jdbc.dialect.base.scan import TableScanner
from jdbcstore.store.jdbc.dialect.base.session import Dialect
from jdbcstore.store.jdbc.dialect.postgresql.schema import PostgreSQLSchema

__all__ = ["DATABASE"]


class _PostgreSQL(Database):
    name = "postgresql"
    aliases = ("postgres",)
    driver = "postgresql+psycopg2"
    example = "postgresql://USER:PASSWORD@HOST/DATABASE"
    schema = PostgreSQLSchema()
    application_drivers: ClassVar = {"psycopg": "%s", "psycopg2": "%s"}

    def dialect(self) -> type[Dialect]:
        from jdbcstore.store.jdbc.dialect.postgresql.session import PostgreSQLDialect

        return PostgreSQLDialect

    def bulk_session(self) -> type[BulkSession]:
        from jdbcstore.store.jdbc.dialect.postgresql.bulk import PostgreSQLBulkSession

        return PostgreSQLBulkSession

    def scanner(self) -> TableScanner:
        from jdbcstore.store.jdbc.dialect.postgresql.scan import PostgreSQLScanner

        return PostgreSQLScanner()


DATABASE = _PostgreSQL()
