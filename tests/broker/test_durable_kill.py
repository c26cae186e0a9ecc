"""``kill -9`` of the broker under load: no durable subscriber loses a message, none gets an acknowledged one again."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from jdbcstore import Cursor
from jdbcstore.config.urls import open_store
from jdbcstore.subscription import SubscriptionKey
from tests.broker.client import Client
from tests.broker.test_durable import topic_store
from tests.broker_process import BrokerProcess
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(400)

SUBSCRIBERS = {"even": "n = 0", "all": None, "late": None}
ROUNDS = 3


class Histories:
    """What the clients know for sure, and what they only tried."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.receipted: set[str] = set()
        self.delivered: dict[str, Counter[str]] = {name: Counter() for name in SUBSCRIBERS}
        self.acknowledged: dict[str, set[str]] = {name: set() for name in SUBSCRIBERS}
        self.again: list[tuple[str, str]] = []

    def have_more(self, before: dict[str, int]) -> bool:
        """Whether each of the subscribers has acknowledged a hundred messages more than it had before."""
        return all(len(self.acknowledged[name]) >= count + 100 for name, count in before.items())


def produce(port: int, round_: int, histories: Histories) -> None:
    """Send until the connection breaks, several in flight; in transactions now and then."""
    with suppress(OSError), Client(("127.0.0.1", port)) as client:
        client.connect()
        number = answered = 0
        while True:
            while number - answered < 10:
                body = f"{round_}.{number}"
                headers = {"destination": "/topic/K", "persistent": "true", "n": str(number % 2)}
                if number % 5:
                    client.send("SEND", {**headers, "receipt": body}, body)
                else:
                    client.send("BEGIN", {"transaction": body})
                    client.send("SEND", {**headers, "transaction": body}, body)
                    client.send("COMMIT", {"transaction": body, "receipt": body})
                number += 1
            frame = client.frame()
            assert frame.command == "RECEIPT", frame
            with histories.lock:
                histories.receipted.add(frame.headers["receipt-id"])
            answered += 1


def consume(port: int, name: str, histories: Histories) -> None:
    """Receive and acknowledge one by one, the later of each two messages first, until the connection breaks."""
    with suppress(OSError), Client(("127.0.0.1", port)) as client:
        client.connect(client_id=name)
        selector = SUBSCRIBERS[name]
        headers = {"activemq.subscriptionName": "k"} | ({} if selector is None else {"selector": selector})
        client.subscribe("/topic/K", "client-individual", **headers)
        held = None
        while True:
            frame = client.frame()
            if frame.command == "RECEIPT":
                with histories.lock:
                    histories.acknowledged[name].add(frame.headers["receipt-id"])
                continue
            with histories.lock:
                if frame.text in histories.acknowledged[name]:
                    histories.again.append((name, frame.text))
                histories.delivered[name][frame.text] += 1
            if held is None:
                held = frame
                continue
            for message in (frame, held):
                client.ack(message, receipt=message.text)
            held = None


def unacknowledged(url: str, name: str) -> list[str]:
    """What the store still has for a subscriber."""
    with open_store(url) as adapter:
        store, key = topic_store(adapter, "K"), SubscriptionKey(name, "k")
        page = store.recover_next_subscription_messages(key, Cursor(), 100_000, 1 << 30)
        return [str(getattr(message, "text", "")) for message in page.messages]


@pytest.mark.parametrize(
    "kind", [*(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in ("amq", "sqlite")), "kahadb", "postgresql"]
)
def test_no_subscriber_loses_anything(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    places = {kind: f"{kind}:{tmp_path / 'kill'}" for kind in ("amq", "kahadb")}
    places |= {"sqlite": f"sqlite:///{tmp_path / 'kill.db'}"}
    url = places.get(kind) or request.getfixturevalue("postgresql_url")
    histories = Histories()
    with BrokerProcess(url, tmp_path) as broker:
        for name, selector in SUBSCRIBERS.items():
            with Client(broker.address) as client:
                client.connect(client_id=name)
                headers = {"activemq.subscriptionName": "k"} | ({} if selector is None else {"selector": selector})
                client.subscribe("/topic/K", **headers)
    for round_ in range(ROUNDS):
        broker = BrokerProcess(url, tmp_path)
        broker.start()
        names = [name for name in SUBSCRIBERS if name != "late" or round_ == ROUNDS - 1]
        before = {name: len(histories.acknowledged[name]) for name in names}
        clients = [threading.Thread(target=produce, args=(broker.port, round_, histories))]
        clients += [threading.Thread(target=consume, args=(broker.port, name, histories)) for name in names]
        for thread in clients:
            thread.start()
        wait_until(partial(histories.have_more, before), broker.log)
        broker.kill()
        for thread in clients:
            thread.join(90)
            assert not thread.is_alive()
    assert not histories.again, "acknowledged messages came again"
    for name, selector in SUBSCRIBERS.items():
        left = unacknowledged(url, name)
        assert len(left) == len(set(left)), "a message is there twice"
        wanted = {body for body in histories.receipted if selector is None or int(body.split(".")[1]) % 2 == 0}
        assert wanted - set(left) - set(histories.delivered[name]) == set(), "receipted messages are lost"
        assert histories.acknowledged[name] & set(left) == set(), "acknowledged messages are still there"
