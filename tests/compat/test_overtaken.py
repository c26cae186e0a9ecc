"""What a real ActiveMQ and ours deliver to a durable subscription when one transaction overtakes another.

ActiveMQ numbers a transaction's messages before it writes them, and another one may be committed meanwhile. It delivers
that one first, and then the one number that it keeps of a durable subscription says that both are acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2
import pytest
from sqlalchemy import make_url

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Topic
from jdbcstore.store.contract import Cursor
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.subscription import SubscriptionKey
from tests.broker_process import BrokerProcess
from tests.compat.activemq import ActiveMQ, JdbcStore, JmsClients
from tests.servers.server import free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

TOPIC = Topic("PRICES")
ANN = SubscriptionKey("ann", "news")
WAIT_S = 60.0


@contextmanager
def gate(url: str) -> Iterator[tuple[Callable[[], bool], Callable[[], None]]]:
    """Number 7 is not written before it may be: whether it is there and waits, and how to let it on."""
    parts = make_url(url)
    with closing(
        psycopg2.connect(
            host=parts.host, port=parts.port, dbname=parts.database, user=parts.username, password=parts.password
        )
    ) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(
            "CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END $$"
        )
        cursor.execute(
            "CREATE TRIGGER gate BEFORE INSERT ON ACTIVEMQ_MSGS FOR EACH ROW"
            " WHEN (position('message 7'::bytea in NEW.MSG) > 0) EXECUTE FUNCTION gate()"
        )
        cursor.execute("SELECT pg_advisory_lock(4711)")

        def somebody_waits() -> bool:
            cursor.execute(
                "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
            found = cursor.fetchone()
            return found is not None and found[0] > 0

        yield somebody_waits, lambda: cursor.execute("SELECT pg_advisory_unlock(4711)")


def test_activemq_passes_over_it(class_path: str, postgresql_url: str, tmp_path: Path) -> None:
    """Nothing in the database tells of it, so whoever takes over cannot know."""
    with ActiveMQ(class_path, tmp_path, JdbcStore(postgresql_url)) as activemq, ThreadPoolExecutor() as pool:
        activemq.subscribe_durably("PRICES", "ann", "news")
        with gate(postgresql_url) as (it_waits, let_on):
            late = pool.submit(activemq.send_numbers, "topic://PRICES", 7, 1)
            wait_until(it_waits)
            activemq.publish("PRICES", 8, 1)
            assert activemq.consume_durably("PRICES", "ann", "news", 1) == [8]
            let_on()
            late.result(WAIT_S)  # its sender hears that it is stored
        activemq.kill()
    with open_store(postgresql_url) as store:
        assert isinstance(store, JdbcPersistenceAdapter)
        topic = store.topic_message_store(TOPIC)
        assert topic.message_count == 2
        assert topic.recover_next_subscription_messages(ANN, Cursor(), 1000, 1 << 30).messages == []
    with ActiveMQ(class_path, tmp_path, JdbcStore(postgresql_url)) as activemq:
        assert activemq.consume_durably("PRICES", "ann", "news") == []


@pytest.mark.parametrize("is_java_next", [True, False])
def test_ours_delivers_it(class_path: str, postgresql_url: str, tmp_path: Path, *, is_java_next: bool) -> None:
    """Its numbers are in the order of the commits, for an ActiveMQ that takes over, too."""
    port = free_port()
    process = BrokerProcess(postgresql_url, tmp_path, "--bind", f"openwire://127.0.0.1:{port}")
    clients = JmsClients(class_path, f"tcp://127.0.0.1:{port}")
    with process, ThreadPoolExecutor() as pool:
        clients.subscribe_durably("PRICES", "ann", "news")
        with gate(postgresql_url) as (it_waits, let_on):
            late = pool.submit(clients.send_numbers, "topic://PRICES", 7, 1)
            wait_until(it_waits)
            other = pool.submit(clients.publish, "PRICES", 8, 1)
            if is_java_next:
                let_on()
            else:
                consumed = pool.submit(clients.consume_durably, "PRICES", "ann", "news", 2)
                let_on()
                assert consumed.result(WAIT_S) == [7, 8]
            late.result(WAIT_S)
            other.result(WAIT_S)
        process.kill()
    if is_java_next:
        with ActiveMQ(class_path, tmp_path, JdbcStore(postgresql_url)) as activemq:
            assert activemq.consume_durably("PRICES", "ann", "news") == [7, 8]
