"""What a message looks like in the dead-letter queue: as ActiveMQ leaves it there."""

from __future__ import annotations

from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError
from jdbcstore.message import Message
from jdbcstore.primitives import Long

__all__ = ["dead_letter"]


def dead_letter(message: Message, queue: Destination) -> Message:
    """A copy of `message` for the dead-letter queue.

    It keeps its id and body, names where it was, never expires and counts no deliveries. Source: rows of a real broker.

    Args:
        message: the refused or expired message; not changed.
        queue: the dead-letter queue.
    """
    dead = message.copy()
    dead.original_destination = message.destination
    dead.destination = queue
    if message.transaction_id is not None:
        dead.original_transaction_id = message.transaction_id
        dead.transaction_id = None
    dead.redelivery_counter = 0
    dead.expiration = 0
    dead.persistent = True
    try:
        properties = {**message.properties, "originalExpiration": Long(message.expiration)}
    except CodecError:
        return dead  # properties that nobody can read are kept as they are
    if not message.persistent:
        properties["originalDeliveryMode"] = "NON_PERSISTENT"
    dead.properties = properties
    return dead
