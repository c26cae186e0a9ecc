"""What a subscriber of a topic loses that does not keep up, if its policy lets it lose something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from jdbcstore.errors import CodecError
from jdbcstore.message import Message

__all__ = ["EVICTIONS", "evicted"]

#: The oldest; the oldest of the lowest priority; all but the last ones with each value of a property.
EVICTIONS: Final = ("oldest", "oldest_lowest_priority", "unique_property")


def evicted(strategy: str, property_name: str, waiting: Sequence[Message]) -> list[int]:
    """Which of the messages that wait go, one at least: their places, in order.

    Args:
        strategy: one of `EVICTIONS`.
        property_name: of ``unique_property``. If each message that waits has a value of its own, or none has one, the
            oldest goes.
        waiting: in order; one at least.
    """
    if strategy == "oldest_lowest_priority":
        priorities = [message.priority for message in waiting]
        return [priorities.index(min(priorities))]
    if strategy == "unique_property":
        last: dict[object, int] = {}
        for place, message in enumerate(waiting):
            if (value := _value(message, property_name)) is not None:
                last[type(value), value] = place
        if last and len(last) < len(waiting):
            kept = set(last.values())
            return [place for place in range(len(waiting)) if place not in kept]
    return [0]


def _value(message: Message, name: str) -> object:
    try:
        value = message.properties.get(name)
    except CodecError:  # what cannot be read has none
        return None
    return repr(value) if isinstance(value, Mapping | list | tuple) else value
