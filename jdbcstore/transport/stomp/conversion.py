"""STOMP frames and messages: what a SEND becomes, and what a MESSAGE says.

The mapping is ActiveMQ's. One choice differs between its releases: a text that a STOMP client sends is stored here as
modified UTF-8 (as from ActiveMQ 5.18.6 on), so that Java clients can read characters beyond U+FFFF, and goes out to
STOMP clients as plain UTF-8 again. For all other characters the two are the same bytes.

This is the hot path of the broker: destinations and whole sets of properties are remembered, and nothing is decoded
that is not asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError, ProtocolError
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.java_text import java_text
from jdbcstore.message import BytesMessage, Message, TextMessage
from jdbcstore.primitives import Long, Value, encode_map
from jdbcstore.transport.stomp.advisory_body import advisory_body
from jdbcstore.transport.stomp.destination import (
    OwnTemporary,
    destination_header,
    is_destination,
    parse_reply_to,
    parse_stomp_destination,
)
from jdbcstore.transport.stomp.transformation import transformed_body, untransformed

__all__ = [
    "OWN_HEADERS",
    "message_of",
    "number_of",
    "own_headers",
    "says_little",
    "shared_headers",
    "stomp_body",
    "stomp_headers",
    "transform",
]

# --- SEND → message ---------------------------------------------------------------------------------------------------

#: Headers that are not properties: consumed below, or meaningless in a SEND.
_NOT_PROPERTIES: Final = frozenset(
    {
        "JMSXUserID",
        "correlation-id",
        "destination",
        "expires",
        "message-id",
        "persistent",
        "priority",
        "receipt",
        "redelivered",
        "reply-to",
        "subscription",
        "timestamp",
        "transaction",
        "type",
    }
)

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def _long(name: str, value: str) -> int:
    if _INTEGER.fullmatch(value) is None or not -(1 << 63) <= int(value) < 1 << 63:
        raise ProtocolError(f"Invalid {name} header '{value}': a whole number is needed")
    return int(value)


_PRODUCER: Final = re.compile(r"[!-~](?:[ -~]{0,98}[!-~])?", re.ASCII)
_SEQUENCE: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
NUMBER_HEADERS: Final = frozenset({"producer-id", "producer-sequence"})


def number_of(headers: Mapping[str, str]) -> tuple[ProducerId, int]:
    """Producer and number of a SEND frame that has a ``producer-id``.

    No broker gives out a producer id with session 0 and value 0, so the names cannot meet others.

    Raises:
        ProtocolError: a name or a number that is none, or no number at all.
    """
    name, number = headers["producer-id"], headers.get("producer-sequence")
    if number is None:
        raise ProtocolError("A producer-id needs a producer-sequence beside it: send both or neither")
    if _PRODUCER.fullmatch(name) is None:
        raise ProtocolError(
            f"Invalid producer-id header '{name[:120]}': 1 to 100 printable ASCII characters are needed, with no blank"
            " at either end"
        )
    if _SEQUENCE.fullmatch(number) is None or not 1 <= int(number) < 1 << 63:
        raise ProtocolError(f"Invalid producer-sequence header '{number[:120]}': a number from 1 to 2^63-1 is needed")
    return _producer(name), int(number)


@lru_cache(maxsize=1024)
def _producer(name: str) -> ProducerId:
    return ProducerId(f"ID:{name}", 0, 0)


def message_of(
    headers: Mapping[str, str],
    body: bytes,
    destination: Destination,
    message_id: MessageId,
    now_ms: int,
    own_temporary: OwnTemporary,
) -> Message:
    """The message of a SEND frame.

    Args:
        headers: of the frame, unescaped.
        body: of the frame.
        destination: where it goes.
        message_id: its id.
        now_ms: epoch milliseconds.
        own_temporary: as `parse_stomp_destination`, for ``reply-to``.

    Raises:
        ProtocolError: a header cannot be understood.
    """
    kind = headers.get("amq-msg-type")
    used = _NOT_PROPERTIES
    if kind is None:
        if "content-length" in headers:
            used = _NOT_PROPERTIES_NOR_LENGTH
            is_text = False
        else:
            is_text = True
    else:
        is_text = kind.lower() == "text"
        if not is_text and kind.lower() != "bytes":
            raise ProtocolError(f"Unsupported message type '{kind}': use text or bytes, or leave amq-msg-type out")

    has_properties = not used.issuperset(headers)
    properties = {name: value for name, value in headers.items() if name not in used} if has_properties else {}
    message: Message
    if is_text:
        message = TextMessage(
            producer_id=message_id.producer_id,
            destination=destination,
            message_id=message_id,
            persistent=headers.get("persistent") == "true",
            timestamp=now_ms,
            broker_in_time=now_ms,
        )
        message.utf8_body = body
    else:
        message = BytesMessage(
            producer_id=message_id.producer_id,
            destination=destination,
            message_id=message_id,
            persistent=headers.get("persistent") == "true",
            timestamp=now_ms,
            broker_in_time=now_ms,
            content=body,
        )
    if "transformation" in properties and is_text and "content-length" not in headers:
        message = untransformed(message, properties, body)
    if properties:
        message.marshalled_properties = _marshalled(message, properties)
    if not _FIELDS.keys().isdisjoint(headers):
        for name in _FIELDS.keys() & headers.keys():
            _FIELDS[name](message, headers[name])
    reply_to = headers.get("reply-to")
    if reply_to is not None:
        _set_reply_to(message, reply_to, own_temporary)
    return message


_NOT_PROPERTIES_NOR_LENGTH: Final = _NOT_PROPERTIES | {"content-length"}


def _set_correlation_id(message: Message, value: str) -> None:
    message.correlation_id = value


def _set_expires(message: Message, value: str) -> None:
    message.expiration = _long("expires", value)


def _set_priority(message: Message, value: str) -> None:
    message.priority = min(max(_long("priority", value), 0), 9)


def _set_timestamp(message: Message, value: str) -> None:
    message.timestamp = _long("timestamp", value)


def _set_type(message: Message, value: str) -> None:
    message.type = value


_FIELDS: Final[dict[str, Callable[[Message, str], None]]] = {
    "correlation-id": _set_correlation_id,
    "expires": _set_expires,
    "priority": _set_priority,
    "timestamp": _set_timestamp,
    "type": _set_type,
}


def _set_reply_to(message: Message, value: str, own_temporary: OwnTemporary) -> None:
    text = value.strip()
    if is_destination(text):
        message.reply_to = parse_stomp_destination(text, own_temporary)
    else:
        message.set_property("reply-to", value)


# --- properties -------------------------------------------------------------------------------------------------------

_CACHED_SETS_MAX: Final = 1024
_CACHED_VALUE_MAX: Final = 128
_CACHED_NAMES_MAX: Final = 16
_property_sets: dict[tuple[tuple[str, str], ...], bytes | None] = {}


def _marshalled(message: Message, headers: dict[str, str]) -> bytes | None:
    """The properties of these headers as they are stored. Producers repeat themselves, so small sets are remembered."""
    if _SPECIAL.isdisjoint(headers):
        key = tuple(headers.items())
        try:
            return _property_sets[key]
        except KeyError:
            marshalled = _encoded(headers)
        if len(key) <= _CACHED_NAMES_MAX and all(len(name) + len(value) <= _CACHED_VALUE_MAX for name, value in key):
            if len(_property_sets) >= _CACHED_SETS_MAX:
                _property_sets.clear()
            _property_sets[key] = marshalled
        return marshalled
    properties: dict[str, Value] = {}
    for name, value in headers.items():
        if name in _JMS_FIELDS:
            _JMS_FIELDS[name](message, value)
        elif name in _SCHEDULED:
            number = _long(name, value)
            if number < 0:
                raise ProtocolError(f"Invalid {name} header '{value}': it must not be negative")
            properties[name] = _SCHEDULED[name](number)
        else:
            properties[name] = value
    return _encoded(properties) if properties else None


def _encoded(properties: Mapping[str, Value]) -> bytes:
    try:
        return encode_map(properties, "header")
    except CodecError as error:
        raise ProtocolError(f"Headers that cannot be stored: {error}") from error


def _set_delivery_mode(message: Message, value: str) -> None:
    message.persistent = value in ("2", "PERSISTENT", "true")


def _set_delivery_count(message: Message, value: str) -> None:
    message.redelivery_counter = max(_int("JMSXDeliveryCount", value) - 1, 0)


def _set_group_id(message: Message, value: str) -> None:
    message.group_id = value


def _set_group_sequence(message: Message, value: str) -> None:
    message.group_sequence = _int("JMSXGroupSeq", value)


def _set_redelivered(message: Message, value: str) -> None:
    message.redelivery_counter = 1 if value.lower() == "true" else 0


def _refuse_number(message: Message, value: str) -> None:
    raise ProtocolError("A producer-sequence needs a producer-id beside it: send both or neither")


def _set_jms_reply_to(message: Message, value: str) -> None:
    message.reply_to = parse_reply_to(value)


def _int(name: str, value: str) -> int:
    number = _long(name, value)
    if not -(1 << 31) <= number < 1 << 31:
        raise ProtocolError(f"Invalid {name} header '{value}': it does not fit 32 bits")
    return number


#: Properties that are fields of the message, whichever way they are set.
_JMS_FIELDS: Final[dict[str, Callable[[Message, str], None]]] = {
    "JMSCorrelationID": _set_correlation_id,
    "JMSDeliveryMode": _set_delivery_mode,
    "JMSExpiration": _set_expires,
    "JMSPriority": _set_priority,
    "JMSRedelivered": _set_redelivered,
    "JMSReplyTo": _set_jms_reply_to,
    "JMSTimestamp": _set_timestamp,
    "JMSType": _set_type,
    "JMSXDeliveryCount": _set_delivery_count,
    "JMSXGroupID": _set_group_id,
    "JMSXGroupSeq": _set_group_sequence,
    "producer-sequence": _refuse_number,
}


def _scheduled_repeat(number: int) -> Value:
    return _int("AMQ_SCHEDULED_REPEAT", str(number))


_SCHEDULED: Final[dict[str, Callable[[int], Value]]] = {
    "AMQ_SCHEDULED_DELAY": Long,
    "AMQ_SCHEDULED_PERIOD": Long,
    "AMQ_SCHEDULED_REPEAT": _scheduled_repeat,
}
_SPECIAL: Final = _JMS_FIELDS.keys() | _SCHEDULED.keys()

# --- message → MESSAGE ------------------------------------------------------------------------------------------------


def stomp_headers(
    message: Message, message_id: str, own_names: Mapping[Destination, str], *, redeliveries: int
) -> dict[str, str]:
    """The headers of a MESSAGE frame, but for ``subscription``, ``ack`` and ``content-length``.

    Args:
        message: what is delivered.
        message_id: its id as a string.
        own_names: the receiving connection's names of its temporary destinations.
        redeliveries: how often it was delivered before.

    Raises:
        CodecError: the stored properties cannot be read.
    """
    # Properties stand in the place of headers.
    return own_headers(message, message_id, own_names, redeliveries=redeliveries) | shared_headers(message, own_names)


def own_headers(
    message: Message, message_id: str, own_names: Mapping[Destination, str], *, redeliveries: int
) -> dict[str, str]:
    """Those of `stomp_headers` that are likely to differ from message to message; properties not among them."""
    headers = {
        "message-id": message_id,
        "expires": str(message.expiration) if message.expiration else "0",
        "timestamp": str(message.timestamp),
    }
    if redeliveries:
        headers["redelivered"] = "true"
        headers["JMSXDeliveryCount"] = str(redeliveries + 1)
    if message.correlation_id is not None:
        headers["correlation-id"] = message.correlation_id
    if message.reply_to is not None:
        headers["reply-to"] = destination_header(message.reply_to, own_names)
    if message.type is not None:
        headers["type"] = message.type
    if message.user_id is not None:
        headers["JMSXUserID"] = message.user_id
    if message.original_destination is not None:
        headers["original-destination"] = destination_header(message.original_destination, own_names)
    if message.group_id is not None:
        headers["JMSXGroupID"] = message.group_id
        headers["JMSXGroupSeq"] = str(message.group_sequence)
        if message.first_for_consumer:
            headers["JMSXGroupFirstForConsumer"] = "true"
    return headers


#: All that `own_headers` may tell.
OWN_HEADERS: Final = frozenset(
    {
        "JMSXDeliveryCount",
        "JMSXGroupFirstForConsumer",
        "JMSXGroupID",
        "JMSXGroupSeq",
        "JMSXUserID",
        "correlation-id",
        "expires",
        "message-id",
        "original-destination",
        "redelivered",
        "reply-to",
        "timestamp",
        "type",
    }
)


def says_little(message: Message, message_id: MessageId) -> bool:
    """Whether `own_headers` would tell an ordinary id and the timestamp alone, if it was not delivered before."""
    return not (
        message_id.text_view is not None
        or message_id.producer_id is None
        or message.expiration
        or message.correlation_id is not None
        or message.reply_to is not None
        or message.type is not None
        or message.user_id is not None
        or message.original_destination is not None
        or message.group_id is not None
    )


def shared_headers(message: Message, own_names: Mapping[Destination, str]) -> dict[str, str]:
    """The others: what is told by destination, priority, delivery mode and properties alone.

    Raises:
        CodecError: the stored properties cannot be read.
    """
    headers = {
        "destination": "" if message.destination is None else destination_header(message.destination, own_names),
        "priority": _PRIORITIES.get(message.priority) or str(message.priority),
    }
    if message.persistent:
        headers["persistent"] = "true"
    if message.marshalled_properties is not None:
        headers.update(_property_headers(message))
    return headers


_PRIORITIES: Final = {number: str(number) for number in range(10)}
_header_sets: dict[bytes, dict[str, str]] = {}
_CACHED_BYTES_MAX: Final = 1024


def _property_headers(message: Message) -> Mapping[str, str]:
    marshalled = message.marshalled_properties or b""
    headers = _header_sets.get(marshalled)
    if headers is None:
        headers = {name: java_text(value) for name, value in message.properties.items()}
        if len(marshalled) <= _CACHED_BYTES_MAX:
            if len(_header_sets) >= _CACHED_SETS_MAX:
                _header_sets.clear()
            _header_sets[marshalled] = headers
    return headers


def stomp_body(message: Message) -> tuple[bytes, bool]:
    """The body of a MESSAGE frame, and whether a ``content-length`` goes with it (bytes messages only).

    Other kinds than text and bytes have no body for a STOMP client unless it asks for a transformation.

    Raises:
        CodecError: a compressed body is damaged.
    """
    if isinstance(message, TextMessage):
        return message.utf8_body, False
    if isinstance(message, BytesMessage):
        return message.body if message.compressed else message.content or b"", True
    return b"", False


def transform(message: Message, form: str | None, headers: dict[str, str]) -> bytes | None:
    """The body in the form that a subscription asked for, or that an advisory has anyway.

    Args:
        message: what is delivered.
        form: what the subscription asked for; None for nothing.
        headers: of the MESSAGE frame; the form is noted in them.

    Returns:
        None if the message has no other body than its own.
    """
    told = None if message.data_structure is None else advisory_body(message, form)
    if told is not None:
        body, headers["transformation"] = told
        return body
    if form is None:
        return None
    transformed, headers["transformation"] = transformed_body(message, form)
    return transformed
