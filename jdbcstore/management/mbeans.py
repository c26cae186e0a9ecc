"""ActiveMQ's MBeans over the management face: names, attributes and operations, as tools read and call them.

Names are those of ActiveMQ since 5.8: ``org.apache.activemq:type=Broker,brokerName=B`` and behind it
``,destinationType=Queue,destinationName=Q``. Attributes that mean nothing here are there where tools fail without them,
with the value of a broker that has nothing of it; what is not listed is not there. Operations are found by their names,
with or without a signature. Names, errors and what ``browse`` tells are as Jolokia tells them of an ActiveMQ, whose
answers are in ``tests/vectors/jolokia.json``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from jdbcstore.destination import parse_destination
from jdbcstore.errors import CodecError, ConfigurationError, UnknownDestination
from jdbcstore.java_text import java_text
from jdbcstore.management.described import described, shown_time
from jdbcstore.management.filters import EVERYTHING, Filter
from jdbcstore.management.management import Management
from jdbcstore.management.operations import Operation
from jdbcstore.management.views import DestinationView
from jdbcstore.message import Message, TextMessage
from jdbcstore.primitives import java_type

__all__ = ["DOMAIN", "BeanNotFound", "Beans", "MemberNotFound", "ObjectName"]

DOMAIN: Final = "org.apache.activemq"
_BROWSED_MAX: Final = 400
_DESTINATIONS_MAX: Final = 100_000
#: What `list` and the `read` of a pattern show: an answer is built in the broker's loop, and sent as a whole.
_SHOWN_MAX: Final = 1000
_AT_ONCE: Final = 50
_KINDS: Final = {"queue": "Queue", "topic": "Topic"}


class BeanNotFound(ConfigurationError):
    """There is no MBean of this name."""


class MemberNotFound(ConfigurationError):
    """An MBean has no such attribute."""


@dataclass(frozen=True, slots=True)
class ObjectName:
    """A name of JMX: a domain and properties; ``*`` stands for anything, and as a property for any others.

    Args:
        domain: before the colon.
        properties: in their order.
        is_open: whether there may be other properties.
    """

    domain: str
    properties: tuple[tuple[str, str], ...]
    is_open: bool = False

    @classmethod
    def parse(cls, text: str) -> ObjectName:
        """Read a name. Raises ConfigurationError if it is none."""
        domain, colon, rest = text.partition(":")
        if not colon or not rest:
            raise ConfigurationError(f"{text[:200]!r} is no name of an MBean: it needs DOMAIN:KEY=VALUE,…")
        properties: list[tuple[str, str]] = []
        is_open = False
        for part in re.split(r",(?=[^,=]+=|\*$)", rest):
            if part == "*":
                is_open = True
                continue
            key, equals, value = part.partition("=")
            if not equals:
                raise ConfigurationError(f"{text[:200]!r} is no name of an MBean: {part!r} is no KEY=VALUE")
            properties.append((key, value.strip('"')))
        return cls(domain, tuple(properties), is_open)

    @property
    def is_pattern(self) -> bool:
        """Whether it may stand for several."""
        return self.is_open or "*" in self.domain or any("*" in value for _, value in self.properties)

    def matches(self, other: ObjectName) -> bool:
        """Whether this pattern covers a name."""
        mine, others = dict(self.properties), dict(other.properties)
        if not self.is_open and mine.keys() != others.keys():
            return False
        return _covers(self.domain, other.domain) and all(
            key in others and _covers(value, others[key]) for key, value in mine.items()
        )

    @property
    def canonical(self) -> ObjectName:
        """The same name with its properties in the order of their keys."""
        return replace(self, properties=tuple(sorted(self.properties)))

    def __str__(self) -> str:
        parts = [f"{key}={value}" for key, value in self.properties]
        return f"{self.domain}:" + ",".join([*parts, "*"] if self.is_open else parts)


#: What ActiveMQ writes in a name of an MBean for characters of a destination's name.
_ENCODED: Final = str.maketrans({**dict.fromkeys(":,'\"", "_"), "?": "&qe;", "=": "&amp;", "*": "&ast;"})


def _covers(pattern: str, text: str) -> bool:
    return pattern in ("*", text) or (
        "*" in pattern and re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), text) is not None
    )


class Beans:
    """The MBeans that one person sees.

    Args:
        face: of the broker, for that person.
        is_canonical: whether answers have the properties of names in the order of their keys, or in ActiveMQ's order.
    """

    def __init__(self, face: Management, *, is_canonical: bool = True) -> None:
        self._face = face
        self._is_canonical = is_canonical
        self._root = (("type", "Broker"), ("brokerName", face.master().name))

    def text(self, name: ObjectName) -> str:
        """A name as answers have it."""
        return str(name.canonical if self._is_canonical else name)

    # -- names ---------------------------------------------------------------------------------------------------

    async def search(self, pattern: ObjectName) -> list[ObjectName]:
        """The names that a pattern covers."""
        return [name for name, _ in await self._found(pattern)]

    async def _found(
        self, pattern: ObjectName, most: int = _DESTINATIONS_MAX
    ) -> list[tuple[ObjectName, DestinationView | None]]:
        """Names that a pattern covers, with their destinations, so many `most`."""
        asked = dict(pattern.properties)
        root = ObjectName(DOMAIN, self._root)
        health = ObjectName(DOMAIN, (*self._root, ("service", "Health")))
        found: list[tuple[ObjectName, DestinationView | None]] = [
            (name, None) for name in (root, health) if pattern.matches(name)
        ]
        exact = asked.get("destinationName", "*")
        if "*" not in exact and asked.get("destinationType") in _KINDS.values():
            name = self._name(asked["destinationType"], exact)
            if pattern.matches(name) and (view := await self._view(asked["destinationType"], exact)) is not None:
                found.append((name, view))
            return found
        if pattern.is_open or "destinationName" in asked:
            await self._face.freshen()
            rows, _ = await self._face.destinations(count=_DESTINATIONS_MAX)
            for number, view in enumerate(rows, 1):
                name = self.name_of(view)
                if pattern.matches(name):
                    found.append((name, view))
                if len(found) >= most:
                    break
                await _let_others_work(number)
        return found

    async def _view(self, kind: str, encoded: str) -> DestinationView | None:
        """A destination, by its name or by what its MBean is named for it."""
        prefix = f"{kind.lower()}://"
        try:
            return self._face.destination(prefix + encoded)
        except UnknownDestination:
            if "_" not in encoded and "&" not in encoded:
                return None
        await self._face.freshen()
        rows, _ = await self._face.destinations(kind=kind.lower(), count=_DESTINATIONS_MAX)
        for number, view in enumerate(rows, 1):
            if view.name.removeprefix(prefix).translate(_ENCODED) == encoded:
                return view
            await _let_others_work(number)
        return None

    def name_of(self, view: DestinationView) -> ObjectName:
        """The name of a destination's MBean."""
        return self._name(_KINDS[view.kind], view.name.partition("://")[2].translate(_ENCODED))

    def _name(self, kind: str, plain: str) -> ObjectName:
        return ObjectName(DOMAIN, (*self._root, ("destinationType", kind), ("destinationName", plain)))

    # -- attributes ----------------------------------------------------------------------------------------------

    async def read(
        self, name: ObjectName, wanted: str | Sequence[str] | None = None, *, ignores_errors: bool = False
    ) -> Any:
        """Attributes; of a pattern a mapping by names of MBeans, of the first thousand that there are.

        Args:
            name: of one MBean, or a pattern.
            wanted: of one attribute, which gives its value; of several, which gives a mapping; None for all.
            ignores_errors: whether one of several that is not there is told with the others.

        Raises:
            BeanNotFound, MemberNotFound: there is none.
            ConfigurationError: of all MBeans that the pattern covers none has one of these attributes.
        """
        names = [wanted] if isinstance(wanted, str) else wanted
        found = await self._found(name, _SHOWN_MAX)
        if not found:
            raise BeanNotFound(
                f"No MBean with pattern {name} found for reading attributes" if name.is_pattern else str(name)
            )
        if not name.is_pattern:
            attributes = await self._attributes(*found[0])
            return _chosen(attributes, wanted, ignores_errors=ignores_errors)
        values: dict[str, Any] = {}
        for number, (bean, view) in enumerate(found, 1):
            await _let_others_work(number)
            attributes = await self._attributes(bean, view)
            chosen = attributes if names is None else {key: attributes[key] for key in names if key in attributes}
            if chosen:
                values[self.text(bean)] = chosen
        if not values:
            raise ConfigurationError(f"No matching attributes [{', '.join(names or ())}] found on MBeans of {name}")
        return values

    async def _attributes(self, bean: ObjectName, view: DestinationView | None) -> Mapping[str, Any]:
        if view is not None:
            return self._of_destination(view)
        if dict(bean.properties).get("service") == "Health":
            state = self._face.master().state
            return {"CurrentStatus": "Good" if state == "master" else f"Getting Worried {{ {state} }}"}
        return await self._of_broker()

    async def _of_broker(self) -> Mapping[str, Any]:
        await self._face.freshen()
        face, broker = self._face, self._face.broker()
        rows, _ = await face.destinations(count=_DESTINATIONS_MAX)
        memory = face.memory() if face.rights.may_see_everything else None
        up_ms = max(broker.looked_ms - broker.started_ms, 0)
        used, limit = (0, 1) if memory is None else (memory.messages, memory.messages_max)
        names = {
            kind: [{"objectName": self.text(self.name_of(view))} for view in rows if view.kind == kind]
            for kind in _KINDS
        }
        return {
            "BrokerName": broker.name,
            "BrokerId": broker.holder or broker.name,
            "BrokerVersion": broker.version,
            "Uptime": f"{up_ms / 1000:.3f} seconds",
            "UptimeMillis": up_ms,
            "Slave": broker.state != "master",
            "Persistent": True,
            "StatisticsEnabled": True,
            "CurrentConnectionsCount": broker.connections,
            "TotalConnectionsCount": broker.connections,
            "TotalConsumerCount": broker.subscriptions,
            "TotalProducerCount": broker.producers,
            "TotalMessageCount": sum(view.depth for view in rows),
            "TotalEnqueueCount": sum(view.enqueued for view in rows),
            "TotalDequeueCount": sum(view.dequeued for view in rows),
            "TotalQueuesCount": broker.queues,
            "TotalTopicsCount": broker.topics,
            "MemoryLimit": limit,
            "MemoryPercentUsage": min(100 * used // limit, 100),
            "StoreLimit": 0,
            "StorePercentUsage": 0,
            "TempLimit": 0,
            "TempPercentUsage": 0,
            "JobSchedulerStorePercentUsage": 0,
            "TransportConnectors": {f"stomp{number}": f"stomp://{at}" for number, at in enumerate(broker.addresses)},
            "Queues": names["queue"],
            "Topics": names["topic"],
        }

    def _of_destination(self, view: DestinationView) -> Mapping[str, Any]:
        plain = view.name.partition("://")[2]
        return {
            "Name": plain,
            "QueueSize": view.depth,
            "ConsumerCount": view.consumers,
            "ProducerCount": view.producers,
            "EnqueueCount": view.enqueued,
            "DequeueCount": view.dequeued,
            "DispatchCount": view.dequeued + view.in_flight,
            "InFlightCount": view.in_flight,
            "ExpiredCount": view.expired,
            "ForwardCount": 0,
            "MemoryUsageByteCount": view.memory_bytes,
            "MemoryPercentUsage": 0,
            "MemoryLimit": 0,
            "DLQ": view.is_dead_letter_queue,
            "Paused": view.is_paused,
            "Stopped": view.is_closed,
        }

    # -- operations ----------------------------------------------------------------------------------------------

    async def execute(self, name: ObjectName, operation: str, arguments: Sequence[Any]) -> Any:
        """Call an operation; what it returns is what ActiveMQ's does.

        Raises:
            BeanNotFound: there is none.
            ConfigurationError: it has no such operation, or not with so many arguments, or with such ones.
            JdbcStoreError: as the face.
        """
        found = [] if name.is_pattern else await self._found(name)
        if len(found) != 1:
            raise BeanNotFound(str(name))
        view = found[0][1]
        plain = operation.partition("(")[0]
        table = _OF_BROKER if view is None else _OF_QUEUE if view.kind == "queue" else _OF_TOPIC
        call = table.get((plain, len(arguments)))
        if call is None:
            counts = [count for known, count in table if known == plain]
            if not counts:
                raise ConfigurationError(f"No operation {plain} found on MBean {name.canonical}")
            raise ConfigurationError(
                f"Invalid number of operation arguments. Operation {operation} on {name} requires "
                f"{' or '.join(map(str, counts))} parameters, not {len(arguments)} as given"
            )
        has_headers = plain == "sendTextMessage" and len(arguments) > 1 and isinstance(arguments[0], Mapping)
        given = [arguments[0], *map(_text, arguments[1:])] if has_headers else map(_text, arguments)
        return await call(self._face, "" if view is None else view.name, *given)

    async def listed(self) -> Mapping[str, Any]:
        """What ``list`` tells: the operations and attributes of each MBean, of the first thousand."""
        beans: dict[str, Any] = {}
        found = await self._found(ObjectName(DOMAIN, (), is_open=True), _SHOWN_MAX)
        for number, (bean, view) in enumerate(found, 1):
            await _let_others_work(number)
            table = _OF_BROKER if view is None else _OF_QUEUE if view.kind == "queue" else _OF_TOPIC
            operations: dict[str, list[Any]] = {}
            for plain, count in table:
                args = [{"name": f"p{number + 1}", "type": "java.lang.String", "desc": ""} for number in range(count)]
                operations.setdefault(plain, []).append({"args": args, "ret": "java.lang.Object", "desc": plain})
            attributes = {
                key: {"rw": False, "type": _java_type(value), "desc": key}
                for key, value in (await self._attributes(bean, view)).items()
            }
            shown = {key: ops[0] if len(ops) == 1 else ops for key, ops in operations.items()}
            beans[self.text(bean).partition(":")[2]] = {"op": shown, "attr": attributes, "desc": "jdbcstore"}
        return {DOMAIN: beans}


async def _let_others_work(number: int) -> None:
    """Long work in the broker's loop: called for each of many, by its number."""
    if number % _AT_ONCE == 0:
        await asyncio.sleep(0)


def _java_type(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "long" if isinstance(value, int) else "java.lang.String" if isinstance(value, str) else "java.lang.Object"


def _chosen(attributes: Mapping[str, Any], wanted: str | Sequence[str] | None, *, ignores_errors: bool) -> Any:
    if wanted is None:
        return attributes
    values: dict[str, Any] = {}
    for name in [wanted] if isinstance(wanted, str) else wanted:
        if name in attributes:
            values[name] = attributes[name]
        elif isinstance(wanted, str) or not ignores_errors:
            raise MemberNotFound(f"No such attribute: {name}")
        else:
            values[name] = f"ERROR: No such attribute: {name} (class javax.management.AttributeNotFoundException)"
    return values[wanted] if isinstance(wanted, str) else values


# -- what operations do ------------------------------------------------------------------------------------------------


def _text(argument: object) -> str:
    """An argument as the text that Jolokia makes of it for a parameter that is one. Raises ConfigurationError."""
    if isinstance(argument, bool):
        return str(argument).lower()
    if argument is None or isinstance(argument, str | int | float):
        return "" if argument is None else str(argument)
    raise ConfigurationError(f"an argument of an operation has to be a text or a number, got {str(argument)[:50]!r}")


def _whole(text: str, what: str) -> int:
    """Raises ConfigurationError if it is no whole number."""
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(f"{what} has to be a whole number, got {text[:50]!r}") from None


def _matching(selector: str, most: str) -> Filter:
    """What operations on matching messages work on: at most so many, or all if that is not above 0."""
    return Filter(selector, limit=max(_whole(most, "the most messages"), 0))


async def _count(face: Management, operation: Operation) -> int:
    ended = await face.finished(operation)
    if ended.state != "done":
        raise ConfigurationError(f"{ended.action} is {ended.state} behind {ended.done} messages: {ended.error}")
    return ended.done


async def _purge(face: Management, queue: str) -> None:
    await _count(face, face.purge(queue))


async def _browse(face: Management, queue: str, selector: str = "") -> list[Any]:
    page = await face.browse(queue, Filter(selector), None, _BROWSED_MAX)
    return [_composite(view.message) for view in page.messages]


#: Java types of properties, and where ``browse`` shows those of this type.
_TYPED: Final = {
    name: f"{name.capitalize()}Properties"
    for name in ("boolean", "byte", "short", "int", "long", "float", "double", "string")
}


def _composite(message: Message) -> dict[str, Any]:
    """A message as ActiveMQ's ``browse`` describes it; the body is always the text of it, however it is kept."""
    shown = described(message)
    typed: dict[str, dict[str, Any]] = {column: {} for column in _TYPED.values()}
    properties = shown["properties"]
    with suppress(CodecError):  # which the text of the properties says then
        for name, value in message.properties.items():
            typed[_TYPED.get(java_type(value), "StringProperties")][name] = java_text(value)
    return {
        "JMSMessageID": shown["messageId"],
        "JMSDestination": shown["destination"],
        "JMSCorrelationID": shown["correlationId"],
        "JMSReplyTo": shown["replyTo"],
        "JMSType": shown["type"],
        "JMSTimestamp": _second(message.timestamp),
        "JMSExpiration": message.expiration,
        "JMSPriority": shown["priority"],
        "JMSDeliveryMode": "PERSISTENT" if shown["persistent"] else "NON-PERSISTENT",
        "JMSRedelivered": shown["redelivered"],
        "JMSXGroupID": shown["group"],
        "JMSXGroupSeq": message.group_sequence,
        "JMSXUserID": message.user_id,
        "OriginalDestination": shown["originalDestination"],
        "BrokerPath": ",".join(map(str, message.broker_path or ())) or "null",
        "PropertiesText": str(properties),
        **typed,
        "Text": shown["body"],
    }


def _second(epoch_ms: int) -> str | None:
    """A date as Jolokia writes it: to the second, UTC."""
    text = shown_time(epoch_ms)
    return text and f"{text[:19].replace(' ', 'T')}Z"


async def _get_message(face: Management, queue: str, message_id: str) -> Any:
    message = await face.message(queue, message_id=message_id)
    return None if message is None else _composite(message)


async def _send(face: Management, queue: str, *arguments: Any) -> str:
    """``sendTextMessage``: body; or headers and body; perhaps with a user and a password behind, which mean nothing."""
    headers: Mapping[str, Any] = arguments[0] if isinstance(arguments[0], Mapping) else {}
    body = arguments[1] if isinstance(arguments[0], Mapping) else arguments[0]
    message = TextMessage(destination=parse_destination(queue))
    message.text = body
    message.properties = {
        key: value
        for key, value in headers.items()
        if not key.startswith("JMS") and isinstance(value, str | int | float | bool)
    }
    message.correlation_id = _header(headers, "JMSCorrelationID")
    message.type = _header(headers, "JMSType")
    message.persistent = str(headers.get("JMSDeliveryMode", "2")).upper() in ("2", "PERSISTENT")
    if "JMSPriority" in headers:
        message.priority = min(max(_whole(_text(headers["JMSPriority"]), "JMSPriority"), 0), 9)
    return await face.send(message)


def _header(headers: Mapping[str, Any], name: str) -> str | None:
    value = headers.get(name)
    return None if value is None else _text(value)


def _by_id(message_id: str) -> Filter:
    return Filter(message_ids=frozenset({message_id}))


async def _remove_one(face: Management, queue: str, message_id: str) -> bool:
    return await _count(face, face.delete(queue, _by_id(message_id))) == 1


async def _remove(face: Management, queue: str, selector: str, most: str = "0") -> int:
    return await _count(face, face.delete(queue, _matching(selector, most)))


async def _move_one(face: Management, queue: str, message_id: str, target: str) -> bool:
    return await _count(face, face.move(queue, target, _by_id(message_id))) == 1


async def _move(face: Management, queue: str, selector: str, target: str, most: str = "0") -> int:
    return await _count(face, face.move(queue, target, _matching(selector, most)))


async def _copy_one(face: Management, queue: str, message_id: str, target: str) -> bool:
    return await _count(face, face.copy(queue, target, _by_id(message_id))) == 1


async def _copy(face: Management, queue: str, selector: str, target: str, most: str = "0") -> int:
    return await _count(face, face.copy(queue, target, _matching(selector, most)))


async def _retry_one(face: Management, queue: str, message_id: str) -> bool:
    return await _count(face, face.retry(queue, _by_id(message_id))) == 1


async def _retry(face: Management, queue: str) -> int:
    return await _count(face, face.retry(queue, EVERYTHING))


async def _pause(face: Management, queue: str) -> None:
    await face.pause(queue)


async def _resume(face: Management, queue: str) -> None:
    await face.resume(queue, "consumers")


async def _queue_size(face: Management, queue: str) -> int:
    return face.destination(queue).depth


def _creating(prefix: str) -> Callable[..., Awaitable[Any]]:
    async def create(face: Management, _: str, name: str) -> None:
        await face.create(f"{prefix}{name}")

    return create


def _deleting(prefix: str) -> Callable[..., Awaitable[Any]]:
    async def delete(face: Management, _: str, name: str) -> None:
        with suppress(UnknownDestination):  # as there: scripts clean up what may be gone
            await face.delete_destination(f"{prefix}{name}")

    return delete


#: By name and number of arguments.
_OF_QUEUE: Final[Mapping[tuple[str, int], Callable[..., Awaitable[Any]]]] = {
    ("purge", 0): _purge,
    ("browse", 0): _browse,
    ("browse", 1): _browse,
    ("browseMessages", 0): _browse,
    ("browseMessages", 1): _browse,
    ("getMessage", 1): _get_message,
    ("sendTextMessage", 1): _send,
    ("sendTextMessage", 2): _send,
    ("sendTextMessage", 3): _send,
    ("sendTextMessage", 4): _send,
    ("removeMessage", 1): _remove_one,
    ("removeMatchingMessages", 1): _remove,
    ("removeMatchingMessages", 2): _remove,
    ("moveMessageTo", 2): _move_one,
    ("moveMatchingMessagesTo", 2): _move,
    ("moveMatchingMessagesTo", 3): _move,
    ("copyMessageTo", 2): _copy_one,
    ("copyMatchingMessagesTo", 2): _copy,
    ("copyMatchingMessagesTo", 3): _copy,
    ("retryMessage", 1): _retry_one,
    ("retryMessages", 0): _retry,
    ("pause", 0): _pause,
    ("resume", 0): _resume,
    ("getQueueSize", 0): _queue_size,
}
_OF_TOPIC: Final = dict.fromkeys((("sendTextMessage", 1), ("sendTextMessage", 2), ("sendTextMessage", 4)), _send)
_OF_BROKER: Final = {
    ("addQueue", 1): _creating("queue://"),
    ("removeQueue", 1): _deleting("queue://"),
    ("addTopic", 1): _creating("topic://"),
    ("removeTopic", 1): _deleting("topic://"),
}
