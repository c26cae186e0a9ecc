"""Who closes its side of the socket behind what it has said hears the answers: of a real ActiveMQ and us the same."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from jdbcstore import Broker, BrokerOptions, open_store, running
from jdbcstore.destination import Queue
from jdbcstore.identifiers import ConnectionId, LocalTransactionId
from jdbcstore.message import Message
from jdbcstore.openwire import commands as c
from tests.broker.client import Address
from tests.broker.openwire_client import OpenWireClient
from tests.compat.activemq import ActiveMQ

pytestmark = pytest.mark.timeout(200)

CONNECT = "CONNECT\naccept-version:1.2\nhost:test\n\n\0"
COUNT = 20


def send_frames(headers: str = "") -> str:
    frame = "SEND\ndestination:/queue/HALF\npersistent:true\n{}receipt:{}\n\nx\0"
    return "".join(frame.format(headers, number) for number in range(COUNT))


BEGIN, IN_IT, COMMIT = "BEGIN\ntransaction:t\n\n\0", "transaction:t\n", "COMMIT\ntransaction:t\nreceipt:last\n\n\0"
STOMP = {
    "sends": send_frames(),
    "half a frame": send_frames() + "SEND\ndestination:/queue/HALF\n\nx",
    "goodbye": send_frames() + "DISCONNECT\nreceipt:last\n\n\0",
    "commit": BEGIN + send_frames(IN_IT) + COMMIT,
    "no commit": BEGIN + send_frames(IN_IT),
}


def receipts(address: Address, frames: str) -> list[str]:
    """Those that come until the broker closes the connection."""
    with socket.create_connection(address, timeout=60) as client:
        client.sendall((CONNECT + frames).encode())
        client.shutdown(socket.SHUT_WR)
        said = b"".join(iter(lambda: client.recv(1 << 16), b"")).decode()
    return [line for line in said.splitlines() if line.startswith("receipt-id:")]


def commands(client: OpenWireClient, *, is_transacted: bool) -> Sequence[c.BaseCommand | Message]:
    connection = ConnectionId(client.name)
    messages = [client.message(Queue("HALF"), "x") for _ in range(COUNT)]
    if not is_transacted:
        return messages
    transaction = LocalTransactionId(1, connection)
    for message in messages:
        message.transaction_id = transaction
    begin, commit = (
        c.TransactionInfo(connection_id=connection, transaction_id=transaction, type=kind) for kind in (0, 2)
    )
    return [begin, *messages, commit]


def responses(address: Address, *, is_transacted: bool) -> list[int]:
    """To which commands there is an answer, by their place, until the broker closes the connection."""
    with OpenWireClient(address) as client:
        said = commands(client, is_transacted=is_transacted)
        for number, command in enumerate(said):
            command.command_id, command.response_required = 1000 + number, True
        client.write_bytes(b"".join(map(client.bytes_of, said)))
        client.say_no_more()
        answers = iter(client.read, None)
        return [answer.correlation_id - 1000 for answer in answers if isinstance(answer, c.Response)]


def answers(stomp: Address, openwire: Address) -> dict[str, list[str] | list[int]]:
    return {name: receipts(stomp, frames) for name, frames in STOMP.items()} | {
        "openwire sends": responses(openwire, is_transacted=False),
        "openwire commit": responses(openwire, is_transacted=True),
    }


def test_the_same_answers(class_path: str, tmp_path: Path) -> None:
    with ActiveMQ(class_path, tmp_path, "memory") as activemq:
        expected = answers(("127.0.0.1", activemq.stomp_port), ("127.0.0.1", activemq.openwire_port))
    assert list(map(len, expected.values())) == [COUNT, COUNT, COUNT + 1, COUNT + 1, COUNT, COUNT, COUNT + 2]
    broker = Broker(open_store(f"sqlite:///{tmp_path / 'broker.db'}"), BrokerOptions(bind="auto://127.0.0.1:0"))
    with running(broker) as address:
        assert answers(address, address) == expected
