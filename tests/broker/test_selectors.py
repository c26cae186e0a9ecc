"""Selectors, exclusive consumers and noLocal of STOMP clients."""

from __future__ import annotations

import time

import pytest

from jdbcstore import PersistenceAdapter
from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker


@pytest.fixture(params=["memory", "sqlite"])
def either(request: pytest.FixtureRequest, start_broker: StartBroker) -> Address:
    """A broker with a small window over each of the quick stores."""
    store = None if request.param == "memory" else request.getfixturevalue("sqlite_store")
    return start_broker(store, window_messages_max=20, page_messages_max=10)


def pour(client: Client, destination: str, *numbers: int, persistent: str = "true") -> None:
    """Messages with the headers ``n`` and ``kind``, the last one answered."""
    for number in numbers:
        headers = {"destination": destination, "persistent": persistent, "n": str(number), "kind": f"k{number % 3}"}
        client.send("SEND", headers, str(number))
    client.publish("/queue/last")


def numbers(client: Client, count: int) -> list[int]:
    return [int(client.message().text) for _ in range(count)]


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_a_queue_consumer_gets_what_it_selects_and_others_the_rest(
    either: Address, open_client: OpenClient, persistent: str
) -> None:
    sender, choosy, other = open_client(either), open_client(either), open_client(either)
    choosy.subscribe("/queue/A", selector="kind = 'k0'")
    pour(sender, "/queue/A", *range(30), persistent=persistent)
    assert numbers(choosy, 10) == list(range(0, 30, 3))
    other.subscribe("/queue/A")
    assert numbers(other, 20) == [n for n in range(30) if n % 3]
    assert choosy.is_silent(0.1)


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_sparse_matches_are_found_far_behind_the_window(
    either: Address, open_client: OpenClient, persistent: str
) -> None:
    """ActiveMQ stalls behind maxPageSize messages that nobody wants."""
    sender, choosy, other = open_client(either), open_client(either), open_client(either)
    pour(sender, "/queue/A", *range(1000), persistent=persistent)
    choosy.subscribe("/queue/A", "client-individual", selector="n = 500 OR n = 998", activemq_prefetchSize="1")
    message = choosy.message()
    assert message.text == "500"
    choosy.ack(message)
    assert choosy.message().text == "998"
    pour(sender, "/queue/A", 1000, 998, persistent=persistent)
    other.subscribe("/queue/A", selector="n = 998")
    assert numbers(other, 1) == [998]
    other.done("DISCONNECT")
    assert other.is_closed()
    choosy.drop()  # it had the first 998 unacknowledged
    plain = open_client(either)
    plain.subscribe("/queue/A")
    assert sorted(numbers(plain, 1000)) == [n for n in range(1001) if n != 500]
    assert plain.is_silent(0.1)


def test_a_selecting_consumer_gives_back_and_another_gets_it_again(either: Address, open_client: OpenClient) -> None:
    sender, first, second = (open_client(either) for _ in range(3))
    pour(sender, "/queue/A", *range(100))
    first.subscribe("/queue/A", "client", selector="n > 90", activemq_prefetchSize="4")
    assert numbers(first, 4) == [91, 92, 93, 94]
    first.drop()
    second.subscribe("/queue/A", selector="n = 93 OR n = 99")
    again, fresh = second.message(), second.message()
    assert (again.text, again.headers["redelivered"], fresh.text) == ("93", "true", "99")


def test_strings_are_converted_where_numbers_are_compared(client: Client) -> None:
    client.subscribe("/queue/A", id="1", selector="n > 9")
    pour(client, "/queue/A", 5, 10, 9, 11)
    assert numbers(client, 2) == [10, 11]
    assert client.is_silent(0.1)


def test_browsers_and_topic_subscribers_select(either: Address, open_client: OpenClient) -> None:
    client, other = open_client(either), open_client(either)
    pour(client, "/queue/A", *range(60))
    client.subscribe("/queue/A", id="b", browser="true", selector="kind = 'k1' AND n < 10")
    assert numbers(client, 3) == [1, 4, 7]
    assert client.message().headers["browser"] == "end"
    other.subscribe("/topic/T", selector="n BETWEEN 3 AND 5")
    pour(client, "/topic/T", *range(60))
    assert numbers(other, 3) == [3, 4, 5]


@pytest.mark.parametrize("destination", ["/queue/A", "/topic/A"])
def test_a_wrong_selector_is_an_error_with_its_position(client: Client, destination: str) -> None:
    for selector, place in (("n >", "character 4"), ("(n > 1", "character 7"), ("n > 1 AND AND", "character 11")):
        answer = client.request("SUBSCRIBE", {"destination": destination, "id": "1", "selector": selector})
        assert (answer.command, place in answer.headers["message"]) == ("ERROR", True), answer
    client.subscribe(destination, selector="n > 1")
    pour(client, destination, 2)
    assert numbers(client, 1) == [2]


def test_expired_messages_are_not_selected(either: Address, open_client: OpenClient) -> None:
    client, dead = open_client(either), open_client(either)
    expires = int(time.time() * 1000) + 100
    client.publish("/queue/A", "late", n="1", expires=str(expires))
    client.publish("/queue/A", "in time", n="1")
    while time.time() * 1000 < expires + 1:
        time.sleep(0.01)
    client.subscribe("/queue/A", selector="n = 1")
    assert client.message().text == "in time"
    dead.subscribe("/queue/ActiveMQ.DLQ")
    assert dead.message().text == "late"


def test_marks_before_delivery_go_together_with_selectors(
    start_broker: StartBroker, sqlite_store: PersistenceAdapter, open_client: OpenClient
) -> None:
    address = start_broker(sqlite_store, persist_jms_redelivered=True, window_messages_max=20, page_messages_max=10)
    client = open_client(address)
    pour(client, "/queue/A", *range(50))
    client.subscribe("/queue/A", selector="kind = 'k0'")
    assert numbers(client, 17) == list(range(0, 50, 3))


def test_an_exclusive_consumer_has_the_queue_for_itself(either: Address, open_client: OpenClient) -> None:
    sender, other, first, second = (open_client(either) for _ in range(4))
    other.subscribe("/queue/A")
    first.subscribe("/queue/A", activemq_exclusive="true")
    second.subscribe("/queue/A", activemq_exclusive="true")
    pour(sender, "/queue/A", *range(5))
    assert numbers(first, 5) == list(range(5))
    first.done("UNSUBSCRIBE", {"id": "1"})
    pour(sender, "/queue/A", *range(5, 10))
    assert numbers(second, 5) == list(range(5, 10))
    second.done("UNSUBSCRIBE", {"id": "1"})
    pour(sender, "/queue/A", 10)
    assert numbers(other, 1) == [10]


@pytest.mark.parametrize("destination", ["/queue/A", "/topic/A"])
def test_no_local_leaves_out_what_the_connection_sent_itself(
    either: Address, open_client: OpenClient, destination: str
) -> None:
    client, other = open_client(either), open_client(either)
    client.subscribe(destination, activemq_noLocal="true")
    client.publish(destination, "own")
    other.publish(destination, "other's")
    assert client.message().text == "other's"
    assert client.is_silent(0.1)
