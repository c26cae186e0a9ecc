"""``jdbcstore loads list|abort``: bulk loads into a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

import click

from jdbcstore.config.inspection import check_url
from jdbcstore.config.urls import store_location, store_options
from jdbcstore.console.output import print_rows
from jdbcstore.console.place import Place, place_options
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.bulk_load import BulkLoad
from jdbcstore.store.jdbc.connection import opened
from jdbcstore.store.jdbc.loads import LoadRecord, Loads, LoadState

__all__ = ["loads"]


@click.group()
def loads() -> None:
    """See what is loaded in bulk, and remove a load whose job is dead."""


@loads.command("list")
@place_options
@click.argument("url", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per load.")
def list_(place: Place, url: str | None, as_json: bool) -> None:
    """Show the bulk load that a running broker takes in, or all of the store at URL. Nothing is changed.

    Of a store it is those of the last week at least.

    \b
    Examples:
        jdbcstore loads list
        jdbcstore loads list postgresql://user:secret@db/activemq
    """
    if url is not None:
        place.named(url)
    if place.store is None:
        with place.face() as face:
            _show_taken(face.view("loads"), as_json)
        return
    with _loads(place.store) as found:
        records = found.all()
    print_rows(
        records,
        as_json=as_json,
        columns=("JOB", "STATE", "MODE", "MESSAGES", "BEGUN", "CHANGED"),
        row=lambda one: (
            *(one.job, str(one.state), str(one.mode or "")),
            *(_progress(one), _time(one.begun_ms), _time(one.changed_ms)),
        ),
        empty="nothing was loaded in bulk",
        record=_described,
    )


def _show_taken(rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    titles = ("JOB", "MESSAGES", "TAKEN IN", "REFUSED")
    shown = itemgetter("job", "messages", "taken", "refused")
    print_rows(rows, as_json=as_json, columns=titles, row=shown, empty="no load is taken in")


@loads.command()
@click.argument("url")
@click.argument("job")
def abort(url: str, job: str) -> None:
    """Remove what the load JOB has written into the store at URL, if it is not committed.

    Of a load that a broker is taking in, what it has taken in already stays.

    \b
    Example:
        jdbcstore loads abort postgresql://user:secret@db/activemq batch-5b1c
    """
    store_location(url).options.require_primary("who aborts a load")
    with _loads(url) as found:
        record = found.get(job)
    if record is None:
        raise ConfigurationError(f"there is no load {job}: jdbcstore loads list shows them")
    if record.state in (LoadState.COMMITTED, LoadState.ABORTED):
        raise ConfigurationError(f"load {job} is {record.state}: there is nothing to remove")
    parsed, options = store_options(url)
    BulkLoad(parsed, options, job).give_up()
    click.echo(f"load {job} is removed")


@contextmanager
def _loads(url: str) -> Iterator[Loads]:
    check_url(url)
    with opened(store_location(url, reads_only=True)) as store:
        found = Loads(store.connection, store.dialect, store.location.options.table_names)
        found.require_tables()
        yield found


def _progress(record: LoadRecord) -> str:
    if record.state is LoadState.OUTBOX:
        return f"{record.taken} taken in, {record.refused} refused"
    if record.state is LoadState.READY:
        return f"{record.taken} of {record.rows} taken in"
    return f"{record.rows}, {record.refused} refused" if record.refused else str(record.rows)


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).astimezone().isoformat(sep=" ", timespec="seconds")


def _described(record: LoadRecord) -> dict[str, object]:
    return {
        "job": record.job,
        "state": str(record.state),
        "mode": None if record.mode is None else str(record.mode),
        "messages": record.rows,
        "taken": record.taken,
        "refused": record.refused,
        "begunMs": record.begun_ms,
        "changedMs": record.changed_ms,
    }
