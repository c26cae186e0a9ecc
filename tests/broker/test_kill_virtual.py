"""``kill -9`` under load with all that makes more of a message than one row, or moves it: composites, mirrored queues,
refused messages that come again, subscribers of topics that lose messages. Looked at is what is in the store then."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue, Topic
from jdbcstore.message import Message, TextMessage
from jdbcstore.store.contract import Cursor, PersistenceAdapter, SupportsScheduling, SupportsTopics
from jdbcstore.store.jobs import HELD_MS
from jdbcstore.subscription import SubscriptionKey
from tests.broker.client import Address, Client
from tests.broker_process import BrokerProcess

pytestmark = [pytest.mark.timeout(400), pytest.mark.variants(2)]

ROUNDS = 3
ROUND_S = 1.0
CONFIGURATION: Final = """
[broker]
page_messages_max = 50
[mirrored_queue]
[composites."queue://IN"]
forward_to = ["queue://KEPT", "queue://REFUSED", "queue://TAKEN", "topic://NEWS"]
[policies."topic://>"]
pending_limit = "constant"
pending_messages_max = 5
[policies."queue://>".redelivery]
schedule_refused = true
maximum_redeliveries = 2
initial_redelivery_delay_ms = 30
redelivery_delay_ms = 10
"""
MIRRORS: Final = ("IN", "KEPT", "REFUSED", "ActiveMQ.DLQ")
REFUSED: Final = Queue("REFUSED")
SUBSCRIPTION: Final = SubscriptionKey("ann", "news")


def mirror(queue: str) -> str:
    """A queue that keeps what is sent to another one."""
    return f"Consumer.AUDIT.VirtualTopic.Mirror.{queue}"


class History:
    """What the clients know for sure, and what they only tried."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.stored: set[str] = set()
        self.tried: set[str] = set()
        self.acknowledged: set[str] = set()
        self.taken: set[str] = set()


def produce(address: Address, name: str, history: History, seed: int) -> None:
    """Send, now and then several in a transaction, until the connection breaks. What is sent together has one name."""
    chance = random.Random(seed)
    with suppress(OSError), Client(address) as client:
        client.connect()
        number = answered = 0
        while True:
            while number - answered < 20:
                body = f"{name}.{number}"
                with history.lock:
                    history.tried.add(body)
                in_it = {"transaction": body} if chance.random() < 0.3 else {}
                if in_it:
                    client.send("BEGIN", in_it)
                for part in range(3 if in_it else 1):
                    headers = {"destination": "/queue/IN", "persistent": "true", **in_it}
                    client.send("SEND", headers if in_it else {**headers, "receipt": body}, f"{body}/{part}")
                if in_it:
                    client.send("COMMIT", {**in_it, "receipt": body})
                number += 1
            frame = client.frame()
            assert frame.command == "RECEIPT", frame
            with history.lock:
                history.stored.add(frame.headers["receipt-id"])
            answered += 1


def take(address: Address, history: History) -> None:
    """Acknowledge what is in one of the queues."""
    with suppress(OSError), Client(address) as client:
        client.connect()
        client.subscribe("/queue/TAKEN", "client-individual", **{"activemq.prefetchSize": "50"})
        while True:
            frame = client.frame()
            with history.lock:
                if frame.command == "RECEIPT":
                    history.acknowledged.add(frame.headers["receipt-id"])
                    continue
                history.taken.add(frame.text)
            client.ack(frame, receipt=frame.text)


def refuse(address: Address) -> None:
    """Refuse what is in one of the queues, as often as it comes."""
    with suppress(OSError), Client(address) as client:
        client.connect()
        client.subscribe("/queue/REFUSED", "client-individual", **{"activemq.prefetchSize": "50"})
        while True:
            client.ack(client.message(), "NACK")


def subscribe_and_read_little(address: Address) -> None:
    """Take part in all topics, and be too slow."""
    with suppress(OSError), Client(address) as client:
        client.connect()
        client.subscribe("/topic/>", "client-individual", **{"activemq.prefetchSize": "1"})
        while True:
            frame = client.message()
            time.sleep(0.02)
            client.ack(frame)


def prepare(address: Address) -> None:
    """Make queues and the durable subscription known that keep what is sent."""
    with Client(address) as client:
        client.connect(**{"client-id": SUBSCRIPTION.client_id})
        for queue in MIRRORS:
            client.subscribe(f"/queue/{mirror(queue)}")
            client.done("UNSUBSCRIBE", {"id": "1"})
        client.subscribe("/topic/NEWS", **{"activemq.subscriptionName": SUBSCRIPTION.subscription_name})
        client.done("DISCONNECT")


def test_all_or_nothing_of_a_message_is_there(store_url: str, tmp_path: Path) -> None:
    history, configuration = History(), tmp_path / "broker.toml"
    configuration.write_text(CONFIGURATION)
    for round_ in range(ROUNDS):
        broker = BrokerProcess(store_url, tmp_path, "--config", str(configuration))
        broker.start()
        if not round_:
            prepare(broker.address)
        clients = [
            threading.Thread(target=produce, args=(broker.address, f"{round_}.{n}", history, 10 * round_ + n))
            for n in range(3)
        ]
        clients += [threading.Thread(target=take, args=(broker.address, history))]
        clients += [threading.Thread(target=refuse, args=(broker.address,))]
        clients += [threading.Thread(target=subscribe_and_read_little, args=(broker.address,)) for _ in range(2)]
        before = len(history.stored), len(history.acknowledged)
        for thread in clients:
            thread.start()
        began_s = time.monotonic()
        while time.monotonic() < began_s + ROUND_S or not (
            len(history.stored) > before[0] + 50 and len(history.acknowledged) > before[1] + 50
        ):
            assert time.monotonic() < began_s + 90, broker.log()
            time.sleep(0.01)
        broker.kill()
        for thread in clients:
            thread.join(90)
            assert not thread.is_alive()
    with open_store(store_url) as adapter:
        look(adapter, history)


def look(adapter: PersistenceAdapter, history: History) -> None:
    """Compare what is in the store with what clients know."""
    assert isinstance(adapter, SupportsScheduling)
    assert isinstance(adapter, SupportsTopics)
    kept, taken, refused, dead = (in_queue(adapter, name) for name in ("KEPT", "TAKEN", "REFUSED", "ActiveMQ.DLQ"))
    given_up = texts(message for message in stored(adapter, "ActiveMQ.DLQ") if message.original_destination == REFUSED)
    waiting = texts(job.message for job in adapter.job_store().jobs(None, 1 << 20, 1 << 30, 0, HELD_MS).jobs)
    everything = Counter(set(kept))
    assert kept == everything, "a message is in a queue twice"
    assert {text.partition("/")[0] for text in kept} >= history.stored, "messages that had a receipt are lost"
    assert {text.partition("/")[0] for text in kept} <= history.tried
    parts = Counter(text.partition("/")[0] for text in kept)
    assert set(parts.values()) <= {1, 3}, "a part of a transaction is lost"
    news = adapter.topic_message_store(Topic("NEWS"))
    copies = {
        "mirror of IN": in_queue(adapter, mirror("IN")),
        "mirror of KEPT": in_queue(adapter, mirror("KEPT")),
        "mirror of REFUSED": in_queue(adapter, mirror("REFUSED")),
        "NEWS": texts(news.recover_next_subscription_messages(SUBSCRIPTION, Cursor(), 1 << 20, 1 << 30).messages),
        "what was refused": refused + waiting + given_up,
    }
    for name, found in copies.items():
        assert found == everything, f"{name}: missing {everything - found}, too many {found - everything}"
    assert in_queue(adapter, mirror("ActiveMQ.DLQ")) == dead
    assert waiting, "nothing waits to come again"
    assert given_up, "nothing came too often"
    assert taken == Counter(set(taken))
    assert everything.keys() - taken.keys() <= history.taken, "messages are lost"
    assert not taken.keys() & history.acknowledged, "acknowledged messages are still there"


def texts(messages: Iterable[Message]) -> Counter[str]:
    return Counter(message.text or "" for message in messages if isinstance(message, TextMessage))


def stored(adapter: PersistenceAdapter, queue: str) -> Iterator[Message]:
    return adapter.queue_message_store(Queue(queue)).recover()


def in_queue(adapter: PersistenceAdapter, name: str) -> Counter[str]:
    return texts(stored(adapter, name))
