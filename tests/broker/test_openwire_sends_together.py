"""Messages that a JMS client sends without waiting are stored together, with and without failover."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from jdbcstore import JdbcOptions, PersistenceAdapter, Queue, open_store
from jdbcstore.broker.broker import Broker
from jdbcstore.message import Message, TextMessage
from jdbcstore.openwire import commands as c
from jdbcstore.store.commit_numbers import CountsCommits
from tests.broker.client import Address
from tests.broker.conftest import StartBroker
from tests.broker.openwire_client import OpenWireClient

A, B = Queue("A"), Queue("B")


@pytest.fixture
def address(start_broker: StartBroker, sqlite_store: PersistenceAdapter) -> Address:
    """Of a broker on SQLite."""
    return start_broker(sqlite_store, bind="openwire://127.0.0.1:0")


both = pytest.mark.parametrize("is_fault_tolerant", [False, True], ids=["tcp", "failover"])


def messages(client: OpenWireClient, *texts: str, queue: Queue = A) -> list[TextMessage]:
    """Persistent messages that are answered."""
    found = [client.message(queue, text) for text in texts]
    for message in found:
        assert message.message_id is not None
        message.persistent, message.response_required = True, True
        message.command_id = 1000 + message.message_id.producer_sequence_id
    return found


def send(client: OpenWireClient, *said: Message | c.BaseCommand) -> None:
    """Say it all at once."""
    client.write_bytes(b"".join(map(client.bytes_of, said)))


def failures(client: OpenWireClient, sent: Sequence[Message]) -> list[int]:
    """Which of these failed, by place, when all are answered."""
    places = {message.command_id: place for place, message in enumerate(sent)}
    failed: list[int] = []
    while places:
        answer = client.next()
        assert isinstance(answer, c.Response), answer
        place = places.pop(answer.correlation_id)
        if isinstance(answer, c.ExceptionResponse):
            failed.append(place)
    return failed


def rest_of(client: OpenWireClient, queue: Queue = A, number: int = 1) -> list[str | None]:
    """The texts in a queue, up to one that is sent now."""
    client.send(queue, "the end")
    client.subscribe(queue, prefetch=1000, number=number)
    texts: list[str | None] = []
    while (text := client.text()) != "the end":
        texts.append(text)
    return texts


@both
def test_they_are_few_commits_and_keep_their_order(
    is_fault_tolerant: bool, start_broker: StartBroker, sqlite_store: PersistenceAdapter, brokers: list[Broker]
) -> None:
    names = [str(number) for number in range(100)]
    with OpenWireClient(
        start_broker(sqlite_store, bind="openwire://127.0.0.1:0"), is_fault_tolerant=is_fault_tolerant
    ) as client:
        sent = messages(client, *names)
        send(client, *sent)
        assert failures(client, sent) == []
        adapter = brokers[0].adapter
        assert isinstance(adapter, CountsCommits)
        assert adapter.commit_numbers is not None
        assert adapter.commit_numbers.writes.count < 20
        assert rest_of(client) == names


@both
def test_other_commands_between_them_keep_their_place(
    is_fault_tolerant: bool, start_broker: StartBroker, sqlite_store: PersistenceAdapter
) -> None:
    with OpenWireClient(
        start_broker(sqlite_store, bind="openwire://127.0.0.1:0"), is_fault_tolerant=is_fault_tolerant
    ) as client:
        first = messages(client, "1", "2")
        other = messages(client, "3", queue=B)
        transient = messages(client, "4")
        transient[0].persistent = False
        last = messages(client, "5", "6")
        sent = [*first, *other, *transient, *last]
        consumer = c.ConsumerInfo(consumer_id=client.consumer_id(7), destination=B, prefetch_size=10)
        send(client, *first, *other, consumer, *transient, *last)
        texts: list[str | None] = []
        places = {message.command_id for message in sent}
        while places or not texts:
            answer = client.next()
            if isinstance(answer, c.MessageDispatch):
                texts.append(answer.message.text if isinstance(answer.message, TextMessage) else None)
            else:
                assert type(answer) is c.Response
                places.discard(answer.correlation_id)
        assert texts == ["3"]
        assert [text for text in rest_of(client) if text != "4"] == ["1", "2", "5", "6"]


@both
def test_one_that_the_store_refuses_at_once_costs_the_others_nothing(
    is_fault_tolerant: bool, start_broker: StartBroker, tmp_path: Path
) -> None:
    store = open_store(f"sqlite:///{tmp_path}/small.db", JdbcOptions(message_bytes_max=10_000))
    with OpenWireClient(
        start_broker(store, bind="openwire://127.0.0.1:0"), is_fault_tolerant=is_fault_tolerant
    ) as client:
        sent = messages(client, "1", "x" * 10_000, "3")
        send(client, *sent)
        assert failures(client, sent) == [1]
        assert rest_of(client) == ["1", "3"]


def test_what_comes_again_after_a_failover_is_stored_once(
    start_broker: StartBroker, sqlite_store: PersistenceAdapter, brokers: list[Broker]
) -> None:
    address = start_broker(sqlite_store, bind="openwire://127.0.0.1:0")
    with OpenWireClient(address, "ID:again", is_fault_tolerant=True) as client:
        sent = messages(client, *map(str, range(10)))
        send(client, *sent)
        assert failures(client, sent) == []
    with OpenWireClient(address, "ID:again", is_fault_tolerant=True, is_reconnected=True) as client:
        more = messages(client, "10", "11")
        for place, message in enumerate(more):
            assert message.message_id is not None
            assert sent[-1].message_id is not None
            message.message_id.producer_sequence_id = sent[-1].message_id.producer_sequence_id + 1 + place
            message.command_id = 5000 + place
        again = [*sent[4:], *more]
        send(client, *again)
        assert failures(client, again) == []
        assert brokers[0].producers.duplicates == 6
        with OpenWireClient(address) as reader:
            assert rest_of(reader) == list(map(str, range(12)))


def test_what_comes_twice_at_once_is_stored_once(address: Address) -> None:
    """With trackMessages, Java's client sends again what it keeps, and besides that what it waits for."""
    with OpenWireClient(address, is_fault_tolerant=True) as client:
        sent = messages(client, *(str(number) for number in range(1, 8)))
        again = [message.copy() for message in sent]
        for message in again:
            message.command_id += 100
        said = [sent[0], sent[1], again[1], sent[2], again[0], again[2], *sent[3:], *again[3:]]
        send(client, *said)
        assert failures(client, said) == []
        assert rest_of(client) == [str(number) for number in range(1, 8)]


def test_what_comes_too_late_at_once_is_refused(address: Address) -> None:
    """With trackMessages and more to be sent again than its cache holds, it sends the end first."""
    with OpenWireClient(address, is_fault_tolerant=True) as client:
        sent = messages(client, *(str(number) for number in range(1, 7)))
        said = [sent[0], sent[3], sent[4], sent[1], sent[2], sent[5]]
        send(client, *said)
        assert failures(client, said) == [3, 4]
        assert rest_of(client) == ["1", "4", "5", "6"]


@pytest.mark.parametrize("is_acknowledged", [False, True])
@both
def test_what_is_consumed_meanwhile_is_gone(
    is_fault_tolerant: bool, is_acknowledged: bool, start_broker: StartBroker, sqlite_store: PersistenceAdapter
) -> None:
    """Adds whose removes come before their commit cancel out, message by message."""
    address = start_broker(sqlite_store, bind="openwire://127.0.0.1:0")
    with OpenWireClient(address, is_fault_tolerant=is_fault_tolerant) as client, OpenWireClient(address) as reader:
        reader.subscribe(A, prefetch=1000)
        sent = messages(client, *map(str, range(60)))
        send(client, *sent)
        dispatches = [reader.dispatch() for _ in sent]
        if is_acknowledged:
            for dispatch in dispatches[::2]:
                reader.acknowledge(dispatch, dispatch, c.ACK_INDIVIDUAL)
        assert failures(client, sent) == []
    expected = [str(number) for number in range(60) if number % 2 or not is_acknowledged]
    with OpenWireClient(address) as last:
        assert rest_of(last) == expected
