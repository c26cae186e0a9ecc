"""PostgreSQL's binary COPY format, and COPY FROM STDIN with psycopg2.

A signature, flags and the length of an extension; per row the number of fields, then length and bytes of each, -1 for
null; a trailer. Source: PostgreSQL's documentation of COPY.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

__all__ = ["FIXED_FIELDS", "HEAD", "LENGTH", "MESSAGE_COLUMNS", "NULL", "READ_BYTES", "TAIL", "copy_in", "text_field"]

HEAD: Final = b"PGCOPY\n\xff\r\n\x00" + struct.pack(">ii", 0, 0)
TAIL: Final = b"\xff\xff"
LENGTH: Final = struct.Struct(">i")
NULL: Final = LENGTH.pack(-1)
#: How much psycopg2 asks for at a time.
READ_BYTES: Final = 1 << 20

#: A message's columns in an order in which one struct holds all that are fixed: the number of fields, then ID,
#: MSGID_SEQ, EXPIRATION and PRIORITY, each behind its length, 8.
MESSAGE_COLUMNS: Final = "ID, MSGID_SEQ, EXPIRATION, PRIORITY, CONTAINER, MSGID_PROD, MSG"
FIXED_FIELDS: Final = struct.Struct(">hiqiqiqiq")


@lru_cache(maxsize=8192)
def text_field(value: str) -> bytes:
    """A field with a text; the same few containers and producers come again and again."""
    data = value.encode()
    return LENGTH.pack(len(data)) + data


def copy_in(cursor: Any, table: str, columns: str, chunks: Iterator[bytes]) -> None:
    """COPY into a table, in the transaction that runs.

    Args:
        cursor: psycopg2's.
        table: its name.
        columns: their names, separated by commas.
        chunks: the format, head and tail included, in pieces of any size; read as they are needed.

    Raises whatever the driver raises, or what `chunks` raises.
    """
    stream = _Stream(chunks)
    try:
        cursor.copy_expert(f"COPY {table} ({columns}) FROM STDIN BINARY", stream, READ_BYTES)
    except Exception:
        if stream.error is not None:  # of whoever makes the rows; psycopg2 tells its text only
            raise stream.error from None
        raise


class _Stream:
    """What psycopg2 reads from."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.error: BaseException | None = None
        self._chunks = chunks

    def read(self, size: int) -> bytes:
        """The next chunk, whatever its size; empty at the end."""
        try:
            return next(filter(None, self._chunks), b"")  # psycopg2 takes an empty chunk for the end
        except BaseException as error:
            self.error = error
            raise
