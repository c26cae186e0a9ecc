"""Virtual topics: what is published to ``VirtualTopic.X`` also goes to the queues ``Consumer.NAME.VirtualTopic.X``.

So the subscribers of a topic can be groups of consumers that share the work, and nothing is lost while they are away. A
queue is known from the moment somebody subscribes or sends to it, until its destination is removed; the store remembers
it while it is empty (`PersistenceAdapter.destinations`). The copies and, if it is durable, the topic's own message are
stored in one commit. Names are those of ActiveMQ's default.

Who subscribes to ``Consumer.NAME.VirtualTopic.>``, or to any wildcard that begins with ``Consumer.NAME.``, makes the
queue of each topic known that it covers, with the first message that comes to that while somebody is subscribed so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final

from jdbcstore.broker.memory import WRITE_BYTES
from jdbcstore.destination import PATTERNS, Destination, Queue, Topic
from jdbcstore.message import Message
from jdbcstore.store.contract import VIRTUAL_TOPIC_CONSUMERS

__all__ = ["VirtualTopics"]

_VIRTUAL_TOPICS: Final = Topic("VirtualTopic.>")
#: Topics that are remembered to have made known all that they make known.
_MET_MAX: Final = 10_000


class VirtualTopics:
    """The queues that get copies of what is published.

    Args:
        is_on: whether there are any.
    """

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._queues: dict[Destination, dict[Destination, None]] = {}
        #: By whoever subscribed to wildcards over such queues: those, and whether a queue may be made for him.
        self._wildcards: dict[Hashable, tuple[dict[Destination, None], Callable[[Destination], bool]]] = {}
        self._met: set[Destination] = set()

    def subscribed(self, who: Hashable, pattern: Destination, may_subscribe: Callable[[Destination], bool]) -> None:
        """Somebody has subscribed to a wildcard over queues.

        Args:
            who: the subscriber.
            pattern: the wildcard.
            may_subscribe: tells whether he might subscribe to a queue by its name, which makes it.
        """
        first, *others = pattern.physical_name.split(".")
        if self._is_on and first == "Consumer" and len(others) > 1 and others[0] not in PATTERNS:
            self._wildcards.setdefault(who, ({}, may_subscribe))[0][pattern] = None
            self._met.clear()

    def unsubscribed(self, who: Hashable) -> None:
        """Somebody has unsubscribed, or is gone."""
        self._wildcards.pop(who, None)

    def _meet(self, topic: Destination) -> None:
        """Something is published for the first time: wildcards make queues of its topic known."""
        if len(self._met) >= _MET_MAX:
            self._met.clear()
        self._met.add(topic)
        if not _VIRTUAL_TOPICS.matches(topic):
            return
        for patterns, may_subscribe in list(self._wildcards.values()):
            for pattern in patterns:
                _, name, _ = pattern.physical_name.split(".", 2)
                queue = Queue.decoded(f"Consumer.{name}.{topic.physical_name}")
                # What is published must not be refused because of a wildcard.
                if queue.is_storable and pattern.matches(queue) and may_subscribe(queue):
                    self.appeared(queue)

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
        self._wildcards.clear()
        self._met.clear()

    @property
    def has_queues(self) -> bool:
        """Whether anything that is published may get copies."""
        return bool(self._queues or self._wildcards)

    def copied_bytes(self, messages: Iterable[Message]) -> int:
        """What the copies of messages take on their way to the store, beside the messages themselves."""
        if not self.has_queues:
            return 0
        size = 0
        for message in messages:
            if queues := self._queues_of(message.destination):
                size += len(queues) * (message.size + WRITE_BYTES)
        return size

    def count(self, messages: Iterable[Message], *, is_persistent: bool) -> int:
        """How many copies those messages have that are persistent, or that are not."""
        if not (self._queues or self._wildcards):  # asked for each message
            return 0
        return sum(
            len(queues)
            for message in messages
            if message.persistent is is_persistent and (queues := self._queues_of(message.destination))
        )

    def _queues_of(self, topic: Destination | None) -> dict[Destination, None] | None:
        if topic is None:
            return None
        if self._wildcards and topic not in self._met:
            self._meet(topic)
        queues = self._queues.get(topic)
        return queues if queues and _VIRTUAL_TOPICS.matches(topic) else None

    def with_copies(self, message: Message) -> list[Message]:
        """A message and its copies."""
        return [message, *self.copies(message)] if self.has_queues else [message]

    def copies(self, message: Message) -> Iterator[Message]:
        """The copies of a message."""
        topic = message.destination
        for queue in list(self._queues_of(topic) or ()):
            copy = message.copy()
            copy.destination, copy.original_destination = queue, topic
            yield copy
