"""A connection that is gone leaves nothing in memory, without the garbage collector: that looks at what has lived for
long as seldom as possible, and whole connections, with all that they held, would pile up until then."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from weakref import WeakSet

import pytest
from wsproto.events import TextMessage

from jdbcstore import Broker
from jdbcstore.destination import Queue, Topic
from tests.broker.client import Client
from tests.broker.conftest import StartBroker
from tests.broker.openwire_client import OpenWireClient
from tests.broker.test_tls import tls_options, trusting
from tests.broker.test_websocket import Browser, frame
from tests.certificates import Authority, Identity
from tests.waiting import wait_until

MESSAGES = 10

#: Ends a connection without a word.
Drop = Callable[[], object]


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """Nothing is freed but by its last reference."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def use(client: Client, version: str) -> Drop:
    """Let a client hold messages of queues and of a topic, in a transaction too."""
    client.connect(version)
    kinds = ("queue", "topic", "temp-queue")
    for kind in kinds:
        client.subscribe(f"/{kind}/freed", "client", kind)
    client.send("BEGIN", {"transaction": "t"})
    client.send("SEND", {"destination": "/queue/freed", "transaction": "t"}, "x")
    for kind in kinds:
        for _ in range(MESSAGES):
            client.send("SEND", {"destination": f"/{kind}/freed"}, "x")
    messages = [client.message() for _ in range(len(kinds) * MESSAGES)]
    client.ack(messages[0], transaction="t")
    client.ack(messages[-1])
    client.done("SEND", {"destination": "/queue/other"})
    return client.drop


def use_openwire(client: OpenWireClient) -> Drop:
    """The same of a JMS client."""
    for number, destination in enumerate((Queue("freed"), Topic("freed")), 1):
        client.subscribe(destination, number=number)
        for _ in range(MESSAGES):
            client.send(destination, "x")
    for _ in range(2 * MESSAGES):
        client.dispatch()
    return lambda: client.__exit__(None, None, None)


def use_websocket(browser: Browser) -> Drop:
    """The same of a script."""
    browser.connect()
    browser.say(TextMessage(frame("SUBSCRIBE", id="1", ack="client", destination="/topic/freed")))
    browser.say(TextMessage(frame("SEND", "x", destination="/topic/freed")))
    browser.text()
    return browser.socket.close


def freed(broker: Broker, drop: Drop) -> None:
    """Drop the only client of a broker, and wait until it is freed."""
    (client,) = broker.clients
    connection = client.callbacks._wire  # type: ignore[attr-defined]
    parts = (client.account, client.producer, client.consumers, client.transactions)
    left = WeakSet([client, client.callbacks, connection, *(part for part in parts if hasattr(part, "__weakref__"))])
    if type(connection._transport).__module__.startswith("jdbcstore."):
        left.add(connection._transport)
    del client, connection, parts
    drop()
    wait_until(lambda: not left, lambda: f"{list(left)} are freed", timeout_s=30)


@pytest.mark.parametrize("version", ["1.0", "1.2"])
@pytest.mark.usefixtures("any_loop")
def test_of_stomp(version: str, start_broker: StartBroker, brokers: list[Broker]) -> None:
    drop = use(Client(start_broker(bind="auto://127.0.0.1:0")), version)
    freed(brokers[0], drop)


@pytest.mark.usefixtures("any_loop")
def test_of_openwire(start_broker: StartBroker, brokers: list[Broker]) -> None:
    drop = use_openwire(OpenWireClient(start_broker(bind="openwire://127.0.0.1:0"), cache=1024))
    freed(brokers[0], drop)


@pytest.mark.usefixtures("any_loop")
def test_with_tls(
    start_broker: StartBroker,
    brokers: list[Broker],
    authority: Authority,
    server: Identity,
) -> None:
    address = start_broker(bind="stomp+ssl://127.0.0.1:0", tls=tls_options(server))
    drop = use(Client(address, tls=trusting(authority)), "1.2")
    freed(brokers[0], drop)


@pytest.mark.usefixtures("any_loop")
def test_over_websocket(start_broker: StartBroker, brokers: list[Broker]) -> None:
    drop = use_websocket(Browser(start_broker(bind="ws://127.0.0.1:0")))
    freed(brokers[0], drop)


@pytest.mark.parametrize("kind", ["a durable subscription", "a temporary queue"])
def test_queues_that_ended(kind: str, start_broker: StartBroker, brokers: list[Broker]) -> None:
    client = Client(start_broker())
    client.connect(client_id="ann")
    broker = brokers[0]
    client.publish("/topic/freed", "x")
    if kind == "a temporary queue":
        client.subscribe("/temp-queue/freed", "client")
        client.send("SEND", {"destination": "/temp-queue/freed"}, "x")
        queues = [queue for queue in broker.queues.values() if queue.destination.is_temporary]
    else:
        client.subscribe("/topic/>", "client", activemq_subscriptionName="all")
        client.publish("/topic/freed", "x")
        queues = [queue for queue in broker.durables.queues() if queue.destination == Topic("freed")]
    client.message()
    left = WeakSet([queues[0], queues[0].contents, queues[0].removal])
    del queues
    client.drop()
    wait_until(lambda: not left, lambda: f"{list(left)} are freed", timeout_s=30)
