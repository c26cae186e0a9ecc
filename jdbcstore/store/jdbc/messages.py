"""The messages of one destination, as rows.

A send is marshalled and numbered here and handed to the writer; a page is read here. The caller of `add_message` pays
for marshalling, so the writer's thread is left to what only it can do.
"""

from __future__ import annotations

import heapq
import secrets
import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, islice
from typing import Final, NamedTuple, TypeAlias

from sqlalchemy import Connection, bindparam, text

from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError, StoreError
from jdbcstore.identifiers import MessageId, ProducerId, told_apart
from jdbcstore.message import Message
from jdbcstore.openwire import marshal, unmarshal_message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import LAST_SEQUENCE, PRIORITY_LEVELS, Cursor, MessageStore, Page
from jdbcstore.store.jdbc.column_text import require_column_text
from jdbcstore.store.jdbc.rows import Container, MessageKey, MessageRow, Purge
from jdbcstore.store.jdbc.store_host import StoreHost
from jdbcstore.store.jdbc.topic_work import TopicWork
from jdbcstore.store.jdbc.writes import Adds, Write
from jdbcstore.store.message_checks import require_id, require_size
from jdbcstore.store.refusals import Refusals

__all__ = ["JdbcMessageStore", "PageRow", "PreparedRow", "Reach", "producer_text"]

#: A page reads blobs up to this size along with their ids, longer ones one after the other while there is room.
_INLINE_BYTES_MAX: Final = 64 << 10


#: Stands in a frame for the number that its message does not have yet. It is found there without doubt: nobody knows
#: it, so no name in front of it has these bytes.
_MARK: Final = secrets.randbits(63)
_NUMBER: Final = struct.Struct(">q")
_MARK_BYTES: Final = _NUMBER.pack(_MARK)


class PreparedRow(NamedTuple):
    """The row of a message that has no number yet; of its bytes what is before the number, and behind."""

    head: bytes
    tail: bytes
    producer: str
    producer_sequence: int
    expiration: int
    level: int


class PageRow(NamedTuple):
    """A row as a page sees it; `blob` is None when it is too long to come along, both are when MSG is NULL."""

    id: int
    length: int | None
    blob: bytes | None
    level: int | None


class Reach(NamedTuple):
    """What is wanted of one level: rows behind an id, so many at most, and their blobs up to a size."""

    after: int
    rows: int
    inline_bytes: int


#: Reads the next rows of one level.
Probe: TypeAlias = Callable[[Connection, int | None, Reach], list[PageRow]]


class JdbcMessageStore(MessageStore):
    """One queue. Created by the adapter only."""

    def __init__(
        self, adapter: StoreHost, destination: Destination, container: Container, *, prioritized: bool
    ) -> None:
        self.destination = destination
        self.prioritized = prioritized
        self.container = container
        self._adapter = adapter
        #: The last producer, which is often the next one, and as text.
        self._producer_id: ProducerId | None = None
        self._producer = ""
        #: What one message more does to the count.
        self.added = (container, 1)

    @property
    def message_count(self) -> int:
        return self.container.count

    @property
    def is_needed(self) -> bool:
        """Whether messages have to be stored; the caller holds the adapter's `order`."""
        return True

    def add_message(self, message: Message) -> Completion[int]:
        adapter = self._adapter
        completion: Completion[int] = Completion()
        with adapter.order:
            row = self.row_of(message)
            adapter.writer.submit(Write(completion, row[0], adds=(row,), counts=(self.added,)))
        return completion

    def add_messages(self, messages: Sequence[Message]) -> Completion[Refusals] | None:
        adapter = self._adapter
        completion: Completion[Refusals] = Completion()
        with adapter.order:
            adapter.writer.submit(Adds(completion, [self.row_of(message) for message in messages], self.added))
        return completion

    def work_of(self, row: MessageRow) -> tuple[TopicWork, ...]:
        """What an added row means to durable subscriptions."""
        return ()

    def number(self, message: Message) -> MessageId:
        """Give a message its number. The caller holds the adapter's `order` until it is submitted, if it is."""
        message_id = require_id(message)
        message_id.broker_sequence_id = self._adapter.next_sequence()
        return message_id

    def prepare(self, message: Message) -> PreparedRow | None:
        message_id = message.message_id
        if message_id is None:
            return None  # it is refused when it is added
        given, message_id.broker_sequence_id = message_id.broker_sequence_id, _MARK
        try:
            blob = marshal(message)
        finally:
            message_id.broker_sequence_id = given
        self._check_length(blob)
        place = blob.index(_MARK_BYTES)
        return PreparedRow(
            blob[:place],
            blob[place + len(_MARK_BYTES) :],
            producer_text(message_id.producer_id),
            message_id.producer_sequence_id,
            message.expiration,
            self._level_of(message),
        )

    def row_of(self, message: Message, prepared: PreparedRow | None = None) -> MessageRow:
        """Give a message its number and bytes. The caller holds the adapter's `order` until the row is submitted.

        Args:
            message: what is added.
            prepared: what `prepare` gave for it, if it was prepared.
        """
        message_id, container = self.number(message), self.container
        number = message_id.broker_sequence_id
        if prepared is not None:
            head, tail, producer, producer_sequence, expiration, level = prepared
            container.levels.add(level)
            blob = head + _NUMBER.pack(number) + tail
            return (number, producer, producer_sequence, container.name, expiration, level, blob)
        producer_id = message_id.producer_id
        if producer_id is not self._producer_id:
            self._producer, self._producer_id = producer_text(producer_id), producer_id
        blob = marshal(message)
        self._check_length(blob)
        level = self._level_of(message) if self.prioritized else 0
        container.levels.add(level)
        return (
            number,
            self._producer,
            message_id.producer_sequence_id,
            container.name,
            message.expiration,
            level,
            blob,
        )

    def _check_length(self, blob: bytes) -> None:
        require_size(blob, self._adapter.dialect.message_bytes_max)

    def _level_of(self, message: Message) -> int:
        return min(max(message.priority, 0), PRIORITY_LEVELS - 1) if self.prioritized else 0

    def remove_message(self, *message_ids: MessageId) -> Completion[None]:
        completion: Completion[None] = Completion()
        ids, others = told_apart(message_ids)
        keys = [self.key_of(message_id) for message_id in others]

        def remove(ids: Sequence[int]) -> Write:
            return Write(completion, removes=ids, keys=keys, counts=((self.container, -len(ids) - len(keys)),))

        self._adapter.writer.submit_remove(ids, remove)
        return completion

    def removal_of(self, message_id: MessageId) -> tuple[TopicWork, ...]:
        """What removing a message means to durable subscriptions."""
        return ()

    def key_of(self, message_id: MessageId) -> MessageKey:
        """How to find a message whose number is not known."""
        return MessageKey(str(message_id.producer_id), message_id.producer_sequence_id, self.container.name)

    def update_message(self, message: Message) -> Completion[None]:
        completion: Completion[None] = Completion()
        if message.message_id is None or message.message_id.broker_sequence_id <= 0:
            raise StoreError("only a message that came from the store, with its sequence, can be updated")
        blob = marshal(message)
        self._check_length(blob)
        self._adapter.writer.submit(Write(completion, updates=((message.message_id.broker_sequence_id, blob),)))
        return completion

    def remove_all_messages(self) -> Completion[None]:
        completion: Completion[None] = Completion()
        with self._adapter.order:
            purge = Purge(self.container.name, self._adapter.last_message_broker_sequence_id())
            self._adapter.writer.submit(Write(completion, purges=(purge,), counts=((self.container, 0),)))
        return completion

    def get_message(self, message_id: MessageId) -> Message | None:
        statements = self._adapter.statements
        container = self.container.name
        with self._adapter.reading() as connection:
            if message_id.broker_sequence_id > 0:
                found = connection.execute(
                    text(statements.message_by_id), {"id": message_id.broker_sequence_id, "container": container}
                ).first()
            else:
                found = connection.execute(text(statements.message_by_key), self.key_of(message_id)._asdict()).first()
        return None if found is None else _message_of(found[0], found[1])

    def recover_next_messages(self, cursor: Cursor, messages_max: int, bytes_max: int) -> Page:
        return self._page(cursor, messages_max, bytes_max, self._probe)

    def _page(self, cursor: Cursor, messages_max: int, bytes_max: int, probe: Probe) -> Page:
        inline_bytes = min(bytes_max // messages_max, _INLINE_BYTES_MAX)
        with self._adapter.reading() as connection:
            rows = self._rows_behind(connection, cursor, messages_max, inline_bytes, probe)
            rows = _fitting(rows, messages_max, bytes_max)
            blobs = self._long_blobs(connection, [id for id, length, blob, _ in rows if blob is None is not length])
        messages: list[Message] = []
        unreadable: list[tuple[int, CodecError]] = []
        for id, length, blob, _ in rows:
            if blob is None is not length and (blob := blobs.get(id)) is None:
                continue  # removed since
            try:
                messages.append(_message_of(id, blob))
            except CodecError as error:
                unreadable.append((id, error))
        return Page(messages, self._behind(cursor, rows), unreadable)

    def _behind(self, cursor: Cursor, rows: Sequence[PageRow]) -> Cursor:
        """The place behind the rows of a page."""
        if not self.prioritized:
            return Cursor.after(rows[-1].id if rows else cursor.positions[0])
        positions = list(cursor.positions)
        for row in rows:
            positions[self._slot(row.level)] = row.id
        return Cursor(tuple(positions))

    def _rows_behind(
        self, connection: Connection, cursor: Cursor, rows_max: int, inline_bytes: int, probe: Probe
    ) -> list[PageRow]:
        """One probe along the index for each value of PRIORITY that the container has.

        Looking at one value at a time is what keeps a page flat on every database. In the usual queue there is one
        value. Where there are more, a prioritised queue takes them from the top; values that share a place of the
        cursor, which in any other queue all do, are merged by sequence.
        """
        found: list[PageRow] = []
        levels = sorted(self.container.levels, key=self._slot, reverse=True)
        for slot, sharing in groupby(levels, key=self._slot):
            if cursor.positions[slot] == LAST_SEQUENCE:
                continue
            reach = Reach(cursor.positions[slot], rows_max - len(found), inline_bytes)
            probes = [probe(connection, level, reach) for level in sharing]
            found += islice(probes[0] if len(probes) == 1 else heapq.merge(*probes), rows_max - len(found))
            if len(found) == rows_max:
                break
        return found

    def _probe(self, connection: Connection, level: int | None, reach: Reach) -> list[PageRow]:
        parameters: dict[str, object] = {"container": self.container.name, **reach._asdict()}
        if level is not None:
            parameters["level"] = level
        rows = connection.execute(self._adapter.page_statement(level), parameters).all()
        return [PageRow(id, length, blob, level) for id, length, blob in rows]

    def _slot(self, level: int | None) -> int:
        """The cursor's place for a value of PRIORITY; rows older than ActiveMQ 5.4 have none and count as 0."""
        return min(max(level or 0, 0), PRIORITY_LEVELS - 1) if self.prioritized else 0

    def _long_blobs(self, connection: Connection, ids: Sequence[int]) -> dict[int, bytes]:
        if not ids:
            return {}
        statement = text(self._adapter.statements.message_blobs).bindparams(bindparam("ids", expanding=True))
        return {id: bytes(blob) for id, blob in connection.execute(statement, {"ids": ids}) if blob is not None}


def producer_text(producer_id: ProducerId | None) -> str:
    """A producer as MSGID_PROD has it. Raises `StoreError` when it does not fit."""
    producer = str(producer_id)
    require_column_text("the producer id", producer)
    return producer


def _fitting(rows: Iterable[PageRow], messages_max: int, bytes_max: int) -> list[PageRow]:
    """The rows up to the one that reaches `bytes_max`, counting what they weigh before anything long is read."""
    taken: list[PageRow] = []
    room = bytes_max
    for row in rows:
        if len(taken) == messages_max or room <= 0:
            break
        taken.append(row)
        room -= row.length or 0
    return taken


def _message_of(id: int, blob: bytes | memoryview | None) -> Message:
    """A row as a message. Its sequence is the row's id, whatever the bytes say; ActiveMQ does the same."""
    if blob is None:
        raise CodecError("column MSG is NULL")
    message = unmarshal_message(bytes(blob))
    if message.message_id is None:
        message.message_id = MessageId(None, 0)
    message.message_id.broker_sequence_id = id
    return message
