"""What a message becomes on its way in: one message for each of its destinations, none more than may be stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jdbcstore.broker.client_host import ClientHost
from jdbcstore.broker.memory import WRITE_BYTES
from jdbcstore.broker.prepared import PREPARED_LEAST, Prepared
from jdbcstore.destination import Destination
from jdbcstore.errors import NoSuchDestination, ProtocolError
from jdbcstore.message import Message

__all__ = ["MessageDivision"]


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
            self.check_copies(singles)
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

    def check_copies(self, messages: Sequence[Message]) -> None:
        """Raise ProtocolError if what virtual and composite destinations copy is more than may be stored at once."""
        options, interceptors = self._broker.options, self._broker.interceptors
        copied = interceptors.copied_bytes(messages)
        if copied > options.transaction_bytes_max:
            raise ProtocolError(
                f"The copies for virtual and composite destinations take {copied} bytes: they are stored together, and"
                f" transaction_bytes_max is {options.transaction_bytes_max}. Send less at once, or remove queues that"
                " nobody reads"
            )
        if copied and (count := interceptors.count(messages, is_persistent=True)) > options.transaction_messages_max:
            raise ProtocolError(
                f"There are {count} copies for virtual and composite destinations: they are stored together, and"
                f" transaction_messages_max is {options.transaction_messages_max}. Send less at once, or remove queues"
                " that nobody reads"
            )

    def needs_preparing(self, messages: Sequence[Message]) -> bool:
        """Whether so much is stored for these messages that it has to be made ready in slices."""
        if len(messages) >= PREPARED_LEAST:
            return True
        copies = self._broker.interceptors.count(messages, is_persistent=True)
        return len(messages) + copies >= PREPARED_LEAST or any(map(self._has_to_open, messages))

    def _has_to_open(self, message: Message) -> bool:
        return any(
            not destination.is_queue and self._broker.has_to_open(destination)
            for destination in self._broker.interceptors.destinations(message)
        )

    def preparing(self, messages: Sequence[Message], prepared: Prepared) -> Iterator[None]:
        """Do ahead what a commit of many messages costs; a job. It ends early if they have more copies than may be
        stored at once (`check_copies`)."""
        options, memory, counted = self._broker.options, self._broker.memory, 0
        try:
            for _ in self._broker.preparing(messages, prepared):
                memory.uncommitted += prepared.size - counted  # what is prepared has the bodies once more
                counted = prepared.size
                if (
                    prepared.copied_bytes > options.transaction_bytes_max
                    or prepared.copies > options.transaction_messages_max
                ):
                    return
                yield
        except BaseException:
            prepared.close()
            raise
        finally:
            memory.uncommitted -= counted

    def _check_target(self, destination: Destination) -> None:
        if self._broker.is_crowded:
            self._broker.check_room_for(destination)
        if destination.is_temporary and not self._broker.knows_temporary(destination):
            raise NoSuchDestination(str(destination))
        if not destination.is_storable:
            if destination.is_wildcard:
                raise ProtocolError(f"Cannot send to {destination}: a wildcard is for subscriptions")
            self._broker.check_name(destination)

    def size_of(self, messages: Sequence[Message]) -> int:
        """Bytes that they take on their way to the store, with their copies."""
        copied = self._broker.interceptors.copied_bytes(messages)
        return sum([message.size + WRITE_BYTES for message in messages]) + copied
