"""A Spark application as a user writes it, for the cluster: copies one queue into another and tells who did the work.

It registers nothing: where the package is installed Spark finds the format by itself. Arguments: Spark's master, URL
of the store.
"""

from __future__ import annotations

import json
import sys

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit


def main(master: str, url: str) -> None:
    """Copy queue://A to queue://B and print one line of JSON."""
    spark = SparkSession.builder.master(master).config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    messages = (
        spark.read.format("activemq").option("url", url).option("subscribe", "queue://A").option("numPartitions", 4)
    )
    found = messages.option("columns", "offset,text,priority").load()
    copies = found.select(lit("queue://B").alias("topic"), "text", "priority")
    copies.write.format("activemq").option("url", url).mode("append").save()
    workers = found.rdd.mapPartitions(lambda rows: [(_executor(), sum(1 for _ in rows))]).collect()
    count = messages.option("columns", "topic,text,priority").option("subscribe", "queue://B").load().count()
    print(json.dumps({"copied": count, "read": workers}))
    spark.stop()


def _executor() -> str:
    """The folder in which this task runs: each executor has its own."""
    import os

    assert TaskContext.get() is not None
    return os.getcwd()


if __name__ == "__main__":
    main(*sys.argv[1:])
