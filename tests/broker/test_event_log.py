"""`log_events`: what clients do, line by line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jdbcstore import Broker, BrokerOptions, open_store, running
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError
from jdbcstore.identifiers import ProducerId, XATransactionId
from jdbcstore.openwire import commands as c
from tests.broker.client import Address, Client
from tests.broker.openwire_client import OpenWireClient
from tests.waiting import wait_until

ALL = "connections, consumers producers transactions,internal"


def visit(address: Address) -> None:
    """Do something of everything."""
    with Client(address) as client:
        client.connect(client_id="ann")
        client.publish("/queue/A", "one")
        client.done("BEGIN", {"transaction": "t"})
        client.publish("/queue/A", "two", transaction="t")
        client.done("COMMIT", {"transaction": "t"})
        client.subscribe("/queue/A", ack="client-individual", selector="1 = 1")
        client.done("ACK", client.named(client.message()))
        client.done("NACK", client.named(client.message()))
        client.done("UNSUBSCRIBE", {"id": "1"})
        client.subscribe("/topic/T", **{"activemq.subscriptionName": "news"})
        client.done("UNSUBSCRIBE", {"id": "1"})
        client.done("UNSUBSCRIBE", {"id": "1", "activemq.subscriptionName": "news"})
    with Client(address) as client:
        client.connect()
        client.send("SEND", {"destination": "/queue/A", "transaction": "none"}, "x")
        client.error()
    with OpenWireClient(address) as jms:
        jms.ask(c.SessionInfo(session_id=jms.session_id))
        jms.ask(c.ProducerInfo(producer_id=ProducerId(jms.name, 2, 1), destination=Queue("A")))
        jms.send(Queue("A"), "by JMS")
        for number, decision in enumerate((3, 4)):
            xid = XATransactionId(1, b"global", bytes([number]))
            message = jms.message(Queue("A"), "in two phases")
            message.transaction_id = xid
            for command in (c.TransactionInfo(transaction_id=xid, type=0), message):
                jms.ask(command)
            for step in (1, decision):
                jms.ask(c.TransactionInfo(transaction_id=xid, type=step))


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        re.split(r"\s*[\w.]+=", record.getMessage(), maxsplit=1)[0]
        for record in caplog.records
        if record.name == "jdbcstore.events"
    ]


EXPECTED = {
    "connections": {"connection added": 3, "connection removed": 3},
    "consumers": {
        "consumer added": 2,
        "consumer removed": 2,
        "durable subscription removed": 1,
        "message acknowledged": 1,
        "message refused": 1,
    },
    "producers": {"producer added": 1, "producer removed": 1, "message sent": 5, "message not sent": 1},
    "transactions": {"transaction committed": 2, "transaction prepared": 2, "transaction rolled back": 1},
    "internal": {"message delivered": 2},
}


@pytest.mark.parametrize("words", [*EXPECTED, ALL, ""])
def test_what_was_asked_for_is_logged_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, words: str
) -> None:
    broker = Broker(
        open_store(f"sqlite:///{tmp_path / 'b.db'}"), BrokerOptions(bind="auto://127.0.0.1:0", log_events=words)
    )
    wanted: dict[str, int] = {}
    for word in words.replace(",", " ").split():
        wanted |= EXPECTED[word]
    with caplog.at_level("INFO", logger="jdbcstore.events"):
        with running(broker) as address:
            visit(address)
            wait_until(lambda: not broker.clients)
        found = events(caplog)
    assert {event: found.count(event) for event in set(found)} == wanted


def test_lines_name_the_message_and_where_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(
        open_store(f"sqlite:///{tmp_path / 'b.db'}"), BrokerOptions(bind="127.0.0.1:0", log_events="producers")
    )
    with caplog.at_level("INFO", logger="jdbcstore.events"), running(broker) as address, Client(address) as client:
        client.connect()
        client.publish("/queue/A", "hello")
        client.subscribe("/queue/A")
        message_id = client.message().headers["message-id"]
        (record,) = [record for record in caplog.records if record.name == "jdbcstore.events"]
        assert record.getMessage().startswith(f"message sent destination=queue://A message_id={message_id} bytes=")


def test_an_unknown_word_is_told() -> None:
    with pytest.raises(ConfigurationError, match=r"log_events knows connections, .* no 'everything'"):
        BrokerOptions(log_events="everything")
