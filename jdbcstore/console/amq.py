"""``jdbcstore journal check|diagnose|repair|dump`` of AMQ stores (ActiveMQ 5.0 to 5.8)."""

from __future__ import annotations

from pathlib import Path

import click

from jdbcstore.console.journal_dump import dump_lines, kinds_of
from jdbcstore.console.journal_reports import (
    DIRECTORY,
    JSON,
    NEW_DIRECTORY,
    held_by,
    looking,
    print_lines,
    tell_checked,
    tell_repaired,
)
from jdbcstore.console.output import print_json, print_table
from jdbcstore.destination import parse_destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.journal.amq.adapter import is_amq_store
from jdbcstore.store.journal.amq.inspection import inspect
from jdbcstore.store.journal.amq.journal import Journal, file_name
from jdbcstore.store.journal.amq.store_journal import StoreJournal

__all__ = ["amq"]


@click.group()
def amq() -> None:
    """Look at the directory of a broker with an AMQ store (the one with 'journal' and 'kr-store' in it)."""


@amq.command("check")
@DIRECTORY
@click.option("--quick", is_flag=True, help="Do not unmarshal live messages.")
@JSON
def check(directory: Path, quick: bool, as_json: bool) -> int:
    """Check the AMQ store in DIRECTORY: records, live messages, the reference store against the journal.

    Exit code 0: nothing is wrong, 1: something is, 2: it cannot be looked at.
    """
    with looking():
        found = inspect(directory, messages=not quick)
    summary = (
        f"{directory}: AMQ store, {len(found.files)} files, {sum(found.files.values()):,} bytes,"
        f" {found.records.total():,} records, {found.messages:,} live messages read"
    )
    return tell_checked(found, summary, as_json=as_json)


@amq.command("diagnose")
@DIRECTORY
@JSON
def diagnose(directory: Path, as_json: bool) -> None:
    """Say what keeps each journal file of the AMQ store in DIRECTORY."""
    with looking():
        found = inspect(directory, messages=False)
    if as_json:
        print_json(found.as_json())
        return
    rows = []
    for use in found.uses:
        kept = held_by(use.holders)
        if use.acknowledges:
            kept.append(f"acknowledges messages of {', '.join(use.acknowledges)}")
        rows.append((use.file, use.bytes, use.live_bytes, use.messages, ", ".join(kept)))
    print_table(("FILE", "BYTES", "LIVE", "MESSAGES", "KEPT BY"), rows, empty="there is no journal file")


@amq.command("repair")
@DIRECTORY
@NEW_DIRECTORY
@JSON
def repair(directory: Path, new_directory: Path, as_json: bool) -> int:
    """Write all that is live in the AMQ store in DIRECTORY into an AMQ store in NEW_DIRECTORY, which must not exist.

    DIRECTORY is only read; no broker may run on it. Exit code 0: nothing is lost, 1: something is, and it is listed; 2:
    it cannot be done; 3: a broker runs.
    """
    from jdbcstore.migration.repair import repair_amq_store

    done = repair_amq_store(directory, new_directory)
    return tell_repaired(done, new_directory, as_json=as_json)


@amq.command("dump")
@DIRECTORY
@click.option("--destination", help="Only records of this destination: queue://NAME or topic://NAME.")
@click.option("--file", "files", type=click.IntRange(min=0), multiple=True, help="Only data-N; may be repeated.")
@click.option("--command", "commands", multiple=True, help="Only records of this kind (AddMessage, ...); repeatable.")
@click.option("--limit", type=click.IntRange(min=1), help="Stop after so many.")
@click.option("--bodies", is_flag=True, help="Show the bodies of messages, too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per record.")
def dump(
    directory: Path,
    destination: str | None,
    files: tuple[int, ...],
    commands: tuple[str, ...],
    limit: int | None,
    bodies: bool,
    as_json: bool,
) -> None:
    """Show the records of the journal of the AMQ store in DIRECTORY, or of its archive, as they stand there."""
    wanted = None if destination is None else parse_destination(destination)
    kinds = kinds_of(commands)
    with looking():
        journal = StoreJournal(directory) if is_amq_store(directory) else Journal(directory)
    unknown = [file_name(number) for number in files if number not in journal.files]
    if unknown:
        raise ConfigurationError(f"{directory} has no file {', '.join(unknown)}")
    print_lines(dump_lines(journal, files, kinds, wanted, bodies, as_json), limit)
