"""Frames of messages that differ in their number and their body only, without writing every field of each."""

from __future__ import annotations

from typing import Final

from jdbcstore.errors import CodecError
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.openwire.codec import marshal

__all__ = ["MessageTemplate"]

_NUMBER_BYTES: Final = 8
#: Where the fields of a frame begin: behind its size.
_FIELDS: Final = 4


class MessageTemplate:
    """A message that is written many times, with another producer sequence id and another body each time.

    Its frame, as stores have it, is the length of all that follows, `head`, the producer sequence id (8 bytes),
    `between`, the body, `tail`. A body is a byte 1, its length and itself, or a byte 0 if there is none.

    Args:
        message: what all have in common; it has a producer id. What is done to it afterwards makes no difference.

    Raises:
        CodecError: a value does not fit its field.
    """

    def __init__(self, message: Message) -> None:
        producer_id = message.message_id.producer_id if message.message_id is not None else None
        if producer_id is None:
            raise CodecError("the message has no id")
        given = message.message_id, message.content
        try:
            # Each field is where a frame that differs in nothing else begins to differ.
            message.message_id, message.content = MessageId(producer_id, 0), None
            bare = marshal(message)
            message.content = b""
            body_at = _difference(bare, marshal(message))
            message.message_id, message.content = MessageId(producer_id, -1), None
            number_at = _difference(bare, marshal(message))
        finally:
            message.message_id, message.content = given
        self.head = bare[_FIELDS:number_at]
        self.between = bare[number_at + _NUMBER_BYTES : body_at]
        self.tail = bare[body_at + 1 :]


def _difference(one: bytes, other: bytes) -> int:
    """The first byte behind the size in which two frames differ."""
    return next(at for at in range(_FIELDS, len(one)) if one[at] != other[at])
