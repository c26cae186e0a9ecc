"""What operators see of a running broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jdbcstore import open_store
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError, LockError
from jdbcstore.management import inspection
from jdbcstore.management.filters import Filter
from jdbcstore.message import TextMessage
from jdbcstore.store.contract import SupportsLocking
from jdbcstore.store.memory import MemoryPersistenceAdapter
from tests.broker.client import Client
from tests.management.desk import Managed, managed
from tests.servers.prepared import PreparedFile
from tests.waiting import wait_until


@pytest.fixture
def broker(tmp_path: Path, prepared_file: PreparedFile) -> Iterator[Managed]:
    with managed(open_store(prepared_file.url(tmp_path / "b.db")), broker_name="b1") as broker:
        yield broker


@pytest.fixture
def client(broker: Managed) -> Iterator[Client]:
    with Client(broker.address) as client:
        client.connect(client_id="c1")
        yield client


def test_a_destination_is_seen_with_its_numbers(broker: Managed, client: Client) -> None:
    for number in range(3):
        client.publish("/queue/A", f"m{number}")
    client.subscribe("/queue/A", ack="client-individual")
    client.done("ACK", client.named(client.message()))
    client.message()
    client.message()
    view = broker.view("queue://A")
    assert (view.depth, view.in_flight, view.enqueued, view.dequeued, view.consumers) == (2, 2, 3, 1, 1)
    wait_until(lambda: broker.view("queue://A").oldest_ms is not None)
    oldest_ms = broker.view("queue://A").oldest_ms
    assert oldest_ms is not None
    assert 0 <= broker.broker.now_ms() - oldest_ms < 60_000


def test_the_age_of_what_was_given_back_is_known(broker: Managed, client: Client) -> None:
    for number in range(3):
        client.publish("/queue/A", f"m{number}")
    client.subscribe("/queue/A", ack="client-individual")
    client.done("ACK", client.named(client.message()))
    client.done("UNSUBSCRIBE", {"id": "1"})
    wait_until(lambda: broker.view("queue://A").in_flight == 0)
    wait_until(lambda: broker.view("queue://A").oldest_ms is not None)


def test_destinations_are_sorted_filtered_and_paged(broker: Managed) -> None:
    async def create() -> None:
        for number in range(30):
            await broker.face.create(f"queue://Q{number:02}")
        await broker.face.create("topic://T")
        await broker.face.look()

    broker.call(create())
    seen, count = broker.call(broker.face.destinations(kind="queue", text="q", offset=10, count=3))
    assert ([view.name for view in seen], count) == (["queue://Q10", "queue://Q11", "queue://Q12"], 30)
    last, _ = broker.call(broker.face.destinations(sort="name", is_descending=True, count=1))
    assert last[0].name == "topic://T"
    with pytest.raises(ConfigurationError, match="sort has to be"):
        broker.call(broker.face.destinations(sort="nonsense"))


def test_clients_and_what_they_subscribe_to_are_seen(broker: Managed, client: Client) -> None:
    client.done(
        "SUBSCRIBE",
        {"destination": "/queue/A", "id": "1", "ack": "client-individual", "activemq.prefetchSize": "1"},
    )
    client.publish("/queue/A", "one")
    client.message()
    (connection,) = broker.call(broker.face.connections())
    assert (connection.client_id, connection.protocol, connection.subscriptions) == ("c1", "STOMP", 1)
    assert (connection.unacknowledged, connection.sent) == (1, 1)
    (subscription,) = broker.call(broker.face.slow_consumers())
    assert (subscription.kind, subscription.destination, subscription.unacknowledged) == ("queue", "queue://A", 1)
    (producer,) = broker.call(broker.face.producers())
    assert producer.connection_id == connection.connection_id


def test_a_durable_subscription_is_seen_with_its_lag_and_removed(broker: Managed, client: Client) -> None:
    client.done("SUBSCRIBE", {"destination": "/topic/T", "id": "1", "activemq.subscriptionName": "s1"})
    client.done("UNSUBSCRIBE", {"id": "1"})
    for number in range(4):
        client.publish("/topic/T", f"m{number}")
    (subscription,) = broker.call(broker.face.subscriptions("topic://T"))
    assert (subscription.kind, subscription.name, subscription.lag) == ("durable", "s1", 4)
    assert subscription.connection_id is None
    assert broker.bodies("topic://T") == ["m0", "m1", "m2", "m3"]
    broker.call(broker.face.remove_subscription("c1", "s1"))
    assert broker.call(broker.face.subscriptions()) == []


def test_a_client_is_disconnected_and_told(broker: Managed, client: Client) -> None:
    (connection,) = broker.call(broker.face.connections())
    broker.call(broker.face.disconnect(connection.connection_id))
    assert "operator" in client.error().headers["message"]
    wait_until(lambda: broker.call(broker.face.connections()) == [])
    with pytest.raises(ConfigurationError, match="no connection"):
        broker.call(broker.face.disconnect(connection.connection_id))


def test_the_store_tells_how_its_commits_go(broker: Managed, client: Client) -> None:
    for _ in range(5):
        client.publish("/queue/A", "m")
    store = broker.call(broker.face.store())
    assert (store.kind, store.failures) == ("sqlite", 0)
    assert store.commits >= 5
    assert store.commit_ms[0] is not None
    assert store.size_bytes is not None
    assert store.size_bytes > 0
    assert store.standbys is None  # SQLite does not know


def test_standbys_are_not_counted_with_each_look(broker: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the store can tell, each question makes a connection to the server."""
    assert isinstance(broker.broker.adapter, SupportsLocking)
    asked: list[int] = []

    def standbys() -> int:
        asked.append(0)
        return len(asked)

    monkeypatch.setattr(broker.broker.adapter.locker(), "standbys", standbys)
    monkeypatch.setattr(inspection, "_STANDBYS_S", 3600.0)
    assert [broker.call(broker.face.store()).standbys for _ in range(3)] == [1, 1, 1]


def test_the_broker_is_seen_as_a_whole(broker: Managed, client: Client) -> None:
    client.publish("/queue/A", "m")
    client.publish("/queue/ActiveMQ.DLQ", "dead")
    broker.view("queue://A")
    view = broker.face.broker()
    assert (view.name, view.state, view.depth, view.dead_letters, view.connections) == ("b1", "master", 1, 1, 1)
    assert view.addresses == (f"127.0.0.1:{broker.address[1]}",)
    assert broker.face.terms()[0].state == "master"
    sample = broker.desk.observation.sample()
    assert (sample.depth, sample.connections) == (1, 1)


def test_a_message_is_seen_in_full(broker: Managed) -> None:
    message = TextMessage(destination=Queue("A"))
    message.text = "hello"
    message.properties = {"colour": "red"}
    message_id = broker.call(broker.face.send(message))
    found = broker.call(broker.face.message("queue://A", message_id=message_id))
    assert isinstance(found, TextMessage)
    assert (found.text, found.properties["colour"]) == ("hello", "red")
    number = broker.call(broker.face.browse("queue://A")).messages[0].number
    assert broker.call(broker.face.message("queue://A", number=number)) is not None
    assert broker.call(broker.face.message("queue://A", number=number + 1000)) is None


def test_pages_of_a_queue_that_goes_by_priority(tmp_path: Path) -> None:
    policies = [DestinationPolicy(pattern=Queue(">"), prioritized_messages=True)]
    store = open_store(f"sqlite:///{tmp_path / 'p.db'}")
    with managed(store, policies=policies) as broker, Client(broker.address) as client:
        client.connect()
        for number in range(20):
            client.publish("/queue/A", f"m{number}", priority=str(number % 10))
        found = broker.bodies("queue://A")
        assert sorted(found) == sorted(f"m{number}" for number in range(20))
        assert found[:2] == ["m9", "m19"]
        assert broker.operate("delete", "queue://A", Filter("JMSPriority > 4")).done == 10
        assert broker.operate("move", "queue://A", "queue://B", Filter()).done == 10


def test_only_a_master_with_a_lock_hands_over() -> None:
    with managed(MemoryPersistenceAdapter()) as broker, pytest.raises(LockError, match="one broker only"):
        broker.call(broker.face.hand_over())


def test_mastership_goes_to_the_standby_and_nothing_is_lost(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'b.db'}"
    with managed(open_store(url), broker_name="first") as first, Client(first.address) as client:
        client.connect()
        client.publish("/queue/A", "kept")
        with managed(open_store(url), broker_name="second", waits=False) as second:
            wait_until(lambda: second.face.master().state == "standby")
            first.call(first.face.hand_over())
            wait_until(lambda: second.face.master().state == "master")
            wait_until(lambda: first.face.master().state == "standby")
            assert second.bodies("queue://A") == ["kept"]
            assert "handed over" in " ".join(term.reason for term in first.face.terms())


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_a_page_ends_behind_so_many_bytes(broker: Managed, client: Client, persistent: str) -> None:
    for _ in range(9):
        client.done("SEND", {"destination": "/queue/BIG", "persistent": persistent}, "x" * 1_000_000)
    counts: list[int] = []
    after = None
    while not counts or after is not None:
        page = broker.call(broker.face.browse("queue://BIG", after=after, count=1000))
        counts.append(len(page.messages))
        after = page.after
    assert counts == [5, 4]
