"""Celery over our transport: real workers in processes of their own, real brokers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chord
from celery.exceptions import TaskRevokedError

from tests.adapters.worker import Worker, environment
from tests.broker_process import BrokerProcess
from tests.servers.server import free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

WAIT_S = 60.0


def store_url(folder: Path) -> str:
    """A store that a standby takes over soon."""
    return f"sqlite:///{folder / 'broker.db'}?lease_ms=6000&lock_acquire_sleep_interval_ms=200"


@dataclass(frozen=True)
class Place:
    """Where a broker runs: how to reach it, and the folder of its workers and results."""

    url: str
    folder: Path


@contextmanager
def served(folder: Path) -> Iterator[Place]:
    """A broker at work."""
    with BrokerProcess(store_url(folder), folder) as broker:
        yield Place(f"jdbcstore://127.0.0.1:{broker.port}/", folder)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Place]:
    """A broker of the test's own, without workers."""
    with served(tmp_path) as place:
        yield place


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The broker of those who use `worker`."""
    with served(tmp_path_factory.mktemp("celery")) as place:
        yield place


@pytest.fixture(scope="module")
def worker(shared: Place) -> Iterator[Worker]:
    """One worker with two processes, for all who leave it as it was."""
    with Worker(shared.url, shared.folder, "one", "-c", "2") as worker:
        yield worker


def program(broker_url: str, folder: Path) -> Celery:
    """A program that sends tasks, and does not know them."""
    app = Celery("program", broker=broker_url, backend=environment(broker_url, folder)["TEST_RESULTS"])
    app.conf.task_send_sent_event = True
    app.conf.broker_connection_timeout = WAIT_S
    return app


def task(app: Celery, name: str, *args: object) -> Any:
    """A task of the workers."""
    return app.signature(f"tests.adapters.celery_app.{name}", args)


@pytest.fixture
def app(own: Place) -> Iterator[Celery]:
    """A program that uses a broker of the test's own."""
    app = program(own.url, own.folder)
    yield app
    app.close()


@pytest.fixture
def shared_app(shared: Place) -> Iterator[Celery]:
    """A program that uses the shared broker."""
    app = program(shared.url, shared.folder)
    yield app
    app.close()


def lines(path: Path) -> list[str]:
    """What tasks have noted."""
    return path.read_text().splitlines() if path.exists() else []


def test_results_chords_retries_and_tasks_for_later(shared_app: Celery, worker: Worker) -> None:
    assert task(shared_app, "add", 2, 3).delay().get(timeout=WAIT_S) == 5
    summed = chord([task(shared_app, "add", n, n) for n in range(10)], task(shared_app, "total")).apply_async()
    assert summed.get(timeout=WAIT_S) == 90
    assert task(shared_app, "second_try").delay().get(timeout=WAIT_S) == 1
    began_s = time.monotonic()
    assert task(shared_app, "add", 1, 1).apply_async(countdown=2).get(timeout=WAIT_S) == 2
    assert time.monotonic() - began_s >= 2


def test_remote_control_revokes_and_inspects(shared_app: Celery, worker: Worker, tmp_path: Path) -> None:
    here = [worker.name]  # they end when it has answered
    assert shared_app.control.ping(here, timeout=WAIT_S) == [{worker.name: {"ok": "pong"}}]
    inspect = shared_app.control.inspect(here, timeout=WAIT_S)
    assert set(inspect.stats()) == {worker.name}
    notes = tmp_path / "notes"
    running = task(shared_app, "note", str(notes), "long", 120).delay()
    wait_until(lambda: lines(notes) == ["begin long"])
    assert [task["id"] for task in inspect.active()[worker.name]] == [running.id]
    running.revoke(terminate=True)
    with pytest.raises(TaskRevokedError):
        running.get(timeout=WAIT_S)
    later = task(shared_app, "add", 1, 1).apply_async(countdown=8)  # not due before it is revoked
    later.revoke()
    with pytest.raises(TaskRevokedError):
        later.get(timeout=WAIT_S)


def test_events_reach_who_listens(shared_app: Celery, worker: Worker) -> None:
    heard: list[str] = []
    with shared_app.connection() as connection:
        receiver = shared_app.events.Receiver(connection, handlers={"*": lambda event: heard.append(event["type"])})
        listener = threading.Thread(target=receiver.capture, kwargs={"limit": None, "timeout": None})
        listener.start()
        try:
            wait_until(lambda: "worker-heartbeat" in heard)
            assert task(shared_app, "add", 1, 1).delay().get(timeout=WAIT_S) == 2
            wanted = {"task-sent", "task-received", "task-started", "task-succeeded"}
            wait_until(lambda: wanted <= set(heard), lambda: str(heard))
        finally:
            receiver.should_stop = True
            listener.join(WAIT_S)
    assert not listener.is_alive()


@pytest.mark.parametrize("pool", ["threads", pytest.param("solo", marks=pytest.mark.exhaustive)])
def test_workers_without_processes_run_and_acknowledge_all(app: Celery, own: Place, tmp_path: Path, pool: str) -> None:
    with Worker(own.url, tmp_path, pool, "-P", pool, "-c", "4"):
        results = [task(app, "add", n, 1).delay() for n in range(100)]
        assert [result.get(timeout=WAIT_S) for result in results] == list(range(1, 101))
    with app.connection() as connection:
        assert connection.default_channel.queue_declare("celery", passive=True).message_count == 0


def test_the_task_of_a_worker_that_is_killed_runs_again(app: Celery, own: Place, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with Worker(own.url, tmp_path, "first", "-c", "1") as first:
        for n in range(5):
            task(app, "note", str(notes), str(n), 0.0 if n else 5.0).delay()
        wait_until(lambda: "begin 0" in lines(notes))
        first.kill()
    with Worker(own.url, tmp_path, "second", "-c", "1"):
        wait_until(lambda: {f"end {n}" for n in range(5)} <= set(lines(notes)))
    assert lines(notes).count("begin 0") == 2


def test_a_task_that_takes_longer_than_heart_beats_runs_once(
    app: Celery, own: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_HEARTBEAT_S", "3")  # 7.5 s of silence
    notes = tmp_path / "notes"
    with Worker(own.url, tmp_path, "one", "-c", "1"):
        for name, pause_s in (("long", 10.0), ("next", 0.0)):
            task(app, "note", str(notes), name, pause_s).delay()
        wait_until(lambda: "end next" in lines(notes))
    assert lines(notes) == ["begin long", "end long", "begin next", "end next"]


@pytest.mark.timeout(240)  # a worker may end half a minute late
def test_the_tasks_of_a_worker_that_is_stopped_run_elsewhere_and_it_comes_back(
    app: Celery, own: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_HEARTBEAT_S", "2")
    notes = tmp_path / "notes"
    with Worker(own.url, tmp_path, "first", "-c", "1") as first:
        for n in range(4):
            task(app, "note", str(notes), str(n), 2.0).delay()
        wait_until(lambda: "begin 0" in lines(notes))
        first.signal(signal.SIGSTOP)
        with Worker(own.url, tmp_path, "second", "-c", "1") as second:
            wait_until(lambda: {f"end {n}" for n in range(4)} <= set(lines(notes)), timeout_s=WAIT_S)
            first.signal(signal.SIGCONT)
            both = {first.name, second.name}
            wait_until(lambda: {name for answer in app.control.ping(timeout=2) for name in answer} == both)
        task(app, "note", str(notes), "last").delay()
        wait_until(lambda: "end last" in lines(notes))


@pytest.mark.exhaustive
def test_a_rate_limit_holds_tasks_back(shared_app: Celery, worker: Worker) -> None:
    limit = shared_app.control.rate_limit
    answers = limit("tests.adapters.celery_app.limited", "2/s", [worker.name], reply=True, timeout=WAIT_S)
    assert answers == [{worker.name: {"ok": "new rate limit set successfully"}}]
    began_s = time.monotonic()
    results = [task(shared_app, "limited", n).delay() for n in range(6)]
    assert [result.get(timeout=WAIT_S) for result in results] == list(range(6))
    assert time.monotonic() - began_s >= 2


def test_a_failover_under_load_loses_no_task(tmp_path: Path) -> None:
    notes, store = tmp_path / "notes", store_url(tmp_path)
    with BrokerProcess(store, tmp_path) as master, ExitStack() as stack:
        standby = BrokerProcess(store, tmp_path)
        standby.start_standby()
        stack.callback(standby.stop)
        url = f"jdbcstore://127.0.0.1:{master.port},127.0.0.1:{standby.port}/"
        app = program(url, tmp_path)
        stack.callback(app.close)
        stack.enter_context(Worker(url, tmp_path, "one", "-c", "2"))
        sent: list[int] = []
        refused: list[Exception] = []

        def send() -> None:
            for n in range(400):
                try:
                    task(app, "note", str(notes), str(n)).delay()
                except Exception as error:  # noqa: BLE001  # whatever a program would have heard
                    refused.append(error)
                else:
                    sent.append(n)

        sender = threading.Thread(target=send)
        sender.start()
        wait_until(lambda: len(sent) >= 100)
        master.kill()
        sender.join(100)
        assert not sender.is_alive()
        wait_until(lambda: {f"end {n}" for n in sent} <= set(lines(notes)), lambda: f"{len(set(lines(notes)))} lines")
        assert len(sent) == 400, refused[:3]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.exhaustive)])
def embedded_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a store on which the first program runs the broker."""
    if request.param == "sqlite":
        return f"jdbcstore+sqlite:///{tmp_path / 'laptop.db'}"
    return f"jdbcstore+{request.getfixturevalue('postgresql_url')}"


def test_a_broker_inside_of_a_program_is_found_by_the_others(embedded_url: str, tmp_path: Path) -> None:
    url = embedded_url
    send = "from tests.adapters.celery_app import add; print(add.delay(2, 3).get(timeout=60))"
    with Worker(url, tmp_path, "one", "-c", "1"):
        command = [sys.executable, "-W", "ignore", "-c", send]
        done = subprocess.run(
            command, env=environment(url, tmp_path), capture_output=True, text=True, timeout=100, check=True
        )
        assert done.stdout.strip() == "5"


@pytest.mark.exhaustive
def test_flower_shows_workers_and_tasks(shared_app: Celery, worker: Worker, shared: Place, tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "celery", "-A", "tests.adapters.celery_app", "flower"]
    command += [f"--port={port}", "--address=127.0.0.1"]
    env = {**environment(shared.url, shared.folder), "FLOWER_UNAUTHENTICATED_API": "true"}

    def shown(what: str) -> Any:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/{what}", timeout=20) as answer:
                return json.load(answer)
        except OSError:
            return {}

    with (tmp_path / "flower.log").open("wb") as log:
        flower = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    try:
        wait_until(lambda: worker.name in shown("workers?refresh=1"), (tmp_path / "flower.log").read_text)
        done = task(shared_app, "add", 1, 1).delay()
        assert done.get(timeout=WAIT_S) == 2
        wait_until(lambda: shown("tasks").get(done.id, {}).get("state") == "SUCCESS", lambda: str(shown("tasks")))
    finally:
        flower.terminate()
        flower.wait(WAIT_S)
