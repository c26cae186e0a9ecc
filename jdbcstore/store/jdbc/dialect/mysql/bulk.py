"""Very many rows on MySQL and MariaDB: INSERTs of a packet each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Connection, text

from jdbcstore.errors import MessageTooLarge
from jdbcstore.store.jdbc.dialect.base.bulk import BulkSession, Place
from jdbcstore.store.jdbc.dialect.base.load_block import LoadRow
from jdbcstore.store.jdbc.dialect.base.session import Dialect
from jdbcstore.store.jdbc.dialect.mysql.schema import is_mariadb
from jdbcstore.store.jdbc.dialect.mysql.session import MySQLDialect
from jdbcstore.store.jdbc.dialect.mysql.write import PACKET_MARGIN_BYTES, WROTE_ONE, is_certified
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.rows import Change

__all__ = ["MySQLBulkSession"]

#: A packet; larger ones are not faster.
_PACKET_BYTES: Final = 1 << 20


class MySQLBulkSession(BulkSession):
    """INSERTs of many rows, a packet each."""

    dialect: MySQLDialect

    def _connected(self, connection: Connection) -> None:
        self.dialect.connected(connection)
        bytes_max = int(connection.execute(text("SELECT @@max_allowed_packet")).scalar_one())
        self._packet_bytes = min(bytes_max - PACKET_MARGIN_BYTES, _PACKET_BYTES)
        self._room = bytes_max - PACKET_MARGIN_BYTES
        # Rows may come slowly. Who is gone without a word is noticed after this time.
        setting = "idle_transaction_timeout" if is_mariadb(connection) else "wait_timeout"
        connection.exec_driver_sql(f"SET SESSION {setting} = 600")

    def _insert_ledger_row(self, key: tuple[str, int]) -> bool:
        parts = self.statements.load_parts
        return self._execute(f"INSERT IGNORE INTO {parts} (JOB,PART,ROWS_LOADED) VALUES (?,?,0)", key) == 1

    def insert(self, place: Place, rows: Iterable[LoadRow]) -> int:
        literal = self.dialect.literal
        head = self.statements.message_insert.encode()
        lead, number = b"(", place
        if isinstance(place, tuple):
            columns = "JOB,PART,NUMBER,MSGID_PROD,MSGID_SEQ,CONTAINER,EXPIRATION,PRIORITY,MSG"
            head = f"INSERT INTO {self.statements.staged} ({columns}) VALUES ".encode()
            lead, number = b"(%s,%d," % (literal(place[0]), place[1]), 0
        assert isinstance(number, int)
        first = number

        def values() -> Iterator[bytes]:
            nonlocal number
            for producer, sequence, container, expiration, priority, blob in self._checked(rows):
                value = lead + b"%d,%s,%d,%s,%d,%d,%s)" % (
                    number,
                    literal(producer),
                    sequence,
                    literal(container),
                    expiration,
                    priority,
                    literal(blob),
                )
                number += 1
                if len(value) + len(head) > self._room:
                    raise MessageTooLarge(
                        f"a message takes {len(value)} bytes on the way to the server, its max_allowed_packet leaves"
                        f" room for {self._room}: raise it"
                    )
                yield value

        _insert(self.raw, head, values(), self._packet_bytes)
        return number - first

    @classmethod
    def insert_rows(
        cls, raw: Any, dialect: Dialect, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
    ) -> None:
        literal = dialect.literal
        head = f"INSERT INTO {table} ({','.join(columns)}) VALUES ".encode()
        _insert(raw, head, (b"(%s)" % b",".join(map(literal, row)) for row in rows), _PACKET_BYTES)

    def conclude(self, changes: Sequence[Change], job: str, fence: Fence | None) -> None:
        words = self._proof(job)
        if fence is not None:
            words += self.dialect.proof(self.raw, fence)
        words += map(self.dialect.filled, changes)
        words.append(b"COMMIT")
        self.raw.query(b";".join(words))
        for _ in words[1:]:
            self.raw.next_result()

    def _proof(self, job: str) -> list[bytes]:
        """Statements of which one fails unless the job is loading and this run's, until the end of the transaction."""
        row = (self.statements.loads.encode(), self.dialect.literal(job), self.dialect.literal(self.holder))
        if is_certified(self.raw):
            change = b"UPDATE %s SET CHANGED_MS=CHANGED_MS^1 WHERE JOB=%s AND STATE='loading' AND HOLDER=%s" % row
            return [change, WROTE_ONE]
        return [
            b"SELECT IF((SELECT HOLDER FROM %s WHERE JOB=%s AND STATE='loading' LOCK IN SHARE MODE)=%s,1,"
            b"(SELECT 1 UNION SELECT 2))" % row
        ]


def _insert(raw: Any, head: bytes, rows: Iterable[bytes], packet_bytes: int) -> None:
    """Send rows, each in brackets, as few INSERTs; only one that is longer alone goes beyond `packet_bytes`."""
    values: list[bytes] = []
    size = 0
    for row in rows:
        if size and size + len(row) > packet_bytes:
            raw.query(head + b",".join(values))
            values, size = [], 0
        values.append(row)
        size += len(row) + 1
    if values:
        raw.query(head + b",".join(values))
