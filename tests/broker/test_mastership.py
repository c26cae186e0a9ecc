"""The life of brokers on one store: who serves when, who waits, what is told, and with which code a process ends."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import sqlite3
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from jdbcstore import Broker, BrokerOptions, JdbcOptions, Queue, open_store
from jdbcstore.broker.lifecycle import State
from jdbcstore.broker.master_service import MasterService
from jdbcstore.errors import LockError, ProtocolError
from jdbcstore.management.desk import Desk
from jdbcstore.management.management import Management
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.memory import MemoryPersistenceAdapter
from jdbcstore.transport.tls import TlsOptions
from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.test_flow_control import pour
from tests.broker_process import BrokerProcess
from tests.certificates import Identity
from tests.servers.proxy import Proxy
from tests.servers.server import free_port
from tests.sql.test_writer import execute
from tests.waiting import wait_until

#: Longer than a busy machine stands still: who is not to lose it does not.
LEASE_S = 6.0
#: What the broker does within a second, on a machine that is busy with other tests.
SOON_S = 60.0

StartProcess = Callable[..., BrokerProcess]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A SQLite file; leases are waited for even if their holder is known to be dead."""
    return (
        f"sqlite:///{tmp_path / 'life.db'}?lease_ms={LEASE_S * 1000:.0f}&lock_acquire_sleep_interval_ms=200"
        "&detect_dead_holder=false"
    )


@pytest.fixture
def long_url(url: str) -> str:
    """The same with a lease that nobody waits for: who takes over soon has not waited for it."""
    return url.replace(f"lease_ms={LEASE_S * 1000:.0f}", "lease_ms=600000")


@pytest.fixture
def process(url: str, tmp_path: Path, stack: ExitStack) -> StartProcess:
    """A broker process, not started: ``process(url, "--argument", …)``; options of the broker as a TOML table."""
    count = 0

    def make(store: str = url, *arguments: str, options: str = "") -> BrokerProcess:
        nonlocal count
        count += 1
        folder = tmp_path / f"broker-{count}"
        folder.mkdir()
        (folder / "broker.toml").write_text(f"[broker]\n{options}\n")
        broker = BrokerProcess(store, folder, "--config", "broker.toml", "--name", f"node-{count}", *arguments)
        stack.callback(end, broker)
        return broker

    return make


def end(broker: BrokerProcess) -> None:
    """Whatever state it is in."""
    if broker.is_running:
        broker.kill()


def address_of(broker: BrokerProcess) -> Address:
    return ("127.0.0.1", broker.port)


def is_refused(address: Address) -> bool:
    """Whether nobody listens there."""
    try:
        socket.create_connection(address, 20).close()
    except ConnectionRefusedError:
        return True
    return False


def states_of(broker: BrokerProcess) -> list[tuple[str, str, str]]:
    """What its log says: from, to and term of each change of state."""
    changes = re.findall(r"state changed from=(\w+) to=(\w+) term=(\w+)", broker.log())
    return [(before, after, term) for before, after, term in changes if before != after]


def waits(broker: BrokerProcess, state: str, within_s: float) -> float:
    """Wait until it is in a state; returns how long that took, and fails if it was too long."""
    began_s = time.monotonic()
    broker.wait_for(state)
    took_s = time.monotonic() - began_s
    assert took_s < within_s, f"it took {took_s:.1f} s to become {state}\n{broker.log()}"
    return took_s


def receive_all(address: Address, destination: str = "/queue/A") -> list[str]:
    """Everything that is in a queue, acknowledged."""
    with Client(address) as client:
        client.connect()
        return client.rest_of(destination)


# -- standby -----------------------------------------------------------------------------------------------------------


def test_start_returns_at_once_as_standby_and_the_way_goes_on_by_itself(long_url: str) -> None:
    async def two_lives() -> None:
        first = Broker(open_store(long_url), BrokerOptions(bind="127.0.0.1:0"))
        second = Broker(open_store(long_url), BrokerOptions(bind="127.0.0.1:0"))
        await first.start()
        assert first.lifecycle.state is State.MASTER
        async with asyncio.timeout(SOON_S):
            await second.start()
        assert second.lifecycle.state is State.STANDBY
        assert second.lifecycle.status.reason == f"{first.lifecycle.status.holder} is master"
        assert (second.lifecycle.status.term, second.lifecycle.status.holder) == (None, None)
        with pytest.raises(RuntimeError, match="does not listen: it is standby"):
            second.address  # noqa: B018  # it raises
        await first.stop()
        async with asyncio.timeout(SOON_S):
            await second.lifecycle.reached(State.MASTER)
        assert second.lifecycle.status.term == 2
        await second.stop()

    asyncio.run(two_lives())


def test_a_standby_is_alive_and_listens_to_nobody(process: StartProcess, long_url: str) -> None:
    master, standby = process(long_url), process(long_url)
    master.start()
    standby.start_standby()
    assert is_refused(address_of(standby))
    assert [standby.health(path)[0] for path in ("/live", "/ready")] == [200, 503]
    assert [master.health(path)[0] for path in ("/live", "/ready")] == [200, 200]
    told = standby.health()[1]
    assert (told["state"], told["term"], told["reason"]) == (
        "standby",
        None,
        f"{master.health()[1]['holder']} is master",
    )
    assert f"jdbcstore is standby: {told['reason']}" in standby.log()
    assert "jdbcstore listens" not in standby.log()


def test_a_standby_takes_over_within_the_lease_and_a_second_after_a_crash(process: StartProcess) -> None:
    master, standby = process(), process()
    master.start()
    standby.start_standby()
    with Client(address_of(master)) as client:
        client.connect()
        for number in range(20):
            client.publish("/queue/A", str(number))
        master.kill()
    waits(standby, "master", LEASE_S + SOON_S)
    assert receive_all(address_of(standby)) == [str(number) for number in range(20)]
    assert states_of(standby) == [
        ("starting", "standby", "None"),
        ("standby", "recovering", "2"),
        ("recovering", "master", "2"),
    ]
    assert f"jdbcstore listens for STOMP clients on 127.0.0.1:{standby.port}" in standby.log()


def test_a_standby_takes_over_within_a_second_after_a_clean_stop(process: StartProcess, long_url: str) -> None:
    master, standby = process(long_url), process(long_url)
    master.start()
    standby.start_standby()
    began_s = time.monotonic()
    assert master.stop() == 0
    standby.wait_for("master")
    assert time.monotonic() - began_s < SOON_S, standby.log()


def test_a_client_that_does_not_read_does_not_keep_the_next_master_waiting(
    process: StartProcess, long_url: str
) -> None:
    master, standby = process(long_url, options="stop_timeout_s = 60"), process(long_url)
    master.start()
    standby.start_standby()
    with Client(address_of(master)) as client:
        client.connect()
        pour(client, 4000, "x" * 10_000)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.send("SUBSCRIBE", {"destination": "/queue/A", "id": "1", "activemq.prefetchSize": "4000"})
        time.sleep(0.5)
        stopping = threading.Thread(target=master.stop)
        stopping.start()
        waits(standby, "master", SOON_S)
    stopping.join()


def test_transports_open_only_when_everything_is_recovered(url: str, stack: ExitStack) -> None:
    """The store takes its time to open: until it has, nobody can connect."""
    opening, may_go_on = threading.Event(), threading.Event()

    class Slow(JdbcPersistenceAdapter):
        def start(self) -> None:
            super().start()
            opening.set()
            assert may_go_on.wait(60)

    fast = open_store(url)
    assert isinstance(fast, JdbcPersistenceAdapter)
    bind = f"127.0.0.1:{free_port()}"
    address = ("127.0.0.1", int(bind.rpartition(":")[2]))

    async def live() -> None:
        broker = Broker(Slow(fast.url, fast.options), BrokerOptions(bind=bind))
        starting = asyncio.create_task(broker.start())
        while not opening.is_set():
            await asyncio.sleep(0.01)
        assert (broker.lifecycle.state, broker.lifecycle.status.term) == (State.RECOVERING, 1)
        assert await asyncio.to_thread(is_refused, address)
        assert not starting.done()
        may_go_on.set()
        await starting
        assert broker.lifecycle.state is State.MASTER
        assert not await asyncio.to_thread(is_refused, address)
        await broker.stop()

    asyncio.run(live())


def test_two_brokers_may_have_one_name_and_one_address(process: StartProcess) -> None:
    bind = f"127.0.0.1:{free_port()}"
    address = ("127.0.0.1", int(bind.rpartition(":")[2]))
    first, second = (process(*(), *(), options="") for _ in range(2))
    for broker in (first, second):
        broker._arguments += ["--name", "twin", "--bind", bind]
    first.start()
    second.start_standby()
    holders = [first.health()[1]["holder"]]
    with Client(address) as client:
        client.connect()
        client.publish("/queue/A", "1")
    first.kill()
    waits(second, "master", LEASE_S + SOON_S)
    holders.append(second.health()[1]["holder"])
    assert len(set(holders)) == 2
    assert all(re.fullmatch(r"twin-[0-9a-f]{12}", holder) for holder in holders)
    assert receive_all(address) == ["1"]


def test_an_address_that_a_stopped_master_still_has_is_waited_for(process: StartProcess) -> None:
    bind = f"127.0.0.1:{free_port()}"
    first, second = process(), process()
    for broker in (first, second):
        broker._arguments += ["--bind", bind]
    first.start()
    second.start_standby()
    first.pause()
    waits(second, "recovering", LEASE_S + SOON_S)
    wait_until(lambda: "address already in use" in second.health()[1]["reason"])
    first.proceed()
    waits(second, "master", SOON_S)
    assert first.wait_for("standby") == "standby"


# -- loss --------------------------------------------------------------------------------------------------------------


def test_a_paused_master_reads_nothing_more_and_becomes_standby(process: StartProcess) -> None:
    master, standby = process(), process()
    master.start()
    standby.start_standby()
    with Client(address_of(master)) as idle, Client(address_of(master)) as sender:
        idle.connect()
        sender.connect()
        sender.publish("/queue/A", "before")
        master.pause()
        sender.send("SEND", {"destination": "/queue/A", "persistent": "true", "receipt": "late"}, "late")
        waits(standby, "master", LEASE_S + SOON_S)
        with Client(address_of(standby)) as other:
            other.connect()
            other.publish("/queue/A", "meanwhile")
        master.proceed()
        master.wait_for("standby")
        with suppress(ConnectionError):
            assert sender.frame().command == "ERROR"
        assert sender.is_closed()
        with suppress(ConnectionResetError):
            assert "not renewed in time" in idle.error().headers["message"]
        assert idle.is_closed()
    assert is_refused(address_of(master))
    assert standby.state() == "master"
    assert receive_all(address_of(standby)) == ["before", "meanwhile"]
    assert [(before, after) for before, after, _ in states_of(master)][-3:] == [
        ("recovering", "master"),
        ("master", "suspended"),
        ("suspended", "standby"),
    ]
    assert standby.health()[1]["holder"] in master.log()


def test_loss_first_stops_serving_then_says_why(
    url: str, start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    address = start_broker(open_store(url))
    broker, seen = brokers[0], list[tuple[State, bool, bool]]()
    idle = open_client(address)
    broker.lifecycle.listeners.append(lambda told: seen.append((told.state, broker.is_running, is_refused(address))))
    with lease_taken_by(url, "somebody-else", 60_000):
        wait_until(lambda: broker.lifecycle.state is State.STANDBY)
    assert seen[:2] == [(State.SUSPENDED, False, True), (State.STANDBY, False, True)]
    assert "somebody-else is master" in broker.lifecycle.status.reason
    assert idle.error()
    assert idle.is_closed()
    wait_until(lambda: broker.lifecycle.state is State.MASTER)
    assert broker.lifecycle.status.term == 2


@contextmanager
def lease_taken_by(url: str, holder: str, lease_ms: int) -> Iterator[None]:
    """As a Java broker takes it; given back at the end."""
    with closing(
        sqlite3.connect(url.removeprefix("sqlite:///").partition("?")[0], timeout=60, isolation_level=None)
    ) as connection:
        end_ms = int(time.time() * 1000) + lease_ms
        connection.execute("UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = ?, TIME = ? WHERE ID = 1", (holder, end_ms))
        yield
        connection.execute("UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = NULL, TIME = 0 WHERE ID = 1")


def test_who_cannot_write_does_not_serve_again_before_the_lock_is_proved(
    long_url: str, start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    """The fence may know earlier than the renewal that somebody else is master."""
    address = start_broker(open_store(long_url))
    broker, states = brokers[0], list[State]()
    broker.lifecycle.listeners.append(lambda told: states.append(told.state))
    client = open_client(address)
    with lease_taken_by(long_url, "somebody-else", 60_000):
        answer = client.request("SEND", {"destination": "/queue/A", "persistent": "true"})
        assert answer.command == "ERROR"
        wait_until(lambda: broker.lifecycle.state is State.STANDBY, timeout_s=SOON_S)
        assert list(dict.fromkeys(states)) == [State.SUSPENDED, State.STANDBY]
    wait_until(lambda: broker.lifecycle.state is State.MASTER, timeout_s=SOON_S)


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_who_does_not_trust_its_lease_does_not_look_at_what_clients_say(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], long_url: str, persistent: str
) -> None:
    """No timer has noticed yet: the process was stopped, and what clients have sent comes first."""
    address = start_broker(open_store(long_url))
    sender, idle = open_client(address), open_client(address)
    brokers[0].trusted_until_ns = 0
    assert sender.request("SEND", {"destination": "/queue/A", "persistent": persistent}, "late").command == "ERROR"
    assert idle.error()
    assert sender.is_closed()
    assert idle.is_closed()
    wait_until(lambda: brokers[0].lifecycle.state is State.MASTER)
    assert receive_all(brokers[0].address) == []


def test_who_does_not_trust_its_lease_does_not_say_that_it_is_master(
    start_broker: StartBroker, brokers: list[Broker], long_url: str
) -> None:
    """No timer has noticed yet, and no client has said anything."""
    port = free_port()
    start_broker(open_store(long_url), health_bind=f"127.0.0.1:{port}")
    (broker,) = brokers
    assert ready(port) == (200, "master")
    broker.trusted_until_ns = 0
    assert broker.lifecycle.entered is State.MASTER
    assert ready(port) == (503, "suspended")
    assert broker.lifecycle.status.reason == "the lease was not renewed in time"
    management = Management(Desk(broker))
    assert management.broker().state == "suspended"
    with pytest.raises(ProtocolError, match="this broker is suspended: the lease was not renewed in time"):
        management.purge("queue://A")
    with pytest.raises(LockError, match="only a master can hand over, this broker is suspended"):
        broker.resign(1.0)


def ready(port: int) -> tuple[int, str]:
    """What a load balancer is told: code and state."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=60) as answer:
            return answer.status, json.load(answer)["state"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)["state"]


def test_who_does_not_trust_its_lease_lets_nobody_in(
    start_broker: StartBroker, brokers: list[Broker], long_url: str
) -> None:
    """The lease ran out while the passcode was looked at."""
    address = start_broker(open_store(long_url), users={"joe": "secret"})
    (broker,) = brokers
    authentication = broker.authentication
    assert authentication is not None
    for _ in range(10):  # so that the next login takes its time
        authentication._slowness.failed("127.0.0.1", "joe", broker.loop.time())
    with Client(address) as client:
        client.send("CONNECT", {"accept-version": "1.2", "login": "joe", "passcode": "secret"})
        wait_until(lambda: authentication._logins)
        broker.trusted_until_ns = 0
        assert "not renewed in time" in client.frame().headers["message"]
        assert client.is_closed()


def test_who_was_stopped_before_it_was_master_does_not_become_it(url: str, stack: ExitStack) -> None:
    """The trust runs out in the last moment before clients would be let in."""

    async def live() -> None:
        broker = Broker(open_store(url), BrokerOptions(bind="127.0.0.1:0"))
        states = list[State]()
        broker.lifecycle.listeners.append(lambda told: states.append(told.state))
        listen = MasterService.listen

        async def late(service: MasterService) -> None:
            await listen(service)
            broker.trusted_until_ns = 0

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MasterService, "listen", late)
            started = asyncio.create_task(broker.start())
            async with asyncio.timeout(SOON_S):
                while State.SUSPENDED not in states:
                    await asyncio.sleep(0.01)
        assert states[:2] == [State.RECOVERING, State.SUSPENDED]
        async with asyncio.timeout(SOON_S):
            await started
        assert broker.lifecycle.state is State.MASTER
        await broker.stop()

    asyncio.run(live())


def test_who_does_not_trust_its_lease_delivers_nothing(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], long_url: str
) -> None:
    address = start_broker(open_store(long_url))
    broker, consumer = brokers[0], open_client(address)
    consumer.subscribe("/queue/A", "client-individual")
    open_client(address).publish("/queue/A", "1")
    consumer.message()

    def come_back() -> None:
        """What a client had is on offer again, after the trust has run out."""
        broker.trusted_until_ns = 0
        queue = broker.queues[Queue("A")]
        list(queue.giving_back(list(next(iter(queue.consumers)).unacknowledged.values())))

    broker.loop.call_soon_threadsafe(come_back)
    assert "not renewed in time" in consumer.error().headers["message"]


def test_non_persistent_messages_survive_when_nobody_else_was_master(process: StartProcess) -> None:
    broker = process()
    broker.start()
    with Client(address_of(broker)) as client:
        client.connect()
        client.done("SEND", {"destination": "/queue/A"}, "non-persistent")
        client.publish("/queue/A", "persistent")
    broker.pause()
    time.sleep(LEASE_S * 1.5)
    broker.proceed()
    wait_until(lambda: ("recovering", "master", "2") in states_of(broker))
    assert sorted(receive_all(address_of(broker))) == ["non-persistent", "persistent"]


def test_non_persistent_messages_are_forgotten_when_somebody_else_was_master(process: StartProcess) -> None:
    first, second = process(), process()
    first.start()
    with Client(address_of(first)) as client:
        client.connect()
        client.done("SEND", {"destination": "/queue/A"}, "non-persistent")
        client.publish("/queue/A", "persistent")
    second.start_standby()
    first.pause()
    second.wait_for("master")
    first.proceed()
    first.wait_for("standby")
    assert second.stop() == 0
    first.wait_for("master")
    assert receive_all(address_of(first)) == ["persistent"]
    assert "non-persistent messages are dropped messages=1" in first.log()


# -- exit codes --------------------------------------------------------------------------------------------------------


def test_a_master_that_is_asked_to_stop_ends_with_0(process: StartProcess, long_url: str) -> None:
    master = process(long_url)
    master.start()
    assert master.stop() == 0
    assert states_of(master)[-1][:2] == ("master", "stopping")


def test_a_standby_that_is_asked_to_stop_ends_with_0_and_soon(process: StartProcess, long_url: str) -> None:
    master, standby = process(long_url), process(long_url)
    master.start()
    standby.start_standby()
    began_s = time.monotonic()
    assert standby.stop() == 0
    assert time.monotonic() - began_s < SOON_S
    assert states_of(standby)[-1][:2] == ("standby", "stopping")
    assert master.state() == "master"


def test_who_waits_for_its_store_says_so_at_once_and_ends_with_0_when_asked(
    process: StartProcess, postgresql_url: str
) -> None:
    with unreachable(postgresql_url) as proxy:
        broker = process(proxy.url(postgresql_url))
        broker.launch()
        broker.wait_for("starting")
        wait_until(lambda: "cannot ask who is master" in broker.log(), timeout_s=SOON_S)
        assert [broker.health(path)[0] for path in ("/live", "/ready")] == [200, 503]
        assert broker.stop() == 0
        assert states_of(broker) == [("starting", "stopping", "None")]


def test_who_waits_for_its_store_starts_when_it_comes(process: StartProcess, postgresql_url: str) -> None:
    with unreachable(postgresql_url) as proxy:
        broker = process(proxy.url(postgresql_url))
        broker.launch()
        broker.wait_for("starting")
        wait_until(lambda: "cannot ask who is master" in broker.log())
        proxy.resume()
        waits(broker, "master", SOON_S)


def test_who_waits_for_its_store_goes_on_saying_so_and_why(process: StartProcess, postgresql_url: str) -> None:
    with unreachable(postgresql_url) as proxy:
        broker = process(proxy.url(postgresql_url))
        broker.launch()
        told = "waiting for the store: cannot ask who is master"
        wait_until(lambda: broker.log().count(told) >= 2)
        assert all("refused" in line.lower() for line in broker.log().splitlines() if told in line)
        assert broker.stop() == 0


@pytest.mark.parametrize("locker", ["", "?locker=none"])
def test_who_waited_for_its_store_for_too_long_ends_with_1(
    process: StartProcess, postgresql_url: str, locker: str
) -> None:
    with unreachable(postgresql_url) as proxy:
        broker = process(proxy.url(postgresql_url) + locker, options="start_timeout_s = 1.0")
        broker.launch()
        assert broker.wait() == 1
    last = broker.log().splitlines()[-1]
    assert last.startswith("jdbcstore: ")
    assert "refused" in last.lower()


@contextmanager
def unreachable(url: str) -> Iterator[Proxy]:
    """A way to a server that is blocked until it is resumed."""
    with Proxy(int(url.rpartition(":")[2].partition("/")[0])) as proxy:
        proxy.cut()
        yield proxy


def test_a_suspended_master_that_is_asked_to_stop_ends_with_0(process: StartProcess, postgresql_url: str) -> None:
    with Proxy(int(postgresql_url.rpartition(":")[2].partition("/")[0])) as proxy:
        broker = process(f"{proxy.url(postgresql_url)}?retry_s=0.2", options="on_store_failure = 'suspend'")
        broker.start()
        with Client(address_of(broker)) as client:
            client.connect()
            proxy.cut()
            assert client.request("SEND", {"destination": "/queue/A", "persistent": "true"}).command == "ERROR"
        broker.wait_for("suspended")
        assert broker.stop() == 0
    assert states_of(broker)[-1][1] == "stopping"


@pytest.mark.parametrize(
    ("parameters", "options", "named"),
    [
        ("?lock_keep_alive_period_ms=9000", "", "lock_keep_alive_period_ms"),
        ("?lease_ms=10", "", "lease_ms"),
        ("?locker=file", "", "locker"),
        ("", "on_lease_lost = 'shrug'", "on_lease_lost"),
        ("", "on_store_failure = 'panic'", "on_store_failure"),
        ("", "start_timeout_s = 0", "start_timeout_s"),
        ("", "health_bind = 'nowhere'", "nowhere"),
    ],
)
def test_wrong_options_end_the_process_with_2(
    process: StartProcess, tmp_path: Path, parameters: str, options: str, named: str
) -> None:
    broker = process(f"sqlite:///{tmp_path / 'none.db'}{parameters}", options=options)
    if "health_bind" in options:
        place = broker._arguments.index("--health-bind")
        del broker._arguments[place : place + 2]
    broker.launch()
    assert broker.wait() == 2
    assert broker.log().startswith("jdbcstore: ")
    assert named in broker.log()
    assert not (tmp_path / "none.db").exists()


def test_fail_if_locked_ends_the_second_process_with_3_and_names_the_master(
    long_url: str, process: StartProcess
) -> None:
    master, second = process(long_url), process(f"{long_url}&fail_if_locked=true")
    master.start()
    second.launch()
    assert second.wait() == 3
    assert master.health()[1]["holder"] in second.log().splitlines()[-1]
    assert master.state() == "master"


def test_on_lease_lost_stop_ends_the_process_with_3_and_names_the_new_master(process: StartProcess) -> None:
    first, second = process(options="on_lease_lost = 'stop'"), process()
    first.start()
    second.start_standby()
    first.pause()
    second.wait_for("master")
    first.proceed()
    assert first.wait() == 3
    assert second.health()[1]["holder"] in first.log().splitlines()[-1]
    assert second.state() == "master"


def test_a_health_address_that_is_taken_ends_the_process_with_1(process: StartProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = process()
        broker._arguments += ["--health-bind", f"127.0.0.1:{taken.getsockname()[1]}"]
        broker.launch()
        assert broker.wait() == 1
    assert "cannot listen for health checks" in broker.log().splitlines()[-1]


def test_a_signal_in_the_first_moment_ends_it_all_the_same(url: str) -> None:
    """Stop comes while start has not even begun to ask for the lock."""

    async def live() -> None:
        broker = Broker(open_store(url), BrokerOptions(bind="127.0.0.1:0", health_bind="localhost:0"))
        starting = asyncio.create_task(broker.start())
        await asyncio.sleep(0)
        await broker.stop()
        async with asyncio.timeout(60):
            await starting
        assert broker.lifecycle.state is State.STOPPING

    asyncio.run(live())


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_who_is_accepted_in_the_moment_of_the_stop_is_dropped(encrypted: bool, turns: int, server: Identity) -> None:
    tls = TlsOptions(certificate=str(server.certificate), key=str(server.key))
    bind = f"{'stomp+ssl://' if encrypted else ''}127.0.0.1:0"

    async def live() -> None:
        broker = Broker(MemoryPersistenceAdapter(), BrokerOptions(bind=bind), tls=tls if encrypted else None)
        await broker.start()
        client = socket.create_connection(broker.address, 60)
        for _ in range(turns):
            await asyncio.sleep(0)
        await broker.stop()
        with client, suppress(ConnectionResetError):
            assert client.recv(1) == b""

    asyncio.run(live())


# -- unlocked stores ---------------------------------------------------------------------------------------------------


def test_a_store_without_a_lock_is_its_brokers_own(start_broker: StartBroker, brokers: list[Broker]) -> None:
    start_broker()
    status = brokers[0].lifecycle.status
    assert (status.state, status.term, status.holder) == (State.MASTER, None, None)


def test_a_store_without_a_lock_is_suspended_and_resumed_like_any_other(
    start_broker: StartBroker, stack: ExitStack, brokers: list[Broker], postgresql_url: str
) -> None:
    proxy = stack.enter_context(Proxy(int(postgresql_url.rpartition(":")[2].partition("/")[0])))
    store = open_store(proxy.url(postgresql_url), JdbcOptions(retry_s=0.1), locker="none")
    address = start_broker(store)
    with Client(address) as client:
        client.connect()
        client.publish("/queue/A", "1")
        proxy.cut()
        assert client.request("SEND", {"destination": "/queue/A", "persistent": "true"}).command == "ERROR"
    wait_until(lambda: brokers[0].lifecycle.state is State.SUSPENDED)
    proxy.resume()
    wait_until(lambda: brokers[0].lifecycle.state is State.MASTER)
    assert receive_all(brokers[0].address) == ["1"]


class Failing(Exception):
    """No error of ours."""


def test_a_defect_in_the_store_ends_the_broker_and_leaves_no_lock(url: str) -> None:
    class Defective(JdbcPersistenceAdapter):
        def start(self) -> None:
            raise Failing("out of order")

    good = open_store(url)
    assert isinstance(good, JdbcPersistenceAdapter)

    async def live() -> None:
        broker = Broker(Defective(good.url, good.options), BrokerOptions(bind="127.0.0.1:0"))
        with pytest.raises(Failing, match="out of order"):
            await broker.start()
        assert (broker.lifecycle.state, broker.lifecycle.status.reason) == (State.STOPPING, "it failed: out of order")

    asyncio.run(live())
    locker = good.locker()
    assert locker.acquire() == 2
    locker.release()


def test_sigint_is_as_good_as_sigterm(process: StartProcess, long_url: str) -> None:
    broker = process(long_url)
    broker.start()
    assert broker._process is not None
    broker._process.send_signal(signal.SIGINT)
    assert broker.wait() == 0


# -- a lock that refuses -----------------------------------------------------------------------------------------------

RENAMED = ("ALTER TABLE ACTIVEMQ_LOCK RENAME TO AWAY", "ALTER TABLE AWAY RENAME TO ACTIVEMQ_LOCK")
FORBIDDEN = ("REVOKE ALL ON ACTIVEMQ_LOCK FROM CURRENT_USER", "GRANT ALL ON ACTIVEMQ_LOCK TO CURRENT_USER")


@pytest.fixture(params=["renamed", "forbidden", "mariadb", "mysql", "sqlite"])
def refusal(request: pytest.FixtureRequest, url: str) -> tuple[str, str, str]:
    """A store, what takes its lock away, and what gives it back."""
    if request.param == "sqlite":
        return (url, *RENAMED)
    kind = request.param if request.param in ("mariadb", "mysql") else "postgresql"
    server_url: str = request.getfixturevalue(f"{kind}_url")
    statements = FORBIDDEN if request.param == "forbidden" else RENAMED
    return (f"{server_url}?lease_ms=3000&lock_acquire_sleep_interval_ms=200", *statements)


def test_who_has_seen_the_lock_waits_for_it_when_it_is_taken_away_and_given_back(
    process: StartProcess, refusal: tuple[str, str, str]
) -> None:
    store, take_away, give_back = refusal
    master, standby, leaving = process(store), process(store), process(store)
    master.start()
    standby.start_standby()
    leaving.start_standby()
    with Client(address_of(master)) as client:
        client.connect()
        client.publish("/queue/A", "1")
    execute(store.partition("?")[0], take_away)
    master.wait_for("suspended")
    began_s = time.monotonic()
    wait_until(lambda: time.monotonic() - began_s > LEASE_S)  # the lease of the master has run out
    assert (master.state(), standby.state(), leaving.state()) == ("suspended", "standby", "standby")
    assert "waiting for the store: cannot ask who is master" in standby.log()
    assert leaving.stop() == 0
    execute(store.partition("?")[0], give_back)
    wait_until(lambda: "master" in (master.state(), standby.state()))
    serving = master if master.state() == "master" else standby
    assert receive_all(address_of(serving)) == ["1"]
    assert [broker.stop() for broker in (master, standby)] == [0, 0]


def test_who_has_never_seen_the_lock_ends_with_1_when_it_refuses(process: StartProcess, postgresql_url: str) -> None:
    with open_store(postgresql_url):
        pass
    execute(postgresql_url, FORBIDDEN[0])
    broker = process(postgresql_url)
    broker.launch()
    assert broker.wait() == 1
    assert "permission denied" in broker.log().splitlines()[-1]
