"""A batch on PostgreSQL, with psycopg2.

Two ways to write, by what was measured with 1 KiB messages: up to a dozen rows one INSERT with literals, sent together
with the removes as one packet that the server runs as one transaction (one round trip, 0.3 ms); beyond that binary
COPY, which costs one more round trip and a third of the server's time per row.

A row that comes alone is inserted by a prepared statement: reading and planning an INSERT takes a tenth of the server's
time for such a commit. (Two rows gain nothing by it.) It is prepared together with the first such row and not before:
PREPARE waits for whoever has the table locked, and a broker starts all the same.
"""

from __future__ import annotations

import io
import logging
from binascii import hexlify
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import psycopg2.extensions
from sqlalchemy import Connection
from sqlalchemy.engine.interfaces import DBAPIConnection

from jdbcstore.store.jdbc.dialect.base.errors import ConnectionLost
from jdbcstore.store.jdbc.dialect.base.session import Dialect, raw_connection
from jdbcstore.store.jdbc.dialect.postgresql.copy_format import (
    FIXED_FIELDS,
    HEAD,
    LENGTH,
    MESSAGE_COLUMNS,
    READ_BYTES,
    TAIL,
    text_field,
)
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.rows import MessageRow
from jdbcstore.store.jdbc.writes import Batch

__all__ = ["FENCE", "PostgreSQLStatements", "Session"]

log = logging.getLogger(__name__)

#: The fence as a prepared statement of the writer's session.
FENCE: Final = b"jdbcstore_fence"
#: The INSERT of one message as another. It returns nothing, so it stands when the table is altered or made again.
_ADD: Final = b"jdbcstore_add"
#: From this many rows on COPY is faster than INSERT.
_COPY_ROWS: Final = 12


class Session(psycopg2.extensions.connection):
    """psycopg2's connection, and what was prepared in it."""

    #: Whether the INSERT of one message is prepared; None until there was one. False for good when the packet that
    #: prepares it has failed: PREPARE is not rolled back, and nobody knows how far that packet came.
    has_prepared_add: bool | None = None


class PostgreSQLStatements(Dialect):
    """What is sent to PostgreSQL to read and write messages."""

    # With a plain "=" the planner believes that the order is by ID alone and walks the primary key through everybody's
    # rows.
    level_condition = "{priority} BETWEEN :level AND :level"
    level_order = "PRIORITY DESC, ID"
    level_order_back = "PRIORITY, ID DESC"
    blob_length = "OCTET_LENGTH(MSG)"
    epoch_ms = "CAST(EXTRACT(EPOCH FROM statement_timestamp()) * 1000 AS BIGINT)"

    def write(self, connection: DBAPIConnection, batch: Batch, fence: Fence | None = None) -> int:
        words = self._words(batch, fence)
        with self._committing(connection) as cursor:
            if len(batch.adds) == 1:
                self._add_one(connection, cursor, batch.adds[0], words)
            elif len(batch.adds) < _COPY_ROWS:
                if batch.adds:
                    words.insert(0, self._insert(batch.adds))
                cursor.execute(b";".join(words))
            else:
                self._copy(cursor, batch.adds, words)
            return cursor.rowcount if batch.removes else 0

    def prove(self, connection: DBAPIConnection, fence: Fence) -> None:
        with connection.cursor() as cursor:  # type: ignore[attr-defined]  # PEP 249; SQLAlchemy's type leaves it out
            cursor.execute(self.fence_words(fence))

    def transact(self, connection: DBAPIConnection, statements: Sequence[str], fence: Fence | None) -> None:
        with self._committing(connection) as cursor:
            proof = [] if fence is None else [self.fence_words(fence)]
            cursor.execute(b";".join([*(statement.encode() for statement in statements), *proof]))

    @contextmanager
    def _committing(self, connection: DBAPIConnection) -> Iterator[Any]:
        """A cursor for one packet that commits. A commit that the server warns about has to be confirmed.

        A wait for standbys that was cancelled ends with success and a warning: the rows are on this server only. The
        driver hands the warning on without its code and in the server's language, so any warning counts.
        """
        raw: Any = connection
        raw.notices.clear()
        with raw.cursor() as cursor:
            yield cursor
            if raw.notices:
                log.warning("the server warns about a commit, waiting for its standbys warning=%r", raw.notices[-1])
                self._confirm(raw, cursor.execute)

    def confirm(self, connection: Connection) -> None:
        self._confirm(raw_connection(connection), connection.exec_driver_sql)

    def _confirm(self, raw: Any, execute: Callable[[str], object]) -> None:
        """Commit once more: waiting for the standbys, it waits for everything that stands before it in the log.

        The message makes the transaction write to the log. The row lock lets a server that is read only refuse it, and
        conflicts neither with renewals nor with takeovers.

        Args:
            raw: the driver's connection, which keeps what the server warns about.
            execute: sends a statement over it.

        Raises:
            ConnectionLost: this wait was cancelled, too. Errors of `execute` are raised as they are.
        """
        raw.notices.clear()
        term = self.statements.term
        execute(f"SELECT 1 FROM {term} FOR KEY SHARE; SELECT pg_logical_emit_message(true, 'jdbcstore', '')")
        if raw.notices:
            raise ConnectionLost(f"the standbys have not confirmed a commit: {raw.notices[-1].strip()}")

    def fence_words(self, fence: Fence) -> bytes:
        """A division by zero unless the row names us, which FOR SHARE then keeps as it is. FOR KEY SHARE would not.

        The answer has no row and no column, which saves the driver a tenth of its time for a commit of one message.
        """
        names = self.statements
        row, holder = (names.lock, b"BROKER_NAME") if fence.by_lease else (names.term, b"HOLDER")
        named = b"%s WHERE ID=1 AND %s=%s" % (row.encode(), holder, _literal(fence.holder))
        if fence.lock_session is not None:
            # Shared, so that of two commits none takes the other for the session.
            named += b" AND NOT pg_try_advisory_xact_lock_shared(%d)" % fence.lock_session
        if self.options.require_replication != "none":  # the locker looks at all of it, but not at each commit
            named += b" AND current_setting('synchronous_standby_names')<>''"
            named += b" AND current_setting('synchronous_commit') NOT IN ('off','local')"
        return b"SELECT FROM (SELECT 1 FROM %s FOR SHARE) proof HAVING 1/COUNT(*)=0" % named

    def _words(self, batch: Batch, fence: Fence | None) -> list[bytes]:
        """Everything of a batch but its adds, the removes last: the packet's row count is theirs."""
        table = self.statements.messages.encode()
        words = [b"UPDATE %s SET MSG='\\x%s' WHERE ID=%d" % (table, hexlify(blob), id) for id, blob in batch.updates]
        words += [
            b"DELETE FROM %s WHERE CONTAINER=%s AND ID<=%d AND XID IS NULL" % (table, _literal(container), last)
            for container, last in batch.purges
        ]
        words += self._marks(batch)
        words += map(self.filled, batch.changes)
        if fence is not None:
            words.append(b"EXECUTE " + FENCE)  # what comes after is known by its keys and soon done
        if len(batch.removes) == 1:  # quicker than an array. Not prepared: the plan for a short table would stay
            words.append(b"DELETE FROM %s WHERE ID=%d" % (table, batch.removes[0]))
        elif batch.removes:
            words.append(b"DELETE FROM %s WHERE ID=ANY('{%s}')" % (table, ",".join(map(str, batch.removes)).encode()))
        return words

    def _marks(self, batch: Batch) -> list[bytes]:
        """What a batch remembers and forgets of producers."""
        table, now = self.statements.producers.encode(), self.epoch_ms.encode()
        words = []
        if batch.producers:
            values = [b"(%s,%d,%s)" % (_literal(name), sequence, now) for name, sequence in batch.producers.items()]
            words.append(
                b"INSERT INTO %s AS mark (PRODUCER,LAST_SEQ,LAST_USED_MS) VALUES %s ON CONFLICT (PRODUCER) DO UPDATE"
                b" SET LAST_SEQ=GREATEST(mark.LAST_SEQ,EXCLUDED.LAST_SEQ),LAST_USED_MS=EXCLUDED.LAST_USED_MS"
                % (table, b",".join(values))
            )
        if batch.forgets:
            words.append(
                b"DELETE FROM %s WHERE LAST_USED_MS<%s-%d AND PRODUCER IN (%s)"
                % (table, now, self.options.producer_memory_ms, b",".join(map(_literal, batch.forgets)))
            )
        return words

    def literal(self, value: str | int | bytes | None) -> bytes:
        if isinstance(value, bytes):
            return b"'\\x%s'" % hexlify(value)
        return _literal(value) if isinstance(value, str) else b"NULL" if value is None else b"%d" % value

    def _add_one(self, session: Any, cursor: Any, row: MessageRow, words: Sequence[bytes]) -> None:
        """Insert one row, and what follows, as one query."""
        has_prepared, insert = session.has_prepared_add, self.statements.message_insert.encode()
        if has_prepared is False:
            cursor.execute(b";".join([insert + _values(row), *words]))
            return
        packet = b";".join([b"EXECUTE " + _ADD + _values(row), *words])
        if has_prepared is None:
            session.has_prepared_add = False
            packet = b"PREPARE %s AS %s($1,$2,$3,$4,$5,$6,$7);%s" % (_ADD, insert, packet)
        cursor.execute(packet)
        session.has_prepared_add = True

    def _insert(self, rows: Sequence[MessageRow]) -> bytes:
        return self.statements.message_insert.encode() + b",".join(map(_values, rows))

    def _copy(self, cursor: Any, rows: Sequence[MessageRow], words: Sequence[bytes]) -> None:
        """COPY and what follows, as one query: one transaction, and nothing but the rows is waited for in it."""
        parts = [HEAD]
        for id, producer, sequence, container, expiration, priority, blob in rows:
            parts += (
                FIXED_FIELDS.pack(7, 8, id, 8, sequence, 8, expiration, 8, priority),
                text_field(container),
                text_field(producer),
                LENGTH.pack(len(blob)),
                blob,
            )
        parts.append(TAIL)
        data = io.BytesIO(b"".join(parts))
        copy = f"COPY {self.statements.messages} ({MESSAGE_COLUMNS}) FROM STDIN BINARY".encode()
        cursor.copy_expert(b";".join([copy, *words]), data, READ_BYTES)


def _values(row: MessageRow) -> bytes:
    """The values of a row as literals, in brackets."""
    id, producer, sequence, container, expiration, priority, blob = row
    return b"(%d,%s,%d,%s,%d,%d,'\\x%s')" % (
        id,
        _literal(producer),
        sequence,
        _literal(container),
        expiration,
        priority,
        hexlify(blob),
    )


@lru_cache(maxsize=8192)
def _literal(value: str) -> bytes:
    """A string literal; the session has standard_conforming_strings, so only the quote needs doubling."""
    return b"'" + value.encode().replace(b"'", b"''") + b"'"
