"""Subscribers of topics that do not keep up and lose messages, instead of holding back who publishes them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence

import pytest

from jdbcstore import Broker, PersistenceAdapter
from jdbcstore.broker.delivery import Delivery
from jdbcstore.broker.destination_policy import EVICTIONS, DeadLetterStrategy, DestinationPolicy
from jdbcstore.broker.eviction import EvictionQueue
from jdbcstore.destination import Topic
from jdbcstore.errors import ConfigurationError
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import Message
from jdbcstore.primitives import Value
from tests.broker.client import Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.waiting import wait_until

POLICY = DestinationPolicy(pending_limit="constant", pending_messages_max=3)


def lame(client: Client, destination: str = "/topic/T", prefetch: int = 1) -> None:
    """Subscribe, and acknowledge nothing."""
    client.subscribe(destination, "client-individual", **{"activemq.prefetchSize": str(prefetch)})


def acknowledged(client: Client, count: int) -> Iterator[str]:
    for _ in range(count):
        message = client.message()
        client.ack(message)
        yield message.text


def test_publishers_go_on_and_others_get_everything(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    address = start_broker(policies=[POLICY], topic_pending_max=10, slow_consumer_timeout_s=1)
    client, quick, sender = (open_client(address) for _ in range(3))
    lame(client)
    quick.subscribe("/topic/T")
    for number in range(2000):
        sender.send("SEND", {"destination": "/topic/T"}, str(number))
    assert [quick.message().text for _ in range(2000)] == list(map(str, range(2000)))
    assert list(acknowledged(client, 4)) == ["0", "1997", "1998", "1999"]
    assert client.is_silent(0.1)
    assert [consumer.discarded for consumer in brokers[0].topics[Topic("T")].consumers] == [1996, 0]
    wait_until(lambda: brokers[0].memory.used == 0, "nothing is kept")


def test_who_keeps_up_loses_nothing_while_its_socket_is_full(
    start_broker: StartBroker, open_client: OpenClient
) -> None:
    """Its prefetch has room, so what waits for the socket is as good as sent."""
    address = start_broker(policies=[DestinationPolicy(pending_limit="constant", pending_messages_max=0)])
    client, sender = open_client(address), open_client(address)
    client.subscribe("/topic/T", "client")
    for _ in range(200):
        sender.send("SEND", {"destination": "/topic/T"}, b"x" * 50_000)
    sender.done("BEGIN", {"transaction": "all are published"})
    assert [len(client.message().body) for _ in range(200)] == [50_000] * 200


def test_what_has_expired_goes_first(start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]) -> None:
    address = start_broker(policies=[POLICY])
    client, sender = open_client(address), open_client(address)
    lame(client)
    soon_ms = int(time.time() * 1000) + 300
    for text, expires in (("0", 0), ("1", 0), ("2", soon_ms), ("3", 0)):
        sender.publish("/topic/T", text, persistent="false", expires=str(expires))
    wait_until(lambda: time.time() * 1000 > soon_ms, "it has expired")
    sender.publish("/topic/T", "4", persistent="false")
    assert list(acknowledged(client, 4)) == ["0", "1", "3", "4"]


def test_who_publishes_waits_for_the_dead_letters(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    client = open_client(start_broker(sqlite_store, policies=[POLICY]))
    lame(client)
    for number in range(200):
        client.publish("/topic/T", str(number))
    sender = open_client(client.socket.getpeername())
    assert sender.rest_of("/queue/ActiveMQ.DLQ") == [str(number) for number in range(1, 197)]


def test_dead_letters_may_be_turned_off(start_broker: StartBroker, open_client: OpenClient) -> None:
    policy = DestinationPolicy(
        pending_limit="constant", pending_messages_max=1, dead_letter_strategy=DeadLetterStrategy(kind="discarding")
    )
    client = open_client(start_broker(policies=[policy]))
    lame(client)
    for number in range(5):
        client.publish("/topic/T", str(number))
    assert list(acknowledged(client, 2)) == ["0", "4"]


def test_it_is_told(start_broker: StartBroker, open_client: OpenClient) -> None:
    policy = DestinationPolicy(
        pattern=Topic("T"),
        pending_limit="constant",
        pending_messages_max=1,
        advisory_for_discarding_messages=True,
        include_body_for_advisory=True,
    )
    address = start_broker(policies=[policy, DestinationPolicy(pending_limit="constant", pending_messages_max=1)])
    client, everything = open_client(address), open_client(address)
    lame(client)
    lame(everything, "/topic/>")  # what is told of what it loses does not make it lose more
    listener = open_client(address)
    listener.subscribe("/topic/ActiveMQ.Advisory.MessageDiscarded.Topic.T")
    for number in range(4):
        client.publish("/topic/T", str(number), persistent="false")
    counts: dict[str, list[str]] = {}
    while ["1", "2"] not in counts.values():
        headers = listener.message().headers
        counts.setdefault(headers["consumerId"], []).append(headers["discardedCount"])


def test_a_limit_may_go_by_the_prefetch(start_broker: StartBroker, open_client: OpenClient) -> None:
    policy = DestinationPolicy(pending_limit="prefetch_rate", pending_prefetch_rate=2.5)
    client = open_client(start_broker(policies=[policy]))
    lame(client, prefetch=2)
    for number in range(12):
        client.publish("/topic/T", str(number), persistent="false")
    assert list(acknowledged(client, 7)) == ["0", "1", "7", "8", "9", "10", "11"]
    assert client.is_silent(0.1)


@pytest.mark.parametrize(
    ("asked", "texts"), [("1", ["0", "4"]), ("-1", ["0", "2", "3", "4"]), ("9", ["0", "2", "3", "4"])]
)
def test_a_client_may_ask_for_less(
    start_broker: StartBroker, open_client: OpenClient, asked: str, texts: list[str]
) -> None:
    client = open_client(start_broker(policies=[POLICY]))
    headers = {"activemq.prefetchSize": "1", "activemq.maximumPendingMessageLimit": asked}
    client.subscribe("/topic/T", "client-individual", **headers)
    for number in range(5):
        client.publish("/topic/T", str(number), persistent="false")
    assert list(acknowledged(client, len(texts))) == texts


def test_it_asks_with_a_number(start_broker: StartBroker, open_client: OpenClient) -> None:
    client = open_client(start_broker())
    headers = {"id": "1", "destination": "/topic/T", "activemq.maximumPendingMessageLimit": "few"}
    assert "has to be a whole number, got 'few'" in client.request("SUBSCRIBE", headers).headers["message"]


def message(priority: int = 4, **properties: Value) -> Message:
    found = Message(priority=priority, message_id=MessageId(ProducerId("ID:eviction", 1, 1), 1))
    found.properties = dict(properties)
    return found


def evicted(strategy: str, property_name: str, waiting: Sequence[Message], held: int = 0) -> list[int]:
    """The places of those that go."""
    deliveries = [Delivery(message) for message in waiting]
    queue = EvictionQueue(strategy, property_name)
    for delivery in deliveries:
        queue.append(delivery)
    gone = [deliveries.index(delivery) for delivery in queue.evicted(held)]
    assert [queue.popleft() for _ in range(len(queue))] == [
        delivery for place, delivery in enumerate(deliveries) if place not in gone
    ]
    return gone


def test_which_ones_go() -> None:
    priorities = [message(priority) for priority in (4, 2, 9, 2)]
    assert evicted("oldest", "", priorities) == [0]
    assert evicted("oldest_lowest_priority", "", priorities) == [1]
    assert evicted("unique_property", "p", priorities) == [0]
    assert evicted("unique_property", "p", [message(p=p) for p in "abab"]) == [0, 1]
    assert evicted("unique_property", "p", [message(p=p) for p in "abc"]) == [0]
    assert evicted("unique_property", "p", [message(p="a"), message(), message(p="b")]) == [1]
    assert evicted("unique_property", "p", [message(p=p) for p in ({"a": 1}, [1], {"a": 1}, b"1")]) == [0]


def test_the_first_ones_may_not_go() -> None:
    priorities = [message(priority) for priority in (4, 2, 9, 3)]
    assert evicted("oldest", "", priorities, held=2) == [2]
    assert evicted("oldest_lowest_priority", "", priorities, held=2) == [3]
    assert evicted("unique_property", "p", [message(p=p) for p in "abab"], held=1) == [1]
    assert evicted("unique_property", "p", [message(p=p) for p in "aba"], held=1) == [1]
    assert evicted("unique_property", "p", [message(p="a"), message(), message()], held=1) == [1]


class Searching:
    """What `EvictionQueue` does, without an index."""

    def __init__(self, strategy: str) -> None:
        self.strategy = strategy
        self.waiting: list[Delivery] = []

    def evicted(self, held: int) -> list[Delivery]:
        found = self._found(self.waiting[held:])
        self.waiting = [delivery for delivery in self.waiting if delivery not in found]
        return found

    def _found(self, waiting: list[Delivery]) -> list[Delivery]:
        messages = [delivery.message for delivery in waiting if delivery.message is not None]
        if self.strategy == "oldest_lowest_priority":
            return [waiting[place] for place in [messages.index(min(messages, key=lambda one: one.priority))]]
        values = [str(one.properties.get("p", "")) for one in messages]
        last = {value: place for place, value in enumerate(values) if value}
        gone = [one for place, one in enumerate(waiting) if last.get(values[place]) != place]
        return gone if self.strategy == "unique_property" and last and gone else waiting[:1]

    def expired(self, now_ms: int) -> list[Delivery]:
        found = [one for one in self.waiting if one.message is not None and one.message.expired(now_ms)]
        self.waiting = [delivery for delivery in self.waiting if delivery not in found]
        return found


@pytest.mark.parametrize("strategy", EVICTIONS)
@pytest.mark.parametrize("seed", range(5))
def test_what_is_known_by_an_index_is_what_a_search_would_find(strategy: str, seed: int) -> None:
    chance = random.Random(seed)
    queue, searching = EvictionQueue(strategy, "p"), Searching(strategy)
    for now_ms in range(1, 600):
        for _ in range(chance.randrange(3)):
            properties = {"p": chance.randrange(4)} if chance.random() < 0.7 else {}
            one = message(chance.randrange(3), **properties)
            one.expiration = chance.choice([0, now_ms + chance.randrange(200)])
            delivery = Delivery(one)
            queue.append(delivery)
            searching.waiting.append(delivery)
        held = chance.choice([0, 0, 3, 10])
        if len(queue) > held and chance.random() < 0.5:
            assert queue.evicted(held) == searching.evicted(held)
        if queue and chance.random() < 0.3:
            assert queue.popleft() is searching.waiting.pop(0)
        if chance.random() < 0.1:
            assert set(queue.expired(now_ms)) == set(searching.expired(now_ms))
        assert len(queue) == len(searching.waiting)
    assert [queue.popleft() for _ in range(len(queue))] == searching.waiting


@pytest.mark.parametrize("strategy", EVICTIONS)
@pytest.mark.parametrize("held", [0, 1000])
def test_it_costs_little_however_much_waits(strategy: str, held: int) -> None:
    queue = EvictionQueue(strategy, "p")
    for number in range(10_000):
        queue.append(Delivery(message(number % 10, p=number)))
    began_s = time.process_time()
    for number in range(10_000, 11_000):
        queue.append(Delivery(message(number % 10, p=number)))
        queue.evicted(held)
    assert time.process_time() - began_s < 1


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"pending_limit": "some"}, "pending_limit must be one of none, constant, prefetch_rate"),
        ({"message_eviction": "newest"}, "message_eviction must be one of oldest"),
        ({"message_eviction": "unique_property"}, "needs eviction_property"),
    ],
)
def test_what_cannot_be_is_told(fields: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        DestinationPolicy(**fields)  # type: ignore[arg-type]
