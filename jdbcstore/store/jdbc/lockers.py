"""Who is master of a set of tables: a lease in the row of ACTIVEMQ_LOCK, a lock on it, or nobody asks.

A locker has a connection of its own: whatever keeps the writer or the readers busy, a renewal waits for none of them.
It says who is master; what makes it sure is the `Fence`, which every commit of the writer proves.

A standby looks at the row now and then. Two things let it look sooner, and neither decides anything: a signal from the
master that releases (`Dialect.wait_for_signal`), and the knowledge that the holder's process has ended
(`liveness_file`).
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from sqlalchemy import URL, Connection, NullPool, text
from sqlalchemy.exc import DBAPIError

from jdbcstore.errors import (
    ConfigurationError,
    HistoryLost,
    LeaseLost,
    LockHeld,
    NotReplicated,
    SchemaMismatch,
    StoreError,
    StoreReadOnly,
)
from jdbcstore.store.contract import Locker, LockStatus
from jdbcstore.store.jdbc import liveness_file
from jdbcstore.store.jdbc.dialect import ConnectionLost, dialect_at
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.line_watch import watched_engine
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.replication import Level, Replication
from jdbcstore.store.jdbc.statements import Statements
from jdbcstore.store.jdbc.usable_schema import is_up_to_date
from jdbcstore.store.lease import Clock, Lease, boot_time_ns
from jdbcstore.trouble import Trouble

__all__ = ["DatabaseLocker", "LeaseDatabaseLocker", "signal_name"]

log = logging.getLogger(__name__)

#: A session that locks nothing may be silent for so long at least.
_SILENT_LEAST_MS: Final = 60_000
_WHAT_TO_RUN: Final = "Run: jdbcstore schema upgrade URL"


def signal_name(url: URL, statements: Statements) -> str:
    """What the signal of a release is called, 42 characters: of these tables in this database."""
    tables = f"{url.database} {statements.lock}"
    return f"jdbcstore_{hashlib.sha256(tables.encode()).hexdigest()[:32]}"


class _SqlLocker(Locker):
    """What the two that ask a database have in common: a holder's id, a connection, and what was agreed upon.

    Args:
        url: of the database.
        options: of the store; `JdbcOptions.lock` are those of the locker.
        prepare: called before the first attempt to become master unless the schema is up to date: creates tables, or
            raises `SchemaMismatch`.
        clock: see `Clock`.
    """

    def __init__(
        self,
        url: URL,
        options: JdbcOptions,
        prepare: Callable[[], None] | None = None,
        clock: Clock = boot_time_ns,
    ) -> None:
        self.options = options.lock
        #: Our id: unlike that of any other broker, and of any other mastership of this one.
        self.holder = self._new_holder()
        self._prepare = prepare
        self._store_options = options
        self._clock = clock
        self._lease: Lease | None = None
        self._busy = threading.RLock()
        self._connection: Connection | None = None
        #: Whether our connection is the one whose end standbys wait for.
        self._holds_signal = False
        # A question to the database that takes a third of the lease has failed: the next attempt still comes in time.
        options = replace(options, query_timeout_s=self.options.lease_ms / 3000)
        self._engine, _ = watched_engine(url, options, poolclass=NullPool)
        self._dialect = dialect_at(url, options)
        self._signal = signal_name(url, self._dialect.statements)
        self._signal_trouble = Trouble()
        self._row_trouble = Trouble()
        self._takeover_trouble = Trouble()
        self._required = Level.named(options.require_replication)
        #: What the database said of its replicas when the log was told.
        self._replication: Replication | None = None
        #: Of the data that we have seen: its name, the last term and whose that was.
        self._history = ""
        self._last_seen: tuple[int, str | None] = (0, None)
        #: Who we were when the database failed over: that lease needs not run out for our sake.
        self._given_up: str | None = None

    @property
    def _statements(self) -> Statements:
        return self._dialect.statements

    @property
    def lease(self) -> Lease | None:
        return self._lease

    @property
    def fence(self) -> Fence | None:
        """What commits have to prove while we are master, None while we are not."""
        lease = self._lease
        if lease is None:
            return None
        # Half of the lease: a master that falls silent in a commit is gone before the next one may come.
        idle_ms, history = self.options.lease_ms // 2, self._history
        return Fence(lease.holder, lease.term, idle_ms=idle_ms, lock_session=self._lock_session, history=history)

    #: The session that has the row of ACTIVEMQ_LOCK locked while we are master; None if the row names us.
    _lock_session: int | None = None

    def acquire(self) -> int | None:
        with self._busy:
            if self._lease is not None:
                self.renew()
                return self._lease.term
            self._prepare_once()
            self._require_replication()
            asked_ns = self._clock()
            term = self._take()
            if term is None:
                if self.options.fail_if_locked:
                    raise self.held_by_another()
                return None
            self._lease = Lease.granted(self.holder, term, asked_ns, self.options)
            log.info("became master holder=%s term=%d", self.holder, term)
            self._hold_signal()
            return term

    def _prepare_once(self) -> None:
        """See to it that there is a schema, unless this was done before."""
        prepare = self._prepare
        if prepare is None:
            return
        with self._asking() as connection:
            is_ready = is_up_to_date(connection, self._store_options)
        if not is_ready:
            self._disconnect()  # it may take longer than a session of ours may be silent
            prepare()
        self._prepare = None

    def held_by_another(self) -> LockHeld:
        """What to tell who cannot wait: who is master, for how long, and what to do."""
        status = self.status()
        told = _told(status) if status.holder is not None else "somebody else was master a moment ago"
        return LockHeld(
            f"{told}. Stop that broker or script, or wait: when it has crashed its lease runs out by itself. Two that"
            " are to take turns run as 'jdbcstore broker', which waits"
        )

    def _new_holder(self) -> str:
        return f"{self.options.lease_holder_id}-{secrets.token_hex(6)}"

    def _take(self) -> int | None:
        """Try once; returns the term."""
        raise NotImplementedError

    def status(self) -> LockStatus:
        name, expires_in_ms, term, _ = self._rows()
        return LockStatus(name, term, None if name is None else expires_in_ms)

    def _rows(self) -> tuple[str | None, int | None, int, str | None]:
        """The holder of the lease, its ms from now, the term of the last of our brokers that was master, its id."""
        with self._asking() as connection:
            row = connection.execute(text(self._statements.lock_status)).first()
        if row is None:
            raise SchemaMismatch(f"{self._statements.lock} has no row. {_WHAT_TO_RUN}")
        name, expires_in_ms, term, last = row
        return name, None if expires_in_ms is None else int(expires_in_ms), int(term or 0), last

    def _lose(self, why: str) -> LeaseLost:
        lease, self._lease = self._lease, None
        self._disconnect()
        if lease is None:
            return LeaseLost(why)
        self.holder = self._new_holder()  # whatever still writes in the old name never gets through again
        return LeaseLost(f"{lease.holder} has lost its lease of term {lease.term}: {why}")

    def _next_term(self, connection: Connection) -> int | None:
        """Our term if we are the last who began one."""
        found = connection.execute(text(self._statements.term_of_holder), {"holder": self.holder}).scalar()
        if found is None:
            return None
        self._dialect.confirm(connection)  # a term that the standbys do not have could be given out twice
        self._last_seen = (int(found), self.holder)
        return int(found)

    def _last(self, connection: Connection) -> tuple[int, str | None]:
        """The last term of our brokers, and whose it was unless it was ours."""
        row = connection.execute(text(self._statements.term_row)).first()
        if row is None:
            raise SchemaMismatch(f"{self._statements.term} has no row. {_WHAT_TO_RUN}")
        term = self._not_before_seen(connection, int(row[0]), row[1])
        return term, row[1] if row[1] != self.holder else None

    # -- replicas ------------------------------------------------------------------------------------------------

    def _require_replication(self) -> None:
        """Tell the log what is new about the replicas. Raises `NotReplicated`, and `StoreReadOnly` on a standby."""
        with self._asking() as connection:  # which is dropped for the sake of an error: the next may lead elsewhere
            found = self._dialect.replication(connection)
            if not found.takes_writes:
                raise StoreReadOnly(f"the server takes no writes: {found.told}")
        if found != self._replication:
            self._replication = found
            usual = logging.DEBUG if found.level is Level.NONE else logging.INFO
            level = logging.WARNING if found.weaknesses else usual
            weaknesses = "; ".join(found.weaknesses)
            log.log(level, "replicas level=%s told=%r weaknesses=%r", found.level, found.told, weaknesses)
        found.require(self._required)

    def _keep_replication(self) -> None:
        """As `_require_replication`, for a master: it is none any more when they are too few."""
        if self._required is Level.NONE:
            return
        try:
            self._require_replication()
        except NotReplicated as error:
            raise self._lose(str(error)) from error

    def _recognise(self, connection: Connection) -> None:
        """The connection is new: does it lead to the data that we know? Raises `LeaseLost` if we are master of others.

        What is in memory belongs to the history in which it was read and written. Another one may lack the last of it.
        """
        known, found = self._history, self._dialect.history(connection)
        if not found or found == known:
            return
        self._history = found
        if known:
            log.warning("the database has failed over, its history is another one now was=%s is=%s", known, found)
            if self._lease is not None:
                self._given_up = self._lease.holder
                raise self._lose(f"the database has failed over, from {known} to {found}, and is read anew")

    def _not_before_seen(self, connection: Connection, term: int, holder: str | None) -> int:
        """The last term, which must not be older than, or another's than, the last that we have seen.

        Raises:
            HistoryLost: it is, and `require_replication` says that this cannot be.
        """
        seen, whose = self._last_seen
        if not seen or term > seen or (term, holder) == self._last_seen:
            self._last_seen = (term, holder)
            return term
        what = (
            f"the database is an older copy: term {seen} of {whose} had begun, and now its last term is {term} of"
            f" {holder}. Messages that were acknowledged since may be gone, others may come again"
        )
        if self._required is not Level.NONE:
            raise HistoryLost(f"{what}. To go on all the same start the broker again")
        log.error("%s", what)
        connection.execute(text(self._statements.term_raise), {"term": seen})
        self._last_seen = (max(term, seen), holder)
        return max(term, seen)

    def _end_sessions_of(self, former: str | None, connection: Connection) -> None:
        if former is None:
            return
        try:
            if ended := self._dialect.end_sessions(connection, former):
                log.warning("ended sessions of the former master holder=%s sessions=%d", former, ended)
        except DBAPIError as error:  # another database user's, say; its timeouts remain
            log.warning("cannot end sessions of the former master holder=%s error=%r", former, str(error))

    # -- the signal ----------------------------------------------------------------------------------------------

    def wait(self, timeout_s: float) -> None:
        """As the contract says. Whoever calls another method meanwhile waits too."""
        until = time.monotonic() + timeout_s
        try:
            with self._asking() as connection:
                self._dialect.wait_for_signal(connection, self._signal, timeout_s, self._is_held)
            self._signal_trouble.is_over()
        except Exception as error:  # noqa: BLE001  # also a driver's own, past SQLAlchemy: it is no more than a hint
            if self._signal_trouble.goes_on(error):
                log.info("cannot wait for a signal, looking now and then error=%r", str(error))
            time.sleep(max(0.0, until - time.monotonic()))

    def standbys(self) -> int | None:
        with self._asking_beside() as connection:
            return self._dialect.waiting_for_signal(connection, self._signal)

    def _is_held(self, connection: Connection) -> bool:
        """Whether somebody is master as far as a look at the row tells."""
        return connection.execute(text(self._statements.lease_holder)).first() is not None

    def _hold_signal(self) -> None:
        if not self._holds_signal:
            try:
                with self._asking() as connection:
                    self._holds_signal = self._dialect.hold_signal(connection, self._signal)
            except StoreError as error:  # it is no more than a hint
                log.info("standbys will notice a little later error=%r", str(error))

    # -- the connection ------------------------------------------------------------------------------------------

    @contextmanager
    def _asking(self) -> Iterator[Connection]:
        """The connection. After any error it is thrown away, and the next question opens another."""
        with self._busy:
            try:
                if self._connection is None:
                    self._connection = self._engine.connect()
                    self._connected(self._connection)
                    self._recognise(self._connection)
                yield self._connection
            except DBAPIError as error:
                self._disconnect()
                mapped = self._dialect.map_error(error)
                if isinstance(mapped, SchemaMismatch):
                    raise SchemaMismatch(f"{mapped}. {_WHAT_TO_RUN}") from error
                raise mapped from error
            except BaseException:
                self._disconnect()
                raise

    @contextmanager
    def _asking_beside(self) -> Iterator[Connection]:
        """A connection for one question, for what ours cannot ask while it holds a lock."""
        try:
            with self._engine.connect() as connection:
                if self._dialect.history(connection) != self._history:
                    raise ConnectionLost("a second connection leads to a server with another history")
                yield connection
        except DBAPIError as error:
            raise self._dialect.map_error(error) from error

    def _connected(self, connection: Connection) -> None:
        """The connection is new."""

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._holds_signal = False
        if connection is not None:
            connection.invalidate()
            connection.close()


class LeaseDatabaseLocker(_SqlLocker):
    """ActiveMQ's lease in the row of ACTIVEMQ_LOCK, without its holes.

    BROKER_NAME is the holder and TIME the end of its lease, by the database's clock in the statement itself; a Java
    broker with its ``lease-database-locker`` sees ours and we see its. A takeover counts up our own table of terms in
    the same transaction. A renewal wants the lease to be ours, of our term, and unexpired.
    """

    #: Whether the row may name us: also after an answer that was lost.
    _may_hold = False
    _liveness_file: liveness_file.LivenessFile | None = None

    def _connected(self, connection: Connection) -> None:
        # Nothing is locked between statements. This ends what a machine left that is gone, sooner than in hours.
        self._dialect.holding(connection, max(2 * self.options.lease_ms, _SILENT_LEAST_MS))

    def _take(self) -> int | None:
        if self._liveness_file is None and self.options.detect_dead_holder:
            self._liveness_file = liveness_file.LivenessFile(self.holder)
        may_hold = self._may_hold
        with self._asking() as connection:
            seen, former = self._last(connection)
            try:
                taken = (
                    self._take_over(connection, self.holder, seen)
                    or (self._given_up is not None and self._take_over(connection, self._given_up, seen))
                    or self._take_over_from_dead(connection, seen)
                )
            except DBAPIError as error:
                if not self._dialect.is_locked(error):
                    raise
                if self._row_trouble.goes_on(error.orig):
                    log.info("somebody has the lock row locked error=%r", str(error.orig))
                self._may_hold = may_hold
                self._disconnect()
                return None
            self._row_trouble.is_over()
            if not taken:
                return None
            self._takeover_trouble.is_over()
            self._given_up = None
            term = self._next_term(connection)
            if term is not None:
                self._warn_of_clock(connection)
                self._end_sessions_of(former, connection)
                if former is not None:
                    liveness_file.forget(former)
            return term

    def _take_over(self, connection: Connection, former: str, seen: int) -> bool:
        parameters = {"holder": self.holder, "lease_ms": self.options.lease_ms, "former": former, "seen": seen}
        self._may_hold = True
        self._may_hold = taken = self._dialect.take_over(connection, parameters)
        return taken

    def _take_over_from_dead(self, connection: Connection, seen: int) -> bool:
        if not self.options.detect_dead_holder:
            return False
        name = connection.execute(text(self._statements.lease_holder)).scalar()
        if name is None or not liveness_file.is_dead(name):
            return False
        if self._takeover_trouble.goes_on(name):  # taking over may fail, on a full disk say
            log.warning("the process of the master has ended, not waiting for its lease holder=%s", name)
        return self._take_over(connection, name, seen)

    def renew(self) -> None:
        with self._busy:
            lease = self._lease
            if lease is None:
                raise self._lose("not master: acquire first")
            self._keep_replication()
            asked_ns = self._clock()
            parameters = {"holder": lease.holder, "term": lease.term, "lease_ms": self.options.lease_ms}
            with self._asking() as connection:
                renewed = connection.execute(text(self._statements.lease_renew), parameters).rowcount == 1
            if not renewed:
                raise self._lose(self._why())
            self._lease = lease.renewed(asked_ns, self.options)
            self._hold_signal()

    def _why(self) -> str:
        """Why a renewal met no row."""
        try:
            return _told(self.status())
        except StoreError as error:
            return f"who is master cannot be asked, {error}"

    def release(self) -> None:
        with self._busy:
            holder, self.holder = self.holder, self._new_holder()
            may_hold, self._may_hold, self._lease = self._may_hold, False, None
            try:
                if may_hold:
                    with self._asking() as connection:
                        connection.execute(text(self._statements.lease_release), {"holder": holder})
                        may_hold = False
                        self._dialect.give_signal(connection, self._signal)
                    log.info("released holder=%s", holder)
            finally:
                self._stop_liveness_file(as_dead=may_hold)
                self._disconnect()

    def _lose(self, why: str) -> LeaseLost:
        self._stop_liveness_file()
        return super()._lose(why)

    def _stop_liveness_file(self, *, as_dead: bool = False) -> None:
        found, self._liveness_file = self._liveness_file, None
        if found is not None:
            found.stop(as_dead=as_dead)

    def _warn_of_clock(self, connection: Connection) -> None:
        allowed_ms = self.options.max_allowable_diff_from_db_time_ms
        if allowed_ms:
            before_ms = time.time_ns() // 1_000_000
            database_ms = int(connection.execute(text(self._statements.clock)).scalar_one())
            off_ms = (before_ms + time.time_ns() // 1_000_000) // 2 - database_ms
            if abs(off_ms) > allowed_ms:
                log.warning("the clock is off from the database's off_ms=%d allowed_ms=%d", off_ms, allowed_ms)


class DatabaseLocker(_SqlLocker):
    """ActiveMQ's default locker: an exclusive lock on the row of ACTIVEMQ_LOCK for as long as one is master.

    For brokers that share the tables with Java brokers of that locker. The lock goes with its session, so `renew` asks
    whether that still lives, and the server ends it when it was not asked for a lease's length. On PostgreSQL the lock
    is on the table, which keeps Java brokers out likewise and does not stand in the way of VACUUM. SQLite has no such
    lock.

    Every commit asks the server whether the session is there and has the lock (`Fence.lock_session`). It cannot have
    the row locked itself, which is what makes the proof of `LeaseDatabaseLocker` hold to the end of the commit: here a
    session that ends *between* the proof and the end of the same commit is noticed by the next one only.

    Raises:
        ConfigurationError: the database cannot lock one row, or a table, for others only; or, when it is first asked,
            it is a cluster whose members do not share locks.
    """

    def __init__(
        self,
        url: URL,
        options: JdbcOptions,
        prepare: Callable[[], None] | None = None,
        clock: Clock = boot_time_ns,
    ) -> None:
        super().__init__(url, options, prepare, clock)
        if not self._dialect.row_lock:
            raise ConfigurationError(
                f"locker 'database' is not possible on {url.get_backend_name()}, where it would keep its own broker out"
                " too: use 'lease'"
            )

    def _connected(self, connection: Connection) -> None:
        self._dialect.require_row_lock(connection)
        self._dialect.holding(connection, max(2 * self.options.lease_ms, _SILENT_LEAST_MS))  # it holds nothing yet

    def _take(self) -> int | None:
        with self._asking() as connection:
            _, former = self._last(connection)
            connection.exec_driver_sql("BEGIN")
            try:
                connection.exec_driver_sql(self._dialect.row_lock.format(lock=self._statements.lock))
            except DBAPIError as error:
                if not self._dialect.is_locked(error):
                    raise
                connection.exec_driver_sql("ROLLBACK")
                return None
            if connection.execute(text(self._statements.lease_holder)).first() is not None:  # one with a lease locker
                connection.exec_driver_sql("ROLLBACK")
                return None
            self._dialect.holding(connection, self.options.lease_ms)
            # The holder counts the term, on another line: here it would be seen only when the lock is gone.
            with self._asking_beside() as other:
                other.execute(text(self._statements.term_next), {"holder": self.holder})
                term = self._next_term(other)
                self._end_sessions_of(former, other)
            self._lock_session = self._dialect.hold_row_lock(connection, self.holder)
            return term

    def renew(self) -> None:
        with self._busy:
            lease = self._lease
            if lease is None or self._connection is None:
                raise self._lose("not master: acquire first")
            asked_ns = self._clock()
            try:
                self._keep_replication()
                with self._asking() as connection:
                    _, last = self._last(connection)
            except StoreError as error:
                raise self._lose(f"the session that held the lock is gone, {error}") from error
            if last is not None:
                raise self._lose(f"{last} is master")
            self._lease = lease.renewed(asked_ns, self.options)
            self._hold_signal()

    def release(self) -> None:
        with self._busy:
            holder, self.holder = self.holder, self._new_holder()
            held, self._lease = self._lease is not None, None
            try:
                if held and self._connection is not None:
                    with self._asking() as connection:
                        connection.exec_driver_sql("ROLLBACK")  # closing alone is noticed a little later
                        self._dialect.give_signal(connection, self._signal)
                    log.info("released holder=%s", holder)
            finally:
                self._disconnect()

    def status(self) -> LockStatus:
        """The holder of the row lock writes no name into it: it is the last of the table of terms, or a Java broker."""
        name, expires_in_ms, term, last = self._rows()
        if name is None:
            with self._asking_beside() as other:
                if self._dialect.is_row_locked(other):
                    return LockStatus(last, term, None)
        return LockStatus(name, term, None if name is None else expires_in_ms)

    def _is_held(self, connection: Connection) -> bool:
        return self._dialect.is_row_locked(connection) or super()._is_held(connection)


def _told(status: LockStatus) -> str:
    """A status in words."""
    if status.holder is None:
        return "nobody is master"
    if status.expires_in_ms is None:
        return f"{status.holder} is master"
    if status.expires_in_ms < 0:
        return f"the lease of {status.holder} ran out {-status.expires_in_ms} ms ago"
    return f"{status.holder} is master for another {status.expires_in_ms} ms"
