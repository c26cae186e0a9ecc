"""The cost of a read does not grow with the backlog: plans and the databases' own counters, on a hundred thousand rows.

Four sets of tables, each filled once per database: a hundred thousand messages in one queue (with two small ones that
lie badly for a planner), in a hundred and in ten thousand queues, and one whose statistics were taken before it grew.
Everything is executed and looked at while the tables are filled, once before and once after ANALYZE; the tests judge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import pytest
from sqlalchemy import Connection, Engine, String, cast, literal, text

from jdbcstore.config.urls import open_engine, store_url
from jdbcstore.destination import Queue
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Cursor
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.rows import Purge
from jdbcstore.store.jdbc.schema import upgrade_schema
from jdbcstore.store.jdbc.tables import Tables
from jdbcstore.store.jdbc.writes import Batch, Write
from jdbcstore.testing.messages import PRODUCER
from tests.conftest import SQL_SERVERS, fresh_database
from tests.sql.captured import Sent, captured
from tests.sql.examining import Examined, examine
from tests.sql.loading import ByNumber, load
from tests.sql.recorder import batch_statements

pytestmark = pytest.mark.one_in(3, of="mysql")  # each server plans by itself, MySQL much as MariaDB

ROWS: Final = 40_000
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
    "one queue, its end": Scene("ONE_", "Q0", ROWS - 99, 100),
    "a queue behind all others": Scene("ONE_", "BEHIND", 0, PAGE),
    "two messages among all others": Scene("ONE_", "TWO", 0, 2),
    "an empty queue": Scene("ONE_", "EMPTY", 0, 0, probes=0),
    "a hundred queues": Scene("HUNDRED_", "Q50", 0, PAGE),
    "messages without a priority": Scene("HUNDRED_", "OLD", ROWS + 1_000, PAGE),
    "ten thousand queues": Scene("MANY_", "Q5000", 0, ROWS // 10_000),
    "prioritised": Scene("MANY_", "TEN", 0, PAGE, prioritized=True, probes=1),
    "ten priorities merged": Scene("MANY_", "TEN", 0, PAGE, probes=10),
    "a queue that has grown": Scene("GROWN_", "SMALL", 0, PAGE),
    "a queue that is new": Scene("GROWN_", "NEW", 0, PAGE),
}
PAGES: Final = [
    (name, state)
    for name, scene in SCENES.items()
    for state in ((OUTDATED,) if scene.prefix == "GROWN_" else (NEVER, ANALYSED))
]
LOOKUPS: Final = (
    "expired",
    "by id",
    "by producer",
    "id by producer",
    "highest id",
    "highest of a producer",
    "removes",
    "purge",
)
STATES: Final = (NEVER, ANALYSED, OUTDATED)
#: The index of a look-up ends so. MySQL, MariaDB, PostgreSQL and SQLite each name that of the primary key themselves.
INDEXES: Final = {
    "expired": {"eidx"},
    "by id": {"primary", "pkey", "autoindex"},
    "by producer": {"midx"},
    "id by producer": {"midx"},
    "highest id": {"primary", "pkey", "autoindex"},
    "highest of a producer": {"midx"},
    "removes": {"primary", "pkey", "autoindex"},
    "purge": {"page"},
}


class Row(NamedTuple):
    """A message to look for, and a queue that is small enough to be purged."""

    id: int
    container: str
    small_container: str


LOOKED_UP: Final = {
    "ONE_": Row(ROWS // 2, "queue://Q0", "queue://TWO"),
    "HUNDRED_": Row(ROWS // 2 + 51, "queue://Q50", "queue://Q50"),
    "MANY_": Row(ROWS // 2 + 1, "queue://Q0", "queue://Q5000"),
    "GROWN_": Row(80_000 + ROWS // 5, "queue://NEW", "queue://Q1"),
}

Seen: TypeAlias = Mapping[tuple[str, str], Sequence[Examined]]


@pytest.fixture(
    scope="module", params=["sqlite", *SQL_SERVERS, pytest.param("postgresql18", marks=pytest.mark.exhaustive)]
)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """What every database does for every page and look-up, by name and state of its statistics."""
    if request.param == "sqlite":
        yield _look(f"sqlite:///{tmp_path_factory.mktemp('plans') / 'plans.db'}")
    else:
        for url in fresh_database(request, request.param):
            yield _look(url)


@pytest.mark.parametrize(("name", "state"), PAGES)
def test_a_page_walks_a_range_of_our_index(seen: Seen, name: str, state: str) -> None:
    scene = SCENES[name]
    for probe in seen[name, state]:
        assert probe.indexes == {f"{scene.prefix}jdbcstore_msgs_page".lower()}, probe.plan
        assert probe.bounds == {"CONTAINER", "PRIORITY", "ID"}, probe.plan
        assert probe.is_bounded, probe.plan
        assert not probe.sorts, probe.plan


@pytest.mark.parametrize(("name", "state"), PAGES)
def test_a_page_touches_the_rows_it_returns_and_no_others(seen: Seen, name: str, state: str) -> None:
    scene = SCENES[name]
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
    seen: dict[tuple[str, str], list[Examined]] = defaultdict(list)
    try:
        with engine.connect() as connection:
            _fill(engine, connection)
            for state in (NEVER, ANALYSED):
                for prefix in ("ONE_", "HUNDRED_", "MANY_"):
                    if state is ANALYSED:
                        _analyse(connection, prefix)
                    for name, found in _look_at(url, connection, prefix):
                        seen[name, state].append(found)
            for name, found in _look_at(url, connection, "GROWN_"):
                seen[name, OUTDATED].append(found)
    finally:
        engine.dispose()
    return seen


def _fill(engine: Engine, connection: Connection) -> None:
    """One producer has sent everything, in the order of the ids."""
    one, hundred, many, grown = (
        _tables(engine, connection, prefix) for prefix in ("ONE_", "HUNDRED_", "MANY_", "GROWN_")
    )
    load(connection, one, ROWS, 2, CONTAINER=_one_of(1))
    load(connection, one, 1_000, ROWS + 3, CONTAINER="queue://BEHIND")
    load(connection, one, 2, CONTAINER="queue://TWO", ID=lambda n: n * (ROWS + 1) + 1)
    load(connection, one, 2_000, 2 * ROWS, CONTAINER="queue://EXPIRING", EXPIRATION=lambda n: n + 1)
    load(connection, hundred, ROWS, CONTAINER=_one_of(100))
    load(connection, hundred, 2_000, ROWS + 1, CONTAINER="queue://OLD", PRIORITY=None)
    load(connection, many, ROWS, CONTAINER=_one_of(10_000))
    load(connection, many, 2_000, ROWS + 1, CONTAINER="queue://TEN", PRIORITY=lambda n: n % 10)
    load(connection, grown, 10_000, CONTAINER=_one_of(90))  # few enough to be counted one by one
    load(connection, grown, 5, 10_001, CONTAINER="queue://SMALL")
    _analyse(connection, "GROWN_")
    load(connection, grown, ROWS // 2, 20_000, CONTAINER="queue://SMALL")
    load(connection, grown, ROWS // 2, 80_000, CONTAINER="queue://NEW")


def _tables(engine: Engine, connection: Connection, prefix: str) -> Tables:
    """New tables whose statistics nobody takes but we."""
    upgrade_schema(engine, prefix)
    tables = Tables.on(connection, prefix)
    settings = {"postgresql": "SET (autovacuum_enabled = off)", "sqlite": None}
    if setting := settings.get(connection.dialect.name, "STATS_AUTO_RECALC = 0"):
        connection.execute(text(f"ALTER TABLE {tables.messages.name} {setting}"))
    return tables


def _analyse(connection: Connection, prefix: str) -> None:
    words = "ANALYZE TABLE" if connection.dialect.name in ("mysql", "mariadb") else "ANALYZE"
    connection.exec_driver_sql(f"{words} {prefix}ACTIVEMQ_MSGS").close()


def _one_of(queues: int) -> ByNumber:
    return lambda n: literal("queue://Q") + cast(n % queues, String)


def _look_at(url: str, connection: Connection, prefix: str) -> Iterator[tuple[str, Examined]]:
    with JdbcPersistenceAdapter(store_url(url), JdbcOptions(table_prefix=prefix)) as adapter:
        asked = [*_pages(adapter, prefix), *_lookups(adapter, connection, LOOKED_UP[prefix])]
    for name, sent in asked:
        yield name, examine(connection, sent)


def _pages(adapter: JdbcPersistenceAdapter, prefix: str) -> Iterator[tuple[str, Sent]]:
    for name, scene in SCENES.items():
        if scene.prefix != prefix:
            continue
        store = adapter.queue_message_store(Queue(scene.queue), prioritized=scene.prioritized)
        with captured() as sent:
            page = store.recover_next_messages(Cursor.after(scene.after), PAGE, 1 << 30)
        assert len(page.messages) == scene.returned
        assert len(sent) == scene.probes
        yield from ((name, probe) for probe in sent)
        adapter.remove_queue_message_store(Queue(scene.queue))  # the next scene may want it prioritised


def _lookups(adapter: JdbcPersistenceAdapter, connection: Connection, row: Row) -> Iterator[tuple[str, Sent]]:
    """What is asked about one message in the middle of a large queue, and what changes with it."""
    statements, dialect = adapter.statements, adapter.dialect
    producer, container = str(PRODUCER), row.container
    for name, statement, parameters in (
        ("by id", statements.message_by_id, {"id": row.id, "container": container}),
        ("by producer", statements.message_by_key, {"producer": producer, "sequence": row.id, "container": container}),
        (
            "id by producer",
            statements.message_id_by_key,
            {"producer": producer, "sequence": row.id, "container": container},
        ),
        ("expired", statements.expired_page, {"since": 0, "id": 0, "now": 500, "rows": PAGE}),
        ("highest id", statements.sequence_last_of_messages, {}),
        ("highest of a producer", statements.producer_sequence_stored, {"producer": producer}),
        ("remembered of a producer", statements.producer_sequence_remembered, {"producer": producer}),
        ("producers to forget", statements.producers_page, {"after": producer, "rows": 20}),
        ("in doubt", statements.containers_in_doubt, {}),
    ):
        with captured() as sent:
            connection.execute(text(statement), parameters).all()
        yield from ((name, asked) for asked in sent)
    for name, write in (
        ("removes", Write(Completion(), removes=range(row.id, row.id + PAGE))),
        ("purge", Write(Completion(), purges=[Purge(row.small_container, 1 << 40)])),
    ):
        yield from ((name, change) for change in batch_statements(dialect, Batch([write])))
