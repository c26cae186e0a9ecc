"""stomp.py as a client: the current one and 8.2, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from tests.broker.conftest import VERSIONS, StartBroker

SCENARIOS = Path(__file__).with_name("stomp_py_scenarios.py")
OLD = "8.2.0"


def scenarios() -> list[str]:
    """The names, read without importing stomp.py here."""
    text = SCENARIOS.read_text("utf-8")
    listed = text.split("for scenario in (")[1].split(")")[0]
    return [name.strip() for name in listed.split(",") if name.strip()]


@pytest.fixture(scope="session")
def old_stomp_py(pytestconfig: pytest.Config) -> Path:
    """A folder with stomp.py 8.2, installed once."""
    assert pytestconfig.cache is not None
    parent = Path(pytestconfig.cache.mkdir("stomp.py"))
    folder = parent / OLD
    if not folder.exists():
        fresh = tempfile.mkdtemp(dir=parent)
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", fresh, f"stomp.py=={OLD}"]
        subprocess.run(command, check=True, timeout=100)
        with suppress(OSError):  # another test process was faster
            Path(fresh).rename(folder)
    return folder


@pytest.fixture(params=["current", OLD])
def python_path(request: pytest.FixtureRequest) -> str:
    """Where the scenarios find their stomp.py."""
    return "" if request.param == "current" else str(request.getfixturevalue("old_stomp_py"))


# Six for each scenario: of each there is one in every run, and all versions come in turn.
@pytest.mark.one_in(5)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("scenario", scenarios())
def test_scenario(start_broker: StartBroker, python_path: str, version: str, scenario: str) -> None:
    host, port = start_broker(users={"admin": "password"})
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCENARIOS), host, str(port), version, scenario],
        env={**os.environ, "PYTHONPATH": python_path},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    expected = f"stomp.py {OLD}: " if python_path else "stomp.py "
    assert finished.stdout.startswith(expected)
