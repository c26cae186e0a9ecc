"""Messages to be kept: JSON Lines that lose nothing.

One object a line, of which a program may read any and write any:

* ``"message"`` has the fields of `jdbcstore.message.Message` that are not as they are by default, by their names;
  destinations and ids are their texts, bytes are base64, and ``kind`` says which kind of message it is. ``content`` and
  ``marshalled_properties`` are the stored bytes, so a message comes back byte for byte.
* ``"body"`` and ``"properties"`` are beside it, as far as they are text, for people and other programs. They count only
  where ``content`` or ``marshalled_properties`` are missing: so a message may be written by hand.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final

from jdbcstore.destination import Destination, parse_destination
from jdbcstore.errors import CodecError, ConfigurationError
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.management.described import kind_of
from jdbcstore.message import (
    BlobMessage,
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)

__all__ = ["archived", "restored"]

_KINDS: Final[Mapping[str, type[Message]]] = {
    kind.__name__.removesuffix("Message").lower() or "message": kind
    for kind in (Message, TextMessage, BytesMessage, MapMessage, StreamMessage, ObjectMessage, BlobMessage)
}
#: Fields that are written as they are, with their defaults.
_PLAIN: Final[Mapping[str, Any]] = {
    "group_id": None,
    "group_sequence": 0,
    "correlation_id": None,
    "persistent": True,
    "expiration": 0,
    "priority": 4,
    "timestamp": 0,
    "type": None,
    "compressed": False,
    "redelivery_counter": 0,
    "user_id": None,
    "broker_in_time": 0,
    "command_id": 0,
}
_BYTES: Final = ("content", "marshalled_properties")
_DESTINATIONS: Final = ("destination", "original_destination", "reply_to")


def archived(message: Message) -> dict[str, Any]:
    """A message as a JSON object that `restored` reads."""
    fields: dict[str, Any] = {"kind": kind_of(message), "message_id": str(message.message_id)}
    for name in _DESTINATIONS:
        if (destination := getattr(message, name)) is not None:
            fields[name] = _written(destination)
    if message.producer_id is not None:
        fields["producer_id"] = str(message.producer_id)
    for name, default in _PLAIN.items():
        if (value := getattr(message, name)) != default:
            fields[name] = value
    for name in _BYTES:
        if (data := getattr(message, name)) is not None:
            fields[name] = base64.b64encode(data).decode()
    shown: dict[str, Any] = {"message": fields}
    try:
        if isinstance(message, TextMessage) and message.text is not None:
            shown["body"] = message.text
        shown["properties"] = {
            name: value for name, value in message.properties.items() if isinstance(value, str | int | float | bool)
        }
    except CodecError:
        pass  # the bytes are there
    return shown


def _written(destination: Destination) -> str:
    return f"{destination.prefix}{destination.physical_name}"


def restored(line: object) -> Message:
    """The message of a JSON object.

    Raises:
        ConfigurationError: it is none; the text says what is wrong.
    """
    if not isinstance(line, dict) or not isinstance(line.get("message"), dict):
        raise ConfigurationError('a line needs an object "message"')
    fields: dict[str, Any] = line["message"]
    kind = _KINDS.get(fields.get("kind", "text"))
    if kind is None:
        raise ConfigurationError(f"kind has to be one of {', '.join(_KINDS)}, got {str(fields.get('kind'))[:50]!r}")
    if not fields.get("destination"):
        raise ConfigurationError("a message needs a destination")
    message = kind()
    unknown = set(fields) - {*_PLAIN, *_BYTES, *_DESTINATIONS, "kind", "message_id", "producer_id"}
    if unknown:
        raise ConfigurationError(f"a message has no field {min(unknown)[:50]!r}")
    for name in _DESTINATIONS:
        _take(fields, name, message, parse_destination, str)
    for name, default in _PLAIN.items():
        _take(fields, name, message, lambda value: value, str if default is None else type(default))
    for name in _BYTES:
        _take(fields, name, message, _decoded, str)
    _take(fields, "message_id", message, MessageId.parse, str)
    _take(fields, "producer_id", message, ProducerId.parse, str)
    if message.producer_id is None and message.message_id is not None:
        message.producer_id = message.message_id.producer_id
    if "content" not in fields and isinstance(line.get("body"), str):
        if isinstance(message, TextMessage):
            message.text = line["body"]
        elif isinstance(message, BytesMessage):
            message.body = line["body"].encode()
    if "marshalled_properties" not in fields and isinstance(line.get("properties"), dict):
        message.properties = line["properties"]
    return message


def _take(
    fields: Mapping[str, Any], name: str, message: Message, read: Callable[[Any], Any], wanted: type[Any]
) -> None:
    """Set a field of a message, if it is given."""
    value = fields.get(name)
    if value is None:
        return
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise ConfigurationError(f"{name} has to be {wanted.__name__}, got {str(value)[:50]!r}")
    setattr(message, name, read(value))


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigurationError(f"stored bytes have to be in base64, got {text[:50]!r}") from None
