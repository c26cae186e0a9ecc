"""Rows into a table, each database's fast way: binary COPY, INSERTs of many rows, executemany."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from jdbcstore.store.jdbc.copy_format import HEAD, LENGTH, NULL, TAIL, copy_in

__all__ = ["insert"]

_CHUNK_BYTES: Final = 256 << 10
_ROWS_AT_ONCE: Final = 500
_NUMBER: Final = struct.Struct(">iq")


def insert(raw: Any, dialect: str, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Insert rows in the transaction that runs. Numbers are of 64 bits.

    Args:
        raw: the driver's connection.
        dialect: SQLAlchemy's name of the database.
        table: where to.
        columns: of the values.
        rows: read as they are needed.

    Raises whatever the driver raises, or what `rows` raises.
    """
    if dialect == "postgresql":
        with raw.cursor() as cursor:
            copy_in(cursor, table, ", ".join(columns), _packed(rows, len(columns)))
        return
    mark = "?" if dialect == "sqlite" else "%s"
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join([mark] * len(columns))})"
    cursor = raw.cursor()
    try:
        if dialect == "sqlite":
            cursor.executemany(statement, rows)
            return
        waiting = iter(rows)
        while some := list(islice(waiting, _ROWS_AT_ONCE)):
            cursor.executemany(statement, some)
    finally:
        cursor.close()


def _packed(rows: Iterable[Sequence[Any]], columns: int) -> Iterator[bytes]:
    """Rows of any columns in PostgreSQL's binary COPY format, in chunks."""
    head = struct.pack(">h", columns)
    parts, size = [HEAD], 0
    for row in rows:
        parts.append(head)
        for value in row:
            if value is None:
                parts.append(NULL)
            elif isinstance(value, int):
                parts.append(_NUMBER.pack(8, value))
            else:
                data = value.encode() if isinstance(value, str) else value
                parts += (LENGTH.pack(len(data)), data)
                size += len(data)
        size += 100
        if size >= _CHUNK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    parts.append(TAIL)
    yield b"".join(parts)
