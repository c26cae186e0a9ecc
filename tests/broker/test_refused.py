"""What a client refuses comes again if a policy says so: the broker keeps it as a scheduled message meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from jdbcstore import Broker, BrokerOptions, PersistenceAdapter, Queue, open_store, running
from jdbcstore.broker.destination_policy import RedeliveryPolicy
from jdbcstore.broker.virtual_destinations import CompositeDestination, ForwardTo, MirroredQueue, VirtualDestinations
from jdbcstore.config.urls import open_spool
from jdbcstore.errors import ConfigurationError
from jdbcstore.openwire import commands as c
from jdbcstore.store.memory import MemoryPersistenceAdapter
from tests.broker.client import Client, Frame
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.openwire_client import OpenWireClient
from tests.broker.test_receipts import commits_fail
from tests.broker.test_scheduling import Wall
from tests.servers.prepared import PreparedFile
from tests.waiting import wait_until

HOUR_MS = 3_600_000
#: They wait until the clock is moved.
POLICY = RedeliveryPolicy(
    maximum_redeliveries=1, initial_redelivery_delay_ms=HOUR_MS, redelivery_delay_ms=HOUR_MS, schedule_refused=True
)


def refused(client: Client, *destinations: str) -> list[Frame]:
    """Subscribe, and refuse the first message of each."""
    for number, destination in enumerate(destinations):
        client.subscribe(destination, "client-individual", id=str(number))
    messages = [client.message() for _ in destinations]
    for message in messages:
        client.done("NACK", client.named(message))
    return messages


def jobs(broker: Broker) -> int:
    return broker.scheduler._count


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_the_parts_of_a_composite_come_again_each(
    start_broker: StartBroker,
    open_client: OpenClient,
    brokers: list[Broker],
    sqlite_store: PersistenceAdapter,
    persistent: str,
) -> None:
    """They have one id."""
    client = open_client(start_broker(sqlite_store, redelivery=[POLICY]))
    client.publish("/queue/A,/queue/B", "1", persistent=persistent)
    first = refused(client, "/queue/A", "/queue/B")
    assert jobs(brokers[0]) == 2
    assert client.is_silent(0.1)
    Wall(brokers[0]).move(2 * HOUR_MS)
    again = [client.message() for _ in first]
    assert sorted(frame.headers["destination"] for frame in again) == ["/queue/A", "/queue/B"]
    assert {frame.headers["message-id"] for frame in again} == {frame.headers["message-id"] for frame in first}
    assert {frame.headers["JMSXDeliveryCount"] for frame in again} == {"2"}


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_no_copies_are_made_again(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], persistent: str
) -> None:
    """Who got a copy when it was sent has it."""
    to = ForwardTo(destination=Queue("B"))
    composite = CompositeDestination(name=Queue("A"), forward_to=(to,), forward_only=False)
    virtual = VirtualDestinations(composites=(composite,), mirrored_queue=MirroredQueue())
    client = open_client(start_broker(redelivery=[POLICY], virtual=virtual))
    client.subscribe("/topic/VirtualTopic.Mirror.A", id="mirror")
    client.publish("/queue/A", "1", persistent=persistent)
    assert client.message().headers["subscription"] == "mirror"
    refused(client, "/queue/A")
    Wall(brokers[0]).move(2 * HOUR_MS)
    assert client.message().headers["subscription"] == "0"
    assert client.is_silent(0.1)
    assert client.rest_of("/queue/B") == ["1"]


@pytest.mark.parametrize(
    "asked", [{"AMQ_SCHEDULED_CRON": "* * * * *"}, {"AMQ_SCHEDULED_PERIOD": "1", "AMQ_SCHEDULED_REPEAT": "9"}]
)
def test_it_comes_again_once_whatever_it_has_asked_for(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], asked: dict[str, str]
) -> None:
    """A message that tells a job is delivered at once, and keeps what it asks for."""
    client = open_client(start_broker(redelivery=[POLICY]))
    client.done("SEND", {"destination": "/queue/A", "scheduledJobId": "told", **asked}, "1")
    refused(client, "/queue/A")
    wall = Wall(brokers[0])
    wall.move(2 * HOUR_MS)
    assert client.message().text == "1"
    wall.move(2 * HOUR_MS)
    assert client.is_silent(0.1)
    assert jobs(brokers[0]) == 0


def test_it_waits_over_a_restart(tmp_path: Path, prepared_file: PreparedFile) -> None:
    url = prepared_file.url(tmp_path / "store.db")

    def served() -> Broker:
        return Broker(open_store(url), BrokerOptions(bind="127.0.0.1:0"), open_spool, (), [POLICY])

    with running(served()) as address, Client(address) as client:
        client.connect()
        client.publish("/queue/A", "1")
        refused(client, "/queue/A")
    broker = served()
    with running(broker) as address, Client(address) as client:
        client.connect()
        client.subscribe("/queue/A", "client-individual")
        assert client.is_silent(0.1)
        Wall(broker).move(2 * HOUR_MS)
        message = client.message()
        assert (message.text, message.headers["JMSXDeliveryCount"]) == ("1", "2")
        client.done("NACK", client.named(message))
        client.subscribe("/queue/ActiveMQ.DLQ", id="dead")
        assert client.message().text == "1"


def test_after_an_error_it_is_its_consumers_still(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], sqlite_store: PersistenceAdapter
) -> None:
    client = open_client(start_broker(sqlite_store, redelivery=[POLICY]))
    client.publish("/queue/A", "1")
    client.subscribe("/queue/A", "client-individual")
    message = client.message()
    with commits_fail():
        assert client.request("NACK", client.named(message)).command == "ERROR"
    assert jobs(brokers[0]) == 0
    client.done("ACK", client.named(message))
    assert brokers[0].queues[Queue("A")].depth == 0


def test_where_no_more_can_wait_the_client_hears_it(start_broker: StartBroker, open_client: OpenClient) -> None:
    client = open_client(start_broker(redelivery=[POLICY], scheduled_jobs_max=1))
    for text in ("1", "2"):
        client.publish("/queue/A", text)
    client.subscribe("/queue/A", "client-individual")
    first, second = client.message(), client.message()
    client.done("NACK", client.named(first))
    assert "scheduled_jobs_max is 1" in client.request("NACK", client.named(second)).headers["message"]


def test_what_nobody_can_mark_as_scheduled_becomes_a_dead_letter(start_broker: StartBroker) -> None:
    address = start_broker(redelivery=[POLICY], bind="openwire://127.0.0.1:0")
    with OpenWireClient(address) as client:
        message = client.message(Queue("A"), "1")
        message.marshalled_properties = b"no map"
        assert type(client.ask(message)) is c.Response
        client.subscribe(Queue("A"))
        delivery = client.dispatch()
        client.acknowledge(delivery, delivery, c.ACK_POISON)
        client.subscribe(Queue("ActiveMQ.DLQ"), number=2)
        assert client.text() == "1"


def test_a_durable_subscriber_refuses_for_itself(start_broker: StartBroker, open_client: OpenClient) -> None:
    client = open_client(start_broker(redelivery=[POLICY]), client_id="ann")
    client.subscribe("/topic/T", "client-individual", id="d", **{"activemq.subscriptionName": "news"})
    client.publish("/topic/T", "1")
    client.done("NACK", client.named(client.message()))
    client.subscribe("/queue/ActiveMQ.DLQ", id="dead")
    assert client.message().text == "1"


def test_what_comes_back_too_often_may_vanish(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    policy = RedeliveryPolicy(maximum_redeliveries=0, send_to_dlq_if_max_retries_exceeded=False)
    address = start_broker(redelivery=[policy])
    client, other = open_client(address), open_client(address)
    for text in ("given back", "refused"):
        client.publish("/queue/A", text)
        client.subscribe("/queue/A", "client-individual")
        message = client.message()
        if text == "refused":
            client.done("NACK", client.named(message))
        client.done("UNSUBSCRIBE", {"id": "1"})
    queues = brokers[0].queues
    wait_until(lambda: all(not queue.depth for queue in list(queues.values())), "nothing is left")
    assert other.rest_of("/queue/ActiveMQ.DLQ") == []


def test_a_scheduler_is_needed() -> None:
    with pytest.raises(ConfigurationError, match="schedule_refused needs scheduler_support"):
        Broker(MemoryPersistenceAdapter(), BrokerOptions(scheduler_support=False), open_spool, (), [POLICY])


@pytest.mark.parametrize(
    ("policy", "delays_ms"),
    [
        (RedeliveryPolicy(initial_redelivery_delay_ms=5, redelivery_delay_ms=7), [5, 7, 7]),
        (RedeliveryPolicy(initial_redelivery_delay_ms=5, redelivery_delay_ms=7, back_off_multiplier=3), [5, 15, 45]),
        (RedeliveryPolicy(initial_redelivery_delay_ms=0, redelivery_delay_ms=7), [0, 7, 7]),
        (
            RedeliveryPolicy(
                initial_redelivery_delay_ms=5,
                redelivery_delay_ms=7,
                back_off_multiplier=3,
                maximum_redelivery_delay_ms=20,
            ),
            [5, 15, 20],
        ),
    ],
)
def test_how_long_it_waits(policy: RedeliveryPolicy, delays_ms: Sequence[int]) -> None:
    waited_ms = 0
    for redeliveries, delay_ms in enumerate(delays_ms):
        waited_ms = policy.refused_delay_ms(redeliveries, waited_ms)
        assert waited_ms == delay_ms


def test_messages_that_were_refused_together_do_not_come_together() -> None:
    policy = RedeliveryPolicy(redelivery_delay_ms=1000, collision_avoidance_percent=10)
    for delays_ms in ([policy.refused_delay_ms(1, 1000) for _ in range(100)], [policy.delay_ms(2) for _ in range(100)]):
        assert len(set(delays_ms)) > 10
        assert all(900 <= delay_ms <= 1100 for delay_ms in delays_ms)
