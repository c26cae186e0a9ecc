"""What is encoded is what brokers write, byte for byte, and is read as what it was."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.destination import Queue, TempQueue, TempTopic, Topic
from jdbcstore.errors import CodecError
from jdbcstore.identifiers import ConnectionId, LocalTransactionId, XATransactionId
from jdbcstore.store.journal.commands import (
    COMMANDS,
    AddMessage,
    Command,
    Commit,
    DestroyScheduler,
    RemoveMessage,
    RemoveScheduledJobs,
    RewrittenDataFile,
    Subscription,
    Trace,
    UpdateMessage,
)
from jdbcstore.store.journal.kahadb import encoding
from jdbcstore.store.journal.kahadb.decoding import READERS, varint
from jdbcstore.store.journal.kahadb.encoding import encode, encoded_varint
from jdbcstore.store.journal.kahadb.journal import Journal
from tests.unit.kahadb.journals import VECTORS, fields, unpack

TEXTS = st.none() | st.text()
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
DESTINATIONS = st.builds(
    lambda kind, name: kind.decoded(name),
    st.sampled_from([Queue, Topic, TempQueue, TempTopic]),
    st.text(min_size=1),
)
TRANSACTIONS = st.builds(LocalTransactionId, NUMBERS, st.none() | st.builds(ConnectionId, st.text())) | st.builds(
    XATransactionId, st.integers(-(1 << 31), (1 << 31) - 1), st.binary(max_size=64), st.binary(max_size=64)
)
ADDS = st.builds(
    AddMessage, st.none() | TRANSACTIONS, st.none() | DESTINATIONS, TEXTS, st.none() | st.binary(), NUMBERS
)
COMMANDS_OF_ALL_SHAPES = (
    ADDS
    | st.builds(Trace, TEXTS)
    | st.builds(RemoveMessage, st.none() | TRANSACTIONS, DESTINATIONS, TEXTS, st.none() | st.binary(), TEXTS)
    | st.builds(Commit, st.none() | TRANSACTIONS)
    | st.builds(Subscription, DESTINATIONS, TEXTS, st.booleans(), st.binary())
    | st.builds(UpdateMessage, st.none() | ADDS)
    | st.builds(RewrittenDataFile, st.integers(0, 1 << 31), st.integers(0, 3), st.booleans())
)


def decoded(payload: bytes) -> Command:
    length, start = varint(payload, 1)
    assert start + length == len(payload)
    return READERS[payload[0]](payload, start, len(payload))


def test_brokers_write_the_same_bytes(tmp_path: Path) -> None:
    seen: Counter[type] = Counter()
    for archive in sorted(VECTORS.glob("*.tar.xz")):
        folder = tmp_path / archive.name.removesuffix(".tar.xz")
        folder.mkdir()
        unpack(folder.name, folder)
        for directory in {path.parent for path in folder.rglob("db-*.log")}:
            journal = Journal(directory)
            data = {number: path.read_bytes() for number, path in journal.files.items()}
            for (file, offset, size), command in journal.records():
                assert encode(command) == data[file][offset + 5 : offset + size]
                seen[type(command)] += 1
    # Of these no sample has one.
    assert set(COMMANDS) - set(seen) == {RemoveScheduledJobs, DestroyScheduler}


@given(COMMANDS_OF_ALL_SHAPES)
def test_what_was_encoded_is_read(command: Command) -> None:
    assert decoded(encode(command)) == command
    if not isinstance(command, RewrittenDataFile):
        body = fields(command)
        assert encode(command) == bytes([COMMANDS.index(type(command))]) + encoded_varint(len(body)) + body


def test_the_end_of_a_subscription_is_written_as_brokers_do() -> None:
    assert encode(Subscription(Topic("T"), "c:n")) == b"\x07\x0c\x0a\x05\x08\x01\x12\x01T\x12\x03c:n"


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (AddMessage(None, Queue("A"), "ID:\ud800", b""), "not Unicode"),
        (AddMessage(None, Queue.decoded("A\udfff"), "ID:1", b""), "not Unicode"),
        (AddMessage(None, Queue("A"), "ID:1", b"", 1 << 63), "more than 64 bits"),
    ],
)
def test_what_cannot_be_written_is_refused(command: Command, what: str) -> None:
    with pytest.raises(CodecError, match=what):
        encode(command)


def test_what_is_remembered_is_bounded() -> None:
    """Clients choose names; each of these is written right, however many there were."""
    for number in range(10_000):
        command = AddMessage(LocalTransactionId(number, None), Queue(f"Q.{number}"), "ID:1", bytes(number % 300))
        assert decoded(encode(command)) == command
    assert len(encoding._DESTINATIONS) <= 4096
    assert len(encoding._TRANSACTIONS) <= 4096
