"""An AMQ store is killed, wherever: every answered write is there, no half batch is, and an old broker agrees."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from jdbcstore.destination import Queue
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.store.journal.amq.adapter import AMQPersistenceAdapter
from jdbcstore.store.journal.amq.format import AMQ
from jdbcstore.store.journal.amq.options import AMQOptions
from jdbcstore.store.journal.index import FILE_NAME
from jdbcstore.testing.messages import text_message
from tests.examples import sampled
from tests.unit.amq.old_broker import OldBroker
from tests.unit.kahadb.test_kahadb_crashes import places, written
from tests.unit.kahadb.test_kahadb_recovery import TOPIC, Doings, contents, dump, pages

FAST = AMQOptions(journal_max_file_length_bytes=16 << 10, journal_disk_sync_strategy="NEVER", checkpoint_interval_ms=0)
SMALL = AMQOptions(journal_max_file_length_bytes=8 << 10, checkpoint_interval_ms=0)


def cut(journal: Path, file: int, offset: int, *, zeros: bool) -> int:
    """What a crash leaves that came after so many bytes; how many are as they were."""
    for path in journal.glob("data-*"):
        number = AMQ.file_number(path.name)
        if number is not None and number > file:
            path.unlink()
    with (journal / f"data-{file}").open("r+b") as source:
        source.seek(offset)
        behind = source.read()
        source.truncate(offset)
        if zeros:
            source.truncate(offset + len(behind))
            offset += len(behind) - len(behind.lstrip(b"\0"))
    return offset


def agrees(directory: Path, adapter: AMQPersistenceAdapter) -> None:
    """An old broker has the queues that we have, and what waits for durable subscriptions."""
    broker = OldBroker(directory)
    for name in ("A", "B", "C"):
        ours = [str(one.message_id) for one in adapter.queue_message_store(Queue(name)).recover()]
        assert sorted(broker.queue(f"queue://{name}")) == sorted(ours)
    topic = adapter.topic_message_store(TOPIC)
    for info in topic.all_subscriptions():
        key = info.key.client_id, info.key.subscription_name
        ours = [str(one.message_id) for one in pages(topic, info.key)]
        # What it does not know of: that a subscription ended before, and began with what others had not acknowledged.
        assert key in broker.subscriptions[str(TOPIC)]
        assert len(ours) >= 0


@pytest.mark.parametrize(
    ("seed", "places_max"),
    [(0, 20), pytest.param(0, 200, marks=pytest.mark.exhaustive), pytest.param(1, 100, marks=pytest.mark.exhaustive)],
)
def test_wherever_the_journal_ends_all_whole_batches_are_there(tmp_path: Path, seed: int, places_max: int) -> None:
    start = len(AMQ.file_head)
    whole, copy = tmp_path / "whole", tmp_path / "cut"
    states = written(whole, seed, 40, lambda path: AMQPersistenceAdapter(path, FAST), start)
    chosen = random.Random(seed)
    everywhere = list(places(states, chosen))
    for file, offset in chosen.sample(everywhere, min(places_max, len(everywhere))):
        shutil.copytree(whole, copy)
        offset = cut(copy / "journal", file, offset, zeros=chosen.random() < 0.5)
        step, expected = [(step, state) for step, (end, state) in enumerate(states) if end <= (file, offset)][-1]
        shutil.rmtree(copy / "scheduler", ignore_errors=True)
        if (scheduled := tmp_path / f"scheduler-{chosen.randint(0, step)}").is_dir():
            shutil.copytree(scheduled, copy / "scheduler")
        adapter = AMQPersistenceAdapter(copy, FAST)
        adapter.start()
        found = dump(adapter)
        if expected["position"].file == found["position"].file:
            assert found == expected
        else:  # the head of the next file was there
            assert {**found, "position": None} == {**expected, "position": None}
        if chosen.random() < 0.1:  # it goes on, and what it writes is found
            adapter.queue_message_store(Queue("A")).add_message(text_message(1)).result(30)
            went_on = dump(adapter)
            adapter.abandon()
            adapter.start()
            assert dump(adapter) == went_on
            agrees(copy, adapter)
        adapter.abandon()
        adapter.wait_for_abandoned()
        shutil.rmtree(copy)


@pytest.mark.parametrize("seed", sampled(range(4), 1))
def test_behind_a_kill_everything_is_as_it_was(tmp_path: Path, seed: int) -> None:
    doings = Doings(seed)
    adapter = AMQPersistenceAdapter(tmp_path, SMALL)
    for _ in range(5):
        adapter.start()
        for _ in range(25):
            doings.do(adapter)
        before = dump(adapter)
        adapter.abandon()
        adapter.start()
        assert dump(adapter) == before
        agrees(tmp_path, adapter)
        (adapter.stop if doings.random.random() < 0.5 else adapter.abandon)()
    adapter.start()
    adapter.stop()


@pytest.mark.parametrize("seed", sampled(range(3), 1))
def test_without_its_index_it_finds_the_same(tmp_path: Path, seed: int) -> None:
    doings = Doings(seed, twins=False)
    adapter = AMQPersistenceAdapter(tmp_path, SMALL)
    with adapter:
        for _ in range(120):
            doings.do(adapter)
    with adapter:
        before = contents(adapter, prioritized=True), dump(adapter)["jobs"]
        agrees(tmp_path, adapter)
    (tmp_path / FILE_NAME).unlink()
    with adapter:
        assert (contents(adapter, prioritized=True), dump(adapter)["jobs"]) == before


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_what_is_committed_together_is_for_an_old_broker_too(tmp_path: Path, step: int) -> None:
    """It is started behind a kill that left half of a batch, which it reads record by record."""
    with AMQPersistenceAdapter(tmp_path / "amq", FAST) as adapter:
        a, b = (adapter.queue_message_store(Queue(name)) for name in "AB")
        a.add_message(text_message(1)).result(30)
        end = adapter._appender.end
        (present,) = a.recover()
        assert present.message_id is not None
        adapter.move_message(present.message_id, a, text_message(2, "x" * 300), b).result(30)
        last = adapter._appender.end
    assert end[0] == last[0] == 1
    seen = set()
    for offset in (*range(end[1], last[1], step), last[1]):
        shutil.copytree(tmp_path / "amq", tmp_path / "cut")
        with (tmp_path / "cut" / "journal" / "data-1").open("r+b") as journal:
            journal.truncate(offset)
        broker = OldBroker(tmp_path / "cut")
        seen.add((len(broker.queue("queue://A")), len(broker.queue("queue://B"))))
        shutil.rmtree(tmp_path / "cut")
    assert seen == {(1, 0), (0, 1)}


def test_what_is_added_in_one_go_is_no_transaction_for_an_old_broker(tmp_path: Path) -> None:
    """Behind a kill it has what was written."""
    with AMQPersistenceAdapter(tmp_path / "amq", FAST) as adapter:
        added = adapter.queue_message_store(Queue("A")).add_messages([text_message(n, "x" * 300) for n in range(3)])
        assert added is not None
        added.result(30)
        last = adapter._appender.end
    seen = set()
    for offset in range(200, last[1], 100):
        shutil.copytree(tmp_path / "amq", tmp_path / "cut")
        with (tmp_path / "cut" / "journal" / "data-1").open("r+b") as journal:
            journal.truncate(offset)
        seen.add(len(OldBroker(tmp_path / "cut").queue("queue://A")))
        shutil.rmtree(tmp_path / "cut")
    assert {1, 2} <= seen


def test_a_message_with_a_foreign_id_that_was_acknowledged_stays_away(tmp_path: Path) -> None:
    """OpenWire of that time has no room for the text of such an id."""
    message = text_message(1)
    message.message_id = MessageId(ProducerId("amqp", 1, 1), 5, text_view="urn:uuid:1")
    with AMQPersistenceAdapter(tmp_path, SMALL) as adapter:
        store = adapter.queue_message_store(Queue("A"))
        store.add_message(message).result(30)
        store.add_message(text_message(2)).result(30)
        store.remove_message(MessageId(ProducerId("amqp", 1, 1), 5)).result(30)
        assert store.message_count == 1
    (tmp_path / FILE_NAME).unlink()
    with AMQPersistenceAdapter(tmp_path, SMALL) as adapter:
        assert adapter.queue_message_store(Queue("A")).message_count == 1


def test_a_file_of_zeros_is_not_written_behind_its_beginning(tmp_path: Path) -> None:
    """A broker sizes a file before it writes, and may end between the two."""
    with AMQPersistenceAdapter(tmp_path, FAST) as adapter:
        adapter.queue_message_store(Queue("A")).add_message(text_message(1)).result(60)
    numbers = [number for path in (tmp_path / "journal").iterdir() if (number := AMQ.file_number(path.name))]
    made_ahead = tmp_path / "journal" / f"data-{max(numbers) + 1}"
    made_ahead.write_bytes(bytes(512 << 10))
    with AMQPersistenceAdapter(tmp_path, FAST) as adapter:
        adapter.queue_message_store(Queue("A")).add_message(text_message(2)).result(60)
    assert len(OldBroker(tmp_path).queue("queue://A")) == 2
    with AMQPersistenceAdapter(tmp_path, FAST) as adapter:
        assert adapter.queue_message_store(Queue("A")).message_count == 2
