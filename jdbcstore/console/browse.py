"""``jdbcstore browse``: what is in a queue, without taking anything out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain, islice

import click

from jdbcstore.config.inspection import looking_into
from jdbcstore.console.output import print_json, print_table
from jdbcstore.destination import Destination, Queue, parse_destination
from jdbcstore.errors import CodecError, ConfigurationError
from jdbcstore.java_text import java_text
from jdbcstore.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from jdbcstore.spelling import did_you_mean
from jdbcstore.store.contract import MessageStore

__all__ = ["browse", "described"]

_SHOWN_CHARACTERS = 60


@click.command()
@click.argument("url")
@click.argument("queue")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Show so many at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per message, with properties and body.")
def browse(url: str, queue: str, limit: int, as_json: bool) -> None:
    """Show the messages of QUEUE in the store at URL, oldest first. Nothing is changed.

    \b
    Examples:
        jdbcstore browse sqlite:///data/jdbcstore.db queue://ORDERS
        jdbcstore browse postgresql://user:secret@db/activemq queue://ActiveMQ.DLQ --limit 1000 --json
    """
    destination = parse_destination(queue)
    if not isinstance(destination, Queue):
        raise ConfigurationError(f"{destination} is no queue: give queue://NAME")
    with looking_into(url) as adapter:
        messages = islice(_messages(adapter.queue_message_store(destination), limit), limit)
        if (first := next(messages, None)) is None:
            click.echo(_nothing_in(destination, adapter.destinations()), err=as_json)
        elif as_json:
            for message in chain((first,), messages):
                print_json(described(message))
        else:
            rows = map(_row, chain((first,), messages))
            print_table(("ID", "MESSAGE ID", "SENT", "KIND", "BYTES", "BODY"), rows, empty="")


def _nothing_in(queue: Queue, known: Iterable[Destination]) -> str:
    names = [str(destination) for destination in known]
    if str(queue) in names:
        return f"{queue} is empty"
    hint = did_you_mean(str(queue), names) or "; jdbcstore stats shows the destinations there are"
    return f"there is no message in {queue}, and no other trace of it{hint}"


def _messages(store: MessageStore, limit: int) -> Iterator[Message]:
    return store.recover(page_messages=min(limit, 500))


def _row(message: Message) -> tuple[object, ...]:
    text = _body(message)
    shown = "" if text is None else str(text).replace("\n", " ")
    if len(shown) > _SHOWN_CHARACTERS:
        shown = shown[:_SHOWN_CHARACTERS] + "…"
    sequence = 0 if message.message_id is None else message.message_id.broker_sequence_id
    size = len(message.content or b"")
    return sequence, str(message.message_id), _time(message.timestamp), _kind(message), size, shown


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
        "kind": _kind(message),
        "sent": _time(message.timestamp),
        "expires": _time(message.expiration),
        "priority": message.priority,
        "persistent": message.persistent,
        "redelivered": message.redelivered,
        "correlationId": message.correlation_id,
        "replyTo": None if message.reply_to is None else str(message.reply_to),
        "type": message.type,
        "group": message.group_id,
        "properties": properties,
        "bytes": len(message.content or b""),
        "body": _body(message),
    }


def _kind(message: Message) -> str:
    return type(message).__name__.removesuffix("Message").lower() or "message"


def _body(message: Message) -> object:
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


def _time(epoch_ms: int) -> str | None:
    if not 0 < epoch_ms < 253_402_300_800_000:
        return None
    moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    return moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
