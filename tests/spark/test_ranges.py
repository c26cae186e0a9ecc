"""Partitions hold about equally many rows, however the ids lie."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from sqlalchemy import Connection, literal_column, text

from jdbcstore.spark import ranges
from jdbcstore.spark.filters import Term
from jdbcstore.spark.ranges import IdRange, id_ranges
from jdbcstore.spark.scan import Scan
from jdbcstore.store.jdbc.dialect.base.scan import TableScanner
from jdbcstore.store.jdbc.dialect.mysql import scan as mysql_scan
from jdbcstore.store.jdbc.dialect.postgresql.scan import PostgreSQLScanner
from jdbcstore.store.jdbc.tables import Tables
from tests.spark.test_scan import put, scan_of, table
from tests.sql.loading import load

STRIPE = 1 << 32


def settle(connection: Connection) -> None:
    """What the database's own housekeeping would do sooner or later."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("VACUUM ANALYZE activemq_msgs"))
    elif connection.dialect.name != "sqlite":
        connection.execute(text("ANALYZE TABLE ACTIVEMQ_MSGS")).all()


def counts(connection: Connection, scan: Scan, found: Sequence[IdRange]) -> list[int]:
    """How many wanted rows each range has; together they have every one, and no id twice."""
    of_ids = [f"{scan.where or ' WHERE 1=1'} AND ID BETWEEN {each.first} AND {each.last}" for each in found]
    rows = [connection.execute(text(f"SELECT COUNT(*) FROM {scan.table}{where}")).scalar_one() for where in of_ids]
    assert sum(rows) == connection.execute(text(f"SELECT COUNT(*) FROM {scan.table}{scan.where}")).scalar_one()
    assert all(one.last + 1 == next_.first for one, next_ in itertools.pairwise(found))
    return rows


def uneven(connection: Connection, tables: Tables) -> None:
    """Three stripes of a bulk load, the first of which has lost nine of ten rows, and one destination at the end."""
    load(connection, tables, 3_900, 1, ID=lambda n: n * 10 + literal_column("1"))
    load(connection, tables, 24_000, STRIPE)
    load(connection, tables, 6_000, 5 * STRIPE, CONTAINER="queue://LATE")
    settle(connection)


def test_ids_may_lie_anyhow(database_url: str) -> None:
    with table(database_url) as (connection, tables):
        uneven(connection, tables)
        for term, total, least in (
            (None, 33_900, 0.6),
            (Term("CONTAINER", "=", "queue://LATE"), 6_000, 0.6),
            (Term("CONTAINER", "in", ("queue://TEST", "queue://%s")), 27_900, 0.5),
        ):
            scan = scan_of(database_url, ("ID",), terms=() if term is None else (term,))
            found = counts(connection, scan, id_ranges(connection, scan, 4))
            assert sum(found) == total
            assert min(found) > least * total / 4, found
            assert max(found) < (2 - least) * total / 4, found


def test_a_large_table_is_not_counted(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PostgreSQLScanner, "few_pages", 50)
    monkeypatch.setattr(TableScanner, "few_rows", 5_000)  # what makes a table large on PostgreSQL, and elsewhere

    def counted(*_: object) -> list[IdRange]:
        raise AssertionError("it was counted")

    with table(database_url) as (connection, tables):
        uneven(connection, tables)
        monkeypatch.setattr(ranges, "_counted", counted)
        scan = scan_of(database_url, ("ID",))
        found = counts(connection, scan, id_ranges(connection, scan, 4))
        assert len(found) == 4
        assert min(found) > 33_900 / 8
        assert max(found) < 33_900 / 2.5


def test_dense_ids_are_cut_evenly(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableScanner, "few_rows", 5_000)

    def asked(*_: object) -> mysql_scan._Estimates:
        raise AssertionError("estimates were asked for")

    with table(database_url) as (connection, tables):
        load(connection, tables, 12_000, STRIPE)
        connection.execute(text(f"DELETE FROM ACTIVEMQ_MSGS WHERE ID % 100 = 7 OR ID < {STRIPE + 100}"))
        settle(connection)
        monkeypatch.setattr(mysql_scan, "_Estimates", asked)
        scan = scan_of(database_url, ("ID",))
        for partitions in (4, 300):
            found = counts(connection, scan, id_ranges(connection, scan, partitions))
            assert len(found) == partitions
            if connection.dialect.name in ("mysql", "mariadb"):  # the others sample at random
                assert max(found) - min(found) < 0.1 * 12_000 / partitions + 4


def test_few_rows(database_url: str) -> None:
    with table(database_url) as (connection, tables):
        scan = scan_of(database_url, ("ID",))
        assert id_ranges(connection, scan, 4) == []
        put(connection, tables, [(id, "queue://A", None, 1, 0, b"", 0, None) for id in (3, STRIPE, (1 << 63) - 1)])
        assert id_ranges(connection, scan, 1) == [IdRange(3, (1 << 63) - 1)]
        assert [each.first for each in id_ranges(connection, scan, 4)] == [3, STRIPE, (1 << 63) - 1]
        assert id_ranges(connection, scan_of(database_url, ("ID",), first=4, last=STRIPE), 2) == [
            IdRange(STRIPE, STRIPE)
        ]
        none = scan_of(database_url, ("ID",), terms=(Term("CONTAINER", "=", "queue://%B"),))
        assert id_ranges(connection, none, 2) == []
        assert id_ranges(connection, scan_of(database_url, ("ID",), first=4, last=5), 2) == []
