"""LevelDB directories are migrated: what ActiveMQ 5.16.8 wrote, and what this store made of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from jdbcstore.config.inspection import looking_into
from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.migration.leveldb import contents_of_leveldb_store
from jdbcstore.migration.migration import migrate
from jdbcstore.store.contract import Cursor, SupportsTopics, SupportsTransactions
from jdbcstore.store.journal.leveldb.log import log_files
from jdbcstore.testing.messages import text_message

VECTOR = Path(__file__).parents[1] / "vectors" / "leveldb" / "clean"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return Path(shutil.copytree(VECTOR, tmp_path / "leveldb"))


def contents(url: str) -> dict[str, list[str]]:
    """Queues, and what durable subscriptions have pending."""
    with looking_into(url) as adapter:
        assert isinstance(adapter, SupportsTopics)
        assert isinstance(adapter, SupportsTransactions)
        found = {
            str(one): [str(message.message_id) for message in adapter.queue_message_store(one).recover()]
            for one in adapter.destinations()
            if isinstance(one, Queue)
        }
        topic = adapter.topic_message_store(Topic("T.ONE"))
        for info in topic.all_subscriptions():
            page = topic.recover_next_subscription_messages(info.key, Cursor(), 100, 1 << 20)
            found[info.key.subscription_name] = [str(message.message_id) for message in page.messages]
        (prepared,) = adapter.transaction_store().prepared_transactions()
        assert (len(prepared.added), len(prepared.removed)) == (2, 1)
        return found


@pytest.mark.parametrize("target", ["kahadb:{}/k", "sqlite:///{}/s.db"])
@pytest.mark.parametrize("scheme", ["leveldb:", ""])
def test_everything_comes_into_another_store(source: Path, tmp_path: Path, target: str, scheme: str) -> None:
    url = target.format(tmp_path)
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    migrate(f"{scheme}{source}", url)
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before
    told = json.loads((source / "expected.json").read_text())["as_left"]
    assert contents(url) == contents(f"leveldb:{source}") == {**told["queues"], **told["durable_receive"]}


def test_without_its_index_everything_comes_though_activemq_would_have_lost_half(source: Path, tmp_path: Path) -> None:
    for path in source.glob("*.index"):
        shutil.rmtree(path)
    migrate(f"leveldb:{source}", f"kahadb:{tmp_path / 'k'}")
    told = json.loads((source / "expected.json").read_text())["as_left"]
    assert contents(f"kahadb:{tmp_path / 'k'}") == {**told["queues"], **told["durable_receive"]}


def test_what_this_store_has_written_comes_too(source: Path, tmp_path: Path) -> None:
    with open_store(f"leveldb:{source}") as adapter:
        store = adapter.queue_message_store(Queue("Q.TWO"))
        store.add_message(text_message(1)).result(30)
        first = next(iter(store.recover()))
        first.redelivery_counter = 3
        store.update_message(first).result(30)
        ids = [str(one.message_id) for one in store.recover()]
    migrate(f"leveldb:{source}", f"kahadb:{tmp_path / 'k'}")
    assert contents(f"kahadb:{tmp_path / 'k'}")["queue://Q.TWO"] == ids
    with looking_into(f"kahadb:{tmp_path / 'k'}") as found:
        assert next(iter(found.queue_message_store(Queue("Q.TWO")).recover())).redelivery_counter == 3


def test_damage_is_told_or_left_out(source: Path, tmp_path: Path) -> None:
    path = list(log_files(source).values())[-1]
    data = bytearray(path.read_bytes())
    data[15703 - 3500] ^= 1  # the body of the last message of Q.BIG
    path.write_bytes(data)
    with pytest.raises(StoreError, match="--skip-damage"):
        migrate(f"leveldb:{source}", f"kahadb:{tmp_path / 'k'}")
    done = migrate(f"leveldb:{source}", f"kahadb:{tmp_path / 'k'}", skips_damage=True)
    assert done is not None
    assert len(contents(f"kahadb:{tmp_path / 'k'}")["queue://Q.BIG"]) in (1, 2)


def test_messages_whose_file_is_gone_end_a_trial_as_they_end_the_migration(source: Path, tmp_path: Path) -> None:
    """Left out they do not count, nor does a transaction of which nothing can be read."""
    log_files(source)[0].unlink()
    for is_dry in (True, False):
        with pytest.raises(StoreError, match=r"the file of the log is gone. With --skip-damage"):
            migrate(f"leveldb:{source}", f"kahadb:{tmp_path / 'k'}", is_dry=is_dry)
    told = migrate(f"leveldb:{source}", f"kahadb:{tmp_path / 'k'}", is_dry=True, skips_damage=True)
    done = migrate(f"leveldb:{source}", f"kahadb:{tmp_path / 'k'}", skips_damage=True)
    assert told.messages == done.messages == 2
    assert any("queue://Q.ONE, number 8" in line for line in told.damages)
    assert done.transactions == {}


def test_nobody_begins_with_leveldb(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no target"):
        migrate(f"leveldb:{source}", f"leveldb:{tmp_path / 'new'}")
    with pytest.raises(ConfigurationError, match="no LevelDB store"):
        migrate(f"leveldb:{tmp_path}", f"kahadb:{tmp_path / 'k'}")


def test_files_that_a_broker_removes_meanwhile_are_read(source: Path) -> None:
    with contents_of_leveldb_store(source) as found:
        for path in log_files(source).values():
            path.unlink()
        assert len(list(found.messages())) == 23
        (prepared,) = found.prepared()
        assert len(prepared.added) == 2
