"""Commands to the records of an AMQ store, for brokers of its time and for this store.

What a broker has a record for is written as it writes it. The rest is written so that a broker reads over it:

* a small command as the text of a JournalTrace, ``jdbcstore amq command <base64>``: the end of a durable subscription,
  what becomes of scheduled messages, a subscription that begins with more than SubscriptionInfo of this version tells
  (SubscriptionInfo follows for brokers);
* a large one as the content of a message in a local transaction that is rolled back;
* an updated message the same way: a broker keeps the older one, in its place;
* a priority that counts, and a message that is written again, as a trace in front of the message;
* the rollback of a prepared transaction with an acknowledgement of no message in front: a broker that replays forgets
  what is prepared only if something of the transaction is in flight.

What is to happen together is put into a local transaction (`together`), because a broker may meet half of a batch.
"""

from __future__ import annotations

import base64
import itertools
import os
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from jdbcstore.destination import Destination, Queue
from jdbcstore.errors import CodecError
from jdbcstore.identifiers import (
    ConnectionId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    TransactionId,
    XATransactionId,
)
from jdbcstore.message import BytesMessage, Message
from jdbcstore.openwire import commands as wire
from jdbcstore.openwire import marshal, unmarshal
from jdbcstore.store.journal.amq.decoding import (
    CARRIER,
    NO_MESSAGE,
    NOTE,
    TOGETHER,
    UPDATE,
    after_destination,
    subscription_key,
)
from jdbcstore.store.journal.amq.journal import framed
from jdbcstore.store.journal.commands import (
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
from jdbcstore.store.journal.kahadb.encoding import encode as encode_command

__all__ = ["WIRE_VERSION", "Payload", "encode", "encode_again", "marshal_message", "together"]

#: What brokers 5.1 to 5.3 write; messages look the same in 3 to 9.
WIRE_VERSION: Final = 5
#: A text of OpenWire has 16 bits for its length, and Java takes up to three bytes for a character.
_TRACE_BYTES_MAX: Final = 20_000
_I32: Final = struct.Struct(">i")
#: Where a broker looks for what never was. Each has it.
_NOWHERE: Final = Queue("ActiveMQ.DLQ")
_NEVER: Final = MessageId(ProducerId(NO_MESSAGE, 1, 1), 1)
_UPDATE: Final = LocalTransactionId(1, ConnectionId(UPDATE))
_CARRIER: Final = LocalTransactionId(1, ConnectionId(CARRIER))
_PREPARE, _XA_COMMIT, _XA_ROLLBACK, _LOCAL_COMMIT, _LOCAL_ROLLBACK = 1, 2, 3, 4, 5
#: Different in each life of a process, so that what an earlier one began is not continued.
_numbers = itertools.count(time.time_ns())


class Payload(bytes):
    """Records of a command, framed."""

    #: Where the one stands that the command's location tells, and its size.
    main: tuple[int, int]

    @classmethod
    def of(cls, main: bytes, *, before: bytes = b"", behind: bytes = b"") -> Payload:
        """Records before the main one, and behind it."""
        made = cls(before + main + behind)
        made.main = len(before), len(main)
        return made


def _begin_a_life() -> None:
    global _numbers
    _numbers = itertools.count(time.time_ns())


if hasattr(os, "register_at_fork"):  # what a child does is another life
    os.register_at_fork(after_in_child=_begin_a_life)


def encode(command: Command) -> Payload:
    """The records of a command.

    Raises:
        CodecError: it has something that OpenWire cannot write.
    """
    return _WRITERS.get(type(command), _carried)(command)


def encode_again(update: UpdateMessage) -> Payload:
    """A message that brokers do not know of, as one that was added; a note says what it is here.

    Raises:
        CodecError: it cannot be written.
    """
    assert update.message is not None
    made = _added(update.message)
    return Payload.of(made[made.main[0] :], before=_note("again") + made[: made.main[0]])


def together(commands: Sequence[Command], payloads: Sequence[bytes]) -> list[bytes]:
    """Payloads of commands that a broker, too, is to take as a whole or not at all."""
    kinds = [isinstance(one, AddMessage | RemoveMessage) and one.transaction is None for one in commands]
    if sum(kinds) < 2:
        return list(payloads)
    transaction = LocalTransactionId(next(_numbers), ConnectionId(TOGETHER))
    made: list[bytes] = []
    for command, payload, is_part in zip(commands, payloads, kinds, strict=True):
        if is_part:
            assert isinstance(command, AddMessage | RemoveMessage)
            made.append(encode(command._replace(transaction=transaction)))
        else:
            made.append(payload)
    last = made[-1]
    assert isinstance(last, Payload)
    closed = Payload(last + _end(transaction, _LOCAL_COMMIT))
    closed.main = last.main
    made[-1] = closed
    return made


def marshal_message(message: Message, destination: Destination) -> bytes:
    """The bytes of a message that is stored at a destination: that is the only place where an AMQ store tells it.

    Raises:
        CodecError: it cannot be written.
    """
    own, original, transaction = message.destination, message.original_destination, message.transaction_id
    try:
        if own != destination:
            message.destination = destination
            message.original_destination = original or own
        message.transaction_id = None
        return marshal(message, WIRE_VERSION)
    finally:
        message.destination, message.original_destination, message.transaction_id = own, original, transaction


def _in_transaction(payload: bytes, transaction: TransactionId) -> bytes:
    """The bytes of a message that names none, in a transaction."""
    o = after_destination(payload)
    if payload[o]:
        raise CodecError("the message is in a transaction already")
    identifier = marshal(transaction, WIRE_VERSION)[_I32.size :]
    size = len(payload) - _I32.size + len(identifier)
    return b"".join((_I32.pack(size), payload[_I32.size : o], b"\x01", identifier, payload[o + 1 :]))


def _value(value: object) -> bytes:
    return framed(marshal(value, WIRE_VERSION))


def _note(text: str) -> bytes:
    return _value(wire.JournalTrace(message=NOTE + text))


def _end(transaction: TransactionId, kind: int) -> bytes:
    return _value(wire.JournalTransaction(transaction_id=transaction, type=kind, was_prepared=kind == _XA_COMMIT))


def _added(add: AddMessage) -> Payload:
    data = add.message or b""
    if not data:  # of a queue that is to be known although it is empty
        assert add.destination is not None
        data = marshal_message(Message(message_id=MessageId.parse(add.message_id or "")), add.destination)
    if add.transaction is not None:
        data = _in_transaction(data, add.transaction)
    is_ranked = add.priority_supported and add.priority != 4
    return Payload.of(framed(data), before=_note(f"priority {add.priority}") if is_ranked else b"")


def _updated(update: UpdateMessage) -> Payload:
    add = update.message
    assert add is not None
    data = _in_transaction(add.message or b"", _UPDATE)
    is_ranked = add.priority_supported and add.priority != 4
    before = _note(f"priority {add.priority}") if is_ranked else b""
    return Payload.of(framed(data), before=before, behind=_end(_UPDATE, _LOCAL_ROLLBACK))


def _removed(remove: RemoveMessage) -> Payload:
    message_id = MessageId.parse(remove.message_id or "")
    if remove.subscription_key is None:
        ack = wire.MessageAck.of(message_id, remove.destination, remove.transaction)
        return Payload.of(_value(wire.JournalQueueAck(destination=remove.destination, message_ack=ack)))
    key = subscription_key(remove.subscription_key)
    done = wire.JournalTopicAck(
        destination=remove.destination,
        message_id=message_id,
        subscription_name=key.subscription_name,
        client_id=key.client_id,
        transaction_id=remove.transaction,
    )
    return Payload.of(_value(done))


def _prepared(prepare: Prepare) -> Payload:
    assert prepare.transaction is not None
    return Payload.of(_end(prepare.transaction, _PREPARE))


def _committed(commit: Commit) -> Payload:
    assert commit.transaction is not None
    is_xa = isinstance(commit.transaction, XATransactionId)
    return Payload.of(_end(commit.transaction, _XA_COMMIT if is_xa else _LOCAL_COMMIT))


def _rolled_back(rollback: Rollback) -> Payload:
    transaction = rollback.transaction
    assert transaction is not None
    if not isinstance(transaction, XATransactionId):
        return Payload.of(_end(transaction, _LOCAL_ROLLBACK))
    never = wire.MessageAck.of(_NEVER, _NOWHERE, transaction)
    before = _value(wire.JournalQueueAck(destination=_NOWHERE, message_ack=never))
    return Payload.of(_end(transaction, _XA_ROLLBACK), before=before)


def _subscribed(command: Subscription) -> Payload:
    if command.info is None:
        return _carried(command)
    info = unmarshal(command.info)
    assert isinstance(info, wire.SubscriptionInfo)
    record = framed(marshal(info, WIRE_VERSION))
    if not command.retroactive and not info.no_local:
        return Payload.of(record)
    told = _carried(command)
    return Payload.of(told, behind=record)


def _traced(trace: Trace) -> Payload:
    text = trace.message or ""
    if len(text) > _TRACE_BYTES_MAX:
        return _carried(trace)
    return Payload.of(_value(wire.JournalTrace(message=text)))


def _carried(command: Command) -> Payload:
    """A command that brokers have no record for."""
    data = encode_command(command)
    text = "command " + base64.b64encode(data).decode()
    if len(text) < _TRACE_BYTES_MAX or (isinstance(command, Subscription) and command.info is not None):
        return Payload.of(_note(text))
    message = BytesMessage(message_id=_NEVER, content=data, destination=_NOWHERE)
    payload = _in_transaction(marshal(message, WIRE_VERSION), _CARRIER)
    return Payload.of(framed(payload), behind=_end(_CARRIER, _LOCAL_ROLLBACK))


_WRITERS: Final[dict[type, Callable[[Any], Payload]]] = {
    AddMessage: _added,
    UpdateMessage: _updated,
    RemoveMessage: _removed,
    Prepare: _prepared,
    Commit: _committed,
    Rollback: _rolled_back,
    Subscription: _subscribed,
    Trace: _traced,
}
