"""Addresses to listen on, as they are written."""

from __future__ import annotations

import pytest

from jdbcstore import ConfigurationError
from jdbcstore.addresses import SCHEMES, Listener, Protocol, parse_listeners
from jdbcstore.stomp.frame_split import split_frames
from jdbcstore.stomp.frames import serialise
from jdbcstore.transport.detection import detect


@pytest.mark.parametrize(
    ("bind", "shown"),
    [
        ("h:1", "stomp://h:1"),
        ("stomp://h", "stomp://h:61613"),
        ("openwire://0.0.0.0 auto://[::1]", "openwire://0.0.0.0:61616 auto://[::1]:61616"),
        ("tcp://h,nio://h:2", "openwire://h:61616 openwire://h:2"),
        ("ssl://h:1 nio+ssl://h:2 openwire+ssl://h:3", "openwire+ssl://h:1 openwire+ssl://h:2 openwire+ssl://h:3"),
        ("auto+nio+ssl://h:1, auto+ssl://h:2", "auto+ssl://h:1 auto+ssl://h:2"),
        ("ws://h wss://h:2", "ws://h:61614 wss://h:2"),
        ("stomp+nio+ssl://:7", "stomp+ssl://:7"),
    ],
)
def test_schemes_are_those_of_activemq(bind: str, shown: str) -> None:
    listeners = parse_listeners(bind)
    assert " ".join(map(str, listeners)) == shown
    assert parse_listeners(shown) == listeners


def test_an_unknown_scheme_is_told_with_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match=", ".join(SCHEMES).replace("+", r"\+")):
        parse_listeners("amqp://h:1")


def test_what_is_left_out_is_as_before() -> None:
    assert Listener("h", 1) == Listener("h", 1, is_tls=False, protocol=Protocol.STOMP)


OPENWIRE = b"\0\0\x01\x2a\x01ActiveMQ\0\0\0\x0c"


@pytest.mark.parametrize(
    ("data", "protocol"),
    [(b"CONNECT\n", Protocol.STOMP), (b"\r\n\n\nSTOMP\r\n", Protocol.STOMP), (OPENWIRE, Protocol.OPENWIRE)],
)
def test_the_first_bytes_tell_the_protocol_as_soon_as_they_can(data: bytes, protocol: Protocol) -> None:
    told = [detect(data[:length]) for length in range(len(data) + 1)]
    assert told[-1] is protocol
    assert set(told) == {None, protocol}
    assert told == sorted(told, key=lambda found: found is not None)


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n", b"AMQP\0\1\0\0", b"CONSUME", b"\x10\x20\0\x04MQTT", b"\0\0\0\0\x02A"]
)
def test_other_first_bytes_are_none_of_them(data: bytes) -> None:
    with pytest.raises(ValueError, match="b"):
        detect(data)


def test_what_is_written_is_split_at_the_ends_of_frames() -> None:
    frames = [
        serialise("CONNECTED", {"version": "1.2"}),
        b"\n",
        serialise("MESSAGE", {"a": "content-length:9"}, b"one"),
        serialise("MESSAGE", {"content-length": "5"}, b"a\0\n\nb"),
        b"\n",
        b"\n",
        serialise("RECEIPT", {"receipt-id": "1"}),
    ]
    assert split_frames(b"".join(frames)) == frames
    with pytest.raises(ValueError, match="not found"):
        split_frames(frames[0][:-2])
