"""What is in a LevelDB directory, as other journals tell it (`jdbcstore.store.journal.state`): for those who only read.

The files of the log are numbered from 1 in their order, since their positions are too large for numbers of files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from jdbcstore.destination import Destination, Queue, Topic, parse_destination
from jdbcstore.errors import CodecError, ConfigurationError, JournalDamaged
from jdbcstore.identifiers import XATransactionId
from jdbcstore.message import Message
from jdbcstore.openwire import marshal, unmarshal, unmarshal_message
from jdbcstore.openwire.commands import SubscriptionInfo
from jdbcstore.store.journal.file_errors import reading
from jdbcstore.store.journal.leveldb.message_reader import MessageReader, data_record
from jdbcstore.store.journal.leveldb.records import (
    HEADER_BYTES,
    QUEUE,
    SUBSCRIPTION,
    TOPIC,
    TRANSACTION,
    message_bytes,
)
from jdbcstore.store.journal.leveldb.recovery import Recovered
from jdbcstore.store.journal.leveldb.state import Collection, Place, is_pending
from jdbcstore.store.journal.leveldb.varints import Malformed
from jdbcstore.store.journal.records import Damage, Location
from jdbcstore.store.journal.sequences import SequenceSet
from jdbcstore.store.journal.state import (
    Acknowledgement,
    LastAck,
    State,
    StoredDestination,
    StoredMessage,
    StoredSubscription,
    StoredTransaction,
    Tier,
)

__all__ = ["LogDamage", "message_at", "numbered", "stored_state"]

_WIRE_VERSION: Final = 11


class LogDamage(Damage):
    """What is wrong with a log, in one clause that names the file."""

    __slots__ = ()

    def __str__(self) -> str:
        return self.what


class _Destination(StoredDestination):
    """Two messages of a queue may have the same id here."""

    __slots__ = ()

    def put(self, message: StoredMessage) -> None:
        self._by_id[str(message.order)] = message


def numbered(found: Recovered) -> dict[int, Path]:
    """The files of the log by their numbers."""
    return dict(enumerate(found.files.values(), 1))


def message_at(source: BinaryIO, location: Location) -> bytes:
    """The bytes of a message in an open file of the log.

    Raises:
        JournalDamaged: none stands there.
        StoreError: the file cannot be read.
    """
    with reading(str(location)):
        source.seek(location.offset)
        data = source.read(location.size)
    try:
        return message_bytes(data_record(data, 0, location.offset, location.size - HEADER_BYTES))[0]
    except CodecError as error:
        raise JournalDamaged(f"file {location.file} of the log: {error}; copy the files of a running broker") from error


def stored_state(found: Recovered) -> State:
    """What is there. `StoredMessage.order` is the position of a message in the log, or a little more where several
    entries have one position. What cannot be read is damage.

    Raises:
        StoreError: a file cannot be read.
    """
    reader = MessageReader(found.log_directory, found.files)
    try:
        return _Reading(found, reader).run()
    finally:
        reader.close()


class _Reading:
    def __init__(self, found: Recovered, reader: MessageReader) -> None:
        self._found = found
        self._reader = reader
        self._numbers = {base: number for number, base in enumerate(found.files, 1)}
        self._state = State(damages=[LogDamage(0, 0, 0, text) for text in found.state.damages])
        #: By collection and sequence; a sequence that was given twice has its later message here.
        self._ids: dict[tuple[int, int], str] = {}
        self._orders: dict[tuple[int, int], int] = {}
        self._names: dict[int, Destination] = {}
        #: Of subscriptions: their topics and what they are called.
        self._subscribed: dict[int, tuple[Destination, str]] = {}

    def run(self) -> State:
        for one in self._all(QUEUE, TOPIC):
            self._name(one)
        self._take_messages()
        for one in self._all(SUBSCRIPTION):
            self._subscribe(one)
        for one in self._all(TRANSACTION):
            self._doubt(one)
        return self._state

    def _all(self, *types: int) -> list[Collection]:
        there = self._found.state
        return [one for one in (*there.collections.values(), *there.displaced) if one.type in types]

    def _damaged(self, text: str) -> None:
        self._state.damages.append(LogDamage(0, 0, 0, text))

    def _name(self, one: Collection) -> None:
        try:
            name = parse_destination(one.name, Topic if one.type == TOPIC else Queue)
        except ConfigurationError as error:
            self._damaged(f"collection {one.key}: {error}")
            return
        self._names[id(one)] = name
        self._state.destinations.setdefault(name, _Destination(name))

    # -- messages ------------------------------------------------------------------------------------------------

    def _entries(self) -> Iterator[tuple[int, int, int, Place, Collection]]:
        """All messages with their positions: no message of a destination comes before an earlier one."""
        for one in self._all(QUEUE, TOPIC):
            position = 0
            for sequence, place in sorted([*one.entries.items(), *one.displaced]) if id(one) in self._names else ():
                position = max(position, place.location)
                yield position, one.key, sequence, place, one

    def _take_messages(self) -> None:
        order = 0
        for position, _, sequence, place, one in sorted(self._entries(), key=lambda entry: entry[:4]):
            order = max(order + 1, position)
            name = self._names[id(one)]
            read = self._message(place, f"{name}, number {sequence}")
            if read is None:
                continue
            message, location = read
            message_id = str(message.message_id)
            if one.entries.get(sequence) == place:
                self._ids[id(one), sequence] = message_id
                self._orders[id(one), sequence] = order
            self._state.destinations[name].put(StoredMessage(message_id, order, location, Tier.DEFAULT, order))

    def _message(self, place: Place, what: str) -> tuple[Message, Location] | None:
        try:
            data = self._reader.data(*place)
            message = unmarshal_message(message_bytes(data)[0])
        except CodecError as error:
            self._damaged(f"{what}: {error}")
            return None
        base = self._reader.base(place.location)
        return message, Location(self._numbers[base], place.location - base, HEADER_BYTES + len(data))

    # -- subscriptions, and what is in doubt -----------------------------------------------------------------------

    def _subscribe(self, one: Collection) -> None:
        try:
            record = one.subscription
            topic = self._found.state.collections.get(record.topic_key)
            name = None if topic is None else self._names.get(id(topic))
            if topic is None or name is None:
                return
            told = record.subscribed_destination_name or record.destination_name
            subscribed = parse_destination(told, Topic) if told else name
        except (Malformed, ConfigurationError) as error:
            self._damaged(f"subscription of collection {one.key}: {error}")
            return
        info = SubscriptionInfo(
            client_id=record.client_id,
            destination=name,
            selector=record.selector or None,
            subscription_name=record.subscription_name,
            subscribed_destination=subscribed,
            no_local=one.is_no_local,
        )
        pending = SequenceSet()
        for sequence in sorted(topic.entries):
            order = self._orders.get((id(topic), sequence))
            if order is not None and is_pending(one, sequence):
                pending.add(order, order)
        key = f"{record.client_id}:{record.subscription_name}"
        self._subscribed[one.key] = name, key
        self._state.destinations[name].subscriptions[key] = StoredSubscription(
            key,
            Location(0, 0, 0),
            False,
            marshal(info, _WIRE_VERSION),
            LastAck(one.position, Tier.DEFAULT),
            pending,
        )

    def _doubt(self, one: Collection) -> None:
        try:
            xid = unmarshal(one.meta)
        except CodecError as error:
            self._damaged(f"transaction of collection {one.key}: {error}")
            return
        if not isinstance(xid, XATransactionId):
            return
        stored = self._state.prepared[xid] = StoredTransaction(xid)
        for number, place in sorted(one.entries.items()):
            read = self._message(place, f"transaction {xid}, number {number}")
            told = one.targets.get(number)
            destination = parse_destination(told) if told else None if read is None else read[0].destination
            if read is not None and destination is not None:
                stored.added.append((destination, str(read[0].message_id), read[1]))
        for _, ack in sorted(one.acks.items()):
            where = self._found.state.collections.get(ack.collection)
            if where is None:
                continue
            if ack.subscription >= 0:
                subscribed = self._subscribed.get(ack.subscription)
                sequences = [s for s in where.entries if (s == ack.sequence if one.is_each else s <= ack.sequence)]
            else:
                name = self._names.get(id(where))
                subscribed, sequences = None if name is None else (name, ""), [ack.sequence]
            if subscribed is not None:
                stored.acknowledged += [
                    Acknowledgement(subscribed[0], self._ids[id(where), sequence], subscribed[1] or None)
                    for sequence in sequences
                    if (id(where), sequence) in self._ids
                ]
