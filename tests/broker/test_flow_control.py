"""Memory stays bounded, and nobody suffers from others: backlogs, clients that do not read, thousands of idle ones."""

from __future__ import annotations

import socket
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from jdbcstore import Broker, PersistenceAdapter, Queue, open_store
from jdbcstore.broker.memory import DELIVERY_BYTES
from jdbcstore.testing.messages import text_message
from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.threads import no_new_threads
from tests.waiting import wait_until


def pour(client: Client, count: int, body: str = "", destination: str = "/queue/A", persistent: bool = True) -> None:
    """Send many messages in few writes, and wait until the broker has the last one."""
    flag = str(persistent).lower()
    frames = [f"SEND\ndestination:{destination}\npersistent:{flag}\nnumber:{n}\n\n{body}\0" for n in range(count)]
    frames[-1] = frames[-1].replace("\n\n", "\nreceipt:last\n\n", 1)
    client.write("".join(frames).encode())
    assert client.frame().headers["receipt-id"] == "last"


def could_write(client: Client, data: bytes, times: int) -> bool:
    """Whether the broker takes so much within the client's time limit."""
    try:
        for _ in range(times):
            client.write(data)
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("persistent", [True, False])
def test_a_backlog_lives_in_the_store_and_comes_in_order(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    brokers: list[Broker],
    persistent: bool,
) -> None:
    address = start_broker(sqlite_store, window_messages_max=50, page_messages_max=20)
    client = open_client(address)
    pour(client, 1000, "x" * 100, persistent=persistent)
    used = brokers[0].memory.used
    assert 0 < used <= (50 if persistent else 500) * 3000  # more only while the spool is being opened
    client.subscribe("/queue/A", "client-individual", activemq_prefetchSize="30")
    for number in range(1000):
        message = client.message()
        assert int(message.headers["number"]) == number
        client.ack(message)
        assert brokers[0].memory.used <= 110 * 3000 + 1000 * DELIVERY_BYTES  # the store may be behind with the last
    client.done("DISCONNECT")
    wait_until(lambda: brokers[0].memory.used == 0 and brokers[0].queues[Queue("A")].depth == 0)


def test_all_queues_together_keep_within_the_memory(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter, brokers: list[Broker]
) -> None:
    address = start_broker(sqlite_store, memory_bytes_max=200_000)
    client = open_client(address)
    for queue in range(10):
        pour(client, 50, "x" * 1000, destination=f"/queue/{queue}")
    assert brokers[0].memory.used <= 200_000
    for queue in range(10):
        client.subscribe(f"/queue/{queue}", id=str(queue), activemq_prefetchSize="1")
    got = [client.message() for _ in range(500)]
    for queue in range(10):
        numbers = [int(m.headers["number"]) for m in got if m.headers["subscription"] == str(queue)]
        assert numbers == list(range(50))


def test_bodies_of_many_large_unacknowledged_messages_are_read_again_when_needed(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter, brokers: list[Broker]
) -> None:
    address = start_broker(sqlite_store, in_flight_bytes_max=100_000)
    client = open_client(address)
    for number in range(40):
        client.publish("/queue/A", f"{number}:" + "x" * 20_000)
    client.subscribe("/queue/A", "client", activemq_prefetchSize="100")
    messages = [client.message() for _ in range(40)]
    wait_until(lambda: brokers[0].memory.used <= 250_000)
    client.done("NACK", client.named(messages[39]))
    client.drop()
    again = open_client(address)
    again.subscribe("/queue/A", "client")
    bodies = [again.message() for _ in range(39)]
    assert [m.text for m in bodies] == [m.text for m in messages[:39]]
    assert all(m.headers["redelivered"] == "true" for m in bodies)
    again.done("ACK", again.named(bodies[-1]))
    again.subscribe("/queue/ActiveMQ.DLQ", id="dlq")
    assert again.message().text == messages[39].text
    again.done("DISCONNECT")
    wait_until(lambda: brokers[0].memory.used == 0)


def test_a_consumer_that_does_not_read_harms_nobody(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    address = start_broker(sqlite_store)
    deaf, busy = open_client(address), open_client(address)
    deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    pour(busy, 300, "x" * 50_000)
    wish = {"destination": "/queue/A", "id": "1", "ack": "client", "activemq.prefetchSize": "100000"}
    deaf.send("SUBSCRIBE", wish)
    busy.publish("/queue/B", "b")
    busy.subscribe("/queue/B")
    assert busy.message().text == "b"
    # What the deaf one was not sent is for others; what it was sent comes back when it is gone.
    deaf.drop()
    busy.subscribe("/queue/A", id="2")
    assert sorted(int(busy.message().headers["number"]) for _ in range(300)) == list(range(300))


def test_auto_acknowledged_messages_are_kept_until_the_socket_took_them(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter, brokers: list[Broker]
) -> None:
    address = start_broker(sqlite_store)
    deaf, producer = open_client(address), open_client(address)
    pour(producer, 200, "x" * 100_000)
    deaf.send("SUBSCRIBE", {"destination": "/queue/A", "id": "1", "activemq.prefetchSize": "100000"})
    queue = brokers[0].queues[Queue("A")]
    wait_until(lambda: queue.in_flight > 0)
    assert queue.depth > 0  # 20 MB do not fit into the kernel's buffers
    deaf.drop()
    wait_until(lambda: len(brokers[0].clients) == 1)
    producer.publish("/queue/A", "behind them", number="-1")
    other = open_client(address)
    other.subscribe("/queue/A")
    numbers: list[int] = []
    while not numbers or numbers[-1] >= 0:
        numbers.append(int(other.message().headers["number"]))
    # Only what had reached the kernel of the lost client is gone: that is what auto means.
    assert numbers == [*range(numbers[0], 200), -1]


@pytest.mark.parametrize("ending", ["DISCONNECT", "NONSENSE"])
def test_a_client_that_leaves_while_messages_flow_loses_none_of_them(
    address: Address, open_client: OpenClient, ending: str
) -> None:
    leaving, other = open_client(address), open_client(address)
    pour(other, 2000)
    leaving.subscribe("/queue/A", "auto", activemq_prefetchSize="10")
    leaving.send(ending)
    numbers = set()
    with suppress(ConnectionError):
        while (frame := leaving.frame()).command in ("MESSAGE", "ERROR"):
            numbers.add(frame.headers.get("number", "0"))
    other.subscribe("/queue/A")
    while len(numbers) < 2000:
        numbers.add(other.message().headers["number"])


def test_a_sender_that_does_not_read_its_receipts_is_not_read_either(
    start_broker: StartBroker, open_client: OpenClient
) -> None:
    address = start_broker(output_bytes_max=10_000)
    deaf, other = open_client(address), open_client(address)
    deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.socket.settimeout(2.0)
    receipt = "r" * 9000
    frame = f"SEND\ndestination:/topic/none\nreceipt:{receipt}\n\n\0".encode() * 100
    assert not could_write(deaf, frame, 100)
    other.publish("/queue/A", "not affected")


def test_a_fast_producer_is_held_back_by_a_slow_store(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    from tests.broker.test_receipts import commits_held

    address = start_broker(sqlite_store, uncommitted_bytes_max=100_000)
    fast, other = open_client(address), open_client(address)
    fast.socket.settimeout(2.0)
    frame = f"SEND\ndestination:/queue/A\npersistent:true\n\n{'x' * 50_000}\0".encode()
    with commits_held():
        assert not could_write(fast, frame, 1000)
        other.done("SEND", {"destination": "/queue/B"}, "not affected")


@pytest.mark.timeout(240)
def test_two_thousand_idle_clients_cost_little(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    import resource
    import threading

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    address = start_broker()
    threads = threading.active_count()
    idle = []
    try:
        for _ in range(2000):
            connection = socket.create_connection(address, timeout=30)
            connection.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
            idle.append(connection)
        wait_until(lambda: sum(client.is_open for client in list(brokers[0].clients)) == 2000)
        assert threading.active_count() == threads
        client = open_client(address)
        started_s = time.process_time()  # ours and the broker's, whatever else the machine does
        client.subscribe("/queue/A")
        for number in range(100):
            client.publish("/queue/A", str(number))
            client.message()
        assert time.process_time() - started_s < 5
    finally:
        for connection in idle:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_idle_empty_queues_are_forgotten(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    brokers: list[Broker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jdbcstore.broker.master_service._SWEEP_S", 0.05)
    address = start_broker(sqlite_store, idle_queue_timeout_s=0.1)
    client = open_client(address)
    client.publish("/queue/full", "x")
    client.subscribe("/queue/empty", id="1")
    client.subscribe("/queue/used", id="2")
    client.done("UNSUBSCRIBE", {"id": "1"})
    wait_until(lambda: Queue("empty") not in brokers[0].queues)
    client.publish("/queue/empty", "again")
    client.subscribe("/queue/empty", id="3")
    assert client.message().text == "again"
    assert {Queue("full"), Queue("used")} <= brokers[0].queues.keys()


def test_ten_thousand_stored_queues_are_there_after_a_start(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    with sqlite_store as store:
        added = [
            store.queue_message_store(Queue(f"Q{n}")).add_message(text_message(n, destination=Queue(f"Q{n}")))
            for n in range(10_000)
        ]
        added[-1].result(100)
    client = open_client(start_broker(sqlite_store))
    client.subscribe("/queue/Q9999", id="1")
    assert client.message().text == "message 9999"
    client.subscribe("/queue/Q123*", id="2")  # no path element, so a name like any other, and nobody's
    assert client.is_silent()


def test_queues_are_read_although_the_system_gives_no_more_threads(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    with sqlite_store as store:
        for queue in range(30):
            place = store.queue_message_store(Queue(f"Q{queue}"))
            added = [
                place.add_message(text_message(100 * queue + n, "x" * 1000, destination=Queue(f"Q{queue}")))
                for n in range(100)
            ]
        added[-1].result(100)
    client = open_client(start_broker(sqlite_store))
    with no_new_threads():
        for queue in range(30):
            client.send("SUBSCRIBE", {"destination": f"/queue/Q{queue}", "id": f"{queue}", "ack": "auto"})
        for _ in range(30 * 100):
            client.message()


def test_a_row_that_is_no_message_holds_nobody_up(
    start_broker: StartBroker, open_client: OpenClient, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "broker.db"
    address = start_broker(open_store(f"sqlite:///{path}"), window_messages_max=4, page_messages_max=3)
    client = open_client(address)
    pour(client, 20)
    with closing(sqlite3.connect(path, timeout=60)) as database:
        database.execute("UPDATE ACTIVEMQ_MSGS SET MSG = x'00' WHERE ID IN (5, 6, 7, 8, 9, 13, 20)")
        database.commit()
    client.subscribe("/queue/A", browser="true", id="b")
    readable = [n for n in range(20) if n + 1 not in (5, 6, 7, 8, 9, 13, 20)]
    assert [int(client.message().headers["number"]) for _ in readable] == readable
    assert client.message().headers["browser"] == "end"
    client.subscribe("/queue/A")
    assert [int(client.message().headers["number"]) for _ in readable] == readable
    client.publish("/queue/A", "behind")
    assert client.message().text == "behind"
    assert caplog.text.count("unreadable message skipped") == 7


def test_a_stored_queue_of_a_name_that_no_column_takes_keeps_nobody_from_starting(
    start_broker: StartBroker, open_client: OpenClient, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "broker.db"
    with open_store(f"sqlite:///{path}") as store:
        for number, name in enumerate(("A", "B")):
            message = text_message(number, destination=Queue(name))
            store.queue_message_store(Queue(name)).add_message(message).result(60)
    with closing(sqlite3.connect(path, timeout=60)) as database:
        database.execute("UPDATE ACTIVEMQ_MSGS SET CONTAINER = 'queue://' || HEX(ZEROBLOB(150)) WHERE ID = 1")
        database.commit()
    client = open_client(start_broker(open_store(f"sqlite:///{path}")))
    client.subscribe("/queue/B")
    assert client.message().text == "message 1"
    assert "cannot be served" in caplog.text
