"""``jdbcstore store``, ``log``, ``operations``: what a running broker tells of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from jdbcstore.console.face import Face, running_broker_options
from jdbcstore.console.output import print_json, print_rows, print_table
from jdbcstore.management.described import shown_time

__all__ = ["log", "operations", "store"]

_JSON_LINES = click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
_COUNT = click.option("--count", type=click.IntRange(1, 1000), default=100, show_default=True, help="So many at most.")


@click.command()
@running_broker_options
@click.option("--files", is_flag=True, help="What keeps the files of a KahaDB journal instead; takes seconds.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def store(face: Face, files: bool, as_json: bool) -> None:
    """Show the store of a broker: commits, size, lease, standbys, the account of memory, states that it was in.

    \b
    Examples:
        jdbcstore store
        jdbcstore store --json --broker http://standby:8161 --token-file token
        jdbcstore store --files
    """
    told = face.view("diagnosis" if files else "store")
    if as_json:
        print_json(told)
    elif files:
        _print_files(told)
    else:
        _print_store(told["store"], told["memory"])
        rows = [(term["since"], term["state"], term["term"], term["reason"]) for term in told["terms"]]
        click.echo()
        print_table(("SINCE", "STATE", "TERM", "WHY"), rows, empty="")


def _print_store(kept: Mapping[str, Any], memory: Mapping[str, Any]) -> None:
    half, most = (None if ms is None else f"{ms:.1f}" for ms in kept["commit_ms"])
    left_s = kept["lease_left_s"]
    rows = [
        ("location", kept["location"]),
        ("size, bytes", kept["size_bytes"]),
        ("commits", kept["commits"]),
        ("writes", kept["writes"]),
        ("failures", kept["failures"]),
        ("writes that wait", kept["waiting"]),
        ("half of the commits take, ms", half),
        ("95 of 100 commits take, ms", most),
        ("lease left, s", None if left_s is None else round(left_s, 1)),
        ("lock holder", kept["lock_holder"]),
        ("term", kept["lock_term"]),
        ("standbys that wait", kept["standbys"]),
        ("messages in memory, bytes", f"{memory['messages']} of {memory['messages_max']}"),
        ("kept for clients, bytes", f"{memory['kept']} of {memory['kept_max']}"),
        ("on the way to the store, bytes", f"{memory['uncommitted']} of {memory['uncommitted_max']}"),
        ("senders that wait", memory["waiting_senders"]),
        ("consumers held back", memory["parked_consumers"]),
    ]
    print_table(("WHAT", "HOW MUCH"), [(name, _text(value)) for name, value in rows], empty="")


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def _print_files(told: Mapping[str, Any]) -> None:
    click.echo(
        f"{told['directory']}: {told['files']} files, {told['bytes']} bytes, of which {told['live_bytes']} are live"
        f" messages; the next cleanup removes {told['removable']} files"
    )
    names = ("holder", "messages", "bytes", "files", "frees_files", "frees_bytes")
    rows = [[holder[name] for name in names] for holder in told["holders"]]
    print_table(("WHO KEEPS FILES", "MESSAGES", "BYTES", "FILES", "FREES FILES", "FREES BYTES"), rows, empty="nobody")


@click.command()
@running_broker_options
@click.option("--audit", is_flag=True, help="What operators have done, and were refused, instead.")
@_COUNT
@_JSON_LINES
def log(face: Face, audit: bool, count: int, as_json: bool) -> None:
    """Show the last lines of a broker's log, the last one last.

    \b
    Examples:
        jdbcstore log --count 20
        jdbcstore log --audit
    """
    rows = face.view("audit", count=count)[::-1] if audit else face.view("log", count=count)
    names = ("who", "action", "subject", "outcome") if audit else ("level", "logger", "text")
    titles = ("WHEN", *(name.upper() for name in names))

    def shown(row: Mapping[str, Any]) -> Sequence[object]:
        return shown_time(row["at_ms"]), *(row[name] for name in names)

    print_rows(rows, as_json=as_json, columns=titles, row=shown, empty="nothing yet")


@click.command()
@running_broker_options
@_JSON_LINES
def operations(face: Face, as_json: bool) -> None:
    """Show what operators let a broker do with messages, the newest first; `cancel` ends one that runs."""
    rows = face.view("operations")

    def shown(row: Mapping[str, Any]) -> Sequence[object]:
        return (
            row["operation_id"],
            shown_time(row["began_ms"]),
            row["who"],
            row["action"] + (", counting" if row["is_dry_run"] else ""),
            row["destination"] + (f" to {row['target']}" if row["target"] else ""),
            row["filter"],
            row["matched"] if row["is_dry_run"] else row["done"],
            row["state"],
        )

    titles = ("ID", "BEGAN", "WHO", "WHAT", "WHERE", "WHICH", "MESSAGES", "STATE")
    print_rows(rows, as_json=as_json, columns=titles, row=shown, empty="nothing was done since the broker started")
