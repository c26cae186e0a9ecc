"""The LevelDB store beyond the contract: kills at any byte, what ActiveMQ had lost, files that go, Snappy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import ConfigurationError, LockHeld, StoreError
from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Cursor, PersistenceAdapter, SupportsTopics
from jdbcstore.store.journal.leveldb import snappy
from jdbcstore.store.journal.leveldb.adapter import LevelDBPersistenceAdapter
from jdbcstore.store.journal.leveldb.log import LogScan, log_files
from jdbcstore.store.journal.leveldb.options import LevelDBOptions
from jdbcstore.store.journal.leveldb.records import (
    ADD_COLLECTION,
    ADD_ENTRY,
    DATA,
    HEADER,
    HEADER_BYTES,
    SEQUENCE,
    UNIT_END,
    CollectionRecord,
    EntryRecord,
    framed,
)
from jdbcstore.store.journal.leveldb.recovery import recover
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing import text_message
from tests.unit.leveldb.directories import SAMPLE, contents

Q = Queue("Q")
#: Files of the usual 100 MiB are long to copy.
BRIEF = LevelDBOptions(journal_max_file_length_bytes=200_000)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "leveldb"))


def first_message(data: bytes) -> bytes:
    """The first message of the first file of a log."""
    records = (record for unit in LogScan(data, 0).units() for record in unit.records)
    place = next(record.position for record in records if record.kind == DATA)
    return data[place + HEADER_BYTES :][: HEADER.unpack_from(data, place)[3]]


def texts(store: PersistenceAdapter, queue: Queue = Q) -> list[str]:
    return [str(message.message_id) for message in store.queue_message_store(queue).recover()]


def test_a_kill_at_any_byte_leaves_what_was_written_before(tmp_path: Path) -> None:
    """Each answer is remembered with the length of the log at that time; the log is cut at every byte."""
    directory = tmp_path / "leveldb"
    options = LevelDBOptions(journal_max_file_length_bytes=1 << 20, journal_disk_sync_strategy="NEVER")
    known: list[tuple[int, list[str]]] = [(0, [])]
    with LevelDBPersistenceAdapter(directory, options) as store:
        queue = store.queue_message_store(Q)

        def note() -> None:
            known.append((recover(directory).end, texts(store)))

        for n in range(4):
            queue.add_message(text_message(n)).result(30)
            note()
        ids = [message.message_id for message in queue.recover()]
        assert ids[1] is not None
        queue.remove_message(ids[1]).result(30)
        note()
        (path,) = log_files(directory).values()
        data = path.read_bytes()[: known[-1][0]]
    for path in directory.glob("*.index"):
        shutil.rmtree(path)
    for end in range(len(data) + 1):
        (path,) = directory.glob("*.log")
        path.write_bytes(data[:end])
        assert recover(directory).end == max(length for length, _ in known if length <= end)
    for end in range(0, len(data) + 1, 67):
        shutil.rmtree(directory)
        directory.mkdir()
        (directory / "0000000000000000.log").write_bytes(data[:end] + (b"" if end % 2 else bytes(512)))
        with LevelDBPersistenceAdapter(directory, options) as store:
            found = texts(store)
            before = [ids for length, ids in known if length <= end]
            if found != before[-1]:  # the zeros of a unit's last bytes are there in a file that was made longer
                assert end % 2 == 0
                assert found == next(ids for length, ids in known if end < length <= end + 8)


def test_what_activemq_had_lost_is_back_and_keeps_the_numbers_of_others(directory: Path) -> None:
    """ActiveMQ replayed until the first removed collection, and went on: it gave numbers of lost messages again."""
    for path in directory.glob("*.index"):
        shutil.rmtree(path)
    end = recover(directory).end
    message = first_message(next(iter(log_files(directory).values())).read_bytes())
    records = framed(DATA, message)
    location = end
    records += framed(ADD_ENTRY, EntryRecord(1, SEQUENCE.pack(24), location, len(message)).written())  # Q.ONE's
    records += framed(ADD_COLLECTION, CollectionRecord(9, 1, b"queue://Q.OTHER").written())  # Q.BIG's
    records += framed(ADD_ENTRY, EntryRecord(9, SEQUENCE.pack(1), location, len(message)).written())
    (directory / f"{end:016x}.log").write_bytes(records + framed(UNIT_END, SEQUENCE.pack(end)))
    expected = contents(SAMPLE)["queues"]
    for _ in range(2):
        with open_store(f"leveldb:{directory}") as store:
            assert len(texts(store, Queue("Q.ONE"))) == len(expected["queue://Q.ONE"]) + 1
            assert {*expected["queue://Q.ONE"]} < {*texts(store, Queue("Q.ONE"))}
            assert texts(store, Queue("Q.BIG")) == expected["queue://Q.BIG"]
            assert len(texts(store, Queue("Q.OTHER"))) == 1


def test_files_that_nobody_needs_go_and_their_acknowledgements_with_them(tmp_path: Path) -> None:
    directory = tmp_path / "leveldb"
    options = LevelDBOptions(journal_max_file_length_bytes=4096)
    with LevelDBPersistenceAdapter(directory, options) as store:
        queue = store.queue_message_store(Q)
        for n in range(100):
            message = text_message(n, "x" * 200)
            queue.add_message(message).result(30)
            if n not in (3, 60):
                assert message.message_id is not None
                queue.remove_message(message.message_id).result(30)
        left = texts(store)
        before = len(log_files(directory))
        assert store.remove_unneeded_files()
        assert len(log_files(directory)) < before - 5
        assert texts(store) == left
    with LevelDBPersistenceAdapter(directory, options) as store:
        assert recover(directory).is_from_index
        assert texts(store) == left
        assert len(left) == 2


def test_acknowledgements_out_of_order_survive_that_files_go(tmp_path: Path) -> None:
    directory = tmp_path / "leveldb"
    options = LevelDBOptions(journal_max_file_length_bytes=4096)
    topic_name, key = Topic("T"), SubscriptionKey("c", "d")
    with LevelDBPersistenceAdapter(directory, options) as store:
        assert isinstance(store, SupportsTopics)
        topic = store.topic_message_store(topic_name)
        for one in (key, SubscriptionKey("c", "other")):
            topic.add_subscription(SubscriptionInfo(one, topic_name, topic_name, None)).result(30)
        sent = [text_message(n, "x" * 100, destination=topic_name) for n in range(6)]
        for message in sent:
            topic.add_message(message).result(30)
        for message in sent[2:5]:
            assert message.message_id is not None
            topic.acknowledge(key, message.message_id).result(30)
        queue = store.queue_message_store(Q)
        for n in range(60):
            message = text_message(1000 + n, "x" * 200)
            queue.add_message(message).result(30)
            assert message.message_id is not None
            queue.remove_message(message.message_id).result(30)
        assert store.remove_unneeded_files()
    assert recover(directory).is_from_index
    with LevelDBPersistenceAdapter(directory, options) as store:
        topic = store.topic_message_store(topic_name)
        page = topic.recover_next_subscription_messages(key, Cursor(), 10, 1 << 20)
        assert [str(one.message_id) for one in page.messages] == [str(sent[n].message_id) for n in (0, 1, 5)]


@pytest.mark.parametrize("compress", [snappy.compress, lambda data: bytes(cramjam.snappy.compress_raw(data))])
def test_messages_may_be_snappy_blocks_and_new_ones_are(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    directory = tmp_path / "leveldb"
    with LevelDBPersistenceAdapter(directory, BRIEF) as store:
        store.queue_message_store(Q).add_message(text_message(1, "abc" * 500)).result(30)
    (path,) = log_files(directory).values()
    data = path.read_bytes()
    packed = compress(first_message(data))
    written = framed(ADD_COLLECTION, CollectionRecord(1, 1, b"queue://Q").written())
    location = len(written)
    written += framed(DATA, packed) + framed(
        ADD_ENTRY, EntryRecord(1, SEQUENCE.pack(1), location, len(packed)).written()
    )
    shutil.rmtree(directory)
    directory.mkdir()
    (directory / "0000000000000000.log").write_bytes(written + framed(UNIT_END, SEQUENCE.pack(0)))
    with LevelDBPersistenceAdapter(directory, BRIEF) as store:
        assert store.is_compressed
        store.queue_message_store(Q).add_message(text_message(2, "more")).result(30)
    with LevelDBPersistenceAdapter(directory, BRIEF) as store:
        assert texts(store) == [str(text_message(n).message_id) for n in (1, 2)]
    base, path = next((base, path) for base, path in log_files(directory).items() if b"more" in path.read_bytes())
    data = path.read_bytes()
    found = next(one for unit in LogScan(data, base).units() for one in unit.records if one.kind == DATA)
    block = data[found.position - base + HEADER_BYTES :][: HEADER.unpack_from(data, found.position - base)[3]]
    assert b"more" in bytes(cramjam.snappy.decompress_raw(block))


def test_one_broker_at_a_time(tmp_path: Path) -> None:
    with open_store(f"leveldb:{tmp_path}"), pytest.raises(LockHeld):
        open_store(f"leveldb:{tmp_path}").start()


@pytest.mark.parametrize("name", ["db-1.log", "kr-store", "data-1"])
def test_another_store_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(ConfigurationError):
        open_store(f"leveldb:{tmp_path}")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_log_elsewhere_is_continued_there(directory: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for path in log_files(directory).values():
        path.rename(logs / path.name)
    with open_store(f"leveldb:{directory}?logDirectory={logs}") as store:
        store.queue_message_store(Q).add_message(text_message(1)).result(30)
    assert not log_files(directory)
    with open_store(f"leveldb:{directory}?logDirectory={logs}&logSize=1mb") as store:
        assert len(texts(store)) == 1


@pytest.mark.parametrize("then", ["remove", "update"])
def test_an_update_is_seen_by_what_follows_in_its_batch(tmp_path: Path, then: str) -> None:
    directory = tmp_path / "leveldb"
    with LevelDBPersistenceAdapter(directory, BRIEF) as store:
        queue = store.queue_message_store(Q)
        queue.add_message(text_message(1)).result(30)
        (message,) = queue.recover()
        assert message.message_id is not None
        with store.opened().lock:  # the thread waits for it with the first write: the others become one batch
            done: list[Completion[Any]] = [queue.add_message(text_message(2)), queue.update_message(message)]
            done.append(queue.update_message(message) if then == "update" else queue.remove_message(message.message_id))
        for one in done:
            one.result(30)
        left = texts(store)
        assert len(left) == (2 if then == "update" else 1)
        assert store.opened().references.total() == len(left)
    for path in directory.glob("*.index"):
        shutil.rmtree(path)
    with LevelDBPersistenceAdapter(directory, BRIEF) as store:
        assert texts(store) == left


def test_a_refused_prepare_leaves_nothing_in_the_log(tmp_path: Path) -> None:
    with LevelDBPersistenceAdapter(tmp_path, BRIEF) as store:
        queue = store.queue_message_store(Q)
        queue.add_message(text_message(1)).result(30)
        (message,) = queue.recover()
        assert message.message_id is not None
        (kept,) = store.opened().of(Q).messages.values()
        (path,) = log_files(tmp_path).values()
        with path.open("r+b") as file:
            file.seek(kept.location)
            file.write(bytes(HEADER_BYTES + 64))  # it cannot be read any more
        before = store.committer._writer.end
        transaction = store.transaction_store().begin(XATransactionId(7, b"glob", b"branch"))
        transaction.add_message(queue, text_message(2))
        transaction.remove_message(queue, message.message_id)
        with pytest.raises(StoreError, match="cannot be read"):
            transaction.prepare().result(30)
        assert store.committer._writer.end == before
        assert not store.opened().transactions


def test_where_the_log_ends_before_the_index_new_messages_are_written_behind_both(
    directory: Path, tmp_path: Path
) -> None:
    """A copy of a directory at work, or a loss of power: whoever is killed then finds again what it has confirmed."""
    first, *_, last = log_files(directory).values()
    first.unlink()  # so that a replay begins with the index
    with last.open("r+b") as log:
        log.truncate(len(last.read_bytes().rstrip(b"\0")) - 3000)
    with LevelDBPersistenceAdapter(directory, BRIEF) as store:
        queue = store.queue_message_store(Queue("NEW"))
        for number in range(3):
            queue.add_message(text_message(number, destination=Queue("NEW"))).result(60)
        shutil.copytree(directory, tmp_path / "killed")
    with LevelDBPersistenceAdapter(tmp_path / "killed", BRIEF) as store:
        assert [one.rpartition(":")[2] for one in texts(store, Queue("NEW"))] == ["0", "1", "2"]


def test_a_damaged_unit_before_a_torn_one_is_decided_once(tmp_path: Path) -> None:
    with LevelDBPersistenceAdapter(tmp_path, BRIEF) as store:
        queue = store.queue_message_store(Q)
        for number in range(3):
            queue.add_message(text_message(number, destination=Q)).result(60)
    for path in tmp_path.glob("*.index"):
        shutil.rmtree(path)
    (log,) = log_files(tmp_path).values()
    data = bytearray(log.read_bytes())
    torn, damaged = data.rindex(b"message 2"), data.rindex(b"message 1")
    data[damaged] ^= 1
    log.write_bytes(data[:torn])
    found = []
    for _ in range(2):
        with LevelDBPersistenceAdapter(tmp_path, BRIEF) as store:
            found.append(texts(store))
    assert found[0] == found[1]
    assert found[0][0].endswith(":0")
