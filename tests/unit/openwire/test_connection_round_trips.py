"""Any value that the tables allow survives a connection, in every wire version and encoding."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jdbcstore.destination import Queue
from jdbcstore.errors import CodecError
from jdbcstore.identifiers import ConsumerId, MessageId, ProducerId
from jdbcstore.message import Message, TextMessage
from jdbcstore.openwire import commands as c
from jdbcstore.openwire import marshal, unmarshal
from jdbcstore.openwire.connection_codec import ConnectionCodec
from jdbcstore.openwire.encoding import Encoding
from jdbcstore.openwire.fields import COMMANDS, VERSION_MAX, Command
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
