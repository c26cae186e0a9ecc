"""Scheduled messages: what a store keeps of them, and what it promises.

A job is a message that is to be sent later, once or again and again. The broker says when; the store keeps it and makes
sure that a firing happens once: the message is added to its destination in the same commit in which the job is advanced
or removed (`PersistenceAdapter.commit_together`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, runtime_checkable

from jdbcstore.errors import CodecError
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion

__all__ = ["HELD_MS", "FiredJob", "JobChange", "JobPage", "JobPlace", "JobStore", "ScheduledJob", "SupportsScheduling"]

#: The due time of a job that could not be fired and waits for somebody to look after it.
HELD_MS: Final = (1 << 63) - 1

#: Where a job stands: its due time and its id. Jobs are ordered by it.
JobPlace: TypeAlias = tuple[int, str]


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """A message that is to be sent later.

    Args:
        job_id: its name, unique in the store; ActiveMQ takes the id of the message.
        message: what to send, its destination in it; as its sender sent it.
        due_ms: when it is due next, epoch milliseconds; `HELD_MS` when it waits for somebody to look after it.
        delay_ms, period_ms: what its sender asked for, in milliseconds; 0 if nothing.
        repeat: how often it is to be sent after the next time; -1 for ever.
        cron: what its sender asked for; empty if nothing.
    """

    job_id: str
    message: Message
    due_ms: int
    delay_ms: int = 0
    period_ms: int = 0
    repeat: int = 0
    cron: str = ""

    @property
    def place(self) -> JobPlace:
        """Where it stands."""
        return self.due_ms, self.job_id


@dataclass(frozen=True, slots=True)
class FiredJob:
    """What becomes of a job that is fired.

    Args:
        job_id: which.
        due_ms: when it was due. If it is not there any more, or not due at that time, the whole commit fails.
        next_due_ms: when it is due next, later than `due_ms`; None when it is done.
        repeat: its `ScheduledJob.repeat` from now on.
    """

    job_id: str
    due_ms: int
    next_due_ms: int | None = None
    repeat: int = 0


#: What a commit does to jobs: keep one, or fire one.
JobChange: TypeAlias = ScheduledJob | FiredJob


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs in their order, and what stands among them and is no message: the place, and what is wrong.

    `end` is the place to go on from, None when there is nothing behind it.
    """

    jobs: Sequence[ScheduledJob]
    unreadable: Sequence[tuple[JobPlace, CodecError]] = ()
    end: JobPlace | None = None


class JobStore(ABC):
    """The scheduled messages of one adapter, in the order of their due times.

    **Promises**, beside those of every store (jobs are added and fired with `PersistenceAdapter.commit_together`):

    1. A firing happens once. Of two commits that fire a job at the same due time one fails as a whole.
    2. A page costs what it returns, however many jobs there are.
    """

    @abstractmethod
    def due_jobs(self, now_ms: int, jobs_max: int, bytes_max: int) -> JobPage:
        """The jobs that are due the longest.

        Args:
            now_ms: epoch milliseconds; what is due then or before counts.
            jobs_max: the most jobs to return, at least 1.
            bytes_max: stop after the job whose message reaches this many stored bytes; one always fits.
        """

    @abstractmethod
    def next_due_ms(self) -> int | None:
        """When the first job is due, epoch milliseconds; None when there is none. Held ones do not count."""

    @abstractmethod
    def jobs(
        self, after: JobPlace | None, jobs_max: int, bytes_max: int, first_ms: int = 0, last_ms: int = HELD_MS
    ) -> JobPage:
        """The jobs behind a place that are due between two times, both included; other arguments as `due_jobs`."""

    @abstractmethod
    def get_job(self, job_id: str) -> ScheduledJob | None:
        """One job; None when it is not there. Raises `CodecError` when its message cannot be read."""

    def has_job(self, job_id: str) -> bool:
        """Whether a job is there, also one that nobody can read."""
        try:
            return self.get_job(job_id) is not None
        except CodecError:
            return True

    @abstractmethod
    def job_count(self) -> int:
        """How many there are; counted, so it costs something."""

    @abstractmethod
    def remove_job(self, job_id: str) -> Completion[None]:
        """Forget a job. One that is not there is not an error."""

    @abstractmethod
    def remove_jobs(self, first_ms: int = 0, last_ms: int = HELD_MS) -> Completion[None]:
        """Forget all jobs that are due between two times, both included."""


@runtime_checkable
class SupportsScheduling(Protocol):
    """An adapter that keeps scheduled messages."""

    def job_store(self) -> JobStore:
        """The one store of jobs of this adapter.

        Raises:
            SchemaMismatch: there is no room for them; the text says what to do.
        """
