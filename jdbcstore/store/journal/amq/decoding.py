"""Payloads of an AMQ store's journal to the commands of `jdbcstore.store.journal.commands`.

A payload is one OpenWire object, loose, with its length, of the broker's default wire version (3 to 9, which nothing
tells; the layouts of messages are the same in all of them). What each means:

==========================  ===========================================================================================
any message                 was added to its own destination, in a transaction if it names one
JournalQueueAck             its last message is removed from a queue, or from a topic for all
JournalTopicAck             one durable subscription acknowledged one message
JournalTransaction          the end of a transaction; 1 prepares it, 2 and 4 commit, 3 and 5 roll back
SubscriptionInfo            a durable subscription began; that it ended is not told
JournalTrace                nothing, unless this store wrote it (`jdbcstore.store.journal.amq.encoding`)
==========================  ===========================================================================================

Of a message only its head is read: destination, transaction and id. What they have in common with the message before
is recognised by its bytes.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Final

from jdbcstore.destination import Destination, Queue, TempQueue, TempTopic, Topic
from jdbcstore.errors import CodecError
from jdbcstore.identifiers import LocalTransactionId, ProducerId, TransactionId
from jdbcstore.message import BytesMessage, Message
from jdbcstore.openwire import commands as wire
from jdbcstore.openwire import unmarshal
from jdbcstore.store.journal.commands import (
    COMMANDS,
    AddMessage,
    Command,
    Commit,
    Prepare,
    RemoveMessage,
    Rollback,
    Subscription,
    Trace,
    UpdateMessage,
)
from jdbcstore.store.journal.kahadb.decoding import READERS, varint
from jdbcstore.store.journal.kahadb.decoding import Malformed as MalformedCommand
from jdbcstore.subscription import SubscriptionKey

__all__ = [
    "CARRIER",
    "NOTE",
    "NO_MESSAGE",
    "TOGETHER",
    "UPDATE",
    "Decoder",
    "Malformed",
    "after_destination",
    "message_of",
    "subscription_key",
    "subscription_text",
]

#: Connections of local transactions that this store makes up; brokers forget what is rolled back.
TOGETHER: Final = "jdbcstore:together"
UPDATE: Final = "jdbcstore:update"
CARRIER: Final = "jdbcstore:command"
#: How a trace begins that says something about the record behind it.
NOTE: Final = "jdbcstore amq "
#: The producer of messages that never were.
NO_MESSAGE: Final = "jdbcstore"

#: Wire versions to try: all messages up to 9 have the layout of 6.
_VERSION: Final = 6
_MESSAGES: Final = range(23, 30)
_QUEUE_ACK: Final = 52
_MESSAGE_ACK: Final = 22
_NEVER: Final = NO_MESSAGE + ":"
_DESTINATIONS: Final[dict[int, type[Destination]]] = {100: Queue, 101: Topic, 102: TempQueue, 103: TempTopic}
#: Size, type, command id, whether a response is required.
_HEAD_SIZE: Final = 10
_U16: Final = struct.Struct(">H")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_PRODUCER_NUMBERS: Final = struct.Struct(">qq")
_LOCAL, _XA, _MESSAGE_ID, _PRODUCER_ID, _CONNECTION_ID = 111, 112, 110, 123, 120
_COMMIT_TYPES: Final = (2, 4)
_ROLLBACK_TYPES: Final = (3, 5)


class Malformed(Exception):
    """A payload that is no command; the text says what is wrong."""


def subscription_text(key: SubscriptionKey) -> str:
    """A durable subscription's key as one text: ``<client id>:<name>``, colons of the client id as ``%3A``."""
    return f"{key.client_id.replace('%', '%25').replace(':', '%3A')}:{key.subscription_name}"


def subscription_key(text: str) -> SubscriptionKey:
    """The other way round."""
    client_id, _, name = text.partition(":")
    return SubscriptionKey(client_id.replace("%3A", ":").replace("%25", "%"), name)


def _object(data: bytes) -> object:
    """A payload, in whatever version."""
    try:
        return unmarshal(data, _VERSION)
    except CodecError:
        try:
            return unmarshal(data)
        except CodecError as error:
            raise Malformed(str(error)) from None


def message_of(add: AddMessage) -> Message:
    """The message of a record, which is in no transaction. Raises `CodecError`."""
    try:
        message = _object(add.message or b"")
    except Malformed as error:
        raise CodecError(str(error)) from None
    if not isinstance(message, Message):
        raise CodecError(f"a {type(message).__name__} in the place of a message")
    message.transaction_id = None  # that of its record, which is over or known
    return message


class Decoder:
    """Decodes payloads in their order: notes of this store are about the record behind them."""

    def __init__(self) -> None:
        self._priority: int | None = None
        self._is_again = False
        self._is_told = False
        #: Bytes from the producer to the destination of the last message, where they end within it, and what they say.
        self._front = b"\xff"
        self._destination: Destination | None = None
        self._ack_front = b"\xff"
        self._ack_destination: Destination | None = None
        self._producer = b"\xff"
        self._producer_text = ""

    def decode(self, data: bytes, start: int, end: int) -> Command | None:
        """The command of a payload that stands for itself.

        Args:
            data: with the payload in it.
            start: where it begins.
            end: where it ends.

        Returns:
            None for what means nothing by itself.

        Raises:
            Malformed: it is none.
        """
        try:
            kind = data[start + 4]
            if kind in _MESSAGES:
                return self._message(data, start, end)
            if kind == _QUEUE_ACK:
                return self._queue_ack(data, start, end)
        except (IndexError, struct.error, UnicodeError):
            raise Malformed("a message or an acknowledgement that ends too early") from None
        return self._other(data[start:end])

    def decode_together(self, data: bytes, start: int, end: int) -> Command | None:
        """The same for a payload of a batch of this store: what it has put into a transaction only for brokers happens
        where it stands."""
        command = self.decode(data, start, end)
        if isinstance(command, AddMessage | RemoveMessage):
            return command._replace(transaction=None) if _is_made_up(command.transaction, TOGETHER) else command
        if isinstance(command, Commit) and _is_made_up(command.transaction, TOGETHER):
            return None
        return command

    # -- messages ------------------------------------------------------------------------------------------------

    def _message(self, data: bytes, start: int, end: int) -> Command | None:
        o = start + _HEAD_SIZE
        if _I32.unpack_from(data, start)[0] != end - start - 4:
            raise Malformed("a length that is not that of the record")
        if data.startswith(self._front, o):
            o += len(self._front)
            destination = self._destination
        else:
            behind = _after_producer(data, o)
            destination, behind = _destination(data, behind)
            self._front, self._destination = data[o:behind], destination
            o = behind
        transaction: TransactionId | None = None
        if data[o]:
            transaction, o = _transaction(data, o)
        else:
            o += 1
        o = _after_destination(data, o) if data[o] else o + 1
        message_id, o = self._message_id(data, o)
        if o > end:
            raise Malformed("a message that ends within its head")
        priority, self._priority = self._priority, None
        is_again, self._is_again = self._is_again, False
        add = AddMessage(
            transaction,
            destination,
            message_id,
            data[start:end],
            4 if priority is None else priority,
            priority is not None,
        )
        if is_again:
            return UpdateMessage(add)
        if isinstance(transaction, LocalTransactionId):
            if _is_made_up(transaction, UPDATE):
                return UpdateMessage(add._replace(transaction=None))
            if _is_made_up(transaction, CARRIER):
                return _carried(message_of(add))
        return add

    def _message_id(self, data: bytes, o: int) -> tuple[str, int]:
        if data[o] != 1 or data[o + 1] != _MESSAGE_ID:
            raise Malformed("a message without id")
        o += 2
        if data.startswith(self._producer, o):
            o += len(self._producer)
        else:
            behind = _after_producer(data, o)
            if behind == o + 1:
                raise Malformed("a message id without producer")
            if data[o + 2]:
                size = _U16.unpack_from(data, o + 3)[0]
                connection, numbers = data[o + 5 : o + 5 + size].decode("utf-8", "replace"), o + 5 + size
            else:
                connection, numbers = None, o + 3
            value, session = _PRODUCER_NUMBERS.unpack_from(data, numbers)
            self._producer, self._producer_text = data[o:behind], str(ProducerId(connection, value, session))
            o = behind
        return f"{self._producer_text}:{_I64.unpack_from(data, o)[0]}", o + 16

    def _queue_ack(self, data: bytes, start: int, end: int) -> Command | None:
        """JournalQueueAck: a destination, and in MessageAck the last message; what is between them is stepped over."""
        o = start + 5
        if _I32.unpack_from(data, start)[0] != end - start - 4:
            raise Malformed("a length that is not that of the record")
        if data.startswith(self._ack_front, o):
            o += len(self._ack_front)
            destination = self._ack_destination
        else:
            destination, behind = _destination(data, o)
            self._ack_front, self._ack_destination = data[o:behind], destination
            o = behind
        if data[o] != 1 or data[o + 1] != _MESSAGE_ACK:
            raise Malformed("an acknowledgement of no message")
        o = _after_destination(data, o + 7)
        transaction: TransactionId | None = None
        if data[o]:
            transaction, o = _transaction(data, o)
        else:
            o += 1
        o = _after_text(data, o + 2) + 16 if data[o] else o + 1  # the consumer
        o += 1  # the type: each means that the message is gone
        if data[o]:  # the first message
            o += 2
            o = (o + len(self._producer) if data.startswith(self._producer, o) else _after_producer(data, o)) + 16
        else:
            o += 1
        message_id, o = self._message_id(data, o)
        if o + 4 > end:
            raise Malformed("an acknowledgement that ends too early")
        if message_id.startswith(_NEVER):
            return None
        return RemoveMessage(transaction, destination, message_id)

    # -- anything else -------------------------------------------------------------------------------------------

    def _other(self, data: bytes) -> Command | None:
        value = _object(data)
        if isinstance(value, wire.JournalTopicAck):
            key = subscription_text(SubscriptionKey(value.client_id or "", value.subscription_name or ""))
            return RemoveMessage(value.transaction_id, value.destination, str(value.message_id), None, key)
        if isinstance(value, wire.JournalTransaction):
            return _ended(value)
        if isinstance(value, wire.SubscriptionInfo):
            is_told, self._is_told = self._is_told, False
            key = subscription_text(SubscriptionKey(value.client_id or "", value.subscription_name or ""))
            return None if is_told else Subscription(value.destination, key, False, data)
        if isinstance(value, wire.JournalTrace):
            return self._trace(value.message or "")
        raise Malformed(f"a {type(value).__name__}, which no broker writes")

    def _trace(self, text: str) -> Command | None:
        if not text.startswith(NOTE):
            return Trace(text)
        what, _, about = text[len(NOTE) :].partition(" ")
        if what == "again":
            self._is_again = True
        elif what == "priority" and about.isdecimal():
            self._priority = int(about)
        elif what == "command":
            try:
                command = _command(base64.b64decode(about, validate=True))
            except (binascii.Error, ValueError):
                raise Malformed("a note that is no command") from None
            self._is_told = isinstance(command, Subscription) and command.info is not None
            return command
        else:
            raise Malformed(f"an unknown note of this store: {text[:60]}")
        return None


def _is_made_up(transaction: TransactionId | None, connection: str) -> bool:
    return (
        isinstance(transaction, LocalTransactionId)
        and transaction.connection_id is not None
        and transaction.connection_id.value == connection
    )


def _ended(value: wire.JournalTransaction) -> Command | None:
    transaction = value.transaction_id
    if _is_made_up(transaction, UPDATE) or _is_made_up(transaction, CARRIER):
        return None
    if value.type == 1:
        return Prepare(transaction)
    if value.type in _COMMIT_TYPES:
        return Commit(transaction)
    if value.type in _ROLLBACK_TYPES:
        return Rollback(transaction)
    raise Malformed(f"an end of a transaction of type {value.type}")


def _carried(message: Message) -> Command:
    if not isinstance(message, BytesMessage):
        raise Malformed("a carrier without command")
    return _command(message.content or b"")


def _command(data: bytes) -> Command:
    """A command as KahaDB writes it."""
    try:
        length, start = varint(data, 1)
        if start + length != len(data) or data[0] >= len(COMMANDS):
            raise Malformed("a command that is cut off")
        return READERS[data[0]](data, start, len(data))
    except (IndexError, MalformedCommand) as error:
        raise Malformed(f"a command that cannot be read: {error}") from None


# -- the head of a message, field by field -----------------------------------------------------------------------------


def after_destination(payload: bytes) -> int:
    """Where a message's transaction stands: behind its destination."""
    return _after_destination(payload, _after_producer(payload, _HEAD_SIZE))


def _after_producer(data: bytes, o: int) -> int:
    if not data[o]:
        return o + 1
    if data[o + 1] != _PRODUCER_ID:
        raise Malformed("no producer id where one should be")
    return _after_text(data, o + 2) + 16


def _after_text(data: bytes, o: int) -> int:
    return o + 3 + int(_U16.unpack_from(data, o + 1)[0]) if data[o] else o + 1


def _after_destination(data: bytes, o: int) -> int:
    return _after_text(data, o + 2) if data[o] else o + 1


def _destination(data: bytes, o: int) -> tuple[Destination, int]:
    end = _after_destination(data, o)
    cls = _DESTINATIONS.get(data[o + 1]) if data[o] else None
    if cls is None or not data[o + 2]:
        raise Malformed("a message without destination")
    # Names with characters that Java writes in another way than UTF-8 are rare.
    name = _object(_I32.pack(end - o - 1) + data[o + 1 : end])
    assert isinstance(name, Destination)
    return name, end


def _transaction(data: bytes, o: int) -> tuple[TransactionId, int]:
    start, kind = o + 1, data[o + 1]
    o += 2
    if kind == _LOCAL:
        o += 8
        o = _after_text(data, o + 2) if data[o] else o + 1
    elif kind == _XA:
        o += 4
        for _ in range(2):
            o += 5 + _I32.unpack_from(data, o + 1)[0] if data[o] else 1
    else:
        raise Malformed("no transaction id where one should be")
    value = _object(_I32.pack(o - start) + data[start:o])
    assert isinstance(value, LocalTransactionId) or value is not None
    return value, o  # type: ignore[return-value]
