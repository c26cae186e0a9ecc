"""``jdbcstore kahadb check|diagnose|repair|dump``: look at the directories of brokers that store in KahaDB."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import click

from jdbcstore.console.journal_dump import dump_lines, kinds_of, transaction_text
from jdbcstore.console.journal_reports import (
    DIRECTORY,
    JSON,
    NEW_DIRECTORY,
    count_of,
    looking,
    print_findings,
    print_lines,
    print_repaired,
)
from jdbcstore.console.kahadb_picture import Picture, as_lines, as_rich, as_svg, draw, size
from jdbcstore.console.output import print_json, print_table
from jdbcstore.destination import Destination, parse_destination
from jdbcstore.errors import CodecError, ConfigurationError, JournalDamaged
from jdbcstore.store.journal.kahadb.diagnosis import Diagnosis, FileDiagnosis, Freed, Holder, Pins
from jdbcstore.store.journal.kahadb.inspection import CheckReport, check
from jdbcstore.store.journal.kahadb.journal import Location
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.kahadb.repair import repair
from jdbcstore.store.journal.kahadb.survey import Survey, open_journal, survey

__all__ = ["kahadb"]

_BARS_MAX: Final = 40
_SVG_BARS_MAX: Final = 800
_ROWS_MAX: Final = 60
_INDEX: Final = click.option(
    "--index-directory", type=click.Path(path_type=Path), help="Where db.data is (the broker's indexDirectory)."
)


@click.group()
def kahadb() -> None:
    """Look at the directory of a broker that stores in KahaDB: is it intact, why is it full, what is in it.

    Nothing is changed, and all but 'repair' work while a broker runs.
    """


# --- check ------------------------------------------------------------------------------------------------------------


@kahadb.command("check")
@DIRECTORY
@_INDEX
@click.option("--quick", is_flag=True, help="Do not unmarshal live messages.")
@JSON
def check_(directory: Path, index_directory: Path | None, quick: bool, as_json: bool) -> int:
    """Check the KahaDB store in DIRECTORY: checksums, records, references, the index against the journal.

    Each line says where, what is wrong, what follows from it, and what to do. Exit code 0: nothing is wrong, 1:
    something is, 2: it cannot be looked at.

    \b
    Example:
        jdbcstore kahadb check /var/lib/activemq/kahadb
    """
    with looking():
        report = check(directory, index_directory=index_directory, messages=not quick)
    if as_json:
        print_json(report.as_json())
    else:
        tell_check(report)
    return 1 if report.findings or report.unlisted else 0


def tell_check(report: CheckReport) -> None:
    found = report.survey
    click.echo(
        f"{found.directory}: {count_of(len(found.sizes), 'file')}, {size(sum(found.sizes.values()))},"
        f" {count_of(found.commands.total(), 'record')}, {count_of(report.messages, 'live message')} read"
    )
    print_findings(report.notes, report.findings, report.unlisted)


# --- diagnose ---------------------------------------------------------------------------------------------------------


@kahadb.command()
@DIRECTORY
@_INDEX
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Write the picture to this file, too.")
@click.option("--all", "everything", is_flag=True, help="A row for each file and each holder.")
@JSON
def diagnose(directory: Path, index_directory: Path | None, svg: Path | None, everything: bool, as_json: bool) -> None:
    """Say why the KahaDB store in DIRECTORY is as large as it is.

    For each journal file: its size, what of it is live, who keeps it, and since when; for each destination, what
    consuming it would free. As a broker decides it at its next cleanups.

    \b
    Example:
        jdbcstore kahadb diagnose /var/lib/activemq/kahadb --svg why.svg
    """
    with looking(), survey(directory, index_directory=index_directory) as found:
        told = _Told(found)
    if svg is not None:
        drawn = told.picture(_SVG_BARS_MAX)
        try:
            svg.write_text(as_svg(drawn), encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"cannot write {svg}: {error.strerror or error}") from error
    if as_json:
        print_json(told.as_json())
    else:
        told.show(everything)


class _Told:
    """A diagnosis in words."""

    def __init__(self, found: Survey) -> None:
        self.found: Final = found
        self.pins: Final[Pins] = found.pins()
        self.diagnosis: Final = Diagnosis.of(self.pins)
        self.names: Final[dict[Holder, str]] = {holder: _holder(holder) for holder in self.diagnosis.holders}
        self._now_ms = time.time() * 1000
        self._sent: dict[Location, int | None] = {}

    @property
    def summary(self) -> str:
        """One line."""
        files = self.diagnosis.files.values()
        total, live = sum(file.bytes for file in files), sum(file.live_bytes for file in files)
        removable = sum(file.removable for file in files)
        return (
            f"{count_of(len(files), 'file')}, {size(total)}, of which {size(live)} are live messages;"
            f" the next cleanup removes {count_of(removable, 'file')}"
        )

    def picture(self, most: int) -> Picture:
        """A bar for each file, at most so many."""
        names = {
            holder: self.names[holder] + (f" (its end frees {_freed(freed)})" if freed.files else "")
            for holder, freed in self.diagnosis.holders.items()
        }
        return draw(self.diagnosis, str(self.found.directory), self.summary, names, most)

    def _age_s(self, location: Location) -> int | None:
        if location not in self._sent:
            self._sent[location] = None
            with suppress(CodecError, JournalDamaged):
                message = self.found.journal.message(location)
                self._sent[location] = message.broker_in_time or message.timestamp or None
        sent_ms = self._sent[location]
        return None if sent_ms is None else max(int((self._now_ms - sent_ms) / 1000), 0)

    # -- for people ----------------------------------------------------------------------------------------------

    def show(self, everything: bool) -> None:
        from rich.console import Console

        console = Console(markup=False, highlight=False, emoji=False)
        drawn = self.picture(_BARS_MAX)
        if console.is_terminal:
            for line in as_rich(drawn, console.width):
                console.print(line)
        else:
            for text in as_lines(drawn):
                click.echo(text)
        if self.found.running:
            click.echo("a broker runs: the last files change while you read this")
        click.echo()
        runs = [[file] for file in self.diagnosis.files.values()] if everything else self._runs()
        rows = [self._row(run) for run in (runs if everything else runs[:_ROWS_MAX])]
        print_table(("FILE", "SIZE", "LIVE", "MESSAGES", "KEPT BY"), rows, empty="")
        if len(runs) > len(rows):
            click.echo(f"and {len(runs) - len(rows)} more rows: --all shows them")
        click.echo()
        self._show_holders(everything)

    def _runs(self) -> list[list[FileDiagnosis]]:
        """Files that follow each other and are kept in the same way share a row."""

        def kind(file: FileDiagnosis) -> tuple[object, ...]:
            if file.current and not file.held and not file.subscriptions and not file.transactions:
                return ("current", file.number in self.found.compacted)
            if file.for_itself and not file.removable:
                return (file.number,)
            return file.removable, tuple(self.diagnosis.roots(file.number))

        return [list(run) for _, run in groupby(self.diagnosis.files.values(), kind)]

    def _row(self, run: list[FileDiagnosis]) -> tuple[object, ...]:
        first, last = run[0].number, run[-1].number
        label = f"db-{first}.log" if first == last else f"db-{first} to {last} ({len(run)})"
        return (
            label,
            size(sum(file.bytes for file in run)),
            size(sum(file.live_bytes for file in run)),
            sum(file.messages for file in run),
            self._why(run),
        )

    def _roots(self, file: FileDiagnosis) -> str:
        roots = [self.names[holder] for holder in self.diagnosis.roots(file.number)]
        if not roots:
            return "the broker itself"
        return ", ".join(roots[:3]) + (f" and {len(roots) - 3} more" if len(roots) > 3 else "")

    def _why(self, run: list[FileDiagnosis]) -> str:
        file = run[0]
        if len(run) > 1 and not file.for_itself and not file.removable:
            return f"acknowledgements, in the end for messages of {self._roots(file)}"
        if file.removable:
            return "nothing: the next cleanup removes it"
        told = []
        held = sorted(file.held.items(), key=lambda one: -one[1].bytes)
        for destination, one in held[:3]:
            since = _since(self._age_s(one.first.location))
            told.append(f"{count_of(one.messages, 'message')} of {destination}{since}")
        if len(held) > 3:
            told.append(f"{count_of(sum(one.messages for _, one in held[3:]), 'message')} of {len(held) - 3} others")
        for span in file.transactions[:3]:
            kind = "prepared transaction" if span.prepared else "open transaction"
            told.append(f"{kind} {_holder(span.transaction_id)}{_since(self._age_s(span.first))}")
        if len(file.transactions) > 3:
            told.append(f"{len(file.transactions) - 3} more transactions")
        if file.subscriptions:
            shown = ", ".join(f"{one.key} of {one.destination}" for one in file.subscriptions[:3])
            more = f" and {len(file.subscriptions) - 3} more" if len(file.subscriptions) > 3 else ""
            told.append(f"the record of durable subscription {shown}{more}")
        if file.current and file.number in self.found.compacted:
            told.append("the broker: copies of acknowledgements, behind the file that it writes")
        elif file.current:
            told.append("the broker, which writes here or has just written")
        elif file.audit or file.ack_map:
            told.append("the broker's own records")
        if not told:
            way = " ← ".join(f"db-{number}.log" for number in file.chain[:6])
            more = " ← …" if len(file.chain) > 6 else ""
            told.append(f"acknowledgements for {way}{more}, kept for {self._roots(file)}")
        return "; ".join(told)

    def _show_holders(self, everything: bool) -> None:
        diagnosis = self.diagnosis
        rows = []
        for holder, freed in diagnosis.holders.items():
            held = self._held(holder)
            rows.append(
                (
                    self.names[holder],
                    held.messages,
                    size(held.bytes),
                    held.files,
                    _age(held.age_s()) or "-",
                    _freed(freed),
                )
            )
            if len(rows) == _ROWS_MAX and not everything:
                break
        titles = ("HOLDER", "MESSAGES", "BYTES", "IN FILES", "OLDEST", "ITS END FREES")
        print_table(titles, rows, empty="nobody holds anything")
        if len(diagnosis.holders) > len(rows):
            click.echo(f"and {len(diagnosis.holders) - len(rows)} more: --all shows them")
        if rows:
            click.echo(
                f"Without any of them {count_of(len(diagnosis.everything.files), 'file')} would go,"
                f" {size(diagnosis.everything.bytes)}."
            )
        if diagnosis.later:
            click.echo(f"{count_of(len(diagnosis.later), 'file')} will go with later cleanups, without that.")

    def _held(self, holder: Holder) -> _Holding:
        spans = [span for span in self.pins.transactions if span.transaction_id == holder]
        if spans:
            transaction = {**self.found.state.prepared, **self.found.state.unfinished}[spans[0].transaction_id]
            files = {place.file for place in transaction.operations}
            total = sum(place.size for place in transaction.operations)
            first = spans[0].first
            return _Holding(len(transaction.added), total, len(files), lambda: self._age_s(first))
        held = [
            file.held[holder]
            for file in self.diagnosis.files.values()
            if isinstance(holder, Destination) and holder in file.held
        ]
        oldest = min(held, key=lambda one: one.first.order, default=None)
        return _Holding(
            sum(one.messages for one in held),
            sum(one.bytes for one in held),
            len(held),
            lambda: None if oldest is None else self._age_s(oldest.first.location),
        )

    # -- for machines --------------------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        diagnosis = self.diagnosis
        return {
            "directory": str(self.found.directory),
            "running": self.found.running,
            "files": [self._file_json(file) for file in diagnosis.files.values()],
            "holders": [
                {
                    "holder": self.names[holder],
                    "messages": (held := self._held(holder)).messages,
                    "bytes": held.bytes,
                    "files": held.files,
                    "oldestAgeSeconds": held.age_s(),
                    "frees": freed.files,
                    "freesBytes": freed.bytes,
                }
                for holder, freed in diagnosis.holders.items()
            ],
            "everythingFrees": diagnosis.everything.files,
            "everythingFreesBytes": diagnosis.everything.bytes,
            "removableLater": list(diagnosis.later),
        }

    def _file_json(self, file: FileDiagnosis) -> dict[str, Any]:
        return {
            "file": file.number,
            "bytes": file.bytes,
            "liveBytes": file.live_bytes,
            "messages": file.messages,
            "removable": file.removable,
            "current": file.current,
            "destinations": [
                {
                    "destination": str(destination),
                    "messages": held.messages,
                    "bytes": held.bytes,
                    "firstMessageId": held.first.message_id,
                    "firstAgeSeconds": self._age_s(held.first.location),
                }
                for destination, held in file.held.items()
            ],
            "subscriptions": [{"destination": str(one.destination), "key": one.key} for one in file.subscriptions],
            "transactions": [_holder(span.transaction_id) for span in file.transactions],
            "audit": file.audit,
            "ackMap": file.ack_map,
            "acknowledges": list(file.acknowledges),
            "chain": list(file.chain),
            "heldFor": [self.names[holder] for holder in self.diagnosis.roots(file.number)],
        }


@dataclass(frozen=True, slots=True)
class _Holding:
    messages: int
    bytes: int
    files: int
    age_s: Callable[[], int | None]


def _holder(holder: Holder) -> str:
    return str(holder) if isinstance(holder, Destination) else transaction_text(holder)


def _freed(freed: Freed) -> str:
    return f"{count_of(len(freed.files), 'file')}, {size(freed.bytes)}" if freed.files else "nothing"


def _since(age_s: int | None) -> str:
    return "" if age_s is None else f" (the first is {_age(age_s)} old)"


def _age(age_s: int | None) -> str | None:
    if age_s is None:
        return None
    for seconds, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if age_s >= seconds:
            return f"{age_s / seconds:.1f} {unit}" if age_s < 10 * seconds else f"{age_s // seconds} {unit}"
    return f"{age_s} s"


# --- repair -----------------------------------------------------------------------------------------------------------


@kahadb.command("repair")
@DIRECTORY
@NEW_DIRECTORY
@_INDEX
@click.option("--journal-max-file-length", default="32mb", show_default=True, help="How long new files become.")
@JSON
def repair_(
    directory: Path, new_directory: Path, index_directory: Path | None, journal_max_file_length: str, as_json: bool
) -> int:
    """Write all that is live in the KahaDB store in DIRECTORY into NEW_DIRECTORY, which must not exist or be empty.

    DIRECTORY is only read; no broker may run on it. The new one has messages, durable subscriptions and prepared
    transactions, no index and no damage; start a broker on it. Exit code 0: nothing is lost, 1: something is, and it
    is listed; 2: it cannot be done; 3: a broker runs.

    \b
    Example:
        jdbcstore kahadb repair /var/lib/activemq/kahadb /var/lib/activemq/kahadb-new
    """
    options, _ = KahaDBOptions.from_activemq(
        {"journalMaxFileLength": journal_max_file_length, "preallocationScope": "NONE"}
    )
    report = repair(directory, new_directory, index_directory=index_directory, options=options)
    if as_json:
        print_json(asdict(report))
    else:
        besides = (
            count_of(report.subscriptions, "durable subscription"),
            count_of(report.prepared, "prepared transaction"),
        )
        print_repaired(new_directory, report.messages, besides, report.notes, report.lost)
    return 1 if report.lost else 0


# --- dump -------------------------------------------------------------------------------------------------------------


@kahadb.command()
@DIRECTORY
@click.option("--destination", help="Only records of this destination: queue://NAME or topic://NAME.")
@click.option("--file", "files", type=click.IntRange(min=0), multiple=True, help="Only db-N.log; may be repeated.")
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
    """Show the records of the journal in DIRECTORY (of a store or of its scheduler) as they stand there, and damage.

    \b
    Examples:
        jdbcstore kahadb dump /var/lib/activemq/kahadb --command AddMessage --limit 10
        jdbcstore kahadb dump /var/lib/activemq/kahadb --destination queue://ORDERS --bodies --json
    """
    wanted = None if destination is None else parse_destination(destination)
    kinds = kinds_of(commands)
    journal = open_journal(directory)
    unknown = [str(number) for number in files if number not in journal.files]
    if unknown:
        raise ConfigurationError(f"{directory} has no file db-{', db-'.join(unknown)}.log")
    print_lines(dump_lines(journal, files, kinds, wanted, bodies, as_json), limit)
