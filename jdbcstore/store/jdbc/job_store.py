"""Scheduled messages as rows of our table JDBCSTORE_SCHEDULED.

A firing is a write like any other: the rows that it adds, and what becomes of the job. Before that stands a statement
that fails unless the job is there and due as it was read (`Statements.job_prove`), so whatever else goes wrong, of two
firings at the same time one is rolled back with everything that it would have added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, text

from jdbcstore.errors import CodecError, SchemaMismatch
from jdbcstore.openwire import marshal, unmarshal_message
from jdbcstore.store.completion import Completion
from jdbcstore.store.jdbc.column_text import require_column_text
from jdbcstore.store.jdbc.rows import Change, Trace
from jdbcstore.store.jdbc.store_host import StoreHost
from jdbcstore.store.jdbc.writes import Write
from jdbcstore.store.jobs import HELD_MS, JobChange, JobPage, JobPlace, JobStore, ScheduledJob
from jdbcstore.store.message_checks import require_size

__all__ = ["JdbcJobStore"]


class JdbcJobStore(JobStore):
    """The jobs of one adapter.

    Args:
        adapter: started.
        has_table: whether our table is there.
    """

    def __init__(self, adapter: StoreHost, *, has_table: bool) -> None:
        self.has_table = has_table
        self._adapter = adapter

    def require_table(self) -> None:
        """Raise `SchemaMismatch` unless our table is there."""
        if not self.has_table:
            raise SchemaMismatch(
                f"the store has no table {self._adapter.statements.scheduled}, so no message can be scheduled. Run:"
                " jdbcstore schema upgrade URL, then start the broker again"
            )

    # -- writing -------------------------------------------------------------------------------------------------

    def changes_of(self, jobs: Sequence[JobChange]) -> tuple[list[Change], list[Trace]]:
        """The statements that change jobs, and what each leaves behind to tell whether they are committed.

        Raises:
            MessageTooLarge, CodecError, StoreError: a job can never be stored.
        """
        if not jobs:
            return [], []
        self.require_table()
        statements = self._adapter.statements
        changes: list[Change] = []
        for job in jobs:
            if isinstance(job, ScheduledJob):
                changes.append((statements.job_insert, self._values(job)))
                continue
            if job.next_due_ms is not None and job.next_due_ms <= job.due_ms:
                raise ValueError(f"{job!r} has to be due later than it was")
            changes.append((statements.job_prove, (job.job_id, job.due_ms)))
            if job.next_due_ms is None:
                changes.append((statements.job_delete, (job.job_id,)))
            else:
                changes.append((statements.job_advance, (job.next_due_ms, job.repeat, job.job_id)))
        return changes, [self._trace_of(job) for job in jobs]

    def _trace_of(self, job: JobChange) -> Trace:
        statements = self._adapter.statements
        if isinstance(job, ScheduledJob):
            return Trace(statements.job_trace, {"job_id": job.job_id}, is_there=True)
        if job.next_due_ms is None:
            return Trace(statements.job_trace, {"job_id": job.job_id}, is_there=False)
        return Trace(statements.job_trace_due, {"job_id": job.job_id, "due_ms": job.next_due_ms}, is_there=True)

    def _values(self, job: ScheduledJob) -> tuple[str | int | bytes, ...]:
        require_column_text("the job id", job.job_id)
        require_column_text("the cron entry", job.cron)
        blob = marshal(job.message)
        require_size(blob, self._adapter.dialect.message_bytes_max)
        return job.job_id, job.due_ms, job.delay_ms, job.period_ms, job.repeat, job.cron, blob

    def remove_job(self, job_id: str) -> Completion[None]:
        return self._submit((self._adapter.statements.job_delete, (job_id,)))

    def remove_jobs(self, first_ms: int = 0, last_ms: int = HELD_MS) -> Completion[None]:
        return self._submit((self._adapter.statements.jobs_delete, (first_ms, last_ms)))

    def _submit(self, change: Change) -> Completion[None]:
        self.require_table()
        completion: Completion[None] = Completion()
        self._adapter.writer.submit(Write(completion, changes=(change,)))
        return completion

    # -- reading -------------------------------------------------------------------------------------------------

    def due_jobs(self, now_ms: int, jobs_max: int, bytes_max: int) -> JobPage:
        return self.jobs(None, jobs_max, bytes_max, last_ms=min(now_ms, HELD_MS - 1))

    def next_due_ms(self) -> int | None:
        due_ms = self._scalar(self._adapter.statements.job_due_first)
        return None if due_ms is None or due_ms == HELD_MS else due_ms

    def job_count(self) -> int:
        return self._scalar(self._adapter.statements.job_count) or 0

    def _scalar(self, statement: str) -> int | None:
        with self._adapter.reading() as connection:
            found = connection.execute(text(statement)).scalar()
        return None if found is None else int(found)

    def jobs(
        self, after: JobPlace | None, jobs_max: int, bytes_max: int, first_ms: int = 0, last_ms: int = HELD_MS
    ) -> JobPage:
        statements = self._adapter.statements
        first, after_id = (first_ms, "") if after is None else after
        span = {"first": first, "after": after_id, "last": last_ms, "rows": jobs_max}
        with self._adapter.reading() as connection:
            places: list[JobPlace] = []
            room = bytes_max
            listed = connection.execute(text(statements.jobs_page), span).all()
            for due_ms, job_id, length in listed:
                if room <= 0:
                    break
                places.append((due_ms, job_id))
                room -= length or 0
            if not places:
                return JobPage(())
            is_more = len(places) < len(listed) or len(listed) == jobs_max
            statement = text(statements.jobs_by_id).bindparams(bindparam("job_ids", expanding=True))
            found = connection.execute(statement, {"job_ids": [job_id for _, job_id in places]})
            rows = {(row[1], row[0]): row for row in found}
        jobs: list[ScheduledJob] = []
        unreadable: list[tuple[JobPlace, CodecError]] = []
        for place in places:
            if (row := rows.get(place)) is None:
                continue  # fired or removed since
            try:
                jobs.append(_job_of(row))
            except CodecError as error:
                unreadable.append((place, error))
        return JobPage(jobs, unreadable, places[-1] if is_more else None)

    def get_job(self, job_id: str) -> ScheduledJob | None:
        with self._adapter.reading() as connection:
            found = connection.execute(text(self._adapter.statements.job_by_id), {"job_id": job_id}).first()
        return None if found is None else _job_of(found)


def _job_of(row: Sequence[Any]) -> ScheduledJob:
    job_id, due_ms, delay_ms, period_ms, repeat, cron, blob = row
    if blob is None:
        raise CodecError("column MSG is NULL")
    return ScheduledJob(job_id, unmarshal_message(bytes(blob)), due_ms, delay_ms, period_ms, repeat, cron or "")
