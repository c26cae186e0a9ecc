"""Transactions that were prepared before the broker started, decided while clients are at work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from jdbcstore import Broker, open_store
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.broker.route import Route
from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import CodecError, StoreError, TransientStoreError, UnknownTransaction
from jdbcstore.identifiers import MessageId, XATransactionId
from jdbcstore.message import Message, TextMessage
from jdbcstore.store.contract import Commit, Cursor, PersistenceAdapter, SupportsTopics, SupportsTransactions
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.messages import JdbcMessageStore
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing import text_message
from jdbcstore.transport.stomp.conversion import stomp_body
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.test_receipts import commits_fail
from tests.servers.prepared import PreparedFile
from tests.waiting import wait_until

QUEUE, TOPIC = Queue("Q"), Topic("T")
ANN = SubscriptionKey("ann", "news")
XID = XATransactionId(55, b"global", b"branch")
WAIT_S = 60.0
#: Processor time of the loop for one thing.
HELD_MOST_S = 0.1


@pytest.fixture(params=["sqlite", "kahadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path, prepared_file: PreparedFile) -> str:
    """A fresh store."""
    return prepared_file.url(tmp_path / "store.db") if request.param == "sqlite" else f"kahadb:{tmp_path}/kahadb"


@pytest.fixture(params=[False, True], ids=["plain", "prioritized"])
def prioritized(request: pytest.FixtureRequest) -> bool:
    """Whether the queue goes by priority."""
    found: bool = request.param
    return found


def numbered(number: int, destination: Queue | Topic = QUEUE) -> Message:
    return text_message(number, destination=destination, priority=4 + number % 2)


def text_of(number: int) -> str:
    return str(stomp_body(numbered(number))[0], "utf-8")


def prepare(url: str, *, prioritized: bool) -> None:
    """A queue with 0 to 5, and a subscription with 10 to 12; in doubt: 1 leaves, 100 and 101 come, 10 is acknowledged,
    and 110 is published."""
    with open_store(url) as adapter:
        assert isinstance(adapter, SupportsTopics)
        assert isinstance(adapter, SupportsTransactions)
        queue = adapter.queue_message_store(QUEUE, prioritized=prioritized)
        topic = adapter.topic_message_store(TOPIC)
        topic.add_subscription(SubscriptionInfo(ANN, TOPIC, TOPIC)).result(WAIT_S)
        sent = [numbered(number) for number in range(6)]
        for message in sent:
            queue.add_message(message).result(WAIT_S)
        for number in range(10, 13):
            topic.add_message(numbered(number, TOPIC)).result(WAIT_S)
        first = topic.recover_next_subscription_messages(ANN, Cursor(), 1, 1 << 20).messages[0]
        transaction = adapter.transaction_store().begin(XID)
        assert sent[1].message_id is not None
        assert first.message_id is not None
        transaction.remove_message(queue, sent[1].message_id)
        transaction.acknowledge(topic, ANN, first.message_id)
        for number in (100, 101):
            transaction.add_message(queue, numbered(number))
        transaction.add_message(topic, numbered(110, TOPIC))
        transaction.prepare().result(WAIT_S)


def decide(broker: Broker, action: Callable[..., None]) -> None:
    """Have the broker's loop decide, and wait for the answer."""
    answered, errors = threading.Event(), list[BaseException]()

    def answer(error: BaseException | None) -> None:
        if error is not None:
            errors.append(error)
        answered.set()

    def act() -> None:
        try:
            action(answer)
        except Exception as error:  # noqa: BLE001  # the test looks at it
            answer(error)

    broker.loop.call_soon_threadsafe(act)
    assert answered.wait(WAIT_S)
    if errors:
        raise errors[0]


class Started:
    """The broker, with a consumer of the queue, the subscriber, and somebody who only listens to the topic."""

    def __init__(
        self, url: str, prioritized: bool, start: StartBroker, open_client: OpenClient, brokers: list[Broker]
    ) -> None:
        adapter: PersistenceAdapter = open_store(url)
        address = start(adapter, policies=[DestinationPolicy(pattern=QUEUE, prioritized_messages=prioritized)])
        self.broker = brokers[0]
        self.consumer, self.listener = open_client(address), open_client(address)
        self.subscriber = open_client(address, client_id="ann")
        self.consumer.subscribe("/queue/Q", "client-individual")
        self.subscriber.subscribe("/topic/T", "client-individual", **{"activemq.subscriptionName": "news"})
        self.listener.subscribe("/topic/T")


@pytest.fixture
def started(
    url: str, prioritized: bool, start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> Started:
    """Everybody is there, and has what is not in doubt."""
    prepare(url, prioritized=prioritized)
    started = Started(url, prioritized, start_broker, open_client, brokers)
    assert sorted(started.consumer.message().text for _ in range(5)) == sorted(map(text_of, (0, 2, 3, 4, 5)))
    assert [started.subscriber.message().text for _ in range(2)] == [text_of(11), text_of(12)]
    assert list(started.broker.in_doubt) == [XID]
    return started


def test_a_commit_comes_to_those_who_wait(started: Started) -> None:
    broker = started.broker
    decide(broker, partial(broker.in_doubt.commit, XID, None))
    assert sorted(started.consumer.message().text for _ in range(2)) == [text_of(100), text_of(101)]
    assert started.subscriber.message().text == text_of(110)
    assert started.listener.message().text == text_of(110)
    assert started.consumer.is_silent()
    with pytest.raises(UnknownTransaction):
        decide(broker, partial(broker.in_doubt.commit, XID, None))


def test_a_rollback_gives_back_what_was_passed(started: Started) -> None:
    broker = started.broker
    decide(broker, partial(broker.in_doubt.roll_back, XID))
    assert started.consumer.message().text == text_of(1)
    assert started.consumer.is_silent()
    assert started.listener.is_silent()
    assert "subscribe again" in started.subscriber.error().headers["message"]
    assert not broker.in_doubt


def test_a_rollback_gives_back_what_was_not_reached_yet(
    url: str, prioritized: bool, start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    prepare(url, prioritized=prioritized)
    address = start_broker(
        open_store(url), policies=[DestinationPolicy(pattern=QUEUE, prioritized_messages=prioritized)]
    )
    decide(brokers[0], partial(brokers[0].in_doubt.roll_back, XID))
    assert sorted(open_client(address).rest_of("/queue/Q")) == sorted(map(text_of, range(6)))


def much_removed_in_doubt(url: str, count: int, body: str = "") -> None:
    """A queue of so many messages, all of which a transaction in doubt removes, and one behind them."""
    with open_store(url) as adapter:
        assert isinstance(adapter, SupportsTransactions)
        queue = adapter.queue_message_store(QUEUE)
        sent = [text_message(number, f"{number}{body}") for number in range(count)]
        adapter.commit_together(Commit(adds=[(queue, message) for message in sent])).result(WAIT_S)
        transaction = adapter.transaction_store().begin(XID)
        for message in sent:
            assert message.message_id is not None
            transaction.remove_message(queue, message.message_id)
        transaction.prepare().result(WAIT_S)
        queue.add_message(text_message(count, "behind")).result(WAIT_S)


def test_a_rollback_of_very_much_that_was_passed_stops_nobody(
    url: str, start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    much_removed_in_doubt(url, count := 15_000)
    client = open_client(start_broker(open_store(url)))
    client.subscribe("/queue/Q", "client-individual", activemq_prefetchSize="100000")
    client.message()
    broker = brokers[0]
    broker.watchdog.longest_processor_s = 0.0
    decide(broker, partial(broker.in_doubt.roll_back, XID))
    assert len({client.message().headers["message-id"] for _ in range(count)}) == count
    assert broker.watchdog.longest_processor_s < HELD_MOST_S


def test_a_message_that_nobody_can_read_holds_back_none_that_a_rollback_gives_back(
    tmp_path: Path,
    prepared_file: PreparedFile,
    start_broker: StartBroker,
    open_client: OpenClient,
    brokers: list[Broker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, get_message = prepared_file.url(tmp_path / "store.db"), JdbcMessageStore.get_message
    much_removed_in_doubt(url, 150)
    client = open_client(start_broker(open_store(url)))
    client.subscribe("/queue/Q", "client-individual")
    client.message()

    def get(store: JdbcMessageStore, message_id: MessageId) -> Message | None:
        message = get_message(store, message_id)
        if isinstance(message, TextMessage) and message.text == "3":
            raise CodecError("it is damaged")
        return message

    monkeypatch.setattr(JdbcMessageStore, "get_message", get)
    decide(brokers[0], partial(brokers[0].in_doubt.roll_back, XID))
    assert {client.message().text for _ in range(149)} == {str(number) for number in range(150) if number != 3}


def test_what_a_rollback_gives_back_takes_no_more_memory_than_there_is(
    url: str, start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    much_removed_in_doubt(url, count := 800, "x" * 10_000)
    client = open_client(start_broker(open_store(url), memory_bytes_max=4 << 20))
    client.subscribe("/queue/Q", "client-individual", activemq_prefetchSize="1")
    behind = client.message()
    broker = brokers[0]
    decide(broker, partial(broker.in_doubt.roll_back, XID))
    wait_until(lambda: broker.queue(QUEUE).depth == count + 1)
    assert broker.memory.used < broker.memory.messages_max + (1 << 20)
    client.ack(behind)
    found = set()
    for _ in range(count):
        message = client.message()
        found.add(message.headers["message-id"])
        client.ack(message)
    assert len(found) == count


@pytest.mark.parametrize("count", [3, 700])
def test_much_is_prepared_and_committed_in_order(
    url: str, start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], count: int
) -> None:
    client = open_client(start_broker(open_store(url)))
    client.subscribe("/queue/Q", "client-individual")
    broker = brokers[0]
    sends = [Route(numbered(number)) for number in range(count)]
    given_back = list[bool]()
    decide(broker, partial(broker.in_doubt.prepare, XID, sends, [], lambda: given_back.append(True)))
    assert client.is_silent()
    client.publish("/queue/Q", "in between")
    assert client.message().text == "in between"
    decide(broker, partial(broker.in_doubt.commit, XID, None))
    assert [client.message().text for _ in range(count)] == list(map(text_of, range(count)))
    assert not given_back
    decide(broker, partial(broker.in_doubt.prepare, XID, sends[:1], [], lambda: given_back.append(True)))
    decide(broker, partial(broker.in_doubt.roll_back, XID))
    assert given_back
    assert client.is_silent()


@pytest.mark.parametrize("count", [3, 700])
def test_what_could_not_be_prepared_may_be_prepared_again(
    url: str, start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], count: int
) -> None:
    client = open_client(start_broker(open_store(url)))
    broker = brokers[0]
    sends = [Route(numbered(number)) for number in range(count)]
    with commits_fail(), pytest.raises(TransientStoreError):
        decide(broker, partial(broker.in_doubt.prepare, XID, sends, [], bool))
    decide(broker, partial(broker.in_doubt.prepare, XID, sends, [], bool))
    decide(broker, partial(broker.in_doubt.commit, XID, None))
    assert client.rest_of("/queue/Q") == list(map(text_of, range(count)))


@pytest.mark.parametrize("is_stored", [True, False])
def test_who_prepares_what_is_prepared_is_refused_and_changes_nothing(
    url: str, start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], is_stored: bool
) -> None:
    client = open_client(start_broker(open_store(url)))
    broker, messages = brokers[0], [numbered(0), numbered(1)]
    for message in messages:
        message.persistent = is_stored
    first, second = ([Route(message)] for message in messages)
    decide(broker, partial(broker.in_doubt.prepare, XID, first, [], bool))
    with pytest.raises(StoreError, match="prepared already"):
        decide(broker, partial(broker.in_doubt.prepare, XID, second, [], bool))
    decide(broker, partial(broker.in_doubt.commit, XID, None))
    assert client.rest_of("/queue/Q") == [text_of(0)]


def test_what_a_store_cannot_take_may_be_prepared_in_part(
    url: str, start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    separator = "&" if "?" in url else "?"
    client = open_client(start_broker(open_store(f"{url}{separator}transaction_messages_max=2")))
    broker = brokers[0]
    sends = [Route(numbered(number)) for number in range(3)]
    with pytest.raises(StoreError, match="transaction_messages_max"):
        decide(broker, partial(broker.in_doubt.prepare, XID, sends, [], bool))
    decide(broker, partial(broker.in_doubt.prepare, XID, sends[:2], [], bool))
    decide(broker, partial(broker.in_doubt.commit, XID, None))
    assert client.rest_of("/queue/Q") == [text_of(0), text_of(1)]


def test_a_defect_behind_a_rollback_costs_nobody_the_answer(
    url: str, start_broker: StartBroker, brokers: list[Broker]
) -> None:
    start_broker(open_store(url))
    broker = brokers[0]

    def undo() -> None:
        raise RuntimeError("a defect")

    decide(broker, partial(broker.in_doubt.prepare, XID, [Route(numbered(1))], [], undo))
    decide(broker, partial(broker.in_doubt.roll_back, XID))
    assert not broker.in_doubt


class Unreadable(JdbcPersistenceAdapter):
    """A store whose queues cannot be counted when it is told so."""

    is_readable = True

    def queue_message_store(self, queue: Queue, *, prioritized: bool = False) -> JdbcMessageStore:
        """As its kind does it, if it can."""
        if not self.is_readable:
            raise TransientStoreError("nothing can be read")
        return super().queue_message_store(queue, prioritized=prioritized)


def test_what_fails_before_the_decision_is_in_the_store_leaves_the_branch_in_doubt(
    tmp_path: Path, start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with open_store(url) as former:
        assert isinstance(former, SupportsTransactions)
        transaction = former.transaction_store().begin(XID)
        transaction.add_message(former.queue_message_store(QUEUE), numbered(1))
        transaction.prepare().result(WAIT_S)
    good = open_store(url)
    assert isinstance(good, JdbcPersistenceAdapter)
    adapter = Unreadable(good.url, good.options)
    address = start_broker(adapter)
    broker = brokers[0]
    adapter.is_readable = False
    with pytest.raises(TransientStoreError, match="nothing can be read"):
        decide(broker, partial(broker.in_doubt.commit, XID, None))
    assert [one.transaction_id for one in adapter.transaction_store().prepared_transactions()] == [XID]
    adapter.is_readable = True
    decide(broker, partial(broker.in_doubt.commit, XID, None))
    assert open_client(address).rest_of("/queue/Q") == [text_of(1)]
