"""Rows of any driver as Arrow batches: each value is a Python object on the way, which is not fast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from jdbcstore.store.jdbc.dialect.base.scan import TableScan

__all__ = ["batches", "batches_of"]

#: What a row counts besides its bytes and texts.
_ROW_BYTES: Final = 64


def batches(scan: TableScan) -> Iterator[pa.RecordBatch]:
    """The rows of a scan by SQLAlchemy; see `jdbcstore.spark.scan.Scan.batches`."""
    with scan.connection() as connection:
        rows = connection.execution_options(stream_results=True).exec_driver_sql(scan.statement)
        yield from batches_of(rows, scan)


def batches_of(rows: Iterable[Any], scan: TableScan) -> Iterator[pa.RecordBatch]:
    """Rows in batches of about `TableScan.batch_bytes`."""
    waiting: list[Any] = []
    size = 0
    for row in rows:
        length = _ROW_BYTES + sum(len(value) for value in row if isinstance(value, bytes | str))
        if waiting and size + length > scan.batch_bytes:
            yield _batch(waiting, scan.schema)
            waiting, size = [], 0
        waiting.append(row)
        size += length
    if waiting:
        yield _batch(waiting, scan.schema)


def _batch(rows: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
