"""Prepared transactions handed to and fro between a real ActiveMQ and us, on one store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jdbcstore.config.urls import is_journal_url, open_engine, open_store
from jdbcstore.destination import Queue
from jdbcstore.identifiers import MessageId, XATransactionId, xid_of_text, xid_text
from jdbcstore.message import Message
from jdbcstore.store.contract import (
    Cursor,
    MessageStore,
    PersistenceAdapter,
    PreparedTransaction,
    SupportsTopics,
    SupportsTransactions,
    TopicMessageStore,
    TransactionStore,
)
from jdbcstore.store.jdbc.schema import upgrade_schema
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing import text_message
from tests.compat.activemq import ActiveMQ
from tests.compat.test_durable import ANN, BOB, LASTING, TOPIC, WAIT_S, javas, kahadb_url, left, one_url

__all__ = ["one_url"]

pytestmark = pytest.mark.timeout(300)

QUEUE = Queue("Q")
WORK, ACKS, BACK, BOBS = "55:0a01ff:62", "55:0a02:62", "-7:0a03:", "55:0a04:62"
COUNT = 12


def places(*usual: tuple[str, bool]) -> pytest.MarkDecorator:
    """Every kind of store, prioritised or not; these in every run."""
    every = [("postgresql_url", True), ("mariadb_url", False), ("kahadb", True), ("kahadb", False)]
    return pytest.mark.parametrize(
        "place",
        [one if one in usual else pytest.param(one, marks=pytest.mark.exhaustive) for one in every],
        ids=[f"{kind}-{'prioritized' if prioritized else 'plain'}" for kind, prioritized in every],
        indirect=True,
    )


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, bool]:
    """The URL of a fresh store that both can use, and whether its destinations are prioritised."""
    kind, prioritized = request.param
    return (kahadb_url(tmp_path) if kind == "kahadb" else request.getfixturevalue(kind)), prioritized


class Ours:
    """Our store as master."""

    def __init__(self, adapter: PersistenceAdapter, *, prioritized: bool) -> None:
        assert isinstance(adapter, SupportsTopics)
        assert isinstance(adapter, SupportsTransactions)
        self.adapter = adapter
        self.clean_up = adapter.clean_up
        self.queue: MessageStore = adapter.queue_message_store(QUEUE, prioritized=prioritized)
        self.topic: TopicMessageStore = adapter.topic_message_store(TOPIC, prioritized=prioritized)
        self.transactions: TransactionStore = adapter.transaction_store()

    def prepared(self) -> dict[str, PreparedTransaction]:
        return {xid_text(one.transaction_id): one for one in self.transactions.prepared_transactions()}

    def waiting(self) -> list[int]:
        """Numbers on the queue, in the order of delivery."""
        page = self.queue.recover_next_messages(Cursor(), 1000, 1 << 30)
        assert len(page.messages) == self.queue.message_count
        return [number_of(message) for message in page.messages]

    def left(self, key: SubscriptionKey) -> list[int]:
        found = list(left(self.topic, key))
        assert len(found) == self.topic.subscription_message_count(key)
        return found

    def decide(self, xid: str, *, commits: bool) -> None:
        store, transaction_id = self.transactions, xid_of_text(xid)
        (store.commit_prepared if commits else store.rollback_prepared)(transaction_id).result(WAIT_S)


@contextmanager
def ours(url: str, *, prioritized: bool) -> Iterator[Ours]:
    with open_store(url, None if is_journal_url(url) else LASTING) as adapter:
        yield Ours(adapter, prioritized=prioritized)


def number_of(message: Message) -> int:
    number = message.properties["number"]
    assert isinstance(number, int)
    return number


def numbered(number: int, *, on_topic: bool = False) -> Message:
    message = text_message(number, destination=TOPIC if on_topic else QUEUE, priority=number % 10)
    message.set_property("number", number)
    return message


def consumed(activemq: ActiveMQ) -> list[int]:
    return [message["properties"]["number"][1] for message in activemq.consume("Q")]


def in_order(numbers: list[int], *, prioritized: bool) -> list[int]:
    """The order of delivery of messages whose priority is number % 10, given the order of commits."""
    return sorted(numbers, key=lambda number: -(number % 10)) if prioritized else numbers


@places(("mariadb_url", False), ("kahadb", True))
def test_what_java_prepared_is_decided_here(place: tuple[str, bool], class_path: str, tmp_path: Path) -> None:
    url, prioritized = place
    if not is_journal_url(url):
        engine = open_engine(url)
        upgrade_schema(engine)  # ActiveMQ's own key on PostgreSQL has no room for subscriptions to prioritised topics
        engine.dispose()
    with javas(url, class_path, tmp_path, prioritized=prioritized) as activemq:
        for client in ("ann", "bob"):
            activemq.subscribe_durably("PRICES", client, "news")
        activemq.publish("PRICES", 0, COUNT)
        activemq.send_numbers("queue://Q", 0, COUNT)
        sends = ("send", "queue://Q", "100", "3", "send", "topic://PRICES", "200", "2")
        taken = activemq.prepare(WORK, *sends, "receive", "queue://Q", "2")
        acked = activemq.prepare(ACKS, "consume", "topic://PRICES", "news", "3", client_id="ann")
        bobs = activemq.prepare(BOBS, "consume", "topic://PRICES", "news", "1", client_id="bob")
        given_back = activemq.prepare(BACK, "send", "queue://Q", "300", "1", "receive", "queue://Q", "1")
        assert activemq.in_doubt() == {WORK, ACKS, BACK, BOBS}
    everything = in_order(list(range(COUNT)), prioritized=prioritized)
    assert taken + given_back == everything[:3]
    assert (acked, bobs) == (everything[:3], everything[:1])
    with ours(url, prioritized=prioritized) as store:
        found = store.prepared()
        assert set(found) == {WORK, ACKS, BACK, BOBS}
        assert [number_of(message) for message in found[WORK].added] == [100, 101, 102, 200, 201]
        assert len(found[WORK].removed) == 2
        assert {(destination, key) for destination, key, _ in found[ACKS].acknowledged} == {(TOPIC, ANN)}
        assert store.waiting() == everything[3:]
        assert store.left(ANN) == everything[3:]
        assert store.left(BOB) == everything[1:]
        store.clean_up()
        store.decide(WORK, commits=True)
        store.decide(ACKS, commits=True)
        store.decide(BACK, commits=False)
        store.decide(BOBS, commits=False)
        on_queue = in_order([n for n in range(COUNT) if n not in taken] + [100, 101, 102], prioritized=prioritized)
        of_ann = in_order([n for n in range(COUNT) if n not in acked] + [200, 201], prioritized=prioritized)
        of_bob = in_order([*range(COUNT), 200, 201], prioritized=prioritized)
        assert store.waiting() == on_queue
        assert (store.left(ANN), store.left(BOB)) == (of_ann, of_bob)
    with javas(url, class_path, tmp_path, prioritized=prioritized) as activemq:
        assert activemq.in_doubt() == set()
        assert consumed(activemq) == on_queue
        assert sorted(consumed_of(activemq, "ann")) == sorted(of_ann)
        assert sorted(consumed_of(activemq, "bob")) == sorted(of_bob)


def consumed_of(activemq: ActiveMQ, client_id: str) -> list[int]:
    return activemq.consume_durably("PRICES", client_id, "news")


@places(("postgresql_url", True), ("kahadb", False))
def test_what_we_prepared_is_decided_there(place: tuple[str, bool], class_path: str, tmp_path: Path) -> None:
    url, prioritized = place
    with ours(url, prioritized=prioritized) as store:
        for key in (ANN, BOB):
            store.topic.add_subscription(SubscriptionInfo(key, TOPIC, TOPIC)).result(WAIT_S)
        for number in range(COUNT):
            store.queue.add_message(numbered(number)).result(WAIT_S)
            store.topic.add_message(numbered(number, on_topic=True)).result(WAIT_S)
        everything = store.left(ANN)
        taken, acked, bobs = everything[:3], everything[:3], everything[:1]
        work = store.transactions.begin(xid_of_text(WORK))
        for number in (100, 101, 102):
            work.add_message(store.queue, numbered(number))
        for number in (200, 201):
            work.add_message(store.topic, numbered(number, on_topic=True))
        for number in taken[:2]:
            work.remove_message(store.queue, number_in(store.queue, number))
        work.prepare().result(WAIT_S)
        back = store.transactions.begin(xid_of_text(BACK))
        back.add_message(store.queue, numbered(300))
        back.remove_message(store.queue, number_in(store.queue, taken[2]))
        back.prepare().result(WAIT_S)
        for xid, key, numbers in ((ACKS, ANN, acked), (BOBS, BOB, bobs)):
            transaction = store.transactions.begin(xid_of_text(xid))
            for number in numbers:
                transaction.acknowledge(store.topic, key, left(store.topic, key)[number])
            transaction.prepare().result(WAIT_S)
    with javas(url, class_path, tmp_path, prioritized=prioritized) as activemq:
        assert activemq.in_doubt() == {WORK, ACKS, BACK, BOBS}
        activemq.decide(WORK, commits=True)
        activemq.decide(ACKS, commits=True)
        activemq.decide(BACK, commits=False)
        activemq.decide(BOBS, commits=False)
        assert activemq.in_doubt() == set()
    with ours(url, prioritized=prioritized) as store:
        assert store.prepared() == {}
        on_queue = in_order([n for n in range(COUNT) if n not in taken[:2]] + [100, 101, 102], prioritized=prioritized)
        assert store.waiting() == on_queue
        of_ann = in_order([n for n in range(COUNT) if n not in acked] + [200, 201], prioritized=prioritized)
        if prioritized and not is_journal_url(url):
            # Committing what it has recovered, ActiveMQ's JDBC store makes one number the mark of all priorities: what
            # it would have lost by that it delivers again.
            assert set(store.left(ANN)) >= set(of_ann)
        else:
            assert store.left(ANN) == of_ann
        assert store.left(BOB) == in_order([*range(COUNT), 200, 201], prioritized=prioritized)
    with javas(url, class_path, tmp_path, prioritized=prioritized) as activemq:
        assert consumed(activemq) == on_queue
        assert sorted(consumed_of(activemq, "bob")) == [*range(COUNT), 200, 201]


@pytest.mark.parametrize("commits", [True, False])
def test_what_is_in_doubt_of_a_queue_that_we_removed_is_decided_there(
    class_path: str, tmp_path: Path, commits: bool
) -> None:
    """A queue of a virtual topic is remembered while it is empty, and its removal is told to a Java broker."""
    url, name = kahadb_url(tmp_path), Queue("Consumer.A.VirtualTopic.X")
    with ours(url, prioritized=False) as store:
        queue = store.adapter.queue_message_store(name)
        queue.add_message(numbered(1)).result(WAIT_S)
        work = store.transactions.begin(xid_of_text(WORK))
        work.remove_message(queue, number_in(queue, 1))
        work.add_message(queue, numbered(2))
        work.prepare().result(WAIT_S)
        store.adapter.remove_destination(name).result(WAIT_S)
    with javas(url, class_path, tmp_path) as activemq:
        assert activemq.in_doubt() == {WORK}
        activemq.decide(WORK, commits=commits)
        found = [message["properties"]["number"][1] for message in activemq.consume(name.physical_name)]
        assert found == [2 if commits else 1]


def test_a_java_broker_that_commits_what_was_acknowledged_out_of_order_loses_nothing(
    one_url: str, class_path: str, tmp_path: Path
) -> None:
    with ours(one_url, prioritized=False) as store:
        store.topic.add_subscription(SubscriptionInfo(ANN, TOPIC, TOPIC)).result(WAIT_S)
        for number in range(8):
            store.topic.add_message(numbered(number, on_topic=True)).result(WAIT_S)
        ids = left(store.topic, ANN)
        for xid, numbers in ((ACKS, (0, 4)), (BOBS, (1, 5))):
            transaction = store.transactions.begin(xid_of_text(xid))
            for number in numbers:
                transaction.acknowledge(store.topic, ANN, ids[number])
            transaction.prepare().result(WAIT_S)
        assert store.left(ANN) == [2, 3, 6, 7]
    with javas(one_url, class_path, tmp_path) as activemq:
        assert activemq.in_doubt() == {ACKS}, "the column has room for one"
        activemq.decide(ACKS, commits=True)
    with ours(one_url, prioritized=False) as store:
        # The Java broker did not know of 4. What it did not know of at all is in doubt as before.
        assert set(store.prepared()) == {BOBS}
        assert store.left(ANN) == [2, 3, 4, 6, 7]
        store.decide(BOBS, commits=True)
        assert store.left(ANN) == [2, 3, 4, 6, 7]
    with javas(one_url, class_path, tmp_path) as activemq:
        assert set(consumed_of(activemq, "ann")) >= {2, 3, 4, 6, 7}


def number_in(store: MessageStore, number: int) -> MessageId:
    for message in store.recover():
        if number_of(message) == number and message.message_id is not None:
            return message.message_id
    raise AssertionError(number)


def test_the_text_of_an_id_is_what_both_sides_mean() -> None:
    assert xid_of_text(WORK) == XATransactionId(55, b"\x0a\x01\xff", b"b")
    assert xid_of_text(BACK) == XATransactionId(-7, b"\x0a\x03", b"")
