"""Messages between a real ActiveMQ and us, through one database, in both directions and in every type."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from tests.broker_process import BrokerProcess
from tests.compat.activemq import ActiveMQ, JdbcStore, JmsMessage
from tests.compat.stomp_client import client

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(params=["mariadb_url", pytest.param("postgresql_url", marks=pytest.mark.exhaustive)])
def url(request: pytest.FixtureRequest) -> str:
    """A fresh database that both can use."""
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["postgresql_url", pytest.param("mariadb_url", marks=pytest.mark.exhaustive)])
def one_url(request: pytest.FixtureRequest) -> str:
    """The same where another test shows of both databases what Java and we read of each other."""
    found: str = request.getfixturevalue(request.param)
    return found


def without_place(message: JmsMessage) -> JmsMessage:
    """A message without what a move to another queue changes."""
    headers = {
        name: value
        for name, value in message["headers"].items()
        if name not in ("JMSDestination", "JMSActiveMQBrokerInTime", "JMSActiveMQBrokerOutTime")
    }
    return {**message, "headers": headers}


def test_all_types_that_java_sent_and_we_stored_anew_are_read_by_java_as_they_were(
    url: str, class_path: str, tmp_path: Path
) -> None:
    with ActiveMQ(class_path, tmp_path, JdbcStore(url)) as activemq:
        sent = activemq.send_all_types("FROM.JAVA")
        activemq.stop()
    with open_store(url) as adapter:
        target = adapter.queue_message_store(Queue("FROM.US"))
        messages = list(adapter.queue_message_store(Queue("FROM.JAVA")).recover())
        for message in messages:
            message.destination = Queue("FROM.US")
            target.add_message(message).result(60)
    assert len(messages) == len(sent) >= 6
    with ActiveMQ(class_path, tmp_path, JdbcStore(url)) as activemq:
        received = activemq.consume("FROM.US")
        activemq.stop()
    assert [without_place(message) for message in received] == [without_place(message) for message in sent]
    with open_store(url) as adapter:
        assert adapter.queue_message_store(Queue("FROM.US")).message_count == 0


def test_what_stomp_clients_sent_to_us_java_consumes(one_url: str, class_path: str, tmp_path: Path) -> None:
    expires = int(time.time() * 1000) + 3_600_000
    with BrokerProcess(one_url, tmp_path) as broker, client(broker.port) as (connection, _):
        headers = {"persistent": "true", "priority": "7", "correlation-id": "c:1", "type": "order", "colour": "blue"}
        headers |= {"reply-to": "/queue/ANSWERS", "expires": str(expires), "JMSXGroupID": "g1"}
        connection.send(
            "/queue/FROM.STOMP", "grüße 😀 \u20ac", headers={**headers, "amq-msg-type": "text"}, receipt="r1"
        )
        connection.send("/queue/FROM.STOMP", bytes(range(256)), headers={"persistent": "true"}, receipt="r2")
    with ActiveMQ(class_path, tmp_path, JdbcStore(one_url)) as activemq:
        text, binary = activemq.consume("FROM.STOMP")
        activemq.stop()
    assert (text["type"], text["body"]) == ("text", "grüße 😀 \u20ac")
    assert (binary["type"], binary["body"]) == ("bytes", bytes(range(256)).hex())
    assert text["properties"]["colour"] == ["String", "blue"]
    found = text["headers"]
    assert (found["JMSPriority"], found["JMSCorrelationID"], found["JMSType"]) == (7, "c:1", "order")
    assert found["JMSReplyTo"] == "queue://ANSWERS"
    assert found["JMSExpiration"] == expires
    assert found["JMSDeliveryMode"] == 2
    assert found["JMSRedelivered"] is False


def test_what_java_sent_our_broker_serves_and_acknowledges(one_url: str, class_path: str, tmp_path: Path) -> None:
    with ActiveMQ(class_path, tmp_path, JdbcStore(one_url)) as activemq:
        sent = activemq.send_all_types("FROM.JAVA")
        activemq.stop()
    with BrokerProcess(one_url, tmp_path) as broker:
        with client(broker.port) as (connection, collector):
            connection.subscribe("/queue/FROM.JAVA", id="1", ack="client-individual")
            collector.wait_for(len(sent))
            for headers, _ in collector.messages:
                connection.ack(headers["ack"])
        assert broker.stop() == 0
    for (headers, body), message in zip(collector.messages, sent, strict=True):
        assert headers["message-id"] == message["headers"]["JMSMessageID"]
        assert headers["priority"] == str(message["headers"]["JMSPriority"])
        if message["type"] == "text":
            assert body.decode() == (message["body"] or "")
        if message["type"] == "bytes":
            assert body.hex() == message["body"]
        for name, (kind, value) in message["properties"].items():
            if name.startswith("JMSX"):
                continue  # a header field, which MESSAGE does not show
            if kind == "String":
                assert headers[name] == value
            elif kind in ("Integer", "Long", "Short", "Byte"):
                assert headers[name] == str(value)
            elif kind == "Boolean":
                assert headers[name] == str(value).lower()
    with ActiveMQ(class_path, tmp_path, JdbcStore(one_url)) as activemq:
        assert activemq.browse("FROM.JAVA") == []
        activemq.stop()
