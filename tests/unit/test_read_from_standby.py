"""A URL that wants a standby is for who only reads: every command that writes says so before it asks anybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.cli import run
from jdbcstore.config.urls import open_store

#: Nobody listens there, and nobody is asked.
STANDBY = "postgresql://joe:secret@127.0.0.1:1/nowhere?read_from=standby"


@pytest.mark.parametrize(
    "command",
    [
        ["broker", "--url", STANDBY],
        ["schema", "upgrade", STANDBY],
        ["lock", "release", STANDBY, "--holder", "node-1", "--yes"],
        ["loads", "abort", STANDBY, "job"],
        ["transactions", "commit", STANDBY, "1:0a:0b"],
        ["migrate", "SOURCE", STANDBY],
        ["pipeline", "migrate", "SOURCE", STANDBY],
        ["pipeline", "archive", STANDBY, "--output", "archive", "--remove"],
        ["pipeline", "replay", "archive", STANDBY],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_who_writes_refuses_a_standby(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = f"sqlite:///{tmp_path / 'source.db'}"
    if "SOURCE" in command:
        with open_store(source):
            pass
    try:
        code: object = run([source if word == "SOURCE" else word for word in command])
    except SystemExit as error:  # what has exit codes of its own
        code = error.code
    assert code == 2
    assert "read_from = standby is for who only reads a store" in capsys.readouterr().err
