"""Settings that an administrator changes for everybody, or for the broker's user, while a broker runs.

What its sessions rely on they set themselves. Where the rest stands in the way, it is told, nothing is lost, and it
goes on by itself when that is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import uuid4

import pytest

from jdbcstore.config.urls import store_url
from jdbcstore.destination import Queue
from jdbcstore.errors import LeaseLost, SchemaMismatch
from jdbcstore.store.contract import MessageStore
from jdbcstore.testing import text_message
from tests.servers.mysql import MySQLServer
from tests.servers.postgresql import PostgreSQLServer
from tests.servers.server import USER, DatabaseServer
from tests.sql.test_outages import KINDS, execute_as_root
from tests.sql.test_writer import WAIT_S, numbers, opened

QUEUES = [Queue(name) for name in ("A", "B", "C")]


@pytest.fixture(scope="module", params=list(KINDS))
def server(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    """A server of this file's own, whose settings are changed: each kind in turn."""
    with KINDS[request.param]() as own:
        yield own


@pytest.fixture
def url(server: DatabaseServer) -> str:
    """A fresh database on it."""
    name = f"test_{uuid4().hex[:12]}"
    server.create_database(name)
    return server.url(name)


@contextmanager
def of_the_user(server: DatabaseServer, url: str, setting: str, value: str) -> Iterator[None]:
    """New sessions of PostgreSQL's user have another setting; those that there are end."""
    execute_as_root(server, f"ALTER ROLE {USER} SET {setting} = {value}")
    server.kill_sessions(store_url(url).database)
    try:
        yield
    finally:
        execute_as_root(server, f"ALTER ROLE {USER} RESET {setting}")
        server.kill_sessions(store_url(url).database)


@contextmanager
def of_all(server: DatabaseServer, url: str, setting: str, value: str) -> Iterator[None]:
    """New sessions of MySQL and MariaDB have another setting; those that there are end."""
    ((before,),) = execute_as_root(server, f"SELECT @@GLOBAL.{setting}")
    execute_as_root(server, f"SET GLOBAL {setting} = {value}")
    server.kill_sessions(store_url(url).database)
    try:
        yield
    finally:
        execute_as_root(server, f"SET GLOBAL {setting} = {before!r}")
        server.kill_sessions(store_url(url).database)


def settings_of(server: DatabaseServer) -> Sequence[tuple[str, str]]:
    if isinstance(server, PostgreSQLServer):
        return [
            ("statement_timeout", "1"),
            ("lock_timeout", "1"),
            ("idle_in_transaction_session_timeout", "1"),
            ("default_transaction_isolation", "'serializable'"),
            ("standard_conforming_strings", "off"),
            ("bytea_output", "'escape'"),
            ('"DateStyle"', "'German'"),
        ]
    assert isinstance(server, MySQLServer)
    return [
        ("sql_mode", "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'"),
        ("sql_mode", "''"),
        ("sql_select_limit", "1"),
        ("max_join_size", "1"),
        ("sql_safe_updates", "1"),
        ("completion_type", "2"),
        ("wait_timeout", "1"),
        ("autocommit", "0"),
    ]


def test_what_sessions_rely_on_they_set_themselves(server: DatabaseServer, url: str) -> None:
    changed = of_the_user if isinstance(server, PostgreSQLServer) else of_all
    with opened(url, retry_s=60) as (adapter, _):
        stores: list[MessageStore] = [adapter.queue_message_store(queue) for queue in QUEUES]
        last = 0
        for setting, value in settings_of(server):
            with changed(server, url, setting, value):
                first, last = last + 1, last + 5
                for store in stores:
                    messages = [text_message(number) for number in range(first, last + 1)]
                    for message in messages:
                        store.add_message(message).result(WAIT_S)
                    assert messages[0].message_id is not None
                    store.remove_message(messages[0].message_id).result(WAIT_S)
                with opened(url, locker="none", create_tables_on_startup=False) as (other, _):
                    assert other.destinations() == set(QUEUES), setting
                    kept = [number for number in range(1, last + 1) if number % 5 != 1]
                    for queue in QUEUES:
                        found = other.queue_message_store(queue)
                        assert (found.message_count, numbers(found)) == (len(kept), kept), setting


def test_a_table_that_is_renamed_for_a_while_is_told_and_survived(server: DatabaseServer, url: str) -> None:
    with opened(url, retry_s=1) as (_, store), server.session(str(store_url(url).database)) as execute:
        store.add_message(text_message(1)).result(WAIT_S)
        execute("ALTER TABLE ACTIVEMQ_MSGS RENAME TO AWAY")
        assert isinstance(store.add_message(text_message(2)).exception(WAIT_S), SchemaMismatch)
        execute("ALTER TABLE AWAY RENAME TO ACTIVEMQ_MSGS")
        store.add_message(text_message(3)).result(WAIT_S)
        assert numbers(store) == [1, 3]


def test_a_user_who_is_led_to_another_schema_is_refused_there() -> None:
    """Also where a store is: not one message goes elsewhere."""
    with PostgreSQLServer() as server:
        server.create_database("settings")
        url = server.url("settings")
        with server.session("settings") as execute:
            execute(f"CREATE SCHEMA other AUTHORIZATION {USER}")
        other_url = f"{url}?options=-csearch_path%3Dother"
        with opened(other_url) as (_, other):
            other.add_message(text_message(7)).result(WAIT_S)
        with opened(url, retry_s=1) as (_, store):
            store.add_message(text_message(1)).result(WAIT_S)
            for schema, refusal in (("nowhere", SchemaMismatch), ("other", LeaseLost)):
                with of_the_user(server, url, "search_path", schema):
                    assert isinstance(store.add_message(text_message(2)).exception(WAIT_S), refusal)
        with opened(url) as (_, store), opened(other_url) as (_, other):
            assert (numbers(store), numbers(other)) == ([1], [7])
