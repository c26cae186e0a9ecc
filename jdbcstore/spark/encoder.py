"""Batches of the schema → messages, as rows of the message table.

A row is a message: from column ``message``, whose bytes are stored as they are, or made of the other columns, each of
which may be missing. What a DataFrame that was read has besides (``offset``, ``partition``, ``size``, ``producerId``,
``xid``) says where a message was, and is not written.

A new message id depends on the load, the part and the number of the row only, so a task that is tried again makes the
same ids.
"""

from __future__ import annotations

import hashlib
import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from jdbcstore.destination import QUALIFIED_NAME_MAX, Destination, parse_destination
from jdbcstore.errors import CodecError, ConfigurationError
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from jdbcstore.modified_utf8 import encode_modified_utf8
from jdbcstore.openwire import MessageTemplate, marshal, unmarshal_message
from jdbcstore.primitives import Value, encode_map, encode_values
from jdbcstore.spark.blocks import Indexes, frames, java_texts, lengths_of, parts, stored_texts
from jdbcstore.spark.columns import COLUMNS, CORRUPT, MESSAGE
from jdbcstore.spark.options import WriteOptions
from jdbcstore.spark.values import value_of
from jdbcstore.store.jdbc.dialect.base.load_block import LoadBlock, LoadRow

__all__ = ["Encoder", "check_written"]

#: What says where a message was read.
_IGNORED: Final = frozenset({"partition", "offset", "producerId", "size", "xid"})
_LENGTH: Final = struct.Struct(">i")
_KINDS: Final[dict[str, type[Message]]] = {
    "text": TextMessage,
    "bytes": BytesMessage,
    "map": MapMessage,
    "stream": StreamMessage,
    "object": ObjectMessage,
    "message": Message,
}
_KIND_NAMES: Final = list(_KINDS)
#: Columns that are attributes of a message as they are: the attribute, and what stands for null.
_PLAIN: Final[dict[str, tuple[str, object]]] = {
    "correlationId": ("correlation_id", None),
    "type": ("type", None),
    "userId": ("user_id", None),
    "redeliveryCounter": ("redelivery_counter", 0),
    "groupSequence": ("group_sequence", 0),
    "persistent": ("persistent", True),
    "priority": ("priority", 4),
}
_TIMES: Final = {"timestamp": "timestamp", "expiration": "expiration", "brokerInTime": "broker_in_time"}
#: Types of Spark that a column may have besides the one that it is read with.
_ALSO: Final = {
    "key": ("string",),
    "value": ("string",),
    "priority": ("tinyint", "smallint", "bigint"),
    "redeliveryCounter": ("tinyint", "smallint", "bigint"),
    "groupSequence": ("tinyint", "smallint", "bigint"),
    "properties": ("map<string,string>",),
    "map": ("map<string,string>",),
    "timestamp": ("timestamp_ntz",),
    "expiration": ("timestamp_ntz",),
}
_BODIES: Final = ("value", "text", "bytes", "map", "stream")


def check_written(schema: StructType, options: WriteOptions) -> None:
    """Make sure that a DataFrame can be written.

    Raises:
        ConfigurationError: a column is unknown or of a wrong type, or no row could say where to go.
    """
    names = list(schema.names)
    known = [name for name in COLUMNS if name != CORRUPT]
    for field in schema.fields:
        column = COLUMNS.get(field.name)
        if column is None:
            raise ConfigurationError(
                f"column {field.name} means nothing here: drop it, or put it into properties; there are"
                f" {', '.join(known)}"
            )
        given = field.dataType.simpleString()
        if field.name not in _IGNORED and given not in (column.type.simpleString(), *_ALSO.get(field.name, ())):
            raise ConfigurationError(
                f"column {field.name} has to be {column.type.simpleString()}, it is {given}: cast it before writing"
            )
    if len(set(names)) < len(names):
        raise ConfigurationError(f"a column is there twice: {', '.join(names)}")
    if "topic" not in names and MESSAGE not in names and options.topic is None:
        raise ConfigurationError('no column topic says where messages go: give it, or .option("topic", "queue://NAME")')


class Encoder:
    """Makes the rows of one part.

    Args:
        options: of the write.
        job: the name of the load.
        part: the number of the part.
    """

    def __init__(self, options: WriteOptions, job: str, part: int) -> None:
        self._topic = options.topic
        self._keeps_ids = options.keeps_message_ids
        self._trusts = options.trusts_messages
        name = re.sub(r"[^A-Za-z0-9._-]", "_", job)[:60]
        digest = hashlib.sha256(job.encode()).hexdigest()[:12]
        self._producer = ProducerId(f"ID:{name}-{digest}-{part}", 1, 1)
        self._producer_text = str(self._producer)
        self._number = 0

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[LoadRow | LoadBlock]:
        """The rows of some batches, in their order, many in a block where that is faster.

        Raises:
            ConfigurationError: a value cannot be written; the text names the column and the row.
        """
        for batch in batches:
            if len(batch):
                yield from self._encoded(batch)

    def _encoded(self, batch: pa.RecordBatch) -> Iterator[LoadRow | LoadBlock]:
        columns = {name: _short(batch.column(at)) for at, name in enumerate(batch.schema.names)}
        if CORRUPT in columns and columns[CORRUPT].null_count < len(batch) and MESSAGE not in columns:
            raise ConfigurationError(
                f"column {CORRUPT}: a row has a message that could not be read: filter such rows out, or write column"
                f" {MESSAGE}"
            )
        if MESSAGE not in columns:
            yield from self._made(columns, len(batch))
            return
        messages = columns[MESSAGE]
        if messages.null_count:
            raise ConfigurationError(f"column {MESSAGE} is null in {messages.null_count} rows: filter them out")
        if self._trusts and "messageId" not in columns and ("topic" in columns or self._topic):
            yield from self._trusted(columns, messages)
        else:
            yield from self._as_they_are(columns, messages.to_pylist())

    # -- from the bytes of a message -----------------------------------------------------------------------------

    def _trusted(self, columns: dict[str, pa.Array], messages: pa.Array) -> Iterator[LoadBlock]:
        names, at = self._destinations(columns, len(messages))
        containers = [name.qualified_name for name in names]
        levels = _levels(columns, len(messages))
        for part in parts(messages):
            data = messages[part]
            yield self._block(containers, at[part], levels[part], lengths_of(data), [data])

    def _block(
        self, containers: list[str], at: Indexes, levels: Indexes, lengths: Indexes, pieces: list[Any]
    ) -> LoadBlock:
        first = self._number + 1
        self._number += len(lengths)
        return LoadBlock(self._producer_text, first, containers, at, levels, lengths, pieces)

    def _as_they_are(self, columns: dict[str, pa.Array], messages: Sequence[bytes]) -> Iterator[LoadRow]:
        levels = _levels(columns, len(messages)).tolist()
        topics = self._each_destination(columns, len(messages)) if "topic" in columns or self._topic else None
        for number, data in enumerate(messages):
            try:
                message = unmarshal_message(data)
            except CodecError as error:
                raise ConfigurationError(f"column {MESSAGE}: row {number} is no message of ActiveMQ: {error}") from None
            destination = topics[number] if topics is not None else message.destination
            if destination is None:
                raise ConfigurationError(f"column {MESSAGE}: row {number} has no destination: add column topic")
            _check(destination)
            message_id = message.message_id
            if message_id is None or message_id.producer_id is None:
                raise ConfigurationError(f"column {MESSAGE}: row {number} has no message id")
            producer = str(message_id.producer_id)
            yield (
                producer,
                message_id.producer_sequence_id,
                destination.qualified_name,
                message.expiration,
                levels[number],
                data,
            )

    # -- from columns --------------------------------------------------------------------------------------------

    def _made(self, columns: dict[str, pa.Array], count: int) -> Iterator[LoadRow | LoadBlock]:
        bodies = _bodies(columns, count)
        names: list[str] = []
        values: list[Sequence[object]] = []
        for name, (attribute, absent) in _PLAIN.items():
            if name in columns:
                names.append(attribute)
                array = columns[name]
                values.append((array if absent is None else pc.fill_null(array, absent)).to_pylist())
        now_ms = time.time_ns() // 1_000_000
        for name, attribute in _TIMES.items():
            if name in columns:
                names.append(attribute)
                values.append(_milliseconds(columns[name], now_ms if name == "timestamp" else 0))
        if "key" in columns:
            names.append("group_id")
            values.append(_texts(columns["key"], "key"))
        for name, attribute in (("replyTo", "reply_to"), ("originalDestination", "original_destination")):
            if name in columns:
                names.append(attribute)
                values.append([None if one is None else _destination(one, name) for one in columns[name].to_pylist()])
        if "properties" in columns or "headers" in columns:
            names.append("marshalled_properties")
            values.append(_properties(columns, count))
        ids = columns["messageId"].to_pylist() if self._keeps_ids and "messageId" in columns else None
        if "timestamp" not in columns:
            for prototype in bodies.prototypes:
                prototype.timestamp = now_ms
        if not values and ids is None:
            yield from self._alike(bodies, columns)
            return
        destinations = self._each_destination(columns, count)
        levels = _levels(columns, count).tolist()
        own = MessageId(self._producer, 0)
        rows = zip(*values, strict=True) if values else iter([()] * count)
        for number, (kind, content, destination, row, level) in enumerate(
            zip(bodies.kind_at.tolist(), bodies.stored().to_pylist(), destinations, rows, levels, strict=True)
        ):
            message = bodies.prototypes[kind]
            for attribute, value in zip(names, row, strict=True):
                setattr(message, attribute, value)
            message.destination, message.content = destination, content
            given = None if ids is None else ids[number]
            if given is None:
                producer, sequence = self._producer_text, self._next()
                own.producer_sequence_id = sequence
                message.message_id, message.producer_id = own, self._producer
            else:
                message_id = _message_id(given)
                producer, sequence = str(message_id.producer_id), message_id.producer_sequence_id
                message.message_id, message.producer_id = message_id, message_id.producer_id
            try:
                blob = marshal(message)
            except CodecError as error:
                raise ConfigurationError(f"row {number} is no message: {error}") from None
            yield producer, sequence, destination.qualified_name, message.expiration, level, blob

    def _alike(self, bodies: _Bodies, columns: dict[str, pa.Array]) -> Iterator[LoadBlock]:
        """Rows that differ in kind, destination and body only."""
        contents = bodies.contents
        names, at = self._destinations(columns, len(contents))
        containers = [name.qualified_name for name in names]
        levels = _levels(columns, len(contents))
        pairs, template_at = np.unique(bodies.kind_at * len(names) + at, return_inverse=True)
        templates = []
        for pair in pairs.tolist():
            message = bodies.prototypes[pair // len(names)]
            message.destination, message.producer_id = names[pair % len(names)], self._producer
            message.message_id = MessageId(self._producer, 0)
            templates.append(MessageTemplate(message))
        for part in parts(contents):
            lengths, pieces = frames(
                templates, template_at[part], self._number + 1, contents[part], are_texts=bodies.are_texts
            )
            yield self._block(containers, at[part], levels[part], lengths, pieces)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _each_destination(self, columns: dict[str, pa.Array], count: int) -> list[Destination]:
        names, at = self._destinations(columns, count)
        return [names[one] for one in at.tolist()]

    def _destinations(self, columns: dict[str, pa.Array], count: int) -> tuple[list[Destination], Indexes]:
        """The different destinations, and which of them each row has."""
        if "topic" not in columns:
            if self._topic is None:
                raise ConfigurationError("no column topic says where messages go")
            return [_destination(self._topic, "topic")], np.zeros(count, np.int64)
        array = columns["topic"]
        if array.null_count:
            if self._topic is None:
                raise ConfigurationError(
                    f"column topic is null in {array.null_count} rows: fill it, or give a default by option topic"
                )
            array = pc.fill_null(array, self._topic)
        # Few names for many rows: each is read once.
        coded = array.dictionary_encode()
        names = [_destination(name, "topic") for name in coded.dictionary.to_pylist()]
        return names, coded.indices.to_numpy().astype(np.int64)


def _short(array: pa.Array) -> pa.Array:
    """Texts and bytes as Spark gives them unless its setting spark.sql.execution.arrow.useLargeVarTypes is on."""
    short = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(array.type)
    return array if short is None else array.cast(short)


def _levels(columns: dict[str, pa.Array], count: int) -> Indexes:
    """Column PRIORITY of each row: 0, as brokers have it for destinations without an order of priorities."""
    if "rowPriority" not in columns:
        return np.zeros(count, np.int64)
    levels: Indexes = pc.fill_null(columns["rowPriority"], 0).to_numpy().astype(np.int64)
    return levels


@lru_cache(maxsize=8192)
def _destination(name: str, column: str) -> Destination:
    try:
        destination = parse_destination(name)
    except ConfigurationError as error:
        raise ConfigurationError(f"column {column}: {error}") from None
    if column == "topic":
        _check(destination)
    return destination


@lru_cache(maxsize=8192)
def _check(destination: Destination) -> None:
    name = destination.qualified_name
    if destination.is_composite or destination.is_wildcard or destination.is_temporary:
        raise ConfigurationError(f"column topic: {name[:80]!r} is not one destination that a store keeps")
    if not destination.is_storable:
        raise ConfigurationError(
            f"column topic: {name[:60]!r} has {len(name)} characters, or control characters; {QUALIFIED_NAME_MAX} is"
            " the most"
        )


def _message_id(given: str) -> MessageId:
    message_id = MessageId.parse(given)
    if message_id.text_view is not None or message_id.producer_id is None:
        raise ConfigurationError(f"column messageId: {given[:80]!r} is no id of a message")
    return message_id


def _texts(array: pa.Array, column: str) -> list[str | None]:
    try:
        texts: list[str | None] = array.cast(pa.string()).to_pylist()
    except (pa.ArrowInvalid, UnicodeDecodeError):
        raise ConfigurationError(f"column {column}: a value is no text in UTF-8") from None
    return texts


def _milliseconds(array: pa.Array, absent: int) -> list[int]:
    return pc.fill_null(pc.divide(array.cast(pa.int64()), 1000), absent).to_pylist()  # type: ignore[no-any-return]


class _Bodies(NamedTuple):
    """A message of each kind, which of them each row has, and the bodies as they are stored, or texts for them."""

    prototypes: list[Message]
    kind_at: Indexes
    contents: pa.Array
    are_texts: bool = False

    def stored(self) -> pa.Array:
        """The bodies as they are stored."""
        return stored_texts(self.contents) if self.are_texts else self.contents


def _bodies(columns: dict[str, pa.Array], count: int) -> _Bodies:
    there = [name for name in _BODIES if name in columns]
    if "kind" not in columns and len(there) == 1 and there[0] in ("value", "text", "bytes"):
        array = columns[there[0]]
        if not pa.types.is_string(array.type):
            return _Bodies([BytesMessage()], np.zeros(count, np.int64), array)
        try:
            return _Bodies([TextMessage()], np.zeros(count, np.int64), java_texts(array), are_texts=True)
        except pa.ArrowInvalid:
            raise ConfigurationError(f"column {there[0]}: a value is no text in UTF-8") from None
    bodies = [columns[name].to_pylist() for name in there]
    kinds = columns["kind"].to_pylist() if "kind" in columns else [None] * count
    at: list[int] = []
    contents: list[bytes | None] = []
    rows = zip(*bodies, strict=True) if bodies else iter([()] * count)
    for number, (kind, row) in enumerate(zip(kinds, rows, strict=True)):
        given: dict[str, Any] = {name: value for name, value in zip(there, row, strict=True) if value is not None}
        if kind is None:
            kind = _kind_of(given)
        if kind not in _KINDS:
            raise ConfigurationError(
                f"column kind: {kind!r} in row {number} cannot be written from columns, only {', '.join(_KINDS)};"
                f" column {MESSAGE} takes any"
            )
        at.append(_KIND_NAMES.index(kind))
        try:
            contents.append(_CONTENT[kind](given))
        except CodecError as error:
            raise ConfigurationError(f"the body of row {number} is no {kind}: {error}") from None
    return _Bodies([kind() for kind in _KINDS.values()], np.array(at, np.int64), pa.array(contents, pa.binary()))


def _kind_of(given: dict[str, Any]) -> str:
    for name in ("text", "map", "stream", "bytes"):
        if name in given:
            return name
    if "value" in given:
        return "text" if isinstance(given["value"], str) else "bytes"
    return "message"


def _text(text: str | None) -> bytes | None:
    if text is None:
        return None
    data = text.encode() if text.isascii() and "\0" not in text else encode_modified_utf8(text)
    return _LENGTH.pack(len(data)) + data


def _text_content(given: dict[str, Any]) -> bytes | None:
    text = given.get("text", given.get("value"))
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError:
            raise CodecError("value is no text in UTF-8") from None
    return _text(text)


def _bytes_content(given: dict[str, Any]) -> bytes | None:
    data = given.get("bytes", given.get("value"))
    return data.encode() if isinstance(data, str) else data


def _map_content(given: dict[str, Any]) -> bytes | None:
    if "map" not in given:
        return _bytes_content(given)
    return encode_map(_values(given["map"]), "map") if given["map"] else None


def _stream_content(given: dict[str, Any]) -> bytes | None:
    if "stream" not in given:
        return _bytes_content(given)
    return encode_values([value_of(one["type"], one["value"]) for one in given["stream"]], "stream")


_CONTENT: Final[dict[str, Callable[[dict[str, Any]], bytes | None]]] = {
    "text": _text_content,
    "bytes": _bytes_content,
    "map": _map_content,
    "stream": _stream_content,
    "object": _bytes_content,
    "message": lambda given: None,
}


def _values(pairs: Iterable[tuple[str, Any]]) -> dict[str, Value]:
    return {name: value_of(one["type"], one["value"]) if isinstance(one, dict) else one for name, one in pairs}


def _properties(columns: dict[str, pa.Array], count: int) -> list[bytes | None]:
    """The properties of each row, stored; those in ``headers`` are texts, and give way to those in ``properties``."""
    none: list[Any] = [None] * count
    headers = columns["headers"].to_pylist() if "headers" in columns else none
    given = columns["properties"].to_pylist() if "properties" in columns else none
    found: list[bytes | None] = []
    for number, (texts, typed) in enumerate(zip(headers, given, strict=True)):
        try:
            properties: dict[str, Value] = {
                one["key"]: None if one["value"] is None else one["value"].decode() for one in texts or ()
            }
            properties |= _values(typed or ())
            found.append(encode_map(properties, "properties") if properties else None)
        except (CodecError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"column properties or headers: row {number}: {error}") from None
    return found
