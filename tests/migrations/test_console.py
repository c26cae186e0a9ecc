"""``jdbcstore schema``: what it prints and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine

from jdbcstore.console.schema import schema
from tests.migrations.activemq import rows, run, start_java_broker, store_some


def jdbcstore_schema(*arguments: str) -> Result:
    return CliRunner().invoke(schema, arguments)


def test_a_database_without_tables(database_url: str) -> None:
    result = jdbcstore_schema("status", database_url)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "no tables: not usable before an upgrade",
        "upgrade first  there are no tables yet",
        "Run: jdbcstore schema upgrade URL",
    ]


def test_from_nothing_to_ready(database_url: str, engine: Engine) -> None:
    result = jdbcstore_schema("upgrade", database_url)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "jdbcstore, revision 0008: ready"
    assert jdbcstore_schema("status", database_url).exit_code == 0
    assert rows(engine, "ACTIVEMQ_LOCK") == [(1, None, None)]


def test_tables_of_a_java_broker(database_url: str, engine: Engine) -> None:
    start_java_broker(engine)
    store_some(engine)
    before = rows(engine, "ACTIVEMQ_MSGS")
    result = jdbcstore_schema("status", database_url)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "ActiveMQ, not adopted: usable, an upgrade is due"
    assert jdbcstore_schema("upgrade", database_url).exit_code == 0
    assert rows(engine, "ACTIVEMQ_MSGS") == before


def test_json(database_url: str, engine: Engine) -> None:
    start_java_broker(engine, "One_")
    result = jdbcstore_schema("status", database_url, "--table-prefix", "One_", "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert told["kind"] == "activemq"
    assert told["names"]["prefix"] == "One_"
    assert told["usable"] is True
    assert told["needs_upgrade"] is True
    assert told["has_paging_index"] is False
    assert {"name": "not_adopted", "text": told["findings"][0]["text"], "remedy": "upgrade"} in told["findings"]

    result = jdbcstore_schema("upgrade", database_url, "--table-prefix", "One_", "--json")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert told["kind"] == "jdbcstore"
    assert told["needs_upgrade"] is False


def test_the_prefix_of_the_url_counts(database_url: str, engine: Engine) -> None:
    mark = "&" if "?" in database_url else "?"
    assert jdbcstore_schema("upgrade", f"{database_url}{mark}table_prefix=One_").exit_code == 0
    assert rows(engine, "One_ACTIVEMQ_LOCK") == [(1, None, None)]
    result = jdbcstore_schema("sql", "mysql://?table_prefix=One_")
    assert "CREATE TABLE `One_ACTIVEMQ_MSGS`" in result.stdout


def test_refused_under_a_broker_unless_forced(sqlite_engine: Engine) -> None:
    url = sqlite_engine.url.render_as_string()
    start_java_broker(sqlite_engine)
    run(sqlite_engine, "UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = 'b', TIME = 9000000000000 WHERE ID = 1")
    result = jdbcstore_schema("upgrade", url)
    assert result.exit_code == 3
    assert result.stderr.startswith("jdbcstore: broker 'b' is running: its lease in ACTIVEMQ_LOCK is good for")
    assert jdbcstore_schema("upgrade", url, "--force").exit_code == 0


def test_tables_that_no_upgrade_helps(sqlite_engine: Engine) -> None:
    url = sqlite_engine.url.render_as_string()
    run(sqlite_engine, "CREATE TABLE ACTIVEMQ_MSGS (ID BIGINT PRIMARY KEY, NOTE TEXT)")
    result = jdbcstore_schema("status", url)
    assert result.exit_code == 2
    assert result.stdout.splitlines()[0] == "ActiveMQ, not adopted: not usable"
    assert "Run:" not in result.stdout
    assert jdbcstore_schema("upgrade", url).exit_code == 2


def test_status_makes_no_file(tmp_path: Path) -> None:
    result = jdbcstore_schema("status", f"sqlite:///{tmp_path}/data/broker.db")
    assert result.exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_upgrade_makes_the_folder(tmp_path: Path) -> None:
    assert jdbcstore_schema("upgrade", f"sqlite:///{tmp_path}/data/broker.db").exit_code == 0
    assert (tmp_path / "data" / "broker.db").is_file()


@pytest.mark.parametrize("name", ["sqlite", "postgresql", "postgres", "mysql", "mariadb", "postgresql+psycopg2"])
def test_sql_needs_no_database(name: str) -> None:
    result = jdbcstore_schema("sql", f"{name}://nobody@nowhere.invalid/none")
    assert result.exit_code == 0
    assert "ACTIVEMQ_MSGS_MIDX" in result.stdout.upper()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["status", "oracle://h/d"], "no store for oracle"),
        (["status", "nonsense"], "not a store URL"),
        (["status", "postgresql://u:p@127.0.0.1:1/d"], "Connection refused"),
        (["status", "mysql://u:p@127.0.0.1:1/d"], "Connection refused"),
        (["upgrade", "sqlite:////proc/nothing/here.db"], "/proc/nothing"),
        (["upgrade", "sqlite:///x.db", "--table-prefix", "a b"], "table_prefix 'a b'"),
        (["sql", "oracle://"], "no schema for 'oracle'"),
    ],
)
def test_errors_are_one_line_and_code_2(
    arguments: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    result = jdbcstore_schema(*arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert len(result.stderr.splitlines()) == 1
