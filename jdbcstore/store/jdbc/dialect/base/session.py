"""What the store asks of a database while it works: facts and fragments, with a default that works.

A dialect knows how to open the writer's connection, how to commit a batch the fastest way, how to word a page, and what
the driver's errors mean. In the folder of a database it is written in two files: ``write.py`` has what is sent to read
and write messages, ``session.py`` the rest.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import URL, Connection
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from jdbcstore.errors import LeaseLost, StoreError, TransientStoreError
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.replication import Level, Replication
from jdbcstore.store.jdbc.statements import Statements

if TYPE_CHECKING:
    from jdbcstore.store.jdbc.fence import Fence
    from jdbcstore.store.jdbc.rows import Change
    from jdbcstore.store.jdbc.writes import Batch

__all__ = ["STILL_AT_WORK", "Dialect", "raw_connection"]

#: What `Dialect.fenced` says while a former session lives.
STILL_AT_WORK: Final = "a session of ours that was lost is still at work on the server"
#: How often a standby looks at the row where nothing better can be had.
_LOOK_AGAIN_S: Final = 0.1


class Dialect:
    """What the store needs to know about a database. Subclasses override facts first, methods where they must.

    Args:
        options: of the store.
        has_page_index: whether our index is there; without it pages are worded so that they work, not so that they
        stay flat.
        file: the database, where it is a file; errors name it, since its library does not.
    """

    #: How one level of ``{priority}`` is asked for; ``=`` unless the planner needs another wording.
    level_condition = "{priority} = :level"
    #: How the rows of one level are ordered along our index.
    level_order = "ID"
    #: The same, from the end.
    level_order_back = "ID DESC"
    #: Stands between the table and WHERE of a page to name our index, ``{index}`` being its name.
    index_hint = ""
    #: The length of a blob in bytes, without reading the blob.
    blob_length = "LENGTH(MSG)"
    #: Whether there is a server, to which a line may break.
    has_server = True
    #: Whether removed rows have to be vacuumed by somebody.
    needs_vacuum = False
    #: How to delete rows that are named by the primary key, looking at no other row.
    delete_by_key = "DELETE FROM {table} WHERE"
    #: One of these is in the code or the text of what drivers of applications raise when a table is missing.
    no_table_words: tuple[str, ...] = ()
    #: Whether one DELETE that names several rows by their whole keys is quicker than one for each, and waits for no
    #: other row.
    gains_by_deleting_together = False
    #: Whether a bulk load into an empty table is faster without indexes that are made again at the end.
    gains_by_rebuilding = False
    #: The database's clock in epoch milliseconds: the time when the statement began, whatever it had to wait for.
    epoch_ms = "NULL"
    #: The term that follows TERM, as an expression: larger, and never given out before. Where a failover may take back
    #: the last terms, it has to tell those before it from those after it.
    next_term = "TERM + 1"
    #: How to begin a transaction that writes.
    begin = "BEGIN"
    #: What the server says when a fence does not hold; no other statement of ours makes it say so.
    lease_lost_codes: frozenset[str] = frozenset()
    #: What the server says when somebody else has a row or table locked.
    locked_codes: frozenset[str] = frozenset()
    #: Takes the row of ACTIVEMQ_LOCK, or says at once that somebody has it; ``{lock}`` is the table. Empty where a lock
    #: that is held would keep ourselves out.
    row_lock = ""

    def __init__(self, options: JdbcOptions, statements: Statements, *, has_page_index: bool, file: str = "") -> None:
        self.options = options
        self.file = file
        self.statements = statements
        self.has_page_index = has_page_index
        #: `index_hint` with the name filled in, empty while the index is not there.
        self.hint = self.index_hint.format(index=statements.page_index) if has_page_index else ""
        #: The largest message that the database takes, in bytes; learned when the writer connects.
        self.message_bytes_max = options.message_bytes_max

    @classmethod
    def file_of(cls, url: URL) -> str:
        """The file that a database is, empty if a server has it, or memory."""
        return "" if cls.has_server else (url.database or "")

    @classmethod
    def for_reading(cls, url: URL) -> URL:
        """The URL for who only reads, and writes nothing at all.

        Raises:
            StoreUnavailable: it cannot be read without being written; the text says what to do.
        """
        return url

    @classmethod
    def engine_arguments(cls, options: JdbcOptions, given: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments for `sqlalchemy.create_engine`: timeouts, character set, isolation.

        Args:
            options: the timeouts.
            given: what the URL says to the driver. SQLAlchemy lets ``connect_args`` go before it, without a word.
        """
        return {}

    @classmethod
    def answer_timeout_s(cls, options: JdbcOptions) -> float:
        """How long an answer may take: beyond the server's own timeouts, since those leave the connection usable."""
        return options.query_timeout_s + min(2.0, max(0.2, options.query_timeout_s / 10))

    @classmethod
    def make_file(cls, arguments: Sequence[object], parameters: Mapping[str, object]) -> None:
        """Make what has to be there before the driver gets these arguments, so that nobody else can read it.

        Args:
            arguments: the driver's, by position.
            parameters: the driver's, by name.

        Raises:
            StoreError: there is something that cannot be opened; the text says what and why, which drivers may not.
        """

    @classmethod
    def connect(cls, parameters: dict[str, Any], opened: Callable[[socket.socket], None]) -> DBAPIConnection | None:
        """Open a driver's connection, within the timeout for that.

        Args:
            parameters: the driver's.
            opened: called with a duplicate of the connection's socket, as early as it is there.

        Returns:
            The connection; None when there is no socket, and SQLAlchemy shall open it.
        """
        return None

    @classmethod
    def container_expression(cls, *, collation_is_binary: bool) -> str:
        """CONTAINER, or what compares it bytewise where its collation does not."""
        return "CONTAINER"

    def connected(self, connection: Connection) -> None:
        """The writer has a new connection: set what its session needs and learn the server's limits."""

    def write(self, connection: DBAPIConnection, batch: Batch, fence: Fence | None = None) -> int:
        """Apply a batch and commit it; returns how many rows its removes removed.

        Args:
            connection: the driver's own, in autocommit mode, so that the dialect decides how a transaction is sent.
            batch: not empty.
            fence: proved inside the transaction, under a lock that a takeover has to wait for; `fenced` was called. The
                lock is not taken before work whose length is not known, such as a purge, so that renewals need not
                wait for that, and the server asks us nothing while it has it.

        Raises whatever the driver raises; then everything is rolled back, or, if the line broke, unknown. A fence that
        does not hold raises `LeaseLost` or an error with one of `lease_lost_codes`.
        """
        raise NotImplementedError

    def confirm(self, connection: Connection) -> None:
        """Return when what this connection sees is as durable as a commit that the server has answered.

        A server may show rows whose commit still waits for its standbys, or whose wait was cancelled.

        Args:
            connection: in autocommit mode, outside a transaction.

        Raises:
            ConnectionLost: the standbys did not confirm it.
        """

    # -- replicas ------------------------------------------------------------------------------------------------

    def replication(self, connection: Connection) -> Replication:
        """What the server says of its replicas, and of how it commits what this session writes.

        Asked before each attempt to become master, before each renewal where replicas are required, and by
        ``jdbcstore lock status``; the user may have no rights beyond the tables.

        Args:
            connection: in autocommit mode, outside a transaction.
        """
        return Replication(Level.NONE, "one server")

    def history(self, connection: Connection) -> str:
        """The name of the history of the data that this server has: another one after each failover.

        A master whose next connection meets another history begins anew. Empty where there is none, or while it cannot
        be told. Arguments as `replication`.
        """
        return ""

    # -- mastership ----------------------------------------------------------------------------------------------

    def prove(self, connection: DBAPIConnection, fence: Fence) -> None:
        """Ask whether a fence holds; inside a transaction it then does until the end of that. Raises as `write`."""
        raise NotImplementedError

    def transact(self, connection: DBAPIConnection, statements: Sequence[str], fence: Fence | None) -> None:
        """Run statements as one transaction that proves the fence, if any; arguments and errors as of `write`.

        The server asks us nothing meanwhile: a process that is stopped leaves no lock behind that others wait for.
        """
        raise NotImplementedError

    def fenced(self, connection: Connection, fence: Fence) -> bool:
        """The writer has a new connection and a fence: let the server end it should we fall silent in a transaction.

        Returns when no former session of the fence's holder is left, so that what is seen from now on is final. They
        are ended; where that is not permitted they are waited for, until the server notices that they are silent.

        Returns:
            Whether that is known. In a cluster a former session may be another member's.

        Raises:
            ConnectionLost: one is still there after some seconds.
        """
        return True

    def holding(self, connection: Connection, idle_ms: int) -> None:
        """A connection is to hold a lock for long: let the server end it when we have been silent for `idle_ms`."""

    def take_over(self, connection: Connection, parameters: Mapping[str, object]) -> bool:
        """Take the lease if it is free and begin a new term, both or none; returns whether.

        Args:
            connection: in autocommit mode.
            parameters: ``holder``, ``lease_ms``, ``former``: whose lease needs not have run out, or None; ``seen``: the
                last term that was seen. Nothing is taken when another has begun since: a statement that we gave up,
                and that the server runs after all, must not begin one more.
        """
        raise NotImplementedError

    def end_sessions(self, connection: Connection, holder: str) -> int:
        """End what is left of a former master's writing sessions; returns how many.

        No timeout of PostgreSQL ends a session that waits for the rest of a COPY from a process that was stopped, and
        its uncommitted rows would make the new master's wait.
        """
        return 0

    def begin_session(self, connection: Connection, holder: str) -> int:
        """One of several sessions that write in the name of a holder; returns what the server calls it."""
        return 0

    def outlive(self, connection: Connection, holder: str, session_id: int) -> None:
        """Return when a session is gone whose line broke, so that what is seen from now on is final. It is ended.

        Args:
            connection: another one, in autocommit mode.
            holder: in whose name it wrote.
            session_id: as `begin_session` returned it.

        Raises:
            ConnectionLost: it is still there after some seconds.
        """

    def is_at_work(self, connection: Connection, holder: str) -> bool:
        """Whether a holder has a writing session on the server: whoever has the lock row locked writes no name."""
        return False

    def require_row_lock(self, connection: Connection) -> None:
        """Raise `ConfigurationError` where `row_lock` keeps nobody out who comes another way."""

    def hold_row_lock(self, connection: Connection, holder: str) -> int:
        """A session has `row_lock` now, and keeps it: returns what commits know it by (`Fence.lock_session`).

        Args:
            connection: the one that has the lock.
            holder: in whose name.

        Raises:
            ConnectionLost: commits could not find the session.
        """
        raise NotImplementedError

    def is_row_locked(self, connection: Connection) -> bool:
        """Whether `row_lock` cannot be had, which is tried for a moment. Not on a connection that has it."""
        if not self.row_lock:
            return False
        connection.exec_driver_sql("BEGIN")
        try:
            connection.exec_driver_sql(self.row_lock.format(lock=self.statements.lock))
        except DBAPIError as error:
            if not self.is_locked(error):
                raise
            return True
        finally:
            connection.exec_driver_sql("ROLLBACK")
        return False

    def hold_signal(self, connection: Connection, signal: str) -> bool:
        """Let standbys notice when this session of the master ends; False when that did not work, try again later.

        Args:
            connection: the master's locker's.
            signal: a name, letters, digits and underscores, of these tables in this database.
        """
        return True

    def give_signal(self, connection: Connection, signal: str) -> None:
        """The lock was released just now: tell standbys. Arguments as `hold_signal`."""

    def wait_for_signal(
        self, connection: Connection, signal: str, timeout_s: float, is_held: Callable[[Connection], bool]
    ) -> None:
        """Return when the lock may have been released; it may be too early, and by half a second too late.

        Args:
            connection: a standby's locker's, in autocommit mode.
            signal: as in `hold_signal`.
            timeout_s: when to give up.
            is_held: looks whether the lock is held.
        """
        until = time.monotonic() + timeout_s
        while is_held(connection) and (left_s := until - time.monotonic()) > 0:
            time.sleep(min(_LOOK_AGAIN_S, left_s))

    def waiting_for_signal(self, connection: Connection, signal: str) -> int | None:
        """How many are in `wait_for_signal` at the moment; None where the database cannot tell.

        Args:
            connection: any.
            signal: as in `hold_signal`.
        """
        return None

    # -- the outbox ----------------------------------------------------------------------------------------------

    @classmethod
    def keeps_uncommitted(cls, raw: Any) -> bool:
        """Whether an application's next statement is not committed by itself: it is in a transaction, or begins one.

        Args:
            raw: the connection of one of `Database.application_drivers`.
        """
        return not raw.autocommit

    @classmethod
    def outbox_insert(cls, table: str, columns: str, values: str, channel: str) -> str:
        """How an application inserts a row into the outbox, over a connection and with a driver of its own.

        Args:
            table: with its prefix.
            columns: names, with commas between.
            values: the driver's placeholders for them, in this order.
            channel: whom to tell of it when the application commits, where the database can do that: a name.
        """
        return f"INSERT INTO {table} ({columns}) VALUES ({values})"

    def listen(self, connection: Connection, channel: str) -> int | None:
        """Begin to hear when somebody has committed an `outbox_insert`.

        Args:
            connection: in autocommit mode, for nothing else until it is closed.
            channel: as there.

        Returns:
            The file descriptor that becomes readable then; None where the database tells nobody, and has to be asked.
        """
        return None

    def clear_notifications(self, connection: Connection) -> None:
        """Read what has made the descriptor of `listen` readable."""

    # -- reading and errors --------------------------------------------------------------------------------------

    def rollback(self, connection: DBAPIConnection) -> None:
        """Make a connection usable again after `write` failed."""
        connection.rollback()

    def vacuum(self, connection: Connection) -> None:
        """Give the room of removed rows back to the table."""

    def size_query(self) -> str:
        """Asks how many bytes the messages' table takes, with its indexes; empty if that cannot be asked."""
        return ""

    def page(self, level: int | None) -> str:
        """The text of a page of one level of PRIORITY: id, length, and the blob unless it is longer than asked for.

        Parameters ``:container``, ``:level``, ``:after``, ``:inline_bytes`` (bytes), ``:rows`` (how many at most).
        """
        return (
            f"SELECT ID, {self.blob_length}, CASE WHEN {self.blob_length} <= :inline_bytes THEN MSG END"
            f" {self._of_level(level)}"
            f" AND ID > :after AND XID IS NULL ORDER BY {self.level_order} LIMIT :rows"
        )

    def walk(self, level: int | None, *, backwards: bool = False) -> str:
        """The text of a walk along one level of PRIORITY, ids only, from either end.

        Parameters ``:container``, ``:level``, ``:after`` and ``:before`` (between which ids), ``:rows`` (how many at
        most).
        """
        order = self.level_order_back if backwards else self.level_order
        between = "ID > :after AND ID < :before AND XID IS NULL"
        return f"SELECT ID {self._of_level(level)} AND {between} ORDER BY {order} LIMIT :rows"

    def level_count(self, level: int | None) -> str:
        """How many rows of one level there are, also in doubt; by the index alone. Parameters as `walk`."""
        return f"SELECT COUNT(*) {self._of_level(level)} AND ID > :after AND ID < :before"

    def _of_level(self, level: int | None) -> str:
        statements = self.statements
        # Without our index there may be one on PRIORITY alone. It leads through everybody's rows, and is best not used.
        priority = "PRIORITY" if self.has_page_index else "PRIORITY + 0"
        condition = ("{priority} IS NULL" if level is None else self.level_condition).format(priority=priority)
        return f"FROM {statements.messages} {self.hint} WHERE {statements.same_container} AND {condition}"

    def filled(self, change: Change) -> bytes:
        """A statement with its values as literals, for those databases that are sent such."""
        statement, values = change
        parts = iter(statement.encode().split(b"?"))
        return next(parts) + b"".join(self.literal(value) + part for value, part in zip(values, parts, strict=True))

    def literal(self, value: str | int | bytes | None) -> bytes:
        """A value as a literal."""
        raise NotImplementedError

    def is_fence(self, error: BaseException) -> bool:
        """Whether an error says that a fence does not hold."""
        return isinstance(error, LeaseLost) or self.error_code(_driver_error(error)) in self.lease_lost_codes

    def is_locked(self, error: BaseException) -> bool:
        """Whether an error says that somebody else has it locked."""
        return self.error_code(_driver_error(error)) in self.locked_codes

    def is_outage(self, error: BaseException) -> bool:
        """Whether an error that was met while connecting may pass: all do but those known to be of another kind."""
        error = _driver_error(error)
        if not isinstance(error, OSError | SQLAlchemyError | StoreError) and not self.error_code(error):
            return False
        kind = type(error) if isinstance(error, StoreError) else self._kind(self.error_code(error))
        return kind is None or issubclass(kind, TransientStoreError)

    def map_error(self, error: BaseException) -> StoreError:
        """What a driver's error means, in our words. The caller raises it from `error`."""
        error = _driver_error(error)
        if isinstance(error, StoreError):
            return error
        code, lines = self.error_code(error), self.error_text(error).strip().splitlines()
        sentence = lines[0] if lines else repr(error)
        kind = self._kind(code) or StoreError
        told = f"{sentence} [{code or type(error).__name__}]"
        return kind(f"{self.file}: {told}" if self.file and code else told)  # without a code it is another driver's

    def _kind(self, code: str) -> type[StoreError] | None:
        kinds = self.error_kinds()
        return kinds.get(code) or kinds.get(code[:2])

    def error_code(self, error: BaseException) -> str:
        """The database's own code of an error, as text."""
        return ""

    def error_text(self, error: BaseException) -> str:
        """What a driver's error says, without its code."""
        return str(error)

    def error_kinds(self) -> Mapping[str, type[StoreError]]:
        """Which of our errors a code (or its first two characters) stands for."""
        return {}


def raw_connection(connection: Connection) -> Any:
    """The driver's own connection: batches are sent the driver's fastest way, past SQLAlchemy."""
    return connection.connection.dbapi_connection


def _driver_error(error: BaseException) -> BaseException:
    """The driver's error inside SQLAlchemy's."""
    return getattr(error, "orig", None) or error
