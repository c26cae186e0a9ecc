"""A real ActiveMQ opens what was repaired and delivers exactly that; its cleanup removes what the diagnosis says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import LockHeld
from jdbcstore.identifiers import XATransactionId
from jdbcstore.message import Message
from jdbcstore.store.journal.kahadb.diagnosis import Diagnosis
from jdbcstore.store.journal.kahadb.inspection import check
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.kahadb.repair import repair
from jdbcstore.store.journal.kahadb.survey import survey
from jdbcstore.store.journal.replay import replay
from jdbcstore.store.journal.state import StoredMessage
from tests.compat.activemq import ActiveMQ
from tests.unit.kahadb.journals import unpack

pytestmark = pytest.mark.timeout(300)

ORDERS, PRICES, DONE = Queue("ORDERS"), Topic("PRICES"), Queue("DONE")
XID = "5:aa:bb"


def delivered(directory: Path, messages: list[StoredMessage]) -> list[Message]:
    """These messages as a broker dispatches them: KahaDB has three tiers, consumers see ten priorities."""
    journal = Journal(directory)
    return sorted((journal.message(message.location) for message in messages), key=lambda message: -message.priority)


def test_a_real_activemq_delivers_what_was_repaired(class_path: str, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    with ActiveMQ(class_path, old, "kahadb", prioritized=True) as activemq:
        activemq.subscribe_durably("PRICES", "ann", "news")
        activemq.publish("PRICES", 0, 12)
        activemq.subscribe_durably("PRICES", "bob", "news", "colour = 'red'")
        activemq.publish("PRICES", 12, 12)
        assert activemq.consume_durably("PRICES", "ann", "news", 5) == [9, 19, 8, 18, 7]  # by priority
        for first in (0, 10, 20):  # what is sent together may lie in one batch, which is lost as a whole
            activemq.send_numbers("queue://ORDERS", first, 10)
        sent = activemq.send_all_types("TYPES")
        activemq.prepare(XID, "receive", "ORDERS", "3", "send", "queue://DONE", "100", "4")
        activemq.prepare("5:cc:dd", "send", "queue://DONE", "200", "1")
        # Nobody stops it: what it says is stored is stored.
        activemq.kill()
    damaged = old / "kahadb" / "db-1.log"
    journal = Journal(old / "kahadb")
    # What the index does not know yet is no fault.
    assert check(old / "kahadb").findings == []
    whole = replay(journal)
    lost = whole.dispatchable(ORDERS)[4]
    data = bytearray(damaged.read_bytes())
    data[lost.location.offset + lost.location.size - 3] ^= 0xFF
    damaged.write_bytes(data)
    assert [finding.kind for finding in check(old / "kahadb").findings if finding.kind == "batch"] == ["batch"]

    new.mkdir()
    report = repair(old / "kahadb", new / "kahadb")
    assert report.lost
    state = replay(Journal(old / "kahadb"))
    assert lost.message_id not in {message.message_id for message in state.dispatchable(ORDERS)}
    wanted = [str(message.message_id) for message in delivered(old / "kahadb", state.dispatchable(ORDERS))]
    waiting = {
        name: [
            message.properties["number"] for message in delivered(old / "kahadb", state.pending(PRICES, f"{name}:news"))
        ]
        for name in ("ann", "bob")
    }
    assert 17 <= len(wanted) <= 26
    assert len(waiting["ann"]) == 19
    assert waiting["bob"]
    assert set(state.prepared) == {XATransactionId(5, b"\xaa", b"\xbb"), XATransactionId(5, b"\xcc", b"\xdd")}
    shutil.rmtree(old)

    with ActiveMQ(class_path, new, "kahadb", prioritized=True) as activemq:
        assert activemq.in_doubt() == {XID, "5:cc:dd"}
        assert [found["headers"]["JMSMessageID"] for found in activemq.browse("ORDERS")] == wanted
        assert activemq.consume_durably("PRICES", "ann", "news") == waiting["ann"]
        assert activemq.consume_durably("PRICES", "bob", "news", selector="colour = 'red'") == waiting["bob"]
        received = {found["headers"]["JMSMessageID"]: found for found in activemq.consume("TYPES")}
        assert set(received) == {found["headers"]["JMSMessageID"] for found in sent}
        for found in sent:
            got = received[found["headers"]["JMSMessageID"]]
            assert [got.get(part) for part in ("type", "body")] == [found.get(part) for part in ("type", "body")]
        activemq.decide(XID, commits=True)
        activemq.decide("5:cc:dd", commits=False)
        done = activemq.consume("DONE")
        assert sorted(found["properties"]["number"][1] for found in done) == [100, 101, 102, 103]
        activemq.stop()
    after = replay(Journal(new / "kahadb"))
    assert [str(message.message_id) for message in delivered(new / "kahadb", after.dispatchable(ORDERS))] == wanted


@pytest.mark.exhaustive
def test_a_real_activemq_delivers_a_repaired_sample(class_path: str, tmp_path: Path) -> None:
    unpack("corrupt", tmp_path / "old")
    report = repair(tmp_path / "old", tmp_path / "new" / "kahadb")
    state = replay(Journal(tmp_path / "old"))
    wanted = [message.message_id for message in state.dispatchable(Queue("Q.KILL"))]
    assert report.messages["queue://Q.KILL"] == len(wanted) == 565
    with ActiveMQ(class_path, tmp_path / "new", "kahadb") as activemq:
        assert [found["headers"]["JMSMessageID"] for found in activemq.consume("Q.KILL")] == wanted
        activemq.stop()


def files(directory: Path) -> set[int]:
    return set(Journal(directory).files)


def test_a_real_cleanup_removes_what_the_diagnosis_says(class_path: str, tmp_path: Path) -> None:
    directory = tmp_path / "kahadb"

    def start() -> ActiveMQ:
        # What is removable stays until it stops, however long it runs.
        return ActiveMQ(class_path, tmp_path, "kahadb", journal_max_file_length=16384, cleanup_interval_ms=3_600_000)

    def work(activemq: ActiveMQ, count: int) -> None:
        activemq.send_numbers("queue://BUSY", 0, count)
        assert len(activemq.consume("BUSY", idle_ms=300)) == count

    def cleaned() -> tuple[set[int], Diagnosis]:
        """Which files a broker that is started and stopped removes, and what was said before."""
        before = files(directory)
        with survey(directory) as found:
            diagnosis = Diagnosis.of(found.pins())
        with start() as activemq:
            activemq.stop()
        return before - files(directory), diagnosis

    with start() as activemq:
        activemq.subscribe_durably("IDLE", "ann", "news")
        work(activemq, 60)
        activemq.send_numbers("queue://PIN", 0, 1)
        work(activemq, 120)
        work(activemq, 120)
        # Looking at it meanwhile finds nothing wrong, and does not disturb.
        report = check(directory)
        assert report.findings == []
        assert report.survey.holder == activemq.pid
        with pytest.raises(LockHeld):
            repair(directory, tmp_path / "new")
        activemq.kill()
    removed, diagnosis = cleaned()
    assert {number for number, file in diagnosis.files.items() if file.removable} == removed
    assert removed
    chained = [number for number, file in diagnosis.files.items() if file.chain]
    assert len(chained) >= 2
    assert all(diagnosis.roots(number) == [Queue("PIN")] for number in chained)
    freed = set(diagnosis.holders[Queue("PIN")].files)
    assert freed >= set(chained)
    end = max(diagnosis.files)

    with start() as activemq:
        assert len(activemq.consume("PIN", idle_ms=300)) == 1
        activemq.kill()
    removed, diagnosis = cleaned()
    assert {number for number, file in diagnosis.files.items() if file.removable} == removed
    assert {number for number in removed if number < end} == freed  # this one may be full by now
