"""The program: secrets on command lines do not stay in the process list, and who interrupts it sees no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.console.command_line import secrets_in
from tests.broker_process import PROGRAM, BrokerProcess
from tests.threads import NO_ROOM_BYTES
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("arguments", "secrets"),
    [
        (["broker", "--url", "postgresql://joe:top@secret@db:1/a"], ["top@secret"]),
        (["stats", "mysql+pymysql://joe:s3cret@db/a?ssl_ca=x"], ["s3cret"]),
        (["stats", "postgresql:///a?host=/run&user=joe&password=s3cret&x=y"], ["s3cret"]),
        (["broker", "--user", "joe:a:b", "--user=ann:c"], ["a:b", "c"]),
        (["send", "--passcode", "x", "--passcode=y", "--login", "joe"], ["x", "y"]),
        (["broker", "--user", "joe"], []),
        (["send", "h:1", "/queue/A", "--login", "joe"], []),
        (["receive", "stomp+ssl://broker.example:61614", "a@b"], []),
        (["broker", "--url", "sqlite:///data/a:b.db"], []),
        ([], []),
    ],
)
def test_secrets_are_found(arguments: list[str], secrets: list[str]) -> None:
    assert secrets_in(arguments) == secrets


def test_a_program_whose_standard_streams_are_closed_works_as_any(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'store.db'}"):
        pass
    arguments = (*PROGRAM, "queues", "--store", f"sqlite:///{tmp_path / 'store.db'}")
    closed = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *arguments], timeout=120)
    assert closed.returncode == 0


def test_a_broker_that_gets_no_thread_says_so_in_one_line(tmp_path: Path) -> None:
    program = f"import threading; threading.stack_size({NO_ROOM_BYTES}); from jdbcstore.cli import main; main()"
    command = (sys.executable, "-c", program, "broker", "--url", "sqlite:///store.db", "--bind", "127.0.0.1:0")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "jdbcstore: can't start new thread: raise the limit (ulimit -u" in done.stderr.splitlines()[-1]


def test_a_relative_store_of_a_directory_that_is_gone_says_so(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    shell = ("sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh")
    command = (*shell, *PROGRAM, "broker", "--url", "sqlite:///store.db", "--bind", "127.0.0.1:0")
    done = subprocess.run(command, cwd=tmp_path / "gone", capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "jdbcstore: the working directory has been removed: go to another one" in done.stderr.splitlines()[-1]


def test_a_running_broker_shows_no_secret(tmp_path: Path) -> None:
    url = "postgresql://joe:topsecret@127.0.0.1:1/nowhere"
    broker = BrokerProcess(url, tmp_path, "--user", "ann:hers:too", "--name", "shown", program=PROGRAM)
    broker.launch()
    try:
        shown = Path(f"/proc/{broker.pid}/cmdline")
        wait_until(lambda: b"topsecret" not in (now := shown.read_bytes()) and b"shown" in now)
        arguments = shown.read_bytes()
    finally:
        broker.kill()
    assert b"joe:*********@127.0.0.1" in arguments
    assert b"ann:********\0" in arguments
    assert "topsecret" not in broker.log()


@pytest.mark.parametrize("module", ["click", "jdbcstore.errors", "jdbcstore.console.stats", "sqlalchemy"])
def test_who_interrupts_a_program_that_is_being_loaded_sees_no_traceback(module: str, tmp_path: Path) -> None:
    program = f"""if True:
        import os, runpy, signal, sys

        class Interrupting:
            def find_spec(self, name, path=None, target=None):
                if name == {module!r}:
                    os.kill(os.getpid(), signal.SIGINT)

        signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts us in the background lets us ignore it
        sys.meta_path.insert(0, Interrupting())
        sys.argv = ["jdbcstore", "stats", "sqlite:///none.db"]
        runpy.run_module("jdbcstore", run_name="__main__")
    """
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr.strip()) == (1, "", "interrupted")
