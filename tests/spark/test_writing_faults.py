"""Writing with Spark when workers die at the worst moments, and when a broker is at work on the same store."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from jdbcstore.spark.options import WriteOptions
from jdbcstore.spark.source import ActiveMQDataSource
from jdbcstore.spark.writers import ActiveMQWriter
from tests.broker.client import Client
from tests.broker_process import BrokerProcess
from tests.spark.test_writing import count, numbered, prepared, write
from tests.sql.test_loads import stored
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(180)

COUNT = 2000
#: Partition 0 is this slow in a job of which another partition has failed.
LATE_S = 3.0


class KilledWriter(ActiveMQWriter):
    """Its worker is killed when the database has committed partition 1 and Spark has not heard of it."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        written = super().write(iterator)
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 1 and context.attemptNumber() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return written


class LateWriter(ActiveMQWriter):
    """Partition 1 fails for good while partition 0 has not written yet, and goes on although the job is over."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 1:
            raise OSError("the source has failed")
        if context.partitionId() == 0:
            time.sleep(LATE_S)
        return super().write(iterator)


class KilledSource(ActiveMQDataSource):
    """The sink with `KilledWriter`."""

    @classmethod
    def name(cls) -> str:
        return "killed"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return KilledWriter(WriteOptions.of(self.options), schema)


class LateSource(ActiveMQDataSource):
    """The sink with `LateWriter`."""

    @classmethod
    def name(cls) -> str:
        return "late"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return LateWriter(WriteOptions.of(self.options), schema)


def test_a_worker_that_is_killed_after_its_commit_writes_nothing_twice(
    spark: SparkSession, postgresql_url: str
) -> None:
    spark.dataSource.register(KilledSource)
    url = prepared(postgresql_url)
    numbered(spark, COUNT).write.format("killed").option("url", url).mode("append").save()
    assert stored(url) == [*range(COUNT)]


def test_a_task_that_outlives_its_job_writes_nothing(spark: SparkSession, postgresql_url: str) -> None:
    spark.dataSource.register(LateSource)
    url = prepared(postgresql_url)
    with pytest.raises(PySparkException, match="the source has failed"):
        numbered(spark, COUNT, 2).write.format("late").option("url", url).mode("append").save()
    tracker = spark.sparkContext.statusTracker()
    wait_until(lambda: not tracker.getActiveStageIds(), "Spark has let it go on", timeout_s=60)
    assert count(url) == 0
    write(numbered(spark, COUNT), url)
    assert stored(url) == [*range(COUNT)]


def test_beside_a_broker_that_is_at_work(spark: SparkSession, postgresql_url: str, tmp_path: Path) -> None:
    """A producer goes on sending, a consumer gets what both bring: each message once, the load's in their order."""
    url = prepared(postgresql_url)
    with BrokerProcess(url, tmp_path) as broker, Client(broker.address, timeout_s=90) as consumer:
        consumer.connect()
        consumer.subscribe("/queue/TEST", **{"activemq.prefetchSize": "100"})
        done = threading.Event()
        sent: list[str] = []

        def produce() -> None:
            with Client(broker.address, timeout_s=90) as producer:
                producer.connect()
                while not done.is_set():
                    text = f"between {len(sent)}"
                    producer.done("SEND", {"destination": "/queue/TEST"}, text)
                    sent.append(text)

        producing = threading.Thread(target=produce)
        producing.start()
        try:
            wait_until(lambda: sent)
            before = len(sent)
            write(numbered(spark, COUNT), url)
            during = len(sent) - before
        finally:
            done.set()
            producing.join()
        got = [consumer.message().text for _ in range(COUNT + len(sent))]
        assert consumer.is_silent()
    assert [text for text in got if text.startswith("message")] == [f"message {number}" for number in range(COUNT)]
    assert [text for text in got if text.startswith("between")] == sent
    assert during > 0  # nobody was kept waiting for the whole load
    assert count(url) == 0
