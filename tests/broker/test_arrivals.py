"""Clients that say much wait for each other; what one says is heard in its order, however late."""

from __future__ import annotations

import asyncio
from collections import Counter
from time import perf_counter
from typing import Any

import pytest

from jdbcstore.broker.rotation import SLICE_S
from jdbcstore.stomp.events import Ack
from jdbcstore.transport import arrivals, conversation
from jdbcstore.transport.arrivals import Arrivals
from jdbcstore.transport.stomp.session import StompSession
from tests.broker.conftest import OpenClient, StartBroker


def test_of_those_who_wait_one_slice_is_heard_in_each_turn_in_rotation() -> None:
    heard: list[tuple[int, str]] = []
    turns = 0

    async def run() -> None:
        loop = asyncio.get_running_loop()
        waiting = Arrivals(loop)

        def turn() -> None:
            nonlocal turns
            turns += 1
            if len(heard) < 6:
                loop.call_soon(turn)

        def hear(name: str, times: int) -> None:
            heard.append((turns, name))
            until_s = perf_counter() + 1.1 * SLICE_S
            while perf_counter() < until_s:
                pass
            if times > 1:
                waiting.later(lambda: hear(name, times - 1))

        turn()
        for name in "abc":
            waiting.later(lambda name=name: hear(name, 2))  # type: ignore[misc]
        while len(heard) < 6:
            await asyncio.sleep(0)

    asyncio.run(run())
    assert [name for _, name in heard] == list("abcabc")
    assert set(Counter(turn for turn, _ in heard).values()) == {1}


def test_what_arrives_is_heard_for_a_while_in_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[bool]:
        now_s = 1.0
        monkeypatch.setattr(arrivals, "perf_counter", lambda: now_s)
        waiting = Arrivals(asyncio.get_running_loop())
        first, second = waiting.has_time, waiting.has_time
        now_s += 2 * SLICE_S
        third = waiting.has_time
        await asyncio.sleep(0)  # the turn
        return [first, second, third, waiting.has_time]

    assert asyncio.run(run()) == [True, True, False, True]


def test_a_defect_in_hearing_one_client_keeps_nobody_else_from_being_heard(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    async def run() -> None:
        waiting = Arrivals(asyncio.get_running_loop())

        def defect() -> None:
            raise RuntimeError("on purpose")

        waiting.later(defect)
        waiting.later(lambda: heard.append("next"))
        await asyncio.sleep(0)

    asyncio.run(run())
    assert heard == ["next"]
    assert "on purpose" in caplog.text


def test_of_many_acks_no_more_are_heard_in_a_slice_than_fit_into_it(
    start_broker: StartBroker, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many short ones are read as one, and what follows one is heard with it."""
    monkeypatch.setattr(conversation, "SLICE_S", -1.0)
    heard: list[int] = []
    listen, on_ack = StompSession._listen, StompSession._HANDLERS[Ack]

    def counted_listen(self: StompSession, data: bytes = b"") -> None:
        heard.append(0)
        listen(self, data)

    def counted_ack(self: StompSession, event: Any) -> None:
        heard[-1] += 1
        on_ack(self, event)

    monkeypatch.setattr(StompSession, "_listen", counted_listen)
    monkeypatch.setattr(StompSession, "_on_ack", counted_ack)
    monkeypatch.setitem(StompSession._HANDLERS, Ack, counted_ack)
    client = open_client(start_broker())
    client.write(b"ACK\nid:x\n\n\0" * 200 + b"ACK\nid:%s\n\n\0" % (b"x" * 500))
    assert [client.frame().command for _ in range(201)] == ["ERROR"] * 201
    assert (sum(heard), max(heard)) == (201, 1)


def test_who_is_never_heard_at_once_is_served_like_everybody(
    start_broker: StartBroker, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine where there is never time for what arrives: everything is done, in its order."""
    monkeypatch.setattr(Arrivals, "has_time", False)
    address = start_broker()
    sender, receiver = open_client(address), open_client(address)
    receiver.subscribe("/queue/a", "client-individual")
    count = 2000
    send = b"SEND\ndestination:/queue/a\n\n%d\0"
    sender.write(b"".join(send % number for number in range(count)))
    sender.done("SEND", {"destination": "/queue/a"}, "last")
    for number in range(count):
        message = receiver.message()
        assert message.text == str(number)
        receiver.send("ACK", {"id": message.headers["ack"]})
    assert receiver.message().text == "last"
    receiver.done("DISCONNECT", {})
