"""Virtual topics: what is published to ``VirtualTopic.X`` also goes to the queues ``Consumer.NAME.VirtualTopic.X``.

So the subscribers of a topic can be groups of consumers that share the work, and nothing is lost while they are away. A
queue is known from the moment somebody subscribes or sends to it, until its destination is removed; the store remembers
it while it is empty (`PersistenceAdapter.destinations`). The copies and, if it is durable, the topic's own message are
stored in one commit. Names are those of ActiveMQ's default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from jdbcstore.broker.memory import WRITE_BYTES
from jdbcstore.destination import Destination, Topic
from jdbcstore.message import Message
from jdbcstore.store.contract import VIRTUAL_TOPIC_CONSUMERS

__all__ = ["VirtualTopics"]

_VIRTUAL_TOPICS: Final = Topic("VirtualTopic.>")


class VirtualTopics:
    """The queues that get copies of what is published.

    Args:
        is_on: whether there are any.
    """

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._queues: dict[Destination, dict[Destination, None]] = {}

    def feeds(self, queue: Destination) -> bool:
        """Whether a queue gets copies, and so has to stay known when it is empty."""
        return self._is_on and not queue.is_wildcard and VIRTUAL_TOPIC_CONSUMERS.matches(queue)

    def appeared(self, queue: Destination) -> bool:
        """Take note of a queue. Returns whether it gets copies."""
        if not self.feeds(queue):
            return False
        topic = Topic.decoded(queue.physical_name.split(".", 2)[2])
        self._queues.setdefault(topic, {})[queue] = None
        return True

    def remove(self, queue: Destination) -> bool:
        """A queue is removed. Returns whether it got copies."""
        if not self.feeds(queue):
            return False
        topic = Topic.decoded(queue.physical_name.split(".", 2)[2])
        of_topic = self._queues.get(topic, {})
        of_topic.pop(queue, None)
        if not of_topic:
            self._queues.pop(topic, None)
        return True

    def forget(self) -> None:
        """Somebody else was master in between."""
        self._queues.clear()

    @property
    def has_queues(self) -> bool:
        """Whether anything that is published may get copies."""
        return bool(self._queues)

    def copied_bytes(self, messages: Iterable[Message]) -> int:
        """What the copies of messages take on their way to the store, beside the messages themselves."""
        if not self._queues:
            return 0
        size = 0
        for message in messages:
            if queues := self._queues_of(message.destination):
                size += len(queues) * (message.size + WRITE_BYTES)
        return size

    def count(self, messages: Iterable[Message], *, is_persistent: bool) -> int:
        """How many copies those messages have that are persistent, or that are not."""
        if not self._queues:
            return 0
        return sum(
            len(queues)
            for message in messages
            if message.persistent is is_persistent and (queues := self._queues_of(message.destination))
        )

    def _queues_of(self, topic: Destination | None) -> dict[Destination, None] | None:
        queues = None if topic is None else self._queues.get(topic)
        return queues if queues and topic is not None and _VIRTUAL_TOPICS.matches(topic) else None

    def with_copies(self, message: Message) -> list[Message]:
        """A message and its copies."""
        return [message, *self.copies(message)] if self._queues else [message]

    def copies(self, message: Message) -> Iterator[Message]:
        """The copies of a message."""
        topic = message.destination
        for queue in list(self._queues_of(topic) or ()):
            copy = message.copy()
            copy.destination, copy.original_destination = queue, topic
            yield copy
