"""A real broker works on a KahaDB directory, with restarts, clean-ups and ack compactions: we find in it what it finds.

Another sequence of work in every run; a failure shows its seed and keeps the directory.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom
from typing import Any

import pytest

from jdbcstore.store.kahadb import Journal, Replay, State, replay
from jdbcstore.store.kahadb.commands import AddMessage, RewrittenDataFile
from jdbcstore.store.kahadb.journal import Record
from tests.compat.activemq import QUICK_START
from tests.servers.server import ServerFailed

STEPS = 40


def java(class_path: str, *arguments: str | Path) -> str:
    done = subprocess.run(
        ["java", *QUICK_START, "-cp", class_path, "KahaDb", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if done.returncode != 0:
        raise ServerFailed(f"KahaDb.java failed\n{done.stderr[-4000:]}")
    return done.stdout


def told(state: State) -> dict[str, Any]:
    """By destination: ids of its messages, for a topic by subscription. Empty queues are not comparable."""
    found: dict[str, Any] = {}
    for destination, stored in state.destinations.items():
        if destination.is_topic:
            found[str(destination)] = {
                key: [message.message_id for message in state.pending(destination, key)] for key in stored.subscriptions
            }
        else:
            found[str(destination)] = [message.message_id for message in state.dispatchable(destination)]
    return {name: contents for name, contents in found.items() if contents}


def records_that_a_broker_reads(journal: Journal) -> Iterator[Record]:
    """Without what stands behind the marker of a compaction whose source exists."""
    left_out = set()
    for location, command in journal.records():
        if isinstance(command, RewrittenDataFile) and command.source in journal.files:
            left_out.add(location.file)
        if location.file not in left_out:
            yield location, command


@pytest.mark.parametrize(("version", "end"), [(11, "kill"), (6, "kill"), (11, "stop")])
def test_we_find_what_the_broker_finds(version: int, end: str, class_path: str, tmp_path: Path) -> None:
    seed = SystemRandom().getrandbits(32)
    print("seed", seed)
    directory = tmp_path / "kahadb"
    java(class_path, "write", directory, str(version), str(seed), str(STEPS), end)
    journal = Journal(directory)
    state = replay(journal)
    assert state.damages == []
    assert any(isinstance(command, RewrittenDataFile) for _, command in journal.records())
    for _, command in journal.records():
        if isinstance(command, AddMessage):
            assert str(command.unmarshal().message_id) == command.message_id

    shutil.copytree(directory, tmp_path / "without index", ignore=shutil.ignore_patterns("db.*"))
    rebuilt = json.loads(java(class_path, "read", tmp_path / "without index", str(version)))
    as_broker = Replay(journal.files)
    as_broker.apply(records_that_a_broker_reads(journal))
    brokers_state = as_broker.finish()
    revived = {(str(destination), id) for destination, id in brokers_state.revived_by_broker}
    ours = told(brokers_state)
    for name, contents in rebuilt.items():
        if name.startswith("queue://"):
            assert [id for id in contents if (name, id) not in revived] == ours.get(name, [])
        elif not any(topic == name for topic, _ in revived):
            assert contents == ours.get(name, {})
    assert set(ours) <= set(rebuilt)

    if end == "stop":  # else the broker, too, reads the journal from its last checkpoint on, with the same losses
        index = json.loads(java(class_path, "read", directory, str(version)))
        revived = {(str(destination), id) for destination, id in state.revived_by_broker}
        ours = told(state)
        for name, contents in index.items():
            if name.startswith("queue://"):
                # All that is in the index, in its order. Removals of destinations and subscriptions hold no file; where
                # such a file is gone, what was removed is there again, for a broker without index as for us.
                found = ours.get(name, [])
                assert [id for id in found if id in contents] == contents
                assert set(found) <= {*contents, *rebuilt.get(name, [])}
                assert not any((name, id) in revived for id in contents)
            else:
                assert set(contents) <= set(ours.get(name, {}))
