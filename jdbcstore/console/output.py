"""Output: tables for people, JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from jdbcstore.migration.migrated import Migrated

__all__ = ["print_json", "print_table", "tell_repaired"]

_NUMBERS_RIGHT = (int, float)
#: What is piped is searched and cut, so nothing is folded there.
_WIDTH_OF_A_FILE = 1000


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print a table; numbers stand right.

    Args:
        columns: headings.
        rows: values, as many as there are headings.
        empty: what to say if there are no rows.
    """
    listed = [list(row) for row in rows]
    if not listed:
        click.echo(empty)
        return
    from rich.console import Console  # half a second on a slow machine, for this command only
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column, value in zip(columns, listed[0], strict=True):
        table.add_column(column, justify="right" if isinstance(value, _NUMBERS_RIGHT) else "left", overflow="fold")
    for row in listed:
        table.add_row(*("" if value is None else str(value) for value in row))
    width = None if sys.stdout.isatty() else _WIDTH_OF_A_FILE
    Console(markup=False, highlight=False, emoji=False, width=width).print(table)


def print_json(value: object) -> None:
    """Print one JSON value on a line of its own."""
    click.echo(json.dumps(value, ensure_ascii=False))


def tell_repaired(done: Migrated, new_directory: Path, *, as_json: bool) -> int:
    """Say what a repair has brought into a new directory; the exit code: 1 if something is lost."""
    if as_json:
        print_json({"messages": {name: one.messages for name, one in done.destinations.items()}, "lost": done.damages})
    else:
        rows = sorted((name, one.messages) for name, one in done.destinations.items())
        print_table(("DESTINATION", "MESSAGES"), rows, empty="no message is live")
        click.echo(f"{new_directory}: {done.messages:,} messages; read again and compared")
        for line in done.damages:
            click.echo(f"lost: {line}")
        click.echo("nothing is lost" if not done.damages else f"{len(done.damages) + done.damages_unlisted} losses")
    return 1 if done.damages else 0
