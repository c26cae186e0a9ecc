"""Semi-synchronous replication: a commit waits for a replica, or for no longer than a timeout. Mostly there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pytest
from pymysql.err import OperationalError

from jdbcstore.config.urls import open_engine
from jdbcstore.destination import Queue
from jdbcstore.errors import LeaseLost, NotReplicated, OutcomeUnknown, StoreError
from jdbcstore.store.jdbc.dialect import ConnectionLost, dialect_at
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.replication import Replication
from jdbcstore.testing import text_message
from tests.servers.mariadb import MariaDBServer
from tests.sql.test_lockers import opened
from tests.waiting import wait_until

QUEUE = Queue("TEST")
_NO_SUCH_THREAD = 1094
WAITING = "Waiting for semi-sync ACK from slave"


class SemiSynchronousServer(MariaDBServer):
    """A MariaDB server whose commits may be told to wait for a replica."""

    def command(self) -> Sequence[str]:
        """mariadbd with a binary log."""
        waits = ["--rpl-semi-sync-master-wait-point=AFTER_SYNC", "--rpl-semi-sync-master-timeout=3600000"]
        return [*super().command(), "--log-bin", "--server-id=7", *waits]

    def set(self, name: str, value: str | int) -> None:
        self.execute(f"SET GLOBAL rpl_semi_sync_master_{name} = {value}")

    def waiting(self) -> list[int]:
        """The sessions whose commits wait."""
        rows = self.execute(f"SELECT ID FROM information_schema.PROCESSLIST WHERE STATE LIKE '{WAITING}%'")
        return [int(str(row[0])) for row in rows]


@pytest.fixture(scope="module")
def server() -> Iterator[SemiSynchronousServer]:
    with SemiSynchronousServer(is_flushed=False) as server:
        server.create_database("store")
        server.execute("CREATE USER 'replica'@'%' IDENTIFIED BY 'secret'")
        server.execute("GRANT REPLICATION SLAVE ON *.* TO 'replica'@'%'")
        yield server


class Replica(MariaDBServer):
    """A server that receives what another one commits, and says so."""

    def command(self) -> Sequence[str]:
        """mariadbd as another server."""
        return [*super().command(), "--server-id=8", "--rpl-semi-sync-slave-enabled=ON"]

    def follow(self, server: MariaDBServer) -> None:
        """Receive what is committed from now on."""
        ((file, position, *_),) = server.execute("SHOW MASTER STATUS")
        self.execute(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={server.port}, MASTER_USER='replica',"
            f" MASTER_PASSWORD='secret', MASTER_LOG_FILE='{file}', MASTER_LOG_POS={position}"
        )
        self.execute("START SLAVE IO_THREAD")


@pytest.fixture(scope="module")
def replica() -> Iterator[Replica]:
    with Replica(is_flushed=False) as replica:
        yield replica


@pytest.fixture
def replicated(server: SemiSynchronousServer, replica: Replica) -> Iterator[SemiSynchronousServer]:
    """The server with a replica for which commits wait."""
    server.set("enabled", "ON")
    replica.follow(server)
    wait_until(lambda: ("Rpl_semi_sync_master_clients", "1") in server.execute("SHOW STATUS LIKE 'Rpl_semi%'"))
    yield server
    replica.execute("STOP SLAVE")


@pytest.fixture(autouse=True)
def as_it_was(server: SemiSynchronousServer) -> Iterator[None]:
    yield
    server.set("enabled", "OFF")
    server.set("timeout", 3_600_000)
    server.set("wait_no_slave", "ON")


def replication(server: SemiSynchronousServer) -> Replication:
    engine = open_engine(server.url("store"))
    with engine.connect() as connection:
        found = dialect_at(engine.url, JdbcOptions()).replication(connection)
    engine.dispose()
    return found


def end(server: SemiSynchronousServer, sessions: Iterable[int]) -> None:
    """End sessions; one of them may have ended by itself meanwhile."""
    for session in sessions:
        try:
            server.execute(f"KILL {session}")
        except OperationalError as error:
            if error.args[0] != _NO_SUCH_THREAD:
                raise


def test_a_commit_whose_wait_was_ended_is_not_stored_before_a_replica_has_it(server: SemiSynchronousServer) -> None:
    """Ending the session that waits shows the row, and so does the look for a lost commit, which ends it."""
    with opened(f"{server.url('store')}?query_timeout_s=2&retry_s=3") as brokers:
        master = brokers.master()
        queue = master.queue_message_store(QUEUE)
        queue.add_message(text_message(1)).result(30)
        server.set("enabled", "ON")
        added = queue.add_message(text_message(2))
        wait_until(server.waiting, "the commit waits for a replica")
        end(server, server.waiting())
        with pytest.raises((OutcomeUnknown, ConnectionLost)):
            added.result(60)
        assert [row[0] for row in server.execute("SELECT COUNT(*) FROM store.ACTIVEMQ_MSGS")] == [2], "it is there"
        server.set("enabled", "OFF")
        end(server, server.waiting())


def test_what_semi_synchronous_replication_promises(server: SemiSynchronousServer) -> None:
    assert replication(server).told == "one server"
    server.set("enabled", "ON")
    server.set("timeout", 10_000)
    found = replication(server)
    assert found.told == "semi-synchronous, 0 replicas"
    assert any("10000 ms is answered although no replica has it" in weakness for weakness in found.weaknesses)
    assert found.level.name == "NONE"


def test_a_fall_back_is_seen_and_ends_a_mastership_that_requires_replicas(server: SemiSynchronousServer) -> None:
    server.set("enabled", "ON")
    server.set("timeout", 300)
    with opened(f"{server.url('store')}?require_replication=any") as brokers:
        with pytest.raises(NotReplicated, match="require_replication = any, and the database gives none"):
            brokers.master()
        engine = open_engine(server.url("store"))
        with engine.connect() as connection:
            connection.exec_driver_sql("CREATE TABLE after_all (a INT)")  # waits, and goes on
        engine.dispose()
        assert replication(server).weaknesses[0].startswith("it has fallen back to asynchronous replication")
        with pytest.raises(StoreError, match="fallen back"):
            brokers.master()


@pytest.mark.parametrize(
    ("setting", "value", "removes"),
    [("enabled", "OFF", False), ("enabled", "OFF", True), ("timeout", 100, False), ("wait_no_slave", "OFF", False)],
)
def test_what_waits_for_no_replica_is_not_stored(
    replicated: SemiSynchronousServer, setting: str, value: str | int, removes: bool
) -> None:
    """Each commit looks; the next renewal of the lease may be seconds away."""
    with opened(f"{replicated.url('store')}?require_replication=any&lease_ms=60000") as brokers:
        queue = brokers.master().queue_message_store(QUEUE)
        message = text_message(1)
        queue.add_message(message).result(30)
        before = replicated.execute("SELECT COUNT(*) FROM store.ACTIVEMQ_MSGS")
        replicated.set(setting, value)
        assert message.message_id is not None
        refused = queue.remove_message(message.message_id) if removes else queue.add_message(text_message(2))
        with pytest.raises(LeaseLost, match=f"require_replication = any.*(one server|rpl_semi_sync_master_{setting})"):
            refused.result(60)
        assert replicated.execute("SELECT COUNT(*) FROM store.ACTIVEMQ_MSGS") == before
