"""Bulk loads: many messages into a store, in parts that different processes write, each part exactly once.

There are two ways, and the first part that is written chooses:

* **direct**, if nobody is master: the load is the master itself while it writes. All its processes share one lease in
  the name of its run, prove it in every commit, and bring their rows straight into ACTIVEMQ_MSGS. A broker that starts
  meanwhile waits as a standby. Ids are stripes, one for each part, so a part that is tried again has the same ids.
* **staged**, if a broker of ours (or another load) is master: the rows go to JDBCSTORE_STAGED, and when they are
  complete the broker takes them in as a producer's messages (`jdbcstore.broker.intake`). If none is there by then, the
  load brings them over by itself.

A Java broker that is master numbers its rows from memory and would never see ours: a load beside it is refused.

What makes it exactly once: the row of the ledger is in the transaction of the part; every transaction proves that its
run of the load goes on, so tasks that are left over from a run that was aborted commit nothing; and unfinished direct
loads are removed by whoever becomes master next, before anything is read (`loads`).
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from sqlalchemy import URL, Connection, NullPool, text
from sqlalchemy.exc import DBAPIError

from jdbcstore import faults
from jdbcstore.errors import (
    ConfigurationError,
    JdbcStoreError,
    LeaseLost,
    LockHeld,
    StoreError,
    StoreUnavailable,
)
from jdbcstore.store.jdbc.dialect import ConnectionLost, Dialect, database_for, dialect_for, raw_connection
from jdbcstore.store.jdbc.dialect.base.bulk import BulkSession, LoadRow
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.line_watch import watched_engine
from jdbcstore.store.jdbc.loads import HOLDER_PREFIX, PART_IDS, LoadMode, LoadRecord, Loads, LoadState
from jdbcstore.store.jdbc.lockers import signal_name
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.rows import Change
from jdbcstore.store.jdbc.statements import Statements

__all__ = ["BulkLoad", "LoadOptions", "LoadRow", "Progress"]

log = logging.getLogger(__name__)

#: Told how many messages are in the store, and of how many.
Progress = Callable[[int, int], None]

_PROTOCOLS: Final = ("auto", "direct", "staged")
_INDEXES: Final = ("auto", "keep", "rebuild")
_JOB_MAX: Final = 200
#: Questions about who is master; and everything else, of which some takes long.
_QUICK_S: Final = 5.0
_PATIENT_S: Final = 3600.0
#: How often to look how far a broker has come, or another task.
_LOOK_AGAIN_S: Final = 0.2
#: For so long the row of ACTIVEMQ_LOCK is locked by those at most who are no master.
_MOMENT_S: Final = 2.0
#: How long to wait for another task that drops indexes. If it died, what it has not dropped stays.
_CHOOSING_S: Final = 30.0
_MOVE_ROWS: Final = 5000


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a load behaves.

    Args:
        protocol: ``auto``: direct if nobody is master, else staged. ``direct``: fail if somebody is. ``staged``: let a
            broker take it in, even if none is there at the moment.
        indexes: ``rebuild``: drop the secondary indexes and make them again at the end; ``keep``; or ``auto``:
            rebuild if there is no message at the beginning and the database gains by it. Of direct loads only.
        lease_ms: for how long a load stays master when all its processes are gone.
        timeout_s: how long the end of a staged load waits for a broker that takes nothing in.
    """

    protocol: str = "auto"
    indexes: str = "auto"
    lease_ms: int = 30_000
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        for name, value, known in (
            ("commitProtocol", self.protocol, _PROTOCOLS),
            ("indexes", self.indexes, _INDEXES),
        ):
            if value not in known:
                raise ConfigurationError(f"{name} {value!r} is none of {', '.join(known)}")
        if self.lease_ms < 1000:
            raise ConfigurationError(f"lease_ms must be at least 1000, got {self.lease_ms}")
        if self.timeout_s < 0:
            raise ConfigurationError(f"timeout_s must be at least 0, got {self.timeout_s}")


class _Master(Enum):
    """Who is master of a store."""

    NOBODY = "nobody"
    OURS = "a broker of ours"
    LOAD = "another load"
    JAVA = "a Java broker"


class _Busy(LockHeld):
    """Somebody is master beside whom a load can be staged."""

    def __init__(self, message: str, master: _Master) -> None:
        super().__init__(message)
        self.master = master


class _BegunByAnother(LockHeld):
    """Another process has begun a run of the same job, or is just about to."""


class BulkLoad:
    """One run of a load. It is a description: it has no connections between calls and may be pickled.

    The order of things: `begin`, once; `write_part` for each part, anywhere, as often as it takes; then `commit` or
    `abort`, once or more. All methods block.

    Args:
        url: SQLAlchemy's, as for `JdbcPersistenceAdapter`.
        options: of the store.
        job: the name of the load: a run of a job that was committed before does nothing. 1 to 200 characters.
        how: how it behaves.
    """

    def __init__(self, url: URL, options: JdbcOptions, job: str, how: LoadOptions | None = None) -> None:
        if not 0 < len(job) <= _JOB_MAX or not job.isprintable():
            raise ConfigurationError(f"jobId {job[:60]!r} must be 1 to {_JOB_MAX} printable characters")
        self.url = url
        self.options = options
        self.job = job
        self.how = how or LoadOptions()
        #: The run, and its name as a master: unlike that of any other.
        self.holder = f"{HOLDER_PREFIX}{job[:_JOB_MAX]}-{secrets.token_hex(6)}"
        #: Whether an earlier run has done everything; set by `begin`.
        self.is_done = False

    # -- the four calls ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin this run. What an earlier run of the same job has left unfinished is removed.

        Raises:
            SchemaMismatch: the store has no tables for loads; the text says what to run.
            LockHeld: a Java broker is master; or somebody is, and that is in the way.
            TransientStoreError, StoreError: the store cannot be asked.
        """
        with self._loads() as loads:
            loads.require_tables()
            loads.forget_old()
            record = loads.get(self.job)
            if record is not None and self._adopt_done(record):
                return
            if record is not None and record.holder == self.holder and record.state is not LoadState.ABORTED:
                raise _BegunByAnother(f"another process has begun this run of load {self.job} just now")
            if record is not None:
                self._clear(loads, record)
            master, name = self._master(loads)
            self._refuse(master, name)
            mode = LoadMode.STAGED if self.how.protocol == "staged" else None
            if not loads.begin(self.job, self.holder, mode):
                raise _BegunByAnother(f"another run of load {self.job} has begun just now")

    def join(self, run: str) -> None:
        """Begin this run, or take part in it if another process has begun it. Raises as `begin`.

        Args:
            run: its name, the same in all its processes, and unlike that of any other run of the job.
        """
        self.holder = f"{HOLDER_PREFIX}{self.job}-{hashlib.sha256(run.encode()).hexdigest()[:12]}"
        until = time.monotonic() + _CHOOSING_S
        while True:
            with self._loads() as loads:
                loads.require_tables()
                record = loads.get(self.job)
                if record is not None and record.holder == self.holder and record.state is not LoadState.ABORTED:
                    self._adopt_done(record)
                    return
            try:
                self.begin()
            except _BegunByAnother:
                if time.monotonic() > until:
                    raise
                time.sleep(_LOOK_AGAIN_S)
            else:
                return

    def write_part(self, part: int, rows: Iterable[LoadRow]) -> int:
        """Bring the rows of one part, all or none; returns how many.

        A part that is committed already is not written again, whatever its rows are; one that another process is
        writing just now is waited for.

        Args:
            part: its number, from 0 on.
            rows: read once, as they are needed.

        Raises:
            LeaseLost: this run is over, or somebody else has become master.
            MessageTooLarge, StoreError: a row can never be stored.
            TransientStoreError: try again.
        """
        if not 0 <= part < PART_IDS >> 1:
            raise ValueError(f"part must be 0 to {(PART_IDS >> 1) - 1}, got {part}")
        if self.is_done:
            return 0
        with self._loads() as loads:
            record = self._enter(loads)
            is_direct = record.mode is LoadMode.DIRECT
            session = self._session(loads.connection, loads.dialect)
            with self._renewing(is_needed=is_direct and loads.dialect.has_server):
                return self._write(loads, session, record, part, rows)

    def commit(self, parts: Mapping[int, int] | None = None, progress: Progress | None = None) -> int:
        """Make the load final; returns how many messages it has. May be repeated.

        A staged load is committed when a broker has taken in all of it; that is waited for.

        Args:
            parts: the parts there have to be, and how many rows each; by default those that are there.
            progress: told how far it is.

        Raises:
            LeaseLost: this run was aborted, or somebody else has become master.
            StoreError: parts are missing, or a broker could not take some of the messages.
            StoreUnavailable: a staged load is complete and waits for a broker.
        """
        with self._loads() as loads:
            record = self._present(loads)
            if record.state is LoadState.LOADING:
                record = self._conclude(loads, record, parts)
            if record.state is LoadState.READY:
                record = self._wait_for_intake(loads, progress)
            if record.state is not LoadState.COMMITTED:
                raise LeaseLost(self._over(record))
            if record.holder == self.holder:
                self._tidy(loads, record)
            if record.refused:
                raise StoreError(
                    f"load {self.job} is committed, but the broker could not take {record.refused} of {record.rows}"
                    f" messages: they stay in {loads.statements.staged}, its log says why"
                )
            return record.rows

    def abort(self) -> None:
        """Remove everything that this run has written. May be repeated; does nothing when it is committed."""
        with self._loads() as loads:
            record = loads.get(self.job)
            if record is None or record.holder != self.holder or record.state is LoadState.COMMITTED:
                return
            if record.state is LoadState.READY:
                return  # it is complete, and waits for a broker
            self._remove(loads, record)

    def give_up(self) -> None:
        """Remove what a run of this job has written whose driver is dead; staged, also if it is complete.

        Raises:
            LockHeld: somebody else is master, who is in the way.
        """
        with self._loads() as loads:
            loads.require_tables()
            record = loads.get(self.job)
            if record is not None and record.state is LoadState.READY:
                loads.remove(record, None)
            elif record is not None and record.state is not LoadState.COMMITTED:
                self._clear(loads, record)

    # -- beginning -----------------------------------------------------------------------------------------------

    def _adopt_done(self, record: LoadRecord) -> bool:
        """Whether there is nothing left to write, since an earlier run is complete."""
        self.is_done = record.state in (LoadState.COMMITTED, LoadState.READY)
        if self.is_done:
            log.info("an earlier run of this load is complete job=%s state=%s", self.job, record.state)
            self.holder = record.holder
        return self.is_done

    def _clear(self, loads: Loads, record: LoadRecord) -> None:
        """Remove what an earlier run of this job has left; nobody runs a job twice at once."""
        if record.state is LoadState.ABORTED and not record.rebuild:
            return
        if record.mode is not LoadMode.DIRECT and not record.rebuild:
            loads.remove(record, None)
            return
        with self._by_itself():
            try:
                self._become_master(loads, dead=record.holder)
            except _Busy as error:
                if error.master is not _Master.LOAD:
                    raise
                raise _BegunByAnother(str(error)) from error  # perhaps another task of this run, doing the same
            try:
                with self._renewing(is_needed=loads.dialect.has_server):
                    loads.recover(self._fence(loads))
            finally:
                self._release(loads)

    def _refuse(self, master: _Master, name: str) -> None:
        if master is _Master.JAVA:
            raise LockHeld(
                f"{name or 'a Java broker'} is master of this store and would neither see nor number what is loaded:"
                " stop it first, or send the messages through it"
            )
        if self.how.protocol == "direct" and master is not _Master.NOBODY:
            raise _Busy(
                f"{name or 'a broker'} is master of this store: stop it first, or let it take the load in with"
                " commitProtocol auto or staged",
                master,
            )

    # -- choosing the way ----------------------------------------------------------------------------------------

    def _enter(self, loads: Loads) -> LoadRecord:
        """The load as it is for a part that is to be written: its way is chosen, and on the direct one it is master."""
        record = self._present(loads)
        if record.state is not LoadState.LOADING or record.holder != self.holder:
            raise LeaseLost(self._over(record))
        if record.mode is None:
            record = self._choose(loads)
        if record.mode is LoadMode.DIRECT and not self._hold(loads):
            raise LeaseLost(self._replaced(loads))
        return record

    def _choose(self, loads: Loads) -> LoadRecord:
        """Decide for one way, unless another process of this run does."""
        try:
            self._become_master(loads)
        except _Busy:
            if self.how.protocol == "direct":
                raise
            return self._decided(loads, LoadMode.STAGED, None)
        with self._renewing(is_needed=loads.dialect.has_server):
            loads.recover(self._fence(loads), but=self.holder)
            if self._is_to_rebuild(loads):
                if self._claims_indexes(loads):
                    loads.drop_indexes()
                else:
                    self._wait_for_choice(loads)
            return self._decided(loads, LoadMode.DIRECT, self._next_id(loads))

    def _decided(self, loads: Loads, mode: LoadMode, first_id: int | None) -> LoadRecord:
        change = (
            f"UPDATE {loads.statements.loads} SET MODE = :mode, FIRST_ID = :first"
            " WHERE JOB = :job AND HOLDER = :holder AND STATE = 'loading' AND MODE IS NULL"
        )
        values = {"mode": mode, "first": first_id, "job": self.job, "holder": self.holder}
        loads.connection.execute(text(change), values)
        record = self._present(loads)
        if record.mode is None or record.holder != self.holder:
            raise LeaseLost(self._over(record))
        if record.mode is LoadMode.STAGED and mode is LoadMode.DIRECT:  # another process was quicker
            self._release(loads)
        return record

    def _is_to_rebuild(self, loads: Loads) -> bool:
        if self.how.indexes != "auto":
            return self.how.indexes == "rebuild"
        first = loads.connection.execute(text(f"SELECT ID FROM {loads.statements.messages} LIMIT 1")).first()
        return first is None and loads.dialect.gains_by_rebuilding

    def _claims_indexes(self, loads: Loads) -> bool:
        """Whether it is this process that drops the indexes. From then on somebody has to make them again."""
        claim = (
            f"UPDATE {loads.statements.loads} SET REBUILD = 1 WHERE JOB = :job AND HOLDER = :holder AND REBUILD = 0"
            " AND MODE IS NULL"
        )
        return loads.connection.execute(text(claim), {"job": self.job, "holder": self.holder}).rowcount == 1

    def _wait_for_choice(self, loads: Loads) -> None:
        until = time.monotonic() + _CHOOSING_S
        while self._present(loads).mode is None and time.monotonic() < until:
            time.sleep(_LOOK_AGAIN_S)

    def _next_id(self, loads: Loads) -> int:
        """Above every id that was ever given out, as far as anybody knows."""
        statements = loads.statements
        highest = (
            statements.sequence_last_of_messages,
            statements.sequence_last_of_acks,
            statements.sequence_last_of_acked,
        )
        found = [loads.connection.execute(text(statement)).scalar() for statement in highest]
        return max(loads.last_id(), *(int(one or 0) for one in found), 0) + 1

    # -- a part --------------------------------------------------------------------------------------------------

    def _write(self, loads: Loads, session: BulkSession, record: LoadRecord, part: int, rows: Iterable[LoadRow]) -> int:
        fence = self._fence(loads) if record.mode is LoadMode.DIRECT else None
        try:
            earlier = session.claim(self.job, part)
            if earlier is not None:
                log.info("part is there already job=%s part=%d rows=%d", self.job, part, earlier)
                return earlier
            place = (self.job, part) if record.first_id is None else record.first_id + part * PART_IDS
            count = session.insert(place, rows)
            if count >= PART_IDS:
                raise StoreError(f"part {part} has {count} messages, {PART_IDS - 1} at most: make more parts")
            ledger = f"UPDATE {loads.statements.load_parts} SET ROWS_LOADED=? WHERE JOB=? AND PART=?"
            changes: list[Change] = [(ledger, (count, self.job, part))]
            if fence is not None and not loads.dialect.has_server:
                changes.append(
                    (self._renewal(loads, "?"), (self.holder,))
                )  # nobody could renew while this had the file to itself
            faults.point("load.before_commit")
            session.conclude(changes, self.job, fence)
            faults.point("load.after_commit")
        except BaseException as error:  # noqa: BLE001  # raised again, unless it succeeded after all
            return self._failed(session, loads, part, error)
        return count

    def _failed(self, session: BulkSession, loads: Loads, part: int, error: BaseException) -> int:
        """What became of a part whose transaction failed: the rows it has after all, or an error that says why not."""
        dialect = loads.dialect
        _start_over(loads)
        if not isinstance(error, Exception) or isinstance(error, JdbcStoreError) or not dialect.error_code(error):
            raise error
        mapped = dialect.map_error(error)
        if isinstance(mapped, ConnectionLost):
            dialect.outlive(loads.connection, self.holder, session.id)
            rows = self._session(loads.connection, loads.dialect).rows_of(self.job, part)
            if rows is not None:  # the answer to COMMIT was lost
                return rows
        record = self._present(loads)
        if dialect.is_fence(error) or record.state is not LoadState.LOADING:
            is_ours = record.state is LoadState.LOADING and record.holder == self.holder
            raise LeaseLost(self._replaced(loads) if is_ours else self._over(record)) from error
        raise mapped from error

    # -- the end -------------------------------------------------------------------------------------------------

    def _conclude(self, loads: Loads, record: LoadRecord, expected: Mapping[int, int] | None) -> LoadRecord:
        """Bring a load from loading to committed or ready."""
        if record.holder != self.holder:
            raise LeaseLost(self._over(record))
        parts = loads.parts(self.job)
        if expected is not None and parts != dict(expected):
            amiss = sorted(part for part in {*parts, *expected} if parts.get(part) != expected.get(part))
            raise StoreError(f"load {self.job} cannot be committed: parts {amiss[:10]} are not as they were written")
        direct = record.mode is not LoadMode.STAGED
        fence = self._fence(loads) if record.mode is LoadMode.DIRECT else None
        last_id = None
        if record.first_id is not None:
            last_id = record.first_id + max((part * PART_IDS + rows for part, rows in parts.items()), default=0)
        state = LoadState.COMMITTED if direct or not parts else LoadState.READY
        change = (
            f"UPDATE {loads.statements.loads} SET STATE=?,ROWS_LOADED=?,ROWS_TAKEN=?,LAST_ID=?,"
            f"CHANGED_MS={loads.dialect.epoch_ms} WHERE JOB=?"
        )
        rows = sum(parts.values())
        taken = rows if state is LoadState.COMMITTED else 0
        if fence is not None and not self._hold(loads):
            raise LeaseLost(self._replaced(loads))
        session = self._session(loads.connection, loads.dialect)
        try:
            session.begin()
            session.conclude([(change, (state, rows, taken, last_id, self.job))], self.job, fence)
            faults.point("load.after_final_commit")
        except Exception as error:
            _start_over(loads)
            if isinstance(error, JdbcStoreError) or not loads.dialect.error_code(error):
                raise
            mapped = loads.dialect.map_error(error)
            if isinstance(mapped, ConnectionLost):
                loads.dialect.outlive(loads.connection, self.holder, session.id)
            found = self._present(loads)
            if found.state is state and found.holder == self.holder:  # the answer was lost
                return found
            if loads.dialect.is_fence(error):
                raise LeaseLost(self._over(found)) from error
            raise mapped from error
        return self._present(loads)

    def _tidy(self, loads: Loads, record: LoadRecord) -> None:
        """What remains to be done for a load that is committed."""
        if record.rebuild:
            if not self._hold(loads):
                log.info("indexes are made by the next master job=%s", self.job)
                return
            with self._renewing(is_needed=loads.dialect.has_server):
                loads.build_indexes()
                loads.set_rebuild(self.job, is_due=False)
        loads.forget_parts(self.job)
        self._release(loads)

    def _remove(self, loads: Loads, record: LoadRecord) -> None:
        if record.mode is not LoadMode.DIRECT and not record.rebuild:
            loads.remove(record, None)
            return
        # From here on no part of it is committed any more, whoever is master.
        loads.change_state(self.job, LoadState.ABORTING, LoadState.LOADING, holder=self.holder)
        # Tasks that are still at it would keep us from making indexes until they find out.
        loads.dialect.end_sessions(loads.connection, self.holder)
        if not self._hold(loads):
            log.info("the next master removes what the load has written job=%s", self.job)
            return
        with self._renewing(is_needed=loads.dialect.has_server):
            loads.remove(record, self._fence(loads))
            if record.rebuild:
                loads.build_indexes()
                loads.set_rebuild(self.job, is_due=False)
        self._release(loads)

    # -- taking in -----------------------------------------------------------------------------------------------

    def _wait_for_intake(self, loads: Loads, progress: Progress | None) -> LoadRecord:
        """Wait until a broker has taken in a load that is ready; do it ourselves if there is none."""
        before, until = -1, 0.0
        while True:
            record = self._present(loads)
            if progress is not None and record.taken != before:
                progress(record.taken, record.rows)
            if record.state is not LoadState.READY:
                return record
            if record.taken != before:
                before, until = record.taken, time.monotonic() + self.how.timeout_s
            master, name = self._master(loads)
            if master is _Master.NOBODY:
                self._take_in(loads, progress)
                continue
            waits = "its messages are complete, and taken in when a broker of jdbcstore runs on this store"
            if master is _Master.JAVA:
                raise StoreUnavailable(f"load {self.job} waits: {name or 'a Java broker'} is master. {waits}")
            if time.monotonic() > until:
                raise StoreUnavailable(
                    f"load {self.job} waits: {name or 'the master'} has taken in {record.taken} of {record.rows}"
                    f" messages, and nothing for {self.how.timeout_s:g} s; {waits}"
                )
            time.sleep(_LOOK_AGAIN_S)

    def _take_in(self, loads: Loads, progress: Progress | None) -> None:
        """Be the master and bring over what is staged."""
        try:
            with self._by_itself():
                self._become_master(loads)
                try:
                    with self._renewing(is_needed=loads.dialect.has_server):
                        fence = self._fence(loads)
                        loads.recover(fence)
                        for taken in _moves(loads, self.job, self._next_id(loads), fence):
                            if not loads.dialect.has_server:
                                self._hold(loads)
                            if progress is not None:
                                progress(taken, taken)
                finally:
                    self._release(loads)
        except (LockHeld, LeaseLost) as error:  # a broker has come; it goes on with what is left
            log.info("not taking in by ourselves job=%s reason=%s", self.job, error)

    # -- mastership ----------------------------------------------------------------------------------------------

    @contextmanager
    def _by_itself(self) -> Iterator[None]:
        """Be another master than the other processes of this run: for what only one of them may do."""
        holder, self.holder = self.holder, f"{HOLDER_PREFIX}{self.job}-{secrets.token_hex(6)}"
        try:
            yield
        finally:
            self.holder = holder

    def _fence(self, loads: Loads) -> Fence:
        row = loads.connection.execute(text(loads.statements.term_row)).one()
        return Fence(self.holder, int(row[0]), idle_ms=self.how.lease_ms // 2)

    def _become_master(self, loads: Loads, dead: str | None = None) -> None:
        """Take the lease in the name of this run. Raises `LockHeld` when somebody else is master."""
        until = time.monotonic() + _MOMENT_S
        was_refused = False
        while not self._hold(loads):
            seen = loads.connection.execute(text(loads.statements.term_row)).scalar()
            master, name = self._master(loads)
            # Time alone says nothing on a machine that has much to do.
            if (master is not _Master.NOBODY and name != dead) or (was_refused and time.monotonic() > until):
                self._refuse(master, name)
                raise _Busy(f"{name or 'a broker'} is master of this store", master)
            # Of two tasks of this run one is late here. It must not begin a term: the other's commits prove theirs.
            with self._quick() if loads.dialect.has_server else nullcontext(loads.connection) as connection:
                parameters = {"holder": self.holder, "lease_ms": self.how.lease_ms, "former": dead, "seen": seen}
                try:
                    if loads.dialect.take_over(connection, parameters):
                        log.info("the load is master job=%s holder=%s", self.job, self.holder)
                        return
                except DBAPIError as error:
                    if not loads.dialect.is_locked(error):
                        raise loads.dialect.map_error(error) from error
            was_refused = True

    def _hold(self, loads: Loads) -> bool:
        """Renew the lease; whether it is still ours. That it ran out does not matter if nobody has taken it."""
        # Where there is no server, somebody else may have the file to himself for as long as a part takes.
        with self._quick() if loads.dialect.has_server else nullcontext(loads.connection) as connection:
            try:
                return connection.execute(text(self._renewal(loads)), {"holder": self.holder}).rowcount == 1
            except DBAPIError as error:
                if not loads.dialect.is_locked(error):
                    raise loads.dialect.map_error(error) from error
                return False

    def _renewal(self, loads: Loads, holder: str = ":holder") -> str:
        end = f"{loads.dialect.epoch_ms} + {self.how.lease_ms}"
        return f"UPDATE {loads.statements.lock} SET TIME = {end} WHERE ID = 1 AND BROKER_NAME = {holder}"

    def _release(self, loads: Loads) -> None:
        loads.connection.execute(text(loads.statements.lease_release), {"holder": self.holder})
        loads.dialect.give_signal(loads.connection, signal_name(self.url, loads.statements))

    def _master(self, loads: Loads) -> tuple[_Master, str]:
        """Who is master, and its name as far as it has one."""
        until = 0.0
        while True:
            with self._quick() as connection:
                name, expires_in_ms, _, last = connection.execute(text(loads.statements.lock_status)).one()
                if name is not None and expires_in_ms is not None and expires_in_ms >= 0:
                    if name == self.holder:
                        return _Master.NOBODY, ""
                    if name.startswith(HOLDER_PREFIX):
                        return _Master.LOAD, name
                    return (_Master.OURS if name == last else _Master.JAVA), name
                if not loads.dialect.is_row_locked(connection):
                    return _Master.NOBODY, ""
                # Whoever takes or renews the lease has the row locked for a moment, other tasks of this run among
                # them; a broker with the locker `database` has it for good.
                until = until or time.monotonic() + _MOMENT_S
                if time.monotonic() > until:
                    if last not in (None, self.holder) and loads.dialect.is_at_work(connection, last):
                        return _Master.OURS, last
                    return _Master.JAVA, ""
            time.sleep(_LOOK_AGAIN_S)

    @contextmanager
    def _renewing(self, *, is_needed: bool) -> Iterator[None]:
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
        while not ended.wait(self.how.lease_ms / 3000):
            try:
                with self._loads() as loads:
                    if not self._hold(loads):
                        log.warning("the lease of a load could not be renewed job=%s", self.job)
            except JdbcStoreError as error:
                log.warning("the lease of a load could not be renewed job=%s error=%r", self.job, str(error))

    # -- words ---------------------------------------------------------------------------------------------------

    def _present(self, loads: Loads) -> LoadRecord:
        record = loads.get(self.job)
        if record is None:
            raise LeaseLost(f"load {self.job} is not known to the store any more: begin it again")
        return record

    def _over(self, record: LoadRecord) -> str:
        if record.holder != self.holder:
            return f"this run of load {self.job} is over: another run of it has begun"
        return f"this run of load {self.job} is over, it is {record.state}: begin it again"

    def _replaced(self, loads: Loads) -> str:
        _, name = self._master(loads)
        return (
            f"{name or 'somebody else'} has become master while load {self.job} was writing, and removes its rows:"
            " begin it again"
        )

    # -- connections ---------------------------------------------------------------------------------------------

    @contextmanager
    def _loads(self) -> Iterator[Loads]:
        with self._connected(_PATIENT_S) as (connection, dialect):
            yield Loads(connection, dialect, self.options.table_names)

    @contextmanager
    def _quick(self) -> Iterator[Connection]:
        with self._connected(_QUICK_S) as (connection, _):
            yield connection

    @contextmanager
    def _connected(self, timeout_s: float) -> Iterator[tuple[Connection, Dialect]]:
        options = replace(self.options, query_timeout_s=timeout_s)
        kind = dialect_for(self.url.get_backend_name())
        statements = Statements(options.table_names, epoch_ms=kind.epoch_ms)
        dialect = kind(options, statements, has_page_index=False)
        engine, _ = watched_engine(self.url, options, poolclass=NullPool)
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

    def _session(self, connection: Connection, dialect: Dialect) -> BulkSession:
        return database_for(connection.dialect.name).bulk_session()(connection, dialect, self.holder)


def _start_over(loads: Loads) -> None:
    """Give up the session with its transaction; what is asked next has a new one."""
    loads.connection.invalidate()
    loads.connection.rollback()
    with suppress(DBAPIError):  # if the server is gone, the next question says so
        loads.dialect.connected(loads.connection)


def _moves(loads: Loads, job: str, first_id: int, fence: Fence) -> Iterator[int]:
    """Move what is staged into ACTIVEMQ_MSGS, in the order of parts; yields how many rows each time."""
    statements, dialect, raw = loads.statements, loads.dialect, raw_connection(loads.connection)
    ledger = (
        f"SELECT PART, MIN(NUMBER), MAX(NUMBER) FROM {statements.staged} WHERE JOB = :job GROUP BY PART ORDER BY PART"
    )
    columns = "MSGID_PROD,MSGID_SEQ,CONTAINER,EXPIRATION,PRIORITY,MSG"
    for part, first, last in loads.connection.execute(text(ledger), {"job": job}).all():
        for start in range(int(first), int(last) + 1, _MOVE_ROWS):
            end = min(start + _MOVE_ROWS, int(last) + 1)
            some = f"JOB=? AND PART={int(part)} AND NUMBER>={start} AND NUMBER<{end}"
            changes: list[Change] = [
                (
                    f"INSERT INTO {statements.messages} (ID,{columns})"
                    f" SELECT {first_id - int(first)}+NUMBER,{columns} FROM {statements.staged} WHERE {some}",
                    (job,),
                ),
                (
                    f"UPDATE {statements.loads} SET ROWS_TAKEN=ROWS_TAKEN+(SELECT COUNT(*) FROM {statements.staged}"
                    f" WHERE {some}) WHERE JOB=? AND STATE='ready'",
                    (job, job),
                ),
                (f"DELETE FROM {statements.staged} WHERE {some}", (job,)),
            ]
            _transact(dialect, raw, changes, fence)
            yield end - start
        first_id += int(last) - int(first) + 1
    now = dialect.epoch_ms
    done = (
        f"UPDATE {statements.loads} SET STATE='committed',LAST_ID={first_id - 1},CHANGED_MS={now}"
        " WHERE JOB=? AND STATE='ready'"
    )
    _transact(dialect, raw, [(done, (job,))], fence)


def _transact(dialect: Dialect, raw: object, changes: list[Change], fence: Fence) -> None:
    try:
        dialect.transact(raw, [dialect.filled(change).decode() for change in changes], fence)  # type: ignore[arg-type]  # any driver's
    except Exception as error:
        dialect.rollback(raw)  # type: ignore[arg-type]  # likewise
        if dialect.is_fence(error):
            raise LeaseLost("somebody else has become master") from error
        raise dialect.map_error(error) from error
