"""The messages of one destination.

A send is marshalled and encoded by who calls `add_message`, gets its number and is handed to the thread that commits; a
page asks the index where its messages stand and reads them from the journal.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, islice
from typing import NamedTuple, TypeAlias

from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError, StoreError
from jdbcstore.identifiers import MessageId, XATransactionId, told_apart
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import LAST_SEQUENCE, PRIORITY_LEVELS, Cursor, MessageStore, Page
from jdbcstore.store.journal.applier import Hint, level_of
from jdbcstore.store.journal.commands import AddMessage
from jdbcstore.store.journal.index import VISIBLE, Index, PageRow
from jdbcstore.store.journal.known import KnownDestination
from jdbcstore.store.journal.records import Location
from jdbcstore.store.journal.store_host import StoreHost
from jdbcstore.store.journal.work import Add, Meant, Part, Purge, Remove, Update
from jdbcstore.store.journal.writes import Adds, Write
from jdbcstore.store.message_checks import require_id, require_size
from jdbcstore.store.refusals import Refusals

__all__ = ["JournalMessageStore", "PreparedAdd", "Probe"]

#: Reads the next rows of one level: behind a sequence, so many.
Probe: TypeAlias = Callable[[int, int, int], list[PageRow]]


class PreparedAdd(NamedTuple):
    """The record of a message, and its bytes."""

    command: AddMessage
    payload: bytes


class JournalMessageStore(MessageStore):
    """One queue. Created by the adapter only."""

    def __init__(self, adapter: StoreHost, destination: Destination, index: Index, *, prioritized: bool) -> None:
        self.destination = destination
        self.prioritized = prioritized
        self._adapter = adapter
        self._index = index
        self._known = index.known.of(destination)

    @property
    def known(self) -> KnownDestination:
        """What is known of it; in the index of the last start, for somebody may use a store over a restart."""
        index = self._adapter.index
        if index is not None and index is not self._index:
            self._index, self._known = index, index.known.of(self.destination)
        return self._known

    @property
    def message_count(self) -> int:
        return self.known.count

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
                adapter.opened()
                return Completion.resolved(self.number(message))
            add = self.add_of(message, prepared)
            sequence = add.hint.sequence
            adapter.committer.submit(
                Write(completion, sequence, parts=(add,), may_cancel=(sequence,) if self.destination.is_queue else ())
            )
        return completion

    def add_messages(self, messages: Sequence[Message]) -> Completion[Refusals] | None:
        adapter = self._adapter
        if self.destination.is_topic:
            return None
        completion: Completion[Refusals] = Completion()
        prepared = [self.prepare(message) for message in messages]
        if sum([len(one.payload) for one in prepared]) > adapter.options.journal_max_write_batch_size_bytes:
            return None
        with adapter.order:
            adds = [self.add_of(message, one) for message, one in zip(messages, prepared, strict=True)]
            adapter.committer.submit(Adds(completion, adds, [add.hint.sequence for add in adds]))
        return completion

    def prepare(self, message: Message, xid: XATransactionId | None = None) -> PreparedAdd:
        """The record of a message, and its bytes. Raises `CodecError`, `MessageTooLarge`, `StoreError`."""
        message_id = require_id(message)
        adapter, options = self._adapter, self._adapter.options
        data = adapter.format.marshal(message, self.destination, adapter.wire_version)
        require_size(data, options.message_bytes_max)
        text = adapter.format.message_id(message_id)
        command = AddMessage(xid, self.destination, text, data, message.priority, self.prioritized)
        return PreparedAdd(command, self._adapter.format.encode(command))

    def number(self, message: Message) -> int:
        """Give a message its number. The caller holds the adapter's `order` until it is submitted, if it is."""
        assert message.message_id is not None
        sequence = message.message_id.broker_sequence_id = self._adapter.next_sequence()
        return sequence

    def add_of(self, message: Message, prepared: PreparedAdd) -> Add:
        """What is submitted of a message, which gets its number. The caller holds the adapter's `order`."""
        command, payload = prepared
        hint = Hint(self.number(message), message.expiration)
        return Add(self.known, level_of(command), command, payload, hint)

    def remove_message(self, *message_ids: MessageId) -> Completion[None]:
        completion: Completion[None] = Completion()
        known, (sequences, others) = self.known, told_apart(message_ids)

        def remove(sequences: Sequence[int]) -> Write[Part]:
            return Write(completion, parts=(Remove(known, sequences, others),))

        if self.destination.is_queue:
            self._adapter.committer.submit_remove(sequences, remove)
        else:
            self._adapter.committer.submit(remove(sequences))
        return completion

    def update_message(self, message: Message) -> Completion[None]:
        if message.message_id is None or message.message_id.broker_sequence_id <= 0:
            raise StoreError("only a message that came from the store, with its sequence, can be updated")
        command, _ = self.prepare(message)
        update = Update(self.known, Meant.of(message.message_id, self._adapter.format), command, message.expiration)
        return self._adapter.committer.write(update)

    def remove_all_messages(self) -> Completion[None]:
        return self._adapter.committer.write(Purge(self.known), is_alone=True)

    # -- reading -------------------------------------------------------------------------------------------------

    def get_message(self, message_id: MessageId) -> Message | None:
        index = self._adapter.reading()
        meant = Meant.of(message_id, self._adapter.format)
        if meant.sequence > 0:
            row = index.row(meant.sequence)
            rows = [] if row is None else [row]
        else:
            rows = index.rows_by_id(self.known.id, meant.message_id)
        for row in rows:
            if row.destination == self.known.id and row.state == VISIBLE:
                return self._adapter.reader.message(Location(row.file, row.offset, row.size), row.sequence)
        return None

    def recover_next_messages(self, cursor: Cursor, messages_max: int, bytes_max: int) -> Page:
        index = self._adapter.reading()

        def probe(level: int, after: int, rows: int) -> list[PageRow]:
            return index.page(self.known.id, level, after, rows)

        return self._page(cursor, messages_max, bytes_max, probe)

    def _page(self, cursor: Cursor, messages_max: int, bytes_max: int, probe: Probe) -> Page:
        positions = list(cursor.positions)
        places: list[tuple[Location, int]] = []
        room = bytes_max
        for slot, row in self._rows_behind(cursor, messages_max, probe):
            if room <= 0:
                break
            room -= row.size
            positions[slot] = row.sequence
            places.append((Location(row.file, row.offset, row.size), row.sequence))
        messages: list[Message] = []
        unreadable: list[tuple[int, CodecError]] = []
        for (_, sequence), found in zip(places, self._adapter.reader.messages(places), strict=True):
            if not isinstance(found, CodecError):
                messages.append(found)
            elif self._adapter.reading().row(sequence) is not None:  # else it was removed since
                unreadable.append((sequence, found))
        if not self.prioritized:
            positions = [positions[0]] * PRIORITY_LEVELS
        return Page(messages, Cursor(tuple(positions)), unreadable)

    def _rows_behind(self, cursor: Cursor, rows_max: int, probe: Probe) -> Iterable[tuple[int, PageRow]]:
        """One probe along the index for each level that the destination has.

        Looking at one level at a time is what keeps a page flat. Where there are several, a prioritised destination
        takes them from the top; any other merges them by sequence.
        """
        found: list[tuple[int, PageRow]] = []
        levels = sorted(self.known.levels, key=self._slot, reverse=True)
        for slot, sharing in groupby(levels, key=self._slot):
            after = cursor.positions[slot] if self.prioritized else min(cursor.positions)
            if after == LAST_SEQUENCE:
                continue
            probes = [probe(level, after, rows_max - len(found)) for level in sharing]
            rows = probes[0] if len(probes) == 1 else heapq.merge(*probes)
            found += [(slot, row) for row in islice(rows, rows_max - len(found))]
            if len(found) == rows_max:
                break
        return found

    def _slot(self, level: int) -> int:
        """The cursor's place for a level."""
        return level if self.prioritized else 0
