"""Secrets on command lines do not stay in the process list."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.console.command_line import secrets_in
from tests.broker_process import PROGRAM, BrokerProcess
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
