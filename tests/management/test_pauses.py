"""What an operator has paused stays paused: after restarts, on the next master, in every kind of store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jdbcstore import open_store
from jdbcstore.broker.lifecycle import State
from jdbcstore.destination import Queue
from jdbcstore.errors import ProtocolError
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import TextMessage
from tests.broker.client import Client
from tests.management.desk import Managed, managed
from tests.waiting import wait_until


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Managed]:
    with managed(open_store(f"sqlite:///{tmp_path / 'b.db'}")) as broker:
        yield broker


def put(client: Client, queue: str, count: int) -> None:
    for number in range(count):
        client.publish(f"/queue/{queue}", f"m{number}")


@pytest.mark.parametrize("url", ["sqlite:///{}/b.db", "kahadb:{}/kahadb", "amq:{}/amq", "leveldb:{}/leveldb"])
def test_a_pause_outlives_the_broker(tmp_path: Path, url: str) -> None:
    url = url.format(tmp_path)
    with managed(open_store(url)) as broker, Client(broker.address) as client:
        client.connect()
        put(client, "A", 2)
        put(client, "the other one", 1)
        broker.call(broker.face.pause("queue://A"))
        broker.call(broker.face.pause("queue://A", "producers"))
        broker.call(broker.face.pause("queue://the other one"))
        broker.call(broker.face.pause("queue://the other one", "producers"))
        broker.call(broker.face.resume("queue://the other one", "producers"))
        broker.call(broker.face.create("topic://T"))
        broker.call(broker.face.pause("topic://T", "producers"))
    with managed(open_store(url)) as broker, Client(broker.address) as client:
        client.connect()
        view, other = broker.view("queue://A"), broker.view("queue://the other one")
        assert (view.is_paused, view.is_closed, other.is_paused, other.is_closed) == (True, True, True, False)
        client.subscribe("/queue/A")
        put(client, "B", 1)
        assert not client.has_frame()
        client.done("UNSUBSCRIBE", {"id": "1"})
        refused = client.request("SEND", {"destination": "/topic/T"}, "late")
        assert "paused for senders" in refused.headers["message"]
        for name in ("queue://A", "queue://the other one", "topic://T"):
            broker.call(broker.face.resume(name))
    with managed(open_store(url)) as broker, Client(broker.address) as client:
        client.connect()
        client.subscribe("/queue/A")
        assert [client.message().text for _ in range(2)] == ["m0", "m1"]
        client.publish("/topic/T", "now")
        assert not broker.view("queue://the other one").is_paused


def test_a_pause_goes_to_the_next_master_and_back(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'b.db'}"
    with managed(open_store(url), broker_name="one") as first:
        with managed(open_store(url), waits=False, broker_name="two") as second:
            with Client(first.address) as client:
                client.connect()
                put(client, "A", 1)
                put(client, "B", 1)
            for name in ("queue://A", "queue://B"):
                first.call(first.face.pause(name, "both"))
            first.call(first.face.hand_over())
            wait_until(lambda: second.broker.lifecycle.state is State.MASTER)
            assert second.view("queue://A").is_paused
            assert second.view("queue://B").is_closed
            second.call(second.face.resume("queue://B"))
        wait_until(lambda: first.broker.lifecycle.state is State.MASTER)
        assert first.view("queue://A").is_paused
        assert first.view("queue://A").is_closed
        assert not first.view("queue://B").is_paused
        assert not first.view("queue://B").is_closed


def test_clients_cannot_use_what_keeps_pauses(broker: Managed) -> None:
    with Client(broker.address) as client:
        client.connect()
        put(client, "A", 1)
        broker.call(broker.face.pause("queue://A", "producers"))
        client.subscribe("/queue/>")
        assert client.message().headers["destination"] == "/queue/A"
        assert not client.has_frame()
    for command in ("SEND", "SUBSCRIBE"):
        with Client(broker.address) as client:
            client.connect()
            refused = client.request(command, {"destination": "/queue/jdbcstore.Pauses", "id": "1"})
            assert "keeps what operators have paused" in refused.headers["message"]
    with pytest.raises(ProtocolError, match="keeps what operators have paused"):
        broker.call(broker.face.create("queue://jdbcstore.Pauses"))


def test_a_deleted_queue_is_paused_no_more(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'b.db'}"
    with managed(open_store(url)) as broker:
        broker.call(broker.face.create("queue://A"))
        broker.call(broker.face.pause("queue://A", "both"))
        broker.call(broker.face.delete_destination("queue://A"))
    with managed(open_store(url)) as broker, Client(broker.address) as client:
        client.connect()
        client.publish("/queue/A", "m")
        client.subscribe("/queue/A")
        assert client.message().text == "m"


def test_a_pause_that_cannot_be_read_is_told_and_costs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'b.db'}")
    with store:
        queue = store.queue_message_store(Queue("jdbcstore.Pauses"))
        for number, text in enumerate(("nothing queue://A", "consumers", "consumers queue://B"), 1):
            message = TextMessage(destination=queue.destination, message_id=MessageId(ProducerId("p", 1, 1), number))
            message.text = text
            queue.add_message(message).result(60)
    with managed(open_store(f"sqlite:///{tmp_path / 'b.db'}")) as broker:
        assert broker.view("queue://B").is_paused
    assert caplog.text.count("a stored pause cannot be read") == 2
