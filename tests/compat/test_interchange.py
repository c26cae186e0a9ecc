"""One store, served in turn by a real ActiveMQ and by us, with clients on both sides that do what clients do.

Every message follows from its number, so whoever receives one can say what it has to be. What is sent in one round is
received in part, and the rest is left to the next broker. In the end everything was received once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import pytest
from sqlalchemy import create_engine, text

from jdbcstore.selector import CONVERT_STRINGS
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.replay import replay
from tests.broker_process import BrokerProcess
from tests.compat.activemq import ActiveMQ, JdbcStore
from tests.compat.stomp_client import Collector, client

pytestmark = pytest.mark.timeout(400)

COLOURS = ("red", "green", "blue")
RED = "colour = 'red'"
TTL_MS = 1500
IDLE_S = 1.0

Command: TypeAlias = tuple[str | int, ...]
Received: TypeAlias = dict[str, Any]


def sent(number: int) -> Received:
    """The message with a number, as InterchangeClient.java prints it."""
    return {
        "number": str(number),
        "colour": COLOURS[number % 3],
        "body": f"message {number} \u00e9\u4e16",
        "correlation": f"c{number}",
        "type": f"type{number % 4}",
        "reply_to": f"queue://REPLIES.{number % 2}",
        "priority": number % 10,
        "persistent": True,
    }


class Peer(Protocol):
    """Clients of one broker."""

    def does(self, commands: Sequence[Command]) -> list[list[Received]]:
        """Do what InterchangeClient.java does; what each command has received."""


class JavaPeer:
    """JMS clients, in one virtual machine.

    Args:
        activemq: their broker.
        red: how they word the selector. For a Java broker a subscription that a STOMP client has made has another one.
    """

    def __init__(self, activemq: ActiveMQ, red: str) -> None:
        self._activemq = activemq
        self._red = red

    def does(self, commands: Sequence[Command]) -> list[list[Received]]:
        words = [word for command in commands for word in ("/", *map(str, command))][1:]
        words = [self._red if word == RED else word for word in words]
        received: list[list[Received]] = [[]]
        for line in self._activemq.run("InterchangeClient", *words):
            if line:
                received[-1].append(line)
            else:
                received.append([])
        return received[:-1]


class StompPeer:
    """STOMP clients, each command a connection of its own."""

    def __init__(self, port: int) -> None:
        self._port = port

    def does(self, commands: Sequence[Command]) -> list[list[Received]]:
        return [getattr(self, f"_{name}")(*arguments) for name, *arguments in commands]

    def _send(self, target: str, first: int, count: int, ttl_ms: int) -> list[Received]:
        with client(self._port, sends_text=True) as (connection, _):
            for number in range(first, first + count):
                expires = {"expires": str(int(time.time() * 1000) + ttl_ms)} if ttl_ms else {}
                self._send_one(connection, target, number, expires)
        return []

    def _send_one(self, connection: Any, target: str, number: int, headers: dict[str, str]) -> None:
        message = sent(number)
        place = f"/topic/{target[6:]}" if target.startswith("topic:") else f"/queue/{target}"
        headers = {
            "persistent": "true",
            "priority": str(message["priority"]),
            "correlation-id": message["correlation"],
            "type": message["type"],
            "reply-to": message["reply_to"].replace("queue://", "/queue/"),
            "number": message["number"],
            "colour": message["colour"],
            **headers,
        }
        connection.send(place, message["body"].encode(), headers=headers)

    def _receive(self, queue: str, count: int) -> list[Received]:
        with client(self._port) as (connection, collector):
            self._take_from(connection, f"/queue/{queue}")
            return self._acknowledged(connection, collector, count)

    def _drain(self, queue: str, count: int) -> list[Received]:
        with client(self._port) as (connection, collector):
            self._take_from(connection, f"/queue/{queue}")
            return self._acknowledged(connection, collector, count, is_all=True)

    def _commit(self, source: str, count: int, target: str, first: int, sends: int) -> list[Received]:
        return self._transact(source, count, target, first, sends, is_commit=True)

    def _rollback(self, source: str, count: int, target: str, first: int, sends: int) -> list[Received]:
        self._transact(source, count, target, first, sends, is_commit=False)
        return []

    def _transact(
        self, source: str, count: int, target: str, first: int, sends: int, *, is_commit: bool
    ) -> list[Received]:
        with client(self._port, sends_text=True) as (connection, collector):
            self._take_from(connection, f"/queue/{source}")
            connection.begin("t")
            received = self._acknowledged(connection, collector, count, transaction="t")
            for number in range(first, first + sends):
                self._send_one(connection, target, number, {"transaction": "t"})
            (connection.commit if is_commit else connection.abort)("t")
            return received

    def _poison(self, queue: str) -> list[Received]:
        with client(self._port) as (connection, collector):
            self._take_from(connection, f"/queue/{queue}")
            collector.wait_for(1)
            connection.nack(collector.messages[0][0]["ack"])
        return []

    def _subscribe(self, topic: str, client_id: str, name: str, selector: str) -> list[Received]:
        with client(self._port, client_id) as (connection, _):
            self._take_from(connection, f"/topic/{topic}", name, selector)
        return []

    def _news(self, topic: str, client_id: str, name: str, selector: str, count: int) -> list[Received]:
        with client(self._port, client_id) as (connection, collector):
            self._take_from(connection, f"/topic/{topic}", name, selector)
            return self._acknowledged(connection, collector, count)

    def _old(self, topic: str, client_id: str, name: str, selector: str, count: int) -> list[Received]:
        with client(self._port, client_id) as (connection, collector):
            self._take_from(connection, f"/topic/{topic}", name, selector)
            return self._acknowledged(connection, collector, count, is_all=True)

    def _ask(self) -> list[Received]:
        with client(self._port) as (connection, collector):
            for number, place in enumerate(("/temp-queue/requests", "/temp-queue/replies")):
                connection.subscribe(place, id=str(number), ack="auto")
            connection.send("/temp-queue/requests", b"what?", headers={"reply-to": "/temp-queue/replies"})
            collector.wait_for(1)
            connection.send(collector.messages[0][0]["reply-to"], b"that")
            collector.wait_for(2)
            assert collector.messages[1][1] == b"that"
        return []

    @staticmethod
    def _take_from(connection: Any, place: str, name: str = "", selector: str = "") -> None:
        headers = {"activemq.prefetchSize": "1"}
        if name:
            headers["activemq.subscriptionName"] = name
        if selector:
            headers["selector"] = selector
        connection.subscribe(place, id="1", ack="client-individual", headers=headers)

    @staticmethod
    def _acknowledged(
        connection: Any, collector: Collector, count: int, transaction: str | None = None, *, is_all: bool = False
    ) -> list[Received]:
        """Receive so many, and more if there are and all are asked for; acknowledge each before the next one comes."""
        received: list[Received] = []
        while is_all or len(received) < count:
            if len(received) < count:
                collector.wait_for(len(received) + 1)
            elif not collector.comes(len(received) + 1, IDLE_S):
                break
            headers, body = collector.messages[len(received)]
            received.append(
                {
                    "number": headers["number"],
                    "colour": headers["colour"],
                    "body": body.decode(),
                    "correlation": headers["correlation-id"],
                    "type": headers["type"],
                    "reply_to": headers["reply-to"].replace("/queue/", "queue://"),
                    "priority": int(headers["priority"]),
                    "persistent": headers["persistent"] == "true",
                }
            )
            connection.ack(headers["ack"], transaction=transaction)
        return received


class Rounds:
    """What all rounds together have sent and received, by channel.

    Args:
        prioritized: whether higher priorities go first, else it is first in, first out.
    """

    def __init__(self, *, prioritized: bool) -> None:
        self.prioritized = prioritized
        self.expected: dict[str, Counter[int]] = {}
        self.received: dict[str, Counter[int]] = {}
        self.first = 0
        self.expires_s = 0.0

    def expect(self, channel: str, *numbers: int) -> None:
        """So many are to come."""
        self.expected.setdefault(channel, Counter()).update(numbers)

    def left(self, channel: str) -> int:
        """How many are to come that did not."""
        return (self.expected.get(channel, Counter()) - self.received.get(channel, Counter())).total()

    def take(self, channel: str, messages: Sequence[Received], *, in_order: bool) -> list[int]:
        """These came, are as they were sent, and perhaps in the order that is promised."""
        numbers = [int(message["number"]) for message in messages]
        assert list(messages) == [sent(number) for number in numbers]
        if in_order and self.prioritized:
            assert numbers == sorted(numbers, key=lambda number: (-(number % 10), number))
        elif in_order:
            assert numbers == sorted(numbers)
        self.received.setdefault(channel, Counter()).update(numbers)
        return numbers

    def play(self, peer: Peer, *, is_last: bool = False) -> None:
        """One round at one broker."""
        self.first += 1000
        first = self.first
        time.sleep(max(0.0, self.expires_s - time.time()))
        some: Sequence[tuple[str, Command]] = [
            ("LATE", ("drain", "LATE", 0)),
            ("DLQ", ("drain", "ActiveMQ.DLQ", self.left("DLQ"))),
            ("", ("subscribe", "PRICES", "ann", "news", RED)),
            ("", ("subscribe", "PRICES", "bob", "all", "")),
            ("", ("send", "WORK", first, 12, 0)),
            ("", ("send", "topic:PRICES", first + 300, 9, 0)),
            ("", ("send", "LATE", first + 400, 2, TTL_MS)),
            ("", ("send", "POISON", first + 500, 1, 0)),
            ("WORK", ("receive", "WORK", 6)),
            ("WORK", ("commit", "WORK", 2, "DONE", first + 100, 3)),
            ("", ("rollback", "WORK", 2, "DONE", first + 200, 3)),
            ("DONE", ("receive", "DONE", 2)),
            ("ann", ("news", "PRICES", "ann", "news", RED, 2)),
            ("bob", ("news", "PRICES", "bob", "all", "", 4)),
            ("", ("poison", "POISON")),
            ("", ("ask",)),
        ]
        rest: Sequence[tuple[str, Command]] = [
            ("LATE", ("drain", "LATE", 0)),
            ("DLQ", ("drain", "ActiveMQ.DLQ", self.left("DLQ"))),
            ("WORK", ("drain", "WORK", self.left("WORK"))),
            ("DONE", ("drain", "DONE", self.left("DONE"))),
            ("ann", ("old", "PRICES", "ann", "news", RED, self.left("ann"))),
            ("bob", ("old", "PRICES", "bob", "all", "", self.left("bob"))),
            ("POISON", ("drain", "POISON", 0)),
        ]
        steps = rest if is_last else some
        for (channel, _), messages in zip(steps, peer.does([command for _, command in steps]), strict=True):
            # A Java broker may hand out what it had in memory before what has just come, though that has a higher one.
            self.take(channel, messages, in_order=channel != "DLQ" and isinstance(peer, StompPeer))
        if is_last:
            return
        self.expires_s = time.time() + TTL_MS / 1000
        self.expect("WORK", *range(first, first + 12))
        self.expect("DONE", *range(first + 100, first + 103))
        self.expect("ann", *(number for number in range(first + 300, first + 309) if number % 3 == 0))
        self.expect("bob", *range(first + 300, first + 309))
        self.expect("DLQ", first + 400, first + 401, first + 500)

    def check(self) -> None:
        """Everything came, once."""
        for channel in self.expected.keys() | self.received.keys():
            expected, received = self.expected.get(channel, Counter()), self.received.get(channel, Counter())
            assert (channel, expected - received, received - expected) == (channel, Counter(), Counter())


def containers(url: str) -> set[str]:
    """The destinations that have messages."""
    if url.startswith("kahadb:"):
        stored = replay(Journal(url.removeprefix("kahadb:"))).destinations.values()
        return {one.destination.qualified_name for one in stored if len(one)}
    engine = create_engine(url)
    with engine.connect() as connection:
        found = {name for (name,) in connection.execute(text("SELECT DISTINCT CONTAINER FROM ACTIVEMQ_MSGS"))}
    engine.dispose()
    return found


POLICY = """<beans xmlns="http://www.springframework.org/schema/beans">
<broker xmlns="http://activemq.apache.org/schema/core"><destinationPolicy><policyMap><policyEntries>
<policyEntry queue=">" prioritizedMessages="true"/><policyEntry topic=">" prioritizedMessages="true"/>
</policyEntries></policyMap></destinationPolicy></broker></beans>"""


@pytest.mark.parametrize(
    ("database", "java_begins", "prioritized"),
    # A Java broker cannot make a table on PostgreSQL that has room for subscriptions by priority.
    [
        ("postgresql_url", True, False),
        pytest.param("postgresql_url", False, True, marks=pytest.mark.exhaustive),
        pytest.param("mariadb_url", False, False, marks=pytest.mark.exhaustive),
        pytest.param("mariadb_url", True, False, marks=pytest.mark.exhaustive),
        pytest.param("postgresql_url", False, False, marks=pytest.mark.exhaustive),
        pytest.param("mariadb_url", False, True, marks=pytest.mark.exhaustive),
    ],
)
def test_in_turn(
    request: pytest.FixtureRequest,
    class_path: str,
    tmp_path: Path,
    database: str,
    java_begins: bool,
    prioritized: bool,
) -> None:
    url: str = request.getfixturevalue(database)
    in_turn(url, JdbcStore(url), class_path, tmp_path, java_begins=java_begins, prioritized=prioritized)


@pytest.mark.parametrize(
    ("java_begins", "prioritized", "is_killed"),
    [(False, True, True), pytest.param(True, False, False, marks=pytest.mark.exhaustive)],
)
def test_in_turn_on_a_journal(
    class_path: str, tmp_path: Path, java_begins: bool, prioritized: bool, is_killed: bool
) -> None:
    url = f"kahadb:{tmp_path / 'kahadb'}"
    in_turn(url, "kahadb", class_path, tmp_path, java_begins=java_begins, prioritized=prioritized, is_killed=is_killed)


def in_turn(
    url: str,
    store: JdbcStore | Literal["kahadb"],
    class_path: str,
    tmp_path: Path,
    *,
    java_begins: bool,
    prioritized: bool,
    is_killed: bool = False,
) -> None:
    """Play four rounds, at one broker and the other in turn; each ends cleanly or is killed."""
    configuration = tmp_path / "activemq.xml"
    configuration.write_text(POLICY)
    arguments = ("--config", str(configuration)) if prioritized else ()
    red = RED if java_begins else f"{CONVERT_STRINGS}{RED}"
    rounds = Rounds(prioritized=prioritized)
    for number in range(4):
        is_last = number == 3
        if java_begins == (number % 2 == 0):
            with ActiveMQ(class_path, tmp_path, store, prioritized=prioritized) as activemq:
                rounds.play(JavaPeer(activemq, red), is_last=is_last)
                if not is_killed:
                    activemq.stop()
        else:
            with BrokerProcess(url, tmp_path, *arguments) as broker:
                rounds.play(StompPeer(broker.port), is_last=is_last)
                if is_killed:
                    broker.kill()
        assert not {name for name in containers(url) if name.startswith("temp-")}
    rounds.check()
    assert not {name for name in containers(url) if name.startswith("queue://")}
