"""The XID column: base64 of what is prepared and by which transaction. Pure.

The bytes, as ActiveMQ 5.17 was seen to write them (numbers are big-endian)::

    0       '+' an added message, '-' a removed one; 0 in ACTIVEMQ_ACKS
    1 … 8   ACTIVEMQ_ACKS only: the id up to which the subscription will have acknowledged
    9       ACTIVEMQ_ACKS only: the PRIORITY of the row
    10 … 13 format id
    14, 15  length of the global transaction id
    16 …    global transaction id, then the branch qualifier, to the end

ActiveMQ fills one array again and again, so what does not belong to a row may be anything. Read are only byte 0 of
ACTIVEMQ_MSGS, where all but '+' is a removal, and bytes 1 to 9 of ACTIVEMQ_ACKS; beside, always, the transaction.
"""

from __future__ import annotations

import binascii
import struct
from base64 import b64decode, b64encode
from typing import Final, NamedTuple

from jdbcstore.errors import CodecError, StoreError
from jdbcstore.identifiers import XATransactionId

__all__ = [
    "AckXid",
    "MessageXid",
    "ack_xid",
    "added_xid",
    "check_xid",
    "plain_xid",
    "read_ack_xid",
    "read_message_xid",
    "read_xid",
    "removed_xid",
]

_HEAD: Final = struct.Struct(">cqBih")
#: The most bytes of each part, by the XA specification. Two such make 192 characters of the column's 250.
_PART_MAX: Final = 64


class MessageXid(NamedTuple):
    """What XID of a message says."""

    transaction_id: XATransactionId
    is_added: bool


class AckXid(NamedTuple):
    """What XID of a durable subscription's row says: up to which id it acknowledges."""

    transaction_id: XATransactionId
    upto: int
    level: int


def check_xid(xid: XATransactionId) -> None:
    """Make sure that a transaction id can be stored.

    Raises:
        StoreError: a part is longer than XA allows, or the format id is none.
    """
    for part in (xid.global_transaction_id or b"", xid.branch_qualifier or b""):
        if len(part) > _PART_MAX:
            raise StoreError(f"a part of the transaction id {xid} has {len(part)} bytes, XA allows {_PART_MAX}")
    if not -(1 << 31) <= xid.format_id < 1 << 31:
        raise StoreError(f"the format id {xid.format_id} of a transaction is no 32-bit integer")


def added_xid(xid: XATransactionId) -> str:
    """XID of a message that a prepared transaction adds."""
    return _written(xid, b"+")


def removed_xid(xid: XATransactionId) -> str:
    """XID of a message that a prepared transaction removes."""
    return _written(xid, b"-")


def ack_xid(xid: XATransactionId, upto: int, level: int) -> str:
    """XID of a subscription's row: with the transaction everything up to an id is acknowledged.

    Args:
        upto: the id; a Java broker that commits the transaction makes it the row's mark.
        level: PRIORITY of the row. ActiveMQ writes that of the message, also where the topic has one row for all, and
            then its own rollback does not find the row.
    """
    return _written(xid, b"\0", upto, level)


def plain_xid(xid: XATransactionId) -> str:
    """The transaction alone, as our own table has it."""
    return _written(xid, b"\0")


def read_message_xid(text: str) -> MessageXid:
    """XID of a message. Raises `CodecError` when it is none."""
    head, xid = _read(text)
    return MessageXid(xid, head[0] == b"+")


def read_ack_xid(text: str) -> AckXid:
    """XID of a subscription's row. Raises `CodecError` when it is none."""
    head, xid = _read(text)
    return AckXid(xid, head[1], head[2])


def read_xid(text: str) -> XATransactionId:
    """The transaction alone. Raises `CodecError` when the text is no XID."""
    return _read(text)[1]


def _written(xid: XATransactionId, kind: bytes, upto: int = 0, level: int = 0) -> str:
    global_id = xid.global_transaction_id or b""
    head = _HEAD.pack(kind, upto, level, xid.format_id, len(global_id))
    return b64encode(head + global_id + (xid.branch_qualifier or b"")).decode("ascii")


def _read(text: str) -> tuple[tuple[bytes, int, int], XATransactionId]:
    try:
        data = b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CodecError(f"XID {text[:60]!r} is not base64: {error}") from error
    if len(data) < _HEAD.size:
        raise CodecError(f"XID {text[:60]!r} has {len(data)} bytes, {_HEAD.size} are the least")
    kind, upto, level, format_id, length = _HEAD.unpack_from(data)
    rest = data[_HEAD.size :]
    if not 0 <= length <= len(rest):
        raise CodecError(f"XID {text[:60]!r}: the global transaction id has {length} bytes, {len(rest)} are there")
    return (kind, upto, level), XATransactionId(format_id, rest[:length], rest[length:])
