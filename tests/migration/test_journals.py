"""``jdbcstore migrate`` from directories that a real ActiveMQ wrote."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import StoreError
from jdbcstore.migration import migrate
from jdbcstore.migration.journals import contents_of_journals
from jdbcstore.store.contract import (
    Cursor,
    PersistenceAdapter,
    SupportsScheduling,
    SupportsTopics,
    SupportsTransactions,
)
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.kahadb.scheduler import replay_scheduler
from jdbcstore.store.journal.replay import replay
from tests.unit.kahadb.journals import VECTORS, unpack

NAMES = sorted(path.name.removesuffix(".tar.xz") for path in VECTORS.glob("*.tar.xz"))
DAMAGED = {"corrupt"}


def directories(folder: Path) -> list[Path]:
    found = {path.parent for path in folder.rglob("db-*.log")}
    return sorted(path for path in found if path.name not in ("scheduler", "txStore"))


def in_journal(directory: Path) -> dict[str, Any]:
    """What a broker would give out, in its words, by the replay that is compared with real brokers elsewhere."""
    state = replay(Journal(directory))
    messages = sorted(
        (message.order, str(destination), message.message_id)
        for destination, stored in state.destinations.items()
        for message in stored.all()
    )
    hidden = {(str(one.destination), one.message_id) for found in state.prepared.values() for one in found.acknowledged
              if one.subscription_key is None}  # fmt: skip
    found: dict[str, Any] = {"order": [(name, id) for _, name, id in messages if (name, id) not in hidden]}
    for destination, stored in state.destinations.items():
        for key in stored.subscriptions:
            waiting = sorted(state.pending(destination, key), key=lambda one: one.order)
            found[f"{destination} {key}"] = [one.message_id for one in waiting]
    found["prepared"] = {str(xid): (len(one.added), len(one.acknowledged)) for xid, one in state.prepared.items()}
    scheduler = directory / "scheduler"
    jobs = replay_scheduler(Journal(scheduler)) if scheduler.is_dir() else {}
    found["jobs"] = [(one.job_id, one.next_execution_time, one.repeat) for some in jobs.values() for one in some]
    return found


def in_store(adapter: PersistenceAdapter) -> dict[str, Any]:
    """The same of a store; nothing is opened by priority, so that everything comes in the order of its numbers."""
    assert isinstance(adapter, SupportsTopics)
    assert isinstance(adapter, SupportsTransactions)
    assert isinstance(adapter, SupportsScheduling)
    messages, found = [], {}
    for destination in adapter.destinations():
        if isinstance(destination, Queue):
            here = list(adapter.queue_message_store(destination).recover())
        else:
            assert isinstance(destination, Topic)
            topic = adapter.topic_message_store(destination)
            here = list(topic.recover())
            for info in topic.all_subscriptions():
                page = topic.recover_next_subscription_messages(info.key, Cursor(), 10_000, 1 << 30)
                key = f"{info.key.client_id}:{info.key.subscription_name}"
                found[f"{destination} {key}"] = [str(one.message_id) for one in page.messages]
        for message in here:
            assert message.message_id is not None
            messages.append((message.message_id.broker_sequence_id, str(destination), str(message.message_id)))
    prepared = {
        str(one.transaction_id): (len(one.added), len(one.removed) + len(one.acknowledged))
        for one in adapter.transaction_store().prepared_transactions()
    }
    jobs = adapter.job_store().jobs(None, 1000, 1 << 30).jobs
    told = [(one.job_id, one.due_ms, one.repeat) for one in jobs]
    return {"order": [(name, id) for _, name, id in sorted(messages)], **found, "prepared": prepared, "jobs": told}


@pytest.mark.parametrize("name", NAMES)
def test_every_sample_directory(tmp_path: Path, name: str) -> None:
    unpack(name, tmp_path / "sample")
    for number, directory in enumerate(directories(tmp_path / "sample")):
        url = f"sqlite:///{tmp_path / f'{number}.db'}"
        if name in DAMAGED:
            with pytest.raises(StoreError, match=r"db-\d+\.log:\d+-\d+: .*With --skip-damage"):
                migrate(f"kahadb:{directory}", url)
        done = migrate(f"kahadb:{directory}", url, skips_damage=name in DAMAGED)
        assert bool(done.damages) == (name in DAMAGED)
        expected = in_journal(directory)
        assert done.messages >= len(expected["order"])
        with open_store(url) as adapter:
            assert in_store(adapter) == expected


def test_a_directory_at_work_is_what_it_was(tmp_path: Path) -> None:
    unpack("transactions", tmp_path / "sample")
    (directory,) = directories(tmp_path / "sample")
    shutil.copytree(directory, tmp_path / "copy")
    with contents_of_journals(directory) as contents:
        for path in directory.glob("db-*.log"):  # as a broker's cleanup
            path.unlink()
        (directory / "db-99.log").write_bytes((tmp_path / "copy" / "db-1.log").read_bytes())
        found = [(str(one.destination), str(one.message.message_id)) for one in contents.messages()]
    with contents_of_journals(tmp_path / "copy") as contents:
        assert found == [(str(one.destination), str(one.message.message_id)) for one in contents.messages()]
    assert len(found) == 30
