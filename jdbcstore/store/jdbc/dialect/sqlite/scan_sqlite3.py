"""SQLite with the standard library's driver, read-only."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote

import pyarrow as pa

from jdbcstore.store.jdbc.dialect.base.scan import TableScan
from jdbcstore.store.jdbc.dialect.base.scan_rows import batches_of

__all__ = ["batches"]


def batches(scan: TableScan) -> Iterator[pa.RecordBatch]:
    """The rows of a scan; see `jdbcstore.spark.scan.Scan.batches`."""
    file = f"file:{quote(scan.url.database or '')}?mode=ro"
    with closing(sqlite3.connect(file, uri=True, timeout=scan.options.query_timeout_s)) as connection:
        yield from batches_of(connection.execute(scan.statement), scan)
