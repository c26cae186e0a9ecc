"""Journal files that nobody needs go; whatever went, a rebuild from the others finds what was there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.destination import Queue
from jdbcstore.identifiers import ProducerId
from jdbcstore.message import Message, TextMessage
from jdbcstore.store.contract import Commit
from jdbcstore.store.journal.commands import RewrittenDataFile
from jdbcstore.store.journal.index import FILE_NAME
from jdbcstore.store.journal.journal_directory import candidates, unneeded
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing.messages import text_message
from tests.threads import no_new_threads
from tests.unit.kahadb.journals import unpack
from tests.unit.kahadb.test_kahadb_recovery import KEYS, TOPIC, Doings, contents
from tests.waiting import wait_until

#: Tiny files, and nothing happens by itself.
TINY = KahaDBOptions(
    journal_max_file_length_bytes=1024,
    preallocation_scope="NONE",
    checkpoint_interval_ms=0,
    cleanup_interval_ms=0,
    cleanup_on_stop=False,
)
A = Queue("A")


def files(directory: Path) -> list[int]:
    return sorted(Journal(directory).files)


def everything(adapter: KahaDBPersistenceAdapter) -> dict[str, Any]:
    """What users of a store see."""
    prepared = adapter.transaction_store().prepared_transactions()
    return {
        "contents": contents(adapter, prioritized=True),
        "destinations": adapter.destinations(),
        "prepared": {
            one.transaction_id: (
                [str(message.message_id) for message in one.added],
                [destination for destination, _ in one.removed],
            )
            for one in prepared
        },
    }


def rebuilt(adapter: KahaDBPersistenceAdapter) -> None:
    adapter.stop()
    (adapter.directory / FILE_NAME).unlink()
    adapter.start()
    adapter.queue_message_store(A)  # before anybody asks for it by priority


# --- which files --------------------------------------------------------------------------------------------------


def test_what_makes_a_file_stay() -> None:
    all_files = range(1, 11)
    assert candidates(all_files, 10, {2}, [(4, 6)]) == {1, 3, 7, 8, 9}
    assert unneeded({1, 3, 7, 8, 9}, all_files, {3: {2}, 7: {3}, 8: {1}, 9: {99}}) == {1, 8, 9}
    # Also if a file needs a later one, and that one only stays for another.
    assert unneeded({1, 2}, all_files, {1: {2}, 2: {3}}) == set()


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("pinned", list(range(1, 11))),
        ("pinnedgap", [1, 4, 5, 6, 13]),
        # A broker keeps 16 too, because it is above the file that it writes; we begin one above all.
        ("compaction", [1, 2, 4, 6, 8, 10, 11, 15, 17, 18, 19]),
    ],
)
def test_files_that_brokers_keep(name: str, kept: list[int], tmp_path: Path) -> None:
    unpack(name, tmp_path)
    before = files(tmp_path)
    with KahaDBPersistenceAdapter(tmp_path, replace(TINY, journal_max_file_length_bytes=32 << 20)) as adapter:
        gone = adapter.remove_unneeded_files()
        assert [number for number in before if number not in gone] == kept


# --- whatever went, nothing is missed -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_what_is_left_is_enough_for_a_rebuild(tmp_path: Path, seed: int) -> None:
    doings = Doings(seed, twins=False)
    adapter = KahaDBPersistenceAdapter(tmp_path, TINY)
    adapter.start()
    gone: list[int] = []
    for _ in range(8):
        for _ in range(doings.random.randint(1, 25)):
            doings.do(adapter)
        if doings.random.random() < 0.3:
            topic = adapter.topic_message_store(TOPIC, prioritized=True)
            topic.acknowledge(KEYS[0], *[m.message_id for m in topic.recover() if m.message_id is not None]).result()
        before = everything(adapter)
        gone += adapter.remove_unneeded_files()
        while (compacted := adapter.compact_acknowledgements()) is not None:
            gone += adapter.remove_unneeded_files()
            assert compacted in gone
        assert everything(adapter) == before
        assert not set(gone) & set(files(tmp_path))
        (adapter.abandon if doings.random.random() < 0.3 else adapter.stop)()
        if doings.random.random() < 0.7:
            (tmp_path / FILE_NAME).unlink()
        adapter.start()
        adapter.queue_message_store(A)  # before anybody asks for it by priority
        assert everything(adapter) == before
    adapter.stop()
    assert gone


def fill(adapter: KahaDBPersistenceAdapter, first: int, count: int, queue: Queue = A) -> list[Message]:
    """Messages of which two fit into a file."""
    store = adapter.queue_message_store(queue)
    messages: list[Message] = [text_message(number, "x" * 100) for number in range(first, first + count)]
    for message in messages:
        store.add_message(message).result()
    return messages


def take(adapter: KahaDBPersistenceAdapter, *messages: Message, queue: Queue = A) -> None:
    store = adapter.queue_message_store(queue)
    for message in messages:
        assert message.message_id is not None
        store.remove_message(message.message_id).result()


def test_a_file_goes_when_its_last_message_does(tmp_path: Path) -> None:
    with KahaDBPersistenceAdapter(tmp_path, TINY) as adapter:
        one, *others = fill(adapter, 1, 9)
        take(adapter, *others)
        assert adapter.remove_unneeded_files() == [2, 3, 4]
        before = files(tmp_path)
        take(adapter, one)
        assert adapter.remove_unneeded_files() == [number for number in before if number < max(files(tmp_path))]


@pytest.mark.parametrize("directory", ["", "elsewhere"])
def test_files_are_archived_if_asked_for(directory: str, tmp_path: Path) -> None:
    archive = tmp_path / (directory or "store/data-archive")
    options = replace(TINY, archive_data_logs=True, directory_archive=str(tmp_path / directory) if directory else "")
    for life in range(2):
        with KahaDBPersistenceAdapter(tmp_path / "store", options) as adapter:
            take(adapter, *fill(adapter, 1, 6))
            contents_of_first = (tmp_path / "store" / f"db-{min(files(tmp_path / 'store'))}.log").read_bytes()
            gone = adapter.remove_unneeded_files()
        assert (archive / f"db-{gone[0]}.log").read_bytes() == contents_of_first
        if not life:
            # Another life of the directory uses the same numbers; nothing that was archived is lost.
            for path in (tmp_path / "store").glob("*.*"):
                path.unlink()
    assert len(list(archive.iterdir())) == 2 * len(gone)


def test_a_subscription_that_nothing_waits_for_keeps_no_file(tmp_path: Path) -> None:
    key = SubscriptionKey("ann", "news")
    with KahaDBPersistenceAdapter(tmp_path, TINY) as adapter:
        topic = adapter.topic_message_store(TOPIC)
        topic.add_subscription(SubscriptionInfo(key, TOPIC, TOPIC)).result()
        published = text_message(100)
        topic.add_message(published).result()
        take(adapter, *fill(adapter, 1, 6))
        assert 1 not in adapter.remove_unneeded_files()  # it waits for something
        assert published.message_id is not None
        topic.acknowledge(key, published.message_id).result()
        assert 1 in adapter.remove_unneeded_files()
        rebuilt(adapter)
        topic = adapter.topic_message_store(TOPIC)
        assert [info.key for info in topic.all_subscriptions()] == [key]
        assert topic.subscription_message_count(key) == 0


def test_what_only_remarks_tell_is_told_again(tmp_path: Path) -> None:
    producer, known, forgotten = ProducerId("ID:p", 1, 1), "Consumer.A.VirtualTopic.T", "Consumer.B.VirtualTopic.T"
    with KahaDBPersistenceAdapter(tmp_path, TINY) as adapter:
        adapter.commit_together(Commit(producers={producer: 17})).result()
        for name in (known, forgotten):
            adapter.queue_message_store(Queue(name))
        adapter.remove_destination(Queue(forgotten)).result()
        for _ in range(3):
            take(adapter, *fill(adapter, 1, 6))
            assert adapter.remove_unneeded_files()
        assert min(files(tmp_path)) > 1
        rebuilt(adapter)
        assert adapter.last_producer_sequence_id(producer) == 17
        assert adapter.destinations() == {Queue(known)}


def test_many_producers_are_told_again_before_a_file_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jdbcstore.store.journal.cleanup._PRODUCERS_MAX", 10)
    producers = {ProducerId("ID:p", number, 1): number for number in range(1, 26)}
    with KahaDBPersistenceAdapter(tmp_path, TINY) as adapter:
        adapter.commit_together(Commit(producers=producers)).result()
        take(adapter, *fill(adapter, 1, 6))
        runs = [bool(adapter.remove_unneeded_files()) for _ in range(4)]
        assert runs[:2] == [False, False]
        assert True in runs
        rebuilt(adapter)
        assert {producer: adapter.last_producer_sequence_id(producer) for producer in producers} == producers


def test_files_go_by_themselves_and_at_the_end(tmp_path: Path) -> None:
    with KahaDBPersistenceAdapter(tmp_path, replace(TINY, cleanup_interval_ms=20)) as adapter:
        take(adapter, *fill(adapter, 1, 6))
        wait_until(lambda: len(files(tmp_path)) == 1)
    with KahaDBPersistenceAdapter(tmp_path, replace(TINY, cleanup_on_stop=True)) as adapter:
        take(adapter, *fill(adapter, 1, 6))
        assert len(files(tmp_path)) > 3
    assert len(files(tmp_path)) == 1


def test_what_a_crash_left_goes_later(tmp_path: Path) -> None:
    """The index has forgotten the files, and they are there."""
    with KahaDBPersistenceAdapter(tmp_path, TINY) as adapter:
        take(adapter, *fill(adapter, 1, 6))
        saved = {path: path.read_bytes() for path in tmp_path.glob("db-*.log")}
        gone = adapter.remove_unneeded_files()
    for path, data in saved.items():
        if not path.exists():
            path.write_bytes(data)
    with KahaDBPersistenceAdapter(tmp_path, TINY) as adapter:
        assert set(gone) <= set(adapter.remove_unneeded_files())
        assert adapter.queue_message_store(A).message_count == 0


# --- acknowledgements written again -------------------------------------------------------------------------------


def chain(adapter: KahaDBPersistenceAdapter) -> Message:
    """One message that keeps many files over acknowledgements; they hold dead messages, too."""
    first, *before = fill(adapter, 1, 2)
    for number in range(10, 30, 2):
        added = fill(adapter, number, 2)
        take(adapter, *before)
        before = added
    take(adapter, *before)
    return first


def test_a_chain_is_broken(tmp_path: Path) -> None:
    with KahaDBPersistenceAdapter(tmp_path, TINY) as adapter:
        chain(adapter)
        before = contents(adapter)
        assert adapter.remove_unneeded_files() == []
        kept = len(files(tmp_path))
        while adapter.compact_acknowledgements() is not None:
            adapter.remove_unneeded_files()
        assert len(files(tmp_path)) < kept / 2
        rebuilt(adapter)
        assert contents(adapter) == before


def test_a_chain_is_broken_by_itself(tmp_path: Path) -> None:
    options = replace(TINY, cleanup_interval_ms=20, compact_acks_after_no_gc=2)
    with KahaDBPersistenceAdapter(tmp_path, replace(options, enable_ack_compaction=False)) as adapter:
        chain(adapter)
        before, kept = contents(adapter), len(files(tmp_path))
    with KahaDBPersistenceAdapter(tmp_path, options) as adapter:
        wait_until(lambda: len(files(tmp_path)) < kept / 2)
        assert contents(adapter) == before


def test_what_cannot_be_compacted_for_want_of_a_thread_is_compacted_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = replace(TINY, cleanup_interval_ms=20, compact_acks_after_no_gc=2)
    with KahaDBPersistenceAdapter(tmp_path, replace(options, enable_ack_compaction=False)) as adapter:
        chain(adapter)
        before, kept = contents(adapter), len(files(tmp_path))
    with KahaDBPersistenceAdapter(tmp_path, replace(options, compact_acks_after_no_gc=20)) as adapter:
        with no_new_threads():
            wait_until(lambda: "acknowledgements are not compacted now" in caplog.text)
            assert contents(adapter) == before
        wait_until(lambda: len(files(tmp_path)) < kept / 2)
        assert contents(adapter) == before


def test_an_acknowledgement_of_an_id_that_is_there_again_stays_where_it_is(tmp_path: Path) -> None:
    with KahaDBPersistenceAdapter(tmp_path, TINY) as adapter:
        first, second = fill(adapter, 1, 2)
        fill(adapter, 10, 2)
        take(adapter, second)
        dead = fill(adapter, 12, 4)
        take(adapter, *dead)
        adapter.queue_message_store(A).add_message(text_message(2, "the second one")).result()
        fill(adapter, 30, 2)
        before = contents(adapter)
        while adapter.compact_acknowledgements() is not None:
            adapter.remove_unneeded_files()
        rebuilt(adapter)
        assert contents(adapter) == before
        found = {str(message.message_id): message for message in adapter.queue_message_store(A).recover()}
        again = found[str(second.message_id)]
        assert isinstance(again, TextMessage)
        assert again.text == "the second one"
        assert str(first.message_id) in found


def test_files_of_brokers_are_compacted_without_their_trap(tmp_path: Path) -> None:
    """In `pinned` one message keeps ten files."""
    unpack("pinned", tmp_path)
    with KahaDBPersistenceAdapter(tmp_path, TINY) as adapter:
        before = contents(adapter)
        fill(adapter, 1, 1, Queue("B"))  # the last file is not the one that is written any more
        while adapter.compact_acknowledgements() is not None:
            adapter.remove_unneeded_files()
        assert len([number for number in files(tmp_path) if number <= 10]) < 5
        assert not [command for _, command in Journal(tmp_path).records() if isinstance(command, RewrittenDataFile)]
        rebuilt(adapter)
        assert {
            destination: ids for destination, ids in contents(adapter).items() if destination != Queue("B")
        } == before
