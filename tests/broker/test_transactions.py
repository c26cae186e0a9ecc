"""BEGIN, COMMIT, ABORT: everything or nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import pytest

from jdbcstore import Broker, Destination, PersistenceAdapter, Queue, Topic
from jdbcstore.broker import prepared, slices
from jdbcstore.broker.client import Client as BrokerClient
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.prepared import PREPARED_LEAST
from jdbcstore.broker.queue_contents import QueueContents
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Commit
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.journal.amq.options import AMQOptions
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.leveldb.options import LevelDBOptions
from jdbcstore.store.journal.mkahadb.options import MKahaDBOptions
from jdbcstore.store.transactions import TransactionLimits
from tests.broker.client import Address, Client
from tests.broker.conftest import VERSIONS, OpenClient, StartBroker
from tests.broker.test_receipts import commits_fail, commits_held
from tests.waiting import wait_until


@pytest.fixture
def durable(start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter) -> Client:
    return open_client(start_broker(sqlite_store))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("persistent", ["true", "false"])
@pytest.mark.parametrize("destination", ["/queue/A", "/topic/A"])
def test_messages_are_visible_after_the_commit(
    address: Address, open_client: OpenClient, version: str, persistent: str, destination: str
) -> None:
    client = open_client(address, version)
    client.subscribe(destination)
    client.done("BEGIN", {"transaction": "t"})
    for text in ("a", "b"):
        client.done("SEND", {"destination": destination, "transaction": "t", "persistent": persistent}, text)
    assert client.is_silent()
    client.done("COMMIT", {"transaction": "t"})
    assert [client.message().text, client.message().text] == ["a", "b"]


def test_an_aborted_transaction_sent_nothing(client: Client) -> None:
    client.subscribe("/queue/A")
    client.done("BEGIN", {"transaction": "t"})
    client.send("SEND", {"destination": "/queue/A", "transaction": "t"}, "x")
    client.done("ABORT", {"transaction": "t"})
    assert client.is_silent()
    client.done("BEGIN", {"transaction": "t"})  # the name is free again


def test_an_acknowledgement_counts_at_commit(address: Address, open_client: OpenClient) -> None:
    client = open_client(address)
    for text in ("a", "b", "c"):
        client.publish("/queue/A", text)
    client.subscribe("/queue/A", "client-individual")
    messages = [client.message() for _ in range(3)]
    client.done("BEGIN", {"transaction": "t"})
    client.done("ACK", {**client.named(messages[0]), "transaction": "t"})
    client.done("ACK", {**client.named(messages[1]), "transaction": "t"})
    client.done("COMMIT", {"transaction": "t"})
    client.drop()
    again = open_client(address)
    again.subscribe("/queue/A")
    assert again.message().text == "c"
    assert again.is_silent()


def test_an_abort_makes_the_acknowledgement_possible_again(client: Client) -> None:
    client.publish("/queue/A", "a")
    client.subscribe("/queue/A", "client-individual")
    message = client.message()
    client.done("BEGIN", {"transaction": "t"})
    client.done("ACK", {**client.named(message), "transaction": "t"})
    client.done("ABORT", {"transaction": "t"})
    assert client.is_silent()  # the message stays with the client, it is not delivered again
    client.done("ACK", client.named(message))


@pytest.mark.parametrize("mode", ["client", "client-individual"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_message_may_be_acknowledged_again_in_its_transaction(
    address: Address, open_client: OpenClient, version: str, mode: str
) -> None:
    client = open_client(address, version)
    for text in ("a", "b"):
        client.publish("/queue/A", text)
    client.subscribe("/queue/A", mode)
    first, second = client.message(), client.message()
    client.done("BEGIN", {"transaction": "t"})
    for message in (second, first, second):
        client.done("ACK", {**client.named(message), "transaction": "t"})
    assert client.request("ACK", {**client.named(first), "transaction": "none"}).command == "ERROR"
    assert client.request("ACK", client.named(first)).command == "ERROR"
    client.done("COMMIT", {"transaction": "t"})
    assert client.request("ACK", {**client.named(first), "transaction": "t"}).command == "ERROR"
    client.drop()
    assert open_client(address).rest_of("/queue/A") == []


def test_a_lost_connection_rolls_back(address: Address, open_client: OpenClient) -> None:
    client = open_client(address)
    client.publish("/queue/A", "a")
    client.subscribe("/queue/A", "client-individual")
    client.done("BEGIN", {"transaction": "t"})
    client.done("ACK", {**client.named(client.message()), "transaction": "t"})
    client.done("SEND", {"destination": "/queue/A", "transaction": "t"}, "never")
    client.drop()
    again = open_client(address)
    again.subscribe("/queue/A")
    message = again.message()
    assert (message.text, message.headers["redelivered"]) == ("a", "true")
    assert again.is_silent()


def test_a_commit_has_its_receipt_after_the_store_has_committed(durable: Client) -> None:
    durable.subscribe("/queue/A,/queue/B")
    durable.done("BEGIN", {"transaction": "t"})
    for destination in ("/queue/A", "/queue/B"):
        durable.send("SEND", {"destination": destination, "transaction": "t", "persistent": "true"}, destination)
    with commits_held() as release:
        durable.send("COMMIT", {"transaction": "t", "receipt": "done"})
        assert durable.is_silent(0.5)  # neither the receipt nor, although queues need not wait otherwise, a message
        release.set()
        assert {durable.frame().command for _ in range(3)} == {"MESSAGE", "RECEIPT"}


def test_a_failed_commit_leaves_everything_as_it_was(durable: Client) -> None:
    durable.publish("/queue/A", "a")
    durable.subscribe("/queue/A", "client-individual")
    durable.subscribe("/queue/B", id="2")
    message = durable.message()
    durable.done("BEGIN", {"transaction": "t"})
    durable.done("ACK", {**durable.named(message), "transaction": "t"})
    durable.done("SEND", {"destination": "/queue/B", "transaction": "t", "persistent": "true"}, "b")
    durable.done("SEND", {"destination": "/queue/B", "transaction": "t"}, "b too")
    with commits_fail():
        assert durable.request("COMMIT", {"transaction": "t"}).command == "ERROR"
    assert durable.is_silent()
    durable.done("ACK", durable.named(message))


@pytest.mark.parametrize(
    ("command", "headers", "message"),
    [
        ("BEGIN", {}, "Must specify the transaction you are beginning"),
        ("COMMIT", {}, "Must specify the transaction you are committing"),
        ("ABORT", {}, "Must specify the transaction you are committing"),
        ("COMMIT", {"transaction": "zz"}, "Invalid transaction id: zz. Begin it first"),
        ("ABORT", {"transaction": "zz"}, "Invalid transaction id: zz. Begin it first"),
        ("SEND", {"destination": "/queue/A", "transaction": "zz"}, "Invalid transaction id: zz. Begin it first"),
    ],
)
def test_a_wrong_transaction_is_refused(client: Client, command: str, headers: dict[str, str], message: str) -> None:
    answer = client.request(command, headers)
    assert (answer.command, answer.headers["message"], answer.headers["receipt-id"]) == ("ERROR", message, "asked")
    client.publish("/queue/A", "the connection goes on")


def test_a_name_is_taken_once(client: Client) -> None:
    client.done("BEGIN", {"transaction": "t"})
    assert (
        client.request("BEGIN", {"transaction": "t"})
        .headers["message"]
        .startswith("The transaction was already started: t. ")
    )


def test_a_transaction_is_bounded(start_broker: StartBroker, open_client: OpenClient) -> None:
    client = open_client(start_broker(transaction_messages_max=2, transactions_max=1))
    client.done("BEGIN", {"transaction": "t"})
    assert client.request("BEGIN", {"transaction": "u"}).command == "ERROR"
    for _ in range(2):
        client.done("SEND", {"destination": "/queue/A", "transaction": "t"}, "x")
    answer = client.request("SEND", {"destination": "/queue/A", "transaction": "t"}, "x")
    assert (answer.command, "transaction_messages_max is 2. Commit earlier" in answer.headers["message"]) == (
        "ERROR",
        True,
    )


def test_as_much_as_batch_programs_do_at_once_is_one_transaction(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    count, client = 50_000, open_client(start_broker(sqlite_store))
    send = b"SEND\ndestination:/queue/A\npersistent:true\ntransaction:t\n\nx\0"
    client.write(b"BEGIN\ntransaction:t\n\n\0" + send * count)
    client.done("COMMIT", {"transaction": "t"})
    client.subscribe("/queue/A", "client", activemq_prefetchSize=str(count))
    *_, last = (client.message() for _ in range(count))
    client.done("BEGIN", {"transaction": "t"})
    client.send("ACK", {**client.named(last), "transaction": "t"})
    client.done("COMMIT", {"transaction": "t"})
    assert sqlite_store.queue_message_store(Queue("A")).message_count == 0


@pytest.mark.parametrize("options", [JdbcOptions(), KahaDBOptions(), MKahaDBOptions(), LevelDBOptions(), AMQOptions()])
def test_what_a_client_may_do_in_a_transaction_each_store_prepares(options: TransactionLimits) -> None:
    clients = BrokerOptions()
    assert options.transaction_messages_max >= clients.transaction_messages_max
    assert options.transaction_bytes_max >= clients.transaction_bytes_max


def test_of_a_send_that_is_refused_no_part_stays(start_broker: StartBroker, open_client: OpenClient) -> None:
    client = open_client(start_broker(transaction_messages_max=2))
    client.subscribe("/queue/>")
    client.done("BEGIN", {"transaction": "t"})
    client.done("SEND", {"destination": "/queue/A", "transaction": "t"}, "kept")
    assert client.request("SEND", {"destination": "/queue/B,/queue/C", "transaction": "t"}).command == "ERROR"
    client.done("COMMIT", {"transaction": "t"})
    assert client.message().text == "kept"
    assert client.is_silent()


@pytest.mark.parametrize(
    "refused",
    [
        {"destination": "/queue/B,/queue/C"},
        {"destination": "/remote-temp-queue/ID:gone"},
        {"destination": "/queue/B", "AMQ_SCHEDULED_DELAY": "soon"},
        {"destination": "/queue/jdbcstore.Pauses"},
    ],
)
def test_a_send_that_is_refused_and_asks_for_no_receipt_fails_its_transaction(
    start_broker: StartBroker, open_client: OpenClient, refused: dict[str, str]
) -> None:
    client = open_client(start_broker(transaction_messages_max=2))
    client.publish("/queue/IN", "order")
    client.subscribe("/queue/IN", "client-individual")
    order = client.message()
    client.send("BEGIN", {"transaction": "t"})
    client.send("ACK", {**client.named(order), "transaction": "t"})
    client.send("SEND", {**refused, "transaction": "t"}, "what it comes to")
    client.send("COMMIT", {"transaction": "t", "receipt": "asked"})
    error = client.error().headers
    assert "receipt-id" not in error
    answer = client.error().headers
    assert (answer["receipt-id"], answer["message"]) == (
        "asked",
        f"Transaction t is rolled back: a message in it was refused: {error['message']}",
    )
    client.done("ACK", client.named(order))


def test_an_ack_that_is_refused_and_asks_for_no_receipt_fails_its_transaction(
    start_broker: StartBroker, open_client: OpenClient
) -> None:
    client = open_client(start_broker(transaction_messages_max=2))
    for order in ("first", "second"):
        client.publish("/queue/IN", order)
    client.subscribe("/queue/IN", "client-individual", id="in")
    orders = [client.message() for _ in range(2)]
    client.send("BEGIN", {"transaction": "t"})
    client.send("SEND", {"destination": "/queue/OUT", "transaction": "t"}, "what they come to")
    for message in orders:
        client.ack(message, transaction="t")
    error = client.error().headers["message"]
    answer = client.request("COMMIT", {"transaction": "t"}).headers["message"]
    assert answer == f"Transaction t is rolled back: an acknowledgement in it was refused: {error}"
    assert client.rest_of("/queue/OUT") == []


def test_an_ack_that_is_refused_and_asks_for_a_receipt_costs_nothing_else(
    start_broker: StartBroker, open_client: OpenClient
) -> None:
    client = open_client(start_broker(transaction_messages_max=1))
    for order in ("first", "second"):
        client.publish("/queue/IN", order)
    client.subscribe("/queue/IN", "client-individual")
    first, second = client.message(), client.message()
    client.send("BEGIN", {"transaction": "t"})
    client.ack(first, transaction="t")
    assert client.request("ACK", {**client.named(second), "transaction": "t"}).command == "ERROR"
    client.done("COMMIT", {"transaction": "t"})
    client.done("ACK", client.named(second))


@pytest.mark.parametrize("refused", [{}, {"destination": ""}])
def test_a_send_to_nowhere_that_asks_for_no_receipt_ends_its_transaction(
    start_broker: StartBroker, open_client: OpenClient, refused: dict[str, str]
) -> None:
    address = start_broker()
    client = open_client(address)
    client.send("BEGIN", {"transaction": "t"})
    client.send("SEND", {"destination": "/queue/A", "transaction": "t", "persistent": "true"}, "one half")
    client.send("SEND", {**refused, "transaction": "t"}, "the other half")
    client.send("COMMIT", {"transaction": "t"})
    client.error()
    assert client.is_closed()
    other = open_client(address)
    other.subscribe("/queue/A")
    assert other.is_silent()


#: So many messages that COMMIT is prepared in slices.
MANY = PREPARED_LEAST + 100


def many(client: Client, transaction: str, destination: str = "/queue/A", **headers: str) -> None:
    for number in range(MANY):
        more = {name: value.format(number + 1) for name, value in headers.items()}
        client.send(
            "SEND",
            {"destination": destination, "transaction": transaction, "persistent": "true", **more},
            f"{transaction} {number}",
        )


def texts(client: Client, count: int) -> list[str]:
    return [client.message().text for _ in range(count)]


@pytest.fixture
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    monkeypatch.setattr(prepared, "_PLACED_LEAST", PREPARED_LEAST)


@pytest.mark.usefixtures("short_slices")
def test_what_is_said_behind_a_long_commit_is_done_after_it(durable: Client) -> None:
    for transaction in ("s", "t"):
        durable.done("BEGIN", {"transaction": transaction})
        many(durable, transaction)
    for transaction in ("s", "t"):
        durable.send("COMMIT", {"transaction": transaction})
    durable.send("ABORT", {"transaction": "t", "receipt": "late"})
    assert durable.frame().headers["message"] == "Invalid transaction id: t. Begin it first"
    durable.publish("/queue/A", "behind", persistent="true")
    durable.subscribe("/queue/A")
    sent = [f"{transaction} {number}" for transaction in ("s", "t") for number in range(MANY)]
    assert texts(durable, 2 * MANY + 1) == [*sent, "behind"]


@pytest.mark.parametrize("steps", [0, 10, MANY])
@pytest.mark.usefixtures("short_slices")
def test_a_connection_that_goes_while_its_commit_is_prepared_rolls_back(
    durable: Client, open_client: OpenClient, brokers: list[Broker], monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    broker = brokers[0]
    preparing = broker.preparing

    gone: list[BrokerClient] = []

    def preparing_to_go(*arguments: object) -> Iterator[None]:
        yield
        job = preparing(*arguments)  # type: ignore[arg-type]
        yield from islice(job, steps)
        gone.extend(client for client in broker.clients if client.consumers.by_key)
        gone[0].close()
        yield from job

    monkeypatch.setattr(broker, "preparing", preparing_to_go)
    durable.publish("/queue/B", "b")
    durable.subscribe("/queue/B", "client-individual")
    message = durable.message()
    durable.done("BEGIN", {"transaction": "t"})
    durable.done("ACK", {**durable.named(message), "transaction": "t"})
    many(durable, "t")
    durable.send("COMMIT", {"transaction": "t"})
    wait_until(lambda: bool(gone) and not broker.slices.at_work and gone[0] not in broker.clients)
    again = open_client(broker.address)
    wait_until(lambda: broker.queue(Queue("A")).contents.is_idle)
    again.subscribe("/queue/B")
    assert again.message().text == "b"
    again.subscribe("/queue/A", id="2")
    assert again.is_silent()
    assert (broker.memory.uncommitted, broker.memory.kept < 100_000) == (0, True)


@pytest.mark.usefixtures("short_slices")
def test_a_long_commit_whose_producer_has_to_be_asked_about_again(
    durable: Client, brokers: list[Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = brokers[0]
    preparing = broker.preparing

    def forgotten(*arguments: object) -> Iterator[None]:
        yield from preparing(*arguments)  # type: ignore[arg-type]
        broker.producers.forget()

    monkeypatch.setattr(broker, "preparing", forgotten)
    durable.done("BEGIN", {"transaction": "t"})
    numbers = {"producer-id": "p", "producer-sequence": "{}"}
    many(durable, "t", **numbers)
    durable.send("COMMIT", {"transaction": "t", "receipt": "committed"})
    durable.send("SEND", {"destination": "/queue/A", "persistent": "true"}, "behind")
    assert durable.frame().headers.get("receipt-id") == "committed"
    durable.subscribe("/queue/A")
    assert texts(durable, MANY + 1) == [*(f"t {number}" for number in range(MANY)), "behind"]


def test_a_long_commit_that_fails_leaves_everything_as_it_was(durable: Client, brokers: list[Broker]) -> None:
    durable.done("BEGIN", {"transaction": "t"})
    many(durable, "t")
    with commits_fail():
        durable.send("COMMIT", {"transaction": "t", "receipt": "failed"})
        assert durable.frame().command == "ERROR"
    wait_until(lambda: brokers[0].queue(Queue("A")).contents.is_idle)
    durable.subscribe("/queue/A")
    assert durable.is_silent()
    assert brokers[0].memory.uncommitted == 0


@pytest.mark.usefixtures("short_slices")
def test_a_long_commit_leaves_the_order_to_the_store(
    durable: Client, open_client: OpenClient, brokers: list[Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others send while it is made ready is stored before it, and goes before it."""
    broker, other = brokers[0], open_client(brokers[0].address)
    preparing, is_ready = broker.preparing, [False]

    def in_between(*arguments: object) -> Iterator[None]:
        job = preparing(*arguments)  # type: ignore[arg-type]
        yield from islice(job, MANY // 2)
        while not is_ready[0]:
            yield
        yield from job

    monkeypatch.setattr(broker, "preparing", in_between)
    consumer = open_client(broker.address)
    consumer.subscribe("/queue/A")
    durable.done("BEGIN", {"transaction": "t"})
    many(durable, "t")
    durable.send("COMMIT", {"transaction": "t", "receipt": "committed"})
    wait_until(lambda: broker.queue(Queue("A")).depth > 0)
    for number in range(3):
        other.publish("/queue/A", f"between {number}", persistent="true")
    assert texts(consumer, 3) == [f"between {number}" for number in range(3)]
    is_ready[0] = True
    assert texts(consumer, MANY) == [f"t {number}" for number in range(MANY)]
    assert durable.frame().headers["receipt-id"] == "committed"


@pytest.mark.usefixtures("short_slices")
@pytest.mark.parametrize("change", ["nothing", "a subscription", "the store is another", "expired"])
def test_a_long_commit_reaches_who_is_there_when_it_is_made(
    durable: Client,
    sqlite_store: PersistenceAdapter,
    open_client: OpenClient,
    brokers: list[Broker],
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    """Queues and a topic, whatever happens between what was prepared for it and the commit."""
    broker, commit_together, stored = brokers[0], sqlite_store.commit_together, dict[Destination, int]()

    def watched(commit: Commit) -> Completion[None]:
        if len(commit.adds) > 1:
            stored.update(Counter(store.destination for store, _ in commit.adds))
        return commit_together(commit)

    def reopened(contents: QueueContents) -> None:
        contents.reopen()
        contents.load()

    monkeypatch.setattr(sqlite_store, "commit_together", watched)
    preparing, is_ready = broker.preparing, [False]

    def waits(*arguments: object) -> Iterator[None]:
        yield from preparing(*arguments)  # type: ignore[arg-type]
        while not is_ready[0]:
            yield

    monkeypatch.setattr(broker, "preparing", waits)
    late = open_client(broker.address, client_id="late")
    listener = open_client(broker.address)
    listener.subscribe("/topic/T")
    durable.done("BEGIN", {"transaction": "t"})
    expires = str(int(time.time() * 1000) + 300)
    durable.send(
        "SEND",
        {"destination": "/queue/B", "transaction": "t", "persistent": "true"}
        | ({"expires": expires} if change == "expired" else {}),
        "b",
    )
    many(durable, "t")
    durable.send("SEND", {"destination": "/topic/T", "transaction": "t", "persistent": "true"}, "published")
    durable.send("COMMIT", {"transaction": "t", "receipt": "committed"})
    wait_until(lambda: broker.queue(Queue("A")).depth == MANY)
    if change == "a subscription":
        late.subscribe("/topic/T", activemq_subscriptionName="late")
    elif change == "the store is another":
        broker.loop.call_soon_threadsafe(reopened, broker.queue(Queue("B")).contents)
    elif change == "expired":
        wait_until(lambda: time.time() * 1000 > int(expires) + 10)
    is_ready[0] = True
    assert durable.frame().headers["receipt-id"] == "committed"
    durable.subscribe("/queue/A")
    assert texts(durable, MANY) == [f"t {number}" for number in range(MANY)]
    assert listener.message().text == "published"
    if change == "a subscription":
        assert late.message().text == "published"
    late.subscribe("/queue/ActiveMQ.DLQ" if change == "expired" else "/queue/B", id="2")
    assert late.message().text == "b"
    wait_until(lambda: broker.memory.uncommitted == 0)
    single = {Queue("ActiveMQ.DLQ" if change == "expired" else "B"): 1}
    assert stored == {Queue("A"): MANY} | single | ({Topic("T"): 1} if change == "a subscription" else {})


def test_what_was_prepared_for_a_long_commit_is_used(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So the commit itself, which nothing interrupts, does not have to turn them into bytes."""
    commit_together = sqlite_store.commit_together
    seen: list[object] = []

    def watched(commit: Commit) -> Completion[None]:
        seen.extend(commit.prepared)
        return commit_together(commit)

    monkeypatch.setattr(sqlite_store, "commit_together", watched)
    client = open_client(start_broker(sqlite_store))
    client.done("BEGIN", {"transaction": "t"})
    many(client, "t")
    client.done("COMMIT", {"transaction": "t"})
    assert len(seen) == MANY
    assert None not in seen
