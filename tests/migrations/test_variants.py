"""Every variant of the tables that is known from the field: made, detected, reported, upgraded."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine

from jdbcstore.errors import SchemaMismatch
from jdbcstore.store.jdbc import adoption
from jdbcstore.store.jdbc.schema import (
    SchemaKind,
    SchemaReport,
    inspect_schema,
    require_usable,
    upgrade_schema,
)
from jdbcstore.store.jdbc.schema_report import ACKS_KEY
from tests.migrations.activemq import create_tables_of_5_3, rows, run, shape, start_java_broker, store_some

pytestmark = pytest.mark.variants(3)

COMMON = "ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, MSG"


def found(engine: Engine) -> SchemaReport:
    with engine.connect() as connection:
        return inspect_schema(connection)


def names(report: SchemaReport) -> set[str]:
    return {finding.name for finding in report.findings()}


def messages(engine: Engine) -> Any:
    return rows(engine, "ACTIVEMQ_MSGS", COMMON)


def upgraded(engine: Engine) -> SchemaReport:
    """Upgrade: every message must be there afterwards with the same bytes, and a second upgrade must change nothing."""
    before = messages(engine)
    report = upgrade_schema(engine)
    assert report.kind is SchemaKind.OURS
    assert names(report) <= {"idle_indexes", "collation", "container_nullable"}
    assert messages(engine) == before
    assert upgrade_schema(engine) == report
    return report


def drop_acks_key(engine: Engine, *, then: str = "") -> None:
    is_postgresql = engine.dialect.name == "postgresql"
    drop = "DROP CONSTRAINT pk_activemq_acks" if is_postgresql else "DROP PRIMARY KEY"
    run(engine, f"ALTER TABLE ACTIVEMQ_ACKS {drop}" + (f", {then}" if then else ""))


# -- any database ----------------------------------------------------------------------------------------------------


def test_tables_of_5_3(engine: Engine) -> None:
    create_tables_of_5_3(engine)
    store_some(engine, priority=None)
    report = found(engine)
    assert report.kind is SchemaKind.ACTIVEMQ
    assert set(report.missing_columns) == {
        "ACTIVEMQ_MSGS.PRIORITY",
        "ACTIVEMQ_MSGS.XID",
        "ACTIVEMQ_ACKS.SUB_DEST",
        "ACTIVEMQ_ACKS.PRIORITY",
        "ACTIVEMQ_ACKS.XID",
    }
    assert report.container_is_nullable
    with pytest.raises(SchemaMismatch, match=r"ACTIVEMQ_MSGS\.PRIORITY is missing"):
        require_usable(report)

    upgraded(engine)
    assert set(rows(engine, "ACTIVEMQ_MSGS", "PRIORITY, XID")) == {(0, None)}
    columns = "CONTAINER, SUB_DEST, CLIENT_ID, SUB_NAME, SELECTOR, LAST_ACKED_ID, PRIORITY, XID"
    subscription = ("topic://test", "topic://test", "client", "sub", "n > 3", 4, 0, None)
    assert rows(engine, "ACTIVEMQ_ACKS", columns) == [subscription]


def test_key_of_three_columns(engine: Engine) -> None:
    start_java_broker(engine)
    if engine.dialect.name == "mysql" or engine.dialect.name == "mariadb":
        drop_acks_key(engine, then="ADD PRIMARY KEY (CONTAINER, CLIENT_ID, SUB_NAME)")
    store_some(engine)
    before = rows(engine, "ACTIVEMQ_ACKS")
    report = found(engine)
    assert report.acks_key == ("CONTAINER", "CLIENT_ID", "SUB_NAME")
    assert "acks_key" in names(report)
    require_usable(report)

    assert upgraded(engine).acks_key == ACKS_KEY
    assert rows(engine, "ACTIVEMQ_ACKS") == before
    ten = ", ".join(f"('topic://p', 'c', 's', {priority})" for priority in range(10))
    run(engine, f"INSERT INTO ACTIVEMQ_ACKS (CONTAINER, CLIENT_ID, SUB_NAME, PRIORITY) VALUES {ten}")


def test_key_of_four_columns_of_before_5_15_15(postgresql_engine: Engine) -> None:
    start_java_broker(postgresql_engine)
    drop_acks_key(postgresql_engine, then="ADD PRIMARY KEY (CONTAINER, CLIENT_ID, SUB_NAME, PRIORITY)")
    assert "acks_key" not in names(found(postgresql_engine))
    assert upgraded(postgresql_engine).acks_key == ACKS_KEY


def test_no_key_at_all(server_engine: Engine) -> None:
    start_java_broker(server_engine)
    drop_acks_key(server_engine)
    assert found(server_engine).acks_key == ()
    assert upgraded(server_engine).acks_key == ACKS_KEY


def test_two_rows_for_one_subscription_are_for_a_person_to_decide(server_engine: Engine) -> None:
    start_java_broker(server_engine)
    drop_acks_key(server_engine)
    row = "('topic://p', 'c', 's', 0)"
    run(server_engine, f"INSERT INTO ACTIVEMQ_ACKS (CONTAINER, CLIENT_ID, SUB_NAME, PRIORITY) VALUES {row}, {row}")
    with pytest.raises(SchemaMismatch, match="more than one row"):
        upgrade_schema(server_engine)
    assert found(server_engine).kind is SchemaKind.ACTIVEMQ


def test_null_priorities_are_filled_range_by_range(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adoption, "_ROWS_AT_ONCE", 3)
    start_java_broker(engine)
    store_some(engine, count=11)
    run(
        engine,
        "UPDATE ACTIVEMQ_MSGS SET PRIORITY = 7 WHERE ID = 4",
        "UPDATE ACTIVEMQ_MSGS SET PRIORITY = NULL WHERE ID <> 4",
    )
    report = found(engine)
    assert report.null_priorities is True
    assert "null_priorities" in names(report)

    assert upgraded(engine).null_priorities is False
    expected = [(number, 7 if number == 4 else 0) for number in range(1, 12)]
    assert sorted(rows(engine, "ACTIVEMQ_MSGS", "ID, PRIORITY")) == expected


def test_null_priorities_are_filled_also_without_an_index_to_find_them(engine: Engine) -> None:
    start_java_broker(engine)
    store_some(engine)
    on = "" if engine.dialect.name in ("postgresql", "sqlite") else " ON ACTIVEMQ_MSGS"
    run(engine, f"DROP INDEX ACTIVEMQ_MSGS_PIDX{on}", "UPDATE ACTIVEMQ_MSGS SET PRIORITY = NULL")
    assert found(engine).null_priorities is None
    upgraded(engine)
    assert set(rows(engine, "ACTIVEMQ_MSGS", "PRIORITY")) == {(0,)}


def test_subscriptions_of_before_5_4_come_out_of_hiding(engine: Engine) -> None:
    start_java_broker(engine)
    names_ = "CONTAINER, SUB_DEST, CLIENT_ID, SUB_NAME, LAST_ACKED_ID, PRIORITY"
    hidden = "('topic://a', 'topic://a', 'c', 'hidden', 3, 5)"
    run(engine, f"INSERT INTO ACTIVEMQ_ACKS ({names_}) VALUES {hidden}, ('topic://a', 'topic://a', 'c', 'seen', 4, 0)")
    report = found(engine)
    assert report.hidden_subscriptions == 1
    assert "hidden_subscriptions" in names(report)
    upgraded(engine)
    columns = "SUB_NAME, LAST_ACKED_ID, PRIORITY"
    assert rows(engine, "ACTIVEMQ_ACKS", columns) == [("hidden", 3, 0), ("seen", 4, 0)]


def test_a_prioritised_subscription_is_not_hidden(engine: Engine) -> None:
    upgrade_schema(engine)
    start_java_broker(engine)
    ten = ", ".join(f"('topic://p', 'c', 's', {priority})" for priority in range(10))
    run(
        engine,
        f"INSERT INTO ACTIVEMQ_ACKS (CONTAINER, CLIENT_ID, SUB_NAME, PRIORITY) VALUES {ten}",
        "DROP TABLE JDBCSTORE_VERSION",
    )
    assert found(engine).hidden_subscriptions == 0
    before = rows(engine, "ACTIVEMQ_ACKS")
    upgraded(engine)
    assert rows(engine, "ACTIVEMQ_ACKS") == before


def test_missing_lock_row(engine: Engine) -> None:
    start_java_broker(engine)
    run(engine, "DELETE FROM ACTIVEMQ_LOCK")
    report = found(engine)
    assert not report.has_lock_row
    assert "lock_row" in names(report)
    upgraded(engine)
    assert rows(engine, "ACTIVEMQ_LOCK") == [(1, None, None)]


@pytest.mark.parametrize("table", ["MSGS", "ACKS", "LOCK"])
def test_missing_table(engine: Engine, table: str) -> None:
    start_java_broker(engine)
    run(engine, f"DROP TABLE ACTIVEMQ_{table}")
    report = found(engine)
    assert report.kind is SchemaKind.ACTIVEMQ
    assert report.missing_tables == (f"ACTIVEMQ_{table}",)
    with pytest.raises(SchemaMismatch, match=f"table ACTIVEMQ_{table} is missing.*jdbcstore schema upgrade"):
        require_usable(report)
    report = upgrade_schema(engine)
    assert report.kind is SchemaKind.OURS
    assert report.missing_tables == ()


@pytest.mark.parametrize("index", ["ACTIVEMQ_MSGS_MIDX", "ACTIVEMQ_MSGS_XIDX"])
def test_missing_index(engine: Engine, index: str) -> None:
    start_java_broker(engine)
    on = "" if engine.dialect.name in ("postgresql", "sqlite") else " ON ACTIVEMQ_MSGS"
    run(engine, f"DROP INDEX {index}{on}")
    assert index in found(engine).missing_indexes
    assert index in upgraded(engine).indexes


def test_a_schema_changed_after_adoption_is_repaired(engine: Engine) -> None:
    upgrade_schema(engine)
    on = "" if engine.dialect.name in ("postgresql", "sqlite") else " ON ACTIVEMQ_MSGS"
    run(engine, f"DROP INDEX JDBCSTORE_MSGS_PAGE{on}", "DELETE FROM ACTIVEMQ_LOCK")
    report = found(engine)
    assert report.kind is SchemaKind.MIXED
    assert not report.has_paging_index
    assert upgraded(engine).has_paging_index


def test_revision_of_a_newer_program(engine: Engine) -> None:
    upgrade_schema(engine)
    run(engine, "UPDATE JDBCSTORE_VERSION SET version_num = '9999'")
    report = found(engine)
    assert report.kind is SchemaKind.NEWER
    with pytest.raises(SchemaMismatch, match="9999 is unknown"):
        require_usable(report)
    with pytest.raises(SchemaMismatch, match="9999 is unknown"):
        upgrade_schema(engine)


def test_a_table_that_no_activemq_made(engine: Engine) -> None:
    start_java_broker(engine)
    run(engine, "ALTER TABLE ACTIVEMQ_MSGS RENAME COLUMN EXPIRATION TO EXPIRES")
    before = shape(engine)
    report = found(engine)
    assert report.foreign_columns == ("ACTIVEMQ_MSGS.EXPIRATION",)
    with pytest.raises(SchemaMismatch, match=r"ACTIVEMQ_MSGS\.EXPIRATION is not as any ActiveMQ makes it"):
        require_usable(report)
    with pytest.raises(SchemaMismatch, match=r"ACTIVEMQ_MSGS\.EXPIRATION"):
        upgrade_schema(engine)
    assert shape(engine) == before


def test_names_in_a_binary_column(mysql_engine: Engine) -> None:
    start_java_broker(mysql_engine)
    run(mysql_engine, "ALTER TABLE ACTIVEMQ_MSGS MODIFY CONTAINER VARBINARY(250) NOT NULL")
    assert found(mysql_engine).foreign_columns == ("ACTIVEMQ_MSGS.CONTAINER",)


def test_messages_in_a_text_column(server_engine: Engine) -> None:
    start_java_broker(server_engine)
    is_postgresql = server_engine.dialect.name == "postgresql"
    run(server_engine, f"ALTER TABLE ACTIVEMQ_MSGS {'ALTER MSG TYPE TEXT' if is_postgresql else 'MODIFY MSG LONGTEXT'}")
    assert found(server_engine).foreign_columns == ("ACTIVEMQ_MSGS.MSG",)


# -- binary XID, before 5.9 ------------------------------------------------------------------------------------------


def make_xids_binary(engine: Engine) -> None:
    start_java_broker(engine)
    if engine.dialect.name == "postgresql":
        for table in ("MSGS", "ACKS"):
            run(engine, f"ALTER TABLE ACTIVEMQ_{table} ALTER XID TYPE BYTEA USING NULL")
    else:
        for table in ("MSGS", "ACKS"):
            run(engine, f"DROP INDEX ACTIVEMQ_{table}_XIDX ON ACTIVEMQ_{table}")
        run(engine, "DROP INDEX ACTIVEMQ_MSGS_IIDX ON ACTIVEMQ_MSGS")
        for table in ("MSGS", "ACKS"):
            run(engine, f"ALTER TABLE ACTIVEMQ_{table} MODIFY XID LONGBLOB")


def test_binary_xid(server_engine: Engine) -> None:
    make_xids_binary(server_engine)
    store_some(server_engine)
    report = found(server_engine)
    assert report.binary_xids == ("ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS")
    assert "binary_xid" in names(report)
    require_usable(report)
    assert upgraded(server_engine).binary_xids == ()
    run(server_engine, "UPDATE ACTIVEMQ_MSGS SET XID = 'KwAAAAAAAAAAAAAAADcACEdMT0JBTC0xQlI=' WHERE ID = 1")


def test_binary_xid_of_a_transaction_in_doubt(server_engine: Engine) -> None:
    make_xids_binary(server_engine)
    store_some(server_engine)
    value = "'\\x2b00'" if server_engine.dialect.name == "postgresql" else "0x2b00"
    run(server_engine, f"UPDATE ACTIVEMQ_MSGS SET XID = {value} WHERE ID = 1")
    before = shape(server_engine)
    with pytest.raises(SchemaMismatch, match=r"prepared by an ActiveMQ of before 5\.9"):
        upgrade_schema(server_engine)
    assert shape(server_engine) == before
    assert found(server_engine).kind is SchemaKind.ACTIVEMQ


# -- MySQL and MariaDB -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("type_", "bytes_max"), [("TINYBLOB", 255), ("BLOB", 65_535), ("MEDIUMBLOB", 16_777_215)])
def test_small_messages(mysql_engine: Engine, type_: str, bytes_max: int) -> None:
    start_java_broker(mysql_engine)
    run(
        mysql_engine,
        f"ALTER TABLE ACTIVEMQ_MSGS MODIFY MSG {type_}",
        "INSERT INTO ACTIVEMQ_MSGS (ID, MSG, CONTAINER, PRIORITY) VALUES (1, 0x00ff80, 'queue://a', 0)",
    )
    report = found(mysql_engine)
    assert report.message_bytes_max == bytes_max
    assert "small_messages" in names(report)
    assert upgraded(mysql_engine).message_bytes_max == (1 << 32) - 1


@pytest.mark.parametrize(
    ("collation", "is_binary"),
    [
        ("utf8mb4_general_ci", False),
        ("latin1_swedish_ci", False),
        ("utf8mb3_general_ci", False),
        ("utf8mb4_bin", False),  # it ignores trailing spaces
    ],
)
def test_collations_are_kept(mysql_engine: Engine, collation: str, is_binary: bool) -> None:
    charset = collation.partition("_")[0]
    start_java_broker(mysql_engine)
    for table in ("MSGS", "ACKS", "LOCK"):
        run(mysql_engine, f"ALTER TABLE ACTIVEMQ_{table} CONVERT TO CHARACTER SET {charset} COLLATE {collation}")
    report = found(mysql_engine)
    assert report.collation == collation
    assert report.collation_is_binary is is_binary
    assert ("collation" in names(report)) is not is_binary
    require_usable(report)
    report = upgraded(mysql_engine)
    assert report.collation_is_binary is is_binary
    assert report.has_paging_index


def test_tables_without_transactions(mysql_engine: Engine) -> None:
    start_java_broker(mysql_engine)
    store_some(mysql_engine)
    run(
        mysql_engine,
        "DROP INDEX ACTIVEMQ_MSGS_IIDX ON ACTIVEMQ_MSGS",
        "DROP INDEX ACTIVEMQ_MSGS_MIDX ON ACTIVEMQ_MSGS",
        "ALTER TABLE ACTIVEMQ_MSGS ENGINE=MyISAM",
        "ALTER TABLE ACTIVEMQ_LOCK ENGINE=MyISAM",
    )
    report = found(mysql_engine)
    assert set(report.engines) == {"ACTIVEMQ_MSGS (MyISAM)", "ACTIVEMQ_LOCK (MyISAM)"}
    with pytest.raises(SchemaMismatch, match="has no transactions"):
        require_usable(report)
    assert upgraded(mysql_engine).engines == ()


@pytest.mark.parametrize("row_format", ["COMPACT", "REDUNDANT"])
def test_row_formats_with_short_keys(mysql_engine: Engine, row_format: str) -> None:
    start_java_broker(mysql_engine)
    store_some(mysql_engine)
    for index in ("MIDX", "CIDX", "XIDX", "IIDX"):
        run(mysql_engine, f"DROP INDEX ACTIVEMQ_MSGS_{index} ON ACTIVEMQ_MSGS")
    run(mysql_engine, f"ALTER TABLE ACTIVEMQ_MSGS ROW_FORMAT={row_format}")
    assert upgraded(mysql_engine).has_paging_index


def test_a_table_in_lower_case_is_another_one(mysql_engine: Engine) -> None:
    run(mysql_engine, "CREATE TABLE activemq_msgs (ID INT)")
    assert found(mysql_engine).kind is SchemaKind.NONE
    assert upgrade_schema(mysql_engine).kind is SchemaKind.OURS


def test_what_a_crash_left_half_done_is_finished(mysql_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """MySQL commits every ALTER, so stop after each step in turn."""
    start_java_broker(mysql_engine, adapter="default")
    drop_acks_key(mysql_engine, then="ADD PRIMARY KEY (CONTAINER, CLIENT_ID, SUB_NAME)")
    store_some(mysql_engine)
    run(mysql_engine, "DELETE FROM ACTIVEMQ_LOCK", "UPDATE ACTIVEMQ_MSGS SET PRIORITY = NULL")
    before = messages(mysql_engine)
    for step in ("_add_columns", "_complete_acks_key", "_add_indexes"):
        with monkeypatch.context() as crash:
            crash.setattr(adoption._Adoption, step, lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                upgrade_schema(mysql_engine)
        assert messages(mysql_engine) == before
        report = found(mysql_engine)
        assert report.kind is SchemaKind.ACTIVEMQ
        require_usable(report)
    upgraded(mysql_engine)


def test_a_failed_upgrade_leaves_nothing_behind(postgresql_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    start_java_broker(postgresql_engine)
    before = found(postgresql_engine)
    with monkeypatch.context() as crash:
        crash.setattr(adoption._Adoption, "_add_indexes", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            upgrade_schema(postgresql_engine)
    assert found(postgresql_engine) == before
