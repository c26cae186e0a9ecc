"""Very many rows on PostgreSQL: binary COPY."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Connection

from jdbcstore.store.jdbc.dialect.base.bulk import BulkSession, Place
from jdbcstore.store.jdbc.dialect.base.load_block import LoadBlock, LoadRow
from jdbcstore.store.jdbc.dialect.base.session import Dialect
from jdbcstore.store.jdbc.dialect.postgresql.copy_format import (
    FIXED_FIELDS,
    HEAD,
    LENGTH,
    MESSAGE_COLUMNS,
    NULL,
    TAIL,
    copy_in,
    text_field,
)
from jdbcstore.store.jdbc.dialect.postgresql.session import PostgreSQLDialect
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.rows import Change

__all__ = ["PostgreSQLBulkSession", "packed", "packed_for_copy"]

#: What is handed to the driver at a time, about.
_CHUNK_BYTES: Final = 256 << 10
_STAGED_COLUMNS: Final = "NUMBER, MSGID_SEQ, EXPIRATION, PRIORITY, CONTAINER, MSGID_PROD, MSG, JOB, PART"
_NUMBER: Final = struct.Struct(">iq")


class PostgreSQLBulkSession(BulkSession):
    """COPY FROM STDIN BINARY."""

    takes_blocks = True
    dialect: PostgreSQLDialect

    def _connected(self, connection: Connection) -> None:
        # What waits for us to send the next rows is not idle. A peer that is gone is noticed within half a minute: its
        # lock on the row of the ledger would keep the next attempt waiting.
        settings = "statement_timeout=0,tcp_keepalives_idle=10,tcp_keepalives_interval=5,tcp_keepalives_count=3"
        for setting in settings.split(","):
            connection.exec_driver_sql(f"SET {setting}")

    def _insert_ledger_row(self, key: tuple[str, int]) -> bool:
        parts = self.statements.load_parts
        insert = f"INSERT INTO {parts} (JOB,PART,ROWS_LOADED) VALUES (?,?,0) ON CONFLICT DO NOTHING"
        return self._execute(insert, key) == 1

    def insert(self, place: Place, rows: Iterable[LoadRow | LoadBlock]) -> int:
        staged = not isinstance(place, int)
        table, columns = (
            (self.statements.staged, _STAGED_COLUMNS) if staged else (self.statements.messages, MESSAGE_COLUMNS)
        )
        count = 0

        def counted() -> Iterator[LoadRow | LoadBlock]:
            nonlocal count
            for row in self._checked(rows):
                count += len(row) if row.__class__ is LoadBlock else 1
                yield row

        with self.raw.cursor() as cursor:
            copy_in(cursor, table, columns, packed_for_copy(counted(), place))
        return count

    @classmethod
    def insert_rows(
        cls, raw: Any, dialect: Dialect, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
    ) -> None:
        with raw.cursor() as cursor:
            copy_in(cursor, table, ", ".join(columns), packed(rows, len(columns)))

    def conclude(self, changes: Sequence[Change], job: str, fence: Fence | None) -> None:
        literal, loads = self.dialect.literal, self.statements.loads.encode()
        words = [
            b"SELECT 1/COUNT(*) FROM (SELECT 1 FROM %s WHERE JOB=%s AND STATE='loading' AND HOLDER=%s FOR SHARE) load"
            % (loads, literal(job), literal(self.holder))
        ]
        if fence is not None:
            words.append(self.dialect.fence_words(fence))
        words += map(self.dialect.filled, changes)
        with self.raw.cursor() as cursor:
            cursor.execute(b";".join([*words, b"COMMIT"]))


def packed_for_copy(rows: Iterable[LoadRow | LoadBlock], place: Place) -> Iterator[bytes]:
    """Rows of ACTIVEMQ_MSGS or JDBCSTORE_STAGED in PostgreSQL's binary COPY format, in chunks."""
    parts, size, tail = [HEAD], 0, b""
    fields, number = 7, place
    if isinstance(place, tuple):
        job, part = place
        fields, number, tail = 9, 0, text_field(job) + struct.pack(">iq", 8, part)
    assert isinstance(number, int)
    pack, pack_length, field, add = FIXED_FIELDS.pack, LENGTH.pack, text_field, parts.append
    for row in rows:
        if isinstance(row, LoadBlock):
            from jdbcstore.store.jdbc.dialect.postgresql.copy_arrow import packed_block

            yield b"".join(parts)
            parts.clear()
            size = 0
            yield packed_block(row, number, fields, tail)
            number += len(row)
            continue
        producer, sequence, container, expiration, priority, blob = row
        add(pack(fields, 8, number, 8, sequence, 8, expiration, 8, priority))
        add(field(container))
        add(field(producer))
        length = len(blob)
        add(pack_length(length))
        add(blob)
        if tail:
            add(tail)
        number += 1
        size += length + 100
        if size >= _CHUNK_BYTES:
            yield b"".join(parts)
            parts.clear()
            size = 0
    add(TAIL)
    yield b"".join(parts)


def packed(rows: Iterable[Sequence[Any]], columns: int) -> Iterator[bytes]:
    """Rows of any columns in PostgreSQL's binary COPY format, in chunks; numbers are of 64 bits."""
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
