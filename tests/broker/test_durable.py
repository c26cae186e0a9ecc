"""Durable topic subscriptions, as STOMP clients use them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Broker, BrokerOptions, PersistenceAdapter, Topic, open_store, running
from jdbcstore.broker import slices
from jdbcstore.broker.destination_policy import DeadLetterStrategy, DestinationPolicy, RedeliveryPolicy
from jdbcstore.broker.topic import Topic as TopicRegion
from jdbcstore.config.urls import open_spool
from jdbcstore.store.contract import SupportsTopics, TopicMessageStore
from jdbcstore.subscription import SubscriptionKey
from tests.broker.client import Address, Client, Frame
from tests.broker.conftest import RUNNING, OpenClient, StartBroker
from tests.broker.test_receipts import commits_held
from tests.servers.prepared import PreparedFile
from tests.waiting import wait_until

TOPIC = "/topic/T"
ANN = SubscriptionKey("ann", "news")


pytestmark = pytest.mark.variants(2)


@pytest.fixture(params=["memory", "sqlite"])
def either(request: pytest.FixtureRequest, start_broker: StartBroker) -> Address:
    """A broker over each of the quick stores."""
    return start_broker(None if request.param == "memory" else request.getfixturevalue("sqlite_store"))


@contextmanager
def serving(
    url: str,
    policies: Sequence[DestinationPolicy] = (),
    redelivery_policies: Sequence[RedeliveryPolicy] = (),
    **options: Any,
) -> Iterator[Address]:
    """A broker over a database, from its start to its stop."""
    chosen = BrokerOptions(bind="127.0.0.1:0", **options)
    broker = Broker(open_store(url), chosen, open_spool, policies, redelivery_policies)
    with running(broker) as address:
        RUNNING[address] = broker
        yield address


@contextmanager
def subscriber(address: Address, client_id: str = "ann", version: str = "1.2") -> Iterator[Client]:
    """A client with a client id; it disconnects in the end, and is gone then."""
    with Client(address) as client:
        assert client.connect(version, client_id=client_id).command == "CONNECTED"
        yield client
        client.done("DISCONNECT")


def durably(client: Client, ack: str = "auto", name: str = "news", destination: str = TOPIC, **headers: str) -> None:
    """Take up a durable subscription."""
    client.subscribe(destination, ack, **{"activemq.subscriptionName": name, **headers})


def create(address: Address, client_id: str = "ann", name: str = "news", **headers: str) -> None:
    """Make a durable subscription and leave it."""
    with subscriber(address, client_id) as client:
        durably(client, name=name, **headers)


def publish(address: Address, *bodies: str, destination: str = TOPIC, **headers: str) -> None:
    with Client(address) as client:
        client.connect()
        for body in bodies:
            client.publish(destination, body, **headers)


def texts(client: Client, count: int) -> list[str]:
    return [client.message().text for _ in range(count)]


@pytest.fixture
def url(tmp_path: Path, prepared_file: PreparedFile) -> str:
    """A SQLite database with empty tables."""
    return prepared_file.url(tmp_path / "durable.db")


def left(address: Address, client_id: str = "ann", name: str = "news", **headers: str) -> list[str]:
    """Everything that waits for a subscription, received and acknowledged."""
    with subscriber(address, client_id) as client:
        durably(client, name=name, **headers)
        key, broker = SubscriptionKey(client_id, name), RUNNING[address]

        async def is_all_sent() -> bool:
            used = [topic.subscriptions[key] for topic in broker.topics.values() if key in topic.subscriptions]
            lanes = [lane for subscription in used for lane in subscription.lanes()]
            return not any(lane.window or lane.is_being_read for lane in lanes)

        wait_until(lambda: asyncio.run_coroutine_threadsafe(is_all_sent(), broker.loop).result(60))
        got = []
        client.send("BEGIN", {"transaction": "behind them", "receipt": "behind them"})
        while (frame := client.frame()).command == "MESSAGE":
            got.append(frame.text)
        assert frame.command == "RECEIPT", frame
    return got


def topic_store(adapter: PersistenceAdapter, topic: str = "T") -> TopicMessageStore:
    assert isinstance(adapter, SupportsTopics)
    return adapter.topic_message_store(Topic(topic))


# -- the life of a subscription ----------------------------------------------------------------------------------------


def test_what_is_published_while_the_subscriber_is_away_waits_for_it(either: Address) -> None:
    publish(either, "before")
    create(either)
    publish(either, "1", "2")
    with subscriber(either) as client:
        durably(client)
        assert texts(client, 2) == ["1", "2"]
        publish(either, "3")
        assert texts(client, 1) == ["3"]
    assert left(either) == []


def test_nobody_uses_durable_subscriptions_where_they_are_not_allowed(url: str) -> None:
    with serving(url) as address:
        create(address)
    with serving(url, reject_durable_consumers=True) as address, subscriber(address) as client:
        for name in ("news", "others"):
            headers = {"id": "9", "destination": TOPIC, "activemq.subscriptionName": name}
            error = client.request("SUBSCRIBE", headers)
            assert error.command == "ERROR"
            assert "not allowed" in error.headers["message"]
        client.subscribe(TOPIC)
        publish(address, "x")
        assert client.message().text == "x"
        client.done("UNSUBSCRIBE", {"id": "9", "destination": TOPIC, "activemq.subscriptionName": "news"})
    with serving(url) as address:
        assert left(address) == []


def test_the_store_has_it_when_the_receipt_comes(sqlite_store: PersistenceAdapter, start_broker: StartBroker) -> None:
    address = start_broker(sqlite_store)
    with subscriber(address) as client:
        durably(client, "client", selector="n > 1")
        [info] = topic_store(sqlite_store).all_subscriptions()
        assert (info.key, info.selector) == (ANN, "convert_string_expressions:n > 1")
        publish(address, "x")
        assert topic_store(sqlite_store).message_count == 1


def test_without_a_durable_subscription_nothing_is_stored(
    sqlite_store: PersistenceAdapter, start_broker: StartBroker, open_client: OpenClient
) -> None:
    address = start_broker(sqlite_store)
    client = open_client(address)
    client.subscribe(TOPIC)
    publish(address, "x")
    assert texts(client, 1) == ["x"]
    assert topic_store(sqlite_store).message_count == 0
    create(address)
    publish(address, "y")
    assert texts(client, 1) == ["y"]
    assert topic_store(sqlite_store).message_count == 1


def test_everybody_gets_everything_in_order(either: Address, open_client: OpenClient) -> None:
    plain = open_client(either)
    plain.subscribe(TOPIC)
    create(either, "bob")
    expected = [str(number) for number in range(30)]
    with subscriber(either) as client, Client(either) as publisher:
        durably(client)
        publisher.connect()
        for body in expected:
            persistent = "true" if int(body) % 3 else "false"
            publisher.send("SEND", {"destination": TOPIC, "persistent": persistent}, body)
        assert texts(plain, 30) == expected
        assert sorted(texts(client, 30), key=int) == expected
    assert left(either, "bob") == expected


def test_non_persistent_messages_wait_for_subscribers_that_are_away(either: Address) -> None:
    with subscriber(either) as client:
        durably(client, "client")
        publish(either, "seen", persistent="false")
        assert texts(client, 1) == ["seen"]
    publish(either, "missed", persistent="false")
    assert left(either) == ["seen", "missed"]  # the first was not acknowledged
    assert left(either) == []


def test_more_non_persistent_messages_than_fit_into_memory(start_broker: StartBroker) -> None:
    address = start_broker(window_messages_max=10, page_messages_max=5)
    with subscriber(address) as client:
        durably(client, "client-individual", **{"activemq.prefetchSize": "1"})
        bodies = [str(number) for number in range(50)]
        publish(address, *bodies, persistent="false")
        for body in bodies:
            message = client.message()
            assert message.text == body
            client.ack(message)


@pytest.mark.parametrize("ack", ["client", "client-individual"])
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_what_was_not_acknowledged_comes_again_first_and_flagged(either: Address, ack: str, version: str) -> None:
    create(either)
    publish(either, "1", "2", "3")
    with subscriber(either, version=version) as client:
        durably(client, ack)
        first = client.message()
        assert texts(client, 2) == ["2", "3"]
        client.ack(first)
    publish(either, "4")
    with subscriber(either) as client:
        durably(client)
        again = [client.message() for _ in range(3)]
        assert [(m.text, m.headers.get("redelivered")) for m in again] == [("2", "true"), ("3", "true"), ("4", None)]
        assert again[0].headers["JMSXDeliveryCount"] == "2"


def test_an_ack_in_mode_client_covers_what_came_before(either: Address) -> None:
    create(either)
    publish(either, "1", "2", "3")
    with subscriber(either) as client:
        durably(client, "client")
        texts(client, 1)
        client.ack(client.message())
        texts(client, 1)
    assert left(either) == ["3"]


def test_individual_acknowledgements_in_any_order(either: Address) -> None:
    """Of ActiveMQ's DurableSubscriptionTestSupport, testIndividualAckWithDurableSubs."""
    create(either)
    publish(either, "1", "2", "3")
    with subscriber(either) as client:
        durably(client, "client-individual")
        texts(client, 2)
        client.ack(client.message())
    assert left(either) == ["1", "2"]
    assert left(either) == []


def test_a_lost_connection_gives_back_what_it_had(either: Address) -> None:
    create(either)
    publish(either, "1", "2")
    client = Client(either)
    client.connect(client_id="ann")
    durably(client, "client")
    texts(client, 2)
    client.drop()
    wait_until(lambda: _may_connect(either))
    assert left(either) == ["1", "2"]


def _may_connect(address: Address, client_id: str = "ann") -> bool:
    with Client(address) as client:
        if client.connect(client_id=client_id).command != "CONNECTED":
            return False
        client.done("DISCONNECT")
        return True


def test_who_comes_back_at_once_does_not_get_what_it_has_acknowledged(either: Address) -> None:
    with Client(either) as publisher:
        publisher.connect()
        for number in range(30):
            with subscriber(either) as client:
                durably(client)  # the broker acknowledges what it has sent, and nobody waits for that
                publisher.publish(TOPIC, str(number))
                assert client.message().text == str(number)


def test_unsubscribe_and_disconnect_deactivate(either: Address) -> None:
    with subscriber(either) as client:
        durably(client)
        client.done("UNSUBSCRIBE", {"id": "1"})
        publish(either, "while away")
        assert client.is_silent()
        durably(client)
        assert texts(client, 1) == ["while away"]


def test_a_prefetch_of_its_own(start_broker: StartBroker) -> None:
    address = start_broker(prefetch_durable_topic=2)
    create(address)
    publish(address, "1", "2", "3")
    with subscriber(address) as client:
        durably(client, "client-individual")
        first = client.message()
        assert texts(client, 1) == ["2"]
        assert client.is_silent()
        client.ack(first)
        assert texts(client, 1) == ["3"]


def test_a_refused_message_becomes_a_dead_letter(either: Address, open_client: OpenClient) -> None:
    create(either, "bob")
    with subscriber(either) as client:
        durably(client, "client-individual")
        publish(either, "bad", "good")
        bad = client.message()
        client.done("NACK", client.named(bad))
        texts(client, 1)
    assert left(either) == ["good"]
    assert left(either, "bob") == ["bad", "good"]
    dead = open_client(either)
    dead.subscribe("/queue/ActiveMQ.DLQ")
    letter = dead.message()
    assert (letter.text, letter.headers["original-destination"]) == ("bad", TOPIC)


def test_large_backlogs_are_paged(start_broker: StartBroker, sqlite_store: PersistenceAdapter) -> None:
    address = start_broker(sqlite_store, window_messages_max=20, page_messages_max=10)
    create(address)
    bodies = [str(number) for number in range(300)]
    with Client(address) as publisher:
        publisher.connect()
        for body in bodies[:200]:
            publisher.send("SEND", {"destination": TOPIC, "persistent": "true"}, body)
        publisher.done("SEND", {"destination": TOPIC, "persistent": "true"}, "200")
        with subscriber(address) as client:
            durably(client, "client-individual", **{"activemq.prefetchSize": "5"})
            got = []
            for number in range(300):
                message = client.message()
                got.append(message.text)
                client.ack(message)
                if number < 99:  # some more while it is at work
                    publisher.send("SEND", {"destination": TOPIC, "persistent": "true"}, str(201 + number))
            assert got == bodies
    assert left(address) == []


# -- errors ------------------------------------------------------------------------------------------------------------


def refused(client: Client, **headers: str) -> str:
    """What the broker says to a SUBSCRIBE that it refuses; the connection has to survive."""
    asked = {"destination": TOPIC, "id": "x", "activemq.subscriptionName": "news", **headers}
    answer = client.request("SUBSCRIBE", asked)
    assert answer.command == "ERROR", answer
    client.publish("/queue/still", "there")
    return answer.headers["message"]


def test_what_cannot_be_subscribed_to(either: Address, open_client: OpenClient) -> None:
    with subscriber(either) as client:
        assert "cannot durably subscribe to a Queue" in refused(client, destination="/queue/A")
        assert "name one topic" in refused(client, destination="/topic/A,/topic/B")
        assert "name one topic" in refused(client, destination="/temp-topic/t")
        assert "250 characters" in refused(client, selector=f"a = '{'x' * 250}'")
        assert "at character 5" in refused(client, selector="a = = 1")
    assert "client-id" in refused(open_client(either))
    assert left(either) == []


def test_a_name_that_the_store_has_no_room_for(start_broker: StartBroker, sqlite_store: PersistenceAdapter) -> None:
    with subscriber(start_broker(sqlite_store)) as client:
        assert "takes 250" in refused(client, **{"activemq.subscriptionName": "n" * 251})


def test_a_subscription_has_one_user(either: Address) -> None:
    with subscriber(either) as client:
        durably(client)
        assert refused(client) == "Durable consumer is in use for client: ann and subscriptionName: news"
        with Client(either) as other:
            answer = other.connect(client_id="ann")
            assert "already connected" in answer.headers["message"]
            assert other.is_closed()
        publish(either, "x")
        assert texts(client, 1) == ["x"]


# -- removal -----------------------------------------------------------------------------------------------------------


def remove(client: Client, name: str = "news") -> Frame:
    return client.request("UNSUBSCRIBE", {"id": "1", "destination": TOPIC, "activemq.subscriptionName": name})


def test_a_removed_subscription_leaves_nothing(start_broker: StartBroker, sqlite_store: PersistenceAdapter) -> None:
    """Of ActiveMQ's DurableSubscriptionTestSupport, testUnsubscribeSubscription."""
    address = start_broker(sqlite_store)
    with subscriber(address) as client:
        durably(client, "client")
        publish(address, "1")
        texts(client, 1)
        assert remove(client).headers["message"].startswith("Durable consumer is in use")
        client.done("UNSUBSCRIBE", {"id": "1"})
        assert remove(client).command == "RECEIPT"
        assert "No durable subscription exists" in remove(client).headers["message"]
    store = topic_store(sqlite_store)
    assert store.all_subscriptions() == []
    assert isinstance(sqlite_store, SupportsTopics)
    sqlite_store.clean_up()
    wait_until(lambda: store.message_count == 0)
    publish(address, "2")
    assert left(address) == []
    publish(address, "3")
    assert left(address) == ["3"]


def test_a_client_of_1_0_removes_its_subscription(either: Address) -> None:
    create(either)
    publish(either, "x")
    with subscriber(either, version="1.0") as client:
        client.done("UNSUBSCRIBE", {"destination": TOPIC, "activemq.subscriptionName": "news"})
    assert left(either) == []


def test_another_selector_or_destination_begins_anew(
    start_broker: StartBroker, sqlite_store: PersistenceAdapter
) -> None:
    """Of ActiveMQ's DurableSubscriptionTestSupport, testSelectorChange."""
    address = start_broker(sqlite_store)
    create(address, selector="colour = 'red'")
    publish(address, "1", colour="red")
    assert left(address, selector="colour = 'blue'") == []
    publish(address, "3", colour="red")
    publish(address, "4", colour="blue")
    assert left(address, selector="colour = 'blue'") == ["4"]
    publish(address, "5", colour="blue")
    assert left(address, selector="colour = 'blue'", destination="/topic/U") == []
    assert topic_store(sqlite_store).all_subscriptions() == []
    publish(address, "6", destination="/topic/U", colour="blue")
    assert left(address, selector="colour = 'blue'", destination="/topic/U") == ["6"]


def test_a_retroactive_subscription_begins_with_what_is_stored(either: Address) -> None:
    create(either)
    publish(either, "1", "2")
    assert left(either, "bob", **{"activemq.retroactive": "true"}) == ["1", "2"]
    assert left(either, "carl") == []
    assert left(either, "bob", **{"activemq.retroactive": "true"}) == []


@pytest.mark.parametrize("persistent", ["true", "false"])
@pytest.mark.parametrize("destination", [TOPIC, "/topic/>"])
def test_a_retroactive_subscription_begins_with_what_is_kept_and_no_store_has(
    start_broker: StartBroker, sqlite_store: PersistenceAdapter, persistent: str, destination: str
) -> None:
    policy = DestinationPolicy(pattern=Topic(">"), subscription_recovery="fixed_count")
    address = start_broker(sqlite_store, policies=[policy])
    retroactive = {"activemq.retroactive": "true", "destination": destination}
    publish(address, "1", "2", persistent=persistent)
    with subscriber(address) as client:
        durably(client, "client-individual", **retroactive)
        first = client.message()
        assert first.text == "1"
        client.done("ACK", {"id": first.headers["ack"]})
        publish(address, "3", "4", persistent=persistent)
        assert texts(client, 3) == ["2", "3", "4"]
    assert left(address, **retroactive) == ["2", "3", "4"], "what was acknowledged does not come again"
    assert left(address, **retroactive) == []
    assert left(address, "bob", destination=destination) == [], "it did not ask for it"
    assert left(address, selector="a = 1", **retroactive) == [], "it does not want them"


def test_what_is_kept_and_stored_comes_once(start_broker: StartBroker, sqlite_store: PersistenceAdapter) -> None:
    policy = DestinationPolicy(pattern=Topic(">"), subscription_recovery="fixed_count")
    address = start_broker(sqlite_store, policies=[policy])
    publish(address, "1", persistent="true")
    create(address)
    publish(address, "2", persistent="true")
    assert left(address, "bob", **{"activemq.retroactive": "true"}) == ["1", "2"]
    assert left(address) == ["2"]


def test_unused_subscriptions_are_removed_in_time(start_broker: StartBroker, sqlite_store: PersistenceAdapter) -> None:
    """ActiveMQ's AMQ4351Test, smaller."""
    address = start_broker(
        sqlite_store, offline_durable_subscriber_timeout_s=0.5, offline_durable_subscriber_task_schedule_s=0.1
    )
    for number in range(20):
        create(address, f"gone {number}")
    store = topic_store(sqlite_store)
    with subscriber(address) as client:
        durably(client)
        publish(address, "1")
        assert texts(client, 1) == ["1"]
        wait_until(lambda: [info.key for info in store.all_subscriptions()] == [ANN])
        publish(address, "2")
        assert texts(client, 1) == ["2"]
    wait_until(lambda: not store.all_subscriptions())


# -- wildcards ---------------------------------------------------------------------------------------------------------


def test_a_wildcard_covers_topics_that_appear_later(
    start_broker: StartBroker, sqlite_store: PersistenceAdapter
) -> None:
    address = start_broker(sqlite_store)
    publish(address, "lost", destination="/topic/W.a")
    with subscriber(address) as client:
        durably(client, destination="/topic/W.>")
        publish(address, "a", destination="/topic/W.a")
        publish(address, "b", destination="/topic/W.b")
        assert sorted(texts(client, 2)) == ["a", "b"]
    publish(address, "c", destination="/topic/W.c.d")
    publish(address, "a2", destination="/topic/W.a")
    publish(address, "elsewhere", destination="/topic/V.a")
    for name in ("W.a", "W.b", "W.c.d"):
        [info] = topic_store(sqlite_store, name).all_subscriptions()
        assert info.subscribed_destination == Topic("W.>")
    assert sorted(left(address, destination="/topic/W.>")) == ["a2", "c"]
    with subscriber(address) as client:
        client.done("UNSUBSCRIBE", {"id": "1", "activemq.subscriptionName": "news"})
    assert [topic_store(sqlite_store, name).all_subscriptions() for name in ("W.a", "W.b", "W.c.d")] == [[], [], []]


# -- without what the client has sent itself ---------------------------------------------------------------------------

OTHERS_ONLY = {"activemq.noLocal": "true"}


def test_what_the_client_sends_while_it_does_not_listen_is_its_own(either: Address) -> None:
    for own in ("1", "2"):
        with subscriber(either) as client:
            durably(client, **OTHERS_ONLY)
            client.done("UNSUBSCRIBE", {"id": "1"})
            client.publish(TOPIC, f"own {own}", persistent="true" if own == "1" else "false")
    publish(either, "other's")
    assert left(either, **OTHERS_ONLY) == ["other's"]


@pytest.mark.parametrize("kind", ["kahadb", "leveldb"])
def test_a_journal_keeps_who_wants_nothing_of_its_own(tmp_path: Path, kind: str) -> None:
    url = f"{kind}:{tmp_path}"
    with serving(url) as address:
        create(address, **OTHERS_ONLY)
        create(address, name="wild", destination="/topic/W.>", **OTHERS_ONLY)
        create(address, name="all")
        for destination in (TOPIC, "/topic/W.a"):
            publish(address, "before", destination=destination)
    with open_store(url) as adapter:
        assert isinstance(adapter, SupportsTopics)
        found = [info for name in ("T", "W.a") for info in topic_store(adapter, name).all_subscriptions()]
    assert {info.key.subscription_name: info.no_local for info in found} == {"news": True, "wild": True, "all": False}
    with serving(url) as address:
        assert left(address, **OTHERS_ONLY) == ["before"]
        assert left(address, name="wild", destination="/topic/W.>") == []  # it is another one now
        assert left(address, name="all", **OTHERS_ONLY) == ["before"]  # some journals do not say who is one


# -- expiry ------------------------------------------------------------------------------------------------------------


def test_expired_messages_go_and_disturb_nobody(either: Address, open_client: OpenClient) -> None:
    """ActiveMQ loses the message before an expired one (and has testMessageExpire for the expired one itself)."""
    create(either)
    create(either, "bob")
    publish(either, "stays")
    expires = int(time.time() * 1000) + 150
    publish(either, "goes", expires=str(expires))
    publish(either, "stays, too")
    wait_until(lambda: time.time() * 1000 > expires)
    assert left(either) == ["stays", "stays, too"]
    assert left(either, "bob") == ["stays", "stays, too"]
    dead = open_client(either)
    dead.subscribe("/queue/ActiveMQ.DLQ")
    assert dead.message().text == "goes"


# -- transactions ------------------------------------------------------------------------------------------------------


def test_a_transaction_covers_topics_and_acknowledgements(either: Address, open_client: OpenClient) -> None:
    create(either)
    create(either, "bob")
    publish(either, "1", "2")
    with subscriber(either) as client:
        durably(client, "client-individual")
        first, second = client.message(), client.message()
        client.send("BEGIN", {"transaction": "t"})
        client.ack(first, transaction="t")
        client.send("SEND", {"destination": TOPIC, "persistent": "true", "transaction": "t"}, "3")
        client.send("SEND", {"destination": "/queue/Q", "persistent": "true", "transaction": "t"}, "4")
        assert client.is_silent()
        client.done("COMMIT", {"transaction": "t"})
        assert client.message().text == "3"
        client.send("BEGIN", {"transaction": "u"})
        client.ack(second, transaction="u")
        client.send("SEND", {"destination": TOPIC, "persistent": "true", "transaction": "u"}, "never")
        client.done("ABORT", {"transaction": "u"})
    assert left(either) == ["2", "3"]
    assert left(either, "bob") == ["1", "2", "3"]
    queue = open_client(either)
    queue.subscribe("/queue/Q")
    assert queue.message().text == "4"


# -- restarts ----------------------------------------------------------------------------------------------------------


def test_subscriptions_survive_a_restart(store_url: str) -> None:
    """ActiveMQ's InactiveDurableSubscription with a restart, individual acknowledgement and a wildcard."""
    with serving(store_url) as address:
        create(address)
        create(address, "wild", destination="/topic/>")
        create(address, "red", selector="colour = 'red'")
        publish(address, "1", "2", "3", colour="red")
        publish(address, "4", colour="blue")
        with subscriber(address) as client:
            durably(client, "client-individual")
            texts(client, 2)
            client.done("ACK", client.named(client.message()))
    with serving(store_url) as address:
        publish(address, "5", colour="red")
        assert left(address) == ["1", "2", "4", "5"]
        assert left(address, "wild", destination="/topic/>") == ["1", "2", "3", "4", "5"]
        assert left(address, "red", selector="colour = 'red'") == ["1", "2", "3", "5"]
    with serving(store_url) as address:
        assert left(address) == []
        assert left(address, "red", selector="colour = 'red'") == []


def test_a_sparse_selector_finds_its_message_behind_a_backlog(tmp_path: Path) -> None:
    """ActiveMQ's DurableSubscriptionSelectorTest, and AMQ2580Test by its prefetch."""
    url = f"sqlite:///{tmp_path / 'sparse.db'}"
    options: dict[str, Any] = {"window_messages_max": 200, "page_messages_max": 100}
    with serving(url, **options) as address:
        create(address, selector="filter = 'true'")
        with Client(address) as publisher:
            publisher.connect()
            for _ in range(4000):
                publisher.send("SEND", {"destination": TOPIC, "persistent": "true", "filter": "false"}, "no")
            publisher.publish(TOPIC, "yes", filter="true")
    with serving(url, **options) as address, subscriber(address) as client:
        durably(client, selector="filter = 'true'", **{"activemq.prefetchSize": "2"})
        assert texts(client, 1) == ["yes"]
        publish(address, "no", filter="false")
        publish(address, "again", filter="true")
        assert texts(client, 1) == ["again"]
    with open_store(url) as adapter:
        assert topic_store(adapter).subscription_message_count(ANN) == 0


def test_a_small_prefetch_does_not_hide_what_is_selected(url: str) -> None:
    """ActiveMQ's AMQ2580Test."""
    with serving(url) as address:
        create(address, selector="filter = 'true'")
        publish(address, *"12345", filter="false")
        publish(address, "6", filter="true")
        assert left(address, selector="filter = 'true'", **{"activemq.prefetchSize": "2"}) == ["6"]


def test_what_nobody_selects_is_cleaned_up(start_broker: StartBroker, sqlite_store: PersistenceAdapter) -> None:
    """Of ActiveMQ's JDBCDurableSubscriptionTest, testUnmatchedCleanedUpOnExpiry; here it need not expire for that."""
    address = start_broker(sqlite_store)
    with subscriber(address, "red") as red, subscriber(address, "green") as green:
        durably(red, selector="colour = 'red'")
        durably(green, selector="colour = 'green'")
        publish(address, "blue", colour="blue")
        publish(address, "red", colour="red")
        assert texts(red, 1) == ["red"]
        assert green.is_silent(0.1)
        store = topic_store(sqlite_store)
        assert isinstance(sqlite_store, SupportsTopics)
        keeper = sqlite_store
        wait_until(lambda: bool(keeper.clean_up() or True) and not store.message_count)


@pytest.mark.parametrize("prioritized", [True, False])
def test_offline_subscriptions_get_what_they_select_once(url: str, prioritized: bool) -> None:
    """ActiveMQ's DurableSubscriptionOffline1Test, with and without order by priority."""
    policies = [DestinationPolicy(prioritized_messages=prioritized)]
    bodies = [str(number) for number in range(10)]
    with serving(url, policies) as address:
        create(address, "choosy", selector="filter = 'true'")
        create(address, "one")
        create(address, "two")
        for body in bodies:
            publish(address, body, filter="true" if int(body) % 2 else "false")
        assert left(address, "choosy", selector="filter = 'true'") == bodies[1::2]
        assert left(address, "choosy", selector="filter = 'true'") == []
        with subscriber(address, "online") as online:
            durably(online)
            publish(address, "10", filter="false")
            assert texts(online, 1) == ["10"]
    with serving(url, policies) as address:
        assert left(address, "one") == [*bodies, "10"]
        assert left(address, "two") == [*bodies, "10"]


def test_subscriptions_begin_and_pause_at_different_times(url: str) -> None:
    """ActiveMQ's DurableSubscriptionOffline3Test: interleaved, online, offline, plain, over a restart."""
    selector = "(n > 3 AND n <= 12) OR kind LIKE 'odd%' AND NOT (n BETWEEN 5 AND 7)"
    wanted = [n for n in range(20) if 3 < n <= 12 or (n % 2 and not 5 <= n <= 7)]
    with serving(url) as address, Client(address) as plain:
        plain.connect()
        plain.subscribe(TOPIC, selector=selector)
        create(address, "first")
        create(address, "offline", selector=selector)
        with subscriber(address, "online") as online:
            durably(online, selector=selector)
            for n in range(20):
                if n == 10:
                    create(address, "second")
                publish(address, str(n), n=str(n), kind="odd" if n % 2 else "even")
            assert [int(text) for text in texts(online, len(wanted))] == wanted
            assert [int(text) for text in texts(plain, len(wanted))] == wanted
        assert len(left(address, "first")) == 20
        assert len(left(address, "second")) == 10
    with serving(url) as address:
        publish(address, "20", n="11", kind="even")
        assert [int(text) for text in left(address, "offline", selector=selector)] == [*wanted, 20]
        assert left(address, "first") == ["20"]


def test_higher_priorities_go_first(url: str) -> None:
    with serving(
        url, [DestinationPolicy(prioritized_messages=True)], window_messages_max=4, page_messages_max=2
    ) as address:
        create(address)
        for number in range(12):
            publish(address, str(number), priority=str(9 - number % 3))
        with subscriber(address) as client:
            durably(client, "client-individual", **{"activemq.prefetchSize": "1"})
            got = []
            for number in range(13):
                message = client.message()
                got.append(int(message.text))
                if number == 5:
                    publish(address, "100", priority="9")
                client.ack(message)
        assert [n for n in got if n != 100] == sorted(range(12), key=lambda n: (n % 3, n))
        assert got.index(100) <= 7


def test_messages_that_come_back_too_often_become_dead_letters(url: str) -> None:
    strategy = DeadLetterStrategy(kind="individual", destination_per_durable_subscriber=True)
    policies = [DestinationPolicy(dead_letter_strategy=strategy)]
    with serving(url, policies, [RedeliveryPolicy(maximum_redeliveries=2)]) as address:
        create(address)
        publish(address, "bad", "good")
        for _ in range(3):
            with subscriber(address) as client:
                durably(client, "client")
                assert texts(client, 2) == ["bad", "good"]
        assert left(address) == []
        with Client(address) as dead:
            dead.connect()
            dead.subscribe("/queue/ActiveMQ.DLQ.Topic.T.ann:news")
            assert texts(dead, 2) == ["bad", "good"]


def test_a_retroactive_subscription_after_a_restart(url: str) -> None:
    """Of ActiveMQ's DurableSubscriptionTestSupport, testDurableSubscriptionRetroactive."""
    with serving(url) as address:
        create(address)
        publish(address, "1")
    with serving(url) as address:
        assert left(address, "new", **{"activemq.retroactive": "true"}) == ["1"]
        assert left(address) == ["1"]


TOPICS = 300


def many_topics(client: Client) -> None:
    """So many topics are in use."""
    for number in range(TOPICS):
        client.send("SUBSCRIBE", {"id": str(number), "destination": f"/topic/M.{number}"})
    client.done("BEGIN", {"transaction": "known"})
    client.done("ABORT", {"transaction": "known"})


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has an entry for each slice of a job that was not the first; a slice is one step."""
    counted: list[int] = []
    go_on = slices.Slices._go_on
    monkeypatch.setattr(slices, "SLICE_S", 0.0)

    def counted_slice(self: slices.Slices, job: Iterator[None], done: Callable[[], object]) -> None:
        counted.append(1)
        go_on(self, job, done)

    monkeypatch.setattr(slices.Slices, "_go_on", counted_slice)
    return counted


def test_a_wildcard_over_very_many_topics_begins_and_ends_in_slices(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter, turns: list[int]
) -> None:
    address = start_broker(sqlite_store)
    many_topics(open_client(address))
    ann, sender = open_client(address, client_id="ann"), open_client(address)
    turns.clear()
    ann.subscribe("/topic/M.>", activemq_subscriptionName="n")
    assert len(turns) >= TOPICS
    for number in (0, TOPICS - 1):
        sender.publish(f"/topic/M.{number}", str(number))
        assert ann.message().text == str(number)
    ann.done("UNSUBSCRIBE", {"id": "1"})
    turns.clear()
    ann.done("UNSUBSCRIBE", {"id": "1", "activemq.subscriptionName": "n"})
    assert len(turns) >= TOPICS - 1
    assert client_keys(sqlite_store) == set()


def test_who_leaves_while_it_begins_goes_on_with_it(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    brokers: list[Broker],
    turns: list[int],
) -> None:
    """Also when it was to other topics before: of those nothing is left."""
    address = start_broker(sqlite_store)
    many_topics(open_client(address))
    ann, sender = open_client(address, client_id="ann"), open_client(address)
    ann.subscribe("/topic/M.7", activemq_subscriptionName="n")
    ann.done("UNSUBSCRIBE", {"id": "1"})
    turns.clear()
    ann.send("SUBSCRIBE", {"id": "1", "destination": "/topic/*.8", "activemq.subscriptionName": "n"})
    ann.send("UNSUBSCRIBE", {"id": "1"})
    ann.send("SUBSCRIBE", {"id": "1", "destination": "/topic/M.>", "activemq.subscriptionName": "n"})
    wait_until(lambda: len(turns) > TOPICS // 3)
    ann.drop()
    wait_until(lambda: len(brokers[0].clients) == 2)
    again = open_client(address, client_id="ann")
    again.subscribe("/topic/M.8", activemq_subscriptionName="n")
    assert client_keys(sqlite_store) == {"topic://M.8"}
    sender.publish("/topic/M.8", "8")
    assert again.message().text == "8"


WAITING = 120


def waiting_for_new_topics(client: Client) -> None:
    """So many durable subscriptions wait for topics that are not there yet."""
    for number in range(WAITING):
        name = {"activemq.subscriptionName": f"n{number}", "activemq.prefetchSize": "1000"}
        client.send("SUBSCRIBE", {"id": str(number), "destination": "/topic/N.>", "ack": "auto", **name})
    client.done("BEGIN", {"transaction": "all"})
    client.done("ABORT", {"transaction": "all"})


@pytest.mark.parametrize("persistent", ["true", "false"])
@pytest.mark.parametrize("transaction", [False, True], ids=["alone", "transaction"])
def test_a_topic_that_very_many_wait_for_appears_in_slices(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    turns: list[int],
    persistent: str,
    transaction: bool,
) -> None:
    """Who publishes waits for it, whoever else publishes meanwhile too, and everybody gets everything in order."""
    address = start_broker(sqlite_store)
    ann, senders = open_client(address, client_id="ann"), [open_client(address), open_client(address)]
    waiting_for_new_topics(ann)
    turns.clear()
    headers = {"destination": "/topic/N.new", "persistent": persistent}
    for letter, sender in zip("ab", senders, strict=True):
        if transaction:
            sender.done("BEGIN", {"transaction": "t"})
        for number in range(3):
            among = {"transaction": "t"} if transaction else {}
            sender.send("SEND", {**headers, **among}, f"{letter}{number}")
        if transaction:
            sender.send("COMMIT", {"transaction": "t"})
    got: dict[str, list[str]] = {str(number): [] for number in range(WAITING)}
    for _ in range(6 * WAITING):
        message = ann.message()
        got[message.headers["subscription"]].append(message.text)
    assert len(turns) >= WAITING  # a slice is one step
    for received in got.values():
        assert [text for text in received if text[0] == "a"] == ["a0", "a1", "a2"]
        assert [text for text in received if text[0] == "b"] == ["b0", "b1", "b2"]
    [first, *others] = got.values()
    assert all(other == first for other in others)


def test_who_does_not_wait_any_more_when_a_topic_appears_gets_nothing(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    brokers: list[Broker],
) -> None:
    """One is removed, one goes offline, one comes, while the topic is being made for the others."""
    address = start_broker(sqlite_store)
    ann, bob = open_client(address, client_id="ann"), open_client(address, client_id="bob")
    waiting_for_new_topics(ann)
    for name in ("removed", "offline"):
        bob.subscribe("/topic/N.>", id=name, **{"activemq.subscriptionName": name})
        bob.done("UNSUBSCRIBE", {"id": name})
    broker = brokers[0]
    opening = broker.opening(Topic("N.new"))

    def open_further(steps: int) -> int:
        async def taken() -> int:
            return sum(1 for _ in islice(opening, steps))

        return asyncio.run_coroutine_threadsafe(taken(), broker.loop).result(60)

    assert open_further(WAITING // 2) == WAITING // 2
    bob.done("UNSUBSCRIBE", {"id": "removed", "activemq.subscriptionName": "removed"})
    ann.done("UNSUBSCRIBE", {"id": "0"})
    ann.done("UNSUBSCRIBE", {"id": str(WAITING - 1)})
    assert open_further(WAITING) < WAITING
    bob.subscribe("/topic/N.>", id="new", **{"activemq.subscriptionName": "new"})
    with Client(address) as sender:
        sender.connect()
        sender.publish("/topic/N.new", "x", persistent="true")
    subscribed = {ann.message().headers["subscription"] for _ in range(WAITING - 2)}
    assert subscribed == {str(number) for number in range(1, WAITING - 1)}
    assert texts(bob, 1) == ["x"]
    for number in (0, WAITING - 1):
        ann.subscribe("/topic/N.>", id=f"again{number}", **{"activemq.subscriptionName": f"n{number}"})
        assert texts(ann, 1) == ["x"]
    bob.subscribe("/topic/N.>", id="back", **{"activemq.subscriptionName": "offline"})
    assert texts(bob, 1) == ["x"]
    known = {info.key.subscription_name for info in topic_store(sqlite_store, "N.new").all_subscriptions()}
    assert known == {*(f"n{number}" for number in range(WAITING)), "offline", "new"}


def client_keys(store: PersistenceAdapter) -> set[str]:
    """The topics that have a durable subscription in the store."""
    assert isinstance(store, SupportsTopics)
    return {
        name.qualified_name
        for name in store.destinations()
        if isinstance(name, Topic) and store.topic_message_store(name).all_subscriptions()
    }


def test_what_no_store_has_waits_for_the_next_client_unless_it_was_acknowledged(either: Address) -> None:
    broker = RUNNING[either]
    with Client(either) as client:
        client.connect(client_id="ann")
        durably(client, "client-individual", activemq_prefetchSize="3")
        publish(either, *"abcdef", persistent="false")
        first, second = client.message(), client.message()
        client.done("ACK", client.named(first))
        assert second.text == "b"
    wait_until(lambda: not broker.clients)
    publish(either, "g", persistent="false")
    with subscriber(either) as client:
        durably(client, "client-individual")
        got = [client.message() for _ in range(6)]
        assert [message.text for message in got] == list("bcdefg")
        assert ["redelivered" in message.headers for message in got] == [True, True, True, False, False, False]
        assert broker.memory.history == 0
        for message in got[1:]:
            client.done("ACK", client.named(message))
    wait_until(lambda: broker.memory.history > 0)
    with subscriber(either) as client:
        durably(client)
        assert client.message().text == "b"
        assert client.is_silent()
    wait_until(lambda: broker.memory.used == broker.memory.history == 0)


@pytest.mark.parametrize("ends", ["unsubscribed", "another one"])
def test_what_no_store_has_goes_with_its_subscription(either: Address, ends: str) -> None:
    broker = RUNNING[either]
    with subscriber(either) as client:
        durably(client, "client")
        publish(either, "a", "b", persistent="false")
        assert client.message().text == "a"
    wait_until(lambda: broker.memory.history > 0)
    with subscriber(either) as client:
        if ends == "unsubscribed":
            client.done("UNSUBSCRIBE", {"id": "1", "activemq.subscriptionName": "news"})
        else:
            durably(client, selector="n = 1")
            assert client.is_silent()
        assert broker.memory.history == 0


def test_what_no_store_has_is_not_lost_because_much_is_on_its_way_to_the_store(
    either: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = RUNNING[either]
    with subscriber(either) as client:
        durably(client, "client")
        publish(either, "a", "b", persistent="false")
        assert [client.message().text for _ in range(2)] == ["a", "b"]
    wait_until(lambda: broker.memory.history > 0)
    monkeypatch.setattr(TopicRegion, "has_much_to_store", True)
    with subscriber(either) as client:
        durably(client)
        assert [client.message().text for _ in range(2)] == ["a", "b"]


def test_who_publishes_waits_for_what_is_spooled(
    start_broker: StartBroker, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that is not persistent is spooled for each subscriber that does not keep up."""
    subscribers, size = 10, 10_000
    address = start_broker(memory_bytes_max=2 << 20, uncommitted_bytes_max=size)
    client, sender = open_client(address, client_id="slow"), open_client(address)
    for number in range(subscribers):
        headers = {"activemq.subscriptionName": str(number), "activemq.prefetchSize": "1"}
        client.subscribe("/topic/T", "client-individual", id=str(number), **headers)
    broker, most = RUNNING[address], 0
    storing = TopicRegion.storing

    def seen(topic: TopicRegion, *arguments: Any) -> None:
        nonlocal most
        storing(topic, *arguments)
        most = max(most, broker.memory.uncommitted)

    monkeypatch.setattr(TopicRegion, "storing", seen)
    for _ in range(300):
        sender.send("SEND", {"destination": "/topic/T"}, b"x" * size)
    sender.done("BEGIN", {"transaction": "all are published"})
    assert subscribers * size < most < 3 * subscribers * size
    wait_until(lambda: broker.memory.uncommitted == 0, "all are spooled")


@pytest.mark.parametrize("is_in_use", [True, False])
def test_advisories_are_lost_rather_than_kept_without_end_where_the_store_is_slow(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter, is_in_use: bool
) -> None:
    """Nobody could wait for it."""
    address = start_broker(sqlite_store, uncommitted_bytes_max=10_000, memory_bytes_max=2 << 20)
    client, other = open_client(address, client_id="slow"), open_client(address)
    headers = {"activemq.subscriptionName": "told", "activemq.prefetchSize": "1"}
    client.subscribe("/topic/ActiveMQ.Advisory.Consumer.Queue.A", "client", **headers)
    if not is_in_use:
        client.done("UNSUBSCRIBE", {"id": "1"})
    with commits_held():
        for _ in range(900 if is_in_use else 50):  # memory is full then
            other.subscribe("/queue/A")
            other.done("UNSUBSCRIBE", {"id": "1"})
        assert 10_000 < RUNNING[address].memory.uncommitted < 15_000
    wait_until(lambda: RUNNING[address].memory.uncommitted == 0, "all are stored")


def test_what_comes_while_a_history_is_taken_over_comes_behind_it(
    start_broker: StartBroker, brokers: list[Broker], open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)  # each message is a slice
    kept = DestinationPolicy(pattern=Topic(">"), subscription_recovery="fixed_count", recovery_messages_max=100_000)
    address = start_broker(policies=[kept])
    publisher, client, count = open_client(address), open_client(address, client_id="ann"), 20_000

    def publish(numbers: range) -> None:
        publisher.write(b"".join(b"SEND\ndestination:/topic/kept\n\n%d\0" % number for number in numbers))
        publisher.done("SEND", {"destination": "/queue/other"})

    publish(range(count))
    headers = {"id": "1", "destination": "/topic/kept", "activemq.prefetchSize": "100000"}
    client.send("SUBSCRIBE", {**headers, "activemq.subscriptionName": "all", "activemq.retroactive": "true"})
    wait_until(lambda: brokers[0].topics[Topic("kept")].subscriptions)
    publish(range(count, count + 100))
    assert client.is_silent(0.001)  # others are served meanwhile
    publish(range(count + 100, count + 1000))
    assert [int(client.message().text) for _ in range(count + 1000)] == list(range(count + 1000))
