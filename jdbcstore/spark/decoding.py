"""Rows of the message table → batches of the schema.

What stands in the table is passed on as Arrow gave it, or computed by Arrow. Messages are decoded only if a column
needs that, and of a message only what the columns need: properties and bodies stay bytes until somebody asks for them.

A message that cannot be decoded is never dropped: its row has what the table says and null in all that is decoded, and
column ``_corrupt`` has the reason and the bytes; without that column the reading stops.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from jdbcstore.errors import CodecError
from jdbcstore.java_text import java_text
from jdbcstore.message import (
    BlobMessage,
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from jdbcstore.openwire import unmarshal_message
from jdbcstore.selector import Selector
from jdbcstore.spark.columns import COLUMNS, CORRUPT, SIZE, arrow_schema, check_schema
from jdbcstore.spark.values import typed

__all__ = ["Decoder", "OnCorrupt", "kind_of"]

#: What becomes of a message that cannot be decoded.
OnCorrupt: TypeAlias = Literal["column", "fail"]

#: The largest time in milliseconds that a timestamp of microseconds takes.
_TIME_MS_MAX: Final = ((1 << 63) - 1) // 1000
_TIME: Final = pa.timestamp("us", tz="UTC")


class Decoder:
    """Makes batches of a schema.

    Args:
        schema: columns of `COLUMNS`, as Spark wants them.
        on_corrupt: ``fail`` stops at a message that cannot be decoded also if there is a column for it.
        selector: leaves out messages that do not match; those that cannot be decoded stay.
        lacks: columns of the table that the store does not have: EXPIRATION or none. It is read from the message then.

    Raises:
        ConfigurationError: the schema has a column that there is not, or one of another type.
    """

    def __init__(
        self,
        schema: StructType,
        *,
        on_corrupt: OnCorrupt = "column",
        selector: Selector | None = None,
        lacks: frozenset[str] = frozenset(),
    ) -> None:
        self._names = check_schema(schema)
        self._columns = [COLUMNS[name] for name in self._names]
        self._selector = selector
        self._takes_corrupt = CORRUPT in self._names and on_corrupt == "column"
        self._decoded = {column.name for column in self._columns if column.is_decoded or lacks & set(column.needs)}
        self._decodes = selector is not None or bool(self._decoded)
        wanted = dict.fromkeys(needed for column in self._columns for needed in column.needs if needed not in lacks)
        if self._decodes:
            wanted |= dict.fromkeys(("MSG", "ID"))
        if "MSG" in wanted:
            wanted.pop(SIZE, None)
        #: What a scan has to read, columns of the table by name or `SIZE`. Never empty: rows have to be counted.
        self.table_columns: Final = tuple(wanted) or ("ID",)
        #: Of the batches.
        self.schema: Final = arrow_schema(schema)
        names = set(self._names)
        self._reads_properties = bool(names & {"properties", "headers", CORRUPT})
        self._reads_bodies = bool(names & {"value", "text", "bytes", "map", "stream", CORRUPT})
        attributes = [name for name in self._decoded if name in _ATTRIBUTES]
        self._attributes = [(name, attrgetter(_ATTRIBUTES[name][0])) for name in attributes]

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Decoder is made where it is used")

    def decode(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the schema from one with `table_columns`.

        Raises:
            CodecError: a message cannot be decoded and there is no column for it, or `on_corrupt` is ``fail``.
        """
        rows = _Rows([], [])
        errors: dict[int, str] = {}
        if self._decodes:
            rows, errors = self._rows(raw)
            if self._selector is not None:
                chosen = [one is _UNREADABLE or self._selector.matches(one) for one in rows.messages]
                raw = raw.filter(pa.array(chosen, pa.bool_()))
                errors = _moved(errors, chosen)
                rows = _Rows(list(compress(rows.messages, chosen)), list(compress(rows.bodies, chosen)))
        made = {name: _attribute(rows.messages, name, get) for name, get in self._attributes}
        arrays = []
        for field in self.schema:
            if field.name == CORRUPT:
                arrays.append(_corrupt(raw, errors, field.type))
            elif field.name in made:
                arrays.append(made[field.name])
            elif field.name in self._decoded:
                arrays.append(_FROM_MESSAGE[field.name](rows, field.type))
            else:
                arrays.append(_FROM_TABLE[field.name](raw))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _rows(self, raw: pa.RecordBatch) -> tuple[_Rows, dict[int, str]]:
        """The messages, and by their places why some cannot be decoded."""
        messages: list[Message] = []
        bodies: list[bytes | None] = []
        errors: dict[int, str] = {}
        reads_properties, reads_bodies = self._reads_properties, self._reads_bodies
        for place, blob in enumerate(raw.column("MSG").to_pylist()):
            try:
                message = unmarshal_message(blob)
                if reads_properties and message.marshalled_properties is not None:
                    message.properties  # noqa: B018  # decodes, and remembers
                body = _body(message) if reads_bodies else None
            except (CodecError, TypeError) as error:
                why = "column MSG is NULL" if blob is None else str(error)
                if not self._takes_corrupt:
                    id = raw.column("ID")[place].as_py()
                    raise CodecError(
                        f"the message with ID {id} cannot be decoded: {why}. To get such messages in a column of their"
                        f" own ask for {CORRUPT}, with onCorrupt=column"
                    ) from error
                errors[place] = why
                message, body = _UNREADABLE, None
            messages.append(message)
            bodies.append(body)
        return _Rows(messages, bodies), errors


class _Rows(NamedTuple):
    """Decoded messages."""

    messages: list[Message]
    #: As column ``value`` has them, if some column needs them.
    bodies: list[bytes | None]


def kind_of(message: Message) -> str:
    """``text``, ``bytes``, ``map``, ``stream``, ``object``, ``blob``, or ``message`` for one without a body."""
    return _KINDS[message.__class__]


def _unreadable() -> Message:
    message = Message()
    for attribute, _ in _ATTRIBUTES.values():
        setattr(message, attribute, None)
    return message


_LENGTH: Final = struct.Struct(">i")
_KINDS: Final[dict[type[Message], str]] = {
    Message: "message",
    TextMessage: "text",
    BytesMessage: "bytes",
    MapMessage: "map",
    StreamMessage: "stream",
    ObjectMessage: "object",
    BlobMessage: "blob",
}


# -- columns of the table ----------------------------------------------------------------------------------------------


def _message_ids(raw: pa.RecordBatch) -> pa.Array:
    """Both parts; only the first where there is no number, as in the ids of foreign clients."""
    producers, sequences = raw.column("MSGID_PROD"), raw.column("MSGID_SEQ").cast(pa.string())
    return pc.coalesce(pc.binary_join_element_wise(producers, sequences, ":"), producers)


def _expirations(raw: pa.RecordBatch) -> pa.Array:
    times = raw.column("EXPIRATION")
    return _times(pc.if_else(pc.greater(times, 0), times, None))


def _sizes(raw: pa.RecordBatch) -> pa.Array:
    if SIZE in raw.schema.names:
        return raw.column(SIZE)
    return pc.binary_length(raw.column("MSG")).cast(pa.int64())


_FROM_TABLE: Final[Mapping[str, Callable[[pa.RecordBatch], pa.Array]]] = {
    "topic": lambda raw: raw.column("CONTAINER"),
    "partition": lambda raw: pa.repeat(pa.scalar(0, pa.int32()), raw.num_rows),
    "offset": lambda raw: raw.column("ID"),
    "messageId": _message_ids,
    "rowPriority": lambda raw: raw.column("PRIORITY").cast(pa.int32()),
    "expiration": _expirations,
    "producerId": lambda raw: raw.column("MSGID_PROD"),
    "size": _sizes,
    "xid": lambda raw: raw.column("XID"),
    "message": lambda raw: raw.column("MSG"),
}


def _times(milliseconds: pa.Array) -> pa.Array:
    """Milliseconds as timestamps; those that no timestamp takes (JMS clients send such) as the last that one takes."""
    clamped = pc.max_element_wise(
        pc.min_element_wise(milliseconds, _TIME_MS_MAX, skip_nulls=False), -_TIME_MS_MAX, skip_nulls=False
    )
    return pc.multiply(clamped, 1000).cast(_TIME)


# -- columns out of the message ----------------------------------------------------------------------------------------


#: Column → attribute, and how it becomes what the column has.
_ATTRIBUTES: Final[Mapping[str, tuple[str, Callable[[list[Any]], pa.Array]]]] = {
    "key": ("group_id", lambda texts: _strings(texts).cast(pa.binary())),
    "timestamp": ("timestamp", lambda times: _set_times(times)),
    "correlationId": ("correlation_id", lambda texts: _strings(texts)),
    "replyTo": ("reply_to", lambda found: _strings([one and one.qualified_name for one in found])),
    "type": ("type", lambda texts: _strings(texts)),
    "redeliveryCounter": ("redelivery_counter", lambda numbers: pa.array(numbers, pa.int32())),
    "persistent": ("persistent", lambda flags: pa.array(flags, pa.bool_())),
    "groupSequence": ("group_sequence", lambda numbers: pa.array(numbers, pa.int32())),
    "originalDestination": (
        "original_destination",
        lambda found: _strings([one and one.qualified_name for one in found]),
    ),
    "userId": ("user_id", lambda texts: _strings(texts)),
    "brokerInTime": ("broker_in_time", lambda times: _set_times(times)),
    "priority": ("priority", lambda numbers: pa.array(numbers, pa.int32())),
    "expiration": ("expiration", lambda times: _set_times(times)),
}


def _attribute(messages: list[Message], name: str, get: Callable[[Message], Any]) -> pa.Array:
    return _ATTRIBUTES[name][1](list(map(get, messages)))


def _set_times(times: list[int | None]) -> pa.Array:
    """Times, null where none was set."""
    return _times(pa.array([time or None for time in times], pa.int64()))


def _headers(rows: _Rows, type: pa.DataType) -> pa.Array:
    keys, values, offsets = _flat(
        None if one is _UNREADABLE else ((name, java_text(value)) for name, value in one.properties.items())
        for one in rows.messages
    )
    entries = pa.StructArray.from_arrays(
        [_strings(keys), _strings(values).cast(pa.binary())], fields=[*type.value_type]
    )
    return pa.ListArray.from_arrays(offsets, entries, type=type)


def _properties(rows: _Rows, type: pa.DataType) -> pa.Array:
    return _map_array((None if one is _UNREADABLE else one.properties.items() for one in rows.messages), type)


def _maps(rows: _Rows, type: pa.DataType) -> pa.Array:
    return _map_array((one.body.items() if isinstance(one, MapMessage) else None for one in rows.messages), type)


def _streams(rows: _Rows, type: pa.DataType) -> pa.Array:
    kinds, values, offsets = _flat(
        map(typed, one.values) if isinstance(one, StreamMessage) else None for one in rows.messages
    )
    return pa.ListArray.from_arrays(offsets, _typed_array(kinds, values, type.value_type), type=type)


def _texts(rows: _Rows, type: pa.DataType) -> pa.Array:
    """Texts; null for bytes that are none, which STOMP clients may send: column ``value`` has them."""
    bodies = [body if one.__class__ is TextMessage else None for one, body in zip(*rows, strict=True)]
    try:
        return pa.array(bodies, pa.binary()).cast(type)
    except pa.ArrowInvalid:
        return _strings([None if body is None else _text(body) for body in bodies])


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _body(message: Message) -> bytes | None:
    """The body as bytes. Raises CodecError if it cannot be decoded."""
    content, kind = message.content, message.__class__
    if content is None:
        return None
    if kind is TextMessage:
        if not message.compressed and len(content) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(content)
            if length == len(content) - _LENGTH.size and (data := content[_LENGTH.size :]).isascii():
                return data
            if length == -1:
                return None
        return message.utf8_body  # type: ignore[attr-defined, no-any-return]  # a TextMessage has it
    if kind is MapMessage:
        message.body  # type: ignore[attr-defined]  # noqa: B018  # whether it can be decoded
    elif kind is StreamMessage:
        message.values  # type: ignore[attr-defined]  # noqa: B018
    return message.uncompressed_content()


def _bytes(rows: _Rows, type: pa.DataType) -> pa.Array:
    bodies = zip(*rows, strict=True)
    return pa.array([(body or b"") if one.__class__ is BytesMessage else None for one, body in bodies], type)


def _kinds(rows: _Rows, type: pa.DataType) -> pa.Array:
    return pa.array([None if one is _UNREADABLE else _KINDS[one.__class__] for one in rows.messages], type)


_FROM_MESSAGE: Final[Mapping[str, Callable[[_Rows, pa.DataType], pa.Array]]] = {
    "value": lambda rows, type: pa.array(rows.bodies, type),
    "headers": _headers,
    "properties": _properties,
    "kind": _kinds,
    "text": _texts,
    "bytes": _bytes,
    "map": _maps,
    "stream": _streams,
}


# -- building arrays ---------------------------------------------------------------------------------------------------


def _strings(texts: list[str | None]) -> pa.Array:
    """Texts. Half of a surrogate pair, which Java may send and Arrow not take, becomes a question mark."""
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        cleaned = [None if text is None else text.encode("utf-8", "replace").decode() for text in texts]
        return pa.array(cleaned, pa.string())


def _flat(lists: Iterable[Iterable[tuple[Any, Any]] | None]) -> tuple[list[Any], list[Any], pa.Array]:
    """Lists of pairs end to end: first parts, second parts, and where each list begins; null where there is none."""
    firsts: list[Any] = []
    seconds: list[Any] = []
    offsets: list[int | None] = []
    for pairs in lists:
        offsets.append(None if pairs is None else len(firsts))
        for first, second in pairs or ():
            firsts.append(first)
            seconds.append(second)
    offsets.append(len(firsts))
    return firsts, seconds, pa.array(offsets, pa.int32())


def _typed_array(kinds: list[str], values: list[str | None], type: pa.DataType) -> pa.Array:
    return pa.StructArray.from_arrays([pa.array(kinds, pa.string()), _strings(values)], fields=[*type])


def _map_array(maps: Iterable[Iterable[tuple[str, Any]] | None], type: pa.DataType) -> pa.Array:
    names, values, offsets = _flat(maps)
    pairs = [typed(value) for value in values]
    items = _typed_array([kind for kind, _ in pairs], [text for _, text in pairs], type.item_type)
    return pa.MapArray.from_arrays(offsets, _strings(names), items, type=type)


def _corrupt(raw: pa.RecordBatch, errors: Mapping[int, str], type: pa.DataType) -> pa.Array:
    found: list[dict[str, object] | None] = [None] * raw.num_rows
    for place, why in errors.items():
        found[place] = {"error": why, "message": raw.column("MSG")[place].as_py()}
    return pa.array(found, type)


def _moved(errors: Mapping[int, str], chosen: Sequence[bool]) -> dict[int, str]:
    """The errors at the places that are left."""
    places = {}
    count = 0
    for place, is_chosen in enumerate(chosen):
        places[place] = count
        count += is_chosen
    return {places[place]: why for place, why in errors.items()}


#: Stands for a message that cannot be decoded: all that columns ask it for is None.
_UNREADABLE: Final = _unreadable()
