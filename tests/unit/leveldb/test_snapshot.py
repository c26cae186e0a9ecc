"""Snapshots of the index: what LevelDB itself and ActiveMQ's own bytes say of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import plyvel
import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue, Topic
from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.contract import SupportsTopics, SupportsTransactions
from jdbcstore.store.journal.journal_writer import JournalWriter
from jdbcstore.store.journal.leveldb.adapter import LevelDBPersistenceAdapter
from jdbcstore.store.journal.leveldb.index_reader import read_index, snapshots
from jdbcstore.store.journal.leveldb.java_counters import collection_meta, log_positions, log_references
from jdbcstore.store.journal.leveldb.log import LevelDBFormat, log_files
from jdbcstore.store.journal.leveldb.message_reader import MessageReader
from jdbcstore.store.journal.leveldb.options import LevelDBOptions
from jdbcstore.store.journal.leveldb.records import (
    ADD_COLLECTION,
    ADD_ENTRY,
    QUEUE,
    SEQUENCE,
    CollectionRecord,
    EntryRecord,
    framed,
)
from jdbcstore.store.journal.leveldb.recovery import recover
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing import text_message
from tests.unit.leveldb.directories import SAMPLE, contents, contents_of

INDEX = "0000000000034565.index"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "leveldb"))


def test_counters_are_what_java_wrote() -> None:
    """The order of a Java hash map, and the numbers of the sample."""
    index = read_index(SAMPLE / INDEX)
    assert index[b":log-refs"] == log_references({0x1064E: 0, 0x2072E: 0, 0x3080E: 2, 0: 25})
    found = [(8, 2, 2), (2, 2, 2), (5, 0, None), (4, 0, None), (1, 16, 25), (9, 2, 60), (3, 6, 6)]
    assert index[b":collection-meta"] == collection_meta(found)
    assert index[b":logs"] == log_positions([0, 0x1064E, 0x2072E, 0x3080E])
    other = index[b":log-refs"].replace(bytes.fromhex("f0d2d8239708f04d"), b"another!")
    assert log_references({0: 1}, other).count(b"LongCounteranother!") == 1


def test_a_store_that_was_opened_and_stopped_is_the_same(directory: Path) -> None:
    before = contents(directory)
    with open_store(f"leveldb:{directory}"):
        pass
    assert contents(directory) == before
    (path,) = snapshots(directory).values()
    with plyvel.DB(str(path), create_if_missing=False) as database:
        found = dict(database)
    original = read_index(SAMPLE / INDEX)
    # Java's own differs in the entries of topics that everybody has acknowledged, which it removes now and then.
    gone = {b"e" + (3).to_bytes(8, "big") + n.to_bytes(8, "big") for n in (1, 2, 3)}
    assert {key for key in original if not key.startswith(b":")} - {*found} == gone
    assert {key: value for key, value in found.items() if key[:1] == b"e" and len(key) == 17 and key[8] != 8} == {
        key: value
        for key, value in original.items()
        if key[:1] == b"e" and len(key) == 17 and key[8] != 8 and key not in gone
    }
    assert {key: value for key, value in found.items() if key[:1] == b"c"} == {
        key: value for key, value in original.items() if key[:1] == b"c"
    }
    assert found[b":dirty"] == b"false"
    assert found[b":producer_ids"] == original[b":producer_ids"]


def test_a_snapshot_alone_is_what_the_log_comes_to(directory: Path, tmp_path: Path) -> None:
    """As ActiveMQ starts: from the snapshot, whatever the log before says."""
    with open_store(f"leveldb:{directory}") as store:
        assert isinstance(store, SupportsTopics)
        assert isinstance(store, SupportsTransactions)
        queue = store.queue_message_store(Queue("Q.NEW"))
        for n in range(20):
            queue.add_message(text_message(n)).result(30)
        topic = store.topic_message_store(Topic("T.NEW"))
        for name in ("a", "b"):
            key = SubscriptionKey("c", name)
            topic.add_subscription(SubscriptionInfo(key, Topic("T.NEW"), Topic("T.NEW"), None)).result(30)
        sent = [text_message(n, destination=Topic("T.NEW")) for n in range(100, 110)]
        for message in sent:
            topic.add_message(message).result(30)
        ids = [message.message_id for message in sent]
        topic.acknowledge(SubscriptionKey("c", "a"), *[one for one in ids[:3] if one is not None]).result(30)
        store.topic_message_store(Topic("T.ONE")).delete_subscription(SubscriptionKey("c1", "d1")).result(30)
        transaction = store.transaction_store().begin(XATransactionId(7, b"glob", b"branch"))
        transaction.add_message(queue, text_message(500, destination=Queue("Q.NEW")))
        first = next(queue.recover()).message_id
        assert first is not None
        transaction.remove_message(queue, first)
        transaction.prepare().result(30)
    alone = Path(shutil.copytree(directory, tmp_path / "alone"))
    for path in snapshots(alone).values():
        shutil.rmtree(path)
    by_log = contents(alone)
    assert len(by_log["queues"]["queue://Q.NEW"]) == 19
    assert len(by_log["durable_receive"]["a"]) == 7
    found = recover(directory)
    assert found.is_from_index
    assert contents_of(found) == by_log
    with open_store(f"leveldb:{directory}"):
        pass
    assert recover(directory).snapshot == found.snapshot  # nothing has changed


def test_activemq_numbers_messages_of_a_topic_behind_its_subscriptions(tmp_path: Path) -> None:
    """It receives what is behind its position, which counts the messages of all destinations."""
    with open_store(f"leveldb:{tmp_path}") as store:
        assert isinstance(store, SupportsTopics)
        for n in range(10):
            store.queue_message_store(Queue("Q")).add_message(text_message(n)).result(30)
        info = SubscriptionInfo(SubscriptionKey("c", "d"), Topic("T"), Topic("T"))
        store.topic_message_store(Topic("T")).add_subscription(info).result(30)
    (path,) = snapshots(tmp_path).values()
    collections = recover(tmp_path).state.collections
    topic = next(key for key, one in collections.items() if one.name == "topic://T")
    queue = next(key for key, one in collections.items() if one.name == "queue://Q")
    (subscription,) = collections.keys() - {topic, queue}
    expected = [(queue, 10, 10), (topic, 0, None), (subscription, 0, None)]
    assert collections[subscription].position == 0  # so it does without this snapshot, too, after a kill
    assert read_index(path)[b":collection-meta"] == collection_meta(expected)


def test_what_is_not_understood_stays_in_snapshots_and_keeps_its_files(directory: Path) -> None:
    """A queue whose name cannot be parsed, and a collection of an unknown type."""
    known = contents(directory)["queues"]
    state = recover(directory).state
    first = next(place for one in state.collections.values() if one.type == QUEUE for place in one.entries.values())
    last = max(log_files(directory))
    strange = [
        framed(ADD_COLLECTION, CollectionRecord(70, QUEUE, b"queue://").written()),
        framed(ADD_ENTRY, EntryRecord(70, SEQUENCE.pack(5), *first).written()),
        framed(ADD_COLLECTION, CollectionRecord(71, 9, b"of another time").written()),
        framed(ADD_ENTRY, EntryRecord(71, SEQUENCE.pack(6), *first).written()),
    ]
    writer = JournalWriter(directory, LevelDBFormat(), LevelDBOptions())
    writer.open()
    writer.append(strange)
    writer.close()
    assert last in log_files(directory)
    for _ in range(2):  # the second time from the snapshot of the first
        with open_store(f"leveldb:{directory}") as store:
            assert isinstance(store, LevelDBPersistenceAdapter)
            for name in known:
                store.remove_destination(Queue(name.removeprefix("queue://"))).result(30)
            store.queue_message_store(Queue("Q.NEW")).add_message(text_message(1)).result(30)
            store.remove_unneeded_files()
        found = recover(directory)
        assert found.is_from_index
        assert found.state.collections[70].entries == {5: first}
        assert (found.state.collections[71].type, found.state.collections[71].entries) == (9, {6: first})
        reader = MessageReader(directory, found.files)
        assert reader.message(*first, 5).message_id is not None
        reader.close()
