"""Is a LevelDB directory what it should be, and what keeps its files. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from jdbcstore.errors import CodecError
from jdbcstore.store.journal.leveldb.log import LogScan, content, file_name
from jdbcstore.store.journal.leveldb.message_reader import MessageReader
from jdbcstore.store.journal.leveldb.records import QUEUE, SUBSCRIPTION, TOPIC, TRANSACTION
from jdbcstore.store.journal.leveldb.recovery import Recovered, recover
from jdbcstore.store.journal.leveldb.state import Collection, Place
from jdbcstore.store.journal.leveldb.varints import Malformed

__all__ = ["FileUse", "Inspection", "inspect", "units_of"]


@dataclass(slots=True)
class FileUse:
    """One file of the log.

    Args:
        file: its name.
        bytes: as long as it is.
        used_bytes: what stands in it.
        messages: how many live ones.
        live_bytes: theirs.
        holders: how many of each destination or transaction.
    """

    file: str
    bytes: int
    used_bytes: int
    messages: int = 0
    live_bytes: int = 0
    holders: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Inspection:
    """What was found.

    Args:
        uses: the files of the log, in their order.
        units, records: how many were replayed.
        messages: live ones that were read.
        findings: what is wrong.
        notes: what is worth knowing.
        destinations: how many messages each has.
        subscriptions: the topic and name of each, and up to which sequence it has acknowledged.
        in_doubt: transactions.
    """

    uses: list[FileUse] = field(default_factory=list)
    units: int = 0
    records: int = 0
    messages: int = 0
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    destinations: dict[str, int] = field(default_factory=dict)
    subscriptions: dict[str, int] = field(default_factory=dict)
    in_doubt: int = 0

    def as_json(self) -> dict[str, Any]:
        """For people's programs."""
        return asdict(self)


def inspect(directory: Path, log_directory: Path | None = None, *, messages: bool = True) -> Inspection:
    """Look at a directory.

    Args:
        directory: of the store.
        log_directory: of its log, if that is elsewhere.
        messages: whether each live message is read.

    Raises:
        ConfigurationError: it is no LevelDB store.
        StoreError: it cannot be read.
    """
    found = recover(directory, log_directory)
    state = found.state
    out = Inspection(units=state.units, records=state.records, findings=list(state.damages))
    out.notes = [remark for remark in state.remarks if remark not in state.damages]
    what = "everything in the log" if not found.is_from_index else f"the index up to {found.snapshot:#x}, and the log"
    out.notes.append(f"{what} was read; the log ends at position {found.end:#x}")
    by_base = {}
    for base, path in found.files.items():
        used = max(0, found.ends.get(base, base) - base)
        by_base[base] = FileUse(file_name(base), path.stat().st_size, used)
    out.uses = list(by_base.values())
    reader = MessageReader(found.log_directory, found.files)
    try:
        for one, name in _named(found):
            _count(out, one, name)
            for sequence, place in [*one.entries.items(), *one.displaced]:
                use = by_base.get(reader.base(place.location))
                if use is None:
                    out.findings.append(f"{name}, number {sequence}: its file of the log is gone")
                    continue
                use.messages += 1
                use.live_bytes += place.length
                use.holders[name] = use.holders.get(name, 0) + 1
                if messages:
                    _read(out, reader, place, f"{name}, number {sequence}")
    finally:
        reader.close()
    return out


def _named(found: Recovered) -> Iterator[tuple[Collection, str]]:
    for one in (*found.state.collections.values(), *found.state.displaced):
        if one.type in (QUEUE, TOPIC):
            yield one, one.name
        elif one.type == TRANSACTION:
            yield one, f"transaction of collection {one.key}"
        elif one.type == SUBSCRIPTION:
            try:
                record = one.subscription
            except Malformed:
                continue
            yield one, f"{record.destination_name} {record.client_id}:{record.subscription_name}"


def _count(out: Inspection, one: Collection, name: str) -> None:
    if one.type == TRANSACTION:
        out.in_doubt += 1
    elif one.type == SUBSCRIPTION:
        out.subscriptions[name] = one.position
    else:
        out.destinations[name] = out.destinations.get(name, 0) + len(one.entries) + len(one.displaced)


def _read(out: Inspection, reader: MessageReader, place: Place, what: str) -> None:
    try:
        reader.message(*place, 0)
        out.messages += 1
    except CodecError as error:
        out.findings.append(f"{what}: {error}")


def units_of(found: Recovered) -> Iterator[tuple[int, Any]]:
    """The units of work of all files as they stand there, with the positions of their files; and what is left out."""
    last = max(found.files, default=0)
    for base, path in found.files.items():
        with path.open("rb") as source:
            scan = LogScan(content(source), base, is_last=base == last)
        for unit in scan.units():
            yield base, unit
        for flaw in scan.flaws:
            yield base, flaw
