"""@stomp/stompjs over WebSocket: what browsers run, under node."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Broker, BrokerOptions, running
from jdbcstore.store.memory import MemoryPersistenceAdapter
from tests.servers.mysql import FOLDER_VARIABLE
from tests.servers.server import CHECKOUT

SCENARIO = Path(__file__).with_name("stompjs") / "scenario.cjs"

EXPECTED: dict[str, Any] = {
    "versions and sub-protocols": [["1.0", "v10.stomp"], ["1.1", "v11.stomp"], ["1.2", "v12.stomp"]],
    "text comes back as it was": [True] * 5,
    "bytes come back as they were": True,
    "who speaks in binary messages is answered so": ["text", ["object"]],
    "a frame in many messages": True,
    "a big message": True,
    "heart-beats both ways": ["200,1600", True],
    "acknowledgements, receipts and transactions": ["1", "2", "3"],
    "a refusal is told": True,
    "goodbye": [1000, True],
}


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """What each scenario has found, in one run of node."""
    folder = Path(os.environ.get(FOLDER_VARIABLE) or CHECKOUT / ".test-servers") / "stompjs"
    assert folder.exists(), "@stomp/stompjs is not installed: run `make test-servers`"
    with running(Broker(MemoryPersistenceAdapter(), BrokerOptions(bind="ws://127.0.0.1:0"))) as (host, port):
        run = subprocess.run(
            ["node", SCENARIO, folder.resolve(), f"ws://{host}:{port}/stomp"],
            capture_output=True,
            text=True,
            timeout=110,
            check=True,
        )
    lines = map(json.loads, run.stdout.splitlines())
    return {line["name"]: line.get("result", line.get("error")) for line in lines}


@pytest.mark.parametrize("name", EXPECTED)
def test_stompjs(told: dict[str, Any], name: str) -> None:
    assert told[name] == EXPECTED[name]


def test_every_scenario_is_expected(told: dict[str, Any]) -> None:
    assert told.keys() == EXPECTED.keys()
