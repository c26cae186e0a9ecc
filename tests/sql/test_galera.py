"""Two brokers on two nodes of Galera, where a lock is a matter of one node: the write set decides who is master."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pymysql
import pytest

from jdbcstore.config.urls import open_engine
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError, LeaseLost, OutcomeUnknown
from jdbcstore.store.completion import Completion
from jdbcstore.store.jdbc.dialect import dialect_at
from jdbcstore.store.jdbc.dialect.mysql import write
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.replication import Level
from jdbcstore.store.jdbc.schema import upgrade_schema
from jdbcstore.testing import text_message
from tests.servers.galera import GaleraCluster, GaleraNode
from tests.sql.test_lockers import Brokers
from tests.waiting import wait_until

#: A row of it is found by looking at all of them, so that many changes keep the one who applies them for seconds.
SLOW_ROWS = 4_000
QUEUE = Queue("TEST")
WAIT_S = 60.0


@pytest.fixture
def database(galera: GaleraCluster) -> Iterator[str]:
    """A database on the nodes, which each of them has."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    galera.create_database(name)
    yield name
    galera.drop_database(name)


@pytest.fixture
def on_nodes(galera: GaleraCluster, database: str) -> Iterator[list[Brokers]]:
    """For each node those brokers that use it alone."""
    each = [Brokers(node.url(database)) for node in galera.members]
    yield each
    for brokers in each:
        brokers.close()


def keep_busy(node: GaleraNode, database: str) -> None:
    """Give the others what takes them seconds to apply."""
    with node.session(database) as execute:
        execute("CREATE TABLE slow (a INT) ENGINE=InnoDB")
        execute(f"INSERT INTO slow SELECT seq FROM seq_1_to_{SLOW_ROWS}")
        execute("UPDATE slow SET a = a + 1000000")


def late_commit(galera: GaleraCluster, database: str, on_nodes: list[Brokers]) -> Completion[int]:
    """What becomes of a commit of the former master on a node that has not applied the takeover yet."""
    former, successor = on_nodes[0].master(), on_nodes[1].new()
    queue = former.queue_message_store(QUEUE)
    queue.add_message(text_message(1, "before")).result(30)
    keep_busy(galera.members[1], database)
    with galera.members[1].session(database) as execute:
        execute("UPDATE ACTIVEMQ_LOCK SET TIME = 1")
    assert successor.locker().acquire() is not None
    successor.start()
    successor.queue_message_store(QUEUE).add_message(text_message(2, "new")).result(30)
    late = queue.add_message(text_message(3, "late"))
    wait_until(lambda: late.done, timeout_s=WAIT_S)
    return late


def stored(node: GaleraNode, database: str) -> list[int]:
    """The numbers of the messages that a node has."""
    with node.session(database) as execute:
        return [row[0] for row in execute("SELECT MSGID_SEQ FROM ACTIVEMQ_MSGS ORDER BY MSGID_SEQ")]


def test_a_late_commit_on_another_node_fails(galera: GaleraCluster, database: str, on_nodes: list[Brokers]) -> None:
    """The node of the former master has not applied the takeover, and would let its commit pass."""
    late = late_commit(galera, database, on_nodes)
    with pytest.raises((LeaseLost, OutcomeUnknown)):
        late.result(0)
    assert [stored(node, database) for node in galera.members[:2]] == [[1, 2], [1, 2]]


def test_without_a_write_of_the_lock_s_row_two_masters_write(
    galera: GaleraCluster, database: str, on_nodes: list[Brokers], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof of the test above: a lock is one node's."""
    monkeypatch.setattr(write, "is_certified", lambda connection: False)
    late_commit(galera, database, on_nodes).result(0)
    wait_until(lambda: stored(galera.members[1], database) == [1, 2, 3])


def test_what_a_node_says_of_itself(galera: GaleraCluster, database: str) -> None:
    told = []
    for node in galera.members:
        engine = open_engine(node.url(database))
        dialect = dialect_at(engine.url, JdbcOptions())
        with engine.connect() as connection:
            told.append((dialect.replication(connection), dialect.history(connection)))
            assert connection.exec_driver_sql("SELECT @@SESSION.wsrep_sync_wait").scalar_one() == 1
        engine.dispose()
    assert {(found.level, found.told, found.takes_writes) for found, _ in told} == {
        (Level.QUORUM, "Galera, 3 nodes", True)
    }
    assert len({history for _, history in told}) == 1, "a node is as good as another"


def test_a_row_lock_is_refused(on_nodes: list[Brokers]) -> None:
    with pytest.raises(ConfigurationError, match="lease-database-locker"):
        on_nodes[0].master("database")


def test_a_java_broker_s_takeover_on_another_node_is_certified_too(
    galera: GaleraCluster, database: str, on_nodes: list[Brokers]
) -> None:
    former = on_nodes[0].master()
    queue = former.queue_message_store(QUEUE)
    keep_busy(galera.members[1], database)
    with galera.members[1].session(database) as execute:
        execute("UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = 'java', TIME = TIME + 60000 WHERE ID = 1")
    with pytest.raises((LeaseLost, OutcomeUnknown)):
        queue.add_message(text_message(1)).result(60)
    with galera.members[1].session(database) as execute:
        assert execute("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(0,)]


def test_sessions_of_one_master_on_two_nodes_get_along(
    galera: GaleraCluster, database: str, on_nodes: list[Brokers]
) -> None:
    """A commit that met the renewal of another node fails its certification, and is tried again."""
    master = on_nodes[0].master()
    queue = master.queue_message_store(QUEUE)
    with galera.members[1].session(database) as execute:
        for number in range(1, 101):
            added = queue.add_message(text_message(number))
            with suppress(pymysql.err.OperationalError):  # either of the two may be the one that comes second
                execute("UPDATE ACTIVEMQ_LOCK SET TIME = TIME + 2 WHERE ID = 1")
            added.result(30)
    assert queue.message_count == 100


def test_brokers_that_start_together_on_three_nodes_have_one_master(database: str, on_nodes: list[Brokers]) -> None:
    for brokers in on_nodes:
        for _ in range(2):
            brokers.new()
    everybody = [adapter for brokers in on_nodes for adapter in brokers.adapters]
    engine = open_engine(on_nodes[0].url)
    upgrade_schema(engine)
    engine.dispose()
    with ThreadPoolExecutor(len(everybody)) as threads:
        found = list(threads.map(lambda adapter: adapter.locker().acquire(), everybody))
    assert [term for term in found if term is not None] == [1]
