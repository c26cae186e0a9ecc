"""The examples of the outbox, as a user runs them: a web application beside a broker, on one database."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore.config.urls import open_engine
from tests.servers.server import free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.has_tables

ROOT = Path(__file__).parents[2]
WAIT_S = 60.0


@contextmanager
def running(*command: str, folder: Path, **environment: str) -> Iterator[None]:
    """A program of this Python, from another folder than its own."""
    with (folder / "application.log").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
        finally:
            process.kill()
            process.wait()


def post(address: str, body: bytes, kind: str) -> int:
    """The status of the answer; 0 while nobody answers."""
    request = urllib.request.Request(address, body, {"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except urllib.error.URLError:
        return 0


def orders(url: str) -> list[str]:
    """What the shop has sold, as its own table says."""
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            return list(connection.exec_driver_sql("SELECT item FROM shop_orders ORDER BY id").scalars())
    finally:
        engine.dispose()


def test_fastapi(postgresql_url: str, tmp_path: Path) -> None:
    port = free_port()
    command = ("-m", "uvicorn", "examples.outbox_fastapi:app", "--port", str(port))
    address = f"http://127.0.0.1:{port}/orders"
    with running(*command, folder=tmp_path, SHOP_URL=postgresql_url):
        apples, nothing = b'{"item": "apples", "amount": 3}', b'{"item": "pears", "amount": 0}'
        wait_until(lambda: post(address, apples, "application/json") == 201)
        assert post(address, nothing, "application/json") == 422
        check(postgresql_url, {"id": 1, "item": "apples", "amount": 3})


def test_django(tmp_path: Path) -> None:
    port, url = free_port(), f"sqlite:///{tmp_path / 'shop.db'}"
    with jdbcstore.open_store(url):
        pass  # the tables are there
    command = (str(ROOT / "examples/outbox_django.py"), "runserver", "--noreload", str(port))
    address, kind = f"http://127.0.0.1:{port}/orders", "application/x-www-form-urlencoded"
    with running(*command, folder=tmp_path):
        wait_until(lambda: post(address, b"item=apples&amount=3", kind) == 201)
        assert post(address, b"item=pears&amount=0", kind) == 400
        check(url, {"item": "apples", "amount": 3})


def check(url: str, expected: dict[str, object]) -> None:
    """One order is stored, and its message arrives; nothing is there of the one that failed."""
    assert orders(url) == ["apples"]
    with jdbcstore.connect(url) as connection, connection.subscribe("ORDERS") as subscription:
        message = subscription.receive(timeout_s=WAIT_S)
        assert message.body == expected
        message.acknowledge()
        wait_until(lambda: connection.broker.intake.taken)  # counted a turn after it is stored
        assert connection.broker.intake.taken == 1
