"""A broker inside of a program, when it is not master any more."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from jdbcstore.adapters.celery.embedded import address_of, stop
from jdbcstore.adapters.stomp_link import Address, LinkLost, LinkOptions, StompLink
from jdbcstore.config.urls import open_engine
from tests.waiting import wait_until

HOUR_MS = 3_600_000


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    url = f"sqlite:///{tmp_path / 'laptop.db'}"
    yield url
    stop(url)


@pytest.fixture
def hold(url: str) -> Iterator[Callable[[str | None], None]]:
    """Gives the store's lock to somebody, or to nobody."""
    engine = open_engine(url)

    def hold(holder: str | None) -> None:
        until_ms = 0 if holder is None else time.time_ns() // 1_000_000 + HOUR_MS
        with engine.begin() as connection:
            change = text("UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = :holder, TIME = :until_ms WHERE ID = 1")
            assert connection.execute(change, {"holder": holder, "until_ms": until_ms}).rowcount == 1

    yield hold
    engine.dispose()


def address_or_reason(url: str) -> Address | str:
    try:
        return address_of(url)
    except LinkLost as error:
        return str(error)


def holder_of(url: str) -> str:
    """Of the store's lock; empty if there is no table yet."""
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            return str(connection.execute(text("SELECT BROKER_NAME FROM ACTIVEMQ_LOCK WHERE ID = 1")).scalar() or "")
    except DBAPIError:
        return ""
    finally:
        engine.dispose()


def test_who_has_lost_the_lease_gives_the_address_of_the_new_master(
    url: str, hold: Callable[[str | None], None]
) -> None:
    own = address_of(url)
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        hold(f"kombu-127.0.0.1:{port}")
        wait_until(lambda: address_or_reason(url) == ("127.0.0.1", port), lambda: str(address_or_reason(url)))
    assert "is not master" in str(address_or_reason(url))  # it is held by one that does not answer
    hold("shop-broker")
    assert "shop-broker is, a broker of its own: connect to its address" in str(address_or_reason(url))
    hold(None)
    wait_until(lambda: address_or_reason(url) == own, lambda: str(address_or_reason(url)))


def test_the_store_of_a_broker_of_its_own_is_told(url: str, hold: Callable[[str | None], None]) -> None:
    address_of(url)
    stop(url)
    hold("shop-broker")
    with pytest.raises(LinkLost, match="shop-broker is, a broker of its own"):
        address_of(url)


#: A program with a broker inside of it, and a child that it has forked and that outlives it.
FORKING = """
import os, sys, time
from jdbcstore.adapters.celery.embedded import address_of

host, port = address_of(sys.argv[1])
sys.stdin.readline()  # somebody is connected
child = os.fork()
if child:
    print(port, child, flush=True)
time.sleep(600)
"""


def test_a_child_that_outlives_its_program_keeps_neither_the_port_nor_clients_nor_the_lease(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'laptop.db'}?lease_ms=600000"
    with subprocess.Popen(
        [sys.executable, "-c", FORKING, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        wait_until(lambda: "kombu-" in holder_of(url))
        wait_until(lambda: isinstance(address_or_reason(url), tuple))  # it listens a little later
        first = address_of(url)
        link = StompLink(first, LinkOptions(expect_ms=0, connect_timeout_s=60))
        program.stdin.write("\n")
        program.stdin.flush()
        port, child = (int(word) for word in program.stdout.readline().split())
        assert first == ("127.0.0.1", port)
        program.kill()
        program.wait()
    try:
        with pytest.raises(LinkLost):  # at once, and not when it was silent for too long
            link.wait(lambda: False, 60)
        wait_until(lambda: address_or_reason(url) != first and isinstance(address_or_reason(url), tuple))
        os.kill(child, 0)  # it is there
    finally:
        link.abort()
        stop(url)
        os.kill(child, signal.SIGKILL)
