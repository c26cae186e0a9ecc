"""What a consumer that goes leaves behind is read again, page by page, for the next one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Broker, PersistenceAdapter, Queue, open_store
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.store.contract import MessageStore
from tests.broker.client import Address, Client, Frame
from tests.broker.conftest import OpenClient, StartBroker
from tests.waiting import wait_until


@pytest.fixture(params=["sqlite:///{}/a.db", "kahadb:{}/a"], ids=["sqlite", "kahadb"])
def adapter(request: pytest.FixtureRequest, tmp_path: Path) -> PersistenceAdapter:
    return open_store(request.param.format(tmp_path))


@pytest.fixture
def address(adapter: PersistenceAdapter, start_broker: StartBroker) -> Address:
    return start_broker(adapter, in_flight_bytes_max=1)


@pytest.fixture
def queue(address: Address, brokers: list[Broker]) -> Any:
    """The queue that the tests use."""
    return lambda: brokers[0].queues[Queue("A")]


def pour(client: Client, count: int, **headers: str) -> None:
    for number in range(count):
        client.publish("/queue/A", f"{number}", persistent="true", **headers)
    client.done("SEND", {"destination": "/queue/B", "persistent": "true"}, "all are stored before it")


def received(client: Client, count: int) -> list[Frame]:
    """Subscribe, and keep so many messages."""
    client.subscribe("/queue/A", "client-individual", activemq_prefetchSize="1000")
    return [client.message() for _ in range(count)]


def calls(store: MessageStore, name: str, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """How often a method of this kind of store is called, from now on."""
    called: list[object] = []
    method: Callable[..., object] = getattr(type(store), name)

    def counting(self: object, *args: object) -> object:
        called.append(args)
        return method(self, *args)

    monkeypatch.setattr(type(store), name, counting)
    return called


def test_it_takes_a_page_and_not_a_read_for_each(
    address: Address, open_client: OpenClient, queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_client(address)
    pour(first, 300)
    received(first, 300)
    store = queue().contents.persistent[0].store
    single, pages = (calls(store, name, monkeypatch) for name in ("get_message", "recover_next_messages"))
    first.drop()
    frames = received(open_client(address), 300)
    assert [frame.text for frame in frames] == [f"{number}" for number in range(300)]
    assert {frame.headers["redelivered"] for frame in frames} == {"true"}
    assert (len(single), len(pages)) == (0, 1)


@pytest.mark.parametrize("every", [2, 50])
def test_what_lies_far_apart_comes_in_its_order(address: Address, open_client: OpenClient, every: int) -> None:
    first = open_client(address)
    pour(first, 600)
    for frame in received(first, 600):
        if int(frame.text) % every:
            first.ack(frame)
    first.done("SEND", {"destination": "/queue/B"}, "all are acknowledged")
    first.drop()
    left = [f"{number}" for number in range(0, 600, every)]
    assert [frame.text for frame in received(open_client(address), len(left))] == left


def test_by_priority(start_broker: StartBroker, adapter: PersistenceAdapter, open_client: OpenClient) -> None:
    address = start_broker(adapter, in_flight_bytes_max=1, policies=[DestinationPolicy(prioritized_messages=True)])
    first = open_client(address)
    for priority in ("2", "7", "4"):
        pour(first, 50, priority=priority)
    received(first, 150)
    first.drop()
    frames = received(open_client(address), 150)
    assert [frame.headers["priority"] for frame in frames] == ["7"] * 50 + ["4"] * 50 + ["2"] * 50
    assert [frame.text for frame in frames] == [f"{number}" for number in range(50)] * 3


@pytest.mark.parametrize("place", [0, 7, 19])
@pytest.mark.parametrize(
    "change", ["DELETE FROM ACTIVEMQ_MSGS", "UPDATE ACTIVEMQ_MSGS SET MSG = x'00'"], ids=["removed", "unreadable"]
)
def test_what_cannot_be_read_does_not_stop_the_others(
    tmp_path: Path, start_broker: StartBroker, open_client: OpenClient, change: str, place: int
) -> None:
    address = start_broker(open_store(f"sqlite:///{tmp_path / 'a.db'}"), in_flight_bytes_max=1)
    first = open_client(address)
    pour(first, 20)
    received(first, 20)
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection, connection:
        row = "SELECT ID FROM ACTIVEMQ_MSGS WHERE CONTAINER = 'queue://A' ORDER BY ID LIMIT 1 OFFSET ?"
        connection.execute(f"{change} WHERE ID = ({row})", (place,))
    first.drop()
    left = [f"{number}" for number in range(20) if number != place]
    assert [frame.text for frame in received(open_client(address), 19)] == left


def test_no_memory_stays_counted(address: Address, open_client: OpenClient, brokers: list[Broker]) -> None:
    first = open_client(address)
    pour(first, 300)
    received(first, 300)
    first.drop()
    second = open_client(address)
    for frame in received(second, 300):
        second.ack(frame)
    second.done("SEND", {"destination": "/queue/B"}, "all are acknowledged")
    second.drop()
    memory = brokers[0].memory
    wait_until(lambda: not memory.reading and not brokers[0].queues[Queue("A")].depth)
    b = brokers[0].queues[Queue("B")]
    wait_until(lambda: memory.used == b.contents.memory_bytes)
