"""Interceptors: what is sent to one destination and goes to others, too, or instead.

Virtual topics, composites by configuration and mirrored queues (`jdbcstore.broker.virtual_destinations`) make copies of
a message, which keep its id. A copy that is forwarded is sent like any other: its destination may be one that forwards,
or has a mirror. Everything that a message becomes is found at once, before any of it is stored, so that all of it is
one commit. Each destination gets it once, by however many ways it would come there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from jdbcstore.broker.interest import Interest
from jdbcstore.broker.memory import WRITE_BYTES
from jdbcstore.broker.virtual_destinations import CompositeDestination, VirtualDestinations
from jdbcstore.broker.virtual_topics import VirtualTopics
from jdbcstore.destination import Destination
from jdbcstore.message import Message

__all__ = ["Copies", "Interceptors", "Route"]

log = logging.getLogger(__name__)

#: Destinations of which is remembered which composites they are.
_KNOWN_MAX: Final = 10_000


class _Copy(NamedTuple):
    """What becomes of a message.

    Args:
        destination: where a copy goes.
        original: what it tells as its original destination.
    """

    destination: Destination
    original: Destination | None


class Route(NamedTuple):
    """Where a message goes.

    Args:
        message: the message.
        places: for which there are copies.
        stays: whether the message itself goes to its own destination.
    """

    message: Message
    places: list[_Copy]
    stays: bool

    def copies(self) -> Iterator[Message]:
        """The copies, made one by one."""
        for place in self.places:
            yield _moved(self.message, place)

    def messages(self) -> Iterator[Message]:
        """The copies, and the message itself if that stays."""
        yield from self.copies()
        if self.stays:
            yield self.message


@dataclass(slots=True)
class Copies:
    """The copies of some messages, beside the messages themselves.

    Attributes:
        persistent, others: how many there are.
        bytes: what they take on their way to the store.
        topics: those that they go to.
        took_long: whether it took more than a slice of time to know that.
    """

    persistent: int = 0
    others: int = 0
    bytes: int = 0
    topics: set[Destination] = field(default_factory=set)
    took_long: bool = False


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
        #: Whether the copies of a message depend on what it says.
        self.has_selectors = any(composite.has_selectors for composite in self._composites)
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

    def route(self, message: Message) -> Route | None:
        """Where a message goes; None if that is its destination and nothing else."""
        destination = message.destination
        if destination is None or self.is_idle or not self.takes(destination):
            return None
        places: list[_Copy] = []
        stays = self._spread(message, _Copy(destination, message.original_destination), {destination}, places)
        return Route(message, places, stays)

    def sent(self, message: Message) -> Iterator[Message]:
        """What a message becomes: itself, copies, both, or nothing if nobody wants it."""
        route = self.route(message)
        return iter((message,)) if route is None else route.messages()

    def destinations(self, message: Message) -> Iterator[Destination]:
        """Where a message goes."""
        route = self.route(message)
        if route is not None:
            yield from (place.destination for place in route.places)
        if message.destination is not None and (route is None or route.stays):
            yield message.destination

    def copies_of(self, messages: Iterable[Message]) -> Copies:
        """What copies there are of messages."""
        copies = Copies()
        if not self.is_idle:  # asked for each message
            for _ in self.counting(messages, copies):
                pass
        return copies

    def counting(self, messages: Iterable[Message], copies: Copies) -> Iterator[None]:
        """The same, added to what is counted already; a job. There may be many, and selectors for each of them."""
        for message in messages:
            destination = message.destination
            if self._is_plain:
                count = 0 if destination is None else len(self._virtual_topics.queues_of(destination))
            else:
                route = self.route(message)
                places = () if route is None else route.places
                count = len(places)
                copies.topics.update(place.destination for place in places if not place.destination.is_queue)
            copies.bytes += count * (message.size + WRITE_BYTES)
            if message.persistent:
                copies.persistent += count
            else:
                copies.others += count
            yield

    def _spread(self, message: Message, at: _Copy, met: set[Destination], places: list[_Copy]) -> bool:
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
            self._send(message, _Copy(mirror, at.original), met, places)
        composites = self._composites_of(destination)
        if composites:
            stays = self._virtual_topics.covers(destination)
            for composite in composites:
                there = _moved(message, at) if composite.has_selectors else message
                is_forwarded = False
                for target in composite.forwards(there):
                    is_forwarded = True
                    self._send(message, _Copy(target, destination), met, places)
                stays = stays or composite.keeps(is_forwarded=is_forwarded)
        for queue, virtual in list(self._virtual_topics.queues_of(destination).items()):
            if not virtual.selector_aware or self._is_wanted(message, queue):
                original = destination if virtual.set_original_destination else at.original
                self._send(message, _Copy(queue, original), met, places)
        return stays

    def _send(self, message: Message, at: _Copy, met: set[Destination], places: list[_Copy]) -> None:
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


def _moved(message: Message, place: _Copy) -> Message:
    """The copy of a message for a place."""
    copy = message.copy()
    copy.destination, copy.original_destination = place
    return copy
