"""Bulk loads in the database: each part once, whatever fails, and never beside a master."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, inspect

from jdbcstore import faults
from jdbcstore.config.urls import open_engine, store_options, store_url
from jdbcstore.destination import Topic
from jdbcstore.errors import ConfigurationError, LeaseLost, LockHeld, SchemaMismatch, StoreError, StoreUnavailable
from jdbcstore.openwire import marshal
from jdbcstore.store.contract import Cursor
from jdbcstore.store.jdbc import load_lease
from jdbcstore.store.jdbc.bulk_load import BulkLoad, LoadOptions, LoadRow
from jdbcstore.store.jdbc.loads import PART_IDS
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.schema import inspect_schema, upgrade_schema
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing import text_message
from tests.servers.proxy import Proxy
from tests.sql.test_writer import WAIT_S, execute, numbers, opened

pytestmark = [pytest.mark.has_tables, pytest.mark.variants(2)]

ROWS = 700


@pytest.fixture
def url(database_url: str) -> str:
    """The URL of a store that has its tables."""
    return database_url


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    """An engine to look with."""
    engine = open_engine(url)
    yield engine
    engine.dispose()


def load_of(url: str, job: str = "job", **how: Any) -> BulkLoad:
    parsed, options = store_options(url)
    return BulkLoad(parsed, options, job, LoadOptions(**how))


def begun(url: str, job: str = "job", **how: Any) -> BulkLoad:
    load = load_of(url, job, **how)
    load.begin()
    return load


def rows(
    first: int, count: int = ROWS, container: str = "queue://TEST", fail_at: int | None = None
) -> Iterator[LoadRow]:
    """Rows of messages that are numbered from `first` on."""
    for number in range(first, first + count):
        if number == fail_at:
            raise OSError("the source of the rows has failed")
        message = text_message(number)
        yield str(message.producer_id), number, container, 0, 0, marshal(message)


def stored(url: str) -> list[int]:
    """What a broker finds in the queue that starts now."""
    with opened(url) as (_, store):
        found = numbers(store)
        assert store.message_count == len(found)
        return found


def one(engine: Engine, statement: str) -> Any:
    with engine.connect() as connection:
        return connection.exec_driver_sql(statement).scalar()


# -- when all goes well ----------------------------------------------------------------------------------------------


def test_a_load_is_there_in_its_order_and_once(url: str, engine: Engine) -> None:
    with opened(url) as (_, store):
        store.add_message(text_message(9_999)).result(WAIT_S)
    load = pickle.loads(pickle.dumps(begun(url)))
    assert load.write_part(1, rows(ROWS)) == ROWS
    assert load.write_part(0, rows(0)) == ROWS
    assert load.write_part(1, rows(5_000, 3)) == ROWS, "a part that is committed is not written again"
    with pytest.raises(StoreError, match=r"parts \[2\]"):
        load.commit({0: ROWS, 1: ROWS, 2: 1})
    assert load.commit({0: ROWS, 1: ROWS}) == 2 * ROWS
    assert load.commit() == 2 * ROWS
    load.abort()
    assert one(engine, "SELECT MAX(ID) - MIN(ID) FROM ACTIVEMQ_MSGS") == PART_IDS + ROWS

    again = begun(url)
    assert again.is_done
    assert again.write_part(0, rows(0)) == 0
    assert again.commit({}) == 2 * ROWS

    with opened(url) as (_, store):
        store.add_message(text_message(10_000)).result(WAIT_S)
        assert numbers(store) == [9_999, *range(2 * ROWS), 10_000]
    assert one(engine, "SELECT COUNT(*) FROM JDBCSTORE_LOAD_PARTS") == 0


def test_numbers_go_on_above_a_load_whose_messages_are_gone(url: str, engine: Engine) -> None:
    load = begun(url)
    load.write_part(3, rows(0, 2))
    load.commit()
    highest = one(engine, "SELECT MAX(ID) FROM ACTIVEMQ_MSGS")
    execute(url, "DELETE FROM ACTIVEMQ_MSGS")
    with opened(url) as (adapter, _):
        assert adapter.last_message_broker_sequence_id() >= highest
    following = begun(url, "following")
    following.write_part(0, rows(0, 1))
    assert one(engine, "SELECT MIN(ID) FROM ACTIVEMQ_MSGS") > highest


def test_a_slow_machine_is_no_master(url: str, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jdbcstore.store.jdbc.load_lease._MOMENT_S", 0.0)
    load = begun(url, protocol="direct")
    load.write_part(0, rows(0))
    assert one(engine, "SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == ROWS


def test_an_empty_load(url: str) -> None:
    load = begun(url)
    assert load.commit({}) == 0
    assert begun(url).is_done


def test_a_durable_subscription_gets_what_is_loaded_behind_it(url: str) -> None:
    topic = Topic("T")
    info = SubscriptionInfo(SubscriptionKey("client", "sub"), topic, topic)
    with opened(url) as (adapter, _):
        adapter.topic_message_store(topic).add_subscription(info).result(WAIT_S)
    load = begun(url)
    load.write_part(0, rows(0, 5, "topic://T"))
    load.commit()
    with opened(url) as (adapter, _):
        store = adapter.topic_message_store(topic)
        assert store.subscription_message_count(info.key) == 5
        page = store.recover_next_subscription_messages(info.key, Cursor(), 10, 1 << 20)
        assert len(page.messages) == 5


def test_indexes_are_left_out_and_made_again(url: str, engine: Engine) -> None:
    with engine.connect() as connection:
        before = inspect_schema(connection).indexes
    load = begun(url, indexes="rebuild")
    load.write_part(0, rows(0, 5))
    with engine.connect() as connection:
        assert len(inspect_schema(connection).missing_indexes) >= 3
    load.commit()
    with engine.connect() as connection:
        assert inspect_schema(connection).indexes == before
    other = begun(url, "other", indexes="rebuild")
    other.write_part(0, rows(0, 5))
    other.abort()
    with engine.connect() as connection:
        assert inspect_schema(connection).indexes == before
    assert stored(url) == [*range(5)]


def test_a_table_that_has_messages_keeps_its_indexes(url: str, engine: Engine) -> None:
    with opened(url) as (_, store):
        store.add_message(text_message(1)).result(WAIT_S)
    load = begun(url)
    load.write_part(0, rows(2, 1))
    with engine.connect() as connection:
        assert inspect_schema(connection).missing_indexes == ()
    load.abort()


# -- failures --------------------------------------------------------------------------------------------------------


def test_a_part_that_fails_leaves_nothing_and_is_tried_again(url: str, engine: Engine) -> None:
    load = begun(url)
    with pytest.raises(OSError, match="the source of the rows"):
        load.write_part(0, rows(0, fail_at=ROWS - 1))
    assert one(engine, "SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == 0
    assert load.write_part(0, rows(0)) == ROWS
    load.commit({0: ROWS})
    assert stored(url) == [*range(ROWS)]


def test_a_name_that_does_not_fit_is_refused(url: str) -> None:
    load = begun(url)
    for name, told in (("x" * 243, "251 characters"), ("\udc80", "no database column takes")):
        with pytest.raises(StoreError, match=f"the destination .*{told}"):
            load.write_part(0, rows(0, 1, f"queue://{name}"))
    load.abort()
    with pytest.raises(ConfigurationError, match="jobId"):
        load_of(url, "x" * 201)


def test_who_is_second_at_a_part_waits_for_the_first(url: str) -> None:
    load = begun(url)
    load.write_part(1, ())  # chooses the way
    arrived, go = threading.Event(), threading.Event()

    def slowly() -> Iterator[LoadRow]:
        yield from rows(0, 400)
        arrived.set()
        assert go.wait(WAIT_S)
        yield from rows(400, 300)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(load.write_part, 0, slowly())
        assert arrived.wait(WAIT_S)
        second = pool.submit(load.write_part, 0, rows(5_000, 3))
        assert not second.done()
        go.set()
        assert first.result(WAIT_S) == ROWS
        assert second.result(WAIT_S) == ROWS
    load.commit({0: ROWS, 1: 0})
    assert stored(url) == [*range(ROWS)]


def test_an_index_may_go_while_somebody_looks_at_the_tables(tmp_path: Path) -> None:
    """SQLite is asked for the names of indexes first, and for what each of them is then."""
    engine = open_engine(f"sqlite:///{tmp_path / 'jdbcstore.db'}")
    upgrade_schema(engine)
    with engine.connect() as looking, engine.connect() as loading:
        loading.exec_driver_sql("PRAGMA journal_mode=WAL")

        def drop(connection: object, cursor: object, statement: str, *_: object) -> None:
            if "pragma_index_list" in statement:
                for index in inspect(loading).get_indexes("ACTIVEMQ_MSGS"):
                    loading.exec_driver_sql(f"DROP INDEX {index['name']}")

        event.listen(looking, "before_cursor_execute", drop)
        assert not inspect_schema(looking).missing_indexes
        event.remove(looking, "before_cursor_execute", drop)
        assert inspect_schema(looking).missing_indexes
    engine.dispose()


@pytest.mark.parametrize(
    ("has_earlier", "taking_s"),
    [(False, None), (True, None), (True, 0.0)],
    ids=["first-run", "after-a-dead-run", "impatient"],
)
def test_tasks_that_join_at_once_all_write(
    monkeypatch: pytest.MonkeyPatch, url: str, has_earlier: bool, taking_s: float | None
) -> None:
    if taking_s is not None:  # as on a machine that stands still while others take the lease
        monkeypatch.setattr(load_lease, "_TAKING_S", taking_s)
    if has_earlier:
        begun(url).write_part(0, rows(0))
    together = threading.Barrier(4)

    def task(part: int) -> int:
        load = load_of(url)
        together.wait(WAIT_S)
        load.join("run")
        return load.write_part(part, rows(part * 10, 10))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(task, range(4))) == [10] * 4
    load = load_of(url)
    load.join("run")
    assert load.commit() == 40
    assert stored(url) == list(range(40))


def test_an_aborted_load_leaves_nothing_and_its_last_tasks_commit_nothing(url: str, engine: Engine) -> None:
    load = begun(url)
    load.write_part(0, rows(0, 12_000))
    aborting = faults.inject("load.before_commit", lambda: None if load_is_over(engine) else aborted(load, engine))
    with aborting, pytest.raises(LeaseLost, match="begin it again"):
        load.write_part(1, rows(20_000))
    load.abort()
    with pytest.raises(LeaseLost, match="aborted"):
        load.write_part(2, rows(0))
    with pytest.raises(LeaseLost, match="aborted"):
        load.commit()
    assert one(engine, "SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == 0
    assert stored(url) == []
    again = begun(url)
    assert again.write_part(0, rows(7, 1)) == 1
    again.commit()
    assert stored(url) == [7]


def load_is_over(engine: Engine) -> bool:
    return bool(one(engine, "SELECT STATE FROM JDBCSTORE_LOADS") != "loading")


def aborted(load: BulkLoad, engine: Engine) -> None:
    """Abort from another process's point of view, except that on SQLite the writer has the file to itself."""
    if engine.dialect.name == "sqlite":
        raise LeaseLost("begin it again: as the proof would say, could anybody have aborted it")
    load.abort()


def test_a_master_removes_what_a_driver_left_that_died(url: str, engine: Engine) -> None:
    load = begun(url, indexes="rebuild")
    load.write_part(0, rows(0, 6_000))
    execute(url, "UPDATE ACTIVEMQ_LOCK SET TIME = 1")  # its lease has run out
    with opened(url) as (_, store):
        assert store.message_count == 0
        with pytest.raises(LeaseLost, match="aborted"):
            load.write_part(1, rows(0))
        store.add_message(text_message(1)).result(WAIT_S)
        with engine.connect() as connection:
            assert inspect_schema(connection).missing_indexes == ()
    with pytest.raises(LeaseLost, match="aborted"):
        load.commit({0: 6_000})
    load.abort()
    assert stored(url) == [1]


def test_the_next_run_of_a_job_does_it_anew(url: str) -> None:
    first = begun(url)
    first.write_part(0, rows(0))
    second = begun(url)
    with pytest.raises(LeaseLost, match="another run"):
        first.write_part(1, rows(0))
    with pytest.raises(LeaseLost, match="another run"):
        first.commit()
    first.abort()  # is not the second's
    second.write_part(0, rows(1, 2))
    second.commit()
    assert stored(url) == [1, 2]


WRITER = """
import os, pickle, signal, sys
from jdbcstore import faults
from tests.sql.test_loads import rows
load = pickle.loads(bytes.fromhex(sys.argv[1]))
def die():
    os.kill(os.getpid(), signal.SIGKILL)
with faults.inject(sys.argv[2], die):
    load.write_part(0, rows(0))
"""


@pytest.mark.parametrize("point", ["load.before_commit", "load.after_commit"])
def test_a_process_that_is_killed_around_its_commit(url: str, point: str) -> None:
    load = begun(url)
    killed = subprocess.run([sys.executable, "-c", WRITER, pickle.dumps(load).hex(), point], check=False)
    assert killed.returncode == -9
    assert load.write_part(0, rows(0)) == ROWS
    load.commit({0: ROWS})
    assert stored(url) == [*range(ROWS)]


@pytest.fixture
def proxied(sql_server_url: str) -> Iterator[tuple[str, Proxy]]:
    """The URL of a store through a proxy, and the proxy."""
    engine = open_engine(sql_server_url)
    upgrade_schema(engine)
    engine.dispose()
    port = store_url(sql_server_url).port
    assert port is not None
    with Proxy(port) as proxy:
        yield proxy.url(sql_server_url) + ("?ssl_disabled=true" if sql_server_url.startswith("mysql") else ""), proxy


@pytest.mark.parametrize("delivered", [True, False], ids=["answer-lost", "request-lost"])
def test_a_commit_that_is_cut_off(proxied: tuple[str, Proxy], delivered: bool) -> None:
    url, proxy = proxied
    load = begun(url)
    load.write_part(0, rows(0))
    trap = proxy.cut_at(b"STATE='loading'", deliver=delivered)
    try:
        assert load.write_part(1, rows(ROWS)) == ROWS
    except StoreError:
        assert not delivered
        assert load.write_part(1, rows(ROWS)) == ROWS  # as a scheduler of tasks would
    assert trap.is_set()
    trap = proxy.cut_at(b"STATE='loading'", deliver=delivered)
    try:
        load.commit({0: ROWS, 1: ROWS})
    except StoreError:
        assert not delivered
        load.commit({0: ROWS, 1: ROWS})
    assert trap.is_set()
    assert stored(url) == [*range(2 * ROWS)]


# -- with a master ---------------------------------------------------------------------------------------------------


def test_nobody_becomes_master_while_a_load_writes(url: str) -> None:
    load = begun(url)
    load.write_part(0, rows(0))
    with pytest.raises(LockHeld, match="load-job"):
        stored(url)
    load.commit()
    assert len(stored(url)) == ROWS


def test_beside_a_master_it_is_staged_and_waits(url: str, engine: Engine) -> None:
    with opened(url) as (adapter, store):
        load = begun(url, timeout_s=0)
        load.write_part(1, rows(5, 2))
        load.write_part(0, rows(0, 5))
        with pytest.raises(StoreUnavailable, match="taken in when a broker"):
            load.commit({0: 5, 1: 2})
        assert store.message_count == 0
        waiting = adapter.intake_store()
        assert waiting is not None
        found = waiting.waiting_load()
        assert found is not None
        assert (found.job, found.messages) == ("job", 7)
        page = waiting.staged("job", (0, 3), 2, 1 << 20)
        assert [one.place for one in page] == [(0, 4), (1, 0)]
        with pytest.raises(LockHeld, match="let it take the load in"):
            begun(url, "direct", protocol="direct")
    # Nobody is master now: the load brings them over by itself.
    with opened(url) as (_, store):
        store.add_message(text_message(99)).result(WAIT_S)
    again = begun(url)
    assert again.is_done
    assert again.commit() == 7
    assert stored(url) == [99, *range(7)]
    assert one(engine, "SELECT COUNT(*) FROM JDBCSTORE_STAGED") == 0


def test_two_loads_at_once(url: str) -> None:
    first, second = begun(url, "first"), begun(url, "second")
    first.write_part(0, rows(0))
    second.write_part(0, rows(ROWS))
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(second.commit, {0: ROWS})
        assert not ending.done()
        first.commit({0: ROWS})
        assert ending.result(WAIT_S) == ROWS
    assert stored(url) == [*range(2 * ROWS)]


def test_a_staged_load_is_aborted_without_a_trace(url: str, engine: Engine) -> None:
    with opened(url) as (_, store):
        load = begun(url)
        load.write_part(0, rows(0))
        aborting = faults.inject("load.before_commit", lambda: None if load_is_over(engine) else aborted(load, engine))
        with aborting, pytest.raises(LeaseLost, match="begin it again"):  # no lease is lost: the load's state says so
            load.write_part(1, rows(ROWS))
        load.abort()
        with pytest.raises(LeaseLost):
            load.write_part(2, rows(0))
        assert one(engine, "SELECT COUNT(*) FROM JDBCSTORE_STAGED") == 0
        assert store.message_count == 0


@contextmanager
def java_by_lease(engine: Engine) -> Iterator[None]:
    with engine.connect() as connection:
        connection.exec_driver_sql("UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = 'java', TIME = 9999999999999")
    yield


@contextmanager
def java_by_lock(engine: Engine) -> Iterator[None]:
    """As ActiveMQ's default locker."""
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql("SELECT * FROM ACTIVEMQ_LOCK FOR UPDATE").all()
        yield


@pytest.mark.parametrize("java", [java_by_lease, java_by_lock])
def test_beside_a_java_broker_nothing_is_loaded(url: str, engine: Engine, java: Any) -> None:
    if java is java_by_lock and engine.dialect.name == "sqlite":
        return  # has no such lock
    load = begun(url, "begun-before")
    with java(engine):
        with pytest.raises(LockHeld, match="stop it first, or send"):
            begun(url)
        with pytest.raises(LockHeld, match="stop it first, or send"):
            load.write_part(0, rows(0))
    assert one(engine, "SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == 0
    assert one(engine, "SELECT COUNT(*) FROM JDBCSTORE_STAGED") == 0


def test_a_broker_with_a_row_lock_is_one_of_ours(sql_server_url: str) -> None:
    with opened(sql_server_url, locker="database") as (_, store):
        load = begun(sql_server_url, timeout_s=0)
        load.write_part(0, rows(0))
        with pytest.raises(StoreUnavailable):
            load.commit()
        assert store.message_count == 0


# -- tables ----------------------------------------------------------------------------------------------------------


def test_without_its_tables_nothing_is_loaded_and_a_broker_works(url: str, engine: Engine) -> None:
    for table in ("LOADS", "LOAD_PARTS", "STAGED"):
        execute(url, f"DROP TABLE JDBCSTORE_{table}")
    with pytest.raises(SchemaMismatch, match="jdbcstore schema upgrade URL"):
        begun(url)
    with opened(url, create_tables_on_startup=False) as (adapter, store):
        store.add_message(text_message(1)).result(WAIT_S)
        assert adapter.intake_store() is None
    with engine.connect() as connection:
        assert [found.name for found in inspect_schema(connection).findings()] == ["loads"]
    assert upgrade_schema(engine).findings() == []
    assert inspect(engine).has_table("jdbcstore_loads" if engine.dialect.name == "postgresql" else "JDBCSTORE_LOADS")
    load = begun(url)
    load.write_part(0, rows(2, 1))
    load.commit()
    assert stored(url) == [1, 2]


def test_old_loads_are_forgotten_but_not_their_ids(url: str, engine: Engine) -> None:
    for job in ("first", "second"):
        load = begun(url, job)
        load.write_part(0, rows(0, 1))
        load.commit()
    execute(url, "UPDATE JDBCSTORE_LOADS SET CHANGED_MS = 1", "DELETE FROM ACTIVEMQ_MSGS")
    begun(url, "third")
    with engine.connect() as connection:
        jobs = connection.exec_driver_sql("SELECT JOB FROM JDBCSTORE_LOADS ORDER BY JOB").scalars().all()
    assert jobs == ["second", "third"]


def test_options_are_checked() -> None:
    for how in ({"protocol": "other"}, {"indexes": "other"}, {"lease_ms": 1}, {"timeout_s": -1}):
        with pytest.raises(ConfigurationError):
            LoadOptions(**how)
    assert JdbcOptions().locker == "lease"
