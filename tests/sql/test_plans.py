"""The cost of a read does not grow with the backlog: plans and the databases' own counters, on a hundred thousand rows.

Four sets of tables, each filled once per database: a hundred thousand messages in one queue (with two small ones that
lie badly for a planner), in a hundred and in ten thousand queues, and one whose statistics were taken before it grew.
Everything is executed and looked at while the tables are filled, once before and once after ANALYZE; the tests judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import pytest
from sqlalchemy import ColumnElement, Connection, Engine, String, cast, literal, text

from jdbcstore.config.urls import open_engine, store_url
from jdbcstore.destination import Queue
from jdbcstore.identifiers import MessageId
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Cursor
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.rows import Batch, Purge, Write
from jdbcstore.store.jdbc.schema import upgrade_schema
from jdbcstore.store.jdbc.tables import Tables
from jdbcstore.testing.messages import PRODUCER
from tests.conftest import SQL_SERVERS, fresh_database
from tests.sql.captured import Sent, captured
from tests.sql.examining import Examined, examine
from tests.sql.loading import load
from tests.sql.recorder import Recorder

ROWS: Final = 100_000
PAGE: Final = 200
#: Blocks of a page beside the one that each row lies in: the way down the index and along its leaves.
INDEX_BLOCKS_MAX: Final = 30

NEVER, ANALYSED, OUTDATED = "never analysed", "analysed", "analysed before it grew"


class Scene(NamedTuple):
    """One page: of which queue in which set of tables, and what it returns."""

    prefix: str
    queue: str
    after: int
    returned: int
    prioritized: bool = False
    probes: int = 1


SCENES: Final = {
    "one queue, its start": Scene("ONE_", "Q0", 0, PAGE),
    "one queue, its middle": Scene("ONE_", "Q0", ROWS // 2, PAGE),
    "one queue, its end": Scene("ONE_", "Q0", ROWS - 100, 100),
    "a queue behind all others": Scene("ONE_", "BEHIND", 0, PAGE),
    "two messages among all others": Scene("ONE_", "TWO", 0, 2),
    "an empty queue": Scene("ONE_", "EMPTY", 0, 0, probes=0),
    "a hundred queues": Scene("HUNDRED_", "Q50", 0, PAGE),
    "messages without a priority": Scene("HUNDRED_", "OLD", 1_000 + ROWS, PAGE),
    "ten thousand queues": Scene("MANY_", "Q5000", 0, 10),
    "prioritised": Scene("MANY_", "TEN", 0, PAGE, prioritized=True, probes=1),
    "ten priorities merged": Scene("MANY_", "TEN", 0, PAGE, probes=10),
}
GROWN: Final = {
    "a queue that has grown": Scene("GROWN_", "Q0", 0, PAGE),
    "a queue that is new": Scene("GROWN_", "NEW", 0, PAGE),
}
PAGES: Final = [
    *((name, state) for name in SCENES for state in (NEVER, ANALYSED)),
    *((name, OUTDATED) for name in GROWN),
]
LOOKUPS: Final = ("by id", "by producer", "id by producer", "highest id", "highest of a producer", "removes", "purge")
STATES: Final = (NEVER, ANALYSED, OUTDATED)
INDEXES: Final = {  # SQLite has its own name for that of the primary key, and MySQL may answer MAX from one unnamed
    "by id": {"primary", "pkey", "autoindex"},
    "by producer": {"midx"},
    "id by producer": {"midx"},
    "highest id": {"primary", "pkey", "autoindex"},
    "highest of a producer": {"midx"},
    "removes": {"primary", "pkey", "autoindex"},
    "purge": {"page"},
}

Seen: TypeAlias = Mapping[tuple[str, str], Sequence[Examined]]


@pytest.fixture(scope="module", params=["sqlite", *SQL_SERVERS])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """What every database does for every page and look-up, by name and state of its statistics."""
    if request.param == "sqlite":
        yield _look(f"sqlite:///{tmp_path_factory.mktemp('plans') / 'plans.db'}")
    else:
        for url in fresh_database(request, request.param):
            yield _look(url)


@pytest.mark.parametrize(("name", "state"), PAGES)
def test_a_page_walks_a_range_of_our_index(seen: Seen, name: str, state: str) -> None:
    scene = {**SCENES, **GROWN}[name]
    for probe in seen[name, state]:
        assert probe.indexes == {f"{scene.prefix}jdbcstore_msgs_page".lower()}, probe.plan
        assert probe.is_bounded, probe.plan
        assert not probe.sorts, probe.plan


@pytest.mark.parametrize(("name", "state"), PAGES)
def test_a_page_touches_the_rows_it_returns_and_no_others(seen: Seen, name: str, state: str) -> None:
    scene = {**SCENES, **GROWN}[name]
    probes = seen[name, state]
    assert len(probes) == scene.probes
    assert sum(probe.rows for probe in probes) == scene.returned * scene.probes
    for probe in probes:
        assert probe.effort <= probe.effort_max, probe.plan
        assert probe.blocks <= probe.rows + INDEX_BLOCKS_MAX, probe.plan


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", LOOKUPS)
def test_a_look_up_goes_through_its_index(seen: Seen, name: str, state: str) -> None:
    for found in seen[name, state]:
        assert all(any(part in index for part in INDEXES[name]) for index in found.indexes), found.plan
        assert found.is_bounded, found.plan


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", LOOKUPS)
def test_a_look_up_touches_what_it_finds_and_no_more(seen: Seen, name: str, state: str) -> None:
    assert seen[name, state]
    for found in seen[name, state]:
        assert found.effort <= found.effort_max, found.plan


def test_rows_in_doubt_are_found_without_looking_at_the_others(seen: Seen) -> None:
    for found in seen["in doubt", ANALYSED]:
        assert all("xidx" in index for index in found.indexes), found.plan
        assert found.is_bounded, found.plan
        assert found.effort <= found.effort_max, found.plan


# -- filling and looking ---------------------------------------------------------------------------------------------


def _look(url: str) -> Seen:
    engine = open_engine(url)
    seen: dict[tuple[str, str], Sequence[Examined]] = {}
    try:
        with engine.connect() as connection:
            _fill(engine, connection)
            for state in (NEVER, ANALYSED):
                for prefix in ("ONE_", "HUNDRED_", "MANY_"):
                    if state is ANALYSED:
                        _analyse(connection, prefix)
                    scenes = {name: scene for name, scene in SCENES.items() if scene.prefix == prefix}
                    seen |= {(name, state): found for name, found in _look_at(url, connection, prefix, scenes)}
            seen |= {(name, OUTDATED): found for name, found in _look_at(url, connection, "GROWN_", GROWN)}
    finally:
        engine.dispose()
    return seen


def _fill(engine: Engine, connection: Connection) -> None:
    """Everything with numbers from 1 on, but BEHIND and TWO as their names say; one producer has sent it all."""
    for prefix, queues in (("ONE_", 1), ("HUNDRED_", 100), ("MANY_", 10_000)):
        load(connection, _tables(engine, connection, prefix), ROWS, CONTAINER=_one_of(queues))
    one, hundred, many = (Tables.on(connection, prefix) for prefix in ("ONE_", "HUNDRED_", "MANY_"))
    load(connection, one, 1_000, CONTAINER="queue://BEHIND", ID=_from(ROWS + 2), MSGID_SEQ=_from(ROWS + 2))
    load(connection, one, 2, CONTAINER="queue://TWO", ID=lambda n: n * (ROWS + 1), MSGID_SEQ=_from(ROWS + 2_000))
    load(connection, hundred, 2_000, CONTAINER="queue://OLD", ID=_from(ROWS + 1), MSGID_SEQ=_from(ROWS), PRIORITY=None)
    load(connection, many, 2_000, CONTAINER="queue://TEN", ID=_from(ROWS + 1), PRIORITY=lambda n: n % 10)
    grown = _tables(engine, connection, "GROWN_")
    load(connection, grown, 10_000, CONTAINER=_one_of(1_000))
    _analyse(connection, "GROWN_")
    half = ROWS // 2
    load(connection, grown, half, CONTAINER="queue://Q0", ID=_from(10_001), MSGID_SEQ=_from(10_001))
    load(connection, grown, half, CONTAINER="queue://NEW", ID=_from(10_001 + half), MSGID_SEQ=_from(10_001 + half))


def _tables(engine: Engine, connection: Connection, prefix: str) -> Tables:
    """New tables whose statistics nobody takes but we."""
    upgrade_schema(engine, prefix)
    messages = Tables.on(connection, prefix).messages.name
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"ALTER TABLE {messages} SET (autovacuum_enabled = off)"))
    elif connection.dialect.name in ("mysql", "mariadb"):
        connection.execute(text(f"ALTER TABLE {messages} STATS_AUTO_RECALC = 0"))
    return Tables.on(connection, prefix)


def _analyse(connection: Connection, prefix: str) -> None:
    words = "ANALYZE TABLE" if connection.dialect.name in ("mysql", "mariadb") else "ANALYZE"
    connection.exec_driver_sql(f"{words} {prefix}ACTIVEMQ_MSGS").close()


def _one_of(queues: int) -> Any:
    return lambda n: literal("queue://Q") + cast(n % queues, String)


def _from(first: int) -> Any:
    def number(n: ColumnElement[int]) -> ColumnElement[int]:
        return n + first

    return number


def _look_at(
    url: str, connection: Connection, prefix: str, scenes: Mapping[str, Scene]
) -> Iterator[tuple[str, Sequence[Examined]]]:
    for name, scene in scenes.items():
        with JdbcPersistenceAdapter(store_url(url), JdbcOptions(table_prefix=prefix)) as adapter:
            store = adapter.queue_message_store(Queue(scene.queue), prioritized=scene.prioritized)
            with captured() as sent:
                page = store.recover_next_messages(Cursor.after(scene.after), PAGE, 1 << 30)
            assert len(page.messages) == scene.returned
        yield name, [examine(connection, probe) for probe in sent]
    with JdbcPersistenceAdapter(store_url(url), JdbcOptions(table_prefix=prefix)) as adapter:
        queue = Queue(next(iter(scenes.values())).queue)  # the worst: the largest of its set
        for name, asked in _lookups(adapter, connection, queue):
            yield name, [examine(connection, statement) for statement in asked]


def _lookups(
    adapter: JdbcPersistenceAdapter, connection: Connection, queue: Queue
) -> Iterator[tuple[str, Sequence[Sent]]]:
    raise NotImplementedError
