"""From what was recovered to what is in memory: names, priorities and expirations are read from the messages."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from jdbcstore.destination import Destination, Queue, Topic, parse_destination
from jdbcstore.errors import CodecError, ConfigurationError
from jdbcstore.identifiers import XATransactionId
from jdbcstore.message import Message
from jdbcstore.openwire import unmarshal, unmarshal_message
from jdbcstore.store.journal.leveldb.live import (
    Live,
    LiveDestination,
    LiveMessage,
    LiveSubscription,
    LiveTransaction,
    TransactedAck,
    TransactedAdd,
)
from jdbcstore.store.journal.leveldb.message_reader import MessageReader
from jdbcstore.store.journal.leveldb.options import LevelDBOptions
from jdbcstore.store.journal.leveldb.records import QUEUE, SUBSCRIPTION, TOPIC, TRANSACTION, message_bytes
from jdbcstore.store.journal.leveldb.recovery import Recovered
from jdbcstore.store.journal.leveldb.state import Collection, Place, is_pending
from jdbcstore.store.journal.leveldb.varints import Malformed
from jdbcstore.store.journal.leveldb.work import hide
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = ["Loaded", "load"]

_LOG: Final = logging.getLogger(__name__)
#: OpenWire versions of stores: since 5.12, since 5.10, before.
_WIRE_VERSIONS: Final = (11, 10, 6)
_READ_AT_ONCE: Final = 1000


class Loaded(NamedTuple):
    """What was loaded.

    Args:
        live: what is there.
        displaced: messages that ActiveMQ had lost and whose numbers others have: where, and their places.
        wire_version: of the newest message; None if there is none.
        is_compressed: whether the newest message is a Snappy block.
    """

    live: Live
    displaced: list[tuple[LiveDestination, LiveMessage]]
    wire_version: int | None
    is_compressed: bool


def load(found: Recovered, reader: MessageReader, options: LevelDBOptions) -> Loaded:
    """Make what was recovered usable.

    Raises:
        StoreError: a file cannot be read.
    """
    return _Loading(found, reader, options).run()


class _Loading:
    def __init__(self, found: Recovered, reader: MessageReader, options: LevelDBOptions) -> None:
        self._state = found.state
        self._reader = reader
        self._options = options
        self._live = Live()
        self._by_key: dict[int, LiveDestination] = {}
        self._newest: Place | None = None
        self._displaced: list[tuple[LiveDestination, LiveMessage]] = []

    def run(self) -> Loaded:
        collections = self._state.collections.values()
        self._live.last_key = max(self._state.collections, default=0)
        # In this order: subscriptions refer to topics, transactions to both.
        for kinds, take in (
            ((QUEUE, TOPIC), self._destination),
            ((SUBSCRIPTION,), self._subscription),
            ((TRANSACTION,), self._transaction),
        ):
            for one in collections:
                if one.type in kinds and not take(one):
                    self._keep(one)
        for one in collections:
            if one.type not in (QUEUE, TOPIC, SUBSCRIPTION, TRANSACTION):
                _LOG.warning("collection %d is of an unknown type (%d), it stays where it is", one.key, one.type)
                self._keep(one)
        for one in self._state.displaced:
            if one.type == QUEUE and (name := self._name(one)) is not None:
                self._add_displaced(self._live.of(name), one.entries.items())
        self._live.producers = dict(self._state.producers)
        wire_version, is_compressed = self._looks()
        return Loaded(self._live, self._displaced, wire_version, is_compressed)

    def _keep(self, one: Collection) -> None:
        """What is not understood stays: in snapshots, and the files in which its messages stand."""
        self._live.unknown.append(one)
        for place in one.places():
            self._live.references[self._reader.base(place.location)] += 1

    def _name(self, one: Collection) -> Destination | None:
        kind = Topic if one.type == TOPIC else Queue
        try:
            return parse_destination(one.name, kind)
        except ConfigurationError as error:
            _LOG.warning("collection %d is not used, it stays where it is: %s", one.key, error)
            return None

    def _destination(self, one: Collection) -> bool:
        """Take a queue or a topic; whether it is understood."""
        name = self._name(one)
        if name is None:
            return False
        where = self._live.of(name)
        if where.key:  # twice: the replay of an original that went on after a loss
            self._add_displaced(where, one.entries.items())
            return True
        where.key, where.last = one.key, one.last
        where.is_kept = isinstance(name, Queue) and self._options.is_kept(name)
        self._by_key[one.key] = where
        self._live.given = max(self._live.given, one.last)
        places = sorted(one.entries.items())
        for sequence, place, message in self._read(places):
            self._note_newest(place)
            self._live.add(
                where,
                LiveMessage(sequence, place.location, place.length, message),
                self._reader.base(place.location),
                is_new=False,
            )
        self._add_displaced(where, one.displaced)
        return True

    def _read(self, places: list[tuple[int, Place]]) -> Iterator[tuple[int, Place, Message | None]]:
        for start in range(0, len(places), _READ_AT_ONCE):
            some = places[start : start + _READ_AT_ONCE]
            messages = self._reader.messages([(place.location, place.length, sequence) for sequence, place in some])
            for (sequence, place), message in zip(some, messages, strict=True):
                if isinstance(message, CodecError):
                    _LOG.warning("a message cannot be read, it stays where it is: %s", message)
                    yield sequence, place, None
                else:
                    yield sequence, place, message

    def _note_newest(self, place: Place) -> None:
        if self._newest is None or place.location > self._newest.location:
            self._newest = place

    def _add_displaced(self, where: LiveDestination, places: object) -> None:
        assert hasattr(places, "__iter__")
        for sequence, place, message in self._read(sorted(places)):
            if message is not None:
                self._displaced.append((where, LiveMessage(sequence, place.location, place.length, message)))

    def _subscription(self, one: Collection) -> bool:
        """Take a durable subscription; whether it is understood."""
        try:
            record = one.subscription
        except Malformed:
            return False  # recovery has told
        where = self._by_key.get(record.topic_key)
        if where is None:
            _LOG.warning("the subscription %s:%s has no topic any more", record.client_id, record.subscription_name)
            return False
        subscribed = record.subscribed_destination_name or record.destination_name
        try:
            asked: Destination = parse_destination(subscribed, Topic) if subscribed else where.destination
        except ConfigurationError:
            asked = where.destination
        key = SubscriptionKey(record.client_id, record.subscription_name)
        info = SubscriptionInfo(key, where.destination, asked, record.selector or None, one.is_no_local)
        subscription = LiveSubscription(one.key, info, one.position)
        where.subscriptions[key] = where.subscriptions.get(key, subscription)
        where.asked.ask(where.subscriptions[key].info)
        self._live.given = max(self._live.given, one.position)
        for sequence, message in where.messages.items():
            if is_pending(one, sequence):
                subscription.pending.add(message)
        return True

    def _transaction(self, one: Collection) -> bool:
        """Take a transaction in doubt; whether it is understood."""
        try:
            xid = unmarshal(one.meta)
        except CodecError as error:
            _LOG.warning("a transaction in doubt cannot be read, it stays where it is: %s", error)
            return False
        if not isinstance(xid, XATransactionId):
            _LOG.warning("collection %d names no transaction, it stays where it is: %r", one.key, xid)
            return False
        transaction = LiveTransaction(one.key, xid, is_each=one.is_each)
        for number, place, message in self._read(sorted(one.entries.items())):
            self._note_newest(place)
            destination = None if message is None else message.destination
            if number in one.targets:
                destination = parse_destination(one.targets[number])
            if destination is None:
                continue
            add = TransactedAdd(number, LiveMessage(0, place.location, place.length, message), destination)
            transaction.adds.append(add)
            self._live.references[self._reader.base(place.location)] += 1
        for number, found in sorted(one.acks.items()):
            where = self._by_key.get(found.collection)
            if where is None:
                continue
            subscription = next((s for s in where.subscriptions.values() if s.key == found.subscription), None)
            if found.subscription >= 0 and subscription is None:
                continue
            ack = TransactedAck(number, where.destination, found.sequence, subscription)
            hide(where, ack, is_each=one.is_each)
            transaction.acks.append(ack)
        self._live.transactions[xid] = transaction
        return True

    def _looks(self) -> tuple[int | None, bool]:
        """How the newest message is written."""
        if self._newest is None:
            return None, False
        try:
            data, is_compressed = message_bytes(self._reader.data(*self._newest))
        except CodecError:
            return None, False
        for version in _WIRE_VERSIONS:
            try:
                unmarshal_message(data, version)
            except CodecError:
                continue
            return version, is_compressed
        return None, is_compressed
