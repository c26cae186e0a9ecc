"""What the tools for journals have in common, whatever the format: arguments, and how they tell what they found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from jdbcstore.console.output import print_json, print_nowhere, print_table
from jdbcstore.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from jdbcstore.migration.migrated import Migrated
    from jdbcstore.store.journal.amq.inspection import Inspection as AMQInspection
    from jdbcstore.store.journal.leveldb.inspection import Inspection as LevelDBInspection

__all__ = [
    "DIRECTORY",
    "JSON",
    "NEW_DIRECTORY",
    "count_of",
    "held_by",
    "looking",
    "print_findings",
    "print_lines",
    "print_repaired",
    "tell_checked",
    "tell_repaired",
]

DIRECTORY: Final = click.argument("directory", type=click.Path(path_type=Path))
NEW_DIRECTORY: Final = click.argument("new_directory", type=click.Path(path_type=Path))
JSON: Final = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
_HOLDERS_MAX: Final = 5


@contextmanager
def looking() -> Iterator[None]:
    """What cannot be looked at is an error of its own: exit code 2."""
    try:
        yield
    except StoreError as error:
        raise ConfigurationError(f"{error}. If a broker runs, it may have deleted the file: try again") from error


def count_of(number: int, what: str) -> str:
    """So many of something."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def print_findings(notes: Iterable[str], findings: Sequence[object], unlisted: Mapping[str, int] | None = None) -> None:
    """Print what a check has found.

    Args:
        notes: what is no problem.
        findings: the problems.
        unlisted: how many more there are, by their kind.
    """
    for note in notes:
        click.echo(f"note: {note}")
    for finding in findings:
        click.echo(str(finding))
    for kind, count in (unlisted or {}).items():
        click.echo(f"{count} more of kind {kind}")
    total = len(findings) + sum((unlisted or {}).values())
    click.echo(f"{count_of(total, 'problem')} found" if total else "no problem found")


def held_by(holders: Mapping[str, int]) -> list[str]:
    """Who keeps a file: the destinations with the most messages in it."""
    most = sorted(holders.items(), key=lambda one: -one[1])
    kept = [f"{name} ({count})" for name, count in most[:_HOLDERS_MAX]]
    return kept if len(most) <= _HOLDERS_MAX else [*kept, f"{len(most) - _HOLDERS_MAX} more"]


def print_repaired(
    new_directory: Path,
    messages: Mapping[str, int],
    besides: Iterable[str],
    notes: Iterable[str],
    lost: Sequence[str],
    lost_unlisted: int = 0,
) -> None:
    """Print what a repair has written.

    Args:
        new_directory: where it is.
        messages: how many each destination has.
        besides: what else is there, as `count_of` says it.
        notes: what is to be known of it.
        lost: what could not be had.
        lost_unlisted: how many more losses there are.
    """
    print_table(("DESTINATION", "MESSAGES"), sorted(messages.items()), empty="no message is live")
    written = ", ".join([count_of(sum(messages.values()), "message"), *besides])
    click.echo(f"{new_directory}: {written}; read again and compared")
    for note in notes:
        click.echo(f"note: {note}")
    for line in lost:
        click.echo(f"lost: {line}")
    click.echo(f"{len(lost) + lost_unlisted} losses" if lost else "nothing is lost")


def tell_checked(found: AMQInspection | LevelDBInspection, summary: str, *, as_json: bool) -> int:
    """Say what a check has found; the exit code: 1 if something is wrong."""
    if as_json:
        print_json(found.as_json())
    else:
        click.echo(summary)
        print_findings(found.notes, found.findings)
    return 1 if found.findings else 0


def tell_repaired(done: Migrated, new_directory: Path, *, as_json: bool) -> int:
    """Say what a repair has brought into a new directory; the exit code: 1 if something is lost."""
    messages = {name: one.messages for name, one in done.destinations.items()}
    if as_json:
        print_json({"messages": messages, "lost": done.damages})
    else:
        besides = (
            count_of(len(done.subscriptions), "durable subscription"),
            count_of(len(done.transactions), "prepared transaction"),
            *((count_of(done.jobs, "scheduled message"),) if done.jobs else ()),
        )
        print_repaired(new_directory, messages, besides, (), done.damages, done.damages_unlisted)
    return 1 if done.damages else 0


def print_lines(lines: Iterable[str], limit: int | None) -> None:
    """Print the lines of a dump, so many at most, until whoever reads has enough."""
    try:
        with looking():
            for line in islice(lines, limit):
                click.echo(line)
    except BrokenPipeError:
        print_nowhere()
