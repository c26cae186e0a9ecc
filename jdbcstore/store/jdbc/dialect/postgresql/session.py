"""PostgreSQL's sessions, with psycopg2: connecting, their names and ends, locks and signals."""

from __future__ import annotations

import hashlib
import os
import select
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlalchemy import Connection, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError

from jdbcstore.errors import StoreError
from jdbcstore.store.jdbc.dialect.base.errors import ConnectionLost
from jdbcstore.store.jdbc.dialect.base.session import STILL_AT_WORK, Dialect
from jdbcstore.store.jdbc.dialect.postgresql.errors import KINDS, code_of
from jdbcstore.store.jdbc.dialect.postgresql.hosts import connected, target
from jdbcstore.store.jdbc.dialect.postgresql.standbys import HISTORY, NEXT_TERM, replication
from jdbcstore.store.jdbc.dialect.postgresql.write import FENCE, PostgreSQLStatements, Session
from jdbcstore.store.jdbc.fence import Fence, lock_session_name, session_name
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.replication import Level, Replication
from jdbcstore.store.jdbc.statements import Statements

__all__ = ["PostgreSQLDialect"]

#: libpq's word for a connection that is in no transaction.
_PQTRANS_IDLE: Final = 0
#: Not permitted, not supported, not there: some services take functions away that tell of the server's log.
_UNTOLD: Final = frozenset({"42501", "0A000", "42883"})
#: How often to look whether a session has ended.
_LOOK_AGAIN_S: Final = 0.01


class PostgreSQLDialect(PostgreSQLStatements):
    """PostgreSQL 13 and newer."""

    needs_vacuum = True
    lease_lost_codes = frozenset({"22012"})  # division by zero
    locked_codes = frozenset({"55P03", "57014"})
    no_table_words = ("42P01",)
    gains_by_deleting_together = True
    next_term = NEXT_TERM
    #: Whether it is known if the server tells of its timeline.
    _is_history_asked = False
    # ActiveMQ's FOR UPDATE on the row conflicts with it, both ways. A row lock needs a transaction id for as long as it
    # is held, and nothing that is removed meanwhile can be vacuumed; this table lock needs none.
    row_lock = "LOCK TABLE {lock} IN EXCLUSIVE MODE NOWAIT"

    @classmethod
    def engine_arguments(cls, options: JdbcOptions, given: Mapping[str, Any]) -> dict[str, Any]:
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
        of_the_line = {
            "connect_timeout": options.connect_timeout_s,
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": int(options.query_timeout_s * 1000),
        }
        ours = " ".join(f"-c {name}={value}" for name, value in settings.items())
        return {
            "use_native_hstore": False,  # we have none, and SQLAlchemy would ask for its number
            "connect_args": {
                "application_name": "jdbcstore",
                **{name: value for name, value in of_the_line.items() if name not in given},
                "client_encoding": "utf8",
                "options": f"{given['options']} {ours}" if "options" in given else ours,  # a search_path, say
                **target(options),
            },
        }

    @classmethod
    def connect(cls, parameters: dict[str, Any], opened: Callable[[socket.socket], None]) -> DBAPIConnection:
        raw: Any = connected({**parameters, "connection_factory": Session})
        try:
            opened(socket.socket(fileno=os.dup(raw.fileno())))
        except BaseException:
            raw.close()
            raise
        return raw  # type: ignore[no-any-return]

    def replication(self, connection: Connection) -> Replication:
        try:
            return replication(connection)
        except DBAPIError as error:
            if self.error_code(error.orig or error) not in _UNTOLD:
                raise
            return Replication(Level.NONE, "a server that does not tell of its replicas")

    def history(self, connection: Connection) -> str:
        try:
            found = str(connection.exec_driver_sql(HISTORY).scalar_one())
        except DBAPIError as error:
            if self.error_code(error.orig or error) not in _UNTOLD:
                raise
            # Nor can the next term ask for it.
            self.next_term = Dialect.next_term
            names = self.options.table_names
            self.statements = Statements(names, self.statements.container, epoch_ms=self.epoch_ms)
            found = ""
        self._is_history_asked = True
        return found

    def fenced(self, connection: Connection, fence: Fence) -> bool:
        self.outlive(connection, fence.holder)
        self.holding(connection, fence.idle_ms)
        session_id = self.begin_session(connection, fence.holder)
        raw: Any = connection.connection.dbapi_connection
        if session_id != raw.info.backend_pid:  # a pooler has told another number
            self._require_own_session(connection, session_id)
        # Read and planned once: that costs more than running it.
        with raw.cursor() as cursor:
            cursor.execute(b"PREPARE %s AS %s" % (FENCE, self.fence_words(fence)))
        return True

    def _require_own_session(self, connection: Connection, session_id: int) -> None:
        """Raise `StoreError` if a pooler gives our session to another connection while it does nothing."""
        with connection.engine.connect() as other:
            if other.execute(text("SELECT pg_backend_pid()")).scalar_one() == session_id:
                raise StoreError(
                    "between the broker and PostgreSQL there is a pooler that shares sessions, as PgBouncer in"
                    " transaction mode: the lock and the proof of each commit need sessions of their own. Use session"
                    " mode (pool_mode = session), or connect directly"
                )

    def holding(self, connection: Connection, idle_ms: int) -> None:
        connection.execute(text(f"SET idle_in_transaction_session_timeout = {idle_ms}"))

    def take_over(self, connection: Connection, parameters: Mapping[str, object]) -> bool:
        if not self._is_history_asked:
            self.history(connection)
        names = self.statements
        # Only what a statement locks does it see as it is when others have been at it. The lock row comes first: who
        # waits for it must not have the term locked, which masters by a lock on the table prove.
        statement = (
            f"WITH free AS (SELECT ID FROM {names.lock} WHERE ID = 1 AND {names.lease_is_free} FOR UPDATE),"
            f" last AS (SELECT t.ID FROM {names.term} t JOIN free ON t.ID = free.ID WHERE t.TERM = :seen"
            " FOR UPDATE OF t),"
            f" won AS (UPDATE {names.lock} l SET BROKER_NAME = :holder, TIME = {names.lease_end} FROM last"
            " WHERE l.ID = last.ID RETURNING l.ID)"
            f" UPDATE {names.term} t SET TERM = {self.next_term}, HOLDER = :holder FROM won WHERE t.ID = won.ID"
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
        connection.exec_driver_sql(f"SET application_name = '{signal}'")  # to be counted
        connection.exec_driver_sql(f"LISTEN {signal}")
        if is_held(connection) and not raw.notifies:
            select.select([raw], [], [], timeout_s)
            raw.poll()
        # Who listens and then holds a transaction open would keep everybody's notifications from being cleared away.
        connection.exec_driver_sql(f"UNLISTEN {signal}")
        connection.exec_driver_sql("RESET application_name")
        raw.notifies.clear()

    def waiting_for_signal(self, connection: Connection, signal: str) -> int:
        statement = (
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = :signal"
        )
        return int(connection.execute(text(statement), {"signal": signal}).scalar_one())

    @classmethod
    def keeps_uncommitted(cls, raw: Any) -> bool:
        return not raw.autocommit or int(raw.info.transaction_status) != _PQTRANS_IDLE

    @classmethod
    def outbox_insert(cls, table: str, columns: str, values: str, channel: str) -> str:
        # The one row of `told` is what makes the server evaluate it.
        return (
            f"WITH told AS MATERIALIZED (SELECT pg_notify('{channel}', ''))"
            f" INSERT INTO {table} ({columns}) SELECT {values} FROM told"
        )

    def listen(self, connection: Connection, channel: str) -> int | None:
        connection.exec_driver_sql(f"LISTEN {channel}")
        raw: Any = connection.connection.dbapi_connection
        return int(raw.fileno())

    def clear_notifications(self, connection: Connection) -> None:
        raw: Any = connection.connection.dbapi_connection
        raw.poll()
        raw.notifies.clear()

    def rollback(self, connection: DBAPIConnection) -> None:
        with connection.cursor() as cursor:  # type: ignore[attr-defined]  # as above
            cursor.execute(b"ROLLBACK")

    def vacuum(self, connection: Connection) -> None:
        # TRUNCATE would take a lock that stops the writer; the room is wanted again at once anyway.
        connection.execute(text(f"VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) {self.statements.messages}"))

    def size_query(self) -> str:
        return f"SELECT pg_total_relation_size('{self.statements.messages}')"

    def error_code(self, error: BaseException) -> str:
        return code_of(error)

    def error_kinds(self) -> Mapping[str, type[StoreError]]:
        return KINDS
