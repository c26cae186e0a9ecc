"""What a message becomes on its way in: one message for each of its destinations, none more than may be stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from jdbcstore.broker.client_host import ClientHost
from jdbcstore.broker.interceptors import Copies
from jdbcstore.broker.memory import WRITE_BYTES
from jdbcstore.broker.prepared import PREPARED_LEAST, Prepared
from jdbcstore.destination import Destination
from jdbcstore.errors import NoSuchDestination, ProtocolError
from jdbcstore.message import Message

__all__ = ["MessageDivision", "size_of"]


class MessageDivision:
    """Divides messages to composites, and refuses what cannot be sent.

    Args:
        broker: knows destinations, virtual topics and limits.
    """

    __slots__ = ("_broker",)

    def __init__(self, broker: ClientHost) -> None:
        self._broker = broker

    def singles(self, message: Message, destination: Destination) -> list[Message]:
        """The message for each of its destinations: itself unless the destination is a composite.

        One that is to be sent later is divided then.

        Raises:
            ProtocolError: one of them cannot be sent to, they are more than may be stored at once, or there is none.
        """
        is_composite = destination.is_composite
        elements = self.check_targets(destination)
        if self._broker.scheduler.takes(message):
            for element in elements:
                self._broker.check_name(element)
            self._broker.scheduler.job_of(message)  # refuses what cannot be kept
            return [message]
        if len(elements) > 1:
            self._check_size(message, len(elements))
        singles = message.divided() if is_composite else [message]
        if len(elements) > 1 or self._broker.interceptors.takes(elements[0]):
            self.check_copies(self._broker.interceptors.copies_of(singles))
        return singles

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

    def check_copies(self, copies: Copies) -> None:
        """Raise ProtocolError if what virtual and composite destinations copy is more than may be stored at once."""
        options = self._broker.options
        if copies.bytes > options.transaction_bytes_max:
            raise ProtocolError(
                f"The copies for virtual and composite destinations take {copies.bytes} bytes: they are stored"
                f" together, and transaction_bytes_max is {options.transaction_bytes_max}. Send less at once, or remove"
                " queues that nobody reads"
            )
        if copies.persistent > options.transaction_messages_max:
            raise ProtocolError(
                f"There are {copies.persistent} copies for virtual and composite destinations: they are stored"
                f" together, and transaction_messages_max is {options.transaction_messages_max}. Send less at once, or"
                " remove queues that nobody reads"
            )

    def needs_preparing(self, messages: Sequence[Message], copies: Copies) -> bool:
        """Whether so much is stored for these messages that it has to be made ready in slices."""
        return (
            len(messages) + copies.persistent >= PREPARED_LEAST
            or copies.took_long
            or any(map(self._has_to_open, messages))
            or any(map(self._broker.has_to_open, copies.topics))
        )

    def _has_to_open(self, message: Message) -> bool:
        destination = message.destination
        return destination is not None and not destination.is_queue and self._broker.has_to_open(destination)

    def preparing(self, messages: Sequence[Message], copies: Copies, prepared: Prepared) -> Iterator[None]:
        """Do ahead what a commit of many messages costs; a job."""
        size, memory = size_of(messages, copies), self._broker.memory
        memory.uncommitted += size  # what is prepared has the bodies once more
        try:
            yield from self._broker.preparing(messages, prepared)
        except BaseException:
            prepared.close()
            raise
        finally:
            memory.uncommitted -= size

    def _check_target(self, destination: Destination) -> None:
        if self._broker.is_crowded:
            self._broker.check_room_for(destination)
        if destination.is_temporary and not self._broker.knows_temporary(destination):
            raise NoSuchDestination(str(destination))
        if not destination.is_storable:
            if destination.is_wildcard:
                raise ProtocolError(f"Cannot send to {destination}: a wildcard is for subscriptions")
            self._broker.check_name(destination)


def size_of(messages: Iterable[Message], copies: Copies) -> int:
    """Bytes that messages take on their way to the store, with their copies."""
    return sum([message.size + WRITE_BYTES for message in messages]) + copies.bytes
