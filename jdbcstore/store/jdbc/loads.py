"""Bulk loads as rows of our table JDBCSTORE_LOADS: which there are, how far each has come, and what is left of them.

A load is one job that brings many messages into a store, in parts that are written by different processes, each part
exactly once. Its row is what everybody agrees upon:

* ``loading``: parts may be committed, by the run that HOLDER names. With mode ``direct`` they are rows of ACTIVEMQ_MSGS
  already, and the load is the master of the store; with ``staged`` they are rows of JDBCSTORE_STAGED.
* ``ready``: staged, complete, and to be taken in by a broker, or by the load itself if there is none.
* ``committed``: all of it is in the store.
* ``aborting``: it is being removed; no part can be committed any more.
* ``aborted``: nothing is left of it.
* ``outbox``: what applications send in transactions of their own (`jdbcstore.store.jdbc.outbox`); it has no end.

Whoever becomes master (a broker, or the next load) removes direct loads that are unfinished, before it reads anything:
their driver is dead, else it would still be master. Only what the ledger says is removed, id by id, so nobody else's
rows are touched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from jdbcstore.errors import SchemaMismatch
from jdbcstore.store.jdbc.dialect import Dialect, raw_connection
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.message_indexes import build_message_indexes, drop_message_indexes
from jdbcstore.store.jdbc.schema_inspection import inspect_schema
from jdbcstore.store.jdbc.statements import Statements
from jdbcstore.store.jdbc.table_names import TableNames

__all__ = ["HOLDER_PREFIX", "PART_IDS", "LoadMode", "LoadRecord", "LoadState", "Loads"]

log = logging.getLogger(__name__)

#: How the holder's id of a load begins; no broker's does unless somebody names it so.
HOLDER_PREFIX: Final = "load-"
#: How many ids are reserved for each part.
PART_IDS: Final = 1 << 32
#: Rows removed in one transaction. The last one stands alone: behind a range, MySQL and MariaDB look at the next row
#: too, and would wait for whoever is just writing that.
_DELETE_ROWS: Final = 5000
_WEEK_MS: Final = 7 * 86_400_000

_COLUMNS: Final = (
    "JOB, STATE, MODE, HOLDER, FIRST_ID, LAST_ID, ROWS_LOADED, ROWS_TAKEN, ROWS_REFUSED, REBUILD, BEGUN_MS, CHANGED_MS"
)


class LoadState(StrEnum):
    """Where a load is."""

    LOADING = "loading"
    READY = "ready"
    COMMITTED = "committed"
    ABORTING = "aborting"
    ABORTED = "aborted"
    OUTBOX = "outbox"


class LoadMode(StrEnum):
    """Which way its rows go."""

    DIRECT = "direct"
    STAGED = "staged"


@dataclass(frozen=True, slots=True)
class LoadRecord:
    """A row of the table.

    Args:
        job: the name of the load.
        state: where it is.
        mode: which way its rows go; None until the first part is written.
        holder: the run whose parts count.
        first_id, last_id: between which ids its rows are; None while they are not known.
        rows: how many messages it has; 0 until it is complete.
        taken: how many of a staged one are in the store already.
        refused: how many of a staged one the broker could not take; they stay in JDBCSTORE_STAGED.
        rebuild: whether indexes may be missing for its sake.
        begun_ms, changed_ms: when its run began, and when its state changed; the database's clock.
    """

    job: str
    state: LoadState
    mode: LoadMode | None
    holder: str
    first_id: int | None
    last_id: int | None
    rows: int
    taken: int
    refused: int
    rebuild: bool
    begun_ms: int
    changed_ms: int


class Loads:
    """The loads of one set of tables, on a connection in autocommit mode whose timeouts allow for long statements.

    Args:
        connection: to work on.
        dialect: of the database.
        names: of the tables.
    """

    def __init__(self, connection: Connection, dialect: Dialect, names: TableNames) -> None:
        self.connection = connection
        self.dialect = dialect
        self.statements: Statements = dialect.statements
        self._names = names

    # -- reading -------------------------------------------------------------------------------------------------

    def require_tables(self) -> None:
        """Raise `SchemaMismatch` unless our tables are there."""
        report = inspect_schema(self.connection, self._names)
        if not report.has_loads:
            raise SchemaMismatch(
                f"the store has no table {self.statements.loads}, so nothing can be loaded in bulk. Run:"
                f" {report.upgrade_command}"
            )

    def get(self, job: str) -> LoadRecord | None:
        """One load."""
        return next(self._records("WHERE JOB = :job", job=job), None)

    def all(self) -> list[LoadRecord]:
        """All that are remembered, the newest last."""
        return list(self._records("ORDER BY BEGUN_MS, JOB"))

    def unfinished(self) -> list[LoadRecord]:
        """Direct loads that somebody has to clear up if nobody writes them any more, and those without indexes."""
        return list(
            self._records("WHERE (STATE IN ('loading', 'aborting') AND MODE = 'direct') OR REBUILD = 1 ORDER BY JOB")
        )

    def last_id(self) -> int:
        """The highest id that any load may have used, 0 if there is none."""
        ids = f"SELECT MAX(LAST_ID), MAX(FIRST_ID) FROM {self.statements.loads}"
        return max(int(id or 0) for id in self.connection.execute(text(ids)).one())

    def parts(self, job: str) -> dict[int, int]:
        """The parts of a load that are committed, and how many rows each has."""
        ledger = f"SELECT PART, ROWS_LOADED FROM {self.statements.load_parts} WHERE JOB = :job ORDER BY PART"
        return {int(part): int(rows) for part, rows in self.connection.execute(text(ledger), {"job": job})}

    def _records(self, condition: str, **parameters: object) -> Iterator[LoadRecord]:
        found = self.connection.execute(
            text(f"SELECT {_COLUMNS} FROM {self.statements.loads} {condition}"), parameters
        ).all()
        for job, state, mode, holder, first, last, rows, taken, refused, rebuild, begun_ms, changed_ms in found:
            yield LoadRecord(
                job,
                LoadState(state),
                None if mode is None else LoadMode(mode),
                holder or "",
                None if first is None else int(first),
                None if last is None else int(last),
                int(rows),
                int(taken),
                int(refused),
                bool(rebuild),
                int(begun_ms),
                int(changed_ms),
            )

    # -- changing ------------------------------------------------------------------------------------------------

    def begin(self, job: str, holder: str, mode: LoadMode | None) -> bool:
        """Begin a run of a load that has no other; returns whether it is ours, and not somebody else's since."""
        loads, now = self.statements.loads, self.dialect.epoch_ms
        parameters = {"job": job, "holder": holder, "mode": mode}
        again = (
            f"UPDATE {loads} SET STATE = 'loading', MODE = :mode, HOLDER = :holder, FIRST_ID = NULL, LAST_ID = NULL,"
            f" ROWS_LOADED = 0, ROWS_TAKEN = 0, ROWS_REFUSED = 0, BEGUN_MS = {now}, CHANGED_MS = {now}"
            " WHERE JOB = :job AND STATE = 'aborted' AND REBUILD = 0"
        )
        if self._change(again, **parameters):
            return True
        # The last columns say what a table that was made by hand may not say by default.
        first = (
            f"INSERT INTO {loads} (JOB, STATE, MODE, HOLDER, ROWS_LOADED, ROWS_TAKEN, ROWS_REFUSED, REBUILD, BEGUN_MS,"
            f" CHANGED_MS) SELECT :job, 'loading', :mode, :holder, 0, 0, 0, 0, {now}, {now}"
            f" FROM (SELECT COUNT(*) AS N FROM {loads} WHERE JOB = :job) same WHERE same.N = 0"
        )
        try:
            return bool(self._change(first, **parameters))
        except IntegrityError:  # it counted before another's row was there
            return False

    def change_state(self, job: str, state: LoadState, *former: LoadState, holder: str | None = None) -> bool:
        """Bring a load from one of some states to another; returns whether it was in one of them, in this run."""
        states = ", ".join(f"'{one}'" for one in former)
        whose = "" if holder is None else " AND HOLDER = :holder"
        change = (
            f"UPDATE {self.statements.loads} SET STATE = :state, CHANGED_MS = {self.dialect.epoch_ms}"
            f" WHERE JOB = :job AND STATE IN ({states}){whose}"
        )
        return bool(self._change(change, job=job, state=state, holder=holder))

    def remove(self, record: LoadRecord, fence: Fence | None, *, keep_going: Callable[[], None] = lambda: None) -> None:
        """Bring a load to ``aborted``: nothing of it is left then. May be repeated.

        Args:
            record: in state ``loading``, ``aborting`` or ``ready``.
            fence: proved with everything that is removed from ACTIVEMQ_MSGS; only none is master where none is needed.
            keep_going: called between transactions.

        Raises:
            LeaseLost: somebody else is master.
        """
        job = record.job
        former = (LoadState.LOADING, LoadState.ABORTING, LoadState.READY)
        if not self.change_state(job, LoadState.ABORTING, *former, holder=record.holder):
            return  # another run of it has begun meanwhile
        dialect, statements, parts = self.dialect, self.statements, self.parts(job)
        was, record = record, self.get(job) or record
        # Another may remove it as well, be quicker, and have begun a run of it meanwhile, with parts of its own.
        same_run = (
            f"EXISTS (SELECT 1 FROM {statements.loads} WHERE JOB = {{}} AND HOLDER = {{}} AND STATE = 'aborting')"
        )
        name, holder = (dialect.literal(one).decode() for one in (job, record.holder))
        staged = f"{same_run.format(name, holder)} AND JOB={name}"
        still = same_run.format(":job", ":holder")
        for part, rows in parts.items():  # those of a run that is over cannot become more
            if record.mode is LoadMode.DIRECT and record.first_id is not None:
                first, table, condition = record.first_id + part * PART_IDS, statements.messages, "ID"
            else:
                first, table, condition = 0, statements.staged, f"{staged} AND PART={part} AND NUMBER"
            for start in range(first, first + rows, _DELETE_ROWS):
                last = min(start + _DELETE_ROWS, first + rows) - 1
                delete = dialect.delete_by_key.format(table=table)
                some = [
                    f"{delete} {condition} BETWEEN {start} AND {last - 1}",
                    f"DELETE FROM {table} WHERE {condition}={last}",
                ]
                self._fenced(some, fence if record.mode is LoadMode.DIRECT else None)
                keep_going()
            one = f"DELETE FROM {statements.load_parts} WHERE JOB = :job AND PART = :part AND {still}"
            self._change(one, job=job, part=part, holder=record.holder)
        if was.state is LoadState.READY:  # what a broker has refused stands elsewhere
            rest = f"DELETE FROM {statements.staged} WHERE JOB = :job AND {still}"
            self._change(rest, job=job, holder=record.holder)
        last_id = None
        if record.mode is LoadMode.DIRECT and record.first_id is not None:
            last_id = record.first_id + max((part * PART_IDS + rows for part, rows in parts.items()), default=0)
        if last_id is not None and (record.last_id is None or record.last_id < last_id):
            whose = "WHERE JOB = :job AND HOLDER = :holder AND STATE = 'aborting'"
            ids = f"UPDATE {statements.loads} SET LAST_ID = :last {whose}"
            self._change(ids, job=job, last=last_id, holder=record.holder)
        self.change_state(job, LoadState.ABORTED, LoadState.ABORTING, holder=record.holder)
        log.info("removed an unfinished load job=%s parts=%d rows=%d", job, len(parts), sum(parts.values()))

    def recover(
        self, fence: Fence | None, *, but: str = "", keep_going: Callable[[], None] = lambda: None
    ) -> list[LoadRecord]:
        """What a new master does first: remove direct loads that are unfinished, and make indexes that they dropped.

        Args:
            fence: the new mastership; none if nobody else can be master.
            but: the run that is master itself.
            keep_going: called between steps.

        Returns:
            What was cleared up.
        """
        found = [record for record in self.unfinished() if record.holder != but]
        for record in found:
            if record.state is not LoadState.COMMITTED and record.state is not LoadState.ABORTED:
                log.warning("a load was left unfinished, removing its rows job=%s", record.job)
                self.remove(record, fence, keep_going=keep_going)
        if any(record.rebuild for record in found):
            self.build_indexes()
            for record in found:
                self.set_rebuild(record.job, is_due=False)
        return found

    def forget_old(self) -> None:
        """Forget loads that ended more than a week ago, and remove staged ones that nobody has touched for as long."""
        loads, long_ago = self.statements.loads, f"{self.dialect.epoch_ms} - {_WEEK_MS}"
        given_up = (
            f"STATE IN ('loading', 'aborting') AND COALESCE(MODE, 'staged') = 'staged' AND CHANGED_MS < {long_ago}"
        )
        for record in list(self._records(f"WHERE {given_up}")):
            self.remove(record, None)
        # The highest id that was given out is remembered for ever.
        old = (
            f"STATE IN ('committed', 'aborted') AND CHANGED_MS < {long_ago} AND REBUILD = 0"
            f" AND COALESCE(LAST_ID, 0) < {max(1, self.last_id())}"
        )
        for record in list(self._records(f"WHERE {old}")):
            self.forget_parts(record.job)
            self._change(f"DELETE FROM {loads} WHERE JOB = :job", job=record.job)

    def forget_parts(self, job: str) -> None:
        """Forget which parts of a load are committed, when all of it is."""
        self._change(f"DELETE FROM {self.statements.load_parts} WHERE JOB = :job", job=job)

    # -- indexes -------------------------------------------------------------------------------------------------

    def drop_indexes(self) -> None:
        """Drop the secondary indexes of ACTIVEMQ_MSGS."""
        drop_message_indexes(self.connection, self._names)

    def build_indexes(self) -> None:
        """Make them again."""
        build_message_indexes(self.connection, self._names)

    def set_rebuild(self, job: str, *, is_due: bool) -> None:
        """Say whether indexes are missing for the sake of a load."""
        change = f"UPDATE {self.statements.loads} SET REBUILD = :due WHERE JOB = :job"
        self._change(change, due=int(is_due), job=job)

    # -- statements ----------------------------------------------------------------------------------------------

    def _change(self, statement: str, **parameters: object) -> int:
        return self.connection.execute(text(statement), parameters).rowcount

    def _fenced(self, statements: list[str], fence: Fence | None) -> None:
        raw = raw_connection(self.connection)
        try:
            self.dialect.transact(raw, statements, fence)
        except Exception as error:
            self.dialect.rollback(raw)
            if fence is not None and self.dialect.is_fence(error):
                raise fence.lost() from error
            raise self.dialect.map_error(error) from error
