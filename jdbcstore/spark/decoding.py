"""Rows of the message table → batches of the schema.

What stands in the table is passed on as Arrow gave it, or computed by Arrow. Messages are decoded only if a column
needs that, and of a message only what the columns need: properties and bodies stay bytes until somebody asks for them.

A message that cannot be decoded is never dropped: its row has what the table says and null in all that is decoded, and
column ``_corrupt`` has the reason and the bytes; without that column the reading stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

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

#: A message, or None in the place of one that cannot be decoded.
Messages: TypeAlias = Sequence[Message | None]


class Decoder:
    """Makes batches of a schema.

    Args:
        schema: columns of `COLUMNS`, as Spark wants them.
        on_corrupt: ``fail`` stops at a message that cannot be decoded also if there is a column for it.
        selector: leaves out messages that do not match; those that cannot be decoded stay.
        lacks: columns of the table that the store does not have (of PRIORITY and EXPIRATION); they are read from the
            message.

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
        self._checks: list[Callable[[Message], object]] = []
        if names & {"properties", "headers", CORRUPT}:
            self._checks.append(lambda message: message.properties)
        if names & {"value", "text", "bytes", "map", "stream", CORRUPT}:
            self._checks.append(_check_body)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Decoder is made where it is used")

    def decode(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the schema from one with `table_columns`.

        Raises:
            CodecError: a message cannot be decoded and there is no column for it, or `on_corrupt` is ``fail``.
        """
        messages: Messages = ()
        errors: dict[int, str] = {}
        if self._decodes:
            messages, errors = self._messages(raw)
            if self._selector is not None:
                chosen = [message is None or self._selector.matches(message) for message in messages]
                raw = raw.filter(pa.array(chosen, pa.bool_()))
                errors = _moved(errors, chosen)
                messages = [message for message, is_chosen in zip(messages, chosen, strict=True) if is_chosen]
        arrays = [
            _corrupt(raw, errors, field.type)
            if field.name == CORRUPT
            else _from_message(messages, field.name, field.type)
            if field.name in self._decoded
            else _FROM_TABLE[field.name](raw)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _messages(self, raw: pa.RecordBatch) -> tuple[list[Message | None], dict[int, str]]:
        """The messages, and by their places why some cannot be decoded."""
        messages: list[Message | None] = []
        errors: dict[int, str] = {}
        checks = self._checks
        for place, blob in enumerate(raw.column("MSG").to_pylist()):
            try:
                message = unmarshal_message(blob)
                for check in checks:
                    check(message)
            except (CodecError, TypeError) as error:
                why = "column MSG is NULL" if blob is None else str(error)
                if not self._takes_corrupt:
                    id = raw.column("ID")[place].as_py()
                    raise CodecError(
                        f"the message with ID {id} cannot be decoded: {why}. To get such messages in a column of their"
                        f" own ask for {CORRUPT}, with onCorrupt=column"
                    ) from error
                errors[place] = why
                messages.append(None)
            else:
                messages.append(message)
        return messages, errors


def kind_of(message: Message) -> str:
    """``text``, ``bytes``, ``map``, ``stream``, ``object``, ``blob``, or ``message`` for one without a body."""
    return _KINDS[message.__class__]


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
    "priority": lambda raw: raw.column("PRIORITY").cast(pa.int32()),
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


def _from_message(messages: Messages, name: str, type: pa.DataType) -> pa.Array:
    return _FROM_MESSAGE[name](messages, type)


def _attribute(name: str) -> Callable[[Messages, pa.DataType], pa.Array]:
    def read(messages: Messages, type: pa.DataType) -> pa.Array:
        return _array([message and getattr(message, name) for message in messages], type)

    return read


def _time(name: str) -> Callable[[Messages, pa.DataType], pa.Array]:
    """A time, null if it was not set."""

    def read(messages: Messages, type: pa.DataType) -> pa.Array:
        return _times(pa.array([(message and getattr(message, name)) or None for message in messages], pa.int64()))

    return read


def _destination(name: str) -> Callable[[Messages, pa.DataType], pa.Array]:
    def read(messages: Messages, type: pa.DataType) -> pa.Array:
        found = [message and getattr(message, name) for message in messages]
        return _array([one and one.qualified_name for one in found], type)

    return read


def _keys(messages: Messages, type: pa.DataType) -> pa.Array:
    return _array([message and message.group_id for message in messages], pa.string()).cast(type)


def _headers(messages: Messages, type: pa.DataType) -> pa.Array:
    keys, values, offsets = _flat(
        None if message is None else ((name, java_text(value)) for name, value in message.properties.items())
        for message in messages
    )
    entries = pa.StructArray.from_arrays(
        [_array(keys, pa.string()), _array(values, pa.string()).cast(pa.binary())], fields=list(type.value_type)
    )
    return pa.ListArray.from_arrays(offsets, entries, type=type)


def _properties(messages: Messages, type: pa.DataType) -> pa.Array:
    return _map_array((None if message is None else message.properties.items() for message in messages), type)


def _maps(messages: Messages, type: pa.DataType) -> pa.Array:
    return _map_array((m.body.items() if isinstance(m, MapMessage) else None for m in messages), type)


def _streams(messages: Messages, type: pa.DataType) -> pa.Array:
    found = (m.values if isinstance(m, StreamMessage) else None for m in messages)
    kinds, values, offsets = _flat(None if one is None else map(typed, one) for one in found)
    return pa.ListArray.from_arrays(offsets, _typed_array(kinds, values, type.value_type), type=type)


def _values(messages: Messages, type: pa.DataType) -> pa.Array:
    return pa.array([message and _body_bytes(message) for message in messages], type)


def _body_bytes(message: Message) -> bytes | None:
    if message.content is None:
        return None
    return message.utf8_body if isinstance(message, TextMessage) else message.uncompressed_content()


def _text(message: Message | None) -> str | None:
    """The text; null for bytes that are none, which STOMP clients may send: column ``value`` has them."""
    try:
        return message.text if isinstance(message, TextMessage) else None
    except CodecError:
        return None


def _check_body(message: Message) -> None:
    """Raise CodecError unless the body can be decoded."""
    if message.content is None:
        return
    if isinstance(message, TextMessage):
        message.utf8_body  # noqa: B018  # inflates, and looks at the length
    elif isinstance(message, MapMessage):
        message.body  # noqa: B018
    elif isinstance(message, StreamMessage):
        message.values  # noqa: B018
    elif message.compressed:
        message.uncompressed_content()


_FROM_MESSAGE: Final[Mapping[str, Callable[[Messages, pa.DataType], pa.Array]]] = {
    "priority": _attribute("priority"),
    "expiration": _time("expiration"),
    "key": _keys,
    "value": _values,
    "timestamp": _time("timestamp"),
    "headers": _headers,
    "correlationId": _attribute("correlation_id"),
    "replyTo": _destination("reply_to"),
    "type": _attribute("type"),
    "redeliveryCounter": _attribute("redelivery_counter"),
    "persistent": _attribute("persistent"),
    "properties": _properties,
    "kind": lambda messages, type: pa.array([message and kind_of(message) for message in messages], type),
    "text": lambda messages, type: _array([_text(message) for message in messages], type),
    "bytes": lambda messages, type: pa.array([m.body if isinstance(m, BytesMessage) else None for m in messages], type),
    "map": _maps,
    "stream": _streams,
    "groupSequence": _attribute("group_sequence"),
    "originalDestination": _destination("original_destination"),
    "userId": _attribute("user_id"),
    "brokerInTime": _time("broker_in_time"),
}


# -- building arrays ---------------------------------------------------------------------------------------------------


def _array(values: list[object], type: pa.DataType) -> pa.Array:
    """An array. In texts half of a surrogate pair, which Java may send and Arrow not take, becomes a question mark."""
    try:
        return pa.array(values, type)
    except UnicodeEncodeError:
        cleaned = [
            value.encode("utf-8", "replace").decode() if isinstance(value, str) else value  # no other type fails so
            for value in values
        ]
        return pa.array(cleaned, type)


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


def _typed_array(kinds: list[object], values: list[object], type: pa.DataType) -> pa.Array:
    arrays = [pa.array(kinds, pa.string()), _array(values, pa.string())]
    return pa.StructArray.from_arrays(arrays, fields=list(type))


def _map_array(maps: Iterable[Iterable[tuple[str, Any]] | None], type: pa.DataType) -> pa.Array:
    names, values, offsets = _flat(maps)
    pairs = [typed(value) for value in values]
    items = _typed_array([kind for kind, _ in pairs], [text for _, text in pairs], type.item_type)
    return pa.MapArray.from_arrays(offsets, _array(names, pa.string()), items, type=type)


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
