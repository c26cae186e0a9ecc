"""Sampling PostgreSQL's tables: pages."""

from __future__ import annotations

from typing import ClassVar, Final

from sqlalchemy import Connection, text

from jdbcstore.store.jdbc.dialect.base.scan import SAMPLE_ROWS_MIN, ScanDriver, TableScan, TableScanner, enough
from jdbcstore.store.jdbc.dialect.base.session import Dialect

__all__ = ["PostgreSQLScanner"]

#: So many pages are looked at for a sample.
_SAMPLE_PAGES: Final = 1_000


class PostgreSQLScanner(TableScanner):
    """Reads binary COPY: with ADBC in C++, else with psycopg2."""

    readers: ClassVar = {
        "adbc": ScanDriver("adbc_driver_postgresql", "jdbcstore.store.jdbc.dialect.postgresql.scan_adbc"),
        "psycopg2": ScanDriver("psycopg2", "jdbcstore.store.jdbc.dialect.postgresql.scan_psycopg2"),
    }

    #: Tables of fewer pages are counted.
    few_pages = 2_000

    def bytewise(self, dialect: Dialect) -> str:
        return '{} COLLATE "C"'

    def sample(self, connection: Connection, scan: TableScan, first: int, last: int, count: int) -> list[int] | None:
        pages = connection.execute(
            text("SELECT pg_relation_size(to_regclass(:table)) / current_setting('block_size')::int"),
            {"table": scan.table},
        ).scalar()
        if not pages or pages < self.few_pages:
            return None
        percent = 100 * min(1.0, max(_SAMPLE_PAGES, count * SAMPLE_ROWS_MIN) / pages)
        query = f"SELECT ID FROM {scan.table} TABLESAMPLE SYSTEM ({percent:.6f}) REPEATABLE (1){scan.where}"
        return enough([int(row[0]) for row in connection.exec_driver_sql(self.escaped(query))], count)
