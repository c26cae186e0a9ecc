"""Heart-beats both ways."""

from __future__ import annotations

import time

import pytest

from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient


@pytest.mark.parametrize(("asked", "answered"), [("1000,2000", "2000,1000"), ("0,0", "0,0"), ("0,500", "500,0")])
def test_the_answer_mirrors_the_offer(address: Address, asked: str, answered: str) -> None:
    with Client(address) as client:
        assert client.connect(heart_beat=asked).headers["heart-beat"] == answered


@pytest.mark.parametrize("offer", ["abc", "1", "1,2,3", "1.5,2"])
def test_an_offer_that_is_none_is_refused(address: Address, offer: str) -> None:
    with Client(address) as client:
        answer = client.connect(heart_beat=offer)
        assert (answer.command, answer.headers["message"]) == ("ERROR", f"Invalid heart-beat header:{offer}")
        assert client.is_closed()


def test_the_broker_beats_when_it_has_nothing_to_say(address: Address) -> None:
    with Client(address) as client:
        client.connect(heart_beat="0,200")
        started_s = time.monotonic()
        beats = b"".join(client.read() for _ in range(5))
        assert set(beats) == {ord("\n")}
        assert time.monotonic() - started_s >= 0.6


def test_a_silent_client_is_closed_without_a_word(address: Address) -> None:
    with Client(address) as client:
        started_s = time.monotonic()
        client.connect(heart_beat="300,0")
        assert client.socket.recv(100).strip(b"\n") == b""
        assert time.monotonic() - started_s >= 0.7


def test_a_beating_client_stays(address: Address) -> None:
    with Client(address) as client:
        client.connect(heart_beat="1600,0")  # it is given up after 4 s: also a machine that stands still for 3 s beats
        for _ in range(25):
            time.sleep(0.2)
            client.write(b"\n")
        client.publish("/queue/A", "still here")


def test_a_client_without_heart_beats_may_be_silent(address: Address, open_client: OpenClient) -> None:
    client = open_client(address, "1.0")
    time.sleep(0.7)
    client.publish("/queue/A", "still here")


def test_the_messages_of_a_silent_client_go_to_others(address: Address, open_client: OpenClient) -> None:
    other = open_client(address)
    other.publish("/queue/A", "x")
    with Client(address) as silent:
        silent.write(  # at once, so that it is not given up before it has subscribed
            b"CONNECT\naccept-version:1.2\nhost:test\nheart-beat:300,0\n\n\0"
            b"SUBSCRIBE\ndestination:/queue/A\nid:1\nack:client\n\n\0"
        )
        assert silent.frame().command == "CONNECTED"
        assert silent.message().text == "x"
        assert silent.is_closed()
    other.subscribe("/queue/A")
    message = other.message()
    assert (message.text, message.headers["redelivered"]) == ("x", "true")
