"""Interceptors: what is sent to one destination and goes to others, too, or instead.

Virtual topics, composites by configuration and mirrored queues (`jdbcstore.broker.virtual_destinations`) make copies of
a message, which keep its id. A copy that is forwarded is sent like any other: its destination may be one that forwards,
or has a mirror. Everything that a message becomes is found at once, before any of it is stored, so that all of it is
one commit. Each destination gets it once, by however many ways it would come there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from jdbcstore.broker.interest import Interest
from jdbcstore.broker.route import Place, Route
from jdbcstore.broker.virtual_destinations import CompositeDestination, VirtualDestinations
from jdbcstore.broker.virtual_topics import VirtualTopics
from jdbcstore.destination import Destination
from jdbcstore.message import Message

__all__ = ["Interceptors"]

log = logging.getLogger(__name__)

#: Destinations of which is remembered which composites they are.
_KNOWN_MAX: Final = 10_000


class Interceptors:
    """Knows what a message becomes.

    Args:
        declared: composites and mirrored queues.
        virtual_topics: know queues that get copies.
        interests: of the consumers that a queue has.
    """

    def __init__(
        self,
        declared: VirtualDestinations,
        virtual_topics: VirtualTopics,
        interests: Callable[[Destination], Iterable[Interest]],
    ) -> None:
        self._composites = declared.composites
        self._mirror = declared.mirrored_queue
        self._virtual_topics = virtual_topics
        self._interests = interests
        #: Whether it depends on selectors where a message goes, and may take long to find.
        self.has_selectors = any(composite.has_selectors for composite in self._composites) or any(
            virtual.selector_aware for virtual in declared.virtual_topics
        )
        #: Whether there are only virtual topics.
        self._is_plain = not self._composites and self._mirror is None
        self._known: dict[Destination, tuple[CompositeDestination, ...]] = {}

    @property
    def is_idle(self) -> bool:
        """Whether nothing that is sent goes anywhere but to its destination."""
        return self._is_plain and not self._virtual_topics.has_queues

    def takes(self, destination: Destination) -> bool:
        """Whether what is sent there may go to others, too, or instead."""
        if self._is_plain:
            return not destination.is_queue and bool(self._virtual_topics.queues_of(destination))
        return (
            self._mirror_of(destination) is not None
            or bool(self._composites_of(destination))
            or bool(self._virtual_topics.queues_of(destination))
        )

    def is_declared(self, destination: Destination) -> bool:
        """Whether it is a composite by its name, which is there before somebody uses it."""
        return any(composite.name == destination for composite in self._composites)

    def route(self, message: Message) -> Route:
        """Where a message goes."""
        destination = message.destination
        if destination is None or (self._is_plain and not self._virtual_topics.has_queues):
            return Route(message)
        places: list[Place] = []
        stays = self._spread(message, Place(destination, message.original_destination), {destination}, places)
        return Route(message, places, stays)

    def _spread(self, message: Message, at: Place, met: set[Destination], places: list[Place]) -> bool:
        """Find where a message goes that is sent to a destination.

        Args:
            message: the message.
            at: the destination, and what the message tells there as its original one.
            met: where it has been sent already, which gets it once.
            places: takes those that it goes to, but for the destination itself.

        Returns:
            Whether it stays there.
        """
        destination = at.destination
        stays = True
        mirror = self._mirror_of(destination)
        if mirror is not None:
            self._send(message, Place(mirror, at.original), met, places)
        composites = self._composites_of(destination)
        if composites:
            stays = self._virtual_topics.covers(destination)
            for composite in composites:
                there = at.copy_of(message) if composite.has_selectors else message
                is_forwarded = False
                for target in composite.forwards(there):
                    is_forwarded = True
                    self._send(message, Place(target, destination), met, places)
                stays = stays or composite.keeps(is_forwarded=is_forwarded)
        for queue, virtual in list(self._virtual_topics.queues_of(destination).items()):
            if not virtual.selector_aware or self._is_wanted(message, queue):
                original = destination if virtual.set_original_destination else at.original
                self._send(message, Place(queue, original), met, places)
        return stays

    def _send(self, message: Message, at: Place, met: set[Destination], places: list[Place]) -> None:
        if at.destination in met:
            return
        met.add(at.destination)
        if self._is_plain or self._spread(message, at, met, places):
            places.append(at)

    def _is_wanted(self, message: Message, queue: Destination) -> bool:
        return any(interest.wants(message) for interest in self._interests(queue))

    def _mirror_of(self, destination: Destination) -> Destination | None:
        return None if self._mirror is None else self._mirror.topic_of(destination)

    def _composites_of(self, destination: Destination) -> tuple[CompositeDestination, ...]:
        if not self._composites:
            return ()
        found = self._known.get(destination)
        if found is None:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            found = tuple(composite for composite in self._composites if composite.name.matches(destination))
            self._known[destination] = found
        return found
