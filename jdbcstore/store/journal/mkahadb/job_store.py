"""The scheduled messages of several stores, which are in one of them."""

from __future__ import annotations

from jdbcstore.store.completion import Completion
from jdbcstore.store.jobs import HELD_MS, JobPage, JobPlace, JobStore, ScheduledJob
from jdbcstore.store.journal.mkahadb.store_host import StoreHost

__all__ = ["SharedJobStore"]


class SharedJobStore(JobStore):
    """The scheduled messages, in the index of the store for everything. Where each destination has a store of its own,
    that one is made for the first of them.

    Args:
        host: all of them.
    """

    def __init__(self, host: StoreHost) -> None:
        self._host = host

    def _kept(self) -> JobStore | None:
        child = self._host.scheduling_child_if_there()
        return None if child is None else child.job_store()

    def due_jobs(self, now_ms: int, jobs_max: int, bytes_max: int) -> JobPage:
        kept = self._kept()
        return JobPage([]) if kept is None else kept.due_jobs(now_ms, jobs_max, bytes_max)

    def next_due_ms(self) -> int | None:
        kept = self._kept()
        return None if kept is None else kept.next_due_ms()

    def jobs(
        self, after: JobPlace | None, jobs_max: int, bytes_max: int, first_ms: int = 0, last_ms: int = HELD_MS
    ) -> JobPage:
        kept = self._kept()
        return JobPage([]) if kept is None else kept.jobs(after, jobs_max, bytes_max, first_ms, last_ms)

    def get_job(self, job_id: str) -> ScheduledJob | None:
        kept = self._kept()
        return None if kept is None else kept.get_job(job_id)

    def job_count(self) -> int:
        kept = self._kept()
        return 0 if kept is None else kept.job_count()

    def remove_job(self, job_id: str) -> Completion[None]:
        kept = self._kept()
        return Completion.resolved(None) if kept is None else kept.remove_job(job_id)

    def remove_jobs(self, first_ms: int = 0, last_ms: int = HELD_MS) -> Completion[None]:
        kept = self._kept()
        return Completion.resolved(None) if kept is None else kept.remove_jobs(first_ms, last_ms)
