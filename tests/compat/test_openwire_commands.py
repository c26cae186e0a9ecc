"""Commands out of order, twice, and about what there is not: a real ActiveMQ and ours answer the same."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from jdbcstore import Broker, BrokerOptions, open_store, running
from jdbcstore.destination import Destination, Queue, TempQueue, Topic
from jdbcstore.identifiers import (
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
    TransactionId,
    XATransactionId,
)
from jdbcstore.message import MapMessage, TextMessage
from jdbcstore.openwire import commands as c
from tests.broker.client import Address
from tests.broker.openwire_client import OpenWireClient
from tests.compat.activemq import ActiveMQ

pytestmark = pytest.mark.timeout(300)

_STEPS: Final = {"b": 0, "p": 1, "o": 2, "c": 3, "r": 4, "v": 5, "f": 6, "e": 7}
_LOCAL: Final = "p o c r f e bb bsp bsc bsoo bsrr bsf bse bsro bsor s x bwr bswr bWo bWso"
_BRANCHES: Final = (
    "p o c r f e bb bsep bsepp bsepo bsepcc bsepcr bseprr bseprc bsec bseoo bseor bserr bsp bspc bso bsef bep bepp bepc"
    " bepo bepr bepf bec bef bp bee bsepe bsepbc s bsees x"
    " bwc bwr bswc bswr bswf bWp bWo bWsp bWso"
)
_NOBODY: Final = MessageId(ProducerId("ID:nobody", 1, 1), 99)
_numbers = count(1)


def told(answer: object) -> str:
    """An answer without what is of its run."""
    if isinstance(answer, c.ExceptionResponse | c.ConnectionError):
        assert answer.exception is not None
        text = re.sub(r"ID:[^\s,;:'\]]+", "ID", str(answer.exception.message))
        text = re.sub(r"commandId = \d+|globalId=\w+", "", text)
        return f"{answer.exception.class_name}: {text}"
    return f"{type(answer).__name__}{f' {answer.result}' if isinstance(answer, c.IntegerResponse) else ''}"


class Scene:
    """What a scenario does to a broker, and hears.

    Args:
        address: the broker's.
        name: of its destinations.
    """

    def __init__(self, address: Address, name: str) -> None:
        self._stack = ExitStack()
        self._address = address
        #: What was answered.
        self.told: list[object] = []
        self.queue, self.topic = Queue(f"COMMANDS.{name}"), Topic(f"COMMANDS.{name}")

    def close(self) -> None:
        """All clients go."""
        self._stack.close()

    def client(self, name: str | None = None, *, is_open: bool = True) -> OpenWireClient:
        """A connection, with a session and a producer if it is open."""
        client = OpenWireClient(self._address, name or f"ID:commands-{next(_numbers)}", is_open=is_open)
        return self._stack.enter_context(client)

    def ask(self, client: OpenWireClient, *commands: c.BaseCommand | TextMessage) -> None:
        """Say something, and note what is answered."""
        self.told += [told(client.ask(command)) for command in commands]

    def say(self, client: OpenWireClient, *commands: c.BaseCommand | TextMessage) -> None:
        """Say something without waiting for an answer, and note what is told all the same."""
        for command in commands:
            client.write(command)
            client.ask(c.TransactionInfo(connection_id=ConnectionId(client.name), type=_STEPS["v"]))
            self.told.append([told(one) for one in client.came if isinstance(one, c.ConnectionError)])
            client.came.clear()

    def consumer(self, destination: Destination, name: str | None = None) -> tuple[OpenWireClient, list[MessageId]]:
        """A consumer that has got five messages, and their ids."""
        client = self.client()
        if not destination.is_topic:
            self._send(client, destination)
        client.subscribe(destination, 100, subscription_name=name)
        if destination.is_topic:
            self._send(client, destination)
        ids = []
        for _ in range(5):
            message = client.dispatch().message
            assert message is not None
            assert message.message_id is not None
            ids.append(message.message_id)
        return client, ids

    @staticmethod
    def _send(client: OpenWireClient, destination: Destination) -> None:
        for number in range(5):
            client.send(destination, str(number))

    def browse(self) -> None:
        """Note what a browser shows of the queue, and how often it was delivered before."""
        browser = self.client()
        browser.ask(
            c.ConsumerInfo(consumer_id=browser.consumer_id(), destination=self.queue, prefetch_size=100, browser=True)
        )
        shown = []
        while (dispatch := browser.dispatch()).message is not None:
            assert isinstance(dispatch.message, TextMessage)
            shown.append((dispatch.message.text, dispatch.redelivery_counter))
        self.told.append(shown)

    def left(self, client: OpenWireClient) -> None:
        """Close the consumer, and note what is in the queue."""
        client.ask(c.RemoveInfo(object_id=client.consumer_id()))
        other = self.client()
        other.send(self.queue, "last")
        other.subscribe(self.queue, 1000)
        self.told.append(list(iter(other.text, "last")))


Scenario = Callable[[Scene], None]


def unregistered(scene: Scene) -> None:
    """Sessions, consumers and producers that are not there, and twice."""
    client = scene.client()
    session = SessionId(client.name, 7)
    consumer, producer = ConsumerId(client.name, 7, 1), ProducerId(client.name, 1, 7)
    begins: list[c.BaseCommand] = [
        c.ConsumerInfo(consumer_id=consumer, destination=scene.queue, prefetch_size=10),
        c.ProducerInfo(producer_id=producer, destination=scene.queue),
    ]
    ends = [c.RemoveInfo(object_id=consumer), c.RemoveInfo(object_id=producer), c.RemoveInfo(object_id=session)]
    scene.ask(client, *begins, *ends)
    scene.say(client, *begins, *ends)
    begin = c.SessionInfo(session_id=session)
    scene.ask(client, begin, begin, *ends[:2], *begins, *begins, *ends[:2], *ends[:2], ends[2], ends[2], *begins)
    scene.say(client, c.RemoveInfo(object_id=SessionId(client.name, -1)))
    other = c.ConsumerInfo(consumer_id=ConsumerId("ID:nobody", 2, 1), destination=scene.queue)
    scene.ask(client, other, c.MessagePull(consumer_id=consumer, destination=scene.queue, timeout=-1))


def twice(scene: Scene) -> None:
    """A consumer that is made twice is the first one, and one that is refused is none."""
    client = scene.client()
    first = c.ConsumerInfo(consumer_id=client.consumer_id(), destination=scene.queue, prefetch_size=10)
    wrong = c.ConsumerInfo(consumer_id=client.consumer_id(), destination=Queue("COMMANDS.other"), selector="a b")
    scene.ask(client, first, wrong, client.message(scene.queue, "x"))
    scene.told.append(client.text())
    refused = c.ConsumerInfo(consumer_id=client.consumer_id(2), destination=scene.queue, selector="a b")
    client.ask(refused)
    scene.ask(client, c.RemoveInfo(object_id=client.consumer_id(2)))
    info = c.DestinationInfo(connection_id=ConnectionId(client.name), destination=Queue("COMMANDS.new"))
    remove = c.DestinationInfo(connection_id=ConnectionId(client.name), destination=info.destination, operation_type=1)
    unknown = c.DestinationInfo(connection_id=ConnectionId(client.name), destination=info.destination, operation_type=2)
    scene.ask(client, info, info, remove, remove, unknown)


def sends(scene: Scene) -> None:
    """Messages of producers and in transactions that are not there."""
    client = scene.client()
    transactions = (LocalTransactionId(7, ConnectionId(client.name)), XATransactionId(7, b"g", b"nobody's"))
    for transaction_id in transactions:
        message = client.message(scene.queue, "x")
        message.transaction_id = transaction_id
        scene.ask(client, message)
    for producer in (ProducerId("ID:nobody", 1, 1), ProducerId(client.name, 2, 1)):
        message = client.message(scene.queue, "x")
        message.producer_id = producer
        scene.ask(client, message)
    client.ask(c.RemoveInfo(object_id=client.session_id))
    scene.ask(client, client.message(scene.queue, "x"))


def pulls(scene: Scene) -> None:
    """Pulls, one behind the other: each gets a message that is there; of several that wait the last one gets one."""
    client = scene.client()
    for number in range(5):
        client.send(scene.queue, str(number))
    client.subscribe(scene.queue, 0)
    pull = c.MessagePull(consumer_id=client.consumer_id(), destination=scene.queue, timeout=0)
    for number in (3, 4):
        for _ in range(number):
            client.write(pull)
        client.ask(c.TransactionInfo(connection_id=ConnectionId(client.name), type=_STEPS["v"]))
        texts = [client.text() for _ in range(3)]
        client.send(scene.queue, "waited for")
        if number > len(texts):  # a real one forgets who waits when the next pull comes before it has dispatched
            texts.append(client.text())
        client.send(scene.queue, "kept")
        client.write(c.MessagePull(consumer_id=client.consumer_id(), destination=scene.queue, timeout=-1))
        client.ask(c.TransactionInfo(connection_id=ConnectionId(client.name), type=_STEPS["v"]))
        scene.told.append([*texts, client.text()])
    scene.left(client)


def _acknowledging(kind: int, first: int | None, last: int, number: int, *, is_begun: bool | None = None) -> Scenario:
    """A range of 5 messages; 5 is one that nobody has sent. `is_begun`: whether its transaction, if it has one, is."""

    def scenario(scene: Scene) -> None:
        client, ids = scene.consumer(scene.queue)
        ids.append(_NOBODY)
        transaction = None if is_begun is None else LocalTransactionId(5, ConnectionId(client.name))
        if is_begun:
            client.ask(_step(client, transaction, "b"))
        scene.ask(client, _ack(client, scene.queue, kind, None if first is None else ids[first], ids[last], number))
        if transaction is not None:
            ack = _ack(client, scene.queue, kind, None if first is None else ids[first], ids[last], number)
            ack.transaction_id = transaction
            scene.ask(client, ack)
            if is_begun:
                scene.ask(client, _step(client, transaction, "o"))
        scene.left(client)

    return scenario


def _ack(
    client: OpenWireClient, destination: Destination, kind: int, first: MessageId | None, last: MessageId, number: int
) -> c.MessageAck:
    return c.MessageAck(
        destination=destination,
        consumer_id=client.consumer_id(),
        ack_type=kind,
        first_message_id=first,
        last_message_id=last,
        message_count=number,
    )


def delivered(scene: Scene) -> None:
    """How many more come when some are with the application: as many as each acknowledgement says."""
    client = scene.client()
    for number in range(30):
        client.send(scene.queue, str(number))
    client.subscribe(scene.queue, 4)
    ids: list[MessageId] = []

    def take(count: int) -> None:
        while len(ids) < count:
            message = client.dispatch().message
            assert message is not None
            assert message.message_id is not None
            ids.append(message.message_id)
        scene.ask(client, c.SessionInfo(session_id=client.session_id))
        scene.told.append(sum(isinstance(one, c.MessageDispatch) for one in client.came))

    take(4)
    for kind, first, last, number, held in (
        (c.ACK_DELIVERED, 2, 2, 1, 5),
        (c.ACK_DELIVERED, 0, 2, 3, 8),
        (c.ACK_STANDARD, 0, 2, 3, 8),
        (c.ACK_DELIVERED, None, 4, 2, 10),
        (c.ACK_INDIVIDUAL, 3, 3, 1, 10),
        (c.ACK_STANDARD, 4, 7, 4, 12),
    ):
        first_id = None if first is None else ids[first]
        scene.ask(client, _ack(client, scene.queue, kind, first_id, ids[last], number))
        take(held)
    scene.left(client)


def _browsing(*persistent: bool) -> Scenario:
    """What a browser shows of what was delivered before, and in which order: of messages that are persistent or not."""

    def scenario(scene: Scene) -> None:
        client = scene.client()
        for number, is_persistent in enumerate(persistent):
            client.send(scene.queue, str(number), persistent=is_persistent)
        scene.browse()
        client.subscribe(scene.queue, 3)
        first, *_ = [client.dispatch().message for _ in range(3)]
        scene.browse()
        assert first is not None
        assert first.message_id is not None
        last = first.message_id.broker_sequence_id
        client.ask(c.RemoveInfo(object_id=client.consumer_id(), last_delivered_sequence_id=last))
        scene.browse()

    return scenario


def left_by_a_durable_subscriber(scene: Scene) -> None:
    """What it has not acknowledged is there for its next connection, also what is not persistent."""

    def connection() -> OpenWireClient:
        client = scene.client(f"ID:durable-{scene.topic.physical_name}")
        client.subscribe(scene.topic, 3, subscription_name="name")
        return client

    sender = scene.client()
    client = connection()
    for number in range(6):
        sender.send(scene.topic, str(number), persistent=False)
    first, second = client.dispatch(), client.dispatch()
    client.acknowledge(first, first)
    assert second.message is not None
    assert second.message.message_id is not None
    last = second.message.message_id.broker_sequence_id
    client.ask(c.RemoveInfo(object_id=ConnectionId(client.name), last_delivered_sequence_id=last))
    sender.send(scene.topic, "6", persistent=False)
    client = connection()
    while len(scene.told) < 6:
        dispatch = client.dispatch()
        assert isinstance(dispatch.message, TextMessage)
        scene.told.append((dispatch.message.text, dispatch.redelivery_counter))
        client.acknowledge(dispatch, dispatch)
    client.ask(c.RemoveInfo(object_id=client.consumer_id()))
    info = c.RemoveSubscriptionInfo(
        connection_id=ConnectionId(client.name), client_id=client.name, subscription_name="name"
    )
    scene.ask(client, info)


def expired(scene: Scene) -> None:
    """What had expired when it came to a topic, and to a queue."""
    client = scene.client()
    subscribed = Topic(f"{scene.topic.physical_name}.SUBSCRIBED")
    client.subscribe(subscribed)
    mark = f"{scene.queue} {client.name} "
    for destination in (scene.topic, subscribed, scene.queue):
        for is_persistent in (True, False):
            message = client.message(destination, mark + str(destination))
            message.persistent, message.expiration = is_persistent, 1000
            scene.ask(client, message)
    scene.ask(client, c.SessionInfo(session_id=client.session_id))
    scene.told.append(sum(isinstance(one, c.MessageDispatch) for one in client.came))
    client.ask(c.RemoveInfo(object_id=client.consumer_id()))
    dead = Queue("ActiveMQ.DLQ")
    client.send(dead, "last")
    client.subscribe(dead, 1000, number=2)
    found = [text.removeprefix(mark) for text in iter(client.text, "last") if text is not None and mark in text]
    scene.told.append(sorted(found))


def expired_at_the_client(scene: Scene) -> None:
    """What a client says to have expired is counted so."""
    client = scene.client()
    client.subscribe(scene.queue, 10)
    expires_ms = int(time.time() * 1000) + 500
    for expiration in (expires_ms, expires_ms, 0):
        message = client.message(scene.queue, str(expiration))
        message.persistent, message.expiration = True, expiration
        client.ask(message)
    first, second, last = (client.dispatch() for _ in range(3))
    time.sleep(max(0.0, expires_ms / 1000 + 0.01 - time.time()))
    client.acknowledge(first, second, c.ACK_EXPIRED, 2)
    client.acknowledge(last, last)
    replies = Queue(f"REPLIES.{scene.queue.physical_name}")
    client.subscribe(replies, number=2)
    question = client.message(Queue(f"ActiveMQ.Statistics.Destination.{scene.queue.physical_name}"), "")
    question.reply_to = replies
    client.ask(question)
    answer = client.dispatch().message
    assert isinstance(answer, MapMessage)
    scene.told.append(answer.body["expiredCount"])


def given_up(scene: Scene) -> None:
    """A connection that was given up has nothing any more: its temporary queue, its client id, its right to ask."""
    client, other = scene.client(), scene.client()
    own, replies = ConnectionId(client.name), TempQueue(f"{client.name}:1")
    scene.ask(client, c.DestinationInfo(connection_id=own, destination=replies, operation_type=0))
    scene.ask(client, c.RemoveInfo(object_id=own))
    scene.ask(other, other.message(replies, "x"))
    successor = scene.client(None, is_open=False)
    scene.ask(successor, c.ConnectionInfo(connection_id=ConnectionId("ID:successor"), client_id=client.name))
    scene.ask(
        client,
        c.ConsumerInfo(consumer_id=client.consumer_id(), destination=scene.queue),
        c.ProducerInfo(producer_id=ProducerId(client.name, 1, 2), destination=scene.queue),
        client.message(scene.queue, "x"),
        c.RemoveInfo(object_id=own),
    )


def _covering(pattern: str, count: int) -> Scenario:
    """A pattern with a ``>`` that is not its end covers so many of the queues below, whatever stands behind it."""

    def scenario(scene: Scene) -> None:
        client, name = scene.client(), scene.queue.physical_name
        for below in ("", ".B", ".X", ".X.B", ".X.Y", ".X.Y.B"):
            client.send(Queue(name + below), below)
        client.subscribe(Queue(f"{name}{pattern}"), 100)
        scene.told += sorted(str(client.text()) for _ in range(count))

    return scenario


def _statistics(*parts: str) -> Scenario:
    """What is asked for with several parts, the first of them behind the name for that."""

    def scenario(scene: Scene) -> None:
        client, name = scene.client(), scene.queue.physical_name
        for below in ("A", "B", "W", "W.X", "W.Y.Z"):
            client.send(Queue(f"{name}.{below}"), below)
        replies = Queue(f"REPLIES.{name}")
        client.subscribe(replies, 100)
        asked = ",".join(part.replace("~", name) for part in parts)
        for text in (f"ActiveMQ.Statistics.Destination.{asked}", f"ActiveMQ.Statistics.Destination.{name}.A"):
            question = client.message(Queue(text), "")
            question.reply_to = replies
            scene.ask(client, question)
        client.send(replies, "last", persistent=False)  # as the answers are: a Java broker gives each kind by itself
        told: list[str] = []
        while not isinstance(answer := client.dispatch().message, TextMessage):
            assert isinstance(answer, MapMessage)
            told.append(str(answer.body.get("destinationName")))
        scene.told += sorted(told)

    return scenario


def advised(scene: Scene) -> None:
    """Who listens to advisories sees each command as it was said."""
    listener = scene.client()
    places = [f"{kind}.{scene.queue.physical_name}" for kind in ("Consumer.Queue", "Producer.Queue", "Consumer.Topic")]
    for number, place in enumerate([*places, "Connection"]):
        listener.subscribe(Topic(f"ActiveMQ.Advisory.{place}"), 100, number)
    client = scene.client(is_open=False)
    own = ConnectionId(client.name)
    info = c.ConnectionInfo(
        connection_id=own,
        client_id=f"{client.name}-itself",
        user_name="somebody",
        password="secret",
        manageable=True,
        client_master=False,
        fault_tolerant=True,
        failover_reconnect=True,
    )
    client.ask(info)
    client.begin()
    everything = c.ConsumerInfo(
        prefetch_size=17,
        maximum_pending_message_limit=7,
        dispatch_async=True,
        optimized_acknowledge=True,
        no_range_acks=True,
        priority=3,
        selector="a = 1",
        client_id="another",
        exclusive=True,
        retroactive=True,
        no_local=True,
        network_subscription=True,
    )
    subscribed = [
        replace(everything, destination=scene.queue),
        c.ConsumerInfo(destination=scene.queue),
        c.ConsumerInfo(destination=scene.queue, prefetch_size=-1),
        c.ConsumerInfo(destination=scene.queue, prefetch_size=1000),
        c.ConsumerInfo(destination=scene.queue, prefetch_size=500, browser=True),
        replace(everything, destination=scene.topic),
        c.ConsumerInfo(destination=scene.topic, prefetch_size=32_767),
        c.ConsumerInfo(destination=scene.topic, prefetch_size=100, subscription_name="name"),
    ]
    for number, subscription in enumerate(subscribed):
        client.ask(replace(subscription, consumer_id=client.consumer_id(number)))
    for number, size in enumerate((0, 77)):
        producer = ProducerId(client.name, 10 + number, 1)
        client.ask(
            c.ProducerInfo(producer_id=producer, destination=scene.queue, dispatch_async=size > 0, window_size=size)
        )
        client.ask(c.RemoveInfo(object_id=producer))
    for number in range(len(subscribed)):
        client.ask(c.RemoveInfo(object_id=client.consumer_id(number)))
    client.ask(c.RemoveSubscriptionInfo(connection_id=own, client_id=info.client_id, subscription_name="name"))
    client.ask(c.RemoveInfo(object_id=own))
    told: dict[object, list[str]] = {}
    while not told.get("RemoveInfo"):
        message = listener.dispatch().message
        assert message is not None
        subject = message.data_structure
        assert isinstance(subject, c.BaseCommand)
        if isinstance(subject, c.ConnectionInfo):
            subject.client_ip = subject.client_ip and "somewhere"
        said = replace(subject, command_id=0, response_required=False)
        if client.name in repr(said):
            is_end = isinstance(subject, c.RemoveInfo) and subject.object_id == own
            about = told.setdefault("RemoveInfo" if is_end else message.destination, [])
            about.append(repr(said).replace(client.name, "ID"))
    scene.told += sorted(told.items(), key=str)


def _subscriber(kind: int, name: str | None) -> Scenario:
    """A subscriber to a topic acknowledges twice."""

    def scenario(scene: Scene) -> None:
        client, ids = scene.consumer(scene.topic, name)
        for first, last, number in ((None, 1, 2), (0, 2, 3), (0, 1, 2)):
            first_id = None if first is None else ids[first]
            scene.ask(client, _ack(client, scene.topic, kind, first_id, ids[last], number))

    return scenario


def _nobodys(kind: int) -> Scenario:
    """A consumer that is not there acknowledges, in transactions that are not there."""

    def scenario(scene: Scene) -> None:
        client, ids = scene.consumer(scene.queue)
        for transaction in (None, LocalTransactionId(5, ConnectionId(client.name)), XATransactionId(5, b"g", b"no")):
            for consumer in (ConsumerId(client.name, 1, 77), ConsumerId("ID:nobody", 1, 1)):
                ack = _ack(client, scene.queue, kind, ids[0], ids[1], 2)
                ack.consumer_id, ack.transaction_id = consumer, transaction
                scene.ask(client, ack)

    return scenario


def _step(client: OpenWireClient, transaction: TransactionId | None, step: str) -> c.TransactionInfo:
    return c.TransactionInfo(
        connection_id=ConnectionId(client.name), transaction_id=transaction, type=_STEPS.get(step, 77)
    )


def _transaction(steps: str, *, is_distributed: bool) -> Scenario:
    """Steps of a transaction: ``s`` for a message that is sent in it, ``w`` for one that is refused and whose sender
    waits for no answer, ``W`` for one whose sender does."""

    def scenario(scene: Scene) -> None:
        client = scene.client()
        transaction: TransactionId = LocalTransactionId(9, ConnectionId(client.name))
        if is_distributed:
            transaction = XATransactionId(100, client.name.encode(), b"b")
        for step in steps:
            if step in "sWw":
                message = client.message(scene.queue if step == "s" else TempQueue("ID:nobody:1"), "x")
                message.persistent, message.transaction_id = True, transaction
                (scene.say if step == "w" else scene.ask)(client, message)
            else:
                scene.ask(client, _step(client, transaction, step))
        client.ask(_step(client, transaction, "r"))
        scene.left(client)

    return scenario


def _in_doubt(*elements: str, prefetch: int, outcome: str) -> Scenario:
    """What was sent to several queues at once is taken from each in one branch that is prepared, the next connection
    decides, and consumes what is there then."""

    def scenario(scene: Scene) -> None:
        queues = [Queue(f"{scene.queue.physical_name}.{element}") for element in elements]
        everywhere = Queue(",".join(queue.physical_name for queue in queues))
        client = scene.client()
        transaction = XATransactionId(100, client.name.encode(), b"doubt")
        for number in range(prefetch):
            client.send(everywhere, str(number))
        scene.ask(client, _step(client, transaction, "b"))
        for number, queue in enumerate(queues, 1):
            client.subscribe(queue, prefetch, number)
            first, *_, last = [client.dispatch().message for _ in range(prefetch)] * 2
            assert first is not None
            assert last is not None
            assert last.message_id is not None
            for kind in (c.ACK_DELIVERED, c.ACK_STANDARD):
                ack = _ack(client, queue, kind, first.message_id, last.message_id, prefetch)
                ack.consumer_id = client.consumer_id(number)
                ack.transaction_id = transaction if kind == c.ACK_STANDARD else None
                scene.ask(client, ack)
        message = client.message(everywhere, "in doubt")
        message.persistent, message.transaction_id = True, transaction
        scene.ask(client, message, _step(client, transaction, "p"))
        client.ask(c.RemoveInfo(object_id=ConnectionId(client.name)))

        client = scene.client()
        found = client.ask(_step(client, None, "v"))
        assert isinstance(found, c.DataArrayResponse)
        scene.told.append(transaction in (found.data or ()))
        client.send(everywhere, "behind it")
        for number, queue in enumerate(queues, 1):
            client.subscribe(queue, number=number)
            scene.told.append(client.text())
        scene.ask(client, _step(client, transaction, outcome))
        client.send(everywhere, "last")
        shown: dict[object, list[tuple[str | None, int]]] = {queue: [] for queue in queues}
        while not all(("last", 0) in texts for texts in shown.values()):
            dispatch = client.dispatch()
            assert isinstance(dispatch.message, TextMessage)
            shown[dispatch.destination].append((dispatch.message.text, dispatch.redelivery_counter))
        # A real one gives what comes back to a consumer in an order that is not always the same.
        scene.told += [sorted(texts) for texts in shown.values()]

    return scenario


def _scenarios() -> Iterator[tuple[str, Scenario]]:
    for scenario in (
        unregistered,
        twice,
        sends,
        pulls,
        delivered,
        expired,
        left_by_a_durable_subscriber,
        given_up,
        advised,
        expired_at_the_client,
    ):
        yield scenario.__name__, scenario
    for persistent in ((True,) * 4, (False,) * 4, (True, False) * 3):
        modes = "".join("P" if one else "N" for one in persistent)
        yield f"browsing-{modes}", _browsing(*persistent)
    for number, pattern in enumerate((".>.B", ".>.*", ".>.B.>", ".*.>.B")):
        yield f"covering-{number}", _covering(pattern, 5 if "*.>" in pattern else 6)
    composites = ["~.A ~.W.>", "~.W.* ~.B ~.A", "~.A ActiveMQ.Statistics.Destination.~.W.>", "~.A ~.A"]
    for number, parts in enumerate(composites):
        yield f"statistics-{number}", _statistics(*parts.split())
    kinds = (*range(7), 7, -1)
    for kind in kinds:
        for first, last, number in ((None, 2, 1), (None, 2, 3), (1, 2, 2), (1, 1, 1), (1, 1, 3), (0, 2, 2), (5, 2, 3)):
            yield f"ack-{kind}-{first}-{last}-{number}", _acknowledging(kind, first, last, number)
        for is_begun in (False, True):
            yield f"ack-{kind}-transaction-{is_begun}", _acknowledging(kind, 0, 1, 2, is_begun=is_begun)
        for name in (None, "name"):
            yield f"ack-{kind}-subscriber-{name}", _subscriber(kind, name)
        yield f"ack-{kind}-nobody", _nobodys(kind)
    # Of these a real one treats all from the first on as dead letters before it finds that the last is not there.
    for kind in (c.ACK_DELIVERED, c.ACK_STANDARD, c.ACK_REDELIVERED, c.ACK_INDIVIDUAL):
        yield f"ack-{kind}-0-5-5", _acknowledging(kind, 0, 5, 5)
        yield f"ack-{kind}-3-1-3", _acknowledging(kind, 3, 1, 3)
    for steps in _BRANCHES.split():
        yield f"branch-{steps}", _transaction(steps, is_distributed=True)
    for outcome in "cor":
        yield f"in-doubt-{outcome}", _in_doubt("A", prefetch=4, outcome=outcome)
        yield f"in-doubt-composite-{outcome}", _in_doubt("A", "B", prefetch=1, outcome=outcome)
    for steps in _LOCAL.split():
        yield f"local-{steps}", _transaction(steps, is_distributed=False)


def test_whatever_is_said_is_answered_as_by_a_real_one(class_path: str, tmp_path: Path) -> None:
    broker = Broker(
        open_store(f"sqlite:///{tmp_path}/a.db"),
        BrokerOptions(bind="openwire://127.0.0.1:0", broker_name="activemq", statistics_support=True),
    )

    def answers(address: Address) -> dict[str, list[object]]:
        found: dict[str, list[object]] = {}
        for name, scenario in _scenarios():
            with closing(Scene(address, name)) as scene:
                scenario(scene)
            found[name] = scene.told
        return found

    with ActiveMQ(class_path, tmp_path, "kahadb") as activemq, running(broker) as address:
        real, ours = answers(("127.0.0.1", activemq.openwire_port)), answers(address)
    assert ours == real
