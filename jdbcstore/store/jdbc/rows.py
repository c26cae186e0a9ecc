"""Rows of our tables, and what else names a message, as values."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

__all__ = ["Change", "Container", "MessageKey", "MessageRow", "ProducerRow", "Purge", "Trace"]

#: id, MSGID_PROD, MSGID_SEQ, CONTAINER, EXPIRATION, PRIORITY, MSG: the order of `Statements.columns`.
MessageRow: TypeAlias = tuple[int, str, int, str, int, int, bytes]


#: A statement with a question mark for each value, and the values.
Change: TypeAlias = tuple[str, tuple[str | int | bytes | None, ...]]


class Trace(NamedTuple):
    """How to find out whether a write is committed: a row that is there then, or one that is gone.

    A row that is gone may have been gone before, so that counts only where nothing else could be lost by believing it.
    """

    statement: str
    parameters: dict[str, object]
    is_there: bool


class Container:
    """What the store remembers of one value of CONTAINER, so that nothing has to be counted.

    Args:
        name: the qualified destination name.
        count: committed messages that are not in doubt; changed by the writer only.
        levels: the values of PRIORITY that its rows have (None for rows older than ActiveMQ 5.4).
    """

    __slots__ = ("count", "levels", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.levels: set[int | None] = set()


class MessageKey(NamedTuple):
    """A message that is known by its producer's count only."""

    producer: str
    sequence: int
    container: str


class Purge(NamedTuple):
    """Everything of one container up to an id."""

    container: str
    id: int


class ProducerRow(NamedTuple):
    """How far a producer has come that numbers its messages itself."""

    producer: str
    sequence: int
