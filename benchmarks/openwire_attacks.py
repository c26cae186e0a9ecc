"""Attacks over OpenWire, on the memory of a broker and on the time of the others."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator
from typing import Final

from benchmarks.attacks import Attack, Target
from benchmarks.memory_attacks import PATIENCE_S
from jdbcstore.destination import Destination, Queue, TempQueue, Topic
from jdbcstore.identifiers import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    XATransactionId,
)
from jdbcstore.message import Message, TextMessage
from jdbcstore.openwire import commands as c
from tests.broker.openwire_client import OpenWireClient

__all__ = ["OPENWIRE_ATTACKS"]

_MIB: Final = 1 << 20
# `TransactionInfo.type`
_BEGIN: Final = 0
_PREPARE: Final = 1
_RECOVER: Final = 5
_END: Final = 7


def told(client: OpenWireClient, commands: Iterable[c.BaseCommand | Message], patience_s: float = PATIENCE_S) -> bool:
    """Say one thing after another; False if the broker does not take it, or has ended the connection."""
    pending: list[bytes] = []
    for command in commands:
        pending.append(client.bytes_of(command))
        if len(pending) >= 500 and not _write(client, pending, patience_s):
            return False
    return _write(client, pending, patience_s)


def filled(client: OpenWireClient, messages: Iterable[Message], destination: Destination) -> None:
    """Send, as honest clients do, and wait until all is stored."""
    told(client, messages, 60)
    client.send(destination, "last")


def _write(client: OpenWireClient, pending: list[bytes], patience_s: float = PATIENCE_S) -> bool:
    client.timeout_is(patience_s)
    try:
        client.write_bytes(b"".join(pending))
    except (TimeoutError, ConnectionError):
        return False
    pending.clear()
    return True


def heard(client: OpenWireClient) -> None:
    """Read until the broker says nothing more."""
    client.timeout_is(PATIENCE_S)
    try:
        while client.read() is not None:
            pass
    except (TimeoutError, ConnectionError):
        return


def message(
    client: OpenWireClient, number: int, destination: Destination, body: str = "", producer: int = 1, **fields: object
) -> TextMessage:
    """A message that nobody waits for."""
    producer_id = ProducerId(client.name, producer, 1)
    sent = TextMessage(
        producer_id=producer_id,
        destination=destination,
        message_id=MessageId(producer_id, number),
        persistent=True,
        **fields,  # type: ignore[arg-type]
    )
    sent.text = body
    return sent


def cached_values(target: Target) -> None:
    """Connections that fill their cache with values which nobody needs again."""
    for number in range(target.times(100)):
        client = target.openwire(cache=16383)
        names = (ConnectionId(f"{number}.{slot}.".ljust(190, "x")) for slot in range(1100))
        if not told(client, (c.RemoveSubscriptionInfo(connection_id=name) for name in names)):
            break


def strangers_cached_values(target: Target) -> None:
    """The same before they have said who they are."""
    for number in range(target.times(100)):
        client = target.openwire(cache=16383, is_open=False)
        names = (BrokerId(f"{number}.{slot}.".ljust(190, "x")) for slot in range(1100))
        if not told(client, (c.BrokerInfo(broker_id=name) for name in names)):
            break


def unfinished(target: Target) -> None:
    """Messages of 90 MiB that do not end."""
    clients = [target.openwire() for _ in range(12)]
    size = target.times(95 * _MIB)
    for client in clients:
        _write(client, [struct.pack(">i", size)])
    for _ in range(15):
        clients = [client for client in clients if _write(client, [b"\x18" * (size // 16)])]


def transactions(target: Target) -> None:
    """Open transactions, as full as they may be."""
    client = target.openwire()
    for number in range(20):
        transaction = LocalTransactionId(number, ConnectionId(client.name))
        begin = c.TransactionInfo(connection_id=ConnectionId(client.name), transaction_id=transaction, type=_BEGIN)
        sent = (
            message(client, number * 100_000 + n, Queue("A"), transaction_id=transaction)
            for n in range(target.times(10_000))
        )
        if not told(client, [begin]) or not told(client, sent):
            break
    heard(client)


def many_transactions(target: Target) -> None:
    """Transactions that are begun and nothing more."""
    client = target.openwire()
    name = ConnectionId(client.name)
    begins = (
        c.TransactionInfo(connection_id=name, transaction_id=LocalTransactionId(number, name), type=_BEGIN)
        for number in range(target.times(200_000))
    )
    told(client, begins)
    heard(client)


def prepared(target: Target) -> None:
    """Branches that are prepared and never decided, and questions for all of them."""
    client = target.openwire()
    name = ConnectionId(client.name)

    def steps() -> Iterator[c.BaseCommand | Message]:
        for number in range(target.times(3000)):
            branch = XATransactionId(1, b"%d" % number, b"b")
            yield c.TransactionInfo(connection_id=name, transaction_id=branch, type=_BEGIN)
            yield message(client, number + 1, Queue("A"), "x" * 1000, transaction_id=branch)
            for step in (_END, _PREPARE):
                yield c.TransactionInfo(connection_id=name, transaction_id=branch, type=step)

    told(client, steps())
    recover = c.TransactionInfo(connection_id=name, type=_RECOVER)
    told(client, [recover] * target.times(500))
    time.sleep(PATIENCE_S)


def producers(target: Target) -> None:
    """Producers without an end."""
    client = target.openwire()
    infos = (
        c.ProducerInfo(producer_id=ProducerId(client.name, n, 1), destination=Topic(f"T.{n % 7}"), window_size=1000)
        for n in range(target.times(300_000))
    )
    told(client, infos)
    heard(client)


def message_producers(target: Target) -> None:
    """A new producer for each message, of a client that comes back after failures."""
    client = target.openwire(is_fault_tolerant=True)
    for n in range(2, target.times(100_000)):
        producer = c.ProducerInfo(producer_id=ProducerId(client.name, n, 1))
        told(client, [producer, message(client, 1, Queue("A"), producer=n)])
    heard(client)


def consumers(target: Target) -> None:
    """Consumers with selectors, and some that pull, without an end."""
    client = target.openwire()
    infos = (
        c.ConsumerInfo(
            consumer_id=client.consumer_id(n), destination=Queue("A"), prefetch_size=n % 2, selector=f"n={n}"
        )
        for n in range(target.times(30_000))
    )
    told(client, infos)
    heard(client)


def pulls(target: Target) -> None:
    """Questions for a message, each with an hour to be answered."""
    client = target.openwire()
    client.subscribe(Queue("Empty"), prefetch=0)
    pull = c.MessagePull(consumer_id=client.consumer_id(), destination=Queue("Empty"), timeout=3_600_000)
    told(client, [pull] * target.times(300_000))
    heard(client)


def browsers(target: Target) -> None:
    """Browsers of a long queue, all at once, that read nothing."""
    filler = target.openwire()
    filled(
        filler, (message(filler, n, Queue("Long"), "x" * 1000) for n in range(1, target.times(20_000))), Queue("Long")
    )
    for _ in range(4):
        client = target.openwire()
        infos = (
            c.ConsumerInfo(
                consumer_id=client.consumer_id(n), destination=Queue("Long"), prefetch_size=1000, browser=True
            )
            for n in range(100)
        )
        told(client, infos)
    time.sleep(PATIENCE_S)


def temporaries(target: Target) -> None:
    """Temporary queues while somebody listens to the advisories and does not read them."""
    listener = target.openwire()
    listener.subscribe(Topic("ActiveMQ.Advisory.>"), prefetch=32766)
    for _ in range(4):
        client = target.openwire()
        name = ConnectionId(client.name)
        infos = (
            c.DestinationInfo(connection_id=name, destination=TempQueue(f"{client.name}:{n}"))
            for n in range(target.times(20_000))
        )
        told(client, infos)
        heard(client)


def connections(target: Target) -> None:
    """Connections come and go while somebody listens to the advisories and does not read them."""
    listener = target.openwire()
    listener.subscribe(Topic("ActiveMQ.Advisory.>"), prefetch=32766)
    for _ in range(target.times(1000)):
        with target.openwire() as client:
            for number in range(3):
                client.subscribe(Topic("A"), number=number)


def never_acknowledged(target: Target) -> None:
    """Consumers that take all there is, and acknowledge nothing."""
    producer = target.openwire()
    count = target.times(50_000)
    filled(producer, (message(producer, n, Queue("A")) for n in range(1, count)), Queue("A"))
    for _ in range(4):
        client = target.openwire()
        client.subscribe(Queue("A"), prefetch=100_000)
        heard(client)


def hungry(target: Target) -> None:
    """Commands that want an answer, of a client that does not read."""
    client = target.openwire()
    told(client, (c.KeepAliveInfo(command_id=n, response_required=True) for n in range(target.times(1_000_000))))
    other = target.openwire()
    name = ConnectionId("x" * 2000)
    wrong = (
        c.MessagePull(command_id=n, response_required=True, consumer_id=ConsumerId(name.value, 1, n))
        for n in range(target.times(100_000))
    )
    told(other, wrong)


def bogus_acks(target: Target) -> None:
    """Acknowledgements of what was never delivered, beside many that were."""
    client = target.openwire()
    filled(client, (message(client, n, Queue("A")) for n in range(1, target.times(10_000))), Queue("A"))
    client.subscribe(Queue("A"), prefetch=32000)
    ack = c.MessageAck(
        destination=Queue("A"),
        consumer_id=client.consumer_id(),
        ack_type=c.ACK_STANDARD,
        first_message_id=MessageId(ProducerId("nobody", 1, 1), 1),
        last_message_id=MessageId(ProducerId("nobody", 1, 1), 7),
        message_count=7,
    )
    told(client, [ack] * target.times(50_000))
    heard(client)


def questions(target: Target) -> None:
    """Questions for statistics of everything, where there is much, and nobody reads the answers."""
    client = target.openwire()
    filled(client, (message(client, n, Queue(f"Q.{n}")) for n in range(1, target.times(10_000))), Queue("A"))
    question = Queue("ActiveMQ.Statistics.Destination.>")
    told(
        client,
        (message(client, 1_000_000 + n, question, reply_to=Queue("Answers")) for n in range(target.times(100))),
    )
    heard(client)


def groups(target: Target) -> None:
    """Message groups without an end."""
    client = target.openwire()
    client.subscribe(Queue("A"), prefetch=1000)
    told(client, (message(client, n, Queue("A"), group_id=f"group {n}") for n in range(1, target.times(100_000))))
    heard(client)


OPENWIRE_ATTACKS: Final = [
    Attack("ow cached values", cached_values),
    Attack("ow strangers' cached values", strangers_cached_values),
    Attack("ow unfinished frames", unfinished),
    Attack("ow transactions", transactions),
    Attack("ow many transactions", many_transactions),
    Attack("ow prepared", prepared),
    Attack("ow producers", producers),
    Attack("ow producers of messages", message_producers),
    Attack("ow consumers", consumers),
    Attack("ow pulls", pulls),
    Attack("ow browsers", browsers),
    Attack("ow temporaries", temporaries),
    Attack("ow connections", connections),
    Attack("ow never acknowledged", never_acknowledged),
    Attack("ow does not read", hungry),
    Attack("ow bogus acks", bogus_acks),
    Attack("ow questions", questions, {"JDBCSTORE_STATISTICS_SUPPORT": "true"}),
    Attack("ow groups", groups),
]
