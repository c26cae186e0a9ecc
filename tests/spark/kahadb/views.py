"""The views of a directory as lists of rows, without a Spark session: readers are called as Spark calls them."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa

from jdbcstore.spark.columns import arrow_schema
from jdbcstore.spark.kahadb.source import KahaDBDataSource


def table(path: object, **options: object) -> pa.Table:
    """All rows, in the order of the tasks."""
    given = {"path": str(path)} | {name: str(value) for name, value in options.items()}
    source = KahaDBDataSource(given)
    schema = source.schema()
    reader = pickle.loads(pickle.dumps(source.reader(schema)))
    parts = pickle.loads(pickle.dumps(reader.partitions()))
    batches = [batch for part in parts for batch in reader.read(part)]
    assert all(batch.schema.equals(arrow_schema(schema)) for batch in batches)
    return pa.Table.from_batches(batches, arrow_schema(schema))


def rows(path: object, **options: object) -> list[dict[str, Any]]:
    """The same as dictionaries."""
    found: list[dict[str, Any]] = table(path, **options).to_pylist()
    return found
