"""What an attack costs a broker of its own in resident memory; the same attacks at full size: `benchmarks.abuse`."""

from __future__ import annotations

from itertools import count, islice
from pathlib import Path

import pytest

from benchmarks.abuse import attack
from benchmarks.memory_attacks import MEMORY_ATTACKS
from benchmarks.openwire_attacks import OPENWIRE_ATTACKS
from jdbcstore import Broker, PersistenceAdapter, Queue
from jdbcstore.destination import Destination
from jdbcstore.identifiers import XATransactionId
from jdbcstore.openwire import commands as c
from jdbcstore.transport.stomp.conversion import number_of
from tests.broker.client import Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.openwire_client import OpenWireClient
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
    "ow cached values": (1.0, 25),
    "ow strangers' cached values": (1.0, 25),
    "ow unfinished frames": (0.08, 50),
    "ow transactions": (0.1, 40),
    "ow never acknowledged": (0.1, 40),
    "ow does not read": (0.05, 40),
}
#: What others show that do the same in another way: over the other protocol, or to the same limit.
TWINS = {
    "small-transactions",
    "many-producers",
    "endless-frames",
    "ow strangers' cached values",
    "ow unfinished frames",
    "ow transactions",
    "ow never acknowledged",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.exhaustive) if name in TWINS else name for name in AT_MOST]
)
def test_an_attack_is_bounded_in_resident_memory(name: str, tmp_path: Path) -> None:
    scale, most_mib = AT_MOST[name]
    known = next(known for known in (*MEMORY_ATTACKS, *OPENWIRE_ATTACKS) if known.name == name)
    outcome = attack(known, tmp_path, scale=scale, options=SMALL, program=None)
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


def error_of(client: Client) -> str:
    """The text of the ERROR that ends a connection, behind the messages that it was sent."""
    while (frame := client.frame()).command == "MESSAGE":
        pass
    assert frame.command == "ERROR"
    return frame.headers["message"]


@pytest.mark.parametrize(("kind", "name", "enough"), [("queue", None, 200), ("topic", None, 200), ("topic", "news", 3)])
def test_what_a_wildcard_covers_counts(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], kind: str, name: str | None, enough: int
) -> None:
    address, pattern = start_broker(connection_bytes_max=30 << 10), f"/{kind}/A.>"
    durable = {} if name is None else {"activemq.subscriptionName": name}
    first, second = open_client(address, client_id="ann"), open_client(address, client_id="bob")
    sender, names = open_client(address), (f"/{kind}/A.{number}" for number in count())

    def appear() -> None:
        for destination in islice(names, enough):
            sender.publish(destination, "x")

    appear()
    first.subscribe(pattern, **durable)
    kept = brokers[0].memory.kept
    first.done("UNSUBSCRIBE", {"id": "1"})
    assert brokers[0].memory.kept < kept
    first.subscribe(pattern, **durable)
    assert brokers[0].memory.kept == kept
    appear()
    assert "connection_bytes_max is 30720. Subscribe to fewer" in error_of(first)
    second.send("SUBSCRIBE", {"destination": pattern, "id": "1", **durable})
    assert "connection_bytes_max is 30720. Subscribe to fewer" in error_of(second)
    sender.publish(f"/{kind}/A.0", "others go on")


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


def test_a_large_message_counts_once_while_it_is_heard(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    address = start_broker(bind="auto://127.0.0.1:0", memory_bytes_max=4 << 20)
    client = open_client(address)
    client.done("BEGIN", {"transaction": "t"})
    client.publish("/queue/A", "x" * 700_000, transaction="t")  # with its frame it would be too much
    client.done("COMMIT", {"transaction": "t"})
    with OpenWireClient(address, cache=64) as jms:  # which has the broker keep names as well
        for _ in range(2):
            assert type(jms.send(Queue("A"), "x" * 1_000_000)) is c.Response
        wait_until(lambda: not brokers[0].memory.large)  # or others that have one would wait for this


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


def test_a_large_frame_shuts_nobody_out(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    address = start_broker(bind="auto://127.0.0.1:0", memory_bytes_max=4 << 20)
    slow = open_client(address)
    slow.write(b"SEND\ndestination:/queue/A\ncontent-length:2000000\n\n" + body(100_000))
    wait_until(lambda: len(brokers[0].memory.large) == 1)
    with OpenWireClient(address, cache=64) as jms:  # which has the broker keep names
        assert type(jms.subscribe(Queue("B"))) is c.Response
        assert type(jms.send(Queue("B"), "x")) is c.Response
    client = open_client(address)
    client.done("BEGIN", {"transaction": "t"})
    client.publish("/queue/B", "x" * 300_000, transaction="t")
    client.done("COMMIT", {"transaction": "t"})
    slow.write(body(1_900_000) + b"\0")
    slow.publish("/queue/B", "complete")
    wait_until(lambda: not brokers[0].memory.large)


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
    return next(consumer for client in broker.clients for consumer in client.consumers.by_key.values())


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


def copied(client: Client, *numbers: int) -> None:
    """Let a virtual topic have these queues, too."""
    for number in numbers:
        client.subscribe(f"/queue/Consumer.{number}.VirtualTopic.T", id=f"c{number}")
        client.done("UNSUBSCRIBE", {"id": f"c{number}"})


@pytest.mark.parametrize("is_numbered", [False, True])
def test_copies_of_virtual_topics_are_counted_on_their_way_to_the_store(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    brokers: list[Broker],
    is_numbered: bool,
) -> None:
    client = open_client(start_broker(sqlite_store))
    copied(client, *range(9))
    number = {"producer-id": "P", "producer-sequence": "2"} if is_numbered else {}
    if is_numbered:
        client.publish("/queue/A", producer_id="P", producer_sequence="1")
    memory = brokers[0].memory
    wait_until(lambda: memory.uncommitted == 0)
    with commits_held():
        send = {"destination": "/topic/VirtualTopic.T", "persistent": "true", "receipt": "r", **number}
        client.send("SEND", send, "x" * 50_000)
        wait_until(lambda: memory.uncommitted >= 10 * 50_000)
    assert client.frame().headers["receipt-id"] == "r"
    wait_until(lambda: memory.uncommitted == 0)


def test_copies_of_virtual_topics_are_limited_in_bytes(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter, brokers: list[Broker]
) -> None:
    client = open_client(start_broker(sqlite_store, transaction_bytes_max=100_000))
    topic, large = {"destination": "/topic/VirtualTopic.T", "persistent": "true"}, "x" * 30_000
    client.done("BEGIN", {"transaction": "t"})
    client.done("SEND", {**topic, "transaction": "t"}, large)
    copied(client, 0, 1, 2)
    client.done("SEND", topic, large)
    copied(client, 3)
    assert "transaction_bytes_max is 100000" in client.request("SEND", topic, large).headers["message"]
    error = client.request("COMMIT", {"transaction": "t"}).headers["message"]
    assert error.startswith("Transaction t is rolled back: ")
    client.done("SEND", topic, "small")
    assert brokers[0].queues[Queue("Consumer.3.VirtualTopic.T")].depth == 1
    assert brokers[0].queues[Queue("Consumer.0.VirtualTopic.T")].depth == 2
    assert brokers[0].memory.kept < 10_000


def spool(client: Client, broker: Broker, destination: str, *names: Destination) -> int:
    """Send until the messages of these queues go into the spool. Returns how many that were."""
    sent = 0
    while sent == 0 or not all(
        lane.is_open for name in names for lane in broker.queues[name].lanes() if not lane.is_durable
    ):
        client.done("SEND", {"destination": destination})
        sent += 1
    return sent


@pytest.mark.parametrize("in_transaction", [False, True])
def test_what_is_not_persistent_counts_until_it_is_in_the_spool(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], in_transaction: bool
) -> None:
    address = start_broker(window_messages_max=2, page_messages_max=2)
    client, other = open_client(address), open_client(address)
    copied(client, 0, 1, 2)
    fill = {"destination": "/topic/VirtualTopic.T"}
    memory = brokers[0].memory
    spool(client, brokers[0], "/topic/VirtualTopic.T", *(Queue(f"Consumer.{n}.VirtualTopic.T") for n in range(3)))
    wait_until(lambda: memory.uncommitted == 0)
    with commits_held():
        if in_transaction:
            other.done("BEGIN", {"transaction": "t"})
            other.done("SEND", {**fill, "transaction": "t"}, "x" * 10_000)
            other.send("COMMIT", {"transaction": "t", "receipt": "r"})
        else:
            other.send("SEND", {**fill, "receipt": "r"}, "x" * 10_000)
        wait_until(lambda: memory.uncommitted >= 40_000)
        assert other.is_silent(0.1)
    assert other.frame().headers["receipt-id"] == "r"
    wait_until(lambda: memory.uncommitted == 0)


def test_who_sends_what_is_not_persistent_waits_for_the_spool_in_the_end(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    address = start_broker(memory_bytes_max=1 << 20, window_messages_max=2, page_messages_max=2)
    clients = [open_client(address) for _ in range(4)]
    send, memory = {"destination": "/queue/A"}, brokers[0].memory
    sent = spool(clients[0], brokers[0], "/queue/A", Queue("A"))
    size = 60_000
    with commits_held():
        for client in clients:
            for _ in range(40):  # more than there is room for, whoever is first
                client.send("SEND", send, "x" * size)
        wait_until(lambda: len(memory.senders) == len(clients))
        assert memory.uncommitted <= 2 * memory.uncommitted_max + size * 2
    for client in clients:
        client.done("SEND", send)
    wait_until(lambda: memory.uncommitted == 0 and brokers[0].queues[Queue("A")].depth == sent + 164)


def test_many_subscriptions_share_what_may_be_unacknowledged(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    client = open_client(start_broker(memory_bytes_max=1))
    memory, shares = brokers[0].memory, []
    for number in range(400):
        client.send("SUBSCRIBE", {"destination": "/topic/A", "id": str(number)})
        if number in {0, 9, 99}:
            client.done("SEND", {"destination": "/queue/A"})
            shares.append(memory.deliveries_share)
    assert shares == [256, 25, 16]
    client.done("SEND", {"destination": "/queue/A"})
    assert memory.deliveries_share == 5
    client.write(b"DISCONNECT\n\n\0")  # the connection is gone while they are taken away in slices
    client.drop()
    wait_until(lambda: not brokers[0].clients)
    wait_until(lambda: (memory.consumers, memory.kept, memory.deliveries_share) == (0, 0, 256))


def test_producers_that_number_their_messages_are_remembered_in_a_limited_number(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    brokers: list[Broker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jdbcstore.broker.producers._KNOWN_MAX", 5)
    client = open_client(start_broker(sqlite_store))
    for _ in range(2):
        for name in range(20):
            client.publish("/queue/A", str(name), producer_id=f"P{name}", producer_sequence="1")
    producers = brokers[0].producers
    assert producers.duplicates == 20
    known = [name for name in range(20) if producers.knows(number_of(numbered(name))[0])]
    assert known == [15, 16, 17, 18, 19]


@pytest.mark.parametrize("ending", ["COMMIT", "ABORT"])
def test_a_transaction_knows_all_its_producers_however_many_are_remembered(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    brokers: list[Broker],
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
) -> None:
    monkeypatch.setattr("jdbcstore.broker.producers._KNOWN_MAX", 5)
    client = open_client(start_broker(sqlite_store))
    client.done("BEGIN", {"transaction": "t"})
    for name in range(12):
        client.done("SEND", {"destination": "/queue/A", "transaction": "t", **numbered(name)})
    client.done(ending, {"transaction": "t"})
    for name in range(12, 24):
        client.publish("/queue/A", str(name), producer_id=f"P{name}", producer_sequence="1")
    producers = brokers[0].producers
    assert sum(producers.knows(number_of(numbered(name))[0]) for name in range(24)) == 5
    assert brokers[0].queues[Queue("A")].depth == (24 if ending == "COMMIT" else 12)


def numbered(name: int) -> dict[str, str]:
    return {"producer-id": f"P{name}", "producer-sequence": "1"}


def test_who_goes_on_although_everything_fails_is_disconnected(
    start_broker: StartBroker, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jdbcstore.broker.producers._MISSING_TOTAL_MAX", 5)
    client = open_client(start_broker())
    for name in range(5):
        assert client.request("SEND", {"destination": "/queue/>", **numbered(name)}).command == "ERROR"
    client.done("SEND", {"destination": "/queue/A", **numbered(0)})  # sent again
    assert client.request("SEND", {"destination": "/queue/>", **numbered(5)}).command == "ERROR"
    error = client.request("SEND", {"destination": "/queue/A", **numbered(6)}).headers["message"]
    assert "goes on although 5 messages" in error
    assert client.is_closed()


def test_destinations_are_limited_but_those_that_nobody_uses_make_room(
    start_broker: StartBroker, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "jdbcstore.broker.destination_map._TIDY_S", -1.0
    )  # the clock of the loop may stand still for a millisecond
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


def test_what_is_not_persistent_and_in_doubt_counts_until_it_is_decided(
    start_broker: StartBroker, brokers: list[Broker]
) -> None:
    address, queue = start_broker(bind="openwire://127.0.0.1:0", memory_bytes_max=4 << 20), Queue("A")
    memory = brokers[0].memory

    def step(client: OpenWireClient, number: int, kind: int) -> c.Response:
        return client.ask(c.TransactionInfo(transaction_id=XATransactionId(1, b"%d" % number, b""), type=kind))

    def prepared(client: OpenWireClient, number: int) -> bool:
        step(client, number, 0)
        message = client.message(queue, str(number).ljust(100_000))
        message.persistent, message.transaction_id = False, XATransactionId(1, b"%d" % number, b"")
        assert not isinstance(client.ask(message), c.ExceptionResponse)
        return not isinstance(step(client, number, 1), c.ExceptionResponse)

    with OpenWireClient(address) as client:
        idle, in_doubt = memory.kept, 0
        while prepared(client, in_doubt):
            in_doubt += 1
            assert in_doubt * 100_000 < memory.kept_max, "it takes more than there is"
        assert in_doubt > 3
        assert not isinstance(step(client, 0, 4), c.ExceptionResponse)
        assert prepared(client, in_doubt), "there is room again"
        client.subscribe(queue, 100)
        for number in range(1, in_doubt + 1):
            assert not isinstance(step(client, number, 3), c.ExceptionResponse)
            assert (client.text() or "").strip() == str(number)
        wait_until(lambda: memory.kept - idle < 100_000)
