"""AMQ stores are migrated: from what ActiveMQ 5.3.2 wrote, and from what this store made of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from jdbcstore.config.inspection import looking_into
from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import ConfigurationError
from jdbcstore.migration.migration import migrate
from jdbcstore.store.contract import SupportsTopics, SupportsTransactions
from jdbcstore.store.journal.amq.adapter import AMQPersistenceAdapter
from jdbcstore.testing.messages import text_message

VECTOR = Path(__file__).parents[1] / "vectors" / "amq-store" / "clean"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return Path(shutil.copytree(VECTOR, tmp_path / "amq"))


def queues(url: str) -> dict[str, list[str]]:
    with looking_into(url) as adapter:
        assert isinstance(adapter, SupportsTopics)
        assert isinstance(adapter, SupportsTransactions)
        topic = adapter.topic_message_store(Topic("T.ONE"))
        assert {info.key.subscription_name for info in topic.all_subscriptions()} == {"d1", "d2"}
        assert len(adapter.transaction_store().prepared_transactions()) == 1
        return {
            str(one): [str(message.message_id) for message in adapter.queue_message_store(one).recover()]
            for one in adapter.destinations()
            if isinstance(one, Queue)
        }


@pytest.mark.parametrize("target", ["kahadb:{}/k", "sqlite:///{}/s.db"])
@pytest.mark.parametrize("scheme", ["amq:", ""])
def test_everything_comes_into_another_store(source: Path, tmp_path: Path, target: str, scheme: str) -> None:
    url = target.format(tmp_path)
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    migrate(f"{scheme}{source}", url)
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before
    wanted = json.loads((source / "expected.json").read_text())["as_left"]["queues"]
    assert queues(url) == queues(f"amq:{source}") == wanted


def test_what_this_store_has_written_comes_too(source: Path, tmp_path: Path) -> None:
    message = text_message(1)
    with AMQPersistenceAdapter(source) as adapter:
        store = adapter.queue_message_store(Queue("Q.TWO"))
        store.add_message(message).result(30)
        first = next(iter(store.recover()))
        first.redelivery_counter = 3
        store.update_message(first).result(30)
        ids = [str(one.message_id) for one in store.recover()]
    migrate(f"amq:{source}", f"kahadb:{tmp_path / 'k'}")
    assert queues(f"kahadb:{tmp_path / 'k'}")["queue://Q.TWO"] == ids
    with looking_into(f"kahadb:{tmp_path / 'k'}") as found:
        assert next(iter(found.queue_message_store(Queue("Q.TWO")).recover())).redelivery_counter == 3


def test_nobody_begins_with_an_amq_store(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no target"):
        migrate(f"amq:{source}", f"amq:{tmp_path / 'new'}")
    with pytest.raises(ConfigurationError, match="is no store; give one that it holds: amq"):
        migrate(f"amq:{tmp_path}", f"kahadb:{tmp_path / 'k'}")


def test_empty_queues_that_the_broker_knew_come_too(source: Path, tmp_path: Path) -> None:
    (source / "kr-store" / "data" / "hash-index-queue-data_queue#3a#2f#2fQ.#20#e9").write_bytes(b"")
    migrate(f"amq:{source}", f"kahadb:{tmp_path / 'k'}")
    assert queues(f"kahadb:{tmp_path / 'k'}")["queue://Q. é"] == []
