"""Virtual topics: what is published to ``VirtualTopic.X`` also goes to the queues ``Consumer.NAME.VirtualTopic.X``.

So the subscribers of a topic can be groups of consumers that share the work, and nothing is lost while they are away. A
queue is known from the moment somebody subscribes or sends to it, until its destination is removed; the store remembers
it while it is empty (`PersistenceAdapter.destinations`). The copies and, if it is durable, the topic's own message are
stored in one commit. Names are those of ActiveMQ's default, unless others are declared
(`jdbcstore.broker.virtual_destinations`).

Who subscribes to ``Consumer.NAME.VirtualTopic.>``, or to any wildcard that begins with ``Consumer.NAME.``, makes the
queue of each topic known that it covers, with the first message that comes to that while somebody is subscribed so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from jdbcstore.broker.virtual_destinations import VirtualTopic
from jdbcstore.destination import Destination

__all__ = ["VirtualTopics"]

#: Topics that are remembered to have made known all that they make known.
_MET_MAX: Final = 10_000
_NONE: Final[Mapping[Destination, VirtualTopic]] = MappingProxyType({})


class VirtualTopics:
    """The queues that get copies of what is published.

    Args:
        declared: which topics are virtual.
    """

    def __init__(self, declared: Iterable[VirtualTopic]) -> None:
        self._declared = tuple(declared)
        self._queues: dict[Destination, dict[Destination, VirtualTopic]] = {}
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
        if any(virtual.is_named_by(pattern) for virtual in self._declared):
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
        for virtual in self._declared:
            if not virtual.covers(topic):
                continue
            for patterns, may_subscribe in list(self._wildcards.values()):
                for pattern in patterns:
                    queue = virtual.queue_of(topic, pattern)
                    # What is published must not be refused because of a wildcard.
                    if queue is not None and may_subscribe(queue):
                        self.appeared(queue)

    def covers(self, topic: Destination) -> bool:
        """Whether a topic is virtual."""
        return any(virtual.covers(topic) for virtual in self._declared)

    def feeds(self, queue: Destination) -> bool:
        """Whether a queue gets copies, and so has to stay known when it is empty."""
        return any(virtual.topic_of(queue) is not None for virtual in self._declared)

    def appeared(self, queue: Destination) -> bool:
        """Take note of a queue. Returns whether it gets copies."""
        is_fed = False
        for virtual in self._declared:
            if (topic := virtual.topic_of(queue)) is not None:
                is_fed = True
                queues = self._queues.setdefault(topic, {})
                if queue not in queues or queues[queue].selector_aware:
                    queues[queue] = virtual
        return is_fed

    def remove(self, queue: Destination) -> bool:
        """A queue is removed. Returns whether it got copies."""
        is_fed = False
        for virtual in self._declared:
            if (topic := virtual.topic_of(queue)) is not None:
                is_fed = True
                of_topic = self._queues.get(topic, {})
                of_topic.pop(queue, None)
                if not of_topic:
                    self._queues.pop(topic, None)
        return is_fed

    def forget(self) -> None:
        """Somebody else was master in between."""
        self._queues.clear()
        self._wildcards.clear()
        self._met.clear()

    @property
    def has_queues(self) -> bool:
        """Whether anything that is published may get copies."""
        return bool(self._queues or self._wildcards)

    def queues_of(self, topic: Destination) -> Mapping[Destination, VirtualTopic]:
        """The queues that get copies of what is published to a topic, and by which of the declared ones."""
        if topic.is_queue:
            return _NONE
        if self._wildcards and topic not in self._met:
            self._meet(topic)
        return self._queues.get(topic, _NONE)
