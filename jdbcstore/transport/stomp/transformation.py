"""The ``transformation`` header: map messages as XML or JSON for STOMP clients, and back.

ActiveMQ has a Java library turn a map's entries into ``<entry><string>key</string><int>3</int></entry>``, or into the
same as JSON. Maps of primitive values are done here. Java objects are not: their bytes mean something to Java only. A
client that asks for them gets what ActiveMQ gives when it cannot transform: the header, and an empty body.
"""

from __future__ import annotations

import base64
import binascii
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from jdbcstore.errors import CodecError
from jdbcstore.java_text import java_text
from jdbcstore.message import MapMessage, Message
from jdbcstore.primitives import Byte, Char, Float, Long, Short, Value, java_type

__all__ = ["transformed_body", "untransformed", "xml_bytes"]

_XML_FORMS: Final = frozenset({"jms-xml", "jms-map-xml", "jms-object-xml"})
_JSON_FORMS: Final = frozenset({"jms-json", "jms-map-json", "jms-object-json"})

#: What a SEND may say.
_SENT_FORMS: Final = frozenset({"jms-map-xml", "jms-map-json", "jms-object-xml", "jms-object-json"})
#: What only a SUBSCRIBE may say.
_RECEIVED_FORMS: Final = frozenset({"jms-xml", "jms-json", "jms-byte", "jms-advisory-xml", "jms-advisory-json"})

#: What a general form is called once it is applied to a map.
_MAP_FORM: Final = {"jms-xml": "jms-map-xml", "jms-json": "jms-map-json"}


def transformed_body(message: Message, form: str) -> tuple[bytes | None, str]:
    """The body of a map message in the form a subscription asked for, and the name of the form used.

    Args:
        message: any message; only maps have a form.
        form: value of the subscription's ``transformation`` header.

    Returns:
        None instead of a body if there is nothing to transform: the message's own body goes out.
    """
    if not isinstance(message, MapMessage):
        return None, form
    if form in _XML_FORMS:
        return xml_bytes(_element(message.body)), _MAP_FORM.get(form, form)
    if form in _JSON_FORMS:
        return _json(message.body), _MAP_FORM.get(form, form)
    return None, form


def untransformed(message: Message, properties: dict[str, str], body: bytes) -> Message:
    """The map message that a SEND with a ``transformation`` header means; `message` itself if it names no form.

    A body that is no map stays a text, and a property ``transformation-error`` says so, as in ActiveMQ; so it is with
    a form in which only subscriptions can ask for messages.

    Args:
        message: the text message made of the frame.
        properties: its properties; the error is noted in them.
        body: the frame's body.
    """
    form = properties["transformation"]
    if form in _RECEIVED_FORMS:
        properties["transformation-error"] = f"{form} is for SUBSCRIBE: a SEND says jms-map-json or jms-map-xml"
    if form not in _SENT_FORMS:
        return message
    try:
        entries = _read_xml(body) if form.endswith("xml") else _read_json(body)
        transformed = MapMessage(
            producer_id=message.producer_id,
            destination=message.destination,
            message_id=message.message_id,
            persistent=message.persistent,
            timestamp=message.timestamp,
            broker_in_time=message.broker_in_time,
        )
        transformed.body = entries
    except (ValueError, TypeError, KeyError, RecursionError, ET.ParseError, CodecError, binascii.Error):
        properties["transformation-error"] = f"the body is no map in the form {form}"
        return message
    return transformed


# --- values and their names -------------------------------------------------------------------------------------------

_FROM_TEXT: Final[dict[str, Callable[[str], Value]]] = {
    "string": str,
    "int": int,
    "long": lambda text: Long(int(text)),
    "short": lambda text: Short(int(text)),
    "byte": lambda text: Byte(int(text)),
    "double": float,
    "float": lambda text: Float(float(text)),
    "boolean": lambda text: text == "true",
    "char": Char,
    "byte-array": lambda text: base64.b64decode(text, validate=True),
    "null": lambda text: None,
}


def _named(value: Value) -> tuple[str, str]:
    kind = java_type(value)
    if isinstance(value, bytes):
        return "byte-array", base64.b64encode(value).decode("ascii")
    return kind, "" if value is None else java_text(value)


def _read(kind: str, text: str) -> Value:
    return _FROM_TEXT[kind](text)


# --- XML --------------------------------------------------------------------------------------------------------------


def _element(value: Value) -> ET.Element:
    if isinstance(value, Mapping):
        element = ET.Element("map")
        for key, item in value.items():
            entry = ET.SubElement(element, "entry")
            entry.append(_element(key))
            entry.append(_element(item))
        return element
    if isinstance(value, list | tuple):
        element = ET.Element("list")
        element.extend(_element(item) for item in value)
        return element
    kind, text = _named(value)
    element = ET.Element(kind)
    if text:
        element.text = text
    return element


#: What XML needs escaped: a raw CR would be another line end when it is read, and the others would be errors.
_CONTROLS: Final = {code: f"&#x{code:x};" for code in range(0x20) if code not in (0x09, 0x0A)}


def xml_bytes(element: ET.Element) -> bytes:
    """An element as XML, indented as ActiveMQ does, in UTF-8."""
    ET.indent(element)
    text = ET.tostring(element, encoding="unicode").replace(" />", "/>")  # in a text there is no bare >
    return text.translate(_CONTROLS).encode("utf-8", "replace")


def _read_xml(body: bytes) -> dict[str, Value]:
    if b"<!" in body:
        raise ValueError("declarations are not read: they can be bombs")
    return _map_of_element(ET.fromstring(body))  # no declarations, so no entities


def _map_of_element(element: ET.Element) -> dict[str, Value]:
    if element.tag != "map":
        raise ValueError(f"<{element.tag}> is no map")
    entries: dict[str, Value] = {}
    for entry in element:
        key, value = entry
        entries[str(_value_of_element(key))] = _value_of_element(value)
    return entries


def _value_of_element(element: ET.Element) -> Value:
    if element.tag == "map":
        return _map_of_element(element)
    if element.tag == "list":
        return [_value_of_element(item) for item in element]
    return _read(element.tag, element.text or "")


# --- JSON: children by name, an array where a name occurs more than once
# -----------------------------------------------


def _json(entries: Mapping[str, Value]) -> bytes:
    return json.dumps({"map": _json_map(entries)}, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _json_map(entries: Mapping[str, Value]) -> object:
    written = [_json_children([key, value]) for key, value in entries.items()]
    return {"entry": written[0] if len(written) == 1 else written} if written else ""


def _json_children(values: list[Value]) -> dict[str, Any]:
    children: dict[str, list[object]] = {}
    for value in values:
        if isinstance(value, Mapping):
            children.setdefault("map", []).append(_json_map(value))
        elif isinstance(value, list | tuple):
            children.setdefault("list", []).append(_json_children(list(value)))
        else:
            kind, text = _named(value)
            children.setdefault(kind, []).append(_json_scalar(kind, value, text))
    return {kind: found[0] if len(found) == 1 else found for kind, found in children.items()}


def _json_scalar(kind: str, value: Value, text: str) -> object:
    if kind in ("int", "long", "short", "byte"):
        return int(text)
    if kind in ("boolean", "double"):
        return value
    return text


def _read_json(body: bytes) -> dict[str, Value]:
    return _map_of_json(json.loads(body)["map"])


def _map_of_json(node: Any) -> dict[str, Value]:
    if node == "":
        return {}
    entries: dict[str, Value] = {}
    for entry in node["entry"] if isinstance(node["entry"], list) else [node["entry"]]:
        key, value = _pairs(entry)
        entries[str(_value_of_json(*key))] = _value_of_json(*value)
    return entries


def _pairs(node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for kind, found in node.items():
        for item in found if isinstance(found, list) else [found]:
            yield kind, item


def _value_of_json(kind: str, node: Any) -> Value:
    if kind == "map":
        return _map_of_json(node)
    if kind == "list":
        return [_value_of_json(*pair) for pair in _pairs(node or {})]
    if isinstance(node, bool):
        node = "true" if node else "false"
    return _read(kind, str(node))
