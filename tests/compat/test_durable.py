"""Durable subscriptions handed to and fro between a real ActiveMQ and us, on one database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from jdbcstore import Broker, BrokerOptions, running
from jdbcstore.config.urls import open_store
from jdbcstore.destination import Topic
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.store.contract import Cursor, TopicMessageStore
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.lease import LockerOptions
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing import text_message
from tests.compat.activemq import ActiveMQ, JdbcStore, JmsClients

pytestmark = pytest.mark.timeout(300)

TOPIC = Topic("PRICES")
ANN = SubscriptionKey("ann", "news")
BOB = SubscriptionKey("bob", "news")
COLOURS = ("red", "green", "blue")
WAIT_S = 30.0
#: A lease that a busy machine does not end that stands still for seconds.
LASTING = JdbcOptions(lock=LockerOptions(lease_ms=60_000))


@pytest.fixture(params=["mariadb_url", pytest.param("postgresql_url", marks=pytest.mark.exhaustive)])
def url(request: pytest.FixtureRequest) -> str:
    """A fresh database that both can use."""
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["postgresql_url", pytest.param("mariadb_url", marks=pytest.mark.exhaustive)])
def one_url(request: pytest.FixtureRequest) -> str:
    """The same where another test shows of both databases what Java and we read of each other."""
    found: str = request.getfixturevalue(request.param)
    return found


def kahadb_url(folder: Path) -> str:
    """The store of an ActiveMQ that has this folder."""
    return f"kahadb:{folder / 'kahadb'}"


@contextmanager
def ours(url: str, *, prioritized: bool = False) -> Iterator[tuple[JdbcPersistenceAdapter, TopicMessageStore]]:
    """Our store is master."""
    adapter = open_store(url, LASTING)
    assert isinstance(adapter, JdbcPersistenceAdapter)
    with adapter:
        yield adapter, adapter.topic_message_store(TOPIC, prioritized=prioritized)


@contextmanager
def javas(url: str, class_path: str, folder: Path, *, prioritized: bool = False) -> Iterator[ActiveMQ]:
    """A real ActiveMQ is master, and stops cleanly. KahaDB is where `kahadb_url` says."""
    store: JdbcStore | Literal["kahadb"] = "kahadb" if url.startswith("kahadb:") else JdbcStore(url)
    with ActiveMQ(class_path, folder, store, prioritized=prioritized) as activemq:
        yield activemq
        activemq.stop()


def publish(topic: TopicMessageStore, *numbers: int) -> None:
    """As DurableClient.java does."""
    for number in numbers:
        message = text_message(number, destination=TOPIC, priority=number % 10)
        message.set_property("number", number)
        message.set_property("colour", COLOURS[number % 3])
        topic.add_message(message).result(WAIT_S)


def left(topic: TopicMessageStore, key: SubscriptionKey) -> dict[int, MessageId]:
    """What a subscription has not acknowledged: ids by number, in the order of delivery."""
    page = topic.recover_next_subscription_messages(key, Cursor(), 1000, 1 << 30)
    return {number_of(message): message.message_id for message in page.messages if message.message_id is not None}


def number_of(message: Message) -> int:
    number = message.properties["number"]
    assert isinstance(number, int)
    return number


def acknowledge(topic: TopicMessageStore, key: SubscriptionKey, *numbers: int) -> None:
    there = left(topic, key)
    for number in numbers:
        topic.acknowledge(key, there[number]).result(WAIT_S)


def test_what_java_made_goes_on_here_and_there_again(url: str, class_path: str, tmp_path: Path) -> None:
    with javas(url, class_path, tmp_path) as activemq:
        activemq.subscribe_durably("PRICES", "ann", "news")
        activemq.subscribe_durably("PRICES", "bob", "news", "colour = 'red'")
        activemq.publish("PRICES", 0, 20)
        assert activemq.consume_durably("PRICES", "ann", "news", 5) == [0, 1, 2, 3, 4]
    with ours(url) as (adapter, topic):
        assert TOPIC in adapter.destinations()
        assert topic.lookup_subscription(ANN) == SubscriptionInfo(ANN, TOPIC, TOPIC)
        assert topic.lookup_subscription(BOB) == SubscriptionInfo(BOB, TOPIC, TOPIC, "colour = 'red'")
        assert list(left(topic, ANN)) == list(range(5, 20))
        assert list(left(topic, BOB)) == list(range(20))
        assert topic.subscription_message_count(ANN) == 15
        acknowledge(topic, ANN, 6, 5, 10, 11)
    with ours(url) as (_, topic):
        assert list(left(topic, ANN)) == [7, 8, 9, *range(12, 20)]
    with javas(url, class_path, tmp_path) as activemq:
        # What was acknowledged in front of the others is gone, what was behind them comes again.
        assert activemq.consume_durably("PRICES", "ann", "news", 4) == [7, 8, 9, 10]
        assert activemq.consume_durably("PRICES", "bob", "news", selector="colour = 'red'") == list(range(0, 20, 3))
    with ours(url) as (_, topic):
        assert list(left(topic, ANN)) == list(range(12, 20))
        publish(topic, 20, 21)
        acknowledge(topic, ANN, *left(topic, ANN))
    with javas(url, class_path, tmp_path) as activemq:
        assert activemq.consume_durably("PRICES", "ann", "news") == []
        assert activemq.consume_durably("PRICES", "bob", "news", selector="colour = 'red'") == [21]


def test_what_we_made_goes_on_there_and_here_again(one_url: str, class_path: str, tmp_path: Path) -> None:
    with ours(one_url) as (_, topic):
        publish(topic, 99)
        topic.add_subscription(SubscriptionInfo(ANN, TOPIC, TOPIC)).result(WAIT_S)
        topic.add_subscription(SubscriptionInfo(BOB, TOPIC, TOPIC, "colour = 'blue'")).result(WAIT_S)
        publish(topic, *range(10))
        acknowledge(topic, ANN, 0, 1, 5)
    with javas(one_url, class_path, tmp_path) as activemq:
        assert activemq.consume_durably("PRICES", "ann", "news", 2) == [2, 3]
        assert activemq.consume_durably("PRICES", "bob", "news", selector="colour = 'blue'") == [2, 5, 8]
        activemq.publish("PRICES", 10, 3)
    with ours(one_url) as (_, topic):
        assert list(left(topic, ANN)) == [4, *range(6, 13)]
        acknowledge(topic, ANN, 4)
    with javas(one_url, class_path, tmp_path) as activemq:
        assert activemq.consume_durably("PRICES", "ann", "news") == list(range(6, 13))
        activemq.unsubscribe("PRICES", "ann", "news")
        activemq.unsubscribe("PRICES", "bob", "news")
    with ours(one_url) as (adapter, topic):
        assert topic.all_subscriptions() == []
        adapter.clean_up()
        assert topic.message_count == 0


def test_marks_of_a_prioritised_topic(one_url: str, class_path: str, tmp_path: Path) -> None:
    with ours(one_url, prioritized=True) as (_, topic):  # our tables have a key of four columns
        topic.add_subscription(SubscriptionInfo(ANN, TOPIC, TOPIC)).result(WAIT_S)
        publish(topic, *range(20))
        assert list(left(topic, ANN))[:4] == [9, 19, 8, 18]
        acknowledge(topic, ANN, 9, 8, 3, 13)
    with javas(one_url, class_path, tmp_path, prioritized=True) as activemq:
        assert activemq.consume_durably("PRICES", "ann", "news", 3) == [19, 18, 7]
        activemq.subscribe_durably("PRICES", "bob", "news")
        activemq.publish("PRICES", 20, 10)
        assert activemq.consume_durably("PRICES", "bob", "news", 1) == [29]
    with ours(one_url, prioritized=True) as (_, topic):
        expected = sorted({*range(30)} - {9, 8, 3, 13, 19, 18, 7}, key=lambda number: (-(number % 10), number))
        assert list(left(topic, ANN)) == expected
        assert list(left(topic, BOB)) == list(range(28, 19, -1))
        acknowledge(topic, ANN, *expected)
        acknowledge(topic, BOB, 20, 25)
    with javas(one_url, class_path, tmp_path, prioritized=True) as activemq:
        assert activemq.consume_durably("PRICES", "ann", "news") == []
        assert activemq.consume_durably("PRICES", "bob", "news") == [28, 27, 26, 24, 23, 22, 21]


@contextmanager
def our_broker(class_path: str, folder: Path) -> Iterator[JmsClients]:
    """Our broker serves Java clients, over the KahaDB of this folder."""
    options = BrokerOptions(bind="openwire://127.0.0.1:0")
    with running(Broker(open_store(kahadb_url(folder)), options)) as (host, port):
        yield JmsClients(class_path, f"tcp://{host}:{port}")


def test_one_without_its_own_messages_goes_on_with_java(class_path: str, tmp_path: Path) -> None:
    """A Java broker deletes a subscription, with what waits for it, if its client asks for another than is kept."""
    topic = "PRICES?consumer.noLocal=true"
    with our_broker(class_path, tmp_path) as clients:
        clients.subscribe_durably(topic, "ann", "news")
        clients.publish("PRICES", 0, 3)
    with javas(kahadb_url(tmp_path), class_path, tmp_path) as activemq:
        assert activemq.consume_durably(topic, "ann", "news", 2) == [0, 1]
    with our_broker(class_path, tmp_path) as clients:
        assert clients.consume_durably(topic, "ann", "news", 1) == [2]
