"""``jdbcstore schedule list|remove``: messages that are to be sent later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Final

import click

from jdbcstore.config.inspection import existing_store, looking_into
from jdbcstore.config.urls import is_journal_url
from jdbcstore.console.face import Face
from jdbcstore.console.output import print_rows
from jdbcstore.console.place import Place, place_options
from jdbcstore.errors import ConfigurationError, LockHeld
from jdbcstore.management.views import ScheduledView
from jdbcstore.store.contract import JobStore, PersistenceAdapter, SupportsScheduling
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jobs import JobPlace

__all__ = ["schedule"]

_PAGE_JOBS: Final = 500
_PAGE_BYTES: Final = 8 << 20


@click.group()
def schedule() -> None:
    """See what is to be sent later, and remove some of it."""


@schedule.command("list")
@place_options
@click.argument("url", required=False)
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Show so many at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per message.")
def list_(place: Place, url: str | None, limit: int, as_json: bool) -> None:
    """Show scheduled messages, the next one first: of a running broker, or of the store at URL. Nothing is changed.

    \b
    Examples:
        jdbcstore schedule list
        jdbcstore schedule list sqlite:///data/jdbcstore.db
        jdbcstore schedule list postgresql://user:secret@db/activemq --limit 1000 --json
    """
    if url is not None:
        place.named(url)
    if place.store is None:
        with place.face() as face:
            _show(_of_broker(face, limit), limit, as_json)
    else:
        with looking_into(place.store) as adapter:
            _show(_of_store(_job_store(adapter), limit), limit, as_json)


def _show(jobs: Iterator[ScheduledView], limit: int, as_json: bool) -> None:
    shown = islice(_readable(jobs), limit)
    print_rows(
        shown,
        as_json=as_json,
        columns=("JOB ID", "DUE", "DESTINATION", "AGAIN"),
        row=lambda job: (job.job_id, _due(job), job.destination, _again(job)),
        empty="no message is scheduled",
        record=_described,
    )


def _readable(jobs: Iterator[ScheduledView]) -> Iterator[ScheduledView]:
    for job in jobs:
        if job.error is None:
            yield job
        else:
            click.echo(f"jdbcstore: {job.job_id} cannot be read: {job.error}", err=True)


def _of_broker(face: Face, limit: int) -> Iterator[ScheduledView]:
    place: Sequence[object] | None = (None, None)
    while place is not None:
        page = face.view("scheduled", after_ms=place[0], after_id=place[1], count=min(limit, _PAGE_JOBS))
        yield from (ScheduledView(**row) for row in page["rows"])
        place = page["after"]


def _of_store(store: JobStore, limit: int) -> Iterator[ScheduledView]:
    place: JobPlace | None = None
    while True:
        page = store.jobs(place, min(limit, _PAGE_JOBS), _PAGE_BYTES)
        yield from ScheduledView.of_page(page)
        place = page.end
        if place is None:
            return


@schedule.command()
@place_options
@click.argument("words", metavar="[URL] [JOB_ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Remove every scheduled message.")
def remove(place: Place, words: tuple[str, ...], everything: bool) -> None:
    """Remove scheduled messages of a running broker, or from the store at URL, on which no broker may be running.

    It ends with code 1 if one of them is not there (any more).

    \b
    Examples:
        jdbcstore schedule remove ID:host-1:1:-1:1:7
        jdbcstore schedule remove sqlite:///data/jdbcstore.db --all
    """
    if words and ("://" in words[0] or is_journal_url(words[0]) or words[0].startswith("memory:")):
        place.named(words[0])
        words = words[1:]
    if bool(words) == everything:
        raise ConfigurationError("say which to remove: their job ids, or --all")
    if place.store is None:
        with place.face() as face:
            removed = _remove_by_broker(face, words)
    else:
        removed = _remove_from_store(place.store, words)
    click.echo(f"{removed} removed")
    if words and removed < len(words):
        raise click.ClickException(
            f"{len(words) - removed} of {len(words)} scheduled messages are not there (any more)"
        )


def _remove_by_broker(face: Face, job_ids: Sequence[str]) -> int:
    """Remove these, or without any all. Returns how many were there."""
    if not job_ids:
        return int(face.act("remove-scheduled", all=True)["removed"])
    return sum(face.act("remove-scheduled", job_id=job_id)["removed"] for job_id in job_ids)


def _remove_from_store(url: str, job_ids: Sequence[str]) -> int:
    """The same."""
    options = JdbcOptions(vacuum_rows=0, cleanup_period_ms=0, virtual_topic_consumers="")
    options = replace(options, lock=replace(options.lock, fail_if_locked=True))
    try:
        with existing_store(url, options) as adapter:
            store = _job_store(adapter)
            before = store.job_count()
            for done in [store.remove_job(job_id) for job_id in job_ids] if job_ids else [store.remove_jobs()]:
                done.result()
            return before - store.job_count()
    except LockHeld as error:
        raise LockHeld(f"{error}. Ask it (--broker http://HOST:PORT, its web_bind), or stop it first") from error


def _job_store(adapter: PersistenceAdapter) -> JobStore:
    if not isinstance(adapter, SupportsScheduling):
        raise ConfigurationError(f"the store {adapter.location} keeps no scheduled messages")
    return adapter.job_store()


def _due(job: ScheduledView) -> str:
    if job.due_ms is None:
        return "put aside"
    return datetime.fromtimestamp(job.due_ms / 1000).astimezone().isoformat(sep=" ", timespec="seconds")


def _again(job: ScheduledView) -> str:
    again = [job.cron] if job.cron else []
    if job.cron and job.delay_ms:
        again.append(f"after {job.delay_ms} ms")
    if job.repeat:
        times = f"{job.repeat} times" if job.repeat > 0 else "for ever"
        again.append(f"every {job.period_ms} ms, {times}")
    return "; ".join(again)


def _described(job: ScheduledView) -> dict[str, object]:
    return {
        "jobId": job.job_id,
        "due": None if job.due_ms is None else _due(job),
        "dueMs": job.due_ms,
        "destination": job.destination,
        "delayMs": job.delay_ms,
        "periodMs": job.period_ms,
        "repeat": job.repeat,
        "cron": job.cron,
        "bytes": job.bytes,
    }
