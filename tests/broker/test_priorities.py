"""Order by priority, and that nothing gets stuck because of it: the scenarios of ActiveMQ's MessagePriorityTest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from jdbcstore import Broker, BrokerOptions, JdbcOptions, PersistenceAdapter, Queue, open_store, running
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.store.memory import MemoryPersistenceAdapter
from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.servers.prepared import PreparedFile

A = "/queue/A"
BY_PRIORITY = [DestinationPolicy(prioritized_messages=True)]
#: Small enough that a few dozen messages do not fit.
SMALL: dict[str, Any] = {"window_messages_max": 20, "page_messages_max": 10}

Connect = Callable[[], Client]


@pytest.fixture(params=["memory", "sqlite"])
def adapter(request: pytest.FixtureRequest, tmp_path: Path, prepared_file: PreparedFile) -> PersistenceAdapter:
    """Both kinds of store, not started."""
    if request.param == "memory":
        return MemoryPersistenceAdapter()
    return open_store(prepared_file.url(tmp_path / "broker.db"))


@pytest.fixture
def connect(adapter: PersistenceAdapter, start_broker: StartBroker, open_client: OpenClient) -> Connect:
    """Connects clients to a broker that goes by priority, with little memory for each queue."""
    address = start_broker(adapter, policies=BY_PRIORITY, **SMALL)
    return lambda: open_client(address)


def send(client: Client, priority: int, *names: object, persistent: bool = True) -> None:
    """Send messages, and wait until the last one is stored; then the others are."""
    headers = {"destination": A, "persistent": str(persistent).lower(), "priority": str(priority)}
    for name in names[:-1]:
        client.send("SEND", headers, str(name))
    client.done("SEND", headers, str(names[-1]))


def take(client: Client, count: int) -> list[str]:
    """Receive and acknowledge so many, one after the other."""
    names = []
    for left in reversed(range(count)):
        message = client.message()
        if left:
            client.ack(message)
        else:
            client.done("ACK", client.named(message))
        names.append(message.text)
    return names


def one_by_one(client: Client) -> None:
    """Subscribe so that the next message is chosen when the last one is acknowledged."""
    client.subscribe(A, "client-individual", activemq_prefetchSize="1")


def is_empty(client: Client) -> bool:
    """Whether a browser finds nothing."""
    client.send("SUBSCRIBE", {"destination": A, "id": "look", "browser": "true", "ack": "auto"})
    return client.message().headers.get("browser") == "end"


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("prefetch", [1, 1000])
def test_all_high_before_all_low(connect: Connect, *, persistent: bool, prefetch: int) -> None:
    low, high = connect(), connect()
    for start in range(0, 60, 15):
        send(low, 3, *(f"low {n}" for n in range(start, start + 15)), persistent=persistent)
        send(high, 7, *(f"high {n}" for n in range(start, start + 15)), persistent=persistent)
    low.subscribe(A, "client-individual", activemq_prefetchSize=str(prefetch))
    assert take(low, 120) == [f"high {n}" for n in range(60)] + [f"low {n}" for n in range(60)]


def test_without_the_policy_the_order_is_that_of_arrival(start_broker: StartBroker, open_client: OpenClient) -> None:
    policies = [DestinationPolicy(pattern=Queue("OTHER.>"), prioritized_messages=True)]
    client = open_client(start_broker(policies=policies, **SMALL))
    for name in range(60):
        send(client, name % 10, name)
    client.subscribe(A, "client-individual")
    assert take(client, 60) == [str(name) for name in range(60)]


def test_what_comes_while_a_backlog_is_consumed_is_next(connect: Connect) -> None:
    client, sender = connect(), connect()
    send(sender, 4, *range(100))
    one_by_one(client)
    taken = []
    for turn in range(100):
        message = client.message()  # the next one is chosen when this is acknowledged
        if turn % 10 == 5:
            send(sender, 3, f"last {turn}")
            if turn % 20 == 5:
                send(sender, 6, f"second {turn}")
            send(sender, 7, f"first {turn}")
        client.ack(message)
        taken.append(message.text)
        if turn % 10 == 5:
            expected = [f"first {turn}"] + ([f"second {turn}"] if turn % 20 == 5 else [])
            assert take(client, len(expected)) == expected
    assert taken == [str(number) for number in range(100)]
    assert take(client, 10) == [f"last {turn}" for turn in range(5, 100, 10)]
    assert is_empty(client)


def test_interleaved(connect: Connect) -> None:
    client, sender = connect(), connect()
    for priority in (7, 6, 3):
        send(sender, priority, priority)
    one_by_one(client)
    first = client.message()
    send(sender, 4, 4)
    client.ack(first)
    assert [first.text, *take(client, 3)] == ["7", "6", "4", "3"]
    assert is_empty(client)


def test_a_late_high_message_goes_before_what_is_in_memory_and_what_is_not(connect: Connect) -> None:
    client, sender = connect(), connect()
    send(sender, 3, *range(60))
    one_by_one(client)
    assert take(client, 29) == [str(number) for number in range(29)]
    last = client.message()
    send(sender, 7, "high")
    client.ack(last)
    assert take(client, 31) == ["high", *(str(number) for number in range(30, 60))]


def test_a_backlog_of_low_ones_does_not_hide_high_ones(connect: Connect, brokers: list[Broker]) -> None:
    client = connect()
    send(client, 3, *range(180))
    send(client, 7, *(f"high {number}" for number in range(10)))
    client.subscribe(A, "client-individual", activemq_prefetchSize="10")
    assert take(client, 50) == [f"high {n}" for n in range(10)] + [str(n) for n in range(40)]
    queue = brokers[0].queues[Queue("A")]
    assert (queue.enqueued, queue.dequeued) == (190, 50)


def test_low_then_high_in_batches_does_not_get_stuck(connect: Connect) -> None:
    client = connect()
    batch = [str(number) for number in range(10)]
    for priorities in ([3], [7], [3, 5], [7], [0], [9]):
        expected: list[str] = []
        for priority in priorities:
            send(client, priority, *(f"{priority} {name}" for name in batch))
            expected = [f"{priority} {name}" for name in batch] + expected
        one_by_one(client)
        assert take(client, len(expected)) == expected
        client.done("UNSUBSCRIBE", {"id": "1"})


@pytest.mark.parametrize("prefetch", ["1", "100"])
def test_a_new_consumer_gets_the_high_one(connect: Connect, prefetch: str) -> None:
    sender = connect()
    for turn in range(3):
        send(sender, 3, *(f"low {turn}.{n}" for n in range(3)))
        send(sender, 7, f"high {turn}")
        send(sender, 3, *(f"low {turn}.{n}" for n in range(3, 6)))
        consumer = connect()
        consumer.subscribe(A, "client-individual", activemq_prefetchSize=prefetch)
        first = consumer.message()
        assert first.text == f"high {turn}"
        consumer.done("ACK", consumer.named(first))
        consumer.done("UNSUBSCRIBE", {"id": "1"})
    consumer = connect()
    consumer.subscribe(A, "client-individual")
    assert take(consumer, 18) == [f"low {turn}.{n}" for turn in range(3) for n in range(6)]
    assert is_empty(consumer)


def test_every_fifth_one_is_high_and_memory_is_short(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker(policies=BY_PRIORITY, memory_bytes_max=50_000, **SMALL)
    client, sender = open_client(address), open_client(address)
    client.subscribe(A, "client-individual", activemq_prefetchSize="5")
    for turn in range(3):
        names = {f"{turn}.{number}" for number in range(100)}
        for number in range(100):
            send(sender, 9 if number % 5 == 0 else 4, f"{turn}.{number}".ljust(1000))
        assert {name.strip() for name in take(client, 100)} == names
    assert is_empty(client)


def test_what_is_given_back_has_the_place_of_its_priority(connect: Connect) -> None:
    first, second = connect(), connect()
    send(first, 3, "low 1", "low 2")
    send(first, 7, "middle 1", "middle 2")
    first.subscribe(A, "client-individual", activemq_prefetchSize="3")
    assert [first.message().text for _ in range(3)] == ["middle 1", "middle 2", "low 1"]
    send(second, 9, "high")
    send(second, 7, "middle 3")
    first.done("UNSUBSCRIBE", {"id": "1"})
    second.subscribe(A, "client-individual")
    messages = [second.message() for _ in range(6)]
    assert [message.text for message in messages] == ["high", "middle 1", "middle 2", "middle 3", "low 1", "low 2"]
    assert ["redelivered" in message.headers for message in messages] == [False, True, True, False, True, False]


def test_messages_of_a_transaction_have_their_places(connect: Connect) -> None:
    client = connect()
    send(client, 5, "before")
    client.send("BEGIN", {"transaction": "t"})
    for priority in (1, 9):
        headers = {"destination": A, "persistent": "true", "priority": str(priority), "transaction": "t"}
        client.send("SEND", headers, str(priority))
    client.done("COMMIT", {"transaction": "t"})
    client.subscribe(A, "client-individual")
    assert take(client, 3) == ["9", "before", "1"]


def test_the_order_survives_a_restart_and_so_does_a_change_of_mind(tmp_path: Path) -> None:
    """Rows of a queue that did not go by priority stand at 0, those of an old broker at NULL; they come last."""
    url = f"sqlite:///{tmp_path / 'broker.db'}"

    def run(policies: list[DestinationPolicy], what: Callable[[Client], None]) -> None:
        broker = Broker(open_store(url), BrokerOptions(bind="127.0.0.1:0", **SMALL), policies=policies)
        with running(broker) as address:
            connected(address, what)

    def connected(address: Address, what: Callable[[Client], None]) -> None:
        with Client(address) as client:
            client.connect()
            what(client)

    run([], lambda client: send(client, 7, *(f"plain {n}" for n in range(15))))
    engine = create_engine(url)
    with engine.begin() as connection:
        assert set(connection.scalars(text("SELECT PRIORITY FROM ACTIVEMQ_MSGS"))) == {0}
        connection.execute(text("UPDATE ACTIVEMQ_MSGS SET PRIORITY = NULL WHERE ID <= 5"))

    def mixed(client: Client) -> None:
        send(client, 3, *(f"low {n}" for n in range(15)))
        send(client, 7, *(f"high {n}" for n in range(15)))

    run(BY_PRIORITY, mixed)
    with engine.begin() as connection:
        assert set(connection.scalars(text("SELECT PRIORITY FROM ACTIVEMQ_MSGS"))) == {None, 0, 3, 7}
    engine.dispose()
    plain, low, high = ([f"{name} {n}" for n in range(15)] for name in ("plain", "low", "high"))

    def taken(client: Client, *expected: str) -> None:
        client.subscribe(A, "client-individual")
        assert take(client, len(expected)) == list(expected)
        client.done("SEND", {"destination": "/topic/nobody"})

    run(BY_PRIORITY, lambda client: taken(client, *high[:10]))
    run([], lambda client: taken(client, *plain[:10]))  # of all that there is the oldest, whatever its priority
    run(BY_PRIORITY, lambda client: taken(client, *high[10:], *low, *plain[10:]))
    with open_store(url, JdbcOptions(locker="none")) as adapter:
        assert adapter.destinations() == set()
