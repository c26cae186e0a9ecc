"""What one message or commit makes very many wait for is done in slices: nobody sees that in what he gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jdbcstore import Broker, PersistenceAdapter, ProtocolError, Queue, StoreError, Topic
from jdbcstore.broker import expiry, publications, slices, topic
from jdbcstore.broker.durable import Durables, DurableSubscription
from jdbcstore.broker.queue import Queue as BrokerQueue
from jdbcstore.broker.topic import TopicConsumer
from jdbcstore.destination import Destination
from jdbcstore.subscription import SubscriptionKey
from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.test_dead_letters import texts
from tests.waiting import wait_until

SEVERAL = 3


@pytest.fixture(autouse=True)
def one_step_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few are very many, and a slice is one step."""
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    monkeypatch.setattr(expiry, "SLICE_S", 0.0)
    monkeypatch.setattr(topic, "_SUBSCRIBERS_AT_ONCE", SEVERAL)
    monkeypatch.setattr(publications, "_AT_ONCE", SEVERAL)


@pytest.fixture
def in_one_go(brokers: list[Broker], monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], list[int]]:
    """Counts calls of a method by turn of the broker's loop; call it before the clients do what is counted."""

    def count(of: Any, name: str) -> list[int]:
        loop, method, counts = brokers[0].loop, getattr(of, name), [0]
        is_counting = False

        def turned() -> None:
            nonlocal is_counting
            is_counting = False
            counts.append(0)

        def counted(*arguments: Any, **more: Any) -> Any:
            nonlocal is_counting
            counts[-1] += 1
            if not is_counting:
                is_counting = True
                loop.call_soon(turned)
            return method(*arguments, **more)

        monkeypatch.setattr(of, name, counted)
        return counts

    return count


def subscribers(open_client: OpenClient, address: Address, destination: str, count: int = 5) -> list[Client]:
    """Two connections, each with so many subscriptions."""
    clients = [open_client(address), open_client(address)]
    for client in clients:
        for number in range(count):
            client.subscribe(destination, id=str(number))
    return clients


def test_all_subscribers_of_a_topic_get_all_messages_in_one_order(
    start_broker: StartBroker, open_client: OpenClient, in_one_go: Callable[[Any, str], list[int]]
) -> None:
    address = start_broker()
    clients = subscribers(open_client, address, "/topic/T")
    counts = in_one_go(TopicConsumer, "publish")
    publishers = [open_client(address), open_client(address)]
    for number in range(20):
        for name, publisher in zip("ab", publishers, strict=True):
            publisher.send("SEND", {"destination": "/topic/T"}, f"{name}{number}")
    got: dict[tuple[int, str], list[str]] = {}
    for place, client in enumerate(clients):
        for _ in range(5 * 40):
            message = client.message()
            got.setdefault((place, message.headers["subscription"]), []).append(message.text)
    orders = list(got.values())
    assert len(orders) == 10
    assert all(order == orders[0] for order in orders)
    for name in "ab":
        assert [text for text in orders[0] if text[0] == name] == [f"{name}{number}" for number in range(20)]
    assert max(counts) <= 2
    assert sum(counts) == 10 * 40


def test_who_leaves_meanwhile_gets_nothing_and_costs_nothing(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    address = start_broker()
    staying, leaving = subscribers(open_client, address, "/topic/T")
    open_client(address).send("SEND", {"destination": "/topic/T"}, "x")
    leaving.drop()
    assert [staying.message().text for _ in range(5)] == ["x"] * 5
    wait_until(lambda: len(brokers[0].topics[Topic("T")].consumers) == 5 and brokers[0].memory.used == 0)
    open_client(address).publish("/topic/T", "y")
    assert [staying.message().text for _ in range(5)] == ["y"] * 5


def test_a_publisher_that_goes_meanwhile_has_published(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker()
    clients = subscribers(open_client, address, "/topic/T")
    publisher = open_client(address)
    for number in range(5):
        publisher.send("SEND", {"destination": "/topic/T"}, str(number))
    publisher.done("DISCONNECT")
    publisher.drop()
    open_client(address).publish("/topic/T", "last")
    for client in clients:
        assert sorted(client.message().text for _ in range(30)) == sorted([*"01234", "last"] * 5)


def test_stored_and_other_messages_of_a_topic_keep_their_order(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    address = start_broker(sqlite_store)
    durable = open_client(address, client_id="d")
    durable.subscribe("/topic/T", id="durable", **{"activemq.subscriptionName": "d"})
    client, _ = subscribers(open_client, address, "/topic/T")
    publisher = open_client(address)
    for number in range(30):
        persistent = "true" if number % 3 else "false"
        publisher.send("SEND", {"destination": "/topic/T", "persistent": persistent}, str(number))
    got: dict[str, list[str]] = {}
    for _ in range(5 * 30):
        message = client.message()
        got.setdefault(message.headers["subscription"], []).append(message.text)
    assert list(got.values()) == [[str(number) for number in range(30)]] * 5
    assert sorted(int(durable.message().text) for _ in range(30)) == list(range(30))


def test_other_messages_reach_all_durable_subscriptions(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    in_one_go: Callable[[Any, str], list[int]],
) -> None:
    address = start_broker(sqlite_store)
    client = open_client(address, client_id="d")
    for number in range(6):
        client.subscribe("/topic/T", id=str(number), **{"activemq.subscriptionName": f"d{number}"})
    counts = in_one_go(DurableSubscription, "offer")
    client.done("SEND", {"destination": "/topic/T"}, "x")
    assert {client.message().headers["subscription"] for _ in range(6)} == set("012345")
    assert max(counts) <= 2


def test_what_a_commit_does_not_store_keeps_its_order(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    in_one_go: Callable[[Any, str], list[int]],
    brokers: list[Broker],
) -> None:
    client = open_client(start_broker(sqlite_store))
    counts = in_one_go(BrokerQueue, "add")
    for name in "st":
        client.send("BEGIN", {"transaction": name})
        for number in range(20):
            client.send("SEND", {"destination": "/queue/A", "transaction": name}, f"{name}{number}")
    for name in "st":
        client.send("COMMIT", {"transaction": name, "receipt": name})
    assert [client.frame().headers["receipt-id"] for _ in "st"] == ["s", "t"]
    client.done("SEND", {"destination": "/queue/A"}, "last")
    assert max(counts) <= 2
    sent = [f"{name}{number}" for name in "st" for number in range(20)]
    assert texts(client, "/queue/A") == [*sent, "last"]
    wait_until(lambda: brokers[0].memory.uncommitted == 0)


def test_all_queues_of_a_virtual_topic_get_a_copy(
    start_broker: StartBroker, open_client: OpenClient, in_one_go: Callable[[Any, str], list[int]]
) -> None:
    client = open_client(start_broker())
    for number in range(10):
        client.subscribe(f"/queue/Consumer.c{number}.VirtualTopic.T", id=str(number))
    counts = in_one_go(BrokerQueue, "add")
    client.send("SEND", {"destination": "/topic/VirtualTopic.T"}, "1")
    client.send("SEND", {"destination": "/topic/VirtualTopic.T"}, "2")
    got: dict[str, list[str]] = {}
    for _ in range(20):
        message = client.message()
        got.setdefault(message.headers["subscription"], []).append(message.text)
    assert list(got.values()) == [["1", "2"]] * 10
    assert max(counts) <= 2


def test_all_wildcards_take_part_in_a_new_queue(
    start_broker: StartBroker,
    open_client: OpenClient,
    in_one_go: Callable[[Any, str], list[int]],
    brokers: list[Broker],
) -> None:
    address = start_broker()
    staying, leaving = subscribers(open_client, address, "/queue/new.>", 10)
    counts = in_one_go(BrokerQueue, "add_consumer")
    staying.send("SEND", {"destination": "/queue/new.1"}, "x")
    leaving.drop()
    assert staying.message().text == "x"
    queue = brokers[0].queues[Queue("new.1")]
    wait_until(lambda: len(queue.consumers) == 10)
    assert {consumer.subscription_id for consumer in queue.consumers} == {str(number) for number in range(10)}
    assert max(counts) <= 2


@pytest.mark.parametrize("copies", [0, 5], ids=["by itself", "with copies"])
def test_what_its_destination_refuses_is_answered_and_counted_no_more(
    start_broker: StartBroker,
    open_client: OpenClient,
    brokers: list[Broker],
    monkeypatch: pytest.MonkeyPatch,
    copies: int,
) -> None:
    def refuse(destination: Destination) -> None:
        raise StoreError("it cannot be had")

    address = start_broker()
    name = "/topic/VirtualTopic.T"
    for number in range(copies):
        open_client(address).subscribe(f"/queue/Consumer.{number}.VirtualTopic.T")
    client = open_client(address)
    monkeypatch.setattr(brokers[0], "topic", refuse)
    assert "it cannot be had" in client.request("SEND", {"destination": name}, "x").headers["message"]
    wait_until(lambda: brokers[0].memory.uncommitted == 0)
    client.done("DISCONNECT")


NEWS = [f"/topic/news.{number}" for number in range(30)]
DURABLY = {"activemq.subscriptionName": "n"}


@pytest.fixture
def publisher(start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter) -> Client:
    """A client of a broker with many topics that a wildcard covers, and one that it does not."""
    client = open_client(start_broker(sqlite_store))
    for name in [*NEWS, "/topic/other"]:
        client.publish(name, "before")
    return client


def durable_keys(broker: Broker) -> list[int]:
    return [len(broker.topics[Topic.decoded(name.removeprefix("/topic/"))].durable) for name in NEWS]


def publish_all(publisher: Client, text: str) -> None:
    for name in NEWS:
        publisher.send("SEND", {"destination": name, "persistent": "true"}, f"{text} {name}")
    publisher.done("BEGIN", {"transaction": text})


def test_a_durable_wildcard_takes_up_and_leaves_many_topics_one_by_one(
    publisher: Client, open_client: OpenClient, in_one_go: Callable[[Any, str], list[int]], brokers: list[Broker]
) -> None:
    client = open_client(brokers[0].address, client_id="d")
    taken_up, begun = in_one_go(Durables, "_take_up"), in_one_go(DurableSubscription, "begin")
    client.subscribe("/topic/news.>", id="1", **DURABLY)
    publish_all(publisher, "a")
    assert sorted(client.message().text for _ in NEWS) == sorted(f"a {name}" for name in NEWS)
    assert (sum(taken_up), sum(begun)) == (len(NEWS), len(NEWS))
    assert max(taken_up) <= 2
    assert max(begun) <= 2
    client.done("UNSUBSCRIBE", {"id": "1"})
    removed = in_one_go(type(brokers[0].topics[Topic("news.0")].open_store()), "delete_subscription")
    client.done("UNSUBSCRIBE", {"id": "1", **DURABLY})
    assert sum(removed) == len(NEWS)
    assert max(removed) <= 2
    assert not any(durable_keys(brokers[0]))
    assert "No durable subscription exists" in client.request("UNSUBSCRIBE", {"id": "1", **DURABLY}).headers["message"]


def test_who_goes_before_a_durable_wildcard_has_begun_takes_it_up_again_at_once(
    publisher: Client,
    open_client: OpenClient,
    in_one_go: Callable[[Any, str], list[int]],
    brokers: list[Broker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = open_client(brokers[0].address, client_id="d")
    taken_up = in_one_go(Durables, "_take_up")
    cover, covered = Durables._cover, [0]

    def covering(durables: Durables, *arguments: Any, **options: Any) -> Any:
        covered[0] += 1
        if covered[0] == 2:
            leaving = next(client for client in brokers[0].clients if client.client_id == "d")
            brokers[0].loop.call_soon(leaving.close)  # as its transport does
            with pytest.raises(ProtocolError, match="in use"):
                durables.unsubscribing(SubscriptionKey("d", "n"), lambda error: None)
        return cover(durables, *arguments, **options)

    monkeypatch.setattr(Durables, "_cover", covering)
    client.send("SUBSCRIBE", {"destination": "/topic/news.>", "id": "1", **DURABLY})
    wait_until(lambda: covered[0] >= 2 and len(brokers[0].clients) == 1)
    client.drop()
    assert 2 <= sum(taken_up) < len(NEWS)
    wait_until(lambda: sum(durable_keys(brokers[0])) == sum(taken_up))
    again = open_client(brokers[0].address, client_id="d")
    again.subscribe("/topic/news.>", id="1", **DURABLY)
    assert sum(durable_keys(brokers[0])) == len(NEWS)
    publish_all(publisher, "a")
    assert sorted(again.message().text for _ in NEWS) == sorted(f"a {name}" for name in NEWS)


def test_a_durable_wildcard_that_the_store_refuses_half_way_can_be_removed(
    publisher: Client, open_client: OpenClient, brokers: list[Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = open_client(brokers[0].address, client_id="d")
    add, added = Durables._add, [0]

    def adding(durables: Durables, *arguments: Any, **more: Any) -> None:
        added[0] += 1
        if added[0] == 4:
            raise StoreError("no more")
        add(durables, *arguments, **more)

    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    monkeypatch.setattr(Durables, "_add", adding)
    refused = client.request("SUBSCRIBE", {"destination": "/topic/news.>", "id": "1", **DURABLY})
    assert "no more" in refused.headers["message"]
    assert sum(durable_keys(brokers[0])) == 3
    client.done("UNSUBSCRIBE", {"id": "1", **DURABLY})
    assert sum(durable_keys(brokers[0])) == 0
    client.subscribe("/topic/news.>", id="1", **DURABLY)
    publish_all(publisher, "a")
    assert sorted(client.message().text for _ in NEWS) == sorted(f"a {name}" for name in NEWS)


def test_a_commit_is_answered_whatever_goes_wrong_with_a_message(
    start_broker: StartBroker, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = open_client(start_broker())
    add, added = BrokerQueue.add, [0]

    def adding(queue: BrokerQueue, message: Any, answer: Any) -> None:
        added[0] += 1
        if added[0] == 4:
            raise RuntimeError("a defect")
        add(queue, message, answer)

    monkeypatch.setattr(BrokerQueue, "add", adding)
    for name, numbers in (("s", range(10)), ("t", range(10, 20))):
        client.send("BEGIN", {"transaction": name})
        for number in numbers:
            client.send("SEND", {"destination": "/queue/A", "transaction": name}, str(number))
        client.send("COMMIT", {"transaction": name, "receipt": name})
    assert [client.frame().headers["receipt-id"] for _ in "st"] == ["s", "t"]
    assert texts(client, "/queue/A")[-10:] == [str(number) for number in range(10, 20)]


def test_a_subscription_is_found_by_its_destination_however_many_there_are(
    start_broker: StartBroker, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, count = open_client(start_broker(), "1.0"), 200
    names = [f"/queue/{number}" for number in range(count)]
    for name in [*names, *names]:
        client.send("SUBSCRIBE", {"destination": name})
    client.done("BEGIN", {"transaction": "t"})
    compared, equal = [0], Destination.__eq__

    def counted(one: Destination, other: object) -> bool:
        compared[0] += 1
        return equal(one, other)

    monkeypatch.setattr(Destination, "__eq__", counted)
    for name in reversed(names):
        client.send("UNSUBSCRIBE", {"destination": name})
    client.done("COMMIT", {"transaction": "t"})
    assert compared[0] < 10 * count
    monkeypatch.undo()
    client.publish(names[7], "x")
    assert client.message().text == "x"  # the second subscription is still there
    client.done("UNSUBSCRIBE", {"destination": names[7]})
    assert "No subscription matched" in client.request("UNSUBSCRIBE", {"destination": names[7]}).headers["message"]
