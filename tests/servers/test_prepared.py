"""Databases that tests take one after another are as good as new."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from jdbcstore import Queue, open_store
from jdbcstore.config.urls import open_engine
from jdbcstore.store.jdbc.schema import inspect_schema, upgrade_schema
from jdbcstore.store.jdbc.schema_report import SchemaKind
from jdbcstore.testing import text_message
from tests.conftest import SQL_SERVERS, server
from tests.servers import prepared
from tests.servers.prepared import PreparedDatabases, PreparedFile
from tests.servers.server import DatabaseServer

CHANGES = {
    "a table more": "CREATE TABLE left_behind (ID INTEGER)",
    "a table less": "DROP TABLE JDBCSTORE_PRODUCERS",
    "a column more": "ALTER TABLE ACTIVEMQ_MSGS ADD left_behind INTEGER",
    "a wider column": "ALTER TABLE ACTIVEMQ_MSGS {modify} MSGID_PROD {type} VARCHAR(300)",
    "an index less": "DROP INDEX jdbcstore_msgs_page{of_table}",
    "an index more": "CREATE INDEX left_behind ON ACTIVEMQ_MSGS (XID)",
    "a view": "CREATE VIEW left_behind AS SELECT 1 AS a",
}


@pytest.fixture(scope="module", params=SQL_SERVERS)
def shared(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> DatabaseServer:
    """Each kind of server in turn."""
    return server(pytestconfig, request.param)


@pytest.fixture(scope="module")
def databases(shared: DatabaseServer) -> PreparedDatabases:
    """What all tests here have on a server."""
    return PreparedDatabases(shared)


def contents(url: str) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table."""
    engine = create_engine(url)
    with engine.connect() as connection:
        tables = sorted(inspect(connection).get_table_names())
        found = {table: [tuple(row) for row in connection.execute(text(f"SELECT * FROM {table}"))] for table in tables}
    engine.dispose()
    return found


def execute(url: str, statement: str) -> None:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()


def test_what_was_given_back_is_as_it_was_made(shared: DatabaseServer, databases: PreparedDatabases) -> None:
    name = databases.take()
    url = shared.url(name)
    as_made = contents(url)
    with open_store(url) as store:
        store.queue_message_store(Queue("A")).add_message(text_message(1)).result()
    assert contents(url) != as_made
    databases.give_back(name, is_suspect=False)
    other, again = databases.take(), databases.take()
    assert again != other == name
    assert contents(url) == contents(shared.url(again)) == as_made
    databases.give_back(again, is_suspect=False)
    databases.give_back(other, is_suspect=False)


def test_it_is_what_a_new_store_would_make(shared: DatabaseServer, databases: PreparedDatabases) -> None:
    name = databases.take()
    shared.create_database(f"{name}_new")
    engine = open_engine(shared.url(f"{name}_new"))
    upgrade_schema(engine)
    engine.dispose()
    assert contents(shared.url(name)) == contents(shared.url(f"{name}_new"))
    shared.drop_database(f"{name}_new")
    databases.give_back(name, is_suspect=False)


@pytest.mark.one_in(3)  # each of them on one server at least
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_schema_is_no_other_tests_business(
    shared: DatabaseServer, databases: PreparedDatabases, change: str
) -> None:
    is_mysql = not shared.scheme.startswith("postgresql")
    name = databases.take()
    words = {"modify": "MODIFY", "type": "", "of_table": " ON ACTIVEMQ_MSGS"} if is_mysql else {}
    execute(shared.url(name), CHANGES[change].format(**({"modify": "ALTER", "type": "TYPE", "of_table": ""} | words)))
    databases.give_back(name, is_suspect=False)
    another = databases.take()
    assert another != name
    databases.give_back(another, is_suspect=False)


def test_another_collation_is_a_change(shared: DatabaseServer, databases: PreparedDatabases) -> None:
    if shared.scheme.startswith("postgresql"):
        statement = "ALTER DATABASE {} SET work_mem = '1MB'"
    else:
        statement = "ALTER DATABASE {} COLLATE latin1_bin"
    name = databases.take()
    with shared.session(name) as run:
        run(statement.format(name))
    databases.give_back(name, is_suspect=False)
    another = databases.take()
    assert another != name
    databases.give_back(another, is_suspect=False)


def test_very_many_rows_and_a_failed_test_make_it_be_dropped(
    shared: DatabaseServer, databases: PreparedDatabases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "ROWS_MAX", 2)
    full, failed = databases.take(), databases.take()
    with open_store(shared.url(full)) as store:
        for number in range(3):
            store.queue_message_store(Queue("A")).add_message(text_message(number)).result()
    databases.give_back(full, is_suspect=False)
    databases.give_back(failed, is_suspect=True)
    another = databases.take()
    assert another not in (full, failed)
    databases.give_back(another, is_suspect=False)


def test_sessions_that_were_left_are_ended(shared: DatabaseServer, databases: PreparedDatabases) -> None:
    name = databases.take()
    engine = create_engine(shared.url(name))
    with engine.connect() as connection:
        connection.execute(text("DELETE FROM JDBCSTORE_TERM"))
        databases.give_back(name, is_suspect=False)  # its locks are gone with it
        assert databases.take() == name
        connection.invalidate()
    engine.dispose()
    databases.give_back(name, is_suspect=True)


OWNED = (
    "CREATE TABLE left_behind (id serial PRIMARY KEY, more text)",
    "CREATE VIEW seen AS SELECT id FROM left_behind",
    "CREATE TYPE mood AS ENUM ('sad', 'happy')",
    "CREATE FUNCTION one() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "CREATE SCHEMA other CREATE TABLE another (id integer)",
)
OF_OTHERS = {
    "a table": "CREATE TABLE theirs (id integer)",
    "a schema": "CREATE SCHEMA theirs",
    "a setting": "ALTER DATABASE {} SET work_mem = '1MB'",
    "a right": "REVOKE CONNECT ON DATABASE {} FROM PUBLIC",
    "a type": "CREATE TYPE theirs AS ENUM ('a')",
}


def test_what_a_test_makes_in_an_empty_database_goes_again(postgresql: DatabaseServer) -> None:
    databases = PreparedDatabases(postgresql, has_tables=False)
    name = databases.take()
    for statement in OWNED:
        execute(postgresql.url(name), statement)
    databases.give_back(name, is_suspect=False)
    assert databases.take() == name
    for statement in OWNED:  # none of them is there any more
        execute(postgresql.url(name), statement)
    databases.give_back(name, is_suspect=True)


def test_what_somebody_else_has_changed_in_an_empty_database_makes_it_be_dropped(postgresql: DatabaseServer) -> None:
    databases = PreparedDatabases(postgresql, has_tables=False)
    for change in OF_OTHERS.values():
        name = databases.take()
        with postgresql.session(name) as run:
            run(change.format(name))
        databases.give_back(name, is_suspect=False)
        another = databases.take()
        assert another != name, change
        databases.give_back(another, is_suspect=False)


def test_a_copied_file_has_the_schema(tmp_path: Path, prepared_file: PreparedFile) -> None:
    prepared_file.copy_to(tmp_path / "one.db")
    engine = open_engine(f"sqlite:///{tmp_path / 'one.db'}")
    with engine.connect() as connection:
        assert inspect_schema(connection).kind is SchemaKind.OURS
    engine.dispose()
    with open_store(f"sqlite:///{tmp_path / 'one.db'}") as store:
        store.queue_message_store(Queue("A")).add_message(text_message(1)).result()
