"""The examples for Celery, FastStream, stompman and stomp.py run, and print what they should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.servers.server import CHECKOUT

PRINTED = {
    "celery_orders.py": "invoice: 12.00",
    "faststream_orders.py": "invoices: 2.40 3.60 6.00",
    "stompman_orders.py": "orders: | 3 apples | 5 apples | 2 apples",
    "stomp_py_orders.py": "orders: | 3 apples | 5 apples | 2 apples",
}


@pytest.mark.parametrize("example", PRINTED)
def test_an_example_runs(example: str, tmp_path: Path) -> None:
    with BrokerProcess(f"sqlite:///{tmp_path / 'broker.db'}", tmp_path) as broker:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(CHECKOUT / "examples" / example)],
            env={**os.environ, "STOMP_PORT": str(broker.port), "TMPDIR": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert PRINTED[example] in done.stdout.splitlines(), done.stdout + done.stderr
