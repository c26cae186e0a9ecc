"""PostgreSQL with synchronous standbys: a row that is there is not yet a row that the standbys have.

In most tests the standby that is waited for does not exist; when it is no longer asked for, what waits goes on.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress

import psycopg2
import pytest
from psycopg2.extras import PhysicalReplicationConnection
from sqlalchemy import make_url

from jdbcstore.config.urls import store_options
from jdbcstore.destination import Queue
from jdbcstore.errors import LeaseLost, OutcomeUnknown, StoreError, TransientStoreError
from jdbcstore.openwire import marshal
from jdbcstore.store.jdbc.bulk_load import BulkLoad, LoadOptions
from jdbcstore.store.jdbc.lockers import DatabaseLocker, LeaseDatabaseLocker
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.lease import LockerOptions
from jdbcstore.testing import text_message
from tests.servers.postgresql import PostgreSQLServer
from tests.sql.test_lockers import opened as brokers_opened
from tests.sql.test_writer import WAIT_S, numbers, opened
from tests.waiting import wait_until

DATABASE = "replicated"
WAITING = f"FROM pg_stat_activity WHERE datname = '{DATABASE}' AND wait_event = 'SyncRep'"
#: A part of what confirms what is seen.
CONFIRMATION = "%pg_logical_emit_message%"


@pytest.fixture(params=["pg_cancel_backend", "pg_terminate_backend"])
def end(request: pytest.FixtureRequest) -> str:
    """What ends a wait for the standby."""
    return str(request.param)


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgreSQLServer]:
    """A server of this module's own, whose commits wait for standbys when a test says so."""
    with PostgreSQLServer(15) as own:
        yield own


@pytest.fixture
def server(own_server: PostgreSQLServer) -> Iterator[PostgreSQLServer]:
    """The same, with an empty database."""
    own_server.create_database(DATABASE)
    yield own_server
    own_server.drop_database(DATABASE)


def ask_for_standby(server: PostgreSQLServer, name: str) -> None:
    """Commits wait for a standby from now on; for none when the name is empty."""
    server.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
    server.execute("SELECT pg_reload_conf()")
    wait_until(lambda: server.execute("SHOW synchronous_standby_names") == [(name,)])


@contextmanager
def standby_away(server: PostgreSQLServer) -> Iterator[None]:
    """Commits wait for the duration of the block."""
    ask_for_standby(server, "nobody")
    try:
        yield
    finally:
        ask_for_standby(server, "")


def is_waiting(server: PostgreSQLServer) -> bool:
    return bool(server.execute(f"SELECT 1 {WAITING}"))


def end_wait(server: PostgreSQLServer, end: str) -> None:
    """End the wait of the session that waits for the standby."""
    wait_until(lambda: is_waiting(server))
    server.execute(f"SELECT {end}(pid) {WAITING}")


def is_confirming(server: PostgreSQLServer) -> bool:
    """Whether a confirmation waits for the standby."""
    return bool(server.execute(f"SELECT 1 {WAITING} AND query LIKE '{CONFIRMATION}'"))


def test_a_message_is_stored_when_the_standbys_have_it_whatever_ends_the_wait(
    server: PostgreSQLServer, end: str
) -> None:
    with opened(server.url(DATABASE), retry_s=90) as (_, store):
        with standby_away(server):
            completion = store.add_message(text_message(1))
            end_wait(server, end)
            wait_until(lambda: is_confirming(server))
            assert not completion.done
        completion.result(WAIT_S)
        assert numbers(store) == [1]


def test_a_message_that_no_standby_has_is_not_said_to_be_stored(server: PostgreSQLServer, end: str) -> None:
    """Although anybody sees its row."""
    with opened(server.url(DATABASE), retry_s=1, query_timeout_s=2) as (_, store), standby_away(server):
        completion = store.add_message(text_message(1))
        end_wait(server, end)
        assert isinstance(completion.exception(WAIT_S), OutcomeUnknown)
        assert numbers(store) == [1]


def test_an_acknowledgement_that_no_standby_has_is_not_final(server: PostgreSQLServer, end: str) -> None:
    with opened(server.url(DATABASE), retry_s=1, query_timeout_s=2) as (_, store):
        message = text_message(1)
        store.add_message(message).result(WAIT_S)
        assert message.message_id is not None
        with standby_away(server):
            completion = store.remove_message(message.message_id)
            end_wait(server, end)
            assert isinstance(completion.exception(WAIT_S), OutcomeUnknown)


def test_a_load_is_final_when_the_standbys_have_it(server: PostgreSQLServer, end: str) -> None:
    message = text_message(1)
    row = (str(message.producer_id), 1, "queue://TEST", 0, 0, marshal(message))
    make_tables(server)
    url, options = store_options(server.url(DATABASE))
    load = BulkLoad(url, options, "job", LoadOptions(protocol="direct"))
    load.begin()
    load.write_part(0, [row])

    def has_ended_wait_of_commit() -> bool:
        # The renewal before it waits, too: ended with its session it would fail the call, as it should.
        server.execute(f"SELECT pg_cancel_backend(pid) {WAITING} AND query NOT LIKE '%COMMIT'")
        return bool(server.execute(f"SELECT {end}(pid) {WAITING} AND query LIKE '%COMMIT'"))

    with ThreadPoolExecutor(1) as pool:
        with standby_away(server):
            committing = pool.submit(load.commit)
            wait_until(has_ended_wait_of_commit)
            wait_until(lambda: is_confirming(server))
            assert not committing.done()
        assert committing.result(WAIT_S) == 1


def acquired(locker: LeaseDatabaseLocker | DatabaseLocker) -> int:
    """Our term, when the lock row is free: the session whose wait has ended may have it locked a moment longer."""
    while (term := locker.acquire()) is None:
        pass
    return term


@pytest.mark.parametrize("locker_class", [LeaseDatabaseLocker, DatabaseLocker])
def test_nobody_is_master_by_a_term_that_no_standby_has(
    server: PostgreSQLServer, end: str, locker_class: type[LeaseDatabaseLocker | DatabaseLocker]
) -> None:
    make_tables(server)
    locker = locker_class(make_url(server.url(DATABASE)), JdbcOptions(lock=LockerOptions(lease_ms=3000)))
    with ExitStack() as stack:
        stack.callback(locker.release)
        with standby_away(server):
            with pytest.raises(StoreError):
                locker.acquire()  # given up after a third of the lease
            assert locker.lease is None
            end_wait(server, end)
            with pytest.raises(StoreError):
                acquired(locker)
            assert locker.lease is None

        def is_master() -> bool:
            with suppress(TransientStoreError):  # an answer may come too late on a busy machine
                locker.acquire()
            return locker.lease is not None

        wait_until(is_master)


@contextmanager
def standby(server: PostgreSQLServer, name: str) -> Iterator[None]:
    """Somebody receives the log, and says so."""
    ending = threading.Event()
    connection = psycopg2.connect(
        f"host=127.0.0.1 port={server.port} user=postgres application_name={name}",
        connection_factory=PhysicalReplicationConnection,
    )

    def receive() -> None:
        with closing(connection), connection.cursor() as log:
            ((here,),) = server.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint")
            log.start_replication(start_lsn=int(str(here)))
            while not ending.is_set():
                if part := log.read_message():
                    end = part.data_start + len(part.payload)
                    log.send_feedback(write_lsn=end, flush_lsn=end, apply_lsn=end, force=True)  # type: ignore[no-untyped-call]
                else:
                    select.select([connection], [], [], 0.05)

    with ThreadPoolExecutor(1) as pool:
        receiving = pool.submit(receive)
        try:
            yield
        finally:
            ending.set()
        receiving.result()


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("synchronous_standby_names = ''", "standbys are asynchronous"),
        ("synchronous_commit = local", "synchronous_commit = local: commits do not wait"),
    ],
)
def test_what_waits_for_no_standby_is_not_stored(server: PostgreSQLServer, setting: str, told: str) -> None:
    """Each commit looks; the next renewal of the lease may be seconds away."""
    with ExitStack() as stack:
        stack.enter_context(standby(server, "there"))
        stack.callback(ask_for_standby, server, "")
        stack.callback(server.execute, "ALTER SYSTEM RESET synchronous_commit")
        ask_for_standby(server, "there")
        url = f"{server.url(DATABASE)}?require_replication=any&lease_ms=60000"
        brokers = stack.enter_context(brokers_opened(url))
        queue = brokers.master().queue_message_store(Queue("TEST"))
        queue.add_message(text_message(1)).result(WAIT_S)
        server.execute(f"ALTER SYSTEM SET {setting}")
        server.execute("SELECT pg_reload_conf()")
        # A session hears of new settings between two statements, so the first of these may be in time.
        outcomes = (queue.add_message(text_message(number)).exception(WAIT_S) for number in range(2, 20))
        refusal = next(filter(None, outcomes))
        assert isinstance(refusal, LeaseLost)
        assert "require_replication = any" in str(refusal)
        assert told in str(refusal)


def make_tables(server: PostgreSQLServer) -> None:
    with opened(server.url(DATABASE)):
        pass
