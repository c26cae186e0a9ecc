"""The scheduler's store: a journal of its own, in a directory next to that of the messages, usually ``scheduler``."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jdbcstore.errors import ConfigurationError
from jdbcstore.message import Message
from jdbcstore.openwire import unmarshal_message
from jdbcstore.store.journal.commands import (
    AddScheduledJob,
    DestroyScheduler,
    RemoveScheduledJob,
    RemoveScheduledJobs,
    RescheduleJob,
)
from jdbcstore.store.journal.kahadb.journal import FILE_PATTERN, Journal, Location

__all__ = ["DIRECTORY", "ScheduledJob", "refuse_scheduled", "replay_scheduler", "warn_of_scheduled_beside"]

log = logging.getLogger(__name__)

#: Of the journal, in that of the messages.
DIRECTORY: Final = "scheduler"
#: A time in `RemoveScheduledJob` that stands for all times.
_WHENEVER = -1


@dataclass(slots=True)
class ScheduledJob:
    """A message that is to be sent. Times are epoch milliseconds, delay and period milliseconds."""

    job_id: str
    location: Location
    next_execution_time: int
    start_time: int
    cron_entry: str
    delay: int
    period: int
    repeat: int
    """How many times more after the next one; -1 for ever."""
    rescheduled_count: int
    payload: bytes

    def unmarshal(self) -> Message:
        """The message.

        Raises:
            CodecError: the bytes are none.
        """
        return unmarshal_message(self.payload)


def replay_scheduler(journal: Journal) -> dict[str, list[ScheduledJob]]:
    """Read a scheduler's journal from its first record to its last.

    Returns:
        By the scheduler's name (brokers call theirs ``JMS``) what is to be sent, in the order of its time. What was
        wrong with the journal is in `Journal.damages`.

    Raises:
        StoreError: a file cannot be read.
    """
    schedulers: dict[str, list[ScheduledJob]] = {}
    for location, command in journal.records():
        match command:
            case AddScheduledJob(scheduler=str(name), job_id=str()):
                _add(schedulers.setdefault(name, []), location, command)
            case RescheduleJob(scheduler=str(name)):
                _reschedule(schedulers.get(name, []), command)
            case RemoveScheduledJob(scheduler=str(name)):
                _remove(schedulers.get(name, []), command)
            case RemoveScheduledJobs(scheduler=str(name), start_time=start, end_time=end):
                jobs = schedulers.get(name, [])
                jobs[:] = [job for job in jobs if not start <= job.next_execution_time <= end]
            case DestroyScheduler(scheduler=str(name)):
                schedulers.pop(name, None)
    for jobs in schedulers.values():
        jobs.sort(key=lambda job: job.next_execution_time)
    return schedulers


def _add(jobs: list[ScheduledJob], location: Location, add: AddScheduledJob) -> None:
    assert add.job_id is not None
    if _find(jobs, add.job_id, add.next_execution_time) is not None:
        return
    jobs.append(
        ScheduledJob(
            add.job_id,
            location,
            add.next_execution_time,
            add.start_time,
            add.cron_entry or "",
            add.delay,
            add.period,
            add.repeat,
            0,
            add.payload or b"",
        )
    )


def _reschedule(jobs: list[ScheduledJob], command: RescheduleJob) -> None:
    job = _find(jobs, command.job_id, command.execution_time)
    if job is None:
        return
    job.next_execution_time = command.next_execution_time
    job.rescheduled_count = command.rescheduled_count
    if not job.cron_entry and job.repeat > 0:
        job.repeat -= 1


def _remove(jobs: list[ScheduledJob], command: RemoveScheduledJob) -> None:
    job = _find(jobs, command.job_id, command.next_execution_time)
    if job is not None:
        jobs.remove(job)


def _find(jobs: list[ScheduledJob], job_id: str | None, time: int) -> ScheduledJob | None:
    return next((job for job in jobs if job.job_id == job_id and time in (_WHENEVER, job.next_execution_time)), None)


def refuse_scheduled(directory: Path, scheme: str) -> None:
    """Make sure that no scheduled messages lie in the directory of a store that keeps none: nobody would send them.

    Args:
        directory: of the store; need not be there.
        scheme: of its URL.

    Raises:
        ConfigurationError: there are some; the text says what to do.
        StoreError: they cannot be read.
    """
    place = directory / DIRECTORY
    if not place.is_dir():
        return
    waiting = sum(len(jobs) for jobs in replay_scheduler(Journal(place)).values())
    if waiting:
        raise ConfigurationError(
            f"{place} holds scheduled messages ({waiting}), and a broker on {scheme}: does not send such: migrate"
            f" everything to a KahaDB directory or a database (jdbcstore migrate {scheme}:{directory} URL), or move"
            f" {DIRECTORY!r} elsewhere and serve the rest"
        )


def warn_of_scheduled_beside(directory: Path) -> None:
    """Say so if scheduled messages lie beside a store instead of in it, where ActiveMQ has them unless it is told
    otherwise: nobody sends them.

    Args:
        directory: of the store; one that is about to be made has none.
    """
    beside = directory.absolute().parent / DIRECTORY
    if (
        not directory.is_dir()
        or (directory / DIRECTORY).is_dir()
        or all(one.name == "lock" for one in directory.iterdir())
    ):
        return
    if any(beside.glob(FILE_PATTERN)):
        log.warning("scheduled messages beside the store are not sent scheduler=%s store=%s", beside, directory)
