"""Scheduled messages when brokers are killed: each firing happens once, on whichever broker is master."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.store.contract import SupportsScheduling
from tests.broker.client import Client
from tests.broker_process import BrokerProcess

pytestmark = pytest.mark.timeout(300)

JOBS = 400
REPEATED = 20
REPEATS = 5
SHORT_SLEEP = "lock_acquire_sleep_interval_ms=200"
LEASE = f"lease_ms=6000&{SHORT_SLEEP}"


@contextmanager
def ended(broker: BrokerProcess) -> Iterator[None]:
    """Kill it in the end if it still runs."""
    try:
        yield
    finally:
        if broker.is_running:
            broker.kill()


@pytest.fixture
def pair(store_url: str, tmp_path: Path) -> Iterator[list[BrokerProcess]]:
    """A master and a standby."""
    options = SHORT_SLEEP if store_url.startswith("kahadb:") else LEASE
    mark = "&" if "?" in store_url else "?"
    with ExitStack() as stack:
        brokers = []
        for name in ("one", "two"):
            folder = tmp_path / name
            folder.mkdir()
            broker = BrokerProcess(f"{store_url}{mark}{options}", folder, "--name", name)
            stack.enter_context(ended(broker))
            brokers.append(broker)
        brokers[0].start()
        brokers[1].start_standby()
        yield brokers


def test_every_firing_happens_once_although_masters_are_killed(pair: list[BrokerProcess], store_url: str) -> None:
    """Half of the jobs become due while the first is master, and it is killed among them; the rest is overdue then."""
    first, second = pair
    expected = []
    with Client(first.address) as client:
        client.connect()
        headers = {"destination": "/queue/A", "persistent": "true"}
        began = time.monotonic()
        for number in range(JOBS):
            body = f"once {number}"
            expected.append(body)
            delay_ms = 1500 + 4 * number - int((time.monotonic() - began) * 1000)
            client.send("SEND", {**headers, "AMQ_SCHEDULED_DELAY": str(max(delay_ms, 0)), "receipt": body}, body)
        for number in range(REPEATED):
            body = f"again {number}"
            expected += [body] * (REPEATS + 1)
            asked = {"AMQ_SCHEDULED_DELAY": "1500", "AMQ_SCHEDULED_PERIOD": "50", "AMQ_SCHEDULED_REPEAT": str(REPEATS)}
            client.send("SEND", {**headers, **asked, "receipt": body}, body)
        for _ in range(JOBS + REPEATED):
            assert client.frame().command == "RECEIPT"
        client.subscribe("/queue/A", ack="client-individual", activemq_prefetchSize="1")
        client.message()  # it fires; nothing is acknowledged
        first.kill()
    second.wait_for("master")
    received: list[str] = []
    with Client(second.address) as client:
        client.connect()
        client.subscribe("/queue/A")
        while len(received) < len(expected):
            received.append(client.message().text)
        assert client.is_silent(0.5)
        client.done("DISCONNECT")
    assert sorted(received) == sorted(expected)
    assert second.stop() == 0
    with open_store(store_url) as adapter:
        assert isinstance(adapter, SupportsScheduling)
        assert adapter.job_store().job_count() == 0
