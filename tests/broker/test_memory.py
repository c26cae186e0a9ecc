"""What an attack costs a broker of its own in resident memory; the same attacks at full size: `benchmarks.abuse`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.abuse import attack
from benchmarks.memory_attacks import MEMORY_ATTACKS
from jdbcstore import Broker, PersistenceAdapter
from tests.broker.client import Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.test_receipts import commits_held
from tests.waiting import wait_until

#: Limits that are reached soon.
SMALL = {
    "JDBCSTORE_MEMORY_BYTES_MAX": str(16 << 20),
    "JDBCSTORE_CONNECTION_BYTES_MAX": str(4 << 20),
    "JDBCSTORE_TRANSACTION_BYTES_MAX": str(2 << 20),
    "JDBCSTORE_UNCOMMITTED_BYTES_MAX": str(1 << 20),
    "JDBCSTORE_BODY_BYTES_MAX": str(8 << 20),
    "JDBCSTORE_DESTINATIONS_MAX": "2000",
    "JDBCSTORE_IDLE_QUEUE_TIMEOUT_S": "0.5",
}

#: At which scale, and the MiB that the process may take more than when it is idle: the limits, and the store at work.
AT_MOST = {
    "transactions": (0.1, 40),
    "small-transactions": (0.1, 40),
    "composite": (0.2, 40),
    "headers-only": (0.1, 50),
    "many-producers": (0.5, 60),
    "unfinished-frames": (0.08, 50),
    "endless-frames": (0.08, 50),
    "strangers": (0.3, 50),
    "composite-subscriptions": (0.2, 30),
    "many-subscriptions": (0.02, 40),
    "names-used-once": (0.3, 40),
    "never-acknowledged": (0.1, 40),
    "does-not-read": (0.3, 90),
}


@pytest.mark.parametrize("name", [known.name for known in MEMORY_ATTACKS])
def test_an_attack_is_bounded_in_resident_memory(name: str, tmp_path: Path) -> None:
    scale, most_mib = AT_MOST[name]
    known = next(known for known in MEMORY_ATTACKS if known.name == name)
    outcome = attack(known, tmp_path, scale=scale, options=SMALL)
    assert outcome.peak_mib <= most_mib
    assert outcome.round_trips_ms  # the bystander was served


def body(size: int) -> bytes:
    return b"x" * size


def test_a_transaction_beyond_the_connections_memory_is_refused_and_frees_it_at_its_end(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    client = open_client(start_broker(connection_bytes_max=100_000))
    for name in ("a", "b"):
        client.done("BEGIN", {"transaction": name})
    send = {"destination": "/queue/A", "transaction": "a", "content-length": "50000"}
    client.done("SEND", send, body(50_000))
    error = client.request("SEND", {**send, "transaction": "b"}, body(50_000)).headers["message"]
    assert "connection_bytes_max is 100000" in error
    assert "Commit or abort it first" in error
    client.done("COMMIT", {"transaction": "a"})
    client.done("SEND", {**send, "transaction": "b"}, body(50_000))
    client.done("ABORT", {"transaction": "b"})
    assert brokers[0].memory.kept == 0


def test_a_hog_does_not_shut_out_those_who_keep_little(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    address = start_broker(memory_bytes_max=1 << 20)
    hog, other = open_client(address), open_client(address)
    for client in (hog, other):
        client.done("BEGIN", {"transaction": "t"})
    answer = hog.request
    send = {"destination": "/queue/A", "transaction": "t", "content-length": "10000"}
    while answer("SEND", send, body(10_000)).command == "RECEIPT":
        assert brokers[0].memory.kept <= brokers[0].memory.kept_max
    error = answer("SEND", send, body(10_000)).headers["message"]
    assert "memory_bytes_max is 1048576" in error
    other.done("SEND", send, body(10_000))
    other.done("COMMIT", {"transaction": "t"})
    other.subscribe("/queue/A")
    assert len(other.message().body) == 10_000
    hog.drop()
    wait_until(lambda: brokers[0].memory.kept < 10_000)


def test_large_frames_wait_for_each_other_and_all_arrive(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    address = start_broker(memory_bytes_max=2 << 20)
    clients = [open_client(address) for _ in range(4)]
    size = 1_400_000
    head = f"SEND\ndestination:/queue/A\nreceipt:r\ncontent-length:{size}\n\n".encode()
    for number, client in enumerate(clients):
        client.write(head + body(100_000))
        wait_until(lambda number=number: len(brokers[0].memory.waiting) == number)  # type: ignore[misc]
        wait_until(lambda number=number: len(brokers[0].memory.large) == number + 1)  # type: ignore[misc]
    watching = open_client(address)
    watching.publish("/queue/B", "not affected")
    for client in clients:  # the first has room; each lets the next one in
        client.write(body(size - 100_000) + b"\0")
        assert client.frame().headers["receipt-id"] == "r"
    wait_until(lambda: brokers[0].memory.kept == 0)


def test_a_large_frame_that_does_not_end_gives_way_to_others(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    address = start_broker(memory_bytes_max=2 << 20, memory_timeout_s=0.3)
    lame, honest = open_client(address), open_client(address)
    head = b"SEND\ndestination:/queue/A\nreceipt:r\ncontent-length:1400000\n\n"
    lame.write(head)
    wait_until(lambda: bool(brokers[0].memory.large))
    honest.write(head + body(1_400_000) + b"\0")
    assert "while others waited for memory: memory_bytes_max is 2097152" in lame.error().headers["message"]
    assert lame.is_closed()
    assert honest.frame().headers["receipt-id"] == "r"


def test_acknowledgements_are_heard_while_senders_wait_for_the_store(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter, brokers: list[Broker]
) -> None:
    address = start_broker(sqlite_store, memory_bytes_max=1 << 20)
    consumer = open_client(address)
    consumer.publish("/queue/A", "x")
    consumer.subscribe("/queue/A", "client-individual")
    message = consumer.message()
    senders = [open_client(address) for _ in range(3)]
    with commits_held():
        for sender in senders:
            for _ in range(16):
                sender.send("SEND", {"destination": "/queue/B", "persistent": "true"}, "x" * 60_000)
        wait_until(lambda: bool(brokers[0].memory.senders))
        consumer.ack(message)
        consumer.done("SEND", {"destination": "/queue/C"}, "not persistent, so nothing waits")
        wait_until(lambda: not next(iter(consumer_of(brokers[0]).unacknowledged), None))
    for sender in senders:
        sender.done("SEND", {"destination": "/queue/B", "persistent": "true"}, "last")
    wait_until(lambda: brokers[0].memory.uncommitted == 0 and not brokers[0].memory.senders)


def consumer_of(broker: Broker):  # type: ignore[no-untyped-def]
    return next(consumer for client in broker.clients for consumer in client.subscriptions.values())


def test_a_connection_that_sends_and_acknowledges_goes_on_at_the_limit(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter, brokers: list[Broker]
) -> None:
    client = open_client(start_broker(sqlite_store, memory_bytes_max=200_000))
    client.subscribe("/queue/A", "client-individual", activemq_prefetchSize="5")
    for number in range(40):
        client.send("SEND", {"destination": "/queue/A", "persistent": "true", "n": str(number)}, "x" * 20_000)
        if number % 2:
            client.ack(client.message())
    for _ in range(20):
        client.ack(client.message())
    client.done("DISCONNECT")
    wait_until(lambda: brokers[0].memory.total == 0)


@pytest.mark.parametrize("verb", ["SEND", "SUBSCRIBE"])
def test_a_composite_has_a_limited_number_of_parts(
    start_broker: StartBroker, open_client: OpenClient, verb: str
) -> None:
    client = open_client(start_broker(composite_parts_max=3))
    names = [f"/queue/{number}" for number in range(4)]
    error = client.request(verb, {"id": "1", "destination": ",".join(names)}).headers["message"]
    assert "composite_parts_max is 3" in error
    client.done(verb, {"id": "1", "destination": ",".join(names[:3])})


def test_a_message_to_many_is_limited_in_bytes(start_broker: StartBroker, open_client: OpenClient) -> None:
    client = open_client(start_broker(transaction_bytes_max=100_000))
    error = client.request("SEND", {"destination": "/queue/A,/queue/B"}, "x" * 60_000).headers["message"]
    assert "transaction_bytes_max is 100000" in error
    client.done("SEND", {"destination": "/queue/A"}, "x" * 60_000)


def test_destinations_are_limited_but_those_that_nobody_uses_make_room(
    start_broker: StartBroker, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jdbcstore.broker.broker._TIDY_S", 0.0)
    client = open_client(start_broker(destinations_max=3))
    for number in range(3):
        client.subscribe(f"/topic/{number}", id=str(number))
    for verb in ("SEND", "SUBSCRIBE"):
        error = client.request(verb, {"destination": "/queue/new", "id": "new"}).headers["message"]
        assert "destinations_max is 3" in error
    client.publish("/topic/1", "those that are there are served")
    assert client.message().headers["destination"] == "/topic/1"
    client.done("UNSUBSCRIBE", {"id": "0"})
    client.publish("/queue/new", "x")


def test_one_address_has_a_limited_number_of_connections(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker(connections_per_address_max=2)
    first, _second = open_client(address), open_client(address)
    third = Client(address)
    assert "connections_per_address_max" in third.error().headers["message"]
    third.drop()
    first.done("DISCONNECT")
    assert first.is_closed()
    open_client(address).publish("/queue/A")


def test_a_stranger_has_a_few_kib(start_broker: StartBroker) -> None:
    stranger = Client(start_broker(unconnected_bytes_max=2000))
    stranger.write(b"CONNECT\n" + b"".join(b"h%d:%s\n" % (number, b"x" * 500) for number in range(6)))
    assert "unconnected_head_bytes is 2000" in stranger.error().headers["message"]
    assert stranger.is_closed()
    stranger.drop()
