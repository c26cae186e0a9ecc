"""``jdbcstore config check FILE``: what a broker would run with, and what is wrong with the file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import click

from jdbcstore.config.files import Loaded, Origin, load_configuration
from jdbcstore.console.output import print_json

__all__ = ["config"]


@click.group()
def config() -> None:
    """Look at configuration files."""


@config.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(file: Path, as_json: bool) -> int:
    """Say what a broker would run with, and what is wrong.

    FILE is ActiveMQ's activemq.xml or a TOML file. Every option that it gives is shown with the line that gave it, then
    what it says and is not so here. Nothing is started, no database is asked. Environment variables count as they would
    for the broker. Files that it names have to be here, seen from this directory, or they are warned of.

    Exit codes: 0 it has no errors, 2 a broker would not start with it.
    """
    loaded = load_configuration(file, os.environ)
    loaded = replace(loaded, warnings=(*loaded.warnings, *map(_missing, filter(_is_missing, loaded.origins))))
    if as_json:
        print_json(_as_json(loaded))
    else:
        for origin in loaded.origins:
            click.echo(f"{origin.option} = {origin.value}  ({origin.said_by})")
        for kind, texts in (("warning", loaded.warnings), ("error", loaded.errors)):
            for text in texts:
                click.echo(f"{kind}: {text}")
        click.echo(f"{_counted(loaded.errors, 'error')}, {_counted(loaded.warnings, 'warning')}")
    return 2 if loaded.errors else 0


def _is_missing(origin: Origin) -> bool:
    return origin.option.endswith("_file") and bool(origin.value) and not Path(origin.value).is_file()


def _missing(origin: Origin) -> str:
    return f"{origin.option}: there is no file {Path(origin.value).absolute()}, without which no broker starts"


def _counted(texts: tuple[str, ...], what: str) -> str:
    return f"{len(texts) or 'no'} {what}{'' if len(texts) == 1 else 's'}"


def _as_json(loaded: Loaded) -> dict[str, object]:
    return {
        "options": [
            {"option": origin.option, "value": origin.value, "from": origin.said_by} for origin in loaded.origins
        ],
        "warnings": list(loaded.warnings),
        "errors": list(loaded.errors),
    }
