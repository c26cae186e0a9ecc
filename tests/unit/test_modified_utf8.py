"""Java's form of UTF-8, both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.errors import CodecError
from jdbcstore.modified_utf8 import decode_any_utf8, decode_modified_utf8, encode_modified_utf8

any_text = st.text(st.characters(exclude_categories=()))


def as_java(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", ""),
        ("abc", "616263"),
        ("a\0b", "61c08062"),
        ("é€", "c3a9e282ac"),
        ("😀", "eda0bdedb880"),
        ("\ud83d", "eda0bd"),
        ("\ude00\ud83d", "edb880eda0bd"),
    ],
)
def test_modified_utf8(text: str, data: str) -> None:
    assert encode_modified_utf8(text).hex() == data
    assert decode_modified_utf8(bytes.fromhex(data)) == text
    assert decode_any_utf8(bytes.fromhex(data)) == text


@given(any_text)
def test_any_text_survives_modified_utf8(text: str) -> None:
    data = encode_modified_utf8(text)
    assert decode_modified_utf8(data) == as_java(text)
    assert b"\0" not in data


@given(st.text())
def test_utf8_is_read_too(text: str) -> None:
    assert decode_any_utf8(text.encode("utf-8")) == text


@given(st.binary(max_size=12))
def test_strict_reading_accepts_only_what_is_written(data: bytes) -> None:
    try:
        text = decode_modified_utf8(data)
    except CodecError:
        return
    assert encode_modified_utf8(text) == data


@pytest.mark.parametrize(
    ("data", "offset"), [(b"ab\0", 2), (b"\xc3\xa9\xf0\x9f\x98\x80", 2), (b"a\xff", 1), (b"\xc3", 0)]
)
def test_error_says_where(data: bytes, offset: int) -> None:
    with pytest.raises(CodecError) as caught:
        decode_modified_utf8(data, 100)
    assert caught.value.offset == 100 + offset
