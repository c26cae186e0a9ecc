"""What is in a destination, page by page, by a place in the store: the last page costs what the first one does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

from jdbcstore.broker.broker import Broker
from jdbcstore.destination import Destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.identifiers import MessageId
from jdbcstore.management.filters import Filter, number_of
from jdbcstore.management.operations import stores_of
from jdbcstore.management.views import MessagePage, MessageView
from jdbcstore.message import Message
from jdbcstore.store.contract import Cursor, MessageStore

__all__ = ["MESSAGES_MAX", "Pages"]

#: The most messages of one page.
MESSAGES_MAX: Final = 1000
_READ_MESSAGES: Final = 500
#: What is read at once, and behind which a page ends.
_READ_BYTES: Final = 4 << 20
#: What one page may take that has to look at very many messages to find a few.
_LOOKED_MAX: Final = 20_000
_LOOK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a page begins: in which of the destination's stores, and where in there."""

    source: int
    cursor: Cursor

    def __str__(self) -> str:
        positions = self.cursor.positions
        shown = positions[:1] if len(set(positions)) == 1 else positions
        return f"{self.source}:" + ".".join(map(str, shown))

    @classmethod
    def parse(cls, text: str) -> _Place:
        """Read what `__str__` wrote. Raises ConfigurationError."""
        try:
            source, _, rest = text.partition(":")
            positions = tuple(int(part) for part in rest.split("."))
            cursor = Cursor.after(positions[0]) if len(positions) == 1 else Cursor(positions)
            if len(cursor.positions) != len(Cursor().positions):
                raise ValueError
            return cls(int(source), cursor)
        except ValueError:
            raise ConfigurationError(f"after has to be what the page before gave, got {text!r}") from None


class Pages:
    """Reads messages of one broker's destinations; nothing is changed.

    Args:
        broker: whose.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def page(self, destination: Destination, chosen: Filter, after: str | None, messages_max: int) -> MessagePage:
        """The next messages.

        Args:
            destination: a queue, or a topic with durable subscriptions.
            chosen: which ones.
            after: `MessagePage.after` of the page before; None for the first.
            messages_max: the most messages, at most `MESSAGES_MAX`.

        Raises:
            ConfigurationError, SelectorError: an argument is wrong.
            StoreError: the store cannot be read.
        """
        chosen.check()
        messages_max = max(1, min(messages_max, MESSAGES_MAX))
        place = _Place(0, Cursor()) if after is None else _Place.parse(after)
        stores, in_memory = self._sources(destination)
        found: list[MessageView] = []
        unreadable: list[tuple[int, str]] = []
        looked, size, deadline_s = 0, 0, monotonic() + _LOOK_S
        while place.source < len(stores):
            store, cursor = stores[place.source], place.cursor
            wanted = min(messages_max - len(found), _READ_MESSAGES) if chosen.is_everything else _READ_MESSAGES
            page = await self._broker.read(store.recover_next_messages, cursor, wanted, _READ_BYTES)
            for message in page.messages:
                looked += 1
                if chosen.matches(message):
                    found.append(MessageView(number_of(message), message))
                    size += message.size
                    if len(found) == messages_max or size >= _READ_BYTES:
                        here = _behind(cursor, message, is_prioritized=store.prioritized)
                        return MessagePage(found, str(_Place(place.source, here)), looked, unreadable)
                if store.prioritized:
                    cursor = _behind(cursor, message, is_prioritized=True)
            unreadable += [(number, str(error)) for number, error in page.unreadable]
            if page.cursor == place.cursor:
                place = _Place(place.source + 1, Cursor())
            else:
                place = _Place(place.source, page.cursor)
                if looked >= _LOOKED_MAX or monotonic() > deadline_s or len(found) == messages_max:
                    return MessagePage(found, str(place), looked, unreadable)
        skip = place.cursor.positions[0]
        for number, message in enumerate(in_memory[skip:], skip + 1):
            looked += 1
            if chosen.matches(message):
                found.append(MessageView(0, message))
                size += message.size
                if (len(found) == messages_max or size >= _READ_BYTES) and number < len(in_memory):
                    after = str(_Place(len(stores), Cursor.after(number)))
                    return MessagePage(found, after, looked, unreadable)
        return MessagePage(found, None, looked, unreadable)

    async def message(self, destination: Destination, number: int, message_id: str) -> Message | None:
        """One message, by its number in the store or by its id; None if it is not there."""
        stores, in_memory = self._sources(destination)
        wanted = MessageId(None, 0, number) if number else MessageId.parse(message_id)
        for message in in_memory:
            if not number and str(message.message_id) == message_id:
                return message
        for store in stores:
            found = await self._broker.read(store.get_message, wanted)
            if found is not None:
                return found
        return None

    def _sources(self, destination: Destination) -> tuple[Sequence[MessageStore], Sequence[Message]]:
        """The stores of a destination, and what is in none of them."""
        broker = self._broker
        if not destination.is_queue:
            topic = broker.topics.get(destination)
            store = broker.topic_store(destination) if topic is not None and topic.durable else None
            return [] if store is None else [store], []
        queue = broker.queues.get(destination)
        if queue is None:
            return [], []
        stores = [store for store, _, _ in stores_of(queue)]
        return stores, [message for message, _ in queue.contents.memory_only()]


def _behind(cursor: Cursor, message: Message, *, is_prioritized: bool) -> Cursor:
    """The place behind a message that a page from `cursor` on has."""
    if not is_prioritized:
        return Cursor.after(number_of(message))
    positions = list(cursor.positions)
    level = min(max(message.priority, 0), len(positions) - 1)
    positions[level] = number_of(message)
    return Cursor(tuple(positions))
