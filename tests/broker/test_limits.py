"""Frames at their limits, and bytes that are no frames."""

from __future__ import annotations

import pytest

from tests.broker.client import Client
from tests.broker.conftest import OpenClient, StartBroker

LIMITS = {"command_bytes_max": 64, "header_bytes_max": 200, "headers_max": 20, "body_bytes_max": 10_000}


def frame(headers: dict[str, str], body: str = "") -> bytes:
    lines = "".join(f"{name}:{value}\n" for name, value in {"destination": "/queue/A", **headers}.items())
    return f"SEND\n{lines}\n{body}\0".encode()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"X" * 100 + b"\n\n\0", id="command"),
        pytest.param(frame({"long": "x" * 200}), id="header"),
        pytest.param(frame({f"h{n}": "x" for n in range(20)}), id="headers"),
        pytest.param(frame({}, "x" * 10_001), id="body"),
        pytest.param(frame({"content-length": "10001"}), id="counted body"),
        pytest.param(frame({"content-length": "-1"}), id="negative length"),
        pytest.param(frame({"content-length": "x"}), id="no length"),
        pytest.param(frame({"content-length": "3"}, "four"), id="wrong length"),
        pytest.param(b"NONSENSE\n\n\0", id="unknown command"),
        pytest.param(b"\xff\xfe\xfd\n\n\0", id="binary"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n\0", id="http"),
    ],
)
def test_a_frame_beyond_a_limit_ends_its_connection_only(
    start_broker: StartBroker, open_client: OpenClient, data: bytes
) -> None:
    address = start_broker(**LIMITS)
    bad, good = open_client(address), open_client(address)
    bad.write(data)
    assert bad.error().headers["message"]
    assert bad.is_closed()
    good.publish("/queue/B", "goes on")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(frame({"long": "x" * 190, "receipt": "r"}), id="header"),
        pytest.param(frame({"receipt": "r", **{f"h{n}": "x" for n in range(18)}}), id="headers"),
        pytest.param(frame({"receipt": "r"}, "x" * 10_000), id="body"),
    ],
)
def test_a_frame_at_a_limit_is_taken(start_broker: StartBroker, open_client: OpenClient, data: bytes) -> None:
    client = open_client(start_broker(**LIMITS))
    client.write(data)
    assert client.frame().command == "RECEIPT"


def test_what_stands_before_a_bad_frame_is_done(client: Client, open_client: OpenClient) -> None:
    other = open_client(client.socket.getpeername())
    client.write(frame({"persistent": "true"}, "good") + b"NONSENSE\n\n\0" + frame({}, "behind"))
    client.error()
    other.subscribe("/queue/A")
    assert other.message().text == "good"
    assert other.is_silent()


def test_frames_may_come_in_any_pieces(client: Client) -> None:
    client.subscribe("/queue/A")
    data = frame({"content-length": "5", "own": "ü"}, "a\0b\0c") * 3
    for position in range(len(data)):
        client.write(data[position : position + 1])
    assert [client.message().body for _ in range(3)] == [b"a\0b\0c"] * 3


def test_too_many_subscriptions_are_refused(start_broker: StartBroker, open_client: OpenClient) -> None:
    client = open_client(start_broker(subscriptions_max=2))
    for number in range(2):
        client.subscribe("/queue/A", id=str(number))
    assert client.request("SUBSCRIBE", {"destination": "/queue/A", "id": "3"}).command == "ERROR"


def test_too_many_temporary_destinations_are_refused(start_broker: StartBroker, open_client: OpenClient) -> None:
    client = open_client(start_broker(temporary_destinations_max=1))
    client.done("SEND", {"destination": "/temp-queue/a"}, "x")
    assert client.request("SEND", {"destination": "/temp-queue/b"}, "x").command == "ERROR"
    client.done("SEND", {"destination": "/temp-queue/a"}, "x")


def test_a_client_that_leaves_in_the_middle_of_a_frame_harms_nobody(client: Client, open_client: OpenClient) -> None:
    address = client.socket.getpeername()
    half = open_client(address)
    half.write(b"SEND\ndestination:/queue/A\ncontent-length:1000\n\nhalf")
    half.drop()
    client.publish("/queue/A", "whole")
    client.subscribe("/queue/A")
    assert client.message().text == "whole"
