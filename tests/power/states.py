"""Every state that a power failure could leave of what was recorded, or as many as there is time for.

The power fails at a moment of a trace. On the disk is what was there before the trace and what was forced; of the rest
any part may be. Only moments need a look at which something is about to be forced or noted: whatever could be left
between two of them could be left at the later one, too.

Where little is open, all its subsets are given, else some that are likely to show a mistake (none, all, one alone, all
but one, the first so many) and some by chance. The same seed gives the same states.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Final, TypeAlias

from tests.power.trace import (
    ROOT,
    Forced,
    Made,
    Node,
    Noted,
    Op,
    Removed,
    Renamed,
    Resized,
    Trace,
    Version,
    Wrote,
)

__all__ = ["State", "states"]

#: So many things that are open are tried in all combinations.
_ALL_SUBSETS: Final = 6
#: Else so many single ones, and so many combinations by chance.
_SINGLES: Final = 12
_BY_CHANCE: Final = 8


@dataclass
class State:
    """What is left.

    Args:
        moment: how many operations had begun.
        files: contents by path.
        folders: paths of directories.
        notes: what was noted until then.
    """

    moment: int
    files: dict[str, bytes]
    folders: list[str]
    notes: list[object]

    def write(self, folder: Path) -> None:
        """Make it so in an empty directory."""
        for path in self.folders:
            (folder / path).mkdir()
        for path, content in self.files.items():
            (folder / path).write_bytes(content)

    @property
    def digest(self) -> bytes:
        """The same for the same files and notes."""
        found = hashlib.sha256(repr((self.folders, len(self.notes))).encode())
        for path, content in sorted(self.files.items()):
            found.update(repr((path, len(content))).encode() + content)
        return found.digest()


@dataclass
class _Change:
    """Something that is on the disk, or not.

    Args:
        op: what was done, a sector of it if it is a write.
        needs: what has to be forced before it is on the disk for sure.
        is_lost: a force of it failed, and the system has forgotten it.
    """

    op: Op
    needs: set[Node]
    is_lost: bool = False

    @property
    def is_open(self) -> bool:
        return self.is_lost or bool(self.needs)


@dataclass
class _Files:
    """Files that somebody else writes: which versions there could be."""

    folder: Node
    versions: list[dict[str, bytes]] = field(default_factory=lambda: [{}])


_Choice: TypeAlias = tuple[list[_Change], list[tuple[_Files, dict[str, bytes]]]]


class _Disk:
    def __init__(self, trace: Trace, sector: int) -> None:
        self.files = {node: bytearray(content) for node, content in trace.files.items()}
        self.folders = {node: dict(names) for node, names in trace.folders.items()}
        self.changes: list[_Change] = []
        self.foreign: dict[tuple[Node, str], _Files] = {}
        self.notes: list[object] = []
        self._sector = sector

    @property
    def open(self) -> list[_Change]:
        return [change for change in self.changes if change.is_open]

    def do(self, op: Op) -> None:
        match op:
            case Made() | Removed():
                self.changes.append(_Change(op, {op.folder}))
            case Renamed():
                self.changes.append(_Change(op, {op.folder, op.new_folder}))
            case Resized():
                self.changes.append(_Change(op, {op.node}))
            case Wrote(node, offset, data):
                start = 0
                while start < len(data):
                    stop = min(len(data), start + self._sector - (offset + start) % self._sector)
                    self.changes.append(_Change(Wrote(node, offset + start, data[start:stop]), {node}))
                    start = stop
            case Forced():
                self._force(op)
            case Version():
                files = self.foreign.setdefault((op.folder, op.key), _Files(op.folder))
                files.versions = [op.files] if op.is_forced else [*files.versions, op.files]
            case Noted():
                self.notes.append(op.about)

    def _force(self, op: Forced) -> None:
        for change in self.changes:
            if op.node in change.needs:
                change.needs.discard(op.node)
                change.is_lost |= op.has_failed
        # What is for sure, and has nothing open before it, need not be kept apart.
        while self.changes and not self.changes[0].is_open:
            _apply(self.changes.pop(0).op, self.files, self.folders)

    def left(self, moment: int, chosen: Iterable[int], versions: Iterable[tuple[_Files, dict[str, bytes]]]) -> State:
        """What is left if so many of the open changes are on the disk."""
        taken = set(chosen)
        touched = {change.op.node for change in self.changes if isinstance(change.op, Wrote | Resized)}
        files = {node: bytearray(data) if node in touched else data for node, data in self.files.items()}
        folders = {node: dict(names) for node, names in self.folders.items()}
        for change in self.changes:
            if not change.is_open or id(change) in taken:
                _apply(change.op, files, folders)
        state = State(moment, {}, [], list(self.notes))
        places = {ROOT: ""}
        _walk(ROOT, "", files, folders, state, places)
        for foreign, content in versions:
            if foreign.folder in places:
                for name, data in content.items():
                    state.files[_below(places[foreign.folder], name)] = data
        return state


def _apply(op: Op, files: dict[Node, bytearray], folders: dict[Node, dict[str, Node]]) -> None:
    match op:
        case Made(folder, name, node):
            folders[folder][name] = node
        case Removed(folder, name):
            folders[folder].pop(name, None)
        case Renamed(folder, name, new_folder, new_name):
            node_or_none = folders[folder].pop(name, None)
            if node_or_none is not None:
                folders[new_folder][new_name] = node_or_none
        case Wrote(node, offset, data):
            image = files.setdefault(node, bytearray())
            if len(image) < offset:
                image.extend(bytes(offset - len(image)))
            image[offset : offset + len(data)] = data
        case Resized(node, size):
            image = files.setdefault(node, bytearray())
            del image[size:]
            image.extend(bytes(size - len(image)))


def _below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _walk(
    node: Node,
    path: str,
    files: dict[Node, bytearray],
    folders: dict[Node, dict[str, Node]],
    state: State,
    places: dict[Node, str],
) -> None:
    for name, one in folders[node].items():
        where = _below(path, name)
        if one in folders:
            state.folders.append(where)
            places[one] = where
            _walk(one, where, files, folders, state, places)
        else:
            state.files[where] = bytes(files.get(one, b""))


def states(
    trace: Trace, *, sector: int, seed: int = 0, with_none: bool = True, all_subsets: int = _ALL_SUBSETS
) -> Iterator[State]:
    """What a power failure could leave, each state once.

    Args:
        trace: what was done.
        sector: how many bytes the disk writes at once; a write is torn there.
        seed: of what is chosen by chance.
        with_none: whether files of somebody else may be gone altogether.
        all_subsets: how many open things are tried in all combinations.
    """
    chance = random.Random(seed)
    drive = _Disk(trace, sector)
    seen: set[bytes] = set()
    for moment, op in enumerate([*trace.ops, Noted(None)]):
        if isinstance(op, Forced | Noted) or (isinstance(op, Version) and op.is_forced):
            for state in _at(drive, moment, chance, with_none, all_subsets):
                if (digest := state.digest) not in seen:
                    seen.add(digest)
                    yield state
        drive.do(op)


def _at(drive: _Disk, moment: int, chance: random.Random, with_none: bool, all_subsets: int) -> Iterator[State]:
    open_ones = [id(change) for change in drive.open]
    foreign = list(drive.foreign.values())
    choices = [[{}, *one.versions] if with_none else one.versions for one in foreign]
    subsets = _subsets(open_ones, chance, all_subsets)
    for number, subset in enumerate(subsets):
        combinations = list(product(*choices))
        # All versions with some subsets, one of them with each.
        some = combinations if number < 2 else [chance.choice(combinations)]
        for combination in some:
            yield drive.left(moment, subset, zip(foreign, combination, strict=True))


def _subsets(open_ones: list[int], chance: random.Random, all_subsets: int) -> list[list[int]]:
    if len(open_ones) <= all_subsets:
        return [[one for bit, one in enumerate(open_ones) if mask >> bit & 1] for mask in range(1 << len(open_ones))]
    found: list[list[int]] = [[], open_ones]
    for one in chance.sample(open_ones, min(_SINGLES, len(open_ones))):
        found += [[one], [other for other in open_ones if other != one]]
        found.append(open_ones[: open_ones.index(one)])
    for _ in range(_BY_CHANCE):
        share = chance.random()
        found.append([one for one in open_ones if chance.random() < share])
    return found
