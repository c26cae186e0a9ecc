"""The XID column, with what ActiveMQ was seen to write."""

from __future__ import annotations

from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.errors import CodecError, ConfigurationError, StoreError
from jdbcstore.identifiers import XATransactionId, xid_of_text, xid_text
from jdbcstore.store.jdbc.xid import (
    ack_xid,
    added_xid,
    check_xid,
    plain_xid,
    read_ack_xid,
    read_message_xid,
    read_xid,
    removed_xid,
)

ADD = "KwAAAAAAAAAAAAAAADcACEdMT0JBTC0xQlI="
ACK = "AAAAAAAAAAAGBAAAADcACEdMT0JBTC0yQlI="

part = st.binary(max_size=64)
xids = st.builds(XATransactionId, st.integers(-(1 << 31), (1 << 31) - 1), part, part)


def test_samples_of_activemq() -> None:
    first, second = XATransactionId(55, b"GLOBAL-1", b"BR"), XATransactionId(55, b"GLOBAL-2", b"BR")
    assert added_xid(first) == ADD
    assert read_message_xid(ADD) == (first, True)
    assert ack_xid(second, 6, 4) == ACK
    assert read_ack_xid(ACK) == (second, 6, 4)


@given(xids, st.integers(-1, (1 << 63) - 1), st.integers(0, 9))
def test_what_is_written_is_read(xid: XATransactionId, upto: int, level: int) -> None:
    check_xid(xid)
    assert read_message_xid(added_xid(xid)) == (xid, True)
    assert read_message_xid(removed_xid(xid)) == (xid, False)
    assert read_ack_xid(ack_xid(xid, upto, level)) == (xid, upto, level)
    assert read_xid(plain_xid(xid)) == xid
    assert len(ack_xid(xid, upto, level)) <= 192
    assert xid_of_text(xid_text(xid)) == xid


@given(xids, st.binary(min_size=10, max_size=10))
def test_bytes_that_are_left_over_say_nothing(xid: XATransactionId, left_over: bytes) -> None:
    """ActiveMQ writes the next column into the array of the last."""
    rest = b64decode(plain_xid(xid))[10:]
    column = b64encode(left_over + rest).decode()
    assert read_message_xid(column) == (xid, left_over[:1] == b"+")
    assert read_ack_xid(column)[:2] == (xid, int.from_bytes(left_over[1:9], "big", signed=True))


@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda data: b64encode(data).decode()))
def test_what_is_no_xid_is_told(text: str) -> None:
    try:
        xid = read_xid(text)
    except CodecError:
        return
    assert b64decode(plain_xid(xid))[10:] == b64decode(text)[10:]


@pytest.mark.parametrize("column", ["", "KwAA", "not base64!", ADD[:-8] + "AAAA", b64encode(b"\x7f" * 20).decode()])
def test_short_or_foreign(column: str) -> None:
    if column.startswith(ADD[:8]):
        assert read_xid(column) != read_xid(ADD)
    else:
        with pytest.raises(CodecError):
            read_xid(column)


@pytest.mark.parametrize("text", ["", "55", "55:zz:00", "x:00:00", "1:2:3:4", "1:000:00"])
def test_texts_that_are_no_transaction_id(text: str) -> None:
    with pytest.raises(ConfigurationError, match="FORMAT:GLOBAL:BRANCH"):
        xid_of_text(text)


@pytest.mark.parametrize("xid", [XATransactionId(1, b"x" * 65, b""), XATransactionId(1, b"", b"x" * 65)])
def test_parts_that_are_too_long(xid: XATransactionId) -> None:
    with pytest.raises(StoreError, match="65 bytes"):
        check_xid(xid)


def test_a_format_id_that_is_too_large() -> None:
    with pytest.raises(StoreError, match="32-bit"):
        check_xid(XATransactionId(1 << 31, b"", b""))
