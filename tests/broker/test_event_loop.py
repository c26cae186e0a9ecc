"""What one client asks for does not stop the others: every command at its limits, beside the broker's watchdog.

Judged is the processor time that the loop needed for something else before it gave a sign of life: on a machine that
is busy with other tests round trips say nothing. `benchmarks.abuse` measures those.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.abuse import Attack, Target
from benchmarks.loop_attacks import LOOP_ATTACKS
from jdbcstore import Broker
from tests.broker.client import Client
from tests.broker.conftest import OpenClient, StartBroker

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
    gc.unfreeze()


@pytest.mark.parametrize("attack", LOOP_ATTACKS, ids=lambda attack: attack.name)
def test_no_command_holds_the_loop(
    attack: Attack, start_broker: StartBroker, brokers: list[Broker], tmp_path: Path
) -> None:
    target = Target(start_broker(), tmp_path, SCALE)
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
        time.sleep(0.2)
        publish(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(broker, "publish", slowly)
    with caplog.at_level(logging.WARNING):
        client.publish("/queue/slow", "x")
        client.publish("/queue/slow", "x")
    told = [record.getMessage() for record in caplog.records if "event loop held" in record.getMessage()]
    assert told, caplog.text
    assert "SEND /queue/slow" in told[0]
    assert "client ID:" in told[0]
    assert broker.watchdog.longest_s > 0.15
