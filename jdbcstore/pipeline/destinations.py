"""Destinations as jobs are told them: names, wildcards too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from jdbcstore.destination import Destination, parse_destination
from jdbcstore.errors import ConfigurationError

__all__ = ["DEAD_LETTER_QUEUES", "chooser"]

#: ActiveMQ's default, and what its strategy with a queue for each destination calls them.
DEAD_LETTER_QUEUES: Final = ("ActiveMQ.DLQ", "ActiveMQ.DLQ.>", "DLQ.>")


def chooser(names: Iterable[str]) -> Callable[[str], bool]:
    """What tells whether a qualified name, as it stands in a store, is one of these.

    Args:
        names: of destinations, wildcards too; without a prefix they are queues.

    Raises:
        ConfigurationError: one is no name.
    """
    patterns = [parse_destination(name) for name in names]
    return lambda name: any(_covers(pattern, name) for pattern in patterns)


def _covers(pattern: Destination, name: str) -> bool:
    if pattern.qualified_name == name:
        return True
    try:
        return pattern.matches(parse_destination(name))
    except ConfigurationError:  # no broker makes such a name
        return False
