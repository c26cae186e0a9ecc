"""stompman as a client."""

from __future__ import annotations

import asyncio
from typing import Any

import stompman

from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker

#: It gives up after two seconds, unless told otherwise: so long a busy machine may stand still.
PATIENT: dict[str, Any] = {
    "connect_timeout": 60,
    "connection_confirmation_timeout": 60,
    "disconnect_confirmation_timeout": 60,
    "check_server_alive_interval_factor": 60,
}


def server_of(address: Address) -> stompman.ConnectionParameters:
    return stompman.ConnectionParameters(host=address[0], port=address[1], login="admin", passcode="password")


def test_it_sends_and_receives(start_broker: StartBroker) -> None:
    address = start_broker(users={"admin": "password"})
    got: list[bytes] = []

    async def scenario() -> None:
        async with stompman.Client([server_of(address)], **PATIENT) as client:
            enough = asyncio.Event()

            async def handle(frame: stompman.AckableMessageFrame) -> None:
                await frame.ack()
                got.append(frame.body)
                if len(got) == 20:
                    enough.set()

            subscription = await client.subscribe_with_manual_ack("/queue/A", handle)
            for number in range(20):
                await client.send(f"message {number} ü".encode(), "/queue/A", headers={"persistent": "true", "n": "1"})
            await asyncio.wait_for(enough.wait(), 60)
            await subscription.unsubscribe()

    asyncio.run(scenario())
    assert got == [f"message {number} ü".encode() for number in range(20)]


def test_its_transactions_are_ours(address: Address, open_client: OpenClient) -> None:
    async def scenario() -> None:
        async with stompman.Client([server_of(address)], **PATIENT) as client, client.begin() as transaction:
            await transaction.send(b"one", "/queue/A")
            await transaction.send(b"two", "/queue/A")

    asyncio.run(scenario())
    client = open_client(address)
    client.subscribe("/queue/A")
    assert [client.message().body, client.message().body] == [b"one", b"two"]


def test_a_handler_that_fails_refuses_the_message(address: Address, open_client: OpenClient) -> None:
    client: Client = open_client(address)
    client.publish("/queue/A", "poison")
    client.subscribe("/queue/ActiveMQ.DLQ")

    async def scenario() -> None:
        async with stompman.Client([server_of(address)], **PATIENT) as consumer:
            refused = asyncio.Event()

            async def handle(frame: stompman.MessageFrame) -> None:
                raise ValueError("cannot handle this")

            def suppressed(error: Exception, frame: stompman.MessageFrame) -> None:
                refused.set()

            subscription = await consumer.subscribe("/queue/A", handle, on_suppressed_exception=suppressed)
            await asyncio.wait_for(refused.wait(), 60)
            await subscription.unsubscribe()

    asyncio.run(scenario())
    assert client.message().text == "poison"


def test_heart_beats_keep_it_connected(address: Address, open_client: OpenClient) -> None:
    async def scenario() -> None:
        beat = stompman.Heartbeat(will_send_interval_ms=1600, want_to_receive_interval_ms=300)
        async with stompman.Client([server_of(address)], heartbeat=beat, **PATIENT) as client:
            await asyncio.sleep(5)  # without heart-beats the broker would have closed it after 4 s
            await client.send(b"alive", "/queue/A")

    asyncio.run(scenario())
    client = open_client(address)
    client.subscribe("/queue/A")
    assert client.message().body == b"alive"
