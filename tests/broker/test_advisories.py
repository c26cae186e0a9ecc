"""Advisories: who subscribes to a wildcard hears all that happens, and STOMP clients can read it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from jdbcstore import Queue
from jdbcstore.destination import TempQueue, Topic
from jdbcstore.openwire import commands as c
from tests.broker.client import Client, Frame
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.openwire_client import OpenWireClient

PREFIX = "/topic/ActiveMQ.Advisory."


def told(client: Client) -> tuple[str, str, Any]:
    """The next advisory: behind which topic, by which command, and what the command says."""
    message = client.message()
    assert message.headers["transformation"] == "jms-advisory-json"
    [(name, command)] = json.loads(message.text).items()
    return message.headers["destination"].removeprefix(PREFIX), name, command


def test_a_wildcard_hears_what_happens_and_what_nobody_has_heard_of_before(
    start_broker: StartBroker, open_client: OpenClient
) -> None:
    address = start_broker()
    listener = open_client(address)
    listener.subscribe(f"{PREFIX}>")
    assert listener.message().headers["destination"] == f"{PREFIX}MasterBroker"  # nothing else that is there already
    other = open_client(address, client_id="other")
    topic, name, command = told(listener)
    assert (topic, name, command["clientId"]) == ("Connection", "ConnectionInfo", "other")
    connection = command["connectionId"]["value"]
    other.subscribe("/queue/A", selector="n > 2")
    destination = {"@class": "ActiveMQQueue", "string": "A", "null": ""}
    topic, name, command = told(listener)
    assert (topic, name, command["destination"], command["operationType"]) == (
        "Queue",
        "DestinationInfo",
        destination,
        0,
    )
    topic, name, command = told(listener)
    assert (topic, name, command["destination"]) == ("Consumer.Queue.A", "ConsumerInfo", destination)
    assert command["consumerId"]["connectionId"] == connection
    assert "n > 2" in command["selector"]
    other.drop()
    gone = {topic: (name, command["objectId"]["@class"]) for topic, name, command in (told(listener), told(listener))}
    assert gone == {"Consumer.Queue.A": ("RemoveInfo", "ConsumerId"), "Connection": ("RemoveInfo", "ConnectionId")}


@pytest.mark.parametrize("pattern", ["Consumer.>", "Consumer.Queue.*", "*.Queue.A"])
def test_any_wildcard_does(start_broker: StartBroker, open_client: OpenClient, pattern: str) -> None:
    address = start_broker()
    listener, other = open_client(address), open_client(address)
    listener.subscribe(PREFIX + pattern)
    other.subscribe("/queue/A")
    topic, name, _ = told(listener)
    assert (topic, name) == ("Consumer.Queue.A", "ConsumerInfo")


@pytest.mark.parametrize("form", ["jms-xml", "jms-advisory-xml"])
def test_who_asks_for_xml_gets_it(start_broker: StartBroker, open_client: OpenClient, form: str) -> None:
    address = start_broker()
    listener = open_client(address)
    listener.subscribe(f"{PREFIX}Queue", transformation=form)
    open_client(address).subscribe("/queue/A<B")
    message: Frame = listener.message()
    assert message.headers["transformation"] == "jms-advisory-xml"
    command = ET.fromstring(message.text)
    assert command.tag == "DestinationInfo"
    assert command.find("destination") is not None
    assert (command.find("destination").get("class"), command.findtext("destination/string")) == (  # type: ignore[union-attr]
        "ActiveMQQueue",
        "A<B",
    )
    assert (command.findtext("responseRequired"), command.findtext("operationType")) == ("false", "0")


def test_temporary_destinations_leave_no_topics_of_advisories(start_broker: StartBroker) -> None:
    address = start_broker(bind="openwire://127.0.0.1:0", destinations_max=10)
    with OpenWireClient(address) as listener, OpenWireClient(address) as owner:
        listener.subscribe(Topic("ActiveMQ.Advisory.Consumer.>"), prefetch=100)
        for number in range(20):
            queue = TempQueue(f"{owner.name}:{number}")
            owner.ask(c.DestinationInfo(destination=queue))
            assert type(owner.subscribe(queue, number=number)) is c.Response
            owner.ask(c.RemoveInfo(object_id=owner.consumer_id(number)))
            owner.ask(c.DestinationInfo(destination=queue, operation_type=1))
            advisories = [listener.dispatch().message for _ in range(2)]
            assert [type(advisory.data_structure) for advisory in advisories if advisory is not None] == [
                c.ConsumerInfo,
                c.RemoveInfo,
            ]
        assert type(owner.send(Queue("A"), "there is room")) is c.Response


@pytest.mark.parametrize("by", ["its client", "nobody's client"])
def test_a_durable_subscription_that_is_removed_is_told(
    start_broker: StartBroker, open_client: OpenClient, by: str
) -> None:
    address = start_broker(offline_durable_subscriber_timeout_s=0.01, offline_durable_subscriber_task_schedule_s=0.5)
    listener = open_client(address)
    listener.subscribe(f"{PREFIX}Consumer.Topic.T")
    client = open_client(address, client_id="ann")
    client.subscribe("/topic/T", **{"activemq.subscriptionName": "news"})
    _, name, command = told(listener)
    assert (name, command["subscriptionName"]) == ("ConsumerInfo", "news")
    connection = command["consumerId"]["connectionId"]
    client.done("UNSUBSCRIBE", {"id": "1"})
    assert told(listener)[1] == "RemoveInfo"
    if by == "its client":
        client.done("UNSUBSCRIBE", {"id": "1", "activemq.subscriptionName": "news"})
    _, name, command = told(listener)
    assert (name, command["clientId"], command["subscriptionName"]) == ("RemoveSubscriptionInfo", "ann", "news")
    assert command.get("connectionId") == ({"value": connection} if by == "its client" else None)
