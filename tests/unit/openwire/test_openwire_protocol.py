"""One connection: negotiation, what is allowed when, limits."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from jdbcstore.destination import Queue
from jdbcstore.errors import CodecError, ConfigurationError
from jdbcstore.identifiers import ConnectionId, ConsumerId
from jdbcstore.message import TextMessage
from jdbcstore.openwire import commands as c
from jdbcstore.openwire import marshal
from jdbcstore.openwire.connection_codec import ConnectionCodec
from jdbcstore.openwire.encoding import Encoding
from jdbcstore.openwire.fields import COMMANDS
from jdbcstore.openwire.frames import FrameCutter
from jdbcstore.openwire.protocol import FIRST_FRAME_BYTES_MAX, TABLE, Failure, OpenWireConnection, State
from jdbcstore.openwire.wire_format import WireFormat

CONNECT = c.ConnectionInfo(command_id=1, response_required=True, connection_id=ConnectionId("ID:c"))
COMMAND_CLASSES = [command.cls for command in COMMANDS if command.type_id < 100 and command.cls is not c.WireFormatInfo]


class Client:
    """The other end of a connection."""

    def __init__(self, broker: OpenWireConnection, options: WireFormat | None = None) -> None:
        self.broker = broker
        self.greeting = marshal((options or WireFormat()).info())
        self.codec = ConnectionCodec(Encoding())

    def greet(self) -> None:
        (info,) = self.broker.receive(self.greeting)
        assert isinstance(info, c.WireFormatInfo)
        assert self.broker.agreed is not None
        self.codec = ConnectionCodec(self.broker.agreed.encoding, self.broker.agreed.cache_size)

    def say(self, command: object) -> list[Any]:
        return list(self.broker.receive(self.codec.marshal(command)))

    def hear(self, data: bytes) -> list[Any]:
        heard = []
        while data:
            end = 4 + int.from_bytes(data[:4], "big")
            heard.append(self.codec.unmarshal(data[4:end]))
            data = data[end:]
        return heard


@pytest.fixture
def client() -> Client:
    client = Client(OpenWireConnection(WireFormat()))
    client.greet()
    return client


def test_a_client_connects_and_gets_its_answer(client: Client) -> None:
    assert client.say(CONNECT) == [CONNECT]
    assert client.broker.state is State.CONNECTED
    answer = c.Response(command_id=7, correlation_id=CONNECT.command_id)
    assert client.hear(client.broker.send(answer)) == [answer]


def test_any_chunks_are_fine(client: Client) -> None:
    session = c.SessionInfo(command_id=2)
    data = client.codec.marshal(CONNECT) + client.codec.marshal(session)
    events = [event for byte in data for event in client.broker.receive(bytes((byte,)))]
    assert events == [CONNECT, session]
    assert client.broker.held_bytes == 0


def test_frames_are_read_so_many_at_once(client: Client) -> None:
    client.say(CONNECT)
    data = b"".join(client.codec.marshal(c.SessionInfo(command_id=number)) for number in range(5))
    numbers = [[event.command_id for event in client.broker.receive(data, 2)]]  # type: ignore[union-attr]  # sessions
    while client.broker.has_more:
        numbers.append([event.command_id for event in client.broker.receive(b"", 2)])  # type: ignore[union-attr]  # sessions
    assert numbers == [[0, 1], [2, 3], [4]]


def test_start_is_the_options_in_loose_form() -> None:
    options = WireFormat(host="h", provider_name="jdbcstore", max_inactivity_ms=1234, cache_size=77)
    broker = OpenWireConnection(options)
    info = ConnectionCodec(Encoding()).unmarshal(broker.start()[4:])
    assert WireFormat.of(info) == options
    with pytest.raises(RuntimeError, match="has been started"):
        broker.start()


@pytest.mark.parametrize("version", range(1, 13))
@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_the_lower_version_and_common_options_hold(version: int, tight: bool, cached: bool) -> None:
    options = WireFormat(version=version, tight_encoding_enabled=tight, cache_enabled=cached, cache_size=200)
    client = Client(OpenWireConnection(WireFormat(cache_size=300, stack_trace_enabled=False)), options)
    client.greet()
    agreed = client.broker.agreed
    assert agreed is not None
    assert agreed.encoding == Encoding(version, tight, cached, stack_traces=False)
    assert agreed.cache_size == 200
    assert [type(event) for event in client.say(CONNECT)] == [c.ConnectionInfo]


def test_negotiation_of_sizes_and_times() -> None:
    ours = WireFormat(
        max_frame_size=0, max_inactivity_ms=30_000, tcp_no_delay_enabled=False, size_prefix_disabled=False
    )
    theirs = WireFormat(max_frame_size=500, max_inactivity_ms=0, max_inactivity_initial_delay_ms=7)
    agreed = ours.agreed(theirs)
    assert (agreed.max_frame_size, agreed.max_inactivity_ms, agreed.max_inactivity_initial_delay_ms) == (500, 0, 7)
    assert not agreed.tcp_no_delay_enabled


def test_an_option_left_out_is_off() -> None:
    read = WireFormat.of(c.WireFormatInfo(version=99))
    assert read == WireFormat(
        cache_enabled=False,
        cache_size=0,
        tight_encoding_enabled=False,
        stack_trace_enabled=False,
        tcp_no_delay_enabled=False,
        max_inactivity_ms=0,
        max_inactivity_initial_delay_ms=0,
        max_frame_size=0,
        max_frame_size_enabled=False,
    )


@pytest.mark.parametrize("info", [c.WireFormatInfo(magic=b"ActiveMX"), c.WireFormatInfo(version=0)])
def test_what_is_no_wire_format_is_refused(info: c.WireFormatInfo) -> None:
    broker = OpenWireConnection(WireFormat())
    (failure,) = broker.receive(marshal(info))
    assert isinstance(failure, Failure)
    assert broker.close_expected
    assert broker.data_to_send() == b""  # the client would not know how to read it


def test_options_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="wire version 13"):
        WireFormat(version=13)
    with pytest.raises(ConfigurationError, match="cache size"):
        WireFormat(cache_size=16384)
    with pytest.raises(ConfigurationError, match="without a size"):
        OpenWireConnection(WireFormat(size_prefix_disabled=True))


@pytest.mark.parametrize("cls", COMMAND_CLASSES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("state", [State.EXPECTING_WIRE_FORMAT, State.EXPECTING_CONNECTION, State.CONNECTED])
def test_commands_are_allowed_by_state(cls: Callable[[], Any], state: State) -> None:
    client = Client(OpenWireConnection(WireFormat()))
    if state is not State.EXPECTING_WIRE_FORMAT:
        client.greet()
    if state is State.CONNECTED:
        client.say(CONNECT)
    assert client.broker.state is state
    events = client.say(cls()) if client.broker.agreed else client.broker.receive(marshal(cls(), 12))
    if cls not in TABLE[state]:
        assert isinstance(events[0], Failure)
        assert "is not allowed" in str(events[0].error)
        assert client.broker.state is State.CLOSED
        assert client.say(CONNECT) == []
    elif cls is c.KeepAliveInfo:
        assert events == []
        assert client.broker.state is state
    else:
        assert [type(event) for event in events] == [cls]
        assert client.broker.state is (TABLE[state][cls] or state)  # type: ignore[index]  # a class


def test_a_failure_follows_the_events_before_it_and_the_client_is_told(client: Client) -> None:
    data = client.codec.marshal(CONNECT) + b"\x00\x00\x00\x02\xff\x00" + client.codec.marshal(c.SessionInfo())
    events = client.broker.receive(data)
    assert [type(event) for event in events] == [c.ConnectionInfo, Failure]
    (error,) = client.hear(client.broker.data_to_send())
    assert isinstance(error, c.ConnectionError)
    assert error.exception is not None
    assert "255 is no type id" in str(error.exception.message)
    assert client.broker.close_expected
    assert client.broker.send(c.Response()) == b""


def test_keep_alive_is_answered(client: Client) -> None:
    assert client.say(c.KeepAliveInfo(command_id=3, response_required=True)) == []
    (answer,) = client.hear(client.broker.data_to_send())
    assert isinstance(answer, c.KeepAliveInfo)
    assert not answer.response_required
    assert client.say(c.KeepAliveInfo()) == []
    assert client.broker.data_to_send() == b""


def test_shutdown_is_the_last_event(client: Client) -> None:
    data = client.codec.marshal(c.ShutdownInfo()) + client.codec.marshal(CONNECT)
    assert client.broker.receive(data) == [c.ShutdownInfo()]
    assert client.broker.state is State.CLOSING
    assert client.broker.held_bytes == 0


def test_frames_are_limited_before_they_arrive() -> None:
    broker = OpenWireConnection(WireFormat(max_frame_size=1000))
    (failure,) = broker.receive((FIRST_FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
    assert isinstance(failure, Failure)
    client = Client(OpenWireConnection(WireFormat(max_frame_size=1000)))
    client.greet()
    client.broker.receive(client.codec.marshal(CONNECT))
    (failure,) = client.broker.receive((1001).to_bytes(4, "big"))
    assert isinstance(failure, Failure)
    assert "1000 is the largest" in str(failure.error)


def test_a_stranger_sends_small_frames_only() -> None:
    client = Client(OpenWireConnection(WireFormat(max_frame_size=1 << 30)))
    client.greet()
    (failure,) = client.broker.receive((FIRST_FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
    assert isinstance(failure, Failure)


@pytest.mark.parametrize("size", [0, -1])
def test_a_frame_has_a_byte_at_least(client: Client, size: int) -> None:
    (failure,) = client.broker.receive(size.to_bytes(4, "big", signed=True))
    assert isinstance(failure, Failure)


def test_missing_bytes_are_those_announced(client: Client) -> None:
    client.broker.receive((100).to_bytes(4, "big") + bytes(30))
    assert client.broker.missing_bytes == 70
    assert client.broker.held_bytes == 34


def test_a_client_gets_no_frame_larger_than_it_takes() -> None:
    client = Client(OpenWireConnection(WireFormat()), WireFormat(max_frame_size=500))
    client.greet()
    dispatch = c.MessageDispatch(message=TextMessage(content=bytes(600)))
    with pytest.raises(CodecError, match="the client takes 500"):
        client.broker.send(dispatch)
    assert client.broker.close_expected


def test_nothing_is_sent_before_the_options_are_known() -> None:
    with pytest.raises(RuntimeError, match="before the client's WireFormatInfo"):
        OpenWireConnection(WireFormat()).send(c.BrokerInfo())


def test_a_broker_sends_no_commands_of_clients(client: Client) -> None:
    with pytest.raises(RuntimeError, match="a broker sends no ConnectionInfo"):
        client.broker.send(CONNECT)


def test_a_stored_message_is_dispatched(client: Client) -> None:
    frame = marshal(TextMessage(destination=Queue("Q"), content=b"\0\0\0\1x"))
    dispatch = c.MessageDispatch(consumer_id=ConsumerId("c", 1, 1), destination=Queue("Q"), redelivery_counter=2)
    (heard,) = client.hear(client.broker.send_stored(dispatch, frame))
    assert heard.message.text == "x"
    assert heard.redelivery_counter == 2


def test_frames_that_were_read_are_let_go_while_others_wait() -> None:
    cutter = FrameCutter(1000)
    frame = (996).to_bytes(4, "big") + bytes(996)
    cutter.feed(frame * 3)
    tracemalloc.start()
    try:
        for _ in range(2000):
            cutter.feed(frame)
            assert cutter.next_frame() == frame[4:]
        assert cutter.held_bytes == 3000
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()
