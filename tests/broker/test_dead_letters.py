"""Dead letters by policy, and how often a message is delivered again before it becomes one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Broker, BrokerOptions, PersistenceAdapter, Queue, Topic, open_store, running
from jdbcstore.broker.destination_policy import DeadLetterStrategy, DestinationPolicy, RedeliveryPolicy
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Commit, SupportsTopics
from jdbcstore.subscription import SubscriptionKey
from tests.broker.client import Address, Client, Frame
from tests.broker.clock import Clock
from tests.broker.conftest import OpenClient, StartBroker
from tests.servers.prepared import PreparedFile
from tests.waiting import wait_until

A, DLQ = "/queue/A", "/queue/ActiveMQ.DLQ"
PERSISTENT = {"persistent": "true"}

Connect = Callable[..., Client]


@pytest.fixture
def connect(start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter) -> Connect:
    """Connects a client to a broker with this strategy for queue ``A``."""

    def connected(**strategy: Any) -> Client:
        policy = DestinationPolicy(pattern=Queue("A"), dead_letter_strategy=DeadLetterStrategy(**strategy))
        return open_client(start_broker(sqlite_store, policies=[policy]))

    return connected


def refuse(client: Client, destination: str, body: str, **headers: str) -> None:
    """Send a message and refuse it."""
    client.subscribe(destination, "client-individual", id="refusing")
    client.done("SEND", {"destination": destination, **PERSISTENT, **headers}, body)
    client.done("NACK", client.named(client.message()))
    client.done("UNSUBSCRIBE", {"id": "refusing"})


def past() -> str:
    return str(int(time.time() * 1000) - 1000)


def browsed(client: Client, destination: str) -> list[Frame]:
    """What is in a queue."""
    client.send("SUBSCRIBE", {"destination": destination, "id": "look", "browser": "true", "ack": "auto"})
    found = []
    while (message := client.message()).headers.get("browser") != "end":
        found.append(message)
    client.done("UNSUBSCRIBE", {"id": "look"})
    return found


def texts(client: Client, destination: str) -> list[str]:
    return [message.text for message in browsed(client, destination)]


def test_all_in_another_queue(connect: Connect) -> None:
    client = connect(dead_letter_queue="DEAD")
    refuse(client, A, "refused")
    client.publish(A, "expired", expires=(when := past()))
    refused, expired = browsed(client, "/queue/DEAD")
    assert (refused.text, expired.text) == ("refused", "expired")
    assert "dlqDeliveryFailureCause" not in refused.headers  # as in ActiveMQ
    cause = f"java.lang.Throwable: Message Expired. Expiration:{when}"
    assert expired.headers["dlqDeliveryFailureCause"] == cause
    assert (expired.headers["expires"], expired.headers["originalExpiration"]) == ("0", when)
    refuse(client, "/queue/B", "elsewhere")
    assert texts(client, DLQ) == ["elsewhere"]


def test_a_dead_letter_that_is_sent_again_says_when_it_expired_first(connect: Connect) -> None:
    client = connect()
    client.publish(A, "x", expires=(first := past()))
    client.subscribe(DLQ, id="dead")
    client.publish(A, "x", expires=past(), originalExpiration=client.message().headers["originalExpiration"])
    assert client.message().headers["originalExpiration"] == first


def test_a_queue_for_each_queue(connect: Connect) -> None:
    client = connect(kind="individual", queue_prefix="DEAD.", queue_suffix=".X")
    refuse(client, A, "refused")
    assert texts(client, "/queue/DEAD.A.X") == ["refused"]


def test_a_topic_for_dead_letters(connect: Connect) -> None:
    client = connect(kind="individual", queue_prefix="DEAD.", use_queue_for_queue_messages=False)
    client.subscribe("/topic/DEAD.A", id="dead")
    client.subscribe(A, "client-individual", id="1")
    client.publish(A, "refused")
    client.done("NACK", client.named(client.message()))
    assert client.message().headers["destination"] == "/topic/DEAD.A"
    assert texts(client, A) == []


def test_a_dead_letter_is_stored_for_a_topic_in_the_commit_that_takes_it_away(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    strategy = DeadLetterStrategy(kind="individual", queue_prefix="DEAD.", use_queue_for_queue_messages=False)
    policy = DestinationPolicy(pattern=Queue("A"), dead_letter_strategy=strategy)
    address = start_broker(sqlite_store, policies=[policy])
    with Client(address) as ann:
        ann.connect(**{"client-id": "ann"})
        ann.subscribe("/topic/DEAD.A", **{"activemq.subscriptionName": "dead"})
    refusing = open_client(address)
    committed: list[tuple[int, int]] = []
    commit_together = sqlite_store.commit_together

    def counted(commit: Commit) -> Completion[None]:
        committed.append((len(commit.adds), len(commit.removes)))
        return commit_together(commit)

    sqlite_store.commit_together = counted  # type: ignore[method-assign]
    refuse(refusing, A, "refused")
    assert committed == [(1, 1)]
    with Client(address) as ann:
        ann.connect(**{"client-id": "ann"})
        ann.subscribe("/topic/DEAD.A", **{"activemq.subscriptionName": "dead"})
        assert ann.message().text == "refused"


# -- too large for the store with what is told of it -----------------------------------------------------------------

#: What the stores of these tests take.
LIMIT = 3000

#: How much of it a message leaves, and whether there is a dead letter of it then. The first one fits only as the
#: message was. The second one does not, because the name of its queue is longer.
large_and_too_large = pytest.mark.parametrize(("left", "is_kept"), [(120, True), (1, False)])


def filling(address: Address, destination: str, left: int) -> str:
    """The body of a message that has an expiration and leaves so many bytes of the limit."""
    with Client(address) as client:
        client.connect()
        headers = {"destination": destination, "expires": str(2**42), **PERSISTENT}
        refused = client.request("SEND", headers, "x" * LIMIT).headers["message"]
    beside_body = int(refused.removeprefix("the message takes ").partition(" ")[0]) - LIMIT
    return "x" * (LIMIT - beside_body - left)


@pytest.fixture(params=["sqlite", "kahadb"])
def small_store(request: pytest.FixtureRequest, tmp_path: Path, prepared_file: PreparedFile) -> PersistenceAdapter:
    """A store that takes no large messages, not started."""
    url = f"kahadb:{tmp_path / 'kahadb'}" if request.param == "kahadb" else prepared_file.url(tmp_path / "broker.db")
    return open_store(f"{url}?message_bytes_max={LIMIT}")


@large_and_too_large
def test_what_expires_before_its_commit_fails_nobody_elses_message(
    start_broker: StartBroker, open_client: OpenClient, small_store: PersistenceAdapter, left: int, is_kept: bool
) -> None:
    client = open_client(address := start_broker(small_store))
    body = filling(address, A, left)
    client.send("BEGIN", {"transaction": "t"})
    client.send("SEND", {"destination": A, "transaction": "t", "expires": past(), **PERSISTENT}, body)
    client.send("SEND", {"destination": "/queue/B", "transaction": "t", **PERSISTENT}, "other")
    client.done("COMMIT", {"transaction": "t"})
    assert texts(client, "/queue/B") == ["other"]
    assert texts(client, DLQ) == [body] * is_kept


def test_who_sends_too_much_is_told_so_whatever_expires_with_it(
    start_broker: StartBroker, open_client: OpenClient, small_store: PersistenceAdapter
) -> None:
    client = open_client(address := start_broker(small_store))
    client.send("BEGIN", {"transaction": "t"})
    client.send(
        "SEND", {"destination": A, "transaction": "t", "expires": past(), **PERSISTENT}, filling(address, A, 120)
    )
    client.send("SEND", {"destination": "/queue/B", "transaction": "t", **PERSISTENT}, "x" * LIMIT)
    assert f"{LIMIT} at most" in client.request("COMMIT", {"transaction": "t"}).headers["message"]
    assert texts(open_client(address), DLQ) == []


@large_and_too_large
def test_what_expires_in_a_queue_leaves_it(
    start_broker: StartBroker,
    open_client: OpenClient,
    brokers: list[Broker],
    small_store: PersistenceAdapter,
    left: int,
    is_kept: bool,
) -> None:
    address = start_broker(small_store, policies=[DestinationPolicy(expire_messages_period_ms=100)])
    client, body = open_client(address), filling(address, A, left)
    client.publish(A, body, expires=str(int(time.time() * 1000) + 600_000))
    Clock(brokers[0]).move(700_000)
    wait_until(lambda: small_store.queue_message_store(Queue("A")).message_count == 0)
    assert texts(client, DLQ) == [body] * is_kept


@large_and_too_large
def test_what_expires_for_a_subscription_that_nobody_uses_leaves_it(
    start_broker: StartBroker,
    open_client: OpenClient,
    brokers: list[Broker],
    small_store: PersistenceAdapter,
    left: int,
    is_kept: bool,
) -> None:
    address = start_broker(small_store, policies=[DestinationPolicy(expire_messages_period_ms=100)])
    with Client(address) as ann:
        ann.connect(client_id="ann")
        ann.subscribe("/topic/T", activemq_subscriptionName="news")
    wait_until(lambda: not brokers[0].client_ids)
    client, body = open_client(address), filling(address, "/topic/T", left)
    client.publish("/topic/T", body, expires=str(int(time.time() * 1000) + 600_000))
    Clock(brokers[0]).move(700_000)
    assert isinstance(small_store, SupportsTopics)
    store = small_store.topic_message_store(Topic("T"))
    wait_until(lambda: store.subscription_message_count(SubscriptionKey("ann", "news")) == 0)
    assert texts(client, DLQ) == [body] * is_kept


def test_thrown_away(connect: Connect) -> None:
    client = connect(kind="discarding")
    refuse(client, A, "refused")
    client.publish(A, "expired", expires=past())
    assert texts(client, A) == texts(client, DLQ) == []


def test_expired_ones_may_vanish_while_refused_ones_do_not(connect: Connect) -> None:
    client = connect(process_expired=False)
    refuse(client, A, "refused")
    client.publish(A, "expired", expires=past())
    assert texts(client, DLQ) == ["refused"]


@pytest.mark.parametrize("processed", [True, False])
def test_non_persistent_ones(connect: Connect, *, processed: bool) -> None:
    client = connect(process_non_persistent=processed)
    refuse(client, A, "refused", persistent="false")
    client.done("SEND", {"destination": A, "expires": past()}, "expired")
    found = browsed(client, DLQ)
    assert [message.text for message in found] == (["refused", "expired"] if processed else [])
    assert {message.headers["originalDeliveryMode"] for message in found} <= {"NON_PERSISTENT"}
    assert {message.headers["persistent"] for message in found} <= {"true"}


def test_dead_letters_may_expire_and_are_gone_then(connect: Connect, brokers: list[Broker]) -> None:
    client = connect(expiration_ms=600_000)
    clock = Clock(brokers[0])
    before_ms = int(time.time() * 1000)
    refuse(client, A, "refused")
    (dead,) = browsed(client, DLQ)
    assert 600_000 <= int(dead.headers["expires"]) - before_ms < 700_000
    clock.move(800_000)
    client.subscribe(DLQ, id="dead")
    client.done("SEND", {"destination": "/topic/nobody"})
    assert texts(client, DLQ) == []  # and not once more among the dead letters


@pytest.mark.parametrize("strategy", [{"dead_letter_queue": "DEAD.A"}, {"kind": "individual", "queue_prefix": "DEAD."}])
def test_what_is_refused_among_the_dead_letters_is_gone(connect: Connect, strategy: dict[str, str]) -> None:
    client = connect(**strategy)
    refuse(client, A, "refused")
    client.subscribe("/queue/DEAD.A", "client-individual", id="dead")
    client.done("NACK", client.named(client.message()))
    client.done("UNSUBSCRIBE", {"id": "dead"})
    for queue in ("/queue/DEAD.A", "/queue/DEAD.DEAD.A", DLQ):
        assert texts(client, queue) == []


# -- redeliveries ----------------------------------------------------------------------------------------------------


def give_back(client: Client, queue: str = A) -> Frame:
    """Receive a message and go without acknowledging it."""
    client.subscribe(queue, "client-individual", id="back", activemq_prefetchSize="1")
    message = client.message()
    client.done("UNSUBSCRIBE", {"id": "back"})
    return message


@pytest.mark.parametrize("maximum", [0, 2])
def test_after_so_many_redeliveries_it_is_a_dead_letter(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter, maximum: int
) -> None:
    policy = RedeliveryPolicy(pattern=Queue("A"), maximum_redeliveries=maximum)
    client = open_client(start_broker(sqlite_store, redelivery=[policy]))
    client.publish(A, "poison")
    counts = [give_back(client).headers.get("JMSXDeliveryCount", "1") for _ in range(maximum + 1)]
    assert counts == [str(number + 1) for number in range(maximum + 1)]
    client.subscribe(DLQ, id="dead")
    dead = client.message()
    cause = dead.headers["dlqDeliveryFailureCause"]
    assert (dead.text, cause) == ("poison", f"Exceeded redelivery policy limit: maximumRedeliveries={maximum}")
    assert "redelivered" not in dead.headers
    assert texts(client, A) == []


def test_without_a_limit_it_comes_again(client: Client) -> None:
    client.publish(A, "x")
    for _ in range(20):
        assert give_back(client).text == "x"


def test_a_redelivery_waits_and_others_go_on(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    """For an hour in one queue, for a moment in the other."""
    policies = [
        RedeliveryPolicy(pattern=Queue("A"), initial_redelivery_delay_ms=3_600_000),
        RedeliveryPolicy(pattern=Queue("B"), initial_redelivery_delay_ms=400),
    ]
    client = open_client(start_broker(redelivery=policies))
    client.publish(A, "first")
    give_back(client)
    client.publish(A, "second")
    client.subscribe(A, "client-individual")
    assert client.message().text == "second"
    assert client.is_silent(0.1)
    assert brokers[0].queues[Queue("A")].depth == 2
    client.publish("/queue/B", "first")
    before_s = time.monotonic()
    give_back(client, "/queue/B")
    client.subscribe("/queue/B", "client-individual", id="B")
    again = client.message()
    assert (again.text, again.headers["redelivered"]) == ("first", "true")
    assert time.monotonic() - before_s > 0.39
    assert brokers[0].queues[Queue("B")].depth == 1


def test_what_waits_for_its_redelivery_is_there_after_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'broker.db'}"
    options = BrokerOptions(bind="127.0.0.1:0")
    patient = [RedeliveryPolicy(initial_redelivery_delay_ms=60_000)]
    with running(Broker(open_store(url), options, redelivery_policies=patient)) as address, Client(address) as client:
        client.connect()
        client.publish(A, "x")
        give_back(client)
        client.subscribe(A, id="waits")
        assert client.is_silent(0.1)
    with running(Broker(open_store(url), options, redelivery_policies=patient)) as address, Client(address) as client:
        client.connect()
        client.subscribe(A)
        message = client.message()
        assert (message.text, message.headers["redelivered"]) == ("x", "true")


def test_many_transactions_that_fail_at_once(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker], sqlite_store: PersistenceAdapter
) -> None:
    """ActiveMQ's JDBCConcurrentDLQTest: all go to the dead letters, each once, and the totals are right."""
    count, consumers = 100, 50
    address = start_broker(sqlite_store, redelivery=[RedeliveryPolicy(maximum_redeliveries=0)])
    sender = open_client(address)
    for number in range(count):
        sender.send("SEND", {"destination": A, **PERSISTENT}, str(number))
    sender.done("SEND", {"destination": "/topic/nobody"})
    clients = [open_client(address) for _ in range(consumers)]
    all_are_out = threading.Barrier(consumers)

    def fail(client: Client) -> None:
        client.subscribe(A, "client-individual", activemq_prefetchSize="2")
        messages = [client.message(), client.message()]
        all_are_out.wait(90)
        client.send("BEGIN", {"transaction": "t"})
        for message in messages:
            client.ack(message, transaction="t")
        client.socket.close()

    threads = [threading.Thread(target=fail, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queues = brokers[0].queues
    wait_until(lambda: Queue("ActiveMQ.DLQ") in queues and queues[Queue("ActiveMQ.DLQ")].depth == count)
    source, dead = queues[Queue("A")], queues[Queue("ActiveMQ.DLQ")]

    def totals() -> tuple[int, ...]:
        return source.enqueued, source.dequeued, source.depth, source.in_flight, dead.enqueued, dead.dequeued

    wait_until(lambda: totals() == (count, count, 0, 0, count, 0), lambda: str(totals()))
    assert sorted(int(text) for text in texts(sender, DLQ)) == list(range(count))
