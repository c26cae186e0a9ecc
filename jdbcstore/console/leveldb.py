"""``jdbcstore journal check|diagnose|repair|dump`` of LevelDB directories (ActiveMQ 5.7 to 5.16)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

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
from jdbcstore.store.journal.leveldb.inspection import inspect, units_of
from jdbcstore.store.journal.leveldb.log import LogFlaw, Record
from jdbcstore.store.journal.leveldb.records import (
    ADD_COLLECTION,
    KIND_NAMES,
    REMOVE_COLLECTION,
    TRACE,
    CollectionRecord,
    EntryRecord,
    removed_collection,
)
from jdbcstore.store.journal.leveldb.recovery import recover
from jdbcstore.store.journal.leveldb.varints import Malformed

__all__ = ["leveldb"]

_LOGS: Final = click.option(
    "--log-directory", type=click.Path(path_type=Path), help="Where the log is (the broker's logDirectory)."
)


@click.group()
def leveldb() -> None:
    """Look at the directory of a broker with a LevelDB store (the one with store-version.txt in it)."""


@leveldb.command("check")
@DIRECTORY
@_LOGS
@click.option("--quick", is_flag=True, help="Do not read live messages.")
@JSON
def check(directory: Path, log_directory: Path | None, quick: bool, as_json: bool) -> int:
    """Check the LevelDB store in DIRECTORY: records, units of work, the index, live messages.

    Exit code 0: nothing is wrong, 1: something is, 2: it cannot be looked at.
    """
    with looking():
        found = inspect(directory, log_directory, messages=not quick)
    summary = (
        f"{directory}: LevelDB store, {len(found.uses)} files, {sum(one.used_bytes for one in found.uses):,} bytes,"
        f" {found.records:,} records in {found.units:,} units of work, {found.messages:,} live messages read"
    )
    return tell_checked(found, summary, as_json=as_json)


@leveldb.command("diagnose")
@DIRECTORY
@_LOGS
@JSON
def diagnose(directory: Path, log_directory: Path | None, as_json: bool) -> None:
    """Say what keeps each file of the log of the LevelDB store in DIRECTORY: the messages that stand in it."""
    with looking():
        found = inspect(directory, log_directory, messages=False)
    if as_json:
        print_json(found.as_json())
        return
    rows = []
    for use in found.uses:
        kept = held_by(use.holders)
        rows.append((use.file, use.used_bytes, use.live_bytes, use.messages, ", ".join(kept)))
    print_table(("FILE", "BYTES", "LIVE", "MESSAGES", "KEPT BY"), rows, empty="there is no file of a log")


@leveldb.command("repair")
@DIRECTORY
@NEW_DIRECTORY
@_LOGS
@JSON
def repair(directory: Path, new_directory: Path, log_directory: Path | None, as_json: bool) -> int:
    """Write all that is live in the LevelDB store in DIRECTORY into one in NEW_DIRECTORY, which must not exist.

    DIRECTORY is only read; no broker may run on it. Exit code 0: nothing is lost, 1: something is, and it is listed; 2:
    it cannot be done; 3: a broker runs.
    """
    from jdbcstore.migration.repair import repair_leveldb_store

    done = repair_leveldb_store(directory, new_directory, log_directory)
    return tell_repaired(done, new_directory, as_json=as_json)


@leveldb.command("dump")
@DIRECTORY
@_LOGS
@click.option("--command", "commands", type=click.Choice(list(KIND_NAMES.values())), multiple=True, help="Only these.")
@click.option("--limit", type=click.IntRange(min=1), help="Stop after so many.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per record.")
def dump(
    directory: Path, log_directory: Path | None, commands: tuple[str, ...], limit: int | None, as_json: bool
) -> None:
    """Show the records of the log of the LevelDB store in DIRECTORY as they stand there, and damage."""
    print_lines(_lines(directory, log_directory, commands, as_json=as_json), limit)


def _lines(directory: Path, log_directory: Path | None, commands: tuple[str, ...], *, as_json: bool) -> Iterator[str]:
    for _, unit in units_of(recover(directory, log_directory)):
        if isinstance(unit, LogFlaw):
            yield json.dumps({"damage": str(unit)}) if as_json else f"damage: {unit}"
            continue
        for record in unit.records:
            name = KIND_NAMES.get(record.kind, str(record.kind))
            if commands and name not in commands:
                continue
            found = {"position": record.position, "unit": unit.start, "command": name, **_facts(record)}
            if as_json:
                yield json.dumps(found)
            else:
                facts = " ".join(f"{key}={value}" for key, value in _facts(record).items())
                yield f"{record.position:#018x} {name} {facts}".rstrip()


def _facts(record: Record) -> dict[str, Any]:
    data = record.data
    if data is None:
        return {}
    try:
        match record.kind:
            case int(kind) if kind == ADD_COLLECTION:
                collection = CollectionRecord.read(data)
                return {
                    "collection": collection.key,
                    "type": collection.type,
                    "meta": collection.meta.decode("utf-8", "backslashreplace"),
                }
            case int(kind) if kind == REMOVE_COLLECTION:
                return {"collection": removed_collection(data)}
            case int(kind) if kind == TRACE:
                return {"text": data.decode("utf-8", "backslashreplace")}
        entry = EntryRecord.read(data)
    except Malformed as error:
        return {"damage": str(error)}
    key: Any = int.from_bytes(entry.key, "big") if len(entry.key) == 8 else entry.key.decode("utf-8", "replace")
    return {"collection": entry.collection, "key": key, "location": entry.location, "length": entry.length}
