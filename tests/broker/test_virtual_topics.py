"""Virtual topics: copies for the queues of consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from jdbcstore import Broker, PersistenceAdapter, Queue, open_store
from jdbcstore.broker import slices
from jdbcstore.broker.prepared import PREPARED_LEAST
from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.test_durable import serving

TOPIC = "/topic/VirtualTopic.FOO"
QUEUE = "/queue/Consumer.MyApp.VirtualTopic.FOO"


def known(client: Client, destination: str) -> None:
    """Make a queue known."""
    client.subscribe(destination, id="known")
    client.done("UNSUBSCRIBE", {"id": "known"})


@pytest.fixture(params=["memory", "sqlite"])
def either(request: pytest.FixtureRequest, start_broker: StartBroker) -> Address:
    """A broker over each of the quick stores."""
    return start_broker(None if request.param == "memory" else request.getfixturevalue("sqlite_store"))


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_every_group_of_consumers_gets_a_copy(either: Address, open_client: OpenClient, persistent: str) -> None:
    sender, plain, first, second = (open_client(either) for _ in range(4))
    plain.subscribe(TOPIC)
    first.subscribe("/queue/Consumer.A.VirtualTopic.FOO")
    known(second, "/queue/Consumer.B.VirtualTopic.FOO")
    known(second, "/queue/Consumer.B.VirtualTopic.BAR")
    known(second, "/queue/Consumer.VirtualTopic.FOO")
    sender.publish(TOPIC, "x", persistent=persistent)
    assert plain.message().text == "x"
    copy = first.message()
    assert (copy.text, copy.headers["destination"]) == ("x", "/queue/Consumer.A.VirtualTopic.FOO")
    assert copy.headers["original-destination"] == TOPIC
    second.subscribe("/queue/Consumer.B.>", id="b")
    assert second.message().headers["destination"] == "/queue/Consumer.B.VirtualTopic.FOO"
    second.subscribe("/queue/Consumer.VirtualTopic.FOO", id="none")
    assert second.is_silent(0.1)
    assert plain.is_silent(0.1)


@pytest.mark.parametrize("persistent", ["true", "false"])
@pytest.mark.parametrize(
    "pattern", ["Consumer.A.VirtualTopic.>", "Consumer.A.*.FOO,Consumer.A.VirtualTopic.*", "Consumer.A.>"]
)
def test_a_wildcard_makes_queues_known(either: Address, open_client: OpenClient, pattern: str, persistent: str) -> None:
    sender, consumer, other = (open_client(either) for _ in range(3))
    sender.publish(TOPIC, "before", persistent=persistent)
    consumer.subscribe(f"/queue/{pattern}")
    other.subscribe("/queue/Consumer.*.VirtualTopic.>")  # nobody's name: it makes none
    for text in ("1", "2"):
        sender.publish(TOPIC, text, persistent=persistent)
    came = [client.message() for client in (consumer, other)]
    assert sorted(message.text for message in came) == ["1", "2"]
    assert {message.headers["destination"] for message in came} == {"/queue/Consumer.A.VirtualTopic.FOO"}
    for client in (consumer, other):
        client.done("UNSUBSCRIBE", {"id": "1"})
    sender.publish(TOPIC, "kept", persistent=persistent)
    sender.publish("/topic/VirtualTopic.LATER", "lost", persistent=persistent)
    assert sender.rest_of("/queue/Consumer.A.VirtualTopic.FOO") == ["kept"]
    sender.done("UNSUBSCRIBE", {"id": "1"})
    assert sender.rest_of("/queue/Consumer.A.VirtualTopic.LATER") == []


def test_a_wildcard_refuses_nobody_a_long_name(either: Address, open_client: OpenClient) -> None:
    sender, consumer = open_client(either), open_client(either)
    consumer.subscribe("/queue/Consumer.A.VirtualTopic.>")
    sender.publish(f"/topic/VirtualTopic.{'x' * 225}", "for the topic alone")
    assert consumer.is_silent(0.1)


def test_copies_are_part_of_transactions(either: Address, open_client: OpenClient) -> None:
    client, consumer = open_client(either), open_client(either)
    consumer.subscribe(QUEUE)
    for persistent in ("true", "false"):
        for end in ("ABORT", "COMMIT"):
            client.send("BEGIN", {"transaction": "t"})
            client.send("SEND", {"destination": TOPIC, "persistent": persistent, "transaction": "t"}, end)
            client.done(end, {"transaction": "t"})
        assert consumer.message().text == "COMMIT"
    assert consumer.is_silent(0.1)


def test_a_numbered_message_has_its_copies_once(either: Address, open_client: OpenClient) -> None:
    client, consumer = open_client(either), open_client(either)
    consumer.subscribe(QUEUE)
    for _ in range(2):
        client.publish(TOPIC, "once", producer_id="till", producer_sequence="1")
    assert consumer.message().text == "once"
    assert consumer.is_silent(0.1)


COPIES = PREPARED_LEAST


def groups(client: Client, count: int) -> None:
    """So many queues of consumers are known."""
    for number in range(count):
        client.send("SUBSCRIBE", {"id": str(number), "destination": f"/queue/Consumer.{number}.VirtualTopic.FOO"})
        client.send("UNSUBSCRIBE", {"id": str(number)})
    client.done("BEGIN", {"transaction": "known"})
    client.done("ABORT", {"transaction": "known"})


def test_copies_for_very_many_groups_are_made_ready_in_slices(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    brokers: list[Broker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    client = open_client(start_broker(sqlite_store))
    groups(client, COPIES)
    turns: list[int] = []
    go_on = slices.Slices._go_on

    def counted_slice(self: slices.Slices, job: Iterator[None], done: Callable[[], object]) -> None:
        turns.append(1)
        go_on(self, job, done)

    monkeypatch.setattr(slices.Slices, "_go_on", counted_slice)
    for headers in ({}, {"producer-id": "till", "producer-sequence": "1"}, {"transaction": "t"}):
        turns.clear()
        if "transaction" in headers:
            client.done("BEGIN", headers)
        client.send("SEND", {"destination": TOPIC, "persistent": "true", "receipt": "r", **headers}, "x")
        assert client.frame().headers["receipt-id"] == "r"
        if "transaction" in headers:
            client.done("COMMIT", headers)
        assert len(turns) >= COPIES
    depths = {broker_queue.depth for broker_queue in brokers[0].queues.values()}
    assert (len(brokers[0].queues), depths, brokers[0].memory.uncommitted) == (COPIES, {3}, 0)


def test_copies_are_limited_in_number(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    client = open_client(start_broker(sqlite_store, transaction_messages_max=9))
    groups(client, 10)
    error = client.request("SEND", {"destination": TOPIC, "persistent": "true"}, "x")
    assert "There are 10 copies for virtual and composite destinations" in error.headers["message"]
    assert "transaction_messages_max is 9" in error.headers["message"]
    client.publish("/queue/A", "goes on")


def test_copies_are_stored_together_with_what_durable_subscriptions_get(either: Address) -> None:
    with Client(either) as client:
        client.connect(client_id="ann")
        known(client, QUEUE)
        client.subscribe(TOPIC, id="d", **{"activemq.subscriptionName": "news"})
        client.publish(TOPIC, "x")
        assert client.message().text == "x"
        client.subscribe(QUEUE, id="q")
        assert client.message().headers["subscription"] == "q"


def test_they_can_be_turned_off(start_broker: StartBroker, open_client: OpenClient) -> None:
    client = open_client(start_broker(use_virtual_topics=False))
    client.subscribe(QUEUE)
    client.publish(TOPIC, "x")
    assert client.is_silent(0.1)


def test_an_idle_queue_goes_on_getting_copies(
    start_broker: StartBroker, brokers: list[Broker], open_client: OpenClient
) -> None:
    client = open_client(start_broker(idle_queue_timeout_s=0.001))
    known(client, QUEUE)
    known(client, "/queue/other")
    while Queue("other") in brokers[0].queues:
        brokers[0].loop.call_soon_threadsafe(brokers[0].sweep)
        client.publish("/topic/something")
    client.publish(TOPIC, "x")
    client.subscribe(QUEUE)
    assert client.message().text == "x"


def test_an_empty_queue_is_known_after_a_restart(store_url: str) -> None:
    """ActiveMQ's AMQ3445Test."""

    def depth() -> int:
        with open_store(store_url) as adapter:
            queue = Queue("Consumer.MyApp.VirtualTopic.FOO")
            assert queue in adapter.destinations()
            return adapter.queue_message_store(queue).message_count

    with serving(store_url) as address, Client(address) as client:
        client.connect()
        known(client, QUEUE)
    assert depth() == 0
    with serving(store_url) as address, Client(address) as client:
        client.connect()
        client.publish(TOPIC, "1")
    assert depth() == 1
    with serving(store_url) as address, Client(address) as client:
        client.connect()
        client.publish(TOPIC, "2")
    assert depth() == 2
    with serving(store_url) as address, Client(address) as client:
        client.connect()
        client.subscribe(QUEUE)
        assert [client.message().text, client.message().text] == ["1", "2"]
