"""What the broker changes of messages, if its options say so: their time, how long they live, their persistence."""

from __future__ import annotations

import time

import pytest

from jdbcstore.destination import Queue
from jdbcstore.message import TextMessage
from jdbcstore.store.memory import MemoryPersistenceAdapter
from tests.broker.client import Address
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.openwire_client import OpenWireClient

A = Queue("A")
DAY_MS = 86_400_000


def now_ms() -> int:
    """The clock of this machine."""
    return time.time_ns() // 1_000_000


def received(address: Address, timestamp: int, expiration: int) -> tuple[int, int, bool]:
    """Timestamp, expiration and persistence of a message that was sent with these, not persistent."""
    with OpenWireClient(address) as client:
        message = client.message(A, "x")
        message.timestamp, message.expiration = timestamp, expiration
        client.ask(message)
        client.subscribe(A)
        came = client.dispatch().message
        assert isinstance(came, TextMessage)
        return came.timestamp, came.expiration, came.persistent


@pytest.mark.parametrize("is_late", [True, False])
def test_a_message_was_sent_when_it_came_and_lives_as_long_as_it_was_to_live(
    start_broker: StartBroker, *, is_late: bool
) -> None:
    address = start_broker(bind="openwire://127.0.0.1:0", time_stamping=True)
    before_ms = now_ms()
    said_ms = before_ms + (-DAY_MS if is_late else DAY_MS)
    timestamp, expiration, _ = received(address, said_ms, said_ms + 60_000)
    assert before_ms <= timestamp <= now_ms()
    assert expiration == timestamp + 60_000


@pytest.mark.parametrize(
    ("lives_ms", "told_ms"),
    [(None, 5000), (1000, 1000), (100_000, 60_000)],
    ids=["for ever", "for a while", "for long"],
)
def test_how_long_a_message_lives_is_bounded(start_broker: StartBroker, lives_ms: int | None, told_ms: int) -> None:
    address = start_broker(
        bind="openwire://127.0.0.1:0", time_stamping=True, zero_expiration_override_ms=5000, ttl_ceiling_ms=60_000
    )
    said_ms = now_ms()
    timestamp, expiration, _ = received(address, said_ms, 0 if lives_ms is None else said_ms + lives_ms)
    assert expiration - timestamp == told_ms


def test_a_message_without_a_time_keeps_none(start_broker: StartBroker) -> None:
    address = start_broker(bind="openwire://127.0.0.1:0", time_stamping=True, zero_expiration_override_ms=5000)
    assert received(address, 0, 0)[:2] == (0, 0)


def test_no_message_expires_earlier_than_its_sender_says(start_broker: StartBroker) -> None:
    address = start_broker(bind="openwire://127.0.0.1:0", time_stamping=True, time_stamping_future_only=True)
    ahead_ms = now_ms() + DAY_MS
    assert received(address, ahead_ms, ahead_ms + 1000)[:2] == (ahead_ms, ahead_ms + 1000)
    behind_ms = now_ms() - 500
    assert received(address, behind_ms, behind_ms + 60_000)[1] > behind_ms + 60_000


def test_every_message_is_persistent_if_the_options_say_so(start_broker: StartBroker, open_client: OpenClient) -> None:
    adapter = MemoryPersistenceAdapter()
    address = start_broker(adapter, bind="auto://127.0.0.1:0", force_persistent=True)
    client = open_client(address)
    client.publish("/queue/B")
    client.publish("/queue/B", producer_id="till", producer_sequence="1")
    client.done("BEGIN", {"transaction": "t"})
    client.done("SEND", {"destination": "/queue/B", "transaction": "t"})
    client.done("COMMIT", {"transaction": "t"})
    assert received(address, 0, 0)[2]
    assert adapter.queue_message_store(Queue("B")).message_count == 3
