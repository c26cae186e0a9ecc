"""What plain statements find in the catalogues is what SQLAlchemy finds there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection

from jdbcstore.config.urls import open_engine
from jdbcstore.store.jdbc.dialect.base.catalogue import FoundTable, reflected_tables
from jdbcstore.store.jdbc.tables import Tables

#: What no ActiveMQ made, but somebody may have: by the names of dialects.
ODD = {
    "mysql": (
        "CREATE TABLE ODD (A VARBINARY(99) NOT NULL, B MEDIUMBLOB, C VARCHAR(5), PRIMARY KEY (C, A))",
        "CREATE INDEX ODD_X ON ODD (C DESC, B(20))",
    ),
    "postgresql": (
        "CREATE TABLE odd (a bytea NOT NULL, gone text, b bytea, c varchar(5), PRIMARY KEY (c, a))",
        "ALTER TABLE odd DROP gone",
        "CREATE INDEX odd_x ON odd (c DESC, b) INCLUDE (a) WHERE b IS NOT NULL",
    ),
    "sqlite": (
        "CREATE TABLE ODD (A BLOB NOT NULL, B BLOB, C VARCHAR(5), PRIMARY KEY (C, A))",
        "CREATE INDEX ODD_X ON ODD (C DESC, B) WHERE B IS NOT NULL",
    ),
}
ODD["mariadb"] = ODD["mysql"]

pytestmark = pytest.mark.has_tables


@pytest.fixture
def connection(every_database_url: str) -> Iterator[Connection]:
    """A connection to a database with our tables, an odd one and a view."""
    engine = open_engine(every_database_url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def plain(found: dict[str, FoundTable]) -> dict[str, object]:
    """Without the words for types, of which SQLAlchemy has its own."""
    return {
        name: (
            {
                column: (of.keeps_bytes, of.is_nullable, of.length if of.keeps_bytes and "binary" in of.type else None)
                for column, of in table.columns.items()
            },
            table.key,
            table.indexes,
        )
        for name, table in found.items()
    }


def test_plain_statements_find_what_sqlalchemy_finds(connection: Connection) -> None:
    tables = Tables.on(connection, "")
    for statement in (*ODD[connection.dialect.name], "CREATE VIEW a_view AS SELECT b AS d FROM odd".upper()):
        connection.exec_driver_sql(statement)
    odd, view = tables.cased("ODD"), tables.cased("A_VIEW")
    names = [*(table.name for table in (*tables.all, *tables.own.values())), tables.version_table, odd, view]
    found = tables.schema.found_tables(connection, [*names, "missing"])
    assert set(found) == set(names)
    assert plain(found) == plain(reflected_tables(connection, names))
    assert found[odd].key == ("C", "A")
    assert list(found[odd].indexes.values()) == [("C", "B")]
    assert found[view].columns.keys() == {"D"}
    for statement in (f"DROP VIEW {view}", f"DROP TABLE {odd}"):
        connection.exec_driver_sql(statement)


def test_a_table_in_another_schema_of_the_search_path_is_found(postgresql_url: str) -> None:
    """And the one that comes first hides the others, as it does for statements."""
    engine = open_engine(postgresql_url)
    with engine.connect() as connection:
        tables = Tables.on(connection, "")
        for statement in (
            "CREATE SCHEMA other",
            "CREATE TABLE other.activemq_lock (id bigint)",
            "SET search_path = other, public",
        ):
            connection.exec_driver_sql(statement)
        found = tables.schema.found_tables(connection, [tables.lock.name, tables.acks.name])
        assert found[tables.lock.name].columns.keys() == {"ID"}
        assert found[tables.lock.name].key == ()
        assert len(found[tables.acks.name].columns) == 8
        connection.exec_driver_sql("SET search_path = DEFAULT")
    engine.dispose()
