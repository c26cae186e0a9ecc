"""Clients that say nothing more and still listen, as ``printf … | nc -N`` does, are answered what they have asked."""

from __future__ import annotations

import socket
import sqlite3
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from wsproto.events import CloseConnection, TextMessage

from jdbcstore import Broker, Queue
from jdbcstore import PersistenceAdapter as Store
from tests.broker.client import Client, Frame
from tests.broker.conftest import RUNNING, OpenClient, StartBroker
from tests.broker.test_tls import tls_options, trusting
from tests.broker.test_websocket import Browser
from tests.certificates import Authority, Identity
from tests.waiting import wait_until

A = "/queue/A"
COUNT = 50
MORE_THAN_SOCKETS_TAKE = "x" * 8_000_000

Connect = Callable[[Store], Client]


@pytest.fixture(params=["plain", "tls"])
def connect(
    request: pytest.FixtureRequest,
    start_broker: StartBroker,
    stack: ExitStack,
    authority: Authority,
    server: Identity,
) -> Connect:
    """Connects to a broker over a store."""

    def connected(store: Store) -> Client:
        tls = {"bind": "stomp+ssl://127.0.0.1:0", "tls": tls_options(server)} if request.param == "tls" else {}
        client = Client(start_broker(store, **tls), tls=trusting(authority) if tls else None)
        stack.enter_context(client).connect()
        return client

    return connected


def say_no_more(client: Client) -> None:
    """Of TLS, too, only the socket is closed, and only in one direction."""
    socket.socket.shutdown(client.socket, socket.SHUT_WR)


def rest(client: Client) -> list[Frame]:
    """What comes until the broker closes the connection."""
    found = []
    with suppress(ConnectionError, ssl.SSLZeroReturnError):
        while True:
            found.append(client.frame())
    return found


def send_frames(count: int, **headers: str) -> bytes:
    """Frames with the receipts 0, 1, …"""
    named = "".join(f"{name}:{value}\n" for name, value in headers.items())
    frames = [f"SEND\ndestination:{A}\npersistent:true\nreceipt:{number}\n{named}\nx\0" for number in range(count)]
    return "".join(frames).encode()


@pytest.mark.usefixtures("any_loop")
@pytest.mark.parametrize(
    "behind", [b"", b"SEND\ndestination:/queue/A\n\nnot all of", b"DISCONNECT\nreceipt:last\n\n\0"]
)
def test_senders_hear_their_receipts(connect: Connect, sqlite_store: Store, behind: bytes) -> None:
    client = connect(sqlite_store)
    client.write(send_frames(COUNT) + behind)
    say_no_more(client)
    receipts = [str(number) for number in range(COUNT)] + ["last"] * behind.startswith(b"DISCONNECT")
    assert [frame.headers["receipt-id"] for frame in rest(client)] == receipts


def test_a_commit_is_answered_and_an_open_transaction_is_rolled_back(
    connect: Connect, sqlite_store: Store, brokers: list[Broker]
) -> None:
    client = connect(sqlite_store)
    begin, commit = b"BEGIN\ntransaction:%s\n\n\0", b"COMMIT\ntransaction:a\nreceipt:committed\n\n\0"
    client.write(
        begin % b"a" + begin % b"b" + send_frames(3, transaction="a") + send_frames(3, transaction="b") + commit
    )
    say_no_more(client)
    assert rest(client)[-1].headers == {"receipt-id": "committed"}
    wait_until(lambda: not brokers[0].clients)
    assert sqlite_store.queue_message_store(Queue("A")).message_count == 3


def test_over_a_websocket(start_broker: StartBroker, sqlite_store: Store) -> None:
    browser = Browser(start_broker(sqlite_store, bind="ws://127.0.0.1:0"))
    with closing(browser.socket):
        browser.connect()
        browser.say(TextMessage(send_frames(1).decode()))
        browser.socket.shutdown(socket.SHUT_WR)
        assert browser.text() == "RECEIPT\nreceipt-id:0\n\n\0\n"


@contextmanager
def held_up(file: Path) -> Iterator[None]:
    """No commit of a SQLite store goes through."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def test_it_gets_no_messages_while_it_waits(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], tmp_path: Path, sqlite_store: Store
) -> None:
    address = start_broker(sqlite_store)
    client, other = open_client(address), open_client(address)
    client.subscribe("/queue/B", "auto")
    with held_up(tmp_path / "broker.db"):
        client.write(send_frames(1))
        say_no_more(client)
        wait_until(lambda: any(one.is_over for one in brokers[0].clients))
        other.done("SEND", {"destination": "/queue/B"}, "not for the first one")
        other.subscribe("/queue/B", "auto")
        assert other.message().text == "not for the first one"
    assert [frame.command for frame in rest(client)] == ["RECEIPT"]


def test_who_comes_back_has_its_client_id_at_once(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], tmp_path: Path, sqlite_store: Store
) -> None:
    address = start_broker(sqlite_store)
    client = open_client(address, client_id="ann")
    with held_up(tmp_path / "broker.db"):
        client.write(send_frames(1))
        client.socket.close()
        wait_until(lambda: any(one.is_over for one in brokers[0].clients))
        again = open_client(address, client_id="ann")
    assert again.rest_of(A) == ["x"]


def hold_unread(client: Client, other: Client) -> None:
    """Let the client hold a message that it does not read to its end."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    other.publish(A, MORE_THAN_SOCKETS_TAKE)
    client.send("SUBSCRIBE", {"destination": A, "id": "1", "ack": "client"})
    client.take_in()


def test_who_does_not_read_either_is_not_waited_for(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: Store
) -> None:
    """What it holds goes to others soon, not when TCP gives up."""
    address = start_broker(sqlite_store, peer_timeout_s=3600.0)
    client, other = open_client(address), open_client(address)
    hold_unread(client, other)
    say_no_more(client)
    other.subscribe(A)
    assert other.message().text == MORE_THAN_SOCKETS_TAKE


def close_notify(client: Client) -> None:
    """Say goodbye in TLS, and leave the socket as it is."""
    assert isinstance(client.socket, ssl.SSLSocket)
    client.socket.setblocking(False)
    with suppress(ssl.SSLError):  # it wants to read the answer
        client.socket.unwrap()


def no_record(client: Client) -> None:
    """Say what is no TLS."""
    socket.socket.sendall(client.socket, b"this is no record of TLS")


def test_who_says_goodbye_in_tls_hears_the_answers_too(
    start_broker: StartBroker, stack: ExitStack, sqlite_store: Store, authority: Authority, server: Identity
) -> None:
    address = start_broker(sqlite_store, bind="stomp+ssl://127.0.0.1:0", tls=tls_options(server))
    client = stack.enter_context(Client(address, tls=trusting(authority)))
    client.connect()
    client.write(send_frames(COUNT))
    close_notify(client)
    client.socket.settimeout(60)
    assert [frame.headers["receipt-id"] for frame in rest(client)] == [str(number) for number in range(COUNT)]


@pytest.mark.usefixtures("any_loop")
@pytest.mark.parametrize("end", [close_notify, no_record])
def test_who_ends_tls_and_does_not_read_is_not_waited_for(
    start_broker: StartBroker,
    stack: ExitStack,
    sqlite_store: Store,
    authority: Authority,
    server: Identity,
    end: Callable[[Client], None],
) -> None:
    address = start_broker(sqlite_store, bind="stomp+ssl://127.0.0.1:0", tls=tls_options(server), peer_timeout_s=3600.0)
    client, other = (stack.enter_context(Client(address, tls=trusting(authority))) for _ in range(2))
    for one in (client, other):
        one.connect()
    hold_unread(client, other)
    end(client)
    other.subscribe(A)
    assert other.message().text == MORE_THAN_SOCKETS_TAKE


@pytest.mark.usefixtures("any_loop")
def test_who_closes_its_websocket_and_does_not_read_is_not_waited_for(
    start_broker: StartBroker, stack: ExitStack, sqlite_store: Store
) -> None:
    address = start_broker(sqlite_store, bind="127.0.0.1:0 ws://127.0.0.1:0", peer_timeout_s=3600.0)
    other = stack.enter_context(Client(address))
    other.connect()
    other.publish(A, MORE_THAN_SOCKETS_TAKE)
    browser = Browser(RUNNING[address].addresses[1])
    with closing(browser.socket):
        browser.connect()
        browser.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        browser.say(TextMessage(f"SUBSCRIBE\ndestination:{A}\nid:1\nack:client\n\n\0"))
        browser.socket.recv(1)
        browser.say(CloseConnection(code=1000))
        other.subscribe(A)
        assert other.message().text == MORE_THAN_SOCKETS_TAKE
