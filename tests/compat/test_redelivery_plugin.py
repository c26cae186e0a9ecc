"""``<redeliveryPlugin>`` of one ``activemq.xml``: a real ActiveMQ and ours deliver again what a client refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.broker.client import Address, Client, Frame
from tests.broker_process import BrokerProcess
from tests.compat.activemq import JmsClients
from tests.compat.java_broker import JavaBroker
from tests.servers.server import free_port

pytestmark = pytest.mark.timeout(200)

FILE = """<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://www.springframework.org/schema/beans
      http://www.springframework.org/schema/beans/spring-beans.xsd
      http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="again" useJmx="false" schedulerSupport="true"
      dataDirectory="{folder}/data">
    <persistenceAdapter><kahaDB directory="{folder}/kahadb"/></persistenceAdapter>
    <plugins>
      <redeliveryPlugin fallbackToDeadLetter="{fallback}" sendToDlqIfMaxRetriesExceeded="{limit}">
        <redeliveryPolicyMap><redeliveryPolicyMap><redeliveryPolicyEntries>
          <redeliveryPolicy queue="AGAIN" maximumRedeliveries="2" initialRedeliveryDelay="1000" redeliveryDelay="1000"
            useExponentialBackOff="true" backOffMultiplier="1.5"/>
          <redeliveryPolicy queue="ONCE" maximumRedeliveries="1"/>
        </redeliveryPolicyEntries></redeliveryPolicyMap></redeliveryPolicyMap>
      </redeliveryPlugin>
    </plugins>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:{port}"/>
      <transportConnector name="openwire" uri="tcp://127.0.0.1:{openwire_port}"/>
    </transportConnectors>
  </broker>
</beans>
"""


class Ports(NamedTuple):
    """Where a broker listens."""

    stomp: int
    openwire: int

    @property
    def address(self) -> Address:
        return "127.0.0.1", self.stomp


@pytest.fixture(scope="module", params=["theirs", "ours"])
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    yield from started(request, tmp_path_factory.mktemp("again"), fallback="true", limit="true")


@pytest.fixture(scope="module", params=["theirs", "ours"])
def forgetful(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    """A broker that keeps no dead letters of what is refused."""
    yield from started(request, tmp_path_factory.mktemp("forgetful"), fallback="false", limit="false")


def started(request: pytest.FixtureRequest, folder: Path, **values: str) -> Iterator[Ports]:
    port, openwire_port, file = free_port(), free_port(), folder / "activemq.xml"
    file.write_text(FILE.format(folder=folder, port=port, openwire_port=openwire_port, **values))
    if request.param == "ours":
        with BrokerProcess(None, folder, "--config", str(file)):
            yield Ports(port, openwire_port)
    else:
        with JavaBroker(request.getfixturevalue("class_path"), folder, port):
            yield Ports(port, openwire_port)


@pytest.fixture
def client(either: Ports) -> Iterator[Client]:
    with Client(either.address) as client:
        client.connect()
        yield client


def told(frame: Frame) -> dict[str, str | None]:
    names = ("message-id", "redelivered", "redeliveryDelay", "AMQ_SCHEDULED_DELAY", "kept")
    return {name: frame.headers.get(name) for name in names}


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_it_comes_again_as_often_as_the_policy_says(client: Client, persistent: str) -> None:
    client.subscribe("/queue/AGAIN", "client-individual")
    client.publish("/queue/AGAIN", "1", kept="yes", persistent=persistent)
    message = client.message()
    first = told(message)
    for delay_ms in (1000, 1500):
        client.ack(message, "NACK")
        message = client.message()
        assert message.text == "1"
        assert told(message) == {**first, "redelivered": "true", "redeliveryDelay": str(delay_ms)}
    client.ack(message, "NACK")
    assert client.is_silent(2)
    if persistent == "true":
        client.subscribe("/queue/ActiveMQ.DLQ", id="dead")
        assert client.message().headers["original-destination"] == "/queue/AGAIN"


def test_others_go_on_meanwhile(client: Client) -> None:
    client.subscribe("/queue/AGAIN", "client-individual")
    for text in ("1", "2"):
        client.publish("/queue/AGAIN", text)
    client.ack(client.message(), "NACK")
    for text in ("2", "1"):
        message = client.message()
        assert message.text == text
        client.ack(message)


def test_without_a_policy_it_is_a_dead_letter(client: Client) -> None:
    client.subscribe("/queue/OTHER", "client-individual")
    client.publish("/queue/OTHER", "1")
    client.ack(client.message(), "NACK")
    client.subscribe("/queue/ActiveMQ.DLQ", id="dead")
    assert client.message().headers["original-destination"] == "/queue/OTHER"


def test_a_jms_client_that_allows_none_gets_it_again(class_path: str, either: Ports) -> None:
    """One that is of the usual kind, without a word of the plugin."""
    jms = JmsClients(class_path, f"tcp://127.0.0.1:{either.openwire}")
    assert jms.run("RefusingClient", "AGAIN", "3") == [
        {"same": True, "redelivered": count > 1, "count": count, "delay": delay_ms}
        for count, delay_ms in ((1, 0), (2, 1000), (3, 1500))
    ]


def test_what_is_not_delivered_again_vanishes(forgetful: Ports) -> None:
    with Client(forgetful.address) as client:
        client.connect()
        client.subscribe("/queue/ActiveMQ.DLQ", id="dead")
        client.subscribe("/queue/OTHER", "client-individual", id="other")
        client.subscribe("/queue/ONCE", "client-individual", id="once")
        client.publish("/queue/OTHER", "1")
        client.ack(client.message(), "NACK")
        client.publish("/queue/ONCE", "2")
        for _ in range(2):
            message = client.message()
            assert message.text == "2"
            client.ack(message, "NACK")
        assert client.is_silent(1.5)
    with Client(forgetful.address) as client:
        client.connect()
        for queue in ("OTHER", "ONCE"):
            client.subscribe(f"/queue/{queue}", id=queue)
        assert client.is_silent(0.2)
