"""How much of a queue stays in memory, by default: at the limits that `docs/limits.md` names, and not below."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore import Broker, BrokerOptions, Queue, open_store, running
from jdbcstore.config.urls import open_spool
from tests.broker.client import Address, Client


def sent(address: Address, count: int, size: int) -> None:
    """Send persistent messages, and wait until the last one is stored."""
    with Client(address) as client:
        client.connect()
        headers = f"destination:/queue/A\npersistent:true\ncontent-length:{size}\n"
        client.write((f"SEND\n{headers}\n".encode() + b"x" * size + b"\0") * (count - 1))
        client.done("SEND", {"destination": "/queue/A", "persistent": "true"}, b"x" * size)


@pytest.mark.parametrize(
    ("count", "size", "least", "most"),
    [
        (20_100, 10, 20_000, 20_000),
        (36, 1 << 20, 30, 31),  # 32 MiB with their headers
    ],
    ids=["messages", "bytes"],
)
def test_the_first_messages_of_a_queue_that_nobody_reads_are_kept_at_hand(
    count: int, size: int, least: int, most: int, tmp_path: Path
) -> None:
    broker = Broker(open_store(f"sqlite:///{tmp_path / 'a.db'}"), BrokerOptions(bind="127.0.0.1:0"), open_spool)
    with running(broker) as address:
        sent(address, count, size)
        queue = broker.queues[Queue("A")]
        (lane,) = queue.contents.persistent
        assert queue.depth == count
        assert least <= len(lane.window) <= most
