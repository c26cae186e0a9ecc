"""Messages that cannot be delivered, or not be let go: they cost themselves, and nobody else anything."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from jdbcstore import Broker, BrokerOptions, PersistenceAdapter, Queue, open_store, running
from jdbcstore.broker.destination_policy import DeadLetterStrategy, DestinationPolicy
from jdbcstore.errors import MessageTooLarge
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Commit
from jdbcstore.testing.messages import text_message
from jdbcstore.transport.stomp.conversion import stomp_body
from tests.broker.client import Address, Client, Frame
from tests.broker.conftest import VERSIONS, OpenClient, StartBroker
from tests.broker.test_dead_letters import DLQ, PERSISTENT, browsed, texts
from tests.broker.test_durable import TOPIC, create, durably, subscriber
from tests.broker.test_flow_control import pour

A = "/queue/A"
CAUSE = "dlqDeliveryFailureCause"


@pytest.fixture
def poisonous(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No frame can be made of the body ``poison``, for a reason that nobody has thought of, but of its dead letter."""

    def body(message: Message) -> tuple[bytes, bool]:
        found = stomp_body(message)
        if found[0] == b"poison" and message.original_destination is None:
            raise ZeroDivisionError("a defect")
        return found

    monkeypatch.setattr("jdbcstore.transport.stomp.session.stomp_body", body)
    return monkeypatch


# -- on the way in ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reply-to", "/queue/topic://,/queue/b"),
        ("reply-to", "/queue/"),
        ("reply-to", "/topic/,/queue/b"),
        ("reply-to", "/queue/a,/queue/?x"),
        ("JMSReplyTo", "A,topic://"),
        ("JMSReplyTo", "queue://"),
        ("JMSReplyTo", ","),
        ("destination", "/queue/topic://,/queue/b"),
        ("destination", "/queue/a,/queue/?x"),
    ],
)
@pytest.mark.parametrize("persistent", ["true", "false"])
def test_a_destination_that_is_none_is_refused_on_the_way_in(
    client: Client, name: str, value: str, persistent: str
) -> None:
    client.subscribe(A, "client-individual", activemq_prefetchSize="1")
    refused = client.request("SEND", {"destination": A, "persistent": persistent, name: value} | {name: value})
    assert refused.command == "ERROR"
    assert "nvalid" in refused.headers["message"]
    client.publish(A, "next")
    assert client.message().text == "next"


# -- on the way out --------------------------------------------------------------------------------------------------


def test_a_destination_that_is_none_is_told_as_an_older_broker_has_stored_it(
    start_broker: StartBroker, open_client: OpenClient, tmp_path: Path
) -> None:
    store = open_store(url := f"sqlite:///{tmp_path / 'old.db'}")
    store.start()
    message = text_message(1, "old", destination=Queue("A"))
    message.reply_to = Queue.decoded("A,topic://")
    store.queue_message_store(Queue("A")).add_message(message).result()
    store.stop()
    client = open_client(start_broker(open_store(url)))
    client.subscribe(A)
    message_frame = client.message()
    assert (message_frame.text, message_frame.headers["reply-to"]) == ("old", "/queue/A,topic://")


@pytest.mark.usefixtures("poisonous")
@pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
@pytest.mark.parametrize("persistent", ["true", "false"])
@pytest.mark.parametrize("version", VERSIONS)
def test_in_a_queue_it_becomes_a_dead_letter_and_its_consumer_goes_on(
    address: Address, open_client: OpenClient, version: str, persistent: str, ack: str
) -> None:
    client = open_client(address, version)
    client.subscribe(A, ack, activemq_prefetchSize="1")
    for body in ("poison", "poison", "good"):
        client.done("SEND", {"destination": A, "persistent": persistent}, body)
    good = client.message()
    assert good.text == "good"
    if ack != "auto":
        client.ack(good)
    client.publish(A, "better")
    assert client.message().text == "better"
    if persistent == "true":
        dead = waiting(open_client(address), DLQ, 2)
        assert [message.text for message in dead] == ["poison", "poison"]
        assert "ZeroDivisionError: a defect" in dead[0].headers[CAUSE]


@pytest.mark.usefixtures("poisonous")
def test_consumers_with_selectors_go_on_too(address: Address, open_client: OpenClient) -> None:
    client = open_client(address)
    client.subscribe(A, "client-individual", activemq_prefetchSize="1", selector="kind = 'x'")
    for body in ("poison", "good"):
        client.publish(A, body, kind="x")
    assert client.message().text == "good"
    assert [message.text for message in waiting(client, DLQ, 1)] == ["poison"]


@pytest.mark.usefixtures("poisonous")
def test_a_message_that_stays_where_it_is_does_not_hold_up_its_group(address: Address, open_client: OpenClient) -> None:
    first, second, sender = (open_client(address) for _ in range(3))
    first.subscribe(DLQ, "client-individual")
    sender.publish(DLQ, "poison", JMSXGroupID="A")
    sender.publish(DLQ, "good", JMSXGroupID="A")
    first.done("ACK", first.named(first.message()))
    first.done("UNSUBSCRIBE", {"id": "1"})
    second.subscribe(DLQ)
    sender.publish(DLQ, "better", JMSXGroupID="A")
    assert second.message().text == "better"


@pytest.mark.usefixtures("poisonous")
@pytest.mark.parametrize("ack", ["auto", "client-individual"])
def test_on_a_topic_publishers_and_subscribers_go_on(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter, ack: str
) -> None:
    address = start_broker(sqlite_store)
    publisher, plain = open_client(address), open_client(address)
    plain.subscribe(TOPIC, ack, activemq_prefetchSize="1")
    with subscriber(address) as durable:
        durably(durable, ack, activemq_prefetchSize="1")
        for persistent, body in (("true", "poison"), ("false", "poison"), ("true", "good")):
            publisher.done("SEND", {"destination": TOPIC, "persistent": persistent}, body)
        assert plain.message().text == "good"
        assert durable.message().text == "good"
    (dead,) = waiting(publisher, DLQ, 1)
    assert (dead.text, dead.headers["original-destination"]) == ("poison", TOPIC)


@pytest.mark.usefixtures("poisonous")
def test_a_browser_shows_the_others_however_many_there_are(client: Client) -> None:
    """Each one that cannot be shown makes room for the next: that must not nest."""
    pour(client, 1500, "poison")
    client.publish(A, "good")
    assert texts(client, A) == ["good"]


def test_in_the_dead_letter_queue_it_stays(
    poisonous: pytest.MonkeyPatch, start_broker: StartBroker, open_client: OpenClient, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'broker.db'}"
    with running(Broker(open_store(url), BrokerOptions(bind="127.0.0.1:0"))) as address:
        client = open_client(address)
        client.subscribe(DLQ)
        client.publish(DLQ, "poison")
        client.publish(DLQ, "good")
        assert client.message().text == "good"
    poisonous.undo()
    assert texts(open_client(start_broker(open_store(url))), DLQ) == ["poison"]


# -- into the dead letters -------------------------------------------------------------------------------------------

#: With the usual prefix of an individual strategy too long for a destination.
LONG = "Q" * 235


def test_a_dead_letter_queue_whose_name_is_too_long_is_the_shared_one(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    policy = DestinationPolicy(dead_letter_strategy=DeadLetterStrategy(kind="individual"))
    client = open_client(start_broker(sqlite_store, policies=[policy]))
    client.subscribe(f"/queue/{LONG}", "client-individual")
    client.publish(f"/queue/{LONG}", "refused")
    client.done("NACK", client.named(client.message()))
    client.publish(f"/queue/{LONG}", "expired", expires="1")
    assert sorted(texts(client, DLQ)) == ["expired", "refused"]


@pytest.mark.usefixtures("poisonous")
def test_what_the_store_refuses_as_a_dead_letter_is_kept_as_it_is(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Say because it has become too large with what is told of it."""
    client = open_client(start_broker())
    adapter = brokers[0].adapter
    commit = adapter.commit_together

    def refusing(order: Commit) -> Completion[None]:
        if any("dlqDeliveryFailureCause" in message.properties for _, message in order.adds):
            raise MessageTooLarge("too large")
        return commit(order)

    monkeypatch.setattr(adapter, "commit_together", refusing)
    client.subscribe(A, "client-individual")
    client.publish(A, "poison")
    assert [message.text for message in waiting(client, DLQ, 1)] == ["poison"]


# -- finished writes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("defect", "command", "headers"),
    [
        ("lane.Lane.added", "SEND", {"destination": A, **PERSISTENT}),
        ("topic.Topic.admitted", "SEND", {"destination": TOPIC, **PERSISTENT}),
        ("removal.Removal.settled", "ACK", {}),
        ("lane.Lane.added", "COMMIT", {"transaction": "t"}),
    ],
)
def test_who_waits_for_a_write_is_answered_whatever_goes_wrong_besides(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    monkeypatch: pytest.MonkeyPatch,
    defect: str,
    command: str,
    headers: dict[str, str],
) -> None:
    address = start_broker(sqlite_store)
    create(address)
    client = open_client(address)
    client.subscribe("/queue/B", "client-individual")
    client.publish("/queue/B", "to be acknowledged")
    held = client.message()
    client.done("BEGIN", {"transaction": "t"})
    client.done("SEND", {"destination": A, "transaction": "t", **PERSISTENT})
    if command == "ACK":
        headers = client.named(held)

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(f"jdbcstore.broker.{defect}", fail)
    assert client.request(command, headers).command == "RECEIPT"  # it is in the store


def waiting(client: Client, destination: str, count: int) -> list[Frame]:
    """What is in a queue, as soon as it is so much."""
    deadline_s = time.monotonic() + 90
    while len(found := browsed(client, destination)) < count:
        assert time.monotonic() < deadline_s, f"it never came: {found}"
    return found
