"""Order, paging and memory of queues: scenarios of ActiveMQ's tests, with smaller numbers.

docs/scenarios.md lists all.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jdbcstore import Broker, PersistenceAdapter, Queue, open_store
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.contract import SupportsTransactions
from jdbcstore.testing.messages import text_message
from tests.broker.client import Address, Client, Frame
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.test_durable import serving
from tests.broker.test_flow_control import pour
from tests.servers.prepared import PreparedFile
from tests.waiting import wait_until

A, B, DLQ = "/queue/A", "/queue/B", "/queue/ActiveMQ.DLQ"


@pytest.fixture
def url(tmp_path: Path, prepared_file: PreparedFile) -> str:
    """A SQLite database with empty tables."""
    return prepared_file.url(tmp_path / "broker.db")


@contextmanager
def connected(address: Address) -> Iterator[Client]:
    """A client that disconnects in the end, and is gone then."""
    with Client(address) as client:
        client.connect()
        yield client
        client.done("DISCONNECT")


def in_transaction(client: Client, frames: Callable[[], object]) -> None:
    client.send("BEGIN", {"transaction": "t"})
    frames()
    client.done("COMMIT", {"transaction": "t"})


def acknowledge(client: Client, messages: list[Frame], end: str = "COMMIT") -> None:
    """Acknowledge messages in a transaction."""
    client.send("BEGIN", {"transaction": "t"})
    for message in messages:
        client.ack(message, transaction="t")
    client.done(end, {"transaction": "t"})


# -- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory_bytes_max", [3_000, 1 << 28])
def test_the_order_is_that_of_the_commits(url: str, memory_bytes_max: int) -> None:
    """ActiveMQ's StoreOrderTest: a transaction that commits late is behind what was committed before, for ever."""

    def send(client: Client, body: str) -> None:
        client.done("SEND", {"destination": A, "persistent": "true", "transaction": "t"}, body.ljust(1000))

    def received(address: Address, end: str) -> list[str]:
        with connected(address) as client:
            client.subscribe(A, "client-individual")
            messages = [client.message() for _ in range(3)]
            acknowledge(client, messages, end)
        return [message.text.strip() for message in messages]

    with serving(url, memory_bytes_max=memory_bytes_max) as address:
        with connected(address) as first, connected(address) as second:
            for client, body in ((first, "first"), (second, "second")):
                client.send("BEGIN", {"transaction": "t"})
                send(client, body)
            second.done("COMMIT", {"transaction": "t"})
            in_transaction(second, lambda: send(second, "middle"))
            first.done("COMMIT", {"transaction": "t"})
        assert received(address, "ABORT") == ["second", "middle", "first"]
    for end in ("ABORT", "COMMIT"):
        with serving(url, memory_bytes_max=memory_bytes_max) as address:
            assert received(address, end) == ["second", "middle", "first"]
    with open_store(url) as adapter:
        assert adapter.destinations() == set()


def test_each_queue_of_a_composite_has_its_message_after_a_restart(url: str) -> None:
    """ActiveMQ's StoreOrderTest, testCompositeSendReceiveAfterRestart."""
    with serving(url) as address, connected(address) as client:
        client.publish(f"{A},{B}", "x")
    with serving(url) as address, connected(address) as client:
        for name in (A, B):
            client.subscribe(name, id=name)
            message = client.message()
            assert (message.text, message.headers["destination"]) == ("x", name)
        assert client.is_silent(0.1)


@pytest.mark.parametrize("prioritized", [True, False])
def test_a_queue_is_known_after_a_restart_without_a_client(
    url: str, start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], *, prioritized: bool
) -> None:
    """ActiveMQ's QueueMbeanRestartTest; what its management shows, ours keeps in `Broker.queues`. It stays known."""
    policies = [DestinationPolicy(prioritized_messages=prioritized)]
    with serving(url, policies) as address, connected(address) as client:
        client.publish("/queue/ORDERS.A", "x")
    address = start_broker(open_store(url), policies=policies, idle_queue_timeout_s=0.001)
    known = brokers[0].queues
    assert {name: queue.depth for name, queue in known.items()} == {Queue("ORDERS.A"): 1}
    client = open_client(address)
    client.done("SEND", {"destination": B, "expires": "1"})  # makes an empty queue
    while Queue("B") in known:
        brokers[0].loop.call_soon_threadsafe(brokers[0].sweep)
        client.done("SEND", {"destination": "/topic/nobody"})
    client.subscribe("/queue/ORDERS.>")
    assert client.message().text == "x"


def test_what_is_prepared_is_delivered_when_it_is_committed(url: str) -> None:
    """ActiveMQ's AMQ5567Test, where a store that nobody serves plays the transaction manager."""
    xid = XATransactionId(7, b"global", b"branch")
    with open_store(url) as adapter:
        assert isinstance(adapter, SupportsTransactions)
        transaction = adapter.transaction_store().begin(xid)
        queue = adapter.queue_message_store(Queue("A"))
        transaction.add_message(queue, text_message(1, "prepared", destination=Queue("A")))
        transaction.prepare().result(60)
    with serving(url) as address, connected(address) as client:
        client.publish(A, "plain")
        client.subscribe(A)
        assert client.message().text == "plain"
        assert client.is_silent(0.2)
        client.publish(B, "behind the acknowledgement")
    with open_store(url) as adapter:
        assert isinstance(adapter, SupportsTransactions)
        adapter.transaction_store().commit_prepared(xid).result(60)
    with serving(url) as address, connected(address) as client:
        client.subscribe(A)
        assert client.message().text == "prepared"
        assert client.is_silent(0.2)


# -- paging and memory -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory_bytes_max", [1, 2_000, 4_000, 6_000, 8_000])
def test_memory_that_runs_full_in_between_leaves_nothing_out_and_doubles_nothing(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    brokers: list[Broker],
    memory_bytes_max: int,
) -> None:
    """ActiveMQ's StoreQueueCursorJDBCNoDuplicateTest."""
    client = open_client(start_broker(sqlite_store, memory_bytes_max=memory_bytes_max, page_messages_max=2))
    pour(client, 6, "x" * 1000)
    in_memory = sum(len(lane.window) for lane in brokers[0].queues[Queue("A")].lanes())
    assert in_memory < 6
    assert brokers[0].memory.used <= memory_bytes_max
    client.subscribe(A, "client-individual", activemq_prefetchSize="1")
    for number in range(6):
        message = client.message()
        assert message.headers["number"] == str(number)
        client.done("ACK", client.named(message))
    assert client.is_silent(0.2)


@pytest.mark.parametrize("prefetch", [5, 1000])
def test_a_large_backlog_keeps_within_the_memory(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    brokers: list[Broker],
    prefetch: int,
) -> None:
    """ActiveMQ's MemoryLimitTest, testCursorBatch."""
    count, size, memory_bytes_max = 400, 10_000, 1_000_000
    client = open_client(start_broker(sqlite_store, memory_bytes_max=memory_bytes_max, in_flight_bytes_max=300_000))
    pour(client, count, "x" * size)
    memory = brokers[0].memory
    assert 0 < memory.used <= memory_bytes_max
    client.subscribe(A, "client-individual", activemq_prefetchSize=str(prefetch))
    most = 0
    for number in range(count):
        message = client.message()
        assert message.headers["number"] == str(number)
        most = max(most, memory.used)
        client.ack(message)
    assert most <= memory_bytes_max
    wait_until(lambda: memory.used == 0)


@pytest.mark.parametrize(
    ("producers", "consumers", "count"), [(1, 1, 50), (10, 3, 10), (3, 10, 30)], ids=["1:1", "10:3", "3:10"]
)
def test_no_message_and_no_consumer_is_forgotten_when_memory_is_short(
    start_broker: StartBroker,
    sqlite_store: PersistenceAdapter,
    brokers: list[Broker],
    producers: int,
    consumers: int,
    count: int,
) -> None:
    """ActiveMQ's AMQ5266Test and its relatives: composite sends, each in a transaction of its own, consumers commit
    every five and have no more in flight; every message arrives in both queues once.
    """
    address = start_broker(
        sqlite_store, memory_bytes_max=20_000, window_messages_max=10, page_messages_max=5, in_flight_bytes_max=5_000
    )
    expected = {f"{producer}.{number}" for producer in range(producers) for number in range(count)}
    received = {A: Counter[str](), B: Counter[str]()}
    lock, over = threading.Lock(), threading.Event()

    def produce(producer: int) -> None:
        with connected(address) as client:
            for number in range(count):
                body = f"{producer}.{number}".ljust(1000)
                headers = {"destination": f"{A},{B}", "persistent": "true", "transaction": "t"}
                in_transaction(client, lambda: client.send("SEND", headers, body))  # noqa: B023  # called at once

    def consume(queue: str) -> None:
        with Client(address) as client:
            client.connect()
            client.subscribe(queue, "client-individual", activemq_prefetchSize="5")
            client.socket.settimeout(0.5)
            pending: list[Frame] = []
            while not over.is_set():
                try:
                    pending.append(client.message())
                except TimeoutError:
                    is_due = bool(pending)
                else:
                    is_due = len(pending) == 5
                if is_due:
                    client.socket.settimeout(60)
                    acknowledge(client, pending)
                    client.socket.settimeout(0.5)
                    with lock:
                        received[queue].update(message.text.strip() for message in pending)
                    pending = []

    threads = [threading.Thread(target=consume, args=(queue,)) for queue in (A, B) for _ in range(consumers)]
    threads += [threading.Thread(target=produce, args=(number,)) for number in range(producers)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: all(len(bodies) >= len(expected) for bodies in received.values()))
    finally:
        over.set()
        for thread in threads:
            thread.join(90)
    for bodies in received.values():
        assert set(bodies) == expected
        assert set(bodies.values()) == {1}
    assert [brokers[0].queues[Queue(name)].depth for name in "AB"] == [0, 0]


@pytest.mark.parametrize(("consumers", "prefetch"), [(1, 1), (1, 1000), (10, 1), (10, 50)])
def test_counters_are_never_negative_and_right_in_the_end(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    brokers: list[Broker],
    consumers: int,
    prefetch: int,
) -> None:
    """ActiveMQ's JDBCNegativeQueueTest: consumers move messages from one queue to another in transactions."""
    count = 60
    address = start_broker(sqlite_store, window_messages_max=20, page_messages_max=10)
    broker = brokers[0]
    pour(open_client(address), count, "x" * 100)
    moved = [0] * consumers
    over = threading.Event()

    def move(number: int) -> None:
        with Client(address) as client:
            client.connect()
            client.subscribe(A, "client-individual", activemq_prefetchSize=str(prefetch))
            client.socket.settimeout(0.3)
            while not over.is_set():
                try:
                    message = client.message()
                except TimeoutError:
                    continue
                client.socket.settimeout(60)
                client.send("BEGIN", {"transaction": "t"})
                client.ack(message, transaction="t")
                client.send("SEND", {"destination": B, "persistent": "true", "transaction": "t"}, message.text)
                client.done("COMMIT", {"transaction": "t"})
                client.socket.settimeout(0.3)
                moved[number] += 1

    async def numbers() -> dict[str, tuple[int, ...]]:
        queues = {name: broker.queues[Queue(name)] for name in "AB" if Queue(name) in broker.queues}
        found: dict[str, tuple[int, ...]] = {
            name: (queue.depth, queue.in_flight, queue.enqueued, queue.dequeued, queue.enqueued - queue.dequeued)
            for name, queue in queues.items()
        }
        for name, queue in queues.items():
            found[name] += tuple(value for lane in queue.lanes() for value in (lane.depth, lane.in_flight))
        return {**found, "memory": (broker.memory.used,)}

    def looked_at() -> dict[str, tuple[int, ...]]:
        return asyncio.run_coroutine_threadsafe(numbers(), broker.loop).result(60)

    threads = [threading.Thread(target=move, args=(number,)) for number in range(consumers)]
    for thread in threads:
        thread.start()
    wrong = []
    while sum(moved) < count and all(thread.is_alive() for thread in threads):
        found = looked_at()
        over.wait(0.002)
        wrong += [found] if any(value < 0 for values in found.values() for value in values) else []
    over.set()
    for thread in threads:
        thread.join(90)
    assert wrong == []
    assert (looked_at()["A"][:4], looked_at()["B"][:4]) == ((0, 0, count, count), (count, 0, count, 0))
    client = open_client(address)
    client.subscribe(B)
    for _ in range(count):
        client.message()
    wait_until(lambda: looked_at()["B"][:4] == (0, 0, count, count) and looked_at()["memory"] == (0,))


# -- duplicates ------------------------------------------------------------------------------------------------------


def test_a_duplicate_among_the_dead_letters_holds_nobody_up(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter, brokers: list[Broker]
) -> None:
    """ActiveMQ's AMQ6122Test: the same message is sent to the dead letters by several at once, and consumed."""
    address = start_broker(sqlite_store, memory_bytes_max=1)
    copies, rounds = 4, 20
    together = threading.Barrier(copies)

    def send() -> None:
        with connected(address) as client:
            for number in range(1, rounds + 1):
                together.wait(90)
                client.publish(DLQ, str(number), producer_id="P", producer_sequence=str(number))

    consumer = open_client(address)
    consumer.subscribe(DLQ, "client-individual")
    threads = [threading.Thread(target=send) for _ in range(copies)]
    for thread in threads:
        thread.start()
    got = [consumer.message() for _ in range(rounds)]
    for thread in threads:
        thread.join(90)
        assert not thread.is_alive()
    assert [message.text for message in got] == [str(number) for number in range(1, rounds + 1)]
    for message in got[:10]:
        consumer.done("NACK", consumer.named(message))  # refused here it is gone, whatever else has its id
    for message in got[10:]:
        consumer.done("ACK", consumer.named(message))
    assert consumer.is_silent(0.2)
    wait_until(lambda: brokers[0].queues[Queue("ActiveMQ.DLQ")].depth == 0)
    assert brokers[0].producers.duplicates == (copies - 1) * rounds
