"""Clients whose machine or network is gone without a word, and those that only seem to be."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import cast

import pytest
import uvloop

from jdbcstore import Broker, ConfigurationError, PersistenceAdapter
from jdbcstore.broker import runner
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.transport.listener import Connection
from jdbcstore.transport.peer_watch import Stall, probe
from jdbcstore.transport.stomp.session import StompSession
from jdbcstore.transport.tcp import Socket
from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.network import Network
from tests.waiting import wait_until

#: A tenth of the defaults and less.
QUICK = {"keep_alive_idle_s": 1, "keep_alive_interval_s": 1, "peer_timeout_s": 2.0}
BIG = "x" * 200_000


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as network:
        yield network


@pytest.fixture
def start_over_there(network: Network, start_broker: StartBroker) -> Callable[..., Address]:
    """Start a broker on the broker's machine."""

    def start(adapter: PersistenceAdapter | None = None, **options: object) -> Address:
        with network.on_broker():
            return start_broker(adapter, bind=f"{Network.BROKER}:0", **options)

    return start


@pytest.fixture
def far(network: Network, open_client: OpenClient) -> OpenClient:
    """A client on the client's machine."""

    def connect(*arguments: str, **headers: str) -> Client:
        with network.on_client():
            return open_client(*arguments, **headers)

    return connect


@pytest.fixture
def near(network: Network, open_client: OpenClient) -> OpenClient:
    """A client on the broker's machine."""

    def connect(*arguments: str, **headers: str) -> Client:
        with network.on_broker():
            return open_client(*arguments, **headers)

    return connect


# -- machines that are gone ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loop", "is_in_flight"),
    [("uvloop", False), ("uvloop", True), ("asyncio", True)],
    ids=["idle", "in flight", "in flight, asyncio"],
)
def test_what_a_vanished_consumer_had_goes_to_another(
    network: Network,
    start_over_there: Callable[..., Address],
    far: OpenClient,
    near: OpenClient,
    monkeypatch: pytest.MonkeyPatch,
    loop: str,
    is_in_flight: bool,
) -> None:
    if loop == "asyncio":
        monkeypatch.setattr(runner, "run_in_loop", asyncio.run)
    address = start_over_there(**QUICK)
    vanishing = far(address, "1.0")
    vanishing.publish("/queue/A", "first")
    vanishing.subscribe("/queue/A", "client")
    assert vanishing.message().text == "first"
    other = near(address)
    network.cut()
    cut_s = time.monotonic()
    sent = ["first"]
    if is_in_flight:
        other.publish("/queue/A", "sent into the void")
        sent.append("sent into the void")
    other.subscribe("/queue/A", "client-individual")
    got = [other.message() for _ in sent]
    assert [message.text for message in got] == sent
    assert got[0].headers["redelivered"] == "true"
    assert time.monotonic() - cut_s > 1


def test_who_answers_and_does_not_read_is_left_alone(
    network: Network, start_over_there: Callable[..., Address], far: OpenClient, near: OpenClient, brokers: list[Broker]
) -> None:
    address = start_over_there(**{**QUICK, "peer_timeout_s": 6.0})  # longer than a busy machine stands still
    busy = far(address, "1.0")
    busy.subscribe("/queue/A", "client-individual", activemq_prefetchSize="100")
    sender = near(address)
    for _ in range(60):
        sender.publish("/queue/A", BIG)
    time.sleep(9)  # longer than a machine has to answer
    for _ in range(60):
        assert len(busy.message().body) == len(BIG)
    assert sum(queue.depth for queue in brokers[0].queues.values()) == 60


def test_who_did_not_read_and_is_gone_is_found_too(
    network: Network, start_over_there: Callable[..., Address], far: OpenClient, near: OpenClient, brokers: list[Broker]
) -> None:
    address = start_over_there(**QUICK)
    far(address, "1.0").subscribe("/queue/A", "client-individual", activemq_prefetchSize="100")
    sender = near(address)
    for _ in range(60):
        sender.publish("/queue/A", BIG)
    time.sleep(3)
    network.cut()
    wait_until(lambda: len(brokers[0].clients) == 1)


def test_a_short_break_of_the_cable_hurts_nobody(
    network: Network, start_over_there: Callable[..., Address], far: OpenClient
) -> None:
    client = far(start_over_there(**{**QUICK, "peer_timeout_s": 20.0}))
    client.subscribe("/queue/A", "client-individual")
    network.cut()
    time.sleep(1.5)
    network.mend()
    client.publish("/queue/A", "still here")
    assert client.message().text == "still here"


# -- two connections with one client id ------------------------------------------------------------------------------


def durably(client: Client) -> None:
    client.subscribe("/topic/T", "client-individual", activemq_subscriptionName="s")


def test_a_durable_subscriber_comes_back_although_its_old_connection_is_still_there(
    network: Network,
    start_over_there: Callable[..., Address],
    far: OpenClient,
    near: OpenClient,
    sqlite_store: PersistenceAdapter,
) -> None:
    address = start_over_there(sqlite_store, probe_timeout_s=2.0)
    old = far(address, client_id="till")
    durably(old)
    publisher = near(address)
    for number in range(4):
        publisher.publish("/topic/T", str(number))
    got = [old.message() for _ in range(4)]
    for message in (got[1], got[2]):
        old.done("ACK", {"id": message.headers["ack"]})
    network.cut()
    publisher.publish("/topic/T", "4")
    started_s = time.monotonic()
    new = near(address, client_id="till")
    assert time.monotonic() - started_s > 1.9
    durably(new)
    again = [new.message() for _ in range(3)]
    assert [(message.text, message.headers.get("redelivered")) for message in again] == [
        ("0", "true"),
        ("3", "true"),
        ("4", "true"),
    ]
    for message in again:
        new.done("ACK", {"id": message.headers["ack"]})
    network.mend()
    assert old.is_closed()
    new.done("UNSUBSCRIBE", {"id": "1"})
    durably(new)
    assert new.is_silent(), "nothing is acknowledged twice or not at all"


def test_who_answers_keeps_its_client_id(start_broker: StartBroker, open_client: OpenClient) -> None:
    """TCP would ask it after a second."""
    address = start_broker(probe_timeout_s=600.0)
    first = open_client(address, client_id="till")
    began_s = time.monotonic()
    for _ in range(2):
        with Client(address) as second:
            second.version = "1.2"
            second.send("CONNECT", {"accept-version": "1.2", "host": "x", "client-id": "till"})
            second.send("SEND", {"destination": "/queue/A"}, "not done")
            error = second.error()
            assert "Client: till already connected from" in error.headers["message"]
            assert second.is_closed()
    assert time.monotonic() - began_s < 1.0
    first.subscribe("/queue/A")
    assert first.is_silent()


def test_of_two_who_want_a_client_id_one_gets_it(
    network: Network, start_over_there: Callable[..., Address], far: OpenClient
) -> None:
    address = start_over_there(probe_timeout_s=2.0)
    far(address, client_id="till")
    network.cut()
    with network.on_broker():
        clients = [Client(address), Client(address)]
    for client in clients:
        client.send("CONNECT", {"accept-version": "1.2", "host": "x", "client-id": "till"})
    answers = sorted(client.frame().command for client in clients)
    for client in clients:
        client.drop()
    assert answers == ["CONNECTED", "ERROR"]


def test_while_a_broker_stands_still_nobody_can_answer(
    network: Network, start_over_there: Callable[..., Address], far: OpenClient, near: OpenClient, brokers: list[Broker]
) -> None:
    address = start_over_there(probe_timeout_s=4.0)
    holder = far(address, client_id="till")
    network.cut()
    with network.on_broker():
        newcomer = Client(address)
    newcomer.send("CONNECT", {"accept-version": "1.2", "host": "x", "client-id": "till"})
    time.sleep(0.3)  # it is being asked
    stood_still = threading.Event()
    brokers[0].loop.call_soon_threadsafe(time.sleep, 4.0)
    brokers[0].loop.call_soon_threadsafe(stood_still.set)
    assert stood_still.wait(60)
    network.mend()
    assert "already connected" in newcomer.error().headers["message"]
    newcomer.drop()
    holder.publish("/queue/A", "still here")


class Asked(asyncio.Protocol):
    """A connection that is probed."""

    peer = "there"
    is_heard_regularly = False
    owes = False

    def __init__(self) -> None:
        self.stall = Stall()
        self.transport: asyncio.Transport
        self.socket: Socket
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.socket = transport.get_extra_info("socket")

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set()

    @property
    def is_closing(self) -> bool:
        return self.transport.is_closing()

    def show_life(self) -> None:
        self.transport.write(b"x")

    def end(self, reason: str) -> None:
        raise AssertionError(reason)


@pytest.mark.parametrize("new_loop", [asyncio.SelectorEventLoop, uvloop.new_event_loop])
@pytest.mark.parametrize("ends_first", [True, False])
def test_a_connection_that_ends_while_it_is_asked_does_not_answer(
    new_loop: Callable[[], asyncio.AbstractEventLoop], ends_first: bool
) -> None:
    async def ask() -> bool:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bool] = loop.create_future()
        here, there = socket.socketpair()
        with there:
            _, asked = await loop.create_connection(Asked, sock=here)
            if not ends_first:
                probe(loop, asked, BrokerOptions(), answer.set_result)
            asked.transport.abort()
            await asked.lost.wait()
            await asyncio.sleep(0)  # only now is the file closed
            if ends_first:
                probe(loop, asked, BrokerOptions(), answer.set_result)
            return await asyncio.wait_for(answer, 60.0)

    with asyncio.Runner(loop_factory=new_loop) as loops:
        assert loops.run(ask()) is False


def test_a_newcomer_that_leaves_while_the_holder_is_asked_changes_nothing(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    address = start_broker()
    holder = open_client(address, client_id="till")
    hasty = Client(address)
    hasty.send("CONNECT", {"accept-version": "1.2", "host": "x", "client-id": "till"})
    hasty.drop()
    wait_until(lambda: len(brokers[0].clients) == 1)
    holder.publish("/queue/A", "still here")


def test_a_client_id_can_be_stolen_where_that_is_allowed(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker(allow_link_stealing=True)
    first = open_client(address, client_id="till")
    first.publish("/queue/A", "x")
    first.subscribe("/queue/A", "client")
    first.message()
    second = open_client(address, client_id="till")
    assert first.error().headers["message"] == "Another connection has your client id till"
    assert first.is_closed()
    second.subscribe("/queue/A")
    assert second.message().headers["redelivered"] == "true"


# -- silence ---------------------------------------------------------------------------------------------------------


def test_a_client_that_says_nothing_about_heart_beats_has_the_default_ones(start_broker: StartBroker) -> None:
    address = start_broker(default_heart_beat="300,200")
    with Client(address) as client:
        started_s = time.monotonic()
        assert client.connect("1.0").headers["heart-beat"] == "200,300"
        assert client.is_closed()
        assert time.monotonic() - started_s >= 0.5
    with Client(address) as client:
        assert client.connect(heart_beat="0,0").headers["heart-beat"] == "0,0"


@pytest.mark.parametrize("text", ["", "1", "1,2,3", "a,b"])
def test_default_heart_beats_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="default_heart_beat"):
        BrokerOptions(default_heart_beat=text)


def test_who_holds_messages_may_not_be_silent_for_ever(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker(silence_max_s=1.0, **QUICK)
    idle = open_client(address, "1.0")
    idle.subscribe("/queue/B")
    holder = open_client(address, "1.0")
    holder.publish("/queue/A", "x")
    holder.subscribe("/queue/A", "client")
    holder.message()
    assert holder.is_closed()
    idle.publish("/queue/B", "who holds nothing stays")
    assert idle.message().text == "who holds nothing stays"


def test_who_takes_nothing_may_be_given_up(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    address = start_broker(write_timeout_s=1.0, **QUICK)
    open_client(address).subscribe("/queue/A", "client-individual")
    other = open_client(address)
    for _ in range(60):
        other.publish("/queue/A", BIG)
    wait_until(lambda: len(brokers[0].clients) == 1)
    other.subscribe("/queue/A", "client-individual")
    assert len(other.message().body) == len(BIG)


def test_keep_alive_can_be_turned_off(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    open_client(start_broker(keep_alive=False, peer_timeout_s=0.0))
    open_client(start_broker())
    found = []
    for broker in brokers:
        (client,) = broker.clients
        wire = cast(Connection, cast(StompSession, client.callbacks)._wire)
        found.append(cast(socket.socket, wire.socket).getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
    assert found == [0, 1]


def test_without_permission_the_tests_say_what_they_need() -> None:
    program = "from tests.network import Network\nwith Network(): pass"
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = subprocess.run([*nobody, sys.executable, "-B", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "this test makes network namespaces: run it as root" in done.stderr
