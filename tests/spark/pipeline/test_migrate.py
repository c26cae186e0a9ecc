"""``migrate``: the other store is the same store, whatever was interrupted on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from pyspark.sql import SparkSession
from sqlalchemy import insert, make_url, text

from jdbcstore.config.urls import open_engine, open_store
from jdbcstore.destination import Queue, Topic, parse_destination
from jdbcstore.errors import ConfigurationError, JournalDamaged, LeaseLost, LockHeld, StoreError
from jdbcstore.migration.lease import hold, release
from jdbcstore.migration.locations import location_of
from jdbcstore.pipeline.migrate import migrate
from jdbcstore.pipeline.stores import looking_into_sql
from jdbcstore.store.contract import SupportsTopics
from jdbcstore.store.jdbc.connection import opened
from jdbcstore.store.jdbc.schema import inspect_schema
from jdbcstore.store.jdbc.tables import Tables
from tests.spark.pipeline.filling import ODD, ORDERS, PRICES, SLOW, fill, message
from tests.sql.loading import load
from tests.unit.kahadb.journals import unpack
from tests.waiting import wait_until

TABLES = ["messages", "acks", "acked", "prepared_acks", "scheduled", "producers"]


def contents(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table that a migration is about."""
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            tables = Tables.on(connection, "")
            found = {name: connection.execute(getattr(tables, name).select()).all() for name in TABLES}
            assert not inspect_schema(connection, "").missing_indexes
    finally:
        engine.dispose()
    return {
        name: sorted((tuple(bytes(v) if isinstance(v, memoryview) else v for v in row) for row in rows), key=repr)
        for name, rows in found.items()
    }


def test_from_database_to_database(
    spark: SparkSession, tmp_path: Path, postgresql18_url: str, mariadb_url: str, mysql_url: str
) -> None:
    urls = [f"sqlite:///{tmp_path / 'first.db'}", postgresql18_url, mariadb_url, mysql_url]
    urls.append(f"sqlite:///{tmp_path / 'last.db'}")
    fill(urls[0])
    engine = open_engine(urls[0])
    with engine.begin() as connection:
        tables = Tables.on(connection, "")
        # What Java brokers and prepared transactions leave.
        load(connection, tables, 3, first=1000, XID="\x01xid", PRIORITY=None, MSGID_PROD=None, EXPIRATION=None)
        job = {"JOB_ID": "ID:1", "DUE_MS": 1, "DELAY_MS": 2, "PERIOD_MS": 3, "REPEATS": 4, "CRON": None, "MSG": b"\x00"}
        connection.execute(insert(tables.scheduled).values(job))
        connection.execute(insert(tables.producers).values(PRODUCER="p", LAST_SEQ=1, LAST_USED_MS=2))
    engine.dispose()
    before = contents(urls[0])
    assert [len(before[name]) for name in TABLES] == [35, 2, 1, 0, 1, 1]
    for source, target in pairwise(urls):
        done = migrate(spark, source, target)
        assert (done.messages, done.destinations[str(ORDERS)].messages) == (35, 20)
        assert contents(target) == before
    with open_store(urls[-1]) as adapter:  # and brokers may have it
        assert isinstance(adapter, SupportsTopics)
        assert adapter.topic_message_store(PRICES).subscription_message_count(SLOW) == 3
        assert [m.body for m in adapter.queue_message_store(ODD).recover()] == [  # type: ignore[attr-defined]
            bytes(range(number * 50)) for number in range(3)
        ]


def test_into_a_journal_and_back(spark: SparkSession, tmp_path: Path) -> None:
    source, back = (f"sqlite:///{tmp_path / name}" for name in ("source.db", "back.db"))
    journal = f"kahadb:{tmp_path / 'kahadb'}"
    fill(source)
    seen = migrate(spark, source, journal, is_dry=True)
    assert not (tmp_path / "kahadb").exists()
    done = migrate(spark, source, journal)
    assert (seen.messages, done.messages) == (32, 31)  # one of a topic's messages nobody waits for
    assert {*done.destinations} == {*seen.destinations}
    assert len(done.subscriptions) == 2
    assert migrate(spark, str(tmp_path / "kahadb"), back).messages == done.messages
    with open_store(source) as one, open_store(back) as other:
        for queue in (ORDERS, ODD):
            both = [
                [str(message.message_id) for message in store.queue_message_store(queue).recover()]
                for store in (one, other)
            ]
            assert both[0] == both[1]


def test_what_cannot_be_migrated_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    source, target = (f"sqlite:///{tmp_path / name}" for name in ("source.db", "target.db"))
    fill(source)
    assert migrate(spark, source, target, is_dry=True).messages == 32
    assert not (tmp_path / "target.db").exists()
    with open_store(source), pytest.raises(LockHeld, match="master of the source: stop it first"):
        migrate(spark, source, target)
    with pytest.raises(ConfigurationError, match="the same store"):
        migrate(spark, source, source)
    with pytest.raises(ConfigurationError, match="or kahadb:DIRECTORY"):
        migrate(spark, source, str(tmp_path))
    with open_store(target) as adapter:
        adapter.queue_message_store(ORDERS).add_message(message(ORDERS)).result()
        with pytest.raises(ConfigurationError, match="not empty: ACTIVEMQ_MSGS has 1 rows"):
            migrate(spark, source, target)
        adapter.queue_message_store(ORDERS).remove_all_messages().result()
        with pytest.raises(LockHeld, match="master of the target"):
            migrate(spark, source, target)
    # Nothing of that has left a lock behind.
    engine = open_engine(target)
    with engine.connect() as connection:
        migrate(spark, source, target)
        row = connection.execute(text("SELECT BROKER_NAME FROM ACTIVEMQ_LOCK")).scalar()
    engine.dispose()
    assert row is None


def test_of_two_runs_at_once_the_older_one_writes_nothing(database_url: str) -> None:
    location = location_of(database_url)
    older = hold("a store", location)
    with pytest.raises(LockHeld, match="jdbcstore-migrate-"):
        hold("another store", location)
    newer = hold("a store", location)
    assert (older.is_resumed, newer.is_resumed) == (False, True)
    insert_one = "INSERT INTO {} (ID, CONTAINER) VALUES (1, 'queue://A')"
    with opened(location) as store:
        with pytest.raises(LeaseLost, match="another run"), store.transaction(older.fence):
            store.connection.exec_driver_sql(insert_one.format(store.statements.messages))
        with store.transaction(newer.fence):
            store.connection.exec_driver_sql(insert_one.format(store.statements.messages))
    release(newer)
    with pytest.raises(ConfigurationError, match="not empty"):
        hold("another store", location)


RUN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts us in the background lets us ignore it
from jdbcstore.migration import rows
rows._RANGE_ROWS_MAX = 50
from jdbcstore.cli import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.timeout(600)  # a start of Spark for each
@pytest.mark.parametrize(
    "signals",
    [[signal.SIGKILL], [signal.SIGINT, signal.SIGKILL]],
    ids=["killed", "interrupted and killed"],
)
@pytest.mark.exhaustive
def test_a_run_that_ends_early_is_gone_on_with(
    spark: SparkSession, tmp_path: Path, postgresql_url: str, signals: list[signal.Signals]
) -> None:
    source = f"sqlite:///{tmp_path / 'source.db'}"
    with open_store(source):
        pass
    engine = open_engine(source)
    with engine.begin() as connection:
        load(connection, Tables.on(connection, ""), 4_000, MSG=b"\x00" * 2000)
    engine.dispose()
    before = contents(source)

    counts = [0]
    for number in signals:
        process = begun(source, postgresql_url, more_than=counts[-1])
        os.kill(process.pid, number)
        _, told = process.communicate(timeout=60)
        assert process.returncode == (1 if number == signal.SIGINT else -number), told
        if number == signal.SIGINT:
            assert told.rstrip().endswith("interrupted")
            assert "Traceback" not in told
        counts.append(settled(postgresql_url))
        assert counts[-1] % 50 == 0  # nothing half committed
        assert counts[-2] < counts[-1] < 4_000
        with pytest.raises(LockHeld), open_store(f"{postgresql_url}?fail_if_locked=true"):
            pass
    done = migrate(spark, source, postgresql_url)
    assert (done.messages, done.is_resumed) == (4_000, True)
    assert contents(postgresql_url) == before
    with open_store(f"{postgresql_url}?fail_if_locked=true"):
        pass


def begun(source: str, target: str, *, more_than: int) -> subprocess.Popen[str]:
    """A migration in a process of its own that has copied something."""
    command = [sys.executable, "-c", RUN, "pipeline", "migrate", source, target, "--quiet"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: process.poll() is not None or count_of(target) > more_than, "something is copied")
    return process


def settled(url: str) -> int:
    """How many messages there are when the database has noticed that nobody writes any more."""
    others = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    wait_until(lambda: asked(url, others) == 0)
    return count_of(url)


def count_of(url: str) -> int:
    if asked(url, "SELECT COUNT(*) FROM pg_tables WHERE tablename = 'activemq_msgs'") == 0:
        return 0
    return asked(url, "SELECT COUNT(*) FROM activemq_msgs")


def asked(url: str, question: str) -> int:
    parts = make_url(url).translate_connect_args(username="user", database="dbname")
    with closing(psycopg2.connect(**parts)) as connection, connection.cursor() as cursor:
        cursor.execute(question)
        return int((cursor.fetchone() or (0,))[0])


@pytest.mark.parametrize("name", ["basic", "priorities", "expired"])
def test_from_a_journal(spark: SparkSession, tmp_path: Path, postgresql_url: str, name: str) -> None:
    (store,) = [one for one in unpack(name, tmp_path)["stores"] if one["kind"] != "scheduler"]
    directory = str(tmp_path / store["path"])
    expected = store["replay"]["destinations"]
    if store["replay"]["prepared"]:
        with pytest.raises(ConfigurationError, match="prepared transactions"):
            migrate(spark, directory, postgresql_url)
        return
    done = migrate(spark, directory, postgresql_url)
    counts = {name: len(found["messages"]) for name, found in expected.items() if found["messages"]}
    assert {name: found.messages for name, found in done.destinations.items()} == counts
    with looking_into_sql(postgresql_url) as adapter:
        for destination, found in expected.items():
            place = parse_destination(destination)
            prioritized = any(one["tier"] != "default" for one in found["messages"])
            if isinstance(place, Topic):
                topic = adapter.topic_message_store(place, prioritized=prioritized)
                for key, waiting in found.get("subscriptions", {}).items():
                    (info,) = [
                        i for i in topic.all_subscriptions() if f"{i.key.client_id}:{i.key.subscription_name}" == key
                    ]
                    assert topic.subscription_message_count(info.key) == len(waiting["recover_ids"])
            elif isinstance(place, Queue) and not prioritized:
                ids = [str(one.message_id) for one in adapter.queue_message_store(place).recover()]
                assert ids == [one["id"] for one in found["messages"]]


def test_a_damaged_journal_is_migrated_only_if_somebody_says_so(spark: SparkSession, tmp_path: Path) -> None:
    (store,) = [one for one in unpack("corrupt", tmp_path)["stores"] if one["kind"] != "scheduler"]
    directory, target = str(tmp_path / store["path"]), f"sqlite:///{tmp_path / 'target.db'}"
    with pytest.raises(JournalDamaged, match="--skip-damage"):
        migrate(spark, directory, target)
    assert not (tmp_path / "target.db").exists()
    try:
        done = migrate(spark, directory, target, skips_damage=True)
    except StoreError as error:
        raise AssertionError(str(error)) from error
    assert done.messages == sum(len(found["messages"]) for found in store["replay"]["destinations"].values())
