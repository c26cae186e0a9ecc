"""What a message becomes on its way in: one message for each of its destinations, none more than may be stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from jdbcstore.broker.client_host import ClientHost
from jdbcstore.broker.prepared import PREPARED_LEAST, Prepared
from jdbcstore.broker.route import Route
from jdbcstore.destination import Destination
from jdbcstore.errors import NoSuchDestination, ProtocolError
from jdbcstore.message import Message

__all__ = ["MessageDivision", "size_of"]


#: Messages for which selectors are asked in one go: there may be a thousand for each.
_ASKED_AT_ONCE: Final = 10


class MessageDivision:
    """Divides messages to composites, finds where they go, and refuses what cannot be sent.

    Args:
        broker: knows destinations, virtual topics and limits.
    """

    __slots__ = ("_broker",)

    def __init__(self, broker: ClientHost) -> None:
        self._broker = broker

    def routes(self, message: Message, destination: Destination) -> list[Route]:
        """Where a message goes that is sent now: a route for each of its destinations.

        Raises:
            ProtocolError: as `singles`; or what virtual and composite destinations copy is more than may be stored at
                once.
        """
        elements = self.check_targets(destination)
        if self._broker.scheduler.takes(message):
            self._check_later(message, elements)
            return [Route(message, is_later=True)]
        if destination.is_composite:
            return self._limited(map(self._broker.interceptors.route, self._divided(message, elements)))
        route = self._broker.interceptors.route(message)
        return self._limited([route]) if route.places else [route]

    def singles(self, message: Message, destination: Destination) -> list[Message]:
        """The message for each of its destinations, to be sent with a COMMIT, by `routes_of`: itself unless the
        destination is a composite. One that is to be sent later is divided then.

        Raises:
            ProtocolError: one of them cannot be sent to, they are more than may be stored at once, or there is none.
        """
        elements = self.check_targets(destination)
        if self._broker.scheduler.takes(message):
            self._check_later(message, elements)
            return [message]
        if destination.is_composite:
            return self._divided(message, elements)
        self._broker.check_name(destination)  # the destination is made when nobody is there to hear of an error
        return [message]

    def routes_of(self, singles: Iterable[Message]) -> list[Route]:
        """Where messages go that are sent now, together. Raises ProtocolError if their copies are more than may be
        stored at once."""
        return self._limited(map(self._broker.route, singles))

    def _check_later(self, message: Message, elements: Iterable[Destination]) -> None:
        """Raise ProtocolError or ConfigurationError if the scheduler cannot keep a message for these."""
        for element in elements:
            self._broker.check_name(element)
        self._broker.scheduler.job_of(message)

    def _divided(self, message: Message, elements: Sequence[Destination]) -> list[Message]:
        if len(elements) > 1:
            self._check_size(message, len(elements))
        return message.divided()

    def _limited(self, routes: Iterable[Route]) -> list[Route]:
        """Those, unless they have too many copies. That is known before all are found, which would fill the memory."""
        limited: list[Route] = []
        copied = count = 0
        for route in routes:
            limited.append(route)
            if route.places:
                copied += route.copied_bytes
                count += len(route.places) if route.message.persistent else 0
                self._check_copies(copied, count)
        return limited

    def check_targets(self, destination: Destination) -> tuple[Destination, ...]:
        """What a message to a destination is divided among.

        Raises:
            ProtocolError, ConfigurationError: one of these cannot be sent to, they are too many, or there is none.
        """
        if destination.is_composite:
            self._broker.check_parts(destination)
            elements = destination.elements()
            if not elements:
                raise ProtocolError(f"Cannot send to '{destination}': nothing stands between its commas")
            for element in elements:
                self._check_target(element)
                self._broker.check_name(element)
            return elements
        self._check_target(destination)
        return (destination,)

    def _check_size(self, message: Message, count: int) -> None:
        """Raise ProtocolError if a message to so many destinations is more than may be stored at once."""
        options = self._broker.options
        if count * message.size > options.transaction_bytes_max:
            raise ProtocolError(
                f"A message of {message.size} bytes to {count} destinations: they are stored together, and"
                f" transaction_bytes_max is {options.transaction_bytes_max}. Send it in several messages"
            )

    def _check_copies(self, copied: int, count: int) -> None:
        """Raise ProtocolError if copies of so many bytes, so many of them persistent, may not be stored at once."""
        options = self._broker.options
        if copied > options.transaction_bytes_max:
            raise ProtocolError(
                f"The copies for virtual and composite destinations take {copied} bytes: they are stored together, and"
                f" transaction_bytes_max is {options.transaction_bytes_max}. Send less at once, or remove queues that"
                " nobody reads"
            )
        if count > options.transaction_messages_max:
            raise ProtocolError(
                f"There are {count} copies for virtual and composite destinations: they are stored together, and"
                f" transaction_messages_max is {options.transaction_messages_max}. Send less at once, or remove queues"
                " that nobody reads"
            )

    def takes_long(self, singles: Sequence[Message]) -> bool:
        """Whether it may take long to find where messages go, so that it has to be done in slices."""
        count = len(singles)
        return count >= PREPARED_LEAST or (count > _ASKED_AT_ONCE and self._broker.interceptors.has_selectors)

    def finding(self, prepared: Prepared) -> Iterator[None]:
        """Find where many messages go; a job. It ends early if they have more copies than may be stored at once, as
        `Prepared.refusal` tells then."""
        for _ in prepared.each():
            if self._is_refused(prepared):
                return
            yield

    def needs_preparing(self, routes: Sequence[Route]) -> bool:
        """Whether so much is stored for messages that it has to be made ready in slices."""
        count = len(routes)
        for route in routes:
            if route.places and route.message.persistent:
                count += len(route.places)
            if not route.is_later and any(map(self._has_to_open, route.destinations())):
                return True
        return count >= PREPARED_LEAST

    def _has_to_open(self, destination: Destination) -> bool:
        return not destination.is_queue and self._broker.has_to_open(destination)

    def preparing(self, prepared: Prepared) -> Iterator[None]:
        """Do ahead what a commit of many messages costs; a job that ends early as `finding`."""
        memory, counted = self._broker.memory, 0
        try:
            for _ in self._broker.preparing(prepared):
                memory.uncommitted += prepared.size - counted  # what is prepared has the bodies once more
                counted = prepared.size
                if self._is_refused(prepared):
                    return
                yield
        except BaseException:
            prepared.close()
            raise
        finally:
            memory.uncommitted -= counted

    def _is_refused(self, prepared: Prepared) -> bool:
        try:
            self._check_copies(prepared.copied_bytes, prepared.copies)
        except ProtocolError as error:
            prepared.refusal = error
        return prepared.refusal is not None

    def _check_target(self, destination: Destination) -> None:
        if self._broker.is_crowded:
            self._broker.check_room_for(destination)
        if destination.is_temporary and not self._broker.knows_temporary(destination):
            raise NoSuchDestination(str(destination))
        if not destination.is_storable:
            if destination.is_wildcard:
                raise ProtocolError(f"Cannot send to {destination}: a wildcard is for subscriptions")
            self._broker.check_name(destination)


def size_of(routes: Iterable[Route]) -> int:
    """Bytes that messages take on their way to the store, with their copies."""
    return sum([route.size for route in routes])
