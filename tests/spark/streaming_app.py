"""A Spark application that writes a stream to Parquet until it is killed.

``python -m tests.spark.streaming_app FOLDER OPTION=VALUE…``; output and checkpoint are in the folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from jdbcstore.spark import register


def main(folder: Path, options: dict[str, str]) -> None:
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.local.dir", str(folder / "local"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    query = (
        register(session)
        .readStream.format("activemq")
        .options(**options)
        .load()
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), dict(option.split("=", 1) for option in sys.argv[2:]))
