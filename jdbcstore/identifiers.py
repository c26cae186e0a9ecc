"""Who sent what: producer, message, connection, session, consumer, broker and transaction ids.

Strings are built as ActiveMQ builds them, e.g. message id ``ID:host-40001-1700000000000-1:1:1:1:5`` is connection
``ID:host-40001-1700000000000-1:1``, session 1, producer 1, sequence 5. On the wire ProducerId is connection, *value*,
session; the string is connection:session:value. Numbers are signed 64-bit integers.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from jdbcstore.errors import ConfigurationError

__all__ = [
    "BrokerId",
    "ConnectionId",
    "ConsumerId",
    "LocalTransactionId",
    "MessageId",
    "ProducerId",
    "SessionId",
    "TransactionId",
    "XATransactionId",
    "told_apart",
    "xid_of_text",
    "xid_text",
]


@dataclass(frozen=True, slots=True)
class ConnectionId:
    """A client connection."""

    value: str | None

    def __str__(self) -> str:
        return _java(self.value)


@dataclass(frozen=True, slots=True)
class BrokerId:
    """A broker."""

    value: str | None

    def __str__(self) -> str:
        return _java(self.value)


@dataclass(frozen=True, slots=True)
class SessionId:
    """A session of a connection."""

    connection_id: str | None
    value: int

    def __str__(self) -> str:
        return f"{_java(self.connection_id)}:{self.value}"


@dataclass(frozen=True, slots=True)
class ConsumerId:
    """A consumer of a session. Wire order: connection, session, value."""

    connection_id: str | None
    session_id: int
    value: int

    def __str__(self) -> str:
        return f"{_java(self.connection_id)}:{self.session_id}:{self.value}"


@dataclass(frozen=True, slots=True)
class ProducerId:
    """A producer of a session. Wire order: connection, value, session. Its string is column MSGID_PROD."""

    connection_id: str | None
    value: int
    session_id: int
    encoded: bytes | None = field(default=None, init=False, compare=False, repr=False)
    """Room for the codec: the id as it stands in a frame, once it was written or read."""
    _text: str | None = field(default=None, init=False, compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> ProducerId:
        """Read column MSGID_PROD: the numbers behind the last two colons are session and value.

        A text that does not end so is all connection, with session and value 0.
        """
        parts = text.rsplit(":", 2)
        if len(parts) == 3 and _is_long(parts[1]) and _is_long(parts[2]):
            return cls(parts[0], int(parts[2]), int(parts[1]))
        return cls(text, 0, 0)

    def __str__(self) -> str:
        text = self._text
        if text is None:  # it is asked for with every message of the producer
            text = f"{_java(self.connection_id)}:{self.session_id}:{self.value}"
            object.__setattr__(self, "_text", text)
        return text


@dataclass(slots=True, eq=False)
class MessageId:
    """Identity of a message: its producer and the producer's own counter.

    Two ids are equal when those two are; `broker_sequence_id` (the store's sequence once stored) and `text_view` (the
    text of a foreign id that did not parse) do not count. Source of the rules: ActiveMQ's id classes as observed.
    """

    producer_id: ProducerId | None
    producer_sequence_id: int
    broker_sequence_id: int = 0
    text_view: str | None = None

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Read a message id string the way JMS clients do; a text that is not one is kept as `text_view`."""
        connection, numbers = text, list[int]()
        for _ in range(3):
            head, colon, tail = connection.rpartition(":")
            if not colon and numbers:
                break
            if not colon or not _is_long(tail):
                return cls(ProducerId(None, 0, 0), 0, 0, text)
            connection = head
            numbers.append(int(tail))
        sequence, value, session = (*numbers, 0, 0)[:3]
        return cls(ProducerId(connection, value, session), sequence)

    def copy(self) -> MessageId:
        """The same id, to be given another `broker_sequence_id`."""
        return MessageId(self.producer_id, self.producer_sequence_id, self.broker_sequence_id, self.text_view)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        return self.producer_sequence_id == other.producer_sequence_id and self.producer_id == other.producer_id

    def __hash__(self) -> int:
        return hash((self.producer_sequence_id, self.producer_id))

    def __str__(self) -> str:
        if self.text_view is not None:
            return self.text_view if self.text_view.startswith("ID:") else "ID:" + self.text_view
        return f"{_java(self.producer_id)}:{self.producer_sequence_id}"


def told_apart(message_ids: Sequence[MessageId]) -> tuple[list[int], list[MessageId]]:
    """The sequences of those ids that a store has given one (`broker_sequence_id`), and the others."""
    sequences = [message_id.broker_sequence_id for message_id in message_ids]
    if min(sequences, default=1) > 0:
        return sequences, []
    others = [message_id for message_id in message_ids if message_id.broker_sequence_id <= 0]
    return [sequence for sequence in sequences if sequence > 0], others


@dataclass(frozen=True, slots=True)
class LocalTransactionId:
    """A transaction of one connection. Wire order: value, connection."""

    value: int
    connection_id: ConnectionId | None

    def __str__(self) -> str:
        return f"TX:{_java(self.connection_id)}:{self.value}"

    @property
    def name(self) -> str:
        """A text that no other transaction has."""
        return str(self)


@dataclass(frozen=True, slots=True)
class XATransactionId:
    """A branch of a distributed transaction: format id and two byte strings of at most 64 bytes each."""

    format_id: int
    global_transaction_id: bytes | None
    branch_qualifier: bytes | None

    def __str__(self) -> str:
        parts = (_xa_part(self.format_id, part or b"") for part in (self.global_transaction_id, self.branch_qualifier))
        return "XID:[{},globalId={},branchId={}]".format(self.format_id, *parts)

    @property
    def name(self) -> str:
        """A text that no other transaction has: as it is printed two of them may look alike."""
        parts = ("null" if part is None else part.hex() for part in (self.global_transaction_id, self.branch_qualifier))
        return "{} {}:{}".format(self, *parts)


def xid_text(xid: XATransactionId) -> str:
    """A transaction id for people and shells: format id, and the two parts in hexadecimal digits."""
    return f"{xid.format_id}:{(xid.global_transaction_id or b'').hex()}:{(xid.branch_qualifier or b'').hex()}"


def xid_of_text(text: str) -> XATransactionId:
    """The transaction id that `xid_text` has written.

    Raises:
        ConfigurationError: it is another text.
    """
    try:
        format_id, global_id, branch = text.split(":")
        return XATransactionId(int(format_id), bytes.fromhex(global_id), bytes.fromhex(branch))
    except ValueError:
        raise ConfigurationError(
            f"{text!r} is no transaction id: expected FORMAT:GLOBAL:BRANCH, a number and two rows of hexadecimal digits"
        ) from None


TransactionId: TypeAlias = LocalTransactionId | XATransactionId

#: The format id of Arjuna's (Narayana's) transactions, whose parts ActiveMQ prints in Arjuna's own way.
_ARJUNA: Final = 131077
_ARJUNA_UID: Final = struct.Struct(">qqiii")


def _xa_part(format_id: int, part: bytes) -> str:
    """One part of an XA id as ActiveMQ prints it: transaction keys are compared as strings, so it has to be exact.

    Each byte is printed as a Java int would be: sign-extended, without padding (0x0a is ``a``, 0xfd is ``fffffffd``).
    """
    if format_id == _ARJUNA and len(part) >= _ARJUNA_UID.size:
        return ":".join(f"{number:x}" for number in _ARJUNA_UID.unpack_from(part))
    return "".join(f"{byte | 0xFFFFFF00 if byte & 0x80 else byte:x}" for byte in part)


_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def _is_long(text: str) -> bool:
    return _DECIMAL.fullmatch(text) is not None and -(1 << 63) <= int(text) < 1 << 63


def _java(value: object) -> str:
    return "null" if value is None else str(value)
