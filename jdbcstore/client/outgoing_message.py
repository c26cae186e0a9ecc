"""What is to be sent: from the arguments of `send` to a message. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypedDict

from jdbcstore.broker.producers import Number
from jdbcstore.destination import QUALIFIED_NAME_MAX, Destination, parse_destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import BytesMessage, MapMessage, Message, StreamMessage, TextMessage
from jdbcstore.primitives import Long, Value

__all__ = ["Body", "Outgoing", "SendOptions", "destination_of", "outgoing"]

#: A text, bytes, a map, a stream of values, or nothing.
Body: TypeAlias = str | bytes | Mapping[str, Value] | Sequence[Value] | None

_DELAY: Final = "AMQ_SCHEDULED_DELAY"
_PRODUCER: Final = re.compile(r"[!-~](?:[ -~]{0,98}[!-~])?", re.ASCII)
_LONG_MAX: Final = (1 << 63) - 1
_INT_MAX: Final = (1 << 31) - 1


class SendOptions(TypedDict, total=False):
    """What may be said about a message besides where it goes and what is in it.

    ================= =============================================================================================
    `properties`      the application's properties, which selectors see; typed as `jdbcstore.primitives` says
    `persistent`      whether it survives the process: True (the default) is stored before `send` returns
    `priority`        0 to 9, by default 4
    `ttl_ms`          after so many milliseconds it expires; None or 0 is never
    `delay_ms`        it is sent after so many milliseconds, and kept in the store until then; for repetitions and
                      cron see the properties in docs/scheduling.md
    `reply_to`        where an answer is to go
    `correlation_id`  what it belongs to: JMSCorrelationID
    `type`            JMSType
    `group`           JMSXGroupID: one consumer at a time has all messages of a group
    `group_sequence`  JMSXGroupSeq; -1 closes the group
    `number`          (producer, number): the message is stored once, however often it is sent with this pair. A
                      producer has a name that is its own and counts from 1; see docs/embedding.md
    ================= =============================================================================================
    """

    properties: Mapping[str, Value]
    persistent: bool
    priority: int
    ttl_ms: int | None
    delay_ms: int | None
    reply_to: Destination | str | None
    correlation_id: str | None
    type: str | None
    group: str | None
    group_sequence: int
    number: tuple[str, int] | None


@dataclass(slots=True)
class Outgoing:
    """A message that has no id and no time yet.

    Args:
        message: complete but for these.
        ttl_ms: how long it lives; 0 for ever.
        number: which message of its producer it is, if that numbers them.
        is_delayed: whether it is to be sent later.
    """

    message: Message
    ttl_ms: int = 0
    number: Number | None = None
    is_delayed: bool = False

    @staticmethod
    def id_of(number: Number) -> MessageId:
        """The id that its number makes."""
        return MessageId(*number)

    def stamped(self, message_id: MessageId, now_ms: int) -> Message:
        """The message with its id, sent now (epoch milliseconds)."""
        message = self.message
        message.message_id, message.producer_id = message_id, message_id.producer_id
        message.timestamp = message.broker_in_time = now_ms
        if self.ttl_ms:
            message.expiration = min(now_ms + self.ttl_ms, _LONG_MAX)
        return message


def destination_of(name: Destination | str) -> Destination:
    """A destination by its name: ``ORDERS`` or ``queue://ORDERS``, ``topic://PRICES``, several with commas between.

    Raises:
        ConfigurationError: it is none, or too long.
    """
    destination = parse_destination(name) if isinstance(name, str) else name
    elements = destination.elements()
    if not elements:
        raise ConfigurationError(f"a destination needs a name, got {str(name)[:120]!r}")
    for element in elements:
        if len(element.qualified_name) > QUALIFIED_NAME_MAX:
            raise ConfigurationError(
                f"the name of a destination may have {QUALIFIED_NAME_MAX} characters with its prefix, got"
                f" {element.qualified_name[:40]!r}…"
            )
    return destination


def outgoing(destination: Destination | str, body: Body, options: SendOptions) -> Outgoing:
    """The message of a `send`.

    Raises:
        ConfigurationError: a destination is none.
        CodecError: a property or a value in the body has no counterpart in Java.
        TypeError, ValueError: an argument is not what it can be.
    """
    message = _message_of(body)
    message.destination = destination_of(destination)
    message.persistent = options.get("persistent", True)
    message.priority = _number("priority", options.get("priority", 4), 0, 9)
    message.correlation_id = options.get("correlation_id")
    message.type = options.get("type")
    message.group_id = options.get("group")
    message.group_sequence = _number("group_sequence", options.get("group_sequence", 0), -1, _INT_MAX)
    reply_to = options.get("reply_to")
    if reply_to is not None:
        message.reply_to = destination_of(reply_to)
    _set_properties(message, options.get("properties"), options.get("delay_ms"))
    ttl_ms = _number("ttl_ms", options.get("ttl_ms") or 0, 0, _LONG_MAX)
    number = options.get("number")
    return Outgoing(
        message, ttl_ms, None if number is None else _numbered(*number), is_delayed=bool(options.get("delay_ms"))
    )


def _message_of(body: Body) -> Message:
    match body:
        case None:
            return Message()
        case str():
            text = TextMessage()
            text.text = body
            return text
        case bytes() | bytearray() | memoryview():
            return BytesMessage(content=bytes(body))
        case Mapping():
            map_message = MapMessage()
            map_message.body = body
            return map_message
        case Sequence():
            stream = StreamMessage()
            stream.values = body
            return stream
    raise TypeError(f"a body is str, bytes, a mapping, a sequence or None, not {type(body).__name__}")


def _set_properties(message: Message, properties: Mapping[str, Value] | None, delay_ms: int | None) -> None:
    for name in properties or ():
        if name.startswith("JMS"):
            raise ValueError(f"{name} is no property: use the argument of `send` that means it")
    if delay_ms:
        message.properties = {**(properties or {}), _DELAY: Long(_number("delay_ms", delay_ms, 0, _LONG_MAX))}
    elif properties:
        message.properties = properties


def _number(name: str, value: int, least: int, most: int) -> int:
    if not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} has to be a whole number from {least} to {most}, got {value!r}")
    return value


def _numbered(producer: str, number: int) -> Number:
    if _PRODUCER.fullmatch(producer) is None:
        raise ValueError(
            f"the name of a producer has 1 to 100 printable ASCII characters and no blank at either end, got"
            f" {producer[:120]!r}"
        )
    # No broker gives out a producer id with session 0 and value 0; STOMP's `producer-id` means the same producer.
    return ProducerId(f"ID:{producer}", 0, 0), _number("the number of a message", number, 1, _LONG_MAX)
