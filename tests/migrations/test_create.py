"""Creating the tables in an empty database."""

from __future__ import annotations

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, text

from jdbcstore.errors import ConfigurationError, SchemaMismatch
from jdbcstore.store.jdbc.migration import known_revisions, migrations_folder
from jdbcstore.store.jdbc.schema import (
    SchemaKind,
    create_tables,
    inspect_schema,
    require_usable,
    schema_sql,
    upgrade_schema,
)
from jdbcstore.store.jdbc.schema_report import ACKS_KEY
from jdbcstore.store.jdbc.table_names import TableNames
from tests.migrations.activemq import rows, run, shape, start_java_broker


def test_nothing_is_there_before(engine: Engine) -> None:
    with engine.connect() as connection:
        report = inspect_schema(connection)
    assert report.kind is SchemaKind.NONE
    with pytest.raises(SchemaMismatch, match="jdbcstore schema upgrade URL"):
        require_usable(report)


def test_upgrade_creates_everything(engine: Engine) -> None:
    report = upgrade_schema(engine)
    assert report.kind is SchemaKind.OURS
    assert report.findings() == []
    assert report.has_paging_index
    assert report.collation_is_binary
    assert report.acks_key == ACKS_KEY
    assert rows(engine, "ACTIVEMQ_LOCK") == [(1, None, None)]
    require_usable(report)


def test_columns_are_those_of_a_java_broker(engine: Engine) -> None:
    start_java_broker(engine, "JAVA_")
    upgrade_schema(engine)
    assert shape(engine) == shape(engine, "JAVA_")


def test_upgrade_again_does_nothing(engine: Engine) -> None:
    first = upgrade_schema(engine)
    with engine.connect() as connection:
        names = inspect(connection).get_table_names()
    assert upgrade_schema(engine) == first
    with engine.connect() as connection:
        assert inspect(connection).get_table_names() == names


def test_create_tables_creates_once(engine: Engine) -> None:
    assert create_tables(engine).kind is SchemaKind.OURS
    run(engine, "UPDATE ACTIVEMQ_LOCK SET TIME = 7 WHERE ID = 1")
    assert create_tables(engine).kind is SchemaKind.OURS
    assert rows(engine, "ACTIVEMQ_LOCK") == [(1, 7, None)]


def test_sets_with_different_prefixes_live_side_by_side(engine: Engine) -> None:
    for prefix in ("", "One_", "TWO_"):
        report = upgrade_schema(engine, prefix)
        assert report.kind is SchemaKind.OURS
        assert report.names.prefix == prefix
        assert rows(engine, f"{prefix}ACTIVEMQ_LOCK") == [(1, None, None)]


def test_tables_of_other_names(engine: Engine) -> None:
    names = TableNames("Own_", "AMQ", "AMQ_ACKS2", "amq_lock")
    report = upgrade_schema(engine, names)
    assert (report.kind, report.findings()) == (SchemaKind.OURS, [])
    assert rows(engine, "Own_amq_lock") == [(1, None, None)]
    assert upgrade_schema(engine, names) == report
    with engine.connect() as connection:
        tables = {name.upper() for name in inspect(connection).get_table_names()}
    assert {"OWN_AMQ", "OWN_AMQ_ACKS2", "OWN_AMQ_LOCK", "OWN_JDBCSTORE_TERM"} <= tables


def test_the_longest_prefix_fits(engine: Engine) -> None:
    prefix = "P" * 40
    assert upgrade_schema(engine, prefix).kind is SchemaKind.OURS
    assert upgrade_schema(engine, prefix).has_paging_index


@pytest.mark.parametrize("prefix", ["a b", "a.", 'a"', "a;--", "P" * 41])
def test_a_prefix_that_would_need_quotes_is_refused(sqlite_engine: Engine, prefix: str) -> None:
    with pytest.raises(ConfigurationError, match="table_prefix"):
        upgrade_schema(sqlite_engine, prefix)


def test_the_user_s_own_alembic_version_is_not_touched(engine: Engine) -> None:
    run(
        engine,
        "CREATE TABLE alembic_version (version_num VARCHAR(32))",
        "INSERT INTO alembic_version VALUES ('theirs')",
    )
    upgrade_schema(engine)
    assert rows(engine, "alembic_version") == [("theirs",)]


def test_sql_text_makes_the_same_tables(engine: Engine) -> None:
    with engine.connect() as connection:
        is_mariadb = getattr(connection.dialect, "is_mariadb", False)
    script = schema_sql("mariadb" if is_mariadb else engine.dialect.name, "T_")
    lines = [line for line in script.splitlines() if line and not line.startswith("--")]
    statements = [statement for statement in "\n".join(lines).split(";") if statement.strip()]
    assert "CREATE TABLE" in script
    run(engine, *statements)
    with engine.connect() as connection:
        report = inspect_schema(connection, "T_")
    assert report.kind is SchemaKind.OURS
    assert report.findings() == []
    upgrade_schema(engine)
    assert shape(engine, "T_") == shape(engine)


def test_sql_text_of_an_unknown_database_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="oracle"):
        schema_sql("oracle")


def test_names_differ_by_case_and_trailing_space(engine: Engine) -> None:
    upgrade_schema(engine)
    names = ["queue://a", "queue://A", "queue://a ", "queue://ä"]
    with engine.begin() as connection:
        for number, name in enumerate(names):
            insert = text("INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER) VALUES (:id, :name)")
            connection.execute(insert, {"id": number, "name": name})
        for number, name in enumerate(names):
            select = text("SELECT ID FROM ACTIVEMQ_MSGS WHERE CONTAINER = :name")
            assert connection.execute(select, {"name": name}).scalars().all() == [number]


def test_the_revisions_are_those_that_alembic_finds() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    found = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert known_revisions() == tuple(reversed(found))
