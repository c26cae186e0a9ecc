"""A real ActiveMQ with the lease locker and one of our brokers on one database: they take turns as master, under load.

Both kinds of broker speak STOMP, so the same clients work with either; they know both addresses.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jdbcstore import Queue, TextMessage, open_store
from tests.broker.client import Client
from tests.broker_process import BrokerProcess
from tests.compat.activemq import ActiveMQ, JdbcStore
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

#: Not shorter than a busy machine stands still: who is not killed stays master.
LEASE_S = 6.0
#: How often who waits looks again. For a Java broker this and the lease are one option.
OUR_POLL_S, JAVA_POLL_S = 0.2, LEASE_S
#: What a broker may take, on a busy machine, from the lock to its first client.
START_S = 60.0
#: How long a phase may take in which nobody does anything to anybody.
PATIENCE_S = 60.0
#: How long a client waits for a broker that has let it in. One that is killed is noticed at once.
ANSWER_S = 5.0
QUEUE = "/queue/TOGETHER"


@pytest.fixture(params=["mariadb_url", pytest.param("postgresql_url", marks=pytest.mark.exhaustive)])
def url(request: pytest.FixtureRequest) -> str:
    """A fresh database that both can use."""
    found: str = request.getfixturevalue(request.param)
    return found


class Ours:
    """Our broker."""

    def __init__(self, url: str, folder: Path) -> None:
        options = f"?lease_ms={LEASE_S * 1000:.0f}&lock_acquire_sleep_interval_ms={OUR_POLL_S * 1000:.0f}"
        self.process = BrokerProcess(url + options, folder, "--name", "ours")
        self.port = self.process.port
        #: The longest from the death of another master to our first client.
        self.takeover_s = LEASE_S + OUR_POLL_S + START_S

    def become_master(self) -> None:
        """Start it; nobody else is master."""
        self.process.start()

    def stand_by(self) -> None:
        """Start it; another is master, and it says who."""
        self.process.start_standby()
        assert "jdbcstore is standby: java is master" in self.process.log()

    def wait_until_master(self, timeout_s: float) -> None:
        """Wait until it has taken over."""
        self.process.wait_for("master", timeout_s=timeout_s)

    def kill(self) -> None:
        """``kill -9``."""
        self.process.kill()

    def stop(self) -> None:
        """A clean end."""
        assert self.process.stop() == 0

    @property
    def term(self) -> int:
        """The number of its mastership."""
        return int(self.process.health()[1]["term"])

    @property
    def complaints(self) -> list[str]:
        """Lines of its log that must not be there."""
        return [line for line in self.process.log().splitlines() if "DuplicateMessage" in line or "is taken" in line]


class Java:
    """A real ActiveMQ."""

    def __init__(self, url: str, folder: Path, class_path: str) -> None:
        store = JdbcStore(url, lock="lease", lease_ms=int(LEASE_S * 1000), renew_ms=int(LEASE_S * 333))
        self.process = ActiveMQ(class_path, folder, store, name="java")
        self.port = self.process.stomp_port
        self.takeover_s = LEASE_S + JAVA_POLL_S + START_S

    def become_master(self) -> None:
        """Start it; nobody else is master."""
        self.process.start()
        self.process.wait_until_started()

    def stand_by(self) -> None:
        """Start it; another is master, and it waits."""
        before = len(self.process.log()) if (self.process.folder / "activemq.log").exists() else 0
        self.process.start()
        wait_for("Java wants to be master", lambda: "attempting to acquire" in self.process.log()[before:])
        time.sleep(LEASE_S)
        assert not self.process.is_started()

    def wait_until_master(self, timeout_s: float) -> None:
        """Wait until it has taken over."""
        self.process.wait_until_started(timeout_s)

    def kill(self) -> None:
        """``kill -9``."""
        self.process.kill()

    def stop(self) -> None:
        """A clean end."""
        self.process.stop()

    @property
    def complaints(self) -> list[str]:
        """Lines of its log that must not be there."""
        # Of the tables that it tries to create anew at each start it complains, too; the row of the lock has the id 1.
        return re.findall(r".*(?:activemq_msgs_pkey|Duplicate entry '(?!1')).*", self.process.log())


def wait_for(what: str, condition: Callable[[], bool]) -> None:
    wait_until(condition, what, timeout_s=PATIENCE_S)


class Load:
    """Producers and consumers that connect to whichever broker answers, and what they know for sure."""

    def __init__(self, ports: list[int], *, producers: int = 2, consumers: int = 2) -> None:
        self.sent: set[str] = set()
        self.receipted: set[str] = set()
        self.tried: set[str] = set()
        self.acknowledged: set[str] = set()
        #: What came although its acknowledgement had a receipt.
        self.returned: list[str] = []
        self._ports = ports
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        works = [(self._produce, f"p{n}") for n in range(producers)] + [(self._consume, "") for _ in range(consumers)]
        self._threads = [threading.Thread(target=self._again, args=work) for work in works]
        for thread in self._threads:
            thread.start()

    def _again(self, work: Callable[[Client, str], None], name: str) -> None:
        """Connect and work, again and again."""
        attempt = 0
        while not self._stopping.is_set():
            attempt += 1
            try:
                # A Java broker that waits accepts connections and says nothing.
                with Client(("127.0.0.1", self._ports[attempt % 2]), timeout_s=1.0) as client:
                    if client.connect().command == "CONNECTED":
                        client.socket.settimeout(ANSWER_S)
                        work(client, f"{name}.{attempt}")
            except OSError:
                time.sleep(0.05)

    def _produce(self, client: Client, name: str) -> None:
        number = answered = 0
        while not self._stopping.is_set():
            while number - answered < 10:
                body = f"{name}.{number}"
                with self._lock:
                    self.sent.add(body)
                client.send("SEND", {"destination": QUEUE, "persistent": "true", "receipt": body}, body)
                number += 1
            frame = client.frame()
            if frame.command != "RECEIPT":
                return  # it is going
            with self._lock:
                self.receipted.add(frame.headers["receipt-id"])
            answered += 1
            time.sleep(0.01)  # a master that is killed has messages under way; more would only heat the machine

    def _consume(self, client: Client, name: str) -> None:
        client.send(
            "SUBSCRIBE", {"destination": QUEUE, "ack": "client-individual", "id": "1", "activemq.prefetchSize": "20"}
        )
        while not self._stopping.is_set():
            frame = client.frame()
            if frame.command == "RECEIPT":
                with self._lock:
                    self.acknowledged.add(frame.headers["receipt-id"])
            elif frame.command == "MESSAGE":
                with self._lock:
                    self.tried.add(frame.text)
                    if frame.text in self.acknowledged:
                        self.returned.append(frame.text)
                client.ack(frame, receipt=frame.text)
            else:
                return

    def go_on(self, messages: int = 200) -> None:
        """Wait until so many more are receipted and acknowledged."""
        goals = len(self.receipted) + messages, len(self.acknowledged) + messages
        wait_for(
            f"{messages} more are done, after {len(self.receipted)}",
            lambda: len(self.receipted) >= goals[0] and len(self.acknowledged) >= goals[1],
        )

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()


@contextmanager
def loaded(ours: Ours, java: Java) -> Iterator[Load]:
    """Load for the time of the block; in the end both brokers are gone."""
    load = Load([ours.port, java.port])
    try:
        yield load
    finally:
        load.stop()
        if ours.process.is_running:
            ours.process.kill()
        java.kill()


def left(url: str) -> list[str]:
    """The bodies that are in the store."""
    with open_store(url, locker="none") as adapter:
        messages = adapter.queue_message_store(Queue("TOGETHER")).recover()
        return [message.text for message in messages if isinstance(message, TextMessage) and message.text]


def check(url: str, load: Load, ours: Ours, java: Java) -> None:
    """Nothing receipted is lost, nothing acknowledged returns, and neither broker met rows of the other."""
    rest = left(url)
    assert len(rest) == len(set(rest)), "a message is stored twice"
    assert load.receipted - set(rest) - load.tried == set(), "receipted messages are lost"
    assert load.acknowledged & set(rest) == set(), "acknowledged messages are there again"
    assert load.returned == [], "acknowledged messages came again"
    assert set(rest) | load.tried <= load.sent
    assert (ours.complaints, java.complaints) == ([], [])


@pytest.mark.parametrize(
    ("database", "java_is_first"),
    [
        pytest.param("mariadb_url", False, id="ours-java-ours"),
        pytest.param("postgresql_url", True, id="java-ours-java", marks=pytest.mark.exhaustive),
        pytest.param("postgresql_url", False, id="ours-java-ours, PostgreSQL", marks=pytest.mark.exhaustive),
        pytest.param("mariadb_url", True, id="java-ours-java, MariaDB", marks=pytest.mark.exhaustive),
    ],
)
def test_whoever_is_killed_the_other_takes_over(
    request: pytest.FixtureRequest, class_path: str, tmp_path: Path, database: str, java_is_first: bool
) -> None:
    url: str = request.getfixturevalue(database)
    ours, java = Ours(url, tmp_path), Java(url, tmp_path, class_path)
    first, second = (java, ours) if java_is_first else (ours, java)
    first.become_master()
    terms = [] if java_is_first else [ours.term]
    with loaded(ours, java) as load:
        second.stand_by()
        load.go_on()
        first.kill()
        second.wait_until_master(second.takeover_s)
        first.stand_by()
        load.go_on()
        terms += [ours.term] if java_is_first else []
        second.kill()
        first.wait_until_master(first.takeover_s)
        second.stand_by()
        load.go_on()
        terms += [] if java_is_first else [ours.term]
    check(url, load, ours, java)
    assert terms == list(range(1, len(terms) + 1)), "a Java broker in between must not set terms back"


@pytest.mark.parametrize("database", ["postgresql_url", "mariadb_url"])
@pytest.mark.exhaustive
def test_clean_hand_overs_both_ways(
    request: pytest.FixtureRequest, class_path: str, tmp_path: Path, database: str
) -> None:
    url: str = request.getfixturevalue(database)
    ours, java = Ours(url, tmp_path), Java(url, tmp_path, class_path)
    ours.become_master()
    with loaded(ours, java) as load:
        java.stand_by()
        load.go_on()
        ours.stop()
        java.wait_until_master(JAVA_POLL_S + START_S)  # it need not wait for the end of our lease
        ours.stand_by()
        load.go_on()
        java.stop()
        ours.wait_until_master(OUR_POLL_S + START_S)
        java.stand_by()
        load.go_on()
        assert ours.term == 2
    check(url, load, ours, java)


def test_a_count_goes_to_java_with_the_hand_over(url: str, class_path: str, tmp_path: Path) -> None:
    ours, java = Ours(url, tmp_path), Java(url, tmp_path, class_path)
    ours.become_master()
    with Client(("127.0.0.1", ours.port)) as client:
        client.connect()
        for body in ("a", "b"):
            client.publish(QUEUE, body)
        for _ in range(2):
            client.subscribe(QUEUE, "client-individual", activemq_prefetchSize="1")
            assert client.message().text == "a"
            client.done("UNSUBSCRIBE", {"id": "1"})
    ours.stop()
    java.become_master()
    try:
        found = [(m["body"], m["headers"]["redeliveryCounter"]) for m in java.process.consume("TOGETHER")]
        java.stop()
    finally:
        java.kill()
    assert found == [("a", 2), ("b", 0)]
