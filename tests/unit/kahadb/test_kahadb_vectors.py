"""Directories that a real ActiveMQ 5.17.2 wrote: we find in them what it found when it had to rebuild its index."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.message import Message
from jdbcstore.store.journal.commands import AddMessage, UpdateMessage
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.kahadb.scheduler import replay_scheduler
from jdbcstore.store.journal.replay import replay
from jdbcstore.store.journal.state import State, StoredMessage
from tests.unit.kahadb.journals import VECTORS, unpack

NAMES = sorted(path.name.removesuffix(".tar.xz") for path in VECTORS.glob("*.tar.xz"))


def sha256(data: bytes | None) -> str:
    return hashlib.sha256(data or b"").hexdigest()


def told(journal: Journal, message: StoredMessage) -> dict[str, Any]:
    """A message in the words of the vectors."""
    command = journal.read(message.location)
    add = command.message if isinstance(command, UpdateMessage) else command
    assert isinstance(add, AddMessage)
    read: Message = journal.message(message.location)
    return {
        "seq": message.sequence,
        "tier": message.tier.name.lower(),
        "location": list(message.location),
        "record": f"KAHA_{'UPDATE' if isinstance(command, UpdateMessage) else 'ADD'}_MESSAGE_COMMAND",
        "marshalled_sha256": sha256(add.message),
        "id": message.message_id,
        "class": f"ActiveMQ{type(read).__name__}",
        "destination": str(read.destination),
        "priority": read.priority,
        "timestamp": read.timestamp,
        "expiration": read.expiration,
        "redelivered": read.redelivery_counter,
        "compressed": read.compressed,
        "transaction": None if read.transaction_id is None else str(read.transaction_id),
        "content_sha256": None if read.content is None else sha256(read.content),
    }


def told_subscriptions(state: State, destination: Any) -> dict[str, Any]:
    stored = state.destinations[destination]
    found = {}
    for key, subscription in stored.subscriptions.items():
        info = subscription.info
        found[key] = {
            "client_id": info.client_id,
            "name": info.subscription_name,
            "selector": info.selector,
            "destination": str(info.destination),
            "no_local": info.no_local,
            "retroactive": subscription.retroactive,
            "last_ack": list(subscription.last_ack),
            "location": list(subscription.location)[:2],
            "ack_positions": [list(one) for one in subscription.pending.ranges()],
            "ack_position_ids": [
                message.message_id
                for message in sorted(stored.pending(subscription), key=lambda message: message.sequence)
            ],
            "recover_ids": [message.message_id for message in state.pending(destination, key)],
            "count": len(subscription.pending) - 1,
        }
    return found


def told_prepared(state: State) -> list[dict[str, Any]]:
    return [
        {
            "format_id": xid.format_id,  # type: ignore[union-attr]
            "global_hex": xid.global_transaction_id.hex(),  # type: ignore[union-attr]
            "branch_hex": xid.branch_qualifier.hex(),  # type: ignore[union-attr]
            "added": [f"{destination} {message_id}" for destination, message_id, _ in transaction.added],
            "acks": [
                f"{destination} {message_id}" + ("" if key is None else f" sub={key}")
                for destination, message_id, key in transaction.acknowledged
            ],
        }
        for xid, transaction in state.prepared.items()
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_replay_finds_what_activemq_finds(name: str, tmp_path: Path) -> None:
    expected = unpack(name, tmp_path)
    for store in expected["stores"]:
        if store["kind"] == "scheduler":
            continue
        journal = Journal(tmp_path / store["path"])
        state = replay(journal)
        wanted = store["replay"]
        for found in wanted["destinations"].values():
            found.pop("store_count", None)  # what a broker counts without looking
            for message in found["messages"]:
                message.pop("body_sha256")
                message.pop("body_len")
        destinations: dict[str, Any] = {}
        for destination, stored in state.destinations.items():
            destinations[str(destination)] = found = {
                "messages": [told(journal, message) for message in stored.messages()],
                "next_seq": stored.next_sequence,
            }
            if destination.is_queue:
                found["dispatchable_ids"] = [message.message_id for message in state.dispatchable(destination)]
            else:
                found["subscriptions"] = told_subscriptions(state, destination)
        assert destinations == wanted["destinations"]
        assert told_prepared(state) == wanted["prepared"]
        ack_files = {str(file): sorted(files) for file, files in state.ack_files.items()}
        assert ack_files == wanted["metadata"]["ack_message_file_map"]
        assert state.lost_by_broker == []
        if name not in ("corrupt", "torn", "tornzero"):
            assert state.damages == []
            assert state.unfinished == {}


def test_all_directories_are_there() -> None:
    assert len(NAMES) == 13


@pytest.mark.parametrize(
    ("name", "damages"),
    [
        (
            "corrupt",
            [
                "db-1.log:91328-92364: no batch begins here",
                "db-2.log:51850-52887: a batch with a wrong checksum",
            ],
        ),
        ("torn", ["db-3.log:34506-34574: a batch of 24440 bytes where 40 remain"]),
        ("tornzero", ["db-3.log:33228-262144: a batch with a wrong checksum"]),
    ],
)
def test_damage_is_listed(name: str, damages: list[str], tmp_path: Path) -> None:
    unpack(name, tmp_path)
    state = replay(Journal(tmp_path))
    assert [str(damage) for damage in state.damages] == damages
    assert [damage.at_the_end for damage in state.damages] == [name != "corrupt"] * len(damages)


def test_archived_files_and_the_others_are_the_whole_history(tmp_path: Path) -> None:
    expected = unpack("periodic", tmp_path)
    for path in (tmp_path / "data-archive").iterdir():
        path.rename(tmp_path / path.name)
    state = replay(Journal(tmp_path))
    (stored,) = state.destinations.values()
    index = expected["stores"][0]["index"]["destinations"]["queue://Q.PER"]
    # The index has counted from the beginning, so now even sequences agree.
    assert stored.next_sequence == index["next_seq"] == 600
    assert [(m.message_id, m.sequence) for m in stored.messages()] == [(m["id"], m["seq"]) for m in index["messages"]]


def test_scheduled_messages(tmp_path: Path) -> None:
    expected = unpack("scheduled", tmp_path)
    (wanted,) = [store["jobs"] for store in expected["stores"] if store["kind"] == "scheduler"]
    # The index forgets how often a message was sent; a replay does not.
    ((_, replayed),) = expected["scheduler_index_vs_replay_differs"]
    jobs = [replayed if job["job"] == replayed["job"] else job for job in wanted["JMS"]]
    journal = Journal(tmp_path / "scheduler")
    found = replay_scheduler(journal)
    assert journal.damages == []
    assert list(found) == ["JMS"]
    assert [
        {
            "job": job.job_id,
            "next": job.next_execution_time,
            "start": job.start_time,
            "cron": job.cron_entry,
            "delay": job.delay,
            "period": job.period,
            "repeat": job.repeat,
            "rescheduled": job.rescheduled_count,
            "location": list(job.location)[:2],
            "payload_sha256": sha256(job.payload),
        }
        for job in found["JMS"]
    ] == jobs
    assert {str(job.unmarshal().message_id) for job in found["JMS"]} <= {job["job"] for job in jobs}
