"""STOMP clients of other languages, each with a program of its own: Ruby's, Perl's, PHP's, and stompit under node."""

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

PROGRAMS = Path(__file__).with_name("stomp_clients")
PACKAGES = Path(os.environ.get(FOLDER_VARIABLE) or CHECKOUT / ".test-servers") / "stompjs"

EXPECTED: dict[str, dict[str, Any]] = {
    "client.rb": {
        "versions": ["1.0", "1.1", "1.2"],
        "a message and its receipt": [["MESSAGE", "RECEIPT"], "Grüße", "a:b\nc\\d"],
        "bytes": True,
        "transactions": "kept",
        "a durable subscription": "while it was away",
    },
    "client.pl": {
        "connected": "CONNECTED",
        "a message": ["one", "v"],
        "sent in a transaction": True,
        "sent with a receipt": True,
        "bytes": True,
        "a large message": 500_000,
    },
    "client.php": {
        "connected": True,
        "sent with a receipt": True,
        "a message": ["one", "true"],
        "acknowledged": True,
        "transactions": "two",
        "bytes": True,
        "a refusal is an exception": "StompException",
    },
    "client.cjs": {
        "a message": ["Grüße", "a:b\nc"],
        "transactions": "kept",
        "a large message": 300_000,
        "goodbye": None,
        "another address": True,
    },
}
_INTERPRETERS = {".rb": "ruby", ".pl": "perl", ".php": "php", ".cjs": "node"}


@pytest.mark.parametrize("program", EXPECTED)
def test_what_a_client_of_another_language_finds(program: str) -> None:
    interpreter = _INTERPRETERS[Path(program).suffix]
    with running(Broker(MemoryPersistenceAdapter(), BrokerOptions(bind="127.0.0.1:0"))) as (_, port):
        run = subprocess.run(
            [interpreter, PROGRAMS / program, str(port), PACKAGES.resolve()],
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
    assert run.returncode == 0, run.stderr
    lines = map(json.loads, run.stdout.splitlines())
    assert {line["name"]: line["result"] for line in lines} == EXPECTED[program]
