"""Databases of a real ActiveMQ 5.17.2, as its servers' own tools dumped them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine

from jdbcstore.store.jdbc.schema import SchemaKind, inspect_schema, require_usable, upgrade_schema
from jdbcstore.store.jdbc.schema_report import ACKS_KEY, SchemaReport
from tests.migrations.activemq import load_dump, rows, shape, start_java_broker

TABLES = ("ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS", "ACTIVEMQ_LOCK")


def found(engine: Engine) -> SchemaReport:
    with engine.connect() as connection:
        return inspect_schema(connection)


def everything(engine: Engine) -> dict[str, Any]:
    return {table: rows(engine, table) for table in TABLES}


def names(report: SchemaReport) -> set[str]:
    return {finding.name for finding in report.findings()}


def test_postgresql_dump_is_usable_before_and_adopted_after(postgresql_engine: Engine) -> None:
    load_dump(postgresql_engine, "postgresql")
    before = everything(postgresql_engine)
    assert len(before["ACTIVEMQ_MSGS"]) == 117
    report = found(postgresql_engine)
    assert report.kind is SchemaKind.ACTIVEMQ
    assert report.acks_key == ("CONTAINER", "CLIENT_ID", "SUB_NAME")
    assert names(report) == {"not_adopted", "acks_key", "missing_index", "idle_indexes"}
    assert not report.has_paging_index
    require_usable(report)

    report = upgrade_schema(postgresql_engine)
    assert report.kind is SchemaKind.OURS
    assert names(report) == {"idle_indexes"}
    assert report.acks_key == ACKS_KEY
    assert report.has_paging_index
    assert everything(postgresql_engine) == before


def test_mariadb_dump_is_usable_before_and_adopted_after(mysql_engine: Engine) -> None:
    load_dump(mysql_engine, "mariadb")
    before = everything(mysql_engine)
    assert len(before["ACTIVEMQ_MSGS"]) == 117
    report = found(mysql_engine)
    assert report.kind is SchemaKind.ACTIVEMQ
    assert report.message_type == "blob"
    assert report.message_bytes_max == 65_535
    assert not report.collation_is_binary
    assert names(report) == {"not_adopted", "small_messages", "missing_index", "idle_indexes", "collation"}
    require_usable(report)

    report = upgrade_schema(mysql_engine)
    assert report.kind is SchemaKind.OURS
    assert names(report) == {"idle_indexes", "collation"}
    assert report.message_bytes_max == (1 << 32) - 1
    assert not report.collation_is_binary
    assert report.has_paging_index
    assert everything(mysql_engine) == before


def test_our_postgresql_tables_have_the_dump_s_columns(postgresql_engine: Engine) -> None:
    load_dump(postgresql_engine, "postgresql")
    upgrade_schema(postgresql_engine, "NEW_")
    assert shape(postgresql_engine, "NEW_") == shape(postgresql_engine)


def test_our_mysql_tables_have_the_dump_s_columns(mysql_engine: Engine) -> None:
    load_dump(mysql_engine, "mariadb")
    assert [row[1] for row in shape(mysql_engine)["ACTIVEMQ_MSGS"]][5] == "blob"  # all else is as in a new schema
    upgrade_schema(mysql_engine)
    upgrade_schema(mysql_engine, "NEW_")
    assert shape(mysql_engine) == shape(mysql_engine, "NEW_")


def test_a_java_broker_may_follow_on_an_adopted_dump(postgresql_engine: Engine) -> None:
    load_dump(postgresql_engine, "postgresql")
    upgrade_schema(postgresql_engine)
    before = everything(postgresql_engine)
    start_java_broker(postgresql_engine)
    assert everything(postgresql_engine) == before
    assert found(postgresql_engine).kind is SchemaKind.OURS


def test_a_java_broker_may_follow_on_an_adopted_mariadb_dump(mysql_engine: Engine) -> None:
    load_dump(mysql_engine, "mariadb")
    upgrade_schema(mysql_engine)
    before = everything(mysql_engine)
    start_java_broker(mysql_engine, adapter="default")
    start_java_broker(mysql_engine, adapter="mysql")
    assert everything(mysql_engine) == before
    assert found(mysql_engine).kind is SchemaKind.OURS
