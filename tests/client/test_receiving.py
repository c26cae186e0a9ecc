"""Subscriptions: acknowledgement modes, selectors, wildcards, browsers, threads; nothing is lost or comes twice."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

import jdbcstore
from jdbcstore import (
    AcknowledgeMode,
    BrokerOptions,
    ConfigurationError,
    Connection,
    ConnectionClosed,
    NotAuthorized,
    ProtocolError,
    Queue,
    SelectorError,
    Subscription,
    Topic,
)
from jdbcstore.client.outgoing_message import Body
from tests.waiting import wait_until


def send(connection: Connection, *bodies: str, destination: str = "A") -> None:
    for body in bodies:
        connection.send(destination, body)


def take(subscription: Subscription, count: int) -> list[Body]:
    return [subscription.receive(timeout_s=30).body for _ in range(count)]


def take_what_is_there(subscription: Subscription, bodies: list[Body]) -> None:
    with suppress(TimeoutError):
        while True:
            bodies.append(subscription.receive(timeout_s=0).body)


def depth(connection: Connection, queue: str = "A") -> int:
    return connection.broker.queues[Queue(queue)].depth


def test_what_is_not_acknowledged_goes_back_in_its_order(connection: Connection, other: Connection) -> None:
    send(connection, "1", "2", "3", "4")
    with other.subscribe("A") as subscription:
        first, second, third = (subscription.receive(timeout_s=30) for _ in range(3))
        second.acknowledge()
        assert (first.body, third.body) == ("1", "3")
    with connection.subscribe("A") as subscription:
        again = [subscription.receive(timeout_s=30) for _ in range(3)]
    assert [(message.body, message.redeliveries > 0) for message in again][:2] == [("1", True), ("3", True)]
    assert again[2].body == "4"


def test_cumulative_covers_those_before(connection: Connection, other: Connection) -> None:
    send(connection, "1", "2", "3", "4")
    with other.subscribe("A", mode=AcknowledgeMode.CUMULATIVE) as subscription:
        messages = [subscription.receive(timeout_s=30) for _ in range(4)]
        messages[2].acknowledge()
        with pytest.raises(ProtocolError, match="waits for no acknowledgement"):
            messages[0].acknowledge()
    assert take(connection.subscribe("A"), 1) == ["4"]


def test_auto_acknowledges_what_was_received_and_nothing_else(connection: Connection, other: Connection) -> None:
    send(connection, "1", "2", "3")
    with other.subscribe("A", mode="auto") as subscription:
        assert take(subscription, 1) == ["1"]  # the others are here, too, and were not received
    with connection.subscribe("A", mode="auto") as subscription:
        assert take(subscription, 2) == ["2", "3"]
    wait_until(lambda: depth(connection) == 0)


def test_iterating(connection: Connection, other: Connection) -> None:
    send(connection, "1", "2", "3")
    subscription = other.subscribe("A")
    got = []
    for message in subscription:
        got.append(message.body)
        message.acknowledge()
        if message.body == "3":
            subscription.close()
    assert got == ["1", "2", "3"]
    with pytest.raises(ConnectionClosed, match="come to its end"):
        subscription.receive()


def test_a_message_is_acknowledged_once(connection: Connection) -> None:
    send(connection, "1", "2")
    with connection.subscribe("A") as subscription:
        first, second = subscription.receive(timeout_s=30), subscription.receive(timeout_s=30)
        first.acknowledge()
        with pytest.raises(ProtocolError, match="waits for no acknowledgement"):
            first.acknowledge()
        second.reject()
        with pytest.raises(ProtocolError, match="waits for no acknowledgement"):
            second.reject()
    assert take(connection.subscribe("ActiveMQ.DLQ"), 1) == ["2"]


def test_after_its_subscription_a_message_cannot_be_acknowledged(connection: Connection) -> None:
    send(connection, "1")
    with connection.subscribe("A") as subscription:
        message = subscription.receive(timeout_s=30)
    with pytest.raises(ProtocolError, match="its subscription has ended"):
        message.acknowledge()
    assert take(connection.subscribe("A"), 1) == ["1"]


def test_a_timeout_loses_nothing(connection: Connection) -> None:
    subscription = connection.subscribe("A", mode="auto")
    for _ in range(3):
        with pytest.raises(TimeoutError):
            subscription.receive(timeout_s=0)
        with pytest.raises(TimeoutError):
            subscription.receive(timeout_s=0.01)
    send(connection, "1", "2")
    assert take(subscription, 2) == ["1", "2"]
    with pytest.raises(TimeoutError, match=r"^no message came from A within 0\.01 s$"):
        subscription.receive(timeout_s=0.01)


def test_selectors_compare_values_of_their_type(connection: Connection) -> None:
    for weight in (1, 10, 9):
        connection.send("A", str(weight), properties={"weight": weight})
    with connection.subscribe("A", selector="weight > 5") as heavy:
        for body in ("10", "9"):
            message = heavy.receive(timeout_s=30)
            assert message.body == body
            message.acknowledge()
    assert [message.body for message in connection.browse("A")] == ["1"]
    with pytest.raises(SelectorError, match="Selector"):
        connection.subscribe("A", selector="weight >")


def test_wildcards_and_composites(connection: Connection) -> None:
    everything = connection.subscribe("topic://PRICES.>", mode="auto")
    two = connection.subscribe("A,B", mode="auto")
    connection.send("topic://PRICES.apple", "1")
    connection.send("B", "2")
    received = everything.receive(timeout_s=30)
    assert (received.body, received.destination) == ("1", Topic("PRICES.apple"))
    assert take(two, 1) == ["2"]


def test_a_subscription_that_nobody_reads_keeps_nobody_waiting(connection: Connection) -> None:
    large = "x" * 400_000
    for number in range(8):
        connection.send("UNREAD", large, properties={"number": number}, persistent=False)
    unread = connection.subscribe("UNREAD", mode="auto")
    wait_until(lambda: unread._mailbox._withheld is not None)
    assert len(unread._mailbox._ready) < 8  # the others wait in the queue
    send(connection, "1")
    assert take(connection.subscribe("A", mode="auto"), 1) == ["1"]
    assert [unread.receive(timeout_s=30).properties["number"] for _ in range(8)] == list(range(8))


def test_prefetch_and_exclusive(connection: Connection, other: Connection) -> None:
    first = connection.subscribe("A", prefetch=1, exclusive=True)
    second = other.subscribe("A")
    send(connection, "1", "2")
    message = first.receive(timeout_s=30)
    with pytest.raises(TimeoutError):
        first.receive(timeout_s=0.05)
    with pytest.raises(TimeoutError):
        second.receive(timeout_s=0)
    message.acknowledge()
    assert take(first, 1) == ["2"]


def test_no_local(connection: Connection, other: Connection) -> None:
    prices = connection.subscribe("topic://PRICES", mode="auto", no_local=True)
    connection.send("topic://PRICES", "own")
    other.send("topic://PRICES", "other's")
    assert take(prices, 1) == ["other's"]


def test_groups_stay_with_one(connection: Connection, other: Connection) -> None:
    subscriptions = [connection.subscribe("A", mode="auto"), other.subscribe("A", mode="auto")]
    for number in range(20):
        connection.send("A", str(number), group=f"g{number % 2}")
    got: list[list[Body]] = [[], []]

    def took_all() -> bool:
        for of_one, subscription in zip(got, subscriptions, strict=True):
            take_what_is_there(subscription, of_one)
        return sum(map(len, got)) == 20

    wait_until(took_all)
    for of_one in got:
        parities = {int(str(body)) % 2 for body in of_one}
        assert all(
            [str(n) for n in range(parity, 20, 2)] == [b for b in of_one if int(str(b)) % 2 == parity]
            for parity in parities
        )


def test_browsing_takes_nothing_and_ends(connection: Connection) -> None:
    send(connection, *[str(number) for number in range(700)])  # more than a browser's prefetch
    assert [message.body for message in connection.browse("A")] == [str(number) for number in range(700)]
    assert list(connection.browse("EMPTY")) == []
    assert depth(connection) == 700
    with connection.browse("A", selector="JMSPriority = 9") as nothing:
        assert list(nothing) == []
    for name, text in (("topic://T", "Cannot browse a topic"), ("A.*", "Cannot browse a wildcard")):
        with pytest.raises(ProtocolError, match=text):
            connection.browse(name)
    shown = connection.browse("A").receive(timeout_s=30)
    with pytest.raises(ProtocolError, match="waits for no acknowledgement"):
        shown.reject()


@pytest.mark.parametrize(
    ("destination", "options", "error", "text"),
    [
        ("", {}, ConfigurationError, "needs a name"),
        ("A", {"mode": "never"}, ValueError, "never"),
        ("A", {"priority": 200}, ValueError, "-128 to 127"),
        ("A,topic://B", {}, ProtocolError, "queues and topics at once"),
        ("A", {"durable": "d"}, ProtocolError, "cannot durably subscribe to a Queue"),
    ],
)
def test_what_cannot_be_subscribed_to_is_told(
    connection: Connection, destination: str, options: dict[str, str], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        connection.subscribe(destination, **options)  # type: ignore[arg-type]  # that is the point
    send(connection, "1")
    assert take(connection.subscribe("A"), 1) == ["1"]


def test_threads_share_a_subscription(connection: Connection) -> None:
    subscription = connection.subscribe("A")
    got: list[Body] = []

    def work() -> None:
        for message in subscription:
            message.acknowledge()
            got.append(message.body)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    senders = [
        threading.Thread(target=send, args=(connection, *[f"{name}{number}" for number in range(50)])) for name in "ab"
    ]
    for thread in senders:
        thread.start()
    for thread in senders:
        thread.join(30)
    wait_until(lambda: len(got) == 100)
    subscription.close()  # ends the iterations
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert sorted(map(str, got)) == sorted(f"{name}{number}" for name in "ab" for number in range(50))
    assert depth(connection) == 0


def test_durable_subscriptions(url: str) -> None:
    with jdbcstore.connect("memory:" if url == "memory:" else url, client_id="shop") as connection:
        with connection.subscribe("topic://PRICES", durable="audit", mode="auto") as audit:
            connection.send("topic://PRICES", "1")
            assert take(audit, 1) == ["1"]
            with pytest.raises(ProtocolError, match="Durable consumer is in use"):
                connection.remove_durable("audit")
        connection.send("topic://PRICES", "2")
        with connection.subscribe("topic://PRICES", durable="audit") as audit:
            assert take(audit, 1) == ["2"]  # not acknowledged
        with connection.subscribe("topic://PRICES", durable="audit", mode="auto") as audit:
            assert take(audit, 1) == ["2"]
        connection.remove_durable("audit")
        connection.send("topic://PRICES", "3")
        with (
            connection.subscribe("topic://PRICES", durable="audit") as audit,
            pytest.raises(TimeoutError),
        ):
            audit.receive(timeout_s=0.05)
        with jdbcstore.connect(connection.broker) as nameless:
            with pytest.raises(ProtocolError, match="client id"):
                nameless.subscribe("topic://PRICES", durable="audit")
            with pytest.raises(ProtocolError, match="client id"):
                nameless.remove_durable("audit")


def test_a_durable_subscription_survives_the_process(sqlite_url: str) -> None:
    with jdbcstore.connect(sqlite_url, client_id="shop") as connection:
        connection.subscribe("topic://PRICES.>", durable="audit")
        connection.send("topic://PRICES.apple", "1")
    with jdbcstore.connect(sqlite_url, client_id="shop") as connection:
        connection.send("topic://PRICES.apple", "2")
        assert take(connection.subscribe("topic://PRICES.>", durable="audit"), 2) == ["1", "2"]


def test_who_may_not_receive_any_more_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with jdbcstore.connect("memory:") as connection:
        kept, ended = connection.subscribe("A", mode="auto"), connection.subscribe("B", mode="auto")
        client = connection._port.client

        def denied(destination: object) -> None:
            if destination == Queue("B"):
                raise NotAuthorized("not B")

        monkeypatch.setattr(type(client.access), "check_read", lambda self, destination: denied(destination))
        connection.broker.loop.call_soon_threadsafe(client.renew_access)
        with pytest.raises(NotAuthorized, match="not B"):
            ended.receive(timeout_s=30)
        send(connection, "1")
        assert take(kept, 1) == ["1"]


def test_too_many_subscriptions() -> None:
    with jdbcstore.connect("memory:", options=BrokerOptions(subscriptions_max=1)) as connection:
        with connection.subscribe("A"), pytest.raises(ProtocolError, match="subscriptions_max"):
            connection.subscribe("B")
        connection.subscribe("B")


def test_one_that_nobody_reads_does_not_hinder_marked_deliveries_of_the_same_queue(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = BrokerOptions(persist_jms_redelivered=True)
    with jdbcstore.connect(sqlite_url, options=options) as connection:
        unread, read = connection.subscribe("A"), connection.subscribe("A", mode="auto")
        for number in range(12):
            connection.send("A", "x" * 400_000, properties={"number": number})
        got: list[Body] = []

        def are_delivered() -> bool:
            take_what_is_there(read, got)
            return len(unread._mailbox._ready) + len(got) == 12

        wait_until(are_delivered)
        assert unread._mailbox._withheld is not None
    assert "defect" not in caplog.text
