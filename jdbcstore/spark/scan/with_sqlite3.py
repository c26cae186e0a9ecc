"""SQLite with the standard library's driver, read-only."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa

if TYPE_CHECKING:
    from jdbcstore.spark.scan import Scan

__all__ = ["batches"]

#: What a row counts besides its bytes and texts.
_ROW_BYTES = 64


def batches(scan: Scan) -> Iterator[pa.RecordBatch]:
    """The rows of a scan; see `Scan.batches`."""
    file = f"file:{quote(scan.url.database or '')}?mode=ro"
    with closing(sqlite3.connect(file, uri=True, timeout=scan.options.query_timeout_s)) as connection:
        rows: list[tuple[Any, ...]] = []
        size = 0
        for row in connection.execute(scan.statement):
            length = _ROW_BYTES + sum(len(value) for value in row if isinstance(value, bytes | str))
            if rows and size + length > scan.batch_bytes:
                yield _batch(rows, scan.schema)
                rows, size = [], 0
            rows.append(row)
            size += length
        if rows:
            yield _batch(rows, scan.schema)


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
