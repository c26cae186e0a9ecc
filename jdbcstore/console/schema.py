"""``jdbcstore schema status|upgrade|sql``: look at the tables, create or adopt them, print the SQL.

Exit codes, for scripts: 0 all is as it should be, 1 an upgrade is due, 2 an error or tables that no upgrade helps,
3 a broker is running.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, NoReturn
from urllib.parse import parse_qsl

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy import URL, Engine, create_engine
from sqlalchemy.exc import SQLAlchemyError

from jdbcstore.config.urls import store_file, store_options
from jdbcstore.errors import JdbcStoreError, LockError
from jdbcstore.store.disk import make_directory
from jdbcstore.store.jdbc.dialect import dialect_at, url_for_reading
from jdbcstore.store.jdbc.line_watch import engine_for
from jdbcstore.store.jdbc.mapped_errors import mapped
from jdbcstore.store.jdbc.schema import Remedy, SchemaReport, inspect_schema, schema_sql, upgrade_schema
from jdbcstore.store.jdbc.table_names import TableNames

__all__ = ["schema"]

#: Building an index over a long backlog takes its time.
_STATEMENT_TIMEOUT_S: Final = 24 * 3600.0

_STYLES: Final = {
    Remedy.NOTHING: "dim",
    Remedy.UPGRADE: "yellow",
    Remedy.UPGRADE_FIRST: "red",
    Remedy.BY_HAND: "bold red",
}

#: Parameters of a URL, for a command that opens no store.
_NAMES: Final = {
    "table_prefix": "prefix",
    "tablePrefix": "prefix",
    "message_table_name": "messages",
    "messageTableName": "messages",
    "durable_sub_acks_table_name": "acks",
    "durableSubAcksTableName": "acks",
    "lock_table_name": "lock",
    "lockTableName": "lock",
}

_prefix_option = click.option(
    "--table-prefix", default="", metavar="PREFIX", help="What stands before the table names."
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")


@click.group()
def schema() -> None:
    """Look after the tables of a SQL store.

    URL is that of the store: sqlite:///data/broker.db, postgresql://USER:PASSWORD@HOST/DATABASE, mysql://… or
    mariadb://…
    """


@schema.command()
@click.argument("url")
@_prefix_option
@_json_option
def status(url: str, table_prefix: str, as_json: bool) -> None:
    """Say what tables are there, who made them, and what an upgrade would do. Changes nothing."""
    with _errors(), _engine(url, creates=False) as (engine, names), engine.connect() as connection:
        report = inspect_schema(connection, _named(names, table_prefix))
    _show(report, as_json=as_json)


@schema.command()
@click.argument("url")
@_prefix_option
@_json_option
@click.option("--force", is_flag=True, help="Go on although a broker is running on these tables.")
@click.option("--wait", "wait_s", default=20.0, show_default=True, metavar="SECONDS", help="Wait for another upgrade.")
def upgrade(url: str, table_prefix: str, as_json: bool, force: bool, wait_s: float) -> None:
    """Create the tables, adopt those that ActiveMQ made, or bring ours up to date.

    Messages stay as they are and a Java broker can go on using the tables. Stop all brokers before: while an index is
    built or a column widened, nobody can write. Doing it again does nothing.
    """
    with _errors(), _engine(url, creates=True) as (engine, names):
        report = upgrade_schema(engine, _named(names, table_prefix), force=force, wait_s=wait_s)
    _show(report, as_json=as_json)


@schema.command()
@click.argument("url")
@_prefix_option
def sql(url: str, table_prefix: str) -> None:
    """Print the SQL that creates the tables in an empty database. Connects to nothing: mysql:// will do for URL."""
    with _errors():
        dialect = url.partition(":")[0].partition("+")[0]
        query = dict(parse_qsl(url.partition("?")[2]))
        given = {name: query[key] for key, name in _NAMES.items() if key in query}
        names = _named(TableNames(**given), table_prefix)
        click.echo(schema_sql(dialect, names), nl=False)


def _named(names: TableNames, prefix: str) -> TableNames:
    """The names that the URL gives, with another prefix if there is one."""
    return replace(names, prefix=prefix) if prefix else names


@contextmanager
def _engine(text: str, *, creates: bool) -> Iterator[tuple[Engine, TableNames]]:
    """An engine for the time of a command, and the names of the tables that the URL gives.

    A database in a file makes the file that it opens. Who only looks gets an empty one in memory in its place.
    """
    url, options = store_options(text)
    if creates:
        options.require_primary("an upgrade of the tables")
    file = store_file(url)
    if file and not file.exists() and not creates:
        engine = create_engine(URL.create(url.drivername))
    else:
        if file and creates:
            make_directory(file.parent)
        if not creates:
            url = url_for_reading(url)
        engine = engine_for(url, replace(options, query_timeout_s=_STATEMENT_TIMEOUT_S))
    try:
        with mapped(dialect_at(url, options)):
            yield engine, options.table_names
    finally:
        engine.dispose()


def _show(report: SchemaReport, *, as_json: bool) -> NoReturn:
    """Print a report and leave with its exit code."""
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        _print(report)
    raise SystemExit(2 if not report.can_upgrade else 1 if report.needs_upgrade else 0)


def _print(report: SchemaReport) -> None:
    console = Console(soft_wrap=True)
    console.print(Text(report.headline(), style="bold"))
    table = Table.grid(padding=(0, 2, 0, 0))
    for found in report.findings():
        table.add_row(Text(found.remedy, style=_STYLES[found.remedy]), Text(found.text))
    if table.row_count:
        console.print(table)
    if report.can_upgrade and report.needs_upgrade:
        console.print(Text(f"Run: {report.upgrade_command}"))


@contextmanager
def _errors() -> Iterator[None]:
    """Say in one line what went wrong, and leave with code 2, or 3 if a broker is in the way."""
    try:
        yield
    except (JdbcStoreError, OSError) as error:
        click.echo(f"jdbcstore: {error}", err=True)
        raise SystemExit(3 if isinstance(error, LockError) else 2) from error
    except SQLAlchemyError as error:
        click.echo(f"jdbcstore: {error}", err=True)
        raise SystemExit(2) from error
