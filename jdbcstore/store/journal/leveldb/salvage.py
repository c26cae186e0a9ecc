"""What the index knows of a log that is damaged.

The index has no checksums of its own meaning and may be old, so it only speaks of what the log does not: entries and
collections that no record mentions that can be read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from jdbcstore.store.journal.leveldb.index_reader import index_state
from jdbcstore.store.journal.leveldb.log import Unit
from jdbcstore.store.journal.leveldb.records import (
    ADD_COLLECTION,
    ADD_ENTRY,
    REMOVE_COLLECTION,
    REMOVE_ENTRY,
    SUBSCRIPTION,
    UPDATE_ENTRY,
    CollectionRecord,
    EntryRecord,
    removed_collection,
)
from jdbcstore.store.journal.leveldb.state import Collection, State
from jdbcstore.store.journal.leveldb.varints import Malformed

__all__ = ["Mentioned", "adopt", "forget_unknown"]


class Mentioned:
    """What records say something about: entries by collection and key, and collections."""

    def __init__(self) -> None:
        self.entries: set[tuple[int, bytes]] = set()
        self.collections: set[int] = set()

    def take(self, unit: Unit) -> None:
        """The records of a unit of work."""
        for kind, _, data in unit.records:
            if data is None:
                continue
            try:
                if kind in (ADD_ENTRY, REMOVE_ENTRY, UPDATE_ENTRY):
                    entry = EntryRecord.read(data)
                    self.entries.add((entry.collection, entry.key))
                elif kind == ADD_COLLECTION:
                    self.collections.add(CollectionRecord.read(data).key)
                elif kind == REMOVE_COLLECTION:
                    self.collections.add(removed_collection(data))
            except Malformed:  # the state has remarked it
                continue


def adopt(state: State, entries: dict[bytes, bytes], mentioned: Mentioned, bases: Sequence[int]) -> None:
    """Take what an index says and the log does not mention.

    Args:
        state: of the log.
        entries: of the index.
        mentioned: in the log.
        bases: positions of the files of the log; what stands before the first one is gone.
    """
    known = State()
    index_state(entries, known)
    taken = 0
    for key, one in known.collections.items():
        here = state.collections.get(key)
        if here is None:
            if key in mentioned.collections:
                continue  # it was removed
            here = state.collections[key] = Collection(key, one.type, one.meta)
        elif not here.meta:
            here.type, here.meta = one.type, one.meta
        if here.type != one.type or here.meta != one.meta:
            continue  # another one of this key
        here.last = max(here.last, one.last)
        if one.type == SUBSCRIPTION:
            here.position = max(here.position, one.position)
        for sequence, place in one.entries.items():
            is_there = bool(bisect_right(bases, place.location))
            if is_there and (key, sequence.to_bytes(8, "big")) not in mentioned.entries:
                here.entries.setdefault(sequence, place)
                taken += 1
        for sequence, ack in one.acks.items():
            if (key, sequence.to_bytes(8, "big")) not in mentioned.entries:
                here.acks.setdefault(sequence, ack)
    if taken:
        state.remark("salvaged", f"{taken} messages that the log does not tell of any more are known to its index")


def forget_unknown(state: State, entries: dict[bytes, bytes]) -> None:
    """Leave out what an index that is whole does not know any more: the records that removed it are damaged."""
    known = State()
    index_state(entries, known)
    gone = 0
    for key, one in list(state.collections.items()):
        there = known.collections.get(key)
        if there is None:
            gone += len(one.entries)
            del state.collections[key]
            continue
        for sequence in [sequence for sequence in one.entries if sequence not in there.entries]:
            del one.entries[sequence]
            gone += 1
        for sequence in [sequence for sequence in one.acks if sequence not in there.acks]:
            del one.acks[sequence]
    if gone:
        state.remark("salvaged", f"{gone} messages are gone, as the index says: what removed them cannot be read")
