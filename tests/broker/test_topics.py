"""Topics and temporary destinations."""

from __future__ import annotations

from typing import Any

import pytest

from jdbcstore import Broker, Topic
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.transport import listener
from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.waiting import wait_until


def test_every_subscriber_gets_a_message(address: Address, open_client: OpenClient) -> None:
    subscribers = [open_client(address, version) for version in ("1.0", "1.1", "1.2")]
    for subscriber in subscribers:
        subscriber.subscribe("/topic/T")
    open_client(address).publish("/topic/T", "x")
    assert [subscriber.message().text for subscriber in subscribers] == ["x", "x", "x"]


def test_nothing_is_kept_for_those_who_come_later(client: Client) -> None:
    client.publish("/topic/T", "x")
    client.subscribe("/topic/T")
    assert client.is_silent()


def test_wildcards_cover_topics(client: Client) -> None:
    client.publish("/topic/prices.eu.de", "before")
    client.subscribe("/topic/prices.>", id="all")
    client.subscribe("/topic/prices.*.de", id="some")
    client.publish("/topic/prices.eu.de", "both")
    client.publish("/topic/prices", "all")
    got = sorted((m.text, m.headers["subscription"]) for m in [client.message(), client.message(), client.message()])
    assert got == [("all", "all"), ("both", "all"), ("both", "some")]


def test_a_topic_and_a_queue_may_have_the_same_name(client: Client) -> None:
    client.subscribe("/topic/A")
    client.publish("/queue/A", "not for the topic")
    assert client.is_silent()


def test_prefetch_holds_for_topics(client: Client) -> None:
    client.subscribe("/topic/T", "client-individual", activemq_prefetchSize="2")
    for number in range(4):
        client.publish("/topic/T", str(number))
    first = client.message()
    assert client.message().text == "1"
    assert client.is_silent()
    client.ack(first)
    assert client.message().text == "2"


def test_unsubscribed_is_unsubscribed(client: Client) -> None:
    client.subscribe("/topic/T")
    client.done("UNSUBSCRIBE", {"id": "1"})
    client.publish("/topic/T", "x")
    assert client.is_silent()


def kept(client: Client, destination: str = "/topic/T", topic: str = "/topic/T") -> list[str]:
    """What a new retroactive subscriber is told of what was published before."""
    client.subscribe(destination, id="late", activemq_retroactive="true")
    client.publish(topic, "now", persistent="true")
    found = list(iter(lambda: client.message().text, "now"))
    client.done("UNSUBSCRIBE", {"id": "late"})
    return found


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, []),
        ({"always_retroactive": True}, []),
        ({"subscription_recovery": "last_image"}, ["4"]),
        ({"subscription_recovery": "fixed_count", "recovery_messages_max": 3}, ["2", "3", "4"]),
        ({"subscription_recovery": "fixed_count", "recovery_messages_max": 0}, []),
        ({"subscription_recovery": "fixed_size", "recovery_bytes_max": 1500}, ["3", "4"]),
        ({"subscription_recovery": "fixed_size", "recovery_bytes_max": 100}, []),
        ({"subscription_recovery": "timed"}, ["0", "1", "2", "3", "4"]),
    ],
)
@pytest.mark.parametrize("destination", ["/topic/T.a", "/topic/T.>", "/topic/*.a"])
def test_a_topic_keeps_for_late_subscribers_what_its_policy_says(
    start_broker: StartBroker, open_client: OpenClient, policy: dict[str, Any], expected: list[str], destination: str
) -> None:
    client = open_client(start_broker(policies=[DestinationPolicy(pattern=Topic(">"), **policy)]))
    for number in range(5):
        client.publish("/topic/T.a", str(number), persistent=str(number % 2 == 0).lower())
    assert kept(client, destination, "/topic/T.a") == expected


def test_what_a_topic_keeps_is_bounded_and_goes(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    policies = [
        DestinationPolicy(pattern=Topic("T"), subscription_recovery="fixed_count"),
        DestinationPolicy(pattern=Topic("OLD"), subscription_recovery="timed", recovery_ms=1),
    ]
    address = start_broker(
        policies=policies, topic_pending_bytes_max=100_000, memory_bytes_max=1 << 20, idle_queue_timeout_s=0.1
    )
    client = open_client(address)
    for number in range(20):
        client.publish("/topic/T", str(number).ljust(20_000))
    client.publish("/topic/OLD", "x")
    [broker] = brokers
    assert [text.strip() for text in kept(client)] == ["16", "17", "18", "19"]
    client.publish("/topic/T", "x" * 200_000)
    assert kept(client) == []
    wait_until(lambda: Topic("OLD") not in broker.topics)
    client.subscribe("/topic/T", id="plain")
    client.publish("/topic/T", "then")
    assert client.message().text == "then"
    wait_until(lambda: broker.memory.used == broker.memory.history > 0)
    broker.topics[Topic("T")].forget_history()
    assert broker.memory.used == broker.memory.history == 0


def test_many_late_subscribers_get_the_last_of_what_is_kept_while_memory_is_short(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    """What waits for each of them counts."""
    policy = DestinationPolicy(subscription_recovery="fixed_count", always_retroactive=True)
    client = open_client(start_broker(policies=[policy], memory_bytes_max=4 << 20))
    for number in range(40):
        client.publish("/topic/T", f"{number}".rjust(10_000), persistent="false")
    for number in range(20):
        client.subscribe("/topic/T", "client", id=str(number), activemq_prefetchSize="1")
    pending = [consumer.pending for consumer in brokers[0].topics[Topic("T")].consumers]
    assert pending[0] == 39
    assert set(pending[10:]) == {5}
    firsts = [int(client.message().text) for _ in range(20)]
    assert firsts[0] == 0
    assert set(firsts[10:]) == {34}


def test_an_expired_message_is_not_kept_for_anybody(start_broker: StartBroker, open_client: OpenClient) -> None:
    policy = DestinationPolicy(pattern=Topic(">"), subscription_recovery="fixed_count")
    client = open_client(start_broker(policies=[policy]))
    client.publish("/topic/T", "old", expires="1")
    client.publish("/topic/T", "young")
    assert kept(client) == ["young"]


def test_a_slow_subscriber_holds_its_publisher_back_and_is_disconnected(
    start_broker: StartBroker, open_client: OpenClient
) -> None:
    policy = DestinationPolicy(pattern=Topic(">"), slow_consumer_timeout_ms=5000)  # goes before the broker's
    address = start_broker(topic_pending_max=10, slow_consumer_timeout_s=300.0, policies=[policy])
    slow, publisher, other = open_client(address), open_client(address), open_client(address)
    slow.subscribe("/topic/T", "client", activemq_prefetchSize="1")
    other.subscribe("/topic/T")
    for number in range(12):
        publisher.publish("/topic/T", str(number))
    publisher.send("SEND", {"destination": "/topic/T", "receipt": "late"}, "12")
    assert publisher.is_silent(0.4)
    other.publish("/queue/A", "others are not held back")
    assert publisher.frame().headers["receipt-id"] == "late"
    assert slow.message().text == "0"
    assert "too slow" in slow.error().headers["message"]
    assert slow.is_closed()
    assert [int(other.message().body) for _ in range(13)] == list(range(13))


def test_a_slow_subscriber_that_reads_nothing_is_waited_for_no_longer_than_one_that_does(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "LINGER_S", 600.0)
    address = start_broker(slow_consumer_timeout_s=1.0, topic_pending_bytes_max=1 << 20)
    slow, publisher = open_client(address), open_client(address)
    slow.subscribe("/topic/T")
    slow.subscribe("/topic/>", id="2")
    for number in range(60):
        publisher.publish("/topic/T", str(number).ljust(200_000))
    assert len(brokers[0].clients) == 2, "it has not read why it is disconnected"
    assert brokers[0].memory.used < 200_000


def test_a_subscriber_that_catches_up_lets_its_publisher_go_on(
    start_broker: StartBroker, open_client: OpenClient
) -> None:
    address = start_broker(topic_pending_max=10)
    slow, publisher = open_client(address), open_client(address)
    slow.subscribe("/topic/T", "client", activemq_prefetchSize="1")
    for number in range(100):
        publisher.send("SEND", {"destination": "/topic/T"}, str(number))
    for number in range(100):
        message = slow.message()
        assert message.text == str(number)
        slow.ack(message)


def test_a_temporary_queue_answers_requests(address: Address, open_client: OpenClient) -> None:
    asking, answering = open_client(address), open_client(address)
    answering.subscribe("/queue/requests")
    asking.subscribe("/temp-queue/answers")
    asking.publish("/queue/requests", "?", reply_to="/temp-queue/answers")
    reply_to = answering.message().headers["reply-to"]
    assert reply_to.startswith("/remote-temp-queue/ID:")
    answering.publish(reply_to, "!")
    answer = asking.message()
    assert (answer.text, answer.headers["destination"]) == ("!", "/temp-queue/answers")


def test_a_temporary_topic_is_one(address: Address, open_client: OpenClient) -> None:
    owner, other = open_client(address), open_client(address)
    owner.subscribe("/temp-topic/news")
    owner.publish("/queue/A", "x", reply_to="/temp-topic/news")
    other.subscribe("/queue/A")
    name = other.message().headers["reply-to"]
    assert name.startswith("/remote-temp-topic/")
    other.publish(name, "hot")
    assert owner.message().headers["destination"] == "/temp-topic/news"


def test_temporary_destinations_go_with_their_connection(address: Address, open_client: OpenClient) -> None:
    owner, other = open_client(address), open_client(address)
    owner.publish("/temp-queue/t", "kept while the connection lasts")
    owner.publish("/queue/A", "x", reply_to="/temp-queue/t")
    other.subscribe("/queue/A")
    name = other.message().headers["reply-to"]
    other.publish(name, "in time")
    owner.done("DISCONNECT")
    assert owner.is_closed()
    physical = name.removeprefix("/remote-temp-queue/")
    answer = other.request("SEND", {"destination": name.replace(":", "\\c")}, "too late")
    assert answer.headers["message"] == f"The destination temp-queue://{physical} does not exist."


def test_an_unknown_temporary_destination_is_refused(client: Client) -> None:
    for command in ("SEND", "SUBSCRIBE"):
        answer = client.request(command, {"destination": "/remote-temp-queue/ID\\cx\\c1", "id": "1"})
        assert (answer.command, "does not exist" in answer.headers["message"]) == ("ERROR", True)


def test_only_its_own_connection_reads_a_temporary_destination(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    address = start_broker()
    owner, other = open_client(address), open_client(address)
    owner.publish("/temp-queue/t", "x" * 1000)
    owner.publish("/queue/A", "x", reply_to="/temp-queue/t")
    other.subscribe("/queue/A")
    name = other.message().headers["reply-to"].replace(":", "\\c")
    for headers in ({}, {"browser": "true"}):
        refusal = other.request("SUBSCRIBE", {"destination": name, "id": "2", **headers})
        assert refusal.headers["message"].startswith(
            "Cannot subscribe to remote temporary destination: temp-queue://ID:"
        )
    owner.subscribe("/temp-queue/t", "client", id="2")
    owner.message()
    owner.done("DISCONNECT")
    assert owner.is_closed()
    other.done("UNSUBSCRIBE", {"id": "1"})
    wait_until(lambda: brokers[0].memory.used == 0)
