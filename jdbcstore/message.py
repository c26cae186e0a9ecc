"""Messages: the seven kinds of ActiveMQ as slotted values, with properties and bodies decoded only when asked for.

A message carries its properties and its body as the bytes in which they are stored (`Message.marshalled_properties`,
`Message.content`). Those bytes are the truth: reading `Message.properties` or a body decodes them, assigning encodes
them, and what nobody assigned goes back to the store byte for byte.

Attribute names are the wire's field names in snake case; meaning and units are JMS's. Times are epoch milliseconds.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Final, Self

from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError
from jdbcstore.identifiers import BrokerId, ConsumerId, MessageId, ProducerId, TransactionId
from jdbcstore.modified_utf8 import decode_any_utf8, encode_modified_utf8
from jdbcstore.primitives import (
    Value,
    decode_map,
    decode_values,
    encode_map,
    encode_values,
)

__all__ = [
    "BODY_BYTES_MAX",
    "BlobMessage",
    "BytesMessage",
    "MapMessage",
    "Message",
    "ObjectMessage",
    "StreamMessage",
    "TextMessage",
]

#: Compressed bodies may inflate to this many bytes, as in newer ActiveMQ; more is an error.
BODY_BYTES_MAX: Final = 100 * 1024 * 1024

#: What a message costs in memory besides properties and body: the object, its numbers and its id (600 measured).
_BARE_BYTES: Final = 640

_LENGTH = struct.Struct(">i")
_NEVER_IN_PLAIN_UTF8 = re.compile(b"[\x00\xc0\xed\xf0-\xff]")


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class Message:
    """A message without a body, and the fields that all messages have.

    Messages compare by identity; their `message_id` says which message they are.
    """

    command_id: int = 0
    """Counter of the sender's connection, kept as received."""
    response_required: bool = False
    """Whether the sender waited for an answer, kept as received."""
    producer_id: ProducerId | None = None
    destination: Destination | None = None
    transaction_id: TransactionId | None = None
    """The transaction it was sent in; stays after the commit."""
    original_destination: Destination | None = None
    """Where it was sent to before a composite, a virtual topic or the dead-letter queue put it here."""
    message_id: MessageId | None = None
    original_transaction_id: TransactionId | None = None
    group_id: str | None = None
    """JMSXGroupID."""
    group_sequence: int = 0
    """JMSXGroupSeq; -1 closes the group."""
    correlation_id: str | None = None
    persistent: bool = True
    expiration: int = 0
    """Epoch milliseconds; 0 never."""
    priority: int = 4
    """0 to 9."""
    reply_to: Destination | None = None
    timestamp: int = 0
    """When it was sent; epoch milliseconds."""
    type: str | None = None
    """JMSType."""
    content: bytes | None = None
    """The body as stored; None if there is none."""
    marshalled_properties: bytes | None = None
    """The properties as stored; None if there are none."""
    data_structure: object | None = None
    """An advisory's subject: one of `jdbcstore.advisory`, a message, or the OpenWire value that a client has sent."""
    target_consumer_id: ConsumerId | None = None
    compressed: bool = False
    """Whether `content` is deflated."""
    redelivery_counter: int = 0
    broker_path: Sequence[BrokerId | None] | None = None
    """Brokers of a network that it passed."""
    arrival: int = 0
    user_id: str | None = None
    """JMSXUserID as the broker knows the sender."""
    received_by_df_bridge: bool = False
    droppable: bool = False
    cluster: Sequence[BrokerId | None] | None = None
    broker_in_time: int = 0
    """When a broker took it; epoch milliseconds."""
    broker_out_time: int = 0
    """When a broker last dispatched it; epoch milliseconds."""
    first_for_consumer: bool = False
    """JMSXGroupFirstForConsumer."""
    _properties: tuple[bytes, dict[str, Value]] | None = field(default=None, init=False, repr=False)

    @property
    def properties(self) -> Mapping[str, Value]:
        """The application's properties, typed as `jdbcstore.primitives` says; read-only.

        Decoded at the first use. Assign a mapping, or call `set_property`, to change them; what is left keeps its type.

        Raises:
            CodecError: the stored bytes are no properties; or, when assigning, a value has no counterpart in Java.
        """
        stored, decoded = self.marshalled_properties, self._properties
        if stored is None:
            return _NO_PROPERTIES
        if decoded is None or decoded[0] is not stored:
            decoded = self._properties = (stored, decode_map(stored, "properties"))
        return MappingProxyType(decoded[1])

    @properties.setter
    def properties(self, properties: Mapping[str, Value]) -> None:
        self.marshalled_properties = encode_map(properties, "properties") if properties else None

    def set_property(self, name: str, value: Value) -> None:
        """Set one property and keep the others."""
        self.properties = {**self.properties, name: value}

    @property
    def redelivered(self) -> bool:
        """Whether it was delivered before."""
        return self.redelivery_counter > 0

    @property
    def size(self) -> int:
        """Bytes that it takes in memory: an estimate that costs nothing."""
        return _BARE_BYTES + len(self.content or b"") + len(self.marshalled_properties or b"")

    def expired(self, now_ms: int) -> bool:
        """Whether it is expired.

        Args:
            now_ms: epoch milliseconds.
        """
        return 0 < self.expiration < now_ms

    def copy(self) -> Self:
        """Another message with the same fields; changing one does not change the other."""
        other = object.__new__(type(self))
        for name in _SLOTS[type(self)]:
            setattr(other, name, getattr(self, name))
        if self.message_id is not None:
            other.message_id = self.message_id.copy()
        return other

    def divided(self) -> list[Message]:
        """The message for each of its destinations: itself, or copies for the parts of a composite.

        Raises:
            ValueError: it has no destination.
        """
        destination = self.destination
        if destination is None:
            raise ValueError("a message without destination cannot be sent")
        if not destination.is_composite:
            return [self]
        messages: list[Message] = []
        for element in destination.elements():
            single = self.copy()
            single.destination, single.original_destination = element, destination
            messages.append(single)
        return messages

    def uncompressed_content(self, body_bytes_max: int = BODY_BYTES_MAX) -> bytes | None:
        """`content`, inflated if it is compressed; None if there is none.

        Args:
            body_bytes_max: more bytes than this are refused while inflating, before they take memory.

        Raises:
            CodecError: not a complete zlib stream, or too large.
        """
        if self.content is None or not self.compressed:
            return self.content
        return _inflate(self.content, body_bytes_max)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.message_id} to {self.destination}>"

    def _set_content(self, content: bytes | None) -> None:
        self.content = content
        self.compressed = False


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class TextMessage(Message):
    """A message with a text."""

    @property
    def text(self) -> str | None:
        """The text; None if there is none, which is not the empty text.

        Raises:
            CodecError: the content is no text. `utf8_body` gives what is there.
        """
        stored = self._stored_text()
        return None if stored is None else decode_any_utf8(stored, 4)

    @text.setter
    def text(self, text: str | None) -> None:
        if text is None:
            self._set_content(None)
        else:
            data = encode_modified_utf8(text)
            self._set_content(_LENGTH.pack(len(data)) + data)

    def raw_text_bytes(self) -> bytes:
        """The text's bytes as they are stored, which is the body that ActiveMQ 5.17 sends to STOMP clients.

        Modified UTF-8 if a JMS client sent it, anything if a STOMP client did; of a compressed text, UTF-8.

        Raises:
            CodecError: a compressed body is damaged or larger than `BODY_BYTES_MAX`.
        """
        if self.compressed:
            return self.utf8_body
        return (self.content or b"")[4:]

    @property
    def utf8_body(self) -> bytes:
        """The text as UTF-8: the body that ActiveMQ from 5.18.6 on sends to STOMP clients. Empty if there is no text.

        Bytes that are no text are given and taken as they are. Assigning a text stores what every JMS client can read.

        Raises:
            CodecError: the stored length is wrong, or a compressed body damaged or larger than `BODY_BYTES_MAX`.
        """
        data = self._stored_text()
        if data is None:
            return b""
        if data.isascii() or _NEVER_IN_PLAIN_UTF8.search(data) is None:
            return data
        try:
            return decode_any_utf8(data).encode("utf-8", "replace")
        except CodecError:
            return data

    @utf8_body.setter
    def utf8_body(self, data: bytes) -> None:
        if (not data.isascii() or 0 in data) and _NEVER_IN_PLAIN_UTF8.search(data) is not None:
            with suppress(UnicodeDecodeError):  # what is no text is stored as it came, as ActiveMQ's transport does
                data = encode_modified_utf8(data.decode("utf-8", "surrogatepass"))
        self._set_content(_LENGTH.pack(len(data)) + data)

    def _stored_text(self) -> bytes | None:
        content = self.uncompressed_content() if self.compressed else self.content
        if content is None:
            return None
        if len(content) < 4:
            raise CodecError(f"a text of {len(content)} bytes, its length alone takes 4", field="content")
        length = _LENGTH.unpack_from(content)[0]
        if length == -1:
            return None
        if not 0 <= length <= len(content) - 4:
            raise CodecError(f"a text of {length} bytes where {len(content) - 4} follow", offset=0, field="content")
        return content[4 : 4 + length]


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class BytesMessage(Message):
    """A message whose body is bytes."""

    @property
    def body(self) -> bytes:
        """The body; empty if there is none.

        Raises:
            CodecError: a compressed body is damaged or larger than `BODY_BYTES_MAX`.
        """
        return self.uncompressed_content() or b""

    @body.setter
    def body(self, body: bytes) -> None:
        self._set_content(bytes(body))

    def uncompressed_content(self, body_bytes_max: int = BODY_BYTES_MAX) -> bytes | None:
        """The body; None if there is none.

        A compressed one is its length, then a deflated buffer of which only so many bytes count: Java's client deflates
        whatever its buffer holds behind them.

        Args:
            body_bytes_max: a longer one is refused before it takes memory.

        Raises:
            CodecError: not a zlib stream of enough bytes, or too large.
        """
        content = self.content
        if content is None or not self.compressed:
            return content
        if len(content) < 4:
            raise CodecError(f"a compressed body of {len(content)} bytes, its length alone takes 4", field="content")
        length = _LENGTH.unpack_from(content)[0]
        if not 0 <= length <= body_bytes_max:
            raise CodecError(f"a compressed body of {length} bytes, {body_bytes_max} is the largest", field="content")
        # Ask for one byte more than needed: zlib takes 0 for "no limit".
        body = _decompress(zlib.decompressobj(), content[4:], length + 1)[:length]
        if len(body) < length:
            raise CodecError(f"a compressed body of {length} bytes inflates to {len(body)} only", field="content")
        return body


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class MapMessage(Message):
    """A message whose body is a map of named values."""

    @property
    def body(self) -> Mapping[str, Value]:
        """The map, read-only; empty if there is none. Assign another to change it.

        Raises:
            CodecError: the content is no map; or, when assigning, a value has no counterpart in Java.
        """
        content = self.uncompressed_content()
        return _NO_PROPERTIES if content is None else MappingProxyType(decode_map(content, "body"))

    @body.setter
    def body(self, body: Mapping[str, Value]) -> None:
        self._set_content(encode_map(body, "body") if body else None)


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class StreamMessage(Message):
    """A message whose body is a sequence of values."""

    @property
    def values(self) -> Sequence[Value]:
        """The values; assign others to change them.

        Raises:
            CodecError: the content is no sequence of values; or, when assigning, a value cannot stand in a stream.
        """
        content = self.uncompressed_content()
        return () if content is None else tuple(decode_values(content, "body"))

    @values.setter
    def values(self, values: Sequence[Value]) -> None:
        self._set_content(encode_values(values, "body") if values else None)


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class ObjectMessage(Message):
    """A message whose body is a serialised Java object. It is carried, never looked into."""

    @property
    def body(self) -> bytes | None:
        """Java's serialisation stream (``ac ed 00 05`` ...); None for the null object.

        Raises:
            CodecError: a compressed body is damaged or larger than `BODY_BYTES_MAX`.
        """
        return self.uncompressed_content()

    @body.setter
    def body(self, body: bytes | None) -> None:
        self._set_content(body)


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class BlobMessage(Message):
    """A message that tells where its body can be fetched."""

    remote_blob_url: str | None = None
    mime_type: str | None = "application/octet-stream"
    deleted_by_broker: bool = False


_NO_PROPERTIES: Final[Mapping[str, Value]] = MappingProxyType({})

_SLOTS: Final[dict[type[Message], tuple[str, ...]]] = {
    kind: tuple(slot.name for slot in fields(kind))
    for kind in (Message, TextMessage, BytesMessage, MapMessage, StreamMessage, ObjectMessage, BlobMessage)
}


def _inflate(data: bytes, body_bytes_max: int) -> bytes:
    inflater = zlib.decompressobj()
    body = _decompress(inflater, data, body_bytes_max + 1)
    if len(body) > body_bytes_max:
        raise CodecError(f"the body inflates to more than {body_bytes_max} bytes", field="content")
    if not inflater.eof:
        raise CodecError(f"the compressed body ends in the middle after {len(data)} bytes", field="content")
    return body


def _decompress(inflater: zlib._Decompress, data: bytes, bytes_max: int) -> bytes:
    try:
        return inflater.decompress(data, bytes_max)
    except zlib.error as error:
        raise CodecError(f"the compressed body is damaged ({error})", field="content") from error
