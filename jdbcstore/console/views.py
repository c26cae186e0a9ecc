"""``jdbcstore queues``, ``topics``, ``connections``, ``producers``, ``subscriptions``, ``watch``, ``top``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import click

from jdbcstore.console.face import Face, reading_face_options, running_broker_options
from jdbcstore.console.output import print_json, print_rows
from jdbcstore.errors import LockError
from jdbcstore.management.described import shown_time

__all__ = ["connections", "producers", "queues", "subscriptions", "top", "topics", "watch"]

_PAGE: Final = 1000
_SORTABLE: Final = (
    "name",
    "depth",
    "in_flight",
    "consumers",
    "enqueued",
    "dequeued",
    "rate_in",
    "rate_out",
    "dead_lettered",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
_TEXT = click.option("--filter", "text", default="", metavar="TEXT", help="Only those with this in their name.")
_SORT = click.option("--sort", type=click.Choice(_SORTABLE), default="name", show_default=True, help="By what.")


def all_destinations(face: Face, kind: str, text: str = "", sort: str = "name") -> list[Mapping[str, Any]]:
    """Every destination of a kind, however many: page by page.

    Raises:
        LockError: the broker stands by, and knows of none.
    """
    broker = face.view("broker")
    if broker["state"] != "master":
        raise LockError(
            f"this broker stands by ({broker['holder'] or 'another one'} is master): ask that one with --broker"
        )
    found: list[Mapping[str, Any]] = []
    while True:
        page = face.view(
            "destinations",
            kind=kind,
            text=text,
            sort=sort,
            descending=sort != "name",
            offset=len(found),
            count=_PAGE,
            fresh=not found,
        )
        found += page["destinations"]
        if not page["destinations"] or len(found) >= page["total"]:
            return found


@click.command()
@reading_face_options
@_TEXT
@_SORT
@_JSON
def queues(face: Face, text: str, sort: str, as_json: bool) -> None:
    """Show all queues: depth, consumers, rates, age.

    \b
    Examples:
        jdbcstore queues
        jdbcstore queues --sort depth --filter ORDERS --broker http://broker:8161 --token-file token
        jdbcstore queues --store sqlite:///data/jdbcstore.db
    """
    _print_queues(all_destinations(face, "queue", text, sort), as_json=as_json)


def _print_queues(rows: Sequence[Mapping[str, Any]], *, as_json: bool = False) -> None:
    titles = ("QUEUE", "DEPTH", "IN FLIGHT", "CONSUMERS", "ENQUEUED", "DEQUEUED", "IN/S", "OUT/S", "OLDEST", "PAUSED")
    now_ms = time.time() * 1000

    def shown(row: Mapping[str, Any]) -> Sequence[object]:
        return (
            row["name"],
            row["depth"],
            row["in_flight"],
            row["consumers"],
            row["enqueued"],
            row["dequeued"],
            round(row["rate_in"], 1),
            round(row["rate_out"], 1),
            age(row["oldest_ms"], now_ms),
            " ".join(side for side, field in (("consumers", "is_paused"), ("producers", "is_closed")) if row[field]),
        )

    print_rows(rows, as_json=as_json, columns=titles, row=shown, empty="there are no queues")


def age(oldest_ms: int | None, now_ms: float) -> str:
    """How old something is, for people."""
    if oldest_ms is None:
        return ""
    seconds = max(int((now_ms - oldest_ms) / 1000), 0)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


@click.command()
@reading_face_options
@_TEXT
@_JSON
def topics(face: Face, text: str, as_json: bool) -> None:
    """Show all topics: who subscribes, and how much is published."""
    rows = all_destinations(face, "topic", text)
    titles = ("TOPIC", "CONSUMERS", "DURABLE", "PUBLISHED", "IN/S")

    def shown(row: Mapping[str, Any]) -> Sequence[object]:
        return row["name"], row["consumers"], row["subscriptions"], row["enqueued"], round(row["rate_in"], 1)

    print_rows(rows, as_json=as_json, columns=titles, row=shown, empty="there are no topics")


def all_rows(face: Face, view: str, **arguments: Any) -> list[Mapping[str, Any]]:
    """Every row of a view, page by page."""
    found: list[Mapping[str, Any]] = []
    while True:
        page = face.view(view, offset=len(found), count=_PAGE, **arguments)
        found += page["rows"]
        if not page["rows"] or len(found) >= page["total"]:
            return found


@click.command()
@running_broker_options
@_TEXT
@_JSON
def connections(face: Face, text: str, as_json: bool) -> None:
    """Show all clients."""
    rows = all_rows(face, "connections", text=text)
    titles = ("CONNECTION", "CLIENT ID", "FROM", "PROTOCOL", "USER", "SUBSCRIPTIONS", "HOLDS", "SENT", "WAITS")
    fields = itemgetter(
        *("connection_id", "client_id", "peer", "protocol", "user", "subscriptions", "unacknowledged", "sent")
    )

    def shown(row: Mapping[str, Any]) -> Sequence[object]:
        return *fields(row), "yes" if row["is_waiting"] or row["is_not_reading"] else ""

    print_rows(rows, as_json=as_json, columns=titles, row=shown, empty="there are no clients")


@click.command()
@running_broker_options
@_TEXT
@_JSON
def producers(face: Face, text: str, as_json: bool) -> None:
    """Show clients that have sent something, and how much."""
    rows = all_rows(face, "producers", text=text)
    titles = ("CONNECTION", "CLIENT ID", "FROM", "USER", "SENT")
    shown = itemgetter("connection_id", "client_id", "peer", "user", "sent")
    print_rows(rows, as_json=as_json, columns=titles, row=shown, empty="nobody has sent anything")


@click.command()
@reading_face_options
@click.argument("destination", default="")
@click.option("--slow", is_flag=True, help="Only those that hold all that they may, or do not read.")
@_JSON
def subscriptions(face: Face, destination: str, slow: bool, as_json: bool) -> None:
    """Show subscriptions, of DESTINATION or all: what they hold, and what waits for durable ones."""
    rows = all_rows(face, "slow-consumers") if slow else all_rows(face, "subscriptions", destination=destination)
    titles = ("KIND", "DESTINATION", "CLIENT ID", "NAME", "FROM", "HOLDS", "PREFETCH", "LAG", "SLOW", "SELECTOR")

    def shown(row: Mapping[str, Any]) -> Sequence[object]:
        return (
            row["kind"],
            row["destination"],
            row["client_id"],
            row["name"],
            row["peer"] or "nobody",
            row["unacknowledged"],
            row["prefetch"],
            row["lag"],
            "yes" if row["is_slow"] else "",
            row["selector"],
        )

    print_rows(rows, as_json=as_json, columns=titles, row=shown, empty="there are no subscriptions")


@click.command()
@reading_face_options
@click.option("--interval", type=click.FloatRange(min=0.2), default=2.0, show_default=True, help="Seconds.")
@click.option("--count", type=click.IntRange(min=1), help="Show it so many times. [default: until Ctrl-C]")
@click.option("--past", is_flag=True, help="The last hour instead, a line for every five seconds.")
@_JSON
def watch(face: Face, interval: float, count: int | None, past: bool, as_json: bool) -> None:
    """Show the broker as a whole, a line each time."""
    if past:
        _print_past(face.view("history")[-(count or 0) :], as_json)
        return

    def show(number: int) -> None:
        broker = face.view("broker")
        if as_json:
            print_json(broker)
            return
        if number % 20 == 0:
            click.echo("STATE     DEPTH  IN FLIGHT    IN/S   OUT/S  DEAD LETTERS  CLIENTS  LAG MS")
        click.echo(
            f"{broker['state']:<8} {broker['depth']:>6} {broker['in_flight']:>10} {broker['rate_in']:>7.1f}"
            f" {broker['rate_out']:>7.1f} {broker['dead_letters']:>13} {broker['connections']:>8}"
            f" {broker['loop_lag_ms']:>7.1f}"
        )

    _again(show, interval, count)


def _print_past(samples: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    names = ("rate_in", "rate_out", "depth", "in_flight", "oldest_age_s", "commit_ms", "connections", "loop_lag_ms")

    def shown(sample: Mapping[str, Any]) -> Sequence[object]:
        values = (sample[name] for name in names)
        return shown_time(sample["at_ms"]), *("" if value is None else round(value, 1) for value in values)

    titles = ("WHEN", "IN/S", "OUT/S", "DEPTH", "IN FLIGHT", "OLDEST S", "COMMIT MS", "CLIENTS", "LAG MS")
    print_rows(samples, as_json=as_json, columns=titles, row=shown, empty="nothing is known yet")


@click.command()
@reading_face_options
@click.option("--interval", type=click.FloatRange(min=0.2), default=2.0, show_default=True, help="Seconds.")
@click.option("--count", type=click.IntRange(min=1), help="Show it so many times. [default: until Ctrl-C]")
@click.option("--lines", type=click.IntRange(min=1, max=1000), default=20, show_default=True, help="Queues at most.")
@click.option("--sort", type=click.Choice(_SORTABLE), default="depth", show_default=True, help="By what.")
def top(face: Face, interval: float, count: int | None, lines: int, sort: str) -> None:
    """Show the queues with the most in them, again and again."""

    def show(number: int) -> None:
        page = face.view("destinations", kind="queue", sort=sort, descending=sort != "name", count=lines, fresh=True)
        if count != 1:
            click.clear()
        broker = face.view("broker")
        click.echo(f"{broker['name']} {broker['state']}: {broker['depth']} messages in {page['total']} queues")
        _print_queues(page["destinations"])

    _again(show, interval, count)


def _again(show: Callable[[int], None], interval_s: float, count: int | None) -> None:
    number = 0
    try:
        while True:
            show(number)
            number += 1
            if count is not None and number >= count:
                return
            time.sleep(interval_s)
    except KeyboardInterrupt:
        return
