"""The lease of a bulk load: who is master of the store, and how a load becomes and stays it.

All processes of a run share one lease in its name (`jdbcstore.store.jdbc.bulk_load`).
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from enum import Enum
from typing import Final

from sqlalchemy import URL, Connection, NullPool, text
from sqlalchemy.exc import DBAPIError

from jdbcstore.errors import JdbcStoreError, LockHeld
from jdbcstore.store.jdbc.dialect import Dialect, dialect_at
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.line_watch import watched_engine
from jdbcstore.store.jdbc.load_options import LoadOptions
from jdbcstore.store.jdbc.loads import HOLDER_PREFIX, Loads
from jdbcstore.store.jdbc.lockers import signal_name
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.replication import Level

__all__ = ["Busy", "LoadLease", "Master", "holder_name"]

log = logging.getLogger(__name__)

#: Questions about who is master; and everything else, of which some takes long.
_QUICK_S: Final = 5.0
_PATIENT_S: Final = 3600.0
#: How often to look again who is master.
_LOOK_AGAIN_S: Final = 0.2
#: For so long the row of ACTIVEMQ_LOCK is locked by those at most who are no master.
_MOMENT_S: Final = 2.0
#: For so long a lease that nobody seems to have is tried to take: others may be quicker again and again.
_TAKING_S: Final = 2.0


class Master(Enum):
    """Who is master of a store."""

    NOBODY = "nobody"
    OURS = "a broker of ours"
    LOAD = "another load"
    JAVA = "a Java broker"


class Busy(LockHeld):
    """Somebody is master beside whom a load can be staged; nobody is, if others only took the lease more quickly."""

    def __init__(self, message: str, master: Master) -> None:
        super().__init__(message)
        self.master = master


def holder_name(job: str, run: str) -> str:
    """The name as a master of a run of a job."""
    return f"{HOLDER_PREFIX}{job}-{run}"


class LoadLease:
    """The mastership of one run of a load. It has no connections between calls and may be pickled.

    Args:
        url, options: of the store.
        job: the name of the load, for the log.
        how: says for how long the lease is, and whether the load may be staged.

    Attributes:
        holder: the run, and its name as a master: unlike that of any other, until it is set to that of a run that has
            begun.
    """

    def __init__(self, url: URL, options: JdbcOptions, job: str, how: LoadOptions) -> None:
        options.require_primary("a load")
        self.holder = holder_name(job, secrets.token_hex(6))
        self._url = url
        self._options = options
        self._job = job
        self._how = how

    @contextmanager
    def by_itself(self) -> Iterator[None]:
        """Be another master than the other processes of this run: for what only one of them may do."""
        holder, self.holder = self.holder, holder_name(self._job, secrets.token_hex(6))
        try:
            yield
        finally:
            self.holder = holder

    def fence(self, loads: Loads) -> Fence:
        """What commits have to prove while this run is master."""
        row = loads.connection.execute(text(loads.statements.term_row)).one()
        return Fence(self.holder, int(row[0]), idle_ms=self._how.lease_ms // 2)

    def become_master(self, loads: Loads, dead: str | None = None) -> None:
        """Take the lease in the name of this run. Raises `NotReplicated`, and `LockHeld` when somebody is master."""
        loads.dialect.replication(loads.connection).require(Level.named(self._options.require_replication))
        until = time.monotonic() + _TAKING_S
        was_refused = False
        while not self.hold(loads):
            seen = loads.connection.execute(text(loads.statements.term_row)).scalar()
            master, name = self.master(loads)
            # Time alone says nothing on a machine that has much to do.
            if (master is not Master.NOBODY and name != dead) or (was_refused and time.monotonic() > until):
                self.refuse(master, name)
                raise Busy(f"{name or 'a broker'} is master of this store", master)
            # Of two tasks of this run one is late here. It must not begin a term: the other's commits prove theirs.
            with self._quick() if loads.dialect.has_server else nullcontext(loads.connection) as connection:
                parameters = {"holder": self.holder, "lease_ms": self._how.lease_ms, "former": dead, "seen": seen}
                try:
                    if loads.dialect.take_over(connection, parameters):
                        log.info("the load is master job=%s holder=%s", self._job, self.holder)
                        return
                except DBAPIError as error:
                    if not loads.dialect.is_locked(error):
                        raise loads.dialect.map_error(error) from error
            was_refused = True

    def hold(self, loads: Loads) -> bool:
        """Renew the lease; whether it is still ours. That it ran out does not matter if nobody has taken it."""
        # Where there is no server, somebody else may have the file to himself for as long as a part takes.
        with self._quick() if loads.dialect.has_server else nullcontext(loads.connection) as connection:
            try:
                return connection.execute(text(self.renewal(loads)), {"holder": self.holder}).rowcount == 1
            except DBAPIError as error:
                if not loads.dialect.is_locked(error):
                    raise loads.dialect.map_error(error) from error
                return False

    def renewal(self, loads: Loads, holder: str = ":holder") -> str:
        """The statement that renews the lease if it is still ours; `holder` is the parameter's mark."""
        end = f"{loads.dialect.epoch_ms} + {self._how.lease_ms}"
        return f"UPDATE {loads.statements.lock} SET TIME = {end} WHERE ID = 1 AND BROKER_NAME = {holder}"

    def release(self, loads: Loads) -> None:
        """Let the next master in, and tell those who wait."""
        loads.connection.execute(text(loads.statements.lease_release), {"holder": self.holder})
        loads.dialect.give_signal(loads.connection, signal_name(self._url, loads.statements))

    def master(self, loads: Loads) -> tuple[Master, str]:
        """Who is master, and its name as far as it has one."""
        until = 0.0
        while True:
            with self._quick() as connection:
                name, expires_in_ms, _, last = connection.execute(text(loads.statements.lock_status)).one()
                if name is not None and expires_in_ms is not None and expires_in_ms >= 0:
                    if name == self.holder:
                        return Master.NOBODY, ""
                    if name.startswith(HOLDER_PREFIX):
                        return Master.LOAD, name
                    return (Master.OURS if name == last else Master.JAVA), name
                if not loads.dialect.is_row_locked(connection):
                    return Master.NOBODY, ""
                # Whoever takes or renews the lease has the row locked for a moment, other tasks of this run among
                # them; a broker with the locker `database` has it for good.
                until = until or time.monotonic() + _MOMENT_S
                if time.monotonic() > until:
                    if last not in (None, self.holder) and loads.dialect.is_at_work(connection, last):
                        return Master.OURS, last
                    return Master.JAVA, ""
            time.sleep(_LOOK_AGAIN_S)

    @contextmanager
    def renewing(self, *, is_needed: bool) -> Iterator[None]:
        """Renew the lease for as long as the block takes."""
        if not is_needed:
            yield
            return
        ended = threading.Event()
        thread = threading.Thread(target=self._renew, args=(ended,), name="jdbcstore-load-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _renew(self, ended: threading.Event) -> None:
        while not ended.wait(self._how.lease_ms / 3000):
            try:
                with self.loads() as loads:
                    if not self.hold(loads):
                        log.warning("the lease of a load could not be renewed job=%s", self._job)
            except JdbcStoreError as error:
                log.warning("the lease of a load could not be renewed job=%s error=%r", self._job, str(error))

    def refuse(self, master: Master, name: str) -> None:
        """Raise `LockHeld` if the load can do nothing beside this master."""
        if master is Master.JAVA:
            raise LockHeld(
                f"{name or 'a Java broker'} is master of this store and would neither see nor number what is loaded:"
                " stop it first, or send the messages through it"
            )
        if self._how.protocol == "direct" and master is not Master.NOBODY:
            raise Busy(
                f"{name or 'a broker'} is master of this store: stop it first, or let it take the load in with"
                " commitProtocol auto or staged",
                master,
            )

    # -- connections ---------------------------------------------------------------------------------------------

    @contextmanager
    def loads(self) -> Iterator[Loads]:
        """The tables of loads, over a connection that has the patience for large statements."""
        with self._connected(_PATIENT_S) as (connection, dialect):
            yield Loads(connection, dialect, self._options.table_names)

    @contextmanager
    def _quick(self) -> Iterator[Connection]:
        with self._connected(_QUICK_S) as (connection, _):
            yield connection

    @contextmanager
    def _connected(self, timeout_s: float) -> Iterator[tuple[Connection, Dialect]]:
        options = replace(self._options, query_timeout_s=timeout_s)
        dialect = dialect_at(self._url, options)
        engine, _ = watched_engine(self._url, options, poolclass=NullPool)
        try:
            try:
                connection = engine.connect()
                dialect.connected(connection)
            except DBAPIError as error:
                raise dialect.map_error(error) from error
            try:
                yield connection, dialect
            except DBAPIError as error:
                connection.invalidate()
                raise dialect.map_error(error) from error
            except BaseException:
                connection.invalidate()  # it may be in the middle of anything
                raise
            finally:
                connection.close()
        finally:
            engine.dispose()
