"""Cutting a table into ranges of ids that hold about equally many rows, without reading it.

Ids are uneven: loads give them in stripes, acknowledged rows leave holes, one destination may lie in one corner. So
rows are sampled, each database in its way, and the sample is cut. The time for that does not grow with the table.
Where few rows are wanted, or there are few, they are counted instead, by an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlalchemy import Connection, text

from jdbcstore.spark.scan import Scan
from jdbcstore.store.jdbc.dialect import database_for
from jdbcstore.store.jdbc.dialect.base.scan import TableScanner, of_ids

__all__ = ["IdRange", "id_ranges"]


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
    scanner = database_for(connection.dialect.name).scanner()
    sample = scanner.sample(connection, scan, ends.first, ends.last, count)
    if sample is None:
        return _counted(connection, scanner, scan, count)
    cuts = {sample[len(sample) * number // count] for number in range(1, count)} - {ends.first}
    return _between(ends, sorted(cuts))


def _between(ends: IdRange, cuts: Sequence[int]) -> list[IdRange]:
    return [IdRange(first, behind - 1) for first, behind in pairwise([ends.first, *cuts, ends.last + 1])]


def _ends(connection: Connection, scan: Scan) -> IdRange | None:
    """The first and last id of all rows in the scan's range, whatever its terms, by the primary key."""
    where = of_ids(scan.first, scan.last)
    found = connection.execute(
        text(f"SELECT (SELECT MIN(ID) FROM {scan.table}{where}) AS a, (SELECT MAX(ID) FROM {scan.table}{where}) AS b")
    ).one()
    return None if found.a is None else IdRange(int(found.a), int(found.b))


def _counted(connection: Connection, scanner: TableScanner, scan: Scan, count: int) -> list[IdRange]:
    """Exactly: every wanted row is counted."""
    query = (
        f"SELECT MIN(i) AS a, MAX(i) AS b FROM (SELECT ID AS i, NTILE({count}) OVER (ORDER BY ID) AS tile"
        f" FROM {scan.table}{scan.where}) tiles GROUP BY tile ORDER BY 1"
    )
    found = connection.exec_driver_sql(scanner.escaped(query)).all()
    if not found:
        return []
    return _between(IdRange(int(found[0].a), int(found[-1].b)), [int(row.a) for row in found[1:]])
