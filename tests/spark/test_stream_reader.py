"""The stream reader without Spark: asked what Spark asks it, in Spark's order, on real databases."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from sqlalchemy import Connection, make_url, text

from jdbcstore.config.urls import open_store, store_options
from jdbcstore.errors import ConfigurationError, LeaseLost, LockHeld, StoreError
from jdbcstore.spark import consumer
from jdbcstore.spark.columns import schema_of
from jdbcstore.spark.consumer import Consumer
from jdbcstore.spark.offsets import GAPS_MAX
from jdbcstore.spark.options import ReadOptions
from jdbcstore.spark.stream_reader import ActiveMQStreamReader
from jdbcstore.store.jdbc.bulk_load import BulkLoad, LoadRow
from jdbcstore.store.jdbc.dialect import dialect_for
from jdbcstore.store.jdbc.statements import Statements
from tests.servers.postgresql import PostgreSQLServer
from tests.servers.server import DatabaseServer
from tests.spark.rows import insert, marshalled, open_tables

ALL = ReadAllAvailable()
#: What is the same on every database is tried on one.
on_postgresql = pytest.mark.parametrize("database_url", ["postgresql15"], indirect=True)


@contextmanager
def reader_of(url: str, **options: str) -> Iterator[ActiveMQStreamReader]:
    read = ReadOptions.of({"url": url, "subscribe": "queue://A", "columns": "offset", **options})
    reader = ActiveMQStreamReader(read, schema_of(read.columns))
    try:
        yield reader
    finally:
        reader.stop()


def read(reader: ActiveMQStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """The ids of a batch, each task in a copy of the reader."""
    found: list[int] = []
    for partition in reader.partitions(start, end):
        copy = pickle.loads(pickle.dumps(reader))
        for batch in copy.read(pickle.loads(pickle.dumps(partition))):
            found += batch.column("offset").to_pylist()
    return found


def step(
    reader: ActiveMQStreamReader, start: dict[str, Any], limit: ReadLimit = ALL
) -> tuple[list[int], dict[str, Any]]:
    """The next batch, and where it ends."""
    end = json.loads(json.dumps(reader.latestOffset(start, limit)))
    return ([] if end == start else sorted(read(reader, start, end))), end


@pytest.fixture
def url(database_url: str) -> str:
    return database_url


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    engine = open_tables(url)
    with engine.connect() as opened:
        yield opened
    engine.dispose()


def ids(connection: Connection) -> list[int]:
    return list(connection.execute(text("SELECT ID FROM ACTIVEMQ_MSGS ORDER BY ID")).scalars())


def test_what_appears_late_and_elsewhere(connection: Connection, url: str) -> None:
    far = 1 << 40
    with reader_of(url, subscribePattern="queue://[AB]%?", subscribe="", numPartitions="3") as reader:
        insert(connection, [1, 2, 6, 7, 8, 9, far])
        insert(connection, [5], "queue://B%")
        insert(connection, [10], "queue://C")
        first = reader.initialOffset()
        start = reader.latestOffset(first, ALL)
        insert(connection, [3])  # has appeared when the tasks read, and is of the next batch
        assert sorted(read(reader, first, start)) == [1, 2, 5, 6, 7, 8, 9, far]
        assert start["gaps"] == [[3, 4], [11, far - 1]]
        insert(connection, [far - 7, far - 5, far + 1])
        insert(connection, [4], "queue://C")
        end = reader.latestOffset(start, ALL)
        insert(connection, [far - 6])
        assert sorted(read(reader, start, end)) == [3, far - 7, far - 5, far + 1]
        assert step(reader, end)[0] == [far - 6]
        assert read(reader, start, end) == [3, far - 7, far - 5, far + 1]


def test_where_a_stream_begins(connection: Connection, url: str) -> None:
    insert(connection, [1, 2, 5])
    insert(connection, [4, 6], "queue://B")
    with reader_of(url, startingOffsets="latest") as reader:
        first = reader.initialOffset()
        insert(connection, [3, 7])  # what is committed from now on
        assert reader.initialOffset() == first
        assert step(reader, first)[0] == [3, 7]
    with reader_of(url, startingOffsets="5") as reader:
        assert step(reader, reader.initialOffset())[0] == [5, 7]
    floors = json.dumps({"queue://A": 3, "queue://B": -1})
    with reader_of(url, subscribe="queue://A,queue://B", startingOffsets=floors) as reader:
        found, end = step(reader, reader.initialOffset(), ReadMaxRows(2))
        assert (found, end["rows"]) == ([3, 5], 2)
        insert(connection, [8], "queue://B")
        assert step(reader, end)[0] == [7, 8]


@on_postgresql
def test_messages_that_are_gone_when_a_batch_is_done_again(
    connection: Connection, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    insert(connection, [1, 2, 3])
    with reader_of(url) as reader:
        first = reader.initialOffset()
        end = reader.latestOffset(first, ALL)
        connection.execute(text("DELETE FROM ACTIVEMQ_MSGS WHERE ID < 3"))
        assert read(reader, first, end) == [3]
    assert not caplog.messages  # they were acknowledged before they were read
    with reader_of(url) as reader:
        assert read(reader, first, end) == [3]
    assert "2 of 3 messages of a batch that is done again are gone" in caplog.text
    with (
        reader_of(url, failOnDataLoss="true") as reader,
        pytest.raises(StoreError, match="stops because of failOnDataLoss=true"),
    ):
        reader.partitions(first, end)
    connection.execute(text("DELETE FROM ACTIVEMQ_MSGS"))
    insert(connection, [1, 2, 3, 4], producer="ID:another-1:1:1")
    with reader_of(url) as reader:
        assert step(reader, end)[0] == [1, 2, 3, 4]
    assert "begun to number messages again" in caplog.text


def test_messages_of_a_load_come_when_all_of_it_is_there(connection: Connection, url: str) -> None:
    def part(first: int) -> list[LoadRow]:
        return [("ID:load-1:1:1", id, "queue://A", 0, 0, marshalled(id)) for id in range(first, first + 3)]

    insert(connection, [1, 3])
    load = BulkLoad(*store_options(url), "job")
    load.begin()
    with reader_of(url) as reader:
        load.write_part(1, part(4))
        found, start = step(reader, reader.initialOffset())
        assert found == [1, 3]
        assert reader.latestOffset(start, ALL) == start
        load.write_part(0, part(1))
        assert reader.latestOffset(start, ALL) == start
        load.commit()
        found, start = step(reader, start)
        assert found == ids(connection)[2:]
        assert len(found) == 6
        assert len(start["gaps"]) == 2


@on_postgresql
def test_a_run_until_now_waits_for_room_and_ends(connection: Connection, url: str) -> None:
    insert(connection, range(2, 1400, 2))
    with reader_of(url, settleDelay="2 s") as reader:
        reader.prepareForTriggerAvailableNow()
        insert(connection, [1400])  # too late for this run
        first = reader.initialOffset()
        one = reader.latestOffset(first, ALL)
        two = reader.latestOffset(one, ALL)  # takes until there is room
        assert reader.latestOffset(two, ALL) == two
        found = read(reader, first, one) + read(reader, one, two)
    assert (len(one["gaps"]), two["gaps"], found) == (GAPS_MAX, [], list(range(2, 1400, 2)))


class StartsServer(logging.Handler):
    """Starts the server again as soon as the stream says that it is away."""

    def __init__(self, server: DatabaseServer) -> None:
        super().__init__()
        self._server = server
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())
        if "trying again" in record.getMessage():
            self._server.start()


def test_an_outage_between_and_during_batches(restartable_postgresql: PostgreSQLServer) -> None:
    server = restartable_postgresql
    server.create_database("store")
    url = server.url("store")
    engine = open_tables(url)
    with engine.connect() as connection:
        insert(connection, range(1, 601), size=20_000)
    engine.dispose()
    starter = StartsServer(server)
    log = logging.getLogger("jdbcstore.spark.stream_reader")
    log.addHandler(starter)
    try:
        with reader_of(url, batchBytes="65536", driver="psycopg2", numPartitions="1", columns="offset,text") as reader:
            first = reader.initialOffset()
            reader.prepareForTriggerAvailableNow()
            server.kill()
            end = reader.latestOffset(first, ALL)
            (partition,) = reader.partitions(first, end)
            batches = reader.read(partition)
            found = next(batches).column("offset").to_pylist()
            server.kill()
            for batch in batches:
                found += batch.column("offset").to_pylist()
    finally:
        log.removeHandler(starter)
    assert found == list(range(1, 601))
    assert [line.split(" error=")[0] for line in starter.told if "trying" in line] == [
        "the database cannot be asked, trying again for 120 s",
        "the database cannot be read, trying again for 120 s",
    ]
    assert len(starter.told) == 4
    assert f":{make_url(url).password}@" not in "".join(starter.told)


# -- taking messages out -----------------------------------------------------------------------------------------------


def consumer_of(url: str, **options: str) -> AbstractContextManager[ActiveMQStreamReader]:
    return reader_of(url, **{"mode": "consume", **options})


def test_what_is_committed_is_removed_and_nothing_else(connection: Connection, url: str) -> None:
    insert(connection, [1, 2, 3, 7])
    insert(connection, [4], "queue://a")  # another one, also where a collation does not tell
    insert(connection, [5], "topic://A")
    insert(connection, [6], xid=b"\x01prepared")
    with consumer_of(url) as reader:
        first = reader.initialOffset()
        one = reader.latestOffset(first, ReadMaxRows(2))
        assert read(reader, first, one) == [1, 2]
        assert ids(connection) == [1, 2, 3, 4, 5, 6, 7]
        two = reader.latestOffset(one, ALL)  # says that the first is committed
        assert ids(connection) == [3, 4, 5, 6, 7]
        reader.commit(one)
        assert read(reader, one, two) == [3, 7]
        reader.commit(two)
        assert ids(connection) == [4, 5, 6]
        insert(connection, [7])
        found, three = step(reader, two)
        reader.commit(three)
        assert (found, ids(connection)) == ([7], [4, 5, 6])


@on_postgresql
def test_a_stream_that_was_replaced_removes_nothing(connection: Connection, url: str) -> None:
    insert(connection, [1, 2])
    with consumer_of(url) as reader:
        end = reader.latestOffset(reader.initialOffset(), ALL)
        # It sleeps until somebody else is master.
        connection.execute(text("UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = 'another', TIME = TIME + 60000"))
        connection.execute(text("UPDATE JDBCSTORE_TERM SET TERM = TERM + 1, HOLDER = 'another'"))
        with pytest.raises(LeaseLost):
            reader.commit(end)
    assert ids(connection) == [1, 2]


@on_postgresql
def test_without_a_subscription_all_queues_are_emptied(connection: Connection, url: str) -> None:
    for id, container in enumerate(("queue://A", "topic://A", "queue://a", "queue://B", "temp-queue://C"), 1):
        insert(connection, [id], container)
    with consumer_of(url, subscribe="") as reader:
        found, end = step(reader, reader.initialOffset())
        reader.commit(end)
    assert (found, ids(connection)) == ([1, 3, 4], [2, 5])


@on_postgresql
def test_only_one_takes_messages(connection: Connection, url: str) -> None:
    insert(connection, [1])
    told = r"is master .* which only one may do at a time"
    with open_store(url), consumer_of(url) as reader, pytest.raises(LockHeld, match=told):
        reader.latestOffset(reader.initialOffset(), ALL)
    with consumer_of(url) as reader:
        reader.latestOffset(reader.initialOffset(), ALL)
        with pytest.raises(LockHeld):
            open_store(url).start()


@on_postgresql
def test_a_lease_that_was_left_behind_is_waited_for(connection: Connection, url: str) -> None:
    insert(connection, [1])
    with consumer_of(url) as reader:
        reader.latestOffset(reader.initialOffset(), ALL)
    clock = connection.execute(text("SELECT TIME FROM ACTIVEMQ_LOCK")).scalar()
    assert clock == 0
    lease = Statements("", epoch_ms=dialect_for(connection.dialect.name).epoch_ms).clock.removeprefix("SELECT ")
    connection.execute(text(f"UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = 'killed', TIME = {lease} + 1500"))
    with consumer_of(url) as reader:
        assert step(reader, reader.initialOffset())[0] == [1]


def test_a_removal_is_made_up_for(connection: Connection, url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Spark has committed a batch, and the process dies before the batch is removed."""
    limit = ReadMaxRows(2)
    insert(connection, [1, 2, 3, 4])
    with consumer_of(url) as reader:
        one = reader.latestOffset(reader.initialOffset(), limit)
        two = reader.latestOffset(one, limit)
        assert ids(connection) == [3, 4]
    with consumer_of(url) as reader:
        assert read(reader, one, two) == [3, 4]
        assert ids(connection) == [3, 4]  # Spark does it again, so it is not committed
        assert reader.latestOffset(two, limit) == two
        assert ids(connection) == []
        insert(connection, [5, 6, 7])
        three = reader.latestOffset(two, limit)
    connection.execute(text("DELETE FROM ACTIVEMQ_MSGS WHERE ID = 5"))  # a broker has delivered it
    with consumer_of(url) as reader:
        found, four = step(reader, three)
        assert (found, ids(connection)) == ([7], [7])
    connection.execute(text("DELETE FROM ACTIVEMQ_MSGS"))  # a broker delivers them all, and begins anew
    insert(connection, [7, 8], producer="ID:another-1:1:1")
    assert not [told for told in caplog.messages if not told.startswith("replicas ")]  # the test servers force nothing
    with consumer_of(url) as reader, caplog.at_level(logging.INFO):
        assert step(reader, four)[0] == [7, 8]
    assert "taken for new ones messages=1" in caplog.text


@on_postgresql
def test_a_removal_that_dies_halfway_is_finished(
    connection: Connection, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(connection, range(1, 8))
    monkeypatch.setattr(consumer, "_PAGE_ROWS", 3)
    removed = Consumer._remove_rows

    def dies(self: Consumer, rows: Sequence[tuple[int, str]]) -> None:
        removed(self, rows)
        raise StoreError("killed")

    with consumer_of(url) as reader:
        one = reader.latestOffset(reader.initialOffset(), ALL)
        monkeypatch.setattr(Consumer, "_remove_rows", dies)
        with pytest.raises(StoreError, match="killed"):
            reader.commit(one)
    monkeypatch.undo()
    assert ids(connection) == [4, 5, 6, 7]
    with consumer_of(url) as reader:
        assert reader.latestOffset(one, ALL) == one
    assert ids(connection) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "topic://A"}, "mode=consume takes messages out of queues; topic://A is none"),
        ({"selector": "a = 1"}, "selector does not go with mode=consume"),
        ({"startingOffsets": "latest"}, "startingOffsets does not go with mode=consume"),
        ({"mode": "browse", "includePrepared": "true"}, "includePrepared is for batches"),
        ({"mode": "browse", "endingOffsets": "7"}, "endingOffsets is for batches"),
    ],
)
def test_options_that_streams_do_not_take(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message), consumer_of("sqlite:///nothing.db", **options):
        pass
