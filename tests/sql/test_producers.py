"""Producers that number their messages: what the SQL store remembers of them, and when it forgets."""

from __future__ import annotations

from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, inspect, text

from jdbcstore.config.urls import open_engine, store_url
from jdbcstore.destination import Queue
from jdbcstore.errors import OutcomeUnknown, SchemaMismatch, StoreError, TransientStoreError
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.store.contract import Commit
from jdbcstore.store.jdbc.migration import migrations_folder
from jdbcstore.store.jdbc.schema import inspect_schema, upgrade_schema
from jdbcstore.store.jdbc.tables import Tables
from jdbcstore.testing import text_message
from jdbcstore.testing.messages import PRODUCER
from tests.migrations.activemq import start_java_broker
from tests.servers.proxy import Proxy
from tests.sql.test_writer import WAIT_S, execute, numbers, one_batch, opened, refuse_thirteen

pytestmark = pytest.mark.has_tables


def remembered(url: str) -> dict[str, int]:
    engine = create_engine(store_url(url))
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT PRODUCER, LAST_SEQ FROM JDBCSTORE_PRODUCERS")).all()
    engine.dispose()
    return {str(row[0]): int(row[1]) for row in rows}


def test_what_follows_a_refused_message_fails_also_from_the_same_batch(database_url: str) -> None:
    with opened(database_url) as (adapter, store):
        refuse_thirteen(database_url)
        mine, pending = ProducerId("mine", 0, 0), list[Any]()
        with one_batch():
            for number in range(10, 20):
                follows = pending[-1:]
                message = text_message(number, producer_id=mine)
                pending.append(
                    adapter.commit_together(Commit(adds=[(store, message)], producers={mine: number}, follows=follows))
                )
            others = [store.add_message(text_message(number)) for number in range(30, 40)]
        assert [completion.exception(WAIT_S) is None for completion in pending] == [True] * 3 + [False] * 7
        assert [completion.result(WAIT_S) > 0 for completion in others] == [True] * 10
        assert numbers(store) == [10, 11, 12, *range(30, 40)]
        assert store.message_count == 13
        assert adapter.last_producer_sequence_id(mine) == 12
    assert remembered(database_url) == {"mine:0:0": 12}


def test_nothing_is_remembered_of_others(database_url: str) -> None:
    with opened(database_url) as (_, store):
        store.add_message(text_message(1)).result(WAIT_S)
    assert remembered(database_url) == {}


@pytest.mark.parametrize("delivered", [True, False])
def test_a_mark_whose_commit_was_cut_off_is_known_before_the_next(sql_server_url: str, delivered: bool) -> None:
    port = int(sql_server_url.rpartition(":")[2].partition("/")[0])
    url = sql_server_url + ("?ssl_disabled=true" if sql_server_url.startswith("mysql") else "")
    with Proxy(port) as proxy, opened(proxy.url(url), retry_s=0) as (adapter, store):
        store.add_message(text_message(1)).result(WAIT_S)
        trap = proxy.cut_at(b"JDBCSTORE_PRODUCERS", deliver=delivered, everywhere=True)
        cut = adapter.commit_together(Commit(adds=[(store, text_message(2))], producers={PRODUCER: 2}))
        assert trap.wait(WAIT_S)
        assert isinstance(cut.exception(WAIT_S), OutcomeUnknown)
        after = adapter.commit_together(Commit(adds=[(store, text_message(3))], producers={PRODUCER: 3}, follows=[cut]))
        assert isinstance(after.exception(WAIT_S), TransientStoreError)
        proxy.resume()
        last = adapter.last_producer_sequence_id(PRODUCER)
        assert last == (2 if delivered else 1)
        assert numbers(store) == list(range(1, last + 1))


def test_a_long_unused_producer_is_forgotten_when_others_appear(database_url: str) -> None:
    with opened(database_url, producer_memory_s=3600) as (adapter, _):
        names = [f"n{number:03}" for number in range(100)]
        adapter.commit_together(Commit(producers={ProducerId(name, 0, 0): 5 for name in names})).result(WAIT_S)
        execute(
            database_url, "UPDATE JDBCSTORE_PRODUCERS SET LAST_USED_MS = LAST_USED_MS - 3601000 WHERE PRODUCER < 'n080'"
        )
        adapter.commit_together(Commit(producers={ProducerId("n000", 0, 0): 6})).result(WAIT_S)  # it is heard of again
        for number in range(7):
            assert adapter.last_producer_sequence_id(ProducerId(f"new{number}", 0, 0)) == -1
        expected = {"n000:0:0": 6, **{f"{name}:0:0": 5 for name in names[80:]}}
        assert adapter.last_producer_sequence_id(ProducerId("n000", 0, 0)) == 6
        assert adapter.last_producer_sequence_id(ProducerId("n001", 0, 0)) == -1
    assert remembered(database_url) == expected


def test_what_was_heard_of_since_it_was_looked_at_is_not_forgotten(database_url: str) -> None:
    with opened(database_url, producer_memory_s=3600) as (adapter, _):
        name = ProducerId("n", 0, 0)
        adapter.commit_together(Commit(producers={name: 5})).result(WAIT_S)
        execute(database_url, "UPDATE JDBCSTORE_PRODUCERS SET LAST_USED_MS = LAST_USED_MS - 3601000")
        with one_batch():
            adapter.commit_together(Commit(producers={name: 6}))
            adapter.commit_together(Commit(producers={ProducerId("other", 0, 0): 1}))
        assert adapter.last_producer_sequence_id(ProducerId("new", 0, 0)) == -1
        assert adapter.last_producer_sequence_id(name) == 6


@pytest.mark.parametrize("server", ["mariadb_url", "mysql_url"])
@pytest.mark.parametrize("collation", ["latin1_swedish_ci", "utf8mb4_general_ci"])
def test_a_producer_is_told_from_another_whatever_the_collation(
    request: pytest.FixtureRequest, server: str, collation: str
) -> None:
    url: str = request.getfixturevalue(server)
    execute(url, f"ALTER DATABASE {url.rpartition('/')[2]} COLLATE {collation}")
    engine = open_engine(url)
    start_java_broker(engine)
    engine.dispose()
    with opened(url) as (adapter, store):
        for number, name in enumerate(["Name", "name", "name "], 5):
            producer = ProducerId(name, 0, 0)
            store.add_message(text_message(number, producer_id=producer)).result(WAIT_S)
        assert adapter.last_producer_sequence_id(ProducerId("Name", 0, 0)) == 5
        assert adapter.last_producer_sequence_id(ProducerId("name", 0, 0)) == 6
        assert adapter.last_producer_sequence_id(ProducerId("NAME", 0, 0)) == -1


def test_the_higher_of_rows_and_mark_counts(database_url: str) -> None:
    with opened(database_url) as (adapter, store):
        adapter.commit_together(Commit(adds=[(store, text_message(3))], producers={PRODUCER: 3})).result(WAIT_S)
        store.add_message(text_message(9)).result(WAIT_S)  # as a Java broker would
        assert adapter.last_producer_sequence_id(PRODUCER) == 9
        store.remove_message(MessageId(PRODUCER, 9)).result(WAIT_S)
        assert adapter.last_producer_sequence_id(PRODUCER) == 3


def test_without_the_table_nobody_may_number_messages_and_all_else_works(database_url: str) -> None:
    engine = open_engine(database_url)
    upgrade_schema(engine)
    engine.dispose()
    execute(database_url, "DROP TABLE JDBCSTORE_PRODUCERS")
    with opened(database_url, create_tables_on_startup=False) as (adapter, store):
        with pytest.raises(SchemaMismatch, match=r"JDBCSTORE_PRODUCERS.*Run: jdbcstore schema upgrade URL"):
            adapter.commit_together(Commit(adds=[(store, text_message(1))], producers={PRODUCER: 1}))
        adapter.commit_together(Commit(adds=[(store, text_message(2))])).result(WAIT_S)
        assert adapter.last_producer_sequence_id(PRODUCER) == 2
        adapter.delete_all_messages()
    engine = open_engine(database_url)
    with engine.connect() as connection:
        assert "producers" in [found.name for found in inspect_schema(connection).findings()]
    assert upgrade_schema(engine).findings() == []
    engine.dispose()


def test_a_producer_whose_name_no_column_takes_is_refused(database_url: str) -> None:
    with opened(database_url) as (adapter, _):
        for connection_id, told in (("x" * 247, "251 characters"), ("ID:\udc80", "no database column takes")):
            with pytest.raises(StoreError, match=f"the producer id .*{told}"):
                adapter.commit_together(Commit(producers={ProducerId(connection_id, 0, 0): 1}))


def test_a_downgrade_drops_the_table_and_an_upgrade_makes_it_again(database_url: str) -> None:
    engine = open_engine(database_url)
    upgrade_schema(engine)
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    with engine.begin() as connection:
        tables = Tables.on(connection, "")
        config.attributes |= {"connection": connection, "tables": tables}
        command.downgrade(config, "0002")
    assert not inspect(engine).has_table(tables.producers.name)
    report = upgrade_schema(engine)
    assert (report.revision, report.has_producers) == ("0008", True)
    engine.dispose()


def test_queues_have_nothing_to_do_with_it(database_url: str) -> None:
    """Numbers are the producer's, whatever the destination."""
    with opened(database_url) as (adapter, store):
        other = adapter.queue_message_store(Queue("OTHER"))
        adapter.commit_together(
            Commit(adds=[(store, text_message(3)), (other, text_message(4))], producers={PRODUCER: 4})
        ).result(WAIT_S)
        assert adapter.last_producer_sequence_id(PRODUCER) == 4
