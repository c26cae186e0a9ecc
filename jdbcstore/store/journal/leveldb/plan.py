"""A unit of work that is being made up: its records, what is there behind each of them, what changes in memory with it.

Only when it is made up it is known which messages there are and where its records will stand. What it changes in memory
(`Plan.effects`) is done when it is on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError, StoreError
from jdbcstore.identifiers import MessageId
from jdbcstore.store.journal.leveldb import trace_remarks
from jdbcstore.store.journal.leveldb.live import (
    Live,
    LiveDestination,
    LiveMessage,
    LiveSubscription,
    id_hash,
)
from jdbcstore.store.journal.leveldb.message_reader import MessageReader
from jdbcstore.store.journal.leveldb.records import (
    ACK_POSITION,
    ADD_COLLECTION,
    ADD_ENTRY,
    QUEUE,
    REMOVE_COLLECTION,
    REMOVE_ENTRY,
    SEQUENCE,
    TOPIC,
    UPDATE_ENTRY,
    CollectionRecord,
    EntryRecord,
    collection_key,
    framed,
)

__all__ = ["Plan"]

_SLICE: Final = 256


class Plan:
    """A unit of work that is being made up.

    Args:
        live: what is there before.
        reader: reads messages.
        position: where its first record will stand.
        wire_version: of what is marshalled.
    """

    def __init__(self, live: Live, reader: MessageReader, position: int, wire_version: int) -> None:
        self.live: Final = live
        self.records: list[bytes] = []
        self.effects: list[Callable[[], object]] = []
        self.wire_version: Final = wire_version
        #: Whether a collection is removed, at which ActiveMQ's own replay ends.
        self.removes_collection = False
        self._reader = reader
        self._position = position
        self._last_key = live.last_key
        self._keys: dict[Destination, int] = {}
        self._added: dict[tuple[Destination, int], LiveMessage] = {}
        self._replaced: dict[tuple[Destination, int], LiveMessage] = {}
        self._gone: set[tuple[Destination, int]] = set()
        #: Of each subscription what is acknowledged, and what is in doubt no more.
        self._acknowledged: dict[int, tuple[LiveDestination, LiveSubscription, set[int], set[int]]] = {}

    def record(self, data: bytes) -> int:
        """One record, framed; its position."""
        position = self._position
        self.records.append(data)
        self._position += len(data)
        return position

    def base(self, location: int) -> int:
        """The file in which a record stands."""
        return self._reader.base(location)

    # -- collections ---------------------------------------------------------------------------------------------

    def new_key(self) -> int:
        """The key of a new collection."""
        self._last_key += 1
        self.effects.append(partial(setattr, self.live, "last_key", self._last_key))
        return self._last_key

    def key(self, where: LiveDestination) -> int:
        """The key of a destination's collection, which is made if there is none."""
        key = where.key or self._keys.get(where.destination, 0)
        if not key:
            key = self._keys[where.destination] = self.new_key()
            kind = TOPIC if where.destination.is_topic else QUEUE
            name = where.destination.qualified_name.encode("utf-8", "surrogateescape")
            self.record(framed(ADD_COLLECTION, CollectionRecord(key, kind, name).written()))
            self.effects.append(partial(setattr, where, "key", key))
        return key

    def remove_collection(self, key: int) -> None:
        """One goes, with its entries."""
        self.record(framed(REMOVE_COLLECTION, collection_key(key)))
        self.removes_collection = True

    # -- messages ------------------------------------------------------------------------------------------------

    def enter(self, where: LiveDestination, message: LiveMessage) -> None:
        """A message whose data is written is in a destination."""
        self.entry(ADD_ENTRY, self.key(where), message.sequence, message.location, message.length)
        self._added[where.destination, message.sequence] = message
        self._gone.discard((where.destination, message.sequence))
        self.effects.append(lambda: self.live.add(where, message, self.base(message.location)))

    def entry(self, kind: int, key: int, number: int, location: int, length: int | None = None) -> None:
        """A record of an entry."""
        self.record(framed(kind, EntryRecord(key, SEQUENCE.pack(number), location, length).written()))

    def find(self, where: LiveDestination, meant: MessageId) -> list[LiveMessage]:
        """The messages of a destination that are meant, those in doubt and those that are gone left out."""
        if meant.broker_sequence_id > 0:
            found = self.get(where, meant.broker_sequence_id)
            return [] if found is None else [found]
        wanted = id_hash(meant)
        sequences = [*where.by_hash(wanted)]
        sequences += [one for (place, one), new in self._added.items()
                      if place == where.destination and new.id_hash == wanted]  # fmt: skip
        return [found for one in sequences if (found := self.get(where, one)) is not None]

    def get(self, where: LiveDestination, sequence: int) -> LiveMessage | None:
        """The same by its sequence."""
        place = where.destination, sequence
        if place in self._gone:
            return None
        here = self._replaced.get(place) or self._added.get(place)
        if here is not None:
            return here
        return where.messages.get(sequence) if sequence not in where.hidden else None

    def replace(self, where: LiveDestination, old: LiveMessage, new: LiveMessage) -> None:
        """A message whose data is written anew; what follows in this unit finds the new one."""
        key = self.key(where)
        self.entry(REMOVE_ENTRY, key, old.sequence, old.location)
        self.entry(ADD_ENTRY, key, new.sequence, new.location, new.length)
        self._replaced[where.destination, new.sequence] = new
        self.effects.append(partial(_replace, self, where, old, new))

    def message_id(self, message: LiveMessage) -> MessageId:
        """The id of a message that was there before. Raises `StoreError` when it cannot be read."""
        try:
            found = self._reader.message(message.location, message.length, message.sequence).message_id
        except CodecError as error:
            raise StoreError(f"message {message.sequence} cannot be read: {error}") from error
        assert found is not None
        return found

    def remove(self, where: LiveDestination, message: LiveMessage) -> None:
        """A message goes, whoever waits for it."""
        self.entry(REMOVE_ENTRY, self.key(where), message.sequence, message.location)
        self._gone.add((where.destination, message.sequence))
        self.effects.append(lambda: self.live.drop(where, message, self.base(message.location)))

    # -- acknowledgements ----------------------------------------------------------------------------------------

    def acknowledge(
        self, where: LiveDestination, subscription: LiveSubscription, messages: Iterable[LiveMessage], *, settles: bool
    ) -> None:
        """A subscription is done with messages, which it waits for, or has in doubt (`settles`)."""
        done = self._acknowledged.setdefault(subscription.key, (where, subscription, set(), set()))
        for message in messages:
            sequence = message.sequence
            if settles:
                done[3].add(sequence)
                done[2].add(sequence)
            elif sequence not in done[2] and self._waits(where, subscription, sequence):
                done[2].add(sequence)
            else:
                continue
            self.effects.append(partial(self._acknowledged_now, where, subscription, message))

    def is_pending(self, where: LiveDestination, subscription: LiveSubscription, sequence: int) -> bool:
        """Whether a subscription waits for a message, and does not acknowledge it in this batch."""
        done = self._acknowledged.get(subscription.key)
        return (done is None or sequence not in done[2]) and self._waits(where, subscription, sequence)

    def _waits(self, where: LiveDestination, subscription: LiveSubscription, sequence: int) -> bool:
        return sequence in subscription.pending.all or (where.destination, sequence) in self._added

    def _acknowledged_now(self, where: LiveDestination, subscription: LiveSubscription, message: LiveMessage) -> None:
        subscription.pending.discard(message)
        subscription.hidden.discard(message.sequence)
        if not self.live.is_waited_for(where, message.sequence):
            self.live.drop(where, message, self.base(message.location))

    def finish(self) -> None:
        """The records that say up to where subscriptions have acknowledged, and what behind it."""
        for where, subscription, done, settled in self._acknowledged.values():
            if not done:
                continue
            added = [one for (place, one) in self._added if place == where.destination]
            blocking = _first_other(subscription, done, settled, added)
            position = max([where.last, subscription.position, *added]) if blocking is None else blocking - 1
            if position > subscription.position:
                record = EntryRecord(subscription.key, ACK_POSITION, position)
                self.record(framed(UPDATE_ENTRY, record.written()))
                self.effects.append(partial(setattr, subscription, "position", position))
            behind = sorted(one for one in done if one > position)
            if behind:
                self.record(trace_remarks.acked(subscription.key, behind))


def _first_other(subscription: LiveSubscription, done: set[int], settled: set[int], added: list[int]) -> int | None:
    """The first message that a subscription has not acknowledged."""
    found: list[int] = []
    for numbers, leave_out in ((subscription.pending.all, done), (subscription.hidden, settled)):
        after = -1
        while some := numbers.after(after, _SLICE):
            left = next((one for one in some if one not in leave_out), None)
            if left is not None:
                found.append(left)
                break
            after = some[-1]
    found += [one for one in added if one not in done][:1]
    return min(found, default=None)


def _replace(plan: Plan, where: LiveDestination, old: LiveMessage, new: LiveMessage) -> None:
    live, sequence = plan.live, old.sequence
    waiting = [one for one in where.subscriptions.values() if sequence in one.pending.all]
    hidden = [one for one in where.subscriptions.values() if sequence in one.hidden]
    live.drop(where, old, plan.base(old.location))
    live.add(where, new, plan.base(new.location), is_new=False)
    for subscription in waiting:
        subscription.pending.add(new)
    for subscription in hidden:
        subscription.hidden.add(sequence)
