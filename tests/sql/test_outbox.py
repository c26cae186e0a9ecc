"""The outbox: messages in an application's own transaction, by every driver that an application may have."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import psycopg2
import pymysql
import pytest
from sqlalchemy import URL, create_engine, make_url, text
from sqlalchemy.orm import Session

import jdbcstore
from jdbcstore.cli import run
from jdbcstore.client.outbox import Enlisted
from jdbcstore.config.urls import open_engine
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError, MessageTooLarge, SchemaMismatch
from jdbcstore.message import TextMessage
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.bulk_load import BulkLoad
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.own_tables import OUTBOX_JOB
from jdbcstore.testing import text_message
from tests.servers.prepared import PreparedFile
from tests.sql.django_outbox import BODY
from tests.waiting import wait_until

pytestmark = pytest.mark.has_tables

WAIT_S = 60.0
SENT = "ORDERS"


class Application(NamedTuple):
    """Somebody's program: a connection of its own, and how it ends its transactions."""

    connection: Any
    commit: Callable[[], object]
    roll_back: Callable[[], object]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def sqlalchemy_connection(url: str, stack: ExitStack) -> Application:
    engine = create_engine(driver_url(url))
    stack.callback(engine.dispose)
    connection = stack.enter_context(engine.connect())
    return Application(connection, connection.commit, connection.rollback)


def sqlalchemy_session(url: str, stack: ExitStack) -> Application:
    engine = create_engine(driver_url(url))
    stack.callback(engine.dispose)
    session = stack.enter_context(Session(engine))
    return Application(session, session.commit, session.rollback)


def driver(url: str, stack: ExitStack) -> Application:
    parsed = make_url(url)
    database, arguments = parsed.database or "", server_arguments(parsed)
    connection: Any
    match parsed.get_backend_name():
        case "sqlite":
            connection = sqlite3.connect(database)
        case "postgresql":
            connection = psycopg2.connect(dbname=database, **arguments)
        case _:
            connection = pymysql.connect(database=database, **arguments)
    stack.enter_context(closing(connection))
    return Application(connection, connection.commit, connection.rollback)


def psycopg3(url: str, stack: ExitStack) -> Application:
    parsed = make_url(url)
    connection = stack.enter_context(psycopg.connect(dbname=parsed.database, **server_arguments(parsed)))
    return Application(connection, connection.commit, connection.rollback)


def server_arguments(url: URL) -> dict[str, Any]:
    return {"host": url.host, "port": url.port, "user": url.username, "password": url.password or ""}


def driver_url(url: str) -> URL:
    """As an application gives it to SQLAlchemy."""
    parsed = make_url(url)
    return parsed.update_query_dict({"timeout": "60"}) if parsed.drivername == "sqlite" else parsed


@pytest.mark.parametrize("connected", [sqlalchemy_connection, sqlalchemy_session, driver])
def test_what_is_committed_arrives_and_what_is_rolled_back_does_not(
    database_url: str, stack: ExitStack, connected: Callable[[str, ExitStack], Application]
) -> None:
    check(database_url, connected(database_url, stack))


def test_django(database_url: str) -> None:
    command = [sys.executable, "-m", "tests.sql.django_outbox", database_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert "in no transaction" in done.stdout
    check_received(database_url)


def test_psycopg_3(postgresql_url: str, stack: ExitStack) -> None:
    check(postgresql_url, psycopg3(postgresql_url, stack))


def check(url: str, application: Application) -> None:
    """Two messages are committed, one is not."""
    outbox = jdbcstore.enlist(application.connection)
    # Not every byte of a body is text to the database.
    outbox.send(SENT, BODY, properties={"n": 1}, priority=9, ttl_ms=600_000, correlation_id="c-1")
    outbox.send(f"{SENT},topic://PRICES", "größer")
    application.commit()
    jdbcstore.enlist(application.connection).send(SENT, "never")
    application.roll_back()
    check_received(url)


def check_received(url: str) -> None:
    """Those two are there, and nothing else."""
    with jdbcstore.connect(url) as connection, connection.subscribe(SENT) as orders:
        first, second = orders.receive(timeout_s=WAIT_S), orders.receive(timeout_s=WAIT_S)
        assert (first.body, first.properties["n"], first.message.priority) == (BODY, 1, 9)
        assert second.body == "größer"
        assert first.message_id != second.message_id
        for message in (first, second):
            message.acknowledge()
        wait_until(lambda: connection.broker.intake.taken == 2)
    assert waiting(url) == 0


def waiting(url: str) -> int:
    """How many messages wait in the outbox or were refused."""
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            return int(connection.execute(text("SELECT COUNT(*) FROM JDBCSTORE_STAGED")).scalar_one())
    finally:
        engine.dispose()


def test_a_broker_that_runs_takes_messages_in_soon_and_in_their_order(database_url: str) -> None:
    engine = create_engine(driver_url(database_url))
    with jdbcstore.connect(database_url) as connection, connection.subscribe(SENT) as orders:
        for number in range(20):
            with engine.begin() as own:
                outbox = jdbcstore.enlist(own)
                for part in range(10):
                    outbox.send(SENT, f"{number}.{part}")
        received = [orders.receive(timeout_s=WAIT_S) for _ in range(200)]
        assert [message.body for message in received] == [f"{n}.{part}" for n in range(20) for part in range(10)]
    engine.dispose()


@pytest.mark.parametrize("begins", ["first", "last"])
def test_a_transaction_that_is_open_keeps_nobody_waiting(sql_server_url: str, begins: str) -> None:
    """Neither its rows nor those beside them: the broker takes what is committed."""
    engine = create_engine(driver_url(sql_server_url))
    with engine.connect() as slow, engine.connect() as quick:
        for one in (slow, quick) if begins == "first" else (quick, slow):
            jdbcstore.enlist(one).send(SENT, "slow" if one is slow else "quick")
        quick.commit()
        with jdbcstore.connect(sql_server_url) as connection, connection.subscribe(SENT) as orders:
            message = orders.receive(timeout_s=WAIT_S)
            assert message.body == "quick"
            message.acknowledge()
            wait_until(lambda: connection.broker.intake.taken == 1)
            slow.commit()
            assert orders.receive(timeout_s=WAIT_S).body == "slow"
    engine.dispose()


def test_a_message_that_cannot_be_taken_in_stays_and_the_others_pass(database_url: str) -> None:
    engine = create_engine(driver_url(database_url))
    with engine.begin() as own:
        outbox = jdbcstore.enlist(own)
        for body in ("before", "broken", "behind"):
            outbox.send(SENT, body)
        own.execute(text("UPDATE JDBCSTORE_STAGED SET MSG = :none WHERE MSGID_SEQ = 2"), {"none": b"no message"})
    with jdbcstore.connect(database_url) as connection, connection.subscribe(SENT) as orders:
        assert [orders.receive(timeout_s=WAIT_S).body for _ in range(2)] == ["before", "behind"]
        wait_until(lambda: connection.broker.intake.refused == 1)
    assert waiting(database_url) == 1
    engine.dispose()


def test_refused_messages_are_listed_one_by_one_and_let_go_again_or_removed(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*arguments: str) -> str:
        assert run(["outbox", *arguments]) == 0
        return capsys.readouterr().out

    engine = create_engine(driver_url(database_url))
    assert "no message was refused" in command("list", database_url)
    with engine.begin() as own:
        ids = [str(jdbcstore.enlist(own).send(SENT, f"m{number}")) for number in range(3)]
        kept = own.execute(text("SELECT PART, NUMBER, MSG FROM JDBCSTORE_STAGED")).all()
        own.execute(text("UPDATE JDBCSTORE_STAGED SET MSG = :none"), {"none": b"no message"})
    with jdbcstore.connect(database_url) as connection, connection.subscribe(SENT) as orders:
        wait_until(lambda: connection.broker.intake.refused == 3)
        listed = [json.loads(line) for line in command("list", database_url, "--json").splitlines()]
        assert sorted(one["messageId"] for one in listed) == sorted(ids)
        assert [one["sentMs"] for one in listed] == sorted(one["sentMs"] for one in listed)
        assert all(one["destination"] == f"queue://{SENT}" and one["bytes"] == 10 for one in listed)
        assert all(one["damage"] for one in listed)
        with engine.begin() as own:
            for part, number, message in kept:
                mended = {"message": message, "part": -1 - part, "number": number}
                own.execute(
                    text("UPDATE JDBCSTORE_STAGED SET MSG = :message WHERE PART = :part AND NUMBER = :number"), mended
                )
        assert "see the broker's log" in command("list", database_url).replace("\n", " ")
        assert f"{ids[1]} is waiting again" in command("retry", database_url, ids[1])
        assert orders.receive(timeout_s=WAIT_S).body == "m1"
        assert f"{ids[0]} is removed" in command("delete", database_url, ids[0])
        assert run(["outbox", "retry", database_url, ids[0]]) == 2
        assert ids[0] in capsys.readouterr().err
        assert run(["outbox", "delete", database_url]) == 2
        assert ids[2] in command("retry", database_url, "--all")
        assert orders.receive(timeout_s=WAIT_S).body == "m2"
        wait_until(lambda: waiting(database_url) == 0)
    engine.dispose()


def in_autocommit(url: str, stack: ExitStack, kind: str) -> Any:
    """A connection in autocommit mode."""
    match kind:
        case "sqlalchemy":
            engine = create_engine(driver_url(url), isolation_level="AUTOCOMMIT")
            stack.callback(engine.dispose)
            return stack.enter_context(engine.connect())
        case _:
            connection = driver(url, stack).connection
            match make_url(url).get_backend_name():
                case "sqlite":
                    connection.isolation_level = None
                case "postgresql":
                    connection.autocommit = True
                case _:
                    connection.autocommit(True)
            return connection


@pytest.mark.parametrize("kind", ["sqlalchemy", "driver"])
def test_a_connection_without_a_transaction_is_refused(database_url: str, stack: ExitStack, kind: str) -> None:
    with pytest.raises(ConfigurationError, match="in no transaction"):
        jdbcstore.enlist(in_autocommit(database_url, stack, kind))


def test_a_transaction_that_was_begun_by_hand_is_one(database_url: str, stack: ExitStack) -> None:
    connection = in_autocommit(database_url, stack, "driver")
    connection.cursor().execute("BEGIN")
    jdbcstore.enlist(connection).send(SENT, "by hand")
    connection.cursor().execute("COMMIT")
    assert waiting(database_url) == 1


def no_connection(url: str, send: Callable[[], Enlisted]) -> None:
    jdbcstore.enlist(object())


def not_persistent(url: str, send: Callable[[], Enlisted]) -> None:
    send().send(SENT, "x", persistent=False)


def numbered(url: str, send: Callable[[], Enlisted]) -> None:
    send().send(SENT, "x", number=("shop", 1))


def without_destination(url: str, send: Callable[[], Enlisted]) -> None:
    send().send("", "x")


def to_a_pattern(url: str, send: Callable[[], Enlisted]) -> None:
    send().send("ORDERS.>", "x")


def to_a_control_character(url: str, send: Callable[[], Enlisted]) -> None:
    send().send("ORDERS,A\0B", "x")


def to_a_temporary_queue(url: str, send: Callable[[], Enlisted]) -> None:
    send().send("ORDERS,temp-queue://ID:1-2:1", "x")


def to_an_advisory(url: str, send: Callable[[], Enlisted]) -> None:
    send().send("topic://ActiveMQ.Advisory.Connection", "x")


def to_a_name_that_is_too_long(url: str, send: Callable[[], Enlisted]) -> None:
    send()._outbox.add_message(TextMessage(destination=Queue("A" * 243 + "B")))


def as_a_load(url: str, send: Callable[[], Enlisted]) -> None:
    BulkLoad(make_url(url), JdbcOptions(), OUTBOX_JOB)


@pytest.mark.parametrize(
    ("misuse", "text_of_it"),
    [
        (no_connection, "no connection to enlist: it takes"),
        (not_persistent, "leave out persistent"),
        (numbered, "leave out number"),
        (without_destination, "needs a name"),
        (to_a_pattern, "is a pattern"),
        (to_a_control_character, "has control characters"),
        (to_a_temporary_queue, "is temporary"),
        (to_an_advisory, "broker's own"),
        (to_a_name_that_is_too_long, "is too long"),
        (as_a_load, "the outbox of applications"),
    ],
)
def test_misuse_is_refused(
    sqlite_url: str, stack: ExitStack, misuse: Callable[[str, Callable[[], Enlisted]], None], text_of_it: str
) -> None:
    def send() -> Enlisted:
        return jdbcstore.enlist(driver(sqlite_url, stack).connection)

    with pytest.raises(ConfigurationError, match=text_of_it):
        misuse(sqlite_url, send)
    assert waiting(sqlite_url) == 0


def test_a_schedule_that_no_broker_takes_is_refused(sqlite_url: str, stack: ExitStack) -> None:
    outbox = jdbcstore.enlist(driver(sqlite_url, stack).connection)
    with pytest.raises(ValueError, match="cron"):
        outbox.send(SENT, "x", properties={"AMQ_SCHEDULED_CRON": "at noon"})
    with pytest.raises(ValueError, match="AMQ_SCHEDULED_PERIOD"):
        outbox.send(SENT, "x", properties={"AMQ_SCHEDULED_REPEAT": 3})


def test_a_message_above_the_limit_is_refused(sqlite_url: str, stack: ExitStack) -> None:
    outbox = jdbcstore.enlist(driver(sqlite_url, stack).connection, JdbcOptions(message_bytes_max=1000))
    with pytest.raises(MessageTooLarge, match="message_bytes_max=1000"):
        outbox.send(SENT, "x" * 1000)


@pytest.mark.parametrize("connected", [sqlalchemy_connection, sqlalchemy_session, driver])
def test_a_database_without_the_tables_is_told(
    database_url: str, stack: ExitStack, connected: Callable[[str, ExitStack], Application]
) -> None:
    application = connected(database_url, stack)
    with pytest.raises(SchemaMismatch, match="jdbcstore schema upgrade URL"):
        jdbcstore.enlist(application.connection, JdbcOptions(table_prefix="ELSE_")).send(SENT, "x")
    application.roll_back()


def test_psycopg_3_without_the_tables(postgresql_url: str, stack: ExitStack) -> None:
    with pytest.raises(SchemaMismatch, match="jdbcstore schema upgrade URL"):
        jdbcstore.enlist(psycopg3(postgresql_url, stack).connection, JdbcOptions(table_prefix="ELSE_")).send(SENT, "x")


def test_a_store_enlists_without_being_started(sqlite_url: str, stack: ExitStack) -> None:
    application = driver(sqlite_url, stack)
    JdbcPersistenceAdapter(make_url(sqlite_url)).enlist(application.connection).add_message(text_message(1))
    application.commit()
    assert waiting(sqlite_url) == 1


def test_an_application_may_have_a_connection_class_of_its_own(sqlite_url: str) -> None:
    class Own(sqlite3.Connection):
        pass

    with closing(sqlite3.connect(make_url(sqlite_url).database or "", factory=Own)) as connection:
        jdbcstore.enlist(connection).send(SENT, "x")
        connection.commit()
    assert waiting(sqlite_url) == 1


def test_the_database_tells_the_broker(postgresql_url: str) -> None:
    """Not the look that is taken each second, for which each of 20 messages would wait about as long."""
    engine = create_engine(postgresql_url)
    with jdbcstore.connect(postgresql_url) as connection, connection.subscribe(SENT) as orders:
        latencies = []
        for number in range(20):
            with engine.begin() as own:
                jdbcstore.enlist(own).send(SENT, str(number))
            began = time.monotonic()
            orders.receive(timeout_s=WAIT_S).acknowledge()
            latencies.append(time.monotonic() - began)
        assert sorted(latencies)[2] < 0.4  # on a busy machine some take longer
    engine.dispose()


@pytest.fixture
def sqlite_url(tmp_path: Path, prepared_file: PreparedFile) -> str:
    """A fresh store with tables in it."""
    return prepared_file.url(tmp_path / "store.db")
