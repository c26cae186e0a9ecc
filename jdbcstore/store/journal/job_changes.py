"""What a commit does to scheduled messages, as parts of a write: commands for the scheduler's journal."""

from __future__ import annotations

from collections.abc import Sequence

from jdbcstore.errors import StoreError
from jdbcstore.store.jobs import FiredJob, JobChange, ScheduledJob
from jdbcstore.store.journal.applier import SCHEDULER, repeat_after
from jdbcstore.store.journal.commands import (
    AddScheduledJob,
    Command,
    RemoveScheduledJob,
    RemoveScheduledJobs,
    RescheduleJob,
)
from jdbcstore.store.journal.index import JobRow
from jdbcstore.store.journal.records import Location
from jdbcstore.store.journal.work import Plan

__all__ = ["ChosenJobs", "DecidedJobs", "JobChanges", "RemoveJobs", "job_command"]


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
        for command in self.commands(plan):
            plan.record(command)

    def commands(self, plan: Plan) -> list[Command]:
        """What `plan` records. Raises as it does."""
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
        return commands


class ChosenJobs:
    """Changes of jobs that belong to a commit over several stores, as a part of its first step: nothing is written.

    Args:
        changes: of the jobs.
    """

    takes_room = False
    size = 0

    def __init__(self, changes: JobChanges) -> None:
        self._changes = changes
        #: The scheduler's commands, once this was planned.
        self.commands: list[Command] = []

    def looks(self) -> Sequence[int]:
        """No message."""
        return ()

    def plan(self, plan: Plan) -> None:
        """Find the commands. Raises `StoreError` when a job is there already, or is not due as it is said."""
        self.commands = self._changes.commands(plan)


class DecidedJobs:
    """The scheduler's commands of a commit that is decided, as a part of a write. What was done already, or has no job
    any more, is left out: a start may do it again.

    Args:
        commands: of the scheduler.
    """

    takes_room = True

    def __init__(self, commands: Sequence[Command]) -> None:
        self._commands = commands
        self.size = sum(256 + len(one.payload or b"") for one in commands if isinstance(one, AddScheduledJob))

    def looks(self) -> Sequence[int]:
        """No message."""
        return ()

    def plan(self, plan: Plan) -> None:
        """Those commands that find the jobs as they were."""
        now = plan.jobs
        for command in self._commands:
            if not isinstance(command, (AddScheduledJob, RemoveScheduledJob, RescheduleJob)):
                continue
            name = command.job_id or ""
            known = now[name] if name in now else plan.index.job(name)
            match command:
                case AddScheduledJob() if known is None:
                    now[name] = _row_of(command)
                case RescheduleJob() if known is not None and known.due_ms == command.execution_time:
                    now[name] = known._replace(due_ms=command.next_execution_time, repeat=repeat_after(known))
                case RemoveScheduledJob() if known is not None and known.due_ms == command.next_execution_time:
                    now[name] = None
                case _:
                    continue
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


def _row_of(add: AddScheduledJob) -> JobRow:
    due_ms, cron = add.next_execution_time, add.cron_entry or ""
    return JobRow(add.job_id or "", due_ms, add.delay, add.period, add.repeat, cron, 0, 0, 0, 0)


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
