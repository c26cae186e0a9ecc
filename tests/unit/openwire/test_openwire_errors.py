"""Wrong bytes and wrong values are a `CodecError` that says where."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import pytest

from jdbcstore.destination import Queue
from jdbcstore.errors import CodecError
from jdbcstore.identifiers import BrokerId, ConnectionId, ConsumerId, MessageId, ProducerId
from jdbcstore.message import BlobMessage, Message, TextMessage
from jdbcstore.openwire import STORE_VERSION, marshal, unmarshal, unmarshal_message
from jdbcstore.openwire.commands import (
    BrokerInfo,
    DataArrayResponse,
    DataResponse,
    ExceptionResponse,
    KeepAliveInfo,
    MessageAck,
    MessagePull,
    ProducerAck,
    StackTraceElement,
    SubscriptionInfo,
    Throwable,
    WireFormatInfo,
)
from jdbcstore.openwire.readers import NESTING_MAX

PRODUCER = ProducerId("ID:host-1-2-3:1", 1, 1)


def message() -> TextMessage:
    made = TextMessage(
        producer_id=PRODUCER,
        destination=Queue("ORDERS"),
        message_id=MessageId(PRODUCER, 7, 9),
        correlation_id="c",
        broker_path=(BrokerId("a"), None),
        data_structure=SubscriptionInfo(client_id="me"),
    )
    made.text = "hello"
    made.properties = {"a": 1}
    return made


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def patched(data: bytes, offset: int, new: bytes) -> bytes:
    return data[:offset] + new + data[offset + len(new) :]


# --- reading ----------------------------------------------------------------------------------------------------------


def test_every_truncation_is_an_error() -> None:
    data = marshal(message())
    for length in range(len(data)):
        with pytest.raises(CodecError):
            unmarshal(data[:length])


def test_every_truncation_with_a_matching_size_names_a_field_and_a_byte_within_it() -> None:
    data = marshal(message())
    for length in range(5, len(data)):
        with pytest.raises(CodecError) as caught:
            unmarshal(framed(data[4:length]))
        assert caught.value.offset is not None
        assert caught.value.offset <= length
        assert caught.value.field is not None


@pytest.mark.parametrize(
    ("length", "field"),
    [
        (5, "command_id"),
        (9, "response_required"),
        (10, "producer_id"),
        (20, "producer_id.connection_id"),
        (35, "producer_id.value"),
        (43, "producer_id.session_id"),
    ],
)
def test_truncation_names_the_field_that_lacks_bytes(length: int, field: str) -> None:
    with pytest.raises(CodecError) as caught:
        unmarshal(framed(marshal(message())[4:length]))
    assert caught.value.field == field


@pytest.mark.parametrize(("text", "field"), [(b"hello", "content"), (b"me", "data_structure.client_id")])
def test_truncation_within_bytes_and_text_names_them(text: bytes, field: str) -> None:
    data = marshal(message())
    with pytest.raises(CodecError, match="remain") as caught:
        unmarshal(framed(data[4 : data.index(text) + 1]))
    assert caught.value.field == field
    assert caught.value.offset is not None
    assert data[caught.value.offset] == 1


@pytest.mark.parametrize("size", [0, -1, 10, 1 << 20, -(1 << 31)])
def test_size_has_to_be_right(size: int) -> None:
    data = patched(marshal(message()), 0, struct.pack(">i", size))
    with pytest.raises(CodecError, match="announces") as caught:
        unmarshal(data)
    assert (caught.value.offset, caught.value.field) == (0, "size")


def test_trailing_bytes_are_an_error() -> None:
    data = marshal(message())
    with pytest.raises(CodecError, match="2 bytes follow the last field") as caught:
        unmarshal(framed(data[4:] + b"\0\0"))
    assert caught.value.offset == len(data)


@pytest.mark.parametrize("type_id", [0, 13, 71, 200, 255])
def test_unknown_type_is_an_error(type_id: int) -> None:
    with pytest.raises(CodecError, match=f"{type_id} is no type id") as caught:
        unmarshal(patched(marshal(message()), 4, bytes([type_id])))
    assert (caught.value.offset, caught.value.field) == (4, "type")


@pytest.mark.parametrize(("value", "version"), [(MessagePull(), 1), (ProducerAck(), 2), (BlobMessage(), 2)])
def test_type_that_the_version_does_not_have_is_an_error(value: Any, version: int) -> None:
    with pytest.raises(CodecError, match=f"wire version {version} has no"):
        unmarshal(marshal(value, version + 1), version)
    with pytest.raises(CodecError, match=f"wire version {version} has no"):
        marshal(value, version)


@pytest.mark.parametrize(("offset", "field"), [(9, "response_required"), (10, "producer_id")])
def test_flag_other_than_0_and_1_is_an_error(offset: int, field: str) -> None:
    with pytest.raises(CodecError, match="flag") as caught:
        unmarshal(patched(marshal(message()), offset, b"\2"))
    assert (caught.value.offset, caught.value.field) == (offset, field)


def test_object_of_a_class_that_the_field_cannot_have_is_an_error() -> None:
    data = marshal(message()).replace(b"\x01\x7b", b"\x01\x64", 1)
    with pytest.raises(CodecError, match="an object of type 100, expected 123") as caught:
        unmarshal(data)
    assert caught.value.field == "producer_id"


@pytest.mark.parametrize("damage", [b"\x00", b"\xff", b"\xf0\x9f\x98\x80", b"\xc1\x81", b"\xe0\x80\x80"])
def test_text_that_java_would_not_write_is_an_error(damage: bytes) -> None:
    data = marshal(SubscriptionInfo(client_id="abcdef"))
    with pytest.raises(CodecError) as caught:
        unmarshal(patched(data, 8, damage), STORE_VERSION)
    assert (caught.value.offset, caught.value.field) == (8, "client_id")


def test_error_names_the_element_of_an_array() -> None:
    data = marshal(message())
    offset = data.index(b"\x01\x00\x02\x01\x7c")
    with pytest.raises(CodecError) as caught:
        unmarshal(patched(data, offset + 6, b"\xff\xff"))
    assert caught.value.field == "broker_path[0].value"


def test_destination_without_a_name_is_an_error() -> None:
    for name in (b"\x00", b"\x01\x00\x00"):
        with pytest.raises(CodecError, match="without a name"):
            unmarshal(framed(b"\x64" + name))


@pytest.mark.parametrize("claim", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00"])
def test_length_is_compared_with_what_remains_before_memory_is_taken(claim: bytes) -> None:
    data = marshal(message())
    data = patched(data, data.index(b"\x00\x00\x00\x09\x00\x00\x00\x05hello"), claim)
    tracemalloc.start()
    try:
        with pytest.raises(CodecError):
            unmarshal(data)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_count_of_an_array_is_compared_with_what_remains() -> None:
    with pytest.raises(CodecError, match="32767 elements in 3 bytes"):
        unmarshal(framed(b"\x21" + bytes(9) + b"\x01\x7f\xff" + bytes(3)))
    with pytest.raises(CodecError, match="-1 elements"):
        unmarshal(framed(b"\x21" + bytes(9) + b"\x01\xff\xff" + bytes(3)))


def test_nesting_is_bounded_when_reading() -> None:
    head, tail = b"\x20" + bytes(9), b"\x00"
    depth = 200_000
    with pytest.raises(CodecError, match="nest deeper"):
        unmarshal(framed(b"\x01".join([head] * depth) + tail))


def test_causes_nest_boundedly() -> None:
    one = b"\x01\x00\x00\x00\x00"
    with pytest.raises(CodecError):
        unmarshal(framed(b"\x1f" + bytes(9) + one * 100_000 + b"\x00"))


@pytest.mark.parametrize("version", [0, 13, -1, 256])
def test_unknown_version_is_an_error(version: int) -> None:
    with pytest.raises(CodecError, match="there is no wire version"):
        unmarshal(marshal(message()), version)
    with pytest.raises(CodecError, match="there is no wire version"):
        marshal(message(), version)


def test_where_a_message_is_needed_nothing_else_will_do() -> None:
    with pytest.raises(CodecError, match="holds a KeepAliveInfo"):
        unmarshal_message(marshal(KeepAliveInfo()))
    with pytest.raises(CodecError, match="holds a NoneType"):
        unmarshal_message(b"\0\0\0\1\0")
    assert isinstance(unmarshal_message(marshal(message())), TextMessage)


@pytest.mark.parametrize("convert", [bytes, bytearray, memoryview])
def test_anything_that_holds_bytes_is_read(convert: Any) -> None:
    read = unmarshal_message(convert(marshal(message())))
    assert type(read.content) is bytes
    assert marshal(read) == marshal(message())


# --- recognising ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 13))
def test_version_is_recognised(version: int) -> None:
    sent = message()
    data = marshal(sent, version)
    read = unmarshal_message(data)
    assert marshal(read, version) == data
    assert read.message_id == sent.message_id
    assert read.correlation_id == "c"


@pytest.mark.parametrize("version", range(1, 13))
def test_stack_traces_are_recognised(version: int) -> None:
    stack = (StackTraceElement(class_name="C", method="m", file=None, line=3),)
    exception = Throwable(class_name="E", message="x", stack=stack, cause=Throwable(class_name="F", stack=()))
    data = marshal(ExceptionResponse(exception=exception), version)
    assert unmarshal(data).exception == exception
    assert marshal(unmarshal(data), version) == data


def test_the_null_frame_is_none() -> None:
    assert unmarshal(b"\0\0\0\1\0") is None
    assert marshal(None) == b"\0\0\0\1\0"


# --- writing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("command_id", 1 << 31, "integer of 32 bits"),
        ("command_id", "1", "integer of 32 bits"),
        ("persistent", "false", "True or False"),
        ("persistent", 2, "True or False"),
        ("response_required", 2, "True or False"),
        ("compressed", [], "True or False"),
        ("priority", 128, "integer of 8 bits"),
        ("expiration", 1.5, "integer of 64 bits"),
        ("timestamp", None, "integer of 64 bits"),
        ("broker_in_time", 1 << 63, "integer of 64 bits"),
        ("producer_id", Queue("Q"), "ProducerId expected"),
        ("destination", "queue://Q", "Queue or Topic"),
        ("reply_to", PRODUCER, "Queue or Topic"),
        ("message_id", "ID:1", "MessageId expected"),
        ("group_id", 5, "a text expected"),
        ("correlation_id", "x" * 65536, "65535 is the longest"),
        ("correlation_id", "\0" * 32768, "65535 is the longest"),
        ("content", "text", "bytes expected"),
        ("broker_path", BrokerId("b"), "a list or tuple expected"),
        ("broker_path", [None] * 32768, "32767 are the most"),
        ("data_structure", object(), "object is no OpenWire type"),
    ],
)
def test_value_that_does_not_fit_its_field_is_an_error(field: str, value: Any, complaint: str) -> None:
    wrong = message()
    setattr(wrong, field, value)
    with pytest.raises(CodecError, match=complaint) as caught:
        marshal(wrong)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (Message(message_id=MessageId(ProducerId("c", 1 << 63, 1), 1)), "message_id.producer_id.value"),
        (Message(message_id=MessageId(None, 1 << 63)), "message_id.producer_sequence_id"),
        (Message(target_consumer_id=ConsumerId("x" * 70_000, 1, 1)), "target_consumer_id.connection_id"),
        (Message(broker_path=[None, BrokerId(5)]), "broker_path[1].value"),  # type: ignore[arg-type]  # on purpose
        (Message(cluster=[PRODUCER]), "cluster[0]"),  # type: ignore[list-item]  # on purpose
        (MessageAck(poison_cause="boom"), "poison_cause"),  # type: ignore[arg-type]  # on purpose
        (WireFormatInfo(magic=b"short"), "magic"),
        (DataResponse(data=BrokerInfo(broker_id=ConnectionId("c"))), "data.broker_id"),  # type: ignore[arg-type]  # on purpose
    ],
)
def test_error_names_the_path_to_the_value(value: Any, field: str) -> None:
    with pytest.raises(CodecError) as caught:
        marshal(value)
    assert caught.value.field == field


def test_what_is_no_value_is_an_error() -> None:
    for nonsense in (5, "text", object(), TextMessage):
        with pytest.raises(CodecError, match="is no OpenWire type"):
            marshal(nonsense)


def test_nesting_is_bounded_when_writing() -> None:
    endless = DataArrayResponse()
    endless.data = (endless,)
    with pytest.raises(CodecError, match="nest deeper"):
        marshal(endless)
    cause = Throwable(stack=())
    cause.cause = cause
    with pytest.raises(CodecError, match="nest deeper"):
        marshal(ExceptionResponse(exception=cause))


def test_what_can_be_written_can_be_read_at_the_deepest_nesting() -> None:
    value: Any = DataResponse(data=BrokerId("b"))
    for _ in range(NESTING_MAX - 1):
        value = DataResponse(data=value)
    assert unmarshal(marshal(value)) == value
    with pytest.raises(CodecError, match="nest deeper"):
        marshal(DataResponse(data=DataResponse(data=value)))


# --- values shared between messages -----------------------------------------------------------------------------------


def test_producers_and_destinations_that_come_again_are_the_same_objects() -> None:
    first, second = unmarshal_message(marshal(message())), unmarshal_message(marshal(message()))
    assert first.producer_id is second.producer_id
    assert first.destination is second.destination
    assert first.message_id is not second.message_id


def test_producer_without_a_connection_at_the_end_of_a_frame() -> None:
    nobody = ProducerId(None, 0, 0)
    assert unmarshal(marshal(Message(producer_id=nobody))).producer_id == nobody
    assert unmarshal(marshal(DataResponse(data=nobody))).data == nobody


def test_fields_that_a_version_lacks_get_javas_defaults() -> None:
    ack = unmarshal(marshal(MessageAck(poison_cause=Throwable(class_name="E")), 6), 6)
    assert ack.poison_cause is None
    assert unmarshal(marshal(MessageId(PRODUCER, 1, 2, "foreign"), 9), 9).text_view is None
