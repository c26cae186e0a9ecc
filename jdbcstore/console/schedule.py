"""``jdbcstore schedule list|remove``: messages that are to be sent later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import islice

import click

from jdbcstore.config.inspection import check_url, looking_into
from jdbcstore.config.urls import open_store
from jdbcstore.console.output import print_json, print_table
from jdbcstore.errors import ConfigurationError, LockHeld
from jdbcstore.store.contract import JobStore, PersistenceAdapter, ScheduledJob, SupportsScheduling
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jobs import HELD_MS, JobPlace

__all__ = ["schedule"]

_PAGE_JOBS = 500
_PAGE_BYTES = 8 << 20


@click.group()
def schedule() -> None:
    """See what is to be sent later, and remove some of it."""


@schedule.command("list")
@click.argument("url")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Show so many at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per message.")
def list_(url: str, limit: int, as_json: bool) -> None:
    """Show the scheduled messages in the store at URL, the next one first. Nothing is changed.

    \b
    Examples:
        jdbcstore schedule list sqlite:///data/jdbcstore.db
        jdbcstore schedule list postgresql://user:secret@db/activemq --limit 1000 --json
    """
    with looking_into(url) as adapter:
        jobs = islice(_jobs(_job_store(adapter), limit), limit)
        if as_json:
            for job in jobs:
                print_json(_described(job))
        else:
            rows = ((job.job_id, _due(job), str(job.message.destination), _again(job)) for job in jobs)
            print_table(("JOB ID", "DUE", "DESTINATION", "AGAIN"), rows, empty="no message is scheduled")


@schedule.command()
@click.argument("url")
@click.argument("job_ids", metavar="[JOB_ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Remove every scheduled message.")
def remove(url: str, job_ids: tuple[str, ...], everything: bool) -> None:
    """Remove scheduled messages from the store at URL, on which no broker may be running.

    With a running broker send it a message instead, to ActiveMQ.Scheduler.Management.

    \b
    Examples:
        jdbcstore schedule remove sqlite:///data/jdbcstore.db ID:host-1:1:-1:1:7
        jdbcstore schedule remove sqlite:///data/jdbcstore.db --all
    """
    if bool(job_ids) == everything:
        raise ConfigurationError("say which to remove: their job ids, or --all")
    check_url(url)
    options = JdbcOptions(
        create_tables_on_startup=False, vacuum_rows=0, cleanup_period_ms=0, virtual_topic_consumers=""
    )
    options = replace(options, lock=replace(options.lock, fail_if_locked=True))
    try:
        with open_store(url, options) as adapter:
            store = _job_store(adapter)
            before = store.job_count()
            for done in [store.remove_jobs()] if everything else [store.remove_job(job_id) for job_id in job_ids]:
                done.result()
            click.echo(f"{before - store.job_count()} removed")
    except LockHeld as error:
        raise LockHeld(
            f"{error}. Send it a message to ActiveMQ.Scheduler.Management with the header AMQ_SCHEDULER_ACTION:REMOVE"
            " and scheduledJobId, or stop it first"
        ) from error


def _job_store(adapter: PersistenceAdapter) -> JobStore:
    if not isinstance(adapter, SupportsScheduling):
        raise ConfigurationError(f"the store {adapter.location} keeps no scheduled messages")
    return adapter.job_store()


def _jobs(store: JobStore, limit: int) -> Iterator[ScheduledJob]:
    place: JobPlace | None = None
    while True:
        page = store.jobs(place, min(limit, _PAGE_JOBS), _PAGE_BYTES)
        yield from page.jobs
        for (_, job_id), error in page.unreadable:
            click.echo(f"jdbcstore: {job_id} cannot be read: {error}", err=True)
        place = page.end
        if place is None:
            return


def _due(job: ScheduledJob) -> str:
    if job.due_ms == HELD_MS:
        return "put aside"
    return datetime.fromtimestamp(job.due_ms / 1000).astimezone().isoformat(sep=" ", timespec="seconds")


def _again(job: ScheduledJob) -> str:
    again = [job.cron] if job.cron else []
    if job.cron and job.delay_ms:
        again.append(f"after {job.delay_ms} ms")
    if job.repeat:
        times = f"{job.repeat} times" if job.repeat > 0 else "for ever"
        again.append(f"every {job.period_ms} ms, {times}")
    return "; ".join(again)


def _described(job: ScheduledJob) -> dict[str, object]:
    return {
        "jobId": job.job_id,
        "due": None if job.due_ms == HELD_MS else _due(job),
        "dueMs": None if job.due_ms == HELD_MS else job.due_ms,
        "destination": str(job.message.destination),
        "delayMs": job.delay_ms,
        "periodMs": job.period_ms,
        "repeat": job.repeat,
        "cron": job.cron,
        "bytes": len(job.message.content or b""),
    }
