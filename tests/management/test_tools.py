"""What is connected to ActiveMQ brokers already: the requests of those tools, and what they do with the answers."""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote
from xml.etree import ElementTree

import pytest

from jdbcstore.destination import Queue, Topic
from jdbcstore.identifiers import ProducerId
from jdbcstore.management import mbeans
from jdbcstore.openwire import commands as c
from jdbcstore.transport.web import api, jolokia
from jdbcstore.transport.web.api import json_answer, json_in_slices
from tests.broker.client import Client
from tests.broker.openwire_client import OpenWireClient
from tests.compat.jolokia import QUEUE
from tests.management.test_web import Served, send, served
from tests.management.web import Site
from tests.waiting import wait_until

#: The names of MBeans in answers: properties in the order of their keys.
BAR = "org.apache.activemq:brokerName=b1,destinationName=BAR,destinationType=Queue,type=Broker"
ROOT = "org.apache.activemq:brokerName=b1,type=Broker"
#: What these tools send when nothing else is configured.
ADMIN = "Basic " + base64.b64encode(b"admin:admin").decode()


@pytest.fixture(name="broker")
def _broker() -> Any:
    with served(broker_name="b1") as broker:
        send(broker, "BAR", 3)
        wait_until(lambda: broker.operator.get("/api/v1/destinations?text=BAR").json["total"] == 1)
        yield broker


def read(broker: Served, queue: str, attribute: str) -> Any:
    path = f"/api/jolokia/read/{QUEUE}{queue}/{attribute}"
    return broker.visitor.get(path, Authorization=ADMIN, Content_Type="application/json").json


def test_keda_reads_the_size_of_a_queue(broker: Served) -> None:
    answer = broker.visitor.get(f"/api/jolokia/read/{QUEUE}BAR/QueueSize", Authorization=ADMIN)
    assert answer.status == 200
    told = answer.json
    assert (told["value"], told["status"]) == (3, 200)
    assert isinstance(told["timestamp"], int)


def test_an_unknown_queue_is_an_error_in_an_answer_that_succeeds(broker: Served) -> None:
    answer = broker.visitor.get(f"/api/jolokia/read/{QUEUE}NONE/QueueSize")
    assert answer.status == 200
    assert (answer.json["status"], answer.json["error_type"]) == (404, "javax.management.InstanceNotFoundException")
    assert read(broker, "BAR", "Nonsense")["error_type"] == "javax.management.AttributeNotFoundException"


def test_many_requests_come_in_one(broker: Served) -> None:
    requests = [
        {"type": "read", "mbean": QUEUE + "BAR", "attribute": ["QueueSize", "EnqueueCount"]},
        {"type": "read", "mbean": "org.apache.activemq:type=Broker,brokerName=*", "attribute": ["BrokerName"]},
        {"type": "search", "mbean": QUEUE + "*"},
        {"type": "nonsense"},
        "nonsense",
        {"type": "read", "mbean": QUEUE + "BAR", "attribute": 5},
    ]
    answers = broker.visitor.post("/api/jolokia/", requests).json
    assert [answer["status"] for answer in answers] == [200, 200, 200, 400, 400, 400]
    assert answers[0]["value"] == {"QueueSize": 3, "EnqueueCount": 3}
    assert answers[1]["value"] == {ROOT: {"BrokerName": "b1"}}
    assert answers[2]["value"] == [BAR]


def test_hawtio_lists_and_reads_a_broker(broker: Served) -> None:
    version = broker.visitor.get("/api/jolokia/version").json["value"]
    assert version["protocol"] == "7.2"
    listed = broker.visitor.post("/api/jolokia?canonicalNaming=false", {"type": "list"}).json["value"][
        "org.apache.activemq"
    ]
    bean = listed["type=Broker,brokerName=b1,destinationType=Queue,destinationName=BAR"]
    assert bean["attr"]["QueueSize"]["type"] == "long"
    assert {"purge", "browse", "sendTextMessage", "retryMessages"} <= set(bean["op"])
    root = broker.visitor.get("/api/jolokia/read/org.apache.activemq:type=Broker,brokerName=b1").json["value"]
    assert root["Queues"] == [{"objectName": BAR}]
    assert (root["TotalMessageCount"], root["MemoryPercentUsage"], root["Slave"]) == (3, 0, False)
    health = "org.apache.activemq:type=Broker,brokerName=b1,service=Health"
    assert broker.visitor.get(f"/api/jolokia/read/{health}/CurrentStatus").json["value"] == "Good"


def test_producers_are_counted_as_activemq_counts_them() -> None:
    """A JMS producer says where it sends, a STOMP client has one producer without a destination."""
    with served(broker_name="b1", bind="auto://127.0.0.1:0") as broker:
        with OpenWireClient(broker.address) as client, Client(broker.address) as other:
            other.connect()
            other.publish("/queue/BAR", "by STOMP")
            for number in (1, 2):
                client.ask(c.ProducerInfo(producer_id=ProducerId(client.name, 1 + number, 1), destination=Queue("BAR")))
            client.ask(c.ProducerInfo(producer_id=ProducerId(client.name, 4, 1), destination=Topic("PRICES")))
            wait_until(lambda: read(broker, "BAR", "ProducerCount")["value"] == 2)
            total = "/api/jolokia/read/org.apache.activemq:type=Broker,brokerName=b1/TotalProducerCount"
            assert broker.visitor.get(total).json["value"] == 3
        wait_until(lambda: read(broker, "BAR", "ProducerCount")["value"] == 0)


def test_a_list_is_as_of_now_for_who_wants_it(broker: Served) -> None:
    asked_ms = int(time.time() * 1000)
    for count in (4, 5, 6):
        send(broker, "BAR", 1)
        time.sleep(0.25)  # what is younger is not looked at again
        told = broker.visitor.get("/api/v1/destinations?text=BAR&fresh=true").json
        assert told["destinations"][0]["depth"] == count
    assert told["looked_ms"] >= asked_ms


def test_operations_are_called_by_their_names(broker: Served) -> None:
    def execute(operation: str, *arguments: Any, site: Site = broker.operator, queue: str = "BAR") -> Any:
        given = {"type": "exec", "mbean": QUEUE + queue, "operation": operation, "arguments": list(arguments)}
        return site.post("/api/jolokia/", given).json

    shown = execute("browse()")["value"]
    assert [message["Text"] for message in shown] == ["m0", "m1", "m2"]
    sent = execute(
        "sendTextMessage(java.util.Map,java.lang.String,java.lang.String,java.lang.String)", {"n": "x"}, "hi", "u", "p"
    )
    assert sent["value"].startswith("ID:")
    assert execute("moveMatchingMessagesTo(java.lang.String,java.lang.String)", "n = 'x'", "FOO")["value"] == 1
    assert execute("removeMessage(java.lang.String)", shown[0]["JMSMessageID"])["value"] is True
    refused = execute("purge()", site=broker.visitor)
    assert (refused["status"], refused["error_type"]) == (403, "java.lang.SecurityException")
    assert execute("purge()")["status"] == 200
    assert execute("browse()")["value"] == []
    assert execute("nonsense()")["status"] == 400
    root = {"type": "exec", "mbean": "org.apache.activemq:type=Broker,brokerName=b1"}
    assert (
        broker.operator.post("/api/jolokia", {**root, "operation": "addQueue", "arguments": ["NEW"]}).json["status"]
        == 200
    )
    assert (
        broker.operator.post("/api/jolokia", {**root, "operation": "removeQueue", "arguments": ["NEW"]}).json["status"]
        == 200
    )


#: Arguments that are none of their operations.
_WRONG: Final[Sequence[tuple[str, list[Any]]]] = (
    ("moveMessageTo", ["ID:a", {"b": 1}]),
    ("moveMessageTo", [["ID:a"], "B"]),
    ("copyMatchingMessagesTo", ["", "B", "many"]),
    ("copyMatchingMessagesTo", ["", 5, None]),
    ("removeMatchingMessages", ["", [1]]),
    ("browse", [{"a": 1}]),
    ("getMessage", [[]]),
    ("sendTextMessage", [{"a": 1}]),
    ("sendTextMessage", [{"JMSPriority": "high"}, "x"]),
    ("sendTextMessage", [{"JMSPriority": None}, "x"]),
    ("sendTextMessage", [{"JMSCorrelationID": [1]}, "x"]),
    ("sendTextMessage", [{"JMSType": {}}, "x"]),
    ("sendTextMessage", [{"long": 1 << 70}, "x"]),
    ("sendTextMessage", ["x", "y", {}]),
)


def test_arguments_that_are_none_of_an_operation_are_told(broker: Served, caplog: pytest.LogCaptureFixture) -> None:
    for operation, arguments in _WRONG:
        given = {"type": "exec", "mbean": QUEUE + "BAR", "operation": operation, "arguments": arguments}
        answer = broker.operator.post("/api/jolokia/", given)
        assert (answer.status, answer.json["status"]) == (200, 400), given
    sizes = {"type": "exec", "mbean": QUEUE + "BAR", "operation": "getQueueSize"}
    assert broker.operator.post("/api/jolokia/", sizes).json["value"] == 3
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


def test_a_number_is_taken_for_its_text(broker: Served) -> None:
    given = {"type": "exec", "mbean": QUEUE + "BAR", "operation": "sendTextMessage"}
    sent = {"JMSCorrelationID": 5, "JMSType": True, "JMSPriority": 7, "n": 1}
    assert broker.operator.post("/api/jolokia/", {**given, "arguments": [sent, 42]}).json["status"] == 200
    shown = broker.operator.post("/api/jolokia/", {**given, "operation": "browse", "arguments": ["n = 1"]}).json
    (message,) = shown["value"]
    assert (message["Text"], message["JMSCorrelationID"], message["JMSType"]) == ("42", "5", "true")


def test_a_slash_in_a_name_is_escaped(broker: Served) -> None:
    broker.operator.post("/api/v1/create", {"destination": "queue://A/B"})
    path = quote(f"{QUEUE}A!/B", safe="!/:=,")
    assert broker.visitor.get(f"/api/jolokia/read/{path}/QueueSize").json["value"] == 0


def test_telegraf_reads_the_pages_of_the_console(broker: Served) -> None:
    with Client(broker.address) as client:
        client.connect(client_id="c1")
        client.done("SUBSCRIBE", {"destination": "/topic/T", "id": "1", "activemq.subscriptionName": "s1"})

        def page(name: str) -> ElementTree.Element:
            answer = broker.visitor.get(f"/admin/xml/{name}.jsp", Authorization=ADMIN)
            assert answer.status == 200
            return ElementTree.fromstring(answer.body)

        wait_until(lambda: len(page("topics")) == 1)
        queues, topics, subscribers = page("queues"), page("topics"), page("subscribers")
    (queue,) = queues.findall("queue")
    stats = queue.find("stats")
    assert (queues.tag, queue.get("name")) == ("queues", "BAR")
    assert stats is not None
    numbers = [int(stats.get(name, "")) for name in ("size", "consumerCount", "enqueueCount", "dequeueCount")]
    assert numbers == [3, 0, 3, 0]
    assert [topic.get("name") for topic in topics.findall("topic")] == ["T"]
    (subscriber,) = subscribers.findall("subscriber")
    assert {name: subscriber.get(name) for name in ("clientId", "subscriptionName", "destinationName", "active")} == {
        "clientId": "c1",
        "subscriptionName": "s1",
        "destinationName": "T",
        "active": "yes",
    }
    stats = subscriber.find("stats")
    assert stats is not None
    assert int(stats.get("pendingQueueSize", "")) == 0


def test_datadog_reads_the_same_pages(broker: Served) -> None:
    """The check ``activemq_xml``: no login, an exception for every status but 200, and these attributes."""
    with Client(broker.address) as client:
        client.connect(client_id="c1")
        client.done("SUBSCRIBE", {"destination": "/topic/T", "id": "1", "activemq.subscriptionName": "s1"})
        for page, kind, tags, values in (
            ("queues", "queue", ("name",), ("consumerCount", "dequeueCount", "enqueueCount", "size")),
            ("topics", "topic", ("name",), ("consumerCount", "dequeueCount", "enqueueCount", "size")),
            (
                "subscribers",
                "subscriber",
                ("clientId", "connectionId", "subscriptionName", "destinationName", "selector", "active"),
                ("pendingQueueSize", "dequeueCounter", "enqueueCounter", "dispatchedQueueSize", "dispatchedCounter"),
            ),
        ):
            path = f"/admin/xml/{page}.jsp"
            wait_until(lambda path=path, kind=kind: f"<{kind} ".encode() in broker.visitor.get(path).body)  # type: ignore[misc]
            answer = broker.visitor.get(path)
            assert answer.status == 200
            (element,) = ElementTree.fromstring(answer.body).findall(kind)
            stats = element.find("stats")
            assert stats is not None
            assert None not in [element.get(name) for name in tags]
            assert all(float(stats.get(name, "missing")) >= 0 for name in values)


def test_what_zabbix_discovers_and_reads_is_there(broker: Served) -> None:
    """The MBeans and attributes of its template "Apache ActiveMQ by JMX", by HTTP: it has no JMX to connect to."""

    def ask(**request: object) -> Any:
        answer = broker.visitor.post("/api/jolokia/", request).json
        assert answer["status"] == 200, answer
        return answer["value"]

    root = "org.apache.activemq:type=Broker,brokerName=b1"
    assert ask(type="search", mbean="org.apache.activemq:type=Broker,brokerName=*") == [ROOT]
    pattern = "org.apache.activemq:type=Broker,brokerName=*,destinationType=*,destinationName=*"
    assert BAR in ask(type="search", mbean=pattern)
    of_broker = (
        "UptimeMillis MemoryLimit MemoryPercentUsage StoreLimit StorePercentUsage TempLimit TempPercentUsage"
        " TotalEnqueueCount TotalDequeueCount TotalConsumerCount TotalProducerCount"
    )
    of_destination = "ConsumerCount ProducerCount MemoryPercentUsage EnqueueCount DequeueCount QueueSize ExpiredCount"
    assert isinstance(ask(type="read", mbean=root, attribute="BrokerVersion"), str)
    for mbean, names in ((root, of_broker), (QUEUE + "BAR", of_destination)):
        values = ask(type="read", mbean=mbean, attribute=names.split())
        assert {name: type(value) for name, value in values.items()} == dict.fromkeys(names.split(), int)


def test_no_page_of_another_site_has_a_browser_call_an_operation(broker: Served) -> None:
    path = f"/api/jolokia/exec/{QUEUE}BAR/purge"
    begun = broker.visitor.post("/api/v1/login", {"token": broker.broker.web.token if broker.broker.web else ""})
    cookie = begun.headers["set-cookie"].partition(";")[0]
    assert broker.visitor.get(path, Cookie=cookie).status == 403
    assert broker.visitor.get(path, Authorization=ADMIN, Referer="http://other/").status == 403
    assert read(broker, "BAR", "QueueSize")["value"] == 3
    csrf = broker.visitor.get("/api/v1/session", Cookie=cookie).json["csrf"]
    assert broker.visitor.get(path, Cookie=cookie, X_CSRF_Token=csrf).json["status"] == 200
    assert broker.operator.get(path, Referer="http://other/").json["status"] == 200


def test_a_program_calls_operations_by_get_with_a_login() -> None:
    with served(broker_name="b1", users={"alice": "secret"}) as broker:
        shown = "Basic " + base64.b64encode(b"alice:secret").decode()
        path = f"/api/jolokia/exec/{quote('org.apache.activemq:type=Broker,brokerName=b1', safe=':=,')}/addQueue/NEW"
        assert broker.visitor.get(path, Authorization=shown).json["status"] == 200


def test_what_is_very_long_is_cut_off_and_the_rest_is_found_by_name(
    broker: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        broker.operator.post("/api/v1/create", {"destination": f"queue://Q{number}"})
    wait_until(lambda: broker.operator.get("/api/v1/destinations?text=://Q").json["total"] == 6)
    monkeypatch.setattr(mbeans, "_SHOWN_MAX", 4)
    monkeypatch.setattr(mbeans, "_AT_ONCE", 2)
    ask = broker.visitor.post
    (beans,) = ask("/api/jolokia/", {"type": "list"}).json["value"].values()
    assert len(beans) == 4
    assert len(ask("/api/jolokia/", {"type": "read", "mbean": QUEUE + "*"}).json["value"]) == 4
    assert len(ask("/api/jolokia/", {"type": "search", "mbean": QUEUE + "Q*"}).json["value"]) == 6
    assert all(read(broker, f"Q{number}", "QueueSize")["value"] == 0 for number in range(6))


def test_answers_to_many_requests_are_bounded_together(broker: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jolokia, "_ANSWERS_BYTES_MAX", 500)
    answers = broker.visitor.post("/api/jolokia/", [{"type": "version"}] * 20).json
    statuses = [answer["status"] for answer in answers]
    assert statuses == sorted(statuses)
    assert set(statuses) == {200, 413}


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        None,
        "\ud800",
        {"a": {}, "b": [1, [], {"c": [[[[1, {"d": None}]]]]}]},
        [[], {}, "\xe4", 1.5, True],
        {"rows": [{"n": n, "all": list(range(n))} for n in range(70)], "a": list(range(60)), "b": [[]] * 60},
    ],
)
def test_what_is_encoded_in_slices_is_the_same(value: object) -> None:
    assert asyncio.run(json_in_slices(value)) == json_answer(value).body


def test_a_row_of_a_table_is_encoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[object] = []

    def encode(value: object) -> str:
        encoded.append(value)
        return "0"

    monkeypatch.setattr(api, "_dumped", encode)
    rows = [{f"field{column}": row for column in range(20)} for row in range(100)]
    asyncio.run(json_in_slices({"rows": rows, "total": 100}))
    assert [value for value in encoded if isinstance(value, dict)] == rows
    assert len(encoded) == len(rows) + 3


def test_others_work_while_a_long_answer_is_encoded() -> None:
    async def turns() -> int:
        encoding = asyncio.ensure_future(json_in_slices({"value": {str(n): {"n": n} for n in range(20_000)}}))
        count = 0
        while not encoding.done():
            await asyncio.sleep(0)
            count += 1
        return count

    assert asyncio.run(turns()) > 3
