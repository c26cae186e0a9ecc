"""Attacks on the memory of a broker, for `benchmarks.abuse` and, at a smaller scale, for the tests."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

from benchmarks.attacks import Attack, Target
from tests.broker.client import Client

__all__ = ["MEMORY_ATTACKS", "PATIENCE_S"]

_MIB: Final = 1 << 20
#: How long a client that is held back goes on trying.
PATIENCE_S: Final = 1.0


def pushes(client: Client, data: bytes) -> bool:
    """Write; False if the broker does not take it, or has ended the connection."""
    client.socket.settimeout(PATIENCE_S)
    try:
        client.write(data)
    except (TimeoutError, ConnectionError):
        return False
    return True


def answered(client: Client) -> None:
    """Wait for whatever the broker says next, if it says anything."""
    client.socket.settimeout(PATIENCE_S)
    try:
        client.frame()
    except (TimeoutError, ConnectionError):
        return


@contextmanager
def database_away(target: Target) -> Iterator[None]:
    """Nobody else can write to the database meanwhile."""
    with closing(sqlite3.connect(target.database, timeout=10, isolation_level=None)) as file:
        file.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            file.execute("ROLLBACK")


def transactions(target: Target) -> None:
    """Twenty open transactions of one connection, each as full as it may be."""
    client = target.client()
    body = b"x" * _MIB
    for number in range(20):
        if not pushes(client, b"BEGIN\ntransaction:%d\n\n\0" % number):
            break
        send = b"SEND\ndestination:/queue/A\npersistent:true\ntransaction:%d\ncontent-length:%d\n\n%s\0"
        for _ in range(target.times(63)):
            if not pushes(client, send % (number, len(body), body)):
                break
    answered(client)


def small_messages_in_transactions(target: Target) -> None:
    """The same with messages that have no body at all."""
    client = target.client()
    for number in range(20):
        pushes(client, b"BEGIN\ntransaction:%d\n\n\0" % number)
        send = b"SEND\ndestination:/queue/A\ntransaction:%d\nn:%d\n\n\0"
        pushes(client, b"".join(send % (number, n) for n in range(target.times(10_000))))
    answered(client)


def composite(target: Target) -> None:
    """One large message to six hundred queues."""
    client = target.client()
    names = b",".join(b"/queue/%d" % number for number in range(target.times(600)))
    body = b"x" * (2 * _MIB)
    send = b"SEND\ndestination:%s\npersistent:true\nreceipt:r\ncontent-length:%d\n\n%s\0" % (names, len(body), body)
    if pushes(client, send):
        answered(client)


def headers_only(target: Target) -> None:
    """Messages that consist of headers while the database is away."""
    clients = [target.client() for _ in range(4)]
    head = b"".join(b"h%d:%s\n" % (number, b"x" * 9000) for number in range(20))
    send = b"SEND\ndestination:/queue/A\npersistent:true\n%s\n\0" % head
    with database_away(target):
        for client in clients:
            for _ in range(target.times(1500)):
                if not pushes(client, send):
                    break


def many_producers(target: Target) -> None:
    """Many connections that send as much as each may while the database is away."""
    send = b"SEND\ndestination:/queue/A\npersistent:true\ncontent-length:1000000\n\n%s\0" % (b"x" * 1_000_000)
    clients = [target.client() for _ in range(target.times(60))]
    with database_away(target):
        _pour(clients, send, 12)


def unfinished_frames(target: Target) -> None:
    """Twelve frames of 90 MiB that do not end."""
    clients = [target.client() for _ in range(12)]
    size = target.times(95 * _MIB)
    for client in clients:
        client.write(b"SEND\ndestination:/queue/A\ncontent-length:%d\n\n" % size)
    _pour(clients, b"x" * (size // 16), 15)


def endless_frames(target: Target) -> None:
    """The same without a content-length."""
    clients = [target.client() for _ in range(12)]
    for client in clients:
        client.write(b"SEND\ndestination:/queue/A\n\n")
    _pour(clients, b"x" * (target.times(95 * _MIB) // 16), 15)


def strangers(target: Target) -> None:
    """Eight hundred connections that do not come to the end of their CONNECT."""
    head = b"".join(b"h%d:%s\n" % (number, b"x" * 9000) for number in range(100))
    clients = [target.stranger() for _ in range(target.times(800))]
    _pour(clients, b"CONNECT\n" + head, 1)


def composite_subscriptions(target: Target) -> None:
    """Subscriptions to composites of names that nobody uses."""
    client = target.client()
    for number in range(target.times(100)):
        names = b",".join(b"/queue/%d.%d" % (number, part) for part in range(500))
        if not pushes(client, b"SUBSCRIBE\nid:%d\ndestination:%s\n\n\0" % (number, names)):
            break
    answered(client)


def many_subscriptions(target: Target) -> None:
    """As many subscriptions as one connection may have, to one queue."""
    clients = [target.client() for _ in range(10)]
    for client in clients:
        frames = (
            b"SUBSCRIBE\nid:%d\ndestination:/queue/A\nselector:n = %d\n\n\0" % (n, n)
            for n in range(target.times(10_000))
        )
        pushes(client, b"".join(frames))
    for client in clients:
        answered(client)


def names_used_once(target: Target) -> None:
    """Names that are used once and never again: queues and topics, for sending, receiving and looking."""
    client = target.client()
    client.socket.settimeout(60)
    count = target.times(18_000)
    for kind in (b"queue", b"topic"):
        frames = (
            b"SUBSCRIBE\nid:a\ndestination:/%s/once.%d\n\n\0UNSUBSCRIBE\nid:a\n\n\0" % (kind, n) for n in range(count)
        )
        client.write(b"".join(frames))
    client.write(b"".join(b"SEND\ndestination:/topic/once.sent.%d\n\n\0" % n for n in range(count)))
    answered(client)


def messages_never_acknowledged(target: Target) -> None:
    """Subscriptions that ask for all there is and acknowledge nothing."""
    producer = target.client()
    producer.socket.settimeout(60)
    count = target.times(50_000)
    for _ in range(0, count, 1000):
        frames = [b"SEND\ndestination:/queue/A\npersistent:true\n\n\0"] * 1000
        producer.write(b"".join(frames))
        producer.done("SEND", {"destination": "/queue/A", "persistent": "true"})
    for _ in range(4):
        client = target.client()
        client.subscribe("/queue/A", "client-individual", activemq_prefetchSize="100000")
        _reads(client, count)


def clients_that_do_not_read(target: Target) -> None:
    """Subscribers of many full queues that read nothing."""
    producer = target.client()
    producer.socket.settimeout(60)
    body = "x" * 100_000
    queues = target.times(20)
    for queue in range(queues):
        for _ in range(100):
            producer.send("SEND", {"destination": f"/queue/{queue}", "persistent": "true"}, body)
        producer.done("SEND", {"destination": f"/queue/{queue}", "persistent": "true"}, body)
    for _ in range(queues):
        client = target.client()
        for queue in range(queues):
            client.send("SUBSCRIBE", {"destination": f"/queue/{queue}", "id": str(queue), "ack": "client"})
    time.sleep(PATIENCE_S)


def _reads(client: Client, count: int) -> None:
    client.socket.settimeout(PATIENCE_S)
    try:
        for _ in range(count):
            client.frame()
    except (TimeoutError, ConnectionError):
        return


def _pour(clients: list[Client], data: bytes, times: int) -> None:
    """Let each client send in turn, without waiting for those that are held back, until all are for a while."""
    for client in clients:
        client.socket.setblocking(False)
    deadline_s = time.monotonic() + PATIENCE_S
    places = dict.fromkeys(clients, 0)
    while places and time.monotonic() < deadline_s:
        for client, place in list(places.items()):
            try:
                places[client] += client.socket.send(memoryview(data)[place % len(data) :])
            except BlockingIOError:
                continue
            except ConnectionError:
                del places[client]
                continue
            deadline_s = time.monotonic() + PATIENCE_S
            if places[client] >= times * len(data):
                del places[client]


MEMORY_ATTACKS: Final = [
    Attack("transactions", transactions),
    Attack("small-transactions", small_messages_in_transactions),
    Attack("composite", composite),
    Attack("headers-only", headers_only),
    Attack("many-producers", many_producers),
    Attack("unfinished-frames", unfinished_frames),
    Attack("endless-frames", endless_frames),
    Attack("strangers", strangers),
    Attack("composite-subscriptions", composite_subscriptions),
    Attack("many-subscriptions", many_subscriptions),
    Attack("names-used-once", names_used_once),
    Attack("never-acknowledged", messages_never_acknowledged),
    Attack("does-not-read", clients_that_do_not_read),
]
