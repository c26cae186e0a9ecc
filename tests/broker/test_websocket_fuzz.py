"""WebSocket bytes that nobody would send: the connection ends or goes on, and the broker serves everybody else."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jdbcstore import Broker, BrokerOptions, running
from jdbcstore.store.memory import MemoryPersistenceAdapter
from tests.broker.client import Address
from tests.broker.test_websocket import Browser
from tests.examples import examples

HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
FRAMES = (
    b"\x81\xa6\0\0\0\0CONNECT\naccept-version:1.2\nhost:test\n\n\0",
    b"\x89\x82\0\0\0\0hi",
    b"\x02\x81\0\0\0\0C",
    b"\x80\x80\0\0\0\0",
    b"\x88\x82\0\0\0\0\x03\xe8",
    b"\x82\xff\0\0\0\0\0\1\0\0\0\0\0\0",
)


@pytest.fixture(scope="module")
def broker_address() -> Iterator[Address]:
    """One broker for all examples."""
    with running(Broker(MemoryPersistenceAdapter(), BrokerOptions(bind="ws://127.0.0.1:0"))) as address:
        yield address


def mutated(data: bytes, changes: list[tuple[int, bytes]]) -> bytes:
    changed = bytearray(data)
    for place, piece in changes:
        start = place % (len(changed) + 1)
        changed[start : start + len(piece) // 2] = piece
    return bytes(changed)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.integers(0, 500), st.binary(max_size=6)), max_size=4),
    frames=st.lists(st.sampled_from(FRAMES), max_size=6),
    is_handshake_whole=st.booleans(),
)
def test_whatever_arrives_costs_its_connection_at_most(
    broker_address: Address,
    caplog: pytest.LogCaptureFixture,
    changes: list[tuple[int, bytes]],
    frames: list[bytes],
    is_handshake_whole: bool,
) -> None:
    data = b"".join(frames)
    data = HANDSHAKE + mutated(data, changes) if is_handshake_whole else mutated(HANDSHAKE + data, changes)
    with caplog.at_level(logging.ERROR), socket.create_connection(broker_address, timeout=60) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        try:
            while client.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        other = Browser(broker_address)
        with other.socket:
            other.connect()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
