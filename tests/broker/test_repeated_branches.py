"""A client that has lost its broker repeats a branch of which nobody remembers how it was decided: another kind of
broker did that on the same store. What it sends is stored once, and nothing of what was not committed is left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from jdbcstore import Broker, BrokerOptions, open_store, running
from jdbcstore.config.urls import open_spool
from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.identifiers import MessageId, ProducerId, XATransactionId
from jdbcstore.message import TextMessage
from jdbcstore.openwire import commands as c
from jdbcstore.store.contract import MessageStore, SupportsTopics, SupportsTransactions
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from tests.broker.client import Address
from tests.broker.openwire_client import OpenWireClient

WAIT_S = 30
NAME = "ID:repeats"
PRODUCER = ProducerId(NAME, 1, 1)
BRANCH, OTHER = XATransactionId(1, b"one", b"branch"), XATransactionId(1, b"other", b"branch")
QUEUE, TOPIC = Queue("REPEATED"), Topic("REPEATED")
KEY = SubscriptionKey(NAME, "news")
BEGIN, PREPARE, ONE_PHASE, COMMIT, ROLL_BACK, END = 0, 1, 2, 3, 4, 7


@pytest.fixture(params=["sqlite:///{}/store.db", "kahadb:{}/kahadb", "leveldb:{}/leveldb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh store."""
    template: str = request.param
    return template.format(tmp_path)


def message(destination: Destination, number: int) -> TextMessage:
    sent = TextMessage(
        producer_id=PRODUCER, destination=destination, message_id=MessageId(PRODUCER, number), persistent=True
    )
    sent.text = str(number)
    return sent


def decided_elsewhere(
    url: str, branch: XATransactionId, destination: Destination, numbers: Sequence[int], *, consumed: Sequence[int] = ()
) -> None:
    """Another broker commits a branch, and leaves nothing but its messages; of these some are consumed then."""
    with open_store(url) as adapter:
        assert isinstance(adapter, SupportsTopics)
        assert isinstance(adapter, SupportsTransactions)
        store: MessageStore = adapter.queue_message_store(QUEUE)
        if isinstance(destination, Topic):
            store = topic = adapter.topic_message_store(destination)
            topic.add_subscription(SubscriptionInfo(KEY, destination, destination)).result(WAIT_S)
        transactions = adapter.transaction_store()
        work = transactions.begin(branch)
        for number in numbers:
            work.add_message(store, message(destination, number))
        work.prepare().result(WAIT_S)
        transactions.commit_prepared(branch).result(WAIT_S)
        for number in consumed:
            store.remove_message(MessageId(PRODUCER, number)).result(WAIT_S)


def repeats(client: OpenWireClient, destination: Destination, numbers: Sequence[int], *steps: int) -> list[c.Response]:
    """What a client hears that says a branch again."""
    client.ask(c.TransactionInfo(transaction_id=BRANCH, type=BEGIN))
    for number in numbers:
        again = message(destination, number)
        again.transaction_id = BRANCH
        client.ask(again)
    client.ask(c.TransactionInfo(transaction_id=BRANCH, type=END))
    return [client.ask(c.TransactionInfo(transaction_id=BRANCH, type=step)) for step in steps]


def come_back(address: Address) -> OpenWireClient:
    return OpenWireClient(address, NAME, is_fault_tolerant=True, is_reconnected=True)


def left(address: Address, destination: Destination) -> list[str | None]:
    found: list[str | None] = []
    name = KEY.subscription_name if destination.is_topic else None
    with OpenWireClient(address) as sender, OpenWireClient(address, NAME) as client:
        client.subscribe(destination, 100, subscription_name=name)
        sender.send(destination, "last")
        while (text := client.text()) != "last":
            found.append(text)
    return found


@pytest.mark.parametrize("destination", [QUEUE, TOPIC])
@pytest.mark.parametrize("steps", [(PREPARE, COMMIT), (PREPARE, COMMIT, COMMIT), (ONE_PHASE,)])
def test_what_is_committed_is_not_done_again(url: str, destination: Destination, steps: tuple[int, ...]) -> None:
    decided_elsewhere(url, BRANCH, destination, (1, 2))
    with running(Broker(open_store(url), BrokerOptions(bind="openwire://127.0.0.1:0"), open_spool)) as address:
        with come_back(address) as client:
            answers = repeats(client, destination, (1, 2), *steps)
            assert not isinstance(answers[0], c.ExceptionResponse)
            assert type(answers[len(steps[:2]) - 1]) is c.Response
        assert left(address, destination) == ["1", "2"]


@pytest.mark.parametrize("consumed", [(1,), (2,)])
def test_one_message_that_is_left_tells(url: str, consumed: tuple[int, ...]) -> None:
    decided_elsewhere(url, BRANCH, QUEUE, (1, 2), consumed=consumed)
    with running(Broker(open_store(url), BrokerOptions(bind="openwire://127.0.0.1:0"), open_spool)) as address:
        with come_back(address) as client:
            prepared, committed = repeats(client, QUEUE, (1, 2), PREPARE, COMMIT)
            assert (type(prepared), type(committed)) == (c.IntegerResponse, c.Response)
        assert left(address, QUEUE) == [str(number) for number in (1, 2) if number not in consumed]


def test_it_is_committed_whatever_else_is_asked_for(url: str) -> None:
    decided_elsewhere(url, BRANCH, QUEUE, (1,))
    with running(Broker(open_store(url), BrokerOptions(bind="openwire://127.0.0.1:0"), open_spool)) as address:
        with come_back(address) as client:
            _, rolled_back = repeats(client, QUEUE, (1,), PREPARE, ROLL_BACK)
            assert isinstance(rolled_back, c.ExceptionResponse)
            assert rolled_back.exception is not None
            assert "is committed" in (rolled_back.exception.message or "")
        assert left(address, QUEUE) == ["1"]


def test_how_far_the_producer_came_does_not_tell(url: str) -> None:
    """Between the sends of a branch and its first phase the producer may have worked in another one."""
    decided_elsewhere(url, OTHER, QUEUE, (3,))
    with running(Broker(open_store(url), BrokerOptions(bind="openwire://127.0.0.1:0"), open_spool)) as address:
        with come_back(address) as client:
            prepared, committed = repeats(client, QUEUE, (1, 2), PREPARE, COMMIT)
            assert (type(prepared), type(committed)) == (c.IntegerResponse, c.Response)
        assert left(address, QUEUE) == ["3", "1", "2"]
