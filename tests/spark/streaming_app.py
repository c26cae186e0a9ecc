"""A Spark application that writes a stream to Parquet until it is killed.

``python -m tests.spark.streaming_app FOLDER OPTION=VALUE…``; output and checkpoint are in the folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from jdbcstore.spark import register

#: What Spark says if its Python did not start in ten seconds, which no setting makes longer.
_TOO_SLOW = "Python worker failed to connect back"


def run_to_its_end(stream: DataStreamWriter) -> StreamingQuery:
    """Run a stream; on a machine that is too busy to start Python in time, again."""
    while True:
        query = stream.start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if _TOO_SLOW not in str(error):
                raise
        else:
            return query


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
    stream = (
        register(session)
        .readStream.format("activemq")
        .options(**options)
        .load()
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="100 milliseconds")
    )
    run_to_its_end(stream)


if __name__ == "__main__":
    main(Path(sys.argv[1]), dict(option.split("=", 1) for option in sys.argv[2:]))
