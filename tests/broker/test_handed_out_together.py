"""Messages that can go just as they are are handed out together; who gets which is as if each had gone alone."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from jdbcstore import PersistenceAdapter
from jdbcstore.broker.client_consumers import ClientConsumers
from jdbcstore.broker.delivery import Consumer, Delivery
from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker

QUEUE = "/queue/A"
PERSISTENT = {"destination": QUEUE, "persistent": "true"}
COUNT = 300


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages were delivered together, each time."""
    counts: list[int] = []
    deliver = ClientConsumers.deliver

    def counting(consumers: ClientConsumers, consumer: Consumer, deliveries: Sequence[Delivery]) -> None:
        counts.append(len(deliveries))
        deliver(consumers, consumer, deliveries)

    monkeypatch.setattr(ClientConsumers, "deliver", counting)
    return counts


@pytest.fixture
def address(start_broker: StartBroker, sqlite_store: PersistenceAdapter) -> Address:
    return start_broker(sqlite_store)


def commit(client: Client, texts: Sequence[str]) -> None:
    """Send messages that are there at the same moment."""
    client.send("BEGIN", {"transaction": "T"})
    for text in texts:
        client.send("SEND", {**PERSISTENT, "transaction": "T"}, text)
    client.done("COMMIT", {"transaction": "T"})


def in_turn(prefetches: Sequence[int]) -> list[list[str]]:
    """Who gets which messages, one each in turn, as long as he can take more."""
    found: list[list[str]] = [[] for _ in prefetches]
    turns, numbers = list(range(len(prefetches))), iter(range(COUNT))
    while turns:
        place = turns.pop(0)
        if len(found[place]) < prefetches[place] and (number := next(numbers, None)) is not None:
            found[place].append(str(number))
            turns.append(place)
    return found


@pytest.mark.parametrize(
    "prefetches",
    [(1000,), (7, 1000), (2, 5, 1000), (1, 1, 1), (100, 40, 3, 1), (2,) * 70],
    ids=["one", "two", "three", "one each", "uneven", "very many"],
)
def test_each_gets_one_in_turn_until_it_can_take_no_more(
    prefetches: Sequence[int], address: Address, open_client: OpenClient, runs: list[int]
) -> None:
    clients = [open_client(address) for _ in prefetches]
    for client, prefetch in zip(clients, prefetches, strict=True):
        client.subscribe(QUEUE, "client-individual", activemq_prefetchSize=str(prefetch))
    commit(open_client(address), [str(number) for number in range(COUNT)])
    expected = in_turn(prefetches)
    for client, theirs in zip(clients, expected, strict=True):
        assert [client.message().text for _ in theirs] == theirs
    assert len(runs) < COUNT // 2


def test_what_has_expired_among_them_is_left_out(address: Address, open_client: OpenClient) -> None:
    client = open_client(address)
    expires_ms = int(time.time() * 1000) + 200
    for number in range(9):
        headers = {"expires": str(expires_ms)} if number in (0, 4, 5) else {}
        client.publish(QUEUE, str(number), **headers)
    time.sleep(max(expires_ms / 1000 + 0.01 - time.time(), 0))
    client.subscribe(QUEUE, "client-individual")
    assert [client.message().text for _ in range(6)] == ["1", "2", "3", "6", "7", "8"]


def test_a_group_among_them_begins_to_count_with_its_first_message(address: Address, open_client: OpenClient) -> None:
    """Both get of what belongs to no group; of a group one gets everything."""
    clients = [open_client(address) for _ in range(2)]
    for client in clients:
        client.subscribe(QUEUE, "client-individual")
    sender = open_client(address)
    sender.send("BEGIN", {"transaction": "T"})
    for number in range(40):
        group = {"JMSXGroupID": "G"} if number >= 20 else {}
        sender.send("SEND", {**PERSISTENT, "transaction": "T", **group}, str(number))
    sender.done("COMMIT", {"transaction": "T"})
    first = [clients[place].message().text for place in (0, 1) for _ in range(10)]
    assert sorted(map(int, first)) == list(range(20))
    owner = next(client for client in clients if client.has_frame() or not client.is_silent(0.5))
    assert [owner.message().text for _ in range(20)] == [str(number) for number in range(20, 40)]


def test_large_ones_do_not_wait_for_a_client_that_does_not_read(address: Address, open_client: OpenClient) -> None:
    """What is handed out together is no more than a client is given to read at once, and what the socket takes."""
    size, count = 200_000, 100
    sender = open_client(address)
    for _ in range(count):
        sender.publish(QUEUE, b"x" * size)
    reader = open_client(address)
    reader.subscribe(QUEUE, "client-individual", activemq_prefetchSize=str(count))
    sender.subscribe(QUEUE, "client-individual", "2")
    received = 0
    while not sender.is_silent(1):
        sender.message()
        received += 1
    assert received > count // 2
