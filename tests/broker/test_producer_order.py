"""What one client sends to a destination arrives in the order in which it was sent, however it was sent.

Messages that the store does not keep follow a commit that has to be waited for; those sent after it do not overtake.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jdbcstore import PersistenceAdapter
from tests.broker.client import Client
from tests.broker.conftest import OpenClient, StartBroker

ROUNDS = 30

Headers = dict[str, str]


def composite(client: Client, destination: str, headers: Headers, body: str) -> None:
    """To two destinations at once."""
    client.send("SEND", {**headers, "destination": f"{destination},{destination}.other"}, body)


def transaction(client: Client, destination: str, headers: Headers, body: str) -> None:
    """In a transaction by itself."""
    client.send("BEGIN", {"transaction": "t"})
    client.send("SEND", {**headers, "destination": destination, "transaction": "t"}, body)
    client.send("COMMIT", {"transaction": "t"})


def mixed_transaction(client: Client, destination: str, headers: Headers, body: str) -> None:
    """In a transaction with something that is stored."""
    client.send("BEGIN", {"transaction": "t"})
    client.send("SEND", {"destination": "/queue/stored", "transaction": "t", "persistent": "true"}, "stored")
    client.send("SEND", {**headers, "destination": destination, "transaction": "t"}, body)
    client.send("COMMIT", {"transaction": "t"})


def numbered(client: Client, destination: str, headers: Headers, body: str) -> None:
    """With a number of its producer."""
    number = {"producer-id": "orders", "producer-sequence": str(2 * int(body) + 1)}
    client.send("SEND", {**headers, **number, "destination": destination}, body)


@pytest.mark.parametrize("persistent", ["true", "false"])
@pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
@pytest.mark.parametrize("how", [composite, transaction, mixed_transaction])
@pytest.mark.parametrize("then", ["true", "false"])
def test_nothing_is_overtaken(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    how: Callable[[Client, str, Headers, str], None],
    destination: str,
    persistent: str,
    then: str,
) -> None:
    address = start_broker(sqlite_store)
    sender, receiver = open_client(address), open_client(address)
    receiver.subscribe(destination)
    for number in range(ROUNDS):
        how(sender, destination, {"persistent": persistent}, str(2 * number))
        sender.send("SEND", {"destination": destination, "persistent": then}, str(2 * number + 1))
    assert [receiver.message().text for _ in range(2 * ROUNDS)] == [str(number) for number in range(2 * ROUNDS)]


@pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
def test_numbered_messages_keep_their_order(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter, destination: str
) -> None:
    """Stored ones and others each by themselves, as JMS promises it (1.1, 4.4.10)."""
    address = start_broker(sqlite_store)
    sender, receiver = open_client(address), open_client(address)
    receiver.subscribe(destination)
    for number in range(3 * ROUNDS):
        numbered(sender, destination, {"persistent": str(number % 3 == 0).lower()}, str(number))
    received = [int(receiver.message().text) for _ in range(3 * ROUNDS)]
    assert [number for number in received if number % 3 == 0] == list(range(0, 3 * ROUNDS, 3))
    assert [number for number in received if number % 3] == [number for number in range(3 * ROUNDS) if number % 3]
