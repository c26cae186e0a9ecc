"""A Java broker with createTablesOnStartup=true starts on our tables, and ours starts on a Java broker's."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, inspect

from jdbcstore.store.jdbc.schema import (
    SchemaKind,
    SchemaReport,
    create_tables,
    inspect_schema,
    require_usable,
    upgrade_schema,
)
from jdbcstore.store.jdbc.schema_report import ACKS_KEY
from tests.migrations.activemq import delete_all_messages, rows, shape, start_java_broker, store_some

PREFIXES = ["", "One_"]


def found(engine: Engine, prefix: str = "") -> SchemaReport:
    with engine.connect() as connection:
        return inspect_schema(connection, prefix)


def everything(engine: Engine, prefix: str = "") -> dict[str, Any]:
    names = ("ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS", "ACTIVEMQ_LOCK")
    return {name: rows(engine, prefix + name) for name in names}


def catalogue(engine: Engine) -> list[Any]:
    """Everything that a start could have changed."""
    with engine.connect() as connection:
        seen = inspect(connection)
        return [
            (
                table,
                seen.get_pk_constraint(table),
                sorted(seen.get_indexes(table), key=repr),
                repr(seen.get_columns(table)),
            )
            for table in sorted(seen.get_table_names())
        ]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_java_broker_starts_on_tables_that_we_created(engine: Engine, prefix: str) -> None:
    upgrade_schema(engine, prefix)
    store_some(engine, prefix)
    rows_before, columns_before = everything(engine, prefix), shape(engine, prefix)
    for _ in range(2):  # its second start meets what its first one made
        start_java_broker(engine, prefix)
        report = found(engine, prefix)
        assert report.kind is SchemaKind.OURS
        assert report.acks_key == ACKS_KEY
        assert {finding.name for finding in report.findings()} == {"idle_indexes"}
        assert everything(engine, prefix) == rows_before
        assert shape(engine, prefix) == columns_before


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_java_broker_starts_on_tables_that_we_adopted(engine: Engine, prefix: str) -> None:
    start_java_broker(engine, prefix)
    store_some(engine, prefix)
    rows_before, columns_before = everything(engine, prefix), shape(engine, prefix)
    assert upgrade_schema(engine, prefix).kind is SchemaKind.OURS
    for _ in range(2):
        start_java_broker(engine, prefix)
        report = found(engine, prefix)
        assert report.kind is SchemaKind.OURS
        assert report.acks_key == ACKS_KEY
        assert everything(engine, prefix) == rows_before
        assert shape(engine, prefix) == columns_before


def test_the_key_is_where_a_java_broker_on_postgresql_looks_for_it(postgresql_engine: Engine) -> None:
    upgrade_schema(postgresql_engine)
    drop = 'ALTER TABLE ACTIVEMQ_ACKS DROP CONSTRAINT "activemq_acks_pkey"'
    add = "ALTER TABLE ACTIVEMQ_ACKS ADD PRIMARY KEY (CONTAINER, CLIENT_ID, SUB_NAME, PRIORITY)"
    failed = start_java_broker(postgresql_engine)
    assert drop not in failed
    assert add not in failed


def test_a_java_broker_with_another_prefix_gets_its_own_tables(engine: Engine) -> None:
    upgrade_schema(engine)
    upgrade_schema(engine, "TWO_")
    failed = start_java_broker(engine, "JAVA_")
    assert not [statement for statement in failed if statement.startswith("CREATE")]
    require_usable(found(engine, "JAVA_"))


def test_our_start_changes_nothing_that_a_java_broker_made(engine: Engine) -> None:
    start_java_broker(engine)
    store_some(engine)
    before = catalogue(engine), everything(engine)
    report = create_tables(engine)
    assert report.kind is SchemaKind.ACTIVEMQ
    assert (catalogue(engine), everything(engine)) == before
    require_usable(report)


def test_our_start_changes_nothing_when_only_the_lock_table_is_there(engine: Engine) -> None:
    """A Java broker on another store that uses the database for its lease makes no other table."""
    start_java_broker(engine)
    for table in ("MSGS", "ACKS"):
        with engine.begin() as connection:
            connection.exec_driver_sql(f"DROP TABLE ACTIVEMQ_{table}")
    before = catalogue(engine)
    report = create_tables(engine)
    assert report.missing_tables == ("ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS")
    assert not report.is_usable
    assert catalogue(engine) == before
    assert upgrade_schema(engine).kind is SchemaKind.OURS


def test_a_java_broker_that_makes_the_tables_anew_is_noticed_and_adopted(engine: Engine) -> None:
    upgrade_schema(engine)
    delete_all_messages(engine)
    report = found(engine)
    assert report.kind is SchemaKind.MIXED
    assert report.needs_upgrade
    require_usable(report)
    store_some(engine)
    before = everything(engine)
    assert upgrade_schema(engine).kind is SchemaKind.OURS
    assert everything(engine) == before
