"""What the broker itself publishes: of it, too, only so much waits for a slow subscriber of a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from jdbcstore import Broker, PersistenceAdapter
from jdbcstore.broker.feed import Feed
from jdbcstore.broker.slices import Slices
from jdbcstore.destination import Topic
from jdbcstore.message import TextMessage
from tests.broker.client import Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.test_scheduling import LATER, MANAGEMENT, Wall
from tests.waiting import wait_until

#: What may wait for a subscriber.
PENDING_MAX = 10
MANY = 60


@pytest.fixture
def broker(start_broker: StartBroker, sqlite_store: PersistenceAdapter, brokers: list[Broker]) -> Broker:
    """One that lets little wait."""
    start_broker(sqlite_store, topic_pending_max=PENDING_MAX, statistics_support=True)
    return brokers[0]


@pytest.fixture
def client(broker: Broker, open_client: OpenClient) -> Client:
    """A client that does not keep up."""
    return open_client(broker.address)


@pytest.fixture
def other(broker: Broker, open_client: OpenClient) -> Client:
    """A client that does."""
    return open_client(broker.address)


def lag(client: Client, topic: str) -> None:
    """Subscribe, and acknowledge nothing."""
    client.subscribe(f"/topic/{topic}", "client-individual", **{"activemq.prefetchSize": "1"})


def pending(broker: Broker, topic: str) -> int:
    return sum(consumer.pending for consumer in broker.topics[Topic(topic)].consumers)


def check_waits(broker: Broker, client: Client, topic: str, count: int = MANY) -> None:
    """The broker waits with what it has for a client, and goes on as the client does."""
    wait_until(lambda: pending(broker, topic) > PENDING_MAX, "it is too much")
    for _ in range(count):
        assert pending(broker, topic) <= PENDING_MAX + 1
        client.ack(client.message())


def schedule(client: Client, destination: str, count: int) -> None:
    for number in range(count):
        headers = {"destination": destination, "AMQ_SCHEDULED_DELAY": LATER}
        client.done("SEND", headers, str(number))


def test_what_there_is_already_waits(broker: Broker, client: Client, other: Client) -> None:
    for number in range(MANY):
        other.publish(f"/queue/{number}")
    lag(client, "ActiveMQ.Advisory.Queue")
    check_waits(broker, client, "ActiveMQ.Advisory.Queue")


def test_who_does_not_read_what_happens_is_disconnected(broker: Broker, client: Client, other: Client) -> None:
    """Nobody can be held back for it."""
    lag(client, "ActiveMQ.Advisory.Consumer.Queue.A")
    for _ in range(PENDING_MAX + 1):
        other.subscribe("/queue/A")
        other.done("UNSUBSCRIBE", {"id": "1"})
    client.message()
    assert "is too slow: 21 messages" in client.error().headers["message"]
    wait_until(lambda: broker.memory.used == 0, "nothing is kept for it")


def test_scheduled_messages_for_topics_wait_and_others_do_not(
    broker: Broker, client: Client, other: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jdbcstore.broker.scheduler._PAGE_JOBS", 5)
    lag(client, "T")
    other.subscribe("/queue/A")
    schedule(other, "/topic/T", MANY)
    schedule(other, "/queue/A", 1)
    Wall(broker).move(2 * int(LATER))
    assert other.message().text == "0"
    wait_until(lambda: pending(broker, "T") > PENDING_MAX, "it is too much")
    assert pending(broker, "T") <= PENDING_MAX + 5
    numbers = set()
    for _ in range(MANY):
        numbers.add(int((message := client.message()).text))
        client.ack(message)
    assert numbers == set(range(MANY))


def test_who_browses_scheduled_messages_is_not_told_too_much(broker: Broker, client: Client, other: Client) -> None:
    schedule(other, "/queue/A", MANY)
    lag(client, "T")
    other.send("SEND", {"destination": MANAGEMENT, "AMQ_SCHEDULER_ACTION": "BROWSE", "reply-to": "/topic/T"})
    check_waits(broker, client, "T")


def test_who_asks_for_statistics_waits_for_the_answers(broker: Broker, client: Client, other: Client) -> None:
    for number in range(MANY):
        other.publish(f"/queue/Q.{number}")
    lag(client, "T")
    question = {"destination": "/queue/ActiveMQ.Statistics.Destination.Q.>", "reply-to": "/topic/T"}
    other.send("SEND", question, "?")
    other.send("SEND", {**question, "ActiveMQ.Statistics.Destination.Include.First.Message.Timestamp": "1"}, "?")
    check_waits(broker, client, "T", 2 * MANY)


def test_a_feed_waits_for_the_store() -> None:
    """What is on its way to it is in memory."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        feed = Feed(Slices(loop), lambda: done.set_result(None))
        done: asyncio.Future[None] = loop.create_future()
        answers: list[Callable[[BaseException | None], None]] = []
        message = TextMessage()
        message.text = "x" * 100_000

        def job() -> Iterator[None]:
            for _ in range(100):
                answers.append(feed.sending(message))
                yield

        feed.run(job())
        most = 0
        while not done.done():
            most = max(most, len(answers))
            while answers:
                answers.pop()(None)
            await asyncio.sleep(0)
        assert most == 11

    asyncio.run(scenario())
