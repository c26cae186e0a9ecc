"""Names of destinations: what is refused makes nothing, and what another broker has stored is served all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import Broker, open_store
from jdbcstore.config.urls import open_engine
from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import JdbcStoreError
from jdbcstore.openwire import commands as c
from jdbcstore.openwire import marshal
from jdbcstore.store.contract import PersistenceAdapter, SupportsScheduling
from jdbcstore.testing.messages import text_message
from tests.broker.client import Address, Client
from tests.broker.conftest import RUNNING, OpenClient, StartBroker
from tests.broker.openwire_client import OpenWireClient
from tests.migrations.activemq import start_java_broker
from tests.waiting import wait_until

#: Names that nobody can give to a new queue: with a control character, and one that is too long for the column.
CONTROL, LONG = "A\nB", "L" * 243


def by_stomp(command: str, destination: str, **headers: str) -> Callable[[Address], str]:
    def use(address: Address) -> str:
        with Client(address) as client:
            client.connect(client_id="c1")
            given = {"destination": destination, **({"id": "1"} if command == "SUBSCRIBE" else {}), **headers}
            answer = client.request(command, given)
            return answer.headers["message"] if answer.command == "ERROR" else ""

    return use


def by_openwire(make: Callable[[OpenWireClient], c.Response]) -> Callable[[Address], str]:
    def use(address: Address) -> str:
        with OpenWireClient(address) as client:
            answer = make(client)
            refused = answer.exception if isinstance(answer, c.ExceptionResponse) else None
            return "" if refused is None else refused.message or ""

    return use


def sends(name: str, *, persistent: bool) -> Callable[[Address], str]:
    return by_openwire(lambda client: client.send(Queue(name), "x", persistent=persistent))


def consumes(destination: Destination, **given: object) -> Callable[[Address], str]:
    def ask(client: OpenWireClient) -> c.Response:
        info = c.ConsumerInfo(consumer_id=client.consumer_id(), destination=destination, prefetch_size=1)
        for name, value in given.items():
            setattr(info, name, value)
        return client.ask(info)

    return by_openwire(ask)


def consumes_durably(topic: Topic, **given: object) -> Callable[[Address], str]:
    return consumes(topic, **{"subscription_name": "s", **given})


def by_program(use: Callable[[jdbcstore.Connection], object], client_id: str | None = None) -> Callable[[Address], str]:
    def called(address: Address) -> str:
        with jdbcstore.connect(RUNNING[address], client_id=client_id) as connection:
            try:
                use(connection)
            except JdbcStoreError as error:
                return str(error)
        return ""

    return called


DELAYED = {"AMQ_SCHEDULED_DELAY": "10"}


@pytest.mark.parametrize(
    "use",
    [
        by_stomp("SEND", "/queue/A\\nB", persistent="true"),
        by_stomp("SEND", "/queue/A\\nB"),
        by_stomp("SEND", "/topic/A\\nB", persistent="true"),
        by_stomp("SEND", "/queue/OK,/queue/A\\nB", persistent="true"),
        by_stomp("SEND", "/queue/OK,/queue/A\\nB"),
        by_stomp("SEND", "/queue/A\\nB", persistent="true", **DELAYED),
        by_stomp("SEND", "/queue/jdbcstore.Pauses", persistent="true"),
        by_stomp("SEND", "/queue/jdbcstore.Pauses", persistent="true", **DELAYED),
        by_stomp("SEND", "/queue/OK,/queue/jdbcstore.Pauses"),
        by_stomp("SEND", "/queue/OK,/queue/jdbcstore.Pauses", persistent="true"),
        by_stomp("SEND", "/topic/VirtualTopic.A\\nB", persistent="true"),
        by_stomp("SUBSCRIBE", "/queue/A\\nB"),
        by_stomp("SUBSCRIBE", "/queue/OK,/queue/A\\nB"),
        by_stomp("SUBSCRIBE", "/topic/OK,/topic/A\\nB"),
        by_stomp("SUBSCRIBE", "/topic/A\\nB", **{"activemq.subscriptionName": "s"}),
        by_stomp("SUBSCRIBE", f"/topic/{LONG}", **{"activemq.subscriptionName": "s"}),
        by_stomp("SUBSCRIBE", "/topic/A", **{"activemq.subscriptionName": "s" * 251}),
        by_stomp("SUBSCRIBE", "/queue/A\\nB", browser="true"),
        sends(CONTROL, persistent=True),
        sends(CONTROL, persistent=False),
        sends(LONG, persistent=True),
        sends(LONG, persistent=False),
        sends(f"OK,{LONG}", persistent=True),
        consumes(Queue(CONTROL)),
        consumes(Queue(LONG)),
        consumes(Queue(f"OK,{LONG}")),
        consumes(Queue(LONG), browser=True),
        consumes_durably(Topic(LONG)),
        consumes_durably(Topic("A"), subscription_name="s" * 251),
        consumes_durably(Topic("A"), subscription_name="a\0b"),
        consumes_durably(Topic(f"{LONG}.>")),
        by_program(lambda connection: connection.send(CONTROL, "x")),
        by_program(lambda connection: connection.send(CONTROL, "x", persistent=False)),
        by_program(lambda connection: connection.subscribe(CONTROL)),
        by_program(lambda connection: list(connection.browse(CONTROL))),
        by_program(lambda connection: connection.subscribe(f"topic://{LONG}", durable="s"), client_id="c1"),
        by_program(lambda connection: connection.subscribe("topic://A", durable="s" * 251), client_id="c1"),
    ],
)
def test_what_is_refused_for_its_name_makes_nothing(
    use: Callable[[Address], str], start_broker: StartBroker, sqlite_store: PersistenceAdapter
) -> None:
    address = start_broker(sqlite_store, bind="auto://127.0.0.1:0")
    told = use(address)
    reasons = (
        "control characters",
        "has 251 characters",
        "has 253 characters",
        "longer than 250 characters",
        "may have 250 characters",
        "no database column takes",
        "keeps what operators have paused",
    )
    assert any(reason in told for reason in reasons), told
    broker = RUNNING[address]
    assert not [one for one in destinations(broker) if not one.is_advisory]
    assert not broker.durables.all()
    assert isinstance(sqlite_store, SupportsScheduling)
    assert sqlite_store.job_store().job_count() == 0


def destinations(broker: Broker) -> list[Destination]:
    return [*list(broker.queues), *list(broker.topics)]


MANAGEMENT, STATISTICS = "/topic/ActiveMQ.Scheduler.Management", "/queue/ActiveMQ.Statistics.Broker"


@pytest.mark.parametrize(("question", "order"), [(MANAGEMENT, {"AMQ_SCHEDULER_ACTION": "BROWSE"}), (STATISTICS, {})])
def test_the_broker_answers_each_destination_of_a_composite_and_no_wildcard(
    question: str,
    order: dict[str, str],
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
) -> None:
    address = start_broker(sqlite_store, statistics_support=True)
    client = open_client(address)
    client.done("SEND", {"destination": "/queue/LATER", "persistent": "true", "AMQ_SCHEDULED_DELAY": "3600000"}, "x")
    client.done("SEND", {"destination": question, "reply-to": "/queue/A,/topic/B,/queue/C", **order})
    broker = RUNNING[address]
    wait_until(lambda: {Queue("A"), Topic("B"), Queue("C")} <= {*destinations(broker)})
    for wrong in ("/queue/>", "/queue/A,/topic/B.*", "/queue/A\\nB"):
        with Client(address) as other:
            other.connect()
            told = other.request("SEND", {"destination": question, "reply-to": wrong, **order})
            assert told.command == "ERROR", told
    assert all(one.is_storable for one in destinations(broker))


@pytest.mark.parametrize("name", ["no\u00a0break", "tab\tbed", "zero\u200bwidth", "line\nbreak"])
def test_a_queue_that_a_java_broker_has_named_oddly_is_served(
    name: str, start_broker: StartBroker, open_client: OpenClient, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'b.db'}"
    engine = open_engine(url)
    start_java_broker(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, MSG, PRIORITY)"
            " VALUES (1, ?, 'ID:j-1-2:1:1:1', 1, 0, ?, 4)",
            (f"queue://{name}", marshal(text_message(1, destination=Queue(name)))),
        )
    engine.dispose()
    client = open_client(start_broker(open_store(url)))
    shown = name.replace("\n", "\\n")
    client.subscribe(f"/queue/{shown}")
    assert client.message().text == "message 1"
    client.publish(f"/queue/{shown}", "two")
    assert client.message().text == "two"


def test_a_new_queue_may_have_any_character_that_is_no_control_character(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    client = open_client(start_broker(sqlite_store))
    name = "/queue/a\u00a0b\u200b\U0001f9d1\u200d\U0001f680\ue000"
    client.publish(name, "x", persistent="true")
    client.subscribe(name)
    assert client.message().text == "x"
