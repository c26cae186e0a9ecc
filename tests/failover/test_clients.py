"""Clients of others, with two addresses, when the master goes: they carry on, and nothing is lost or doubled.

Each client is a program in a process of its own; what it prints is told in `tests.failover.stomp_py_client`.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import NullPool, create_engine, text

from jdbcstore.config.urls import store_url
from jdbcstore.store.jdbc.schema import create_tables
from tests.broker.client import Client
from tests.broker_process import BrokerProcess
from tests.compat.activemq import quick_start
from tests.servers.proxy import Proxy

pytestmark = [pytest.mark.timeout(180), pytest.mark.variants(2)]

HERE = Path(__file__).parent
LEASE_MS = 6000
#: How long anything may take on a busy machine.
PATIENCE_S = 60.0
KINDS = ["stomp_py", "stompman", "java"]


@pytest.fixture(params=KINDS)
def command(request: pytest.FixtureRequest) -> list[str]:
    """How to start a client program, without its arguments."""
    if request.param == "java":
        class_path: str = request.getfixturevalue("class_path")
        return ["java", *quick_start(class_path), "-cp", class_path, "ReconnectingClient"]
    return [sys.executable, "-W", "ignore", str(HERE / f"{request.param}_client.py")]


class Program:
    """A client that runs, and what it has told."""

    def __init__(self, command: list[str], ports: tuple[int, int], producer: str) -> None:
        self.said: list[tuple[str, ...]] = []
        self._process = subprocess.Popen(
            [*command, *map(str, ports), producer],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(tuple(line.split()))

    def numbers(self, word: str) -> list[int]:
        """The numbers that it has told with a word, in order."""
        return [int(words[1]) for words in list(self.said) if words[0] == word]

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for something that it tells."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert self._process.poll() is None, f"the client ended: {self._errors()}"
            assert time.monotonic() < deadline, f"waited in vain until {what}: {self.summary()}"
            time.sleep(0.02)

    def go_on(self, messages: int) -> None:
        """Wait until it has had so many more receipts and acknowledgements."""
        goals = {word: len(self.numbers(word)) + messages for word in ("receipted", "acked")}
        self.wait_for(
            f"{messages} more are done", lambda: all(len(self.numbers(word)) >= goal for word, goal in goals.items())
        )

    def finish(self) -> None:
        """Let it come to an end by itself."""
        assert self._process.stdin is not None
        self._process.stdin.write("finish\n")
        self._process.stdin.flush()
        self.wait_for("it is done", lambda: ("done",) in self.said)
        assert self._process.wait(PATIENCE_S) == 0, self._errors()

    def summary(self) -> str:
        """How much of what it has told, and the end of it."""
        return f"{Counter(words[0] for words in self.said)} … {self.said[-20:]}"

    def _errors(self) -> str:
        assert self._process.stderr is not None
        return f"{self.summary()}\n{self._process.stderr.read()[-4000:]}"

    def close(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()


class Pair(NamedTuple):
    """Two brokers on one database. The first is master and reaches the database through a proxy."""

    first: BrokerProcess
    second: BrokerProcess
    proxy: Proxy
    url: str

    @property
    def ports(self) -> tuple[int, int]:
        """Where clients connect."""
        return self.first.port, self.second.port


@contextmanager
def pair(url: str, folder: Path) -> Iterator[Pair]:
    """Start a master and a standby; end them."""
    note_what_is_stored(url)
    options = f"?lease_ms={LEASE_MS}&lock_acquire_sleep_interval_ms=200&retry_s=1&query_timeout_s=5"
    with Proxy(int(url.rpartition(":")[2].partition("/")[0])) as proxy, ExitStack() as stack:
        first = stack.enter_context(BrokerProcess(proxy.url(url) + options, folder, "--name", "first"))
        second = BrokerProcess(url + options, folder, "--name", "second")
        stack.push(second)
        second.start_standby()
        yield Pair(first, second, proxy, url)


def note_what_is_stored(url: str) -> None:
    """Let the database write down every message that is ever stored."""
    engine = create_engine(store_url(url), poolclass=NullPool)
    create_tables(engine)
    note = "INSERT INTO NOTED VALUES (NEW.MSGID_PROD, NEW.MSGID_SEQ)"
    if engine.dialect.name == "postgresql":
        trigger = [
            f"CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {note}; RETURN NULL; END $$",
            "CREATE TRIGGER noted AFTER INSERT ON ACTIVEMQ_MSGS FOR EACH ROW EXECUTE FUNCTION note()",
        ]
    else:
        trigger = [f"CREATE TRIGGER noted AFTER INSERT ON ACTIVEMQ_MSGS FOR EACH ROW {note}"]
    with engine.begin() as connection:
        for statement in ("CREATE TABLE NOTED (PRODUCER VARCHAR(250), SEQ BIGINT)", *trigger):
            connection.exec_driver_sql(statement)
    engine.dispose()


def stored(url: str, producer: str) -> Counter[int]:
    """How often each number of a producer was stored."""
    engine = create_engine(store_url(url), poolclass=NullPool)
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT SEQ FROM NOTED WHERE PRODUCER = :p"), {"p": f"ID:{producer}:0:0"})
        found = Counter(int(number) for (number,) in rows)
        left = connection.execute(text("SELECT COUNT(*) FROM ACTIVEMQ_MSGS")).scalar_one()
    engine.dispose()
    assert left == 0, f"{left} messages are left"
    return found


def hand_over(brokers: Pair) -> None:
    """SIGTERM of the master."""
    assert brokers.first.stop() == 0


def kill(brokers: Pair) -> None:
    """``kill -9`` of the master."""
    brokers.first.kill()


def cut_off(brokers: Pair) -> None:
    """The master's way to the database is cut for longer than the lease."""
    brokers.proxy.cut()
    brokers.first.wait_for("suspended")
    brokers.second.wait_for("master")


def run(url: str, folder: Path, command: list[str], fault: Callable[[Pair], None]) -> Program:
    """Let a client work while the master goes, and see that nothing is lost or doubled."""
    with pair(url, folder) as brokers:
        with Client(("127.0.0.1", brokers.first.port)) as other:
            other.connect()
            for body in "abc":
                other.publish("/queue/HELD", body)
        client = Program(command, brokers.ports, "tester")
        try:
            client.wait_for("it holds a, b, c", lambda: len(held(client)) == 3)
            client.go_on(100)
            fault(brokers)
            brokers.second.wait_for("master")
            client.go_on(100)
            brokers.proxy.resume()
            client.wait_for("they come again", lambda: len(held(client)) >= 6)
            client.finish()
        finally:
            client.close()
    sent = set(range(1, max(client.numbers("receipted")) + 1))
    assert set(client.numbers("receipted")) == sent
    assert set(client.numbers("got")) == sent, "a message is lost"
    assert stored(url, "tester") == Counter(sent), "a message was stored twice"
    return client


def held(client: Program) -> list[tuple[str, str]]:
    """What came of queue HELD, with the count."""
    return [(words[1], words[2]) for words in list(client.said) if words[0] == "held"]


def returned(client: Program) -> set[int]:
    """What came once more although its acknowledgement had a receipt."""
    acknowledged: set[int] = set()
    found: set[int] = set()
    for words in client.said:
        if words[0] == "acked":
            acknowledged.add(int(words[1]))
        elif words[0] == "got" and int(words[1]) in acknowledged:
            found.add(int(words[1]))
    return found


@pytest.mark.parametrize(
    "database",
    ["postgresql_url", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("mariadb_url", "mysql_url"))],
)
def test_a_hand_over(request: pytest.FixtureRequest, database: str, tmp_path: Path, command: list[str]) -> None:
    client = run(request.getfixturevalue(database), tmp_path, command, hand_over)
    assert held(client) == [(body, count) for count in "12" for body in "abc"]
    fresh = Counter(int(words[1]) for words in client.said if words[0] == "got" and words[2] == "1")
    assert max(fresh.values()) == 1, "a message came again and did not say so"
    assert returned(client) == set() or "stompman" in command[-1]


@pytest.mark.parametrize("fault", [kill, cut_off])
def test_a_master_that_is_gone(
    postgresql_url: str, tmp_path: Path, command: list[str], fault: Callable[[Pair], None]
) -> None:
    client = run(postgresql_url, tmp_path, command, fault)
    assert {body for body, _ in held(client)[3:]} == set("abc")
    assert returned(client) == set() or "stompman" in command[-1]
