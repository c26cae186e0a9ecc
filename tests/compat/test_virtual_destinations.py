"""``<destinationInterceptors>`` of one ``activemq.xml``: a real ActiveMQ and ours send the same messages to the same
places."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.broker.client import Address, Client, Frame
from tests.broker_process import BrokerProcess
from tests.compat.java_broker import JavaBroker
from tests.servers.server import free_port

pytestmark = pytest.mark.timeout(200)

FILE = """<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://www.springframework.org/schema/beans
      http://www.springframework.org/schema/beans/spring-beans.xsd
      http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="virtual" useJmx="false" schedulerSupport="false"
      dataDirectory="{folder}/data">
    <destinationInterceptors>
      <virtualDestinationInterceptor><virtualDestinations>
        <virtualTopic name="VT.&gt;"/>
        <virtualTopic name="AFFIXED.&gt;" prefix="Sub.*." postfix=".Q"/>
        <virtualTopic name="TWO.&gt;" prefix="A.*."/>
        <virtualTopic name="TWO.*" prefix="*.B."/>
        <virtualTopic name="AWARE.&gt;" selectorAware="true"/>
        <virtualTopic name="HIDDEN.&gt;" setOriginalDestination="false"/>
        <compositeQueue name="BOTH">
          <forwardTo><queue physicalName="BOTH.a"/><topic physicalName="BOTH.t"/></forwardTo>
        </compositeQueue>
        <compositeQueue name="STAYS" forwardOnly="false">
          <forwardTo><queue physicalName="STAYS.a"/></forwardTo>
        </compositeQueue>
        <compositeQueue name="FILTERED"><forwardTo>
          <filteredDestination selector="odd = 'yes'" queue="FILTERED.odd"/>
          <filteredDestination selector="odd = 'no'" topic="FILTERED.even"/>
        </forwardTo></compositeQueue>
        <compositeQueue name="REST" sendWhenNotMatched="true">
          <forwardTo><filteredDestination selector="odd = 'yes'" queue="REST.odd"/></forwardTo>
        </compositeQueue>
        <compositeQueue name="ELSE" sendWhenNotMatched="true" forwardOnly="false">
          <forwardTo><filteredDestination selector="odd = 'yes'" queue="ELSE.odd"/></forwardTo>
        </compositeQueue>
        <compositeQueue name="WILD.&gt;"><forwardTo><queue physicalName="TAMED"/></forwardTo></compositeQueue>
        <compositeQueue name="NESTED">
          <forwardTo><queue physicalName="INNER"/><topic physicalName="VT.nested"/></forwardTo>
        </compositeQueue>
        <compositeQueue name="INNER" forwardOnly="false">
          <forwardTo><queue physicalName="INNER.a"/></forwardTo>
        </compositeQueue>
        <compositeTopic name="NEWS" forwardOnly="false">
          <forwardTo><queue physicalName="NEWS.a"/></forwardTo>
        </compositeTopic>
        <compositeTopic name="GONE"><forwardTo><queue physicalName="GONE.a"/></forwardTo></compositeTopic>
        <compositeQueue name="TWICE"><forwardTo>
          <queue physicalName="TWICE.a"/><filteredDestination selector="TRUE" queue="TWICE.a"/>
        </forwardTo></compositeQueue>
        <compositeQueue name="ActiveMQ.DLQ" forwardOnly="false">
          <forwardTo><queue physicalName="DEAD"/></forwardTo>
        </compositeQueue>
      </virtualDestinations></virtualDestinationInterceptor>
      <mirroredQueue prefix="Mirror." postfix=".M"/>
    </destinationInterceptors>
    <persistenceAdapter><kahaDB directory="{folder}/kahadb"/></persistenceAdapter>
    <transportConnectors><transportConnector name="stomp" uri="stomp://127.0.0.1:{port}"/></transportConnectors>
  </broker>
</beans>
"""

#: A message: its text, where it came from, and its original destination.
Got = tuple[str, str, str | None]


class Case(NamedTuple):
    """What is subscribed to, what is sent, and what comes."""

    subscribed: list[str | tuple[str, str]]
    sent: list[tuple[str, str, str]]
    came: list[Got]


def q(name: str) -> str:
    return f"/queue/{name}"


def t(name: str) -> str:
    return f"/topic/{name}"


ONE_TWICE: Final = "one queue twice"
TWO_PREFIXES: Final = "queues of two prefixes"
TWO_WAYS: Final = {ONE_TWICE, TWO_PREFIXES}
ODD_EVEN: Final = ("yes", "no", "neither")
CASES: Final = {
    "a virtual topic": Case(
        [q("Consumer.A.VT.x"), q("Consumer.B.VT.x"), q("Consumer.A.VT.y"), t("VT.x")],
        [(t("VT.x"), "1", "")],
        [("1", q("Consumer.A.VT.x"), t("VT.x")), ("1", q("Consumer.B.VT.x"), t("VT.x")), ("1", t("VT.x"), None)],
    ),
    "without more elements": Case(
        [q("Consumer.A.VT"), t("VT")], [(t("VT"), "1", "")], [("1", q("Consumer.A.VT"), t("VT")), ("1", t("VT"), None)]
    ),
    "the default is gone": Case(
        [q("Consumer.A.VirtualTopic.x"), t("VirtualTopic.x")],
        [(t("VirtualTopic.x"), "1", "")],
        [("1", t("VirtualTopic.x"), None)],
    ),
    "prefix and postfix": Case(
        [q("Sub.A.AFFIXED.x.Q"), q("Sub.B.AFFIXED.x"), q("Sub.B.C.AFFIXED.x.Q"), t("AFFIXED.x")],
        [(t("AFFIXED.x"), "1", "")],
        [("1", q("Sub.A.AFFIXED.x.Q"), t("AFFIXED.x")), ("1", t("AFFIXED.x"), None)],
    ),
    TWO_PREFIXES: Case(
        [q("A.B.TWO.x"), q("A.C.TWO.x"), q("D.B.TWO.x")],
        [(t("TWO.x"), "1", "")],
        [("1", q(f"{prefix}.TWO.x"), t("TWO.x")) for prefix in ("A.B", "A.C", "D.B")],
    ),
    "aware of selectors": Case(
        [
            (q("Consumer.A.AWARE.x"), "odd = 'yes'"),
            (q("Consumer.A.AWARE.x"), "odd = 'no'"),
            (q("Consumer.B.AWARE.x"), "odd = 'no'"),
            t("AWARE.x"),
        ],
        [(t("AWARE.x"), odd, odd) for odd in ODD_EVEN],
        [
            *((odd, t("AWARE.x"), None) for odd in ODD_EVEN),
            *((odd, q("Consumer.A.AWARE.x"), t("AWARE.x")) for odd in ("yes", "no")),
            ("no", q("Consumer.B.AWARE.x"), t("AWARE.x")),
        ],
    ),
    "nothing was kept for others": Case([q("Consumer.A.AWARE.x"), q("Consumer.B.AWARE.x")], [], []),
    "without an original destination": Case(
        [q("Consumer.A.HIDDEN.x")], [(t("HIDDEN.x"), "1", "")], [("1", q("Consumer.A.HIDDEN.x"), None)]
    ),
    "a queue and a topic": Case(
        [q("BOTH"), q("BOTH.a"), t("BOTH.t")],
        [(q("BOTH"), "1", "")],
        [("1", q("BOTH.a"), q("BOTH")), ("1", t("BOTH.t"), q("BOTH"))],
    ),
    "it stays there, too": Case(
        [q("STAYS"), q("STAYS.a")],
        [(q("STAYS"), "1", "")],
        [("1", q("STAYS.a"), q("STAYS")), ("1", q("STAYS"), None)],
    ),
    "by selectors": Case(
        [q("FILTERED"), q("FILTERED.odd"), t("FILTERED.even")],
        [(q("FILTERED"), odd, odd) for odd in ODD_EVEN],
        [("yes", q("FILTERED.odd"), q("FILTERED")), ("no", t("FILTERED.even"), q("FILTERED"))],
    ),
    "what is not matched": Case(
        [q("REST"), q("REST.odd")],
        [(q("REST"), odd, odd) for odd in ODD_EVEN],
        [("yes", q("REST.odd"), q("REST")), ("no", q("REST"), None), ("neither", q("REST"), None)],
    ),
    "what is not matched, and not only forwarded": Case(
        [q("ELSE"), q("ELSE.odd")],
        [(q("ELSE"), odd, odd) for odd in ODD_EVEN],
        [("yes", q("ELSE.odd"), q("ELSE")), ("no", q("ELSE"), None), ("neither", q("ELSE"), None)],
    ),
    "a wildcard": Case(
        [q("WILD"), q("WILD.x"), q("TAMED")],
        [(q(name), name, "") for name in ("WILD", "WILD.x", "WILD.x.y")],
        [(name, q("TAMED"), q(name)) for name in ("WILD", "WILD.x", "WILD.x.y")],
    ),
    "composites forward to others": Case(
        [*(q(name) for name in ("NESTED", "INNER", "INNER.a", "Consumer.A.VT.nested")), t("VT.nested")],
        [(q("NESTED"), "1", "")],
        [
            ("1", q("INNER"), q("NESTED")),
            ("1", q("INNER.a"), q("INNER")),
            ("1", q("Consumer.A.VT.nested"), t("VT.nested")),
            ("1", t("VT.nested"), q("NESTED")),
        ],
    ),
    "a topic": Case(
        [q("NEWS.a"), t("NEWS")], [(t("NEWS"), "1", "")], [("1", q("NEWS.a"), t("NEWS")), ("1", t("NEWS"), None)]
    ),
    "a topic, and nothing stays": Case(
        [q("GONE.a"), t("GONE")], [(t("GONE"), "1", "")], [("1", q("GONE.a"), t("GONE"))]
    ),
    ONE_TWICE: Case([q("TWICE.a")], [(q("TWICE"), "1", "")], [("1", q("TWICE.a"), q("TWICE"))]),
    "a part of a composite name": Case(
        [q("BOTH.a"), q("PLAIN")],
        [(f"{q('BOTH')},PLAIN", "1", "")],
        [("1", q("BOTH.a"), q("BOTH")), ("1", q("PLAIN"), "named")],
    ),
    "mirrored": Case(
        [q("MIRRORED"), q("BOTH.a"), *(t(f"Mirror.{name}.M") for name in ("MIRRORED", "BOTH", "BOTH.a"))],
        [(q("MIRRORED"), "1", ""), (q("BOTH"), "2", "")],
        [
            ("1", q("MIRRORED"), None),
            ("1", t("Mirror.MIRRORED.M"), None),
            ("2", q("BOTH.a"), q("BOTH")),
            ("2", t("Mirror.BOTH.M"), None),
            ("2", t("Mirror.BOTH.a.M"), q("BOTH")),
        ],
    ),
}


def document(folder: Path, port: int) -> Path:
    file = folder / "activemq.xml"
    file.write_text(FILE.format(folder=folder, port=port))
    return file


@pytest.fixture(scope="module")
def theirs(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    folder, port = tmp_path_factory.mktemp("theirs"), free_port()
    document(folder, port)
    with JavaBroker(class_path, folder, port):
        yield "127.0.0.1", port


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    folder, port = tmp_path_factory.mktemp("ours"), free_port()
    with BrokerProcess(None, folder, "--config", str(document(folder, port))):
        yield "127.0.0.1", port


@pytest.fixture(params=["theirs", "ours"])
def either(request: pytest.FixtureRequest) -> Address:
    address: Address = request.getfixturevalue(request.param)
    return address


def got(frame: Frame) -> Got:
    original = frame.headers.get("original-destination")
    return frame.text, frame.headers["destination"], "named" if original and "," in original else original


@pytest.mark.parametrize(
    ("name", "persistent"),
    # Where there are two ways to a queue, what is not persistent comes twice from a Java broker.
    [(name, mode) for name in CASES for mode in ("true", "false") if mode == "true" or name not in TWO_WAYS],
)
def test_it_goes_to_the_same_places(either: Address, name: str, persistent: str) -> None:
    case = CASES[name]
    with Client(either) as consumer, Client(either) as sender:
        consumer.connect()
        sender.connect()
        for number, asked in enumerate(case.subscribed):
            destination, *selector = (asked,) if isinstance(asked, str) else asked
            consumer.subscribe(destination, id=str(number), **({"selector": selector[0]} if selector else {}))
        consumer.done("BEGIN", {"transaction": "after it"})  # a Java broker answers SUBSCRIBE before it is done
        for destination, text, odd in case.sent:
            headers = {"destination": destination, "persistent": persistent, **({"odd": odd} if odd else {})}
            sender.done("SEND", headers, text)
        assert sorted(map(str, (got(consumer.message()) for _ in case.came))) == sorted(map(str, case.came))
        assert consumer.is_silent(0.1)


def test_nothing_is_in_a_queue_that_only_forwards(either: Address) -> None:
    with Client(either) as client:
        client.connect()
        client.publish("/queue/BOTH", "1")
        client.subscribe("/queue/BOTH", browser="true")
        assert client.message().headers["browser"] == "end"
        client.subscribe("/queue/BOTH.a", id="a")
        assert client.message().text == "1"


@pytest.mark.parametrize("end", ["ABORT", "COMMIT"])
def test_copies_are_part_of_the_transaction(either: Address, end: str) -> None:
    with Client(either) as client:
        client.connect()
        client.subscribe("/queue/BOTH.a")
        client.done("BEGIN", {"transaction": "t"})
        client.done("SEND", {"destination": "/queue/BOTH", "transaction": "t", "persistent": "true"}, "1")
        assert client.is_silent(0.1)
        client.done(end, {"transaction": "t"})
        if end == "COMMIT":
            assert client.message().text == "1"
        assert client.is_silent(0.1)


def test_dead_letters_are_sent_like_others(either: Address) -> None:
    with Client(either) as client:
        client.connect()
        client.subscribe("/queue/REFUSED", "client-individual", id="refused")
        client.publish("/queue/REFUSED", "1")
        client.ack(client.message(), "NACK")
        client.subscribe("/queue/DEAD", id="dead")
        client.subscribe("/queue/ActiveMQ.DLQ", id="dlq")
        came = sorted((frame.headers["destination"], got(frame)[2]) for frame in (client.message(), client.message()))
        assert came == [("/queue/ActiveMQ.DLQ", "/queue/REFUSED"), ("/queue/DEAD", "/queue/ActiveMQ.DLQ")]


def test_temporary_queues_are_mirrored(either: Address) -> None:
    with Client(either) as client:
        client.connect()
        client.subscribe("/temp-queue/x", id="temporary")
        client.subscribe("/topic/Mirror.>", id="mirror")
        client.publish("/temp-queue/x", "1")
        came = {client.message().headers["destination"] for _ in range(2)}
        assert "/temp-queue/x" in came
        (mirror,) = came - {"/temp-queue/x"}
        assert mirror.startswith("/topic/Mirror.ID:")
        assert mirror.endswith(".M")
