"""The database goes away and comes back: clients are told, nothing is lost, the broker goes on by itself, or not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from jdbcstore import Broker, JdbcOptions, Queue, open_store
from jdbcstore.broker.lifecycle import State
from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.test_dead_letters import texts
from tests.broker.test_flow_control import pour
from tests.broker.test_scheduling import LATER, MANAGEMENT, schedule
from tests.broker_process import BrokerProcess
from tests.servers.proxy import Proxy
from tests.waiting import wait_until

pytestmark = pytest.mark.variants(2)

URLS = ["postgresql_url", "mariadb_url", "mysql_url"]


@pytest.fixture(params=URLS)
def database(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture
def proxy(database: str) -> Iterator[Proxy]:
    port = int(database.rpartition(":")[2].partition("/")[0])
    with Proxy(port) as proxy:
        yield proxy


def send(client: Client, number: int) -> str:
    return client.request("SEND", {"destination": "/queue/A", "persistent": "true", "number": str(number)}).command


def test_with_ignore_each_request_is_told_and_clients_stay(
    start_broker: StartBroker, open_client: OpenClient, proxy: Proxy, database: str, brokers: list[Broker]
) -> None:
    store = open_store(proxy.url(database), JdbcOptions(retry_s=0.3, query_timeout_s=20.0))
    address = start_broker(store, window_messages_max=20, page_messages_max=10, on_store_failure="ignore")
    producer, consumer = open_client(address), open_client(address)
    pour(producer, 200)
    consumer.subscribe("/queue/A", "client-individual", activemq_prefetchSize="5")
    first = [consumer.message() for _ in range(5)]

    proxy.cut()
    assert send(producer, 200) == "ERROR"
    assert consumer.request("ACK", consumer.named(first[0])).command == "ERROR"
    producer.done("SEND", {"destination": "/topic/T"})  # what needs no database goes on

    proxy.resume()
    number = 201
    while send(producer, number) == "ERROR":
        number += 1
    got = [int(message.headers["number"]) for message in first]
    for message in first:
        consumer.done("ACK", consumer.named(message))
    while got[-1] != number:
        message = consumer.message()
        got.append(int(message.headers["number"]))
        consumer.done("ACK", consumer.named(message))
    # Refused messages may turn up: an outcome may have been unknown when their sender was told. Nothing else is
    # doubled or lost.
    assert got == sorted(set(got))
    assert set(range(200)) | {number} <= set(got)
    wait_until(lambda: brokers[0].queues[Queue("A")].depth == 0)


class Senders:
    """Clients in threads that send persistent messages one after the other until the broker lets them go."""

    def __init__(self, address: Address, count: int = 4) -> None:
        self.receipted: list[str] = []
        self._threads = [threading.Thread(target=self._send, args=(address, f"s{n}")) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "the broker keeps a client that it does not serve"

    def _send(self, address: Address, name: str) -> None:
        with suppress(OSError), Client(address) as client:
            assert client.connect().command == "CONNECTED"
            for number in range(1_000_000):
                body = f"{name}.{number}"
                if client.request("SEND", {"destination": "/queue/A", "persistent": "true"}, body).command == "ERROR":
                    return
                self.receipted.append(body)


def test_with_suspend_clients_are_dropped_and_the_broker_resumes_in_its_term(
    start_broker: StartBroker, open_client: OpenClient, proxy: Proxy, database: str, brokers: list[Broker]
) -> None:
    address = start_broker(open_store(proxy.url(database), JdbcOptions(retry_s=0.3, query_timeout_s=20.0)))
    broker = brokers[0]
    before = broker.lifecycle.status
    idle = open_client(address)
    senders = Senders(address)
    wait_until(lambda: len(senders.receipted) > 50)

    proxy.cut()
    senders.join()
    wait_until(lambda: broker.lifecycle.state in (State.SUSPENDED, State.RECOVERING))
    assert "the store failed" in idle.error().headers["message"]
    assert idle.is_closed()
    with pytest.raises(OSError):  # noqa: PT011  # nobody listens
        Client(address)

    proxy.resume()
    wait_until(lambda: broker.lifecycle.state is State.MASTER)
    after = broker.lifecycle.status
    assert (after.term, after.holder) == (before.term, before.holder)
    consumer = open_client(broker.address)
    consumer.publish("/queue/A", "last")
    consumer.subscribe("/queue/A")
    got = [consumer.message().text]
    while got[-1] != "last":
        got.append(consumer.message().text)
    assert len(got) == len(set(got))
    assert set(senders.receipted) <= set(got)
    # What has no receipt was in flight: one message of each sender at most.
    assert len(got) - 1 <= len(senders.receipted) + 4


def test_with_stop_the_process_ends_with_1_and_says_why(proxy: Proxy, database: str, tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text('[broker]\non_store_failure = "stop"\n')
    process = BrokerProcess(f"{proxy.url(database)}?retry_s=0.3", tmp_path, "--config", "broker.toml")
    with process, Client(("127.0.0.1", process.port)) as client:
        client.connect()
        client.publish("/queue/A", "1")
        proxy.cut()
        client.send("SEND", {"destination": "/queue/A", "persistent": "true", "receipt": "2"}, "2")
        assert process.wait() == 1
        assert client.error().headers["message"]
        assert client.is_closed()
    assert process.log().splitlines()[-1].startswith("jdbcstore: the ")


def test_a_read_that_meets_a_broken_line_is_waited_for_as_a_write_is(
    start_broker: StartBroker, open_client: OpenClient, proxy: Proxy, database: str
) -> None:
    """The first question on each kept connection fails then, at once."""
    client = open_client(start_broker(open_store(proxy.url(database)), in_flight_bytes_max=1))
    for producer in ("p", "q"):
        client.done("SEND", {"destination": "/queue/A", **numbered(producer), "persistent": "true"}, producer)
        proxy.drop_connections()
    assert texts(client, "/queue/A") == ["p", "q"]
    proxy.drop_connections()
    client.subscribe("/queue/A", "client-individual")
    refused = [client.message() for _ in range(2)]
    proxy.drop_connections()
    client.done("NACK", client.named(refused[0]))  # its body is not in memory any more
    schedule(client, delay=LATER)
    client.subscribe("/temp-queue/shown", id="shown")
    proxy.drop_connections()
    client.done("SEND", {"destination": MANAGEMENT, "AMQ_SCHEDULER_ACTION": "BROWSE", "reply-to": "/temp-queue/shown"})
    assert "scheduledJobId" in client.message().headers


def test_a_browser_waits_for_the_database(
    start_broker: StartBroker, open_client: OpenClient, proxy: Proxy, database: str
) -> None:
    client = open_client(start_broker(open_store(proxy.url(database))))
    pour(client, 10)
    proxy.cut()
    client.send("SUBSCRIBE", {"destination": "/queue/A", "id": "look", "browser": "true", "ack": "auto"})
    assert client.is_silent()
    proxy.resume()
    assert [client.message().headers.get("number") for _ in range(11)] == [*map(str, range(10)), None]


def numbered(producer: str) -> dict[str, str]:
    return {"producer-id": producer, "producer-sequence": "1"}
