"""``jdbcstore kahadb check``: is all of a KahaDB directory what it should be, what would a broker make of it?

Every checksum, every record and every live message is read; the index is compared with what the journals tell. Nothing
is written, and no lock is taken. While a broker runs, what it has not written yet is no damage: the end of the last
file and what the index does not say yet are left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError, IndexDamaged, JournalDamaged
from jdbcstore.message import Message
from jdbcstore.store.journal.commands import AddMessage, AddScheduledJob, RemoveMessage, Rollback, UpdateMessage
from jdbcstore.store.journal.index import FILE_NAME as OURS
from jdbcstore.store.journal.kahadb.journal import KahaDBLocation, Location, file_number
from jdbcstore.store.journal.kahadb.pagefile import IndexDestination, IndexMessage, IndexPlace, PageFile
from jdbcstore.store.journal.kahadb.survey import Survey, survey
from jdbcstore.store.journal.state import State, StoredDestination, StoredMessage

__all__ = ["CheckReport", "Finding", "check", "message_problem"]

#: More findings of one kind are counted, not listed.
LISTED_MAX: Final = 1000

_NO_MEANING: Final = ""


class Finding(NamedTuple):
    """Something that is not as it should be."""

    kind: str
    """For machines; one word."""
    place: str
    """A file, mostly with an offset."""
    what: str
    meaning: str
    """What follows from it."""
    advice: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}. {self.meaning} {self.advice}".rstrip()


@dataclass(slots=True)
class CheckReport:
    """What was found.

    Args:
        findings: what is wrong; at most `LISTED_MAX` of a kind.
        unlisted: how many more there are, by kind.
        notes: what is good to know, and no fault.
        messages: live messages that were read.
    """

    survey: Survey
    findings: list[Finding] = field(default_factory=list)
    unlisted: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    messages: int = 0
    _listed: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, place: object, what: str, meaning: str, advice: str) -> None:
        """Something is wrong."""
        self._listed[kind] += 1
        if self._listed[kind] <= LISTED_MAX:
            self.findings.append(Finding(kind, str(place), what, meaning, advice))
        else:
            self.unlisted[kind] += 1

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        index = self.survey.index
        return {
            "directory": str(self.survey.directory),
            "running": self.survey.running,
            "holder": self.survey.holder,
            "files": len(self.survey.sizes),
            "bytes": sum(self.survey.sizes.values()),
            "records": {cls.__name__: count for cls, count in self.survey.commands.items()},
            "messages": self.messages,
            "index": None
            if index is None
            else {
                "version": index.version,
                "openWireVersion": index.openwire_version,
                "closedCleanly": index.closed_cleanly,
                "lastUpdate": None if index.last_update is None else str(index.last_update),
            },
            "findings": [finding._asdict() for finding in self.findings],
            "unlisted": dict(self.unlisted),
            "notes": self.notes,
        }


_REPAIR: Final = "Stop the broker and run 'jdbcstore kahadb repair', or restore a backup."
_REBUILD: Final = "Stop the broker, keep a copy, delete db.data, db.redo and db.free, and start it."


def check(directory: Path | str, *, index_directory: Path | str | None = None, messages: bool = True) -> CheckReport:
    """Look at everything.

    Args:
        directory: where the journal is.
        index_directory: where ``db.data`` is, if not there.
        messages: whether live messages are unmarshalled; without, their contents are not looked at.

    Raises:
        ConfigurationError: it is no KahaDB directory.
        StoreError: a file cannot be read.
    """
    comparison = _Comparison()
    found = survey(directory, index_directory=index_directory, at_last_update=comparison.compare)
    with found:
        report = CheckReport(found)
        _about_the_broker(report)
        _files(report)
        _damages(report)
        _rebuild(report)
        _index(report)
        comparison.tell(report)
        _transactions(report)
        _subscriptions(report)
        if messages:
            _messages(report)
    return report


def _about_the_broker(report: CheckReport) -> None:
    holder = report.survey.holder
    if holder is None:
        report.notes.append("whether a broker runs cannot be told here")
    elif report.survey.running:
        who = "somebody" if holder < 0 else f"process {holder}"
        report.notes.append(
            f"a broker runs ({who} holds the lock): nothing is changed; what it is just writing is no damage,"
            " and its index is not compared, because it changes meanwhile"
        )


# --- files and damage -------------------------------------------------------------------------------------------------


def _files(report: CheckReport) -> None:
    found = report.survey
    gaps = [
        f"{before + 1}" if after == before + 2 else f"{before + 1} to {after - 1}"
        for before, after in pairwise(found.sizes)
        if after > before + 1
    ]
    if gaps:
        shown = ", ".join(gaps[:20]) + (f" and {len(gaps) - 20} more" if len(gaps) > 20 else "")
        report.notes.append(f"files {shown} are not there: a broker deletes files that it needs no more")
    unused = [f"db-{number}.log" for number, end in found.ends.items() if not end]
    unused += sorted(
        path.name
        for path in found.directory.iterdir()
        if file_number(path.name) is not None and file_number(path.name) not in found.sizes
    )
    damaged = {damage.file for damage in found.state.damages}
    unused = [name for name in unused if file_number(name) not in damaged]
    if unused:
        report.notes.append(f"{', '.join(unused)}: no record in it (made ahead, or not used yet)")
    if found.commands[AddScheduledJob]:
        report.notes.append("this is the store of a scheduler: its records are checked, and not the messages in them")
    left = sorted(path.name for path in found.directory.glob("tx-*.tmp"))
    if left and not found.running:
        report.notes.append(f"{', '.join(left)}: left over from a crash, may be deleted")


def _damages(report: CheckReport) -> None:
    found = report.survey
    # Files behind it are made ahead.
    last = max([number for number, end in found.ends.items() if end] + [one.file for one in found.state.damages] + [0])
    for damage in found.state.damages:
        place = f"{KahaDBLocation(damage.file, damage.offset, 0)}"
        if damage.file == last and damage.at_the_end:
            if found.running:
                report.notes.append(f"{place}: the broker is writing here")
                continue
            report.add(
                "torn-end",
                place,
                damage.what,
                "The broker was killed while it wrote; nobody was told that this is stored.",
                "It is overwritten when the broker starts"
                " (with checkForCorruptJournalFiles it refuses unless ignoreMissingJournalfiles is set, too).",
            )
        elif not damage.what.startswith(("a batch", "no batch")):
            report.add(
                "record",
                place,
                damage.what,
                "A broker that rebuilds its index does not start,"
                " or with ignoreMissingJournalfiles leaves out the rest of the batch.",
                _REPAIR,
            )
        else:
            report.add(
                "batch",
                place,
                f"{damage.what} ({damage.end - damage.offset} bytes)",
                "A broker delivers what stands here unchecked; with checkForCorruptJournalFiles it refuses to start, or"
                " with ignoreMissingJournalfiles, too, leaves the batch out: its messages are lost, and what it"
                " acknowledges is delivered again.",
                _REPAIR,
            )
    if found.state.damages_unlisted:
        report.unlisted["batch"] += found.state.damages_unlisted


# --- what a broker would make of it -----------------------------------------------------------------------------------


def _counted(where: Iterable[tuple[Destination, str]]) -> str:
    counts = Counter(str(destination) for destination, _ in where)
    return ", ".join(f"{count} of {name}" for name, count in counts.most_common(10))


def _rebuild(report: CheckReport) -> None:
    state = report.survey.state
    keep = "Do not delete the index. Consume what is there, or run 'jdbcstore kahadb repair' on the stopped store."
    for lost in state.lost_by_broker:
        told = [f"loses {_counted(lost.messages)}"] if lost.messages else []
        told += [f"delivers {_counted(lost.acknowledged)} again"] if lost.acknowledged else []
        told += [f"misses {lost.others} changes of subscriptions and destinations"] if lost.others else []
        report.add(
            "skipped-file",
            lost.marker,
            f"new records stand behind the copies of an ack compaction of db-{lost.source}.log",
            f"A broker that rebuilds its index {' and '.join(told)}.",
            keep,
        )
    if state.revived_by_broker:
        report.add(
            "revived",
            report.survey.directory,
            "acknowledgements were separated from the commit of their transaction by a compaction",
            f"A broker that rebuilds its index delivers {_counted(state.revived_by_broker)} again.",
            keep,
        )
    if state.perhaps_acknowledged:
        report.add(
            "perhaps-acknowledged",
            report.survey.directory,
            "messages were acknowledged in transactions whose end is not in the journal any more",
            f"Without the index nobody can tell whether {_counted(state.perhaps_acknowledged)} are consumed.",
            "Do not delete the index.",
        )


# --- the index --------------------------------------------------------------------------------------------------------


def _index(report: CheckReport) -> None:
    found = report.survey
    if found.index_error is not None and not found.running:
        report.add(
            "index",
            "db.data",
            str(found.index_error),
            "A broker rebuilds its index from the journal.",
            "Nothing, unless other findings say what a rebuild loses.",
        )
    index = found.index
    if index is None:
        if (found.directory / OURS).exists():
            report.notes.append(f"the index ({OURS}) is one of jdbcstore and not compared with the journal")
        elif found.index_error is None:
            report.notes.append("there is no index (db.data): a broker rebuilds it from the journal")
        return
    if not index.closed_cleanly and not found.running:
        report.notes.append(
            f"the index was not closed: it goes up to {index.last_update}, the broker applies the rest when it starts"
        )
    last = index.last_update
    if (
        last is not None
        and not found.running
        and (last.file not in found.sizes or last.offset >= found.ends[last.file])
    ):
        report.add(
            "index-ahead",
            "db.data",
            f"its last record, {last}, is not in the journal",
            "The end of the journal was lost. A broker takes messages that stood there out of its index.",
            "Restore the journal from a backup if these messages matter.",
        )
    acks, problem = found.acks()
    if problem is not None and not found.running:
        report.add(
            "ack-map",
            "db.data",
            f"its map of acknowledgements cannot be read: {problem}",
            "A broker reads the whole journal once when it starts, and makes a new one.",
            "",
        )
    missing = sorted({file for one in ({*acks}, *acks.values()) for file in one} - set(found.sizes))
    if missing and not found.running:
        report.add(
            "missing-file",
            ", ".join(f"db-{file}.log" for file in missing[:50]),
            "acknowledgements of this file, or for messages in it, are in the index, and it does not exist",
            "A broker refuses to start; with ignoreMissingJournalfiles it goes on, and messages whose acknowledgements"
            " are lost may be delivered again when the index is rebuilt.",
            "Restore the file from a backup, or start the broker once with ignoreMissingJournalfiles=true.",
        )


@dataclass(slots=True)
class _Difference:
    """What index and journal say differently of one destination."""

    only_index: list[IndexMessage] = field(default_factory=list)
    only_journal: list[StoredMessage] = field(default_factory=list)
    moved: list[tuple[IndexMessage, StoredMessage]] = field(default_factory=list)
    order: tuple[str, str] | None = None
    subscriptions: list[tuple[str, str]] = field(default_factory=list)


class _Comparison:
    """The index against what the journals tell up to the same record."""

    def __init__(self) -> None:
        self._differences: dict[Destination, _Difference] = {}
        self._missing: Counter[tuple[int, Destination]] = Counter()
        self._error: IndexDamaged | None = None

    def compare(self, found: Survey, index: PageFile, state: State) -> None:
        """Note all differences; what they mean is told later, by the whole journal."""
        if found.running:
            return
        left = set(state.destinations)
        try:
            for destination in index.destinations():
                left.discard(destination.destination)
                stored = state.destinations.get(destination.destination) or StoredDestination(destination.destination)
                difference = self._messages(found, destination, stored)
                self._subscriptions(difference, destination, stored)
                if difference != _Difference():
                    self._differences[destination.destination] = difference
        except IndexDamaged as error:
            self._error = error
            return
        for name in left:
            stored = state.destinations[name]
            if len(stored) or stored.subscriptions:
                difference = self._differences[name] = _Difference(only_journal=stored.messages())
                difference.subscriptions += [(key, "is not in the index") for key in stored.subscriptions]

    def _messages(self, found: Survey, destination: IndexDestination, stored: StoredDestination) -> _Difference:
        difference = _Difference()
        known = stored.messages()
        place = common = 0
        for message in destination.messages():
            if message.location.file not in found.sizes:
                self._missing[message.location.file, destination.destination] += 1
                continue
            if place < len(known) and known[place].message_id == message.message_id:
                other: StoredMessage | None = known[place]
                place += 1
            else:
                other = stored.get(message.message_id)
                if other is not None and difference.order is None and place < len(known):
                    difference.order = message.message_id, known[place].message_id
            if other is None:
                difference.only_index.append(message)
                continue
            common += 1
            if other.location[:2] != message.location[:2] or other.tier != message.tier:
                difference.moved.append((message, other))
        if common < len(known):
            ids = {message.message_id for message in destination.messages()}
            difference.only_journal = [message for message in known if message.message_id not in ids]
        if difference.only_index or difference.only_journal or difference.moved:
            difference.order = None
        return difference

    def _subscriptions(self, difference: _Difference, destination: IndexDestination, stored: StoredDestination) -> None:
        theirs = destination.subscriptions
        told = difference.subscriptions
        told += [(key, "is not in the index") for key in stored.subscriptions if key not in theirs]
        for key, subscription in theirs.items():
            ours = stored.subscriptions.get(key)
            if ours is None:
                told.append((key, "is in the index only"))
                continue
            if subscription.location is not None and ours.location[:2] != subscription.location:
                told.append((key, f"stands at {ours.location}, and the index says {subscription.location}"))
            waiting = {message.message_id for message in stored.pending(ours)}
            indexed = {
                message.message_id for message in destination.messages() if message.sequence in subscription.pending
            }
            if waiting != indexed:
                told.append(
                    (
                        key,
                        f"waits for {len(indexed - waiting)} messages in the index alone,"
                        f" and for {len(waiting - indexed)} in the journal alone",
                    )
                )

    def tell(self, report: CheckReport) -> None:
        """Say what is wrong, now that the journal was read to its end."""
        found = report.survey
        if self._error is not None:
            report.add(
                "index",
                "db.data",
                str(self._error),
                "A broker fails when it meets this, or rebuilds its index from the journal.",
                _REBUILD,
            )
        for (file, destination), count in self._missing.items():
            report.add(
                "missing-file",
                f"db-{file}.log",
                f"the file does not exist, and {count} messages of {destination} stand in it",
                "They are lost. A broker refuses to start; with ignoreMissingJournalfiles it drops them.",
                "Restore the file from a backup, or start the broker once with ignoreMissingJournalfiles=true.",
            )
        old = found.index is not None and not found.index.closed_cleanly
        for destination, difference in self._differences.items():
            _tell_messages(report, destination, difference, old=old)
            if not old:
                _tell_order(report, destination, difference)


def _tell_messages(report: CheckReport, destination: Destination, difference: _Difference, *, old: bool) -> None:
    """Say which messages are elsewhere, or not at all; not what the index of a killed broker (`old`) has to be behind
    with."""
    found = report.survey
    final = found.state.destinations.get(destination)
    # A killed broker may have written a part of its index that is younger than the record that it names.
    settled = old and final is not None and final.get
    for message in difference.only_index:
        if settled and settled(message.message_id) is not None:
            continue
        if old and found.index is not None and _is_behind(message, found.index.last_update):
            continue
        report.add(
            "index-only",
            message.location,
            f"{message.message_id} of {destination} is in the index, and the journal says that it is not there",
            "A broker delivers it; after a rebuild of the index it is gone.",
            _REPAIR if found.state.damages else _REBUILD,
        )
    for stored in difference.only_journal:
        if old and (final is None or final.get(stored.message_id) is None):
            continue
        report.add(
            "journal-only",
            stored.location,
            f"{stored.message_id} of {destination} is in the journal, and the index does not know it",
            "A broker does not deliver it before its index is rebuilt; or it was consumed, and its"
            " acknowledgement is lost: then a rebuild delivers it again.",
            "Keep the index unless you know that these messages are missing.",
        )
    for message, stored in difference.moved:
        now = None if final is None else final.get(message.message_id)
        if old and now is not None and now.location[:2] == message.location[:2]:
            continue
        report.add(
            "wrong-location",
            message.location,
            f"{message.message_id} of {destination} stands here for the index (priority tier"
            f" {message.tier.name.lower()}), and at {stored.location} for the journal"
            f" ({stored.tier.name.lower()})",
            "A broker delivers another message, or fails.",
            _REBUILD,
        )


def _tell_order(report: CheckReport, destination: Destination, difference: _Difference) -> None:
    """Say where messages come in another order, and what of durable subscriptions is different."""
    if difference.order is not None:
        first, second = difference.order
        report.add(
            "order",
            "db.data",
            f"{first} of {destination} comes before {second} in the index, and after it in the journal",
            "The order of messages changes when the index is rebuilt.",
            "",
        )
    for key, what in difference.subscriptions:
        report.add(
            "subscription",
            "db.data",
            f"durable subscription {key} of {destination} {what}",
            "After a rebuild of the index it is as the journal says.",
            "Keep the index unless you know that the journal is right.",
        )


def _is_behind(message: IndexMessage, last: IndexPlace | None) -> bool:
    return last is None or message.location[:2] > last


# --- transactions, subscriptions, messages ----------------------------------------------------------------------------


def _transactions(report: CheckReport) -> None:
    found = report.survey
    for transaction_id, transaction in found.state.prepared.items():
        for location, command in _commands(report, transaction.operations):
            if isinstance(command, RemoveMessage) and not command.ack:
                report.add(
                    "prepared",
                    location,
                    f"prepared transaction {transaction_id} acknowledges {command.message_id} without the bytes of it",
                    "A broker fails when it starts.",
                    _REPAIR,
                )
            elif isinstance(command, AddMessage):
                _message(report, location, command, f"prepared transaction {transaction_id}")
        for destination, message_id, _ in transaction.acknowledged:
            stored = found.state.destinations.get(destination)
            if stored is None or stored.get(message_id) is None:
                report.add(
                    "prepared",
                    transaction.operations[0],
                    f"prepared transaction {transaction_id} acknowledges {message_id} of {destination}, and that is"
                    " not there",
                    "The message is lost, or was consumed otherwise; a commit changes nothing.",
                    "",
                )
    for branch in found.branches:
        is_over = isinstance(branch, Rollback)
        report.add(
            "prepared",
            found.directory,
            f"the record that {'rolled back' if is_over else 'prepared'} the transaction {branch.transaction} is gone"
            " with a file that an ack compaction has copied; only the index tells of it",
            f"A broker that {'rebuilds its index has it in doubt again' if is_over else 'starts forgets it'}.",
            "Do not delete the index; a start of jdbcstore, or 'jdbcstore kahadb repair', writes it again.",
        )
    if found.state.prepared:
        report.notes.append(
            f"{len(found.state.prepared)} prepared transactions wait for the decision of their transaction manager"
        )
    if found.state.unfinished and not found.running:
        report.notes.append(
            f"{len(found.state.unfinished)} transactions were not ended: a broker that starts rolls them back"
        )


def _commands(report: CheckReport, locations: Iterable[Location]) -> Iterator[tuple[Location, Any]]:
    for location in locations:
        try:
            yield location, report.survey.journal.read(location)
        except JournalDamaged as error:
            report.add("record", location, str(error), _NO_MEANING, _REPAIR)


def _subscriptions(report: CheckReport) -> None:
    for destination, stored in report.survey.state.destinations.items():
        for key, subscription in stored.subscriptions.items():
            try:
                info = subscription.info
            except CodecError as error:
                what = f"the record of durable subscription {key} of {destination} cannot be read: {error}"
            else:
                if f"{info.client_id}:{info.subscription_name}" == key:
                    continue
                what = f"durable subscription {key} of {destination} says that it is"
                what += f" {info.client_id}:{info.subscription_name}"
            report.add("subscription", subscription.location, what, "A broker cannot bring it back.", _REPAIR)


def _messages(report: CheckReport) -> None:
    """Unmarshal every live message, file by file."""
    found = report.survey
    where = [
        (message.location, destination)
        for destination, stored in found.state.destinations.items()
        for message in stored.all()
    ]
    where.sort(key=lambda one: one[0])
    for location, command in found.journal.read_many(location for location, _ in where):
        destination = where[report.messages][1]
        report.messages += 1
        add = command.message if isinstance(command, UpdateMessage) else command
        if isinstance(add, AddMessage):
            _message(report, location, add, str(destination))
        elif isinstance(command, JournalDamaged):
            report.add("record", location, str(command), f"A message of {destination} cannot be read.", _REPAIR)


def _message(report: CheckReport, location: Location, add: AddMessage, owner: str) -> None:
    problem = message_problem(add)
    if problem is not None:
        report.add("message", location, f"a message of {owner}: {problem}", "A broker fails when it meets it.", _REPAIR)


def message_problem(add: AddMessage) -> str | None:
    """What is wrong with a stored message; None if nothing is."""
    try:
        message = add.unmarshal()
    except CodecError as error:
        return f"{add.message_id} cannot be read: {error}"
    if add.message_id not in _ids(message):
        return f"its id is {message.message_id}, and the record says {add.message_id}"
    return None


def _ids(message: Message) -> set[str]:
    found = message.message_id
    if found is None:
        return set()
    return {str(found), found.text_view or "", f"{found.producer_id}:{found.producer_sequence_id}"}
