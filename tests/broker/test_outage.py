"""The database goes away and comes back: clients are told, nothing is lost, the broker goes on by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jdbcstore import Broker, JdbcOptions, Queue, open_store
from tests.broker.client import Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.test_flow_control import pour, until
from tests.servers.proxy import Proxy

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


def test_an_outage_is_told_and_survived(
    start_broker: StartBroker, open_client: OpenClient, proxy: Proxy, database: str, brokers: list[Broker]
) -> None:
    store = open_store(proxy.url(database), JdbcOptions(retry_s=0.3, query_timeout_s=3.0))
    address = start_broker(store, window_messages_max=20, page_messages_max=10)
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
    until(lambda: brokers[0].queues[Queue("A")].depth == 0)
