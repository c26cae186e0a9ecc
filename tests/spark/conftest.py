"""One Spark session for all tests of a worker: `local[2,2]`, since plain `local[2]` never tries a task again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jdbcstore.spark import register
from tests.spark.java_options import BRIEF_LIFE
from tests.spark.python_workers import write_launcher

# For every Spark that a test starts, also in processes of its own, and for the program that finds out how to start it.
os.environ.setdefault("SPARK_SUBMIT_OPTS", BRIEF_LIFE)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", BRIEF_LIFE)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with both formats registered and filters pushed down."""
    folder: Path = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = str(write_launcher(folder))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master("local[2,2]")
        .appName("jdbcstore tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.codegen.wholeStage", "false")  # to compile a query takes longer than to run it
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={folder}")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield register(session)
    session.stop()
