"""PostgreSQL, with psycopg2.

Two ways to write, by what was measured with 1 KiB messages: up to a dozen rows one INSERT with literals, sent together
with the removes as one packet that the server runs as one transaction (one round trip, 0.3 ms); beyond that binary
COPY, which costs one more round trip and a third of the server's time per row.
"""

from __future__ import annotations

import hashlib
import io
import os
import select
import socket
import time
from binascii import hexlify
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import psycopg2
from sqlalchemy import Connection, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError

from jdbcstore.errors import (
    DuplicateMessage,
    MessageTooLarge,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreReadOnly,
    TransientStoreError,
)
from jdbcstore.store.jdbc.copy_format import (
    FIXED_FIELDS,
    HEAD,
    LENGTH,
    MESSAGE_COLUMNS,
    READ_BYTES,
    TAIL,
    text_field,
)
from jdbcstore.store.jdbc.dialect import STILL_AT_WORK, AccessDenied, ConnectionLost, Dialect
from jdbcstore.store.jdbc.fence import Fence, lock_session_name, session_name
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.rows import Batch, MessageRow

__all__ = ["PostgreSQLDialect"]

#: The fence as a prepared statement of the writer's session.
_FENCE: Final = b"jdbcstore_fence"
#: What the server says when it does not let us in. In another language it is taken for an outage, and told after it.
_DENIED: Final = (
    "authentication failed",
    "no pg_hba.conf entry",
    "no password supplied",
    "is not permitted to log in",
    "permission denied for database",
    'FATAL:  role "',
    'FATAL:  database "',
)
#: How often to look whether a session has ended.
_LOOK_AGAIN_S: Final = 0.01
#: From this many rows on COPY is faster than INSERT.
_COPY_ROWS: Final = 12

_KINDS: Final[Mapping[str, type[StoreError]]] = {
    "23505": DuplicateMessage,
    "25P03": ConnectionLost,  # ended by the server's time-outs, as are the next two
    "25P04": ConnectionLost,
    "57P05": ConnectionLost,
    "25006": StoreReadOnly,
    "40": TransientStoreError,  # rolled back: deadlock, serialization
    "42P01": SchemaMismatch,  # no such table
    "42703": SchemaMismatch,  # no such column
    "08": ConnectionLost,
    "57P01": ConnectionLost,  # terminated by an administrator
    "57P02": ConnectionLost,
    "57P03": ConnectionLost,  # starting up
    "57P04": ConnectionLost,  # the database is gone
    "57014": TransientStoreError,  # statement time-out
    "55P03": TransientStoreError,  # lock time-out
    "53100": StoreFull,
    "53": TransientStoreError,  # out of memory
    "53300": ConnectionLost,  # too many connections
    "58": TransientStoreError,  # the operating system failed
    "28": AccessDenied,
    "3D000": AccessDenied,  # no such database
    "54000": MessageTooLarge,
}


class PostgreSQLDialect(Dialect):
    """PostgreSQL 13 and newer."""

    # With a plain "=" the planner believes that the order is by ID alone and walks the primary key through everybody's
    # rows.
    level_condition = "{priority} BETWEEN :level AND :level"
    level_order = "PRIORITY DESC, ID"
    level_order_back = "PRIORITY, ID DESC"
    blob_length = "OCTET_LENGTH(MSG)"
    needs_vacuum = True
    epoch_ms = "CAST(EXTRACT(EPOCH FROM statement_timestamp()) * 1000 AS BIGINT)"
    lease_lost_codes = frozenset({"22012"})  # division by zero
    locked_codes = frozenset({"55P03", "57014"})
    # ActiveMQ's FOR UPDATE on the row conflicts with it, both ways. A row lock needs a transaction id for as long as it
    # is held, and nothing that is removed meanwhile can be vacuumed; this table lock needs none.
    row_lock = "LOCK TABLE {lock} IN EXCLUSIVE MODE NOWAIT"

    @classmethod
    def engine_arguments(cls, options: JdbcOptions) -> dict[str, Any]:
        settings = {
            "statement_timeout": f"{int(options.query_timeout_s * 1000)}",
            "standard_conforming_strings": "on",
            "client_min_messages": "warning",
            # Statistics are always late for a queue: one that has grown is thought to be short, and few rows to lie
            # behind the cursor. Then all of them would be collected and sorted for the sake of one page. Without sorts
            # the first rows along our index are the only way; where there is no such index, it sorts all the same.
            "enable_sort": "off",
            "enable_incremental_sort": "off",
            "jit": "off",  # a sort for want of anything better has a price at which it would be compiled, for a second
        }
        return {
            "connect_args": {
                "application_name": "jdbcstore",
                "connect_timeout": options.connect_timeout_s,
                "keepalives_idle": 5,
                "keepalives_interval": 2,
                "keepalives_count": 3,
                "tcp_user_timeout": int(options.query_timeout_s * 1000),
                "client_encoding": "utf8",
                "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
            },
        }

    @classmethod
    def connect(cls, parameters: dict[str, Any], opened: Callable[[socket.socket], None]) -> DBAPIConnection:
        raw: Any = psycopg2.connect(**parameters)
        try:
            opened(socket.socket(fileno=os.dup(raw.fileno())))
        except BaseException:
            raw.close()
            raise
        return raw  # type: ignore[no-any-return]

    def write(self, connection: DBAPIConnection, batch: Batch, fence: Fence | None = None) -> int:
        words = self._words(batch, fence)
        with connection.cursor() as cursor:  # type: ignore[attr-defined]  # PEP 249; SQLAlchemy's type leaves it out
            if len(batch.adds) < _COPY_ROWS:
                if batch.adds:
                    words.insert(0, self._insert(batch.adds))
                cursor.execute(b";".join(words))
            else:
                self._copy(cursor, batch.adds, words)
            return cursor.rowcount if batch.removes else 0

    def prove(self, connection: DBAPIConnection, fence: Fence) -> None:
        with connection.cursor() as cursor:  # type: ignore[attr-defined]  # as above
            cursor.execute(self.fence_words(fence))

    def transact(self, connection: DBAPIConnection, statements: Sequence[str], fence: Fence | None) -> None:
        with connection.cursor() as cursor:  # type: ignore[attr-defined]  # as above
            proof = [] if fence is None else [self.fence_words(fence)]
            cursor.execute(b";".join([*(statement.encode() for statement in statements), *proof]))

    def fenced(self, connection: Connection, fence: Fence) -> None:
        self.outlive(connection, fence.holder)
        self.holding(connection, fence.idle_ms)
        self.begin_session(connection, fence.holder)
        # Read and planned once: that costs more than running it.
        raw: Any = connection.connection.dbapi_connection
        with raw.cursor() as cursor:
            cursor.execute(b"PREPARE %s AS %s" % (_FENCE, self.fence_words(fence)))

    def holding(self, connection: Connection, idle_ms: int) -> None:
        connection.execute(text(f"SET idle_in_transaction_session_timeout = {idle_ms}"))

    def take_over(self, connection: Connection, parameters: Mapping[str, object]) -> bool:
        names = self.statements
        # Only what a statement locks does it see as it is when others have been at it. The lock row comes first: who
        # waits for it must not have the term locked, which masters by a lock on the table prove.
        statement = (
            f"WITH free AS (SELECT ID FROM {names.lock} WHERE ID = 1 AND {names.lease_is_free} FOR UPDATE),"
            f" last AS (SELECT t.ID FROM {names.term} t JOIN free ON t.ID = free.ID WHERE t.TERM = :seen"
            " FOR UPDATE OF t),"
            f" won AS (UPDATE {names.lock} l SET BROKER_NAME = :holder, TIME = {names.lease_end} FROM last"
            " WHERE l.ID = last.ID RETURNING l.ID)"
            f" UPDATE {names.term} t SET TERM = t.TERM + 1, HOLDER = :holder FROM won WHERE t.ID = won.ID"
        )
        return connection.execute(text(statement), parameters).rowcount > 0

    def end_sessions(self, connection: Connection, holder: str) -> int:
        return self._count_sessions(connection, holder, "pg_terminate_backend(pid)")

    def hold_row_lock(self, connection: Connection, holder: str) -> int:
        # pg_locks would say it too, and stop everybody's locking for a moment with each commit. An advisory lock ends
        # with its session, as the table's, and looking at one is nearly free.
        key = int.from_bytes(hashlib.sha256(lock_session_name(holder).encode()).digest()[:8], signed=True)
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": key})
        return key

    def is_at_work(self, connection: Connection, holder: str) -> bool:
        return self._count_sessions(connection, holder, "pid") > 0

    def _count_sessions(self, connection: Connection, holder: str, what: str, session_id: int | None = None) -> int:
        statement = (
            f"SELECT COUNT({what}) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = :name AND pid <> pg_backend_pid()"
            " AND pid = COALESCE(:session_id, pid)"
        )
        parameters = {"name": session_name(holder), "session_id": session_id}
        return int(connection.execute(text(statement), parameters).scalar_one())

    def begin_session(self, connection: Connection, holder: str) -> int:
        begin = text("SELECT pg_backend_pid(), set_config('application_name', :name, false)")
        return int(connection.execute(begin, {"name": session_name(holder)}).scalar_one())

    def outlive(self, connection: Connection, holder: str, session_id: int | None = None) -> None:
        """As the base says; without an id, all other sessions of the holder."""
        # One is gone from the list after its transaction is.
        until = time.monotonic() + self.options.connect_timeout_s
        while self._count_sessions(connection, holder, "pid", session_id):
            if time.monotonic() > until:
                raise ConnectionLost(STILL_AT_WORK)
            try:
                self._count_sessions(connection, holder, "pg_terminate_backend(pid)", session_id)
            except DBAPIError as error:
                if self.error_code(error.orig or error) != "42501":  # not permitted
                    raise
            time.sleep(_LOOK_AGAIN_S)

    def give_signal(self, connection: Connection, signal: str) -> None:
        connection.exec_driver_sql(f"NOTIFY {signal}")

    def wait_for_signal(
        self, connection: Connection, signal: str, timeout_s: float, is_held: Callable[[Connection], bool]
    ) -> None:
        raw: Any = connection.connection.dbapi_connection
        connection.exec_driver_sql(f"LISTEN {signal}")
        if is_held(connection) and not raw.notifies:
            select.select([raw], [], [], timeout_s)
            raw.poll()
        # Who listens and then holds a transaction open would keep everybody's notifications from being cleared away.
        connection.exec_driver_sql(f"UNLISTEN {signal}")
        raw.notifies.clear()

    def rollback(self, connection: DBAPIConnection) -> None:
        with connection.cursor() as cursor:  # type: ignore[attr-defined]  # as above
            cursor.execute(b"ROLLBACK")

    def fence_words(self, fence: Fence) -> bytes:
        """A division by zero unless the row names us, which FOR SHARE then keeps as it is. FOR KEY SHARE would not."""
        names = self.statements
        row, holder = (names.lock, b"BROKER_NAME") if fence.by_lease else (names.term, b"HOLDER")
        named = b"%s WHERE ID=1 AND %s=%s" % (row.encode(), holder, _literal(fence.holder))
        if fence.lock_session is not None:
            # Shared, so that of two commits none takes the other for the session.
            named += b" AND NOT pg_try_advisory_xact_lock_shared(%d)" % fence.lock_session
        return b"SELECT 1/COUNT(*) FROM (SELECT 1 FROM %s FOR SHARE) proof" % named

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
            words.append(b"EXECUTE " + _FENCE)  # what comes after is known by its keys and soon done
        if batch.removes:
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

    def _insert(self, rows: Sequence[MessageRow]) -> bytes:
        values = [
            b"(%d,%s,%d,%s,%d,%d,'\\x%s')"
            % (id, _literal(producer), sequence, _literal(container), expiration, priority, hexlify(blob))
            for id, producer, sequence, container, expiration, priority, blob in rows
        ]
        return self.statements.message_insert.encode() + b",".join(values)

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

    def vacuum(self, connection: Connection) -> None:
        # TRUNCATE would take a lock that stops the writer; the room is wanted again at once anyway.
        connection.execute(text(f"VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) {self.statements.messages}"))

    def error_code(self, error: BaseException) -> str:
        if isinstance(error, psycopg2.Error):
            if error.pgcode:
                return str(error.pgcode)
            # What is said while connecting comes without its code, in the server's language.
            if any(words in str(error) for words in _DENIED):
                return "28000"
            # libpq's own errors have no code: the server went away, or never answered.
            return "08000" if isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError) else ""
        if type(error).__module__.startswith("adbc_driver_manager"):
            state = getattr(error, "sqlstate", None)
            return str(state) if state else "28000" if any(words in str(error) for words in _DENIED) else "08000"
        return ""

    def error_kinds(self) -> Mapping[str, type[StoreError]]:
        return _KINDS


@lru_cache(maxsize=8192)
def _literal(value: str) -> bytes:
    """A string literal; the session has standard_conforming_strings, so only the quote needs doubling."""
    return b"'" + value.encode().replace(b"'", b"''") + b"'"
