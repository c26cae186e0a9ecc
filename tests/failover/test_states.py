"""Brokers on real servers go through their states: who serves when, and for how long nobody does."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pymysql
import pytest
from sqlalchemy import Connection, create_engine, make_url, text
from sqlalchemy.exc import OperationalError

from jdbcstore.config.urls import open_store
from jdbcstore.store.contract import LockStatus, SupportsLocking
from jdbcstore.store.jdbc.lockers import signal_name
from jdbcstore.store.jdbc.statements import Statements
from tests.broker.client import Address, Client
from tests.broker_process import BrokerProcess
from tests.servers.mariadb import MariaDBServer
from tests.servers.mysql import MySQLServer
from tests.servers.postgresql import PostgreSQLServer
from tests.servers.proxy import Proxy
from tests.servers.server import USER, DatabaseServer
from tests.waiting import Standstill, wait_until

pytestmark = [pytest.mark.timeout(180), pytest.mark.one_in(3, of="mariadb mysql")]

#: Longer than a machine that is busy stands still: a master that runs must not lose it.
LEASE_S = 6.0
LEASE = f"lease_ms={LEASE_S * 1000:.0f}&lock_acquire_sleep_interval_ms=200"
#: As for a broker on another machine: its lease is waited for although it is known to be dead.
FAR = f"{LEASE}&detect_dead_holder=false"
#: A lease that nobody waits for: who takes over sooner than this has not waited for it, on a busy machine either.
LONG = "lease_ms=60000&lock_acquire_sleep_interval_ms=200"
#: A master that has dropped its clients has a lease in the database for the rest of its margin: less than this.
PAST_LEASE_S = 1.0
#: What the broker does within a second, on a machine that is busy with other tests: sooner than anything times out.
SOON_S = 25.0

SERVERS: dict[str, Callable[[], DatabaseServer]] = {
    "postgresql": lambda: PostgreSQLServer(15),
    "mariadb": MariaDBServer,
    "mysql": MySQLServer,
}


#: What is about the driver, which MariaDB and MySQL have in common, and not about the server's statements.
of_drivers = pytest.mark.parametrize("server", ["postgresql", "mariadb"], indirect=True, scope="module")
#: What brokers do among themselves, whatever the server: the others show it where there is time.
of_brokers = pytest.mark.parametrize(
    "server",
    ["postgresql", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("mariadb", "mysql"))],
    indirect=True,
    scope="module",
)


# MariaDB and MySQL have dialect and driver in common.
@pytest.fixture(scope="module", params=["postgresql", "mariadb", pytest.param("mysql", marks=pytest.mark.exhaustive)])
def server(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    """A server of this module's own; every test leaves it running."""
    with SERVERS[request.param]() as own:
        yield own


@pytest.fixture
def url(server: DatabaseServer) -> str:
    """A fresh database on it."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    server.create_database(name)
    return server.url(name)


@pytest.fixture
def proxy(server: DatabaseServer) -> Iterator[Proxy]:
    """A way to the server that can be blocked."""
    with Proxy(server.port) as proxy:
        yield proxy


StartProcess = Callable[..., BrokerProcess]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[StartProcess]:
    """A broker process, not started: ``process(url)``; options of the broker as lines of TOML."""
    with ExitStack() as stack:
        count = 0

        def make(url: str, options: str = "") -> BrokerProcess:
            nonlocal count
            count += 1
            folder = tmp_path / f"node-{count}"
            folder.mkdir()
            (folder / "broker.toml").write_text(f"[broker]\n{options}\n")
            broker = BrokerProcess(url, folder, "--config", "broker.toml", "--name", folder.name)
            stack.callback(lambda: broker.kill() if broker.is_running else None)
            return broker

        yield make


def address_of(broker: BrokerProcess) -> Address:
    return ("127.0.0.1", broker.port)


def states_of(broker: BrokerProcess) -> list[str]:
    """Where it has been according to its log, the start left out."""
    changes = [line for line in broker.log().splitlines() if "state changed" in line]
    pairs = [line.partition("from=")[2].split(" to=") for line in changes]
    return [after.partition(" ")[0] for before, after in pairs if before != after.partition(" ")[0]]


def term_of(broker: BrokerProcess) -> int:
    term = broker.health()[1]["term"]
    assert isinstance(term, int)
    return term


def waits(broker: BrokerProcess, state: str, within_s: float) -> None:
    """Wait until it is in a state; it must not take longer."""
    began_s = time.monotonic()
    broker.wait_for(state)
    took_s = time.monotonic() - began_s
    assert took_s < within_s, f"it took {took_s:.1f} s to become {state}\n{broker.log()}"


def publish(broker: BrokerProcess, *bodies: str) -> None:
    """Send persistent messages; each has its receipt."""
    with Client(address_of(broker)) as client:
        client.connect()
        for body in bodies:
            client.publish("/queue/A", body)


def receive_all(broker: BrokerProcess) -> list[str]:
    """Everything that is in the queue, acknowledged."""
    with Client(address_of(broker)) as client:
        client.connect()
        return client.rest_of("/queue/A")


def lock_status(url: str) -> LockStatus:
    """What the database itself says, past all proxies."""
    store = open_store(url)
    assert isinstance(store, SupportsLocking)
    locker = store.locker()
    try:
        return locker.status()
    finally:
        locker.release()


class Idle:
    """A client that has nothing to say and notes when it is dropped."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.dropped_s: float | None = None
        self.told = ""
        self._client = Client(address_of(broker), timeout_s=60)
        self._client.connect()
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        with self._client, suppress(OSError):
            self.told = self._client.frame().headers["message"]
        self.dropped_s = time.monotonic()

    def join(self, timeout_s: float) -> float:
        """Wait until it is dropped; returns when that was."""
        self._thread.join(timeout_s)
        assert self.dropped_s is not None, "the broker keeps its client"
        return self.dropped_s


# -- from one to the other ---------------------------------------------------------------------------------------------


def test_a_clean_stop_hands_over_within_a_second(process: StartProcess, url: str) -> None:
    first, second = process(f"{url}?{LONG}"), process(f"{url}?{LONG}")
    first.start()
    second.start_standby()
    publish(first, "1", "2")
    began_s = time.monotonic()
    assert first.stop() == 0
    second.wait_for("master")
    assert time.monotonic() - began_s < SOON_S, second.log()
    assert receive_all(second) == ["1", "2"]
    assert term_of(second) == 2


@of_brokers
def test_a_crash_costs_the_lease_and_a_second_at_most(process: StartProcess, url: str) -> None:
    first, second = process(f"{url}?{FAR}"), process(f"{url}?{FAR}")
    first.start()
    second.start_standby()
    publish(first, "1", "2")
    first.kill()
    waits(second, "master", LEASE_S + SOON_S)
    assert receive_all(second) == ["1", "2"]


def test_a_crash_on_the_same_machine_costs_a_second_at_most(process: StartProcess, url: str) -> None:
    first, second = process(f"{url}?{LONG}"), process(f"{url}?{LONG}")
    first.start()
    second.start_standby()
    first.kill()
    waits(second, "master", SOON_S)
    assert "has ended, not waiting for its lease" in second.log()


@of_brokers
def test_a_paused_master_serves_nobody_any_more_while_the_other_does(process: StartProcess, url: str) -> None:
    first, second = process(f"{url}?{LEASE}"), process(f"{url}?{LEASE}")
    first.start()
    second.start_standby()
    idle = Idle(first)
    with Client(address_of(first)) as sender:
        sender.connect()
        sender.publish("/queue/A", "1")
        first.pause()
        sender.send("SEND", {"destination": "/queue/A", "persistent": "true", "receipt": "2"}, "2")
        waits(second, "master", LEASE_S + SOON_S)
        publish(second, "3")
        first.proceed()
        idle.join(SOON_S)
        with suppress(ConnectionError):
            assert sender.frame().command == "ERROR"
        assert sender.is_closed()
    waits(first, "standby", SOON_S)
    assert second.state() == "master"
    assert receive_all(second) == ["1", "3"]
    assert states_of(first)[-3:] == ["master", "suspended", "standby"]


# -- a database that cannot be asked -----------------------------------------------------------------------------------


@of_drivers
def test_renewals_that_hang_end_service_before_anybody_else_may_begin(
    process: StartProcess, url: str, proxy: Proxy
) -> None:
    """The connection stays open and nothing comes back. The lease that the database has given is still running when
    the last client is dropped, so nobody else can have begun."""
    lease_s = 2 * LEASE_S  # so that a busy machine has time to look on before it has run out
    far = FAR.replace(f"lease_ms={LEASE_S * 1000:.0f}", f"lease_ms={lease_s * 1000:.0f}")
    first, second = process(f"{proxy.url(url)}?{far}"), process(f"{url}?{far}")
    first.start()
    second.start_standby()
    holder = first.health()[1]["holder"]
    idle = Idle(first)
    with Standstill() as still:
        proxy.pause()
        asked_s, status = time.monotonic(), lock_status(url)
        assert status.holder == holder
        assert status.expires_in_ms is not None
        dropped_s = idle.join(lease_s + SOON_S)
        expires_s = asked_s + status.expires_in_ms / 1000
        state = second.state()
        assert dropped_s < expires_s + still.between(asked_s, dropped_s)
        assert state == "standby" or still.between(asked_s, time.monotonic()) > 0
    assert "not renewed in time" in idle.told
    second.wait_for("recovering", "master")
    assert time.monotonic() > dropped_s
    waits(second, "master", SOON_S)
    assert first.state() == "suspended"
    proxy.resume()
    waits(first, "standby", SOON_S)
    assert second.state() == "master"


@of_drivers
def test_a_master_whose_network_is_cut_comes_back_as_standby(process: StartProcess, url: str, proxy: Proxy) -> None:
    first, second = process(f"{proxy.url(url)}?{FAR}"), process(f"{url}?{FAR}")
    first.start()
    second.start_standby()
    publish(first, "1")
    idle = Idle(first)
    proxy.cut()
    dropped_s = idle.join(LEASE_S + SOON_S)
    second.wait_for("recovering", "master")
    assert time.monotonic() > dropped_s
    second.wait_for("master")
    publish(second, "2")
    proxy.resume()
    waits(first, "standby", SOON_S)
    assert receive_all(second) == ["1", "2"]


@of_brokers
def test_a_database_that_is_away_for_longer_than_the_lease_leaves_one_master_of_a_new_term(
    process: StartProcess, url: str, server: DatabaseServer
) -> None:
    brokers = [process(f"{url}?{LEASE}&retry_s=1") for _ in range(2)]
    brokers[0].start()
    brokers[1].start_standby()
    publish(brokers[0], "1")
    idle = Idle(brokers[0])
    server.stop()
    try:
        idle.join(LEASE_S + SOON_S)
        assert brokers[0].state() == "suspended"
        assert brokers[1].state() == "standby"
        time.sleep(PAST_LEASE_S)
        assert [broker.state() for broker in brokers] == ["suspended", "standby"]
    finally:
        server.start()
    wait_until(lambda: sorted(broker.state() for broker in brokers) == ["master", "standby"])
    master = next(broker for broker in brokers if broker.state() == "master")
    assert term_of(master) >= 2
    publish(master, "2")
    assert receive_all(master) == ["1", "2"]


def wait_for_renewal(url: str) -> None:
    """Wait until the lease has just been renewed: none is on its way to a database that hangs from now on, and is done
    when it goes on."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")

    def lease_end() -> object:
        with engine.connect() as connection:
            return connection.execute(text("SELECT TIME FROM ACTIVEMQ_LOCK")).scalar_one()

    before = lease_end()
    wait_until(lambda: lease_end() != before)
    engine.dispose()


def test_a_database_that_hangs_for_longer_than_the_lease_leaves_one_master_of_a_new_term(
    process: StartProcess, url: str, server: DatabaseServer
) -> None:
    brokers = [process(f"{url}?{LEASE}&query_timeout_s=2&retry_s=1") for _ in range(2)]
    brokers[0].start()
    brokers[1].start_standby()
    publish(brokers[0], "1")
    idle = Idle(brokers[0])
    wait_for_renewal(url)
    server.pause()
    try:
        idle.join(LEASE_S + SOON_S)
        time.sleep(PAST_LEASE_S)
        assert [broker.state() for broker in brokers] == ["suspended", "standby"]
    finally:
        server.proceed()
    wait_until(lambda: sorted(broker.state() for broker in brokers) == ["master", "standby"])
    master = next(broker for broker in brokers if broker.state() == "master")
    assert term_of(master) >= 2
    assert receive_all(master) == ["1"]


@of_brokers
def test_a_restart_of_the_database_within_the_lease_is_no_more_than_a_pause(
    process: StartProcess, url: str, server: DatabaseServer
) -> None:
    broker = process(f"{url}?lease_ms=60000&retry_s=60")
    broker.start()
    idle = Idle(broker)
    with Client(address_of(broker), timeout_s=60) as client:
        client.connect()
        client.publish("/queue/A", "1")
        server.stop()
        client.send("SEND", {"destination": "/queue/A", "persistent": "true", "receipt": "2"}, "2")
        time.sleep(0.2)
        server.start()
        assert client.frame().headers["receipt-id"] == "2"
    assert states_of(broker) == ["recovering", "master"]
    assert receive_all(broker) == ["1", "2"]
    assert broker.stop() == 0
    idle.join(SOON_S)


def test_killed_sessions_are_replaced_and_nobody_is_dropped(
    process: StartProcess, url: str, server: DatabaseServer
) -> None:
    broker = process(f"{url}?{LEASE}")
    broker.start()
    with Client(address_of(broker)) as client:
        client.connect()
        for number in range(5):
            assert server.kill_sessions(make_url(url).database) > 0
            client.publish("/queue/A", str(number))
        time.sleep(LEASE_S)  # what was renewed before is over
        client.publish("/queue/A", "5")
    assert states_of(broker) == ["recovering", "master"]
    assert receive_all(broker) == ["0", "1", "2", "3", "4", "5"]


# -- a store that fails while the lease is fine ------------------------------------------------------------------------


@contextmanager
def only_renewals(server: DatabaseServer, url: str) -> Iterator[None]:
    """End every session but the one that renews the lease, and leave no room for new ones."""
    name = make_url(url).database
    if isinstance(server, PostgreSQLServer):
        sessions = "FROM pg_stat_activity WHERE usename = %(user)s AND datname = %(name)s"
        parameters: dict[str, object] = {"user": USER, "name": name}
        renews = "application_name = 'jdbcstore' AND query ~ 'UPDATE ACTIVEMQ_LOCK|JDBCSTORE_TERM FOR KEY SHARE'"
        [(parameters["spared"],)] = server.execute(f"SELECT pid {sessions} AND {renews}", parameters)
        others = f"SELECT COUNT(pg_terminate_backend(pid)) {sessions} AND pid <> %(spared)s"
        server.execute(f"ALTER ROLE {USER} CONNECTION LIMIT 1")
        try:
            # One that was connecting meanwhile is seen later.
            wait_until(lambda: [server.execute(others, parameters)[0][0] for _ in range(3)] == [0, 0, 0])
            yield
        finally:
            server.execute(f"ALTER ROLE {USER} CONNECTION LIMIT -1")
        return
    assert isinstance(server, MySQLServer)
    signal: dict[str, object] = {"name": signal_name(make_url(url), Statements(""))}
    spared = server.execute("SELECT IS_USED_LOCK(%(name)s)", signal)[0][0]
    assert spared is not None
    server.execute(f"ALTER USER '{USER}'@'%' WITH MAX_USER_CONNECTIONS 1")
    engine = create_engine(url)

    def kill_all_but(*these: object) -> None:
        for session, user, _, database, *_ in server.execute("SHOW PROCESSLIST"):
            if user == USER and database == name and session not in these:
                with suppress(pymysql.err.OperationalError):  # it has just ended
                    server.execute(f"KILL {session}")

    found: list[Connection] = []

    def is_connected() -> bool:
        try:
            found.append(engine.connect())  # those that were there before do not count
        except OperationalError:  # the broker has connected once more meanwhile
            kill_all_but(spared)
        return bool(found)

    wait_until(is_connected)
    with found[0] as last:
        kill_all_but(spared, last.execute(text("SELECT CONNECTION_ID()")).scalar_one())
        try:
            yield
        finally:
            server.execute(f"ALTER USER '{USER}'@'%' WITH MAX_USER_CONNECTIONS 0")
    engine.dispose()


def test_a_store_that_fails_while_the_lease_is_fine_is_resumed_in_the_same_term(
    process: StartProcess, url: str, server: DatabaseServer
) -> None:
    broker = process(f"{url}?{LEASE}&retry_s=0.5")
    broker.start()
    publish(broker, "1")
    before = broker.health()[1]
    with only_renewals(server, url):
        with Client(address_of(broker)) as client:
            client.connect()
            client.send("SEND", {"destination": "/queue/A", "persistent": "true", "receipt": "2"}, "2")
            assert "the store failed" in client.error().headers["message"], broker.log()
            assert client.is_closed()
        assert broker.state() in ("suspended", "recovering")
        time.sleep(LEASE_S + PAST_LEASE_S)  # what was renewed before is over
    waits(broker, "master", SOON_S)
    after = broker.health()[1]
    assert (after["term"], after["holder"]) == (before["term"], before["holder"])
    assert set(states_of(broker)[1:]) == {"master", "suspended", "recovering"}
    publish(broker, "3")
    assert [body for body in receive_all(broker) if body != "2"] == ["1", "3"]


# -- the end while the database hangs ----------------------------------------------------------------------------------

STOP_S = 1.0


@of_drivers
@pytest.mark.parametrize("is_busy", [pytest.param(False, marks=pytest.mark.exhaustive), True], ids=["idle", "busy"])
def test_a_master_ends_in_time_while_its_database_hangs(
    process: StartProcess, url: str, server: DatabaseServer, is_busy: bool
) -> None:
    broker = process(f"{url}?lease_ms=60000", f"stop_timeout_s = {STOP_S}")
    broker.start()
    with Client(address_of(broker)) as client, Client(address_of(broker)) as reader:
        client.connect()
        client.publish("/queue/A", "1")
        server.pause()
        try:
            if is_busy:
                client.send("SEND", {"destination": "/queue/A", "persistent": "true", "receipt": "2"}, "2")
                reader.connect()
                reader.send("SUBSCRIBE", {"destination": "/queue/A", "id": "1"})
                time.sleep(0.5)
            began_s = time.monotonic()
            assert broker.stop() == 0
            took_s = time.monotonic() - began_s
        finally:
            server.proceed()
        assert took_s < STOP_S + SOON_S, broker.log()
        if is_busy:
            with suppress(ConnectionError):
                assert client.frame().command != "RECEIPT"


@of_drivers
def test_a_standby_ends_in_time_while_its_database_hangs(
    process: StartProcess, url: str, server: DatabaseServer
) -> None:
    master, standby = (process(f"{url}?lease_ms=60000", f"stop_timeout_s = {STOP_S}") for _ in range(2))
    master.start()
    standby.start_standby()
    server.pause()
    try:
        time.sleep(1.5)
        began_s = time.monotonic()
        assert standby.stop() == 0
        took_s = time.monotonic() - began_s
    finally:
        server.proceed()
    assert took_s < STOP_S + SOON_S, standby.log()


@of_drivers
def test_who_starts_while_the_database_hangs_ends_in_time(
    process: StartProcess, url: str, server: DatabaseServer
) -> None:
    broker = process(f"{url}?lease_ms=60000", f"stop_timeout_s = {STOP_S}")
    server.pause()
    try:
        broker.launch()
        broker.wait_for("starting")
        time.sleep(1)
        began_s = time.monotonic()
        assert broker.stop() == 0
        took_s = time.monotonic() - began_s
    finally:
        server.proceed()
    assert took_s < STOP_S + SOON_S, broker.log()
