"""PostgreSQL with psycopg2: binary COPY, of which NumPy and Arrow make columns.

psycopg2 pushes rows into a file, Spark pulls batches out of an iterator. So a thread reads, at most two batches ahead.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, TypeAlias

import numpy as np
import psycopg2
import pyarrow as pa

from jdbcstore.store.jdbc.dialect.base.scan import TableScan
from jdbcstore.store.jdbc.dialect.base.scan_columns import PADDING, Places, gathered, integers, values
from jdbcstore.store.jdbc.dialect.postgresql.hosts import connected, target

__all__ = ["batches"]

#: psycopg2 writes a row at a time, the first behind the signature, the flags and the length of an empty extension.
_HEAD_BYTES: Final = 19
#: In the place of the number of fields, behind the last row.
_TRAILER: Final = -1

#: Rows as COPY writes them, how it failed, or None at the end.
_Found: TypeAlias = list[bytes] | BaseException | None


class _Abandoned(Exception):
    """Nobody wants the rest."""


def batches(scan: TableScan) -> Iterator[pa.RecordBatch]:
    """The rows of a scan; see `jdbcstore.spark.scan.Scan.batches`."""
    _, keywords = scan.url.get_dialect()().create_connect_args(scan.url)
    given = {"connect_timeout": scan.options.connect_timeout_s, **keywords, **target(scan.options)}
    connection: Any = connected(given)
    try:
        connection.set_session(readonly=True)
        connection.set_client_encoding("UTF8")
        with connection.cursor() as cursor:
            cursor.execute("SET standard_conforming_strings = on")
        source = _Source(connection, f"COPY ({scan.statement}) TO STDOUT (FORMAT BINARY)", scan.batch_bytes)
        try:
            while rows := source.next():
                if (batch := _batch(rows, scan.schema)).num_rows:
                    yield batch
        finally:
            source.close()
    finally:
        connection.close()


class _Source:
    """A COPY that a thread reads."""

    def __init__(self, connection: Any, statement: str, batch_bytes: int) -> None:
        self._connection = connection
        self._statement = statement
        self._batch_bytes = batch_bytes
        self._found: queue.Queue[_Found] = queue.Queue(1)
        self._is_abandoned = False
        self._rows: list[bytes] = []
        self._size = 0
        self._thread = threading.Thread(target=self._run, name="jdbcstore-copy", daemon=True)
        self._thread.start()

    def next(self) -> list[bytes] | None:
        found = self._found.get()
        if isinstance(found, psycopg2.DatabaseError) and not found.pgcode:  # a line that broke, in whatever words
            raise psycopg2.OperationalError(f"the server closed the connection during the read: {found}") from found
        if isinstance(found, BaseException):
            raise found
        return found

    def close(self) -> None:
        self._is_abandoned = True
        while self._thread.is_alive():
            with suppress(psycopg2.Error):  # it may be over already
                self._connection.cancel()
            with suppress(queue.Empty):
                self._found.get(timeout=0.05)
        self._thread.join()

    def write(self, row: bytes) -> None:
        """Called by psycopg2."""
        if self._is_abandoned:
            raise _Abandoned
        if self._size and self._size + len(row) > self._batch_bytes:
            self._give()
        self._rows.append(row)
        self._size += len(row)

    def _give(self) -> None:
        self._found.put(self._rows)
        self._rows, self._size = [], 0

    def _run(self) -> None:
        try:
            with self._connection.cursor() as cursor:
                cursor.copy_expert(self._statement, self)
            self._give()
        except BaseException as error:  # noqa: BLE001  # raised where it is waited for
            self._found.put(error)
        else:
            self._found.put(None)


def _batch(rows: list[bytes], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of binary COPY as a batch."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    head = _HEAD_BYTES if rows[0].startswith(b"PGCOPY\n") else 0
    buffer = np.frombuffer(b"".join((*rows, bytes(PADDING))), np.uint8)
    places = np.cumsum(lengths) - lengths
    places[0] += head
    places = places[gathered(buffer, places, ">i2") != _TRAILER] + 2
    columns = []
    for field in schema:
        lengths = gathered(buffer, places, ">i4")
        nulls = lengths < 0
        lengths[nulls] = 0
        places += 4
        columns.append(
            integers(_numbers(buffer, places, nulls), nulls)
            if field.type == pa.int64()
            else values(buffer, places, lengths, nulls, field.type)
        )
        places += lengths
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _numbers(buffer: Any, places: Places, nulls: Any) -> Places:
    return gathered(buffer, np.where(nulls, 0, places), ">i8")
