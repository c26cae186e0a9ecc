"""A store with some of everything that a migration has to bring over, and what every broker would see of a store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.identifiers import MessageId, ProducerId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.openwire import marshal
from jdbcstore.store.contract import (
    Commit,
    Cursor,
    PersistenceAdapter,
    ScheduledJob,
    SupportsScheduling,
    SupportsTopics,
    SupportsTransactions,
)
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing import text_message

PLAIN = Queue("ORDERS")
ODD = Queue("a <b>&\"'/ü%=~*+. #;\\{}\U0001f600")
RANKED = Queue("RANKED")
NEWS, PRICES = Topic("NEWS"), Topic("PRICES.EU")
KNOWN = Queue("Consumer.A.VirtualTopic.NEWS")
ALL, LATE, HALF = (SubscriptionKey("client", name) for name in ("all", "late", "half"))
PICKY = SubscriptionKey("other:client", "picky")
FOREIGN = ProducerId("ID:other-host", 7, 3)
XID = XATransactionId(0x1234, b"global\x00", b"branch\xff")
EMPTY_XID = XATransactionId(-1, b"g", b"")


def fill(adapter: PersistenceAdapter, messages: int = 30) -> None:
    """Fill a started store.

    Messages go to the destinations in turn, so that their order over all of them can be lost.
    """
    assert isinstance(adapter, SupportsTopics)
    plain, odd = adapter.queue_message_store(PLAIN), adapter.queue_message_store(ODD)
    ranked = adapter.queue_message_store(RANKED, prioritized=True)
    adapter.queue_message_store(KNOWN)
    news = adapter.topic_message_store(NEWS)
    prices = adapter.topic_message_store(PRICES, prioritized=True)
    news.add_subscription(SubscriptionInfo(ALL, NEWS, NEWS)).result()
    news.add_subscription(SubscriptionInfo(HALF, NEWS, NEWS)).result()
    info = SubscriptionInfo(PICKY, PRICES, Topic("PRICES.>"), "colour = 'red' AND price > 5")
    prices.add_subscription(info).result()
    ids: dict[Destination, list[MessageId]] = {}
    for number in range(1, messages + 1):
        for place, store in enumerate((plain, news, ranked, prices, odd)):
            count = number * 10 + place
            message = text_message(
                count,
                f"{store.destination} {number} " + "x" * (number * 37 % 500),
                destination=store.destination,
                producer_id=ProducerId("ID:host", number % 3, 1),
                priority=number % 10,
                expiration=4_000_000_000_000 if number % 5 == 0 else 0,
            )
            message.properties = {"colour": "red" if number % 2 else "blue", "price": number}
            store.add_message(message).result()
            assert message.message_id is not None
            ids.setdefault(store.destination, []).append(message.message_id)
        if number == messages // 2:
            news.add_subscription(SubscriptionInfo(LATE, NEWS, NEWS)).result()
    news.acknowledge(HALF, *ids[NEWS][::2], ids[NEWS][1]).result()
    news.acknowledge(ALL, *ids[NEWS][:3]).result()
    prices.acknowledge(PICKY, ids[PRICES][2], ids[PRICES][4]).result()
    plain.remove_message(ids[PLAIN][3]).result()
    _prepare(adapter, ids)
    assert isinstance(adapter, SupportsScheduling)
    jobs = [
        ScheduledJob("job-1", text_message(1, destination=PLAIN, producer_id=FOREIGN), 4_000_000_000_000),
        ScheduledJob("job-2", text_message(2, destination=NEWS), 4_000_000_000_001, 10, 20, -1, "* * * * *"),
    ]
    adapter.commit_together(Commit(producers={FOREIGN: 42}, jobs=jobs)).result()


def _prepare(adapter: PersistenceAdapter, ids: dict[Destination, list[MessageId]]) -> None:
    assert isinstance(adapter, SupportsTransactions)
    assert isinstance(adapter, SupportsTopics)
    store = adapter.transaction_store()
    transaction = store.begin(XID)
    for number, queue in enumerate((PLAIN, RANKED)):
        transaction.add_message(
            adapter.queue_message_store(queue),
            text_message(1000 + number, destination=queue, producer_id=FOREIGN, priority=7),
        )
    transaction.add_message(
        adapter.topic_message_store(NEWS), text_message(1002, destination=NEWS, producer_id=FOREIGN)
    )
    transaction.remove_message(adapter.queue_message_store(PLAIN), ids[PLAIN][5])
    transaction.remove_message(adapter.queue_message_store(RANKED), ids[RANKED][0])
    for place in (4, 7):
        transaction.acknowledge(adapter.topic_message_store(NEWS), ALL, ids[NEWS][place])
    transaction.acknowledge(adapter.topic_message_store(PRICES), PICKY, ids[PRICES][9])
    transaction.prepare().result()
    other = store.begin(EMPTY_XID)
    other.remove_message(adapter.queue_message_store(ODD), ids[ODD][0])
    other.prepare().result()


def seen(adapter: PersistenceAdapter, *, has_no_local: bool = False) -> dict[str, Any]:
    """What brokers would see of a started store, in their order, without numbers that each store gives anew."""
    assert isinstance(adapter, SupportsTopics)
    assert isinstance(adapter, SupportsTransactions)
    assert isinstance(adapter, SupportsScheduling)
    found: dict[str, Any] = {"known": sorted(map(str, adapter.destinations()))}
    numbered: list[tuple[int, str]] = []
    for destination in sorted(adapter.destinations(), key=str):
        is_ranked = destination in (RANKED, PRICES)
        if isinstance(destination, Queue):
            store = adapter.queue_message_store(destination, prioritized=is_ranked)
            messages = list(store.recover())
            numbered += _numbers(destination, messages)
            found[str(destination)] = _bytes(messages)
            assert store.message_count == len(messages)
            continue
        assert isinstance(destination, Topic)
        topic = adapter.topic_message_store(destination, prioritized=is_ranked)
        for info in topic.all_subscriptions():
            page = topic.recover_next_subscription_messages(info.key, Cursor(), 1000, 1 << 30)
            numbered += _numbers(destination, page.messages)
            asked = info.selector, str(info.subscribed_destination), info.no_local and has_no_local
            found[f"{destination} {info.key}"] = (asked, _bytes(page.messages))
            assert topic.subscription_message_count(info.key) == len(page.messages)
    found["order"] = [words for _, words in sorted(set(numbered))]
    found["prepared"] = sorted(
        (
            str(one.transaction_id),
            _bytes(one.added),
            len(one.removed),
            sorted((str(where), str(key)) for where, key, _ in one.acknowledged),
        )
        for one in adapter.transaction_store().prepared_transactions()
    )
    jobs = adapter.job_store().jobs(None, 100, 1 << 30).jobs
    found["jobs"] = [
        (one.job_id, one.due_ms, one.delay_ms, one.period_ms, one.repeat, one.cron, *_bytes([one.message]))
        for one in jobs
    ]
    found["producer"] = adapter.last_producer_sequence_id(FOREIGN) >= 42
    return found


def decided(adapter: PersistenceAdapter, *, commits: bool) -> None:
    """End the prepared transactions."""
    assert isinstance(adapter, SupportsTransactions)
    store = adapter.transaction_store()
    for xid in (XID, EMPTY_XID):
        (store.commit_prepared if commits else store.rollback_prepared)(xid).result()


def _numbers(destination: Destination, messages: Iterable[Message]) -> list[tuple[int, str]]:
    return [
        (one.message_id.broker_sequence_id, f"{destination} {one.message_id}") for one in messages if one.message_id
    ]


def _bytes(messages: Iterable[Message]) -> list[bytes]:
    """Without the store's number, which stands in them."""
    found = []
    for message in messages:
        copied = message.copy()
        if copied.message_id is not None:
            copied.message_id = copied.message_id.copy()
            copied.message_id.broker_sequence_id = 0
        found.append(marshal(copied))
    return found
