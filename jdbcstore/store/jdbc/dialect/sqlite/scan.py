"""Sampling SQLite's tables: rows by their rowids."""

from __future__ import annotations

from random import Random
from typing import ClassVar

from sqlalchemy import Connection

from jdbcstore.store.jdbc.dialect.base.scan import (
    SAMPLE_ROWS,
    SAMPLE_ROWS_MIN,
    ScanDriver,
    TableScan,
    TableScanner,
    enough,
)

__all__ = ["SQLiteScanner"]


class SQLiteScanner(TableScanner):
    """Reads the file itself."""

    readers: ClassVar = {"sqlite3": ScanDriver("sqlite3", "jdbcstore.store.jdbc.dialect.sqlite.scan_sqlite3")}
    reads_percent_signs = False

    def sample(self, connection: Connection, scan: TableScan, first: int, last: int, count: int) -> list[int] | None:
        rowids = f"SELECT (SELECT MIN(rowid) FROM {scan.table}) AS a, (SELECT MAX(rowid) FROM {scan.table}) AS b"
        lowest, highest = connection.exec_driver_sql(rowids).one()
        if highest - lowest < self.few_rows:
            return None
        # At random, since what acknowledgements have left may follow a rhythm.
        query = f"SELECT ID FROM {scan.table}{scan.where or ' WHERE 1 = 1'} AND rowid = ?"
        numbers = Random(1)
        places = (numbers.randint(lowest, highest) for _ in range(max(SAMPLE_ROWS, 2 * count * SAMPLE_ROWS_MIN)))
        return enough([int(row[0]) for place in places for row in connection.exec_driver_sql(query, (place,))], count)
