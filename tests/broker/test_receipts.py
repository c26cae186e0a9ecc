"""A receipt means: it is in the store. Tested with a real store whose commits the test holds back or fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jdbcstore import PersistenceAdapter, Queue, TransientStoreError, faults
from jdbcstore.broker.turns import Turns
from tests.broker.client import Client, Frame
from tests.broker.conftest import OpenClient, StartBroker
from tests.waiting import wait_until


@contextmanager
def commits_held(held: threading.Event | None = None) -> Iterator[threading.Event]:
    """No batch is committed until the event is set; at the end it is in any case.

    Args:
        held: is set when a batch is held.
    """
    release = threading.Event()

    def hold() -> None:
        if held is not None:
            held.set()
        release.wait()

    with faults.inject("writer.before_commit", hold):
        try:
            yield release
        finally:
            release.set()


@contextmanager
def commits_fail() -> Iterator[None]:
    """Every batch is refused."""

    def fail() -> None:
        raise TransientStoreError("the database is on holiday")

    with faults.inject("writer.before_commit", fail):
        yield


@pytest.fixture
def durable(start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter) -> Client:
    return open_client(start_broker(sqlite_store))


def send(client: Client, receipt: str, **headers: str) -> None:
    client.send("SEND", {"destination": "/queue/A", "persistent": "true", "receipt": receipt, **headers}, receipt)


def test_no_receipt_comes_before_the_commit(durable: Client) -> None:
    with commits_held() as release:
        send(durable, "1")
        send(durable, "2")
        assert durable.is_silent(0.5)
        release.set()
        assert [durable.frame().headers["receipt-id"] for _ in range(2)] == ["1", "2"]


@pytest.mark.parametrize("is_persistent", [True, False], ids=["persistent", "non-persistent"])
def test_a_message_that_is_alone_takes_one_turn_of_the_loop(
    is_persistent: bool,
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns, turn = 0, Turns.turn

    def counting(self: Turns) -> None:
        nonlocal turns
        turns += 1
        turn(self)

    monkeypatch.setattr(Turns, "turn", counting)
    client = open_client(start_broker(sqlite_store))
    persistent = str(is_persistent).lower()
    client.done("SEND", {"destination": "/queue/A", "persistent": persistent}, "0")
    turns = 0
    for number in range(20):
        client.done("SEND", {"destination": "/queue/A", "persistent": persistent}, str(number))
    assert 20 <= turns < 30  # a few may be somebody else's


def test_a_non_persistent_message_does_not_wait_for_the_store(durable: Client) -> None:
    with commits_held():
        durable.done("SEND", {"destination": "/queue/A"}, "x")


def test_an_acknowledgement_has_its_receipt_after_the_commit(durable: Client) -> None:
    durable.publish("/queue/A", "x")
    durable.subscribe("/queue/A", "client-individual")
    message = durable.message()
    with commits_held() as release:
        durable.ack(message, receipt="acked")
        assert durable.is_silent(0.5)
        release.set()
        assert durable.frame().headers["receipt-id"] == "acked"


def test_a_message_may_be_delivered_before_its_commit_and_cancel_it(durable: Client) -> None:
    durable.subscribe("/queue/A", "client-individual")
    with commits_held(held := threading.Event()) as release:
        send(durable, "first")
        assert held.wait(60)  # one that is in no batch yet is answered as soon as it is cancelled
        send(durable, "second")
        messages = [durable.message(), durable.message()]
        for message in messages:
            durable.ack(message, receipt=message.text)
        assert durable.is_silent()
        release.set()
        answers = sorted(durable.frame().headers["receipt-id"] for _ in range(4))
    assert answers == ["first", "first", "second", "second"]


def test_delivery_can_be_made_to_wait_for_the_commit(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    client = open_client(start_broker(sqlite_store, concurrent_store_and_dispatch_queues=False))
    client.subscribe("/queue/A")
    with commits_held() as release:
        send(client, "1")
        assert client.is_silent(0.5)
        release.set()
        assert {client.frame().command, client.frame().command} == {"MESSAGE", "RECEIPT"}


def test_a_failed_store_is_told_to_the_sender_and_the_connection_goes_on(durable: Client) -> None:
    with commits_fail():
        send(durable, "1")
        error = durable.error()
        assert (error.headers["receipt-id"], "on holiday" in error.headers["message"]) == ("1", True)
        durable.done("SEND", {"destination": "/queue/B"}, "needs no store")
    durable.publish("/queue/A", "again")
    durable.subscribe("/queue/A", activemq_prefetchSize="1")
    assert durable.message().text == "again"
    assert durable.is_silent()


def test_a_failed_send_without_receipt_is_told_too(durable: Client) -> None:
    with commits_fail():
        durable.send("SEND", {"destination": "/queue/A", "persistent": "true"}, "x")
        assert "receipt-id" not in durable.error().headers


def test_a_failed_acknowledgement_leaves_the_message_with_the_client(durable: Client) -> None:
    for text in ("a", "b"):
        durable.publish("/queue/A", text)
    durable.subscribe("/queue/A", "client")
    messages = [durable.message(), durable.message()]
    with commits_fail():
        assert durable.request("ACK", durable.named(messages[1])).command == "ERROR"
    durable.done("ACK", durable.named(messages[0]))
    durable.done("ACK", durable.named(messages[1]))
    assert durable.is_silent()


def acks(messages: list[Frame], **last: str) -> bytes:
    """ACKs of several messages, to be written at once."""
    lines = ["\n".join(["ACK", f"id:{message.headers['ack']}"]) for message in messages]
    lines[-1] += "".join(f"\n{name}:{value}" for name, value in last.items())
    return b"".join(line.encode() + b"\n\n\0" for line in lines)


def test_a_receipt_covers_the_acknowledgements_before_it(durable: Client) -> None:
    for text in ("a", "b"):
        durable.publish("/queue/A", text)
    durable.subscribe("/queue/A", "client-individual")
    messages = [durable.message(), durable.message()]
    with commits_held() as release:
        durable.write(acks(messages, receipt="acked"))
        assert durable.is_silent(0.5)
        release.set()
        assert durable.frame().headers["receipt-id"] == "acked"
    durable.done("UNSUBSCRIBE", {"id": "1"})
    durable.subscribe("/queue/A", id="again")
    assert durable.is_silent()


def test_acknowledgements_that_fail_together_are_told_once_and_may_be_repeated(durable: Client) -> None:
    for text in ("a", "b", "c"):
        durable.publish("/queue/A", text)
    durable.subscribe("/queue/A", "client-individual")
    messages = [durable.message() for _ in range(3)]
    with commits_fail():
        durable.write(acks(messages))
        assert "on holiday" in durable.error().headers["message"]
        assert durable.is_silent()
    durable.write(acks(messages, receipt="acked"))
    assert durable.frame().headers["receipt-id"] == "acked"


def test_an_acknowledgement_that_names_nothing_does_not_hurt_those_around_it(durable: Client) -> None:
    for text in ("a", "b"):
        durable.publish("/queue/A", text)
    durable.subscribe("/queue/A", "client-individual")
    first, second = durable.message(), durable.message()
    durable.write(acks([first]) + b"ACK\nid:nothing\n\n\0" + acks([second, first], receipt="twice"))
    errors = [durable.error(), durable.error()]
    assert [error.headers.get("receipt-id") for error in errors] == [None, "twice"]
    durable.done("UNSUBSCRIBE", {"id": "1"})
    durable.subscribe("/queue/A", id="again")
    assert durable.is_silent()


def test_a_failed_nack_leaves_the_message_with_the_client(durable: Client) -> None:
    durable.publish("/queue/A", "a")
    durable.subscribe("/queue/A", "client-individual")
    durable.subscribe("/queue/ActiveMQ.DLQ", id="dlq")
    message = durable.message()
    with commits_fail():
        assert durable.request("NACK", durable.named(message)).command == "ERROR"
        assert durable.is_silent()
    durable.done("NACK", durable.named(message))
    assert durable.message().headers["subscription"] == "dlq"


def test_a_message_whose_auto_acknowledgement_fails_is_removed_later(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    address = start_broker(sqlite_store)
    client = open_client(address)
    client.publish("/queue/A", "a")
    with commits_fail():
        client.subscribe("/queue/A")
        assert client.message().text == "a"
        assert client.is_silent(0.3)  # it is not delivered again and again while the store is away
    client.drop()
    store = sqlite_store.queue_message_store(Queue("A"))
    wait_until(lambda: not store.message_count)


def test_a_store_that_refuses_a_name_is_told_to_the_sender(durable: Client) -> None:
    answer = durable.request("SEND", {"destination": "/queue/\x01", "persistent": "true"}, "x")
    assert (answer.command, answer.headers["receipt-id"]) == ("ERROR", "asked")
    assert durable.request("SUBSCRIBE", {"destination": "/queue/\x01", "id": "1"}).command == "ERROR"
    durable.subscribe("/queue/A", id="1")
