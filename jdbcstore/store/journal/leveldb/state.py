"""What the records of a log come to: collections and their entries.

**What ActiveMQ lost.** Its replay ends at the first record that removes a collection; then it goes on with what it has,
and gives numbers of entries and collections anew that the log has used already. So an entry whose key is there already,
with another message, is no replacement: the older message was lost to ActiveMQ, and is kept here beside it
(`Collection.displaced`). The same holds for a collection whose key is taken by another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from jdbcstore.store.journal.leveldb import trace_remarks
from jdbcstore.store.journal.leveldb.log import LogFlaw, Unit
from jdbcstore.store.journal.leveldb.records import (
    ACK_POSITION,
    ADD_COLLECTION,
    ADD_ENTRY,
    DATA,
    REMOVE_COLLECTION,
    REMOVE_ENTRY,
    SEQUENCE,
    SUBSCRIPTION,
    TOPIC,
    TRACE,
    TRANSACTION,
    UPDATE_ENTRY,
    CollectionRecord,
    EntryRecord,
    SubscriptionRecord,
    XaAck,
    plain_entry,
    removed_collection,
)
from jdbcstore.store.journal.leveldb.varints import Malformed, read_varint
from jdbcstore.store.journal.sequences import SequenceSet

__all__ = ["Collection", "Place", "State", "is_pending"]

#: The version of the meta of a queue's entry that holds a counter of deliveries.
_DELIVERIES: Final = 1
#: Remarks of one kind that are listed.
_LISTED_MAX: Final = 100


class Place(NamedTuple):
    """Where a message stands: the position of its data record, and the length of its data."""

    location: int
    length: int


@dataclass(slots=True)
class Collection:
    """A queue, a topic, a durable subscription, or a prepared transaction."""

    key: int
    type: int
    meta: bytes
    #: Of a queue, a topic or a transaction: messages by their sequences, in the order of the log.
    entries: dict[int, Place] = field(default_factory=dict)
    #: Of a transaction: what it removes and acknowledges, by its own numbers.
    acks: dict[int, XaAck] = field(default_factory=dict)
    #: Of a subscription: all of the topic up to here are acknowledged.
    position: int = 0
    #: Of a subscription: those behind it, acknowledged out of order.
    acked: SequenceSet = field(default_factory=SequenceSet)
    #: How often messages were delivered, by sequence.
    deliveries: dict[int, int] = field(default_factory=dict)
    #: The highest sequence ever.
    last: int = 0
    #: Whether acknowledgements of a transaction stand for themselves only.
    is_each: bool = False
    is_no_local: bool = False
    #: Of a transaction: where messages go that name another destination.
    targets: dict[int, str] = field(default_factory=dict)
    #: Messages whose sequences were given to others after ActiveMQ had lost them.
    displaced: list[tuple[int, Place]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Of a queue or a topic, its qualified name."""
        return self.meta.decode("utf-8", "surrogateescape")

    def places(self) -> list[Place]:
        """Where the messages stand that it refers to."""
        acked = [Place(one.location, one.length) for one in self.acks.values()]
        return [*self.entries.values(), *(place for _, place in self.displaced), *acked]

    @property
    def subscription(self) -> SubscriptionRecord:
        """Of a subscription. Raises `Malformed`."""
        return SubscriptionRecord.read(self.meta)


class State:
    """Collections by key, as units of work change them."""

    def __init__(self) -> None:
        self.collections: dict[int, Collection] = {}
        #: Collections whose keys others have now, because ActiveMQ had lost them.
        self.displaced: list[Collection] = []
        #: What a reader should know.
        self.remarks: list[str] = []
        #: What cannot be read although it should be; the remarks have it, too.
        self.damages: list[str] = []
        #: How far producers came, and when that was said.
        self.producers: dict[str, tuple[int, int]] = {}
        self.records = 0
        self.units = 0
        #: Where collections were removed, and how many units had been applied then: ActiveMQ's replay ends there.
        self.removals: list[tuple[int, int]] = []
        self._remarked: dict[str, int] = {}
        self._handlers: Final[dict[int, Callable[[int, bytes], None]]] = {
            ADD_COLLECTION: self._add_collection,
            REMOVE_COLLECTION: self._remove_collection,
            ADD_ENTRY: self._add_entry,
            UPDATE_ENTRY: self._update_entry,
            REMOVE_ENTRY: self._remove_entry,
            TRACE: self._trace,
        }

    def apply(self, unit: Unit) -> None:
        """Apply the records of a whole unit of work."""
        handlers = self._handlers
        self.units += 1
        self.records += len(unit.records)
        for kind, position, data in unit.records:
            if kind == DATA:
                continue
            assert data is not None
            try:
                handlers[kind](position, data)
            except Malformed as error:
                self.remark("malformed", f"position {position:#x}: a record of kind {kind} cannot be read: {error}")

    def remark(self, kind: str, text: str) -> None:
        """Something that a reader should know; many of one kind are counted."""
        count = self._remarked[kind] = self._remarked.get(kind, 0) + 1
        if count <= _LISTED_MAX:
            self.remarks.append(text)

    def damaged(self, kind: str, text: str) -> None:
        """Something that cannot be read although it should be."""
        self.remark(kind, text)
        self.damages.append(text)

    # -- collections ---------------------------------------------------------------------------------------------

    def _add_collection(self, position: int, data: bytes) -> None:
        record = CollectionRecord.read(data)
        known = self.collections.get(record.key)
        if known is not None:
            if known.type == record.type and known.meta == record.meta:
                return
            self.displaced.append(known)
            self.remark(
                "displaced",
                f"position {position:#x}: collection {record.key} is made again as another one: ActiveMQ had lost"
                f" {known.meta!r} with {len(known.entries)} messages in a replay that it did not finish",
            )
        self.collections[record.key] = Collection(*record)

    def _remove_collection(self, position: int, data: bytes) -> None:
        key = removed_collection(data)
        self.removals.append((position, self.units))
        self.collections.pop(key, None)

    def of(self, key: int, position: int) -> Collection:
        """The collection of a key, even if the record that made it is gone."""
        found = self.collections.get(key)
        if found is None:
            self.remark("unnamed", f"position {position:#x}: collection {key} is not named in the log any more")
            found = self.collections[key] = Collection(key, 0, b"")
        return found

    # -- entries -------------------------------------------------------------------------------------------------

    def _add_entry(self, position: int, data: bytes) -> None:
        plain = plain_entry(data)
        if plain is not None:
            key, sequence, location, length = plain
            collection = self.collections.get(key)
            if collection is not None and sequence not in collection.entries:
                collection.entries[sequence] = Place(location, length)
                if collection.last < sequence:
                    collection.last = sequence
                return
        record = EntryRecord.read(data)
        collection = self.collections.get(record.collection) or self.of(record.collection, position)
        self.put(collection, record, position)

    def put(self, collection: Collection, record: EntryRecord, position: int = 0, *, replaces: bool = False) -> None:
        """Take in an entry, from the log or from the index. Raises `Malformed`."""
        if record.key == ACK_POSITION:
            self._acknowledge(collection, record)
            return
        if len(record.key) != SEQUENCE.size:
            raise Malformed(f"an entry with the key {record.key!r}")
        sequence = int.from_bytes(record.key, "big")
        if collection.last < sequence:
            collection.last = sequence
        if record.location is None:
            if record.meta is None:
                raise Malformed("an entry that refers to nothing")
            collection.acks[sequence] = XaAck.read(record.meta)
            collection.type = collection.type or TRANSACTION
            return
        place = Place(record.location, record.length or 0)
        known = collection.entries.get(sequence)
        if known is not None and known.location != place.location and not replaces:
            collection.displaced.append((sequence, known))
            self.remark(
                "displaced entry",
                f"position {position:#x}: the number {sequence} of {collection.name or collection.key} is given again:"
                " ActiveMQ had lost the message that had it",
            )
        collection.entries[sequence] = place
        if record.meta is not None:
            self._count(collection, sequence, record.meta)

    def _count(self, collection: Collection, sequence: int, meta: bytes) -> None:
        version, o = read_varint(meta, 0)
        if version == _DELIVERIES:
            collection.deliveries[sequence] = read_varint(meta, o)[0]

    def _acknowledge(self, collection: Collection, record: EntryRecord) -> None:
        collection.type = collection.type or SUBSCRIPTION
        collection.position = record.location or 0

    def _update_entry(self, position: int, data: bytes) -> None:
        record = EntryRecord.read(data)
        self.put(self.of(record.collection, position), record, position, replaces=True)

    def _remove_entry(self, position: int, data: bytes) -> None:
        plain = plain_entry(data)
        if plain is not None:
            key, sequence, location, _ = plain
            collection = self.collections.get(key)
            found = None if collection is None else collection.entries.get(sequence)
            if collection is not None and found is not None and found[0] == location and not collection.deliveries:
                del collection.entries[sequence]
                return
        record = EntryRecord.read(data)
        collection = self.collections.get(record.collection)
        if collection is None:
            return
        sequence = int.from_bytes(record.key, "big")
        if collection.last < sequence:
            collection.last = sequence
        known = collection.entries.get(sequence)
        if known is not None and record.location is not None and known.location != record.location:
            # One of two that have had this number.
            collection.displaced = [
                one for one in collection.displaced if one != (sequence, Place(record.location, one[1].length))
            ]
            return
        collection.entries.pop(sequence, None)
        collection.acks.pop(sequence, None)
        collection.deliveries.pop(sequence, None)

    # -- our own remarks -----------------------------------------------------------------------------------------

    def _trace(self, position: int, data: bytes) -> None:
        try:
            self._take(trace_remarks.of_trace(data))
        except ValueError:
            self.remark("malformed", f"position {position:#x}: a remark that cannot be read")

    def _take(self, remark: tuple[str, str] | None) -> None:
        match remark:
            case "acked", about:
                key, _, numbers = about.partition(" ")
                if (found := self.collections.get(int(key))) is not None:
                    for first, last in trace_remarks.ranges_of(numbers):
                        found.acked.add(first, last)
            case "each", about:
                if (found := self.collections.get(int(about))) is not None:
                    found.is_each = True
            case "nolocal", about:
                if (found := self.collections.get(int(about))) is not None:
                    found.is_no_local = True
            case "to", about:
                key, number, name = about.split(" ", 2)
                if (found := self.collections.get(int(key))) is not None:
                    found.targets[int(number)] = name
            case "producer", about:
                number, at_ms, name = about.split(" ", 2)
                self.producers[name] = int(number), int(at_ms)
            case "producers", _:
                self.producers.clear()
            case "restored", _:
                self.displaced.clear()
                for one in self.collections.values():
                    one.displaced.clear()

    # -- the end -------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Everything was applied: messages of topics that nobody waits for are gone, as in ActiveMQ's `gc`."""
        positions: dict[int, list[Collection]] = {}
        for one in list(self.collections.values()):
            if one.type == SUBSCRIPTION:
                self._attach(one, positions)
        for one in self.collections.values():
            if one.type == TOPIC:
                subscriptions = positions.get(one.key, [])
                one.entries = {
                    sequence: place
                    for sequence, place in one.entries.items()
                    if any(is_pending(subscription, sequence) for subscription in subscriptions)
                }

    def _attach(self, subscription: Collection, positions: dict[int, list[Collection]]) -> None:
        try:
            topic = subscription.subscription.topic_key
        except Malformed as error:
            self.remark("malformed", f"the subscription of collection {subscription.key} cannot be read: {error}")
            return
        positions.setdefault(topic, []).append(subscription)

    def flawed(self, flaws: Iterable[LogFlaw]) -> None:
        """Bytes that were left out."""
        for flaw in flaws:
            self.remark("flaw", str(flaw))
            if not flaw.at_the_end:
                self.damages.append(str(flaw))


def is_pending(subscription: Collection, sequence: int) -> bool:
    """Whether a subscription has not acknowledged a message of its topic."""
    return sequence > subscription.position and sequence not in subscription.acked
