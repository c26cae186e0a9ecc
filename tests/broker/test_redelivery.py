"""How often a message was delivered, and that the next broker knows it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from jdbcstore import JdbcOptions, Queue, TextMessage, open_store
from jdbcstore.config.urls import store_url
from tests.broker.client import Client, Frame
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.test_receipts import commits_fail, commits_held
from tests.broker_process import BrokerProcess
from tests.servers.prepared import PreparedFile
from tests.sql.test_writer import execute


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, prepared_file: PreparedFile) -> str:
    """A fresh database with tables, of a file and of a server."""
    if request.param == "sqlite":
        return prepared_file.url(tmp_path / "store.db")
    on_server: str = request.getfixturevalue("postgresql_url")
    return on_server


def fill(client: Client, *texts: str) -> None:
    for body in texts:
        client.publish("/queue/A", body)


def receive(client: Client, count: int, *, prefetch: int = 100, mode: str = "client-individual") -> list[Frame]:
    """Subscribe and take some messages without acknowledging them."""
    client.subscribe("/queue/A", mode, activemq_prefetchSize=str(prefetch))
    return [client.message() for _ in range(count)]


def count(message: Frame) -> int:
    """Which delivery this is; a first one does not say."""
    assert ("redelivered" in message.headers) == ("JMSXDeliveryCount" in message.headers)
    return int(message.headers.get("JMSXDeliveryCount", "1"))


def counts(messages: list[Frame]) -> dict[str, int]:
    return {message.text: count(message) for message in messages}


def counters(url: str) -> dict[str, int]:
    """What the store has as redelivery counters."""
    with open_store(url.partition("?")[0], JdbcOptions(locker="none")) as adapter:
        messages = list(adapter.queue_message_store(Queue("A")).recover())
    return {m.text or "": m.redelivery_counter for m in messages if isinstance(m, TextMessage)}


def connected(broker: BrokerProcess) -> Client:
    client = Client(("127.0.0.1", broker.port))
    client.connect()
    return client


def test_the_count_survives_clean_stops(url: str, tmp_path: Path) -> None:
    with BrokerProcess(url, tmp_path) as first, connected(first) as client:
        fill(client, "a", "b", "c")
        assert counts(receive(client, 3)) == {"a": 1, "b": 1, "c": 1}
        assert first.stop() == 0
    for expected in (2, 3):
        with BrokerProcess(url, tmp_path) as broker, connected(broker) as client:
            messages = receive(client, 3)
            assert counts(messages) == dict.fromkeys("abc", expected)
            assert broker.stop() == 0
    assert counters(url) == dict.fromkeys("abc", 3)


def test_a_consumer_that_does_not_read_gives_back_too(url: str, tmp_path: Path) -> None:
    settings = tmp_path / "broker.toml"
    settings.write_text("[broker]\nstop_timeout_s = 2\n")
    with BrokerProcess(url, tmp_path, "--config", str(settings)) as first:
        slow = connected(first)
        for body in ("a", "b"):
            slow.publish("/queue/A", body * 4_000_000)
        slow.send("SUBSCRIBE", {"destination": "/queue/A", "ack": "client-individual", "id": "1"})
        assert slow.socket.recv(1, socket.MSG_PEEK)  # it begins to come, and does not fit the socket
        assert first.stop() == 0
        slow.drop()
    assert counters(url)["a" * 4_000_000] == 1


def test_what_was_counted_before_a_crash_is_known_and_what_was_not_given_back_is_not_counted(
    url: str, tmp_path: Path
) -> None:
    with BrokerProcess(url, tmp_path) as first:
        with connected(first) as client:
            fill(client, "a", "b")
            assert counts(receive(client, 2)) == {"a": 1, "b": 1}
        with connected(first) as client:
            assert counts(receive(client, 2)) == {"a": 2, "b": 2}
            fill(client, "c")
            assert count(client.message()) == 1
            first.kill()
        assert counters(url) == {"a": 1, "b": 1, "c": 0}
    with BrokerProcess(url, tmp_path) as second, connected(second) as client:
        assert counts(receive(client, 3)) == {"a": 2, "b": 2, "c": 1}


def test_nothing_is_added_twice(url: str, tmp_path: Path) -> None:
    with BrokerProcess(url, tmp_path) as first:
        for expected in (1, 2, 3):
            with connected(first) as client:
                if expected == 1:
                    fill(client, "a")
                assert counts(receive(client, 1)) == {"a": expected}
        with connected(first) as client:
            assert counts(receive(client, 1)) == {"a": 4}
            client.done("UNSUBSCRIBE", {"id": "1"})
            assert counts(receive(client, 1)) == {"a": 5}
            assert first.stop() == 0
    assert counters(url) == {"a": 5}
    with BrokerProcess(url, tmp_path) as second, connected(second) as client:
        assert counts(receive(client, 1)) == {"a": 6}


def test_a_message_whose_bytes_are_not_in_memory_keeps_its_count(
    start_broker: StartBroker, open_client: OpenClient, url: str
) -> None:
    address = start_broker(open_store(url), in_flight_bytes_max=1)
    client = open_client(address)
    fill(client, "a", "b")
    for expected in (1, 2, 3):
        assert counts(receive(client, 2)) == {"a": expected, "b": expected}
        client.done("UNSUBSCRIBE", {"id": "1"})


# -- what it costs ---------------------------------------------------------------------------------------------------


@pytest.fixture
def rewrites(tmp_path: Path) -> str:
    """The URL of a store on SQLite that counts how often a message is rewritten."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with open_store(url):
        pass
    execute(
        url,
        "CREATE TABLE REWRITES (ID INTEGER)",
        "CREATE TRIGGER rewritten AFTER UPDATE ON ACTIVEMQ_MSGS BEGIN INSERT INTO REWRITES VALUES (NEW.ID); END",
    )
    return url


def rewritten(url: str) -> int:
    engine = create_engine(store_url(url))
    with engine.connect() as connection:
        found: int = connection.execute(text("SELECT COUNT(*) FROM REWRITES")).scalar_one()
    engine.dispose()
    return found


def test_nothing_is_written_as_long_as_nothing_comes_back(
    start_broker: StartBroker, open_client: OpenClient, rewrites: str
) -> None:
    client = open_client(start_broker(open_store(rewrites)))
    fill(client, *(str(n) for n in range(20)))
    for message in receive(client, 20):
        client.done("ACK", client.named(message))
    client.done("UNSUBSCRIBE", {"id": "1"})
    client.publish("/queue/B", "behind them")
    assert rewritten(rewrites) == 0


@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_of_many_the_first_are_written(
    start_broker: StartBroker, open_client: OpenClient, rewrites: str, mode: str
) -> None:
    address = start_broker(open_store(rewrites), redelivery_writes_max=30)
    client = open_client(address)
    bodies = [str(n) for n in range(200)]
    fill(client, *bodies)
    receive(client, 200, prefetch=1000, mode=mode)
    client.drop()
    again = open_client(address)
    assert counts(receive(again, 200, prefetch=1000, mode=mode)) == dict.fromkeys(bodies, 2)
    again.publish("/queue/B", "behind them")
    assert rewritten(rewrites) == 30
    assert counters(rewrites) == {body: int(n < 30) for n, body in enumerate(bodies)}


def test_only_what_is_stored_is_written(start_broker: StartBroker, open_client: OpenClient, rewrites: str) -> None:
    address = start_broker(open_store(rewrites))
    client = open_client(address)
    client.done("SEND", {"destination": "/queue/A"}, "in memory only")
    client.subscribe("/topic/T", "client", id="t")
    client.publish("/topic/T", "to a topic")
    client.message()
    assert counts(receive(client, 1)) == {"in memory only": 1}
    client.drop()
    again = open_client(address)
    assert counts(receive(again, 1)) == {"in memory only": 2}
    again.publish("/queue/B", "behind them")
    assert rewritten(rewrites) == 0


def test_a_count_that_cannot_be_written_costs_nothing(
    start_broker: StartBroker, open_client: OpenClient, rewrites: str
) -> None:
    address = start_broker(open_store(rewrites))
    client = open_client(address)
    fill(client, "a")
    receive(client, 1)
    with commits_fail():
        client.drop()
        again = open_client(address)
        (message,) = receive(again, 1)
    assert count(message) == 2
    again.done("ACK", again.named(message))
    assert counters(rewrites) == {}


# -- written before --------------------------------------------------------------------------------------------------


def test_with_persist_jms_redelivered_a_crash_is_counted(url: str, tmp_path: Path) -> None:
    settings = tmp_path / "broker.toml"
    settings.write_text("[broker]\npersist_jms_redelivered = true\n")
    bodies = "abcdefghij"
    with BrokerProcess(url, tmp_path, "--config", str(settings)) as first, connected(first) as client:
        fill(client, *bodies)
        assert counts(receive(client, 5, prefetch=5)) == dict.fromkeys(bodies[:5], 1)
        assert client.is_silent()
        first.kill()
    expected = {body: 2 if body in bodies[:5] else 1 for body in bodies}
    with BrokerProcess(url, tmp_path, "--config", str(settings)) as second, connected(second) as client:
        assert counts(receive(client, 10)) == expected
        assert second.stop() == 0
    assert counters(url) == expected


def test_with_persist_jms_redelivered_a_delivery_waits_for_the_store(
    start_broker: StartBroker, open_client: OpenClient, url: str
) -> None:
    client = open_client(start_broker(open_store(url), persist_jms_redelivered=True))
    fill(client, "a", "b")
    client.done("SEND", {"destination": "/queue/A"}, "not stored")
    fill(client, "c")
    with commits_held() as release:
        client.subscribe("/queue/A", "client-individual", activemq_prefetchSize="2")
        assert client.is_silent()
        release.set()
        messages = [client.message(), client.message()]
    for expected in ("a", "b", "not stored", "c"):
        message = messages.pop(0)
        assert (message.text, count(message)) == (expected, 1)
        client.done("ACK", client.named(message))
        if expected in ("a", "b"):
            messages.append(client.message())


def test_with_persist_jms_redelivered_a_store_that_refuses_the_mark_does_not_hold_up_the_message(
    start_broker: StartBroker, open_client: OpenClient, rewrites: str
) -> None:
    client = open_client(start_broker(open_store(rewrites), persist_jms_redelivered=True))
    fill(client, "a")
    with commits_fail():
        client.subscribe("/queue/A", "client-individual")
        assert client.message().text == "a"


def test_with_persist_jms_redelivered_each_delivery_is_written_once(
    start_broker: StartBroker, open_client: OpenClient, rewrites: str
) -> None:
    address = start_broker(open_store(rewrites), persist_jms_redelivered=True)
    client = open_client(address)
    bodies = [str(n) for n in range(50)]
    fill(client, *bodies)
    for delivery in (1, 2, 3):
        assert counts(receive(client, 50, prefetch=50)) == dict.fromkeys(bodies, delivery)
        client.done("UNSUBSCRIBE", {"id": "1"})
        client.publish("/queue/B", "behind them")
        assert rewritten(rewrites) == 50 * delivery
    assert counters(rewrites) == dict.fromkeys(bodies, 3)
