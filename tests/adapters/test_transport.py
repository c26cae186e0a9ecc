"""What kombu's suite does not ask of our transport: several connections, lost ones, what the store keeps."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import kombu
import pytest
from kombu.asynchronous import get_event_loop, set_event_loop
from kombu.asynchronous.hub import Hub
from kombu.transport import get_transport_cls

from jdbcstore import Broker, BrokerOptions, LoginRefused, running
from jdbcstore.adapters.celery import transport
from jdbcstore.adapters.celery.envelope import frame_headers
from jdbcstore.adapters.stomp_link import LinkLost, LinkOptions, RequestRefused, StompLink, parse_addresses
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.memory import MemoryPersistenceAdapter
from jdbcstore.transport.tls import TlsOptions
from tests.broker.client import Client
from tests.broker_process import BrokerProcess
from tests.certificates import Authority
from tests.servers.server import free_port
from tests.waiting import wait_until

Address = tuple[str, int]
Connect = Callable[..., Any]

WAIT_S = 60.0

JOBS = kombu.Queue("jobs", routing_key="jobs")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes connections."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def address() -> Iterator[Address]:
    """A broker with the usual options."""
    with running(Broker(MemoryPersistenceAdapter(), BrokerOptions(bind="127.0.0.1:0"))) as address:
        yield address


@pytest.fixture
def connect(address: Address, stack: ExitStack) -> Connect:
    """A new connection to the broker: ``connect(path, option=value)``."""

    def connected(path: str = "", **options: Any) -> Any:
        url = "jdbcstore://{}:{}/{}".format(*address, path)
        connection = kombu.Connection(url, connect_timeout=WAIT_S, **options)
        return stack.enter_context(connection)

    return connected


def publish(connection: Any, body: object, **options: Any) -> None:
    """To `JOBS`, unless the options say otherwise."""
    options = {"routing_key": "jobs", "declare": [JOBS], **options}
    kombu.Producer(connection.default_channel).publish(body, **options)


class Reader:
    """Consumes, and keeps the messages."""

    def __init__(self, connection: Any, queue: Any = JOBS, prefetch: int = 0) -> None:
        self.messages: list[Any] = []
        self._connection = connection
        consumer = kombu.Consumer(connection.channel(), [queue], on_message=self.messages.append)
        if prefetch:
            consumer.qos(prefetch_count=prefetch)
        consumer.consume()
        self.consumer = consumer

    def read(self, count: int) -> list[object]:
        """Read until there are so many; their bodies."""
        while len(self.messages) < count:
            self._connection.drain_events(timeout=WAIT_S)
        return [message.payload for message in self.messages]

    def is_quiet(self) -> bool:
        """Whether nothing comes for a while."""
        try:
            self._connection.drain_events(timeout=0.5)
        except TimeoutError:
            return True
        return False


def test_a_binding_holds_for_publishers_who_have_not_declared_it(connect: Connect) -> None:
    exchange = kombu.Exchange("orders", type="topic")
    queue = kombu.Queue("audit", exchange, routing_key="order.#")
    publisher = connect()
    kombu.Producer(publisher.default_channel).publish(0, exchange="orders", routing_key="order.0", declare=[exchange])
    with connect() as declaring:
        queue(declaring.default_channel).declare()
    kombu.Producer(publisher.default_channel).publish(1, exchange="orders", routing_key="order.1", declare=[exchange])
    reader = Reader(connect(), queue)
    assert reader.read(1) == [1]
    queue(reader.consumer.channel).unbind_from(exchange, "order.#")
    kombu.Producer(publisher.default_channel).publish(2, exchange="orders", routing_key="order.2", declare=[exchange])
    assert reader.is_quiet()


def test_a_fanout_reaches_each_connection_once(connect: Connect) -> None:
    exchange = kombu.Exchange("news", type="fanout")
    readers = [Reader(connect(), kombu.Queue(f"news-{n}", exchange)) for n in range(2)]
    kombu.Producer(connect().default_channel).publish("hello", exchange="news", declare=[exchange])
    for reader in readers:
        assert reader.read(1) == ["hello"]
        assert reader.is_quiet()


def test_no_more_is_handed_over_than_the_prefetch_and_more_when_it_grows(connect: Connect) -> None:
    connection = connect()
    for n in range(10):
        publish(connection, n)
    reader = Reader(connect(), prefetch=3)
    assert reader.read(3) == [0, 1, 2]
    assert reader.is_quiet()
    other = Reader(connect(), prefetch=2)
    assert other.read(2) == [3, 4]
    reader.consumer.qos(prefetch_count=5)
    assert reader.read(5) == [0, 1, 2, 5, 6]
    reader.messages[0].ack()
    assert reader.read(6)[5:] == [7]


def test_a_consumer_without_a_prefetch_is_given_more_than_its_first_thousand(connect: Connect) -> None:
    with connect(transport_options={"confirm_publish": False}) as connection:
        for n in range(1500):
            publish(connection, n)
    reader = Reader(connect())
    assert sorted(reader.read(1500)) == list(range(1500))  # type: ignore[type-var]


def test_a_message_does_not_wait_because_a_queue_beside_its_own_is_empty(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More is waited for only when the first message of a subscription comes."""
    connection, publisher = connect(), connect()
    Reader(connection, kombu.Queue("empty", routing_key="empty"))
    reader = Reader(connection)
    publish(publisher, 0)
    assert reader.read(1) == [0]
    monkeypatch.setattr(transport, "_GATHER_S", 2 * WAIT_S)
    publish(publisher, 1)
    assert reader.read(2) == [0, 1]


def test_a_message_does_not_wait_because_more_may_be_here_than_before(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher, reader = connect(), Reader(connect(), prefetch=1)
    publish(publisher, 0)
    assert reader.read(1) == [0]
    monkeypatch.setattr(transport, "_GATHER_S", 2 * WAIT_S)
    reader.consumer.qos(prefetch_count=2)
    publish(publisher, 1)
    assert reader.read(2) == [0, 1]


def test_what_a_lost_connection_had_comes_again(connect: Connect) -> None:
    lost = connect()
    publish(lost, "job")
    reader = Reader(lost)
    assert reader.read(1) == ["job"]
    lost.transport.link.abort()  # as a crash does
    again = Reader(connect())
    assert again.read(1) == ["job"]
    assert again.messages[0].delivery_info["redelivered"]
    with pytest.raises(LinkLost):
        reader.messages[0].ack()


def test_cancelling_keeps_what_was_handed_over_and_returns_the_rest(connect: Connect) -> None:
    connection = connect()
    for n in range(3):
        publish(connection, n)
    reader = Reader(connection, prefetch=2)
    assert reader.read(2) == [0, 1]
    reader.consumer.cancel()
    other = Reader(connect())
    assert other.read(1) == [2]
    reader.messages[0].ack()
    reader.messages[1].requeue()
    assert other.read(2) == [2, 1]
    assert other.is_quiet()


def test_a_rejected_message_is_a_dead_letter(connect: Connect) -> None:
    connection = connect()
    publish(connection, "poison")
    reader = Reader(connection)
    reader.read(1)
    reader.messages[0].reject()
    assert Reader(connection, kombu.Queue("ActiveMQ.DLQ")).read(1) == ["poison"]


def test_a_second_message_is_got_while_the_first_is_not_acknowledged(connect: Connect) -> None:
    connection = connect()
    for body in "abc":
        publish(connection, body)
    channel = connection.channel()
    got = [channel.basic_get("jobs") for _ in "abc"]
    assert [message.payload for message in got] == [*"abc"]
    for message in got:
        message.ack()
    assert channel.basic_get("jobs") is None


def test_a_link_that_was_interrupted_while_it_sent_is_lost(connect: Connect) -> None:
    connection = connect()
    link = connection.channel().connection.link
    with (
        patch.object(link, "_socket", Mock(wraps=link._socket, send=Mock(side_effect=KeyboardInterrupt))),
        pytest.raises(KeyboardInterrupt),
    ):
        link.send(("SEND", {"destination": "/queue/A"}, b"m"))
    assert not link.is_open
    with pytest.raises(LinkLost, match="interrupted"):
        link.send(("SEND", {"destination": "/queue/A"}, b"m"))


def test_a_thread_that_waits_for_ever_hears_that_another_one_has_closed_the_connection(address: Address) -> None:
    link = StompLink(address, LinkOptions(expect_ms=0, connect_timeout_s=WAIT_S))
    heard: list[Exception] = []

    def wait() -> None:
        try:
            link.wait(lambda: False, None)
        except LinkLost as error:
            heard.append(error)

    def place() -> str:
        return sys._current_frames()[waiting.ident].f_code.co_name  # type: ignore[index]

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    wait_until(lambda: place() == "_is_ready", place)
    time.sleep(0.05)  # until it is in the kernel; if that takes longer, it finds a closed socket there
    link.abort()
    waiting.join(WAIT_S)
    assert "was closed" in str(heard[0])


def test_a_forked_process_lets_go_of_a_connection_that_goes_on(connect: Connect) -> None:
    connection = connect()
    publish(connection, "before")
    child = os.fork()
    if not child:
        connection.transport.link.abort()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    publish(connection, "after")
    assert Reader(connection).read(2) == ["before", "after"]


def test_other_threads_acknowledge_while_one_waits(connect: Connect) -> None:
    connection = connect()
    for n in range(200):
        publish(connection, n)
    reader, threads = Reader(connection, prefetch=4), []

    def settle(message: Any) -> None:
        time.sleep(0.001)
        message.ack()

    seen = 0
    while seen < 200:
        reader.read(seen + 1)
        for message in reader.messages[seen:]:
            threads.append(threading.Thread(target=settle, args=(message,)))
            threads[-1].start()
        seen = len(reader.messages)
    for thread in threads:
        thread.join()
    connection.release()
    assert connect().default_channel._size("jobs") == 0


def test_a_task_for_later_waits_in_the_broker(connect: Connect) -> None:
    connection = connect()
    reader = Reader(connection)
    due = datetime.now(UTC) + timedelta(seconds=1.5)
    publish(connection, "later", headers={"eta": due.isoformat()})
    publish(connection, "now")
    assert sorted(map(str, reader.read(2))) == ["later", "now"]  # in this order if all that takes longer
    assert datetime.now(UTC) >= due


def test_the_delay_of_a_task_does_not_end_before_its_time() -> None:
    for _ in range(20):
        due = datetime.now(UTC) + timedelta(seconds=100)
        frame = frame_headers({"properties": {}, "headers": {"eta": due.isoformat()}})
        assert datetime.now(UTC) + timedelta(milliseconds=int(frame["AMQ_SCHEDULED_DELAY"])) >= due


def test_a_task_that_is_due_soon_may_wait_in_the_worker(connect: Connect) -> None:
    connection = connect(transport_options={"schedule_from_s": 3600})
    due = datetime.now(UTC) + timedelta(seconds=1800)
    publish(connection, "soon", headers={"eta": due.isoformat()})
    assert Reader(connection).read(1) == ["soon"]


def test_messages_of_other_clients_are_messages(connect: Connect, address: Address) -> None:
    with Client(address) as client:
        client.connect()
        client.publish("/queue/jobs", "from Java", color="red")
    reader = Reader(connect())
    while not reader.messages:
        reader.consumer.channel.connection.drain_events(None, timeout=30)
    message = reader.messages[0]
    assert (message.body, message.content_type, message.headers["color"]) == (b"from Java", "text/plain", "red")
    message.ack()


def test_a_property_that_amqp_does_not_have_is_left_out(connect: Connect) -> None:
    """A program may give any, and with RabbitMQ nobody hears of it, whatever it is."""
    connection = connect()
    publish(connection, "job", correlation_id="c1", message_id="m1", signal=object())
    reader = Reader(connect())
    assert reader.read(1) == ["job"]
    properties = reader.messages[0].properties
    assert (properties["correlation_id"], properties["message_id"]) == ("c1", "m1")
    assert "signal" not in properties


def test_virtual_hosts_do_not_see_each_other(connect: Connect, address: Address) -> None:
    one, two = connect("one"), connect("two")
    publish(one, "mine")
    assert Reader(two).is_quiet()
    assert Reader(one).read(1) == ["mine"]


def test_a_queue_is_counted_purged_and_deleted(connect: Connect) -> None:
    connection = connect()
    for n in range(5):
        publish(connection, n)
    channel = connection.default_channel
    assert channel.queue_declare("jobs", passive=True).message_count == 5
    assert channel.queue_purge("jobs") == 5
    publish(connection, "one more")
    channel.queue_delete("jobs", if_empty=True)
    assert channel._size("jobs") == 1
    channel.queue_delete("jobs")
    assert channel._size("jobs") == 0


def test_names_may_have_characters_that_mean_something_to_the_broker(connect: Connect) -> None:
    name = "a,b>*?% c"
    connection = connect()
    publish(connection, 1, routing_key=name, declare=[kombu.Queue(name, routing_key=name)])
    assert Reader(connection, kombu.Queue(name)).read(1) == [1]


def test_a_login_that_is_wrong_is_told_at_once(stack: ExitStack) -> None:
    options = BrokerOptions(bind="127.0.0.1:0", users={"shop": "secret"}, login_delay_max_s=0.0)
    with running(Broker(MemoryPersistenceAdapter(), options)) as (host, port):
        good = stack.enter_context(kombu.Connection(f"jdbcstore://shop:secret@{host}:{port}/"))
        publish(good, 1)
        bad = stack.enter_context(kombu.Connection(f"jdbcstore://shop:wrong@{host}:{port}/"))
        with pytest.raises(LoginRefused, match="shop"):
            bad.connect()
        good.release()


def test_what_the_broker_refuses_is_an_error_of_the_channel_and_the_connection_goes_on(connect: Connect) -> None:
    connection = connect()
    with pytest.raises(RequestRefused, match="longer than"):
        kombu.Producer(connection.default_channel).publish(1, routing_key="q" * 300)
    assert RequestRefused in get_transport_cls("jdbcstore").channel_errors
    publish(connection, "good")
    assert Reader(connection).read(1) == ["good"]


def test_with_tls_a_broker_has_to_prove_who_it_is(stack: ExitStack, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.identity("broker")
    tls = TlsOptions(certificate=str(server.certificate), key=str(server.key))
    options = BrokerOptions(bind="stomp+ssl://127.0.0.1:0")
    with running(Broker(MemoryPersistenceAdapter(), options, tls=tls)) as (host, port):
        url = f"jdbcstore://{host}:{port}/"
        good = stack.enter_context(kombu.Connection(url, ssl={"ca_certs": str(authority.certificate)}))
        for n in range(50):
            publish(good, n)
        assert Reader(good).read(50) == list(range(50))
        stranger = stack.enter_context(kombu.Connection(url, ssl=True))
        with pytest.raises(LinkLost, match="certificate"):
            stranger.connect()
        good.release()


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
def test_what_is_more_than_a_socket_takes_at_once_is_sent_and_received(
    is_tls: bool, stack: ExitStack, tmp_path: Path
) -> None:
    tls, ssl = None, None
    if is_tls:
        authority = Authority(tmp_path)
        server = authority.identity("broker")
        tls = TlsOptions(certificate=str(server.certificate), key=str(server.key))
        ssl = {"ca_certs": str(authority.certificate)}
    options = BrokerOptions(bind=f"stomp{'+ssl' if is_tls else ''}://127.0.0.1:0")
    with running(Broker(MemoryPersistenceAdapter(), options, tls=tls)) as (host, port):
        connection = stack.enter_context(kombu.Connection(f"jdbcstore://{host}:{port}/", ssl=ssl))
        bodies = [letter * 6_000_000 for letter in "ab"]
        for body in bodies:
            publish(connection, body)
        assert Reader(connection).read(2) == bodies
        connection.release()


def connected_to_nobody(stack: ExitStack, options: LinkOptions) -> StompLink:
    """A link to a broker that lets us in, and then neither says nor reads anything."""
    listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

    def let_in() -> None:
        accepted = stack.enter_context(listening.accept()[0])
        accepted.sendall(b"CONNECTED\nversion:1.2\nheart-beat:100,0\n\n\0")

    letting_in = threading.Thread(target=let_in)
    letting_in.start()
    link = StompLink(listening.getsockname(), options)
    letting_in.join()
    stack.callback(link.abort)
    return link


def test_a_broker_that_takes_nothing_is_lost_when_the_time_is_over(stack: ExitStack) -> None:
    link = connected_to_nobody(stack, LinkOptions(expect_ms=0, connect_timeout_s=WAIT_S, request_timeout_s=0.2))
    with pytest.raises(LinkLost, match=r"nothing can be sent for 0\.2 s"):
        link.send(("SEND", {"destination": "/queue/A"}, b"m" * 50_000_000))
    assert not link.is_open


def test_a_link_that_was_closed_hears_of_it_whatever_is_asked(stack: ExitStack) -> None:
    link = connected_to_nobody(stack, LinkOptions(expect_ms=1, connect_timeout_s=WAIT_S))
    link.abort()
    wait_until(lambda: link._beats.is_peer_dead(time.monotonic()))
    link.tick()  # it is not the broker's silence
    link._failure = None  # as if another thread closed it after this one has looked
    with pytest.raises(LinkLost, match="Bad file descriptor"):
        link.wait(lambda: False, None)
    link._failure = None
    with pytest.raises(LinkLost, match="Bad file descriptor"):
        link.send(("SEND", {"destination": "/queue/A"}, b"m"))


def test_a_silent_broker_is_taken_for_lost_and_not_waited_for(tmp_path: Path, stack: ExitStack) -> None:
    with BrokerProcess(f"sqlite:///{tmp_path / 'broker.db'}", tmp_path) as broker:
        url = f"jdbcstore://127.0.0.1:{broker.port}/"
        connection = stack.enter_context(kombu.Connection(url, heartbeat=3, connect_timeout=WAIT_S))
        reader = Reader(connection)
        patient = StompLink(("127.0.0.1", broker.port), LinkOptions(expect_ms=0, connect_timeout_s=WAIT_S))
        broker.pause()
        began_s = time.monotonic()
        patient.close(timeout_s=0.5)  # not `request_timeout_s`
        with pytest.raises(LinkLost, match="silent"):
            reader.read(1)
        assert time.monotonic() - began_s < 24  # without heart-beats of its own it would be 25
        assert not connection.transport.link.is_open
        broker.proceed()


def test_several_brokers_with_ports_are_one_url(address: Address, stack: ExitStack) -> None:
    url = f"jdbcstore://shop:secret@127.0.0.1:{free_port()},{address[0]}:{address[1]}/"
    connection = stack.enter_context(kombu.Connection(url))
    publish(connection, 1)
    assert connection.transport.link.address == address
    assert "secret" not in connection.as_uri()
    assert connection.virtual_host == "/"


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost", [("localhost", 7)]),
        ("a:1,b", [("a", 1), ("b", 7)]),
        ("[::1]:2, [::1]", [("::1", 2), ("::1", 7)]),
    ],
)
def test_addresses_are_read(text: str, addresses: list[Address]) -> None:
    assert parse_addresses(text, 7) == addresses


@pytest.mark.parametrize("text", ["", " , ", "host:", "host:x", "host:0", "host:65536"])
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_addresses(text)


def test_an_event_loop_that_settles_in_its_own_callbacks_does_not_wait_for_its_next_timer(connect: Connect) -> None:
    publishing = connect()
    for n in range(8):
        publish(publishing, n)
    hub = Hub()
    connection = connect()
    done: list[Any] = []
    waiting: list[Any] = []
    consumer = kombu.Consumer(connection.channel(), [JOBS], on_message=waiting.append)
    consumer.qos(prefetch_count=8)
    consumer.consume()
    consumer.qos(prefetch_count=1)  # what has come waits in the worker for its turn

    def settle() -> None:
        done.append(waiting.pop(0))
        done[-1].ack()

    try:
        connection.transport.register_with_event_loop(connection.connection, hub)
        began_s = time.monotonic()
        while len(done) < 8:
            hub.run_once()
            if waiting:
                hub.call_soon(settle)  # as a pool does when a task has ended
        assert time.monotonic() - began_s < 7  # the loop waits for a second at a time, and there are eight
        connection.transport.unregister_from_event_loop(connection.connection, hub)
        assert not set(hub.readers) & {connection.transport.link.fileno()}
    finally:
        hub.close()


def test_an_event_loop_that_has_lost_a_connection_is_known_as_before(connect: Connect) -> None:
    hub, connection = Hub(), connect()
    connection.connect()
    set_event_loop(hub)
    try:
        hub.reset()  # as Celery does; it looks for the loop when it ends, so as to go on with heart-beats
        connection.transport.register_with_event_loop(connection.connection, hub)
        assert get_event_loop() is hub
        connection.transport.unregister_from_event_loop(connection.connection, hub)
    finally:
        hub.close()
