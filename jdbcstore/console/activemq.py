"""``jdbcstore activemq``: the commands that ActiveMQ's operators have in their fingers, in its spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import click

from jdbcstore.console.face import Face, face_options, finish
from jdbcstore.console.views import all_destinations
from jdbcstore.destination import parse_destination
from jdbcstore.errors import UnknownDestination

__all__ = ["activemq"]

_COLUMNS = "{:<50}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}"
#: What ``query`` shows of a destination: ActiveMQ's attribute, and our field.
_ATTRIBUTES = {
    "Name": "name",
    "QueueSize": "depth",
    "ConsumerCount": "consumers",
    "EnqueueCount": "enqueued",
    "DequeueCount": "dequeued",
    "InFlightCount": "in_flight",
    "ExpiredCount": "expired",
    "MemoryUsageByteCount": "memory_bytes",
    "DLQ": "is_dead_letter_queue",
    "Paused": "is_paused",
}


@click.group()
def activemq() -> None:
    """ActiveMQ's commands: bstat, dstat, browse, purge, query."""


@activemq.command()
@face_options
def bstat(face: Face) -> None:
    """Show the broker, and then its destinations."""
    broker = face.view("broker")
    click.echo(f"BrokerName = {broker['name']}")
    for name, field in (
        ("BrokerVersion", "version"),
        ("CurrentConnectionsCount", "connections"),
        ("TotalConsumerCount", "subscriptions"),
        ("TotalMessageCount", "depth"),
        ("TotalQueuesCount", "queues"),
        ("TotalTopicsCount", "topics"),
    ):
        click.echo(f"{name} = {broker[field]}")
    click.echo(f"Slave = {str(broker['state'] != 'master').lower()}")
    click.echo()
    _print(all_destinations(face, ""))


@activemq.command()
@face_options
@click.argument("kind", type=click.Choice(("queues", "topics", "all")), default="all")
def dstat(face: Face, kind: str) -> None:
    """Show the statistics of queues, topics, or both."""
    _print(all_destinations(face, "" if kind == "all" else kind.removesuffix("s")))


def _print(rows: Sequence[Mapping[str, Any]]) -> None:
    titles = ("Name", "Queue Size", "Producer #", "Consumer #", "Enqueue #", "Dequeue #", "Forward #", "Memory %")
    click.echo(_COLUMNS.format(*titles))
    for row in rows:
        numbers = (row["depth"], 0, row["consumers"], row["enqueued"], row["dequeued"], 0, 0)
        click.echo(_COLUMNS.format(_plain(row), *numbers))


def _plain(row: Mapping[str, Any]) -> str:
    return str(row["name"]).partition("://")[2]


@activemq.command()
@face_options
@click.argument("queue")
@click.option("--msgsel", default="", help="Only what this selector matches.")
def browse(face: Face, queue: str, msgsel: str) -> None:
    """Show all messages of QUEUE; there is no limit of 400."""
    name, after = str(parse_destination(queue)), ""
    while after is not None:
        page = face.view("messages", destination=name, selector=msgsel, after=after, count=500)
        for message in page["messages"]:
            for field, header in (
                ("messageId", "JMSMessageID"),
                ("destination", "JMSDestination"),
                ("sent", "JMSTimestamp"),
                ("priority", "JMSPriority"),
                ("correlationId", "JMSCorrelationID"),
                ("type", "JMSType"),
                ("redelivered", "JMSRedelivered"),
            ):
                click.echo(f"{header} = {message[field]}")
            for key, value in dict(message["properties"]).items():
                click.echo(f"JMS_CUSTOM_FIELD:{key} = {value}")
            click.echo(f"JMS_BODY_FIELD:JMSText = {message['body']}\n")
        after = page["after"]


@activemq.command()
@face_options
@click.argument("queues", nargs=-1, required=True)
@click.option("--msgsel", default="", help="Only what this selector matches.")
def purge(face: Face, queues: tuple[str, ...], msgsel: str) -> None:
    """Remove the messages of QUEUES, whose names may have * in them, as ActiveMQ's command does: without asking."""
    known = [str(row["name"]) for row in all_destinations(face, "queue")]
    for queue in queues:
        wanted = str(parse_destination(queue))
        names = [name for name in known if name == wanted or ("*" in wanted and fnmatchcase(name, wanted))]
        if not names:
            raise UnknownDestination(f"there is no destination {wanted}")
        for name in names:
            given = {"destination": name, "selector": msgsel} if msgsel else {"destination": name}
            done = finish(face, face.act("delete" if msgsel else "purge", **given))
            click.echo(f"INFO: Purged {done['done']} messages of {name}")


@activemq.command()
@face_options
@click.option("-Q", "queue", default="", metavar="Queue=NAME", help="A queue; * stands for anything.")
@click.option("--view", default="", metavar="ATTRIBUTES", help="Only these, with commas.")
def query(face: Face, queue: str, view: str) -> None:
    """Show attributes of queues: -QQueue=* --view QueueSize,EnqueueCount."""
    pattern = queue.partition("=")[2] or "*"
    wanted = [name for name in view.split(",") if name] or list(_ATTRIBUTES)
    for row in all_destinations(face, "queue"):
        if fnmatchcase(_plain(row), pattern):
            click.echo(f"Name = {_plain(row)}")
            for name in wanted:
                if name in _ATTRIBUTES and name != "Name":
                    click.echo(f"{name} = {row[_ATTRIBUTES[name]]}")
            click.echo()
