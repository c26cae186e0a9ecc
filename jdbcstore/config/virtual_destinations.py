"""``[virtual_topics]``, ``[composites]`` and ``[mirrored_queue]`` of a TOML file.

::

    [virtual_topics."ORDERS.>"]         # fields of VirtualTopic
    prefix = "Consumer.*."

    [composites."queue://ORDERS"]       # fields of CompositeDestination
    forward_to = ["queue://BILLING", "topic://NEWS", { destination = "queue://LARGE", selector = "total > 1000" }]
    forward_only = true

    [mirrored_queue]                    # fields of MirroredQueue
    prefix = "VirtualTopic.Mirror."
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jdbcstore.broker.virtual_destinations import (
    CompositeDestination,
    ForwardTo,
    MirroredQueue,
    VirtualDestinations,
    VirtualTopic,
)
from jdbcstore.destination import Destination, Queue, Topic, parse_destination
from jdbcstore.errors import ConfigurationError, SelectorError
from jdbcstore.selector import Selector
from jdbcstore.spelling import did_you_mean

__all__ = ["VIRTUAL_TABLES", "forward_to", "read_virtual_destinations"]

#: The tables that are read here.
VIRTUAL_TABLES = ("virtual_topics", "composites", "mirrored_queue")
_VIRTUAL_TOPIC = {"prefix": str, "postfix": str, "selector_aware": bool, "set_original_destination": bool}
_COMPOSITE = {"forward_to": list, "forward_only": bool, "send_when_not_matched": bool}
_MIRRORED = {"prefix": str, "postfix": str, "use_temp_mirrored_queues": bool}
_FORWARD = {"destination": str, "selector": str}
_KINDS = {str: "a string", bool: "true or false", list: "a list"}


def read_virtual_destinations(document: Mapping[str, Any]) -> VirtualDestinations:
    """Read the tables of a file.

    Raises:
        ConfigurationError: a name or a value is wrong.
    """
    mirrored = document.get("mirrored_queue")
    return VirtualDestinations(
        virtual_topics=tuple(
            VirtualTopic(name=_topic(name), **_fields(f'virtual_topics."{name}"', table, _VIRTUAL_TOPIC))
            for name, table in document.get("virtual_topics", {}).items()
        ),
        composites=tuple(_composite(name, table) for name, table in document.get("composites", {}).items()),
        mirrored_queue=None if mirrored is None else MirroredQueue(**_fields("mirrored_queue", mirrored, _MIRRORED)),
    )


def _topic(name: str) -> Topic:
    if name.startswith(Queue.prefix):
        raise ConfigurationError(f'[virtual_topics."{name}"]: write the name of a topic')
    return Topic(name.removeprefix(Topic.prefix))


def _composite(name: str, table: object) -> CompositeDestination:
    where = f'composites."{name}"'
    fields = _fields(where, table, _COMPOSITE)
    targets = tuple(_target(where, given) for given in fields.pop("forward_to", ()))
    return CompositeDestination(name=_destination(f"[{where}]", name), forward_to=targets, **fields)


def _target(where: str, given: object) -> ForwardTo:
    if isinstance(given, str):
        return ForwardTo(destination=_destination(f"{where}.forward_to", given))
    fields = _fields(f"{where}.forward_to", given, _FORWARD)
    if "destination" not in fields:
        raise ConfigurationError(f"[{where}.forward_to] needs a destination")
    return forward_to(_destination(f"{where}.forward_to", fields["destination"]), fields.get("selector"))


def forward_to(destination: Destination, selector: str | None) -> ForwardTo:
    """Where a composite forwards to what a selector matches, or everything. Raises ConfigurationError."""
    try:
        wanted = None if selector is None else Selector.parse(selector)
    except SelectorError as error:
        raise ConfigurationError(f"the selector for {destination}: {error}") from error
    return ForwardTo(destination=destination, selector=wanted)


def _destination(where: str, name: str) -> Destination:
    if not name.startswith((Queue.prefix, Topic.prefix)):
        raise ConfigurationError(f'{where}: write "queue://…" or "topic://…", got {name!r}')
    return parse_destination(name)


def _fields(where: str, table: object, known: Mapping[str, type]) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ConfigurationError(f"[{where}] must be a table")
    for name, value in table.items():
        if name not in known:
            hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
            raise ConfigurationError(f"unknown option in [{where}]: {name}{hint}")
        if not isinstance(value, known[name]):
            raise ConfigurationError(f"{where}.{name} must be {_KINDS[known[name]]}, got {value!r}")
    return dict(table)
