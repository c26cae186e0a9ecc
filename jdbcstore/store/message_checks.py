"""What every store asks of a message before it takes it."""

from __future__ import annotations

from jdbcstore.errors import MessageTooLarge, StoreError
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message

__all__ = ["require_id", "require_size"]


def require_id(message: Message) -> MessageId:
    """The id of a message. Raises `StoreError` when it has none with a producer."""
    message_id = message.message_id
    if message_id is None or message_id.producer_id is None:
        raise StoreError("a message needs a message id with a producer id before it can be stored")
    return message_id


def require_size(data: bytes, bytes_max: int) -> None:
    """Raise `MessageTooLarge` when a marshalled message takes more bytes than a store takes."""
    if len(data) > bytes_max:
        raise MessageTooLarge(f"the message takes {len(data)} bytes, this store takes {bytes_max} at most")
