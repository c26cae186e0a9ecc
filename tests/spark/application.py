"""A Spark application as a user writes it, for the cluster: copies one queue into another and tells who did the work.

It registers nothing: where the package is installed Spark finds the format by itself. Arguments: Spark's master, URL
of the store, a file, a folder.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

WAIT_S: Final = 60.0


def main(master: str, url: str, marker: str, meeting: str) -> None:
    """Copy queue://A to queue://B and print one line of JSON.

    Args:
        master: Spark's.
        url: of the store.
        marker: a file that is made when a second attempt begins beside the first.
        meeting: an empty folder, in which the executors wait for each other.
    """
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.speculation": "true",
        "spark.speculation.efficiency.enabled": "false",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.25",
        "spark.speculation.minTaskRuntime": "100ms",
    }
    spark = SparkSession.builder.master(master).config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    wait_for_executors(spark, 2)
    messages = (
        spark.read.format("activemq").option("url", url).option("subscribe", "queue://A").option("numPartitions", 4)
    )
    found = messages.option("columns", "offset,text,priority").load()
    copies = found.select(lit("queue://B").alias("topic"), "text", "priority")
    copies = copies.mapInArrow(partial(_slowly, marker), copies.schema)
    copies.write.format("activemq").option("url", url).mode("append").save()
    workers = found.rdd.mapPartitions(partial(_counted, meeting)).collect()
    count = messages.option("columns", "topic,text,priority").option("subscribe", "queue://B").load().count()
    print(json.dumps({"copied": count, "read": workers}))
    spark.stop()


def wait_for_executors(spark: SparkSession, count: int) -> None:
    """Spark begins with the first executor: no second attempt is made while there is no other one."""
    java = spark.sparkContext._jsc
    assert java is not None
    until = time.monotonic() + WAIT_S
    while len(java.sc().statusTracker().getExecutorInfos()) <= count and time.monotonic() < until:  # and the driver
        time.sleep(0.1)


def _slowly(marker: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first attempt at partition 0 takes until Spark has begun another one beside it."""
    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() > 0:
        Path(marker).touch()
    for batch in batches:
        yield batch.slice(0, 1)
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            until = time.monotonic() + WAIT_S
            while not Path(marker).exists() and time.monotonic() < until:
                time.sleep(0.1)
        yield batch.slice(1)


def _counted(meeting: str, rows: Iterable[object]) -> list[tuple[str, int]]:
    """The folder in which this task runs, each executor has its own, and how many rows it has read.

    One executor could do all before the other one begins, so whoever has a task waits for the other one's first.
    """
    executor = os.getcwd()
    (Path(meeting) / executor.replace("/", "_")).touch()
    until = time.monotonic() + WAIT_S
    while len(os.listdir(meeting)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    return [(executor, sum(1 for _ in rows))]


if __name__ == "__main__":
    main(*sys.argv[1:])
