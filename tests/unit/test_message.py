"""Messages: what is decoded when, what assigning stores, and what damaged bodies do."""

from __future__ import annotations

import pickle
import struct
import tracemalloc
import zlib
from typing import Any

import pytest

from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import CodecError
from jdbcstore.identifiers import BrokerId, MessageId, ProducerId
from jdbcstore.message import (
    BODY_BYTES_MAX,
    BlobMessage,
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from jdbcstore.primitives import Byte, Float, encode_map

KINDS = (Message, TextMessage, BytesMessage, MapMessage, StreamMessage, ObjectMessage, BlobMessage)


def text_content(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def compressed_text(data: bytes) -> TextMessage:
    return TextMessage(content=zlib.compress(text_content(data)), compressed=True)


# --- fields -----------------------------------------------------------------------------------------------------------


def test_defaults_are_those_of_jms() -> None:
    message = Message()
    assert (message.persistent, message.priority, message.expiration) == (True, 4, 0)
    assert (message.content, message.marshalled_properties, message.redelivered) == (None, None, False)
    assert BlobMessage().mime_type == "application/octet-stream"


@pytest.mark.parametrize("kind", KINDS)
def test_misspelt_field_is_refused(kind: type[Message]) -> None:
    with pytest.raises(TypeError):
        kind(corelation_id="x")  # type: ignore[call-arg]  # on purpose
    with pytest.raises(AttributeError):
        kind().corelation_id = "x"  # type: ignore[attr-defined]  # on purpose


@pytest.mark.parametrize(("counter", "redelivered"), [(0, False), (1, True), (7, True)])
def test_redelivered(counter: int, redelivered: bool) -> None:
    assert Message(redelivery_counter=counter).redelivered is redelivered


@pytest.mark.parametrize(("expiration", "expired"), [(0, False), (999, True), (1000, False), (1001, False)])
def test_expired(expiration: int, expired: bool) -> None:
    assert Message(expiration=expiration).expired(1000) is expired


def test_size_grows_with_what_it_carries() -> None:
    bare = Message().size
    assert Message(content=b"x" * 1000, marshalled_properties=b"y" * 100).size == bare + 1100
    assert 300 < bare < 2000


def test_size_is_near_the_truth() -> None:
    producer = ProducerId("c", 1, 1)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        made = [
            TextMessage(
                producer_id=producer, message_id=MessageId(producer, i), timestamp=i + 1_000, content=bytes(1024)
            )
            for i in range(500)
        ]
        taken = (tracemalloc.get_traced_memory()[0] - before) / len(made)
    finally:
        tracemalloc.stop()
    assert taken / 1.5 < made[0].size < taken * 1.5


def test_representation_is_short() -> None:
    message = TextMessage(destination=Queue("A"), message_id=MessageId(ProducerId("c", 1, 1), 2), content=bytes(10_000))
    assert repr(message) == "<TextMessage c:1:1:2 to queue://A>"


@pytest.mark.parametrize("kind", KINDS)
def test_copy_has_the_same_fields_and_goes_its_own_way(kind: type[Message]) -> None:
    original = kind(
        message_id=MessageId(ProducerId("c", 1, 1), 2, 3),
        destination=Queue("A"),
        broker_path=(BrokerId("b"),),
        content=b"\0\0\0\0",
    )
    original.properties = {"a": 1}
    copy = original.copy()
    assert type(copy) is kind
    assert (copy.message_id, copy.destination, copy.properties) == (original.message_id, Queue("A"), {"a": 1})
    assert copy.message_id is not None
    copy.message_id.broker_sequence_id = 99
    copy.destination = Topic("B")
    copy.set_property("b", 2)
    assert original.message_id is not None
    assert original.message_id.broker_sequence_id == 3
    assert (original.destination, original.properties) == (Queue("A"), {"a": 1})


@pytest.mark.parametrize("kind", KINDS)
def test_message_can_be_pickled(kind: type[Message]) -> None:
    original = kind(message_id=MessageId(ProducerId("c", 1, 1), 2), destination=Queue("A"), timestamp=5)
    original.properties = {"a": Byte(1)}
    assert original.properties["a"] == 1
    copy = pickle.loads(pickle.dumps(original))
    assert (copy.message_id, copy.destination, copy.timestamp) == (original.message_id, Queue("A"), 5)
    assert copy.properties == {"a": Byte(1)}


# --- properties -------------------------------------------------------------------------------------------------------


def test_no_properties() -> None:
    message = Message()
    assert message.properties == {}
    message.properties = {}
    assert message.marshalled_properties is None


def test_reading_properties_leaves_their_bytes_alone() -> None:
    stored = b"\0\0\0\1\0\1k\x0d\0\0\0\1v"  # a big string where a small one would do: we would not write this
    message = Message(marshalled_properties=stored)
    assert message.properties == {"k": "v"}
    assert message.marshalled_properties is stored


def test_properties_follow_the_stored_bytes() -> None:
    message = Message()
    message.properties = {"a": 1}
    assert message.properties == {"a": 1}
    message.marshalled_properties = encode_map({"b": 2})
    assert message.properties == {"b": 2}


def test_setting_one_property_keeps_the_others_and_their_types() -> None:
    message = Message()
    message.properties = {"a": Byte(1), "f": Float(0.5)}
    message.set_property("a", Byte(2))
    message.set_property("z", None)
    assert message.marshalled_properties == encode_map({"a": Byte(2), "f": Float(0.5), "z": None})


def test_properties_are_read_only() -> None:
    message = Message(marshalled_properties=encode_map({"a": 1}))
    with pytest.raises(TypeError):
        message.properties["a"] = 2  # type: ignore[index]  # on purpose


def test_property_without_a_counterpart_in_java_is_refused_when_set() -> None:
    message = Message()
    with pytest.raises(CodecError, match=r"in field properties\.when"):
        message.set_property("when", object())  # type: ignore[arg-type]  # on purpose
    assert message.properties == {}


def test_damaged_properties_are_an_error_when_read() -> None:
    message = Message(marshalled_properties=b"\0\0\0\5")
    with pytest.raises(CodecError) as caught:
        _ = message.properties
    assert caught.value.field == "properties"


# --- text -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [None, "", "hello", "Grüße 😀", "a\0b", "\ud83d"])
def test_text_is_what_was_assigned(text: str | None) -> None:
    message = TextMessage()
    message.text = text
    assert message.text == text
    assert (message.content is None) == (text is None)


def test_text_is_stored_as_javas_clients_store_it() -> None:
    message = TextMessage()
    message.text = "😀\0"
    assert message.content == bytes.fromhex("00000008eda0bdedb880c080")


def test_text_that_stomp_clients_stored_as_utf8_is_read() -> None:
    assert TextMessage(content=text_content("😀 café\0".encode())).text == "😀 café\0"


def test_length_minus_one_is_no_text() -> None:
    message = TextMessage(content=b"\xff\xff\xff\xff")
    assert (message.text, message.utf8_body, message.raw_text_bytes()) == (None, b"", b"")


@pytest.mark.parametrize("content", [b"", b"\0\0\0", b"\0\0\0\5abcd", b"\xff\xff\xff\xfe", b"\x7f\xff\xff\xff"])
def test_text_with_a_wrong_length_is_an_error(content: bytes) -> None:
    with pytest.raises(CodecError, match="in field content"):
        _ = TextMessage(content=content).text


def test_bytes_that_are_no_text_are_an_error_only_as_text() -> None:
    latin = TextMessage(content=text_content("café".encode("latin-1")))
    with pytest.raises(CodecError, match="not UTF-8"):
        _ = latin.text
    assert latin.utf8_body == latin.raw_text_bytes() == b"caf\xe9"


def test_raw_text_bytes_are_the_stored_ones() -> None:
    message = TextMessage()
    message.text = "😀"
    assert message.raw_text_bytes() == bytes.fromhex("eda0bdedb880")
    assert message.utf8_body == "😀".encode()
    assert TextMessage().raw_text_bytes() == TextMessage().utf8_body == b""


@pytest.mark.parametrize("body", [b"", b"plain", "café €".encode(), "😀".encode(), b"a\0b", "\ud7ff".encode()])
def test_utf8_body_is_what_was_assigned_and_javas_clients_can_read_it(body: bytes) -> None:
    message = TextMessage()
    message.utf8_body = body
    assert message.utf8_body == body
    assert message.text == body.decode("utf-8")
    java = TextMessage()
    java.text = body.decode("utf-8")
    assert message.content == java.content


def test_body_that_is_no_text_is_stored_as_it_came() -> None:
    message = TextMessage()
    message.utf8_body = b"\xff\xfe\0"
    assert message.content == text_content(b"\xff\xfe\0")
    assert message.utf8_body == b"\xff\xfe\0"


def test_lone_surrogate_becomes_a_question_mark_in_utf8() -> None:
    message = TextMessage()
    message.text = "a\ud83db"
    assert message.utf8_body == b"a?b"


# --- other bodies -----------------------------------------------------------------------------------------------------


def test_bytes_body() -> None:
    message = BytesMessage()
    assert message.body == b""
    message.body = b"\0\xff"
    assert (message.body, message.content) == (b"\0\xff", b"\0\xff")


def test_map_body() -> None:
    message = MapMessage()
    assert message.body == {}
    message.body = {"a": Byte(1), "l": [1, {"b": b"x"}]}
    assert message.body == {"a": Byte(1), "l": [1, {"b": b"x"}]}
    message.body = {}
    assert message.content is None


def test_stream_body() -> None:
    message = StreamMessage()
    assert message.values == ()
    message.values = [1, "two", None]
    assert list(message.values) == [1, "two", None]
    message.values = ()
    assert message.content is None


def test_object_body_is_not_looked_into() -> None:
    message = ObjectMessage()
    assert message.body is None
    message.body = b"\xac\xed\0\5p"
    assert message.body == b"\xac\xed\0\5p"


# --- compression ------------------------------------------------------------------------------------------------------


def test_compressed_text_is_inflated() -> None:
    message = compressed_text("😀 text".encode())
    assert message.text == "😀 text"
    assert message.raw_text_bytes() == message.utf8_body == "😀 text".encode()


def test_assigning_a_body_ends_the_compression() -> None:
    message = compressed_text(b"old")
    message.text = "new"
    assert (message.compressed, message.text) == (False, "new")


@pytest.mark.parametrize("kind", [MapMessage, StreamMessage, ObjectMessage])
def test_other_bodies_are_inflated_too(kind: Any) -> None:
    plain = kind()
    if kind is MapMessage:
        plain.body = {"a": 1}
    elif kind is StreamMessage:
        plain.values = [1]
    else:
        plain.body = b"\xac\xed\0\5p"
    packed = kind(content=zlib.compress(plain.content), compressed=True)
    attribute = "values" if kind is StreamMessage else "body"
    assert getattr(packed, attribute) == getattr(plain, attribute)


def test_compressed_bytes_are_cut_to_their_length() -> None:
    buffer = b"0123456789" + bytes(1018)
    message = BytesMessage(content=struct.pack(">i", 10) + zlib.compress(buffer), compressed=True)
    assert message.body == b"0123456789"
    assert BytesMessage(content=bytes(4) + zlib.compress(bytes(1028)), compressed=True).body == b""


@pytest.mark.parametrize(
    "content",
    [b"", b"\0\0\0", struct.pack(">i", 5) + zlib.compress(b"1234"), struct.pack(">i", -1) + zlib.compress(b"")],
)
def test_compressed_bytes_of_a_wrong_length_are_an_error(content: bytes) -> None:
    with pytest.raises(CodecError, match="in field content"):
        _ = BytesMessage(content=content, compressed=True).body


@pytest.mark.parametrize("damage", [b"", b"\0\0\0\1", zlib.compress(text_content(b"hello"))[:-3]])
def test_damaged_stream_is_an_error(damage: bytes) -> None:
    with pytest.raises(CodecError, match="in field content"):
        _ = TextMessage(content=damage, compressed=True).text


def bomb(inflated_bytes: int) -> bytes:
    deflater = zlib.compressobj(9)
    block = bytes(1 << 20)
    return b"".join([*(deflater.compress(block) for _ in range(inflated_bytes >> 20)), deflater.flush()])


def test_inflating_is_bounded_before_memory_is_taken() -> None:
    content = bomb(64 << 20)
    length = struct.pack(">i", 64 << 20)
    tracemalloc.start()
    try:
        for message in (
            TextMessage(content=content, compressed=True),
            BytesMessage(content=length + content, compressed=True),
        ):
            with pytest.raises(CodecError, match="1048576"):
                message.uncompressed_content(body_bytes_max=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_default_bound_is_a_hundred_mebibytes() -> None:
    assert BODY_BYTES_MAX == 100 << 20
    claim = struct.pack(">i", BODY_BYTES_MAX + 1)
    with pytest.raises(CodecError, match=str(BODY_BYTES_MAX)):
        _ = BytesMessage(content=claim + zlib.compress(b""), compressed=True).body


def test_body_at_the_bound_is_inflated() -> None:
    message = ObjectMessage(content=zlib.compress(bytes(1000)), compressed=True)
    assert message.uncompressed_content(body_bytes_max=1000) == bytes(1000)
    with pytest.raises(CodecError, match="more than 999"):
        message.uncompressed_content(body_bytes_max=999)
