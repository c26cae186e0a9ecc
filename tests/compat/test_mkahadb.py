"""Several KahaDB stores in one directory: a real ActiveMQ, ours, and the real one again; transactions over them."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.errors import OutcomeUnknown
from jdbcstore.store.contract import Commit, PersistenceAdapter
from jdbcstore.store.journal.mkahadb.adapter import MKahaDBPersistenceAdapter
from jdbcstore.store.journal.mkahadb.filters import directory_name
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
    with ActiveMQ(class_path, tmp_path, "mkahadb") as activemq:
        with client(activemq.stomp_port, sends_text=True) as (connection, _):
            for queue in ("M.A", "OTHER"):
                connection.send(f"/queue/{queue}", "before", persistent="true", receipt="1")
            connection.begin("t")
            for queue in ("M.A", "OTHER"):
                connection.send(f"/queue/{queue}", "together", persistent="true", transaction="t")
            connection.commit("t", headers={"receipt": "2"})
        activemq.stop()
    there = {path.name for path in directory.iterdir() if path.is_dir()}
    assert {"txStore", directory_name("queue://M.>"), directory_name("queue://OTHER")} <= there
    url = f"mkahadb:{directory}?perDestination=true"
    with open_store(url) as adapter:
        assert bodies(adapter, "M.A") == bodies(adapter, "OTHER") == ["before", "together"]
        stores = {name: adapter.queue_message_store(Queue(name)) for name in ("M.A", "OTHER", "M.B", "NEW")}
        messages = {name: text_message(n, f"ours {name}", destination=Queue(name)) for n, name in enumerate(stores)}
        first = next(stores["OTHER"].recover()).message_id
        assert first is not None
        commit = Commit(
            adds=[(store, messages[name]) for name, store in stores.items()], removes=[(stores["OTHER"], first)]
        )
        adapter.commit_together(commit).result(30)
        assert bodies(adapter, "OTHER") == ["together", "ours OTHER"]
    assert {path.name for path in directory.iterdir() if path.is_dir()} - there == {directory_name("queue://NEW")}
    with ActiveMQ(class_path, tmp_path, "mkahadb") as activemq:
        expected = {"M.A": 3, "M.B": 1, "OTHER": 2, "NEW": 1}
        for queue, count in expected.items():
            with client(activemq.stomp_port) as (connection, collector):
                connection.subscribe(f"/queue/{queue}", id="1", ack="auto")
                collector.wait_for(count)
                assert collector.messages[-1][1].decode() == f"ours {queue}"
                assert len(collector.messages) == count
        activemq.stop()


@pytest.mark.parametrize("is_decided", [False, True])
def test_what_a_kill_leaves_half_done_gets_its_outcome(tmp_path: Path, is_decided: bool) -> None:
    """Ours is killed before or behind the moment when the outcome is written."""
    url = f"mkahadb:{tmp_path}?perDestination=true"
    adapter = open_store(url)
    assert isinstance(adapter, MKahaDBPersistenceAdapter)
    adapter.start()
    one, two = (adapter.queue_message_store(Queue(name)) for name in ("ONE", "TWO"))
    one.add_message(text_message(1)).result(30)
    ids = [message.message_id for message in one.recover()]
    assert ids[0] is not None
    original = Outcomes.decide

    def killed(self: Outcomes, xid: object) -> None:
        if is_decided:
            original(self, xid)  # type: ignore[arg-type]
        for child in adapter.children():
            child.abandon()
        raise OutcomeUnknown("killed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Outcomes, "decide", killed)
        done = adapter.commit_together(Commit(adds=[(two, text_message(2))], removes=[(one, ids[0])]))
        assert isinstance(done.exception(30), OutcomeUnknown)
    adapter.abandon()
    for child in [*tmp_path.iterdir()]:
        assert child.name
    with open_store(url) as found:
        assert (numbers(found, "ONE"), numbers(found, "TWO")) == (([], [2]) if is_decided else ([1], []))
