"""Strings of identifiers, as ActiveMQ builds and parses them."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.identifiers import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
    XATransactionId,
)

longs = st.integers(-(1 << 63), (1 << 63) - 1)


def test_strings() -> None:
    connection = "ID:host-40001-1700000000000-1:1"
    assert str(ConnectionId(connection)) == connection
    assert str(BrokerId("b")) == "b"
    assert str(SessionId(connection, 2)) == f"{connection}:2"
    assert str(ConsumerId(connection, 2, 3)) == f"{connection}:2:3"
    assert str(ProducerId(connection, value=3, session_id=2)) == f"{connection}:2:3"
    assert str(MessageId(ProducerId(connection, 3, 2), 4)) == f"{connection}:2:3:4"
    assert str(LocalTransactionId(5, ConnectionId(connection))) == f"TX:{connection}:5"


def test_null_is_printed_as_java_prints_it() -> None:
    assert str(ProducerId(None, 0, 0)) == "null:0:0"
    assert str(MessageId(None, 1)) == "null:1"
    assert str(LocalTransactionId(1, None)) == "TX:null:1"


@pytest.mark.parametrize(
    ("text", "connection", "session", "producer", "sequence"),
    [
        ("ID:h-1-2-3:1:1:1:5", "ID:h-1-2-3:1", 1, 1, 5),
        ("ID:h-1-2-3:1:-1:1:16", "ID:h-1-2-3:1", -1, 1, 16),
        ("abc:5", "abc", 0, 0, 5),
        ("abc:2:5", "abc", 0, 2, 5),
        ("abc:+1:2:-5", "abc", 1, 2, -5),
        (":1", "", 0, 0, 1),
        ("a:9223372036854775807", "a", 0, 0, (1 << 63) - 1),
    ],
)
def test_message_id_is_parsed(text: str, connection: str, session: int, producer: int, sequence: int) -> None:
    parsed = MessageId.parse(text)
    assert parsed.producer_id == ProducerId(connection, producer, session)
    assert parsed.producer_sequence_id == sequence
    assert parsed.text_view is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "some-foreign-id",
        "a:",
        "a:b",
        "a:b:1",
        "ID:a:b:1:1",
        "a:9223372036854775808",
        "a:١",
        "a: 1",
        "a:" + "1" * 5000,
    ],
)
def test_text_that_is_no_message_id_is_kept(text: str) -> None:
    parsed = MessageId.parse(text)
    assert parsed.text_view == text
    assert parsed == MessageId(ProducerId(None, 0, 0), 0)
    assert str(parsed) == (text if text.startswith("ID:") else f"ID:{text}")


@given(st.text(), longs, longs, longs)
def test_message_id_string_parses_to_itself(connection: str, session: int, producer: int, sequence: int) -> None:
    made = MessageId(ProducerId(connection, producer, session), sequence)
    assert MessageId.parse(str(made)) == made


@given(st.text(), longs, longs)
def test_producer_id_string_parses_to_itself(connection: str, session: int, producer: int) -> None:
    made = ProducerId(connection, producer, session)
    assert ProducerId.parse(str(made)) == made


@pytest.mark.parametrize("text", ["", "a", "a:1", "a:x:1", "a:1:x"])
def test_text_that_is_no_producer_id_is_all_connection(text: str) -> None:
    assert ProducerId.parse(text) == ProducerId(text, 0, 0)


def test_equality_of_message_ids_ignores_the_store_and_the_text() -> None:
    producer = ProducerId("c", 1, 1)
    same = {MessageId(producer, 1), MessageId(producer, 1, 99), MessageId(producer, 1, 0, "text")}
    assert len(same) == 1
    assert MessageId(producer, 1) != MessageId(producer, 2)
    assert MessageId(producer, 1) != MessageId(ProducerId("d", 1, 1), 1)
    assert MessageId(producer, 1) != "c:1:1:1"


def test_copy_of_a_message_id_goes_its_own_way() -> None:
    original = MessageId(ProducerId("c", 1, 1), 1, 2, "text")
    copy = original.copy()
    copy.broker_sequence_id = 3
    assert (original.broker_sequence_id, copy.text_view) == (2, "text")


@pytest.mark.parametrize(
    ("identity", "text"),
    [
        (
            XATransactionId(4660, bytes.fromhex("0a0b0c0d"), bytes.fromhex("1415")),
            "XID:[4660,globalId=abcd,branchId=1415]",
        ),
        (XATransactionId(1, b"\xfd\x00\x80", b"\x7f"), "XID:[1,globalId=fffffffd0ffffff80,branchId=7f]"),
        (XATransactionId(-1, b"", b""), "XID:[-1,globalId=,branchId=]"),
        (XATransactionId(0, None, None), "XID:[0,globalId=,branchId=]"),
        (XATransactionId(131077, b"\x0a", b""), "XID:[131077,globalId=a,branchId=]"),
        (
            XATransactionId(
                131077, bytes.fromhex("001f3e5d7c9bbad9f81736557493b2d1f00f2e4d6c8baac9e8072645ff"), b"\x01"
            ),
            "XID:[131077,globalId=1f3e5d7c9bbad9:-7e8c9aa8b6c4d2f:-ff0d1b3:6c8baac9:-17f8d9bb,branchId=1]",
        ),
    ],
)
def test_xa_string_is_the_one_activemq_compares(identity: XATransactionId, text: str) -> None:
    assert str(identity) == text


def test_identifiers_can_be_pickled_and_compared() -> None:
    for identity in (ConnectionId("c"), SessionId("c", 1), ConsumerId("c", 1, 2), ProducerId("c", 1, 2), BrokerId("b")):
        assert pickle.loads(pickle.dumps(identity)) == identity
        assert len({identity, pickle.loads(pickle.dumps(identity))}) == 1
