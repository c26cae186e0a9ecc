"""``usePrefetchExtension`` of one ``activemq.xml``: a real ActiveMQ and ours give a consumer as many messages while
it is not done with those that it has. How many those are without the policy `test_openwire_commands` compares."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.identifiers import ConnectionId, LocalTransactionId
from jdbcstore.openwire import commands as c
from tests.broker.client import Address, Client
from tests.broker.openwire_client import OpenWireClient
from tests.broker_process import BrokerProcess
from tests.compat.java_broker import JavaBroker
from tests.servers.server import free_port

pytestmark = pytest.mark.timeout(200)

FILE = """<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://www.springframework.org/schema/beans
      http://www.springframework.org/schema/beans/spring-beans.xsd
      http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="prefetching" useJmx="false"
      schedulerSupport="false" dataDirectory="{folder}/data">
    <destinationPolicy><policyMap><policyEntries>
      <policyEntry queue="NARROW.>" usePrefetchExtension="false"/>
      <policyEntry topic="NARROW.>" usePrefetchExtension="false"/>
    </policyEntries></policyMap></destinationPolicy>
    <persistenceAdapter><kahaDB directory="{folder}/kahadb"/></persistenceAdapter>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:{port}"/>
      <transportConnector name="openwire" uri="tcp://127.0.0.1:{openwire_port}"/>
    </transportConnectors>
  </broker>
</beans>
"""


#: In which a message would come that is on its way.
_SILENCE_S: Final = 0.1


class Addresses(NamedTuple):
    """Where a broker listens."""

    stomp: Address
    openwire: Address


@pytest.fixture(scope="module", params=["theirs", "ours"])
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    folder = tmp_path_factory.mktemp("prefetching")
    port, openwire_port, file = free_port(), free_port(), folder / "activemq.xml"
    file.write_text(FILE.format(folder=folder, port=port, openwire_port=openwire_port))
    addresses = Addresses(("127.0.0.1", port), ("127.0.0.1", openwire_port))
    if request.param == "ours":
        with BrokerProcess(None, folder, "--config", str(file)):
            yield addresses
    else:
        with JavaBroker(request.getfixturevalue("class_path"), folder, port):
            yield addresses


#: A step of a consumer: a kind of acknowledgement, of how many messages, in a transaction or not; or the end of that.
Step = tuple[int, int, bool] | int

_DELIVERED, _STANDARD, _INDIVIDUAL = c.ACK_DELIVERED, c.ACK_STANDARD, c.ACK_INDIVIDUAL
_COMMIT, _ABORT = 2, 4
PREFETCH: Final = 4

#: Steps, and how many messages the consumer has had before the first and after each.
CASES: Final[dict[str, tuple[list[Step], list[int]]]] = {
    "with the application": ([(_DELIVERED, 2, False), (_STANDARD, 2, False), (_DELIVERED, 2, False)], [4, 4, 6, 6]),
    "in a transaction": ([(_STANDARD, 2, True), (_STANDARD, 2, True), _COMMIT], [4, 4, 4, 8]),
    "one by one": ([(_INDIVIDUAL, 1, True), (_INDIVIDUAL, 1, True), _COMMIT], [4, 4, 4, 6]),
    "rolled back": ([(_INDIVIDUAL, 1, True), _ABORT], [4, 4, 4]),
    "a session": ([(_DELIVERED, 2, False), (_STANDARD, 2, True), _COMMIT, (_DELIVERED, 3, False)], [4, 4, 4, 6, 6]),
}


@pytest.mark.parametrize("kind", [Queue, Topic])
@pytest.mark.parametrize("name", CASES)
def test_a_jms_consumer_holds_no_more_than_its_prefetch(
    either: Addresses, name: str, kind: type[Queue | Topic]
) -> None:
    steps, had = CASES[name]
    destination = kind(f"NARROW.{name.replace(' ', '-')}")
    with OpenWireClient(either.openwire) as client, OpenWireClient(either.openwire) as sender:
        own = ConnectionId(client.name)
        transaction = LocalTransactionId(5, own)
        client.subscribe(destination, PREFETCH)
        client.ask(c.TransactionInfo(connection_id=own, transaction_id=transaction, type=0))
        came = _come(client, sender, destination, PREFETCH * 3)
        found, acknowledged = [len(came)], 0
        for step in steps:
            if isinstance(step, int):
                client.ask(c.TransactionInfo(connection_id=own, transaction_id=transaction, type=step))
                client.ask(c.TransactionInfo(connection_id=own, transaction_id=transaction, type=0))
            else:
                kind_of_ack, count, is_transacted = step
                first, last = came[acknowledged], came[acknowledged + count - 1]
                client.acknowledge(first, last, kind_of_ack, count, transaction if is_transacted else None)
                acknowledged += 0 if kind_of_ack == _DELIVERED else count
            came += _come(client, sender, destination)
            found.append(len(came))
        assert found == had


def _come(
    client: OpenWireClient, sender: OpenWireClient, destination: Destination, count: int = 0
) -> list[c.MessageDispatch]:
    """What has come when some more was sent, and time has passed in which something could have."""
    for number in range(count):
        sender.send(destination, str(number), persistent=False)
    time.sleep(_SILENCE_S)
    client.ask(c.SessionInfo(session_id=client.session_id))
    came, client.came = client.came, []
    return [one for one in came if isinstance(one, c.MessageDispatch)]


@pytest.mark.parametrize("kind", ["queue", "topic"])
@pytest.mark.parametrize(("end", "had"), [("COMMIT", [4, 4, 6]), ("ABORT", [4, 4, 4])])
def test_a_stomp_subscriber_holds_no_more_than_its_prefetch(
    either: Addresses, kind: str, end: str, had: list[int]
) -> None:
    destination = f"/{kind}/NARROW.{end}"
    with Client(either.stomp) as client:
        client.connect()
        client.subscribe(destination, "client-individual", **{"activemq.prefetchSize": str(PREFETCH)})
        client.done("BEGIN", {"transaction": "after it"})  # a Java broker answers SUBSCRIBE before it is done
        for number in range(3 * PREFETCH):
            client.done("SEND", {"destination": destination}, str(number))
        messages = [client.message() for _ in range(PREFETCH)]
        client.done("BEGIN", {"transaction": "t"})
        for message in messages[:2]:
            client.done("ACK", {**client.named(message), "transaction": "t"})
        found = [PREFETCH, PREFETCH + _count(client)]
        client.done(end, {"transaction": "t"})
        found.append(found[-1] + _count(client))
        assert found == had


def _count(client: Client) -> int:
    """How many messages come before the broker is silent."""
    count = 0
    while not client.is_silent(_SILENCE_S):
        client.message()
        count += 1
    return count
