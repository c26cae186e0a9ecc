"""What was done ahead for a commit of many messages, so that the commit itself is short.

Messages of one commit get their numbers and are noted down by their queues in one go: nothing may come in between. What
takes longest, to copy them for the queues of virtual topics and to turn them into bytes, does not have to be part of
that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from jdbcstore.message import Message
from jdbcstore.store.contract import MessageStore

__all__ = ["PREPARED_LEAST", "Prepared"]

#: A commit of fewer messages is short enough.
PREPARED_LEAST: Final = 500


class Prepared:
    """Messages of one transaction, with what their stores have done for them ahead."""

    __slots__ = ("_copies", "_made")

    def __init__(self) -> None:
        self._made: dict[int, tuple[Message, MessageStore, object]] = {}
        self._copies: dict[int, tuple[Message, list[Message]]] = {}

    def copying(self, message: Message, copies: Iterable[Message]) -> Iterator[Message]:
        """Keep the copies of a message for the queues of its virtual topic, one at a time."""
        kept: list[Message] = []
        for copy in copies:
            kept.append(copy)
            yield copy
        self._copies[id(message)] = message, kept

    def copies(self, message: Message) -> list[Message] | None:
        """The copies of a message; None if there are none yet. A queue that has come since is none of theirs."""
        of, kept = self._copies.get(id(message), (None, None))
        return kept if of is message else None

    def prepare(self, store: MessageStore, message: Message) -> None:
        """Let a store do what it can. Raises as `MessageStore.prepare`."""
        self._made[id(message)] = message, store, store.prepare(message)

    def of(self, store: MessageStore, message: Message) -> object:
        """What was done for a message; None if nothing was, or by another store."""
        of, by, made = self._made.get(id(message), (None, None, None))
        return made if of is message and by is store else None
