"""The headers of MESSAGE frames: what messages have in common is encoded once, what is their own each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from jdbcstore.destination import Destination
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import Message
from jdbcstore.transport.stomp.conversion import OWN_HEADERS, own_headers, says_little, shared_headers, stomp_headers

__all__ = ["MessageHeaders"]

#: How many sets of lines a connection remembers, and how long their properties may be.
_REMEMBERED_MAX: Final = 64
_PROPERTIES_BYTES_MAX: Final = 1024

#: What a message says for itself, or a session adds: a property of such a name stands in its place.
_TAKEN: Final = OWN_HEADERS | {"ack", "content-length", "subscription", "transformation"}


class MessageHeaders:
    """Makes the headers of MESSAGE frames of one connection.

    Args:
        encode: headers → their lines, in the way of the connection's version.
        own_names: the connection's names of its temporary destinations.
    """

    __slots__ = ("_encode", "_own_names", "_producer", "_producer_line", "_producers", "_shared")

    def __init__(self, encode: Callable[[Mapping[str, str]], bytes], own_names: Mapping[Destination, str]) -> None:
        self._encode = encode
        self._own_names = own_names
        #: Lines by what they tell; None if they cannot be shared.
        self._shared: dict[object, bytes | None] = {}
        #: What the line of the message id begins with, by producers.
        self._producers: dict[str, bytes] = {}
        #: The latest of them, which is that of the next message as a rule.
        self._producer: ProducerId | None = None
        self._producer_line = b""

    def of(
        self, message: Message, message_id: MessageId, subscription_id: str | None, *, redeliveries: int
    ) -> tuple[dict[str, str], bytes]:
        """The headers of a MESSAGE frame but for ``ack`` and ``content-length``: headers, and lines that follow them.

        Args:
            message: what is delivered.
            message_id: its id.
            subscription_id: what the client calls the subscription, if it has a name for it.
            redeliveries: how often it was delivered before.

        Raises:
            CodecError: the stored properties cannot be read.
        """
        properties = message.marshalled_properties
        key = (message.destination, properties, message.priority, message.persistent, subscription_id)
        try:
            shared = self._shared[key]
        except KeyError:
            shared = self._shared_lines(message, subscription_id)
            if properties is None or len(properties) <= _PROPERTIES_BYTES_MAX:
                if len(self._shared) >= _REMEMBERED_MAX:
                    self._shared.clear()
                self._shared[key] = shared
        if shared is not None:
            if not redeliveries and says_little(message, message_id):
                if message_id.producer_id is not self._producer:
                    self._producer = message_id.producer_id
                    self._producer_line = self._message_id_line(str(self._producer))
                own = b"%d\nexpires:0\ntimestamp:%d\n" % (message_id.producer_sequence_id, message.timestamp)
                return {}, b"%s%s%s" % (self._producer_line, own, shared)
            return own_headers(message, str(message_id), self._own_names, redeliveries=redeliveries), shared
        headers = stomp_headers(message, str(message_id), self._own_names, redeliveries=redeliveries)
        if subscription_id is not None:
            headers["subscription"] = subscription_id
        return headers, b""

    def _message_id_line(self, producer: str) -> bytes:
        line = self._producers.get(producer)
        if line is None:
            line = self._encode({"message-id": f"{producer}:"}).removesuffix(b"\n")
            if len(self._producers) >= _REMEMBERED_MAX:
                self._producers.clear()
            self._producers[producer] = line
        return line

    def _shared_lines(self, message: Message, subscription_id: str | None) -> bytes | None:
        if message.destination is not None and message.destination.is_temporary:
            return None  # the connection may give it a name
        headers = shared_headers(message, self._own_names)
        if not _TAKEN.isdisjoint(headers):
            return None
        if subscription_id is not None:
            headers["subscription"] = subscription_id
        return self._encode(headers)
