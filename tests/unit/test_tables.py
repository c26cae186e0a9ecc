"""The DDL of a new schema, word for word, on every database; no database needed."""

from __future__ import annotations

import pytest
from sqlalchemy import make_url
from sqlalchemy.schema import CreateIndex, CreateTable

from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.dialect import database_for
from jdbcstore.store.jdbc.statements import Statements
from jdbcstore.store.jdbc.tables import Tables

DATABASES = ["postgresql", "mysql", "mariadb", "sqlite"]


def ddl(prefix: str, name: str) -> dict[str, list[str]]:
    """The statements for the three tables, in one line each, without quotes."""
    dialect = make_url(f"{name}://").get_dialect()()
    tables = Tables(prefix, name)
    indexes = [*tables.messages_indexes, *tables.acks_indexes]
    statements = {
        "tables": [str(CreateTable(table).compile(dialect=dialect)) for table in tables.all],
        "indexes": [str(CreateIndex(index).compile(dialect=dialect)) for index in indexes],
    }
    quotes = str.maketrans("", "", '`"')
    return {kind: [" ".join(text.translate(quotes).split()) for text in texts] for kind, texts in statements.items()}


def expected_tables(binary: str, options: str = "", default: str = "BIGINT DEFAULT 5 NOT NULL") -> list[str]:
    return [
        "CREATE TABLE ACTIVEMQ_MSGS ( ID BIGINT NOT NULL, CONTAINER VARCHAR(250) NOT NULL, MSGID_PROD VARCHAR(250),"
        f" MSGID_SEQ BIGINT, EXPIRATION BIGINT, MSG {binary}, PRIORITY BIGINT, XID VARCHAR(250), PRIMARY KEY (ID) )"
        + options,
        "CREATE TABLE ACTIVEMQ_ACKS ( CONTAINER VARCHAR(250) NOT NULL, SUB_DEST VARCHAR(250),"
        " CLIENT_ID VARCHAR(250) NOT NULL, SUB_NAME VARCHAR(250) NOT NULL, SELECTOR VARCHAR(250),"
        f" LAST_ACKED_ID BIGINT, PRIORITY {default}, XID VARCHAR(250),"
        " PRIMARY KEY (CONTAINER, CLIENT_ID, SUB_NAME, PRIORITY) )" + options,
        "CREATE TABLE ACTIVEMQ_LOCK ( ID BIGINT NOT NULL, TIME BIGINT, BROKER_NAME VARCHAR(250), PRIMARY KEY (ID) )"
        + options,
    ]


def expected_indexes(*, partial: bool) -> list[str]:
    only, expiring = (" WHERE XID IS NOT NULL", " WHERE EXPIRATION > 0") if partial else ("", "")
    return [
        "CREATE INDEX ACTIVEMQ_MSGS_MIDX ON ACTIVEMQ_MSGS (MSGID_PROD, MSGID_SEQ)",
        f"CREATE INDEX ACTIVEMQ_MSGS_XIDX ON ACTIVEMQ_MSGS (XID){only}",
        f"CREATE INDEX ACTIVEMQ_MSGS_EIDX ON ACTIVEMQ_MSGS (EXPIRATION, ID){expiring}",
        "CREATE INDEX JDBCSTORE_MSGS_PAGE ON ACTIVEMQ_MSGS (CONTAINER, PRIORITY DESC, ID)",
        f"CREATE INDEX ACTIVEMQ_ACKS_XIDX ON ACTIVEMQ_ACKS (XID){only}",
    ]


def lower(texts: list[str]) -> list[str]:
    """Names in lower case, as PostgreSQL keeps them; comparing in lower case would hide a name that is not."""
    return [text.lower() for text in texts]


def test_postgresql() -> None:
    made = ddl("", "postgresql")
    assert lower(made["tables"]) == lower(expected_tables("BYTEA"))
    assert lower(made["indexes"]) == lower(expected_indexes(partial=True))


def test_postgresql_names_are_lower_case() -> None:
    tables = Tables("Pre_", "postgresql")
    columns = [column.name for table in tables.all for column in table.c]
    indexes = [str(index.name) for index in (*tables.messages_indexes, *tables.acks_indexes)]
    names = [table.name for table in tables.all] + columns + indexes + [tables.version_table, tables.page_index]
    assert names == [name.lower() for name in names]


@pytest.mark.parametrize(("name", "collation"), [("mysql", "utf8mb4_0900_bin"), ("mariadb", "utf8mb4_nopad_bin")])
def test_mysql_and_mariadb(name: str, collation: str) -> None:
    options = f"ENGINE=InnoDB CHARSET=utf8mb4 COLLATE {collation}"
    made = ddl("", name)
    assert made["tables"] == expected_tables("LONGBLOB", options, "BIGINT NOT NULL DEFAULT 5")
    assert made["indexes"] == expected_indexes(partial=False)
    assert database_for(name).schema.collation == collation


def test_sqlite() -> None:
    made = ddl("", "sqlite")
    assert made["tables"] == expected_tables("BLOB")
    assert made["indexes"] == expected_indexes(partial=True)


@pytest.mark.parametrize("name", DATABASES)
def test_columns_are_reached_by_activemq_s_names(name: str) -> None:
    tables = Tables("", name)
    assert list(tables.messages.c.keys()) == [
        "ID",
        "CONTAINER",
        "MSGID_PROD",
        "MSGID_SEQ",
        "EXPIRATION",
        "MSG",
        "PRIORITY",
        "XID",
    ]


@pytest.mark.parametrize("name", DATABASES)
def test_statements_and_tables_agree_on_names(name: str) -> None:
    tables, statements = Tables("Pre_", name), Statements("Pre_")
    assert [table.name for table in tables.all] == [
        tables.cased(written) for written in (statements.messages, statements.acks, statements.lock)
    ]
    assert tables.page_index == tables.cased(statements.page_index)


@pytest.mark.parametrize("name", DATABASES)
def test_a_prefix_stands_before_every_name(name: str) -> None:
    tables = Tables("Pre_", name)
    indexes = [str(index.name) for index in (*tables.messages_indexes, *tables.acks_indexes)]
    names = [*(table.name for table in tables.all), *indexes, tables.version_table]
    assert all(made.startswith(tables.cased("Pre_")) for made in names)
    assert [tables.plain(made) for made in names][:3] == ["ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS", "ACTIVEMQ_LOCK"]


@pytest.mark.parametrize("prefix", ["a b", "x.", "ü", "P" * 41])
def test_a_prefix_that_needs_quotes_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigurationError, match="table_prefix"):
        Tables(prefix, "mysql")


def test_a_digit_may_begin_a_prefix_on_mysql_only() -> None:
    assert Tables("1_", "mysql").messages.name == "1_ACTIVEMQ_MSGS"
    for name in ("postgresql", "sqlite"):
        with pytest.raises(ConfigurationError, match="must not begin with a digit"):
            Tables("1_", name)
