"""Several KahaDB stores in one directory: a real ActiveMQ, ours, and the real one again; transactions over them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.errors import OutcomeUnknown
from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.contract import Commit, FiredJob, JobChange, PersistenceAdapter, ScheduledJob, SupportsScheduling
from jdbcstore.store.journal.commands import Command
from jdbcstore.store.journal.mkahadb.adapter import MKahaDBPersistenceAdapter
from jdbcstore.store.journal.mkahadb.filters import EVERYTHING, directory_name
from jdbcstore.store.journal.mkahadb.outcomes import Outcomes
from jdbcstore.testing.messages import text_message
from tests.compat.activemq import ActiveMQ
from tests.compat.stomp_client import client

pytestmark = pytest.mark.timeout(300)


def bodies(adapter: PersistenceAdapter, queue: str) -> list[str]:
    return [str(getattr(one, "text", "")) for one in adapter.queue_message_store(Queue(queue)).recover()]


def numbers(adapter: PersistenceAdapter, queue: str) -> list[int]:
    found = adapter.queue_message_store(Queue(queue)).recover()
    return [one.message_id.producer_sequence_id for one in found if one.message_id is not None]


def test_a_real_broker_and_ours_take_turns(class_path: str, tmp_path: Path) -> None:
    directory = tmp_path / "mkahadb"
    scheduler = directory / "scheduler"
    with ActiveMQ(class_path, tmp_path, "mkahadb", scheduler=scheduler) as activemq:
        with client(activemq.stomp_port, sends_text=True) as (connection, _):
            for queue in ("M.A", "OTHER"):
                connection.send(f"/queue/{queue}", "before", persistent="true", receipt="1")
            connection.begin("t")
            for queue in ("M.A", "OTHER"):
                connection.send(f"/queue/{queue}", "together", persistent="true", transaction="t")
            connection.commit("t", headers={"receipt": "2"})
            later = {"AMQ_SCHEDULED_DELAY": "3600000", "AMQ_SCHEDULED_REPEAT": "1", "AMQ_SCHEDULED_PERIOD": "5000"}
            connection.send("/queue/LATER", "scheduled", persistent="true", receipt="3", headers=later)
        activemq.stop()
    there = {path.name for path in directory.iterdir() if path.is_dir()}
    assert {"txStore", directory_name("M.>,*.M"), directory_name("queue://OTHER")} <= there
    url = f"mkahadb:{directory}?perDestination=true"
    with open_store(url) as adapter:
        assert bodies(adapter, "M.A") == bodies(adapter, "OTHER") == ["before", "together"]
        stores = {name: adapter.queue_message_store(Queue(name)) for name in ("M.A", "OTHER", "B.M", "NEW")}
        messages = {name: text_message(n, f"ours {name}", destination=Queue(name)) for n, name in enumerate(stores)}
        first = next(stores["OTHER"].recover()).message_id
        assert first is not None
        commit = Commit(
            adds=[(store, messages[name]) for name, store in stores.items()], removes=[(stores["OTHER"], first)]
        )
        adapter.commit_together(commit).result(30)
        assert bodies(adapter, "OTHER") == ["together", "ours OTHER"]
        assert isinstance(adapter, SupportsScheduling)
        (job,) = adapter.job_store().jobs(None, 10, 1 << 20).jobs
        assert (job.message.destination, job.repeat, job.period_ms) == (Queue("LATER"), 1, 5000)
        late = adapter.queue_message_store(Queue("LATER"))
        fired = Commit(adds=[(late, text_message(9, "ours LATER"))], jobs=[FiredJob(job.job_id, job.due_ms)])
        adapter.commit_together(fired).result(30)
        soon = ScheduledJob("soon", text_message(10, "ours SOON", destination=Queue("SOON")), 1)
        adapter.commit_together(Commit(jobs=[soon])).result(30)
    new = {directory_name(f"queue://{name}") for name in ("NEW", "LATER")} | {EVERYTHING[0]}
    assert {path.name for path in directory.iterdir() if path.is_dir()} - there == new
    with ActiveMQ(class_path, tmp_path, "mkahadb", scheduler=scheduler) as activemq:
        expected = {"M.A": 3, "B.M": 1, "OTHER": 2, "NEW": 1, "LATER": 1, "SOON": 1}
        for queue, count in expected.items():
            with client(activemq.stomp_port) as (connection, collector):
                connection.subscribe(f"/queue/{queue}", id="1", ack="auto")
                collector.wait_for(count)
                assert collector.messages[-1][1].decode() == f"ours {queue}"
                assert len(collector.messages) == count
        activemq.stop()
    with open_store(url) as adapter:
        assert isinstance(adapter, SupportsScheduling)
        assert adapter.job_store().job_count() == 0


@pytest.mark.parametrize("is_decided", [False, True])
def test_what_a_kill_leaves_half_done_gets_its_outcome(tmp_path: Path, is_decided: bool) -> None:
    """Ours is killed before or behind the moment when the outcome is written."""
    url = f"mkahadb:{tmp_path}?perDestination=true"
    adapter = open_store(url)
    assert isinstance(adapter, MKahaDBPersistenceAdapter)
    adapter.start()
    one, two = (adapter.queue_message_store(Queue(name)) for name in ("ONE", "TWO"))
    one.add_message(text_message(1)).result(30)
    jobs = [ScheduledJob(name, text_message(n, destination=Queue("TWO")), 5) for n, name in enumerate("ab")]
    adapter.commit_together(Commit(jobs=jobs)).result(30)
    ids = [message.message_id for message in one.recover()]
    assert ids[0] is not None
    original = Outcomes.decide

    def killed(self: Outcomes, xid: XATransactionId, scheduled: Sequence[Command]) -> None:
        if is_decided:
            original(self, xid, scheduled)
        for child in adapter.children():
            child.abandon()
        raise OutcomeUnknown("killed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Outcomes, "decide", killed)
        changes: list[JobChange] = [FiredJob("a", 5), FiredJob("b", 5, 65), ScheduledJob("c", text_message(3), 9)]
        commit = Commit(adds=[(two, text_message(2))], removes=[(one, ids[0])], jobs=changes)
        done = adapter.commit_together(commit)
        assert isinstance(done.exception(30), OutcomeUnknown)
    children = adapter.children()
    adapter.abandon()
    for child in children:
        child.wait_for_abandoned()
    for _ in range(2):
        with open_store(url) as found:
            assert (numbers(found, "ONE"), numbers(found, "TWO")) == (([], [2]) if is_decided else ([1], []))
            assert isinstance(found, SupportsScheduling)
            due = {job.job_id: job.due_ms for job in found.job_store().jobs(None, 10, 1 << 20).jobs}
            assert due == ({"b": 65, "c": 9} if is_decided else {"a": 5, "b": 5})
