"""What has expired when it is published: before it is sent, or before its transaction is committed. A real ActiveMQ and
us, the same deliveries, dead letters and advisories."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from jdbcstore import Broker, BrokerOptions, open_store, running
from jdbcstore.config.urls import open_spool
from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.identifiers import ConnectionId, LocalTransactionId
from jdbcstore.message import TextMessage
from jdbcstore.openwire import commands as c
from tests.broker.client import Address, Client
from tests.broker.openwire_client import OpenWireClient
from tests.compat.activemq import ActiveMQ
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(200)

_BEGIN, _COMMIT, _ROLLBACK = 0, 2, 4
#: How long a message lives that expires in its transaction.
_TIME_TO_LIVE_MS: Final = 50


class Case(NamedTuple):
    """What is sent, and how.

    Attributes:
        kind: of destination.
        protocol: of who sends.
        is_transacted: whether it is sent in a transaction.
        is_expired_before: whether it had expired before it was sent; otherwise before the commit.
        is_persistent: its delivery mode.
    """

    kind: str
    protocol: str
    is_transacted: bool
    is_expired_before: bool
    is_persistent: bool

    def __str__(self) -> str:
        return ".".join(str(one) for one in self)

    @property
    def name(self) -> str:
        """Of its destinations."""
        return f"EXPIRED.{self}"

    @property
    def target(self) -> tuple[Destination, str]:
        """Where it is sent, as OpenWire and as STOMP clients say it."""
        queue, topic = f"/queue/{self.name}", f"/topic/{self.name}"
        if self.kind == "queues":
            return Queue(f"{self.name},{self.name}.B"), f"{queue},{queue}.B"
        if self.kind == "both":
            return Queue(f"{self.name},topic://{self.name}"), f"{queue},{topic}"
        if self.kind == "virtual":
            return Topic(f"VirtualTopic.{self.name}"), f"/topic/VirtualTopic.{self.name}"
        return (Queue(self.name), queue) if self.kind == "queue" else (Topic(self.name), topic)

    @property
    def consumed(self) -> list[tuple[Destination, str | None]]:
        """What consumers are subscribed to, with the names of durable subscriptions."""
        queue, topic = Queue(self.name), Topic(self.name)
        by_kind: dict[str, list[tuple[Destination, str | None]]] = {
            "queue": [(queue, None)],
            "topic": [(topic, None)],
            "durable": [(topic, "durable"), (topic, None)],
            "queues": [(queue, None), (Queue(f"{self.name}.B"), None)],
            "both": [(queue, None), (topic, None)],
            "virtual": [(self.target[0], None), (Queue(f"Consumer.A.VirtualTopic.{self.name}"), None)],
        }
        return by_kind[self.kind]


_KINDS: Final = ("queue", "topic", "durable", "queues", "both", "virtual")
_TIMES: Final = ((False, True), (True, True), (True, False))
CASES: Final = [
    Case(kind, protocol, *times, is_persistent)
    for kind, protocol, times, is_persistent in product(_KINDS, ("stomp", "openwire"), _TIMES, (True, False))
]


def expire(at_ms: int) -> None:
    """Wait until it is later, by a clock of milliseconds."""
    wait_until(lambda: time.time() * 1000 > at_ms + 1, "it has expired")


def sent_by_stomp(address: Address, case: Case, expires_ms: int) -> None:
    with Client(address) as client:
        client.connect()
        named = {"transaction": "t"} if case.is_transacted else {}
        if case.is_transacted:
            client.send("BEGIN", named)
        headers = {"destination": case.target[1], "persistent": str(case.is_persistent).lower(), **named}
        client.done("SEND", {**headers, "expires": str(expires_ms)}, f"{case.name} expired")
        client.done("SEND", headers, f"{case.name} alive")
        expire(expires_ms)
        if case.is_transacted:
            client.done("COMMIT", named)


def sent_by_openwire(address: Address, case: Case, expires_ms: int) -> None:
    with OpenWireClient(address) as client:
        connection = ConnectionId(client.name)
        transaction = LocalTransactionId(1, connection) if case.is_transacted else None
        if transaction is not None:
            client.ask(c.TransactionInfo(connection_id=connection, transaction_id=transaction, type=_BEGIN))
        for expiration_ms, state in ((expires_ms, "expired"), (0, "alive")):
            message = client.message(case.target[0], f"{case.name} {state}")
            message.persistent, message.expiration = case.is_persistent, expiration_ms
            message.transaction_id = transaction
            assert type(client.ask(message)) is c.Response
        expire(expires_ms)
        if transaction is not None:
            answer = client.ask(c.TransactionInfo(connection_id=connection, transaction_id=transaction, type=_COMMIT))
            assert type(answer) is c.Response


def until(consumer: OpenWireClient, last: str) -> list[str | None]:
    """The texts of what comes up to this one."""
    return [*iter(consumer.text, last), last]


def told(advised: OpenWireClient, case: Case) -> set[str]:
    """What advisories tell of, up to a text that is sent to their topic."""
    found = set()
    while not isinstance(message := advised.dispatch().message, TextMessage):
        assert message is not None
        found.add(str(message.destination).removeprefix("topic://ActiveMQ.Advisory.").replace(case.name, ""))
    return found


def deliveries(address: Address, stomp: Address, case: Case) -> dict[str, object]:
    """Publish what has expired and something behind it, and what comes of that."""
    found: dict[str, object] = {}
    with ExitStack() as stack:
        advised = stack.enter_context(OpenWireClient(address))
        advised.subscribe(Topic("ActiveMQ.Advisory.Expired.>"), 100)
        consumers = []
        for number, (destination, name) in enumerate(case.consumed):
            consumer = stack.enter_context(OpenWireClient(address, f"ID:{case.name}-{number}"))
            consumer.subscribe(destination, 100, subscription_name=name)
            consumers.append((f"{destination} {name}", consumer))
        expires_ms = int(time.time() * 1000) + (-1000 if case.is_expired_before else _TIME_TO_LIVE_MS)
        if case.protocol == "stomp":
            sent_by_stomp(stomp, case, expires_ms)
        else:
            sent_by_openwire(address, case, expires_ms)
        for name, consumer in consumers:
            found[name] = until(consumer, f"{case.name} alive")
        with OpenWireClient(address) as other:
            other.send(Topic("ActiveMQ.Advisory.Expired.Topic.LAST"), case.name)
        found["advisories"] = told(advised, case)
    return found


def dead_letters(address: Address) -> dict[str | None, tuple[bool, int]]:
    """By the text of each: its delivery mode, and when it expires. ActiveMQ keeps one for all parts of a composite."""
    found: dict[str | None, tuple[bool, int]] = {}
    with OpenWireClient(address) as client:
        client.send(Queue("ActiveMQ.DLQ"), "last")
        client.subscribe(Queue("ActiveMQ.DLQ"), 1000)
        while True:
            message = client.dispatch().message
            assert isinstance(message, TextMessage)
            if message.text == "last":
                return found
            found[message.text] = message.persistent, message.expiration


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Address]:
    """Our broker, for clients of both protocols."""
    options = BrokerOptions(bind="auto://127.0.0.1:0", broker_name="activemq")
    with running(Broker(open_store(f"sqlite:///{tmp_path / 'expired.db'}"), options, open_spool)) as address:
        yield address


def test_it_is_delivered_to_nobody_and_becomes_a_dead_letter_as_in_a_real_one(
    ours: Address, class_path: str, tmp_path: Path
) -> None:
    def answers(openwire: Address, stomp: Address) -> dict[str, object]:
        found: dict[str, object] = {str(case): deliveries(openwire, stomp, case) for case in CASES}
        return {**found, "dead letters": dead_letters(openwire)}

    with ActiveMQ(class_path, tmp_path, "kahadb") as activemq:
        real = answers(("127.0.0.1", activemq.openwire_port), ("127.0.0.1", activemq.stomp_port))
    assert answers(ours, ours) == real


@pytest.mark.parametrize("protocol", ["stomp", "openwire"])
def test_of_a_transaction_that_is_rolled_back_there_is_no_dead_letter(ours: Address, protocol: str) -> None:
    """A real one keeps a dead letter of what had expired when it was sent, although nothing was sent then."""
    if protocol == "stomp":
        with Client(ours) as client:
            client.connect()
            client.send("BEGIN", {"transaction": "t"})
            client.publish("/queue/A", "expired", transaction="t", expires="1000")
            client.done("ABORT", {"transaction": "t"})
    else:
        with OpenWireClient(ours) as client:
            connection = ConnectionId(client.name)
            transaction = LocalTransactionId(1, connection)
            for kind in (_BEGIN, _ROLLBACK):
                client.ask(c.TransactionInfo(connection_id=connection, transaction_id=transaction, type=kind))
                if kind == _BEGIN:
                    message = client.message(Queue("A"), "expired")
                    message.persistent, message.expiration, message.transaction_id = True, 1000, transaction
                    client.ask(message)
    assert dead_letters(ours) == {}
