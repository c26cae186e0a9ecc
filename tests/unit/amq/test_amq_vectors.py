"""AMQ stores that ActiveMQ 5.3.2 wrote: read, served, written on, and read again as that version does."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.openwire import commands as wire
from jdbcstore.openwire import marshal
from jdbcstore.store.journal.amq.adapter import AMQPersistenceAdapter
from jdbcstore.store.journal.amq.blank_state import blank_state
from jdbcstore.store.journal.amq.control_file import read_control_file
from jdbcstore.store.journal.amq.journal import Journal, framed
from jdbcstore.store.journal.amq.reference_store import read_reference_store
from jdbcstore.store.journal.amq.store_journal import StoreJournal
from jdbcstore.store.journal.replay import replay
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing.messages import text_message
from tests.unit.amq.old_broker import OldBroker
from tests.unit.kahadb.test_kahadb_recovery import pages

VECTORS = Path(__file__).parents[2] / "vectors" / "amq-store"
NAMES = sorted(path.name for path in VECTORS.iterdir())


@pytest.fixture(params=NAMES)
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(VECTORS / request.param, tmp_path / "amq"))


def expected(directory: Path, what: str = "journal_replay_forced_without_kr_store") -> Any:
    return json.loads((directory / "expected.json").read_text())[what]


def test_the_state_is_that_of_a_replay(directory: Path) -> None:
    wanted = expected(directory)
    journal = Journal(directory / "journal")
    state = replay(journal)
    assert not state.damages
    assert not journal.ends_early
    queues = {
        destination.qualified_name: [message.message_id for message in state.dispatchable(destination)]
        for destination in state.destinations
        if destination.is_queue
    }
    assert {name: ids for name, ids in queues.items() if ids} == wanted["queues"]
    subscriptions = {
        f"{destination} {text}": f"selector={one.info.selector or 'null'} count={len(state.pending(destination, text))}"
        for destination, stored in state.destinations.items()
        for text, one in stored.subscriptions.items()
    }
    assert subscriptions == wanted["subs"]
    assert [[one.format_id, one.global_transaction_id.decode()] for one in state.prepared] == wanted["xa"]  # type: ignore[union-attr]


def test_what_only_the_reference_store_knows(directory: Path) -> None:
    store = read_reference_store(directory)
    assert (store.is_there, store.is_clean, store.damage) == (True, True, None)
    assert [info.subscription_name for info, _ in store.subscriptions] == ["d1", "d2"]
    assert store.prepared is not None
    assert [one.global_transaction_id for one in store.prepared] == [b"g2"]
    assert store.files == {1, 4}
    control = read_control_file(directory / "journal")
    assert control is not None
    assert control.last is not None
    assert (control.last.file, control.last.offset) == (4, 34474)


def served(adapter: AMQPersistenceAdapter) -> dict[str, list[str]]:
    """What consumers of a queue, and durable subscriptions, get."""
    found = {}
    for destination in adapter.destinations():
        if isinstance(destination, Queue):
            store = adapter.queue_message_store(destination)
            found[destination.qualified_name] = [str(one.message_id) for one in store.recover()]
        elif isinstance(destination, Topic):
            topic = adapter.topic_message_store(destination)
            for info in topic.all_subscriptions():
                name = f"{destination} {info.key.client_id}:{info.key.subscription_name}"
                found[name] = [str(one.message_id) for one in pages(topic, info.key)]
    return found


def test_it_is_served_as_it_was_left_and_goes_back(directory: Path) -> None:
    wanted = expected(directory, "as_left")
    with AMQPersistenceAdapter(directory) as adapter:
        found = served(adapter)
        assert {name: ids for name, ids in found.items() if name.startswith("queue:") and ids} == wanted["queues"]
        assert set(found) - set(wanted["queues"]) == {"topic://T.ONE c1:d1", "topic://T.ONE c1:d2"}  # "gone" is gone
        assert found["topic://T.ONE c1:d1"] == wanted["durable_receive"]["d1"]
        (prepared,) = adapter.transaction_store().prepared_transactions()
    _read_by_the_old_broker(directory, found)
    with AMQPersistenceAdapter(directory) as adapter:
        queue = adapter.queue_message_store(Queue("Q.TWO"))
        queue.add_message(text_message(1)).result(30)
        queue.remove_message(next(one.message_id for one in queue.recover() if one.message_id)).result(30)
        adapter.transaction_store().rollback_prepared(prepared.transaction_id).result(30)
        topic = adapter.topic_message_store(Topic("T.ONE"))
        key = SubscriptionKey("c1", "d2")
        topic.delete_subscription(key).result(30)
        other = SubscriptionInfo(SubscriptionKey("c:2", "d:1"), Topic("T.ONE"), Topic("T.ONE"), "n > 2")
        topic.add_subscription(other).result(30)
        topic.add_message(text_message(2)).result(30)
        found = served(adapter)
        assert len(found["queue://Q.TWO"]) == 2
        assert "topic://T.ONE c1:d2" not in found
        assert len(found["topic://T.ONE c:2:d:1"]) == 1
    broker = _read_by_the_old_broker(directory, found)
    assert not broker.prepared
    assert broker.subscriptions["topic://T.ONE"]["c:2", "d:1"] == "n > 2"
    assert [info.subscription_name for info, _ in read_reference_store(directory).subscriptions] == ["d1"]
    os.unlink(directory / "jdbcstore-index.sqlite")
    with AMQPersistenceAdapter(directory) as adapter:
        assert served(adapter) == found


def _read_by_the_old_broker(directory: Path, found: dict[str, list[str]]) -> OldBroker:
    """What the old version makes of it is what we say."""
    broker = OldBroker(directory)
    for name, ids in found.items():
        if name.startswith("queue:"):
            assert broker.queue(name) == ids
        else:
            topic, _, key = name.partition(" ")
            client_id, _, subscription = key.partition(":")
            if (client_id, subscription) in broker.subscriptions[topic]:
                assert broker.pending(topic, client_id, subscription) == ids
    return broker


def test_the_old_broker_went_on(directory: Path, tmp_path: Path) -> None:
    """It was started on what we left, wrote, and was stopped: what it says counts."""
    from jdbcstore.openwire import marshal
    from jdbcstore.openwire.commands import JournalTrace
    from jdbcstore.store.journal.amq.encoding import marshal_message
    from jdbcstore.store.journal.amq.journal import framed

    with AMQPersistenceAdapter(directory) as adapter:
        adapter.queue_message_store(Queue("Q.TWO")).add_message(text_message(1)).result(30)
        before = served(adapter)
    message = text_message(2)
    with (directory / "journal" / "data-4").open("ab") as journal:
        journal.write(framed(marshal(JournalTrace(message="RECOVERED Mon Jan 05 10:00:00 CET 2009"), 5)))
        journal.write(framed(marshal_message(message, Queue("Q.TWO"))))
        journal.write(bytes(1000))
    with AMQPersistenceAdapter(directory) as adapter:
        before["queue://Q.TWO"].append(str(message.message_id))
        assert served(adapter) == before
    _read_by_the_old_broker(directory, before)


def test_subscriptions_whose_records_are_gone(directory: Path) -> None:
    """The broker has removed the file in which they began: its list of them is all there is."""
    for number in (1, 2):
        (directory / "journal" / f"data-{number}").unlink()
    destinations: set[Destination] = set(replay(Journal(directory / "journal")).destinations)
    assert Topic("T.ONE") not in destinations
    state = replay(StoreJournal(directory))
    assert set(state.destinations[Topic("T.ONE")].subscriptions) == {"c1:d1", "c1:d2"}
    with AMQPersistenceAdapter(directory) as adapter:
        topic = adapter.topic_message_store(Topic("T.ONE"))
        assert {info.key.subscription_name for info in topic.all_subscriptions()} == {"d1", "d2"}
        # From now on the journal tells it, too.
        known = replay(Journal(directory / "journal")).destinations[Topic("T.ONE")].subscriptions
        assert set(known) == {"c1:d1", "c1:d2"}
        topic.add_message(text_message(1)).result(30)
        topic.delete_subscription(SubscriptionKey("c1", "d2")).result(30)
    os.unlink(directory / "jdbcstore-index.sqlite")
    with AMQPersistenceAdapter(directory) as adapter:
        assert [name for name in served(adapter) if name.startswith("topic:")] == ["topic://T.ONE c1:d1"]


def test_without_its_reference_store_a_broker_is_made_to_read_the_journal(directory: Path) -> None:
    """Somebody has followed the advice to delete it."""
    shutil.rmtree(directory / "kr-store")
    with AMQPersistenceAdapter(directory) as adapter:
        found = served(adapter)
    wanted = expected(directory)["queues"]
    assert {name: ids for name, ids in found.items() if name.startswith("queue:")} == wanted
    _read_by_the_old_broker(directory, found)


def test_a_reference_store_that_was_emptied_is_not_believed(directory: Path) -> None:
    """Its state was deleted, and a broker was started and stopped: it is clean, and knows nothing."""
    state = directory / "kr-store" / "state"
    for path in state.iterdir():
        path.unlink()
    for name, data in blank_state():
        (state / name).write_bytes(data)
    store = read_reference_store(directory)
    assert store.flag is not None
    path, offset = store.flag
    content = bytearray(path.read_bytes())
    content[offset + 3] = 1
    content = content.replace(b"\x00\x00\x00\x01sr\x00)java", b"\x00\x00\x00\x07sr\x00)java")
    path.write_bytes(content)
    assert read_reference_store(directory).is_clean
    with AMQPersistenceAdapter(directory) as adapter:
        found = served(adapter)
        assert len(adapter.transaction_store().prepared_transactions()) == 1
    assert {name: ids for name, ids in found.items() if name.startswith("queue:")} == expected(directory)["queues"]
    assert len(found["topic://T.ONE c1:d1"]) == 2
    _read_by_the_old_broker(directory, found)


def test_without_the_list_of_subscriptions_none_is_taken_for_ended(directory: Path) -> None:
    """The reference store says that it is clean, and the file that says which subscriptions there are is gone."""
    (directory / "kr-store" / "state" / "index-kaha").unlink()
    store = read_reference_store(directory)
    assert store.damage is not None
    assert "index-kaha" in store.damage
    with AMQPersistenceAdapter(directory) as adapter:
        found = served(adapter)
    assert found["topic://T.ONE c1:d1"] == expected(directory, "as_left")["durable_receive"]["d1"]
    assert "topic://T.ONE c1:d2" in found


def test_what_is_younger_than_a_clean_reference_store_is_not_taken_for_ended(directory: Path) -> None:
    """It lies behind where its broker ended, as the control file says; what is older and not listed has ended."""
    info = wire.SubscriptionInfo(client_id="c9", destination=Topic("T.ONE"), subscription_name="young")
    with (directory / "journal" / "data-4").open("ab") as file:
        file.write(framed(marshal(info, 6)))
    with AMQPersistenceAdapter(directory) as adapter:
        found = set(served(adapter))
    assert {name for name in found if name.startswith("topic:")} == {
        f"topic://T.ONE {name}" for name in ("c1:d1", "c1:d2", "c9:young")
    }
    with AMQPersistenceAdapter(directory) as adapter:
        assert set(served(adapter)) == found
