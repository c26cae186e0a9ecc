"""A store on three PostgreSQL servers: Patroni says which is primary, the store finds it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from jdbcstore.cli import run
from jdbcstore.config.urls import open_store, store_location
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError, LeaseLost, StoreError
from jdbcstore.spark.scan import Scan
from jdbcstore.store.contract import Locker
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.connection import opened
from jdbcstore.testing import text_message
from tests.servers.coordinator import Coordinator, Etcd, ZooKeeper
from tests.servers.patroni import PatroniCluster, PatroniNode, PatroniSettings
from tests.sql.test_writer import numbers
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

WAIT_S = 90.0
QUEUE = Queue("TEST")
#: Both coordinators and both modes, in two clusters.
CLUSTERS: dict[str, tuple[type[Coordinator], str]] = {"etcd, quorum": (Etcd, "quorum"), "ZooKeeper": (ZooKeeper, "on")}


@pytest.fixture(params=["etcd, quorum", pytest.param("ZooKeeper", marks=pytest.mark.exhaustive)], scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[PatroniCluster]:
    coordinator, mode = CLUSTERS[request.param]
    with PatroniCluster(PatroniSettings(synchronous_mode=mode), coordinator) as cluster:
        yield cluster


@contextmanager
def master(url: str) -> Iterator[JdbcPersistenceAdapter]:
    """A store that is master, as soon as it can be."""
    adapter = open_store(url)
    assert isinstance(adapter, JdbcPersistenceAdapter)
    locker = adapter.locker()

    def is_master() -> bool:
        try:
            return locker.acquire() is not None
        except StoreError:
            return False

    wait_until(is_master, "the store is master")
    adapter.start()
    try:
        yield adapter
    finally:
        adapter.abandon()
        with suppress(StoreError):  # its server may be gone
            locker.release()


def term_of(adapter: JdbcPersistenceAdapter) -> int:
    lease = adapter.locker().lease
    assert lease is not None
    return lease.term


def add(adapter: JdbcPersistenceAdapter, number: int) -> None:
    adapter.queue_message_store(QUEUE).add_message(text_message(number)).result(WAIT_S)


def stored(adapter: JdbcPersistenceAdapter) -> list[int]:
    return numbers(adapter.queue_message_store(QUEUE))


def wait_for_loss(locker: Locker) -> str:
    """Renew until the lease is lost; why it is."""
    found: list[str] = []

    def has_lost() -> bool:
        try:
            locker.renew()
        except LeaseLost as error:
            found.append(str(error))
        except StoreError:
            pass
        return bool(found)

    wait_until(has_lost, "the lease is lost")
    return found[0]


def fail_over(cluster: PatroniCluster) -> PatroniNode:
    """Kill the primary's PostgreSQL; the new primary."""
    former = cluster.primary()
    assert former is not None
    former.kill_postgresql()
    cluster.wait_for(lambda: cluster.primary() not in (None, former))
    new = cluster.primary()
    assert new is not None
    return new


def test_who_only_reads_may_read_from_a_standby(
    cluster: PatroniCluster, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_database("readers")
    url = cluster.url("readers")
    standby = f"{url}&read_from=standby"
    with master(url) as adapter:
        add(adapter, 1)

        def is_seen() -> bool:
            capsys.readouterr()
            code = run(["stats", standby, "--json"])
            return code == 0 and [row["depth"] for row in json.loads(capsys.readouterr().out)] == [1]

        with caplog.at_level(logging.WARNING):
            wait_until(is_seen, "a standby shows the message")
        assert "read from a standby that" in caplog.text
        assert run(["browse", standby, "TEST"]) == 0
        location = store_location(standby)
        for driver in ("adbc", "psycopg2"):
            for where in (location, store_location(url)):
                scan = Scan(where.url, ("ID", "MSGID_PROD"), options=where.options, driver=driver)
                assert [batch.num_rows for batch in scan.batches()] == [1]
        with opened(location) as store:
            assert not store.dialect.replication(store.connection).takes_writes
    with pytest.raises(ConfigurationError, match="read_from = standby is for who only reads"):
        open_store(standby)
    plain = f"postgresql://postgres@127.0.0.1:{cluster.standbys()[0].port}/readers"
    capsys.readouterr()
    assert run(["pipeline", "migrate", standby, plain, "--dry-run"]) == 1  # Spark would take its time to say so
    assert "the server takes no writes" in capsys.readouterr().err


def test_a_store_follows_the_primary_and_no_term_comes_twice(
    cluster: PatroniCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.create_database("replicated")
    url = f"{cluster.url('replicated')}&require_replication=quorum&lease_ms=20000&retry_s=60"
    with master(url) as adapter:  # its lease is longer than a failover takes
        assert term_of(adapter) == 1
        add(adapter, 1)
        capsys.readouterr()
        assert run(["lock", "status", url, "--json"]) == 0
        status = json.loads(capsys.readouterr().out)
        assert (status["replication"], status["weaknesses"]) == ("quorum", [])
        fail_over(cluster)
        assert "the database has failed over" in wait_for_loss(adapter.locker())
    with master(url) as adapter:
        assert term_of(adapter) // 1_000_000 == 1  # the second of its timelines
        assert stored(adapter) == [1]
        add(adapter, 2)
        cluster.wait_for(cluster.is_whole)
        cluster.switch_over()
    with master(url) as adapter:
        assert term_of(adapter) // 1_000_000 == 2
        assert stored(adapter) == [1, 2]
    cluster.wait_for(cluster.is_whole)
    with master(url) as adapter:
        primary = cluster.primary()
        assert primary is not None
        primary.order("/config", {"synchronous_mode": False}, "PATCH")
        loss = wait_for_loss(adapter.locker())
        assert "require_replication = quorum, and the database gives none: synchronous_commit = on" in loss
        with pytest.raises(StoreError, match="standbys are asynchronous"):
            adapter.locker().acquire()
