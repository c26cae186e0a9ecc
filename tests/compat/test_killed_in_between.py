"""A Java broker is killed between two commits of what a broker of ours does in one: what whoever takes over, of either
kind, makes of the database that it leaves."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import make_url, text

from jdbcstore.config.urls import open_engine
from jdbcstore.destination import Queue
from jdbcstore.openwire import commands as c
from tests.broker.client import Address, Client
from tests.broker.openwire_client import OpenWireClient
from tests.broker_process import BrokerProcess
from tests.compat.activemq import ActiveMQ, JdbcStore
from tests.compat.failover_programs import Kind
from tests.servers.proxy import Proxy
from tests.servers.server import free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(200)

LEASE_MS: Final = 3000
WAIT_S: Final = 60
QUEUE, DEAD = "queue://Q", "queue://ActiveMQ.DLQ"
either = pytest.mark.parametrize("second", ["ours", pytest.param("java", marks=pytest.mark.exhaustive)])


class Killed:
    """A Java broker whose line to the database is held at a write, and that is killed then.

    Args:
        class_path: with its programs.
        folder: its own.
        url: of its database.
    """

    def __init__(self, class_path: str, folder: Path, url: str) -> None:
        port = make_url(url).port
        assert port is not None
        self.proxy = Proxy(port)
        self.activemq = java(class_path, folder, self.proxy.url(url), "first")

    def kill_at(self, held: threading.Event) -> None:
        """It comes to the write that the proxy holds, and no further."""
        assert held.wait(WAIT_S)
        self.activemq.kill()
        self.proxy.cut()


def java(class_path: str, folder: Path, url: str, name: str) -> ActiveMQ:
    store = JdbcStore(url, lock="lease", lease_ms=LEASE_MS, renew_ms=LEASE_MS // 3)
    return ActiveMQ(class_path, folder, store, name=name)


@pytest.fixture
def first(class_path: str, tmp_path: Path, postgresql_url: str) -> Iterator[Killed]:
    """It serves."""
    killed = Killed(class_path, tmp_path, postgresql_url)
    with killed.proxy, killed.activemq:
        yield killed


@contextmanager
def taken_over(kind: Kind, class_path: str, folder: Path, url: str) -> Iterator[tuple[Address, Address]]:
    """The next broker; where it is found by STOMP and by OpenWire."""
    if kind == "java":
        with java(class_path, folder, url, "second") as activemq:
            yield ("127.0.0.1", activemq.stomp_port), ("127.0.0.1", activemq.openwire_port)
    else:
        port = free_port()
        with BrokerProcess(f"{url}?lease_ms={LEASE_MS}", folder, "--bind", f"openwire://127.0.0.1:{port}") as ours:
            yield ("127.0.0.1", ours.port), ("127.0.0.1", port)


def stored(url: str) -> list[str]:
    """Where each message is that is in the database, in the order in which they came."""
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            return list(connection.execute(text("SELECT CONTAINER FROM ACTIVEMQ_MSGS ORDER BY ID")).scalars())
    finally:
        engine.dispose()


@either
def test_an_expired_message_is_a_dead_letter_twice(
    first: Killed, class_path: str, tmp_path: Path, postgresql_url: str, second: Kind
) -> None:
    """It has stored the dead letter, and not yet removed the message."""

    def subscribe(client: Client) -> None:  # the broker looks at its queue then
        client.connect()
        client.send("SUBSCRIBE", {"destination": "/queue/Q", "id": "1"})

    address = "127.0.0.1", first.activemq.stomp_port
    with Client(address) as client:
        client.connect()
        expires_s = time.time() + 1
        headers = {"destination": "/queue/Q", "persistent": "true", "expires": f"{expires_s * 1000:.0f}"}
        client.done("SEND", headers, "brief")
    assert stored(postgresql_url) == [QUEUE]
    wait_until(lambda: time.time() > expires_s, "it has expired")
    held = first.proxy.hold_at(b"DELETE FROM ACTIVEMQ_MSGS")
    with Client(address) as client:
        subscribe(client)
        first.kill_at(held)
    assert stored(postgresql_url) == [QUEUE, DEAD]
    with taken_over(second, class_path, tmp_path, postgresql_url) as (address, _), Client(address) as client:
        subscribe(client)
        wait_until(lambda: QUEUE not in stored(postgresql_url), "its expiry is seen", timeout_s=WAIT_S)
    assert stored(postgresql_url) == [DEAD, DEAD]


@either
def test_who_takes_over_gives_a_message_to_the_queues_that_lack_it(
    first: Killed, class_path: str, tmp_path: Path, postgresql_url: str, second: Kind
) -> None:
    """It has stored a message in one of its two queues. A Java broker that takes over takes that for both."""
    name = "ID:sends-again"
    with OpenWireClient(("127.0.0.1", first.activemq.openwire_port), name, is_fault_tolerant=True) as client:
        sent = client.message(Queue("A,B"), "both")
        sent.persistent, sent.command_id, sent.response_required = True, 1000, True
        held = first.proxy.hold_at(re.compile(rb"INSERT INTO ACTIVEMQ_MSGS.*queue://B", re.DOTALL))
        client.write(sent)
        first.kill_at(held)
    assert stored(postgresql_url) == ["queue://A"]
    with (
        taken_over(second, class_path, tmp_path, postgresql_url) as (_, address),
        OpenWireClient(address, name, is_fault_tolerant=True, is_reconnected=True) as client,
    ):
        assert type(client.ask(sent)) is c.Response
        assert stored(postgresql_url) == ["queue://A"] + ["queue://B"] * (second == "ours")
