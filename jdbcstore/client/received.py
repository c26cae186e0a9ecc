"""What has arrived: a message as its receiver sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from jdbcstore.broker.delivery import Consumer, Delivery
from jdbcstore.client.outgoing_message import Body, Outgoing, SendOptions, outgoing
from jdbcstore.destination import Destination
from jdbcstore.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from jdbcstore.primitives import Value

__all__ = ["Arrival", "Received", "answer_to"]


class Arrival(NamedTuple):
    """A message that was delivered to a subscription, with what its acknowledgement needs."""

    consumer: Consumer
    delivery: Delivery
    message: Message


class Received:
    """A message that was received: what is in it.

    Args:
        arrival: what was delivered.
    """

    __slots__ = ("_arrival",)

    def __init__(self, arrival: Arrival) -> None:
        self._arrival = arrival

    @property
    def message(self) -> Message:
        """All that is known of the message: expiration, priority, group, JMSType …; a copy, which may be changed."""
        return self._arrival.message

    @property
    def message_id(self) -> str:
        """JMSMessageID, which `send` has returned to the sender."""
        return str(self._arrival.message.message_id)

    @property
    def body(self) -> Body:
        """What was sent: a text, bytes, a map, a sequence of values; of a Java object its serialised bytes.

        Raises:
            CodecError: the stored bytes are none.
        """
        match self._arrival.message:
            case TextMessage() as text:
                return text.text
            case BytesMessage() | MapMessage() | ObjectMessage() as message:
                return message.body
            case StreamMessage() as stream:
                return stream.values
        return None

    @property
    def properties(self) -> Mapping[str, Value]:
        """The application's properties. Raises CodecError if the stored bytes are none."""
        return self._arrival.message.properties

    @property
    def destination(self) -> Destination:
        """Where it was found; with a wildcard or a composite that tells which of them it is."""
        destination = self._arrival.message.destination
        if destination is None:
            raise ValueError(f"{self.message_id} has no destination")
        return destination

    @property
    def reply_to(self) -> Destination | None:
        """Where an answer is to go."""
        return self._arrival.message.reply_to

    @property
    def correlation_id(self) -> str | None:
        """What it belongs to: JMSCorrelationID."""
        return self._arrival.message.correlation_id

    @property
    def redeliveries(self) -> int:
        """How often it was delivered before: to you, or to somebody else."""
        return self._arrival.message.redelivery_counter

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.message_id} of {self._arrival.message.destination}>"


def answer_to(request: Received, body: Body, options: SendOptions) -> Outgoing:
    """The answer to a request. Raises ValueError if it wants none, and what `outgoing` raises."""
    if request.reply_to is None:
        raise ValueError(f"message {request.message_id} wants no answer: it has no reply_to")
    options = {"correlation_id": request.correlation_id or request.message_id, **options}
    return outgoing(request.reply_to, body, options)
