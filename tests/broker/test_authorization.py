"""Authorisation over STOMP: whatever a client does, it reads, writes or administrates; and stays connected if it may
not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from jdbcstore import Broker
from jdbcstore.broker.security.authorization import AuthorizationEntry, AuthorizationMap
from jdbcstore.destination import parse_destination
from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker

USERS = {"admin": "x", "bob": "x", "temp": "x"}
GROUPS = {"admins": "admin", "users": "bob", "temps": "temp,admin"}
As = Callable[[str], Client]


def entry(pattern: str, read: str = "", write: str = "", admin: str = "") -> AuthorizationEntry:
    groups = {name: frozenset(text.split()) for name, text in (("read", read), ("write", write), ("admin", admin))}
    return AuthorizationEntry(pattern=parse_destination(pattern) if pattern else None, **groups)


AUTHORIZATION = AuthorizationMap(
    entries=(
        entry("queue://>", "admins", "admins", "admins"),
        entry("topic://>", "admins", "admins", "admins"),
        entry("queue://READ.*", read="users"),
        entry("topic://READ.*", read="users"),
        entry("queue://WRITE.>", write="users"),
        entry("topic://WRITE.>", write="users"),
        entry("topic://VirtualTopic.>", write="users"),
        entry("queue://FREE.>", "users", "users", "users"),
        entry("topic://FREE.>", "users", "users", "users"),
        entry("queue://Consumer.MAKES.>", read="users", admin="users"),
        entry("queue://Consumer.READS.>", read="users"),
    ),
    temporary=entry("", "temps", "temps", "temps"),
)


@pytest.fixture
def address(start_broker: StartBroker) -> Address:
    return start_broker(users=USERS, groups=GROUPS, authorization=AUTHORIZATION)


@pytest.fixture
def client_of(address: Address, open_client: OpenClient) -> As:
    """A client of a user: ``client_of("bob")``. What there is was made by admin before."""
    admin = open_client(address, login="admin", passcode="x")
    for name in ("READ.A", "WRITE.A", "OTHER"):
        admin.publish(f"/queue/{name}", f"in {name}")
        admin.subscribe(f"/topic/{name}", id=name)
    return lambda user: open_client(address, login=user, passcode="x", client_id=f"{user}'s")


def denial(client: Client, command: str, headers: dict[str, str]) -> str:
    """What the client hears; the connection goes on, and the answer belongs to the frame."""
    error = client.request(command, headers, "x" if command == "SEND" else b"")
    assert (error.command, error.headers["receipt-id"]) == ("ERROR", "asked")
    client.publish("/queue/FREE.ALIVE", "still here")
    return error.headers["message"].removeprefix("User bob is not authorized to ")


@pytest.mark.parametrize(
    ("command", "headers", "told"),
    [
        ("SEND", {"destination": "/queue/OTHER"}, "write to: queue://OTHER"),
        ("SEND", {"destination": "/topic/OTHER"}, "write to: topic://OTHER"),
        ("SEND", {"destination": "/queue/READ.A"}, "write to: queue://READ.A"),
        ("SEND", {"destination": "/queue/WRITE.NEW"}, "create: queue://WRITE.NEW"),
        ("SEND", {"destination": "/topic/WRITE.NEW"}, "create: topic://WRITE.NEW"),
        ("SEND", {"destination": "/queue/FREE.A,/topic/OTHER"}, "write to: topic://OTHER"),
        ("SEND", {"destination": "/queue/OTHER", "AMQ_SCHEDULED_DELAY": "10"}, "write to: queue://OTHER"),
        (
            "SEND",
            {"destination": "/queue/OTHER", "producer-id": "p", "producer-sequence": "1"},
            "write to: queue://OTHER",
        ),
        ("SUBSCRIBE", {"destination": "/queue/OTHER", "id": "1"}, "read from: queue://OTHER"),
        ("SUBSCRIBE", {"destination": "/queue/WRITE.A", "id": "1"}, "read from: queue://WRITE.A"),
        ("SUBSCRIBE", {"destination": "/queue/READ.NEW", "id": "1"}, "create: queue://READ.NEW"),
        ("SUBSCRIBE", {"destination": "/topic/OTHER", "id": "1"}, "read from: topic://OTHER"),
        ("SUBSCRIBE", {"destination": "/queue/OTHER", "id": "1", "browser": "true"}, "read from: queue://OTHER"),
        ("SUBSCRIBE", {"destination": "/queue/READ.A,/queue/OTHER", "id": "1"}, "read from: queue://OTHER"),
        ("SUBSCRIBE", {"destination": "/queue/OTHER.>", "id": "1"}, "read from: queue://OTHER.>"),
        ("SUBSCRIBE", {"destination": "/queue/>", "id": "1"}, "read from: queue://>"),
        ("SUBSCRIBE", {"destination": "/queue/ActiveMQ.DLQ", "id": "1"}, "read from: queue://ActiveMQ.DLQ"),
        (
            "SUBSCRIBE",
            {"destination": "/queue/Consumer.A.VirtualTopic.B", "id": "1"},
            "read from: queue://Consumer.A.VirtualTopic.B",
        ),
        (
            "SUBSCRIBE",
            {"destination": "/topic/OTHER", "id": "1", "activemq.subscriptionName": "s"},
            "read from: topic://OTHER",
        ),
        (
            "SEND",
            {"destination": "/topic/ActiveMQ.Scheduler.Management", "AMQ_SCHEDULER_ACTION": "REMOVEALL"},
            "write to: topic://ActiveMQ.Scheduler.Management",
        ),
    ],
)
def test_who_may_not_is_told_and_goes_on(client_of: As, command: str, headers: dict[str, str], told: str) -> None:
    assert denial(client_of("bob"), command, headers) == told


def test_the_scheduler_is_managed_by_one_name_whatever_the_spelling(client_of: As) -> None:
    headers = {"destination": "/queue/FREE.X", "AMQ_SCHEDULER_ACTION": "REMOVEALL"}
    bob = client_of("bob")
    bob.publish("/queue/FREE.X", AMQ_SCHEDULER_ACTION="REMOVEALL")  # an order is one by its destination
    for spelled in ("/queue/activemq.scheduler.management", "/topic/ACTIVEMQ.SCHEDULER.MANAGEMENT"):
        assert denial(bob, "SEND", {**headers, "destination": spelled}).startswith("write to: ")


def test_who_may_does(client_of: As) -> None:
    bob = client_of("bob")
    bob.publish("/queue/WRITE.A", "x")
    bob.publish("/topic/WRITE.A", "x")
    bob.subscribe("/queue/READ.A")
    assert bob.message().text == "in READ.A"
    bob.subscribe("/queue/FREE.NEW", id="2")
    bob.publish("/queue/FREE.NEW", "mine", reply_to="/queue/OTHER")
    message = bob.message()
    assert (message.text, message.headers["reply-to"]) == ("mine", "/queue/OTHER")


def test_a_wildcard_gives_what_may_be_read_and_nothing_else(client_of: As) -> None:
    bob, admin = client_of("bob"), client_of("admin")
    bob.subscribe("/queue/READ.>", id="q")
    bob.subscribe("/topic/READ.>", id="t")
    assert bob.message().text == "in READ.A"
    for name in ("READ.A.B", "OTHER", "READ", "READ.NEW"):
        for kind in ("queue", "topic"):
            admin.publish(f"/{kind}/{name}", f"{kind} {name}")
    assert {bob.message().text, bob.message().text} == {"queue READ.NEW", "topic READ.NEW"}
    assert bob.is_silent()


def test_a_wildcard_makes_queues_of_virtual_topics_only_for_who_may_create_them(client_of: As) -> None:
    bob, admin = client_of("bob"), client_of("admin")
    bob.subscribe("/queue/Consumer.READS.>", id="r")
    bob.subscribe("/queue/Consumer.MAKES.>", id="m")
    admin.publish("/topic/VirtualTopic.X", "x")
    assert bob.message().headers["destination"] == "/queue/Consumer.MAKES.VirtualTopic.X"
    assert bob.is_silent()


def test_a_durable_wildcard_gives_what_may_be_read_and_nothing_else(client_of: As) -> None:
    bob, admin = client_of("bob"), client_of("admin")
    bob.subscribe("/topic/READ.>", id="t", activemq_subscriptionName="s")
    for name in ("READ.A.B", "OTHER", "READ.A", "READ.NEW"):
        admin.publish(f"/topic/{name}", name)
    assert {bob.message().text, bob.message().text} == {"READ.A", "READ.NEW"}
    assert bob.is_silent()


def test_a_durable_subscription_is_removed_by_who_may_read_its_topic(client_of: As, address: Address) -> None:
    admin = client_of("admin")
    admin.subscribe("/topic/OTHER", id="s", activemq_subscriptionName="s")
    admin.done("DISCONNECT")
    with Client(address) as bob:
        bob.connect(login="bob", passcode="x", client_id="admin's")
        headers = {"id": "s", "activemq.subscriptionName": "s"}
        assert denial(bob, "UNSUBSCRIBE", headers) == "read from: topic://OTHER"
        bob.done("DISCONNECT")
    client_of("admin").done("UNSUBSCRIBE", {"id": "s", "activemq.subscriptionName": "s"})


def test_a_denied_message_is_in_no_transaction(client_of: As) -> None:
    bob = client_of("bob")
    bob.done("BEGIN", {"transaction": "t"})
    bob.done("SEND", {"destination": "/queue/FREE.A", "transaction": "t"}, "good")
    assert denial(bob, "SEND", {"destination": "/queue/OTHER", "transaction": "t"}) == "write to: queue://OTHER"
    assert denial(bob, "SEND", {"destination": "/queue/FREE.A,/queue/OTHER", "transaction": "t"})
    bob.done("COMMIT", {"transaction": "t"})
    bob.subscribe("/queue/FREE.A")
    assert bob.message().text == "good"
    assert bob.is_silent()


def test_copies_to_the_queues_of_a_virtual_topic_are_the_brokers(client_of: As) -> None:
    admin, bob = client_of("admin"), client_of("bob")
    admin.subscribe("/queue/Consumer.A.VirtualTopic.ORDERS")
    admin.publish("/topic/VirtualTopic.ORDERS", "made")
    assert admin.message().text == "made"
    bob.publish("/topic/VirtualTopic.ORDERS", "copied")
    assert admin.message().text == "copied"


def test_dead_letters_are_the_brokers(client_of: As) -> None:
    bob, admin = client_of("bob"), client_of("admin")
    bob.subscribe("/queue/READ.A", ack="client-individual")
    bob.ack(bob.message(), "NACK")
    admin.subscribe("/queue/ActiveMQ.DLQ", id="d")
    assert admin.message().text == "in READ.A"


def test_temporary_destinations(client_of: As) -> None:
    bob, temp = client_of("bob"), client_of("temp")
    assert denial(bob, "SUBSCRIBE", {"destination": "/temp-queue/a", "id": "1"}).startswith("create: temp-queue://ID:")
    assert denial(bob, "SEND", {"destination": "/queue/FREE.A", "reply-to": "/temp-queue/a"}).startswith("create: ")
    temp.subscribe("/temp-queue/replies")
    admin = client_of("admin")
    temp.send("SEND", {"destination": "/temp-queue/replies", "reply-to": "/temp-queue/replies"}, "x")
    remote = temp.message().headers["reply-to"]
    assert remote == "/temp-queue/replies"
    admin.publish("/temp-queue/mine", "x")


def test_denials_are_told_in_the_log_once_a_second(client_of: As, caplog: pytest.LogCaptureFixture) -> None:
    bob = client_of("bob")
    began_s = time.monotonic()
    for _ in range(20):
        bob.request("SEND", {"destination": "/queue/OTHER"}, "x")
    took_s = time.monotonic() - began_s
    told = [record.getMessage() for record in caplog.records if "denied" in record.getMessage()]
    assert 1 <= len(told) <= 2 + took_s
    assert "User bob is not authorized to write to: queue://OTHER" in told[0]


def test_users_that_change_leave_subscriptions_to_wildcards_as_they_are(client_of: As, brokers: list[Broker]) -> None:
    bob, admin = client_of("bob"), client_of("admin")
    bob.subscribe("/topic/READ.>", id="d", activemq_subscriptionName="s")
    bob.subscribe("/topic/READ.>", id="t")
    bob.subscribe("/queue/READ.>", id="q")
    assert bob.message().text == "in READ.A"
    (broker,) = brokers
    done = threading.Event()
    broker.loop.call_soon_threadsafe(broker._users_changed)
    broker.loop.call_soon_threadsafe(done.set)
    assert done.wait(60)
    assert all(destination.is_queue for destination in broker.queues)
    admin.publish("/topic/READ.A", "news")
    admin.publish("/queue/READ.A", "work")
    got = sorted((frame.headers["subscription"], frame.text) for frame in (bob.message(), bob.message(), bob.message()))
    assert got == [("d", "news"), ("q", "work"), ("t", "news")]
    assert bob.is_silent()
