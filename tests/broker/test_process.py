"""The broker as a process: what survives kill -9, how it stops, what it says."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.broker.client import Address, Client, Frame
from tests.broker_process import PROGRAM, BrokerProcess, run_command
from tests.waiting import wait_until


class Process:
    """A running ``jdbcstore broker`` on a SQLite file."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jdbcstore.cli", "broker", "--bind", "127.0.0.1:0", *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert self.process.stdout is not None
        self.welcome = self.process.stdout.readline()
        found = re.search(r"on (\S+):(\d+),", self.welcome)
        assert found is not None, self.welcome + (self.process.stderr.read() if self.process.stderr else "")
        self.address: Address = (found[1], int(found[2]))

    def end(self, number: signal.Signals) -> str:
        """Send a signal, wait for the end, return the log."""
        self.process.send_signal(number)
        return self.process.communicate(timeout=100)[1]


@contextmanager
def broker(folder: Path, *arguments: str) -> Iterator[Process]:
    process = Process(folder, *arguments)
    try:
        yield process
    finally:
        process.process.kill()
        process.process.communicate()


def connected(process: Process) -> Client:
    client = Client(process.address)
    assert client.connect().command == "CONNECTED"
    return client


def rest(client: Client) -> Iterator[Frame]:
    """All frames until the broker closes the connection."""
    with suppress(ConnectionError):
        while True:
            yield client.frame()


def test_what_has_a_receipt_survives_kill_9(tmp_path: Path) -> None:
    with broker(tmp_path) as process, connected(process) as client:
        client.subscribe("/queue/A", "client-individual", activemq_prefetchSize="1")
        for number in range(50):
            client.publish("/queue/A", str(number))
        client.done("ACK", client.named(client.message()))
        process.end(signal.SIGKILL)
    with broker(tmp_path) as process, connected(process) as client:
        client.subscribe("/queue/A")
        assert [int(client.message().body) for _ in range(49)] == list(range(1, 50))
        assert client.is_silent()


def test_sigterm_answers_what_is_in_flight_and_exits_with_0(tmp_path: Path) -> None:
    with broker(tmp_path) as process, connected(process) as client:
        frame = "SEND\ndestination:/queue/A\npersistent:true\nreceipt:{0}\n\n{0}\0"
        client.write("".join(frame.format(number) for number in range(500)).encode())
        first = client.frame()
        log = process.end(signal.SIGTERM)
        receipts = [first, *rest(client)]
        assert process.process.returncode == 0
        assert "broker stopped" in log
    answered = {int(receipt.headers["receipt-id"]) for receipt in receipts}
    with broker(tmp_path) as process, connected(process) as client:
        stored = set(map(int, client.rest_of("/queue/A")))
    assert answered <= stored


def test_non_persistent_messages_and_the_spool_are_gone_after_a_stop(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text("[broker]\nwindow_messages_max = 10\npage_messages_max = 5\n")
    folder = tmp_path / "tmp"
    folder.mkdir()
    os.environ["TMPDIR"] = str(folder)
    try:
        with broker(tmp_path, "--config", "broker.toml") as process, connected(process) as client:

            def has_spool() -> bool:  # which is opened beside what is sent
                for number in range(50):
                    client.done("SEND", {"destination": "/queue/A"}, str(number))
                return bool(list(folder.glob("jdbcstore-spool-*")))

            wait_until(has_spool)
            process.end(signal.SIGTERM)
    finally:
        del os.environ["TMPDIR"]
    assert not list(folder.glob("jdbcstore-spool-*"))
    with broker(tmp_path) as process, connected(process) as client:
        client.subscribe("/queue/A")
        assert client.is_silent()


def test_it_says_where_it_listens_and_how_to_begin(tmp_path: Path) -> None:
    with broker(tmp_path) as process:
        assert process.process.stdout is not None
        host, port = process.address
        assert "sqlite:///data/jdbcstore.db" in process.welcome
        assert f"jdbcstore send {host}:{port} /queue/HELLO" in process.process.stdout.readline()
        assert (tmp_path / "data" / "jdbcstore.db").exists()


def test_logs_can_be_json(tmp_path: Path) -> None:
    with broker(tmp_path, "--log-format", "json") as process:
        lines = [json.loads(line) for line in process.end(signal.SIGINT).splitlines()]
    assert lines[-1]["message"].startswith("broker stopped")
    assert {"time", "level", "logger", "message"} <= lines[0].keys()


def test_a_password_in_the_url_is_not_shown(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "jdbcstore.cli", "broker", "--url", "postgresql://u:topsecret@127.0.0.1:1/x"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "JDBCSTORE_START_TIMEOUT_S": "1"},
    )
    assert finished.returncode == 1
    assert "topsecret" not in finished.stdout + finished.stderr
    assert len([line for line in finished.stderr.splitlines() if line.startswith("jdbcstore: ")]) == 1


def test_an_address_that_is_taken_is_said_in_one_line(tmp_path: Path) -> None:
    with broker(tmp_path) as process:
        host, port = process.address
        finished = subprocess.run(
            [sys.executable, "-m", "jdbcstore.cli", "broker", "--url", "memory:", "--bind", f"{host}:{port}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
        )
    last = finished.stderr.splitlines()[-1]
    assert (finished.returncode, last) == (
        1,
        f"jdbcstore: cannot listen on stomp://{host}:{port}: address already in use: another program has the port"
        " (ss -ltnp shows which); stop it, or give another port",
    )


@pytest.mark.parametrize("option", ["--bind", "--health-bind"])
def test_a_name_without_address_is_said_to_be_one(tmp_path: Path, option: str) -> None:
    bind = [] if option == "--bind" else ["--bind", "127.0.0.1:0"]
    code, said = run_command(["broker", "--url", "memory:", *bind, option, "broker.invalid:61613"], tmp_path)
    assert code == 1
    assert ": the name of the host has no address (" in said.splitlines()[-1]


@pytest.mark.parametrize("opened", ["os.open('/dev/full', os.O_WRONLY)", "os.pipe()[1]"], ids=["full", "unread"])
def test_a_standby_becomes_master_although_nothing_can_be_printed(tmp_path: Path, opened: str) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    become = f"import os, sys; os.dup2({opened}, 1); os.execv(sys.argv[1], sys.argv[1:])"
    standby = BrokerProcess(url, tmp_path, program=[sys.executable, "-c", become, *PROGRAM])
    with BrokerProcess(url, tmp_path) as master:
        standby.start_standby()
        master.stop()
        standby.wait_for("master")
        with Client(standby.address) as client:
            client.connect()
            client.publish("/queue/A", "served")
    assert standby.stop() == 0
    assert "Traceback" not in standby.log()


def test_a_standby_becomes_master_although_its_working_directory_is_gone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    shell = ["sh", "-c", 'cd "$(mktemp -d)" && rmdir "$PWD" && exec "$@"', "sh"]
    standby = BrokerProcess(url, tmp_path, program=[*shell, str(Path(sys.executable).with_name("jdbcstore"))])
    with BrokerProcess(url, tmp_path) as master:
        standby.start_standby()
        master.stop()
        standby.wait_for("master")
    assert standby.stop() == 0
    assert "jdbcstore listens for STOMP clients" in standby.log()
    assert "first message:" in standby.log()
