"""Processes that are forked instead of started are like started ones to who waits for them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from jdbcstore.version import VERSION
from tests.launcher import Launched, Launcher
from tests.waiting import wait_until

ENVIRONMENT = {**os.environ, "PYTHONUNBUFFERED": "1"}


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    launcher = Launcher()
    yield launcher
    launcher.end()


def launch(launcher: Launcher, folder: Path, *arguments: str) -> Launched:
    with (folder / "log").open("ab") as log:
        launched = launcher.launch(arguments, folder, ENVIRONMENT, log)
    assert launched is not None
    return launched


def test_the_program_runs_to_its_end_where_it_is_told(launcher: Launcher, tmp_path: Path) -> None:
    assert launch(launcher, tmp_path, "--version").wait(60) == 0
    assert VERSION in (tmp_path / "log").read_text()
    failed = launch(launcher, tmp_path, "broker", "--url", "nosuch:store")
    assert failed.wait(60) == failed.poll() == 2
    assert "nosuch" in (tmp_path / "log").read_text()


def test_a_signal_ends_one_of_several(launcher: Launcher, tmp_path: Path) -> None:
    options = ("broker", "--url", "sqlite:///data.db", "--bind", "stomp://127.0.0.1:0", "--health-bind", "127.0.0.1:0")
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    first, second = (launch(launcher, folder, *options) for folder in folders)
    assert first.pid != second.pid
    wait_until(lambda: all("to=master" in (folder / "log").read_text() for folder in folders))
    with pytest.raises(subprocess.TimeoutExpired):
        first.wait(0.01)
    first.kill()
    assert first.wait(60) == -signal.SIGKILL
    assert second.poll() is None
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 0
    second.kill()  # nobody is there
    assert (folders[1] / "data.db").exists()


def test_whoever_gives_up_the_next_one_is_launched(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_up(told: socket.socket) -> NoReturn:
        told.close()
        raise TimeoutError

    assert launch(launcher, tmp_path, "--version").wait(60) == 0
    assert launcher.pid is not None
    os.kill(launcher.pid, signal.SIGSTOP)
    with monkeypatch.context() as patched:
        patched.setattr("tests.launcher.Launched", give_up)
        with pytest.raises(TimeoutError):
            launch(launcher, tmp_path, "--version")
    os.kill(launcher.pid, signal.SIGCONT)
    assert launch(launcher, tmp_path, "--version").wait(60) == 0


def test_another_environment_is_for_another_interpreter(launcher: Launcher, tmp_path: Path) -> None:
    launch(launcher, tmp_path, "--version").wait(60)
    with (tmp_path / "log").open("ab") as log:
        assert launcher.launch(["--version"], tmp_path, {**ENVIRONMENT, "PYTHONPATH": "/"}, log) is None
        ours = {**ENVIRONMENT, "PYTEST_CURRENT_TEST": "another", "JDBCSTORE_CONFIG": "broker.toml"}
        same = launcher.launch(["--version"], tmp_path, ours, log)
    assert same is not None
    assert same.wait(60) == 0


def test_a_script_finds_what_it_would_find_when_started(launcher: Launcher, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\n"
        "print(os.getcwd(), os.environ['_CHAOS_WITHOUT'], *sys.argv)\n"
        "if sys.argv.pop() == 'once':\n"
        "    os.execv(sys.executable, [*sys.orig_argv, 'again'])\n"
        "sys.exit(7)\n"
    )
    with (tmp_path / "log").open("ab") as log:
        environment = {**ENVIRONMENT, "_CHAOS_WITHOUT": "terms"}
        launched = launcher.launch(["once"], tmp_path, environment, log, script)
    assert launched is not None
    assert launched.wait(60) == 7
    assert (tmp_path / "log").read_text().splitlines() == [
        f"{tmp_path} terms {script} once",
        f"{tmp_path} terms {script} once again",
    ]
