"""BEGIN, COMMIT, ABORT: everything or nothing."""

from __future__ import annotations

import pytest

from jdbcstore import PersistenceAdapter
from tests.broker.client import Address, Client
from tests.broker.conftest import VERSIONS, OpenClient, StartBroker
from tests.broker.test_receipts import commits_fail, commits_held


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
        ("COMMIT", {"transaction": "zz"}, "Invalid transaction id: zz"),
        ("ABORT", {"transaction": "zz"}, "Invalid transaction id: zz"),
        ("SEND", {"destination": "/queue/A", "transaction": "zz"}, "Invalid transaction id: zz"),
    ],
)
def test_a_wrong_transaction_is_refused(client: Client, command: str, headers: dict[str, str], message: str) -> None:
    answer = client.request(command, headers)
    assert (answer.command, answer.headers["message"], answer.headers["receipt-id"]) == ("ERROR", message, "asked")
    client.publish("/queue/A", "the connection goes on")


def test_a_name_is_taken_once(client: Client) -> None:
    client.done("BEGIN", {"transaction": "t"})
    assert client.request("BEGIN", {"transaction": "t"}).headers["message"] == "The transaction was already started: t"


def test_a_transaction_is_bounded(start_broker: StartBroker, open_client: OpenClient) -> None:
    client = open_client(start_broker(transaction_messages_max=2, transactions_max=1))
    client.done("BEGIN", {"transaction": "t"})
    assert client.request("BEGIN", {"transaction": "u"}).command == "ERROR"
    for _ in range(2):
        client.done("SEND", {"destination": "/queue/A", "transaction": "t"}, "x")
    answer = client.request("SEND", {"destination": "/queue/A", "transaction": "t"}, "x")
    assert (answer.command, "2 messages are the limit" in answer.headers["message"]) == ("ERROR", True)


def test_of_a_send_that_is_refused_no_part_stays(start_broker: StartBroker, open_client: OpenClient) -> None:
    client = open_client(start_broker(transaction_messages_max=2))
    client.subscribe("/queue/>")
    client.done("BEGIN", {"transaction": "t"})
    client.done("SEND", {"destination": "/queue/A", "transaction": "t"}, "kept")
    assert client.request("SEND", {"destination": "/queue/B,/queue/C", "transaction": "t"}).command == "ERROR"
    client.done("COMMIT", {"transaction": "t"})
    assert client.message().text == "kept"
    assert client.is_silent()
