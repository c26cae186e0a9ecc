"""MySQL 8.0 and newer, and what MariaDB has in common with it."""

from __future__ import annotations

from typing import ClassVar

from sqlalchemy import Connection

from jdbcstore.store.jdbc.dialect.base.bulk import BulkSession
from jdbcstore.store.jdbc.dialect.base.database import Database
from jdbcstore.store.jdbc.dialect.base.scan import TableScanner
from jdbcstore.store.jdbc.dialect.base.session import Dialect
from jdbcstore.store.jdbc.dialect.mysql.schema import MySQLSchema, is_mariadb
from jdbcstore.store.jdbc.dialect.registry import database_for

__all__ = ["DATABASE", "MySQL"]


class MySQL(Database):
    """MySQL, whose URLs may lead to MariaDB as well."""

    name = "mysql"
    driver = "mysql+pymysql"
    example = "mysql://USER:PASSWORD@HOST/DATABASE"
    schema = MySQLSchema("utf8mb4_0900_bin")
    application_drivers: ClassVar = {"MySQLdb": "%s", "pymysql": "%s"}

    def dialect(self) -> type[Dialect]:
        from jdbcstore.store.jdbc.dialect.mysql.session import MySQLDialect

        return MySQLDialect

    def bulk_session(self) -> type[BulkSession]:
        from jdbcstore.store.jdbc.dialect.mysql.bulk import MySQLBulkSession

        return MySQLBulkSession

    def scanner(self) -> TableScanner:
        from jdbcstore.store.jdbc.dialect.mysql.scan import MySQLScanner

        return MySQLScanner()

    def at(self, connection: Connection) -> Database:
        return database_for("mariadb") if is_mariadb(connection) else self


DATABASE = MySQL()
