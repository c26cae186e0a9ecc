"""The body of an advisory for STOMP clients: the command that OpenWire clients are told by, as JSON or XML.

A command is an object with the name of its class, ``{"ConnectionInfo":{"commandId":0,…,"userName":"joe"}}``, or the
same in elements. What is null is left out. A field that may hold objects of several classes says which (``@class``). A
destination is its name and a null, as ActiveMQ's Java library prints destinations.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final

from jdbcstore.destination import Destination
from jdbcstore.identifiers import ConnectionId, ConsumerId, ProducerId
from jdbcstore.message import Message
from jdbcstore.openwire.advisory_commands import ADVISORY_COMMANDS
from jdbcstore.openwire.commands import BaseCommand
from jdbcstore.transport.stomp.transformation import xml_bytes

__all__ = ["advisory_body"]

_XML: Final = "jms-advisory-xml"
_JSON: Final = "jms-advisory-json"
_XML_ASKED_FOR: Final = frozenset({"jms-xml", _XML})

#: Fields that Java declares by what several classes have in common.
_CLASS_TOLD: Final = frozenset({"destination", "objectId"})
#: Fields that Java never prints.
_UNTOLD: Final = frozenset({"networkSubscription"})


def advisory_body(message: Message, form: str | None) -> tuple[bytes, str] | None:
    """The body of an advisory, and the name of the form it has.

    Args:
        message: any message that has no body of its own.
        form: of the subscription's ``transformation`` header, if it has one: XML if that is asked for, else JSON.

    Returns:
        None if it tells of nothing, or of another message, whose body it may have.
    """
    make = ADVISORY_COMMANDS.get(type(message.data_structure))
    if make is None:
        return None
    command = make(message.data_structure)
    name = type(command).__name__
    if form in _XML_ASKED_FOR:
        return xml_bytes(_element(name, command)), _XML
    return json.dumps({name: _json(command)}, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "replace"
    ), _JSON


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """What an object is made of, by Java's names."""
    match value:
        case BaseCommand():
            for field in fields(value):
                part = getattr(value, field.name)
                name = _camel_case(field.name)
                if part is not None and name not in _UNTOLD:
                    yield name, part
        case ConnectionId():
            yield "value", value.value
        case ConsumerId() | ProducerId():
            yield from (("connectionId", value.connection_id), ("sessionId", value.session_id), ("value", value.value))
        case Destination():
            yield from (("string", value.physical_name), ("null", ""))
        case _:
            raise TypeError(f"{type(value).__name__} is no part of an advisory")


def _class_name(value: object) -> str:
    if not isinstance(value, Destination):
        return type(value).__name__
    return f"ActiveMQ{'Temp' if value.is_temporary else ''}{'Queue' if value.is_queue else 'Topic'}"


def _json(value: object) -> Any:
    if isinstance(value, str | int):
        return value
    return {
        name: {"@class": _class_name(part), **_json(part)} if name in _CLASS_TOLD else _json(part)
        for name, part in _parts(value)
    }


def _element(name: str, value: object) -> ET.Element:
    element = ET.Element(name)
    if isinstance(value, bool):
        element.text = "true" if value else "false"
    elif isinstance(value, str | int):
        element.text = str(value)
    else:
        if name in _CLASS_TOLD:
            element.set("class", _class_name(value))
        element.extend(_element(*part) for part in _parts(value))
    return element


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
