"""What a database does for a statement: its plan, and its own count of the work. Never time, which says too little."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection

from tests.sql.captured import Sent

__all__ = ["Examined", "examine"]


@dataclass(frozen=True, slots=True)
class Examined:
    """One statement, executed once and undone.

    Args:
        statement: as it was sent.
        plan: the database's words.
        indexes: names of the indexes it goes through, lower case.
        bounds: the columns that say where in the indexes it begins and ends, upper case.
        is_bounded: whether every access is a range of an index, none a whole table or index.
        is_covered: whether an index alone answers, without the rows it points to.
        sorts: whether rows are collected and sorted.
        rows: how many rows it returned or changed.
        effort: rows that the database looked at, or for SQLite steps of its virtual machine.
        effort_max: what `rows` rows may cost at most.
        blocks: PostgreSQL: blocks of table and index that it touched.
    """

    statement: str
    plan: str
    indexes: frozenset[str]
    bounds: frozenset[str]
    is_bounded: bool
    is_covered: bool
    sorts: bool
    rows: int
    effort: int
    effort_max: int
    blocks: int = 0


def examine(connection: Connection, sent: Sent) -> Examined:
    """Execute a statement, look how the database does it, and undo it.

    Args:
        connection: in autocommit mode.
        sent: the statement.
    """
    with _undone(connection):
        return _EXAMINE[connection.dialect.name](connection, sent)


@contextmanager
def _undone(connection: Connection) -> Iterator[None]:
    connection.exec_driver_sql("BEGIN")
    try:
        yield
    finally:
        connection.exec_driver_sql("ROLLBACK")


# -- PostgreSQL ------------------------------------------------------------------------------------------------------


_BOUND: Final = re.compile(r"\(?(\w+)\)?(?:::text)? (?:=|>=|<=|>|<|IS NULL|IS NOT NULL)")


def _on_postgresql(connection: Connection, sent: Sent) -> Examined:
    explain = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) " + sent.statement
    top: dict[str, Any] = connection.exec_driver_sql(explain, sent.parameters).scalar_one()[0]["Plan"]
    nodes = list(_nodes(top))
    scans = [node for node in nodes if node["Node Type"].endswith("Scan")]
    firsts = [scan for node in nodes if node["Node Type"] == "Limit" for scan in node["Plans"]]  # MAX, since 18
    changes = top["Node Type"] == "ModifyTable"
    rows = _count(top["Plans"][0] if changes else top, "Actual Rows")
    return Examined(
        statement=sent.statement,
        plan=str(top),
        indexes=frozenset(scan["Index Name"] for scan in scans if "Index Name" in scan),
        bounds=frozenset(
            column.upper() for scan in scans for column in _BOUND.findall(scan.get("Index Cond", "")) if column
        ),
        is_bounded=all(
            "Index Cond" in scan or _is_partial(scan) or scan in firsts for scan in scans if not _is_heap(scan)
        ),
        is_covered=all(scan["Node Type"] == "Index Only Scan" for scan in scans),
        sorts=any("Sort" in node["Node Type"] and _count(node, "Actual Rows") > 1 for node in nodes),
        rows=rows,
        effort=sum(
            _count(scan, name)
            for scan in scans
            if scan["Node Type"] != "Bitmap Index Scan"  # whose rows are those of the heap scan above it
            for name in ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
        ),
        effort_max=rows + 1,
        blocks=top["Shared Hit Blocks"] + top["Shared Read Blocks"],
    )


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def _count(node: dict[str, Any], name: str) -> int:
    return int(node.get(name, 0) * node["Actual Loops"])


def _is_heap(scan: dict[str, Any]) -> bool:
    """The half of a bitmap scan that fetches what the other half has found in an index."""
    return bool(scan["Node Type"] == "Bitmap Heap Scan")


def _is_partial(scan: dict[str, Any]) -> bool:
    """The index on XID has the rows in doubt only, so that all of it is wanted."""
    return bool(scan.get("Index Name", "").endswith("_xidx"))


# -- MySQL and MariaDB -----------------------------------------------------------------------------------------------


_COVERED: Final = re.compile(r"Using index(?! condition)|optimized away")
#: What a length of key in bytes means in our index: VARCHAR(250) in utf8mb4, a BIGINT that may be NULL, a BIGINT.
_BOUNDS: Final = {
    "1002": ("CONTAINER",),
    "1011": ("CONTAINER", "PRIORITY"),
    "1019": ("CONTAINER", "PRIORITY", "ID"),
}


def _on_mysql(connection: Connection, sent: Sent) -> Examined:
    is_mariadb = getattr(connection.dialect, "is_mariadb", False)
    explain = "EXPLAIN " if is_mariadb else "EXPLAIN FORMAT=TRADITIONAL "
    accesses = connection.exec_driver_sql(explain + sent.statement, sent.parameters).mappings().all()
    keys = [str(access["key"]) for access in accesses if access["key"]]
    rows, effort = _counted(connection, sent)
    return Examined(
        statement=sent.statement,
        plan=str(accesses),
        indexes=frozenset(name.lower() for key in keys for name in key.split("|")),  # MariaDB: index|filter
        bounds=frozenset(column for access in accesses for column in _BOUNDS.get(access["key_len"], ())),
        is_bounded=all(access["type"] not in ("ALL", "index", "index_merge") for access in accesses),
        is_covered=all(_COVERED.search(access["Extra"] or "") for access in accesses),
        sorts=any("filesort" in (access["Extra"] or "") for access in accesses),
        rows=rows,
        effort=effort,
        effort_max=rows + 4,
    )


def _counted(connection: Connection, sent: Sent) -> tuple[int, int]:
    """Rows of a statement, and rows that the storage engine was asked for meanwhile."""
    before = _handler_reads(connection)
    between = _handler_reads(connection)  # asking counts as well
    result = connection.exec_driver_sql(sent.statement, sent.parameters)
    rows = len(result.fetchall()) if result.returns_rows else result.rowcount
    return rows, (_handler_reads(connection) - between) - (between - before)


def _handler_reads(connection: Connection) -> int:
    status = connection.exec_driver_sql("SHOW SESSION STATUS LIKE 'Handler_read%%'")
    return sum(int(value) for _, value in status)


# -- SQLite ----------------------------------------------------------------------------------------------------------

_STEPS_FIXED: Final = 120
_STEPS_PER_ROW: Final = 20
_STEPS_PER_CHANGED_ROW: Final = 80
_INDEX: Final = re.compile(r"USING (?:COVERING )?INDEX (\S+)")


def _on_sqlite(connection: Connection, sent: Sent) -> Examined:
    explained = connection.exec_driver_sql("EXPLAIN QUERY PLAN " + sent.statement, sent.parameters)
    lines = [str(line[3]) for line in explained]
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    driver: Any = connection.connection.dbapi_connection
    driver.set_progress_handler(count, 1)
    result = connection.exec_driver_sql(sent.statement, sent.parameters)
    rows = len(result.fetchall()) if result.returns_rows else result.rowcount
    driver.set_progress_handler(None, 1)
    per_row = _STEPS_PER_ROW if result.returns_rows else _STEPS_PER_CHANGED_ROW
    return Examined(
        statement=sent.statement,
        plan=str(lines),
        indexes=frozenset(found[1].lower() for line in lines if (found := _INDEX.search(line))),
        bounds=frozenset(column for line in lines for column in re.findall(r"(\w+)[=<>]", line)),
        is_bounded=not any(line.startswith("SCAN") and "_XIDX" not in line for line in lines),
        is_covered=all("USING COVERING INDEX" in line for line in lines if line.startswith(("SCAN", "SEARCH"))),
        sorts=any("TEMP B-TREE" in line for line in lines) and rows > 1,
        rows=rows,
        effort=steps,
        effort_max=_STEPS_FIXED + per_row * rows,
    )


_EXAMINE: Final[Mapping[str, Callable[[Connection, Sent], Examined]]] = {
    "postgresql": _on_postgresql,
    "mysql": _on_mysql,
    "mariadb": _on_mysql,
    "sqlite": _on_sqlite,
}
