"""PostgreSQL with ADBC, which reads binary COPY into Arrow batches in C++."""

from __future__ import annotations

from collections.abc import Iterator

import adbc_driver_postgresql.dbapi
import pyarrow as pa

from jdbcstore.errors import TransientStoreError
from jdbcstore.store.jdbc.dialect.base.scan import TableScan
from jdbcstore.store.jdbc.dialect.postgresql.hosts import target

__all__ = ["batches"]


def batches(scan: TableScan) -> Iterator[pa.RecordBatch]:
    """The rows of a scan; see `jdbcstore.spark.scan.Scan.batches`."""
    # Several hosts are written otherwise in SQLAlchemy's URLs and in libpq's.
    _, where = scan.url.get_dialect()().create_connect_args(scan.url)
    where = {name: str(where[name]) for name in ("host", "port") if name in where}
    given = {"connect_timeout": str(scan.options.connect_timeout_s), **scan.url.query, **where}
    if "," in where.get("host", ""):
        given = {"target_session_attrs": "primary", **given}
    given |= target(scan.options)
    if given.get("target_session_attrs") == "read-write":  # which a session that is to be read only is nowhere
        given["target_session_attrs"] = "primary"
    settings = "-c default_transaction_read_only=on -c client_encoding=UTF8 -c standard_conforming_strings=on"
    given["options"] = f"{given['options']} {settings}" if "options" in given else settings
    url = scan.url.set(drivername="postgresql", query=given)._replace(host=None, port=None)
    text = url.render_as_string(hide_password=False)
    # libpq takes a plus sign for itself, SQLAlchemy writes one for a blank.
    text = text.replace("+", "%20")
    size = {"adbc.postgresql.batch_size_hint_bytes": str(scan.batch_bytes)}
    with adbc_driver_postgresql.dbapi.connect(text) as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**size)
        cursor.execute(scan.statement)
        with cursor.fetch_record_batch() as reader:
            while (batch := _next(reader)) is not None:
                if batch.num_rows:
                    columns = [found.cast(field.type) for found, field in zip(batch.columns, scan.schema, strict=True)]
                    yield pa.RecordBatch.from_arrays(columns, schema=scan.schema)


def _next(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None
    except (OSError, pa.ArrowException) as error:  # what becomes of ADBC's errors on their way through Arrow
        raise TransientStoreError(str(error)) from error
