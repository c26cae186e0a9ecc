"""Commands that only read, on the store of a broker that was killed: they write nothing, and need no right to."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.broker.client import Client
from tests.broker_process import PROGRAM, BrokerProcess, run_command

COMMANDS = {
    "stats": "queue://A",
    "browse": "one",
    "lock status": "lease",
    "schema status": "ready",
    "loads list": "outbox",
    "outbox list": "no message was refused",
    "schedule list": "no message is scheduled",
    "transactions list": "nothing is in doubt",
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The folder of a SQLite store whose broker was killed: what it has committed is in the log."""
    folder = tmp_path / "store"
    folder.mkdir()
    with BrokerProcess(f"sqlite:///{folder}/a.db", tmp_path) as broker:
        with Client(broker.address) as client:
            client.connect()
            client.publish("/queue/A", "one")
        broker.kill()
    assert (folder / "a.db-wal").stat().st_size > 0
    return folder


def arguments(command: str, store: Path) -> list[str]:
    url = f"sqlite:///{store}/a.db"
    return [*command.split(), url, *(["queue://A"] if command == "browse" else [])]


def run_where_nothing_can_be_written(command: str, store: Path) -> tuple[int, str]:
    """Run a command that sees the folder as a read-only file system."""
    script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "--map-root-user", "sh", "-c", script, str(store), *PROGRAM, *arguments(command, store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout


def contents(store: Path) -> dict[str, bytes]:
    """The files of a store; where readers are in the log is in its index, which is no part of it."""
    return {file.name: file.read_bytes() for file in store.iterdir() if not file.name.endswith("-shm")}


def test_what_a_killed_broker_has_left_in_the_log_is_read_and_left_there(store: Path, tmp_path: Path) -> None:
    before = contents(store)
    for command, found in COMMANDS.items():
        code, told = run_command(arguments(command, store), tmp_path)
        assert (code, found in told) == (0, True), told
        assert contents(store) == before, command


def test_it_is_read_where_nothing_can_be_written(store: Path) -> None:
    for command, found in COMMANDS.items():
        code, told = run_where_nothing_can_be_written(command, store)
        assert (code, found in told) == (0, True), told


def test_what_cannot_be_read_without_writing_is_said(store: Path) -> None:
    (store / "a.db-shm").unlink()
    for command in COMMANDS:
        code, told = run_where_nothing_can_be_written(command, store)
        assert code != 0
        assert f"{store}/a.db cannot be read here: what is in its log" in told, told


def test_a_store_without_a_log_is_read_where_nothing_can_be_written_and_gets_no_files(
    store: Path, tmp_path: Path
) -> None:
    with BrokerProcess(f"sqlite:///{store}/a.db", tmp_path) as broker:
        assert broker.stop() == 0
    assert list(contents(store)) == ["a.db"]
    for command, found in COMMANDS.items():
        code, told = run_where_nothing_can_be_written(command, store)
        assert (code, found in told or command == "lock status") == (0, True), told
        code, told = run_command(arguments(command, store), tmp_path)
        assert code == 0, told
        assert [file.name for file in store.iterdir()] == ["a.db"]
