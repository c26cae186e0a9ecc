"""``<pendingMessageLimitStrategy>`` of one ``activemq.xml``: a real ActiveMQ and ours keep the same messages for a
subscriber of a topic that does not keep up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from tests.broker.client import Address, Client
from tests.broker_process import BrokerProcess
from tests.compat.java_broker import JavaBroker
from tests.servers.server import free_port

pytestmark = pytest.mark.timeout(200)

FILE = """<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://www.springframework.org/schema/beans
      http://www.springframework.org/schema/beans/spring-beans.xsd
      http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="evicting" useJmx="false" schedulerSupport="false"
      dataDirectory="{folder}/data">
    <destinationPolicy><policyMap><policyEntries>
      <policyEntry topic="OLDEST" advisoryForDiscardingMessages="true" includeBodyForAdvisory="true">
        <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="3"/></pendingMessageLimitStrategy>
      </policyEntry>
      <policyEntry topic="NONE">
        <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="0"/></pendingMessageLimitStrategy>
      </policyEntry>
      <policyEntry topic="LOWEST">
        <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="3"/></pendingMessageLimitStrategy>
        <messageEvictionStrategy><oldestMessageWithLowestPriorityEvictionStrategy/></messageEvictionStrategy>
      </policyEntry>
      <policyEntry topic="UNIQUE">
        <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="3"/></pendingMessageLimitStrategy>
        <messageEvictionStrategy>
          <uniquePropertyMessageEvictionStrategy propertyName="share"/>
        </messageEvictionStrategy>
      </policyEntry>
    </policyEntries></policyMap></destinationPolicy>
    <persistenceAdapter><kahaDB directory="{folder}/kahadb"/></persistenceAdapter>
    <transportConnectors><transportConnector name="stomp" uri="stomp://127.0.0.1:{port}"/></transportConnectors>
  </broker>
</beans>
"""


@pytest.fixture(scope="module", params=["theirs", "ours"])
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    folder = tmp_path_factory.mktemp("evicting")
    port, file = free_port(), folder / "activemq.xml"
    file.write_text(FILE.format(folder=folder, port=port))
    if request.param == "ours":
        with BrokerProcess(None, folder, "--config", str(file)):
            yield "127.0.0.1", port
    else:
        with JavaBroker(request.getfixturevalue("class_path"), folder, port):
            yield "127.0.0.1", port


Sent = list[dict[str, str]]


class Case(NamedTuple):
    """The headers of what is sent, and which of them a subscriber gets that has acknowledged nothing meanwhile."""

    topic: str
    sent: Sent
    kept: list[int]
    prefetch: int = 1
    limit: str = "0"


def shares(names: str) -> Sent:
    return [{} if name == "-" else {"share": name} for name in names]


CASES: Final = {
    "the oldest": Case("OLDEST", [{}] * 8, [0, 5, 6, 7]),
    "what its prefetch has room for is not lost": Case("OLDEST", [{}] * 8, [0, 1, 5, 6, 7], prefetch=2),
    "it wants less": Case("OLDEST", [{}] * 8, [0, 6, 7], limit="2"),
    "it wants more": Case("OLDEST", [{}] * 8, [0, 5, 6, 7], limit="9"),
    "without a policy a wish does not count": Case("PLAIN", [{}] * 8, list(range(8)), limit="2"),
    "nothing waits": Case("NONE", [{}] * 8, [0, 1], prefetch=2),
    "the oldest of the lowest priority": Case(
        "LOWEST", [{"priority": priority} for priority in "45394389"], [0, 3, 6, 7]
    ),
    "all but the last of each": Case("UNIQUE", shares("abacbdab"), [0, 5, 6, 7]),
    "all are different": Case("UNIQUE", shares("zabcdefg"), [0, 5, 6, 7]),
    "those without the property": Case("UNIQUE", shares("aa-bc-a-"), [0, 3, 4, 6]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_messages_are_kept(either: Address, name: str) -> None:
    case = CASES[name]
    destination = f"/topic/{case.topic}"
    with Client(either) as subscriber, Client(either) as sender:
        subscriber.connect()
        sender.connect()
        headers = {"activemq.prefetchSize": str(case.prefetch), "activemq.maximumPendingMessageLimit": case.limit}
        subscriber.subscribe(destination, "client-individual", **headers)
        subscriber.done("BEGIN", {"transaction": "after it"})  # a Java broker answers SUBSCRIBE before it is done
        for number, sent in enumerate(case.sent):
            sender.done("SEND", {"destination": destination, "persistent": "false", **sent}, str(number))
        came: list[str] = []
        for _ in case.kept:
            message = subscriber.message()
            came.append(message.text)
            subscriber.ack(message)
        assert came == list(map(str, case.kept))
        assert subscriber.is_silent(0.1)


def test_what_is_persistent_is_a_dead_letter(either: Address) -> None:
    """Once, however many lose it."""
    with Client(either) as client, Client(either) as other:
        client.connect()
        other.connect()
        for subscriber in (client, other):
            subscriber.subscribe("/topic/OLDEST", "client-individual", **{"activemq.prefetchSize": "1"})
            subscriber.done("BEGIN", {"transaction": "after it"})
        for number in range(6):
            client.publish("/topic/OLDEST", str(number))
        client.subscribe("/queue/ActiveMQ.DLQ", id="dead")
        dead = [frame for frame in (client.message() for _ in range(3)) if frame.headers["subscription"] == "dead"]
        assert [frame.text for frame in dead] == ["1", "2"]
        for frame in dead:
            assert "TopicSubDiscard. ID:" in frame.headers["dlqDeliveryFailureCause"]
            assert frame.headers["original-destination"] == "/topic/OLDEST"
        assert client.is_silent(0.1)
