"""A Java broker is killed while it makes an expired message a dead letter: it has stored the dead letter, and not yet
removed the message. Whoever takes over, of either kind, finds an expired message, and makes it a dead letter again."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import make_url, text

from jdbcstore.config.urls import open_engine
from tests.broker.client import Client
from tests.broker_process import BrokerProcess
from tests.compat.activemq import ActiveMQ, JdbcStore
from tests.compat.failover_programs import Kind
from tests.servers.proxy import Proxy
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(200)

LEASE_MS = 3000
QUEUE, DEAD = "queue://EXPIRES", "queue://ActiveMQ.DLQ"


def stored(url: str) -> list[str]:
    """Where each message is that is in the database, in the order in which they came."""
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            return list(connection.execute(text("SELECT CONTAINER FROM ACTIVEMQ_MSGS ORDER BY ID")).scalars())
    finally:
        engine.dispose()


def java(class_path: str, folder: Path, url: str, name: str) -> ActiveMQ:
    store = JdbcStore(url, lock="lease", lease_ms=LEASE_MS, renew_ms=LEASE_MS // 3)
    return ActiveMQ(class_path, folder, store, name=name)


def subscribe(client: Client) -> None:
    """Have a broker look at its queue, which tells what has expired."""
    client.connect()
    client.send("SUBSCRIBE", {"destination": "/queue/EXPIRES", "id": "1"})


@pytest.mark.parametrize("second", ["ours", pytest.param("java", marks=pytest.mark.exhaustive)])
def test_it_is_a_dead_letter_twice(class_path: str, tmp_path: Path, postgresql_url: str, second: Kind) -> None:
    with ExitStack() as stack:
        port = make_url(postgresql_url).port
        assert port is not None
        proxy = stack.enter_context(Proxy(port))
        first = stack.enter_context(java(class_path, tmp_path, proxy.url(postgresql_url), "first"))
        with Client(("127.0.0.1", first.stomp_port)) as client:
            client.connect()
            expires_s = time.time() + 1
            headers = {"destination": "/queue/EXPIRES", "persistent": "true", "expires": f"{expires_s * 1000:.0f}"}
            client.done("SEND", headers, "brief")
            assert stored(postgresql_url) == [QUEUE]
            wait_until(lambda: time.time() > expires_s, "it has expired")
            held = proxy.hold_at(b"DELETE FROM ACTIVEMQ_MSGS")
        with Client(("127.0.0.1", first.stomp_port)) as client:
            subscribe(client)
            assert held.wait(60)
        assert stored(postgresql_url) == [QUEUE, DEAD]
        first.kill()
        proxy.cut()
        assert stored(postgresql_url) == [QUEUE, DEAD]
        if second == "ours":
            ours = stack.enter_context(BrokerProcess(f"{postgresql_url}?lease_ms={LEASE_MS}", tmp_path))
            address = "127.0.0.1", ours.port
        else:
            other = stack.enter_context(java(class_path, tmp_path, postgresql_url, "second"))
            address = "127.0.0.1", other.stomp_port
        with Client(address) as client:
            subscribe(client)
            wait_until(lambda: QUEUE not in stored(postgresql_url), "its expiry is seen")
        assert stored(postgresql_url) == [DEAD, DEAD]
