"""The words that go to a database, without a database: names, pages, batches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy.engine.interfaces import DBAPIConnection

import jdbcstore
from jdbcstore.errors import ConfigurationError, MessageTooLarge
from jdbcstore.store.completion import Completion
from jdbcstore.store.jdbc.dialect import Dialect, dialect_for
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.rows import MessageRow, Purge
from jdbcstore.store.jdbc.statements import Statements
from jdbcstore.store.jdbc.writes import Batch, Write
from tests.sql.recorder import batch_statements

DIALECTS = ("sqlite", "postgresql", "mysql", "mariadb")
ODD_NAME = 'queue://it\'s \\ "odd" -- %s'


def dialect(name: str, prefix: str = "", *, has_page_index: bool = True) -> Dialect:
    """The dialect of a database that nobody is connected to."""
    return dialect_for(name)(JdbcOptions(table_prefix=prefix), Statements(prefix), has_page_index=has_page_index)


def row(id: int, container: str = "queue://A", blob: bytes = b"\x00\xff") -> MessageRow:
    """A row to add."""
    return (id, "ID:producer:1:1", id, container, 0, 0, blob)


def sent(of: Dialect, **write: object) -> list[str]:
    """The statements of a batch of one write."""
    one = Write(Completion(), **write)  # type: ignore[arg-type]  # as the tests below give them
    return [statement for statement, _ in batch_statements(of, Batch([one]))]


# -- statements ------------------------------------------------------------------------------------------------------


def texts(prefix: str = "", container: str = "CONTAINER") -> dict[str, str]:
    """Every text by name."""
    return {name: text for name, text in vars(Statements(prefix, container)).items() if " " in text}


def test_there_are_statements() -> None:
    assert len(texts()) > 10


@pytest.mark.parametrize("prefix", ["", "P_", "broker1_"])
def test_every_table_has_the_prefix(prefix: str) -> None:
    for name, text in texts(prefix).items():
        tables = re.findall(r"\w*ACTIVEMQ_\w+", text)
        assert all(re.fullmatch(f"{prefix}ACTIVEMQ_(MSGS|ACKS|LOCK)", table) for table in tables), name


def test_nothing_is_quoted() -> None:
    """Names, that is: words of our own that stand in columns are."""
    assert not [name for name, text in texts().items() if re.search("[\"'`]", re.sub("'[a-z]*'", "<word>", text))]


def test_names_that_a_collation_confuses_are_compared_twice_along_an_index() -> None:
    found = Statements("", "BYTES(CONTAINER)").same_container
    assert found == "CONTAINER = :container AND BYTES(CONTAINER) = :container"


def test_names_are_read_as_they_are_compared() -> None:
    statements = Statements("", "BYTES(CONTAINER)")
    for text in (statements.containers_counted, statements.containers_in_doubt):
        assert text.startswith("SELECT BYTES(CONTAINER)")


@pytest.mark.parametrize("container", ["CONTAINER", "BYTES(CONTAINER)"])
def test_a_message_is_never_looked_for_along_the_index_of_its_queue(container: str) -> None:
    statements = Statements("", container)
    for text in (statements.message_by_id, statements.message_by_key, statements.message_id_by_key):
        assert not re.search(r"\bAND CONTAINER = ", text)
        assert re.search(r" AND \w+\(CONTAINER.*\) = :container", text)


# -- pages -----------------------------------------------------------------------------------------------------------

PAGES = {
    "sqlite": "SELECT ID, LENGTH(MSG), CASE WHEN LENGTH(MSG) <= :inline_bytes THEN MSG END FROM P_ACTIVEMQ_MSGS"
    " INDEXED BY P_JDBCSTORE_MSGS_PAGE WHERE CONTAINER = :container AND PRIORITY = :level AND ID > :after"
    " AND XID IS NULL ORDER BY ID LIMIT :rows",
    "postgresql": "SELECT ID, OCTET_LENGTH(MSG), CASE WHEN OCTET_LENGTH(MSG) <= :inline_bytes THEN MSG END"
    " FROM P_ACTIVEMQ_MSGS WHERE CONTAINER = :container AND PRIORITY BETWEEN :level AND :level AND ID > :after"
    " AND XID IS NULL ORDER BY PRIORITY DESC, ID LIMIT :rows",
    "mysql": "SELECT ID, LENGTH(MSG), CASE WHEN LENGTH(MSG) <= :inline_bytes THEN MSG END FROM P_ACTIVEMQ_MSGS"
    " FORCE INDEX (P_JDBCSTORE_MSGS_PAGE) WHERE CONTAINER = :container AND PRIORITY = :level AND ID > :after"
    " AND XID IS NULL ORDER BY ID LIMIT :rows",
}
PAGES["mariadb"] = PAGES["mysql"]


def page(of: Dialect, level: int | None) -> str:
    """The text of a page, its blanks made single."""
    return " ".join(of.page(level).split())


@pytest.mark.parametrize("name", DIALECTS)
def test_a_page(name: str) -> None:
    assert page(dialect(name, "P_"), 0) == PAGES[name]


@pytest.mark.parametrize("name", DIALECTS)
def test_a_page_of_rows_without_a_priority_has_the_same_order(name: str) -> None:
    expected = re.sub(r"PRIORITY (= :level|BETWEEN :level AND :level)", "PRIORITY IS NULL", PAGES[name])
    assert page(dialect(name, "P_"), None) == expected


@pytest.mark.parametrize("level", [0, None])
@pytest.mark.parametrize("name", DIALECTS)
def test_a_page_of_a_table_that_is_not_adopted_names_no_index_and_avoids_that_on_priority(
    name: str, level: int | None
) -> None:
    text = page(dialect(name, "P_", has_page_index=False), level)
    assert "INDEX" not in text
    assert re.search(r"AND PRIORITY \+ 0 (=|BETWEEN|IS NULL)", text)


def test_an_unknown_database_has_no_dialect() -> None:
    with pytest.raises(ConfigurationError, match="oracle"):
        dialect_for("oracle")


# -- batches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DIALECTS)
def test_a_batch_adds_first_and_removes_last(name: str) -> None:
    statements = sent(
        dialect(name, "P_"),
        adds=[row(5)],
        updates=[(3, b"\x01")],
        purges=[Purge("queue://B", 4)],
        removes=[2],
    )
    assert [statement.split("P_ACTIVEMQ_MSGS")[0].strip() for statement in statements] == [
        "INSERT INTO",
        "UPDATE",
        "DELETE FROM",
        "DELETE FROM",
    ]
    assert "CONTAINER" in statements[2]
    assert "ID" in statements[3].partition("WHERE")[2]


@pytest.mark.parametrize("name", DIALECTS)
def test_removes_are_sorted_so_that_no_two_batches_lock_crosswise(name: str) -> None:
    batch = Batch([Write(Completion(), removes=[9, 4]), Write(Completion(), removes=[7])])
    asked = [
        parameters or re.findall(r"\d+", statement) for statement, parameters in batch_statements(dialect(name), batch)
    ]
    assert [int(id) for ids in asked for id in ids] == [4, 7, 9]


@pytest.mark.parametrize("name", ["mysql", "mariadb"])
def test_mysql_escapes_names_with_backslashes_and_sends_bodies_as_digits(name: str) -> None:
    (insert,) = sent(dialect(name), adds=[row(1, ODD_NAME, b"it's \\ \x00")])
    assert r"'queue://it\'s \\ " in insert
    assert insert.endswith("0x69742773205c2000)")


@pytest.mark.parametrize("name", ["mysql", "mariadb"])
def test_mysql_sends_long_bodies_as_escaped_bytes(name: str) -> None:
    (insert,) = sent(dialect(name), adds=[row(1, ODD_NAME, b"it's \\ \x00" + b"x" * 300_000)])
    assert "_binary'it\\'s \\\\ \x00xxx" in insert


def test_postgresql_doubles_quotes_and_sends_bodies_as_digits() -> None:
    (insert,) = sent(dialect("postgresql"), adds=[row(1, ODD_NAME, b"it's")])
    assert "'queue://it''s \\ \"odd\" -- %s'" in insert
    assert r"'\x69742773')" in insert


@pytest.mark.parametrize("name", ["postgresql", "mysql", "mariadb"])
def test_a_purge_escapes_as_an_insert_does(name: str) -> None:
    (insert,) = sent(dialect(name), adds=[row(1, ODD_NAME)])
    (purge,) = sent(dialect(name), purges=[Purge(ODD_NAME, 4)])
    literal = insert.partition("VALUES (")[2].split(",")[3]
    assert f"CONTAINER={literal} AND" in purge


def test_sqlite_binds_everything() -> None:
    batch = Batch([Write(Completion(), adds=[row(1, ODD_NAME)], purges=[Purge(ODD_NAME, 4)])])
    for statement, parameters in batch_statements(dialect("sqlite"), batch):
        assert "queue://" not in statement
        assert ODD_NAME in parameters


def test_sqlite_cuts_a_batch_into_powers_of_two() -> None:
    batch = Batch([Write(Completion(), adds=[row(n) for n in range(1, 302)])])
    rows = [len(parameters) // 7 for _, parameters in batch_statements(dialect("sqlite"), batch)]
    assert rows == [256, 32, 8, 4, 1]


def test_sqlite_names_its_index_for_a_purge_only_where_it_is() -> None:
    purge = [Purge("queue://A", 4)]
    assert "INDEXED BY JDBCSTORE_MSGS_PAGE" in sent(dialect("sqlite"), purges=purge)[0]
    assert "INDEXED BY" not in sent(dialect("sqlite", has_page_index=False), purges=purge)[0]


def test_postgresql_copies_many_rows() -> None:
    few = sent(dialect("postgresql"), adds=[row(n) for n in range(11)])
    many = sent(dialect("postgresql"), adds=[row(n) for n in range(12)])
    assert [statement.split()[0] for statement in (*few, *many)] == ["INSERT", "COPY"]


@pytest.mark.parametrize("name", ["mysql", "mariadb"])
def test_mysql_removes_some_hundred_at_a_time(name: str) -> None:
    statements = sent(dialect(name), removes=range(1, 2_403, 2))
    assert [statement.count(",") + 1 for statement in statements] == [500, 500, 201]


@pytest.mark.parametrize("name", ["mysql", "mariadb"])
def test_mysql_removes_what_was_added_in_a_row_as_a_range(name: str) -> None:
    statements = sent(dialect(name), removes=[100, 3, *range(10, 50), 51, 51, *range(60, 76), *range(200, 1_000)])
    delete, ranged = (
        "DELETE FROM ACTIVEMQ_MSGS WHERE ID IN ",
        "DELETE t FROM ACTIVEMQ_MSGS t FORCE INDEX (PRIMARY) WHERE ",
    )
    assert statements == [
        f"{delete}(3)",
        f"{ranged}ID BETWEEN 10 AND 49",
        f"{delete}({','.join(map(str, [51, *range(60, 76), 100]))})",
        f"{ranged}ID BETWEEN 200 AND 999",
    ]


# -- packets ---------------------------------------------------------------------------------------------------------


class Packets:
    """As much of PyMySQL's connection as a batch needs; keeps what it is sent."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []

    def query(self, packet: bytes) -> int:
        self.packets.append(packet)
        return 0

    def next_result(self) -> int:
        return 0


def test_a_batch_is_one_packet() -> None:
    line = Packets()
    dialect("mysql").write(cast(DBAPIConnection, line), Batch([Write(Completion(), adds=[row(1)], removes=[1, 2])]))
    (packet,) = line.packets
    assert packet.startswith(b"BEGIN;INSERT INTO ACTIVEMQ_MSGS ")
    assert packet.endswith(b";DELETE FROM ACTIVEMQ_MSGS WHERE ID IN (1,2);COMMIT")


def test_a_batch_larger_than_a_packet_is_several_in_one_transaction() -> None:
    line = Packets()
    rows = [row(n, blob=b"x" * 100_000) for n in range(30)]
    dialect("mysql").write(cast(DBAPIConnection, line), Batch([Write(Completion(), adds=rows)]))
    assert len(line.packets) >= 3
    assert max(map(len, line.packets)) <= 1 << 20  # what a server takes that has not been asked yet
    assert line.packets[0].startswith(b"BEGIN")
    assert line.packets[-1].endswith(b"COMMIT")
    assert sum(packet.count(b"ID:producer") for packet in line.packets) == 30


def test_a_message_larger_than_a_packet_is_refused_before_anything_is_sent() -> None:
    line = Packets()
    rows = [row(1), row(2, blob=b"x" * (1 << 20))]
    with pytest.raises(MessageTooLarge, match="max_allowed_packet"):
        dialect("mysql").write(cast(DBAPIConnection, line), Batch([Write(Completion(), adds=rows)]))
    assert line.packets == []


def test_no_statement_groups_by_a_bare_name() -> None:
    """Where a collation confuses ``A`` and ``a`` they would be added up. `Statements.container` tells them apart."""
    names = "CONTAINER|MSGID_PROD|CLIENT_ID|SUB_NAME"
    bare = re.compile(rf"(GROUP BY|DISTINCT)[^\"']*(?<![A-Za-z_.{{(])({names})\b(?! COLLATE)")
    folder = Path(jdbcstore.__file__).parent
    found = [
        f"{path.relative_to(folder)}: {match[0]}"
        for path in sorted(folder.rglob("*.py"))
        for match in bare.finditer(path.read_text())
    ]
    assert found == []
