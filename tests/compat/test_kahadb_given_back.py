"""Java, ours, Java, ours on one KahaDB directory: all find what the one before had, whatever only its index knew."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import stomp

from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import CodecError, StoreError
from jdbcstore.identifiers import XATransactionId
from jdbcstore.message import Message
from jdbcstore.openwire import unmarshal
from jdbcstore.store.contract import Cursor
from jdbcstore.store.disk import move
from jdbcstore.store.journal import file_replacement
from jdbcstore.store.journal.commands import (
    AddMessage,
    AddScheduledJob,
    Command,
    Prepare,
    RemoveMessage,
    RewrittenDataFile,
    Rollback,
)
from jdbcstore.store.journal.kahadb import recovery
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.journal.kahadb.blank_index import is_blank_index, leave_blank_index
from jdbcstore.store.journal.kahadb.inspection import check
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.replay import replay
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing.messages import text_message
from tests.compat.activemq import ActiveMQ
from tests.compat.stomp_client import Collector, client
from tests.examples import sampled
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

PIN, BUSY, NEW, DONE = Queue("PIN"), Queue("BUSY"), Queue("NEW"), Queue("DONE")
PRICES = Topic("PRICES")
VIRTUAL = Queue("Consumer.A.VirtualTopic.X")
CONSUMERS = f"/queue/{VIRTUAL.physical_name}"
ANN, BOB = SubscriptionKey("ann", "news"), SubscriptionKey("bob", "news")
#: Nothing is written but what is asked for, so that the files may be copied meanwhile.
STILL = KahaDBOptions(checkpoint_interval_ms=0, cleanup_interval_ms=0)
XID, OUR_XID = "5:aa:bb", "5:cc:dd"
BRANCH = XATransactionId(5, b"\xaa", b"\xbb")

Contents = dict[str, list[str]]
"""What waits, by queue or subscription."""


# --- what each of them sees -------------------------------------------------------------------------------------------


def javas(activemq: ActiveMQ, queues: dict[Queue, int]) -> Contents:
    """What a STOMP consumer of these queues is sent that acknowledges nothing; how many are expected."""
    found: Contents = {}
    for queue, count in queues.items():
        with client(activemq.stomp_port) as (connection, collector):
            connection.subscribe(f"/queue/{queue.physical_name}", id="1", ack="client-individual")
            collector.wait_for(count)
            time.sleep(0.2)  # whether there is one more
            found[queue.physical_name] = [body.decode() for _, body in collector.messages]
    return found


def send(activemq: ActiveMQ, queue: Queue, *bodies: str) -> None:
    with client(activemq.stomp_port) as (connection, _):
        for body in bodies:
            connection.send(f"/queue/{queue.physical_name}", body, headers={"persistent": "true", "number": "1"})


def bodies_of(messages: Sequence[Message]) -> list[str]:
    found = []
    for message in messages:
        text = getattr(message, "text", None)
        found.append(text if text is not None else bytes(message.content or b"").decode())
    return found


def ours(adapter: KahaDBPersistenceAdapter, *queues: Queue) -> Contents:
    stores = {queue.physical_name: adapter.queue_message_store(queue) for queue in queues}
    pages = {name: store.recover_next_messages(Cursor(), 1000, 1 << 24) for name, store in stores.items()}
    assert not any(page.unreadable for page in pages.values())
    return {name: bodies_of(page.messages) for name, page in pages.items()}


def killed(directory: Path, target: Path) -> Path:
    """The directory as ``kill -9`` would leave it now."""
    shutil.copytree(directory, target / directory.name, ignore=shutil.ignore_patterns("lock"))
    return target


# --- a journal that was compacted -------------------------------------------------------------------------------------


def is_trap(directory: Path) -> bool:
    """Whether the next messages come behind copies, and the file that was copied is there.

    All acknowledgements are there, too: Java does not wait for its journal with them, and a broker that is killed now
    would deliver the messages again.
    """
    try:
        journal = Journal(directory)
        last = max(journal.files)
        records = list(journal.records())
    except OSError:
        return False
    busy = {one.message_id for _, one in records if isinstance(one, AddMessage) and one.destination == BUSY}
    busy -= {one.message_id for _, one in records if isinstance(one, RemoveMessage)}
    markers = [one for where, one in records if where.file == last and isinstance(one, RewrittenDataFile)]
    return not busy and any(marker.source in journal.files for marker in markers)


def stops_in_trap(activemq: ActiveMQ, directory: Path) -> bool:
    """Whether the directory is one; if so its broker is stopped, which removes the copied file a moment later."""
    activemq.pause()
    if is_trap(directory):
        return True
    activemq.proceed()
    return False


def work(connection: stomp.StompConnection12, collector: Collector) -> None:
    """Four messages come and go in the queue that is subscribed to."""
    for _ in range(4):
        connection.send("/queue/BUSY", "x" * 500, persistent="true")
    collector.wait_for(4)
    for headers, _ in collector.messages:
        connection.ack(headers["ack"])
    collector.messages.clear()


def compacted(class_path: str, folder: Path) -> None:
    """A directory whose last file begins with copies of acknowledgements, while the copied file is there."""
    with ActiveMQ(class_path, folder, "kahadb", journal_max_file_length=16384, compacts=True) as activemq:
        with client(activemq.stomp_port) as (connection, collector):
            connection.subscribe("/queue/BUSY", id="1", ack="client-individual")
            for number in range(40):
                connection.send("/queue/PIN", f"pin {number}", persistent="true")
                work(connection, collector)
        wait_until(lambda: stops_in_trap(activemq, folder / "kahadb"))
        activemq.kill()


@pytest.fixture(scope="module")
def trap(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a directory, with ten messages behind the copies; its broker was stopped. Not to be changed."""
    folder = tmp_path_factory.mktemp("trap")
    compacted(class_path, folder)
    with ActiveMQ(class_path, folder, "kahadb", journal_max_file_length=16384) as activemq:
        send(activemq, NEW, *(f"new {number}" for number in range(10)))
        activemq.stop()
    directory = folder / "kahadb"
    assert sum(len(lost.messages) for lost in replay(Journal(directory)).lost_by_broker) == 10
    return directory


WAITING: Contents = {"PIN": [f"pin {number}" for number in range(40)], "NEW": [f"new {number}" for number in range(10)]}


def test_messages_behind_the_copies_of_a_compaction_survive_several_rounds(
    class_path: str, trap: Path, tmp_path: Path
) -> None:
    waiting = {name: list(bodies) for name, bodies in WAITING.items()}
    directory = Path(shutil.copytree(trap, tmp_path / "kahadb"))
    with KahaDBPersistenceAdapter(directory) as adapter:  # started and stopped only
        assert ours(adapter, PIN, NEW) == waiting
    with ActiveMQ(class_path, tmp_path, "kahadb", journal_max_file_length=16384) as activemq:
        assert javas(activemq, {PIN: 40, NEW: 10, BUSY: 0}) == {**waiting, "BUSY": []}
        with client(activemq.stomp_port) as (connection, collector):
            connection.subscribe("/queue/NEW", id="1", ack="client-individual", headers={"activemq.prefetchSize": "1"})
            collector.wait_for(1)
            connection.ack(collector.messages[0][0]["ack"], receipt="acknowledged")
            collector.wait_for(2)
        send(activemq, NEW, "java 1", "java 2")
        activemq.stop()
    waiting["NEW"] = [*waiting["NEW"][1:], "java 1", "java 2"]
    with KahaDBPersistenceAdapter(directory, STILL) as adapter:  # with new messages, and killed
        assert ours(adapter, PIN, NEW) == waiting
        store = adapter.queue_message_store(NEW)
        for number in (1, 2, 3):
            store.add_message(text_message(number, f"ours {number}", destination=NEW)).result()
        first = store.recover_next_messages(Cursor(), 1, 1 << 20).messages[0]
        assert first.message_id is not None
        store.remove_message(first.message_id).result()
        again = killed(directory, tmp_path / "killed")
    waiting["NEW"] = [*waiting["NEW"][1:], "ours 1", "ours 2", "ours 3"]
    compacted(class_path, again)  # once more, on top of all
    waiting["PIN"] += [f"pin {number}" for number in range(40)]
    with ActiveMQ(class_path, again, "kahadb", journal_max_file_length=16384) as activemq:
        send(activemq, NEW, "last 1", "last 2")
        activemq.stop()
    waiting["NEW"] += ["last 1", "last 2"]
    with KahaDBPersistenceAdapter(again / "kahadb") as adapter:
        assert ours(adapter, PIN, NEW) == waiting
    with ActiveMQ(class_path, again, "kahadb", journal_max_file_length=16384) as activemq:
        assert javas(activemq, {PIN: 80, NEW: 15, BUSY: 0}) == {**waiting, "BUSY": []}
        activemq.stop()
    with KahaDBPersistenceAdapter(again / "kahadb") as adapter:
        assert ours(adapter, PIN, NEW) == waiting


@pytest.mark.parametrize(
    "step", sampled(["behind the last rename", "before the first rename", "before the index goes"], kept=1)
)
def test_a_broker_sees_all_when_ours_was_killed_at_its_first_start(
    class_path: str, trap: Path, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = Path(shutil.copytree(trap, tmp_path / "kahadb"))
    taken: list[Path] = []

    def take() -> None:
        shutil.rmtree(tmp_path / "killed", ignore_errors=True)
        taken[:] = [killed(directory, tmp_path / "killed")]

    def moving(path: Path, target: Path) -> None:
        if step == "before the first rename" and not taken:
            take()
        move(path, target)
        if step == "behind the last rename":
            take()

    def leaving(where: Path, wire_version: int | None) -> None:
        if step == "before the index goes":
            take()
        leave_blank_index(where, wire_version)

    monkeypatch.setattr(file_replacement, "move", moving)
    monkeypatch.setattr(recovery, "leave_blank_index", leaving)
    with KahaDBPersistenceAdapter(directory):
        pass
    (folder,) = taken
    assert (folder / "kahadb" / "db.data").exists()
    with ActiveMQ(class_path, folder, "kahadb", journal_max_file_length=16384) as activemq:
        assert javas(activemq, {PIN: 40, NEW: 10, BUSY: 0}) == {**WAITING, "BUSY": []}
        activemq.stop()
    with KahaDBPersistenceAdapter(folder / "kahadb") as adapter:
        assert ours(adapter, PIN, NEW) == WAITING


# --- branches that a compaction tears apart ---------------------------------------------------------------------------


def is_gone(directory: Path, kind: type[Command]) -> bool:
    """Whether no such record is in the journal of a broker that runs."""
    try:
        return not any(isinstance(command, kind) for _, command in Journal(directory).records())
    except StoreError:  # it has removed a file meanwhile
        return False


def fills_files(activemq: ActiveMQ, directory: Path) -> None:
    """Messages come and go until what was written last does not stand in the last files."""
    last = max(Journal(directory).files)
    with client(activemq.stomp_port) as (connection, collector):
        connection.subscribe("/queue/BUSY", id="1", ack="client-individual")

        def works() -> bool:
            work(connection, collector)
            return max(Journal(directory).files) > last + 2

        wait_until(works)


def lose(activemq: ActiveMQ, directory: Path, kind: type[Command]) -> None:
    """Have the broker compact until no such record is left. It does so while nothing comes, and may leave a file over
    until there is more to compact."""

    def is_lost() -> bool:
        fills_files(activemq, directory)
        with suppress(AssertionError):
            wait_until(lambda: is_gone(directory, kind), timeout_s=15)
        return is_gone(directory, kind)

    wait_until(is_lost)


def branches(adapter: KahaDBPersistenceAdapter) -> list[object]:
    return [one.transaction_id for one in adapter.transaction_store().prepared_transactions()]


@pytest.mark.parametrize("killed", [False, True])
def test_a_branch_that_was_rolled_back_stays_so(class_path: str, tmp_path: Path, killed: bool) -> None:
    directory = tmp_path / "kahadb"
    with ActiveMQ(class_path, tmp_path, "kahadb", journal_max_file_length=16384, compacts=True) as activemq:
        send(activemq, PIN, "pin")
        activemq.prepare(XID, "send", "queue://DONE", "1", "1")
        fills_files(activemq, directory)
        activemq.decide(XID, commits=False)
        lose(activemq, directory, Rollback)
        activemq.kill() if killed else activemq.stop()
    assert list(replay(Journal(directory)).prepared) == [BRANCH]
    assert list(check(directory).survey.state.prepared) == []
    with KahaDBPersistenceAdapter(directory) as adapter:
        assert branches(adapter) == []
        assert ours(adapter, PIN, DONE) == {"PIN": ["pin"], "DONE": []}
    with ActiveMQ(class_path, tmp_path, "kahadb") as activemq:
        assert activemq.in_doubt() == set()
        assert javas(activemq, {PIN: 1, DONE: 0}) == {"PIN": ["pin"], "DONE": []}


def test_a_branch_in_doubt_stays_so_when_nothing_says_any_more_that_it_was_prepared(
    class_path: str, tmp_path: Path
) -> None:
    directory = tmp_path / "kahadb"
    with ActiveMQ(class_path, tmp_path, "kahadb", journal_max_file_length=16384, compacts=True) as activemq:
        send(activemq, PIN, "pin")
        # The message has a file of its own, and the prepare stands in the next one.
        activemq.prepare(XID, "large", "queue://DONE", "1", "20000")
        lose(activemq, directory, Prepare)
        activemq.stop()
    assert replay(Journal(directory)).prepared == {}
    assert list(check(directory).survey.state.prepared) == [BRANCH]
    with KahaDBPersistenceAdapter(directory) as adapter:
        assert branches(adapter) == [BRANCH]
    with ActiveMQ(class_path, tmp_path, "kahadb") as activemq:
        assert activemq.in_doubt() == {XID}
        activemq.decide(XID, commits=True)
        activemq.stop()
    with KahaDBPersistenceAdapter(directory) as adapter:
        assert branches(adapter) == []
        assert ours(adapter, DONE) == {"DONE": ["x" * 20000 + "1"]}


# --- a directory of OpenWire version 6 --------------------------------------------------------------------------------


def sends_later(activemq: ActiveMQ, body: str) -> None:
    with client(activemq.stomp_port) as (connection, _):
        headers = {"AMQ_SCHEDULED_DELAY": "3600000", "persistent": "true", "receipt": "later"}
        connection.send("/queue/NEW", body, headers=headers)


def wire_versions(directory: Path) -> set[int]:
    """Those that fit the messages of a journal."""
    found = set()
    for _, command in Journal(directory).records():
        if isinstance(command, AddMessage | AddScheduledJob):
            data = command.message if isinstance(command, AddMessage) else command.payload
            for version in (6, 11):
                with suppress(CodecError):
                    unmarshal(data or b"", version)
                    found.add(version)
        elif isinstance(command, RemoveMessage) and command.ack:
            unmarshal(command.ack, 6)
    return found


@pytest.mark.exhaustive
def test_a_directory_of_an_old_openwire_version_keeps_it_over_several_rounds(class_path: str, tmp_path: Path) -> None:
    directory = tmp_path / "kahadb"
    ours_in_doubt = XATransactionId(5, b"\xcc", b"\xdd")

    def java(folder: Path = tmp_path, version: int | None = None) -> ActiveMQ:
        return ActiveMQ(
            class_path, folder, "kahadb", store_wire_version=version, scheduler=folder / "kahadb" / "scheduler"
        )

    with java(version=6) as activemq:
        activemq.subscribe_durably("PRICES", "ann", "news")
        activemq.subscribe_durably("QUIET", "ann", "quiet")  # no message ever comes
        activemq.publish("PRICES", 0, 4)
        send(activemq, NEW, *(f"new {number}" for number in range(5)))
        activemq.prepare(XID, "receive", "NEW", "1", "send", "queue://DONE", "100", "2")
        sends_later(activemq, "later 1")
        with client(activemq.stomp_port) as (connection, collector):  # its queue is empty, and gets what comes later
            connection.subscribe(CONSUMERS, id="1", ack="auto", headers={"receipt": "there"})
        activemq.stop()
    assert check(directory).findings == []
    with KahaDBPersistenceAdapter(directory) as adapter:  # started and stopped only
        assert adapter.wire_version == 6
        assert ours(adapter, NEW) == {"NEW": [f"new {number}" for number in range(1, 5)]}
    assert is_blank_index(directory)
    with java() as activemq:
        assert javas(activemq, {NEW: 4}) == {"NEW": [f"new {number}" for number in range(1, 5)]}
        assert activemq.in_doubt() == {XID}
        assert activemq.consume_durably("PRICES", "ann", "news", 1) == [0]
        send(activemq, NEW, "java")
        sends_later(activemq, "later 2")
        activemq.stop()
    with KahaDBPersistenceAdapter(directory, STILL) as adapter:  # with all that is written in OpenWire, and killed
        assert ours(adapter, NEW) == {"NEW": [*(f"new {number}" for number in range(1, 5)), "java"]}
        new, prices = adapter.queue_message_store(NEW), adapter.topic_message_store(PRICES)
        prices.add_subscription(SubscriptionInfo(BOB, PRICES, PRICES)).result()
        told = text_message(1, "ours", destination=PRICES)
        told.properties = {"number": 77}
        prices.add_message(told).result()
        new.add_message(text_message(2, "ours", destination=NEW)).result()
        transaction = adapter.transaction_store().begin(ours_in_doubt)
        first = new.recover_next_messages(Cursor(), 1, 1 << 20).messages[0]
        assert first.message_id is not None
        transaction.remove_message(new, first.message_id)
        transaction.add_message(adapter.queue_message_store(DONE), text_message(3, "ours", destination=DONE))
        transaction.prepare().result()
        assert VIRTUAL in adapter.destinations()
        jobs = adapter.job_store().jobs(None, 10, 1 << 20).jobs
        assert len(jobs) == 2
        folder = killed(directory, tmp_path / "killed")
    assert wire_versions(directory) == wire_versions(directory / "scheduler") == {6}
    with java(folder) as activemq:
        with client(activemq.stomp_port) as (connection, collector):
            connection.send("/topic/VirtualTopic.X", "kept", headers={"persistent": "true", "receipt": "kept"})
            connection.subscribe(CONSUMERS, id="1", ack="auto")
            collector.wait_for(1)
        assert activemq.in_doubt() == {XID, OUR_XID}
        assert javas(activemq, {NEW: 5}) == {"NEW": [*(f"new {number}" for number in range(2, 5)), "java", "ours"]}
        assert activemq.consume_durably("PRICES", "ann", "news", 2) == [1, 2]
        assert activemq.consume_durably("PRICES", "bob", "news") == [77]
        activemq.decide(XID, commits=True)
        activemq.stop()
    with KahaDBPersistenceAdapter(folder / "kahadb") as adapter:
        assert adapter.wire_version == 6
        assert ours(adapter, NEW) == {"NEW": [*(f"new {number}" for number in range(2, 5)), "java", "ours"]}
        assert adapter.topic_message_store(PRICES).subscription_message_count(ANN) == 2
        assert adapter.queue_message_store(DONE).message_count == 2
        assert [one.transaction_id for one in adapter.transaction_store().prepared_transactions()] == [
            XATransactionId(5, b"\xcc", b"\xdd")
        ]
        assert len(adapter.job_store().jobs(None, 10, 1 << 20).jobs) == 2
