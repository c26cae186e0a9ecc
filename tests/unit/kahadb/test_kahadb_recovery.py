"""What a KahaDB store finds when it starts: behind a clean stop, a kill, a broker, and with no index at all."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import JournalDamaged
from jdbcstore.identifiers import MessageId, ProducerId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.openwire import marshal
from jdbcstore.store.contract import Commit, Cursor
from jdbcstore.store.jobs import FiredJob, ScheduledJob
from jdbcstore.store.journal.adapter import JournalPersistenceAdapter
from jdbcstore.store.journal.commands import AddMessage, Trace
from jdbcstore.store.journal.index import FILE_NAME
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.journal.kahadb.appender import Appender
from jdbcstore.store.journal.kahadb.encoding import encode
from jdbcstore.store.journal.kahadb.journal import Journal, JournalFile
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.kahadb.scheduler import replay_scheduler
from jdbcstore.store.journal.known import destination_name
from jdbcstore.store.journal.replay import replay
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing.messages import text_message
from tests.unit.kahadb.journals import unpack
from tests.unit.kahadb.test_kahadb_vectors import NAMES

#: Small files, so that there are several, and no checkpoint unless somebody asks.
SMALL = KahaDBOptions(journal_max_file_length_bytes=8 << 10, checkpoint_interval_ms=0)
KEYS = [SubscriptionKey("ann", "news"), SubscriptionKey("bob", "news")]
TOPIC = Topic("T")


def dump(adapter: JournalPersistenceAdapter) -> dict[str, Any]:
    """Everything that an index says, with names instead of its own numbers."""
    adapter.last_producer_sequence_id(ProducerId("", 0, 0))  # behind all that was submitted
    index = adapter.reading()
    with index.lock:
        names = {known.id: destination_name(known.destination) for known in index.known}
        keys = {one.id: (names[known.id], one.text) for known in index.known for one in known.subscriptions.values()}
        rows = index.connection.execute("SELECT * FROM messages ORDER BY sequence").fetchall()
        pending = index.connection.execute("SELECT * FROM pending ORDER BY sequence").fetchall()
        transactions = index.connection.execute("SELECT * FROM transactions ORDER BY id").fetchall()
        jobs = index.connection.execute("SELECT * FROM jobs").fetchall()
        operations = index.connection.execute("SELECT * FROM operations ORDER BY of, place").fetchall()
        return {
            "messages": [(row[0], names[row[1]], *row[2:]) for row in rows],
            "pending": sorted((keys[row[0]], *row[1:]) for row in pending),
            "transactions": transactions,
            "jobs": jobs,
            "operations": [(*row[:4], keys.get(row[4]), row[5]) for row in operations],
            "destinations": {
                names[known.id]: (known.count, set(known.levels) if known.count else None, known.is_kept)
                for known in index.known
                if known.count or known.subscriptions or known.is_kept
            },
            "subscriptions": {
                keys[one.id]: (one.info, one.count, one.location, one.retroactive)
                for known in index.known
                for one in known.subscriptions.values()
            },
            "live": dict(index.live),
            "ack_files": {file: set(files) for file, files in index.ack_files.items()},
            "written": index.written,
            "position": index.position,
        }


class Doings:
    """Does one random thing after the other, each in one batch or without writing anything."""

    def __init__(self, seed: int, *, twins: bool = True) -> None:
        self.random = random.Random(seed)
        self.twins = twins
        self.number = 0

    def message(self) -> Message:
        self.number += 1
        expiration = self.random.choice([0, 0, 1_700_000_000_000 + self.number])
        priority = self.random.randint(0, 9)
        text = "x" * self.random.randint(0, 300)
        return text_message(self.number, text, priority=priority, expiration=expiration)

    def do(self, adapter: JournalPersistenceAdapter) -> None:
        queues = [adapter.queue_message_store(Queue(name), prioritized=name == "B") for name in "AB"]
        topic = adapter.topic_message_store(TOPIC, prioritized=True)
        store = self.random.choice([*queues, topic])
        present = [message.message_id for message in store.recover() if message.message_id is not None]
        key = self.random.choice(KEYS)
        doings: list[tuple[int, Callable[[], Any]]] = [
            (30, lambda: store.add_message(self.message())),
            (10, lambda: adapter.commit_together(Commit(adds=[(store, self.message()) for _ in range(20)]))),
            (15, lambda: store.remove_message(self.random.choice(present)) if present else None),
            (15, lambda: topic.acknowledge(key, *self.random.sample(present, len(present) // 2))),
            (4, lambda: self.update(store)),
            (2, lambda: store.remove_all_messages()),
            (2, lambda: adapter.remove_destination(Queue("A"))),
            (6, lambda: topic.add_subscription(SubscriptionInfo(key, TOPIC, TOPIC), retroactive=self.number % 2 == 0)),
            (2, lambda: topic.delete_subscription(key)),
            (6, lambda: adapter.move_message(present[0], store, self.message(), queues[0]) if present else None),
            (6, lambda: self.prepare(adapter, present)),
            (5, lambda: self.decide(adapter)),
            (4, lambda: self.schedule(adapter)),
            (6, lambda: self.fire(adapter, queues[0])),
            (1, lambda: adapter.job_store().remove_jobs(0, self.random.randint(0, 100))),
            (1, lambda: adapter.queue_message_store(Queue(f"Consumer.{self.number}.VirtualTopic.A"))),
            (2 * self.twins, lambda: self.same_again(store)),
        ]
        done = self.random.choices([one for _, one in doings], [weight for weight, _ in doings])[0]()
        if hasattr(done, "result"):
            done.result(30)

    def schedule(self, adapter: JournalPersistenceAdapter) -> Any:
        """Jobs and a message in one commit."""
        adds = [(adapter.queue_message_store(Queue("A")), self.message())]
        jobs = []
        for _ in range(self.random.randint(1, 3)):
            self.number += 1
            repeat, cron = self.random.choice([(0, ""), (3, ""), (-1, ""), (0, "* * * * *")])
            due_ms = self.random.randint(1, 1000)
            jobs.append(ScheduledJob(str(self.number), self.message(), due_ms, 1, 10, repeat, cron))
        return adapter.commit_together(Commit(adds=adds, jobs=jobs))

    def fire(self, adapter: JournalPersistenceAdapter, queue: Any) -> Any:
        jobs = adapter.job_store().jobs(None, 3, 1 << 20).jobs
        if not jobs:
            return None
        job = self.random.choice(jobs)
        repeat = self.random.choice([job.repeat, job.repeat - 1])
        change = self.random.choice(
            [FiredJob(job.job_id, job.due_ms), FiredJob(job.job_id, job.due_ms, job.due_ms + 5, max(repeat, -1))]
        )
        return adapter.commit_together(Commit(adds=[(queue, self.message())], jobs=[change]))

    def update(self, store: Any) -> Any:
        found = store.recover_next_messages(Cursor(), 5, 1 << 20).messages
        if not found:
            return None
        found[-1].redelivery_counter += 1
        return store.update_message(found[-1])

    def same_again(self, store: Any) -> Any:
        """A message whose id is there already."""
        found = store.recover_next_messages(Cursor(), 5, 1 << 20).messages
        return store.add_message(found[-1]) if found else None

    def prepare(self, adapter: JournalPersistenceAdapter, present: list[MessageId]) -> Any:
        self.number += 1
        transaction = adapter.transaction_store().begin(XATransactionId(-4, str(self.number).encode(), b"b"))
        topic = adapter.topic_message_store(TOPIC, prioritized=True)
        queue = adapter.queue_message_store(Queue("A"))
        for store in (topic, queue):
            transaction.add_message(store, self.message())
        for message_id in present[:2]:
            transaction.remove_message(queue, message_id)
            transaction.acknowledge(topic, KEYS[0], message_id)
        return transaction.prepare()

    def decide(self, adapter: JournalPersistenceAdapter) -> Any:
        store = adapter.transaction_store()
        prepared = store.prepared_transactions()
        if not prepared:
            return None
        xid = self.random.choice(prepared).transaction_id
        return store.commit_prepared(xid) if self.random.random() < 0.6 else store.rollback_prepared(xid)


@pytest.mark.parametrize("seed", range(6))
def test_behind_a_kill_everything_is_as_it_was(tmp_path: Path, seed: int) -> None:
    doings = Doings(seed)
    adapter = KahaDBPersistenceAdapter(tmp_path, SMALL)
    for _ in range(6):
        adapter.start()
        for _ in range(25):
            doings.do(adapter)
        before = dump(adapter)
        adapter.abandon()
        adapter.start()
        assert dump(adapter) == before
        (adapter.stop if doings.random.random() < 0.5 else adapter.abandon)()
    adapter.start()
    adapter.stop()


def contents(adapter: JournalPersistenceAdapter, *, prioritized: bool = False) -> dict[Destination, Any]:
    """What readers of a store see."""
    found: dict[Destination, Any] = {}
    for destination in adapter.destinations():
        if isinstance(destination, Topic):
            topic = adapter.topic_message_store(destination, prioritized=prioritized)
            found[destination] = {
                info.key: [str(message.message_id) for message in pages(topic, info.key)]
                for info in topic.all_subscriptions()
            }
        else:
            assert isinstance(destination, Queue)
            store = adapter.queue_message_store(destination, prioritized=prioritized)
            found[destination] = [str(message.message_id) for message in store.recover()]
            assert store.message_count == len(found[destination])
    return found


def pages(topic: Any, key: SubscriptionKey) -> list[Message]:
    found = list(topic.recover_next_subscription_messages(key, Cursor(), 100_000, 1 << 30).messages)
    assert topic.subscription_message_count(key) == len(found)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_what_a_broker_has_written_is_found(name: str, tmp_path: Path) -> None:
    for store in unpack(name, tmp_path)["stores"]:
        if store["kind"] == "scheduler":
            continue
        directory = tmp_path / store["path"]
        shutil.copytree(directory, copy := tmp_path / "copy")
        state = replay(Journal(directory))
        expected: dict[Destination, Any] = {}
        for destination, stored in state.destinations.items():
            if destination.is_topic:
                expected[destination] = {
                    SubscriptionKey(one.info.client_id or "", one.info.subscription_name or ""): [
                        message.message_id
                        for message in sorted(state.pending(destination, text), key=lambda message: message.order)
                    ]
                    for text, one in stored.subscriptions.items()
                }
            else:
                waiting = sorted(state.dispatchable(destination), key=lambda message: message.order)
                expected[destination] = [message.message_id for message in waiting]
        expected = {destination: one for destination, one in expected.items() if one}
        for _ in range(2):  # made anew, and then found
            with KahaDBPersistenceAdapter(copy) as adapter:
                assert {destination: one for destination, one in contents(adapter).items() if one} == expected
                prepared = {one.transaction_id: one for one in adapter.transaction_store().prepared_transactions()}
                assert set(prepared) == set(state.prepared)
                for xid, one in prepared.items():
                    added = [str(message.message_id) for message in one.added]
                    assert added == [message_id for _, message_id, _ in state.prepared[xid].added]
                    assert len(one.removed) + len(one.acknowledged) == len(state.prepared[xid].acknowledged)
                ack_files = {file: files for file, files in adapter.reading().ack_files.items() if files}
                assert ack_files == state.ack_files
        assert not list(copy.glob("db.*"))
        shutil.rmtree(copy)


@pytest.mark.parametrize("seed", range(3))
def test_without_its_index_it_finds_the_same(tmp_path: Path, seed: int) -> None:
    doings = Doings(seed, twins=False)
    adapter = KahaDBPersistenceAdapter(tmp_path, SMALL)
    with adapter:
        for _ in range(120):
            doings.do(adapter)
    with adapter:
        before = contents(adapter, prioritized=True), dump(adapter)["jobs"]
    (tmp_path / FILE_NAME).unlink()
    with adapter:
        assert (contents(adapter, prioritized=True), dump(adapter)["jobs"]) == before


@pytest.mark.parametrize("seed", range(3))
def test_what_the_scheduler_has_not_got_is_given_to_it(tmp_path: Path, seed: int) -> None:
    """Its journal is not forced to the disk with each commit: the end of it may be gone."""
    doings = Doings(seed)
    adapter = KahaDBPersistenceAdapter(tmp_path, KahaDBOptions(checkpoint_interval_ms=0))
    adapter.start()
    adapter.commit_together(Commit(jobs=[ScheduledJob("first", doings.message(), 2000)])).result(30)
    adapter.stop()
    adapter.start()
    journal = tmp_path / "scheduler" / "db-1.log"
    with journal.open("rb") as source:
        safe = JournalFile(source, 1)
        assert len(list(safe.batches())) == 1
    for _ in range(60):
        doings.do(adapter)
    before = dump(adapter)
    adapter.abandon()
    adapter.wait_for_abandoned()
    with journal.open("rb") as source:
        whole = JournalFile(source, 1)
        assert len(list(whole.batches())) > 2
    with journal.open("r+b") as file:
        file.truncate(random.Random(seed).randint(safe.append_offset, whole.append_offset))
    with adapter:
        assert dump(adapter) == before
    jobs = replay_scheduler(Journal(tmp_path / "scheduler"))["JMS"]
    assert sorted((job.job_id, job.next_execution_time, job.repeat) for job in jobs) == [
        (row[0], row[1], row[4]) for row in before["jobs"]
    ]


def test_journal_files_that_are_missing(tmp_path: Path) -> None:
    with KahaDBPersistenceAdapter(tmp_path, SMALL) as adapter:
        for number in range(60):
            adapter.queue_message_store(Queue("A")).add_message(text_message(number, "x" * 300)).result(30)
        assert len(adapter.reading().live) > 3
    (tmp_path / "db-2.log").unlink()
    with pytest.raises(JournalDamaged, match=r"missing: db-2\.log; ignoreMissingJournalfiles=true"):
        KahaDBPersistenceAdapter(tmp_path, SMALL).start()
    with KahaDBPersistenceAdapter(tmp_path, replace(SMALL, ignore_missing_journal_files=True)) as adapter:
        store = adapter.queue_message_store(Queue("A"))
        assert 20 < store.message_count == len(list(store.recover())) < 60
    with KahaDBPersistenceAdapter(tmp_path, SMALL) as adapter:
        assert adapter.queue_message_store(Queue("A")).message_count == store.message_count


@pytest.mark.parametrize(("strategy", "left"), [("NEVER", (1, 1)), ("COMMIT", (0, 2)), ("ROLLBACK", (0, 1))])
def test_what_is_in_doubt_at_the_start(tmp_path: Path, strategy: str, left: tuple[int, int]) -> None:
    with KahaDBPersistenceAdapter(tmp_path) as adapter:
        store = adapter.queue_message_store(Queue("A"))
        store.add_message(text_message(1)).result(30)
        transaction = adapter.transaction_store().begin(XATransactionId(1, b"g", b"b"))
        transaction.add_message(store, text_message(2))
        transaction.prepare().result(30)
    options = KahaDBOptions(purge_recovered_xa_transaction_strategy=strategy)
    with KahaDBPersistenceAdapter(tmp_path, options) as adapter:
        in_doubt = len(adapter.transaction_store().prepared_transactions())
        assert (in_doubt, adapter.queue_message_store(Queue("A")).message_count) == left


def prepared_in(adapter: KahaDBPersistenceAdapter, queue: Queue) -> XATransactionId:
    """A transaction in doubt that adds message 2."""
    xid = XATransactionId(1, b"g", b"b")
    transaction = adapter.transaction_store().begin(xid)
    transaction.add_message(adapter.queue_message_store(queue), text_message(2))
    transaction.prepare().result(30)
    return xid


def test_what_is_in_doubt_outlives_the_removal_of_its_queue_and_the_index(tmp_path: Path) -> None:
    with KahaDBPersistenceAdapter(tmp_path) as adapter:
        adapter.queue_message_store(Queue("A")).add_message(text_message(1)).result(30)
        xid = prepared_in(adapter, Queue("A"))
        adapter.queue_message_store(Queue("A")).remove_all_messages().result(30)
        adapter.transaction_store().commit_prepared(xid).result(30)
    (tmp_path / FILE_NAME).unlink()
    with KahaDBPersistenceAdapter(tmp_path) as adapter:
        assert [str(one.message_id)[-2:] for one in adapter.queue_message_store(Queue("A")).recover()] == [":2"]


def test_what_is_in_doubt_outlives_its_queue_and_the_index(tmp_path: Path) -> None:
    """A queue that is remembered while it is empty is told to brokers as removed."""
    queue = Queue("Consumer.A.VirtualTopic.X")
    with KahaDBPersistenceAdapter(tmp_path) as adapter:
        xid = prepared_in(adapter, queue)
        adapter.remove_destination(queue).result(30)
        adapter.transaction_store().commit_prepared(xid).result(30)
    (tmp_path / FILE_NAME).unlink()
    with KahaDBPersistenceAdapter(tmp_path) as adapter:
        assert [str(one.message_id)[-2:] for one in adapter.queue_message_store(queue).recover()] == [":2"]


def test_the_second_of_two_messages_with_one_id_outlives_the_first_and_the_index(tmp_path: Path) -> None:
    with KahaDBPersistenceAdapter(tmp_path) as adapter:
        store = adapter.queue_message_store(Queue("A"))
        first, second = text_message(1, "first"), text_message(1, "second")
        for message in (first, second):
            store.add_message(message).result(30)
        assert first.message_id is not None
        store.remove_message(first.message_id).result(30)
    (tmp_path / FILE_NAME).unlink()
    with KahaDBPersistenceAdapter(tmp_path) as adapter:
        assert [message.content for message in adapter.queue_message_store(Queue("A")).recover()] == [second.content]


def test_where_a_broker_went_on_the_journal_is_replayed_by_its_rules(tmp_path: Path) -> None:
    """A broker takes the first of two messages with one id."""
    with KahaDBPersistenceAdapter(tmp_path) as adapter:
        store = adapter.queue_message_store(Queue("A"))
        store.add_message(text_message(1)).result(30)
    appender = Appender(tmp_path)
    appender.open()
    again = AddMessage(None, Queue("A"), str(text_message(1).message_id), marshal(text_message(1, "again")))
    appender.append([encode(Trace("LOADED Sun Nov 22 07:00:00 UTC 2026"))])
    appender.append([encode(again)])
    appender.close()
    with KahaDBPersistenceAdapter(tmp_path) as adapter:
        (found,) = adapter.queue_message_store(Queue("A")).recover()
        assert found.content == text_message(1).content


@pytest.mark.parametrize("end", ["stop", "abandon"])
def test_the_schedulers_journal_does_not_grow_with_what_is_over(tmp_path: Path, end: str) -> None:
    options = KahaDBOptions(journal_max_file_length_bytes=4 << 10, checkpoint_interval_ms=1)
    adapter = KahaDBPersistenceAdapter(tmp_path, options)
    adapter.start()

    def keep(name: str, number: int, due_ms: int) -> None:
        adapter.commit_together(Commit(jobs=[ScheduledJob(name, text_message(number), due_ms, 1, 10, 9)])).result(30)

    keep("old", 1, 5000)
    keep("gone", 2, 6000)
    adapter.commit_together(Commit(jobs=[FiredJob("old", 5000, 7000, 8)])).result(30)
    for number in range(200):
        keep(str(number), number, number + 1)
        adapter.commit_together(Commit(jobs=[FiredJob(str(number), number + 1)])).result(30)
        if number == 100:
            adapter.job_store().remove_job("gone").result(30)
    assert len(list((tmp_path / "scheduler").glob("db-*.log"))) < 6
    assert not (tmp_path / "scheduler" / "db-1.log").exists()
    getattr(adapter, end)()
    adapter.start()
    for _ in range(2):
        found = adapter.job_store().jobs(None, 9, 1 << 20).jobs
        assert [(job.job_id, job.due_ms, job.repeat, job.message.content) for job in found] == [
            ("old", 7000, 8, text_message(1).content)
        ]
        adapter.stop()
        (tmp_path / FILE_NAME).unlink()
        adapter.start()
    adapter.stop()
    (job,) = replay_scheduler(Journal(tmp_path / "scheduler"))["JMS"]
    assert (job.job_id, job.next_execution_time, job.repeat) == ("old", 7000, 8)


def test_a_copied_job_is_found_although_the_index_does_not_know_of_the_copy(tmp_path: Path) -> None:
    adapter = KahaDBPersistenceAdapter(tmp_path, SMALL)
    with adapter:
        adapter.commit_together(Commit(jobs=[ScheduledJob("one", text_message(1), 5)])).result(30)
    adapter.start()
    adapter.scheduler._copy(adapter.reading(), adapter.reading().jobs_in(1))
    adapter.commit_together(Commit(jobs=[ScheduledJob("two", text_message(2), 6)])).result(30)
    before = dump(adapter)
    adapter.abandon()
    adapter.start()
    assert dump(adapter) == before
    adapter.stop()


def test_a_store_may_be_used_over_a_restart(tmp_path: Path) -> None:
    adapter = KahaDBPersistenceAdapter(tmp_path)
    with adapter:
        stale = adapter.queue_message_store(Queue("A"))
        adapter.queue_message_store(Queue("B"))
    with adapter:  # queues get other numbers
        adapter.queue_message_store(Queue("C")).add_message(text_message(1)).result(30)
        stale.add_message(text_message(2)).result(30)
        assert [str(message.message_id)[-2:] for message in stale.recover()] == [":2"]
        assert stale.message_count == 1


def test_destinations_that_nothing_is_known_of_are_forgotten(tmp_path: Path) -> None:
    adapter = KahaDBPersistenceAdapter(tmp_path)
    with adapter:
        for name in "ABC":
            store = adapter.queue_message_store(Queue(name))
            store.add_message(text_message(1)).result(30)
            if name != "B":
                store.remove_all_messages().result(30)
        prepared_in(adapter, Queue("C"))
    for _ in range(2):
        with adapter:
            assert {known.destination for known in adapter.reading().known} == {Queue("A"), Queue("B"), Queue("C")}
    with adapter:
        adapter.transaction_store().rollback_prepared(XATransactionId(1, b"g", b"b")).result(30)
    with adapter:
        assert {known.destination for known in adapter.reading().known} == {Queue("B")}
