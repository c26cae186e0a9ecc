"""Columns out of messages, one message after another: the way for all that `jdbcstore.spark.from_frames` leaves."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa

from jdbcstore.message import (
    BlobMessage,
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from jdbcstore.spark.arrays import body_texts, headers, strings, times_if_set, typed_lists, typed_maps

__all__ = ["ATTRIBUTES", "KINDS", "UNREADABLE", "MessageColumns", "body_of"]

#: Column → attribute.
ATTRIBUTES: Final[Mapping[str, str]] = {
    "key": "group_id",
    "timestamp": "timestamp",
    "correlationId": "correlation_id",
    "replyTo": "reply_to",
    "type": "type",
    "redeliveryCounter": "redelivery_counter",
    "persistent": "persistent",
    "groupSequence": "group_sequence",
    "originalDestination": "original_destination",
    "userId": "user_id",
    "brokerInTime": "broker_in_time",
    "priority": "priority",
    "expiration": "expiration",
}

#: What column ``kind`` says.
KINDS: Final[Mapping[type[Message], str]] = {
    Message: "message",
    TextMessage: "text",
    BytesMessage: "bytes",
    MapMessage: "map",
    StreamMessage: "stream",
    ObjectMessage: "object",
    BlobMessage: "blob",
}

_LENGTH: Final = struct.Struct(">i")


def _unreadable() -> Message:
    message = Message()
    for attribute in ATTRIBUTES.values():
        setattr(message, attribute, None)
    return message


#: Stands for a message that cannot be decoded: all that columns ask it for is None.
UNREADABLE: Final = _unreadable()


class MessageColumns:
    """What stands in messages, by columns.

    Args:
        messages: decoded, properties and bodies as far as they are asked for; or `UNREADABLE`.
        bodies: of them as column ``value`` has them, if they are asked for.
    """

    def __init__(self, messages: Sequence[Message], bodies: Sequence[bytes | None]) -> None:
        self._messages = messages
        self._bodies = bodies

    def column(self, name: str, type: pa.DataType) -> pa.Array:
        """A column of this name."""
        if name in ATTRIBUTES:
            return _ARRAYS.get(name, pa.array)(list(map(attrgetter(ATTRIBUTES[name]), self._messages)), type)
        return _COLUMNS[name](self, type)

    def _values(self, type: pa.DataType) -> pa.Array:
        return pa.array(self._bodies, type)

    def _kinds(self, type: pa.DataType) -> pa.Array:
        return pa.array([None if one is UNREADABLE else KINDS[one.__class__] for one in self._messages], type)

    def _headers(self, type: pa.DataType) -> pa.Array:
        return headers(self._all_properties(), type)

    def _properties(self, type: pa.DataType) -> pa.Array:
        return typed_maps(self._all_properties(), type)

    def _all_properties(self) -> list[Mapping[str, Any] | None]:
        return [None if one is UNREADABLE else one.properties for one in self._messages]

    def _texts(self, type: pa.DataType) -> pa.Array:
        return body_texts(pa.array(self._bodies_of(TextMessage), pa.binary()), type)

    def _bytes(self, type: pa.DataType) -> pa.Array:
        bodies = zip(self._messages, self._bodies, strict=True)
        return pa.array([(body or b"") if one.__class__ is BytesMessage else None for one, body in bodies], type)

    def _bodies_of(self, kind: type[Message]) -> list[bytes | None]:
        bodies = zip(self._messages, self._bodies, strict=True)
        return [body if one.__class__ is kind else None for one, body in bodies]

    def _maps(self, type: pa.DataType) -> pa.Array:
        return typed_maps([one.body if isinstance(one, MapMessage) else None for one in self._messages], type)

    def _streams(self, type: pa.DataType) -> pa.Array:
        return typed_lists([one.values if isinstance(one, StreamMessage) else None for one in self._messages], type)


def body_of(message: Message) -> bytes | None:
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


def _times(found: list[int | None], type: pa.DataType) -> pa.Array:
    return times_if_set(pa.array(found, pa.int64()))


def _texts(found: list[str | None], type: pa.DataType) -> pa.Array:
    return strings(found).cast(type)


def _names(found: list[Any], type: pa.DataType) -> pa.Array:
    return strings([one and one.qualified_name for one in found])


#: How the values of an attribute become a column, if not as they are.
_ARRAYS: Final[Mapping[str, Callable[[list[Any], pa.DataType], pa.Array]]] = {
    **dict.fromkeys(("key", "correlationId", "type", "userId"), _texts),
    **dict.fromkeys(("timestamp", "brokerInTime", "expiration"), _times),
    **dict.fromkeys(("replyTo", "originalDestination"), _names),
}

_COLUMNS: Final[Mapping[str, Callable[[MessageColumns, pa.DataType], pa.Array]]] = {
    "value": MessageColumns._values,
    "headers": MessageColumns._headers,
    "properties": MessageColumns._properties,
    "kind": MessageColumns._kinds,
    "text": MessageColumns._texts,
    "bytes": MessageColumns._bytes,
    "map": MessageColumns._maps,
    "stream": MessageColumns._streams,
}
