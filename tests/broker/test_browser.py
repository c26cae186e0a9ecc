"""Browsers look and do not take."""

from __future__ import annotations

import time

import pytest

from jdbcstore import Broker, PersistenceAdapter, Queue
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.openwire import commands as c
from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.openwire_client import OpenWireClient
from tests.broker.test_suspension import late


def browse(client: Client, destination: str = "/queue/A", id: str = "b", **headers: str) -> list[str]:
    """What a browser shows, from its beginning to its end."""
    client.subscribe(destination, id=id, browser="true", **headers)
    shown = []
    while "browser" not in (message := client.message()).headers:
        assert message.headers["subscription"] == id
        shown.append(message.text)
    assert (message.headers["browser"], message.headers["message-id"], message.body) == ("end", "0", b"")
    assert message.headers["subscription"] == id
    return shown


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_browser_shows_everything_and_takes_nothing(address: Address, open_client: OpenClient, version: str) -> None:
    client = open_client(address, version)
    for number in range(5):
        client.publish("/queue/A", str(number))
    client.done("SEND", {"destination": "/queue/A"}, "not persistent")
    assert sorted(browse(client)) == sorted(["0", "1", "2", "3", "4", "not persistent"])
    client.subscribe("/queue/A", id="2")
    assert len({client.message().text for _ in range(6)}) == 6


def test_an_empty_queue_ends_at_once(client: Client) -> None:
    assert browse(client) == []


def test_a_browser_pages_through_a_backlog(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    address = start_broker(sqlite_store, window_messages_max=20, page_messages_max=10, prefetch_browser=7)
    client = open_client(address)
    for number in range(100):
        client.send("SEND", {"destination": "/queue/A", "persistent": "true"}, str(number))
    client.publish("/queue/A", "100")
    assert browse(client) == [str(number) for number in range(101)]


def test_a_browser_shows_so_many_of_a_queue(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    policies = [DestinationPolicy(pattern=Queue("A"), max_browse_page_size=7)]
    client = open_client(start_broker(sqlite_store, policies=policies, page_messages_max=5))
    for number in range(20):
        for queue in "AB":
            headers = {"destination": f"/queue/{queue}", "persistent": "true", "n": str(number % 2)}
            client.send("SEND", headers, f"{queue}{number}")
    client.publish("/queue/B", "B20")
    client.done("SEND", {"destination": "/queue/A"}, "not persistent")
    everything, few = [f"B{number}" for number in range(21)], [f"A{number}" for number in range(6)]
    assert browse(client, "/queue/A,/queue/B") == [*few, "A6", *everything]
    assert browse(client, id="2", selector="n = '1'") == [f"A{number}" for number in range(1, 14, 2)]
    assert browse(client, "/queue/B", id="3") == everything


def test_messages_with_consumers_are_shown_too(address: Address, open_client: OpenClient) -> None:
    consumer, browser = open_client(address), open_client(address)
    consumer.publish("/queue/A", "kept")
    consumer.done("SEND", {"destination": "/queue/A"}, "in memory")
    consumer.subscribe("/queue/A", "client")
    assert [consumer.message().text, consumer.message().text] == ["kept", "in memory"]
    assert sorted(browse(browser)) == ["in memory", "kept"]


def test_a_browser_sees_what_was_there_when_it_began(address: Address, open_client: OpenClient) -> None:
    client, producer = open_client(address), open_client(address)
    for number in range(4):
        producer.publish("/queue/A", str(number))
    client.subscribe("/queue/A", "client", id="b", browser="true", activemq_prefetchSize="2")
    first = [client.message(), client.message()]
    producer.publish("/queue/A", "too late")
    for message in first:
        client.done("ACK", client.named(message))
    assert [client.message().text, client.message().text] == ["2", "3"]
    assert client.message().headers["browser"] == "end"


def test_a_browsed_message_cannot_be_refused(client: Client) -> None:
    client.publish("/queue/A", "x")
    client.subscribe("/queue/A", "client", id="b", browser="true")
    message = client.message()
    assert client.request("NACK", client.named(message)).command == "ERROR"


@pytest.mark.parametrize("destination", ["/topic/T", "/queue/A.>"])
def test_only_a_queue_can_be_browsed(client: Client, destination: str) -> None:
    assert client.request("SUBSCRIBE", {"destination": destination, "id": "b", "browser": "true"}).command == "ERROR"


def test_a_browser_that_asks_for_each_message_waits_until_the_store_has_been_read(
    start_broker: StartBroker,
    brokers: list[Broker],
    sqlite_store: PersistenceAdapter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = start_broker(sqlite_store, bind="openwire://127.0.0.1:0")
    with OpenWireClient(address) as client:
        client.send(Queue("A"), "stored")
        pull = c.MessagePull(consumer_id=client.consumer_id(), destination=Queue("A"), timeout=-1)
        with late(brokers[0], "recover_next_messages", monkeypatch) as is_read:
            client.ask(c.ConsumerInfo(consumer_id=client.consumer_id(), destination=Queue("A"), browser=True))
            client.ask(pull)
            assert is_read.wait(60)
            time.sleep(0.1)
        assert client.text() == "stored"
        client.ask(pull)
        assert client.text() is None
