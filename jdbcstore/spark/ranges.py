"""Cutting a table into ranges of ids that hold about equally many rows, without reading it.

Ids are uneven: loads give them in stripes, acknowledged rows leave holes, one destination may lie in one corner. So
rows are sampled, and the sample is cut: PostgreSQL samples pages of the table, SQLite rows by their rowids. Of MySQL
and MariaDB some ids are asked for: if nearly all are there, ids are cut evenly; else they say how many rows they expect
between two ids, which the upper levels of the primary key tell them. The time for that does not grow with the table.
Where few rows are wanted, or there are few, they are counted instead, by an index.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Final

from sqlalchemy import Connection, text

from jdbcstore.spark.scan import Scan

__all__ = ["IdRange", "id_ranges"]

#: Tables of fewer rows, and of fewer pages, are counted.
_FEW_ROWS: Final = 20_000
_FEW_PAGES: Final = 2_000
#: So many pages or rows are looked at for a sample, and so many rows have to be left for each range.
_SAMPLE_PAGES: Final = 1_000
_SAMPLE_ROWS: Final = 2_000
_SAMPLE_ROWS_MIN: Final = 20
#: MySQL: how finely rows are weighed, and when to stop.
_PIECES: Final = 6
_ESTIMATES_MAX: Final = 3_000
#: MySQL: if this part of the ids has rows they are cut evenly.
_DENSE_PART: Final = 0.95
#: MySQL: from this part of the table on a destination is taken to lie as everything does.
_LARGE_PART: Final = 0.3


@dataclass(frozen=True, slots=True)
class IdRange:
    """Ids, both included."""

    first: int
    last: int


def id_ranges(connection: Connection, scan: Scan, count: int) -> list[IdRange]:
    """Cut what a scan reads into ranges of about equally many rows.

    Args:
        connection: to the store of the scan.
        scan: with the ids and terms that count.
        count: how many; there may be fewer, since each has rows as far as one can tell.

    Returns:
        Ranges in the order of the ids, without gaps between the first and the last id of now; none if there is nothing.
    """
    ends = _ends(connection, scan)
    if ends is None:
        return []
    if count == 1:
        return [ends]
    database = connection.dialect.name
    sample = {"postgresql": _of_pages, "sqlite": _of_rowids}.get(database, _of_estimates)(connection, scan, ends, count)
    if sample is None:
        return _counted(connection, scan, count)
    cuts = {sample[len(sample) * number // count] for number in range(1, count)} - {ends.first}
    return _between(ends, sorted(cuts))


def _between(ends: IdRange, cuts: Sequence[int]) -> list[IdRange]:
    return [IdRange(first, behind - 1) for first, behind in pairwise([ends.first, *cuts, ends.last + 1])]


def _ends(connection: Connection, scan: Scan) -> IdRange | None:
    """The first and last id of all rows in the scan's range, whatever its terms, by the primary key."""
    where = _of_ids(scan.first, scan.last)
    found = connection.execute(
        text(f"SELECT (SELECT MIN(ID) FROM {scan.table}{where}) AS a, (SELECT MAX(ID) FROM {scan.table}{where}) AS b")
    ).one()
    return None if found.a is None else IdRange(int(found.a), int(found.b))


def _of_ids(first: int | None, last: int | None) -> str:
    found = [f"ID {sign} {id}" for sign, id in ((">=", first), ("<=", last)) if id is not None]
    return f" WHERE {' AND '.join(found)}" if found else ""


def _counted(connection: Connection, scan: Scan, count: int) -> list[IdRange]:
    """Exactly: every wanted row is counted."""
    query = (
        f"SELECT MIN(i) AS a, MAX(i) AS b FROM (SELECT ID AS i, NTILE({count}) OVER (ORDER BY ID) AS tile"
        f" FROM {scan.table}{scan.where}) tiles GROUP BY tile ORDER BY 1"
    )
    found = connection.exec_driver_sql(_escaped(connection, query)).all()
    if not found:
        return []
    return _between(IdRange(int(found[0].a), int(found[-1].b)), [int(row.a) for row in found[1:]])


def _enough(sample: list[int], count: int) -> list[int] | None:
    return sorted(sample) if len(sample) >= count * _SAMPLE_ROWS_MIN else None


def _escaped(connection: Connection, statement: str) -> str:
    """Text for a driver that takes a percent sign for a parameter."""
    return statement if connection.dialect.name == "sqlite" else statement.replace("%", "%%")


def _of_pages(connection: Connection, scan: Scan, ends: IdRange, count: int) -> list[int] | None:
    pages = connection.execute(
        text("SELECT pg_relation_size(to_regclass(:table)) / current_setting('block_size')::int"),
        {"table": scan.table},
    ).scalar()
    if not pages or pages < _FEW_PAGES:
        return None
    percent = 100 * min(1.0, max(_SAMPLE_PAGES, count * _SAMPLE_ROWS_MIN) / pages)
    query = f"SELECT ID FROM {scan.table} TABLESAMPLE SYSTEM ({percent:.6f}) REPEATABLE (1){scan.where}"
    return _enough([int(row[0]) for row in connection.exec_driver_sql(_escaped(connection, query))], count)


def _of_rowids(connection: Connection, scan: Scan, ends: IdRange, count: int) -> list[int] | None:
    rowids = f"SELECT (SELECT MIN(rowid) FROM {scan.table}) AS a, (SELECT MAX(rowid) FROM {scan.table}) AS b"
    first, last = connection.exec_driver_sql(rowids).one()
    if last - first < _FEW_ROWS:
        return None
    # At random, since what acknowledgements have left may follow a rhythm.
    query = f"SELECT ID FROM {scan.table}{scan.where or ' WHERE 1 = 1'} AND rowid = ?"
    numbers = Random(1)
    places = (numbers.randint(first, last) for _ in range(max(_SAMPLE_ROWS, 2 * count * _SAMPLE_ROWS_MIN)))
    return _enough([int(row[0]) for place in places for row in connection.exec_driver_sql(query, (place,))], count)


def _of_estimates(connection: Connection, scan: Scan, ends: IdRange, count: int) -> list[int] | None:
    if _is_dense(connection, scan, ends, count):
        return [*range(ends.first, ends.last + 1, max(1, (ends.last - ends.first) // (count * _SAMPLE_ROWS_MIN)))]
    table = scan.table
    expected = _Estimates(connection, table)
    total = expected.rows(f"FROM {table} USE INDEX (PRIMARY){_of_ids(ends.first, ends.last)}")
    if total < _FEW_ROWS:
        return None
    narrow = [
        term for term in scan.terms if term.column in ("CONTAINER", "MSGID_PROD") and term.operator != "is not null"
    ]
    if narrow and expected.rows(f"FROM {table}{scan.where}") < total * _LARGE_PART:
        return None
    enough = max(1, total // (count * _PIECES))
    pieces = [(-total, ends.first, ends.last)]
    while -pieces[0][0] > enough and expected.asked < _ESTIMATES_MAX:
        _, first, last = heapq.heappop(pieces)
        for half in expected.halves(first, last):
            heapq.heappush(pieces, half)
    # As many copies of an id as rows are expected behind it make a sample.
    unit = max(1, enough // 4)
    return [
        first for rows, first, _ in sorted(pieces, key=lambda piece: piece[1]) for _ in range(max(1, -rows // unit))
    ]


def _is_dense(connection: Connection, scan: Scan, ends: IdRange, count: int) -> bool:
    """Whether nearly every id has a row that is wanted, as far as some that are looked for tell: one from each part of
    the range, at random."""
    numbers, parts, width = Random(1), min(count * _SAMPLE_ROWS_MIN, _SAMPLE_ROWS), ends.last - ends.first + 1
    if width < _FEW_ROWS:
        return False
    sought = ", ".join(str(ends.first + (part * width + numbers.randrange(width)) // parts) for part in range(parts))
    query = f"SELECT COUNT(*) FROM {scan.table}{scan.where or ' WHERE 1 = 1'} AND ID IN ({sought})"
    found = connection.exec_driver_sql(_escaped(connection, query)).scalar()
    return found is not None and int(found) >= _DENSE_PART * parts


class _Estimates:
    """What InnoDB expects between two ids. It looks into a few pages of the primary key for it, in MySQL not if the
    index is forced upon it."""

    def __init__(self, connection: Connection, table: str) -> None:
        self._connection = connection
        self._table = table
        # Without a format MySQL 9 draws a tree; MariaDB does not know the word for the table.
        is_mariadb = getattr(connection.dialect, "is_mariadb", False)
        self._explain = "EXPLAIN" if is_mariadb else "EXPLAIN FORMAT=TRADITIONAL"
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
        return -self.rows(f"FROM {self._table} USE INDEX (PRIMARY){_of_ids(first, last)}")
