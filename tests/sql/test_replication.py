"""What is required of a database's replicas, and what becomes of a master whose database is an older copy of itself.

PostgreSQL on one server: what it says when nobody waits for standbys. Clusters are `tests.failover.test_patroni`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from jdbcstore.errors import HistoryLost, NotReplicated
from jdbcstore.store.jdbc.connection import opened as looked_into
from jdbcstore.store.jdbc.dialect import ConnectionLost
from jdbcstore.store.jdbc.location import StoreLocation
from jdbcstore.store.jdbc.lockers import DatabaseLocker, LeaseDatabaseLocker
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.replication import Level, Replication
from jdbcstore.store.lease import LockerOptions
from tests.broker_process import BrokerProcess
from tests.servers.postgresql import PostgreSQLServer
from tests.servers.proxy import Proxy
from tests.servers.server import free_port
from tests.sql.test_synchronous_standbys import DATABASE, make_tables, standby_away

LOCKERS = [LeaseDatabaseLocker, DatabaseLocker]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQLServer]:
    with PostgreSQLServer(15) as server:
        server.create_database(DATABASE)
        make_tables(server)
        yield server


@pytest.fixture(params=LOCKERS)
def locker_class(request: pytest.FixtureRequest) -> type[LeaseDatabaseLocker | DatabaseLocker]:
    """Each kind."""
    return request.param  # type: ignore[no-any-return]  # one of the above


def locker(
    server: PostgreSQLServer, kind: type[LeaseDatabaseLocker | DatabaseLocker], required: str
) -> LeaseDatabaseLocker | DatabaseLocker:
    options = JdbcOptions(require_replication=required, lock=LockerOptions(lease_ms=30_000))
    return kind(make_url(server.url(DATABASE)), options)


def replication(server: PostgreSQLServer) -> Replication:
    with looked_into(StoreLocation(make_url(server.url(DATABASE)))) as store:
        return store.dialect.replication(store.connection)


@pytest.mark.parametrize("required", ["any", "quorum"])
def test_nobody_is_master_where_fewer_replicas_are_waited_for(
    server: PostgreSQLServer, locker_class: type[LeaseDatabaseLocker | DatabaseLocker], required: str
) -> None:
    one = locker(server, locker_class, required)
    with pytest.raises(NotReplicated, match=f"require_replication = {required}, and the database gives none"):
        one.acquire()
    assert one.lease is None
    one.release()


@pytest.mark.parametrize(
    ("setting", "level", "weakness"),
    [
        ("on", Level.QUORUM, None),
        ("remote_apply", Level.QUORUM, None),
        ("remote_write", Level.ANY, "standbys answer before it is on their disks"),
        ("local", Level.NONE, "commits do not wait for the synchronous standbys"),
        ("off", Level.NONE, "within about the last second is gone after a crash"),
    ],
)
def test_what_a_session_waits_for(server: PostgreSQLServer, setting: str, level: Level, weakness: str | None) -> None:
    server.execute(f"ALTER DATABASE {DATABASE} SET synchronous_commit = '{setting}'")
    try:
        with standby_away(server):
            found = replication(server)
    finally:
        server.execute(f"ALTER DATABASE {DATABASE} RESET synchronous_commit")
    assert found.level is level
    assert f"synchronous_commit = {setting}, synchronous_standby_names = 'nobody'" in found.told
    assert [weakness or ""] == [text if weakness is None else weakness for text in found.weaknesses or ("",)]
    assert weakness is None or weakness in found.weaknesses[0]


def take_back(server: PostgreSQLServer, first: str = "") -> None:
    """Let the database forget the last term, as a standby that is promoted and did not have it."""
    server.execute(f"{first} UPDATE jdbcstore_term SET term = term - 1, holder = 'former'", database=DATABASE)


def test_a_term_that_the_database_has_forgotten_is_not_given_out_again(
    server: PostgreSQLServer,
    locker_class: type[LeaseDatabaseLocker | DatabaseLocker],
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = locker(server, locker_class, "none")
    first = one.acquire()
    assert first is not None
    one.release()
    take_back(server)
    with caplog.at_level(logging.ERROR):
        assert one.acquire() == first + 1
    one.release()
    assert f"the database is an older copy: term {first} of" in caplog.text


def test_with_replicas_required_nobody_goes_on_with_an_older_copy(
    server: PostgreSQLServer, locker_class: type[LeaseDatabaseLocker | DatabaseLocker]
) -> None:
    first = locker(server, locker_class, "none")
    standby = locker(server, locker_class, "any")
    assert first.acquire() is not None
    with standby_away(server):
        assert standby.acquire() is None  # it sees the term, and who has it
    first.release()
    take_back(server)
    with standby_away(server), pytest.raises(HistoryLost, match="start the broker again"):
        standby.acquire()
    standby.release()


def test_a_standby_that_sees_its_history_gone_is_suspended_until_it_is_started_again(
    server: PostgreSQLServer, tmp_path: Path
) -> None:
    url = f"{server.url(DATABASE)}?require_replication=any&lease_ms=60000&lock_acquire_sleep_interval_ms=200"
    options = JdbcOptions(lock=LockerOptions(lease_ms=60_000))
    first = LeaseDatabaseLocker(make_url(server.url(DATABASE)), options)
    term = first.acquire()
    broker = BrokerProcess(url, tmp_path)
    try:
        with standby_away(server):
            broker.start_standby()
            seen = broker.health()[1]["reason"]
            take_back(server, "SET synchronous_commit = local;")
            broker.wait_for("suspended")
            code, told = broker.health("/ready")
            assert code == 503
            assert f"the database is an older copy: term {term} of {first.holder} had begun" in told["reason"]
            assert "To go on all the same start the broker again" in told["reason"]
            assert broker.health("/live")[0] == 200
            assert broker.stop() == 0
            broker.start_standby()  # somebody knows
            assert broker.health()[1]["reason"] == seen
            assert broker.stop() == 0
    finally:
        if broker.is_running:
            broker.kill()
        first.release()


def test_a_host_that_lets_in_and_hangs_up_is_passed_over(server: PostgreSQLServer) -> None:
    """libpq would stop there. The last that was right is the first that is tried."""
    with Proxy(free_port()) as dead:
        url = make_url(server.url(DATABASE)).set(host=None, port=None)
        url = url.update_query_dict({"host": [f"127.0.0.1:{dead.port}", f"127.0.0.1:{server.port}"]})
        for _ in range(2):
            with looked_into(StoreLocation(url)) as store:
                assert store.dialect.replication(store.connection).takes_writes


def test_when_no_host_is_right_each_is_told(server: PostgreSQLServer) -> None:
    url = make_url(server.url(DATABASE)).set(host=None, port=None)
    away = free_port()
    url = url.update_query_dict({"host": [f"127.0.0.1:{away}", f"127.0.0.1:{server.port}"]})
    location = StoreLocation(url, JdbcOptions(read_from="standby"))
    refused = (
        rf'port {away} failed: Connection refused.*; connection to server at "127.0.0.1", port {server.port} failed'
    )
    with pytest.raises(ConnectionLost, match=refused), looked_into(location):
        pass


def test_a_server_that_does_not_tell_of_its_log_is_one_server(
    server: PostgreSQLServer, locker_class: type[LeaseDatabaseLocker | DatabaseLocker]
) -> None:
    """As services have it that take functions away from their users."""
    functions = ("pg_control_system()", "pg_walfile_name(pg_lsn)", "pg_stat_get_wal_senders()")
    for function in functions:
        server.execute(f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC", database=DATABASE)
    try:
        one = locker(server, locker_class, "none")
        first = one.acquire()
        assert first is not None
        one.release()
        assert one.acquire() == first + 1
        one.release()
        assert replication(server).told == "a server that does not tell of its replicas"
    finally:
        for function in functions:
            server.execute(f"GRANT EXECUTE ON FUNCTION {function} TO PUBLIC", database=DATABASE)
