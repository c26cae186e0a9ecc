"""Several KahaDB stores as one under the contract suite: all destinations in one, or one for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError
from jdbcstore.identifiers import ProducerId, XATransactionId
from jdbcstore.store.contract import Commit, PersistenceAdapter, SupportsTransactions
from jdbcstore.store.disk import DiskFile
from jdbcstore.store.journal.mkahadb.adapter import MKahaDBPersistenceAdapter
from jdbcstore.testing import (
    DurablePersistenceAdapterContract,
    DurableScheduleContract,
    DurableTopicContract,
    DurableTransactionContract,
    OpenAdapter,
    text_message,
)

XID = XATransactionId(7, b"several", b"one")


@pytest.mark.one_in(3)  # each of its stores is one of KahaDB's, which has all of the suite
class TestPerDestination(DurablePersistenceAdapterContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"mkahadb:{tmp_path / 'm'}?perDestination=true")


@pytest.mark.one_in(3)
class TestPerDestinationTopics(DurableTopicContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"mkahadb:{tmp_path / 'm'}?perDestination=true")


@pytest.mark.one_in(3)
class TestPerDestinationTransactions(DurableTransactionContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"mkahadb:{tmp_path / 'm'}?perDestination=true")


@pytest.mark.parametrize("queries", ["", "?perDestination=true", "?filters=queue://A"])
class TestScheduled(DurableScheduleContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path, queries: str) -> OpenAdapter:
        return lambda: open_store(f"mkahadb:{tmp_path / 'm'}{queries}")


def test_each_step_over_several_stores_is_on_the_disk_before_the_next_also_when_it_is_forced_periodically(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[str, bool]] = []  # which store, and whether it was forced or written
    write, sync = DiskFile.write, DiskFile.sync

    def watched_write(file: DiskFile, data: bytes, offset: int) -> None:
        steps.append((file.path.parent.name, False))
        write(file, data, offset)

    def watched_sync(file: DiskFile) -> None:
        sync(file)
        steps.append((file.path.parent.name, True))

    url = f"mkahadb:{tmp_path}?perDestination=true&journalDiskSyncStrategy=periodic&journalDiskSyncInterval=3600000"
    url += "&checkpointInterval=0&cleanupInterval=0"  # nothing else writes meanwhile
    with open_store(url) as adapter:
        stores = [adapter.queue_message_store(Queue(name)) for name in ("A", "B")]
        adds = [(store, text_message(n, destination=store.destination)) for n, store in enumerate(stores)]
        with monkeypatch.context() as watched:
            watched.setattr(DiskFile, "write", watched_write)
            watched.setattr(DiskFile, "sync", watched_sync)
            adapter.commit_together(Commit(adds=adds)).result(60)
    a, b, outcome = "queue#3a#2f#2fA", "queue#3a#2f#2fB", "txStore"
    in_both = [(a, False), (b, False), (a, True), (b, True)]
    decided = [(outcome, False), (outcome, True)]
    assert [step for step in steps if step[0] in (a, b, outcome)] == [*in_both, *decided, *in_both, *decided]


def test_each_filter_has_options_of_its_own(tmp_path: Path) -> None:
    """Files are as long as the filter of the store says, and what has a place of its own shares it with nobody."""
    index = tmp_path / "index"
    url = (
        f"mkahadb:{tmp_path / 'm'}?filters=queue://A;journalMaxFileLength=8kb,queue://B"
        f"&journalMaxFileLength=1mb&preallocationScope=none&indexDirectory={index}"
    )
    with open_store(url) as adapter:
        for name in ("A", "B", "C"):
            store = adapter.queue_message_store(Queue(name))
            for number in range(4):
                store.add_message(text_message(number, "x" * 3000, destination=Queue(name))).result(30)
    files = {path.name: len(list(path.glob("db-*.log"))) for path in (tmp_path / "m").iterdir() if path.is_dir()}
    assert files == {"queue#3a#2f#2fA": 2, "queue#3a#2f#2fB": 1, "#210": 1, "txStore": 1}
    assert sorted(path.name for path in index.iterdir()) == ["#210", "queue#3a#2f#2fA", "queue#3a#2f#2fB"]
    with open_store(url) as adapter:
        assert [adapter.queue_message_store(Queue(name)).message_count for name in ("A", "B", "C")] == [4, 4, 4]


def test_a_filter_may_name_several(tmp_path: Path) -> None:
    """As an `activemq.xml` may have it, and as the directory of a Java broker tells it without the file."""
    url = f"mkahadb:{tmp_path}?filters=queue://*.A,*.*.A;journalMaxFileLength=8kb,topic://*.A,queue://B.A"
    for opened, names in ((url, ("X.A", "B.A", "A")), (f"mkahadb:{tmp_path}", ("X.Y.A",))):
        with open_store(opened) as adapter:
            for name in names:
                queue = Queue(name)
                adapter.queue_message_store(queue).add_message(text_message(1, destination=queue)).result(30)
    stores = {}
    for path in tmp_path.iterdir():
        if path.is_dir() and path.name != "txStore":
            with open_store(f"kahadb:{path}") as store:
                stores[path.name] = {queue.physical_name for queue in store.destinations()}
    assert stores == {"#2a.A#2c#2a.#2a.A": {"X.A", "X.Y.A"}, "queue#3a#2f#2fB.A": {"B.A"}, "#210": {"A"}}


def test_a_store_of_one_queue_with_nothing_in_it_is_opened_for_whom_it_is_there(tmp_path: Path) -> None:
    """Each that is open takes a thread and files, and Java brokers do not open those either."""
    url = f"mkahadb:{tmp_path}?perDestination=true"

    def add(adapter: PersistenceAdapter, name: str, number: int) -> None:
        message = text_message(number, destination=Queue(name))
        adapter.queue_message_store(Queue(name)).add_message(message).result(30)

    def opened(adapter: PersistenceAdapter) -> set[str]:
        assert isinstance(adapter, MKahaDBPersistenceAdapter)
        return {child.directory.name.removeprefix("queue#3a#2f#2f") for child in adapter.children()}

    with open_store(url) as adapter:
        for name in ("EMPTY", "FULL", "FORMER", "DOUBT"):
            adapter.queue_message_store(Queue(name))
        assert isinstance(adapter, SupportsTransactions)
        add(adapter, "FULL", 1)
        came = {ProducerId("ID:former", 1, 1): 5}
        former = text_message(2, destination=Queue("FORMER"))
        store = adapter.queue_message_store(Queue("FORMER"))
        adapter.commit_together(Commit(adds=[(store, former)], producers=came)).result(30)
        assert former.message_id is not None
        store.remove_message(former.message_id).result(30)
        transaction = adapter.transaction_store().begin(XID)
        transaction.add_message(adapter.queue_message_store(Queue("DOUBT")), text_message(3))
        transaction.prepare().result(30)
        assert opened(adapter) == {"EMPTY", "FULL", "FORMER", "DOUBT"}
        last = adapter.last_message_broker_sequence_id()
    for reopened in (url, f"mkahadb:{tmp_path}"):
        with open_store(reopened) as adapter:
            assert opened(adapter) - {"#210"} == {"FULL", "FORMER", "DOUBT"}
            assert adapter.last_producer_sequence_id(ProducerId("ID:former", 1, 1)) == 5
            assert adapter.last_message_broker_sequence_id() >= last
    with open_store(f"mkahadb:{tmp_path}") as adapter:
        add(adapter, "EMPTY", 4)
        assert opened(adapter) == {"#210", "EMPTY", "FULL", "FORMER", "DOUBT"}
    with open_store(f"kahadb:{tmp_path / 'queue#3a#2f#2fEMPTY'}") as adapter:
        assert adapter.destinations() == {Queue("EMPTY")}


@pytest.mark.parametrize(
    ("filters", "error"),
    [
        ("queue://A;journalMaxFileLenght=8kb", "nearest is 'journalMaxFileLength'"),
        ("queue://A;journalMaxFileLength=8 apples", "not a size"),
        ("queue://A;useLock=false", "one for all stores"),
        ("queue://A;cleanupInterval", "not NAME=VALUE"),
        ("queue://A,queue://A", "there twice"),
    ],
)
def test_what_a_filter_cannot_have_is_refused(tmp_path: Path, filters: str, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        open_store(f"mkahadb:{tmp_path / 'm'}?filters={filters}")
