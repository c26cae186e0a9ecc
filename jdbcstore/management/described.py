"""A message as JSON shows it: for people and programs that look; `jdbcstore.management.archive` is for keeping."""

from __future__ import annotations

from datetime import UTC, datetime

from jdbcstore.errors import CodecError
from jdbcstore.java_text import java_text
from jdbcstore.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage

__all__ = ["body_of", "described", "kind_of", "shown_time"]


def described(message: Message) -> dict[str, object]:
    """A message as JSON shows it."""
    try:
        properties: object = {name: java_text(value) for name, value in message.properties.items()}
    except CodecError as error:
        properties = {"unreadable": str(error)}
    return {
        "id": 0 if message.message_id is None else message.message_id.broker_sequence_id,
        "messageId": str(message.message_id),
        "destination": str(message.destination),
        "originalDestination": None if message.original_destination is None else str(message.original_destination),
        "kind": kind_of(message),
        "sent": shown_time(message.timestamp),
        "expires": shown_time(message.expiration),
        "priority": message.priority,
        "persistent": message.persistent,
        "redelivered": message.redelivered,
        "correlationId": message.correlation_id,
        "replyTo": None if message.reply_to is None else str(message.reply_to),
        "type": message.type,
        "group": message.group_id,
        "properties": properties,
        "bytes": len(message.content or b""),
        "body": body_of(message),
    }


def kind_of(message: Message) -> str:
    """``text``, ``bytes``, ``map``, ``stream``, ``object``, ``blob`` or ``message``."""
    return type(message).__name__.removesuffix("Message").lower() or "message"


def body_of(message: Message) -> object:
    """The body as something that can be shown: text as it is, bytes in hexadecimal, maps and streams as values."""
    try:
        if isinstance(message, TextMessage):
            return message.text
        if isinstance(message, BytesMessage):
            return _bytes(message.body)
        if isinstance(message, ObjectMessage):
            return _bytes(message.body or b"")
        if isinstance(message, MapMessage):
            return java_text(dict(message.body))
        if isinstance(message, StreamMessage):
            return java_text(list(message.values))
    except CodecError as error:
        return f"unreadable: {error}"
    return None


def _bytes(data: bytes) -> str:
    """Bytes that are text as text, others in hexadecimal."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data.hex()
    return text if text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable() else data.hex()


def shown_time(epoch_ms: int) -> str | None:
    """A time as people read it, UTC; None for never, and for what is none."""
    if not 0 < epoch_ms < 253_402_300_800_000:
        return None
    moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    return moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
