"""``jdbcstore browse``: what is in a queue, without taking anything out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final

import click

from jdbcstore.config.inspection import looking_into
from jdbcstore.console.face import Face
from jdbcstore.console.output import print_json, print_table
from jdbcstore.console.place import Place, place_options
from jdbcstore.destination import Destination, Queue, parse_destination
from jdbcstore.errors import ConfigurationError, UnknownDestination
from jdbcstore.management.described import body_of, described, kind_of, shown_time
from jdbcstore.message import Message
from jdbcstore.selector import Selector
from jdbcstore.spelling import did_you_mean

__all__ = ["browse"]

_SHOWN_CHARACTERS: Final = 60
_PAGE: Final = 500


@click.command()
@place_options
@click.argument("words", metavar="[URL] QUEUE", nargs=-1)
@click.option("--selector", "-s", default="", help="Only what this selector matches: \"colour = 'red'\".")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Show so many at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per message, with properties and body.")
def browse(place: Place, words: tuple[str, ...], selector: str, limit: int, as_json: bool) -> None:
    """Show the messages of QUEUE, oldest first: of a running broker, or of the store at URL. Nothing is changed.

    A broker also shows what it has in memory only, and what waits for durable subscriptions of a topic.

    \b
    Examples:
        jdbcstore browse queue://ORDERS --selector "priority = 'low'"
        jdbcstore browse queue://ORDERS --broker http://broker:8161 --token-file token
        jdbcstore browse sqlite:///data/jdbcstore.db queue://ORDERS
        jdbcstore browse postgresql://user:secret@db/activemq queue://ActiveMQ.DLQ --limit 1000 --json
    """
    name = place.split(words, "QUEUE")
    if place.store is None:
        with place.face() as face:
            _browse_broker(face, parse_destination(name), selector, limit, as_json)
    else:
        _browse_store(place.store, parse_destination(name), selector, limit, as_json)


def _browse_broker(face: Face, destination: Destination, selector: str, limit: int, as_json: bool) -> None:
    asked = {"destination": destination.qualified_name, "selector": selector, "full": as_json}
    found = _messages(face, asked, limit)
    _show(found if as_json else map(_listed, found), _none_in(destination, selector), as_json)


def _messages(face: Face, asked: Mapping[str, Any], limit: int) -> Iterator[Mapping[str, Any]]:
    """So many messages at most, page by page. Tells of those that cannot be read, and that there are more."""
    after: str | None = ""
    count = 0
    while after is not None:
        # One more than is wanted: whether there is one.
        page = face.view("messages", **asked, after=after, count=min(limit + 1 - count, _PAGE))
        for one in page["unreadable"]:
            click.echo(f"message {one['number']} cannot be read: {one['error']}", err=True)
        for row in page["messages"]:
            if count == limit:
                click.echo(f"{limit} messages are shown, there are more: --limit", err=True)
                return
            count += 1
            yield {name: value for name, value in row.items() if name != "number"}
        after = page["after"]


def _show(rows: Iterator[Any], empty: str, as_json: bool) -> None:
    if (first := next(rows, None)) is None:
        click.echo(empty, err=as_json)
    elif as_json:
        for row in chain((first,), rows):
            print_json(row)
    else:
        print_table(("ID", "MESSAGE ID", "SENT", "KIND", "BYTES", "BODY"), chain((first,), rows), empty="")


def _none_in(destination: Destination, selector: str) -> str:
    return f"no message in {destination} matches" if selector else f"{destination} is empty"


def _browse_store(url: str, destination: Destination, selector: str, limit: int, as_json: bool) -> None:
    if not isinstance(destination, Queue):
        raise ConfigurationError(f"{destination} is no queue: give queue://NAME")
    chosen = Selector.parse(selector) if selector else None
    with looking_into(url) as adapter:
        store = adapter.queue_message_store(destination)
        messages = store.recover(page_messages=_PAGE if chosen else min(limit, _PAGE))
        matching = (message for message in messages if chosen is None or chosen.matches(message))
        found = islice(matching, limit)
        empty = "" if store.message_count else _nothing_in(destination, adapter.destinations())
        _show(map(described if as_json else _row, found), empty or _none_in(destination, selector), as_json)
        if chosen is None and store.message_count > limit:
            click.echo(f"{limit} of {store.message_count} messages are shown: --limit {store.message_count}", err=True)
        elif chosen is not None and next(matching, None) is not None:
            click.echo(f"{limit} messages are shown, there are more: --limit", err=True)


def _nothing_in(queue: Queue, known: Iterable[Destination]) -> str:
    """What to say of an empty queue. Raises UnknownDestination if there is no trace of it."""
    names = [str(destination) for destination in known]
    if str(queue) in names:
        return f"{queue} is empty"
    hint = did_you_mean(str(queue), names) or "; jdbcstore stats shows the destinations there are"
    raise UnknownDestination(f"there is no message in {queue}, and no other trace of it{hint}")


def _row(message: Message) -> tuple[object, ...]:
    sequence = 0 if message.message_id is None else message.message_id.broker_sequence_id
    size = len(message.content or b"")
    body = _shortened(body_of(message))
    return sequence, str(message.message_id), shown_time(message.timestamp), kind_of(message), size, body


def _listed(row: Mapping[str, Any]) -> tuple[object, ...]:
    """The same of a message as a broker describes it."""
    return row["id"], row["messageId"], row["sent"], row["kind"], row["bytes"], _shortened(row["body"])


def _shortened(body: object) -> str:
    text = "" if body is None else str(body).replace("\n", " ")
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
