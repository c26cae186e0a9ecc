"""Streams as Spark runs them: batches of the right size, gaps that wait, messages that are taken out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader
from sqlalchemy import Engine, text

from jdbcstore.config.urls import open_store
from tests.spark.rows import insert, open_tables
from tests.spark.streaming_app import run_to_its_end

PASSWORD = "open-sesame"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    opened = open_tables(url)
    yield opened
    opened.dispose()


def reading(spark: SparkSession, url: str, **options: object) -> DataStreamReader:
    given = {name: str(value) for name, value in options.items()}
    return spark.readStream.format("activemq").option("url", url).options(**given)


def drained(stream: DataStreamReader, folder: Path) -> StreamingQuery:
    """Run a stream until it has read everything; its messages are in ``folder/out``."""
    return run_to_its_end(
        stream.load()
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
    )


def sizes(query: StreamingQuery) -> list[int]:
    return [progress["numInputRows"] for progress in query.recentProgress]


def texts(spark: SparkSession, folder: Path) -> list[int]:
    return sorted(int(row.text) for row in spark.read.parquet(str(folder / "out")).select("text").collect())


def test_batches_of_exactly_the_size_that_was_asked_for(
    spark: SparkSession, url: str, engine: Engine, tmp_path: Path
) -> None:
    with engine.connect() as connection:
        insert(connection, range(1, 12))
        insert(connection, range(12, 40), "topic://B")
        insert(connection, [40, 42, 43])
        insert(connection, [41], xid=b"\x01prepared")
    stream = reading(
        spark, url, subscribe="queue://A", maxOffsetsPerTrigger=5, settleDelay="1 h", columns="offset,text"
    )
    assert sizes(drained(stream, tmp_path)) == [5, 5, 4]
    assert texts(spark, tmp_path) == [*range(1, 12), 40, 42, 43]
    with engine.connect() as connection:
        connection.execute(text("UPDATE ACTIVEMQ_MSGS SET XID = NULL WHERE ID = 41"))
        insert(connection, range(44, 49))
    assert sizes(drained(stream, tmp_path)) == [5, 1]
    assert texts(spark, tmp_path) == [*range(1, 12), *range(40, 49)]
    offsets = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    assert json.loads(offsets[-1].read_text().splitlines()[-1])["gaps"] == []


# -- taking messages out -----------------------------------------------------------------------------------------------


@pytest.fixture
def store(postgresql_url: str) -> Iterator[Engine]:
    opened = open_tables(postgresql_url)
    yield opened
    opened.dispose()


def ids(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT ID FROM ACTIVEMQ_MSGS ORDER BY ID")).scalars())


def consuming(spark: SparkSession, url: str, **options: object) -> DataStreamReader:
    return reading(spark, url, mode="consume", subscribe="queue://A", columns="offset,text", **options)


def test_what_a_batch_has_read_is_removed_once_it_is_committed(
    spark: SparkSession, postgresql_url: str, store: Engine, tmp_path: Path
) -> None:
    with store.connect() as connection:
        insert(connection, [2, 3, 7, 8, 9])
        insert(connection, [4, 10], "queue://B")
        insert(connection, [5], "topic://A")
        insert(connection, [6], xid=b"\x01prepared")
    stream = consuming(spark, postgresql_url, maxOffsetsPerTrigger=2, password=PASSWORD)
    query = drained(stream, tmp_path)
    assert sizes(query) == [2, 2, 1]
    assert texts(spark, tmp_path) == [2, 3, 7, 8, 9]
    assert ids(store) == [4, 5, 6, 10]
    with store.connect() as connection:  # a broker begins behind the highest id that is left
        connection.execute(text("DELETE FROM ACTIVEMQ_MSGS WHERE ID = 10"))
        insert(connection, [7, 8, 11])
    drained(stream, tmp_path)
    assert texts(spark, tmp_path) == [2, 3, 7, 7, 8, 8, 9, 11]
    assert ids(store) == [4, 5, 6]

    kept = [file.read_bytes() for file in (tmp_path / "checkpoint").rglob("*") if file.is_file()]
    assert len(kept) > 10
    assert not any(PASSWORD.encode() in content for content in kept)
    assert PASSWORD not in json.dumps([progress.json for progress in query.recentProgress])
    assert PASSWORD not in stream.load()._jdf.queryExecution().toString()


@pytest.mark.exhaustive  # `test_stream_reader.py` shows it without Spark
def test_messages_are_not_taken_beside_a_broker(
    spark: SparkSession, postgresql_url: str, store: Engine, tmp_path: Path
) -> None:
    with store.connect() as connection:
        insert(connection, [1, 2])
    broker = open_store(postgresql_url)
    with broker, pytest.raises(StreamingQueryException, match=r"LockHeld: .* is master .* only one may do at a time"):
        drained(consuming(spark, postgresql_url), tmp_path)
    assert ids(store) == [1, 2]
    drained(consuming(spark, postgresql_url), tmp_path)
    assert ids(store) == []
