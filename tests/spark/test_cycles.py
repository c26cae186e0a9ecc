"""What a worker has imported is searched for cycles once, not behind each of its tasks."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from jdbcstore.config.urls import open_store, store_options
from jdbcstore.spark.cycles import modules_aside, put_aside
from jdbcstore.spark.scan import Scan
from jdbcstore.spark.source import ActiveMQDataSource
from jdbcstore.spark.stream_reader import StreamSlice
from tests.spark.test_reading import ROWS, fill

#: Modules have a hundred thousand.
FEW_OBJECTS = 5_000


def read_rows(url: str) -> int:
    source = ActiveMQDataSource({"url": url})
    reader: Any = source.reader(source.schema())
    return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))


def read_stream(url: str) -> int:
    source = ActiveMQDataSource({"url": url, "columns": "offset"})
    part = StreamSlice((Scan(store_options(url)[0], ("ID",)),), (), ())
    reader: Any = source.streamReader(source.schema())
    return sum(batch.num_rows for batch in reader.read(part))


def write_rows(url: str) -> int:
    batch = pa.RecordBatch.from_pydict({"topic": ["queue://WRITTEN"], "text": ["one"]})
    writer: Any = ActiveMQDataSource({"url": url}).writer(from_arrow_schema(batch.schema), overwrite=False)
    rows: int = writer.write(iter([batch])).rows
    return rows


def in_worker(task: Callable[[str], int], url: str) -> tuple[int, int, int]:
    """What the task counts, and how many objects a search for cycles looks at before it and behind it."""
    put_aside.cache_clear()  # this worker is as a new one
    gc.unfreeze()
    before = len(gc.get_objects())
    counted = task(url)
    return counted, before, len(gc.get_objects())


def check(spark: SparkSession, task: Callable[[str], int], url: str, rows: int) -> None:
    """Let a task be done in a worker of Spark's."""
    ((counted, before, behind),) = spark.sparkContext.parallelize([url], 1).map(partial(in_worker, task)).collect()
    assert counted == rows
    assert behind < FEW_OBJECTS < before


@pytest.mark.parametrize(("task", "rows"), [(read_rows, len(ROWS) - 1), (read_stream, len(ROWS))])
def test_modules_are_aside_behind_a_read(
    spark: SparkSession, tmp_path: Path, task: Callable[[str], int], rows: int
) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    fill(url)
    check(spark, task, url, rows)


def test_modules_are_aside_behind_a_write(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with open_store(url):
        pass  # makes the tables
    check(spark, write_rows, url, 1)


def test_a_process_that_is_no_worker_is_left_alone() -> None:
    put_aside.cache_clear()
    frozen = gc.get_freeze_count()
    with modules_aside():
        pass
    assert gc.get_freeze_count() == frozen
