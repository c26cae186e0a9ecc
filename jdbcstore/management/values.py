"""Values of the management face as JSON has them, and arguments by their names."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jdbcstore.destination import parse_destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.management.described import described
from jdbcstore.management.filters import Filter
from jdbcstore.management.views import MessagePage, MessageView
from jdbcstore.message import BytesMessage, Message, TextMessage

__all__ = ["Arguments", "as_json", "filter_of", "message_of", "page_as_json"]

#: Characters of a body that a list of messages shows.
_SHOWN_CHARACTERS: Final = 200


def as_json(value: Any) -> Any:
    """A view, or a list of them, as JSON has it."""
    if value is None or isinstance(value, str | int | float):
        return value  # most are, and the other questions take longer
    if hasattr(value, "__dataclass_fields__"):
        return {name: as_json(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return value


def page_as_json(page: MessagePage, *, is_full: bool = False) -> dict[str, Any]:
    """A page of messages, with the beginnings of their bodies, or all of them."""
    return {
        "messages": [_listed(view, is_full=is_full) for view in page.messages],
        "after": page.after,
        "looked": page.looked,
        "unreadable": [{"number": number, "error": error} for number, error in page.unreadable],
    }


def _listed(view: MessageView, *, is_full: bool) -> dict[str, Any]:
    shown = described(view.message)
    body = shown["body"]
    if isinstance(body, str) and len(body) > _SHOWN_CHARACTERS and not is_full:
        shown["body"] = body[:_SHOWN_CHARACTERS] + "…"
    return {"number": view.number, **shown}


class Arguments:
    """What a program has sent along: a JSON object, or a query. Each argument is asked for by its name and type.

    Args:
        given: names and values.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given

    def text(self, name: str, default: str | None = None) -> str:
        """A text. Raises ConfigurationError if it is needed and not there, or is none."""
        value = self._given.get(name, default)
        if not isinstance(value, str):
            raise ConfigurationError(f"{name} is needed, a text" if value is None else f"{name} has to be a text")
        return value

    def number(self, name: str, default: int | None = None) -> int | None:
        """A whole number. Raises ConfigurationError if it is none."""
        value = self._given.get(name)
        if value is None or value == "":
            return default
        try:
            return int(value) if isinstance(value, str) else operator.index(value)
        except (TypeError, ValueError):
            raise ConfigurationError(f"{name} has to be a whole number, got {str(value)[:50]!r}") from None

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Yes or no. Raises ConfigurationError if it is neither."""
        value = self._given.get(name, default)
        known = {True: True, False: False, "true": True, "false": False, "1": True, "0": False, "": default}
        if not isinstance(value, bool | str) or value not in known:
            raise ConfigurationError(f"{name} has to be true or false")
        return known[value]

    def texts(self, name: str) -> Sequence[str]:
        """A list of texts; in a query with commas."""
        value = self._given.get(name) or []
        if isinstance(value, str):
            value = [part for part in value.split(",") if part]
        if not isinstance(value, list) or not all(isinstance(part, str | int) for part in value):
            raise ConfigurationError(f"{name} has to be a list")
        return [str(part) for part in value]

    def objects(self, name: str) -> Sequence[object]:
        """A list of anything."""
        value = self._given.get(name) or []
        if not isinstance(value, list):
            raise ConfigurationError(f"{name} has to be a list")
        return value

    def mapping(self, name: str) -> Mapping[str, Any]:
        """An object."""
        value = self._given.get(name) or {}
        if not isinstance(value, dict):
            raise ConfigurationError(f"{name} has to be an object")
        return value


def filter_of(arguments: Arguments) -> Filter:
    """Which messages are meant. Raises ConfigurationError."""
    numbers = arguments.texts("numbers")
    if not all(number.isdigit() for number in numbers):
        raise ConfigurationError("numbers has to be a list of numbers")
    return Filter(
        selector=arguments.text("selector", ""),
        numbers=frozenset(int(number) for number in numbers),
        message_ids=frozenset(arguments.texts("message_ids")),
        origin=arguments.text("origin", ""),
        cause=arguments.text("cause", ""),
        limit=max(arguments.number("limit", 0) or 0, 0),
    )


def message_of(arguments: Arguments) -> Message:
    """A message to be sent: text, or bytes in hexadecimal as ``body_hex``. Raises ConfigurationError."""
    message: TextMessage | BytesMessage
    body_hex = arguments.text("body_hex", "")
    if body_hex:
        message = BytesMessage()
        try:
            message.body = bytes.fromhex(body_hex)
        except ValueError as error:
            raise ConfigurationError(f"body_hex has to be bytes in hexadecimal: {error}") from None
    else:
        message = TextMessage()
        message.text = arguments.text("body", "")
    message.destination = parse_destination(arguments.text("destination"))
    message.persistent = arguments.flag("persistent", default=True)
    priority = arguments.number("priority", 4)
    message.priority = min(max(4 if priority is None else priority, 0), 9)
    message.expiration = max(arguments.number("expiration_ms", 0) or 0, 0)
    message.correlation_id = arguments.text("correlation_id", "") or None
    message.type = arguments.text("type", "") or None
    message.group_id = arguments.text("group", "") or None
    reply_to = arguments.text("reply_to", "")
    message.reply_to = parse_destination(reply_to) if reply_to else None
    properties = arguments.mapping("properties")
    if not all(isinstance(value, str | int | float | bool) for value in properties.values()):
        raise ConfigurationError("properties have to be texts, numbers, true or false")
    message.properties = properties
    return message
