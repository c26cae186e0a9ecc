"""Scheduled messages, as a store of jobs over the journal of `jdbcstore.store.journal.scheduling`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jdbcstore.errors import CodecError, JournalDamaged, StoreError
from jdbcstore.openwire import marshal, unmarshal_message
from jdbcstore.store.completion import Completion
from jdbcstore.store.jobs import HELD_MS, JobChange, JobPage, JobPlace, JobStore, ScheduledJob
from jdbcstore.store.journal.applier import SCHEDULER
from jdbcstore.store.journal.commands import AddScheduledJob, RemoveScheduledJob, RemoveScheduledJobs
from jdbcstore.store.journal.index import JobRow
from jdbcstore.store.journal.job_changes import JobChanges, RemoveJobs, job_command
from jdbcstore.store.journal.records import Location
from jdbcstore.store.journal.store_host import StoreHost
from jdbcstore.store.message_checks import require_size

__all__ = ["JournalJobStore"]

_REPEATS_MAX: Final = (1 << 31) - 1


class JournalJobStore(JobStore):
    """The jobs of one adapter.

    Args:
        adapter: started.
    """

    def __init__(self, adapter: StoreHost) -> None:
        self._adapter = adapter

    def changes(self, jobs: Sequence[JobChange]) -> JobChanges:
        """What is submitted. Raises `MessageTooLarge`, `CodecError`, `StoreError` when a job can never be stored."""
        payloads: list[bytes] = []
        for job in jobs:
            if isinstance(job, ScheduledJob):
                payloads.append(self._payload(job))
            elif job.next_due_ms is not None and job.next_due_ms <= job.due_ms:
                raise ValueError(f"{job!r} has to be due later than it was")
        return JobChanges(jobs, payloads)

    def _payload(self, job: ScheduledJob) -> bytes:
        options = self._adapter.options
        data = marshal(job.message, self._adapter.wire_version)
        require_size(data, options.message_bytes_max)
        if not -1 <= job.repeat <= _REPEATS_MAX:
            raise StoreError(f"a job cannot be repeated {job.repeat} times")
        self._adapter.format.encode(job_command(job, b""))  # its texts can be written
        return data

    def remove_job(self, job_id: str) -> Completion[None]:
        return self._submit(RemoveScheduledJob(SCHEDULER, job_id))

    def remove_jobs(self, first_ms: int = 0, last_ms: int = HELD_MS) -> Completion[None]:
        return self._submit(RemoveScheduledJobs(SCHEDULER, first_ms, last_ms))

    def _submit(self, command: RemoveScheduledJob | RemoveScheduledJobs) -> Completion[None]:
        self._adapter.opened()
        return self._adapter.committer.write(RemoveJobs(command), is_alone=True)

    # -- reading -------------------------------------------------------------------------------------------------

    def due_jobs(self, now_ms: int, jobs_max: int, bytes_max: int) -> JobPage:
        return self.jobs(None, jobs_max, bytes_max, last_ms=min(now_ms, HELD_MS - 1))

    def next_due_ms(self) -> int | None:
        due_ms = self._adapter.reading().job_due_first()
        return None if due_ms == HELD_MS else due_ms

    def job_count(self) -> int:
        return self._adapter.reading().job_count()

    def jobs(
        self, after: JobPlace | None, jobs_max: int, bytes_max: int, first_ms: int = 0, last_ms: int = HELD_MS
    ) -> JobPage:
        rows = self._adapter.reading().jobs((first_ms, "") if after is None else after, last_ms, jobs_max)
        jobs: list[ScheduledJob] = []
        unreadable: list[tuple[JobPlace, CodecError]] = []
        end: JobPlace | None = None
        room = bytes_max
        for row in rows:
            if room <= 0:
                break
            room -= row.size
            end = row.due_ms, row.job_id
            try:
                jobs.append(self._job(row))
            except CodecError as error:
                unreadable.append((end, error))
        is_all = len(jobs) + len(unreadable) == len(rows) < jobs_max
        return JobPage(jobs, unreadable, None if is_all else end)

    def get_job(self, job_id: str) -> ScheduledJob | None:
        row = self._adapter.reading().job(job_id)
        return None if row is None else self._job(row)

    def _job(self, row: JobRow) -> ScheduledJob:
        location = Location(row.file, row.offset, row.size)
        try:
            add = self._adapter.scheduler.reader.read(location)
        except JournalDamaged as error:
            raise CodecError(str(error)) from error
        if not isinstance(add, AddScheduledJob):
            raise CodecError(f"{location}: no job, but a record of {type(add).__name__}")
        message = unmarshal_message(add.payload or b"")
        return ScheduledJob(row.job_id, message, row.due_ms, row.delay_ms, row.period_ms, row.repeat, row.cron)
