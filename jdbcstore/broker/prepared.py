"""What was done ahead for a commit of many messages, so that the commit itself is short.

Messages of one commit get their numbers and are noted down by their queues in one go: nothing may come in between. What
takes longest, to turn them into bytes, does not have to be part of that.
"""

from __future__ import annotations

from typing import Final

from jdbcstore.message import Message
from jdbcstore.store.contract import MessageStore

__all__ = ["PREPARED_LEAST", "Prepared"]

#: A commit of fewer messages is short enough.
PREPARED_LEAST: Final = 500


class Prepared:
    """Messages of one transaction, with what their stores have done for them ahead."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[int, tuple[Message, MessageStore, object]] = {}

    def prepare(self, store: MessageStore, message: Message) -> None:
        """Let a store do what it can. Raises as `MessageStore.prepare`."""
        self._made[id(message)] = message, store, store.prepare(message)

    def of(self, store: MessageStore, message: Message) -> object:
        """What was done for a message; None if nothing was, or by another store."""
        of, by, made = self._made.get(id(message), (None, None, None))
        return made if of is message and by is store else None
