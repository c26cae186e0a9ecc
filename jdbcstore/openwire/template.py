"""Frames of messages that differ in their number and their body only, without writing every field of each."""

from __future__ import annotations

import struct
from typing import Final

from jdbcstore.errors import CodecError
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.openwire.codec import marshal

__all__ = ["MessageTemplate"]

_SIZE: Final = struct.Struct(">i")
_NUMBER: Final = struct.Struct(">q")
#: Where the fields of a frame begin: behind its size.
_FIELDS: Final = 4
_NO_BODY: Final = bytes(1)
_BODY: Final = struct.Struct(">Bi")
#: What a frame can announce.
_SIZE_MAX: Final = 0x7FFFFFFF


class MessageTemplate:
    """A message that is written many times, with another producer sequence id and another body each time.

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
        self._head = bare[_FIELDS:number_at]
        self._between = bare[number_at + _NUMBER.size : body_at]
        self._tail = bare[body_at + 1 :]
        self._size = len(bare) - _FIELDS - 1

    def marshal(self, producer_sequence_id: int, content: bytes | None) -> bytes:
        """What `jdbcstore.openwire.marshal` gives for the message with this number and body, in the stores' version.

        Raises:
            CodecError: the number has more than 64 bits, or the frame would be larger than one can be.
        """
        body, content = (_NO_BODY, b"") if content is None else (_BODY.pack(1, len(content)), content)
        size = self._size + len(body) + len(content)
        if size > _SIZE_MAX:
            raise CodecError(f"a frame of {size} bytes, {_SIZE_MAX} is the largest")
        try:
            number = _NUMBER.pack(producer_sequence_id)
        except struct.error:
            raise CodecError(f"{producer_sequence_id!r:.100} does not fit, an integer of 64 bits expected") from None
        return b"".join((_SIZE.pack(size), self._head, number, self._between, body, content, self._tail))


def _difference(one: bytes, other: bytes) -> int:
    """The first byte behind the size in which two frames differ."""
    return next(at for at in range(_FIELDS, len(one)) if one[at] != other[at])
