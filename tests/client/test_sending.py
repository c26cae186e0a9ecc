"""What is sent arrives as it was, where it was sent to; what cannot be sent is told."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

import jdbcstore
from jdbcstore import BrokerOptions, CodecError, ConfigurationError, Connection, ProtocolError, Queue, Topic
from jdbcstore.client.outgoing_message import Body
from jdbcstore.primitives import Long
from tests.waiting import wait_until


def bodies(connection: Connection, destination: str) -> list[Body]:
    return [message.body for message in connection.browse(destination)]


@pytest.mark.parametrize(
    "body",
    [
        "three apples",
        "",
        "tränen 🍎 \x00",
        b"\x00\xff",
        b"",
        {"count": 3, "price": 1.5, "name": "apple"},
        [1, "two", None],
    ],
)
def test_a_body_arrives_as_it_was(connection: Connection, body: Body) -> None:
    connection.send("ORDERS", body)
    received = connection.subscribe("ORDERS").receive(timeout_s=30).body
    if isinstance(body, Mapping):
        assert dict(received) == body  # type: ignore[arg-type]  # it is a mapping, too
    else:
        assert received == (tuple(body) if isinstance(body, list) else body)


def test_nothing_is_a_body(connection: Connection) -> None:
    connection.send("ORDERS")
    assert connection.subscribe("ORDERS").receive(timeout_s=30).body is None


def test_everything_that_is_said_about_a_message_arrives(connection: Connection) -> None:
    before_ms = time.time_ns() // 1_000_000
    message_id = connection.send(
        "queue://ORDERS",
        "x",
        properties={"customer": 7, "big": Long(8), "name": "é"},
        persistent=False,
        priority=9,
        ttl_ms=60_000,
        reply_to="topic://ANSWERS",
        correlation_id="c-1",
        type="order",
        group="g",
        group_sequence=3,
    )
    received = connection.subscribe("ORDERS").receive(timeout_s=30)
    message = received.message
    assert received.message_id == message_id
    assert dict(received.properties) == {"customer": 7, "big": 8, "name": "é"}
    assert (message.persistent, message.priority, message.type) == (False, 9, "order")
    assert (message.group_id, message.group_sequence) == ("g", 3)
    assert (received.reply_to, received.correlation_id, received.destination) == (
        Topic("ANSWERS"),
        "c-1",
        Queue("ORDERS"),
    )
    assert before_ms <= message.timestamp == message.expiration - 60_000
    assert received.redeliveries == 0


def test_a_message_is_persistent_unless_it_is_said_otherwise(connection: Connection) -> None:
    connection.send("ORDERS", "x")
    received = connection.subscribe("ORDERS").receive(timeout_s=30)
    assert received.message.persistent
    assert (received.message.priority, received.message.expiration) == (4, 0)


def test_a_composite_goes_to_each_and_a_wildcard_is_for_receivers(connection: Connection) -> None:
    connection.send("A, queue://B", "x")
    assert bodies(connection, "A") == bodies(connection, "B") == ["x"]
    with pytest.raises(ProtocolError, match="a wildcard is for subscriptions"):
        connection.send("ORDERS.>", "x")


def test_a_delayed_message_comes_later(connection: Connection) -> None:
    began_s = time.monotonic()
    with connection.transaction() as transaction:  # between two sends the delay may pass
        transaction.send("ORDERS", "late", delay_ms=200)
        transaction.send("ORDERS", "now")
    orders = connection.subscribe("ORDERS", mode="auto")
    assert [orders.receive(timeout_s=30).body for _ in range(2)] == ["now", "late"]
    assert time.monotonic() - began_s > 0.15


def test_an_expired_message_does_not_come(connection: Connection) -> None:
    connection.send("ORDERS", "gone", ttl_ms=1)
    after_s = time.time() + 0.01
    wait_until(lambda: time.time() > after_s)
    connection.send("ORDERS", "next")
    assert connection.subscribe("ORDERS").receive(timeout_s=30).body == "next"


def test_a_delay_that_the_broker_would_ignore_is_refused() -> None:
    with (
        jdbcstore.connect("memory:", options=BrokerOptions(scheduler_support=False)) as connection,
        pytest.raises(ProtocolError, match="scheduler_support"),
    ):
        connection.send("ORDERS", "x", delay_ms=1000)


def test_a_numbered_message_is_stored_once(connection: Connection) -> None:
    first = connection.send("ORDERS", "a", number=("till-4", 1))
    assert connection.send("ORDERS", "a", number=("till-4", 1)) == first
    connection.send("ORDERS", "b", number=("till-4", 2))
    with connection.transaction() as transaction:
        transaction.send("ORDERS", "c", number=("till-4", 3))
    connection.send("ORDERS", "c", number=("till-4", 3))
    assert bodies(connection, "ORDERS") == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        (("", "x"), {}, ConfigurationError, "needs a name"),
        ((",", "x"), {}, ConfigurationError, "needs a name"),
        (("A" * 300, "x"), {}, ConfigurationError, "250 characters"),
        (("A", object()), {}, TypeError, "a body is"),
        (("A", {"x": object()}), {}, CodecError, "x"),
        (("A", "x"), {"properties": {"JMSXGroupID": "g"}}, ValueError, "use the argument"),
        (("A", "x"), {"properties": {"x": object()}}, CodecError, "x"),
        (("A", "x"), {"priority": 10}, ValueError, "priority has to be"),
        (("A", "x"), {"ttl_ms": -1}, ValueError, "ttl_ms has to be"),
        (("A", "x"), {"delay_ms": 1.5}, ValueError, "delay_ms has to be"),
        (("A", "x"), {"number": ("", 1)}, ValueError, "name of a producer"),
        (("A", "x"), {"number": ("p", 0)}, ValueError, "number of a message"),
        (("temp-queue://nobody:1", "x"), {}, ProtocolError, "does not exist"),
    ],
)
def test_what_cannot_be_sent_is_told_and_the_connection_goes_on(
    connection: Connection, arguments: tuple[str, str], options: dict[str, int], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        connection.send(*arguments, **options)  # type: ignore[arg-type]  # that is the point
    connection.send("A", "next")
    assert bodies(connection, "A") == ["next"]


def test_many_are_sent_without_waiting_in_order(connection: Connection) -> None:
    futures = [connection.send_nowait("ORDERS", str(number)) for number in range(3000)]
    connection.flush()
    assert len({future.result(timeout=0) for future in futures}) == 3000
    with connection.subscribe("ORDERS", mode="auto") as orders:
        assert [orders.receive(timeout_s=30).body for _ in range(3000)] == [str(number) for number in range(3000)]


def test_what_failed_without_waiting_is_raised_once_by_flush(connection: Connection) -> None:
    failed = connection.send_nowait("A.>", "x")
    stored = connection.send_nowait("A", "x")
    with pytest.raises(ProtocolError, match="wildcard"):
        connection.flush()
    connection.flush()
    assert stored.result(timeout=0)
    with pytest.raises(ProtocolError, match="wildcard"):
        failed.result(timeout=0)


def test_what_failed_without_waiting_and_was_not_flushed_is_raised_by_the_end() -> None:
    connection = jdbcstore.connect("memory:")
    connection.send_nowait("A.>", "x")
    with pytest.raises(ProtocolError, match="wildcard"):
        connection.close()
    assert connection.is_closed


def test_what_was_sent_is_there_when_the_program_comes_again(sqlite_url: str) -> None:
    with jdbcstore.connect(sqlite_url) as connection:
        connection.send("ORDERS", "stored")
        connection.send("ORDERS", "in memory", persistent=False)
    with jdbcstore.connect(sqlite_url) as connection:
        assert bodies(connection, "ORDERS") == ["stored"]


def test_the_sender_sees_when_nobody_reads_a_topic() -> None:
    options = BrokerOptions(topic_pending_max=5, slow_consumer_timeout_s=60)
    with (
        jdbcstore.connect("memory:", options=options) as sender,
        jdbcstore.connect(sender.broker) as reader,
    ):
        prices = reader.subscribe("topic://PRICES", mode="auto", prefetch=2)
        futures = [sender.send_nowait("topic://PRICES", str(number)) for number in range(20)]
        wait_until(lambda: sum(future.done() for future in futures) >= 8)
        assert not futures[-1].done()  # held back
        assert [prices.receive(timeout_s=30).body for _ in range(20)] == [str(number) for number in range(20)]
        sender.flush()
