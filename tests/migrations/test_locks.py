"""One upgrade at a time, none under a running broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import DBAPIError

from jdbcstore.config.urls import open_engine
from jdbcstore.errors import LockHeld, TransientStoreError
from jdbcstore.store.jdbc.adoption import refuse_by_hand
from jdbcstore.store.jdbc.schema import SchemaKind, SchemaReport, create_tables, inspect_schema, upgrade_schema
from jdbcstore.store.jdbc.schema_lock import alone
from tests.migrations.activemq import rows, run, shape, start_java_broker, store_some

WAIT_S = 28.0  # disks of test machines are slow at times; below the timeout of a statement
LEASE = "UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = 'broker-a', TIME = {now} {sign} 600000 WHERE ID = 1"
NOW = {
    "postgresql": "CAST(EXTRACT(EPOCH FROM now()) * 1000 AS BIGINT)",
    "mysql": "UNIX_TIMESTAMP() * 1000",
    "mariadb": "UNIX_TIMESTAMP() * 1000",
    "sqlite": "CAST(strftime('%s', 'now') AS INTEGER) * 1000",
}


def lease(engine: Engine, sign: str) -> str:
    return LEASE.format(now=NOW[engine.dialect.name], sign=sign)


def kind(engine: Engine) -> SchemaKind:
    with engine.connect() as connection:
        return inspect_schema(connection).kind


def at_once(database_url: str, act: Callable[[Engine], SchemaReport], times: int) -> list[SchemaReport]:
    """Do the same with engines of their own at the same moment."""
    start = threading.Barrier(times)

    def one() -> SchemaReport:
        engine = open_engine(database_url)
        try:
            start.wait(30)
            return act(engine)
        finally:
            engine.dispose()

    with ThreadPoolExecutor(times) as pool:
        return [future.result() for future in [pool.submit(one) for _ in range(times)]]


@contextmanager
def running_java_broker(engine: Engine) -> Iterator[None]:
    """ActiveMQ's default locker: one transaction that keeps the row locked as long as the broker lives."""
    with engine.connect().execution_options(isolation_level="READ COMMITTED") as connection, connection.begin():
        connection.execute(text("SELECT * FROM ACTIVEMQ_LOCK FOR UPDATE"))
        yield


# -- two at once -----------------------------------------------------------------------------------------------------


def test_two_upgrades_of_a_java_broker_s_tables(database_url: str, engine: Engine) -> None:
    start_java_broker(engine)
    store_some(engine)
    before = rows(engine, "ACTIVEMQ_MSGS")
    reports = at_once(database_url, partial(upgrade_schema, wait_s=WAIT_S), 2)
    assert [report.kind for report in reports] == [SchemaKind.OURS] * 2
    assert rows(engine, "ACTIVEMQ_MSGS") == before
    assert rows(engine, "JDBCSTORE_VERSION") == [(reports[0].head,)]


def test_four_brokers_start_on_an_empty_database(database_url: str, engine: Engine) -> None:
    reports = at_once(database_url, partial(create_tables, wait_s=WAIT_S), 4)
    assert [report.kind for report in reports] == [SchemaKind.OURS] * 4
    assert rows(engine, "ACTIVEMQ_LOCK") == [(1, None, None)]


@pytest.mark.parametrize("place", [1, 2, 3])  # on SQLite the upgrade waits for who looks
def test_who_looks_while_another_upgrades(server_engine: Engine, place: int) -> None:
    start_java_broker(server_engine)
    statements: list[str] = []

    def after_statement(_: object, cursor: object, statement: str, *others: object) -> None:
        statements.append(statement)
        if len(statements) == place:
            assert upgrade_schema(server_engine, wait_s=WAIT_S).kind is SchemaKind.OURS

    with server_engine.connect() as connection:
        event.listen(connection, "after_cursor_execute", after_statement)
        report = inspect_schema(connection)
    assert len(statements) > place
    refuse_by_hand(report)  # it does not: what is half done is no reason to decide anything by hand


def test_one_waits_no_longer_than_told(server_engine: Engine) -> None:
    with (
        alone(server_engine, "", wait_s=5, force=False),
        pytest.raises(TransientStoreError, match="somebody else is changing the schema"),
    ):
        upgrade_schema(server_engine, wait_s=1)


def test_sets_of_tables_do_not_wait_for_each_other(server_engine: Engine) -> None:
    with alone(server_engine, "", wait_s=5, force=False):
        assert upgrade_schema(server_engine, "TWO_", wait_s=WAIT_S).kind is SchemaKind.OURS


def test_the_lock_is_given_back(database_url: str, engine: Engine) -> None:
    upgrade_schema(engine)
    other = open_engine(database_url)
    try:
        assert upgrade_schema(other, wait_s=WAIT_S).kind is SchemaKind.OURS
    finally:
        other.dispose()


def test_the_lock_is_given_back_after_an_error(database_url: str, engine: Engine) -> None:
    with pytest.raises(ZeroDivisionError), alone(engine, "", wait_s=5, force=False):
        raise ZeroDivisionError
    other = open_engine(database_url)
    try:
        assert upgrade_schema(other, wait_s=WAIT_S).kind is SchemaKind.OURS
    finally:
        other.dispose()


# -- a running broker ------------------------------------------------------------------------------------------------


def test_refused_while_a_java_broker_has_the_row(server_engine: Engine) -> None:
    start_java_broker(server_engine)
    before = shape(server_engine)
    with (
        running_java_broker(server_engine),
        pytest.raises(LockHeld, match="a broker is running: it has locked the row"),
    ):
        upgrade_schema(server_engine)
    assert kind(server_engine) is SchemaKind.ACTIVEMQ
    assert shape(server_engine) == before
    assert upgrade_schema(server_engine).kind is SchemaKind.OURS


def test_forced_while_a_java_broker_has_the_row(server_engine: Engine) -> None:
    start_java_broker(server_engine)
    store_some(server_engine)
    with running_java_broker(server_engine):
        assert upgrade_schema(server_engine, force=True).kind is SchemaKind.OURS


def test_refused_while_a_lease_is_good(engine: Engine) -> None:
    start_java_broker(engine)
    run(engine, lease(engine, "+"))
    with pytest.raises(LockHeld, match=r"'broker-a' is running: its lease .* is good for [56]\d{5} ms"):
        upgrade_schema(engine)
    assert kind(engine) is SchemaKind.ACTIVEMQ
    assert upgrade_schema(engine, force=True).kind is SchemaKind.OURS


def test_a_lease_that_ran_out_is_nobody_s(engine: Engine) -> None:
    start_java_broker(engine)
    run(engine, lease(engine, "-"))
    before = rows(engine, "ACTIVEMQ_LOCK")
    assert upgrade_schema(engine).kind is SchemaKind.OURS
    assert rows(engine, "ACTIVEMQ_LOCK") == before


def test_a_broker_that_starts_meanwhile_waits(server_engine: Engine) -> None:
    start_java_broker(server_engine)
    take = text("SELECT * FROM ACTIVEMQ_LOCK FOR UPDATE NOWAIT")
    with (
        alone(server_engine, "", wait_s=5, force=False),
        server_engine.connect() as broker,
        pytest.raises(DBAPIError),
    ):
        broker.execute(take)
    with server_engine.connect() as broker:
        assert len(broker.execute(take).all()) == 1


def test_a_long_reader_is_not_waited_for_for_ever(server_engine: Engine) -> None:
    start_java_broker(server_engine)
    run(server_engine, "DROP TABLE ACTIVEMQ_LOCK")
    with server_engine.connect().execution_options(isolation_level="READ COMMITTED") as reader, reader.begin():
        for table in ("MSGS", "ACKS"):
            reader.execute(text(f"SELECT * FROM ACTIVEMQ_{table}")).all()
        with (
            pytest.raises(TransientStoreError, match=r"has used .* for more than 1 s"),
            alone(server_engine, "", wait_s=1, force=False) as (connection, _),
        ):
            connection.execute(text("ALTER TABLE ACTIVEMQ_MSGS ADD NOTE INT"))
    assert upgrade_schema(server_engine).kind is SchemaKind.OURS


def test_refused_while_somebody_writes_to_the_file(sqlite_engine: Engine) -> None:
    start_java_broker(sqlite_engine)
    with sqlite_engine.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        with pytest.raises(LockHeld, match=r"in use for more than 0\.2 s"):
            upgrade_schema(sqlite_engine, wait_s=0.2)
        connection.exec_driver_sql("ROLLBACK")
    assert upgrade_schema(sqlite_engine).kind is SchemaKind.OURS


def test_readers_of_the_file_do_not_matter(sqlite_engine: Engine) -> None:
    start_java_broker(sqlite_engine)
    run(sqlite_engine, "PRAGMA journal_mode=WAL")
    with sqlite_engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql("SELECT * FROM ACTIVEMQ_MSGS").all()
        assert upgrade_schema(sqlite_engine, wait_s=WAIT_S).kind is SchemaKind.OURS
        connection.exec_driver_sql("ROLLBACK")
