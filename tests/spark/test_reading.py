"""``spark.read.format("activemq")`` from end to end: columns, filters, offsets, errors."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSourceReader, InputPartition

from jdbcstore.destination import parse_destination
from jdbcstore.errors import ConfigurationError, SchemaMismatch
from jdbcstore.openwire import marshal
from jdbcstore.spark.batch_reader import ActiveMQReader, Slice
from jdbcstore.spark.columns import schema_of
from jdbcstore.spark.options import ReadOptions
from jdbcstore.testing import text_message
from tests.spark.test_scan import put, table

PUSHING = "spark.sql.python.filterPushdown.enabled"
#: Somewhen in milliseconds.
DUE_MS = 1_700_000_000_123
#: Id, container, producer, number, expiration, priority, xid.
ROWS: list[tuple[int, str, str | None, int | None, int | None, int | None, str | None]] = [
    (1, "queue://A", "ID:p-1:1:1:1", 1, 0, 0, None),
    (2, "queue://a", "ID:p-1:1:1:1", 2, DUE_MS, 4, None),
    (3, "queue://A", "ID:p-1:1:1:2", 1, DUE_MS + 1, 9, None),
    (1 << 40, "topic://A", "ID:p-1:1:1:2", -3, None, None, None),
    ((1 << 40) + 1, "queue://B", None, 5, -1, 4, None),
    ((1 << 40) + 2, "queue://A", "ID:p-1:1:1:1", 6, 0, 4, "+in doubt"),
]


def fill(url: str) -> None:
    """Our rows, with messages that say their ids."""
    with table(url) as (connection, tables):
        put(
            connection,
            tables,
            [
                (
                    id,
                    name,
                    producer,
                    number,
                    due,
                    marshal(text_message(1, str(id), destination=parse_destination(name))),
                    level,
                    xid,
                )
                for id, name, producer, number, due, level, xid in ROWS
            ],
        )


def reading(spark: SparkSession, url: str, **options: Any) -> DataFrame:
    reader = spark.read.format("activemq").option("url", url)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.offset for row in frame.select("offset").collect())


COLUMNS = "topic,offset,messageId,rowPriority,expiration"


def filters() -> list[tuple[Column, list[int]]]:
    """Filters, and whom they let through."""
    due = f.timestamp_micros(f.lit(DUE_MS * 1000 + 1))
    return [
        (f.col("topic").startswith("queue://") & (f.col("offset") > 1) & (f.col("topic") != "queue://B"), [2, 3]),
        (f.col("expiration").isNotNull() & (f.col("expiration") < due), [2]),
        (f.col("messageId").isin("ID:p-1:1:1:1:1", "ID:p-1:1:1:2:1", "none") & (f.col("rowPriority") < 9), [1]),
        (f.col("topic").isin("queue://a", "queue://B", "queue://'") | (f.col("offset") == 1), [1, 2, (1 << 40) + 1]),
    ]


@pytest.mark.parametrize("pushing", ["false", "true"])
def test_filters_find_the_same_rows_wherever_they_are_applied(
    spark: SparkSession, tmp_path: Path, pushing: str
) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    fill(url)
    given = filters()
    before = spark.conf.get(PUSHING, "false") or "false"
    spark.conf.set(PUSHING, pushing)
    try:
        # One query for all: each filter's rows are marked with its number.
        frames = [
            reading(spark, url, columns=COLUMNS).where(one).select("offset", f.lit(n).alias("n"))
            for n, (one, _) in enumerate(given)
        ]
        union = frames[0]
        for frame in frames[1:]:
            union = union.unionAll(frame)
        found = [(row.n, row.offset) for row in union.collect()]
    finally:
        spark.conf.set(PUSHING, before)
    for number, (one, expected) in enumerate(given):
        assert sorted(id for n, id in found if n == number) == expected, one


def test_filters_reach_the_database(spark: SparkSession, tmp_path: Path) -> None:
    """What the database has left out the messages of which cannot be decoded is not seen to be broken."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with table(url) as (connection, tables):
        put(connection, tables, [(1, "queue://A", "p", 1, 0, b"broken", 0, None)])
        put(connection, tables, [(2, "queue://B", "p", 1, 0, marshal(text_message(1, "x")), 5, None)])
    frame = reading(spark, url, onCorrupt="fail", columns="topic,rowPriority,text")
    spark.conf.set(PUSHING, "true")
    assert [row.text for row in frame.where("topic = 'queue://B' and rowPriority >= 5").collect()] == ["x"]


def test_what_is_asked_for_is_read(spark: SparkSession, database_url: str) -> None:
    fill(database_url)
    everything = reading(spark, database_url)
    rows = {row.offset: row for row in everything.collect()}
    assert sorted(rows) == [1, 2, 3, 1 << 40, (1 << 40) + 1]
    assert {row.text for row in rows.values()} == {str(id) for id in rows}
    assert rows[2].topic == "queue://a"
    assert rows[2].messageId == "ID:p-1:1:1:1:2"
    assert rows[2].priority == 4

    def of(**options: Any) -> list[int]:
        reader = ActiveMQReader(ReadOptions.of({"url": database_url, **options}), schema_of(["offset"]))
        reader = pickle.loads(pickle.dumps(reader))
        parts = reader.partitions()
        assert isinstance(parts, list)  # Spark takes nothing else
        batches = [batch for part in parts for batch in reader.read(pickle.loads(pickle.dumps(part)))]
        return sorted(id for batch in batches for id in batch.column("offset").to_pylist())

    assert of(subscribe="queue://A,topic://A") == [1, 3, 1 << 40]
    assert of(subscribePattern="queue://[Aa]") == [1, 2, 3]
    assert of(subscribePattern="queue://") == []
    assert of(subscribe="queue://A", includePrepared="true") == [1, 3, (1 << 40) + 2]
    assert of(startingOffsets="2", endingOffsets=str(1 << 40)) == [2, 3]
    assert of(startingOffsets='{"queue://A": 2, "queue://a": -2}', endingOffsets='{"topic://A": 5}') == [
        2, 3, (1 << 40) + 1
    ]  # fmt: skip
    assert of(startingOffsets=str(1 << 50)) == []


def test_an_empty_store_is_read(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with table(url):
        assert reading(spark, url).count() == 0
    reader = ActiveMQReader(ReadOptions.of({"url": url}), schema_of(["offset"]))
    assert list(reader.partitions()) == []
    assert list(reader.read(InputPartition(None))) == []


def test_errors_come_early_and_in_one_line(spark: SparkSession, sql_server_url: str) -> None:
    reader = ActiveMQReader(ReadOptions.of({"url": sql_server_url}), schema_of(["offset"]))
    with pytest.raises(SchemaMismatch, match=r"there is no table ACTIVEMQ_MSGS; check the database and tablePrefix$"):
        reader.partitions()
    with pytest.raises(AnalysisException, match="there is no table") as caught:
        reading(spark, sql_server_url).count()
    assert ":jdbcstore@" not in str(caught.value)  # the password of the test servers
    for options, said in (
        ({"startingOffsets": "latest"}, "startingOffsets must not be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets must not be earliest"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            ActiveMQReader(ReadOptions.of({"url": sql_server_url, **options}), schema_of(["offset"]))


def test_no_password_is_shown(tmp_path: Path) -> None:
    options = ReadOptions.of({"url": "postgresql://u:s3cret@localhost/d"})
    reader = ActiveMQReader(options, schema_of(["offset"]))
    assert "s3cret" not in repr(options)
    assert "s3cret" not in repr(reader)


def test_spark_still_looks_for_the_class_of_push_filters() -> None:
    """By this Spark decides whether a reader pushes filters, and refuses to read while that is off."""
    reader = ActiveMQReader(ReadOptions.of({"url": "sqlite:///x.db"}), schema_of(["offset"]))
    assert getattr(reader.pushFilters, "__func__") is DataSourceReader.pushFilters  # noqa: B009  # of no type
    assert Slice.__mro__[1] is InputPartition
