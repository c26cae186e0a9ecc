"""Any value that the tables allow survives a connection, in every wire version and encoding."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jdbcstore.destination import Queue
from jdbcstore.errors import CodecError
from jdbcstore.identifiers import BrokerId, ConnectionId, ConsumerId, LocalTransactionId, MessageId, ProducerId
from jdbcstore.message import BytesMessage, Message, TextMessage
from jdbcstore.openwire import commands as c
from jdbcstore.openwire import connection_codec, marshal, unmarshal
from jdbcstore.openwire.connection_codec import ConnectionCodec
from jdbcstore.openwire.connection_readers import ConnectionReaders
from jdbcstore.openwire.connection_writers import ConnectionWriters
from jdbcstore.openwire.encoding import Encoding
from jdbcstore.openwire.fields import COMMANDS, VERSION_MAX, Command, Field
from tests.examples import examples
from tests.unit.openwire.test_openwire_round_trips import tree, values_of

CACHE_SIZES = (1, 101, 1024)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.cls.__name__)
@settings(max_examples=examples(2), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_value_survives(command: Command, data: st.DataObject) -> None:
    version = data.draw(st.integers(command.since, VERSION_MAX))
    stack_traces = data.draw(st.booleans())
    slots = data.draw(st.sampled_from(CACHE_SIZES))
    # The second finds values in the cache.
    values = [data.draw(values_of(command.cls, version, stack_traces, depth=2)) for _ in range(2)]
    for tight, cached in itertools.product((False, True), repeat=2):
        encoding = Encoding(version, tight, cached, stack_traces)
        writer, reader = ConnectionCodec(encoding, slots), ConnectionCodec(encoding, slots)
        for value in values:
            written = writer.marshal(value)
            assert int.from_bytes(written[:4], "big") == len(written) - 4
            assert tree(reader.unmarshal(written[4:])) == tree(value), encoding


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.cls.__name__)
@settings(max_examples=examples(2), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_loose_without_cache_is_what_stores_hold(command: Command, data: st.DataObject) -> None:
    version = data.draw(st.integers(command.since, VERSION_MAX))
    stack_traces = data.draw(st.booleans())
    value = data.draw(values_of(command.cls, version, stack_traces, depth=2))
    written = ConnectionCodec(Encoding(version, stack_traces=stack_traces)).marshal(value)
    assert written == marshal(value, version)


@pytest.mark.parametrize("stack_traces", [False, True])
def test_an_exception_within_a_message_has_a_stack_trace_where_the_connection_has_them(stack_traces: bool) -> None:
    told = c.ConnectionError(exception=c.Throwable(class_name="java.lang.Exception", message="no"))
    for tight, cached in itertools.product((False, True), repeat=2):
        codec = ConnectionCodec(Encoding(tight=tight, cached=cached, stack_traces=stack_traces))
        read = codec.unmarshal(codec.marshal(Message(data_structure=told))[4:])
        assert isinstance(read, Message)
        assert isinstance(read.data_structure, c.ConnectionError)
        assert read.data_structure.exception is not None
        assert read.data_structure.exception.message == "no"


@pytest.mark.parametrize("tight", [False, True], ids=["loose", "tight"])
@pytest.mark.parametrize("slots", [1, 2, 99, 100, 101, 128])
def test_values_are_evicted_at_both_ends_alike(slots: int, tight: bool) -> None:
    encoding = Encoding(tight=tight, cached=True)
    writer, reader = ConnectionCodec(encoding, slots), ConnectionCodec(encoding, slots)
    for number in range(1000):
        message = TextMessage(
            destination=Queue(f"Q{number % 7}"),
            producer_id=ProducerId("c", number % 150, 1),
            message_id=MessageId(ProducerId("c", number, 1), number),
            target_consumer_id=ConsumerId("c", number, 1),
        )
        assert tree(reader.unmarshal(writer.marshal(message)[4:])) == tree(message)


def test_cache_is_as_before_if_a_frame_cannot_be_written() -> None:
    encoding = Encoding(tight=True, cached=True)
    writer, reader = ConnectionCodec(encoding, 128), ConnectionCodec(encoding, 128)
    broken: Any = "forty-two"
    for number in range(300):
        with pytest.raises(CodecError, match="group_sequence"):
            writer.marshal(TextMessage(producer_id=ProducerId("c", number, 1), group_sequence=broken))
        message = TextMessage(producer_id=ProducerId("c", number, 1))
        assert tree(reader.unmarshal(writer.marshal(message)[4:])) == tree(message)


stored_messages = values_of(TextMessage, 11, False, depth=0)


@settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)
@given(message=stored_messages, version=st.integers(1, VERSION_MAX), stored=st.sampled_from((1, 2, 6, 10, 11, 12)))
def test_stored_messages_are_dispatched_as_if_they_were_read(message: TextMessage, version: int, stored: int) -> None:
    frame = marshal(message, stored)
    dispatch = c.MessageDispatch(consumer_id=ConsumerId("c", 1, 2), destination=Queue("Q"), redelivery_counter=3)
    for tight, cached in itertools.product((False, True), repeat=2):
        encoding = Encoding(version, tight, cached)
        written = ConnectionCodec(encoding).marshal_stored(dispatch, frame, stored)
        assert dispatch.message is None
        whole = c.MessageDispatch(
            consumer_id=dispatch.consumer_id,
            destination=dispatch.destination,
            message=unmarshal(frame, stored),
            redelivery_counter=3,
        )
        assert written == ConnectionCodec(encoding).marshal(whole)


def test_a_version_has_no_types_of_a_later_one() -> None:
    for command in COMMANDS:
        if command.since > 1:
            with pytest.raises(CodecError, match="wire version 1 has no"):
                ConnectionCodec(Encoding(1, tight=True)).marshal(command.cls())


def test_an_error_names_the_field() -> None:
    wrong: Any = 5
    with pytest.raises(CodecError) as caught:
        ConnectionCodec(Encoding(tight=True)).marshal(c.SessionInfo(session_id=wrong))
    assert caught.value.field == "session_id"


_NOW_MS = 1_795_692_412_345
_USUAL: Mapping[str, Any] = {
    "command_id": 7,
    "destination": Queue("Q"),
    "producer_id": ProducerId("c", 1, 1),
    "message_id": MessageId(ProducerId("c", 1, 1), 1),
    "persistent": True,
    "priority": 4,
    "timestamp": _NOW_MS,
    "content": b"body",
}
_CHANGES: Sequence[Mapping[str, Any]] = (
    {},
    {"broker_in_time": _NOW_MS, "broker_out_time": _NOW_MS + 1},
    {"broker_in_time": _NOW_MS},
    {"timestamp": 0},
    {"expiration": _NOW_MS},
    {"arrival": 1},
    {"group_sequence": -1, "priority": -128, "redelivery_counter": 5},
    *({name: text} for name in ("group_id", "correlation_id", "type", "user_id") for text in ("", "grün")),
    {"reply_to": Queue("REPLIES")},
    {"broker_path": ()},
    {"cluster": (BrokerId("b"),)},
    {"target_consumer_id": ConsumerId("c", 1, 1)},
    {"data_structure": c.KeepAliveInfo()},
    {"transaction_id": LocalTransactionId(1, ConnectionId("c"))},
    *(
        {"broker_in_time": _NOW_MS, "broker_out_time": _NOW_MS, name: name != "persistent"}
        for name in ("persistent", "compressed", "received_by_df_bridge", "droppable", "first_for_consumer")
    ),
)


@pytest.mark.parametrize("cached", [False, True])
def test_usual_values_stand_in_a_frame_as_all_others(cached: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    encoding = Encoding(tight=True, cached=cached)
    messages = [BytesMessage(**{**_USUAL, **changes}) for changes in (*_CHANGES, *_CHANGES)]  # then with full caches
    writer, reader = ConnectionCodec(encoding), ConnectionCodec(encoding)
    frames = [writer.marshal(message) for message in messages]
    read = [reader.unmarshal(frame[4:]) for frame in frames]
    monkeypatch.setattr(connection_codec, "connection_writers", ConnectionWriters)
    monkeypatch.setattr(connection_codec, "connection_readers", ConnectionReaders)
    monkeypatch.setattr(Field, "is_regular", lambda *_, **__: False)
    writer, reader = ConnectionCodec(encoding), ConnectionCodec(encoding)
    for message, frame, found in zip(messages, frames, read, strict=True):
        assert frame == writer.marshal(message)
        assert tree(found) == tree(reader.unmarshal(frame[4:])) == tree(message)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timestamp", None),
        ("timestamp", 1 << 63),
        ("priority", 128),
        ("priority", None),
        ("group_sequence", "1"),
        ("redelivery_counter", 1 << 31),
        ("persistent", None),
        ("compressed", "no"),
        ("first_for_consumer", 2),
        ("broker_out_time", 1 << 63),
        ("broker_in_time", None),
        ("expiration", None),
        ("user_id", 1),
    ],
)
def test_an_error_names_which_of_the_usual_values_does_not_fit(name: str, value: object) -> None:
    message = BytesMessage(**{**_USUAL, "broker_in_time": _NOW_MS, "broker_out_time": _NOW_MS, name: value})
    with pytest.raises(CodecError) as caught:
        ConnectionCodec(Encoding(tight=True)).marshal(message)
    assert caught.value.field == name
