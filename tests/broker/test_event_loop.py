"""What one client asks for does not stop the others: every command at its limits, beside the broker's watchdog.

Judged is the processor time that the loop needed for something else before it gave a sign of life: on a machine that
is busy with other tests round trips say nothing. `benchmarks.abuse` measures those.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.attacks import Attack, Target
from benchmarks.loop_attacks import LOOP_ATTACKS
from jdbcstore import Broker
from jdbcstore.broker.watchdog import Watchdog, _about
from jdbcstore.stomp.events import Send
from jdbcstore.transport.stomp.session import StompSession
from tests.broker.client import Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.waiting import wait_until

#: What an attack did before took many times as long, at this scale too.
SCALE = 0.1
HELD_MOST_S = 0.1


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """The garbage collector as `serve` has it; a test's process is full of objects that are no broker's."""
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    yield
    gc.set_threshold(*thresholds)


@pytest.mark.parametrize("attack", LOOP_ATTACKS, ids=lambda attack: attack.name)
def test_no_command_holds_the_loop(
    attack: Attack, start_broker: StartBroker, brokers: list[Broker], tmp_path: Path
) -> None:
    address = start_broker(bind="auto://127.0.0.1:0")
    target = Target(address, address, tmp_path, SCALE)
    try:
        attack.run(target)
    finally:
        target.close()
    with Client(brokers[0].address) as client:
        client.connect()
        client.publish("/queue/abuse.end")
    assert brokers[0].watchdog.longest_processor_s < HELD_MOST_S


def test_the_watchdog_tells_what_holds_the_loop(
    start_broker: StartBroker,
    open_client: OpenClient,
    brokers: list[Broker],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = open_client(start_broker(slow_callback_ms=20))
    broker = brokers[0]
    publish = broker.publish

    def slowly(*arguments: object) -> None:
        busy_until_s = time.thread_time() + 0.2  # a call that waits is told of once a minute, like a busy machine
        while time.thread_time() < busy_until_s:
            pass
        publish(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(broker, "publish", slowly)

    def is_told() -> bool:
        client.publish("/queue/slow", "x")
        told = [record.getMessage() for record in caplog.records if "event loop held held_ms=" in record.getMessage()]
        return any("SEND queue://slow" in one and "client ID:" in one for one in told)

    with caplog.at_level(logging.WARNING):
        wait_until(is_told, lambda: caplog.text)
    assert broker.watchdog.longest_s > 0.15


@pytest.fixture
def abandoned_loop() -> Iterator[tuple[asyncio.AbstractEventLoop, Watchdog]]:
    """A loop whose thread has ended, and who watched it."""
    made: list[tuple[asyncio.AbstractEventLoop, Watchdog]] = []

    def run() -> None:
        loop = asyncio.new_event_loop()
        watchdog = Watchdog(loop, 200)  # it looks for the first time when the thread has ended
        watchdog.start()
        made.append((loop, watchdog))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    yield made[0]
    made[0][1].stop()
    made[0][0].close()


def test_the_watchdog_ends_with_the_thread_that_it_watches(
    abandoned_loop: tuple[asyncio.AbstractEventLoop, Watchdog],
) -> None:
    _, watchdog = abandoned_loop
    wait_until(lambda: not watchdog._thread.is_alive())  # a thread that raises is an error of the test
    with pytest.raises(OSError, match="Invalid argument"):
        watchdog._processor_s()


def test_the_watchdog_tells_at_once_what_works_and_once_a_minute_what_has_no_processor(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.new_event_loop()
    watchdog = Watchdog(loop, 10)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            watchdog._tell(1.0, 0.0, "a")
        watchdog._tell(1.0, 0.9, "b")
        monkeypatch.setattr(watchdog, "_quiet_until_s", 0.0)
        watchdog._tell(1.0, 0.0, "c")
    loop.close()
    first, second, third = [record.getMessage() for record in caplog.records]
    assert "the machine gave it none" in first
    assert "times=1 doing=a" in first
    assert "processor_ms=900 doing=b" in second
    assert "times=3 doing=c" in third


def test_the_watchdog_names_what_is_just_being_made() -> None:
    values = [StompSession.__new__(StompSession), Send({}, "/queue/A", b"", None, None)]
    assert list(_about(values)) == ["a new StompSession", "SEND /queue/A"]


def test_what_the_watchdog_cannot_look_at_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(frame: object) -> str:
        raise RuntimeError("dictionary changed size during iteration")

    monkeypatch.setattr("jdbcstore.broker.watchdog.described", changed)
    loop = asyncio.new_event_loop()
    assert "RuntimeError('dictionary changed" in Watchdog(loop, 10)._doing()
    loop.close()
