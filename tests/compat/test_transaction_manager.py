"""A transaction manager for Java: its transactions of one phase and of two, and what it recovers when it was killed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Broker, BrokerOptions, open_store, running
from tests.compat.activemq import ActiveMQ, quick_start

EXPECTED: dict[str, Any] = {
    "one phase": ["one phase"],
    "rolled back": [],
    "two connections": ["one", "two"],
    "moved": [[False, True], ["in and out"]],
    "two phases": ["two phases"],
    "recovered": ["decided"],
}
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
HALTED = 9
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(params=["ours", pytest.param("theirs", marks=pytest.mark.exhaustive)])
def url(request: pytest.FixtureRequest, class_path: str, tmp_path: Path) -> Iterator[str]:
    """Where a broker is for JMS clients: ours, or a real ActiveMQ, which has to do the same."""
    if request.param == "theirs":
        with ActiveMQ(class_path, tmp_path, "kahadb") as activemq:
            yield activemq.url
        return
    broker = Broker(open_store(f"sqlite:///{tmp_path}/a.db"), BrokerOptions(bind="openwire://127.0.0.1:0"))
    with running(broker) as (host, port):
        yield f"tcp://{host}:{port}"


def test_what_a_transaction_manager_decided_is_done_when_it_comes_again(
    class_path: str, url: str, tmp_path: Path
) -> None:
    told: dict[str, Any] = {}
    for phase, ends_with in (("work", HALTED), ("recover", 0)):
        options = [*quick_start(class_path), QUIET, "-cp", class_path]
        run = subprocess.run(
            ["java", *options, "TransactionManager", url, str(tmp_path), phase],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert run.returncode == ends_with, run.stdout + run.stderr
        told |= {line["name"]: line["result"] for line in map(json.loads, run.stdout.splitlines())}
    assert told == EXPECTED
