"""Lockers and the fence on every database: who may be master, and that nobody else writes."""

from __future__ import annotations

import io
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import psycopg2
import pytest
from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.exc import DBAPIError

from jdbcstore.config.inspection import looking_into
from jdbcstore.config.urls import open_engine, open_store, store_url
from jdbcstore.destination import Queue
from jdbcstore.errors import (
    ConfigurationError,
    LeaseLost,
    LockHeld,
    OutcomeUnknown,
    SchemaMismatch,
    StoreError,
    TransientStoreError,
)
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Commit, LockStatus, MessageStore, SupportsLocking
from jdbcstore.store.jdbc import liveness_file
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.dialect import raw_connection
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.lockers import DatabaseLocker, LeaseDatabaseLocker
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.schema import SchemaKind, inspect_schema, upgrade_schema
from jdbcstore.store.lease import LockerOptions, boot_time_ns
from jdbcstore.testing import text_message
from tests.servers.proxy import Proxy
from tests.servers.server import DatabaseServer
from tests.sql.test_writer import one_batch
from tests.waiting import wait_until

# What keeps a second master away is shown on each server.
pytestmark = [pytest.mark.has_tables, pytest.mark.one_in(5, of="mariadb mysql postgresql18")]

WAIT_S = 90.0
LEASE_MS = 60_000  # nothing expires by itself; tests that want it to set the row back

#: What a Java broker with its lease locker does; its clock is in step with the database's.
JAVA_OBTAINS = (
    "UPDATE ACTIVEMQ_LOCK SET BROKER_NAME='java', TIME={now} + 60000 WHERE (TIME IS NULL OR TIME < {now}) AND ID = 1"
)
JAVA_RENEWS = "UPDATE ACTIVEMQ_LOCK SET BROKER_NAME='java', TIME={now} + 60000 WHERE BROKER_NAME='java' AND ID = 1"
IMPATIENT = {
    "postgresql": "SET lock_timeout = 200",
    "mysql": "SET innodb_lock_wait_timeout = 1",
    "mariadb": "SET innodb_lock_wait_timeout = 1",
}
JAVA_RELEASES = "UPDATE ACTIVEMQ_LOCK SET BROKER_NAME=NULL, TIME=0 WHERE BROKER_NAME='java' AND ID = 1"


class Brokers:
    """Adapters on one database, each with a locker; let go of at the end."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.adapters: list[JdbcPersistenceAdapter] = []

    def new(self, kind: str = "lease", *, creates: bool = True, **lock: Any) -> JdbcPersistenceAdapter:
        """An adapter that is not started, as another process would have it."""
        locker = LockerOptions(**{"lease_ms": LEASE_MS, **lock})
        options = JdbcOptions(locker=kind, lock=locker, create_tables_on_startup=creates)
        adapter = open_store(self.url, options)
        assert isinstance(adapter, JdbcPersistenceAdapter)
        self.adapters.append(adapter)
        return adapter

    def master(self, kind: str = "lease", **lock: Any) -> JdbcPersistenceAdapter:
        """An adapter that is master and started."""
        adapter = self.new(kind, **lock)
        assert adapter.locker().acquire() is not None
        adapter.start()
        return adapter

    def successor(self, kind: str = "lease") -> JdbcPersistenceAdapter:
        """The next master. It did not end the sessions of the one before, so only the fence keeps that from writing."""
        adapter = self.new(kind)
        cast(Any, adapter.locker())._end_sessions_of = lambda former, connection: None
        assert adapter.locker().acquire() is not None
        adapter.start()
        return adapter

    def close(self) -> None:
        for adapter in self.adapters:
            adapter.stop()
            with suppress(TransientStoreError):  # a short lease has short time-outs, which a busy machine passes
                adapter.locker().release()


@contextmanager
def opened(url: str) -> Iterator[Brokers]:
    brokers = Brokers(url)
    try:
        yield brokers
    finally:
        brokers.close()


@pytest.fixture
def brokers(database_url: str) -> Iterator[Brokers]:
    """Brokers on every database in turn."""
    with opened(database_url) as each:
        yield each


@pytest.fixture
def server_brokers(sql_server_url: str) -> Iterator[Brokers]:
    """Brokers on every database server in turn."""
    with opened(sql_server_url) as each:
        yield each


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """A connection of somebody else, in autocommit mode."""
    engine = create_engine(store_url(url), isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def execute(url: str, statement: str) -> int:
    with connected(url) as connection:
        return connection.execute(text(statement)).rowcount


def java(brokers: Brokers, statement: str) -> bool:
    """Run a Java broker's statement; whether it met the row."""
    return execute(brokers.url, statement.format(now=probe(brokers).epoch_ms)) == 1


def probe(brokers: Brokers) -> Any:
    """The dialect of the database."""
    return cast(LeaseDatabaseLocker, brokers.new().locker())._dialect


def age(brokers: Brokers) -> None:
    """Let the lease run out, as if its holder had not been heard of for long."""
    assert execute(brokers.url, "UPDATE ACTIVEMQ_LOCK SET TIME = 1000 WHERE ID = 1") == 1


def asked(adapter: JdbcPersistenceAdapter) -> int | None:
    """What it hears when it asks to be master; again when the answer came too late, as short leases have it."""
    answers: list[int | None] = []

    def is_answered() -> bool:
        with suppress(TransientStoreError):
            answers.append(adapter.locker().acquire())
        return bool(answers)

    wait_until(is_answered, timeout_s=WAIT_S)
    return answers[0]


def obtained(adapter: JdbcPersistenceAdapter) -> int:
    """Ask until it is master; its term."""
    terms: list[int] = []

    def is_master() -> bool:
        if (term := asked(adapter)) is not None:
            terms.append(term)
        return bool(terms)

    wait_until(is_master, timeout_s=WAIT_S)
    return terms[0]


def holder(adapter: JdbcPersistenceAdapter) -> str:
    locker = adapter.locker()
    assert isinstance(locker, LeaseDatabaseLocker | DatabaseLocker)
    return locker.holder


def queue(adapter: JdbcPersistenceAdapter) -> MessageStore:
    return adapter.queue_message_store(Queue("TEST"))


def stored(url: str) -> list[int]:
    """The producer's numbers of what is in the table, by somebody who asks the database alone."""
    with connected(url) as connection:
        return [int(n) for (n,) in connection.execute(text("SELECT MSGID_SEQ FROM ACTIVEMQ_MSGS ORDER BY ID"))]


def rows(url: str) -> list[tuple[object, ...]]:
    with connected(url) as connection:
        query = text("SELECT ID, CONTAINER, MSGID_SEQ, MSG FROM ACTIVEMQ_MSGS ORDER BY ID")
        return [(id, container, sequence, bytes(blob)) for id, container, sequence, blob in connection.execute(query)]


def id_of(message: Message) -> MessageId:
    assert message.message_id is not None
    return message.message_id


# -- taking turns ----------------------------------------------------------------------------------------------------


def test_one_is_master_and_the_other_is_not(brokers: Brokers) -> None:
    one, other = brokers.new(), brokers.new()
    assert isinstance(one, SupportsLocking)
    before_ns = boot_time_ns()
    assert one.locker().acquire() == 1
    lease = one.locker().lease
    assert lease is not None
    assert (lease.holder, lease.term) == (holder(one), 1)
    assert before_ns <= lease.asked_ns <= boot_time_ns()
    assert other.locker().acquire() is None
    assert other.locker().lease is None
    status = other.locker().status()
    assert (status.holder, status.term) == (holder(one), 1)
    assert status.expires_in_ms is not None
    assert 0 < status.expires_in_ms <= LEASE_MS


def test_each_takeover_is_a_term(brokers: Brokers) -> None:
    one, other = brokers.new(), brokers.new()
    for term in (1, 3, 5):
        assert one.locker().acquire() == term
        assert other.locker().acquire() is None
        one.locker().release()
        assert other.locker().acquire() == term + 1
        assert one.locker().acquire() is None
        other.locker().release()
    assert one.locker().status() == LockStatus(None, 6, None)


def test_a_release_leaves_the_row_as_activemq_does(brokers: Brokers) -> None:
    one = brokers.new()
    one.locker().acquire()
    one.locker().release()
    one.locker().release()
    with connected(brokers.url) as connection:
        assert connection.execute(text("SELECT ID, TIME, BROKER_NAME FROM ACTIVEMQ_LOCK")).all() == [(1, 0, None)]


def test_asking_again_keeps_the_term(brokers: Brokers) -> None:
    one = brokers.new()
    assert one.locker().acquire() == one.locker().acquire() == 1


def test_a_race_has_one_winner(brokers: Brokers) -> None:
    racers = [brokers.new() for _ in range(4)]
    racers[0].locker().acquire()  # creates the tables
    racers[0].locker().release()
    start = threading.Barrier(len(racers))
    terms: list[int | None] = []

    def race(locker: Any) -> None:
        start.wait(WAIT_S)
        try:
            terms.append(locker.acquire())
        except TransientStoreError:  # a deadlock's victim, say: it is not master
            terms.append(None)

    for _ in range(5):
        terms.clear()
        threads = [threading.Thread(target=race, args=(racer.locker(),)) for racer in racers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        winners = [racer for racer in racers if racer.locker().lease is not None]
        assert len(winners) == 1
        assert [term for term in terms if term is not None] == [winners[0].locker().status().term]
        winners[0].locker().release()


@pytest.mark.has_tables(False)
def test_brokers_that_start_together_on_an_empty_database_have_one_master(brokers: Brokers) -> None:
    terms: list[int | None] = []
    together = [brokers.new() for _ in range(2)]
    threads = [threading.Thread(target=lambda a=adapter: terms.append(a.locker().acquire())) for adapter in together]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(terms, key=str) == [1, None]


def test_after_a_crash_the_lease_runs_out(brokers: Brokers) -> None:
    dead, other = brokers.new(), brokers.new()
    assert dead.locker().acquire() == 1
    assert other.locker().acquire() is None
    age(brokers)
    assert other.locker().acquire() == 2
    with pytest.raises(LeaseLost, match=holder(other)):
        dead.locker().renew()
    assert dead.locker().lease is None
    dead.locker().release()  # lets go of nothing that is not its own
    assert other.locker().status().holder == holder(other)


def test_a_real_lease_runs_out_by_the_database_s_clock(brokers: Brokers) -> None:
    dead, other = brokers.new(lease_ms=1000), brokers.new(lease_ms=1000)
    began = time.monotonic()
    term = obtained(dead)
    assert obtained(other) > term
    assert time.monotonic() - began > 0.9


def test_a_renewal_prolongs_the_lease(brokers: Brokers) -> None:
    one = brokers.new()
    one.locker().acquire()
    before = one.locker().lease
    execute(brokers.url, f"UPDATE ACTIVEMQ_LOCK SET TIME = TIME - {LEASE_MS // 2} WHERE ID = 1")
    one.locker().renew()
    after = one.locker().lease
    assert before is not None
    assert after is not None
    assert after.term == before.term
    assert after.trusted_until_ns > before.trusted_until_ns
    expires_in_ms = one.locker().status().expires_in_ms
    assert expires_in_ms is not None
    assert expires_in_ms > LEASE_MS // 2


def test_renewing_twice_in_a_millisecond_is_no_lost_lease(brokers: Brokers) -> None:
    one = brokers.new()
    one.locker().acquire()
    for _ in range(20):
        one.locker().renew()


def test_a_renewal_after_the_end_is_refused_although_nobody_came(brokers: Brokers) -> None:
    one = brokers.new()
    one.locker().acquire()
    age(brokers)
    with pytest.raises(LeaseLost, match="ran out"):
        one.locker().renew()
    assert one.locker().lease is None
    assert one.locker().acquire() == 2


def test_a_renewal_in_another_term_is_refused(brokers: Brokers) -> None:
    one = brokers.new()
    one.locker().acquire()
    execute(brokers.url, "UPDATE JDBCSTORE_TERM SET TERM = 9 WHERE ID = 1")
    with pytest.raises(LeaseLost, match="term 1"):
        one.locker().renew()


def test_a_takeover_is_one_statement_and_so_is_a_renewal(server_brokers: Brokers) -> None:
    one = server_brokers.new()
    one.locker().acquire()
    one.locker().release()
    sent: list[str] = []
    event.listen(
        cast(Any, one.locker())._engine,
        "before_cursor_execute",
        lambda connection, cursor, statement, *_: sent.append(statement),
    )
    one.locker().acquire()
    assert [statement.split()[0] for statement in sent if "TIME =" in statement] in (["UPDATE"], ["WITH"])
    sent.clear()
    one.locker().renew()
    assert [statement.split()[0] for statement in sent] == ["UPDATE"]


def test_the_database_s_clock_is_read_when_the_statement_begins_not_the_transaction(brokers: Brokers) -> None:
    clock = text(f"SELECT {probe(brokers).epoch_ms}")
    with connected(brokers.url) as connection:
        connection.exec_driver_sql("BEGIN")
        before = connection.execute(clock).scalar_one()
        time.sleep(0.3)
        after = connection.execute(clock).scalar_one()
        connection.exec_driver_sql("ROLLBACK")
    assert 250 < after - before < 100_000
    assert abs(after - time.time() * 1000) < 100_000  # of no other zone of time


@pytest.mark.parametrize("hours", [-1, 1])
def test_our_wall_clock_does_not_matter(brokers: Brokers, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    seconds, nanoseconds = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: seconds() + 3600 * hours)
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + 3600 * 10**9 * hours)
    one, other = brokers.new(), brokers.new()
    one.locker().acquire()
    one.locker().renew()
    expires_in_ms = one.locker().status().expires_in_ms
    assert expires_in_ms is not None
    assert 0 < expires_in_ms <= LEASE_MS
    assert other.locker().acquire() is None


def test_the_trust_of_a_renewal_is_counted_from_before_the_request(brokers: Brokers) -> None:
    one = brokers.new()
    one.locker().acquire()
    times: dict[int, int] = {}

    def end_of_lease() -> int:
        with connected(brokers.url) as connection:
            return int(connection.execute(text("SELECT TIME FROM ACTIVEMQ_LOCK WHERE ID = 1")).scalar_one())

    def clock() -> int:
        now_ns = boot_time_ns()
        times[now_ns] = end_of_lease()
        return now_ns

    before = end_of_lease()
    cast(Any, one.locker())._clock = clock
    time.sleep(0.05)
    one.locker().renew()
    lease = one.locker().lease
    assert lease is not None
    assert times[lease.asked_ns] == before < end_of_lease()
    assert lease.trusted_until_ns == lease.asked_ns + one.locker().options.trust_ms * 1_000_000


def test_a_renewal_waits_neither_for_readers_nor_for_the_writer(brokers: Brokers) -> None:
    adapter = open_store(brokers.url, JdbcOptions(pool_size=1, lock=LockerOptions(lease_ms=LEASE_MS)))
    assert isinstance(adapter, JdbcPersistenceAdapter)
    assert adapter.locker().acquire() == 1
    with adapter, one_batch() as held, adapter.reading():  # every connection of the pool is taken
        pending = queue(adapter).add_message(text_message(1))
        assert held.wait(WAIT_S)
        began = time.monotonic()
        adapter.locker().renew()
        assert time.monotonic() - began < 60
        assert not pending.done
    adapter.locker().release()


def test_brokers_of_one_name_are_two(brokers: Brokers) -> None:
    one, other = (brokers.new(lease_holder_id="localhost") for _ in range(2))
    assert holder(one) != holder(other)
    assert holder(one).startswith("localhost-")
    assert one.locker().acquire() == 1
    assert other.locker().acquire() is None
    age(brokers)
    assert other.locker().acquire() == 2
    with pytest.raises(LeaseLost):
        one.locker().renew()
    other.locker().renew()


def test_fail_if_locked(brokers: Brokers) -> None:
    one, other = brokers.new(), brokers.new(fail_if_locked=True)
    one.locker().acquire()
    with pytest.raises(LockHeld, match=holder(one)):
        other.locker().acquire()


def test_a_clock_that_is_off_is_said(
    brokers: Brokers, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time_ns
    monkeypatch.setattr("jdbcstore.store.jdbc.lockers.time.time_ns", lambda: real() + 3_600_000_000_000)
    brokers.new(max_allowable_diff_from_db_time_ms=5000).locker().acquire()
    found = re.search(r"clock is off from the database's off_ms=(\d+)", caplog.text)
    assert found is not None
    assert abs(int(found[1]) - 3_600_000) < 100_000


# -- a holder that is known to be dead -----------------------------------------------------------------------------

MASTER = """
import sys, time
from jdbcstore import JdbcOptions, open_store
from jdbcstore.store.lease import LockerOptions
store = open_store(sys.argv[1], JdbcOptions(lock=LockerOptions(lease_ms=60000)))
store.start()
print("master", flush=True)
time.sleep(600)
"""


@contextmanager
def master_process(url: str) -> Iterator[subprocess.Popen[str]]:
    """A master in a process of its own, in its first term, with a lease of a minute."""
    with subprocess.Popen([sys.executable, "-c", MASTER, url], stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "master\n"
            yield running
        finally:
            running.kill()


def test_a_master_that_was_killed_is_replaced_without_waiting_for_its_lease(brokers: Brokers) -> None:
    with master_process(brokers.url) as running:
        new = brokers.new()
        assert new.locker().acquire() is None
        running.kill()
        running.wait(WAIT_S)
        assert new.locker().acquire() == 2
        new.start()
        queue(new).add_message(text_message(1)).result(WAIT_S)


def test_a_script_that_was_killed_can_be_started_again_at_once(brokers: Brokers) -> None:
    with master_process(brokers.url) as running:
        running.kill()
        running.wait(WAIT_S)
    with open_store(brokers.url) as again:
        assert again.destinations() == set()


def test_that_the_master_is_dead_is_said_once_however_often_taking_over_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with opened(url) as brokers:
        for term in (1, 2):
            with master_process(url) as running:
                running.kill()
                running.wait(WAIT_S)
            with closing(sqlite3.connect(tmp_path / "a.db")) as database:
                database.execute(
                    "CREATE TRIGGER full BEFORE UPDATE ON ACTIVEMQ_LOCK BEGIN SELECT RAISE(FAIL, 'no room'); END"
                )
            new = brokers.new()
            for _ in range(3):
                with pytest.raises(StoreError, match="no room"):
                    new.locker().acquire()
            assert caplog.text.count("the process of the master has ended") == term
            with closing(sqlite3.connect(tmp_path / "a.db")) as database:
                database.execute("DROP TRIGGER full")
            assert new.locker().acquire() is not None
            new.locker().release()


def test_a_master_that_is_stopped_is_waited_for(brokers: Brokers) -> None:
    with master_process(brokers.url) as running:
        new = brokers.new()
        assert new.locker().acquire() is None
        running.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, running.pid, os.WSTOPPED | os.WNOWAIT)
        for _ in range(3):
            assert new.locker().acquire() is None


def test_who_does_not_look_for_the_dead_waits_for_the_lease(brokers: Brokers) -> None:
    with master_process(brokers.url) as running:
        running.kill()
        running.wait(WAIT_S)
    new = brokers.new(detect_dead_holder=False)
    assert new.locker().acquire() is None
    age(brokers)
    assert new.locker().acquire() == 2


def test_nobody_looks_for_the_sign_of_life_of_who_gave_none(brokers: Brokers) -> None:
    one, other = brokers.new(detect_dead_holder=False), brokers.new()
    one.locker().acquire()
    assert other.locker().acquire() is None
    assert not liveness_file.is_dead(holder(one))


@pytest.mark.parametrize("server_name", ["postgresql", "mariadb", "mysql"])
def test_a_lease_that_could_not_be_released_needs_not_be_waited_for(
    server_name: str, request: pytest.FixtureRequest
) -> None:
    """The master has stopped all the same, and others on its machine can know."""
    server: DatabaseServer = request.getfixturevalue(server_name)
    url: str = request.getfixturevalue(f"{server_name}_url")
    with Proxy(server.port) as proxy, opened(url) as brokers, opened(proxy.url(url)) as behind:
        one, other = behind.new(), brokers.new()
        assert one.locker().acquire() == 1
        proxy.cut()
        assert other.locker().acquire() is None
        with pytest.raises(TransientStoreError):
            one.locker().release()
        assert other.locker().acquire() == 2
        proxy.resume()


def test_nothing_is_left_of_who_took_turns(brokers: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    one, other = brokers.new(), brokers.new()
    for _ in range(2):
        assert one.locker().acquire() is not None
        assert other.locker().acquire() is None
        age(brokers)
        assert other.locker().acquire() is not None
        with pytest.raises(LeaseLost):
            one.locker().renew()
        other.locker().release()
    (folder,) = tmp_path.glob("jdbcstore-*[0-9]")
    assert list(folder.iterdir()) == []


# -- waiting ---------------------------------------------------------------------------------------------------------


def test_a_hand_over_reaches_a_standby_that_waits_at_once(brokers: Brokers) -> None:
    times = hand_overs(brokers, "lease")
    assert min(times) < 4, times  # it looks by itself after five seconds; the machine may be busy at times


def test_the_row_lock_s_hand_over_reaches_a_standby_that_waits(server_brokers: Brokers) -> None:
    assert len(hand_overs(server_brokers, "database")) == HAND_OVERS


@pytest.mark.parametrize("kind", ["lease", "database"])
def test_a_server_tells_how_many_wait(server_brokers: Brokers, kind: str) -> None:
    master, *others = (server_brokers.new(kind).locker() for _ in range(3))
    assert master.acquire() is not None
    assert master.standbys() == 0
    assert [other.acquire() for other in others] == [None, None]
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(other.wait, WAIT_S) for other in others]
        wait_until(lambda: master.standbys() == 2, lambda: f"two wait, not {master.standbys()}")
        master.release()
        for one in waiting:
            one.result(WAIT_S)
    assert others[0].acquire() is not None
    assert others[0].standbys() == 0


HAND_OVERS = 5


def hand_overs(brokers: Brokers, kind: str) -> list[float]:
    """How long it takes from a release until one of two standbys is master, some times, in seconds."""
    one, other, third = (brokers.new(kind) for _ in range(3))
    times = []
    acquired: list[float] = []

    def stand_by() -> None:
        while other.locker().acquire() is None:
            other.locker().wait(5.0)
        acquired.append(time.monotonic())

    for _ in range(HAND_OVERS):
        assert one.locker().acquire() is not None
        assert other.locker().acquire() is None
        assert third.locker().acquire() is None
        waiting = [threading.Thread(target=stand_by), threading.Thread(target=third.locker().wait, args=(5.0,))]
        for thread in waiting:
            thread.start()
        time.sleep(0.3)
        released = time.monotonic()
        one.locker().release()
        for thread in waiting:
            thread.join(WAIT_S)
        times.append(acquired.pop() - released)
        other.locker().release()
    return times


def test_signals_of_other_tables_are_not_ours(brokers: Brokers) -> None:
    ours, prefixed = brokers.new(), open_store(brokers.url + "?table_prefix=X_", JdbcOptions())
    assert isinstance(prefixed, JdbcPersistenceAdapter)
    names = {cast(Any, adapter.locker())._signal for adapter in (ours, brokers.new(), prefixed)}
    assert len(names) == 2
    elsewhere = open_store(f"{brokers.url}_too")
    assert isinstance(elsewhere, JdbcPersistenceAdapter)
    assert cast(Any, elsewhere.locker())._signal not in names


def test_a_standby_waits_when_the_master_died_without_a_signal(brokers: Brokers) -> None:
    """Its session is gone, its lease is not: the standby must not ask in a loop."""
    one, other = brokers.master(), brokers.new()
    assert other.locker().acquire() is None
    session = None if brokers.url.startswith("sqlite") else session_of(one)
    cast(Any, one.locker())._disconnect()
    if session is not None:  # its end must not come while the standby waits
        wait_until(lambda: session not in sessions(brokers.url))
    for _ in range(3):
        began = time.monotonic()
        other.locker().wait(0.3)
        assert time.monotonic() - began > 0.2


def test_a_standby_that_waits_for_a_java_broker_only_looks_now_and_then(brokers: Brokers) -> None:
    one = brokers.new()
    one.locker().acquire()
    one.locker().release()
    assert java(brokers, JAVA_OBTAINS)
    began = time.monotonic()
    one.locker().wait(0.5)
    assert 0.4 < time.monotonic() - began < WAIT_S


def test_waiting_without_a_database_is_only_waiting(server_brokers: Brokers) -> None:
    one, other = server_brokers.new(), server_brokers.new()
    one.locker().acquire()
    assert other.locker().acquire() is None
    killing = threading.Timer(0.3, kill_session, (session_of(other), server_brokers))
    began = time.monotonic()
    killing.start()
    other.locker().wait(1.0)
    killing.join(WAIT_S)
    assert 0.9 < time.monotonic() - began < WAIT_S
    assert asked(other) is None  # its session may have been ended only now


@pytest.mark.parametrize("database", ["postgresql_url", "postgresql18_url"])
def test_a_master_listens_to_nothing(database: str, request: pytest.FixtureRequest) -> None:
    """A listener in an open transaction would keep the server from clearing everybody's notifications away."""
    with opened(request.getfixturevalue(database)) as brokers:
        one, other = brokers.new("database"), brokers.new("database")
        one.locker().acquire()
        assert other.locker().acquire() is None
        other.locker().wait(0.1)
        one.locker().release()
        assert other.locker().acquire() == 2
        connection = cast(Any, other.locker())._connection
        assert connection.execute(text("SELECT pg_listening_channels()")).all() == []


# -- Java brokers ----------------------------------------------------------------------------------------------------


def test_a_java_broker_is_respected(brokers: Brokers) -> None:
    one = brokers.new()
    one.locker().acquire()
    one.locker().release()
    assert java(brokers, JAVA_OBTAINS)
    assert one.locker().acquire() is None
    assert one.locker().status().holder == "java"
    assert java(brokers, JAVA_RENEWS)
    assert one.locker().acquire() is None
    assert java(brokers, JAVA_RELEASES)
    assert one.locker().acquire() == 2


def test_a_java_broker_that_crashed_is_replaced_in_time(brokers: Brokers) -> None:
    one = brokers.new()
    one.locker().acquire()
    one.locker().release()
    assert java(brokers, JAVA_OBTAINS)
    age(brokers)
    assert one.locker().acquire() == 2
    assert not java(brokers, JAVA_RENEWS)


def test_a_java_broker_respects_us(brokers: Brokers) -> None:
    one = brokers.new()
    one.locker().acquire()
    assert not java(brokers, JAVA_OBTAINS)
    assert not java(brokers, JAVA_RENEWS)
    one.locker().renew()
    one.locker().release()
    assert java(brokers, JAVA_OBTAINS)


def test_after_a_java_master_we_are_none(brokers: Brokers) -> None:
    one = brokers.master()
    queue(one).add_message(text_message(1)).result(WAIT_S)
    age(brokers)
    assert java(brokers, JAVA_OBTAINS)
    assert isinstance(queue(one).add_message(text_message(2)).exception(WAIT_S), LeaseLost)
    assert java(brokers, JAVA_RELEASES)
    assert isinstance(queue(one).add_message(text_message(3)).exception(WAIT_S), LeaseLost)
    with pytest.raises(LeaseLost):
        one.locker().renew()
    assert stored(brokers.url) == [1]


def test_while_a_java_broker_is_master_a_renewal_is_refused_and_leaves_its_lease_alone(brokers: Brokers) -> None:
    """It counts no term, so only the name tells."""
    one = brokers.new()
    one.locker().acquire()
    age(brokers)
    assert java(brokers, JAVA_OBTAINS)
    with pytest.raises(LeaseLost, match="java is master"):
        one.locker().renew()
    assert one.locker().status().holder == "java"
    assert java(brokers, JAVA_RENEWS)


def test_tables_that_only_a_java_broker_made_are_not_enough(brokers: Brokers) -> None:
    engine = open_engine(brokers.url)
    upgrade_schema(engine)
    engine.dispose()
    for table in ("JDBCSTORE_VERSION", "JDBCSTORE_TERM"):
        execute(brokers.url, f"DROP TABLE {table}")
    one = brokers.new(creates=False)
    with pytest.raises(SchemaMismatch, match="Run: jdbcstore schema upgrade URL"):
        one.locker().acquire()
    with pytest.raises(SchemaMismatch, match="Run: jdbcstore schema upgrade URL"):
        one.locker().status()
    engine = open_engine(brokers.url)
    upgrade_schema(engine)
    engine.dispose()
    assert one.locker().acquire() == 1


def test_of_tables_that_only_a_java_broker_made_nothing_is_changed_at_a_start(brokers: Brokers) -> None:
    engine = open_engine(brokers.url)
    upgrade_schema(engine)
    for statement in (
        "DROP TABLE JDBCSTORE_VERSION",
        "DROP TABLE JDBCSTORE_TERM",
        "DROP INDEX JDBCSTORE_MSGS_PAGE"
        + ("" if engine.dialect.name in ("sqlite", "postgresql") else " ON ACTIVEMQ_MSGS"),
    ):
        execute(brokers.url, statement)
    with brokers.new() as one, engine.connect() as connection:
        queue(one).add_message(text_message(1)).result(WAIT_S)
        report = inspect_schema(connection)
    engine.dispose()
    assert (report.kind, report.has_paging_index, report.has_term_row) == (SchemaKind.ACTIVEMQ, False, True)


def test_a_lock_table_that_was_made_anew_costs_the_lease(brokers: Brokers) -> None:
    """A Java broker that was told to delete all messages drops the table; its row is new and names nobody."""
    one = brokers.master()
    execute(brokers.url, "DELETE FROM ACTIVEMQ_LOCK")
    assert isinstance(queue(one).add_message(text_message(1)).exception(WAIT_S), LeaseLost)
    with pytest.raises((LeaseLost, SchemaMismatch)):
        one.locker().renew()
    execute(brokers.url, "INSERT INTO ACTIVEMQ_LOCK (ID) VALUES (1)")
    assert brokers.new().locker().acquire() == 2


# -- an adapter with a locker ----------------------------------------------------------------------------------------


def test_an_adapter_that_nobody_made_master_makes_itself_and_resigns_when_it_stops(brokers: Brokers) -> None:
    one = brokers.new()
    with one:
        assert one.locker().status().holder == holder(one)
        queue(one).add_message(text_message(1)).result(WAIT_S)
        second = brokers.new()
        with pytest.raises(LockHeld, match=f"{holder(one)} is master for another .* ms. Stop that broker"):
            second.start()
        assert stored(brokers.url) == [1]
    assert one.locker().status() == LockStatus(None, 1, None)
    with second:
        assert queue(second).message_count == 1


def test_such_an_adapter_keeps_its_lease(brokers: Brokers) -> None:
    other = brokers.new(detect_dead_holder=False)
    with brokers.new(lock_keep_alive_period_ms=100) as one:
        execute(brokers.url, f"UPDATE ACTIVEMQ_LOCK SET TIME = TIME - {LEASE_MS // 2} WHERE ID = 1")
        wait_until(lambda: (other.locker().status().expires_in_ms or 0) > LEASE_MS // 2, "it has renewed its lease")
        assert other.locker().acquire() is None
        queue(one).add_message(text_message(1)).result(WAIT_S)


def test_an_adapter_whose_broker_is_master_leaves_the_lease_to_it(brokers: Brokers) -> None:
    one = brokers.master()
    one.stop()
    assert one.locker().status().holder == holder(one)
    one.start()
    queue(one).add_message(text_message(1)).result(WAIT_S)


def test_a_start_that_fails_leaves_nobody_master(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    one = brokers.new()

    def fails(*arguments: object, **keywords: object) -> None:
        raise TransientStoreError("no more connections")

    with monkeypatch.context() as broken:
        broken.setattr(one, "_take_stock", fails)
        with pytest.raises(TransientStoreError, match="no more connections"):
            one.start()
    assert one.locker().status() == LockStatus(None, 1, None)
    with one:
        assert one.locker().lease is not None


def test_two_on_one_store_need_no_options_to_be_safe(database_url: str) -> None:
    with open_store(database_url), pytest.raises(LockHeld):
        open_store(database_url).start()


def test_who_only_looks_needs_no_mastership(brokers: Brokers) -> None:
    brokers.master()
    with looking_into(f"{brokers.url}?locker=lease") as looking:
        assert looking.destinations() == set()


def test_who_takes_over_knows_what_was_left(brokers: Brokers) -> None:
    standby = brokers.new()
    master = brokers.master()
    assert standby.locker().acquire() is None
    for n in range(1, 4):
        queue(master).add_message(text_message(n)).result(WAIT_S)
    master.stop()
    master.locker().release()
    assert standby.locker().acquire() == 2
    standby.start()
    assert standby.last_message_broker_sequence_id() == 3
    assert queue(standby).message_count == 3
    assert queue(standby).add_message(text_message(4)).result(WAIT_S) == 4


def test_an_adapter_may_be_master_again(brokers: Brokers) -> None:
    one, other = brokers.master(), brokers.new()
    queue(one).add_message(text_message(1)).result(WAIT_S)
    age(brokers)
    assert other.locker().acquire() == 2
    other.start()
    queue(other).add_message(text_message(2)).result(WAIT_S)
    assert isinstance(queue(one).add_message(text_message(3)).exception(WAIT_S), LeaseLost | OutcomeUnknown)
    one.stop()
    other.stop()
    other.locker().release()
    with pytest.raises(LeaseLost):
        one.locker().renew()
    assert one.locker().acquire() == 3
    one.start()
    assert queue(one).message_count == 2
    queue(one).add_message(text_message(4)).result(WAIT_S)
    assert stored(brokers.url) == [1, 2, 4]


# -- the fence -------------------------------------------------------------------------------------------------------


def write(adapter: JdbcPersistenceAdapter, rows: int, *removes: Message) -> Completion[None]:
    """One unit of so many new messages, numbered from 100 on: from a dozen on PostgreSQL takes another way."""
    adds = [(queue(adapter), text_message(100 + n)) for n in range(rows)]
    return adapter.commit_together(Commit(adds=adds, removes=[(queue(adapter), id_of(message)) for message in removes]))


@pytest.mark.parametrize("removing", [False, True])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_a_late_write_of_the_old_master_fails(brokers: Brokers, rows: int, removing: bool) -> None:
    old = brokers.master()
    kept = text_message(1)
    queue(old).add_message(kept).result(WAIT_S)
    age(brokers)
    brokers.successor()
    late = write(old, rows, *([kept] if removing else []))
    assert isinstance(late.exception(WAIT_S), LeaseLost)
    assert stored(brokers.url) == [1]


def test_a_write_whose_session_was_ended_by_the_takeover_is_lost_or_unknown(server_brokers: Brokers) -> None:
    old = server_brokers.master()
    age(server_brokers)
    server_brokers.master()
    assert isinstance(write(old, 1).exception(WAIT_S), LeaseLost | OutcomeUnknown)
    assert isinstance(write(old, 1).exception(WAIT_S), LeaseLost)
    assert stored(server_brokers.url) == []


def test_everything_that_waited_fails_with_it(brokers: Brokers) -> None:
    old = brokers.master()
    age(brokers)
    brokers.successor()
    with one_batch():
        late = [queue(old).add_message(text_message(n)) for n in range(30)]
    assert {type(each.exception(WAIT_S)) for each in late} == {LeaseLost}
    assert isinstance(write(old, 1).exception(WAIT_S), LeaseLost)
    assert stored(brokers.url) == []


@pytest.mark.parametrize("rows", [3, 40])
def test_numbers_that_the_new_master_gave_out_are_no_duplicates_but_a_lost_lease(brokers: Brokers, rows: int) -> None:
    old = brokers.master()
    age(brokers)
    new = brokers.successor()
    for n in range(3):
        queue(new).add_message(text_message(n)).result(WAIT_S)
    assert isinstance(write(old, rows).exception(WAIT_S), LeaseLost)
    assert stored(brokers.url) == [0, 1, 2]


@pytest.mark.parametrize("change", ["update", "purge", "remove", "move", "everything"])
def test_no_kind_of_write_gets_past_the_fence(brokers: Brokers, change: str) -> None:
    old = brokers.master()
    kept = text_message(1)
    queue(old).add_message(kept).result(WAIT_S)
    target = old.queue_message_store(Queue("OTHER"))
    age(brokers)
    brokers.successor()
    before = rows(brokers.url)
    if change == "everything":
        with pytest.raises(LeaseLost):
            old.delete_all_messages()
    else:
        changed = text_message(1, "changed")
        changed.message_id = kept.message_id
        writes: dict[str, Callable[[], Any]] = {
            "update": lambda: queue(old).update_message(changed),
            "purge": lambda: queue(old).remove_all_messages(),
            "remove": lambda: queue(old).remove_message(id_of(kept)),
            "move": lambda: old.move_message(id_of(kept), queue(old), text_message(9), target),
        }
        assert isinstance(writes[change]().exception(WAIT_S), LeaseLost)
    assert rows(brokers.url) == before


def test_a_master_writes_everything(brokers: Brokers) -> None:
    one = brokers.master()
    with one_batch():
        pending = [queue(one).add_message(text_message(n)) for n in range(40)]
    for each in pending:
        each.result(WAIT_S)
    with one_batch():
        more = [queue(one).add_message(text_message(n)) for n in range(40, 80)]
        more.append(cast(Any, queue(one).remove_message(MessageId(id_of(text_message(0)).producer_id, 0))))
    for each in more:
        each.result(WAIT_S)
    assert queue(one).message_count == 79
    assert stored(brokers.url) == list(range(1, 80))
    one.delete_all_messages()
    assert stored(brokers.url) == []


@contextmanager
def in_transaction(brokers: Brokers) -> Iterator[Connection]:
    with connected(brokers.url) as connection:
        connection.exec_driver_sql("BEGIN")
        yield connection


def fence_of(adapter: JdbcPersistenceAdapter) -> Fence:
    fence = cast(LeaseDatabaseLocker, adapter.locker()).fence
    assert fence is not None
    return fence


def test_a_takeover_waits_for_who_has_proved_its_term(server_brokers: Brokers) -> None:
    old, new = server_brokers.master(), server_brokers.new(lease_ms=1000)
    age(server_brokers)
    with in_transaction(server_brokers) as writing:
        old.dialect.prove(raw_connection(writing), fence_of(old))
        assert asked(new) is None  # it waited as long as it may
        assert not blocks_readers(server_brokers)
        writing.exec_driver_sql("COMMIT")
    assert obtained(new) >= 2


def test_a_java_takeover_waits_too(server_brokers: Brokers) -> None:
    old = server_brokers.master()
    age(server_brokers)
    with in_transaction(server_brokers) as writing, connected(server_brokers.url) as other:
        old.dialect.prove(raw_connection(writing), fence_of(old))
        other.exec_driver_sql(IMPATIENT[other.dialect.name])
        with pytest.raises(DBAPIError):
            other.execute(text(JAVA_OBTAINS.format(now=old.dialect.epoch_ms)))
        writing.exec_driver_sql("COMMIT")
        assert other.execute(text(JAVA_OBTAINS.format(now=old.dialect.epoch_ms))).rowcount == 1


def blocks_readers(brokers: Brokers) -> bool:
    """Whether somebody who only looks has to wait."""
    return brokers.new().locker().status().term < 1


@pytest.mark.parametrize("rows", [1, 40])
def test_a_write_waits_for_a_takeover_and_then_fails(server_brokers: Brokers, rows: int) -> None:
    old = server_brokers.master()
    with in_transaction(server_brokers) as taking:
        taking.execute(text("UPDATE ACTIVEMQ_LOCK SET BROKER_NAME='java' WHERE ID = 1"))
        late = write(old, rows)
        with pytest.raises(TimeoutError):
            late.exception(0.2)
        taking.exec_driver_sql("COMMIT")
    assert isinstance(late.exception(WAIT_S), LeaseLost)
    assert stored(server_brokers.url) == []


def test_a_write_waits_for_a_takeover_that_is_undone_and_then_goes_through(server_brokers: Brokers) -> None:
    old = server_brokers.master()
    with in_transaction(server_brokers) as taking:
        taking.execute(text("UPDATE ACTIVEMQ_LOCK SET BROKER_NAME='java' WHERE ID = 1"))
        pending = queue(old).add_message(text_message(1))
        taking.exec_driver_sql("ROLLBACK")
    pending.result(WAIT_S)
    assert stored(server_brokers.url) == [1]


#: Of this database: such locks are the server's, which other tests share.
GATE = "CONCAT('gate ', DATABASE())"
GATES = {
    "postgresql": [
        "CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NULL; END $$",
        "CREATE TRIGGER gate AFTER {event} ON ACTIVEMQ_MSGS FOR EACH STATEMENT EXECUTE FUNCTION gate()",
    ],
    "mysql": ["CREATE TRIGGER gate AFTER {event} ON ACTIVEMQ_MSGS FOR EACH ROW SET @gate = GET_LOCK({gate}, 60)"],
}
SHUT = {"postgresql": "SELECT pg_advisory_lock(4711)", "mysql": f"SELECT GET_LOCK({GATE}, 60)"}
OPEN = {"postgresql": "SELECT pg_advisory_unlock(4711)", "mysql": f"SELECT RELEASE_LOCK({GATE})"}
AT_THE_GATE = {
    "postgresql": "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    "mysql": "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock' AND DB = DATABASE()",
}


@contextmanager
def gate(url: str, event: str) -> Iterator[tuple[Callable[[], bool], Callable[[], None]]]:
    """Stop a kind of writes in the middle of their transaction: whether one is there, and how to let it on."""
    with connected(url) as keeper, connected(url) as looker:
        name = "postgresql" if keeper.dialect.name == "postgresql" else "mysql"
        for statement in GATES[name]:
            keeper.exec_driver_sql(statement.format(event=event, gate=GATE))
        keeper.exec_driver_sql(SHUT[name])
        yield (
            lambda: looker.exec_driver_sql(AT_THE_GATE[name]).scalar_one() > 0,
            lambda: keeper.exec_driver_sql(OPEN[name]).close(),
        )


def test_a_purge_keeps_neither_renewal_nor_takeover_waiting_and_is_not_committed_late(server_brokers: Brokers) -> None:
    old = server_brokers.master()
    queue(old).add_message(text_message(1)).result(WAIT_S)
    with gate(server_brokers.url, "DELETE") as (somebody_is_there, let_on):
        with one_batch() as held:
            queue(old).add_message(text_message(2))
            assert held.wait(WAIT_S)
            purge, add = queue(old).remove_all_messages(), queue(old).add_message(text_message(3))
        wait_until(somebody_is_there)
        take_over_meanwhile(server_brokers, old)
        let_on()
        assert isinstance(purge.exception(WAIT_S), LeaseLost)
        assert isinstance(add.exception(WAIT_S), LeaseLost)
    assert stored(server_brokers.url) == [1, 2]


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("database", ["mariadb_url", "mysql_url"])
def test_a_takeover_waits_for_a_commit_that_proves_its_term_with_its_first_row(
    database: str, rows: int, request: pytest.FixtureRequest
) -> None:
    with opened(request.getfixturevalue(database)) as brokers:
        old, new = brokers.master(), brokers.new(lease_ms=1000)
        age(brokers)
        with gate(brokers.url, "INSERT") as (somebody_is_there, let_on):
            late = write(old, rows)
            wait_until(somebody_is_there)
            assert asked(new) is None
            let_on()
            late.result(WAIT_S)
        assert obtained(new) >= 2
        assert len(stored(brokers.url)) == rows


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("database", ["postgresql_url", "postgresql18_url"])
def test_nor_does_any_write_on_postgresql(database: str, rows: int, request: pytest.FixtureRequest) -> None:
    with opened(request.getfixturevalue(database)) as brokers:
        old = brokers.master()
        with gate(brokers.url, "INSERT") as (somebody_is_there, let_on):
            late = write(old, rows)
            wait_until(somebody_is_there)
            take_over_meanwhile(brokers, old)
            let_on()
            assert isinstance(late.exception(WAIT_S), LeaseLost)
        assert stored(brokers.url) == []


def take_over_meanwhile(brokers: Brokers, old: JdbcPersistenceAdapter) -> None:
    """Renew, then let another be master, without ending the sessions of the old one, which is another test's matter."""
    old.locker().renew()
    age(brokers)
    new = brokers.new()
    cast(Any, new.locker())._end_sessions_of = lambda former, connection: None
    assert new.locker().acquire() == 2


def test_without_the_fence_a_late_write_is_seen(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the fence is for, and that the switch for the test that must be able to fail does turn it off."""
    monkeypatch.setenv("_JDBCSTORE_UNFENCED", "1")
    old = brokers.master()
    age(brokers)
    brokers.successor()
    queue(old).add_message(text_message(1)).result(WAIT_S)
    assert stored(brokers.url) == [1]


# -- stuck holders ---------------------------------------------------------------------------------------------------


@contextmanager
def stuck_in_a_commit(brokers: Brokers, master: JdbcPersistenceAdapter, *, named: bool) -> Iterator[Connection]:
    """A writing session of the master whose process was stopped in the middle of a transaction."""
    with connected(brokers.url) as stuck:
        fence = fence_of(master)
        if named:
            master.dialect.fenced(stuck, fence)
        stuck.exec_driver_sql("BEGIN")
        stuck.exec_driver_sql("INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER) VALUES (1, 'queue://TEST')")
        yield stuck
        stuck.invalidate()


def test_a_takeover_ends_what_the_old_master_left(server_brokers: Brokers) -> None:
    dead = server_brokers.new()
    dead.locker().acquire()
    dead.start()
    dead.stop()  # its own writer's session has the name
    with stuck_in_a_commit(server_brokers, dead, named=True) as stuck:
        age(server_brokers)
        new = server_brokers.master()
        assert queue(new).add_message(text_message(7)).result(WAIT_S) == 1
        with pytest.raises(DBAPIError):
            stuck.exec_driver_sql("COMMIT")
    assert stored(server_brokers.url) == [7]


class Stalled(io.RawIOBase):
    """Rows for COPY of which the second never comes: as from a process that was stopped while it sent them."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()
        self._rows = [b"1\tqueue://TEST\n"]

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._rows:
            return self._rows.pop()
        self.asked.set()
        self.go.wait(WAIT_S)
        return b""


@pytest.mark.parametrize("database", ["postgresql_url", "postgresql18_url"])
def test_a_takeover_ends_a_copy_that_no_time_out_ends(database: str, request: pytest.FixtureRequest) -> None:
    with opened(request.getfixturevalue(database)) as brokers, connected(brokers.url) as stuck:
        dead = brokers.new()
        dead.locker().acquire()
        dead.start()
        dead.stop()
        dead.dialect.fenced(stuck, fence_of(dead))
        raw: Any = raw_connection(stuck)
        pid = raw.info.backend_pid
        cursor = raw.cursor()
        cursor.execute("BEGIN")
        rows = Stalled()
        outcome: list[BaseException] = []

        def copy() -> None:
            try:
                cursor.copy_expert("COPY ACTIVEMQ_MSGS (ID, CONTAINER) FROM STDIN", rows)
            except psycopg2.Error as error:
                outcome.append(error)

        copying = threading.Thread(target=copy)
        copying.start()
        assert rows.asked.wait(WAIT_S)
        with connected(brokers.url) as other:
            query = text("SELECT state FROM pg_stat_activity WHERE pid = :pid")
            age(brokers)
            new = brokers.new()
            assert new.locker().acquire() == 2
            wait_until(lambda: other.execute(query, {"pid": pid}).scalar() is None)
        new.start()
        assert queue(new).add_message(text_message(7)).result(WAIT_S) == 1
        rows.go.set()
        copying.join(WAIT_S)
        assert outcome
        stuck.invalidate()
        assert stored(brokers.url) == [7]


@pytest.mark.parametrize("database", ["postgresql_url", "postgresql18_url", "mariadb_url"])
def test_the_server_ends_a_writer_that_falls_silent_in_a_transaction(
    database: str, request: pytest.FixtureRequest
) -> None:
    with opened(request.getfixturevalue(database)) as brokers:
        master = brokers.master()
        age(brokers)
        with connected(brokers.url) as stuck:
            master.dialect.fenced(stuck, replace(fence_of(master), idle_ms=2000))
            stuck.exec_driver_sql("BEGIN")
            master.dialect.prove(raw_connection(stuck), fence_of(master))
            assert brokers.new().locker().acquire() == 2  # blocked by the proof until the server ends it
            with pytest.raises(DBAPIError):
                stuck.exec_driver_sql("COMMIT")
            stuck.invalidate()


@pytest.mark.parametrize(
    ("database", "setting", "value"),
    [
        ("postgresql_url", "SHOW idle_in_transaction_session_timeout", "20s"),
        ("postgresql18_url", "SHOW idle_in_transaction_session_timeout", "20s"),
        ("mariadb_url", "SELECT @@SESSION.idle_transaction_timeout", 20),
    ],
)
def test_the_writer_s_session_has_a_time_out_of_half_the_lease(
    database: str, setting: str, value: object, request: pytest.FixtureRequest
) -> None:
    with opened(request.getfixturevalue(database)) as brokers:
        one = brokers.master(lease_ms=40_000)
        queue(one).add_message(text_message(1)).result(WAIT_S)
        writing = cast(Any, one.writer)._connection
        assert writing.exec_driver_sql(setting).scalar_one() == value


def test_the_next_master_finds_the_writer_s_session_by_its_name(server_brokers: Brokers) -> None:
    one = server_brokers.master()
    queue(one).add_message(text_message(1)).result(WAIT_S)
    with connected(server_brokers.url) as other:
        assert one.dialect.end_sessions(other, holder(one)) == 1


@pytest.mark.parametrize("database", ["postgresql_url", "postgresql18_url", "mariadb_url", "mysql_url"])
def test_the_server_ends_an_exclusive_lock_s_session_after_a_lease_at_most(
    database: str, request: pytest.FixtureRequest
) -> None:
    with opened(request.getfixturevalue(database)) as brokers:
        one = brokers.new("database", lease_ms=40_000)
        one.locker().acquire()
        connection = cast(Any, one.locker())._connection
        is_postgresql = connection.dialect.name == "postgresql"
        setting = "SHOW idle_in_transaction_session_timeout" if is_postgresql else "SELECT @@SESSION.wait_timeout"
        assert connection.exec_driver_sql(setting).scalar_one() == ("40s" if is_postgresql else 40)


@pytest.mark.parametrize("server_name", ["postgresql", "mariadb", "mysql"])
def test_an_answer_that_was_lost_is_no_lost_lease(server_name: str, request: pytest.FixtureRequest) -> None:
    server: DatabaseServer = request.getfixturevalue(server_name)
    url: str = request.getfixturevalue(f"{server_name}_url")
    with Proxy(server.port) as proxy:
        through = proxy.url(url) + ("?ssl_disabled=true" if server_name == "mysql" else "")
        with opened(through) as brokers:
            one = brokers.new()
            one.locker().acquire()
            one.locker().release()
            trap = proxy.cut_at(b"TERM + 1", deliver=True)
            with pytest.raises(TransientStoreError):
                one.locker().acquire()
            assert trap.is_set()
            wait_until(lambda: one.locker().acquire() is not None)  # a busy server may be late
            lease = one.locker().lease
            assert lease is not None
            assert lease.term in (2, 3)
            trap = proxy.cut_at(b"SET TIME =", deliver=True)
            with pytest.raises(TransientStoreError):
                one.locker().renew()
            assert one.locker().lease is not None
            one.locker().renew()


def taking(one: JdbcPersistenceAdapter, seen: int) -> dict[str, object]:
    """The parameters of a take-over that does not mind its own lease."""
    return {"holder": holder(one), "lease_ms": LEASE_MS, "former": holder(one), "seen": seen}


def test_a_takeover_that_runs_late_begins_no_term(brokers: Brokers) -> None:
    one = brokers.master()
    with connected(brokers.url) as late:
        assert not one.dialect.take_over(late, taking(one, 0))
        assert one.locker().status().term == 1
        one.locker().renew()
        assert one.dialect.take_over(late, taking(one, 1))


def test_a_takeover_sees_the_term_that_it_has_waited_for(server_brokers: Brokers) -> None:
    one = server_brokers.master()
    with connected(server_brokers.url) as late, ThreadPoolExecutor() as pool:
        with in_transaction(server_brokers) as first:
            assert one.dialect.take_over(first, taking(one, 1))
            waiting = pool.submit(one.dialect.take_over, late, taking(one, 1))
            with pytest.raises(TimeoutError):
                waiting.result(0.5)
            first.exec_driver_sql("COMMIT")
        assert not waiting.result(WAIT_S)
    assert one.locker().status().term == 2


# -- the exclusive row lock ------------------------------------------------------------------------------------------

JAVA_LOCKS = "SELECT * FROM ACTIVEMQ_LOCK FOR UPDATE"


def test_the_row_lock_makes_one_master(server_brokers: Brokers) -> None:
    one, other = server_brokers.new("database"), server_brokers.new("database")
    assert one.locker().acquire() == 1
    assert other.locker().acquire() is None
    assert other.locker().status() == one.locker().status() == LockStatus(holder(one), 1, None)
    one.locker().renew()
    one.locker().release()
    assert other.locker().status() == LockStatus(None, 1, None)
    assert other.locker().acquire() == 2
    assert one.locker().acquire() is None


def test_the_row_lock_goes_with_its_session(server_brokers: Brokers) -> None:
    one, other = server_brokers.master("database"), server_brokers.new("database")
    kill_session(session_of(one), server_brokers)
    wait_until(lambda: other.locker().acquire() == 2)
    with pytest.raises(LeaseLost):
        one.locker().renew()
    assert one.locker().lease is None
    assert isinstance(queue(one).add_message(text_message(1)).exception(WAIT_S), LeaseLost | OutcomeUnknown)
    other.start()
    queue(other).add_message(text_message(2)).result(WAIT_S)
    assert stored(server_brokers.url) == [2]


@pytest.mark.parametrize("removing", [False, True])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_a_late_write_after_the_row_lock_s_session_has_ended_fails(
    server_brokers: Brokers, rows: int, removing: bool
) -> None:
    """The locker has not noticed yet, a Java broker has the row, and no term was counted."""
    old = server_brokers.master("database")
    kept = text_message(1)
    queue(old).add_message(kept).result(WAIT_S)
    kill_session(session_of(old), server_brokers)
    with connected(server_brokers.url) as java_broker:
        java_broker.exec_driver_sql("BEGIN")
        wait_until(lambda: locks(java_broker))
        late = write(old, rows, *([kept] if removing else []))
        assert isinstance(late.exception(WAIT_S), LeaseLost)
        java_broker.exec_driver_sql("ROLLBACK")
    assert stored(server_brokers.url) == [1]
    with pytest.raises(LeaseLost):
        old.locker().renew()


def test_a_master_by_row_lock_writes_everything(server_brokers: Brokers) -> None:
    one = server_brokers.master("database")
    kept = text_message(1)
    queue(one).add_message(kept).result(WAIT_S)
    write(one, 40, kept).result(WAIT_S)
    one.locker().renew()
    queue(one).remove_all_messages().result(WAIT_S)
    write(one, 3).result(WAIT_S)
    assert stored(server_brokers.url) == [100, 101, 102]


def session_of(adapter: JdbcPersistenceAdapter) -> int:
    """The number of the locker's session."""
    connection = cast(Any, adapter.locker())._connection
    name = "pg_backend_pid" if connection.dialect.name == "postgresql" else "CONNECTION_ID"
    return int(connection.execute(text(f"SELECT {name}()")).scalar_one())


def sessions(url: str) -> set[int]:
    """The numbers of all sessions that the server has."""
    with connected(url) as looker:
        is_postgresql = looker.dialect.name == "postgresql"
        found = looker.exec_driver_sql("SELECT pid FROM pg_stat_activity" if is_postgresql else "SHOW PROCESSLIST")
        return {int(row[0]) for row in found}


def kill_session(session: int, brokers: Brokers) -> None:
    with connected(brokers.url) as other:
        is_postgresql = other.dialect.name == "postgresql"
        other.execute(text(f"SELECT pg_terminate_backend({session})" if is_postgresql else f"KILL {session}"))


def test_the_server_ends_a_row_lock_whose_holder_falls_silent(server_brokers: Brokers) -> None:
    one, other = server_brokers.new("database", lease_ms=1000), server_brokers.new("database")
    term = obtained(one)
    assert obtained(other) > term
    with pytest.raises(LeaseLost):
        one.locker().renew()


@pytest.mark.parametrize("database", ["mariadb_url", "mysql_url"])
def test_a_standby_by_row_lock_may_ask_less_often_than_a_lease_is_long(
    database: str, request: pytest.FixtureRequest
) -> None:
    with opened(request.getfixturevalue(database)) as brokers:
        brokers.new("database").locker().acquire()
        standby = brokers.new("database", lease_ms=1000)
        assert asked(standby) is None
        asking = cast(Any, standby.locker())._connection
        assert asking.exec_driver_sql("SELECT @@SESSION.wait_timeout").scalar_one() >= 60


def test_a_java_broker_s_row_lock_is_respected_and_respects_ours(server_brokers: Brokers) -> None:
    one = server_brokers.new("database")
    one.locker().acquire()
    with connected(server_brokers.url) as other:
        other.exec_driver_sql(IMPATIENT[other.dialect.name])
        other.exec_driver_sql("BEGIN")
        with pytest.raises(DBAPIError):
            other.exec_driver_sql(JAVA_LOCKS)
        other.exec_driver_sql("ROLLBACK")
        one.locker().release()
        other.exec_driver_sql("BEGIN")
        wait_until(lambda: locks(other))
        assert one.locker().acquire() is None
        assert asked(server_brokers.new("lease", lease_ms=1000)) is None
        other.exec_driver_sql("ROLLBACK")
    assert one.locker().acquire() == 2


def locks(connection: Connection) -> bool:
    try:
        connection.exec_driver_sql(JAVA_LOCKS)
    except DBAPIError:
        connection.exec_driver_sql("ROLLBACK")
        connection.exec_driver_sql("BEGIN")
        return False
    return True


def test_the_row_lock_and_the_lease_respect_each_other(server_brokers: Brokers) -> None:
    leased, locked = server_brokers.new("lease"), server_brokers.new("database")
    leased.locker().acquire()
    assert locked.locker().acquire() is None
    leased.locker().release()
    assert locked.locker().acquire() == 2
    assert asked(server_brokers.new("lease", lease_ms=1000)) is None  # it waits for the row as long as it may


@pytest.mark.parametrize("database", ["postgresql_url", "postgresql18_url"])
def test_the_row_lock_does_not_stand_in_the_way_of_vacuum(database: str, request: pytest.FixtureRequest) -> None:
    with opened(request.getfixturevalue(database)) as brokers:
        one = brokers.master("database")
        one.locker().renew()
        pid = cast(Any, one.locker())._connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with connected(brokers.url) as other:
            horizon = text("SELECT state, backend_xid, backend_xmin FROM pg_stat_activity WHERE pid = :pid")
            assert other.execute(horizon, {"pid": pid}).one() == ("idle in transaction", None, None)


def test_no_row_lock_on_a_file(tmp_path: object) -> None:
    with pytest.raises(ConfigurationError, match="use 'lease'"):
        open_store(f"sqlite:///{tmp_path}/one.db", JdbcOptions(locker="database"))


def test_no_locker_asks_nobody(database_url: str) -> None:
    with open_store(database_url, JdbcOptions(locker="none")) as adapter:
        assert isinstance(adapter, JdbcPersistenceAdapter)
        locker = adapter.locker()
        assert locker.acquire() == 0
        locker.renew()
        lease = locker.lease
        assert lease is not None
        assert lease.is_trusted(boot_time_ns())
        assert locker.status() == LockStatus(None, 0, None)
        locker.release()
        queue(adapter).add_message(text_message(1)).result(WAIT_S)
