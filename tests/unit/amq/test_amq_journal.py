"""The journal of an AMQ store, byte by byte: what is read, what is left out, and where reading goes on."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence

import pytest

from jdbcstore.destination import Queue, Topic
from jdbcstore.identifiers import ConnectionId, LocalTransactionId, XATransactionId
from jdbcstore.openwire import marshal
from jdbcstore.openwire.commands import JournalTrace, SubscriptionInfo
from jdbcstore.store.journal.amq.encoding import encode, encode_again, marshal_message, together
from jdbcstore.store.journal.amq.format import AMQ
from jdbcstore.store.journal.amq.journal import JournalFile, framed
from jdbcstore.store.journal.commands import (
    AddMessage,
    AddScheduledJob,
    Command,
    Commit,
    Prepare,
    RemoveDestination,
    RemoveMessage,
    Rollback,
    Subscription,
    Trace,
    UpdateMessage,
)
from jdbcstore.testing.messages import text_message

A = Queue("A")
XID = XATransactionId(1, b"global", b"branch")
LOCAL = LocalTransactionId(7, ConnectionId("ID:c:1"))
RECOVERED = framed(marshal(JournalTrace(message="RECOVERED Mon Jan 05 10:00:00 CET 2009"), 5))


def add(number: int, size: int = 10, transaction: XATransactionId | LocalTransactionId | None = None) -> AddMessage:
    message = text_message(number, "x" * size)
    data = marshal_message(message, A)
    return AddMessage(transaction, A, str(message.message_id), data, 4, False)


def batch(*commands: Command) -> bytes:
    payloads = together(commands, [encode(command) for command in commands])
    return bytes(AMQ.batch(payloads, AMQ.batch_size(payloads), 1, 0).data)


def broken_batch(commands: Sequence[Command]) -> bytes:
    """Each by itself, in one batch."""
    payloads = [encode(command) for command in commands]
    return bytes(AMQ.batch(payloads, AMQ.batch_size(payloads), 1, 0).data)


def read(data: bytes) -> tuple[list[Command], JournalFile]:
    file = JournalFile(io.BytesIO(data), 1)
    return [command for _, command in file.records()], file


def ids(commands: list[Command]) -> list[str | None]:
    return [one.message_id for one in commands if isinstance(one, AddMessage)]


INFO = marshal(
    SubscriptionInfo(
        client_id="c:1", destination=Topic("T"), subscription_name="s:1", subscribed_destination=Topic("T")
    ),
    5,
)
NO_LOCAL = marshal(SubscriptionInfo(client_id="c", destination=Topic("T"), subscription_name="s", no_local=True), 11)


@pytest.mark.parametrize(
    "command",
    [
        add(1),
        RemoveMessage(None, A, "ID:c:1:1:1:5"),
        RemoveMessage(XID, A, "ID:c:1:1:1:5"),
        RemoveMessage(LOCAL, Topic("T"), "ID:c:1:1:1:5", None, "c%3A1:s:1"),
        Prepare(XID),
        Commit(XID),
        Commit(LOCAL),
        Rollback(XID),
        Rollback(LOCAL),
        Subscription(Topic("T"), "c%3A1:s:1", False, INFO),
        Subscription(Topic("T"), "c:s", True, NO_LOCAL),
        Subscription(Topic("T"), "c%3A1:s:1"),
        RemoveDestination(A),
        Trace("jdbcstore known 0:A"),
        Trace("jdbcstore sequences " + "1 " * 40_000),
        AddScheduledJob("JMS", "1", 5, None, 1, 2, 3, b"x" * 100_000, 9),
    ],
    ids=lambda command: f"{type(command).__name__}",
)
def test_what_is_written_is_read(command: Command) -> None:
    found, file = read(batch(command))
    assert found == [command]
    assert not file.damages


def test_messages_that_are_written_again_in_a_transaction_or_with_a_priority() -> None:
    one = add(1)
    ranked = one._replace(priority=7, priority_supported=True)
    within = encode(add(1, transaction=XID))
    payloads = [encode(UpdateMessage(one)), encode_again(UpdateMessage(one)), encode(ranked), within]
    found, _ = read(bytes(AMQ.batch(payloads, AMQ.batch_size(payloads), 1, 0).data))
    update, again, found_ranked, in_doubt = found
    for updated in (update, again):
        assert isinstance(updated, UpdateMessage)
        assert updated.message is not None
        assert updated.message.message_id == one.message_id
    assert found_ranked == ranked
    assert isinstance(in_doubt, AddMessage)
    assert in_doubt.transaction == XID


def test_what_is_together_is_in_a_transaction_for_brokers_only() -> None:
    commands: list[Command] = [add(1), RemoveMessage(None, A, "ID:c:1:1:1:5")]
    data = batch(*commands)
    found, _ = read(data)
    assert [type(one) for one in found] == [AddMessage, RemoveMessage]
    assert all(one.transaction is None for one in found if isinstance(one, AddMessage | RemoveMessage))
    alone, _ = read(data[data.index(b"EOR") + 3 :])  # without the head, as a broker reads it
    assert [type(one) for one in alone] == [AddMessage, RemoveMessage, Commit]
    transactions = {getattr(one, "transaction", None) for one in alone}
    assert len(transactions) == 1
    assert None not in transactions


def test_a_batch_that_was_cut_off_is_left_out_wherever() -> None:
    first, second = add(1), [add(2), add(3)]
    whole = batch(first)
    data = whole + broken_batch(second)
    for end in range(len(whole), len(data)):
        found, file = read(data[:end])
        assert ids(found) == [first.message_id]
        assert file.append_offset == len(whole)
        assert all(damage.at_the_end for damage in file.damages)
        found, file = read(data[:end] + bytes(len(data) - end))
        assert ids(found) == [first.message_id]
        assert file.append_offset == len(whole)


def test_behind_a_damaged_batch_it_goes_on() -> None:
    one, two, three = add(1), add(2), add(3)
    middle = bytearray(batch(two))
    middle[-60] ^= 0xFF
    found, file = read(batch(one) + bytes(middle) + batch(three))
    assert ids(found) == [one.message_id, three.message_id]
    assert "wrong checksum" in file.damages[0].what
    assert not file.damages[0].at_the_end


def test_a_broker_went_on_behind_half_a_batch() -> None:
    """It takes the good records of the batch, and writes where the others were to stand."""
    lost, theirs = [add(1), add(2), add(3, 5000)], add(4)
    data = broken_batch(lost)
    end = data.rindex(b"EOR", 0, len(data) - 4000) + 3
    found, _ = read(data[:end] + RECOVERED + framed(theirs.message or b""))
    assert ids(found) == [lost[0].message_id, lost[1].message_id, theirs.message_id]
    file = JournalFile(io.BytesIO(data[:end]), 1)
    for location, command in JournalFile(io.BytesIO(data[:end] + RECOVERED), 1).records():
        if isinstance(command, AddMessage):
            assert file.read(location) == command


def test_a_message_that_contains_a_journal_is_a_message() -> None:
    inside = batch(add(1)) + framed(add(2).message or b"")
    message = text_message(3)
    message.text = inside.decode("latin-1")
    data = marshal_message(message, A)
    outer = AddMessage(None, A, str(message.message_id), data, 4, False)
    found, file = read(batch(outer) + framed(data))
    assert ids(found) == [outer.message_id] * 2
    assert not file.damages


@pytest.mark.parametrize("seed", range(30))
def test_damage_never_stops_the_reading(seed: int) -> None:
    chosen = random.Random(seed)
    messages = [add(number, chosen.randint(0, 300)) for number in range(20)]
    parts = [batch(one) if chosen.random() < 0.5 else framed(one.message or b"") for one in messages]
    data = bytearray(b"".join(parts))
    for _ in range(3):
        o = chosen.randrange(len(data))
        data[o : o + chosen.randint(1, 50)] = chosen.randbytes(chosen.randint(1, 50))
    found, file = read(bytes(data))
    assert file.damages or len(found) == 20
    assert len(set(ids(found)) & {one.message_id for one in messages}) >= 12
