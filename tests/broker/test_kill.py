"""``kill -9`` of the broker under load, on every store: receipted messages are there, acknowledged ones are gone."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.message import TextMessage
from tests.broker.client import Client
from tests.broker_process import BrokerProcess

pytestmark = [pytest.mark.timeout(400), pytest.mark.variants(2)]

PRODUCERS = 4
CONSUMERS = 2
ROUNDS = 3
ROUND_S = 1.0


class Histories:
    """What the clients know for sure, and what they only tried."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sent: set[str] = set()
        self.receipted: set[str] = set()
        self.delivered: Counter[str] = Counter()
        self.ack_tried: set[str] = set()
        self.acknowledged: set[str] = set()


def produce(port: int, name: str, histories: Histories) -> None:
    """Send until the connection breaks, several in flight."""
    with suppress(OSError), Client(("127.0.0.1", port)) as client:
        client.connect()
        number = answered = 0
        while True:
            while number - answered < 20:
                body = f"{name}.{number}"
                with histories.lock:
                    histories.sent.add(body)
                client.send("SEND", {"destination": "/queue/K", "persistent": "true", "receipt": body}, body)
                number += 1
            frame = client.frame()
            assert frame.command == "RECEIPT", frame
            with histories.lock:
                histories.receipted.add(frame.headers["receipt-id"])
            answered += 1


def consume(port: int, histories: Histories) -> None:
    """Receive and acknowledge, with receipts, until the connection breaks."""
    with suppress(OSError), Client(("127.0.0.1", port)) as client:
        client.connect()
        client.subscribe("/queue/K", ack="client-individual", **{"activemq.prefetchSize": "50"})
        while True:
            frame = client.frame()
            if frame.command == "RECEIPT":
                with histories.lock:
                    histories.acknowledged.add(frame.headers["receipt-id"])
                continue
            assert frame.command == "MESSAGE", frame
            with histories.lock:
                histories.delivered[frame.text] += 1
                histories.ack_tried.add(frame.text)
            client.ack(frame, receipt=frame.text)


def test_nothing_receipted_is_lost_and_nothing_acknowledged_returns(store_url: str, tmp_path: Path) -> None:
    run(store_url, tmp_path)


def test_nothing_is_lost_or_returns_in_an_amq_store(tmp_path: Path) -> None:
    run(f"amq:{tmp_path / 'amq'}", tmp_path)


def run(store_url: str, tmp_path: Path) -> None:
    """Kill the broker again and again, and look what is left."""
    histories = Histories()
    for round_ in range(ROUNDS):
        broker = BrokerProcess(store_url, tmp_path)
        broker.start()
        before = len(histories.receipted), len(histories.acknowledged)
        clients = [
            threading.Thread(target=produce, args=(broker.port, f"{round_}.{n}", histories)) for n in range(PRODUCERS)
        ] + [threading.Thread(target=consume, args=(broker.port, histories)) for _ in range(CONSUMERS)]
        for thread in clients:
            thread.start()
        deadline = time.monotonic() + 90
        began = time.monotonic()
        while time.monotonic() - began < ROUND_S or not (
            len(histories.receipted) > before[0] + 50 and len(histories.acknowledged) > before[1] + 50
        ):
            assert time.monotonic() < deadline, broker.log()
            time.sleep(0.01)
        broker.kill()
        for thread in clients:
            thread.join(90)
            assert not thread.is_alive()
    with open_store(store_url) as adapter:
        store = adapter.queue_message_store(Queue("K"))
        left = [message.text for message in store.recover() if isinstance(message, TextMessage) and message.text]
        assert store.message_count == len(left)
    assert len(left) == len(set(left)), "a message is in the store twice"
    assert histories.receipted - set(left) - histories.ack_tried == set(), "receipted messages are lost"
    assert histories.acknowledged & set(left) == set(), "acknowledged messages are still there"
    assert set(left) <= histories.sent
    for round_ in range(ROUNDS):
        for n in range(PRODUCERS):
            numbers = [int(text.split(".")[2]) for text in left if text.startswith(f"{round_}.{n}.")]
            assert numbers == sorted(numbers), "the order of a producer is lost"
