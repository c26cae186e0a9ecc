"""Commits that fail and answers that are lost: scenarios of ActiveMQ's tests. docs/scenarios.md lists all."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from jdbcstore import Broker, JdbcOptions, PersistenceAdapter, Queue, StoreUnavailable, faults, open_store
from jdbcstore.broker.lifecycle import State
from jdbcstore.errors import StoreError
from jdbcstore.testing.messages import text_message
from tests.broker.client import Address, Client, Frame
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.test_durable import TOPIC, create, durably, left, serving, subscriber
from tests.broker.test_receipts import commits_fail
from tests.servers.postgresql import PostgreSQLServer
from tests.servers.proxy import ADDS, Proxy
from tests.servers.server import free_port
from tests.waiting import wait_until

A, B = "/queue/A", "/queue/B"
PERSISTENT = {"persistent": "true"}


# -- commits that fail -------------------------------------------------------------------------------------------------


def test_ten_receives_whose_commits_fail_lose_nothing(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    """ActiveMQ's JDBCCommitExceptionTest: ten transacted receives fail, each is tried again, and ten arrive."""
    address = start_broker(sqlite_store)
    client = open_client(address)
    for number in range(10):
        client.publish(A, str(number))
    client.subscribe(A, "client-individual")
    messages = [client.message() for _ in range(10)]

    def commit(message: Frame) -> str:
        client.send("BEGIN", {"transaction": "t"})
        client.ack(message, transaction="t")
        return client.request("COMMIT", {"transaction": "t"}).command

    with commits_fail():
        assert [commit(message) for message in messages] == ["ERROR"] * 10
    client.drop()
    again = client = open_client(address)
    again.subscribe(A, "client-individual")
    messages = [again.message() for _ in range(10)]
    assert [message.text for message in messages] == [str(number) for number in range(10)]
    assert [commit(message) for message in messages] == ["RECEIPT"] * 10
    assert again.is_silent(0.2)
    assert sqlite_store.destinations() == set()


@pytest.mark.parametrize("destination", [A, TOPIC])
@pytest.mark.parametrize("transacted", [True, False])
def test_sends_that_fail_leave_nothing_behind(
    start_broker: StartBroker,
    sqlite_store: PersistenceAdapter,
    brokers: list[Broker],
    destination: str,
    *,
    transacted: bool,
) -> None:
    """ActiveMQ's JmsTransactionCommitFailureTest: one is there, ten fail and leave nothing in memory, two follow."""
    address, broker = start_broker(sqlite_store), brokers[0]
    with subscriber(address) as client:
        if destination == A:
            client.subscribe(A, "client-individual", activemq_prefetchSize="1")
        else:
            durably(client, "client-individual", **{"activemq.prefetchSize": "1"})
        client.publish(destination, "1")
        first = client.message()
        before = broker.memory.used

        def send(*bodies: str) -> str:
            client.send("BEGIN", {"transaction": "t"})
            headers = {"destination": destination, **PERSISTENT, **({"transaction": "t"} if transacted else {})}
            answers = {client.request("SEND", headers, body).command for body in bodies}
            answers.add(client.request("COMMIT", {"transaction": "t"}).command)
            return "ERROR" if "ERROR" in answers else "RECEIPT"

        with commits_fail():
            assert {send(f"{number}", f"{number}, too") for number in range(10)} == {"ERROR"}
        wait_until(lambda: broker.memory.used == before)
        assert send("2", "3") == "RECEIPT"
        for expected in ("1", "2", "3"):
            message = first if expected == "1" else client.message()
            assert message.text == expected
            client.done("ACK", client.named(message))
        assert client.is_silent(0.2)
    wait_until(lambda: broker.memory.used == 0)


def test_a_sender_does_not_wait_for_one_whose_write_fails(sqlite_store: PersistenceAdapter) -> None:
    """ActiveMQ's H2JDBCDeadlockOnSendExceptionTest: the first INSERT fails while a second sender comes."""
    is_writing, second_came = threading.Event(), threading.Event()
    outcomes: dict[int, BaseException | None] = {}

    def fail_once() -> None:
        if not is_writing.is_set():
            is_writing.set()
            assert second_came.wait(60)
            raise StoreError("the first one fails")

    with sqlite_store as store, faults.inject("writer.before_commit", fail_once):
        queue = store.queue_message_store(Queue("A"))

        def send(number: int) -> None:
            completion = queue.add_message(text_message(number, destination=Queue("A")))
            if number == 2:
                second_came.set()
            outcomes[number] = completion.exception(60)

        threads = [threading.Thread(target=send, args=(number,)) for number in (1, 2)]
        threads[0].start()
        assert is_writing.wait(60)
        threads[1].start()
        for thread in threads:
            thread.join(60)
        assert isinstance(outcomes[1], StoreError)
        assert (outcomes[2], queue.message_count) == (None, 1)


# -- answers that are lost ---------------------------------------------------------------------------------------------


@contextmanager
def through(address: Address) -> Iterator[tuple[Proxy, Client]]:
    """A client that talks to a broker by way of a proxy."""
    with Proxy(address[1]) as proxy, Client(("127.0.0.1", proxy.port)) as client:
        client.connect()
        yield proxy, client


def transact(client: Client, received: Frame | None) -> None:
    """Acknowledge what was received, and send two numbered messages, in one transaction; do not wait for COMMIT."""
    client.send("BEGIN", {"transaction": "t"})
    if received is not None:
        client.ack(received, transaction="t")
    for number in (1, 2):
        numbered = {"producer-id": "P", "producer-sequence": str(number), "transaction": "t"}
        client.done("SEND", {"destination": B, **PERSISTENT, **numbered}, str(number))
    client.send("COMMIT", {"transaction": "t", "receipt": "commit"})


@pytest.mark.parametrize("restarts", [True, False], ids=["broker-restarts", "connection-only"])
@pytest.mark.parametrize("delivered", [True, False], ids=["answer-lost", "request-lost"])
def test_a_transaction_whose_answer_is_lost_happens_once(tmp_path: Path, *, delivered: bool, restarts: bool) -> None:
    """ActiveMQ's FailoverTransactionTest and, for want of a network of brokers, its AMQ4952Test: the sender repeats
    all that has no answer.
    """
    url = f"sqlite:///{tmp_path / 'broker.db'}"

    def repeat(address: Address) -> None:
        with Client(address) as client:
            client.connect()
            client.subscribe(A, "client-individual", id="a")
            received = None
            if delivered:
                assert client.is_silent(0.3)  # its acknowledgement was committed
            else:
                received = client.message()
                assert (received.text, received.headers["redelivered"]) == ("x", "true")
            transact(client, received)
            assert client.frame().headers["receipt-id"] == "commit"
            client.subscribe(B, "auto", id="b")
            assert [client.message().text, client.message().text] == ["1", "2"]
            assert client.is_silent(0.3)
            client.done("DISCONNECT")

    with serving(url) as address:
        with through(address) as (proxy, client):
            client.publish(A, "x")
            client.subscribe(A, "client-individual")
            trap = proxy.cut_at(b"COMMIT", deliver=delivered)
            transact(client, client.message())
            with pytest.raises(ConnectionError):
                client.frame()
            assert trap.wait(60)
        if not restarts:
            repeat(address)
    if restarts:
        with serving(url) as address:
            repeat(address)
    with open_store(url) as store:
        assert store.destinations() == set()


def test_a_batch_that_is_written_and_then_fails_traps_no_message(
    postgresql: PostgreSQLServer, postgresql_url: str, start_broker: StartBroker, open_client: OpenClient
) -> None:
    """ActiveMQ's TrapMessageInJDBCStoreTest: of three sends the last one's commit has no answer; three are consumed."""
    with Proxy(postgresql.port) as proxy:
        store = open_store(proxy.url(postgresql_url))
        client = open_client(start_broker(store))
        client.publish(A, "1")
        client.publish(A, "2")
        trap = proxy.cut_at(ADDS, deliver=True)
        client.publish(A, "3")
        assert trap.is_set()
        client.subscribe(A, "client-individual")
        for expected in ("1", "2", "3"):
            message = client.message()
            assert message.text == expected
            trap = proxy.cut_at(b"DELETE", deliver=True)
            client.done("ACK", client.named(message))
            assert trap.is_set()
        assert client.is_silent(0.3)
        assert (store.destinations(), store.queue_message_store(Queue("A")).message_count) == (set(), 0)


@pytest.mark.parametrize("retry_s", [10.0, 0.0], ids=["tried-again", "given-up"])
@pytest.mark.parametrize("end", ["SEND", "COMMIT", "ABORT"])
def test_who_publishes_while_the_store_fails_loses_and_doubles_nothing(
    start_broker: StartBroker, tmp_path: Path, brokers: list[Broker], end: str, retry_s: float
) -> None:
    """ActiveMQ's AMQ4636Test: a batch fails. The store tries again; when it gives up, clients are let go of, come back,
    and what has no receipt comes again.
    """
    store = open_store(f"sqlite:///{tmp_path / 'broker.db'}", JdbcOptions(retry_s=retry_s))
    address = start_broker(store, bind=f"127.0.0.1:{free_port()}", resume_check_sleep_s=0.1)
    create(address)
    with closing(sqlite3.connect(tmp_path / "broker.db")) as file:  # the first look at the outbox writes
        wait_until(lambda: file.execute("SELECT COUNT(*) FROM JDBCSTORE_LOADS").fetchone() == (1,), "that is done")
    left_to_fail = [StoreUnavailable("the lease may be gone") for _ in range(1 if retry_s else 1000)]

    def fail() -> None:
        writer = getattr(store, "writer", None)  # one that an earlier test has abandoned may come by, too
        if writer is not None and threading.current_thread() is writer.commits._thread:
            with suppress(IndexError):
                raise left_to_fail.pop()

    def publish(client: Client) -> str:
        headers = {"destination": TOPIC, **PERSISTENT, "producer-id": "P", "producer-sequence": "1"}
        if end == "SEND":
            return client.request("SEND", headers, "x").command
        client.send("BEGIN", {"transaction": "t"})
        client.done("SEND", {**headers, "transaction": "t"}, "x")
        return client.request(end, {"transaction": "t"}).command

    with faults.inject("writer.before_commit", fail), Client(address) as client:
        client.connect()
        if end == "ABORT" or retry_s:
            assert publish(client) == "RECEIPT"
        else:
            assert publish(client) == "ERROR"
            assert client.is_closed()
            left_to_fail.clear()
            wait_until(lambda: brokers[0].lifecycle.state is State.MASTER)
            with Client(address) as again:
                again.connect()
                assert publish(again) == "RECEIPT"
    assert bool(left_to_fail) == (end == "ABORT")  # nothing is asked of the store
    assert left(address) == ([] if end == "ABORT" else ["x"])
