"""Durable subscriptions: scenarios of ActiveMQ's tests about priorities and expiry, with smaller numbers.

docs/scenarios.md lists all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Broker, PersistenceAdapter, Queue, open_store
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.store.contract import SupportsTopics
from jdbcstore.store.memory import MemoryPersistenceAdapter
from tests.broker.client import Address, Client
from tests.broker.clock import Clock
from tests.broker.conftest import StartBroker
from tests.broker.test_durable import ANN, TOPIC, create, durably, left, subscriber, topic_store
from tests.servers.prepared import PreparedFile
from tests.waiting import wait_until

SMALL: dict[str, Any] = {"window_messages_max": 20, "page_messages_max": 10}


@pytest.fixture(params=["memory", "sqlite"])
def adapter(request: pytest.FixtureRequest, tmp_path: Path, prepared_file: PreparedFile) -> PersistenceAdapter:
    """Both kinds of store, not started."""
    if request.param == "memory":
        return MemoryPersistenceAdapter()
    return open_store(prepared_file.url(tmp_path / "broker.db"))


def send(address: Address, count: int, priority: Callable[[int], int], **headers: str) -> None:
    """Publish numbered messages, and wait until the last one is stored."""
    with Client(address) as client:
        client.connect()
        for number in range(count):
            given = {"destination": TOPIC, "persistent": "true", "priority": str(priority(number)), **headers}
            (client.send if number < count - 1 else client.done)("SEND", given, str(number))


def take(client: Client, count: int, prefetch: int) -> list[tuple[int, int]]:
    """Take up the subscription, receive and acknowledge so many; priority and number of each."""
    durably(client, "client-individual", **{"activemq.prefetchSize": str(prefetch)})
    got = []
    for _ in range(count):
        message = client.message()
        client.done("ACK", client.named(message))
        got.append((int(message.headers["priority"]), int(message.text)))
    return got


# -- priorities --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefetch", [5, 1000])
@pytest.mark.parametrize(
    "priority",
    [lambda n: 7 if n >= 80 else 3, lambda n: n % 4 + 2, lambda n: n % 10, lambda n: 0 if n < 80 else 9],
    ids=["low-then-high", "four-levels", "ten-levels", "large-gap"],
)
def test_who_comes_and_goes_gets_each_once_in_order(
    start_broker: StartBroker, adapter: PersistenceAdapter, priority: Callable[[int], int], prefetch: int
) -> None:
    """ActiveMQ's testDurableSubs, …Reconnect, …ReconnectWithFourLevels and JdbcDurableSubDupTest."""
    total = 160
    address = start_broker(adapter, policies=[DestinationPolicy(prioritized_messages=True)], **SMALL)
    create(address)
    send(address, total, priority)
    got: list[tuple[int, int]] = []
    while len(got) < total:
        with subscriber(address) as client:
            got += take(client, 40, prefetch)
    assert got == sorted(((priority(n), n) for n in range(total)), key=lambda one: (-one[0], one[1]))
    assert left(address) == []


@pytest.mark.parametrize("prioritized", [True, False])
def test_producers_of_every_priority_while_the_subscriber_comes_and_goes(
    start_broker: StartBroker, adapter: PersistenceAdapter, *, prioritized: bool
) -> None:
    """ActiveMQ's testConcurrentDurableSubsReconnectWithXLevels."""
    levels, count = 5, 60
    address = start_broker(adapter, policies=[DestinationPolicy(prioritized_messages=prioritized)], **SMALL)
    create(address)
    threads = [threading.Thread(target=send, args=(address, count, lambda _, p=p: p)) for p in range(levels)]
    for thread in threads:
        thread.start()
    got: list[tuple[int, int]] = []
    while len(got) < levels * count:
        with subscriber(address) as client:
            got += take(client, 30, 20)
    for thread in threads:
        thread.join(90)
    for level in range(levels):
        assert [number for priority, number in got if priority == level] == list(range(count))
    assert left(address) == []


# -- expiry ------------------------------------------------------------------------------------------------------------


#: In how long messages of these tests expire, and a time that is later than that.
SOON_MS, LATER_MS = 600_000, 700_000


def soon() -> str:
    return str(int(time.time() * 1000) + SOON_MS)


def waiting(adapter: PersistenceAdapter) -> int:
    """How many messages wait for ann's subscription, by the store."""
    return topic_store(adapter).subscription_message_count(ANN)


def test_of_what_nobody_reads_nothing_stays_when_it_expires(
    start_broker: StartBroker, adapter: PersistenceAdapter, brokers: list[Broker]
) -> None:
    """ActiveMQ's testUnmatchedCleanedUpOnExpiry, and one of the subscriptions is never used."""
    address = start_broker(adapter, policies=[DestinationPolicy(expire_messages_period_ms=100)])
    create(address, "green", selector="colour = 'green'")
    with subscriber(address, "red") as red, Client(address) as publisher:
        durably(red, selector="colour = 'red'")
        publisher.connect()
        expires = soon()
        for colour in ("blue", "red"):
            publisher.publish(TOPIC, colour, colour=colour, expires=expires)
        assert red.message().text == "red"
        store = topic_store(adapter)
        assert store.message_count == 2
        assert isinstance(adapter, SupportsTopics)
        cleaned = adapter
        cleaned.clean_up()
        assert store.message_count == 2
        Clock(brokers[0]).move(LATER_MS)
        wait_until(lambda: bool(cleaned.clean_up() or True) and store.message_count == 0)
    assert left(address, "green", selector="colour = 'green'") == []


def test_of_an_offline_subscription_no_more_expire_at_a_time_than_the_policy_says(
    start_broker: StartBroker, adapter: PersistenceAdapter, brokers: list[Broker]
) -> None:
    """ActiveMQ's JDBCPersistenceAdapterExpiredMessageTest, testMaxExpirePageSize."""
    policy = DestinationPolicy(expire_messages_period_ms=1000, max_expire_page_size=5)
    address = start_broker(adapter, policies=[policy])
    create(address)
    send(address, 30, lambda _: 4, expires=soon())
    assert waiting(adapter) == 30
    began_s, gone = time.monotonic(), 0
    Clock(brokers[0]).move(LATER_MS)
    while gone < 10:
        gone = 30 - waiting(adapter)
        assert gone <= 5 * (2 + (time.monotonic() - began_s) // 1)
        assert time.monotonic() - began_s < 60


def test_all_expire_though_memory_is_full_and_one_is_held(
    start_broker: StartBroker, adapter: PersistenceAdapter, brokers: list[Broker]
) -> None:
    """ActiveMQ's JDBCPersistenceAdapterExpiredMessageTest, testExpiredAfterCacheExhausted."""
    policy = DestinationPolicy(expire_messages_period_ms=100)
    address = start_broker(adapter, policies=[policy], memory_bytes_max=200_000, in_flight_bytes_max=50_000)
    with subscriber(address) as client:
        durably(client, "client-individual", **{"activemq.prefetchSize": "1"})
        with Client(address) as publisher:
            publisher.connect()
            expires = soon()
            for _ in range(60):
                publisher.send("SEND", {"destination": TOPIC, "persistent": "true", "expires": expires}, "x" * 16_000)
            publisher.publish(TOPIC, "stays")
        held = client.message()
        Clock(brokers[0]).move(LATER_MS)
        wait_until(lambda: waiting(adapter) == 2)
        wait_until(lambda: brokers[0].queues[Queue("ActiveMQ.DLQ")].depth == 59)
        client.done("ACK", client.named(held))
        assert client.message().text == "stays"
