"""A suspension in full flight: whatever is under way then, the accounts of memory and depth are right afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Broker, JdbcOptions, Queue, faults, open_store
from jdbcstore.broker import removal
from jdbcstore.broker.lifecycle import State
from jdbcstore.broker.memory import DELIVERY_BYTES
from jdbcstore.errors import StoreUnavailable
from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.test_flow_control import pour
from tests.servers.proxy import Proxy
from tests.servers.server import free_port
from tests.waiting import wait_until


def suspend(broker: Broker) -> None:
    """Let the broker believe that its store is gone, and wait until it has found out that it is not."""
    suspended = threading.Event()
    broker.lifecycle.listeners.append(lambda told: suspended.set() if told.state is State.SUSPENDED else None)
    broker.loop.call_soon_threadsafe(broker.store_failed, StoreUnavailable("the store is gone"))
    assert suspended.wait(60)
    wait_until(lambda: broker.lifecycle.state is State.MASTER)


def held(broker: Broker) -> int:
    """The bytes of everything that is in memory, counted one by one."""
    found = 0
    for queue in broker.queues.values():
        deliveries = [*queue.contents.returned, *(d for lane in queue.lanes() for d in lane.window)]
        deliveries += [d for consumer in queue.consumers for d in consumer.unacknowledged.values()]
        found += sum(delivery.size for delivery in deliveries if delivery.message is not None)
        found += queue.in_flight * DELIVERY_BYTES
    return found


@pytest.fixture
def broker(start_broker: StartBroker, brokers: list[Broker], tmp_path: Path) -> Broker:
    """A master on SQLite that keeps little in memory and resumes on the same port. Its store writes everything."""
    start_broker(
        open_store(f"sqlite:///{tmp_path / 'store.db'}", JdbcOptions(concurrent_store_and_dispatch_queues=False)),
        bind=f"127.0.0.1:{free_port()}",
        window_messages_max=40,
        page_messages_max=20,
        in_flight_bytes_max=1,
        resume_check_sleep_s=0.1,
    )
    return brokers[0]


@contextmanager
def late(broker: Broker, method: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let the first answer of this method of a store come only when the block has ended. The event: it was read."""
    is_read, may_arrive = threading.Event(), threading.Event()

    def read(original: Callable[..., Any], function: Callable[..., Any], *args: Any) -> Any:
        def answer(*args: Any) -> Any:
            result = function(*args)
            if not is_read.is_set():
                is_read.set()
                assert may_arrive.wait(100)
            return result

        return original(answer if function.__name__ == method else function, *args)

    with monkeypatch.context() as patch:
        for way in ("read", "read_patiently"):
            patch.setattr(broker, way, partial(read, getattr(broker, way)))
        try:
            yield is_read
        finally:
            may_arrive.set()


def drain(broker: Broker, open_client: OpenClient, count: int) -> None:
    """Receive and acknowledge so many messages; then nothing is left, in the store nor in any account."""
    client = open_client(broker.address)
    client.subscribe("/queue/A", "client-individual")
    for _ in range(count):
        client.done("ACK", client.named(client.message()))
    queue = broker.queues[Queue("A")]
    wait_until(lambda: (queue.depth, queue.in_flight, broker.memory.used) == (0, 0, 0))
    assert broker.adapter.queue_message_store(Queue("A")).message_count == 0
    assert client.is_silent()


def test_a_page_that_arrives_after_a_suspension_is_nobodys(
    broker: Broker, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = open_client(broker.address)
    pour(client, 200, "x" * 1000)
    open_client(broker.address).subscribe("/queue/A", "client-individual", activemq_prefetchSize="10")
    wait_until(lambda: not broker.queues[Queue("A")].lanes()[0]._reading)
    with late(broker, "recover_next_messages", monkeypatch) as is_read:
        first = open_client(broker.address)
        first.subscribe("/queue/A", "client-individual", activemq_prefetchSize="25")
        assert is_read.wait(60)
        suspend(broker)
        second = open_client(broker.address)
        second.subscribe("/queue/A", "client-individual", activemq_prefetchSize="5")
        second.message()
        time.sleep(0.1)
    time.sleep(0.3)
    wait_until(lambda: broker.memory.used == held(broker))
    assert broker.queues[Queue("A")].depth == 200
    second.drop()
    drain(broker, open_client, 200)


@pytest.mark.parametrize("count", [1, 5])
def test_a_message_that_is_read_again_during_a_suspension_is_nobodys(
    broker: Broker, open_client: OpenClient, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_client(broker.address)
    pour(first, 10, "x" * 1000)
    first.subscribe("/queue/A", "client-individual", activemq_prefetchSize=str(count))
    for _ in range(count):
        first.message()
    with late(broker, "_read_again", monkeypatch) as is_read:
        first.drop()
        open_client(broker.address).subscribe("/queue/A", "client-individual")
        assert is_read.wait(60)
        suspend(broker)
    time.sleep(0.3)
    wait_until(lambda: broker.memory.used == held(broker) == 0)
    drain(broker, open_client, 10)


def test_a_refused_message_that_is_read_again_during_a_suspension_stays_where_it_is(
    broker: Broker, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_client(broker.address)
    pour(first, 10, "x" * 1000)
    first.subscribe("/queue/A", "client-individual", activemq_prefetchSize="5")
    message = first.message()
    with late(broker, "get_message", monkeypatch) as is_read:
        first.ack(message, "NACK")
        assert is_read.wait(60)
        suspend(broker)
    time.sleep(0.3)
    wait_until(lambda: broker.memory.used == held(broker) == 0)
    assert broker.queues[Queue("A")].in_flight == 0
    assert Queue("ActiveMQ.DLQ") not in broker.queues
    drain(broker, open_client, 10)


def test_what_a_client_has_and_the_store_may_have_is_not_counted_for_ever(
    broker: Broker, open_client: OpenClient
) -> None:
    """Delivered before its commit and acknowledged at once, then the store is gone: stored or not, nobody knows."""
    client = open_client(broker.address)
    client.subscribe("/queue/A")
    at_commit, may_commit = threading.Event(), threading.Event()

    def wait() -> None:
        at_commit.set()
        assert may_commit.wait(100)

    with faults.inject("writer.after_commit", wait):
        client.send("SEND", {"destination": "/queue/A", "persistent": "true"}, "x" * 1000)
        client.message()
        assert at_commit.wait(60)
        wait_until(lambda: broker.completions.expected == 2)  # the add and the remove
        assert broker.memory.used > 0
        broker.loop.call_soon_threadsafe(broker.store_failed, StoreUnavailable("the store is gone"))
        wait_until(lambda: broker.lifecycle.state is not State.MASTER)
        wait_until(lambda: broker.memory.used == 0)
        may_commit.set()
    wait_until(lambda: broker.lifecycle.state is State.MASTER)
    drain(broker, open_client, broker.adapter.queue_message_store(Queue("A")).message_count)


def test_what_is_tried_again_later_is_left_alone_after_a_suspension(
    broker: Broker, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An acknowledgement that the store refused once is due again when another store object is there."""
    retry_s = 5.0  # a busy machine may stand still before the suspension
    monkeypatch.setattr(removal, "_RETRY_S", retry_s)
    client = open_client(broker.address)
    pour(client, 3, "x" * 1000)

    def refuse() -> None:
        raise RuntimeError("disk trouble")

    with faults.inject("writer.before_commit", refuse):
        client.subscribe("/queue/A", activemq_prefetchSize="1")
        client.message()
        wait_until(lambda: broker.completions.expected == 0 and broker.queues[Queue("A")].in_flight == 1)
        due_s = time.monotonic() + retry_s
        time.sleep(0.2)
    suspend(broker)
    wait_until(lambda: time.monotonic() > due_s + 0.3)
    queue = broker.queues[Queue("A")]
    assert (queue.in_flight, broker.memory.used) == (0, held(broker))
    drain(broker, open_client, 3)


def test_accounts_are_right_after_suspensions_under_load(
    start_broker: StartBroker, stack: ExitStack, brokers: list[Broker], postgresql_url: str
) -> None:
    """Pages being read, acknowledgements and sends under way, messages with clients of every kind: after each
    suspension nothing of that is counted any more, and what is in the store is there once."""
    proxy = stack.enter_context(Proxy(int(postgresql_url.rpartition(":")[2].partition("/")[0])))
    store = open_store(proxy.url(postgresql_url), JdbcOptions(retry_s=0.1, query_timeout_s=20.0))
    bind = f"127.0.0.1:{free_port()}"
    address = start_broker(
        store,
        bind=bind,
        window_messages_max=40,
        page_messages_max=20,
        in_flight_bytes_max=50_000,
        resume_check_sleep_s=0.2,
    )
    broker = brokers[0]
    with Client(address) as client:
        client.connect()
        for name in "ABC":
            pour(client, 500, "x" * 1000, f"/queue/{name}")
    for _ in range(3):
        busy = [threading.Thread(target=use, args=(address, *kind)) for kind in USES]
        for thread in busy:
            thread.start()
        wait_until(lambda: sum(queue.dequeued for queue in broker.queues.values()) > 30)
        proxy.cut()
        for thread in busy:
            thread.join(60)
            assert not thread.is_alive()
        wait_until(lambda: broker.lifecycle.state is State.SUSPENDED)
        proxy.resume()
        wait_until(lambda: broker.lifecycle.state is State.MASTER)
        wait_until(lambda: broker.memory.used == 0)
        for name in "ABC":
            queue = broker.queues[Queue(name)]
            assert queue.depth == store.queue_message_store(Queue(name)).message_count
            assert (queue.in_flight, queue.consumers) == (0, {})
        for queue in broker.queues.values():
            queue.removal.dequeued = 0
    for name in "ABC":
        with Client(address) as client:
            client.connect()
            client.publish(f"/queue/{name}", "last")
            stored = broker.adapter.queue_message_store(Queue(name))
            assert broker.queues[Queue(name)].depth == stored.message_count
            client.subscribe(f"/queue/{name}", "client-individual")
            while (message := client.message()).text != "last":
                client.ack(message)
            client.done("ACK", client.named(message))
            assert stored.message_count == 0
    wait_until(lambda: broker.memory.used == 0)
    assert [queue.depth for queue in broker.queues.values()] == [0, 0, 0]


#: Queue and ack mode of each client; it sends as well.
USES = [("A", "auto"), ("A", "client-individual"), ("B", "client"), ("B", "auto"), ("C", "client-individual")]


def use(address: Address, queue: str, ack: str) -> None:
    """Send, receive and acknowledge until the broker lets go."""
    with suppress(OSError), Client(address) as client:
        client.connect()
        client.subscribe(f"/queue/{queue}", ack, activemq_prefetchSize="30")
        while (frame := client.frame()).command == "MESSAGE":
            if ack != "auto":
                client.ack(frame)
            client.send("SEND", {"destination": f"/queue/{queue}", "persistent": "true"}, "x" * 1000)


def test_a_thousand_clients_are_dropped_quickly(broker: Broker, stack: ExitStack) -> None:
    address = broker.address
    clients = [stack.enter_context(Client(address)) for _ in range(1000)]
    for client in clients:
        client.send("CONNECT", {"accept-version": "1.2", "host": "x"})
    for client in clients:
        assert client.frame().command == "CONNECTED"
    cpu_began_s = time.process_time()
    broker.loop.call_soon_threadsafe(broker.store_failed, StoreUnavailable("the store is gone"))
    wait_until(lambda: not broker.clients)
    assert time.process_time() - cpu_began_s < 1.0
    for client in clients:
        assert client.error()
        assert client.is_closed()


def test_durable_subscribers_lose_nothing_in_a_suspension(broker: Broker, open_client: OpenClient) -> None:
    def subscribed() -> Client:
        client = open_client(broker.address, client_id="ann")
        client.subscribe(
            "/topic/T",
            "client-individual",
            selector="n > 0",
            activemq_prefetchSize="25",
            **{"activemq.subscriptionName": "s"},
        )
        return client

    first, publisher = subscribed(), open_client(broker.address)
    for number in range(100):
        publisher.publish("/topic/T", f"{number}" + "x" * 1000, n=str(number % 2))
    taken = [first.message() for _ in range(25)]
    for message in taken[5:10]:
        first.done("ACK", first.named(message))
    suspend(broker)
    second = subscribed()
    open_client(broker.address).publish("/topic/T", "last", n="1")
    got = [second.message() for _ in range(25)]
    assert [(message.text, message.headers.get("redelivered")) for message in got[:20]] == [
        (message.text, "true") for message in taken[:5] + taken[10:]
    ]
    for message in got:
        second.done("ACK", second.named(message))
    for _ in range(21):
        second.done("ACK", second.named(second.message()))
    assert second.is_silent()
    wait_until(lambda: broker.memory.used == 0)


def test_a_queue_that_nobody_used_since_is_not_forgotten(broker: Broker, open_client: OpenClient) -> None:
    open_client(broker.address).publish("/queue/ORDERS.A", "x")
    suspend(broker)
    wait_until(lambda: not broker.clients)
    assert broker.queues[Queue("ORDERS.A")].depth == 1
    assert not broker.queues[Queue("ORDERS.A")].idle
