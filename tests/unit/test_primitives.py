"""Tagged values and primitive maps."""

from __future__ import annotations

import math
import pickle
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.errors import CodecError
from jdbcstore.primitives import (
    NESTING_MAX,
    Byte,
    Char,
    Float,
    Long,
    Short,
    Value,
    decode_map,
    decode_values,
    encode_map,
    encode_values,
    java_type,
)
from tests.examples import sampled

any_text = st.text(st.characters(exclude_categories=()))


def as_java(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


# --- maps -------------------------------------------------------------------------------------------------------------

EVERY_TYPE: dict[str, Value] = {
    "null": None,
    "true": True,
    "false": False,
    "byte": Byte(-128),
    "char": Char("\ud83d"),
    "short": Short(-32768),
    "int": -(1 << 31),
    "long": Long(5),
    "double": -0.0,
    "float": Float(1.1),
    "string": "Grüße 😀\0",
    "bytes": b"\0\xff",
    "map": {"nested": {"x": Byte(1)}},
    "list": [1, "two", None, [Short(3)]],
}


def test_every_type_survives_with_its_type() -> None:
    read = decode_map(encode_map(EVERY_TYPE))
    assert read == EVERY_TYPE
    assert list(read) == list(EVERY_TYPE)
    assert [(java_type(v), type(v)) for v in read.values()] == [(java_type(v), type(v)) for v in EVERY_TYPE.values()]


def test_bytes_of_a_map() -> None:
    assert encode_map({"k": "v", "n": 7}).hex() == "00000002" + "00016b" + "09000176" + "00016e" + "0500000007"


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats()
    | any_text.map(as_java)
    | st.binary()
    | st.integers(-128, 127).map(Byte)
    | st.integers(-(1 << 15), (1 << 15) - 1).map(Short)
    | st.integers(-(1 << 63), (1 << 63) - 1).map(Long)
    | st.integers(0, 0xFFFF).map(lambda unit: Char(chr(unit)))
    | st.binary(min_size=4, max_size=4).map(Float.from_raw),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text.map(as_java), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(any_text.map(as_java), values, max_size=6))
def test_any_map_is_written_back_to_the_same_bytes(entries: dict[str, Value]) -> None:
    data = encode_map(entries)
    assert encode_map(decode_map(data)) == data


@pytest.mark.parametrize("bits", ["7fc00000", "7f800001", "ffc12345", "7f800000", "80000000", "00000001"])
def test_float_keeps_its_bits(bits: str) -> None:
    data = struct.pack(">iH", 1, 0) + b"\x08" + bytes.fromhex(bits)
    assert encode_map(decode_map(data)) == data


@pytest.mark.parametrize("bits", ["7ff8000000000000", "7ff0000000000001", "fff8000000001234", "8000000000000000"])
def test_double_keeps_its_bits(bits: str) -> None:
    data = struct.pack(">iH", 1, 0) + b"\x07" + bytes.fromhex(bits)
    assert encode_map(decode_map(data)) == data


@pytest.mark.parametrize(
    ("text", "tag"), [("a" * 8190, 9), ("a" * 8191, 13), ("€" * 8190, 9), ("😀" * 4095, 9), ("😀" * 4095 + "a", 13)]
)
def test_string_is_big_by_its_utf16_units(text: str, tag: int) -> None:
    data = encode_map({"": text})
    assert data[6] == tag
    assert decode_map(data) == {"": text}


def test_either_string_tag_is_read_at_any_length() -> None:
    assert decode_map(b"\0\0\0\1\0\1k\x0d\0\0\0\1v") == {"k": "v"}
    assert decode_map(b"\0\0\0\1\0\1k\x09\xff\xff" + b"v" * 65535) == {"k": "v" * 65535}


def test_plain_numbers_take_the_smallest_of_int_and_long() -> None:
    assert [java_type(n) for n in (0, (1 << 31) - 1, 1 << 31, -(1 << 31) - 1)] == ["int", "int", "long", "long"]
    assert java_type(1.0) == "double"


def test_null_map_reads_as_empty() -> None:
    assert decode_map(b"\xff\xff\xff\xff") == {}
    assert decode_map(b"\0\0\0\0") == {}


def test_utf8_of_either_kind_is_read() -> None:
    raw = "😀\0".encode()
    assert decode_map(b"\0\0\0\1\0" + bytes([len(raw)]) + raw + b"\x09\0" + bytes([len(raw)]) + raw) == {"😀\0": "😀\0"}


@pytest.mark.parametrize("length", sampled(range(len(encode_map(EVERY_TYPE))), 40))
def test_every_truncation_of_a_map_is_an_error(length: int) -> None:
    with pytest.raises(CodecError):
        decode_map(encode_map(EVERY_TYPE)[:length])


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("00000000" + "00", "1 bytes follow"),
        ("7fffffff" + "00016b00", "2147483647 entries in 4 bytes"),
        ("fffffffe", "-2 entries"),
        ("00000001" + "00016b" + "0e", "14 is no primitive's tag"),
        ("00000001" + "00016b" + "0affffffff", "-1 bytes announced"),
        ("00000001" + "00016b" + "0a7fffffff", "2147483647 bytes announced"),
        ("00000001" + "00016b" + "0c7fffffff", "2147483647 values in 0 bytes"),
        ("00000001" + "00016b" + "0cffffffff", "-1 values"),
        ("00000001" + "00016b" + "0901ff", "511 bytes where 0 remain"),
        ("00000001" + "00016b" + "090001ff", "not UTF-8"),
        ("00000001" + "0001ff" + "00", "not UTF-8"),
    ],
)
def test_damaged_map_is_an_error_that_names_the_field(data: str, complaint: str) -> None:
    with pytest.raises(CodecError, match=complaint) as caught:
        decode_map(bytes.fromhex(data), "properties")
    assert caught.value.field == "properties"


def nested(depth: int) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for _ in range(depth):
        entries = {"": entries}
    return entries


def test_nesting_is_bounded() -> None:
    deepest = nested(NESTING_MAX)
    assert decode_map(encode_map(deepest)) == deepest
    with pytest.raises(CodecError, match="nest deeper"):
        encode_map({"": deepest})
    with pytest.raises(CodecError, match="nest deeper"):
        decode_map(b"\0\0\0\1\0\0\x0b" * 50_000 + b"\0\0\0\0")
    with pytest.raises(CodecError, match="nest deeper"):
        decode_map(b"\0\0\0\1\0\0" + b"\x0c\0\0\0\1" * 50_000 + b"\0")


@pytest.mark.parametrize(
    ("entries", "field"),
    [
        ({"a": {"b": [1, object()]}}, "properties.a.b[1]"),
        ({"a": 1 << 63}, "properties.a"),
        ({5: 1}, "properties.5"),
        ({"k" * 65536: 1}, "properties." + "k" * 65536),
    ],
)
def test_value_without_a_counterpart_in_java_is_an_error(entries: Any, field: str) -> None:
    with pytest.raises(CodecError) as caught:
        encode_map(entries, "properties")
    assert caught.value.field == field


def test_subclasses_are_written_as_what_they_are() -> None:
    class Name(str):
        __slots__ = ()

    class Count(int):
        pass

    assert encode_map({"k": Name("v"), "n": Count(3)}) == encode_map({"k": "v", "n": 3})


# --- streams ----------------------------------------------------------------------------------------------------------


def test_stream_is_values_one_after_another() -> None:
    scalars = [value for value in EVERY_TYPE.values() if not isinstance(value, dict | list)]
    assert decode_values(encode_values(scalars)) == scalars
    assert decode_values(b"") == []


@pytest.mark.parametrize("value", [{}, [], ()])
def test_stream_holds_no_containers(value: Any) -> None:
    with pytest.raises(CodecError, match="no maps and lists") as caught:
        encode_values([1, value], "body")
    assert caught.value.field == "body[1]"


def test_damaged_stream_says_at_which_value() -> None:
    with pytest.raises(CodecError) as caught:
        decode_values(encode_values([1, 2]) + b"\x05\0", "body")
    assert caught.value.field == "body[2]"


# --- typed values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "value"), [(Byte, 128), (Byte, -129), (Short, 1 << 15), (Long, 1 << 63)])
def test_number_has_to_fit_its_type(kind: Any, value: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        kind(value)


def test_float_has_to_fit_and_is_rounded() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        Float(1e300)
    assert Float(0.1) == struct.unpack(">f", struct.pack(">f", 0.1))[0]
    assert math.isinf(Float(math.inf))


@pytest.mark.parametrize("text", ["", "ab", "😀"])
def test_char_is_one_unit(text: str) -> None:
    with pytest.raises(ValueError, match="not one UTF-16 unit"):
        Char(text)


def test_typed_values_say_what_they_are_and_print_as_their_value() -> None:
    typed = [Byte(1), Short(2), Long(3), Char("c"), Float(0.5)]
    assert repr(typed) == "[Byte(1), Short(2), Long(3), Char('c'), Float(0.5)]"
    assert [str(value) for value in typed] == ["1", "2", "3", "c", "0.5"]
    assert pickle.loads(pickle.dumps(typed)) == typed
    assert [type(value) for value in pickle.loads(pickle.dumps(typed))] == [type(value) for value in typed]


def test_what_is_no_primitive_has_no_java_type() -> None:
    with pytest.raises(CodecError, match="no counterpart"):
        java_type(object())  # type: ignore[arg-type]  # on purpose
