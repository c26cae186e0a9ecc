"""A store with some of everything, small enough to know all of it by heart."""

from __future__ import annotations

import time

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import BytesMessage, Message, TextMessage
from jdbcstore.pipeline.report.messages import CAUSE
from jdbcstore.store.contract import SupportsTopics
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = ["DLQ", "ODD", "ORDERS", "PRICES", "SLOW", "fill", "message"]

ORDERS = Queue("ORDERS")
#: Everything that a folder, a page or a statement may stumble over.
ODD = Queue("a <b>&\"'/ü%=~*+. #?;\\{}\U0001f600")
DLQ = Queue("ActiveMQ.DLQ")
PRICES = Topic("PRICES")
SLOW = SubscriptionKey("client", "slow")
QUICK = SubscriptionKey("client", "quick")
DAY_MS = 86_400_000

_count = 0


def message(destination: Destination, body: str | bytes = "x", *, age_ms: int = 1000, **fields: object) -> Message:
    """A message that was sent some time ago; each has an id of its own."""
    global _count
    _count += 1
    producer = ProducerId(f"ID:host-{_count % 3}-1700000000000-0:1", 1, 1)
    made: Message
    if isinstance(body, bytes):
        made = BytesMessage()
        made.body = body
    else:
        made = TextMessage()
        made.text = body
    made.producer_id, made.message_id = producer, MessageId(producer, _count)
    made.destination, made.timestamp = destination, int(time.time() * 1000) - age_ms
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def fill(url: str) -> None:
    """20 in ORDERS, 3 in ODD, 4 dead letters, one of them without a cause, and 5 in PRICES.

    Of those in PRICES one subscription acknowledged all and one 2.
    """
    now_ms = int(time.time() * 1000)
    with open_store(url) as adapter:
        assert isinstance(adapter, SupportsTopics)
        orders = adapter.queue_message_store(ORDERS)
        for number in range(20):
            expiration = now_ms - 1000 if number < 3 else 0
            orders.add_message(
                message(
                    ORDERS, f"order {number}" * (1 + number * number), age_ms=DAY_MS * number // 4 + 1000,
                    expiration=expiration, priority=number % 10, redelivery_counter=number % 3,
                    properties={"number": number, "colour": "red" if number % 2 else "blue"},
                )
            )  # fmt: skip
        odd = adapter.queue_message_store(ODD)
        for number in range(3):
            odd.add_message(message(ODD, bytes(range(number * 50)), age_ms=1000))
        dead = adapter.queue_message_store(DLQ)
        for number in range(4):
            cause = {} if number == 3 else {CAUSE: f"<i>Exceeded redelivery policy limit</i> {number % 2}"}
            dead.add_message(
                message(
                    DLQ, "poison", age_ms=DAY_MS * 40, original_destination=ORDERS if number else ODD,
                    properties=cause,
                )
            )  # fmt: skip
        prices = adapter.topic_message_store(PRICES)
        for key in (SLOW, QUICK):
            prices.add_subscription(SubscriptionInfo(key, PRICES, PRICES, None)).result()
        ids = []
        for number in range(5):
            price = message(PRICES, f"price {number}", age_ms=DAY_MS)
            prices.add_message(price).result()
            ids.append(price.message_id)
        kept = [one for one in ids if one is not None]
        prices.acknowledge(SLOW, *kept[:2]).result()
        prices.acknowledge(QUICK, *kept[1:]).result()  # not the first: everything is kept
