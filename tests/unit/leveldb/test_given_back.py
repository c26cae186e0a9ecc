"""What ActiveMQ has of a directory that this store has written, by a reader of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue, Topic
from jdbcstore.identifiers import MessageId, XATransactionId
from jdbcstore.store.contract import Commit, PersistenceAdapter, SupportsTopics, SupportsTransactions
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing import text_message
from tests.unit.leveldb.directories import SAMPLE
from tests.unit.leveldb.old_broker import OldBroker

A, B, T = Queue("A"), Queue("B"), Topic("T")
XID = XATransactionId(1, b"g", b"b")


def id_of(number: int) -> MessageId:
    message_id = text_message(number).message_id
    assert message_id is not None
    return message_id


def ids(*numbers: int) -> list[str]:
    return [str(id_of(number)) for number in numbers]


def write(store: PersistenceAdapter) -> None:
    assert isinstance(store, SupportsTopics)
    assert isinstance(store, SupportsTransactions)
    one, two, topic = store.queue_message_store(A), store.queue_message_store(B), store.topic_message_store(T)
    for name in ("a", "b"):
        topic.add_subscription(SubscriptionInfo(SubscriptionKey("c", name), T, T)).result(30)
    for number in range(12):
        where = (one, two, topic)[number % 3]
        where.add_message(text_message(number, "x" * 300, destination=where.destination)).result(30)
    one.remove_message(id_of(3)).result(30)
    topic.acknowledge(SubscriptionKey("c", "a"), id_of(2), id_of(5)).result(30)
    store.commit_together(Commit(adds=[(one, text_message(20)), (two, text_message(21))])).result(30)
    transaction = store.transaction_store().begin(XID)
    transaction.add_message(one, text_message(30, destination=A))
    transaction.remove_message(two, id_of(4))
    transaction.prepare().result(30)


def require(broker: OldBroker) -> None:
    assert broker.died_at is None
    assert broker.queues() == {"queue://A": ids(0, 6, 9, 20), "queue://B": ids(1, 7, 10, 21)}
    assert broker.subscriptions() == {"c:a": ids(8, 11), "c:b": ids(2, 5, 8, 11)}
    assert broker.prepared() == [str(XID)]


def test_the_reader_finds_what_activemq_has_found(tmp_path: Path) -> None:
    expected = json.loads((SAMPLE / "expected.json").read_text())["as_left"]
    broker = OldBroker(Path(shutil.copytree(SAMPLE, tmp_path / "d")))
    assert broker.queues() == expected["queues"]
    assert {key.partition(":")[2]: found for key, found in broker.subscriptions().items()} == expected[
        "durable_receive"
    ]


@pytest.mark.parametrize("url", ["?logSize=200kb", "?logSize=2kb", "?logSize=200kb&logCompression=none"])
def test_after_a_stop_and_after_a_kill(tmp_path: Path, url: str) -> None:
    """Killed, it has the same from the log behind its last snapshot; stopped, from the snapshot alone."""
    store = open_store(f"leveldb:{tmp_path / 'd'}{url}")
    store.start()
    write(store)
    killed = Path(shutil.copytree(tmp_path / "d", tmp_path / "killed"))
    require(OldBroker(killed))
    store.stop()
    require(OldBroker(tmp_path / "d"))
    with open_store(f"leveldb:{killed}{url}"):
        pass
    require(OldBroker(killed))


def test_behind_a_removed_collection_a_stop_makes_everything_good(tmp_path: Path) -> None:
    with open_store(f"leveldb:{tmp_path}?logSize=200kb") as store:
        write(store)
        assert isinstance(store, SupportsTopics)
        assert isinstance(store, SupportsTransactions)
        store.topic_message_store(T).delete_subscription(SubscriptionKey("c", "b")).result(30)
        store.transaction_store().commit_prepared(XID).result(30)
        store.queue_message_store(B).add_message(text_message(40, destination=B)).result(30)
    broker = OldBroker(tmp_path)
    assert broker.died_at is None
    assert broker.queues() == {"queue://A": ids(0, 6, 9, 20, 30), "queue://B": ids(1, 7, 10, 21, 40)}
    assert broker.subscriptions() == {"c:a": ids(8, 11)}
    assert broker.prepared() == []
