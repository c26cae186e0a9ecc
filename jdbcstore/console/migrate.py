"""``jdbcstore migrate``: everything of a store into an empty one of any kind."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import click

from jdbcstore.console.output import print_json, print_table
from jdbcstore.destination import parse_destination
from jdbcstore.errors import ConfigurationError

__all__ = ["migrate"]

#: Damages that are shown; the report has all that are listed.
_DAMAGES_SHOWN = 20


@click.command()
@click.argument("source", metavar="FROM_URL")
@click.argument("target", metavar="TO_URL")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--skip-damage", is_flag=True, help="Leave out what cannot be read, and list it.")
@click.option(
    "--prioritized",
    multiple=True,
    metavar="NAME",
    help="A destination whose policy has prioritizedMessages, beside those that show it; ORDERS.> for many.",
)
@click.option(
    "--scheduler",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Of KahaDB: where scheduled messages are. [default: 'scheduler' in the directory or beside it]",
)
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Write what was done as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print that report instead of tables.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def migrate(
    source: str,
    target: str,
    dry_run: bool,
    skip_damage: bool,
    prioritized: tuple[str, ...],
    scheduler: Path | None,
    report: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Bring everything of the store at FROM_URL into the empty store at TO_URL, and compare the two afterwards.

    Messages with their ids, order, priorities and expiration; durable subscriptions with exactly what each waits for;
    prepared transactions; scheduled messages; numbers of producers. A broker may be at work on the source: what it does
    after the beginning is not migrated. No broker gets the target until it is complete. After Ctrl-C or a crash run it
    again: it goes on where it stopped.

    \b
    Examples:
        jdbcstore migrate sqlite:///data/jdbcstore.db postgresql://user:secret@db/activemq
        jdbcstore migrate kahadb:/var/lib/activemq/kahadb postgresql://user:secret@db/activemq --dry-run
    """
    from jdbcstore.migration import Showing
    from jdbcstore.migration import migrate as run

    if report is not None and not os.access(report.absolute().parent, os.W_OK):
        raise ConfigurationError(
            f"the report cannot be written to {report}: there is no such folder, or it is read-only"
        )
    done = run(
        source,
        target,
        is_dry=dry_run,
        skips_damage=skip_damage,
        prioritized=[parse_destination(name) for name in prioritized],
        scheduler=scheduler,
        showing=Showing(is_quiet=quiet),
    )
    found = asdict(done)
    del found["others"]  # which only those count who do not know what it is
    if report is not None:
        report.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", "utf-8")
    if as_json:
        print_json(found)
        return
    rows = [(name, one.messages, one.bytes, one.content, one.seconds) for name, one in done.destinations.items()]
    titles = ("DESTINATION", "MESSAGES", "BYTES", "CONTENT", "SECONDS")
    if dry_run:
        rows, titles = [row[:3] for row in rows], titles[:3]  # type: ignore[misc, assignment]
    print_table(titles, rows, empty="the source has no messages")
    if done.subscriptions and not dry_run:
        print_table(("SUBSCRIPTION", "WAITS FOR"), done.subscriptions.items(), empty="")
    for what, count in (
        ("durable subscriptions", len(done.subscriptions)),
        ("prepared transactions", len(done.transactions)),
        ("scheduled messages", done.jobs),
        ("producers' numbers", done.producers),
    ):
        if count:
            click.echo(f"{what}: {count}")
    for line in done.damages[:_DAMAGES_SHOWN]:
        click.echo(f"left out: {line}")
    if (hidden := len(done.damages) - _DAMAGES_SHOWN + done.damages_unlisted) > 0:
        click.echo(f"left out: {hidden} more")
    if done.is_live:
        click.echo("a broker was at work on the source: what it did since the beginning is not migrated")
    if dry_run:
        click.echo(f"{done.messages} messages would be migrated from {done.source} to {done.target}")
        return
    again = f", {done.messages - done.copied} of them by an earlier run" if done.messages > done.copied else ""
    click.echo(f"{done.messages} messages migrated to {done.target}{again} in {done.seconds:.1f} s; both are alike")
