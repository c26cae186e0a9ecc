"""PostgreSQL with synchronous standbys: a row that is there is not yet a row that the standbys have.

The standby that is waited for does not exist; when it is no longer asked for, what waits goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from sqlalchemy import make_url

from jdbcstore.errors import OutcomeUnknown, StoreError
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import MessageStore
from jdbcstore.store.jdbc.lockers import LeaseDatabaseLocker
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.lease import LockerOptions
from jdbcstore.testing import text_message
from tests.servers.postgresql import PostgreSQLServer
from tests.sql.test_writer import WAIT_S, numbers, opened
from tests.waiting import wait_until

DATABASE = "replicated"
WAITING = f"FROM pg_stat_activity WHERE datname = '{DATABASE}' AND wait_event = 'SyncRep'"


@pytest.fixture
def server() -> Iterator[PostgreSQLServer]:
    with PostgreSQLServer(15) as server:
        server.create_database(DATABASE)
        yield server


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


def added(store: MessageStore, server: PostgreSQLServer, number: int) -> Completion[int]:
    """A message whose commit waits for the standby."""
    completion = store.add_message(text_message(number))
    wait_until(lambda: is_waiting(server))
    return completion


@pytest.mark.parametrize("end", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_message_is_stored_when_the_standbys_have_it_whatever_ends_the_wait(
    server: PostgreSQLServer, end: str
) -> None:
    with ExitStack() as stack:
        _, store = stack.enter_context(opened(server.url(DATABASE), retry_s=60))
        with standby_away(server):
            completion = added(store, server, 1)
            server.execute(f"SELECT {end}(pid) {WAITING}")
            wait_until(lambda: server.execute(f"SELECT 1 {WAITING} AND query LIKE '%emit_message%'"))
            assert not completion.done
        completion.result(WAIT_S)
        assert numbers(store) == [1]


@pytest.mark.parametrize("end", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_message_that_no_standby_has_is_not_said_to_be_stored(server: PostgreSQLServer, end: str) -> None:
    """Although anybody sees its row."""
    with ExitStack() as stack:
        _, store = stack.enter_context(opened(server.url(DATABASE), retry_s=1, query_timeout_s=1))
        with standby_away(server):
            completion = added(store, server, 1)
            server.execute(f"SELECT {end}(pid) {WAITING}")
            assert isinstance(completion.exception(WAIT_S), OutcomeUnknown)
            assert numbers(store) == [1]


@pytest.mark.parametrize("end", ["pg_cancel_backend", "pg_terminate_backend"])
def test_an_acknowledgement_that_no_standby_has_is_not_final(server: PostgreSQLServer, end: str) -> None:
    with ExitStack() as stack:
        _, store = stack.enter_context(opened(server.url(DATABASE), retry_s=1, query_timeout_s=1))
        message = text_message(1)
        store.add_message(message).result(WAIT_S)
        assert message.message_id is not None
        with standby_away(server):
            completion = store.remove_message(message.message_id)
            wait_until(lambda: is_waiting(server))
            server.execute(f"SELECT {end}(pid) {WAITING}")
            assert isinstance(completion.exception(WAIT_S), OutcomeUnknown)


@pytest.mark.parametrize("end", ["pg_cancel_backend", "pg_terminate_backend"])
def test_nobody_is_master_by_a_term_that_no_standby_has(server: PostgreSQLServer, end: str) -> None:
    with ExitStack() as stack:
        with opened(server.url(DATABASE)):
            pass  # the tables are there
        options = JdbcOptions(lock=LockerOptions(lease_ms=3000))
        locker = LeaseDatabaseLocker(make_url(server.url(DATABASE)), options)
        stack.callback(locker.release)
        with standby_away(server):
            with pytest.raises(StoreError):
                locker.acquire()  # given up after a third of the lease
            assert locker.lease is None
            server.execute(f"SELECT {end}(pid) {WAITING}")
            with pytest.raises(StoreError):
                locker.acquire()
            assert locker.lease is None
        assert locker.acquire() is not None
