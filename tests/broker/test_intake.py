"""Bulk loads beside a running broker: it takes them in like a producer's messages, once, also when it is killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from jdbcstore import Broker, connect, enlist, open_store
from jdbcstore.config.urls import open_engine
from jdbcstore.destination import Topic
from jdbcstore.errors import StoreError
from jdbcstore.openwire import marshal
from jdbcstore.store.jdbc.bulk_load import LoadRow
from jdbcstore.store.jdbc.schema import upgrade_schema
from jdbcstore.testing import text_message
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.test_virtual_topics import known
from tests.broker_process import BrokerProcess
from tests.sql.test_loads import begun, rows, stored
from tests.sql.test_outbox import driver_url, waiting
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(400)

WAIT_S = 100.0


def test_it_goes_where_a_producer_would_send_it(
    tmp_path: Path, start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    url = f"sqlite:///{tmp_path / 'broker.db'}"
    address = start_broker(open_store(url))
    client, consumer = open_client(address), open_client(address)
    known(client, "/queue/Consumer.A.VirtualTopic.X")
    consumer.subscribe("/topic/VirtualTopic.X")
    load = begun(url)
    # The destination in a message's bytes counts: these go to queue TEST, one is no message, one to the virtual topic.
    load.write_part(0, rows(0, 1200))
    load.write_part(1, [("ID:bad:1:1", 1, "queue://TEST", 0, 0, b"no message")])
    load.write_part(2, virtual())
    seen: list[tuple[int, int]] = []
    with pytest.raises(StoreError, match="could not take 1 of 1202 messages"):
        load.commit({0: 1200, 1: 1, 2: 1}, lambda taken, total: seen.append((taken, total)))
    assert seen[-1] == (1201, 1202)
    client.subscribe("/queue/TEST", id="all", **{"activemq.prefetchSize": "2000"})
    assert [client.message().text for _ in range(1200)] == [f"message {number}" for number in range(1200)]
    assert consumer.message().text == "message 1"
    client.subscribe("/queue/Consumer.A.VirtualTopic.X", id="copy")
    assert client.message().text == "message 1"
    assert (brokers[0].intake.taken, brokers[0].intake.refused) == (1201, 1)
    assert client.is_silent(0.1)


def virtual() -> Iterator[LoadRow]:
    message = text_message(1, destination=Topic("VirtualTopic.X"))
    yield str(message.producer_id), 1, "topic://VirtualTopic.X", 0, 0, marshal(message)


@pytest.fixture(params=["sqlite", "postgresql_url", pytest.param("mariadb_url", marks=pytest.mark.exhaustive)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store on three databases."""
    url = f"sqlite:///{tmp_path}/store.db" if request.param == "sqlite" else request.getfixturevalue(request.param)
    engine = open_engine(url)
    upgrade_schema(engine)
    engine.dispose()
    return str(url)


def test_every_message_is_taken_in_once_although_brokers_are_killed(url: str, tmp_path: Path) -> None:
    """Killed again and again while they take in; between that the load has nobody, and goes on by itself."""
    messages = 20_000
    lease = "lease_ms=1000&lock_acquire_sleep_interval_ms=100"
    broker = BrokerProcess(f"{url}{'&' if '?' in url else '?'}{lease}", tmp_path)
    broker.start()
    load = begun(url)
    load.write_part(1, rows(messages // 2, messages // 2))
    load.write_part(0, rows(0, messages // 2))
    moved = threading.Event()

    def told(taken: int, total: int) -> None:
        if 0 < taken < total:
            moved.set()

    try:
        with ThreadPoolExecutor(1) as pool:
            ending = pool.submit(load.commit, {0: messages // 2, 1: messages // 2}, told)
            for _ in range(2):
                moved.clear()
                until = time.monotonic() + WAIT_S
                while not moved.wait(0.05) and not ending.done():
                    assert time.monotonic() < until
                broker.kill()
                broker.start()
            assert ending.result(WAIT_S) == messages
    finally:
        if broker.is_running:
            broker.kill()
    time_out(url)
    assert stored(url) == [*range(messages)]


def test_what_applications_commit_is_taken_in_once_although_brokers_are_killed(url: str, tmp_path: Path) -> None:
    messages, killed = 1200, 2
    lease = "lease_ms=1000&lock_acquire_sleep_interval_ms=100"
    broker = BrokerProcess(f"{url}{'&' if '?' in url else '?'}{lease}", tmp_path)
    engine = create_engine(driver_url(url))
    committed = 0

    def send_all() -> None:
        """Every seventh transaction is rolled back at first."""
        nonlocal committed
        for number in range(messages // 3):
            for is_final in (False, True) if number % 7 == 0 else (True,):
                with engine.connect() as own:
                    outbox = enlist(own)
                    for part in range(3):
                        outbox.send("TEST", str(number * 3 + part))
                    if is_final:
                        own.commit()
            committed = number + 1

    try:
        broker.start()
        with ThreadPoolExecutor(1) as pool:
            ordering = pool.submit(send_all)
            for round in range(killed):
                until = time.monotonic() + WAIT_S
                while committed < (round + 1) * messages // 3 // (killed + 1) and not ordering.done():
                    assert time.monotonic() < until
                    time.sleep(0.01)
                broker.kill()
                broker.start()
            ordering.result(WAIT_S)
        wait_until(lambda: not waiting(url))
    finally:
        if broker.is_running:
            broker.kill()
    time_out(url)
    with connect(url) as connection, connection.subscribe("TEST") as queue:
        received = set()
        for _ in range(messages):
            message = queue.receive(timeout_s=WAIT_S)
            received.add(int(str(message.body)))
            message.acknowledge()
        assert received == {*range(messages)}
        with pytest.raises(TimeoutError):
            queue.receive(timeout_s=0.2)
    engine.dispose()


def time_out(url: str) -> None:
    """The lease of a broker that was killed."""
    engine = open_engine(url)
    with engine.connect() as connection:
        connection.exec_driver_sql("UPDATE ACTIVEMQ_LOCK SET TIME = 1")
    engine.dispose()
