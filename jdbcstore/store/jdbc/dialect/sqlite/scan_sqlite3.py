"""SQLite with the standard library's driver, read-only."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote

import pyarrow as pa

from jdbcstore.store.jdbc.dialect.base.scan import TableScan
from jdbcstore.store.jdbc.dialect.base.scan_rows import batches_of
from jdbcstore.store.jdbc.dialect.sqlite.session import SQLiteDialect

__all__ = ["batches"]


def batches(scan: TableScan) -> Iterator[pa.RecordBatch]:
    """The rows of a scan; see `jdbcstore.spark.scan.Scan.batches`."""
    url = SQLiteDialect.for_reading(scan.url)
    how = "immutable=1" if "immutable" in url.query else f"mode={url.query.get('mode', 'rw')}"
    file = f"file:{quote(SQLiteDialect.file_of(url))}?{how}"
    with closing(sqlite3.connect(file, uri=True, timeout=scan.options.query_timeout_s)) as connection:
        yield from batches_of(connection.execute(scan.statement), scan)
