"""What is in a LevelDB directory, also while a broker writes to it: a prefix of what it has written.

Messages that ActiveMQ had lost in a replay that it did not finish are among the others, in the place that they had.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from jdbcstore.destination import Destination, Queue, Topic, parse_destination
from jdbcstore.errors import CodecError, ConfigurationError, JournalDamaged
from jdbcstore.identifiers import MessageId, ProducerId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.migration.contents import MARKER, Contents, Damages, PreparedContents, StoredHere, name_of, require_id
from jdbcstore.migration.journals import is_locked, may_open, scheduled_in
from jdbcstore.openwire import unmarshal
from jdbcstore.store.contract import ScheduledJob
from jdbcstore.store.journal.leveldb.directory_kind import is_leveldb
from jdbcstore.store.journal.leveldb.message_reader import MessageReader
from jdbcstore.store.journal.leveldb.records import QUEUE, SUBSCRIPTION, TOPIC, TRANSACTION
from jdbcstore.store.journal.leveldb.recovery import Recovered, recover
from jdbcstore.store.journal.leveldb.state import Collection, Place, is_pending
from jdbcstore.store.journal.leveldb.varints import Malformed
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = ["LevelDBContents", "contents_of_leveldb_store"]

_LOG: Final = logging.getLogger(__name__)
#: Entries that refer to one message, and so have one position: more than this lose their stable places.
_TWINS_BITS: Final = 10
#: How often a directory is read in which files go meanwhile.
_TRIES: Final = 5


class _Here(NamedTuple):
    """An entry: where it is in the order of all, and what it is."""

    position: int
    key: int
    sequence: int
    place: Place
    destination: Destination
    collection: Collection


@contextmanager
def contents_of_leveldb_store(
    directory: Path, log_directory: Path | None = None, scheduler: Path | None = None, *, skips_damage: bool = False
) -> Iterator[LevelDBContents]:
    """The contents of a LevelDB directory as they are now.

    Args:
        directory: the one with ``store-version.txt`` in it.
        log_directory: where its log is, if that is elsewhere.
        scheduler: the directory of the scheduler's journal (a KahaDB journal); None if there is none.
        skips_damage: whether what cannot be read is left out and listed.

    Raises:
        ConfigurationError: it is no LevelDB store.
        StoreError: it cannot be read, or is damaged.
    """
    if not is_leveldb(directory):
        raise ConfigurationError(f"{directory} is no LevelDB store: it holds no store-version.txt and no log")
    found, reader = _held(directory, log_directory)
    try:
        name, is_live = f"leveldb:{directory}", is_locked(directory)
        yield LevelDBContents(name, found, reader, scheduler, is_live=is_live, skips_damage=skips_damage)
    finally:
        reader.close()


def _held(directory: Path, log_directory: Path | None) -> tuple[Recovered, MessageReader]:
    """What is there, and all files of the log open: a broker may remove some before their messages are read."""
    for attempt in range(_TRIES):
        found = recover(directory, log_directory)
        reader = MessageReader(found.log_directory, found.files)
        may_open(len(found.files), found.log_directory)
        try:
            reader.hold()
        except JournalDamaged:
            reader.close()
            if attempt == _TRIES - 1:
                raise
            continue
        return found, reader
    raise AssertionError("it has returned or raised")


class LevelDBContents(Contents):
    """The contents of a LevelDB directory. Made by `contents_of_leveldb_store` only."""

    prioritized = frozenset()

    def __init__(
        self,
        name: str,
        found: Recovered,
        reader: MessageReader,
        scheduler: Path | None,
        *,
        is_live: bool,
        skips_damage: bool,
    ) -> None:
        self.name = name
        self.is_live = is_live
        self.damages = Damages(are_skipped=skips_damage)
        self._state = found.state
        self._reader = reader
        self._scheduler = scheduler
        for remark in found.state.remarks:
            _LOG.warning("%s: %s", name, remark)
        for damage in found.state.damages:
            self.damages.meet(name, damage)
        self._named: dict[int, Destination] = {}
        self._infos: dict[int, SubscriptionInfo] = {}
        #: By the key of the topic's collection.
        self._subscribed: dict[int, list[Collection]] = {}
        for one in self._all(QUEUE, TOPIC):
            self._name(one)
        for one in self._all(SUBSCRIPTION):
            self._subscribe(one)
        #: Places of messages whose file of the log is not there any more.
        self._gone: set[Place] = set()
        self._look_for_files()

    def _all(self, *types: int) -> list[Collection]:
        return [one for one in (*self._state.collections.values(), *self._state.displaced) if one.type in types]

    def _look_for_files(self) -> None:
        """Messages whose file of the log is gone end the reading before anything is copied, or do not count."""
        for here in self._here():
            if self._reader.base(here.place.location) < 0 and (not here.destination.is_topic or self._waiting(here)):
                what = f"position {here.place.location:#x}: the file of the log is gone"
                self.damages.meet(f"{here.destination}, number {here.sequence}", what)
                self._gone.add(here.place)

    def _waiting(self, here: _Here) -> list[SubscriptionKey]:
        """The durable subscriptions that have not acknowledged a message of a topic."""
        ones = self._subscribed.get(here.key, ())
        return [self._infos[one.key].key for one in ones if is_pending(one, here.sequence)]

    def _name(self, one: Collection) -> None:
        try:
            self._named[id(one)] = parse_destination(one.name, Topic if one.type == TOPIC else Queue)
        except ConfigurationError as error:
            self.damages.meet(f"collection {one.key}", error)

    def _subscribe(self, one: Collection) -> None:
        try:
            record = one.subscription
            topic = self._state.collections.get(record.topic_key)
            destination = None if topic is None else self._named.get(id(topic))
            if destination is None:
                return
            told = record.subscribed_destination_name or record.destination_name
            subscribed = parse_destination(told, Topic) if told else destination
        except (Malformed, ConfigurationError) as error:
            self.damages.meet(f"subscription of collection {one.key}", error)
            return
        key = SubscriptionKey(record.client_id, record.subscription_name)
        self._infos[one.key] = SubscriptionInfo(key, destination, subscribed, record.selector or None, one.is_no_local)
        self._subscribed.setdefault(record.topic_key, []).append(one)

    # -- what is there -------------------------------------------------------------------------------------------

    def destinations(self) -> Mapping[Destination, int]:
        found: dict[Destination, int] = {}
        topics = {info.destination for info in self._infos.values()}
        for one in self._all(QUEUE, TOPIC):
            destination = self._named.get(id(one))
            if destination is not None and (one.type == QUEUE or one.entries or destination in topics):
                here = [*one.entries.values(), *(place for _, place in one.displaced)]
                is_there = sum(place not in self._gone for place in here) if self._gone else len(here)
                found[destination] = found.get(destination, 0) + is_there
        return found

    def sizes(self) -> Mapping[Destination, int]:
        found: dict[Destination, int] = {}
        for here in self._here():
            found[here.destination] = found.get(here.destination, 0) + here.place.length
        return found

    def subscriptions(self) -> Sequence[SubscriptionInfo]:
        return list(self._infos.values())

    def _here(self) -> Iterator[_Here]:
        """All entries, those of one destination in its order."""
        for one in self._all(QUEUE, TOPIC):
            destination = self._named.get(id(one))
            if destination is None:
                continue
            position = 0
            for sequence, place in sorted([*one.entries.items(), *one.displaced]):
                if place in self._gone:
                    continue
                position = max(position, place.location)
                yield _Here(position, one.key, sequence, place, destination, one)

    def messages(self) -> Iterator[StoredHere]:
        before, twins = -1, 0
        for here in sorted(self._here(), key=lambda one: one[:4]):
            twins = twins + 1 if here.position == before else 0
            before = here.position
            waiting = self._waiting(here) if here.destination.is_topic else []
            if here.destination.is_topic and not waiting:
                continue
            message = self._message(here.place, f"{here.destination}, number {here.sequence}")
            if message is not None:
                order = (here.position << _TWINS_BITS) + twins
                yield StoredHere(order, here.destination, message, here.place.length, waiting)

    def _message(self, place: Place, what: str) -> Message | None:
        try:
            message = self._reader.message(*place, 0)
            require_id(message)
        except (CodecError, ConfigurationError) as error:
            self.damages.meet(what, error)
            return None
        return message

    # -- in doubt ------------------------------------------------------------------------------------------------

    def _transactions(self) -> Iterator[tuple[XATransactionId, Collection]]:
        for one in self._all(TRANSACTION):
            try:
                xid = unmarshal(one.meta)
            except CodecError as error:
                self.damages.meet(f"transaction of collection {one.key}", error)
                continue
            if isinstance(xid, XATransactionId):
                yield xid, one

    @property
    def in_doubt(self) -> Sequence[XATransactionId]:
        return [xid for xid, _ in self._transactions()]

    def prepared(self) -> Sequence[PreparedContents]:
        return [self._prepared(xid, one) for xid, one in self._transactions()]

    def _prepared(self, xid: XATransactionId, one: Collection) -> PreparedContents:
        found = PreparedContents(xid)
        for number, place in sorted(one.entries.items()):
            message = self._message(place, f"transaction {xid}, number {number}")
            if message is None:
                continue
            told = one.targets.get(number)
            destination = parse_destination(told) if told else message.destination
            if destination is not None:
                found.added.append((destination, message))
        for _, ack in sorted(one.acks.items()):
            where = self._state.collections.get(ack.collection)
            destination = None if where is None else self._named.get(id(where))
            if where is None or destination is None:
                continue
            if ack.subscription < 0:
                if (name := self._id(where, ack.sequence)) is not None:
                    found.removed.append((destination, name))
            elif isinstance(destination, Topic) and (info := self._infos.get(ack.subscription)) is not None:
                subscription = self._state.collections[ack.subscription]
                for sequence in sorted(where.entries):
                    is_meant = sequence == ack.sequence if one.is_each else sequence <= ack.sequence
                    if is_meant and is_pending(subscription, sequence):
                        name = self._id(where, sequence)
                        if name is not None and (destination, info.key, name) not in found.acknowledged:
                            found.acknowledged.append((destination, info.key, name))
        return found

    def _id(self, where: Collection, sequence: int) -> MessageId | None:
        place = where.entries.get(sequence)
        message = None if place is None else self._message(place, f"{where.name}, number {sequence}")
        return None if message is None else name_of(message)

    # -- besides -------------------------------------------------------------------------------------------------

    def jobs(self) -> Iterator[ScheduledJob]:
        if self._scheduler is not None:
            yield from scheduled_in(self._scheduler, self.damages)

    def producers(self) -> Mapping[ProducerId, int]:
        return {
            ProducerId.parse(name): last
            for name, (last, _) in self._state.producers.items()
            if not name.startswith(MARKER)
        }
