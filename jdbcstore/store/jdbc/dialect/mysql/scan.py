"""Sampling the tables of MySQL and MariaDB, which know no sample.

Some ids are asked for: if nearly all are there, ids are cut evenly. Else the servers say how many rows they expect
between two ids, which the upper levels of the primary key tell them.
"""

from __future__ import annotations

import heapq
from random import Random
from typing import ClassVar, Final

from sqlalchemy import Connection

from jdbcstore.store.jdbc.dialect.base.scan import (
    SAMPLE_ROWS,
    SAMPLE_ROWS_MIN,
    ScanDriver,
    TableScan,
    TableScanner,
    of_ids,
)
from jdbcstore.store.jdbc.dialect.mysql.schema import is_mariadb

__all__ = ["MySQLScanner"]

#: How finely rows are weighed, and when to stop.
_PIECES: Final = 6
_ESTIMATES_MAX: Final = 3_000
#: If this part of the ids has rows they are cut evenly.
_DENSE_PART: Final = 0.95
#: From this part of the table on a destination is taken to lie as everything does.
_LARGE_PART: Final = 0.3


class MySQLScanner(TableScanner):
    """Reads the rows from PyMySQL's socket itself."""

    readers: ClassVar = {"pymysql": ScanDriver("pymysql", "jdbcstore.store.jdbc.dialect.mysql.scan_pymysql")}
    number = "CAST({} AS SIGNED)"

    def sample(self, connection: Connection, scan: TableScan, first: int, last: int, count: int) -> list[int] | None:
        if self._is_dense(connection, scan, first, last, count):
            return [*range(first, last + 1, max(1, (last - first) // (count * SAMPLE_ROWS_MIN)))]
        table = scan.table
        expected = _Estimates(connection, table)
        total = expected.rows(f"FROM {table} USE INDEX (PRIMARY){of_ids(first, last)}")
        if total < self.few_rows:
            return None
        if scan.is_narrow and expected.rows(f"FROM {table}{scan.where}") < total * _LARGE_PART:
            return None
        most = max(1, total // (count * _PIECES))
        pieces = [(-total, first, last)]
        while -pieces[0][0] > most and expected.asked < _ESTIMATES_MAX:
            _, begin, end = heapq.heappop(pieces)
            for half in expected.halves(begin, end):
                heapq.heappush(pieces, half)
        # As many copies of an id as rows are expected behind it make a sample.
        unit = max(1, most // 4)
        return [
            begin for rows, begin, _ in sorted(pieces, key=lambda piece: piece[1]) for _ in range(max(1, -rows // unit))
        ]

    def _is_dense(self, connection: Connection, scan: TableScan, first: int, last: int, count: int) -> bool:
        """Whether nearly every id has a row that is wanted, as far as some that are looked for tell.

        One is looked for in each part of the range, at random.
        """
        numbers, parts, width = Random(1), min(count * SAMPLE_ROWS_MIN, SAMPLE_ROWS), last - first + 1
        if width < self.few_rows:
            return False
        sought = ", ".join(str(first + (part * width + numbers.randrange(width)) // parts) for part in range(parts))
        query = f"SELECT COUNT(*) FROM {scan.table}{scan.where or ' WHERE 1 = 1'} AND ID IN ({sought})"
        found = connection.exec_driver_sql(self.escaped(query)).scalar()
        return found is not None and int(found) >= _DENSE_PART * parts


class _Estimates:
    """What InnoDB expects between two ids. It looks into a few pages of the primary key for it, in MySQL not if the
    index is forced upon it."""

    def __init__(self, connection: Connection, table: str) -> None:
        self._connection = connection
        self._table = table
        # Without a format MySQL 9 draws a tree; MariaDB does not know the word for the table.
        self._explain = "EXPLAIN" if is_mariadb(connection) else "EXPLAIN FORMAT=TRADITIONAL"
        self.asked = 0

    def rows(self, what: str) -> int:
        """How many rows a query would meet."""
        self.asked += 1
        found = (
            self._connection.exec_driver_sql(f"{self._explain} SELECT ID {what}".replace("%", "%%")).mappings().first()
        )
        return 1 if found is None or found["rows"] is None else max(1, int(found["rows"]))

    def halves(self, first: int, last: int) -> list[tuple[int, int, int]]:
        """Both halves of a range of ids without the empty ends: minus the rows, first id, last id."""
        middle = (first + last) // 2
        query = (
            f"SELECT (SELECT MAX(ID) FROM {self._table} WHERE ID >= {first} AND ID <= {middle}),"
            f" (SELECT MIN(ID) FROM {self._table} WHERE ID > {middle} AND ID <= {last})"
        )
        end, begin = self._connection.exec_driver_sql(query).one()
        halves = [(first, end)] if end is not None else []
        halves += [(begin, last)] if begin is not None else []
        return [(self._weight(*half), *half) for half in halves]

    def _weight(self, first: int, last: int) -> int:
        if first == last:
            return -1
        return -self.rows(f"FROM {self._table} USE INDEX (PRIMARY){of_ids(first, last)}")
