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
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from sqlalchemy import URL, Connection, text
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
from jdbcstore.store.jdbc.dialect import ConnectionLost, Dialect, database_for
from jdbcstore.store.jdbc.dialect.base.bulk import BulkSession, row_by_row
from jdbcstore.store.jdbc.dialect.base.load_block import LoadBlock, LoadRow
from jdbcstore.store.jdbc.load_lease import Busy, LoadLease, Master, holder_name
from jdbcstore.store.jdbc.load_options import LoadOptions
from jdbcstore.store.jdbc.loads import PART_IDS, LoadMode, LoadRecord, Loads, LoadState
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.own_tables import OUTBOX_JOB
from jdbcstore.store.jdbc.rows import Change
from jdbcstore.store.jdbc.staged_moves import moves

__all__ = ["BulkLoad", "LoadBlock", "LoadOptions", "LoadRow", "Progress"]

log = logging.getLogger(__name__)

#: Told how many messages are in the store, and of how many.
Progress = Callable[[int, int], None]

_JOB_MAX: Final = 200
#: How often to look how far a broker has come, or another task.
_LOOK_AGAIN_S: Final = 0.2
#: How long to wait for another task that drops indexes. If it died, what it has not dropped stays.
_CHOOSING_S: Final = 30.0


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
        if job == OUTBOX_JOB:
            raise ConfigurationError(
                f"{job} is the outbox of applications: it cannot be written as a load, nor aborted"
            )
        self.job = job
        self.how = how or LoadOptions()
        self._lease = LoadLease(url, options, job, self.how)
        #: Whether an earlier run has done everything; set by `begin`.
        self.is_done = False

    @property
    def holder(self) -> str:
        """The run, and its name as a master: unlike that of any other."""
        return self._lease.holder

    # -- the four calls ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin this run. What an earlier run of the same job has left unfinished is removed.

        Raises:
            SchemaMismatch: the store has no tables for loads; the text says what to run.
            LockHeld: a Java broker is master; or somebody is, and that is in the way.
            TransientStoreError, StoreError: the store cannot be asked.
        """
        with self._lease.loads() as loads:
            loads.require_tables()
            loads.forget_old()
            record = loads.get(self.job)
            if record is not None and self._adopt_done(record):
                return
            if record is not None and record.holder == self.holder and record.state is not LoadState.ABORTED:
                raise _BegunByAnother(f"another process has begun this run of load {self.job} just now")
            if record is not None:
                self._clear(loads, record)
            master, name = self._lease.master(loads)
            self._lease.refuse(master, name)
            mode = LoadMode.STAGED if self.how.protocol == "staged" else None
            if not loads.begin(self.job, self.holder, mode):
                raise _BegunByAnother(f"another run of load {self.job} has begun just now")

    def join(self, run: str) -> None:
        """Begin this run, or take part in it if another process has begun it. Raises as `begin`.

        Args:
            run: its name, the same in all its processes, and unlike that of any other run of the job.
        """
        self._lease.holder = holder_name(self.job, hashlib.sha256(run.encode()).hexdigest()[:12])
        until = time.monotonic() + _CHOOSING_S
        while True:
            with self._lease.loads() as loads:
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

    def write_part(self, part: int, rows: Iterable[LoadRow | LoadBlock]) -> int:
        """Bring the rows of one part, all or none; returns how many.

        A part that is committed already is not written again, whatever its rows are; one that another process is
        writing just now is waited for.

        Args:
            part: its number, from 0 on.
            rows: one by one or many in a block; read once, as they are needed.

        Raises:
            LeaseLost: this run is over, or somebody else has become master.
            MessageTooLarge, StoreError: a row can never be stored.
            TransientStoreError: try again.
        """
        if not 0 <= part < PART_IDS >> 1:
            raise ValueError(f"part must be 0 to {(PART_IDS >> 1) - 1}, got {part}")
        if self.is_done:
            return 0
        with self._lease.loads() as loads:
            record = self._enter(loads)
            is_direct = record.mode is LoadMode.DIRECT
            session = self._session(loads.connection, loads.dialect)
            with self._lease.renewing(is_needed=is_direct and loads.dialect.has_server):
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
        with self._lease.loads() as loads:
            record = self._present(loads)
            if record.state is LoadState.LOADING:
                record = self._conclude(loads, record, parts)
            if record.state is LoadState.READY:
                record = self._wait_for_intake(loads, progress)
            if record.state is not LoadState.COMMITTED:
                raise LeaseLost(self._over(record))
            loads.dialect.confirm(loads.connection)  # all parts, too: they were committed before
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
        with self._lease.loads() as loads:
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
        with self._lease.loads() as loads:
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
            self._lease.holder = record.holder
        return self.is_done

    def _clear(self, loads: Loads, record: LoadRecord) -> None:
        """Remove what an earlier run of this job has left; nobody runs a job twice at once."""
        if record.state is LoadState.ABORTED and not record.rebuild:
            return
        if record.mode is not LoadMode.DIRECT and not record.rebuild:
            loads.remove(record, None)
            return
        with self._lease.by_itself():
            try:
                self._lease.become_master(loads, dead=record.holder)
            except Busy as error:
                if error.master in (Master.OURS, Master.JAVA):
                    raise
                # Perhaps another task of this run, doing the same; it may have released the lease just now.
                raise _BegunByAnother(str(error)) from error
            try:
                with self._lease.renewing(is_needed=loads.dialect.has_server):
                    loads.recover(self._lease.fence(loads))
            finally:
                self._lease.release(loads)

    # -- choosing the way ----------------------------------------------------------------------------------------

    def _enter(self, loads: Loads) -> LoadRecord:
        """The load as it is for a part that is to be written: its way is chosen, and on the direct one it is master."""
        record = self._present(loads)
        if record.state is not LoadState.LOADING or record.holder != self.holder:
            raise LeaseLost(self._over(record))
        if record.mode is None:
            record = self._choose(loads)
        if record.mode is LoadMode.DIRECT and not self._lease.hold(loads):
            raise LeaseLost(self._replaced(loads))
        return record

    def _choose(self, loads: Loads) -> LoadRecord:
        """Decide for one way, unless another process of this run does."""
        try:
            self._lease.become_master(loads)
        except Busy:
            if self.how.protocol == "direct":
                raise
            return self._decided(loads, LoadMode.STAGED, None)
        with self._lease.renewing(is_needed=loads.dialect.has_server):
            loads.recover(self._lease.fence(loads), but=self.holder)
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
            self._lease.release(loads)
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

    def _write(
        self, loads: Loads, session: BulkSession, record: LoadRecord, part: int, rows: Iterable[LoadRow | LoadBlock]
    ) -> int:
        fence = self._lease.fence(loads) if record.mode is LoadMode.DIRECT else None
        try:
            earlier = session.claim(self.job, part)
            if earlier is not None:
                log.info("part is there already job=%s part=%d rows=%d", self.job, part, earlier)
                return earlier
            place = (self.job, part) if record.first_id is None else record.first_id + part * PART_IDS
            count = session.insert(place, rows if session.takes_blocks else row_by_row(rows))
            if count >= PART_IDS:
                raise StoreError(f"part {part} has {count} messages, {PART_IDS - 1} at most: make more parts")
            ledger = f"UPDATE {loads.statements.load_parts} SET ROWS_LOADED=? WHERE JOB=? AND PART=?"
            changes: list[Change] = [(ledger, (count, self.job, part))]
            if fence is not None and not loads.dialect.has_server:
                changes.append(
                    (self._lease.renewal(loads, "?"), (self.holder,))
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
        fence = self._lease.fence(loads) if record.mode is LoadMode.DIRECT else None
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
        if fence is not None and not self._lease.hold(loads):
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
            if not self._lease.hold(loads):
                log.info("indexes are made by the next master job=%s", self.job)
                return
            with self._lease.renewing(is_needed=loads.dialect.has_server):
                loads.build_indexes()
                loads.set_rebuild(self.job, is_due=False)
        loads.forget_parts(self.job)
        self._lease.release(loads)

    def _remove(self, loads: Loads, record: LoadRecord) -> None:
        if record.mode is not LoadMode.DIRECT and not record.rebuild:
            loads.remove(record, None)
            return
        # From here on no part of it is committed any more, whoever is master.
        loads.change_state(self.job, LoadState.ABORTING, LoadState.LOADING, holder=self.holder)
        # Tasks that are still at it would keep us from making indexes until they find out.
        loads.dialect.end_sessions(loads.connection, self.holder)
        if not self._lease.hold(loads):
            log.info("the next master removes what the load has written job=%s", self.job)
            return
        with self._lease.renewing(is_needed=loads.dialect.has_server):
            loads.remove(record, self._lease.fence(loads))
            if record.rebuild:
                loads.build_indexes()
                loads.set_rebuild(self.job, is_due=False)
        self._lease.release(loads)

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
            master, name = self._lease.master(loads)
            if master is Master.NOBODY:
                self._take_in(loads, progress)
                continue
            waits = "its messages are complete, and taken in when a broker of jdbcstore runs on this store"
            if master is Master.JAVA:
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
            with self._lease.by_itself():
                self._lease.become_master(loads)
                try:
                    with self._lease.renewing(is_needed=loads.dialect.has_server):
                        fence = self._lease.fence(loads)
                        loads.recover(fence)
                        for taken in moves(loads, self.job, self._next_id(loads), fence):
                            if not loads.dialect.has_server:
                                self._lease.hold(loads)
                            if progress is not None:
                                progress(taken, taken)
                finally:
                    self._lease.release(loads)
        except (LockHeld, LeaseLost) as error:  # a broker has come; it goes on with what is left
            log.info("not taking in by ourselves job=%s reason=%s", self.job, error)

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
        _, name = self._lease.master(loads)
        return (
            f"{name or 'somebody else'} has become master while load {self.job} was writing, and removes its rows:"
            " begin it again"
        )

    def _session(self, connection: Connection, dialect: Dialect) -> BulkSession:
        return database_for(connection.dialect.name).bulk_session()(connection, dialect, self.holder)


def _start_over(loads: Loads) -> None:
    """Give up the session with its transaction; what is asked next has a new one."""
    loads.connection.invalidate()
    loads.connection.rollback()
    with suppress(DBAPIError):  # if the server is gone, the next question says so
        loads.dialect.connected(loads.connection)
