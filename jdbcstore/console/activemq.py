"""``jdbcstore activemq``: the commands that ActiveMQ's operators have in their fingers, in its spelling."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

import click

from jdbcstore.console.face import Face, face_options, finish
from jdbcstore.console.views import all_destinations
from jdbcstore.destination import parse_destination
from jdbcstore.errors import ConfigurationError, UnknownDestination
from jdbcstore.spelling import did_you_mean

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
#: What ``browse`` writes before a field, by the groups of its option ``-V``.
_PREFIXES = {"header": "JMS_HEADER_FIELD:", "custom": "JMS_CUSTOM_FIELD:", "body": "JMS_BODY_FIELD:"}
#: Headers of a message, and our fields; those that it does not have are not shown.
_HEADERS = {
    "JMSType": "type",
    "JMSPriority": "priority",
    "JMSMessageID": "messageId",
    "JMSCorrelationID": "correlationId",
}
#: What bodies are called that are neither text nor maps.
_BODIES = {"bytes": "JMSBytes:1", "stream": "JMSStreamMessage", "object": "JMSObjectString"}
_OLD_PREFIX = re.compile(r"queue:(?!//)")


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
@click.argument("queues", nargs=-1)
@click.option("--msgsel", default="", help="Only what this selector matches.")
@click.option("-V", "groups", multiple=True, metavar="GROUPS", help="Only header, custom or body, with commas.")
@click.option("--view", default="", metavar="FIELDS", help="Only these fields, with commas.")
def browse(face: Face, queues: tuple[str, ...], msgsel: str, groups: tuple[str, ...], view: str) -> None:
    """Show all messages of QUEUES, whose names may have * in them: there is no limit of 400.

    \b
    Examples:
        jdbcstore activemq browse ORDERS --msgsel "JMSPriority > 5"
        jdbcstore activemq browse -Vheader,body --view JMSMessageID,JMSText queue:ORDERS
    """
    shown = {group for given in groups for group in given.split(",")} or set(_PREFIXES)
    if unknown := shown - set(_PREFIXES):
        raise ConfigurationError(f"-V{sorted(unknown)[0]}: there are {', '.join(_PREFIXES)}")
    named = {name for name in view.split(",") if name}
    for queue in _matching(face, queues or ("*",)):
        after = ""
        while after is not None:
            page = face.view("messages", destination=queue, selector=msgsel, after=after, count=500)
            for message in page["messages"]:
                if str(message["body"]).endswith("…"):  # a page has the beginnings of bodies
                    whole = face.view("message", destination=queue, number=message["number"])["message"]
                    message["body"] = (whole or message)["body"]
                for group, name, value in _fields(message):
                    if group in shown and (not named or name in named):
                        click.echo(f"{_PREFIXES[group]}{name} = {value}")
                click.echo()
            after = page["after"]


def _fields(message: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    """What ActiveMQ shows of a message: the group, the name and the value of each field that it has."""
    for name, value in dict(message["properties"]).items():
        yield "custom", name, value
    body = message["body"]
    if isinstance(body, Mapping):
        for name, value in body.items():
            yield "body", name, value
    elif body is not None:
        yield "body", _BODIES.get(message["kind"], "JMSText"), body
    for name, field in _HEADERS.items():
        if message[field] is not None:
            yield "header", name, message[field]
    for name, field in (("JMSDestination", "destination"), ("JMSReplyTo", "replyTo")):
        if message[field] is not None:
            yield "header", name, str(message[field]).partition("://")[2]
    yield "header", "JMSTimestamp", _epoch_ms(message["sent"])
    yield "header", "JMSExpiration", _epoch_ms(message["expires"])
    yield "header", "JMSRedelivered", str(message["redelivered"]).lower()
    yield "header", "JMSDeliveryMode", "persistent" if message["persistent"] else "non-persistent"


def _epoch_ms(shown: str | None) -> int:
    return 0 if shown is None else round(datetime.fromisoformat(shown).replace(tzinfo=UTC).timestamp() * 1000)


def _matching(face: Face, queues: Sequence[str]) -> list[str]:
    """The queues of these names, which may have * and ? in them and begin with ``queue:``, as ActiveMQ has it.

    Raises:
        UnknownDestination: there is none of a name.
    """
    known = [str(row["name"]) for row in all_destinations(face, "queue")]
    found: list[str] = []
    for queue in queues:
        wanted = str(parse_destination(_OLD_PREFIX.sub("", queue)))
        names = [wanted] if wanted in known else [name for name in known if fnmatchcase(name, wanted)]
        if not names and queue != "*":
            raise UnknownDestination(f"there is no destination {wanted}{did_you_mean(wanted, known)}")
        found += [name for name in names if name not in found]
    return found


@activemq.command()
@face_options
@click.argument("queues", nargs=-1, required=True)
@click.option("--msgsel", default="", help="Only what this selector matches.")
def purge(face: Face, queues: tuple[str, ...], msgsel: str) -> None:
    """Remove the messages of QUEUES, whose names may have * in them, as ActiveMQ's command does: without asking."""
    for name in _matching(face, queues):
        given = {"destination": name, "selector": msgsel} if msgsel else {"destination": name}
        done = finish(face, face.act("delete" if msgsel else "purge", **given))
        click.echo(f"INFO: Purged {done['done']} messages of {name}")


@activemq.command()
@face_options
@click.option("-Q", "added", multiple=True, metavar="TYPE=NAME", help="Queue=… or Topic=…; * stands for anything.")
@click.option("-x", "removed", multiple=True, metavar="QTYPE=NAME", help="-xQQueue=… and so on: not these.")
@click.option("--objname", "names", multiple=True, metavar="QUERY", help="Type=Queue,Destination=…")
@click.option("--xobjname", "other_names", multiple=True, metavar="QUERY", help="Not these.")
@click.option("--view", default="", metavar="ATTRIBUTES", help="Only these, with commas.")
def query(
    face: Face,
    added: tuple[str, ...],
    removed: tuple[str, ...],
    names: tuple[str, ...],
    other_names: tuple[str, ...],
    view: str,
) -> None:
    """Show attributes of queues and topics.

    \b
    Examples:
        jdbcstore activemq query -QQueue=* -xQQueue=ActiveMQ.* --view QueueSize,EnqueueCount
        jdbcstore activemq query --objname Type=Topic,Destination=PRICES.*
    """
    wanted = [name for name in view.split(",") if name] or list(_ATTRIBUTES)
    taken = [*map(_predefined, added), *map(_object_name, names)] or [("*", "*")]
    left_out = [*(_predefined(one.removeprefix("Q")) for one in removed), *map(_object_name, other_names)]

    def is_one_of(row: Mapping[str, Any], patterns: Sequence[tuple[str, str]]) -> bool:
        kind = str(row["kind"]).capitalize()
        return any(fnmatchcase(kind, one) and fnmatchcase(_plain(row), name) for one, name in patterns)

    for row in all_destinations(face, ""):
        if is_one_of(row, taken) and not is_one_of(row, left_out):
            click.echo(f"Name = {_plain(row)}")
            for name in wanted:
                if name in _ATTRIBUTES and name != "Name":
                    value = row[_ATTRIBUTES[name]]
                    click.echo(f"{name} = {str(value).lower() if isinstance(value, bool) else value}")
            click.echo()


def _predefined(given: str) -> tuple[str, str]:
    """Type and name of ``Queue=NAME``. Raises ConfigurationError."""
    kind, _, name = given.partition("=")
    if kind not in ("Queue", "Topic"):
        raise ConfigurationError(
            f"{kind!r} is not known here, only Queue and Topic: of the broker 'activemq bstat' tells, of connections"
            " 'connections', and of everything the MBeans at /api/jolokia of --web-bind"
        )
    return kind, name or "*"


def _object_name(given: str) -> tuple[str, str]:
    """The same of ``Type=Queue,Destination=NAME``, in the old or the new spelling of its keys."""
    keys = dict(part.partition("=")[::2] for part in given.rpartition(":")[2].split(",") if part != "*")
    kind = keys.get("destinationType") or keys.get("Type") or keys.get("type") or "*"
    name = keys.get("destinationName") or keys.get("Destination") or "*"
    return ("*" if kind == "*" else _predefined(kind)[0]), name
