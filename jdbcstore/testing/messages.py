"""Messages for tests."""

from __future__ import annotations

from jdbcstore.destination import Destination, Queue
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import TextMessage

__all__ = ["PRODUCER", "text_message"]

PRODUCER = ProducerId("ID:test-40001-1700000000000-1:1", 1, 1)


def text_message(
    sequence: int,
    text: str = "",
    *,
    destination: Destination | None = None,
    producer_id: ProducerId = PRODUCER,
    priority: int = 4,
    expiration: int = 0,
) -> TextMessage:
    """A persistent text message.

    Args:
        sequence: of its producer.
        text: the body; "message <sequence>" when empty.
        destination: queue ``TEST`` unless given.
        priority: 0 to 9.
        expiration: epoch ms, 0 never.
    """
    message = TextMessage(
        producer_id=producer_id,
        message_id=MessageId(producer_id, sequence),
        destination=destination or Queue("TEST"),
        timestamp=1_700_000_000_000 + sequence,
        priority=priority,
        expiration=expiration,
    )
    message.text = text or f"message {sequence}"
    return message
