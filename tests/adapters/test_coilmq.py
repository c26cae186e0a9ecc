"""CoilMQ with our store: its own tests of stores and queue managers, unchanged, and a real server that is killed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import stomp
from coilmq.queue import QueueManager
from coilmq.util.frames import Frame

from jdbcstore.adapters.coilmq import JdbcQueueStore
from tests.adapters.suites import host_package
from tests.servers.server import free_port
from tests.waiting import wait_until

with host_package("coilmq", "tests") as suite:
    store_suite: Any = suite("tests.store")
    manager_suite: Any = suite("tests.queue_manager")
    mock: Any = suite("tests.mock")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Of a store."""
    return f"sqlite:///{tmp_path / 'coilmq.db'}"


@pytest.fixture
def store(url: str) -> Iterator[JdbcQueueStore]:
    """An open store."""
    store = JdbcQueueStore(url)
    yield store
    store.close()


@pytest.fixture
def queue_manager(store: JdbcQueueStore) -> Iterator[Any]:
    """CoilMQ's, on the store."""
    manager = QueueManager(store)
    yield manager
    manager.close()


@pytest.fixture
def conn() -> Any:
    """What CoilMQ's tests have for a client."""
    return mock.MockConnection()


class TestStore(store_suite.BaseQueueTests):
    """CoilMQ's tests of a store."""


class TestQueueManager(manager_suite.QueueManagerTests):
    """CoilMQ's tests of a queue manager over a store."""


class Listener(stomp.ConnectionListener):
    """Keeps what comes."""

    def __init__(self) -> None:
        self.frames: list[Any] = []
        self.receipts: set[str] = set()

    def on_message(self, frame: Any) -> None:
        self.frames.append(frame)

    def on_receipt(self, frame: Any) -> None:
        self.receipts.add(frame.headers["receipt-id"])


class Server:
    """``coilmq`` with a configuration file that names our store."""

    def __init__(self, url: str, folder: Path) -> None:
        self.port = free_port()
        self._log = folder / "coilmq.log"
        self._config = folder / "coilmq.cfg"
        self._config.write_text(
            f"[coilmq]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\n"
            "qstore.factory = jdbcstore.adapters.coilmq.make_jdbcstore\n"
            f"qstore.jdbcstore.url = {url}\n"
        )
        self.process: subprocess.Popen[bytes]

    def start(self) -> None:
        """Return when it listens."""
        command = [sys.executable, "-W", "ignore", "-m", "coilmq.start", "-c", str(self._config)]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self._is_listening, self._log.read_text)

    def _is_listening(self) -> bool:
        assert self.process.poll() is None, self._log.read_text()
        try:
            connection = self.connection()
        except stomp.exception.ConnectFailedException:
            return False
        connection.disconnect()
        return True

    def connection(self) -> Any:
        """A client of STOMP 1.1, which CoilMQ speaks best."""
        connection = stomp.Connection11([("127.0.0.1", self.port)], reconnect_attempts_max=1)
        connection.connect(wait=True)
        return connection

    def kill(self) -> None:
        """``kill -9``."""
        self.process.kill()
        self.process.wait(30)


@pytest.fixture
def server(url: str, tmp_path: Path) -> Iterator[Server]:
    """It listens."""
    server = Server(url, tmp_path)
    server.start()
    yield server
    server.kill()


def heard(listener: Listener, frames: int) -> None:
    """Wait until so many have come."""
    wait_until(lambda: len(listener.frames) >= frames)


def rows(url: str) -> int:
    """Messages in the store."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
        return int(file.execute("SELECT COUNT(*) FROM ACTIVEMQ_MSGS").fetchone()[0])


def test_what_was_not_acknowledged_is_there_after_a_kill(server: Server, url: str) -> None:
    client, listener = server.connection(), Listener()
    client.set_listener("", listener)
    for n in range(20):
        client.send("/queue/work", f"job {n}", receipt=str(n))
    wait_until(lambda: {str(n) for n in range(20)} <= listener.receipts)
    client.subscribe("/queue/work", id="1", ack="client")
    for done in range(5):  # one at a time: that is CoilMQ's way
        heard(listener, done + 1)
        client.ack(listener.frames[done].headers["message-id"], "1")
    heard(listener, 6)  # the sixth is not acknowledged
    wait_until(lambda: rows(url) == 15)
    server.kill()
    server.start()
    again, listener = server.connection(), Listener()
    again.set_listener("", listener)
    again.subscribe("/queue/work", id="1", ack="auto")
    wait_until(lambda: "job 19" in [frame.body for frame in listener.frames])
    assert [frame.body for frame in listener.frames] == [f"job {n}" for n in range(5, 20)]
    again.disconnect()


def test_a_frame_in_the_place_of_a_forgotten_one_keeps_its_message(url: str) -> None:
    store = JdbcQueueStore(url)
    for body in "abc":
        store.enqueue("/queue/A", Frame("SEND", {}, body))
    settled: list[int | None] = []
    with patch.object(store, "_removal", lambda key: settled.append(key)):  # as slow as it may be
        keys = []
        for _ in "abc":  # the next frame is likely to be where the last one was
            frame = store.dequeue("/queue/A")
            keys += list(store._claims)[-1:]
            del frame
        wait_until(lambda: len(settled) == 3)
    assert len(store._claims) == 3
    assert sorted(keys) == sorted(key for key in settled if key) == [1, 2, 3]
    store.close()
