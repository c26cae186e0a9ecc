"""What a stream asks a database, on every database, against the same questions to a list."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from jdbcstore.config.urls import store_options
from jdbcstore.spark.filters import Term
from jdbcstore.spark.intervals import joined
from jdbcstore.spark.scan import Scan
from jdbcstore.spark.view import TableView
from jdbcstore.store.jdbc.snapshot import snapshot
from tests.spark.rows import insert, open_tables

FAR = 1 << 40


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    opened = open_tables(database_url)
    yield opened
    opened.dispose()


def test_questions(engine: Engine, database_url: str) -> None:
    chance = random.Random(4)
    ids = sorted({*chance.sample(range(1, 400), 200), FAR, FAR + 1})
    ours = {id for id in ids if id % 5}
    doubtful = {id for id in ids if id % 7 == 0}
    with engine.connect() as connection:
        for container, some in (("queue://A", ours), ("queue://100%'s", set(ids) - ours)):
            insert(connection, sorted(some - doubtful), container)
            insert(connection, sorted(some & doubtful), container, xid=b"\x01x")
        scan = Scan(store_options(database_url)[0], ("ID",), terms=(Term("CONTAINER", "in", ("queue://A",)),))
        view = TableView(connection, scan, floors=[("queue://A", 50)])
        other = TableView(connection, Scan(scan.url, ("ID",), terms=(Term("CONTAINER", "=", "queue://100%'s"),)))
        with snapshot(connection):
            assert view.top() == FAR + 1
            assert [view.trace(id) is None for id in (ids[0], 401)] == [False, True]
            assert view.trace(ids[0]) != view.trace(ids[1])
            for _ in range(30):
                edges = sorted(chance.sample(range(1, 420), 2 * chance.randrange(1, 8)))
                if chance.random() < 0.3:
                    edges[-1] = FAR + 5
                intervals = joined(zip(edges[::2], edges[1::2], strict=True))
                inside = [id for id in ids if any(first <= id <= last for first, last in intervals)]
                wanted = [id for id in inside if id in ours - doubtful and id >= 50]
                most = chance.choice((1, 3, 1000))
                assert view.runs(intervals, most) == joined((id, id) for id in inside)[:most]
                assert view.doubtful(intervals, most) == [id for id in inside if id in doubtful][:most]
                assert view.count(intervals) == len(wanted)
                assert view.ids(intervals, most) == wanted[:most]
                rows = chance.randrange(1, 60)
                assert view.last_of(intervals, rows) == (wanted[rows - 1] if rows <= len(wanted) else None)
                last = chance.choice(edges)
                below = joined((id, id) for id in ids if id <= last)
                assert view.runs_back(last, most) == below[-most:]
            assert other.count([(1, FAR + 1)]) == len(set(ids) - ours - doubtful)
            assert view.last_of([], 1) is None
            assert view.runs([], 1) == []


def test_one_moment_whatever_is_committed_meanwhile(sql_server_url: str) -> None:
    engine = open_tables(sql_server_url)
    with engine.connect() as connection, engine.connect() as other:
        insert(other, [1, 2])
        view = TableView(connection, Scan(store_options(sql_server_url)[0], ("ID",)))
        with snapshot(connection):
            insert(other, [3])
            assert view.top() == 3  # the moment is that of the first question
            insert(other, [4])
            assert (view.top(), view.count([(1, 9)])) == (3, 3)
        assert view.top() == 4
    engine.dispose()
