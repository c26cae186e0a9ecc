"""Group commit when things go wrong: what senders are told, and what is in the table then."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from jdbcstore import faults
from jdbcstore.config.urls import open_store, store_url
from jdbcstore.destination import Queue
from jdbcstore.errors import (
    DuplicateMessage,
    MessageTooLarge,
    OutcomeUnknown,
    StoreError,
    StoreFull,
    TransientStoreError,
)
from jdbcstore.identifiers import ProducerId
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Commit, Cursor, MessageStore
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.dialect import Deadlock, raw_connection
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.lease import LockerOptions
from jdbcstore.testing import text_message
from tests.servers.mariadb import MariaDBServer
from tests.servers.postgresql import PostgreSQLServer
from tests.servers.proxy import ADDS, Proxy
from tests.servers.server import DatabaseServer

pytestmark = pytest.mark.has_tables

WAIT_S = 90.0
LEASE_MS = 60_000


@contextmanager
def opened(url: str, **options: Any) -> Iterator[tuple[JdbcPersistenceAdapter, MessageStore]]:
    # On a busy machine nobody may be heard of for long, which is other tests' matter.
    adapter = open_store(url, JdbcOptions(**{"lock": LockerOptions(lease_ms=LEASE_MS), **options}))
    assert isinstance(adapter, JdbcPersistenceAdapter)
    with adapter:
        yield adapter, adapter.queue_message_store(Queue("TEST"))


@contextmanager
def one_batch() -> Iterator[threading.Event]:
    """Hold the writer at its first commit, so that what the block writes then is one batch; whether it is there."""
    entered, go = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        go.wait(WAIT_S)

    with faults.inject("writer.before_commit", hold):
        try:
            yield entered
        finally:
            go.set()


def numbers(store: MessageStore) -> list[int]:
    page = store.recover_next_messages(Cursor(), 100_000, 1 << 30)
    return [_number(message) for message in page.messages]


def _sequence(message: Message) -> int:
    assert message.message_id is not None
    return message.message_id.broker_sequence_id


def _number(message: Message) -> int:
    assert message.message_id is not None
    return message.message_id.producer_sequence_id


def execute(url: str, *statements: str) -> None:
    engine = create_engine(store_url(url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


# -- a bad write fails alone -----------------------------------------------------------------------------------------


def refuse_thirteen(url: str) -> None:
    """Make the database refuse the message with the number 13, and nothing else."""
    if url.startswith("sqlite"):
        statement = (
            "CREATE TRIGGER thirteen BEFORE INSERT ON ACTIVEMQ_MSGS WHEN NEW.MSGID_SEQ = 13"
            " BEGIN SELECT RAISE(ABORT, 'not thirteen'); END"
        )
    else:
        statement = "ALTER TABLE ACTIVEMQ_MSGS ADD CONSTRAINT not_thirteen CHECK (MSGID_SEQ <> 13)"
    execute(url, statement)


def test_a_refused_message_fails_alone_and_its_neighbours_keep_their_order(database_url: str) -> None:
    with opened(database_url) as (_, store):
        refuse_thirteen(database_url)
        with one_batch():
            pending = [store.add_message(text_message(n)) for n in range(50)]
        outcomes = [completion.exception(WAIT_S) for completion in pending]
        assert [n for n, error in enumerate(outcomes) if error is not None] == [13]
        assert isinstance(outcomes[13], StoreError)
        assert not isinstance(outcomes[13], TransientStoreError)
        assert numbers(store) == [n for n in range(50) if n != 13]
        assert store.message_count == 49


def test_refused_messages_that_were_added_with_others_fail_alone(database_url: str) -> None:
    with opened(database_url) as (_, store):
        refuse_thirteen(database_url)
        messages = [text_message(n) for n in (11, 12, 13, 14, 13, 15)]
        with one_batch():
            first, together = store.add_message(text_message(1)), store.add_messages(messages)
            last = store.add_messages([text_message(13)])
        assert together is not None
        assert last is not None
        refusals = together.result(WAIT_S)
        assert [n for n, message in enumerate(messages) if _sequence(message) in refusals] == [2, 4]
        assert {type(error) for error in refusals.values()} == {type(last.exception(WAIT_S))}
        assert isinstance(last.error, StoreError)
        assert first.exception(WAIT_S) is None
        assert numbers(store) == [1, 11, 12, 14, 15]
        assert store.message_count == 5


def test_an_atomic_unit_with_a_refused_message_fails_as_a_whole(database_url: str) -> None:
    with opened(database_url) as (adapter, store):
        refuse_thirteen(database_url)
        store.add_message(text_message(1)).result(WAIT_S)
        unit = adapter.commit_together(
            Commit(
                adds=[(store, text_message(12)), (store, text_message(13))],
                removes=[(store, text_message(1).message_id)],  # type: ignore[list-item]  # it has an id
            )
        )
        assert isinstance(unit.exception(WAIT_S), StoreError)
        assert numbers(store) == [1]
        assert store.message_count == 1


def test_a_row_of_another_master_is_not_overwritten(database_url: str) -> None:
    with opened(database_url) as (adapter, store):
        store.add_message(text_message(1)).result(WAIT_S)
        taken = adapter.last_message_broker_sequence_id() + 1
        execute(
            database_url,
            "INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, PRIORITY)"
            f" VALUES ({taken}, 'queue://OTHER', 'ID:other', 1, 0, 0)",
        )
        error = store.add_message(text_message(2)).exception(WAIT_S)
        assert isinstance(error, DuplicateMessage)
        store.add_message(text_message(3)).result(WAIT_S)
        assert numbers(store) == [1, 3]


# -- too large, no room, no time -------------------------------------------------------------------------------------


def test_a_message_beyond_the_limit_is_refused_at_once(database_url: str) -> None:
    with opened(database_url, message_bytes_max=10_000) as (_, store):
        with pytest.raises(MessageTooLarge, match="10000"):
            store.add_message(text_message(1, "x" * 10_000))
        store.add_message(text_message(2)).result(WAIT_S)
        assert numbers(store) == [2]


@pytest.mark.parametrize("database", ["mariadb_url", "mysql_url"])
def test_a_message_beyond_the_servers_packet_says_what_to_raise(database: str, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(database)
    with opened(url) as (adapter, store):
        room = adapter.dialect.message_bytes_max
        with pytest.raises(MessageTooLarge):
            store.add_message(text_message(1, "x" * room))
        with one_batch():
            small = store.add_message(text_message(2))
            doubled = store.add_message(text_message(3, "'" * (room - 1000)))
            small_too = store.add_message(text_message(4))
        assert isinstance(doubled.exception(WAIT_S), MessageTooLarge)
        assert "max_allowed_packet" in str(doubled.error)
        assert small.exception(WAIT_S) is small_too.exception(WAIT_S) is None
        assert numbers(store) == [2, 4]


def test_batches_larger_than_a_packet_arrive_whole(mariadb_url: str) -> None:
    with opened(mariadb_url, batch_bytes_max=64 << 20) as (_, store):
        with one_batch():
            pending = [store.add_message(text_message(n, "x" * (1 << 20))) for n in range(40)]
        for completion in pending:
            completion.result(WAIT_S)
        assert store.message_count == 40


def test_a_full_disk_is_said_and_survived(tmp_path_factory: pytest.TempPathFactory) -> None:
    url = f"sqlite:///{tmp_path_factory.mktemp('full') / 'store.db'}"
    with opened(url) as (adapter, store):
        store.add_message(text_message(1)).result(WAIT_S)
        connection = adapter.writer._connection  # the limit is the connection's own
        assert connection is not None
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 5}")
        error = store.add_message(text_message(2, "x" * 100_000)).exception(WAIT_S)
        assert isinstance(error, StoreFull)
        connection.exec_driver_sql("PRAGMA max_page_count=1000000")
        store.add_message(text_message(3)).result(WAIT_S)
        assert numbers(store) == [1, 3]
        assert store.message_count == 2


ROLLED_BACK_ON_POSTGRESQL = [
    "CREATE SEQUENCE met",
    "CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('met') <= 5 THEN"
    " RAISE EXCEPTION 'met' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$",
    "CREATE TRIGGER meet BEFORE INSERT ON ACTIVEMQ_MSGS FOR EACH ROW EXECUTE FUNCTION meet()",
]
ROLLED_BACK_ON_MYSQL = [
    "CREATE TABLE met (id INT AUTO_INCREMENT PRIMARY KEY) ENGINE = MyISAM",  # no transaction takes back what it counts
    "CREATE TRIGGER meet BEFORE INSERT ON ACTIVEMQ_MSGS FOR EACH ROW BEGIN INSERT INTO met VALUES (NULL);"
    " IF (SELECT COUNT(*) FROM met) <= 5 THEN SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213; END IF; END",
]


def meet_five_deadlocks(url: str) -> None:
    """Make the server roll back the first five transactions that store a message, as it does a deadlock's victim."""
    statements = ROLLED_BACK_ON_POSTGRESQL if url.startswith("postgresql") else ROLLED_BACK_ON_MYSQL
    execute(url, *statements)


@pytest.mark.has_tables(False)
def test_the_victim_of_several_deadlocks_is_stored_all_the_same(sql_server_url: str) -> None:
    with opened(sql_server_url) as (_, store):
        meet_five_deadlocks(sql_server_url)
        store.add_message(text_message(1)).result(WAIT_S)
        assert numbers(store) == [1]


@pytest.mark.has_tables(False)
def test_after_its_time_the_victim_of_deadlocks_hears_of_them(sql_server_url: str) -> None:
    with opened(sql_server_url, retry_s=0) as (_, store):
        meet_five_deadlocks(sql_server_url)
        assert type(store.add_message(text_message(1)).exception(WAIT_S)) is Deadlock
        assert numbers(store) == []


LOCK_TABLE = {
    "postgresql": "LOCK TABLE ACTIVEMQ_MSGS IN ACCESS EXCLUSIVE MODE",
    "mysql": "LOCK TABLES ACTIVEMQ_MSGS WRITE",
    "mariadb": "LOCK TABLES ACTIVEMQ_MSGS WRITE",
    "sqlite": "BEGIN IMMEDIATE",
}


def test_a_time_out_is_said_and_survived(database_url: str) -> None:
    with opened(database_url, query_timeout_s=1) as (_, store):
        store.add_message(text_message(1)).result(WAIT_S)
        engine = create_engine(store_url(database_url))
        with engine.connect() as other:
            other.exec_driver_sql(LOCK_TABLE[engine.name])
            assert isinstance(store.add_message(text_message(2)).exception(WAIT_S), TransientStoreError)
            other.rollback()
            if engine.name != "sqlite" and engine.name != "postgresql":
                other.exec_driver_sql("UNLOCK TABLES")
        engine.dispose()
        store.add_message(text_message(3)).result(WAIT_S)
        assert numbers(store) == [1, 3]


# -- a lone message's prepared statement -----------------------------------------------------------------------------

#: What may become of the tables while a session has a statement for them.
CHANGES = [
    "ALTER TABLE ACTIVEMQ_MSGS ADD COLUMN NOTE TEXT",
    "ALTER TABLE ACTIVEMQ_MSGS ALTER CONTAINER TYPE TEXT, ALTER MSGID_SEQ TYPE NUMERIC",
    "ALTER TABLE ACTIVEMQ_MSGS DROP COLUMN NOTE",
    "ALTER TABLE ACTIVEMQ_MSGS RENAME TO formerly;"
    "CREATE TABLE ACTIVEMQ_MSGS (LIKE formerly INCLUDING ALL);"
    "INSERT INTO ACTIVEMQ_MSGS SELECT * FROM formerly;"
    "DROP TABLE formerly",
    "ANALYZE ACTIVEMQ_MSGS",
]


def session_of(adapter: JdbcPersistenceAdapter) -> Any:
    """The driver's connection of the writer, which has nothing to do."""
    connection = adapter.writer._connection
    assert connection is not None
    return raw_connection(connection)


def test_the_prepared_insert_of_a_lone_message_outlives_changes_of_the_tables(postgresql_url: str) -> None:
    with opened(postgresql_url) as (adapter, store):
        for number in range(7):  # from the sixth on the plan is not made anew
            store.add_message(text_message(number)).result(WAIT_S)
        session = session_of(adapter)
        for number, change in enumerate(CHANGES, 7):
            execute(postgresql_url, change)
            store.add_message(text_message(number)).result(WAIT_S)
        assert session_of(adapter) is session
        assert session.has_prepared_add is True
        assert numbers(store) == list(range(7 + len(CHANGES)))


def test_a_lone_message_meets_a_locked_table_first_of_all(postgresql_url: str) -> None:
    """A start needs no lock. What cannot be prepared then is done without."""
    with opened(postgresql_url):
        pass  # the tables are there
    engine = create_engine(store_url(postgresql_url))
    with engine.connect() as other:
        other.exec_driver_sql("LOCK TABLE ACTIVEMQ_MSGS IN SHARE MODE")
        with opened(f"{postgresql_url}?options=-clock_timeout%3D200") as (adapter, store):
            assert isinstance(store.add_message(text_message(1)).exception(WAIT_S), TransientStoreError)
            other.rollback()
            store.add_message(text_message(2)).result(WAIT_S)
            assert session_of(adapter).has_prepared_add is False
            assert numbers(store) == [2]
    engine.dispose()


def test_a_session_that_has_lost_what_was_prepared_is_replaced(postgresql_url: str) -> None:
    with opened(postgresql_url) as (adapter, store):
        for number in (1, 2, 3):
            store.add_message(text_message(number)).result(WAIT_S)
            with session_of(adapter).cursor() as cursor:
                cursor.execute("DISCARD ALL")
        assert numbers(store) == [1, 2, 3]


# -- the line breaks -------------------------------------------------------------------------------------------------

SERVERS = ["postgresql", "mariadb", "mysql"]


@pytest.fixture(params=SERVERS)
def proxied(request: pytest.FixtureRequest) -> Iterator[tuple[str, Proxy]]:
    """The URL of a fresh database through a proxy, and the proxy."""
    server: DatabaseServer = request.getfixturevalue(request.param)
    url: str = request.getfixturevalue(f"{request.param}_url")
    with Proxy(server.port) as proxy:
        # MySQL would encrypt what the proxy has to recognise.
        yield proxy.url(url) + ("?ssl_disabled=true" if request.param == "mysql" else ""), proxy


@pytest.mark.parametrize("delivered", [True, False], ids=["answer-lost", "request-lost"])
def test_an_add_whose_commit_is_cut_off_is_stored_once(proxied: tuple[str, Proxy], delivered: bool) -> None:
    url, proxy = proxied
    with opened(url) as (_, store):
        trap = proxy.cut_at(ADDS, deliver=delivered)
        store.add_message(text_message(1)).result(WAIT_S)
        assert trap.is_set()
        assert numbers(store) == [1]
        assert store.message_count == 1


@pytest.mark.parametrize("pattern", [b"COPY", b"PGCOPY", b"DELETE"])
@pytest.mark.parametrize("delivered", [True, False], ids=["answer-lost", "request-lost"])
def test_a_large_batch_that_is_cut_off_anywhere_is_stored_once(
    postgresql: PostgreSQLServer, postgresql_url: str, pattern: bytes, delivered: bool
) -> None:
    with Proxy(postgresql.port) as proxy, opened(proxy.url(postgresql_url)) as (adapter, store):
        old = text_message(0)
        store.add_message(old).result(WAIT_S)
        assert old.message_id is not None
        trap = proxy.cut_at(pattern, deliver=delivered)
        adds = [(store, text_message(n)) for n in range(1, 41)]
        adapter.commit_together(Commit(adds=adds, removes=[(store, old.message_id)])).result(WAIT_S)
        assert trap.is_set()
        assert numbers(store) == list(range(1, 41))
        assert store.message_count == 40


@pytest.mark.parametrize("delivered", [True, False], ids=["answer-lost", "request-lost"])
def test_a_remove_whose_commit_is_cut_off_is_done_once(proxied: tuple[str, Proxy], delivered: bool) -> None:
    url, proxy = proxied
    with opened(url) as (_, store):
        messages = [text_message(n) for n in range(6)]
        for completion in [store.add_message(message) for message in messages]:
            completion.result(WAIT_S)
        trap = proxy.cut_at(b"DELETE", deliver=delivered)
        with one_batch():
            pending = [store.remove_message(message.message_id) for message in messages[:5] if message.message_id]
        for removed in pending:
            removed.result(WAIT_S)
        assert trap.is_set()
        assert numbers(store) == [5]
        assert store.message_count == 1


def test_while_the_database_is_away_senders_are_told_and_later_ones_are_served(proxied: tuple[str, Proxy]) -> None:
    url, proxy = proxied
    with opened(url, retry_s=0.5, query_timeout_s=2) as (_, store):
        store.add_message(text_message(1)).result(WAIT_S)
        proxy.cut()
        refused = store.add_message(text_message(2)).exception(WAIT_S)
        assert isinstance(refused, TransientStoreError | OutcomeUnknown)
        with pytest.raises(TransientStoreError):
            numbers(store)
        proxy.resume()
        store.add_message(text_message(3)).result(WAIT_S)
        assert numbers(store) == [1, 3]


def test_a_write_that_a_lost_session_may_still_do_is_not_called_failed(
    mariadb: MariaDBServer, mariadb_url: str
) -> None:
    """The first session hangs behind a lock and is cut off; the second finds the lock too; then the first goes on."""
    with Proxy(mariadb.port) as proxy, opened(proxy.url(mariadb_url), query_timeout_s=2) as (_, store):
        store.add_message(text_message(1)).result(WAIT_S)
        engine = create_engine(store_url(mariadb_url))
        with engine.connect() as other:
            other.exec_driver_sql("LOCK TABLES ACTIVEMQ_MSGS WRITE")
            trap = proxy.cut_at(ADDS, deliver=True)
            error = store.add_message(text_message(2)).exception(WAIT_S)
            assert trap.is_set()
            assert isinstance(error, OutcomeUnknown)
            other.exec_driver_sql("UNLOCK TABLES")
        engine.dispose()
        store.add_message(text_message(3)).result(WAIT_S)
        assert numbers(store) in ([1, 3], [1, 2, 3])


# -- cancelling out --------------------------------------------------------------------------------------------------


def test_an_add_and_its_remove_that_both_wait_touch_no_disk(database_url: str) -> None:
    batches = 0

    with opened(database_url) as (_, store):
        first_entered, go = threading.Event(), threading.Event()

        def count() -> None:
            nonlocal batches
            batches += 1
            if batches == 1:
                first_entered.set()
                go.wait(WAIT_S)

        with faults.inject("writer.before_commit", count):
            blocker = store.add_message(text_message(0))
            assert first_entered.wait(WAIT_S)
            messages = [text_message(n) for n in range(1, 30)]
            pending: list[Completion[int] | Completion[None]] = []
            for message in messages:
                pending.append(store.add_message(message))
                assert message.message_id is not None
                pending.append(store.remove_message(message.message_id))
            assert not any(completion.done for completion in pending)
            go.set()
            for completion in [blocker, *pending]:
                completion.exception(WAIT_S)
                assert completion.error is None
        assert batches == 1
        assert numbers(store) == [0]
        assert store.message_count == 1


def test_without_the_option_nothing_cancels_out(database_url: str) -> None:
    batches = 0

    with opened(database_url, concurrent_store_and_dispatch_queues=False) as (_, store):
        first_entered, go = threading.Event(), threading.Event()

        def count() -> None:
            nonlocal batches
            batches += 1
            if batches == 1:
                first_entered.set()
                go.wait(WAIT_S)

        with faults.inject("writer.before_commit", count):
            store.add_message(text_message(0))
            assert first_entered.wait(WAIT_S)
            message = text_message(1)
            added = store.add_message(message)
            assert message.message_id is not None
            removed = store.remove_message(message.message_id)
            go.set()
            added.result(WAIT_S)
            removed.result(WAIT_S)
        assert batches == 2
        assert numbers(store) == [0]


def test_an_add_is_cancelled_or_committed_but_never_half(tmp_path: Path) -> None:
    """Removes race with the thread that takes their adds; a switch of threads at every step makes them meet."""
    producers, rounds = 4, 1500
    interval = sys.getswitchinterval()
    with opened(f"sqlite:///{tmp_path / 'store.db'}") as (_, store):

        def run(number: int) -> None:
            producer = ProducerId(f"ID:test-{number}", 1, 1)
            for n in range(rounds):
                message = text_message(n, producer_id=producer)
                store.add_message(message)
                assert message.message_id is not None
                removed = store.remove_message(message.message_id)
            removed.result(WAIT_S)

        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(producers) as pool:
                list(pool.map(run, range(producers)))
        finally:
            sys.setswitchinterval(interval)
        assert numbers(store) == []
        assert store.message_count == 0


def test_a_foreign_row_found_while_looking_up_is_not_taken_for_ours(mariadb: MariaDBServer, mariadb_url: str) -> None:
    with Proxy(mariadb.port) as proxy, opened(proxy.url(mariadb_url)) as (adapter, store):
        taken = adapter.last_message_broker_sequence_id() + 1
        execute(
            mariadb_url,
            "INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, PRIORITY)"
            f" VALUES ({taken}, 'queue://OTHER', 'ID:other', 1, 0, 0)",
        )
        trap = proxy.cut_at(ADDS, deliver=False)
        error = store.add_message(text_message(1)).exception(WAIT_S)
        assert trap.is_set()
        assert isinstance(error, DuplicateMessage)
        store.add_message(text_message(2)).result(WAIT_S)
        assert numbers(store) == [2]
