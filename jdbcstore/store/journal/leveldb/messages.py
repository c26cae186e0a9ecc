"""The messages of one destination.

A send is marshalled by who calls `add_message`, gets its number and is handed to the thread that commits; a page asks
memory where its messages stand and reads them from the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError, StoreError
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.openwire import marshal
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import LAST_SEQUENCE, PRIORITY_LEVELS, Cursor, MessageStore, Page
from jdbcstore.store.journal.leveldb import snappy
from jdbcstore.store.journal.leveldb.live import LiveDestination, LiveMessage, Numbers, id_hash
from jdbcstore.store.journal.leveldb.records import DATA, HEADER_BYTES, framed
from jdbcstore.store.journal.leveldb.store_host import StoreHost
from jdbcstore.store.journal.leveldb.work import Add, Part, Purge, Remove, Update
from jdbcstore.store.journal.writes import Write
from jdbcstore.store.message_checks import require_id, require_size

__all__ = ["LevelDBMessageStore", "PreparedAdd"]


class PreparedAdd(NamedTuple):
    """A message as it will be known, without number and place, and its data record."""

    message: LiveMessage
    data: bytes


class LevelDBMessageStore(MessageStore):
    """One queue. Created by the adapter only."""

    def __init__(self, adapter: StoreHost, destination: Destination, *, prioritized: bool) -> None:
        self.destination = destination
        self.prioritized = prioritized
        self._adapter = adapter

    @property
    def where(self) -> LiveDestination:
        """What is known of it, also over a restart. Raises `StoreClosed`."""
        return self._adapter.opened().of(self.destination)

    @property
    def message_count(self) -> int:
        return self.where.count

    @property
    def is_needed(self) -> bool:
        """Whether messages have to be stored; the caller holds the adapter's `order`."""
        return True

    # -- writing -------------------------------------------------------------------------------------------------

    def add_message(self, message: Message) -> Completion[int]:
        adapter = self._adapter
        completion: Completion[int] = Completion()
        prepared = self.prepare(message)
        with adapter.order:
            if not self.is_needed:
                return Completion.resolved(self.number(message))
            add = self.add_of(message, prepared)
            sequence = add.message.sequence
            may_cancel = (sequence,) if self.destination.is_queue else ()
            adapter.committer.submit(Write(completion, sequence, parts=(add,), may_cancel=may_cancel))
        return completion

    def prepare(self, message: Message) -> PreparedAdd:
        """The record of a message. Raises `CodecError`, `MessageTooLarge`, `StoreError`."""
        require_id(message)
        adapter = self._adapter
        data = marshal(message, adapter.wire_version)
        require_size(data, adapter.options.message_bytes_max)
        if adapter.is_compressed:
            data = snappy.compress(data)
        record = framed(DATA, data)
        return PreparedAdd(LiveMessage(0, 0, len(record) - HEADER_BYTES, message), record)

    def number(self, message: Message) -> int:
        """Give a message its number. The caller holds the adapter's `order` until it is submitted, if it is."""
        assert message.message_id is not None
        sequence = message.message_id.broker_sequence_id = self._adapter.next_sequence()
        return sequence

    def add_of(self, message: Message, prepared: PreparedAdd) -> Add:
        """What is submitted of a message, which gets its number. The caller holds the adapter's `order`."""
        return Add(self.where, prepared.message.renumbered(self.number(message)), prepared.data)

    def remove_message(self, *message_ids: MessageId) -> Completion[None]:
        completion: Completion[None] = Completion()
        where = self.where
        sequences = [one.broker_sequence_id for one in message_ids if one.broker_sequence_id > 0]
        others = [one for one in message_ids if one.broker_sequence_id <= 0]

        def remove(sequences: Sequence[int]) -> Write[Part]:
            meant = [MessageId(None, 0, sequence) for sequence in sequences]
            return Write(completion, parts=(Remove(where, [*meant, *others]),))

        if self.destination.is_queue:
            self._adapter.committer.submit_remove(sequences, remove)
        else:
            self._adapter.committer.submit(remove(sequences))
        return completion

    def update_message(self, message: Message) -> Completion[None]:
        if message.message_id is None or message.message_id.broker_sequence_id <= 0:
            raise StoreError("only a message that came from the store, with its sequence, can be updated")
        found, data = self.prepare(message)
        update = Update(self.where, message.message_id, found, data)
        return self._adapter.committer.write(update)

    def remove_all_messages(self) -> Completion[None]:
        return self._adapter.committer.write(Purge(self.where), is_alone=True)

    # -- reading -------------------------------------------------------------------------------------------------

    def get_message(self, message_id: MessageId) -> Message | None:
        live, where = self._adapter.reading(), self.where
        with live.lock:
            if message_id.broker_sequence_id > 0:
                wanted: tuple[int, ...] = (message_id.broker_sequence_id,)
            else:
                wanted = where.by_hash(id_hash(message_id))
            found = [where.messages[one] for one in wanted if one in where.messages and one not in where.hidden]
        for one in found:
            message = self._adapter.reader.message(one.location, one.length, one.sequence)
            if message_id.broker_sequence_id > 0 or message.message_id == message_id:
                return message
        return None

    def recover_next_messages(self, cursor: Cursor, messages_max: int, bytes_max: int) -> Page:
        self._adapter.reading()
        return self._page(self.where.numbers, cursor, messages_max, bytes_max)

    def _page(self, numbers: Numbers, cursor: Cursor, messages_max: int, bytes_max: int) -> Page:
        where, live = self.where, self._adapter.reading()
        with live.lock:
            found = self._behind(where, numbers, cursor, messages_max)
        positions = list(cursor.positions)
        places: list[tuple[int, int, int]] = []
        room = bytes_max
        for level, message in found:
            if room <= 0:
                break
            room -= message.length
            positions[level] = message.sequence
            places.append((message.location, message.length, message.sequence))
        messages: list[Message] = []
        unreadable: list[tuple[int, CodecError]] = []
        for (_, _, sequence), read in zip(places, self._adapter.reader.messages(places), strict=True):
            if not isinstance(read, CodecError):
                messages.append(read)
            elif sequence in where.messages:  # else it was removed since
                unreadable.append((sequence, read))
        if not self.prioritized:
            positions = [positions[0]] * PRIORITY_LEVELS
        return Page(messages, Cursor(tuple(positions)), unreadable)

    def _behind(
        self, where: LiveDestination, numbers: Numbers, cursor: Cursor, count: int
    ) -> list[tuple[int, LiveMessage]]:
        """The next messages, each with its place in the cursor."""
        if not self.prioritized:
            after = min(cursor.positions)
            if after == LAST_SEQUENCE:
                return []
            return [(0, where.messages[one]) for one in numbers.all.after(after, count)]
        found: list[tuple[int, LiveMessage]] = []
        levels = numbers.by_level(where.messages)
        for level in reversed(range(PRIORITY_LEVELS)):
            if len(found) == count:
                break
            if cursor.positions[level] < LAST_SEQUENCE:
                some = levels[level].after(cursor.positions[level], count - len(found))
                found += [(level, where.messages[one]) for one in some]
        return found
