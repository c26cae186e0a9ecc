"""Directories of stores, damaged on purpose, and what may be found in them.

A mutation says which bytes of which files it touched. Whatever stands elsewhere tells what must be found: messages that
were there, and none that was acknowledged. What stands in touched bytes may be lost, or come back; nothing may be
found that was never there.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from jdbcstore.destination import Queue, Topic
from jdbcstore.message import Message
from jdbcstore.migration.contents import Contents
from jdbcstore.store.contract import Cursor, Page, PersistenceAdapter, SupportsTopics, SupportsTransactions

__all__ = ["OF", "Extent", "Lives", "Mutant", "Seen", "adapter_seen", "compare", "contents_seen", "mutated"]


class Extent(NamedTuple):
    """Bytes of a file, as it was before."""

    file: str
    start: int
    end: int


_TO_THE_END = 1 << 62
#: Between a topic and its subscription.
OF = "\0"


@dataclass(slots=True)
class Mutant:
    """A damaged copy.

    Args:
        directory: where it is.
        done: what was done to it, for people.
        touched: the bytes that were touched.
    """

    directory: Path
    done: list[str] = field(default_factory=list)
    touched: list[Extent] = field(default_factory=list)

    def is_touched(self, extent: Extent) -> bool:
        """Whether one of these bytes was."""
        return any(
            one.file == extent.file and one.start < extent.end and extent.start < one.end for one in self.touched
        )


def _flip(data: bytearray, at: int, chance: random.Random) -> tuple[int, int]:
    end = min(len(data), at + chance.choice((1, 1, 4, 60)))
    for o in range(at, end):
        data[o] ^= chance.randrange(1, 256)
    return at, end


def _zero(data: bytearray, at: int, chance: random.Random) -> tuple[int, int]:
    end = min(len(data), at + chance.choice((1, 20, 512, 4096, len(data))))
    data[at:end] = bytes(end - at)
    return at, end


def _cut(data: bytearray, at: int, chance: random.Random) -> tuple[int, int]:
    del data[at:]
    return at, _TO_THE_END


def _lose(data: bytearray, at: int, chance: random.Random) -> tuple[int, int]:
    """Bytes that are missing from the middle; all behind them moves."""
    del data[at : at + chance.randrange(1, 300)]
    return at, _TO_THE_END


def _zeros_behind(data: bytearray, at: int, chance: random.Random) -> tuple[int, int]:
    """As a file looks that was made long."""
    size = len(data)
    data += bytes(chance.randrange(1, 70_000))
    return size, _TO_THE_END


def _garbage_behind(data: bytearray, at: int, chance: random.Random) -> tuple[int, int]:
    size = len(data)
    data += chance.randbytes(chance.randrange(1, 300))
    return size, _TO_THE_END


_CHANGES: tuple[Callable[[bytearray, int, random.Random], tuple[int, int]], ...] = (
    _flip,
    _flip,
    _zero,
    _cut,
    _lose,
    _zeros_behind,
    _garbage_behind,
)


def mutated(source: Path, target: Path, chance: random.Random, wanted: Callable[[Path], bool]) -> Mutant:
    """A copy of a directory with one to three things done to it.

    Args:
        source: the directory.
        target: of the copy.
        chance: decides.
        wanted: which files are touched, by their paths in the directory.
    """
    shutil.copytree(source, target)
    mutant = Mutant(target)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        files = sorted(one for one in target.rglob("*") if one.is_file() and wanted(one.relative_to(target)))
        if not files:
            break
        path = chance.choice(files)
        name = str(path.relative_to(target))
        what = chance.randrange(12)
        if what == 0:
            path.unlink()
            mutant.done.append(f"{name} removed")
            mutant.touched.append(Extent(name, 0, _TO_THE_END))
        elif what == 1:
            path.write_bytes(b"")
            mutant.done.append(f"{name} emptied")
            mutant.touched.append(Extent(name, 0, _TO_THE_END))
        elif what == 2:
            copy = path.with_name(chance.choice((f"{path.name}.bak", f"{path.name} (1)", f"copy of {path.name}")))
            shutil.copyfile(path, copy)
            mutant.done.append(f"{name} copied to {copy.name}")
        else:
            data = bytearray(path.read_bytes())
            if not data:
                continue
            change = chance.choice(_CHANGES)
            used = len(data.rstrip(b"\0")) or len(data)
            start, end = change(data, chance.randrange(used), chance)
            path.write_bytes(data)
            mutant.done.append(f"{name} {change.__name__} {start}-{end if end < _TO_THE_END else ''}")
            mutant.touched.append(Extent(name, start, end))
    return mutant


Waits = tuple[str, str]
"""A message of a destination, or of one of its durable subscriptions: where it waits, and its id."""


@dataclass(slots=True)
class Seen:
    """What is found in a store: what waits where, in order, with the bodies; and transactions in doubt."""

    waiting: dict[str, dict[str, bytes]] = field(default_factory=dict)
    in_doubt: set[str] = field(default_factory=set)
    damages: list[str] = field(default_factory=list)

    def add(self, where: str, message: Message) -> None:
        """A message waits here."""
        self.waiting.setdefault(where, {})[str(message.message_id)] = bytes(message.content or b"")


def contents_seen(contents: AbstractContextManager[Contents]) -> Seen:
    """What a migration would read."""
    seen = Seen()
    with contents as found:
        for stored in found.messages():
            if stored.destination.is_topic:
                for key in stored.waiting:
                    seen.add(f"{stored.destination}{OF}{key.client_id}:{key.subscription_name}", stored.message)
            else:
                seen.add(str(stored.destination), stored.message)
        for one in found.prepared():
            seen.in_doubt.add(str(one.transaction_id))
        seen.damages = list(found.damages.listed)
    return seen


def adapter_seen(adapter: PersistenceAdapter) -> Seen:
    """What consumers of a started store would get."""
    seen = Seen()
    for destination in adapter.destinations():
        if isinstance(destination, Topic):
            assert isinstance(adapter, SupportsTopics)
            topic = adapter.topic_message_store(destination)
            for info in topic.all_subscriptions():
                where = f"{destination}{OF}{info.key.client_id}:{info.key.subscription_name}"
                _pages(seen, where, partial(topic.recover_next_subscription_messages, info.key))
        else:
            assert isinstance(destination, Queue)
            _pages(seen, str(destination), adapter.queue_message_store(destination).recover_next_messages)
    assert isinstance(adapter, SupportsTransactions)
    for one in adapter.transaction_store().prepared_transactions():
        seen.in_doubt.add(str(one.transaction_id))
    return seen


def _pages(seen: Seen, where: str, read: Callable[[Cursor, int, int], Page]) -> None:
    cursor = Cursor()
    while True:
        page = read(cursor, 1000, 1 << 24)
        seen.damages += [f"{where}, number {number}: {error}" for number, error in page.unreadable]
        for message in page.messages:
            seen.add(where, message)
        if page.cursor == cursor:
            return
        cursor = page.cursor


@dataclass(slots=True)
class Lives:
    """What the records of a sound directory say of each message that ever was.

    Args:
        born: where a message of a destination stands, and what it needs to be there.
        ended: what says of a message, at a destination or for a subscription, that it is acknowledged.
        uncertain: what subscriptions and destinations as a whole depend on.
    """

    born: dict[Waits, list[Extent]] = field(default_factory=dict)
    ended: dict[Waits, list[Extent]] = field(default_factory=dict)
    uncertain: dict[str, list[Extent]] = field(default_factory=dict)


def compare(before: Seen, lives: Lives, mutant: Mutant, found: Seen, *, loses: bool = False) -> list[str]:
    """What is wrong with what was found.

    Args:
        before: what the sound directory has.
        lives: of its messages.
        mutant: what was done.
        found: in the damaged one.
        loses: whether messages may be missing that stand in sound places.
    """
    wrong: list[str] = []
    for where, messages in found.waiting.items():
        destination = where.partition(OF)[0]
        for one, body in messages.items():
            born = lives.born.get((destination, one))
            if born is None:
                wrong.append(f"invented: {where} {one}")
                continue
            is_touched = any(map(mutant.is_touched, born))
            was = before.waiting.get(where, {}).get(one)
            if was is not None:
                if was != body and not is_touched:
                    wrong.append(f"another body: {where} {one}")
                continue
            ends = [*lives.ended.get((where, one), ()), *lives.uncertain.get(where, ())]
            ends += lives.uncertain.get(destination, ()) if where != destination else ()
            if not any(map(mutant.is_touched, ends)):
                wrong.append(f"came back: {where} {one}")
    if loses:
        return wrong
    for where, messages in before.waiting.items():
        destination = where.partition(OF)[0]
        if any(map(mutant.is_touched, [*lives.uncertain.get(where, ()), *lives.uncertain.get(destination, ())])):
            continue
        there = found.waiting.get(where, {})
        wrong += [
            f"lost: {where} {one}"
            for one in messages
            if one not in there and not any(map(mutant.is_touched, lives.born[destination, one]))
        ]
        order = [one for one in there if one in messages]
        kept = [one for one in messages if one in there]
        if order != kept and not any(
            map(mutant.is_touched, [extent for one in kept for extent in lives.born[destination, one]])
        ):
            wrong.append(f"another order: {where}")
    return wrong
