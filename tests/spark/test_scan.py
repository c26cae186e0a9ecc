"""Scans of the message table: every database, every driver."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pymysql.constants import ER
from sqlalchemy import Connection, insert, text
from sqlalchemy.exc import OperationalError

from jdbcstore.config.urls import open_engine, open_store, store_options
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError, SchemaMismatch, StoreError, TransientStoreError
from jdbcstore.spark.filters import Term
from jdbcstore.spark.scan import Scan, driver_for
from jdbcstore.store.jdbc.dialect import AccessDenied, ConnectionLost
from jdbcstore.store.jdbc.tables import Tables
from jdbcstore.testing import text_message
from tests.waiting import wait_until

#: In the order of the table.
ALL: Final = ("ID", "CONTAINER", "MSGID_PROD", "MSGID_SEQ", "EXPIRATION", "MSG", "PRIORITY", "XID", "SIZE")
DRIVERS: Final = {
    "sqlite": ["sqlite3"],
    "postgresql": ["adbc", "psycopg2"],
    "mysql": ["pymysql"],
    "mariadb": ["pymysql"],
}
#: Everything that a column may hold: nothing, little, more than fits a view, more than lengths of one and two bytes.
BLOBS: Final = (b"", b"\0", b"twelve bytes", b"thirteen byte", b"\xfb" * 250, b"\xff" * 251, b"a" * 70_000, None)
ROWS: Final = tuple(
    (
        id,
        f"queue://Ä{'ß' * (id % 10)}",
        producer,
        sequence,
        expiration,
        blob,
        priority,
        xid,
        None if blob is None else len(blob),
    )
    for id, blob, (producer, sequence, expiration, priority, xid) in zip(
        (1, 2, 3, 1 << 31, 1 << 40, (1 << 53) + 1, (1 << 62) + 3, (1 << 63) - 1),
        BLOBS,
        (
            ("ID:a-1:1:1:1", 1, 0, 4, None),
            (None, None, None, None, None),
            ("", -1, -1, 0, ""),
            ("x" * 250, (1 << 63) - 1, 1_700_000_000_000, 9, "+xid"),
            *[("p", 5, None, None, None), (None, 6, 7, None, "x"), ("q", None, 0, 0, None), ("r", 0, 1, 2, None)],
        ),
        strict=True,
    )
)


@contextmanager
def table(url: str, names: str = "", create: str | None = None) -> Iterator[tuple[Connection, Tables]]:
    """An empty message table."""
    engine = open_engine(url)
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            tables = Tables.on(connection, names)
            if create is None:
                tables.messages.create(connection)
            else:
                connection.execute(text(create))
            yield connection, tables
    finally:
        engine.dispose()


def put(connection: Connection, tables: Tables, rows: Any) -> None:
    connection.exec_driver_sql("BEGIN")
    connection.execute(insert(tables.messages), [dict(zip(ALL[:8], row[:8], strict=True)) for row in rows])
    connection.exec_driver_sql("COMMIT")


def scan_of(url: str, columns: tuple[str, ...] = ALL, **others: Any) -> Scan:
    found, options = store_options(url)
    return Scan(found, columns, **{"options": options, **others})


def rows_of(scan: Scan) -> list[tuple[Any, ...]]:
    """All rows by their ids, read as a task would: from a pickle."""
    batches = list(pickle.loads(pickle.dumps(scan)).batches())
    assert all(batch.schema == scan.schema for batch in batches)
    for batch in batches:
        batch.validate(full=True)
    return [tuple(row.values()) for row in pa.Table.from_batches(batches, scan.schema).to_pylist()]


def drivers(url: str) -> list[str]:
    return DRIVERS[store_options(url)[0].get_backend_name()]


def test_every_value_of_every_column_comes_as_it_is(database_url: str) -> None:
    url = database_url + ("&" if "?" in database_url else "?") + "table_prefix=pre_"
    rows = list(ROWS)
    with table(url, "pre_") as (connection, tables):
        put(connection, tables, rows)
        for driver in drivers(url):
            assert rows_of(scan_of(url, driver=driver, is_ordered=True)) == rows, driver
            stored = rows_of(scan_of(url, ALL[:-1], driver=driver, is_ordered=True))
            assert stored == [row[:-1] for row in rows], driver
            some = ("PRIORITY", "SIZE", "XID")
            found = sorted(rows_of(scan_of(url, some, driver=driver, first=2, last=(1 << 63) - 2)), key=repr)
            assert found == sorted([(row[6], row[8], row[7]) for row in rows[1:-1]], key=repr), driver
            assert rows_of(scan_of(url, driver=driver, first=5, last=9)) == [], driver


def test_what_the_store_has_written_is_read(database_url: str) -> None:
    with open_store(database_url) as store:
        queue = store.queue_message_store(Queue("A"))
        messages = [text_message(number, "x" * number, destination=Queue("A")) for number in range(1, 1500)]
        for completion in [queue.add_message(message) for message in messages]:
            completion.result(30)
    from jdbcstore.openwire import unmarshal_message

    for driver in drivers(database_url):
        scan = scan_of(database_url, ("MSG", "CONTAINER", "ID"), driver=driver, batch_bytes=1 << 16)
        batches = list(scan.batches())
        assert len(batches) > 10
        assert max(batch.nbytes for batch in batches) < 100_000
        found = sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row["ID"])
        assert [unmarshal_message(row["MSG"]).content for row in found] == [message.content for message in messages]
        assert {row["CONTAINER"] for row in found} == {"queue://A"}


def test_names_that_differ_in_case_or_blanks_are_told_apart(sql_server_url: str) -> None:
    names = ["queue://A", "queue://a", "queue://A ", "queue://Ä", "queue://AA"]
    database = store_options(sql_server_url)[0].get_backend_name()
    # MySQL's own default ignores case and accents; the key of the row is enough for it.
    blob = "BYTEA" if database == "postgresql" else "LONGBLOB"
    collation = "" if database == "postgresql" else " CHARACTER SET latin1 COLLATE latin1_swedish_ci"
    create = (
        f"CREATE TABLE ACTIVEMQ_MSGS (ID INTEGER NOT NULL PRIMARY KEY, CONTAINER VARCHAR(250){collation},"
        f" MSGID_PROD VARCHAR(250){collation}, MSGID_SEQ INTEGER, EXPIRATION BIGINT, MSG {blob}, PRIORITY BIGINT,"
        " XID VARCHAR(250))"
    )
    with table(sql_server_url, create=create) as (connection, tables):
        put(connection, tables, [(id, name, name, id, 0, b"", 0, None) for id, name in enumerate(names)])
        for driver in drivers(sql_server_url):
            for column in ("CONTAINER", "MSGID_PROD"):
                for term, expected in (
                    (Term(column, "=", "queue://A"), [0]),
                    (Term(column, "in", ("queue://a", "queue://Ä", "queue://'\\")), [1, 3]),
                    (Term(column, "starts with", "queue://A"), [0, 2, 4]),
                ):
                    scan = scan_of(
                        sql_server_url, ("ID",), driver=driver, terms=(term,), is_ordered=True, is_bytewise=False
                    )
                    assert [id for (id,) in rows_of(scan)] == expected, (driver, term)


MEASURE: Final = """
import resource, sys, pickle
scan = pickle.loads(bytes.fromhex(sys.stdin.read()))
first = next(batches := scan.batches())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = first.num_rows
for batch in batches:
    rows += batch.num_rows
print(rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def test_large_messages_do_not_fill_the_memory(database_url: str) -> None:
    with table(database_url) as (connection, tables):
        # Small ones first: what is learnt from them says nothing about what follows.
        put(connection, tables, [(id, "queue://A", "p", id, 0, b"x" * 100, 0, None) for id in range(1, 2001)])
        large = b"x" * (1 << 20)
        for first in range(2001, 2041, 8):  # as many as fit a packet
            put(connection, tables, [(id, "queue://A", "p", id, 0, large, 0, None) for id in range(first, first + 8)])
        for driver in drivers(database_url):
            given = pickle.dumps(scan_of(database_url, ("ID", "MSG"), driver=driver, batch_bytes=2 << 20)).hex()
            done = subprocess.run(
                [sys.executable, "-c", MEASURE], input=given, capture_output=True, text=True, check=True
            )
            rows, grown_mib = map(int, done.stdout.split())
            assert rows == 2040
            assert grown_mib < 24, driver  # of 40


def test_numbers_of_other_types_are_read_as_such(mysql_url: str) -> None:
    """As old versions and people have made tables."""
    rows = [(1, "queue://A", "p", -7, 1_700_000_000_000, b"a", 9, None), (2, "queue://B", "q", None, 0, b"b", -1, None)]
    types = "MODIFY MSGID_SEQ INTEGER, MODIFY EXPIRATION DECIMAL(20), MODIFY PRIORITY SMALLINT"
    with table(mysql_url) as (connection, tables):
        put(connection, tables, rows)
        connection.execute(text(f"ALTER TABLE {tables.messages.name} {types}"))
        assert rows_of(scan_of(mysql_url, ALL[:-1], is_ordered=True)) == rows


def test_a_row_of_several_packets(mysql_url: str) -> None:
    large = b"0123456789abcdef" * (1 << 20)  # 16 MiB and what belongs to it: a whole packet and a rest
    with table(mysql_url) as (connection, tables):
        rows = [(id, "queue://A", None, id, 0, blob, 0, None) for id, blob in enumerate((b"a", large, b"", b"c" * 99))]
        put(connection, tables, rows)
        found = rows_of(scan_of(mysql_url, ("MSG", "ID"), batch_bytes=1 << 16, is_ordered=True))
    assert found == [(row[5], row[0]) for row in rows]


def test_who_stops_early_leaves_nothing_open(sql_server_url: str) -> None:
    sessions = (
        "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        if sql_server_url.startswith("postgresql")
        else "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID()"
    )
    with table(sql_server_url) as (connection, tables):

        def count() -> int:
            return int(connection.execute(text(sessions)).scalar_one())

        put(connection, tables, [(id, "queue://A", None, id, 0, b"x" * 10_000, 0, None) for id in range(2000)])
        for driver in drivers(sql_server_url):
            batches = scan_of(sql_server_url, ("MSG",), driver=driver, batch_bytes=1 << 16).batches()
            assert next(batches).num_rows in range(1, 8)
            wait_until(
                lambda: count() == 1, "it is the only one: servers notice by themselves that a session has ended"
            )
            batches.close()  # type: ignore[attr-defined]  # a generator
            wait_until(lambda: not count(), f"the session of {driver} has ended")


def test_a_server_that_goes_away_in_the_middle_is_told(sql_server_url: str, request: pytest.FixtureRequest) -> None:
    with table(sql_server_url) as (connection, tables):
        put(connection, tables, [(id, "queue://A", None, id, 0, b"x" * 100_000, 0, None) for id in range(400)])
        for driver in drivers(sql_server_url):
            batches = scan_of(sql_server_url, ("MSG",), driver=driver, batch_bytes=1 << 16).batches()
            next(batches)
            kill(connection)
            with pytest.raises(TransientStoreError, match=r"cannot read .*:\*\*\*@") as caught:
                list(batches)
            assert "\n" not in str(caught.value)
            assert ":jdbcstore@" not in str(caught.value)


def kill(connection: Connection) -> None:
    """End all other sessions of the database."""
    if connection.dialect.name == "postgresql":
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
        return
    query = "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID()"
    for id in connection.execute(text(query)).scalars().all():
        try:
            connection.execute(text(f"KILL {id}"))
        except OperationalError as error:  # it has just ended by itself
            if error.orig is None or error.orig.args[0] != ER.NO_SUCH_THREAD:
                raise


def test_errors_say_what_to_do_and_no_password(database_url: str, tmp_path: Path) -> None:
    url, options = store_options(database_url)
    if not url.host:
        Path(str(url.database)).touch()  # a database without tables
    for driver in drivers(database_url):
        wrong: list[tuple[Any, type[StoreError], str]] = [(url, SchemaMismatch, "ACTIVEMQ_MSGS.*tablePrefix")]
        if url.host:
            wrong.append((url.set(username="nobody", password="s3cret!%"), AccessDenied, "check user, password"))
            wrong.append((url.set(database="nowhere"), AccessDenied, "name of the database"))
            wrong.append((url.set(port=1), ConnectionLost, "check that the server runs"))
        else:
            wrong.append((url.set(database=str(tmp_path / "none" / "x.db")), ConnectionLost, "check that"))
        for where, kind, said in wrong:
            scan = Scan(where, ("ID",), options=options, driver=driver)
            with pytest.raises(kind, match=said) as caught:
                list(scan.batches())
            for shown in (str(caught.value), repr(scan)):
                assert "\n" not in shown
                assert "s3cret" not in shown
                assert ":jdbcstore@" not in shown  # the password of the test servers


def test_a_driver_reads_its_own_database(tmp_path: Path) -> None:
    url = store_options("postgresql://a@localhost/b")[0]
    assert driver_for(url) == "adbc"
    with pytest.raises(ConfigurationError, match="does not read postgresql: use adbc or psycopg2"):
        driver_for(url, "pymysql")


def test_nothing_is_written(database_url: str) -> None:
    """Whoever finds a way to put a statement into a scan can still change nothing."""
    with table(database_url) as (connection, tables):
        put(connection, tables, [(1, "queue://A", None, 1, 0, b"", 0, None)])
        value = "x') ; DELETE FROM ACTIVEMQ_MSGS ; -- \\'"
        for driver in drivers(database_url):
            terms = (Term("CONTAINER", "in", (value, "queue://A")), Term("CONTAINER", "starts with", "queue://"))
            assert rows_of(scan_of(database_url, ("ID",), driver=driver, terms=terms)) == [(1,)]
            assert rows_of(scan_of(database_url, ("ID",), driver=driver, terms=(Term("CONTAINER", "=", value),))) == []
