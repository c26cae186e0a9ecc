"""Bytes of a record: every command, the dialect's quirks, and both ways of reading them."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.destination import Destination, Queue, TempQueue, TempTopic, Topic
from jdbcstore.identifiers import ConnectionId, LocalTransactionId, XATransactionId
from jdbcstore.store.journal.commands import (
    COMMANDS,
    AckMessageFileMap,
    AddMessage,
    AddScheduledJob,
    Command,
    Commit,
    DestroyScheduler,
    Prepare,
    ProducerAudit,
    RemoveDestination,
    RemoveMessage,
    RemoveScheduledJob,
    RemoveScheduledJobs,
    RescheduleJob,
    RewrittenDataFile,
    Rollback,
    Subscription,
    Trace,
    UpdateMessage,
)
from jdbcstore.store.journal.kahadb.decoding import READERS, Malformed
from tests.unit.kahadb.journals import field, fields, varint

LOCAL = LocalTransactionId(7, ConnectionId("ID:host-1-2-3:1"))
XA = XATransactionId(-4, b"global\xff", b"branch")
ADD = AddMessage(LOCAL, Queue("A"), "ID:1:1:1:1", b"x" * 300, 9, True)


def decode(cls: type[Command], data: bytes, behind: bytes = b"") -> Command:
    return READERS[COMMANDS.index(cls)](b"~" + data + behind, 1, 1 + len(data))


def test_numbers_of_commands() -> None:
    assert get_args(Command) == COMMANDS
    assert [cls.__name__ for cls in COMMANDS[:4]] == ["Trace", "AddMessage", "RemoveMessage", "Prepare"]
    assert COMMANDS.index(UpdateMessage) == 10
    assert COMMANDS.index(RewrittenDataFile) == 16


EXAMPLES: list[Command] = [
    Trace("LOADED"),
    Trace(""),
    Trace(),
    ADD,
    ADD._replace(transaction=XA, destination=Topic("ü")),
    ADD._replace(transaction=None),
    AddMessage(None, TempQueue("ID:x:1"), "ID:1", b"x" * 70_000),
    RemoveMessage(LOCAL, Topic("T"), "ID:1", b"ack", "client:name"),
    RemoveMessage(None, TempTopic("T"), "ID:1"),
    RemoveMessage(None, Topic("T"), "ID:1", b"", ""),
    Prepare(XA),
    Commit(LOCAL),
    Rollback(XA),
    RemoveDestination(Queue("A")),
    Subscription(Topic("T"), "c:n", True, b"info"),
    Subscription(Topic("T"), "c:n"),
    ProducerAudit(b"\xac\xed"),
    AckMessageFileMap(b"\xac\xed"),
    UpdateMessage(ADD),
    AddScheduledJob("JMS", "ID:1", 1 << 41, "* * * * *", 5, 6, -1, b"payload", 1 << 42),
    RescheduleJob("JMS", "ID:1", 1, 2, 3),
    RemoveScheduledJob("JMS", "ID:1", -1),
    RemoveScheduledJobs("JMS", 0, (1 << 63) - 1),
    DestroyScheduler("JMS"),
    RewrittenDataFile(15, 1, True),
    RewrittenDataFile(15, 1, False),
]


@pytest.mark.parametrize("command", EXAMPLES, ids=lambda command: type(command).__name__)
def test_every_command(command: Command) -> None:
    data = fields(command)
    for behind in (b"", b"\0", b"\x0a", b"\x1a\x02", b"\x28" * 9, b"\x30\x80"):
        assert decode(type(command), data, behind) == command
        assert type(decode(type(command), data, behind)) is type(command)


def test_examples_are_of_every_command() -> None:
    assert {type(command) for command in EXAMPLES} == set(COMMANDS)


@pytest.mark.parametrize("cls", COMMANDS)
def test_nothing_is_required(cls: type[Command]) -> None:
    assert decode(cls, b"") == cls()


def test_a_local_transaction_has_two_fields_of_one_number() -> None:
    text, number = field(1, "ID:c"), field(1, 5)
    for data in (text + number, number + text):
        assert decode(Commit, field(1, field(1, data))) == Commit(LocalTransactionId(5, ConnectionId("ID:c")))
    assert decode(Commit, field(1, field(1, number))) == Commit(LocalTransactionId(5, None))


def test_negative_numbers() -> None:
    assert len(varint(-4)) == 10
    assert decode(Prepare, field(1, field(2, field(1, -4)))) == Prepare(XATransactionId(-4, b"", b""))
    assert decode(RescheduleJob, field(5, -(1 << 63))) == RescheduleJob(rescheduled_count=-(1 << 63))


def test_fields_in_any_order_and_unknown_ones() -> None:
    parts = [field(number, value) for number, value in enumerate(ADD, 1)]
    unknown = field(15, 18) + field(300, b"abc") + varint(20 << 3 | 1) + bytes(8) + varint(20 << 3 | 5) + bytes(4)
    assert decode(AddMessage, b"".join(reversed(parts))) == ADD
    assert decode(AddMessage, unknown.join(parts) + unknown) == ADD
    assert decode(AddMessage, parts[4] + b"".join(parts)) == ADD
    # The number of a field, but not its wire type.
    assert decode(AddMessage, field(3, 77) + b"".join(parts)) == ADD


def test_a_text_that_is_none_is_replaced() -> None:
    assert decode(Trace, field(1, b"a\xffb")) == Trace("a\ufffdb")
    assert decode(RemoveMessage, field(3, "ID:1") + field(5, b"\xc3")) == RemoveMessage(
        message_id="ID:1", subscription_key="\ufffd"
    )


@pytest.mark.parametrize(
    ("cls", "data", "what"),
    [
        (RemoveDestination, field(1, field(1, 4) + field(2, "A")), "destination: a destination of type 4, 0 to 3"),
        (RemoveDestination, field(1, field(1, -1) + field(2, "A")), "destination: a destination of type 18446"),
        (RemoveDestination, field(1, b""), "destination: a destination without a name"),
        (Commit, field(1, b""), "transaction: a transaction that is neither local nor XA"),
        (UpdateMessage, field(1, field(1, b"")), "message: transaction: a transaction that is neither"),
        (UpdateMessage, field(1, b"\x22\x05"), "message: field 4 has 5 bytes where 0 remain"),
        (RewrittenDataFile, b"\x08", "it ends within a field"),
        (RewrittenDataFile, b"\x08\x80", "it ends within a field"),
        (RewrittenDataFile, b"\x08" + b"\x80" * 10 + b"\x01", "a number of more than ten bytes"),
        (Trace, b"\x0a\x02a", "field 1 has 2 bytes where 1 remain"),
        (Trace, b"\x0f", "a field of wire type 7"),
    ],
)
def test_bad_fields(cls: type[Command], data: bytes, what: str) -> None:
    for behind in (b"", b"\x01" * 20):
        with pytest.raises(Malformed, match=what):
            decode(cls, data, behind)


def test_remembering_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[bytes, Destination] = {}
    monkeypatch.setattr("jdbcstore.store.journal.kahadb.decoding._DESTINATIONS", known)
    monkeypatch.setattr("jdbcstore.store.journal.kahadb.decoding.REMEMBERED_MAX", 10)
    for number in range(25):
        decode(RemoveDestination, field(9, 1) + field(1, Queue(f"Q{number}")))
    assert len(known) == 5
    decode(RemoveDestination, field(9, 1) + field(1, Queue("x" * 600)))
    assert len(known) == 5


BYTES = st.binary(max_size=200)
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
DESTINATIONS = st.builds(
    lambda kind, name: kind.decoded(name), st.sampled_from([Queue, Topic, TempQueue, TempTopic]), TEXTS.filter(bool)
)
TRANSACTIONS = st.builds(LocalTransactionId, NUMBERS, st.none() | st.builds(ConnectionId, TEXTS)) | st.builds(
    XATransactionId, NUMBERS, BYTES, BYTES
)
ADDS = st.builds(
    AddMessage,
    st.none() | TRANSACTIONS,
    st.none() | DESTINATIONS,
    st.none() | TEXTS,
    st.none() | BYTES,
    NUMBERS,
    st.booleans(),
)
OTHERS = (
    st.builds(RemoveMessage, st.none() | TRANSACTIONS, st.none() | DESTINATIONS, st.none() | TEXTS, BYTES, TEXTS)
    | st.builds(Subscription, DESTINATIONS, TEXTS, st.booleans(), st.none() | BYTES)
    | st.builds(UpdateMessage, ADDS)
    | st.builds(AddScheduledJob, TEXTS, TEXTS, NUMBERS, TEXTS, NUMBERS, NUMBERS, NUMBERS, BYTES, NUMBERS)
)


@given(ADDS | OTHERS, BYTES)
def test_what_is_written_is_read(command: Command, behind: bytes) -> None:
    assert decode(type(command), fields(command), behind) == command


@given(st.sampled_from(COMMANDS), BYTES | ADDS.map(fields), BYTES)
def test_what_stands_behind_does_not_matter(cls: type[Command], data: bytes, behind: bytes) -> None:
    def outcome(behind: bytes) -> object:
        try:
            return decode(cls, data, behind)
        except Malformed as error:
            return str(error)

    assert outcome(behind) == outcome(b"") == outcome(b"\x10\x00\x1a\x01")
