"""``jdbcstore journal check|diagnose|repair|dump`` of several KahaDB stores in one directory (mKahaDB)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from jdbcstore.console import kahadb
from jdbcstore.console.journal_reports import DIRECTORY, JSON, looking, tell_repaired
from jdbcstore.console.output import print_json
from jdbcstore.destination import Destination
from jdbcstore.store.journal.kahadb.directory_kind import INDEX_ALONE, has_lost_its_journal
from jdbcstore.store.journal.kahadb.inspection import CheckReport, check
from jdbcstore.store.journal.mkahadb.directory_view import refuse_what_is_not_several
from jdbcstore.store.journal.mkahadb.filters import TX_STORE, stores_of
from jdbcstore.store.journal.mkahadb.outcomes import Outcomes

__all__ = ["mkahadb"]


@click.group()
def mkahadb() -> None:
    """Look at a directory of several KahaDB stores (the one with 'txStore' in it)."""


def _stores(directory: Path) -> list[Path]:
    with looking():
        refuse_what_is_not_several(directory)
        return stores_of(directory)


@mkahadb.command("check")
@DIRECTORY
@click.option("--quick", is_flag=True, help="Do not unmarshal live messages.")
@JSON
def check_(directory: Path, quick: bool, as_json: bool) -> int:
    """Check each KahaDB store in DIRECTORY, and the journal of transactions over several of them.

    Exit code 0: nothing is wrong, 1: something is, 2: it cannot be looked at.
    """
    stores = _stores(directory)
    outcomes = Outcomes(directory / TX_STORE)
    wrong = []
    with looking():
        lost = [path for path in stores if has_lost_its_journal(path)]
        reports = {path.name: check(path, messages=not quick) for path in stores if path not in lost}
        outcomes.read()
    wrong += [f"{path}: {INDEX_ALONE}. Restore it from a backup, or move {path.name!r} elsewhere" for path in lost]
    wrong += _copies(reports)
    if outcomes.is_damaged:
        wrong.append(
            f"{TX_STORE} is damaged: transactions over several stores that are in doubt cannot be decided by it. Decide"
            " them with 'jdbcstore transactions', store by store"
        )
    is_sound = not wrong and not any(one.findings or one.unlisted for one in reports.values())
    if as_json:
        told = {name: one.as_json() for name, one in reports.items()}
        print_json({"directory": str(directory), "format": "mkahadb", "stores": told, "findings": wrong})
        return 0 if is_sound else 1
    for one in reports.values():
        kahadb.tell_check(one)
    for line in wrong:
        click.echo(line)
    click.echo(f"{directory}: {len(stores)} stores, {'no problem found' if is_sound else 'there are problems'}")
    return 0 if is_sound else 1


def _copies(reports: dict[str, CheckReport]) -> list[str]:
    """What is wrong because a store is a copy of another one."""
    found: list[str] = []
    places: dict[Destination, str] = {}
    for name, report in reports.items():
        for destination, stored in report.survey.state.destinations.items():
            other = places.setdefault(destination, name)
            if other == name:
                continue
            there = reports[other].survey.state.destinations[destination]
            same = {one.message_id for one in stored.all()} & {one.message_id for one in there.all()}
            if same:
                found.append(
                    f"{other} and {name} have the same messages of {destination} ({len(same):,}): one of them is a"
                    " copy. A broker opens both, a migration ends: move the copy elsewhere"
                )
    return found


@mkahadb.command("diagnose")
@DIRECTORY
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each store.")
def diagnose(directory: Path, as_json: bool) -> None:
    """Say why each KahaDB store in DIRECTORY is as large as it is."""
    _each(directory, lambda path: _run("diagnose", path, as_json))


@mkahadb.command("repair")
@DIRECTORY
@click.argument("new_directory", type=click.Path(path_type=Path))
@JSON
def repair(directory: Path, new_directory: Path, as_json: bool) -> int:
    """Write all that is live in the stores in DIRECTORY into one KahaDB store in NEW_DIRECTORY, which must not exist.

    DIRECTORY is only read; no broker may run on it. Exit code 0: nothing is lost, 1: something is, and it is listed; 2:
    it cannot be done; 3: a broker runs.
    """
    from jdbcstore.migration.repair import repair_several

    _stores(directory)
    done = repair_several(directory, new_directory)
    return tell_repaired(done, new_directory, as_json=as_json)


@mkahadb.command("dump", context_settings={"ignore_unknown_options": True})
@DIRECTORY
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def dump(directory: Path, options: tuple[str, ...]) -> None:
    """Show the records of each journal in DIRECTORY, as 'jdbcstore kahadb dump' does, with its OPTIONS."""
    _each(directory, lambda path: _run("dump", path, False, *options), TX_STORE)


def _each(directory: Path, told: Callable[[Path], object], *more: str) -> None:
    for path in [*_stores(directory), *(directory / name for name in more if (directory / name).is_dir())]:
        click.echo(f"{path.name}:", err=True)
        if has_lost_its_journal(path):
            click.echo(f"{path} {INDEX_ALONE}", err=True)
        else:
            told(path)


def _run(name: str, path: Path, as_json: bool, *options: str) -> None:
    arguments = [str(path), *options, *(["--json"] if as_json else [])]
    kahadb.kahadb.commands[name].main(arguments, prog_name=f"jdbcstore journal {name}", standalone_mode=False)
