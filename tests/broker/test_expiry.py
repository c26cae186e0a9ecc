"""Messages whose time is over leave queues and subscriptions although nobody consumes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Broker, BrokerOptions, PersistenceAdapter, Queue, Topic, open_store, running
from jdbcstore.broker.destination_policy import DeadLetterStrategy, DestinationPolicy
from jdbcstore.store.memory import MemoryPersistenceAdapter
from jdbcstore.subscription import SubscriptionKey
from tests.broker.client import Address, Client
from tests.broker.clock import Clock
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.test_dead_letters import texts
from tests.servers.prepared import PreparedFile
from tests.waiting import wait_until

A, DLQ, T = "/queue/A", "/queue/ActiveMQ.DLQ", "/topic/T"
PERIOD_MS = 100

Connect = Callable[..., Client]


@pytest.fixture(params=["memory", "sqlite"])
def adapter(request: pytest.FixtureRequest, tmp_path: Path, prepared_file: PreparedFile) -> PersistenceAdapter:
    """Both kinds of store, not started."""
    if request.param == "memory":
        return MemoryPersistenceAdapter()
    return open_store(prepared_file.url(tmp_path / "broker.db"))


@pytest.fixture
def connect(adapter: PersistenceAdapter, start_broker: StartBroker, open_client: OpenClient) -> Connect:
    """Connects to a broker that looks for expired messages often; arguments are fields of the policy for all."""
    addresses: list[Address] = []

    def connected(*, client_id: str | None = None, **policy: Any) -> Client:
        if not addresses:
            fields: dict[str, Any] = {"expire_messages_period_ms": PERIOD_MS, **policy}
            addresses.append(
                start_broker(
                    adapter, policies=[DestinationPolicy(**fields)], window_messages_max=20, page_messages_max=10
                )
            )
        headers = {} if client_id is None else {"client_id": client_id}
        return open_client(addresses[0], **headers)

    return connected


#: In how long messages of these tests expire, and a time that is later than that.
SOON_MS, LATER_MS = 600_000, 700_000


def soon(ms: int = SOON_MS) -> str:
    return str(int(time.time() * 1000) + ms)


def send(client: Client, destination: str, *names: object, **headers: str) -> None:
    all_headers = {"destination": destination, "persistent": "true", **headers}
    for name in names[:-1]:
        client.send("SEND", all_headers, str(name))
    client.done("SEND", all_headers, str(names[-1]))


def depth(broker: Broker, name: str) -> int:
    queue = broker.queues.get(Queue(name))
    return 0 if queue is None else queue.depth


@pytest.mark.parametrize("prioritized", [True, False])
def test_they_leave_a_queue_that_nobody_consumes(
    connect: Connect, brokers: list[Broker], adapter: PersistenceAdapter, *, prioritized: bool
) -> None:
    client = connect(prioritized_messages=prioritized)
    send(client, A, *(f"stays {number}" for number in range(50)))
    send(client, A, *(f"goes {number}" for number in range(100)), expires=soon(), priority="6")
    send(client, A, "late", expires=soon(6_000_000))
    Clock(brokers[0]).move(LATER_MS)
    wait_until(lambda: depth(brokers[0], "ActiveMQ.DLQ") == 100)
    wait_until(lambda: depth(brokers[0], "A") == adapter.queue_message_store(Queue("A")).message_count == 51)
    assert brokers[0].queues[Queue("A")].expired == 100
    assert sorted(texts(client, DLQ)) == sorted(f"goes {number}" for number in range(100))
    client.subscribe(A)
    assert [client.message().text for _ in range(51)] == [*(f"stays {number}" for number in range(50)), "late"]
    wait_until(lambda: depth(brokers[0], "A") == 0)
    client.subscribe(DLQ, id="dead")
    assert {client.message().headers["destination"] for _ in range(100)} == {DLQ}
    wait_until(lambda: brokers[0].memory.used == 0)


def test_what_a_consumer_holds_is_its_own(connect: Connect, brokers: list[Broker]) -> None:
    client = connect()
    client.subscribe(A, "client-individual", activemq_prefetchSize="5")
    send(client, A, *range(40), expires=soon())
    held = [client.message() for _ in range(5)]
    Clock(brokers[0]).move(LATER_MS)
    wait_until(lambda: depth(brokers[0], "ActiveMQ.DLQ") == 35)
    for message in held:
        client.done("ACK", client.named(message))
    assert sorted(map(int, texts(client, DLQ))) == list(range(5, 40))
    assert depth(brokers[0], "A") == 0


def test_no_more_at_a_time_than_the_policy_says(connect: Connect, brokers: list[Broker]) -> None:
    """ActiveMQ's testMaxExpirePageSize."""
    client = connect(expire_messages_period_ms=1000, max_expire_page_size=5)
    send(client, A, *range(50), expires=soon())
    assert depth(brokers[0], "ActiveMQ.DLQ") == 0
    began_s, seen = time.monotonic(), 0
    Clock(brokers[0]).move(LATER_MS)
    while seen < 15:
        found = depth(brokers[0], "ActiveMQ.DLQ")
        assert found <= 5 * (2 + (time.monotonic() - began_s) // 1)
        assert time.monotonic() - began_s < 60
        seen = max(seen, found)


def test_a_period_of_0_is_never(connect: Connect, brokers: list[Broker]) -> None:
    client = connect(expire_messages_period_ms=0)
    send(client, A, "x", expires=soon())
    Clock(brokers[0]).move(LATER_MS)
    time.sleep(0.3)
    assert depth(brokers[0], "A") == 1


def test_many_that_never_expire_here_do_not_hide_the_others(
    adapter: PersistenceAdapter, start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    policies = [
        DestinationPolicy(expire_messages_period_ms=PERIOD_MS),
        DestinationPolicy(pattern=Queue("KEPT"), expire_messages_period_ms=0),
    ]
    client = open_client(start_broker(adapter, policies=policies))
    send(client, "/queue/KEPT", *range(500), expires=soon())
    send(client, A, "x", expires=soon())
    Clock(brokers[0]).move(LATER_MS)
    wait_until(lambda: depth(brokers[0], "ActiveMQ.DLQ") == 1)
    assert depth(brokers[0], "KEPT") == 500


def test_expired_ones_may_vanish(connect: Connect, brokers: list[Broker]) -> None:
    client = connect(dead_letter_strategy=DeadLetterStrategy(process_expired=False))
    send(client, A, *range(30), expires=soon())
    send(client, A, "not stored", expires=soon(), persistent="false")
    Clock(brokers[0]).move(LATER_MS)
    wait_until(lambda: depth(brokers[0], "A") == 0)
    assert depth(brokers[0], "ActiveMQ.DLQ") == 0


def test_they_are_not_delivered_after_a_restart(tmp_path: Path) -> None:
    """ActiveMQ's RecoverExpiredMessagesTest."""
    url = f"sqlite:///{tmp_path / 'broker.db'}"
    when = soon(1500)
    with running(Broker(open_store(url), BrokerOptions(bind="127.0.0.1:0"))) as address, Client(address) as client:
        client.connect()
        send(client, A, *range(10), expires=when)
        send(client, A, "last")
    time.sleep(max(0.0, int(when) / 1000 + 0.05 - time.time()))
    with running(Broker(open_store(url), BrokerOptions(bind="127.0.0.1:0"))) as address, Client(address) as client:
        client.connect()
        client.subscribe(A)
        assert client.message().text == "last"
        client.subscribe(DLQ, id="dead")
        assert sorted(int(client.message().text) for _ in range(10)) == list(range(10))


# -- topics ----------------------------------------------------------------------------------------------------------


def durable(client: Client, name: str, selector: str | None = None) -> None:
    headers = {"activemq.subscriptionName": name, **({} if selector is None else {"selector": selector})}
    client.done("SUBSCRIBE", {"destination": T, "id": name, "ack": "client-individual", **headers})


def left(adapter: PersistenceAdapter, name: str) -> int:
    store = adapter.topic_message_store(Topic("T"))  # type: ignore[attr-defined]
    return int(store.subscription_message_count(SubscriptionKey("me", name)))


def test_they_leave_durable_subscriptions_that_nobody_uses(
    connect: Connect, brokers: list[Broker], adapter: PersistenceAdapter
) -> None:
    """ActiveMQ's JDBCPersistenceAdapterExpiredMessageTest and testMessageExpire; and nothing is lost with them."""
    client = connect(client_id="me")
    durable(client, "one")
    durable(client, "two")
    client.socket.close()
    sender = connect()
    send(sender, T, "stays 1")
    send(sender, T, *(f"goes {number}" for number in range(50)), expires=soon())
    send(sender, T, "stays 2")
    Clock(brokers[0]).move(LATER_MS)
    wait_until(lambda: (left(adapter, "one"), left(adapter, "two")) == (2, 2))
    wait_until(lambda: depth(brokers[0], "ActiveMQ.DLQ") == 50)  # once each, though there are two subscriptions
    wait_until(lambda: brokers[0].client_ids == {})
    client = connect(client_id="me")
    durable(client, "one")
    assert [client.message().text, client.message().text] == ["stays 1", "stays 2"]


def test_what_a_subscription_holds_is_its_own(
    connect: Connect, brokers: list[Broker], adapter: PersistenceAdapter
) -> None:
    client = connect(client_id="me", topic_prefetch=2, durable_topic_prefetch=2)
    client.done(
        "SUBSCRIBE",
        {
            "destination": T,
            "id": "s",
            "ack": "client-individual",
            "activemq.subscriptionName": "s",
            "activemq.prefetchSize": "2",
        },
    )
    send(connect(), T, *range(10), expires=soon())
    held = [client.message(), client.message()]
    Clock(brokers[0]).move(LATER_MS)
    wait_until(lambda: left(adapter, "s") == 2)
    for message in held:
        client.done("ACK", client.named(message))
    assert left(adapter, "s") == 0
    assert sorted(map(int, texts(client, DLQ))) == list(range(2, 10))


def test_a_queue_of_dead_letters_for_each_subscription(connect: Connect, brokers: list[Broker]) -> None:
    strategy = DeadLetterStrategy(kind="individual", topic_prefix="DEAD.", destination_per_durable_subscriber=True)
    client = connect(client_id="me", dead_letter_strategy=strategy)
    durable(client, "one")
    durable(client, "two")
    client.socket.close()
    send(connect(), T, "x", expires=soon())
    Clock(brokers[0]).move(LATER_MS)
    wait_until(lambda: (depth(brokers[0], "DEAD.T.me:one"), depth(brokers[0], "DEAD.T.me:two")) == (1, 1))
