"""Output: tables and questions for people, JSON for machines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import click

from jdbcstore.errors import ConfigurationError

__all__ = ["confirm", "print_json", "print_nowhere", "print_rows", "print_table"]

_NUMBERS_RIGHT = (int, float)
T = TypeVar("T")

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


def print_nowhere() -> None:
    """Standard output cannot be written: print nothing any more. What it has taken already would fail at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def print_json(value: object) -> None:
    """Print one JSON value on a line of its own."""
    click.echo(json.dumps(value, ensure_ascii=False))


def print_rows(
    rows: Iterable[T],
    *,
    as_json: bool,
    columns: Sequence[str],
    row: Callable[[T], Sequence[object]],
    empty: str,
    record: Callable[[T], object] | None = None,
) -> None:
    """Print rows: each as one JSON value on a line of its own, or all as a table.

    Args:
        rows: what there is.
        as_json: for machines.
        columns: headings of the table.
        row: the values of one in the table, as many as there are headings.
        empty: what to say if there are no rows; machines are told nothing.
        record: one as JSON has it; None if it is that already.
    """
    if not as_json:
        print_table(columns, map(row, rows), empty=empty)
        return
    for one in rows:
        print_json(one if record is None else record(one))


def confirm(question: str) -> None:
    """Ask whether to go on.

    Raises:
        click.Abort: no.
        ConfigurationError: there is nobody to ask.
    """
    if not sys.stdin.isatty():
        raise ConfigurationError(f"{question} Nobody can answer here: give --yes")
    click.confirm(question, abort=True, err=True)
