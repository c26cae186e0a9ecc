"""Scheduled messages: a second journal, in the directory ``scheduler`` next to the messages, as brokers keep it.

**One commit over two journals.** A firing adds a message here and ends or advances a job there, and happens once or not
at all. So the scheduler's commands are written into the batch of the message journal first, as they are: brokers ignore
them there. When that batch is safe they are appended to the scheduler's journal, in the same order, and this needs no
disk to be waited for: after a crash what is missing there is appended again from the message journal. It is forced to
the disk before the index is written, so no file of the message journal goes that is still needed for that.

A copy of a job that `SchedulerJournal.clean` makes is one that a replay ignores while the original is there. A remark
in front of the copies says so to who compares the two journals.

Sources of the format: the scheduler of ActiveMQ 5.17.2, whose jobs are all of the scheduler ``JMS``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from jdbcstore.errors import StoreError
from jdbcstore.store.disk import remove
from jdbcstore.store.jobs import FiredJob, JobChange, ScheduledJob
from jdbcstore.store.journal.journal_format import BatchPlace
from jdbcstore.store.journal.kahadb import remarks
from jdbcstore.store.journal.kahadb.appender import Appender
from jdbcstore.store.journal.kahadb.applier import SCHEDULER, repeat_after
from jdbcstore.store.journal.kahadb.commands import (
    AddScheduledJob,
    Command,
    RemoveScheduledJob,
    RemoveScheduledJobs,
    RescheduleJob,
)
from jdbcstore.store.journal.kahadb.encoding import encode
from jdbcstore.store.journal.kahadb.index import Index, JobRow
from jdbcstore.store.journal.kahadb.journal import Journal, Location, Record, file_name
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.kahadb.record_reader import RecordReader
from jdbcstore.store.journal.kahadb.work import Plan

__all__ = ["DIRECTORY", "JobChanges", "RemoveJobs", "SchedulerJournal", "job_command"]

log = logging.getLogger(__name__)

#: Of the journal, in that of the messages.
DIRECTORY: Final = "scheduler"
_NOT_BY_ITSELF_MS: Final = (1 << 31) - 1


class SchedulerJournal:
    """The scheduler's journal; made when the first job is.

    Args:
        directory: of the messages.
        options: of the store.
    """

    def __init__(self, directory: Path, options: KahaDBOptions) -> None:
        self.directory: Final = directory / DIRECTORY
        self.reader: Final = RecordReader(self.directory)
        self._options = replace(
            options, journal_disk_sync_strategy="PERIODIC", journal_disk_sync_interval_ms=_NOT_BY_ITSELF_MS
        )
        self._appender: Appender | None = None
        #: The file that was written when `clean` looked last.
        self._cleaned_before = 0

    def open(self) -> None:
        """Find its end, if it is there. Raises as `Appender.open`."""
        if self.directory.is_dir() and Journal(self.directory).files:
            self._opened()

    @property
    def last_batch(self) -> BatchPlace | None:
        """Its last batch."""
        return None if self._appender is None else self._appender.last_batch

    def append(self, commands: Sequence[Command]) -> list[Location]:
        """Write a batch. Raises as `Appender.append`."""
        return self._opened().append([encode(command) for command in commands])

    def force(self) -> None:
        """Return when everything is safe. Raises as `Appender.force`."""
        if self._appender is not None:
            self._appender.force()

    def records(self) -> Iterator[Record]:
        """All that is in it."""
        if self.directory.is_dir():
            yield from Journal(self.directory).records()

    def clean(self, index: Index, checkpoint: Callable[[], object]) -> None:
        """Remove the oldest files if most of what the journal holds is over. The jobs in them are written again first.

        A broker keeps such a file as long as one job in it lives. Looks only when a new file was begun.

        Args:
            index: where the jobs are; in the thread that applies.
            checkpoint: forces the index to the disk.

        Raises:
            StoreError: the disk does not take it.
        """
        current = 0 if self._appender is None else self._appender.end[0]
        if current == self._cleaned_before:
            return
        self._cleaned_before = current
        sizes = {number: path.stat().st_size for number, path in Journal(self.directory).files.items()}
        needed = index.job_bytes()
        room = sum(sizes.values()) - self._options.journal_max_file_length_bytes - 2 * needed
        going: list[int] = []
        for number in [number for number in sizes if number < current]:
            if room <= 0:
                break
            room -= sizes[number]
            self._copy(index, index.jobs_in(number))
            going.append(number)
        if going:
            checkpoint()
            for number in going:
                self.reader.forget(number)
                remove(self.directory / file_name(number))
            log.info("removed files of the scheduler files=%s", ", ".join(map(file_name, going)))

    def _copy(self, index: Index, rows: Sequence[JobRow]) -> None:
        """Write jobs again as they are now."""
        if not rows:
            return
        commands: list[Command] = [remarks.copied(len(rows))]
        for row in rows:
            add = self.reader.read(Location(row.file, row.offset, row.size))
            if not isinstance(add, AddScheduledJob):
                raise StoreError(f"the job {row.job_id} cannot be read any more: its file stays")
            commands.append(add._replace(repeat=row.repeat, next_execution_time=row.due_ms))
        locations = self.append(commands)
        with index.lock:
            for row, location in zip(rows, locations[1:], strict=True):
                index.move_job(row.job_id, location)
            index.job_position = self.last_batch or index.job_position

    def close(self) -> None:
        """Force it to the disk and let go of it."""
        self.reader.close()
        appender, self._appender = self._appender, None
        if appender is not None:
            appender.close()

    def abandon(self) -> None:
        """Let go of it."""
        self.reader.close()
        appender, self._appender = self._appender, None
        if appender is not None:
            appender.abandon()

    def _opened(self) -> Appender:
        if self._appender is None:
            appender = Appender(self.directory, self._options)
            appender.open()
            self._appender = appender
        return self._appender


class JobChanges:
    """What a commit does to jobs: as a part of a write.

    Args:
        changes: jobs to keep, and those that are fired.
        payloads: of those to keep, their messages.
    """

    takes_room = True

    def __init__(self, changes: Sequence[JobChange], payloads: Sequence[bytes]) -> None:
        self._changes = changes
        self._payloads = payloads
        self.size = sum(map(len, payloads)) + 256 * len(changes)

    def looks(self) -> Sequence[int]:
        """No message."""
        return ()

    def plan(self, plan: Plan) -> None:
        """The scheduler's commands. Raises `StoreError` when a job is there already, or is not due as it is said."""
        now = dict(plan.jobs)
        commands: list[Command] = []
        payloads = iter(self._payloads)
        for change in self._changes:
            known = now[change.job_id] if change.job_id in now else plan.index.job(change.job_id)
            if isinstance(change, ScheduledJob):
                if known is not None:
                    raise StoreError(f"there is a job {change.job_id} already")
                commands.append(job_command(change, next(payloads)))
                now[change.job_id] = _row(change)
                continue
            if known is None or known.due_ms != change.due_ms:
                raise StoreError(f"the job {change.job_id} is not due at {change.due_ms}")
            commands += _fired(plan, known, change)
            advanced = None
            if change.next_due_ms is not None:
                advanced = known._replace(due_ms=change.next_due_ms, repeat=change.repeat)
            now[change.job_id] = advanced
        plan.jobs.update(now)
        for command in commands:
            plan.record(command)


class RemoveJobs:
    """Remove jobs, as a part of a write.

    Args:
        command: of the scheduler.
    """

    size = 256
    takes_room = False

    def __init__(self, command: RemoveScheduledJob | RemoveScheduledJobs) -> None:
        self._command = command

    def looks(self) -> Sequence[int]:
        """No message."""
        return ()

    def plan(self, plan: Plan) -> None:
        """One command, if there is a job."""
        command = self._command
        if isinstance(command, RemoveScheduledJob):
            known = plan.index.job(command.job_id or "")
            if known is not None:
                plan.record(command._replace(next_execution_time=known.due_ms))
        elif plan.index.job_count():
            plan.record(command)


def job_command(job: ScheduledJob, payload: bytes) -> AddScheduledJob:
    """What the journal has of a job."""
    return AddScheduledJob(
        SCHEDULER,
        job.job_id,
        max(0, job.due_ms - job.delay_ms),
        job.cron,
        job.delay_ms,
        job.period_ms,
        job.repeat,
        payload,
        job.due_ms,
    )


def _row(job: ScheduledJob) -> JobRow:
    return JobRow(job.job_id, job.due_ms, job.delay_ms, job.period_ms, job.repeat, job.cron, 0, 0, 0, 0)


def _fired(plan: Plan, known: JobRow, fired: FiredJob) -> list[Command]:
    """The commands of a firing."""
    if fired.next_due_ms is None:
        return [RemoveScheduledJob(SCHEDULER, known.job_id, known.due_ms)]
    if fired.repeat == repeat_after(known):
        return [RescheduleJob(SCHEDULER, known.job_id, known.due_ms, fired.next_due_ms, known.rescheduled + 1)]
    # A broker counts down by itself; what it would not count to is written anew.
    if known.file:
        add = plan.read_job(Location(known.file, known.offset, known.size))
    else:
        added = [one for one in plan.commands if isinstance(one, AddScheduledJob) and one.job_id == known.job_id]
        add = added[-1]
    if not isinstance(add, AddScheduledJob):
        raise StoreError(f"the job {known.job_id} cannot be read any more")
    again = add._replace(repeat=fired.repeat, next_execution_time=fired.next_due_ms)
    return [RemoveScheduledJob(SCHEDULER, known.job_id, known.due_ms), again]
