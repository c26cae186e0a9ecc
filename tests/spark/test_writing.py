"""Writing with Spark: what arrives, once, whatever fails."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from jdbcstore.config.urls import open_engine
from jdbcstore.store.jdbc.schema import upgrade_schema
from tests.sql.test_loads import one, stored
from tests.sql.test_writer import opened

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a file that is not there yet."""
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture(params=["postgresql_url", pytest.param("mariadb_url", marks=pytest.mark.exhaustive), "sqlite_url"])
def every_url(request: pytest.FixtureRequest) -> str:
    """A store with its tables, on three databases."""
    return prepared(request.getfixturevalue(request.param))


#: The jobs are the same on all databases: what each does with them is tested in `tests/sql/test_loads.py`.
@pytest.fixture(
    params=[
        "postgresql_url",
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("mariadb_url", "sqlite_url")),
    ]
)
def url(request: pytest.FixtureRequest) -> str:
    """A store with its tables, on PostgreSQL, and where there is time on the others."""
    return prepared(request.getfixturevalue(request.param))


@pytest.fixture
def postgresql_store(postgresql_url: str) -> str:
    """A store with its tables on PostgreSQL."""
    return prepared(postgresql_url)


def prepared(url: str) -> str:
    engine = open_engine(url)
    upgrade_schema(engine)
    engine.dispose()
    return url


def write(frame: DataFrame, url: str, **options: Any) -> None:
    frame.write.format("activemq").option("url", url).options(**options).mode("append").save()


def numbered(spark: SparkSession, count: int, parts: int = 4) -> DataFrame:
    """Messages to queue TEST whose ids end with their number."""
    frame = spark.range(0, count, 1, parts)
    return frame.select(
        sf.concat(sf.lit("ID:spark-1:1:1:"), sf.col("id")).alias("messageId"),
        sf.lit("queue://TEST").alias("topic"),
        sf.concat(sf.lit("message "), sf.col("id")).alias("text"),
    )


def count(url: str, table: str = "ACTIVEMQ_MSGS") -> int:
    engine = open_engine(url)
    try:
        return int(one(engine, f"SELECT COUNT(*) FROM {table}"))
    finally:
        engine.dispose()


AT = datetime(2026, 3, 4, 5, 6, 7, 8000)
TYPED = {"n": ("int", "7"), "long": ("long", "8"), "s": ("string", "ä"), "b": ("boolean", "true"), "x": ("null", None)}


def test_all_kinds_of_columns_come_back(spark: SparkSession, every_url: str) -> None:
    schema = (
        "key binary, topic string, timestamp timestamp, expiration timestamp, correlationId string, replyTo string,"
        " type string, persistent boolean, properties map<string, struct<type: string, value: string>>, kind string,"
        " text string, bytes binary, map map<string, struct<type: string, value: string>>, messageId string,"
        " groupSequence int"
    )
    rows = [
        (b"group", "queue://A", AT, AT.replace(year=2036), "c-1", "queue://REPLY", "order", True, TYPED, "text",
         "gr\u00fc\u00df \U0001f600\0", None, None, "ID:host-1:2:3:4", 5),
        (None, "topic://T", AT, None, None, None, None, None, None, "bytes", None, b"\0\xff", None, None, None),
        (None, "queue://A", None, None, None, None, None, None, {}, "map", None, None, TYPED, None, None),
        (None, None, None, None, None, None, None, None, None, None, None, None, None, None, None),
    ]  # fmt: skip
    write(spark.createDataFrame(rows, schema).coalesce(1), every_url, topic="queue://DEFAULT")
    names = (
        "topic,timestamp,expiration,correlationId,replyTo,type,persistent,properties,kind,text,bytes,map,messageId,key,"
        "groupSequence"
    )
    reader = spark.read.format("activemq").option("url", every_url).option("columns", f"offset,{names},message")
    found = reader.load()
    text, data, mapped, bare = found.orderBy("offset").collect()
    typed = {name: Row(type=kind, value=value) for name, (kind, value) in TYPED.items()}
    assert (bytes(text.key), text.topic, text.timestamp, text.expiration) == (
        b"group",
        "queue://A",
        AT,
        AT.replace(year=2036),
    )
    assert (text.correlationId, text.replyTo, text.type, text.groupSequence) == ("c-1", "queue://REPLY", "order", 5)
    assert (text.properties, text.kind, text.text) == (typed, "text", rows[0][10])
    assert text.messageId == "ID:host-1:2:3:4"
    assert (data.topic, data.kind, bytes(data.bytes), data.persistent) == ("topic://T", "bytes", b"\0\xff", True)
    assert (mapped.kind, mapped.map) == ("map", typed)
    assert abs((mapped.timestamp - datetime.now(UTC).replace(tzinfo=None)).total_seconds()) < 120
    assert (bare.topic, bare.kind) == ("queue://DEFAULT", "message")
    assert len({row.messageId for row in (data, mapped, bare)}) == 3

    # What was read is written elsewhere as it is: by its columns, and by its bytes.
    write(found.drop("message", "messageId"), every_url)
    write(found.select("message"), every_url, jobId="copy")
    write(found.select("message"), every_url, jobId="copy")
    assert count(every_url) == 12
    copies = reader.load().groupBy("topic", "kind", "text").count().collect()
    assert {row["count"] for row in copies} == {3}


def test_rows_that_differ_in_topic_and_body_only(spark: SparkSession, every_url: str) -> None:
    """They are brought in blocks, several of a batch."""
    rows = spark.range(0, 20_000, 1, 2).select(
        sf.concat(sf.lit("queue://TEST."), sf.col("id") % 3).alias("topic"),
        sf.concat(sf.lit("gr\u00fc\u00df" * 60), sf.col("id")).alias("text"),
    )
    write(rows, every_url)
    found = spark.read.format("activemq").option("url", every_url).load()
    assert sorted(found.select("topic", "text").collect()) == sorted(rows.collect())
    assert found.select("messageId").distinct().count() == 20_000


def test_a_row_in_a_block_that_a_store_does_not_take(spark: SparkSession, postgresql_store: str) -> None:
    rows = spark.range(0, 10, 1, 1).select(
        sf.lit("queue://TEST").alias("topic"), sf.repeat(sf.lit("x"), sf.col("id").cast("int") * 300).alias("text")
    )
    with pytest.raises(PySparkException, match=r"the message takes 2\d\d\d bytes, this store takes 2000 at most"):
        write(rows, f"{postgresql_store}?message_bytes_max=2000")
    assert count(postgresql_store) == 0


class Fails:
    """Passes batches on, and fails in part 1 before the last rows of it: the first time, or always."""

    def __init__(self, *, always: bool) -> None:
        self.always = always

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch.slice(0, 10)
            if context.partitionId() == 1 and (self.always or context.attemptNumber() == 0):
                raise OSError("the source has failed")
            yield batch.slice(10)


def test_a_task_that_fails_is_tried_again_and_nothing_is_there_twice(spark: SparkSession, url: str) -> None:
    frame = numbered(spark, 2000)
    write(frame.mapInArrow(Fails(always=False), frame.schema), url)
    assert stored(url) == [*range(2000)]


def test_a_job_that_fails_leaves_nothing_and_may_be_repeated(spark: SparkSession, url: str) -> None:
    frame = numbered(spark, 2000)
    with pytest.raises(PySparkException, match="the source has failed"):
        write(frame.mapInArrow(Fails(always=True), frame.schema), url, jobId="mine")
    for _ in range(2):
        write(frame, url, jobId="mine")
    assert stored(url) == [*range(2000)]


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        ({"colour": "'red'"}, {}, "column colour means nothing here"),
        ({"priority": "'high'"}, {}, "column priority has to be int, it is string"),
        ({"topic": "CAST(NULL AS STRING)"}, {}, "column topic is null in 1 rows"),
        ({"topic": "'queue://A,queue://B'"}, {}, "column topic"),
        ({"message": "CAST('x' AS BINARY)"}, {}, "column message: row 0 is no message"),
        ({"kind": "'blob'"}, {}, "column kind: 'blob' in row 0"),
        ({"messageId": "'x'"}, {}, "column messageId: 'x'"),
        ({}, {"topc": "queue://A"}, "did you mean topic"),
    ],
)
def test_what_cannot_be_written_is_told_in_a_line(
    spark: SparkSession, tmp_path: Path, columns: dict[str, str], options: dict[str, str], told: str
) -> None:
    url = prepared(f"sqlite:///{tmp_path}/store.db")
    frame = spark.range(1).selectExpr(
        *(f"{value} AS {name}" for name, value in ({"topic": "'queue://A'"} | columns).items())
    )
    with pytest.raises(PySparkException) as failed:
        write(frame, url, **options)
    assert told in str(failed.value)
    assert "Traceback" not in str(failed.value).split("SQLSTATE")[0].split("\n")[0]
    assert count(url) == 0


def test_beside_a_running_store_it_waits_and_says_so(spark: SparkSession, postgresql_store: str) -> None:
    with opened(postgresql_store) as (_, store):
        with pytest.raises(PySparkException, match="taken in when a broker of jdbcstore runs"):
            write(numbered(spark, 100), postgresql_store, jobId="later", commitTimeout="0s")
        assert store.message_count == 0
    write(numbered(spark, 100), postgresql_store, jobId="later")
    assert stored(postgresql_store) == [*range(100)]


def test_a_batch_of_a_stream_that_is_done_again_is_there_once(spark: SparkSession, url: str, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"

    def run() -> None:
        stream = (
            spark.readStream.schema(numbered(spark, 1).schema)
            .parquet(str(source))
            .writeStream.format("activemq")
            .option("url", url)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        stream.awaitTermination()

    numbered(spark, 500, 2).write.parquet(str(source))
    run()
    assert count(url) == 500
    # Spark dies after the commit of the store and before its own.
    for log in (checkpoint / "commits").glob("*0*"):
        log.unlink()
    run()
    assert count(url) == 500
    numbered(spark, 700, 1).where("text >= 'message 5' AND messageId LIKE '%:5__'").write.mode("append").parquet(
        str(source)
    )
    run()
    assert count(url) == 600
