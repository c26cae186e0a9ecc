"""``jdbcstore browse``: what is in a queue, without taking anything out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

import click

from jdbcstore.config.inspection import looking_into
from jdbcstore.console.output import print_json, print_table
from jdbcstore.destination import Destination, Queue, parse_destination
from jdbcstore.errors import ConfigurationError, UnknownDestination
from jdbcstore.management.described import body_of, described, kind_of, shown_time
from jdbcstore.message import Message
from jdbcstore.spelling import did_you_mean
from jdbcstore.store.contract import MessageStore

__all__ = ["browse"]

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
    if url.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"{url} is no store. What a running broker has is shown by its console there, and by 'jdbcstore activemq"
            f" browse --broker {url} {queue}'"
        )
    destination = parse_destination(queue)
    if not isinstance(destination, Queue):
        raise ConfigurationError(f"{destination} is no queue: give queue://NAME")
    with looking_into(url) as adapter:
        store = adapter.queue_message_store(destination)
        messages = islice(_messages(store, limit), limit)
        if (first := next(messages, None)) is None:
            click.echo(_nothing_in(destination, adapter.destinations()), err=as_json)
        elif as_json:
            for message in chain((first,), messages):
                print_json(described(message))
        else:
            rows = map(_row, chain((first,), messages))
            print_table(("ID", "MESSAGE ID", "SENT", "KIND", "BYTES", "BODY"), rows, empty="")
        if store.message_count > limit:
            click.echo(f"{limit} of {store.message_count} messages are shown: --limit {store.message_count}", err=True)


def _nothing_in(queue: Queue, known: Iterable[Destination]) -> str:
    """What to say of an empty queue. Raises UnknownDestination if there is no trace of it."""
    names = [str(destination) for destination in known]
    if str(queue) in names:
        return f"{queue} is empty"
    hint = did_you_mean(str(queue), names) or "; jdbcstore stats shows the destinations there are"
    raise UnknownDestination(f"there is no message in {queue}, and no other trace of it{hint}")


def _messages(store: MessageStore, limit: int) -> Iterator[Message]:
    return store.recover(page_messages=min(limit, 500))


def _row(message: Message) -> tuple[object, ...]:
    text = body_of(message)
    shown = "" if text is None else str(text).replace("\n", " ")
    if len(shown) > _SHOWN_CHARACTERS:
        shown = shown[:_SHOWN_CHARACTERS] + "…"
    sequence = 0 if message.message_id is None else message.message_id.broker_sequence_id
    size = len(message.content or b"")
    return sequence, str(message.message_id), shown_time(message.timestamp), kind_of(message), size, shown
