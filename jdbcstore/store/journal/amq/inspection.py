"""Is all of an AMQ store what it should be, what would its own broker make of it, and what fills it?

Every record and every live message is read; nothing is written, and no lock is taken.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from jdbcstore.errors import CodecError, ConfigurationError, JournalDamaged
from jdbcstore.store.journal.amq.adapter import is_amq_store, refuse_what_is_no_amq_store
from jdbcstore.store.journal.amq.decoding import message_of
from jdbcstore.store.journal.amq.store_journal import StoreJournal
from jdbcstore.store.journal.commands import AddMessage, UpdateMessage
from jdbcstore.store.journal.replay import Replay
from jdbcstore.store.journal.state import State

__all__ = ["FileUse", "Finding", "Inspection", "inspect"]

_REPAIR = "Stop the broker and run 'jdbcstore journal repair', or restore a backup."
_LISTED_MAX = 1000


class Finding(NamedTuple):
    """Something that is not as it should be."""

    kind: str
    """For machines; one word."""
    place: str
    what: str
    meaning: str
    """What follows from it."""
    advice: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}. {self.meaning} {self.advice}".rstrip()


class FileUse(NamedTuple):
    """What keeps a journal file."""

    file: str
    bytes: int
    live_bytes: int
    messages: int
    holders: dict[str, int]
    """Destinations and transactions, and how many messages of each stand in it."""
    acknowledges: list[str]
    """Files whose messages are acknowledged in it: without it they would come back."""


@dataclass(slots=True)
class Inspection:
    """What was found.

    Args:
        directory: of the store.
        files: their sizes by their names.
        records: how many of each kind.
        messages: live messages that were read.
        findings: what is wrong; at most 1000 of unreadable messages.
        notes: what is good to know, and no fault.
        uses: what keeps each file.
        state: what the journal comes to.
    """

    directory: Path
    files: dict[str, int]
    records: Counter[str]
    state: State
    messages: int = 0
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    uses: list[FileUse] = field(default_factory=list)

    def add(self, kind: str, place: object, what: str, meaning: str, advice: str) -> None:
        """Something is wrong."""
        if len(self.findings) < _LISTED_MAX:
            self.findings.append(Finding(kind, str(place), what, meaning, advice))

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "directory": str(self.directory),
            "format": "amq",
            "files": len(self.files),
            "bytes": sum(self.files.values()),
            "records": dict(self.records),
            "messages": self.messages,
            "findings": [one._asdict() for one in self.findings],
            "notes": self.notes,
            "uses": [one._asdict() for one in self.uses],
        }


def inspect(directory: Path | str, *, messages: bool = True) -> Inspection:
    """Look at everything.

    Args:
        directory: of the store, with ``journal`` in it.
        messages: whether live messages are unmarshalled.

    Raises:
        ConfigurationError: it is no AMQ store.
        StoreError: a file cannot be read.
    """
    directory = Path(directory)
    refuse_what_is_no_amq_store(directory)
    if not is_amq_store(directory):
        raise ConfigurationError(f"{directory} is no AMQ store: it holds no journal (journal/data-1, ...)")
    journal = StoreJournal(directory)
    records: Counter[str] = Counter()
    progress = Replay(journal.files)

    def counted() -> Any:
        for record in journal.records():
            records[type(record[1]).__name__] += 1
            yield record

    progress.apply(counted())
    corrections = journal.correct(progress)
    state = progress.finish()
    found = Inspection(directory, {path.name: path.stat().st_size for path in journal.files.values()}, records, state)
    _damages(found, journal)
    _reference_store(found, journal, len(corrections))
    _uses(found)
    if messages:
        _messages(found, journal)
    return found


def _damages(found: Inspection, journal: StoreJournal) -> None:
    last, lost = max(journal.files, default=0), journal.lost()
    for damage in lost:
        found.add(
            "lost",
            damage,
            "what stood there is lost",
            "A broker of that time has references that lead nowhere, or acknowledged messages again.",
            "Restore the file from a backup, or go on with what is left (jdbcstore migrate --skip-damage).",
        )
    for damage in [*journal.damages, *found.state.damages]:
        if damage in lost:
            continue
        if damage.at_the_end and damage.file == last:
            found.notes.append(f"{damage}: what was being written when the broker ended; it is cut off when one starts")
            continue
        found.add(
            "damage",
            damage,
            f"{damage.end - damage.offset} bytes are left out",
            "A broker that replays fails here, or reads what stands here as if nothing were wrong.",
            _REPAIR,
        )
    for place in journal.ends_early:
        behind = [number for number in journal.files if number > place.file]
        found.add(
            "ends-early",
            place,
            "zeros follow although there are later files",
            f"A broker that replays stops here and loses what stands in {len(behind)} files behind it; here they are"
            " read.",
            "Serve the directory with amq:DIRECTORY, or migrate it.",
        )


def _reference_store(found: Inspection, journal: StoreJournal, corrections: int) -> None:
    store = journal.reference_store
    place = store.directory
    if not store.is_there:
        found.add(
            "no-reference-store",
            place,
            "the state of the reference store is missing",
            "A broker takes that for a valid and empty store: it shows no messages, and its cleanup deletes journal"
            " files that hold them.",
            "Start no broker of that time on it, unless with forceRecoverReferenceStore=true; amq:DIRECTORY mends it.",
        )
    elif store.damage is not None:
        found.add("reference-store", place, store.damage, "Only the journal counts.", "amq:DIRECTORY mends it.")
    elif store.is_clean:
        found.notes.append("the reference store is clean: a broker starts without reading the journal")
    else:
        found.notes.append("the reference store is not clean: a broker reads the journal when it starts")
    if unreferred := sorted(journal.unreferred(found.state)):
        found.add(
            "emptied",
            place,
            f"live messages stand in {', '.join(f'data-{one}' for one in unreferred)}, which the reference store does"
            " not know: it was deleted, and a broker was started on it",
            "A broker does not show them, and its cleanup deletes these files; here they are there.",
            "Start no broker of that time on it, unless with forceRecoverReferenceStore=true; amq:DIRECTORY mends it.",
        )
    if corrections:
        found.notes.append(
            f"{corrections} durable subscriptions or prepared transactions are in the journal but have ended: only the"
            " reference store says so"
        )
    listed = {(info.client_id, info.subscription_name) for info, _ in store.subscriptions}
    here = {
        (one.info.client_id, one.info.subscription_name)
        for stored in found.state.destinations.values()
        for one in stored.subscriptions.values()
    }
    if store.is_there and not store.is_clean and (unlisted := here - listed):
        found.notes.append(
            f"{len(unlisted)} durable subscriptions stand in the journal and not in the reference store: if they were"
            " removed, a replay brings them back"
        )


def _uses(found: Inspection) -> None:
    live: dict[int, int] = defaultdict(int)
    holders: dict[int, Counter[str]] = defaultdict(Counter)
    for destination, stored in found.state.destinations.items():
        for message in stored.all():
            live[message.location.file] += message.location.size
            holders[message.location.file][str(destination)] += 1
    for xid, transaction in found.state.prepared.items():
        for _, _, location in transaction.added:
            live[location.file] += location.size
            holders[location.file][str(xid)] += 1
    for name, size in found.files.items():
        number = int(name.rpartition("-")[2])
        needed = sorted(found.state.ack_files.get(number, set()) & {one for one in live if live[one] and one != number})
        acknowledges = [f"data-{one}" for one in needed]
        uses = FileUse(name, size, live[number], holders[number].total(), dict(holders[number]), acknowledges)
        found.uses.append(uses)


def _messages(found: Inspection, journal: StoreJournal) -> None:
    places = sorted(
        (message.location, str(destination))
        for destination, stored in found.state.destinations.items()
        for message in stored.all()
    )
    owners = dict(places)
    for location, command in journal.read_many([location for location, _ in places]):
        found.messages += 1
        try:
            if isinstance(command, JournalDamaged):
                raise command
            add = command.message if isinstance(command, UpdateMessage) else command
            if not isinstance(add, AddMessage):
                raise JournalDamaged(f"a {type(command).__name__} in the place of a message")
            message_of(add)
        except (CodecError, JournalDamaged) as error:
            found.add(
                "unreadable",
                location,
                f"a message of {owners[location]} cannot be read: {error}",
                "A broker cannot deliver it.",
                _REPAIR,
            )
