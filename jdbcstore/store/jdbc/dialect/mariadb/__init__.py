"""MariaDB 10.6 and newer: what it has of its own. All else is that of MySQL, and asks the server where it differs."""

from __future__ import annotations

from jdbcstore.store.jdbc.dialect.mysql import MySQL
from jdbcstore.store.jdbc.dialect.mysql.schema import MySQLSchema

__all__ = ["DATABASE"]


class _MariaDB(MySQL):
    name = "mariadb"
    driver = "mariadb+pymysql"
    example = "mariadb://USER:PASSWORD@HOST/DATABASE"
    schema = MySQLSchema("utf8mb4_nopad_bin")


DATABASE = _MariaDB()
