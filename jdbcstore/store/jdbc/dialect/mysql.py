"""MySQL and MariaDB, with PyMySQL.

A batch is one packet: BEGIN, one INSERT of all rows, the removes, COMMIT, with everything as literals; a packet the
server takes and answers in one round trip. Only what is larger than the server's max_allowed_packet goes in several.
"""

from __future__ import annotations

import socket
import ssl
import time
from binascii import hexlify
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, Final

import pymysql
from pymysql.constants import CLIENT, CR
from sqlalchemy import Connection, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError

from jdbcstore.errors import (
    DuplicateMessage,
    LeaseLost,
    MessageTooLarge,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreReadOnly,
    TransientStoreError,
)
from jdbcstore.store.jdbc.dialect import STILL_AT_WORK, AccessDenied, ConnectionLost, Dialect
from jdbcstore.store.jdbc.fence import Fence, lock_session_name, session_name
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.rows import Batch, MessageRow

__all__ = ["MySQLDialect", "SharedTlsConnection"]

#: Room in a packet for everything that is not message bytes.
_PACKET_MARGIN_BYTES: Final = 1 << 14
#: Ids in one DELETE; from some hundred on the server plans longer than it deletes.
_REMOVES_AT_ONCE: Final = 500
#: Producers in one statement, which cannot be cut to fit a packet.
_MARKS_AT_ONCE: Final = 100
#: A server's packet is at least 1 MiB unless somebody made it smaller.
_HEXADECIMAL_BYTES_MAX: Final = 256 << 10

#: A statement that waits must not look like a connection that is broken.
_SIGNAL_WAIT_MOST_S: Final = 1.0

#: The session has just ended; it is another user's.
_NOT_KILLED: Final = ("1094", "1095")

_KINDS: Final[Mapping[str, type[StoreError]]] = {
    "1062": DuplicateMessage,
    "1021": StoreFull,
    "1114": StoreFull,
    "1030": StoreFull,
    "1290": StoreReadOnly,
    "1792": StoreReadOnly,
    "1836": StoreReadOnly,
    "1153": MessageTooLarge,
    "1406": MessageTooLarge,
    "1146": SchemaMismatch,
    "1054": SchemaMismatch,
    "1205": TransientStoreError,
    "1213": TransientStoreError,
    "3024": TransientStoreError,
    "1969": TransientStoreError,
    "1040": ConnectionLost,  # too many connections, as are the next two
    "1203": ConnectionLost,
    "1226": ConnectionLost,
    "1044": AccessDenied,
    "1045": AccessDenied,
    "1049": AccessDenied,  # no such database
    "1130": AccessDenied,
    "1698": AccessDenied,
    "1053": ConnectionLost,
    "1927": ConnectionLost,
    "1317": TransientStoreError,
    "2003": ConnectionLost,
    "2006": ConnectionLost,
    "2013": ConnectionLost,
    "2014": ConnectionLost,
    "4031": ConnectionLost,
    "0": ConnectionLost,
}


class MySQLDialect(Dialect):
    """MariaDB 10.6 and newer, MySQL 8.0 and newer, InnoDB."""

    index_hint = "FORCE INDEX ({index})"
    # Else the servers may prefer to look at all rows, and wait for those that somebody is writing just now.
    delete_by_key = "DELETE t FROM {table} t FORCE INDEX (PRIMARY) WHERE"
    # Not by way of local time, which goes through one hour twice in autumn.
    epoch_ms = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)"
    # A row's ID was NULL; a subquery that must not have more than one row has two.
    lease_lost_codes = frozenset({"1048", "1242"})
    locked_codes = frozenset({"1205", "3572"})
    row_lock = "SELECT ID FROM {lock} WHERE ID = 1 FOR UPDATE NOWAIT"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._packet_bytes_max = 1 << 20

    @classmethod
    def engine_arguments(cls, options: JdbcOptions) -> dict[str, Any]:
        # FOUND_ROWS: count the rows that a statement met, not those it changed. MULTI_STATEMENTS: a batch in one
        # packet.
        lock_s = _lock_timeout_s(options)
        return {
            "connect_args": {
                "charset": "utf8mb4",
                "connect_timeout": options.connect_timeout_s,
                "client_flag": CLIENT.MULTI_STATEMENTS | CLIENT.FOUND_ROWS,
                # Literals are escaped with backslashes and nothing may be cut to fit: no server-wide sql_mode changes
                # that.
                "init_command": "SET SESSION sql_mode='STRICT_ALL_TABLES', "
                f"innodb_lock_wait_timeout={lock_s},lock_wait_timeout={lock_s}",
            },
        }

    @classmethod
    def answer_timeout_s(cls, options: JdbcOptions) -> float:
        # MySQL looks once a second who has waited for a lock too long.
        longest_s = max(_lock_timeout_s(options), options.query_timeout_s)
        return longest_s + min(10.0, max(1.5, options.query_timeout_s / 3))

    @classmethod
    def connect(cls, parameters: dict[str, Any], opened: Callable[[socket.socket], None]) -> DBAPIConnection:
        # PyMySQL has no time-out for what is said between connecting and the first statement.
        raw: Any = SharedTlsConnection(**parameters, defer_connect=True)
        try:
            line = _dial(raw)
        except OSError as error:
            where = raw.unix_socket or f"{raw.host}:{raw.port}"
            raise pymysql.err.OperationalError(CR.CR_CONN_HOST_ERROR, f"cannot connect to {where}: {error}") from error
        try:
            opened(line.dup())
        except BaseException:
            line.close()
            raise
        raw.connect(line)
        return raw  # type: ignore[no-any-return]

    @classmethod
    def container_expression(cls, *, collation_is_binary: bool) -> str:
        # Whatever the column's character set: compare the bytes of utf8mb4. A collation, even a binary one, would
        # ignore blanks at the end.
        return "CONTAINER" if collation_is_binary else "CAST(CONVERT(CONTAINER USING utf8mb4) AS BINARY)"

    def connected(self, connection: Connection) -> None:
        # Gap locks of REPEATABLE READ would make a purge wait for other queues' inserts.
        connection.execute(text("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"))
        self._packet_bytes_max = int(connection.execute(text("SELECT @@max_allowed_packet")).scalar_one())
        room = self._packet_bytes_max - _PACKET_MARGIN_BYTES
        self.message_bytes_max = max(1, min(self.options.message_bytes_max, room))

    def write(self, connection: DBAPIConnection, batch: Batch, fence: Fence | None = None) -> int:
        # The first of the new rows proves the term by its ID, which takes half the time of a statement for it; a row
        # that comes alone takes less still. Not before a purge: that may take long, and renewals would wait for the
        # lock.
        if fence is not None and batch.is_one_add:
            if not self._insert_alone(connection, batch.adds[0], fence):
                raise LeaseLost(f"the row of {self.statements.lock} is gone")
            return 0
        by_id = fence is not None and bool(batch.adds) and not batch.purges
        packets = self._written(batch, fence, by_id=by_id)
        if by_id and len(packets) > 1:  # the lock would be held from one to the next
            packets = self._written(batch, fence, by_id=False)
        return sum(self._send(connection, packet) for packet in packets)

    def _written(self, batch: Batch, fence: Fence | None, *, by_id: bool) -> list[list[bytes]]:
        """The packets of a batch; the proof is in the last one, together with the end."""
        words = [*self._inserts(batch.adds, fence if by_id else None), *self._rest(batch)]
        end = [b"COMMIT"] if fence is None or by_id else [self.fence_words(fence), b"COMMIT"]
        if len(words) + len(end) <= 2:  # one statement is a transaction by itself
            return [words]
        packets = _packets([b"BEGIN", *words], self._packet_bytes_max - 64 - sum(map(len, end)))
        packets[-1] += end
        return packets

    def prove(self, connection: DBAPIConnection, fence: Fence) -> None:
        self._send(connection, [self.fence_words(fence)])

    def transact(self, connection: DBAPIConnection, statements: Sequence[str], fence: Fence | None) -> None:
        words = [statement.encode() for statement in statements]
        proof = [] if fence is None else [self.fence_words(fence)]
        self._send(connection, [b"BEGIN", *words, *proof, b"COMMIT"])

    def fenced(self, connection: Connection, fence: Fence) -> None:
        with self._perhaps_not_killed():
            self.end_sessions(connection, fence.holder)
        self._name_session(connection, session_name(fence.holder))
        if _is_mariadb(connection):  # MySQL counts idleness between transactions only together with that inside
            connection.execute(text(f"SET SESSION idle_transaction_timeout = {_seconds(fence.idle_ms)}"))

    def holding(self, connection: Connection, idle_ms: int) -> None:
        connection.execute(text("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"))
        connection.execute(text(f"SET SESSION wait_timeout = {_seconds(idle_ms)}"))

    def take_over(self, connection: Connection, parameters: Mapping[str, object]) -> bool:
        names = self.statements
        statement = (
            f"UPDATE {names.lock} l JOIN {names.term} t ON t.ID = l.ID"
            f" SET l.BROKER_NAME = :holder, l.TIME = {names.lease_end}, t.TERM = t.TERM + 1, t.HOLDER = :holder"
            f" WHERE l.ID = 1 AND t.TERM = :seen AND {names.lease_is_free}"
        )
        return connection.execute(text(statement), parameters).rowcount > 0

    def end_sessions(self, connection: Connection, holder: str) -> int:
        session = connection.execute(text("SELECT IS_USED_LOCK(:name)"), {"name": session_name(holder)}).scalar()
        if session is None:
            return 0
        connection.execute(text(f"KILL {int(session)}"))
        return 1

    @contextmanager
    def _perhaps_not_killed(self) -> Iterator[None]:
        """Bear with a session that is gone already, or that we may not end."""
        try:
            yield
        except DBAPIError as error:
            if self.error_code(error.orig or error) not in _NOT_KILLED:
                raise

    def begin_session(self, connection: Connection, holder: str) -> int:
        session_id = int(connection.execute(text("SELECT CONNECTION_ID()")).scalar_one())
        self._name_session(connection, f"{session_name(holder)} {session_id}")
        return session_id

    def outlive(self, connection: Connection, holder: str, session_id: int) -> None:
        with self._perhaps_not_killed():
            connection.execute(text(f"KILL {session_id}"))
        self._name_session(connection, f"{session_name(holder)} {session_id}")

    def _name_session(self, connection: Connection, name: str) -> None:
        """A session has no name here; it is found by a lock that it has, and has until its transaction is over."""
        lock = {"name": name, "wait_s": self.options.connect_timeout_s}
        if connection.execute(text("SELECT GET_LOCK(:name, :wait_s)"), lock).scalar() != 1:
            raise ConnectionLost(STILL_AT_WORK)

    def hold_row_lock(self, connection: Connection, holder: str) -> int:
        # Who has which row locked is told to administrators only. A named lock ends with its session, as the row's.
        self._name_session(connection, lock_session_name(holder))
        return int(connection.execute(text("SELECT CONNECTION_ID()")).scalar_one())

    def is_at_work(self, connection: Connection, holder: str) -> bool:
        used = connection.execute(text("SELECT IS_USED_LOCK(:name)"), {"name": session_name(holder)}).scalar()
        return used is not None

    def hold_signal(self, connection: Connection, signal: str) -> bool:
        return connection.execute(text("SELECT GET_LOCK(:name, 0)"), {"name": signal}).scalar() == 1

    def give_signal(self, connection: Connection, signal: str) -> None:
        connection.execute(text("SELECT RELEASE_LOCK(:name)"), {"name": signal})

    def wait_for_signal(
        self, connection: Connection, signal: str, timeout_s: float, is_held: Callable[[Connection], bool]
    ) -> None:
        # Wait for the lock that the master's session has, and give it back at once: the next one waits too.
        wait = text("SELECT IF(IS_FREE_LOCK(:name), 'free', IF(GET_LOCK(:name, :wait_s), RELEASE_LOCK(:name), 'held'))")
        until = time.monotonic() + timeout_s
        while (left_s := until - time.monotonic()) > 0:
            wait_s = min(left_s, _SIGNAL_WAIT_MOST_S)
            if not _is_mariadb(connection):  # MySQL knows whole seconds only
                wait_s = round(wait_s)
            found = connection.execute(wait, {"name": signal, "wait_s": wait_s}).scalar()
            if found == "held" and wait_s:
                continue
            if found == "held":
                super().wait_for_signal(connection, signal, left_s, is_held)
            elif found == "free" and is_held(connection):
                time.sleep(left_s)  # there will be no signal: the master is a Java broker, or has crashed
            return

    def rollback(self, connection: DBAPIConnection) -> None:
        raw: Any = connection
        raw.query(b"ROLLBACK")

    def _send(self, connection: DBAPIConnection, words: Sequence[bytes]) -> int:
        """Send statements as one packet, read every answer; returns how many rows the removes among them removed."""
        raw: Any = connection
        removed = 0
        affected = raw.query(b";".join(words))
        for word in words:
            if word is not words[0]:
                affected = raw.next_result()
            if word.startswith(b"DELETE") and b" ID IN " in word[:80]:
                removed += affected
        return removed

    def _inserts(self, rows: Sequence[MessageRow], fence: Fence | None = None) -> list[bytes]:
        head = self.statements.message_insert.encode()
        words: list[list[bytes]] = []
        values: list[bytes] = []
        room = 0
        for row in rows:
            proof = None if fence is None else b"(SELECT %s FROM %s)" % self._proof(row[0], fence)
            value = b"(%s)" % self._values(row, proof)
            fence = None
            room -= len(value) + 1
            if room < 0:
                room = self._packet_bytes_max - _PACKET_MARGIN_BYTES - len(value)
                values = []
                words.append(values)
            values.append(value)
        return [head + b",".join(values) for values in words]

    def _insert_alone(self, connection: DBAPIConnection, row: MessageRow, fence: Fence) -> int:
        """Insert one row in a transaction of its own; returns how many it were: none if there is no row of the lock."""
        raw: Any = connection
        head = self.statements.message_insert.removesuffix("VALUES ").encode()
        id, locked_row = self._proof(row[0], fence)
        return int(raw.query(b"%sSELECT %s FROM %s" % (head, self._values(row, id), locked_row)))

    def _values(self, row: MessageRow, id: bytes | None) -> bytes:
        """The values of a row as literals, the ID in another wording if there is one."""
        number, producer, sequence, container, expiration, priority, blob = row
        values = b"%s,%s,%d,%s,%d,%d,%s" % (
            id or b"%d" % number,
            _literal(producer),
            sequence,
            _literal(container),
            expiration,
            priority,
            _binary(blob),
        )
        if len(values) + _PACKET_MARGIN_BYTES > self._packet_bytes_max:
            raise MessageTooLarge(
                f"message {number} takes {len(values)} bytes on the way to the server, its max_allowed_packet is"
                f" {self._packet_bytes_max}: raise it"
            )
        return values

    def fence_words(self, fence: Fence) -> bytes:
        """Two rows where one may be, unless the row names us, which the share lock then keeps as it is."""
        proof = b"(SELECT %s FROM %s)" % self._proof(1, fence)
        return b"SELECT IF(%s=1,1,(SELECT 1 UNION SELECT 2))" % proof

    def _proof(self, id: int, fence: Fence) -> tuple[bytes, bytes]:
        """An id that becomes NULL, which no id may be, unless a row names us; and that row, locked."""
        names = self.statements
        row, holder = (names.lock, b"BROKER_NAME") if fence.by_lease else (names.term, b"HOLDER")
        condition = b"%s=%s" % (holder, _literal(fence.holder))
        if fence.lock_session is not None:
            # Within an INSERT no binary log by statements could repeat it. READ COMMITTED is logged by rows.
            name = _literal(lock_session_name(fence.holder))
            condition += b" AND IS_USED_LOCK(%s)=%d" % (name, fence.lock_session)
        named = b"IF(%s,%d,NULL)" % (condition, id)
        return named, b"%s WHERE ID=1 LOCK IN SHARE MODE" % row.encode()

    def _rest(self, batch: Batch) -> list[bytes]:
        table = self.statements.messages.encode()
        container = self.statements.container.encode()
        words = [b"UPDATE %s SET MSG=%s WHERE ID=%d" % (table, _binary(blob), id) for id, blob in batch.updates]
        words += [
            b"DELETE FROM %s WHERE CONTAINER=%s AND %s=%s AND ID<=%d AND XID IS NULL"
            % (table, _literal(name), container, _literal(name), last)
            for name, last in batch.purges
        ]
        words += self._marks(batch)
        words += map(self.filled, batch.changes)
        for start in range(0, len(batch.removes), _REMOVES_AT_ONCE):
            ids = ",".join(map(str, batch.removes[start : start + _REMOVES_AT_ONCE])).encode()
            words.append(b"DELETE FROM %s WHERE ID IN (%s)" % (table, ids))
        return words

    def _marks(self, batch: Batch) -> list[bytes]:
        """What a batch remembers and forgets of producers."""
        table, now = self.statements.producers.encode(), self.epoch_ms.encode()
        words = []
        marks = list(batch.producers.items())
        for start in range(0, len(marks), _MARKS_AT_ONCE):
            rows = [b"SELECT %s AS name,%d AS seq" % (_literal(n), s) for n, s in marks[start : start + _MARKS_AT_ONCE]]
            # Both servers know this wording; of the shorter ones each knows another.
            words.append(
                b"INSERT INTO %s (PRODUCER,LAST_SEQ,LAST_USED_MS) SELECT new.name,new.seq,%s FROM (%s) new ON DUPLICATE"
                b" KEY UPDATE LAST_SEQ=GREATEST(LAST_SEQ,new.seq),LAST_USED_MS=%s"
                % (table, now, b" UNION ALL ".join(rows), now)
            )
        if batch.forgets:
            words.append(
                b"DELETE FROM %s WHERE LAST_USED_MS<%s-%d AND PRODUCER IN (%s)"
                % (table, now, self.options.producer_memory_ms, b",".join(map(_literal, batch.forgets)))
            )
        return words

    def literal(self, value: str | int | bytes | None) -> bytes:
        if isinstance(value, bytes):
            return _binary(value)
        return _literal(value) if isinstance(value, str) else b"NULL" if value is None else b"%d" % value

    def error_code(self, error: BaseException) -> str:
        if isinstance(error, pymysql.Error) and error.args and isinstance(error.args[0], int):
            return str(error.args[0])
        if isinstance(error, pymysql.InterfaceError | ConnectionError | TimeoutError):
            return "2013"
        return ""

    def error_kinds(self) -> Mapping[str, type[StoreError]]:
        return _KINDS


def _is_mariadb(connection: Connection) -> bool:
    return bool(getattr(connection.dialect, "is_mariadb", False))


def _lock_timeout_s(options: JdbcOptions) -> int:
    return max(1, int(options.query_timeout_s))


class SharedTlsConnection(pymysql.connections.Connection):
    """A connection that shares its TLS settings with all others whose URLs say nothing of TLS.

    To make them PyMySQL reads all certificates of the system, at which nobody looks then. It takes longer than all else
    of connecting.
    """

    def _create_ssl_ctx(self, sslp: Mapping[str, object]) -> ssl.SSLContext:
        context: ssl.SSLContext = super()._create_ssl_ctx(sslp) if sslp else _unverified()  # type: ignore[misc]  # private
        return context


@cache
def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _dial(raw: Any) -> socket.socket:
    """A connected socket, as PyMySQL would make it."""
    if raw.unix_socket:
        line = socket.socket(socket.AF_UNIX)
        try:
            line.settimeout(raw.connect_timeout)
            line.connect(raw.unix_socket)
        except OSError:
            line.close()
            raise
        return line
    source = (raw.bind_address, 0) if raw.bind_address else None
    line = socket.create_connection((raw.host, raw.port), raw.connect_timeout, source)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return line


def _seconds(time_ms: int) -> int:
    return max(1, time_ms // 1000)


def _packets(words: Sequence[bytes], bytes_max: int) -> list[list[bytes]]:
    """Cut a list of statements into packets that the server takes."""
    packets: list[list[bytes]] = []
    room = 0
    for word in words:
        room -= len(word) + 1
        if room < 0:
            packets.append([])
            room = bytes_max - len(word)
        packets[-1].append(word)
    return packets


def _binary(blob: bytes) -> bytes:
    """A binary literal: hexadecimal, so that whoever reads the server's process list or logs sees text.

    Only what is so long that twice its length may not fit a packet goes as bytes. The session's sql_mode lets the
    backslash escape; NUL needs none in a packet with a length.
    """
    if 0 < len(blob) <= _HEXADECIMAL_BYTES_MAX:
        return b"0x" + hexlify(blob)
    return b"_binary'" + blob.replace(b"\\", b"\\\\").replace(b"'", b"\\'") + b"'"


@lru_cache(maxsize=8192)
def _literal(value: str) -> bytes:
    """A string literal in the connection's character set."""
    return b"'" + value.encode().replace(b"\\", b"\\\\").replace(b"'", b"\\'") + b"'"
