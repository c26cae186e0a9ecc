"""Two brokers on two nodes of Galera, where a lock is a matter of one node: the write set decides who is master."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from jdbcstore.destination import Queue
from jdbcstore.errors import LeaseLost, OutcomeUnknown
from jdbcstore.message import TextMessage
from jdbcstore.testing import text_message
from tests.servers.galera import GaleraCluster, GaleraNode
from tests.sql.test_lockers import Brokers

#: A row of it is found by looking at all of them, so that many changes keep the one who applies them for seconds.
SLOW_ROWS = 6_000


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


def test_a_late_commit_on_another_node_fails(galera: GaleraCluster, database: str, on_nodes: list[Brokers]) -> None:
    """The node of the former master has not applied the takeover, and would let its commit pass."""
    former, successor = on_nodes[0].master(), on_nodes[1].new()
    queue = former.queue_message_store(Queue("TEST"))
    queue.add_message(text_message(1, "before")).result(30)
    keep_busy(galera.members[1], database)
    with galera.members[1].session(database) as execute:
        execute("UPDATE ACTIVEMQ_LOCK SET TIME = 1")
    assert successor.locker().acquire() is not None
    successor.start()
    successor.queue_message_store(Queue("TEST")).add_message(text_message(2, "new")).result(30)
    with pytest.raises((LeaseLost, OutcomeUnknown)):
        queue.add_message(text_message(3, "late")).result(60)
    found = successor.queue_message_store(Queue("TEST")).recover()
    assert [message.text for message in found if isinstance(message, TextMessage)] == ["before", "new"]
