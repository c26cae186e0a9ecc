"""The one place of this store where anything is committed: what `jdbcstore.store.group_commit` is to a database.

What a database adds to the rules that are written there:

* **Stored** is what the database has answered COMMIT for.
* **A bad write** is found by halving: the database refuses a batch for what is in it, and does not say which.
* **What was rolled back for others' sake** (a deadlock, a timeout) is tried once more before anybody hears of it.
* **A broken line leaves three outcomes, not two.** If it broke while the commit was under way the rows may be there.
  So the writer connects again and looks: a batch is atomic, so any one row that it added, or removed, tells about all
  of it. Only when the database does not come back within ``retry_s`` the waiting senders are told: `OutcomeUnknown` if
  their batch had been sent and could not be looked up since, `StoreUnavailable` if it surely is not there.
* **What is looked up with a fence is final.** Connecting ends the lost session and waits until it is gone, so nothing
  comes after the look; and a batch that was not found counts as not written only if we are still master after the look,
  for else a row may have come, and the next master's consumer may have taken it: `OutcomeUnknown`. What was found is
  stored, whoever is master now. It makes no difference what crashed: the sessions of a server end with it.
  Without a fence a lost session may come to life behind a lock, so there only success is told for sure.
* **A server that is read only is an outage**: the next connection may lead to the new primary. After ``retry_s`` the
  senders are told `StoreReadOnly`.
* **A server with another history is the end**: the database has failed over, and our mastership with it. Senders are
  told at once.
* **While an outage lasts** later batches get one attempt each, so that senders hear soon what they cannot have.
* **An answer that is overdue is a broken line** (`watch`).
* **Who is not master writes nothing.** With a fence every commit proves the mastership in its own transaction.
* **A transaction that is prepared, or decided about, has a batch to itself**: it looks at rows before it changes them.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NoReturn

from sqlalchemy import Connection, Engine, bindparam, text

from jdbcstore import faults
from jdbcstore.errors import (
    DuplicateMessage,
    LeaseLost,
    NotReplicated,
    OutcomeUnknown,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    TransientStoreError,
)
from jdbcstore.store.group_commit import Abandoned, BatchLimits, CommitTarget, GroupCommit
from jdbcstore.store.jdbc.dialect import AccessDenied, ConnectionLost, Deadlock, Dialect, OtherHistory, raw_connection
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.line_watch import Line, line_of
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.plan import Planner
from jdbcstore.store.jdbc.replication import Level
from jdbcstore.store.jdbc.rows import Container, Trace
from jdbcstore.store.jdbc.writes import Batch, Write

__all__ = ["Writer"]

log = logging.getLogger(__name__)

#: Ids looked up in one statement.
_LOOKUP_IDS: Final = 500
_RECONNECT_FIRST_S: Final = 0.05
_RECONNECT_MOST_S: Final = 1.0
#: How often a batch is tried that was rolled back for others' sake: a deadlock, a timeout.
_TRIES: Final = 2
_DEADLOCK_PAUSE_FIRST_S: Final = 0.005


class Writer(CommitTarget[Write]):
    """Commits batches of rows, in the thread of its `GroupCommit`.

    Args:
        engine: where connections come from; the writer keeps one for itself.
        dialect: how this database wants its batches.
        options: batch limits, how long to try again.
        removed: called after each commit with the number of removed rows (housekeeping).
        fence: what each commit proves; None when nobody else can be master.
        planner: knows what writes mean for durable subscriptions; None when none has to do with them.
    """

    def __init__(
        self,
        engine: Engine,
        dialect: Dialect,
        options: JdbcOptions,
        removed: Callable[[int], None] = lambda rows: None,
        fence: Fence | None = None,
        planner: Planner | None = None,
    ) -> None:
        self._planner = planner
        self._engine = engine
        self._dialect = dialect
        self._options = options
        self._removed = removed
        self._fence = fence
        limits = BatchLimits(options.batch_rows_max, options.batch_bytes_max, is_strict=False)
        cancels = options.concurrent_store_and_dispatch_queues
        self.commits: Final = GroupCommit(self, limits, "jdbcstore-writer", cancels=cancels)
        #: As `GroupCommit` says; the numbers of messages are ids of rows.
        self.submit: Final = self.commits.submit
        self.submit_remove: Final = self.commits.submit_remove
        self.abandon: Final = self.commits.abandon  # the caller cuts the line then: the thread ends soon
        self.has_settled: Final = self.commits.has_settled
        self._connection: Connection | None = None
        self._line = Line()
        #: Whether it is known that no lost session of ours is still at work.
        self._is_alone = False
        self._outage_began: float | None = None

    def start(self) -> None:
        """Connect and start the thread. Raises what the database says when it cannot be reached."""
        try:
            self._connect()
        except Exception as error:
            self._disconnect()
            mapped = self._dialect.map_error(error)
            raise mapped from error
        self.commits.start()

    def stop(self) -> None:
        """Commit what was submitted, then end the thread and the connection."""
        self.commits.stop()
        if not self.commits.is_abandoned:  # else the thread does it, when it can
            self._disconnect()

    # -- in the thread -------------------------------------------------------------------------------------------

    def leave(self) -> None:
        if self.commits.is_abandoned:
            self._disconnect()

    def fails_alone(self, error: StoreError) -> bool:
        return super().fails_alone(error) and not isinstance(error, AccessDenied)

    def attempt(self, batch: Sequence[Write]) -> Callable[[], object]:
        """Apply and commit; after a broken line connect again, look, and apply again, as long as the options allow."""
        connection, merged, removed = self._committed(batch)
        self._outage_began = None
        return partial(self._settle, connection, batch, merged, removed)

    def _committed(self, writes: Sequence[Write]) -> tuple[Connection, Batch, int]:
        """The connection, what was committed, and how many rows its removes removed."""
        commits = self.commits
        in_doubt = collided = False  # sent in a session that was lost, and not known since; it met its own rows
        tries, pause_s, deadlock_pause_s = _TRIES, _RECONNECT_FIRST_S, _DEADLOCK_PAUSE_FIRST_S
        patient_until = time.monotonic() + self._options.retry_s
        while True:
            try:
                connection = self._connect()
                batch = self._batch(connection, writes)
                if in_doubt:
                    if self._is_committed(connection, batch):
                        self._dialect.confirm(connection)  # what is seen may not be on the standbys
                        return connection, batch, len(batch.removes)
                    in_doubt = commits.is_sent = not self._is_final()
                return connection, batch, self._write(connection, batch)
            except Exception as error:  # any driver's error, mapped right here
                if commits.is_abandoned:
                    raise Abandoned from error
                mapped = self._dialect.map_error(error)
                if mapped is not error:
                    mapped.__cause__ = error
                if isinstance(mapped, OtherHistory):  # with its mastership all of this is over
                    self._break_off(in_doubt or commits.is_sent, mapped)
                if isinstance(mapped, ConnectionLost):
                    in_doubt = commits.is_sent
                    pause_s = self._wait_for_database(in_doubt, mapped, pause_s)
                    continue
                commits.is_sent = in_doubt  # what was sent just now was rolled back
                if isinstance(mapped, StoreReadOnly):  # another connection may lead to the new primary
                    pause_s = self._wait_for_database(in_doubt, mapped, pause_s)
                    continue
                self._outage_began = None
                self._roll_back()
                self._refuse_if_lost(error, in_doubt)
                if in_doubt and not collided and isinstance(mapped, DuplicateMessage):
                    collided = True  # the lost session committed just after we had looked: look again, once
                    continue
                if isinstance(mapped, TransientStoreError) and not isinstance(mapped, StoreFull):
                    tries -= 1
                    if tries > 0:
                        continue
                    if isinstance(mapped, Deadlock) and not commits.is_closing and time.monotonic() < patient_until:
                        # It came at once, unlike a timeout. Jitter: the other one may have been tried again, too.
                        commits.pause(deadlock_pause_s * random.uniform(0.5, 1.0))
                        deadlock_pause_s = min(2 * deadlock_pause_s, _RECONNECT_MOST_S)
                        continue
                if in_doubt and isinstance(mapped, TransientStoreError):
                    # The lost session may still be at work behind a lock: only success could be told for sure.
                    raise OutcomeUnknown(f"a commit was cut off and trying again failed: {mapped}") from error
                raise mapped from error

    def _is_final(self) -> bool:
        """Whether what was not found a moment ago will not come any more, and was not removed by others.

        With a fence it is so: connecting has waited for the end of the lost session (if it could), and being master
        still, we were when we looked. Raises as `Dialect.prove`.
        """
        if self._fence is None:
            return False
        raw = raw_connection(self._connect())
        with self._line:
            self._dialect.prove(raw, self._fence)
        return self._is_alone

    def _wait_for_database(self, in_doubt: bool, error: StoreError, pause_s: float) -> float:
        """Pause before the next attempt to connect; returns how long to pause before the one after that.

        Raises what the waiting senders are told when it takes too long.
        """
        self._disconnect()
        now = time.monotonic()
        if self._outage_began is None:
            self._outage_began = now
            log.warning(
                "database connection lost, connecting again for %g s error=%r", self._options.retry_s, str(error)
            )
        if self.commits.is_closing or now - self._outage_began > self._options.retry_s:
            if in_doubt:
                raise OutcomeUnknown(
                    f"the connection broke during the commit and the database cannot be reached since: {error}"
                ) from error
            if isinstance(error, StoreReadOnly):
                raise error
            raise StoreUnavailable(f"the database cannot be reached: {error}") from error
        # Jitter: two brokers must not retry in step.
        self.commits.pause(pause_s * random.uniform(0.5, 1.0))
        return min(2 * pause_s, _RECONNECT_MOST_S)

    def _refuse_if_lost(self, error: Exception, in_doubt: bool) -> None:
        """After a failure: was it the fence, or would it have been, had not the next master's rows been in the way?"""
        if self._fence is None:
            return
        if not self._dialect.is_fence(error):
            try:
                self._is_final()
                return
            except Exception as second:  # noqa: BLE001  # what failed first is what is told
                if not self._dialect.is_fence(second):
                    log.info("could not ask who is master error=%r", str(second))
                    self._disconnect()
                    return
        lost = self._too_few_replicas() or self._fence.lost()
        if in_doubt:  # it may have been stored, and the next master's consumer may have had it
            self.commits.break_off(lost)
            raise OutcomeUnknown(f"a commit was cut off, and what became of it is another's: {lost}") from error
        raise lost from error

    def _too_few_replicas(self) -> LeaseLost | None:
        """What to tell of a commit that failed because the database does not wait for its replicas any more."""
        required = Level.named(self._options.require_replication)
        if required is Level.NONE:
            return None
        try:
            self._dialect.replication(self._connect()).require(required)
        except NotReplicated as error:
            return LeaseLost(str(error))
        except Exception as error:  # noqa: BLE001  # the mastership has failed anyway
            log.info("could not ask for the replicas error=%r", str(error))
            self._disconnect()
        return None

    def _break_off(self, in_doubt: bool, error: OtherHistory) -> NoReturn:
        """The database has failed over: nobody here can tell what became of a commit that was cut off."""
        lost = LeaseLost(str(error))
        if in_doubt:
            self.commits.break_off(lost)
            raise OutcomeUnknown(f"a commit was cut off, and the database has failed over: {error}") from error
        raise lost from error

    def _batch(self, connection: Connection, writes: Sequence[Write]) -> Batch:
        """Merge the writes; removes that are known by producer only get their ids."""
        for write in writes:
            if write.keys:
                found = [
                    id
                    for key in write.keys
                    for (id,) in connection.execute(
                        text(self._dialect.statements.message_id_by_key),
                        {"producer": key.producer, "sequence": key.sequence, "container": key.container},
                    )
                ]
                write.removes, write.keys = [*write.removes, *found], ()
            if self._planner is not None and not self._planner.doubts.ids.isdisjoint(write.removes):
                # In doubt they are another's to remove.
                write.removes = [id for id in write.removes if id not in self._planner.doubts.ids]
        return Batch(writes, None if self._planner is None else self._planner.plan(connection, writes))

    def _write(self, connection: Connection, batch: Batch) -> int:
        if not batch:
            return 0
        faults.point("writer.before_commit")
        self.commits.sending()
        with self._line:
            removed = self._dialect.write(raw_connection(connection), batch, self._fence)
        faults.point("writer.after_commit")
        return removed

    def _is_committed(self, connection: Connection, batch: Batch) -> bool:
        """Whether a batch whose commit was cut off is in the database: look for one kind of trace after the other."""
        removed = set(batch.removes)
        added = next((row for row in batch.adds if row[0] not in removed), None)
        if added is not None:
            found = connection.execute(text(self._dialect.statements.message_origin), {"id": added[0]}).first()
            if found is None or tuple(found) == added[1:4]:
                return found is not None
            raise DuplicateMessage(
                f"row {added[0]} is taken by a message of {found[0]}: another broker writes these tables"
            )
        if removed:
            return not self._present(connection, sorted(removed))
        if batch.traces:
            return self._is_traced(connection, batch.traces)
        return False  # updates, purges, outcomes of transactions: doing them again is as good as knowing

    def _is_traced(self, connection: Connection, traces: Sequence[Trace]) -> bool:
        """Whether one row is there that a batch makes, or, where it only takes away, none that it takes."""
        is_there = traces[0].is_there
        rows = (connection.execute(text(trace.statement), trace.parameters).first() for trace in traces)
        return any(row is not None for row in rows) == is_there

    def _present(self, connection: Connection, ids: Sequence[int]) -> set[int]:
        statement = text(self._dialect.statements.message_ids_present).bindparams(bindparam("ids", expanding=True))
        found: set[int] = set()
        for start in range(0, len(ids), _LOOKUP_IDS):
            found.update(id for (id,) in connection.execute(statement, {"ids": list(ids[start : start + _LOOKUP_IDS])}))
        return found

    def _settle(self, connection: Connection, writes: Sequence[Write], batch: Batch, removed: int) -> None:
        """The batch is durable: keep the counts."""
        if batch.plan is not None:
            batch.plan.settle()
        for container, change in batch.counts:
            container.count += change
        if removed != sum(-change for _, change in batch.counts if change < 0) or batch.purges:
            # Somebody removed what was not there, or everything at once: the few containers concerned are counted
            # again.
            uncertain = {c for write in writes if not write.adds for c, _ in write.counts}
            if batch.plan is not None:
                uncertain.update(container for container, _ in batch.plan.counts)
            self._count_again(connection, uncertain)
        elif batch.plan is not None:
            self._count_again(connection, batch.plan.recount)
        self._removed(removed)

    def _count_again(self, connection: Connection, containers: set[Container]) -> None:
        statement = text(self._dialect.statements.container_count)
        try:
            for container in containers:
                container.count = connection.execute(statement, {"container": container.name}).scalar_one()
        except Exception as error:  # noqa: BLE001  # the batch is committed: what fails from here on must not undo it
            mapped = self._dialect.map_error(error)
            log.warning("counting failed, counts may be off until the next start error=%r", str(mapped))
            if isinstance(mapped, ConnectionLost):
                self._disconnect()

    # -- the connection ------------------------------------------------------------------------------------------

    def _connect(self) -> Connection:
        """The connection. Raises `ConnectionLost` while none can be had, `OtherHistory` when it leads to other data."""
        if self._connection is None:
            try:
                self._connection = self._connected()
            except ConnectionLost:  # which may be more than an outage: `OtherHistory`
                raise
            except Exception as error:
                if self._dialect.is_outage(error):
                    raise ConnectionLost(str(self._dialect.map_error(error))) from error
                raise
            self._line = line_of(self._connection)
        return self._connection

    def _connected(self) -> Connection:
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            self._dialect.connected(connection)
            if self._fence is not None:
                self._is_alone = self._dialect.fenced(connection, self._fence)
        except BaseException:  # without its timeouts a session must not write
            connection.invalidate()
            connection.close()
            raise
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.invalidate()
            connection.close()

    def _roll_back(self) -> None:
        if self._connection is not None:
            try:
                with self._line:
                    self._dialect.rollback(raw_connection(self._connection))
            except Exception as error:  # noqa: BLE001  # the connection is of no use any more, whatever it says
                log.info("rollback failed, connecting again error=%r", str(error))
                self._disconnect()
