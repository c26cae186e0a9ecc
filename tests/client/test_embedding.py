"""Who has the broker: its life, standby, several connections, loss of mastership and of the store, and the end."""

from __future__ import annotations

import asyncio
import gc
import operator
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import (
    Broker,
    BrokerOptions,
    ConfigurationError,
    Connection,
    ConnectionClosed,
    EmbeddedBroker,
    JdbcOptions,
    LockHeld,
    LoginRefused,
    ProtocolError,
    StoreError,
    open_store,
    running,
)
from jdbcstore.broker.lifecycle import State
from jdbcstore.client.outgoing_message import outgoing
from jdbcstore.store.memory import MemoryPersistenceAdapter
from tests.servers.proxy import Proxy
from tests.waiting import wait_until


def test_the_broker_ends_with_its_connection_and_takes_the_others_along(url: str) -> None:
    with jdbcstore.connect(url) as connection:
        other = jdbcstore.connect(connection.broker)
        subscription = other.subscribe("A")
        assert connection.broker.lifecycle.state is State.MASTER
        assert connection.broker.addresses == []
    assert connection.is_closed
    assert other.is_closed
    with pytest.raises(ConnectionClosed):
        subscription.receive()
    with pytest.raises(ConnectionClosed) as caught:
        other.send("A", "x")
    assert caught.value.is_unknown in (True, False)
    other.close()
    connection.close()  # once more


def test_a_receiver_that_waits_is_told_of_the_end(url: str) -> None:
    connection = jdbcstore.connect(url)
    other = jdbcstore.connect(connection.broker)
    subscription = other.subscribe("A")
    raised: list[BaseException] = []

    def receive() -> None:
        try:
            subscription.receive()
        except ConnectionClosed as error:
            raised.append(error)

    thread = threading.Thread(target=receive)
    thread.start()
    wait_until(lambda: subscription._mailbox._waiters)
    connection.close()
    thread.join(30)
    assert "has ended" in str(raised[0])


def test_a_receiver_that_waits_ends_when_its_own_connection_is_closed(
    connection: Connection, other: Connection
) -> None:
    subscription = other.subscribe("A")
    got: list[list[object]] = []
    thread = threading.Thread(target=lambda: got.append(list(subscription)))
    thread.start()
    wait_until(lambda: subscription._mailbox._waiters)
    other.close()
    thread.join(30)
    assert got == [[]]


def test_a_client_id_is_one_connections(connection: Connection) -> None:
    with pytest.raises(ProtocolError, match="shop already connected from in-process"):
        jdbcstore.connect(connection.broker, client_id="shop")
    with jdbcstore.connect(connection.broker, client_id="mall") as mall:
        assert mall.client_id == "mall"
    jdbcstore.connect(connection.broker, client_id="mall").close()


def test_sending_while_another_thread_closes_is_always_answered(caplog: pytest.LogCaptureFixture) -> None:
    gc.collect()  # what others have left is told of before
    caplog.clear()
    for _ in range(4):
        connection = jdbcstore.connect("memory:")
        futures: list[Future[str]] = []

        def send(connection: Connection = connection, futures: list[Future[str]] = futures) -> None:
            with suppress(ConnectionClosed):
                while True:
                    futures.append(connection.send_nowait("A", "x", persistent=False))

        thread = threading.Thread(target=send)
        thread.start()
        wait_until(partial(operator.getitem, futures, slice(5, None)))
        with suppress(ConnectionClosed):
            connection.close()
        thread.join(30)
        for future in futures:
            assert isinstance(future.exception(timeout=30), ConnectionClosed | None)
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_what_a_sender_takes_back_while_the_connection_is_closed_is_no_error() -> None:
    class TakenBack(set[Future[str]]):
        """Between the look whether there is something and taking it, another thread takes it."""

        def __bool__(self) -> bool:
            return True

    connection = jdbcstore.connect("memory:")
    connection._untold = TakenBack()
    connection.close()
    assert connection.is_closed


def test_users_log_in(caplog: pytest.LogCaptureFixture) -> None:
    gc.collect()
    caplog.clear()
    options = BrokerOptions(users={"joe": "secret"}, login_delay_max_s=0)
    with jdbcstore.connect("memory:", login="joe", passcode="secret", options=options) as connection:
        connection.send("A", "x")
        with pytest.raises(LoginRefused):
            jdbcstore.connect(connection.broker, login="joe", passcode="wrong")
        with pytest.raises(LoginRefused):
            jdbcstore.connect(connection.broker)
        assert len(connection.broker.clients) == 1
    with pytest.raises(LoginRefused):
        jdbcstore.connect("memory:", options=options)
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_a_broker_that_listens_may_be_connected_to_from_inside() -> None:
    broker = Broker(MemoryPersistenceAdapter(), BrokerOptions(bind="127.0.0.1:0"))
    with running(broker), jdbcstore.connect(broker) as connection:
        connection.send("A", "x")
        assert connection.subscribe("A").receive(timeout_s=30).body == "x"
    assert connection.is_closed


def test_a_broker_that_does_not_run_is_told() -> None:
    with pytest.raises(RuntimeError, match="does not run"):
        jdbcstore.connect(EmbeddedBroker(MemoryPersistenceAdapter()))
    with pytest.raises(ConfigurationError, match="not a store URL"):
        jdbcstore.connect("nonsense")
    with jdbcstore.connect("memory:") as connection, pytest.raises(ValueError, match="has its own"):
        jdbcstore.connect(connection.broker, options=BrokerOptions())
    with pytest.raises(ConnectionClosed, match="stopp"):
        jdbcstore.connect(connection.broker)


def test_a_store_that_cannot_be_opened_is_told() -> None:
    with pytest.raises(StoreError):
        jdbcstore.connect(
            "postgresql://nobody@127.0.0.1:1/nothing?retry_s=0.1", options=BrokerOptions(start_timeout_s=0.1)
        )


def test_a_standby_is_told_and_may_wait(sqlite_url: str) -> None:
    lasting = f"{sqlite_url}?lockAcquireSleepInterval=50"
    first = jdbcstore.connect(lasting)
    with pytest.raises(LockHeld, match="is master"):
        jdbcstore.connect(lasting)
    first.send("A", "x")
    got: list[object] = []

    def stand_by() -> None:
        with jdbcstore.connect(lasting, master_timeout_s=30) as second:
            got.extend(message.body for message in second.browse("A"))

    thread = threading.Thread(target=stand_by)
    thread.start()
    first.close()
    thread.join(60)
    assert got == ["x"]


def test_a_process_that_was_stopped_too_long_asks_nothing_of_the_broker(sqlite_url: str) -> None:
    with jdbcstore.connect(sqlite_url) as connection:
        broker = connection.broker

        async def wake_up() -> None:
            broker.trusted_until_ns = 1
            await connection._port.send(outgoing("A", "x", {}))

        with pytest.raises(ConnectionClosed, match="the lease was not renewed in time"):
            asyncio.run_coroutine_threadsafe(wake_up(), broker.loop).result(30)
        assert connection.is_closed

        async def wake_up_again() -> None:
            await broker.lifecycle.reached(State.MASTER)
            broker.trusted_until_ns = 1
            await jdbcstore.connect_async(broker)

        with pytest.raises(ConnectionClosed, match="the lease was not renewed in time"):
            asyncio.run_coroutine_threadsafe(wake_up_again(), broker.loop).result(30)


def test_what_send_has_returned_from_survives_kill_and_what_was_not_acknowledged_comes_again(sqlite_url: str) -> None:
    program = f"""
import jdbcstore
connection = jdbcstore.connect({sqlite_url!r})
orders, auto = connection.subscribe("ORDERS"), connection.subscribe("AUTO", mode="auto")
for number in range(1_000_000):
    connection.send("AUTO", str(number))
    auto.receive()
    connection.send("ORDERS", str(number))
    message = orders.receive()
    if number % 2:
        message.acknowledge()
    print(number, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(50):
            last = int(process.stdout.readline())
        process.kill()
        last = int((process.stdout.read().split() or [str(last)])[-1])
    with jdbcstore.connect(sqlite_url, master_timeout_s=60) as connection:
        left = [int(str(message.body)) for message in connection.browse("ORDERS")]
        assert [number for number in left if number <= last] == list(range(0, last + 1, 2))
        assert len(list(connection.browse("AUTO"))) <= 2  # the last, whose acknowledgement was under way


def test_the_loss_of_mastership_ends_the_connection_and_another_one_goes_on(sqlite_url: str) -> None:
    with jdbcstore.connect(sqlite_url) as connection:
        broker = connection.broker
        subscription = connection.subscribe("A")
        broker.loop.call_soon_threadsafe(broker.distrust)
        with pytest.raises(ConnectionClosed, match="the lease was not renewed in time"):
            subscription.receive()
        with pytest.raises(ConnectionClosed, match="nothing was done") as caught:
            connection.send("A", "x")
        assert not caught.value.is_unknown
        assert connection.is_closed
        with jdbcstore.connect(broker, master_timeout_s=30) as again:
            again.send("A", "y")
            assert again.subscribe("A").receive(timeout_s=30).body == "y"


def test_a_store_that_is_gone_is_told_and_comes_back(postgresql_url: str) -> None:
    port = int(postgresql_url.rpartition(":")[2].partition("/")[0])
    with (
        Proxy(port) as proxy,
        jdbcstore.connect(f"{proxy.url(postgresql_url)}?retry_s=0.3") as connection,
    ):
        connection.send("A", "stored")
        proxy.cut()
        with pytest.raises((ConnectionClosed, StoreError)):
            connection.send("A", "lost")
        wait_until(lambda: connection.is_closed)
        with pytest.raises(ConnectionClosed, match="the store failed"):
            connection.send("A", "lost")
        proxy.resume()
        with jdbcstore.connect(connection.broker, master_timeout_s=30) as again:
            bodies = [message.body for message in again.browse("A")]
            assert bodies[0] == "stored"
            again.send("A", "next")


def test_with_ignore_each_request_is_told_and_the_connection_stays(postgresql_url: str) -> None:
    port = int(postgresql_url.rpartition(":")[2].partition("/")[0])
    options = BrokerOptions(on_store_failure="ignore")
    with (
        Proxy(port) as proxy,
        jdbcstore.connect(f"{proxy.url(postgresql_url)}?retry_s=0.3", options=options) as connection,
    ):
        connection.send("A", "1")
        connection.send("A", "2")
        manual, auto = connection.subscribe("A", prefetch=1), connection.subscribe("A", mode="auto", prefetch=1)
        message = manual.receive(timeout_s=30)
        wait_until(lambda: auto._mailbox._ready)
        proxy.cut()
        with pytest.raises(StoreError):
            message.acknowledge()
        with pytest.raises(StoreError), connection.transaction() as transaction:
            transaction.acknowledge(message)
        auto.receive(timeout_s=30)
        with pytest.raises(StoreError):  # of what was just received
            auto.receive(timeout_s=30)
        proxy.resume()
        while True:
            try:
                message.acknowledge()
                break
            except StoreError:
                pass
        auto.close()
        manual.close()
        assert [left.body for left in connection.browse("A")] == ["2"]


def test_a_thread_of_the_loop_may_not_wait_for_itself(connection: Connection) -> None:
    raised: list[BaseException] = []
    done = threading.Event()

    def call() -> None:
        try:
            connection.send("A", "x")
        except RuntimeError as error:
            raised.append(error)
        done.set()

    connection.broker.loop.call_soon_threadsafe(call)
    assert done.wait(30)
    assert "connect_async" in str(raised[0])


def test_an_error_of_the_block_goes_before_one_of_the_end() -> None:
    connection, error = jdbcstore.connect("memory:"), ZeroDivisionError()
    connection.send_nowait("A.>", "x")
    connection.__exit__(ZeroDivisionError, error, None)
    assert "a wildcard is for subscriptions" in error.__notes__[0]


def test_everything_may_be_closed_by_anybody_in_any_order(url: str) -> None:
    connection = jdbcstore.connect(url)
    with connection.subscribe("A") as subscription, connection.browse("A") as browser:
        transaction = connection.transaction().__enter__()
        transaction.send("A", "x")
        connection.close()
        with pytest.raises(ConnectionClosed, match="nothing was done"):
            transaction.__exit__(None, None, None)
        transaction.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
        subscription.close()
        browser.close()


def test_a_program_that_closes_nothing_ends() -> None:
    program = "import jdbcstore; jdbcstore.connect('memory:').send('A', 'x'); print('done')"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert (finished.stdout, finished.stderr) == ("done\n", "")


def test_a_client_needs_no_socket_and_no_database_library() -> None:
    program = """
import sys, jdbcstore
with jdbcstore.connect("memory:") as connection:
    connection.send("A", "x")
    connection.subscribe("A").receive().acknowledge()
print([name for name in ("jdbcstore.transport", "jdbcstore.stomp", "sqlalchemy") if name in sys.modules])
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert finished.stdout == "[]\n"


def test_a_batch_of_options_goes_to_the_store(sqlite_url: str) -> None:
    store = open_store(sqlite_url, JdbcOptions(batch_rows_max=10))
    broker = EmbeddedBroker(store)
    with running(broker), jdbcstore.connect(broker) as connection:
        connection.send("A", "x")
        assert [message.body for message in connection.browse("A")] == ["x"]


def test_a_directory_of_kahadb(tmp_path: Path) -> None:
    url = f"kahadb:{tmp_path / 'kahadb'}"
    with jdbcstore.connect(url, client_id="shop") as connection:
        connection.subscribe("topic://PRICES", durable="audit")
        connection.send("ORDERS", "three apples")
        connection.send("topic://PRICES", "1.20")
    with jdbcstore.connect(url, client_id="shop") as connection:
        connection.subscribe("ORDERS").receive(timeout_s=30).acknowledge()
        connection.subscribe("topic://PRICES", durable="audit").receive(timeout_s=30).acknowledge()
        assert list(connection.browse("ORDERS")) == []
