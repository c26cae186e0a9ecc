"""OpenWire commands in an order and with contents that no client would send, by several connections at once.

Whatever they are, they cost an answer or their own connection: others are served, nothing is a defect, and what the
clients had is given back when they are gone.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

import pytest

from jdbcstore.destination import Destination, Queue, TempQueue, TempTopic, Topic
from jdbcstore.errors import CodecError
from jdbcstore.identifiers import (
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
    XATransactionId,
)
from jdbcstore.message import Message, TextMessage
from jdbcstore.openwire import commands as c
from jdbcstore.store.contract import PersistenceAdapter
from tests.broker.conftest import RUNNING, OpenClient, StartBroker
from tests.broker.openwire_client import OpenWireClient
from tests.examples import sampled
from tests.waiting import wait_until

#: Few names, so that commands meet.
_CONNECTIONS: Final = ("ID:h-1", "ID:h-2", "")
_DESTINATIONS: Final[tuple[Destination | None, ...]] = (
    *(Queue("A"), Queue("B"), Topic("T"), Queue("A,B"), Queue("A,topic://T"), Queue("A.>"), Topic(">")),
    *(Queue.decoded(""), Queue.decoded(","), Queue("a\nb"), Queue.decoded("\ud800"), Queue("L" * 300), None),
    *(TempQueue("ID:h-1:1"), TempTopic("ID:h-2:1"), TempQueue("nobody:1"), Queue(",".join(map(str, range(2000))))),
    *(Topic("ActiveMQ.Advisory.>"), Topic("ActiveMQ.Scheduler.Management"), Queue("ActiveMQ.Statistics.Destination?")),
    *(Queue("jdbcstore.Pauses"), Topic("VirtualTopic.V"), Queue("Consumer.c.VirtualTopic.V"), Queue("ActiveMQ.DLQ")),
)
_NUMBERS: Final = (0, 1, 2, 3, 9, 10, 127, 1000, 65_535, -1, -2, 2**31 - 1, -(2**31))
_TEXTS: Final = (None, "", "s", "c", "a = 1", "a =", "TRUE", "\0\n", "x" * 300)
_COMMANDS: Final[Mapping[type[c.BaseCommand], int]] = {
    c.ConsumerInfo: 8,
    c.MessageAck: 8,
    c.TransactionInfo: 8,
    c.RemoveInfo: 4,
    c.ProducerInfo: 3,
    c.DestinationInfo: 3,
    c.MessagePull: 3,
    c.ConsumerControl: 3,
    c.RemoveSubscriptionInfo: 2,
    c.SessionInfo: 1,
    c.ConnectionInfo: 1,
    c.KeepAliveInfo: 1,
    c.BrokerInfo: 1,
    c.MessageDispatch: 1,
    c.Response: 1,
}


class Hostile:
    """Makes commands.

    Args:
        seed: of what it makes up.
    """

    def __init__(self, seed: int) -> None:
        self._random = random = Random(seed)
        #: Of messages that came.
        self.message_ids: list[MessageId] = []
        connection, number = self._connection, self._number
        made: dict[type, Callable[[], object]] = {
            ConnectionId: lambda: ConnectionId(connection()),
            SessionId: lambda: SessionId(connection(), number()),
            ConsumerId: lambda: ConsumerId(connection(), number(), number()),
            ProducerId: lambda: ProducerId(connection(), number(), number()),
            LocalTransactionId: lambda: LocalTransactionId(number(), ConnectionId(connection())),
            XATransactionId: lambda: XATransactionId(number(), b"g" * self._bytes(), b"b" * self._bytes()),
            MessageId: lambda: (
                random.choice(self.message_ids)
                if self.message_ids and random.random() < 0.7
                else MessageId(random.choice((None, ProducerId(connection(), 1, 1))), random.randrange(20))
            ),
            Destination: lambda: random.choice(_DESTINATIONS[: 4 if random.random() < 0.6 else None]),
            bool: lambda: random.random() < 0.3,
            int: lambda: random.choice(_NUMBERS),
            str: lambda: random.choice(_TEXTS),
        }
        self._made = {kind.__name__: make for kind, make in made.items()}

    def _connection(self) -> str:
        return self._random.choice(_CONNECTIONS)

    def _number(self) -> int:
        return self._random.choice((0, 1, 2, -1))

    def _bytes(self) -> int:
        return self._random.choice((0, 1, 64, 65, 200))

    def command(self) -> c.BaseCommand | Message:
        """Something to say."""
        if self._random.random() < 0.3:
            return self._message()
        (kind,) = self._random.choices(list(_COMMANDS), list(_COMMANDS.values()))
        command = kind()
        for field in dataclasses.fields(kind):
            if field.name != "command_id" and self._random.random() < 0.85:
                setattr(command, field.name, self._value(field.name, str(field.type)))
        return command

    def _value(self, name: str, kind: str) -> object:
        if name in ("type", "ack_type", "operation_type"):
            return self._random.choice((*range(9), -1, 100))
        if name == "transaction_id":
            return self._transaction()
        kinds = [one for one in kind.replace("|", " ").split() if one in self._made]
        return self._made[self._random.choice(kinds)]() if kinds and "Sequence" not in kind else None

    def _transaction(self) -> Any:
        kind = self._random.choice(("", "LocalTransactionId", "LocalTransactionId", "XATransactionId"))
        return self._made[kind]() if kind else None

    def _message(self) -> TextMessage:
        random = self._random
        producer = ProducerId(random.choice(_CONNECTIONS), 1, 1)
        message = TextMessage(
            producer_id=producer,
            message_id=random.choice((None, MessageId(None, 1), *[MessageId(producer, random.randrange(1000))] * 8)),
            destination=self._value("destination", "Destination"),  # type: ignore[arg-type]
            reply_to=random.choice((None, None, self._value("reply_to", "Destination"))),  # type: ignore[arg-type]
            persistent=random.random() < 0.7,
            priority=random.choice((0, 4, 9, 127, -128)),
            expiration=random.choice((0, 0, 1, -1, 2**63 - 1)),
            transaction_id=self._transaction(),
            group_id=random.choice((None, "", "g")),
        )
        message.text = "x"
        delayed = ("AMQ_SCHEDULED_DELAY", random.choice((1, -1, 2**40)))
        ordered = ("AMQ_SCHEDULER_ACTION", random.choice(("BROWSE", "REMOVEALL", "x")))
        message.properties = dict([random.choice((delayed, ordered))] * (random.random() < 0.1))
        return message


def has_listened(client: OpenWireClient, hostile: Hostile) -> bool:
    """Hear everything up to the answer to a question; False if the broker has closed the connection."""
    client.write(c.SessionInfo(command_id=1000, response_required=True, session_id=client.session_id))
    while (told := client.read()) is not None:
        if isinstance(told, c.Response) and told.correlation_id == 1000:
            return True
        if isinstance(told, c.MessageDispatch) and told.message is not None and told.message.message_id is not None:
            hostile.message_ids = [*hostile.message_ids[-50:], told.message.message_id]
    return False


@pytest.mark.parametrize("seed", sampled(range(40), 4))
def test_whatever_is_said_in_whatever_order_costs_its_connection_at_most(
    seed: int,
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    caplog: pytest.LogCaptureFixture,
) -> None:
    address = start_broker(sqlite_store, bind="auto://127.0.0.1:0", statistics_support=True)
    hostile = Hostile(seed)
    for name in ("ID:h-1", "ID:h-2", "ID:h-1", "ID:h-3"):
        with OpenWireClient(address, name) as one, OpenWireClient(address) as other:
            for number in range(1, 201):
                speaker = one if number % 4 else other
                command = hostile.command()
                command.command_id, command.response_required = number, False
                try:
                    speaker.write(command)
                    if number % 25 in (1, 4) and not has_listened(speaker, hostile):
                        break
                except CodecError:
                    continue  # no client can say that
                except (BrokenPipeError, ConnectionResetError):
                    break  # it was one word too many
    witness = open_client(address)
    witness.subscribe("/queue/WITNESS")
    witness.publish("/queue/WITNESS", "x", persistent="true")
    assert witness.message().text == "x"
    broker = RUNNING[address]
    wait_until(lambda: len(broker.clients) == 1 and broker.memory.uncommitted == 0)
    queues = [queue for name, queue in list(broker.queues.items()) if name != Queue("WITNESS")]
    wait_until(lambda: not any(queue.in_flight for queue in queues))
    assert all(name.is_storable for name in [*list(broker.queues), *list(broker.topics)])
    assert not [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
