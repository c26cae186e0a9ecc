"""Sessions of MySQL and MariaDB, with PyMySQL: connecting, their names and ends, locks and signals."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import pymysql
from pymysql.constants import CLIENT, CR, SERVER_STATUS
from sqlalchemy import Connection, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError

from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.store.jdbc.dialect.base.errors import AccessDenied, ConnectionLost
from jdbcstore.store.jdbc.dialect.base.session import STILL_AT_WORK, raw_connection
from jdbcstore.store.jdbc.dialect.mysql.errors import KINDS, code_of
from jdbcstore.store.jdbc.dialect.mysql.hosts import Hosts
from jdbcstore.store.jdbc.dialect.mysql.replicas import (
    ClusterKind,
    ClusterState,
    history,
    is_semi_synchronous,
    replication,
)
from jdbcstore.store.jdbc.dialect.mysql.schema import is_mariadb
from jdbcstore.store.jdbc.dialect.mysql.write import PACKET_MARGIN_BYTES, MySQLStatements, is_certified
from jdbcstore.store.jdbc.fence import Fence, lock_session_name, session_name
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.replication import Replication

__all__ = ["SESSION_SETTINGS", "MySQLDialect", "connected"]

#: What no setting of the server may change: literals are escaped with backslashes and nothing is cut to fit; all rows
#: are read, however many are looked at; rows are changed by other columns than keys; a session goes on after a commit.
SESSION_SETTINGS: Final = (
    "sql_mode='STRICT_ALL_TABLES',sql_select_limit=18446744073709551615,sql_big_selects=1,sql_safe_updates=0,"
    "completion_type=0"
)

#: A statement that waits must not look like a connection that is broken.
_SIGNAL_WAIT_MOST_S: Final = 1.0

#: For so long one of several servers is tried at least, in seconds.
_LEAST_S: Final = 2

#: The session has just ended; it is another user's.
_NOT_KILLED: Final = ("1094", "1095")


class MySQLDialect(MySQLStatements):
    """MariaDB 10.6 and newer, MySQL 8.0 and newer, InnoDB."""

    # A row's ID was NULL; a subquery that must not have more than one row has two.
    lease_lost_codes = frozenset({"1048", "1242"})
    # The third one tells who came second in a cluster, and who was chosen when two wait for each other.
    locked_codes = frozenset({"1205", "3572", "1213"})
    row_lock = "SELECT ID FROM {lock} WHERE ID = 1 FOR UPDATE NOWAIT"

    @classmethod
    def keeps_uncommitted(cls, raw: Any) -> bool:
        is_in_transaction = getattr(raw, "server_status", 0) & SERVER_STATUS.SERVER_STATUS_IN_TRANS  # PyMySQL's
        return bool(is_in_transaction) or not raw.get_autocommit()

    @classmethod
    def engine_arguments(cls, options: JdbcOptions, given: Mapping[str, Any]) -> dict[str, Any]:
        # FOUND_ROWS: count the rows that a statement met, not those it changed. MULTI_STATEMENTS: a batch in one
        # packet.
        lock_s = _lock_timeout_s(options)
        return {
            "connect_args": {
                "charset": "utf8mb4",
                **({} if "connect_timeout" in given else {"connect_timeout": options.connect_timeout_s}),
                "client_flag": CLIENT.MULTI_STATEMENTS | CLIENT.FOUND_ROWS,
                "init_command": f"SET SESSION {SESSION_SETTINGS},"
                f"innodb_lock_wait_timeout={lock_s},lock_wait_timeout={lock_s}",
                "read_from": options.read_from,
            },
        }

    @classmethod
    def answer_timeout_s(cls, options: JdbcOptions) -> float:
        # MySQL looks once a second who has waited for a lock too long.
        longest_s = max(_lock_timeout_s(options), options.query_timeout_s)
        return longest_s + min(10.0, max(1.5, options.query_timeout_s / 3))

    @classmethod
    def connect(cls, parameters: dict[str, Any], opened: Callable[[socket.socket], None]) -> DBAPIConnection:
        return connected(parameters, opened)  # type: ignore[return-value]  # PyMySQL's types are stricter

    @classmethod
    def container_expression(cls, *, collation_is_binary: bool) -> str:
        # Whatever the column's character set: compare the bytes of utf8mb4. A collation, even a binary one, would
        # ignore blanks at the end.
        return "CONTAINER" if collation_is_binary else "CAST(CONVERT(CONTAINER USING utf8mb4) AS BINARY)"

    def connected(self, connection: Connection) -> None:
        # Gap locks of REPEATABLE READ would make a purge wait for other queues' inserts.
        connection.execute(text("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"))
        self._packet_bytes_max = int(connection.execute(text("SELECT @@max_allowed_packet")).scalar_one())
        raw_connection(connection).sees_its_own()
        room = self._packet_bytes_max - PACKET_MARGIN_BYTES
        self.message_bytes_max = max(1, min(self.options.message_bytes_max, room))

    def confirm(self, connection: Connection) -> None:
        # A semi-synchronous commit whose session is ended while it waits is there, and no replica has it. Replicas
        # get commits in order: when one that comes later is answered, so would that have been.
        if is_semi_synchronous(connection):
            table = self.statements.producers
            words = [f"INSERT INTO {table} VALUES ('',0,0)", f"DELETE FROM {table} WHERE PRODUCER=''"]
            try:
                connection.exec_driver_sql("BEGIN")
                for word in words:
                    connection.exec_driver_sql(word)
                connection.exec_driver_sql("COMMIT")
            except DBAPIError as error:
                connection.invalidate()
                raise ConnectionLost(f"no replica has confirmed what was committed: {error.orig}") from error

    def replication(self, connection: Connection) -> Replication:
        return replication(connection)

    def history(self, connection: Connection) -> str:
        return history(connection)

    def fenced(self, connection: Connection, fence: Fence) -> bool:
        with self._perhaps_not_killed():
            self.end_sessions(connection, fence.holder)
        self._name_session(connection, session_name(fence.holder))
        if is_mariadb(connection):  # MySQL counts idleness between transactions only together with that inside
            connection.execute(text(f"SET SESSION idle_transaction_timeout = {_seconds(fence.idle_ms)}"))
        return not is_certified(raw_connection(connection))  # named locks are one member's

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
        return self._end_session(connection, session_name(holder))

    def _end_session(self, connection: Connection, name: str) -> int:
        session = connection.execute(text("SELECT IS_USED_LOCK(:name)"), {"name": name}).scalar()
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
        name = f"{session_name(holder)} {session_id}"
        with self._perhaps_not_killed():
            # By its name: where the line has led to another server, the number is somebody else's.
            self._end_session(connection, name)
        self._name_session(connection, name)

    def _name_session(self, connection: Connection, name: str) -> None:
        """A session has no name here; it is found by a lock that it has, and has until its transaction is over."""
        lock = {"name": name, "wait_s": self.options.connect_timeout_s}
        if connection.execute(text("SELECT GET_LOCK(:name, :wait_s)"), lock).scalar() != 1:
            raise ConnectionLost(STILL_AT_WORK)

    def require_row_lock(self, connection: Connection) -> None:
        if is_certified(raw_connection(connection)):
            raise ConfigurationError(
                "locker 'database' is not possible on Galera or Group Replication, where a row that is locked on one"
                " member is free on the others: use 'lease' (lease-database-locker)"
            )

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
            if not is_mariadb(connection):  # MySQL knows whole seconds only
                wait_s = round(wait_s)
            found = connection.execute(wait, {"name": signal, "wait_s": wait_s}).scalar()
            if found == "held" and wait_s:
                continue
            if found == "held":
                super().wait_for_signal(connection, signal, left_s, is_held)
            elif found == "free" and is_held(connection):
                time.sleep(left_s)  # there will be no signal: the master is a Java broker, or has crashed
            return

    def waiting_for_signal(self, connection: Connection, signal: str) -> int | None:
        if is_certified(raw_connection(connection)):
            return None  # who waits on another member is not seen on this one
        sessions = connection.exec_driver_sql("SHOW PROCESSLIST").mappings()  # those of our own user at least
        return sum(f"IS_FREE_LOCK('{signal}')" in (session["Info"] or "") for session in sessions)

    def rollback(self, connection: DBAPIConnection) -> None:
        raw: Any = connection
        raw.query(b"ROLLBACK")

    def size_query(self) -> str:
        return (
            "SELECT DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES"
            f" WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{self.statements.messages}'"
        )

    def error_code(self, error: BaseException) -> str:
        return code_of(error)

    def error_text(self, error: BaseException) -> str:
        # PyMySQL's are pairs of a number and a text, and shown as such.
        if isinstance(error, pymysql.err.Error) and len(error.args) > 1:
            return str(error.args[1])
        return super().error_text(error)

    def error_kinds(self) -> Mapping[str, type[StoreError]]:
        return KINDS


def _lock_timeout_s(options: JdbcOptions) -> int:
    return max(1, int(options.query_timeout_s))


class SharedTlsConnection(pymysql.connections.Connection):
    """A connection that knows which cluster it leads into; it shares its TLS settings with all others whose URLs say
    nothing of TLS.

    To make them PyMySQL reads all certificates of the system, at which nobody looks then. It takes longer than all else
    of connecting.
    """

    #: Whether commits are certified by a cluster, and whether any member is as good as another.
    is_certified = is_one_of_equals = False
    #: Whether the server took writes when the session began.
    takes_writes = True
    _writing = ""
    #: See `ClusterState.waiting`.
    waiting = ""

    def reach(self, opened: Callable[[socket.socket], None]) -> None:
        """Connect, and ask into which cluster; arguments as of `Dialect.connect`."""
        # PyMySQL has no timeout for what is said between connecting and the first statement.
        try:
            line = _dial(self)
        except OSError as error:
            raise pymysql.err.OperationalError(
                CR.CR_CONN_HOST_ERROR, f"cannot connect to {self._place}: {error}"
            ) from error
        try:
            opened(line.dup())
        except BaseException:
            line.close()
            raise
        raw: Any = self
        usual_s, raw._read_timeout = raw._read_timeout, raw.connect_timeout  # the next one may be there
        try:
            self.connect(line)
        except pymysql.err.OperationalError as error:
            if code_of(error) != str(CR.CR_SERVER_LOST):
                raise
            raise pymysql.err.OperationalError(
                CR.CR_SERVER_LOST, f"{self._place} accepts the connection and does not answer: {error.args[-1]}"
            ) from error
        except pymysql.err.InternalError as error:  # another host may be what this one is not
            raise pymysql.err.OperationalError(
                CR.CR_CONN_HOST_ERROR, f"{self._place} does not answer as MySQL does: {error.args[-1]}"
            ) from error
        raw._read_timeout = usual_s
        state = ClusterState(self)
        self.is_one_of_equals = state.kind is ClusterKind.GALERA
        self.is_certified, self.takes_writes = state.kind is not ClusterKind.NONE, state.takes_writes
        self._writing, self.waiting = state.writing, state.waiting
        if state.reading and self.takes_writes:
            self.query(state.reading)

    def sees_its_own(self) -> None:
        """From now on this session is the one that writes: what it sees next is as new as all before, and then its
        own."""
        if self._writing:
            self.query(self._writing)

    @property
    def _place(self) -> str:
        return str(self.unix_socket or f"{self.host}:{self.port}")

    def _create_ssl_ctx(self, sslp: Mapping[str, object]) -> ssl.SSLContext:
        context: ssl.SSLContext = super()._create_ssl_ctx(sslp) if sslp else _unverified()  # type: ignore[misc]  # private
        return context


def connected(parameters: Mapping[str, Any], opened: Callable[[socket.socket], None]) -> SharedTlsConnection:
    """A connection to the first server that takes writes, or, where a standby is to be read, to one that takes none.

    Args:
        parameters: PyMySQL's, with `host` as `Hosts` takes it, and `JdbcOptions.read_from`.
        opened: as of `Dialect.connect`; called for each server that is tried.

    Raises:
        pymysql.err.OperationalError: there is none; the text has what each said. One server that is alone is taken as
            it is, unless a standby is wanted.
    """
    given = dict(parameters)
    wants_standby, hosts, told = given.pop("read_from", "primary") == "standby", Hosts(given), list[str]()
    given["connect_timeout"] = max(_LEAST_S, given["connect_timeout"] // len(hosts))
    for host, port in hosts:
        raw = SharedTlsConnection(**{**given, "host": host, "port": port}, defer_connect=True)
        try:
            raw.reach(opened)
        except pymysql.err.OperationalError as error:
            if len(hosts) == 1 or KINDS.get(code_of(error)) is AccessDenied:
                raise
            told.append(str(error.args[-1]))
            continue
        if (raw.is_one_of_equals and raw.takes_writes) or raw.takes_writes is not wants_standby:
            hosts.met((host, port))
            return raw
        if len(hosts) == 1 and not wants_standby:
            return raw
        told.append(f"{host}:{port} takes {'' if raw.takes_writes else 'no '}writes")
        raw.close()
    wanted = "no server is a standby" if wants_standby else "no server takes writes"
    raise pymysql.err.OperationalError(CR.CR_CONN_HOST_ERROR, f"{wanted}: {'; '.join(told)}")


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
