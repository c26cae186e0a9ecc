"""The triggers see what is committed, in which order, and stand in nobody's way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine, event, text
from sqlalchemy.pool import Pool

from jdbcstore.store.jdbc.fence import session_name
from jdbcstore.store.jdbc.schema import create_tables
from tests.failover import witness
from tests.failover.checker import check
from tests.failover.history import History, What
from tests.failover.observed import mark_sessions

A, B = "b0-1111", "b1-2222"


def watched(url: str) -> Engine:
    """An engine of a store with triggers; sessions have no mark."""
    engine = create_engine(url, poolclass=NullPool)
    create_tables(engine)
    witness.install(engine)
    return engine


@pytest.fixture
def engine(database_url: str) -> Engine:
    return watched(database_url)


@pytest.fixture
def server_engine(sql_server_url: str) -> Iterator[Engine]:
    engine = watched(sql_server_url)
    yield engine
    engine.dispose()


def writer(engine: Engine, broker: str) -> Connection:
    """A connection of a broker's process, as its writer has it."""
    connection = engine.connect()
    raw = connection.connection.dbapi_connection
    assert raw is not None
    if engine.dialect.name == "sqlite":
        raw.create_function("chaos_broker", 0, lambda: broker)
    elif engine.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SET chaos.broker = '{broker}'")
    else:
        connection.exec_driver_sql("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        connection.exec_driver_sql(f"SET @chaos_broker = '{broker}'")
    connection.commit()
    return connection


def take_over(engine: Engine, holder: str) -> None:
    """A takeover's effect; waits for no lock that is held for long."""
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql("SET lock_timeout = 1000")
        elif engine.dialect.name != "sqlite":
            connection.exec_driver_sql("SET innodb_lock_wait_timeout = 1")
        connection.execute(text("UPDATE JDBCSTORE_TERM SET TERM = TERM + 1, HOLDER = :holder"), {"holder": holder})
        connection.commit()


def add(connection: Connection, id: int, message: str) -> None:
    body = b"\x00\x01" + witness.mark_of(message).encode() + b"\xff"
    connection.execute(
        text(
            "INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, PRIORITY, MSG)"
            " VALUES (:id, 'queue://A', 'p', :id, 0, 0, :msg)"
        ),
        {"id": id, "msg": body},
    )


def seen(engine: Engine) -> History:
    """What was written down, with what the harness knows of the terms."""
    history = History(names_sessions=False)
    for term, (broker, process) in enumerate((("b0", "7"), ("b1", "8")), 1):
        history.record(What.STATE, broker=broker, mark=process, text="recovering", term=term)
    witness.witnessed(engine, history)
    history.sort()
    return history


def test_what_is_committed_is_written_down(engine: Engine) -> None:
    take_over(engine, A)
    with writer(engine, "b0/7") as connection:
        add(connection, 1, "p01|0000001")
        connection.commit()
        add(connection, 2, "p01|0000002")
        connection.rollback()
        connection.execute(text("UPDATE ACTIVEMQ_MSGS SET EXPIRATION = 1 WHERE ID = 1"))
        connection.commit()
        connection.execute(text("DELETE FROM ACTIVEMQ_MSGS WHERE ID = 1"))
        connection.commit()
    history = seen(engine)
    rows = [(w.op, w.row, w.term, w.holder, w.writer, w.message, w.queue) for w in history.writes]
    added = ("+", 1, 1, A, "b0/7", "p01|0000001", "/queue/A")
    assert rows == [added, ("~", *added[1:]), ("-", *added[1:])]
    assert [(t.term, t.holder, t.seen) for t in history.takeovers] == [(1, A, 0)]
    assert check(history) == []


def test_writes_that_end_before_the_takeover_are_in_order(engine: Engine) -> None:
    take_over(engine, A)
    with writer(engine, "b0/7") as old:
        add(old, 1, "p01|0000001")
        old.commit()
    take_over(engine, B)
    with writer(engine, "b1/8") as new:
        add(new, 2, "p01|0000002")
        new.commit()
    history = seen(engine)
    assert [(t.term, t.seen) for t in history.takeovers] == [(1, 0), (2, 1)]
    assert check(history) == []


def test_a_row_of_a_replaced_master_is_seen(engine: Engine) -> None:
    take_over(engine, A)
    take_over(engine, B)
    with writer(engine, "b0/7") as old:
        add(old, 1, "p01|0000001")
        old.commit()
    (violation,) = check(seen(engine))
    assert violation.rule == "b"
    assert "by b0/7, while term 2 was that of b1/8" in violation.text


def test_the_triggers_lock_nothing_and_a_late_commit_is_seen(server_engine: Engine) -> None:
    take_over(server_engine, A)
    with writer(server_engine, "b0/7") as old, writer(server_engine, "b1/8") as new:
        add(old, 1, "p01|0000001")
        take_over(server_engine, B)  # would fail if it had to wait for a lock of `old`
        add(new, 3, "p01|0000003")
        new.commit()
        add(old, 2, "p01|0000002")
        old.commit()
    history = seen(server_engine)
    told = [violation.text for violation in check(history) if violation.rule == "b"]
    assert len(told) == len(check(history)) == 2
    late, replaced = sorted(told)
    assert "(p01|0000001) was added in term 1, and the takeover of term 2 had been committed" in late
    assert "(p01|0000002) was added by b0/7, while term 2 was that of b1/8" in replaced


def test_a_commit_that_a_takeover_overtook_is_seen_by_the_count(server_engine: Engine) -> None:
    take_over(server_engine, A)
    with writer(server_engine, "b0/7") as old, writer(server_engine, "b0/7") as other:
        add(old, 1, "p01|0000001")
        add(other, 2, "p01|0000002")
        other.commit()
        take_over(server_engine, B)  # sees the second row, not the first
        old.commit()
    (violation,) = check(seen(server_engine))
    assert violation.text == "2 rows were written before term 2 and committed in the end; its takeover saw 1"


def test_sessions_are_told_by_their_names(server_engine: Engine) -> None:
    take_over(server_engine, A)
    with writer(server_engine, "b0/7") as named, writer(server_engine, "b0/7") as nameless:
        if server_engine.dialect.name == "postgresql":
            named.exec_driver_sql(f"SET application_name = '{session_name(A)}'")
        else:
            named.execute(text("SELECT GET_LOCK(:name, 1)"), {"name": session_name(A)})
        add(named, 1, "p01|0000001")
        named.commit()
        add(nameless, 2, "p01|0000002")
        nameless.commit()
    history = seen(server_engine)
    history.names_sessions = True
    (violation,) = check(history)
    assert "row 2 (p01|0000002) was added in session" in violation.text


def test_a_broker_marks_its_sessions(engine: Engine) -> None:
    listener = mark_sessions("b0/7")
    try:
        marked = create_engine(engine.url, poolclass=NullPool)
        take_over(marked, A)
        with marked.connect() as connection:
            add(connection, 1, "p01|0000001")
            connection.commit()
    finally:
        event.remove(Pool, "connect", listener)
    assert [write.writer for write in seen(engine).writes] == ["b0/7"]
