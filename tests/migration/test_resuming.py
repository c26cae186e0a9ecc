"""A migration that ends early is gone on with: nothing is lost, nothing is there twice."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.errors import ConfigurationError, LockHeld
from jdbcstore.migration import migrate
from tests.migration import rich


def run(point: int, when: str, number: int, source: str, target: str) -> subprocess.CompletedProcess[str]:
    """Migrate in a process of its own that kills itself at a point."""
    command = [sys.executable, "-m", "tests.migration.interrupted", str(point), when, str(number), source, target]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def source(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'source.db'}"
    with open_store(url) as adapter:
        rich.fill(adapter)
    return url


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_random_points(source: str, tmp_path: Path, seed: int) -> None:
    target = f"sqlite:///{tmp_path / 'target.db'}"
    chance = random.Random(seed)
    kills = 0
    while True:
        done = run(chance.randint(2, 22), chance.choice(["before", "after"]), signal.SIGKILL, source, target)
        if done.returncode != -signal.SIGKILL:
            break
        kills += 1
        with pytest.raises(LockHeld), open_store(f"{target}?fail_if_locked=true"):
            pass  # no broker gets half of a store
        if kills == 6:
            done = run(-1, "", 0, source, target)
            break
    assert done.returncode == 0, done.stderr
    assert kills >= 3
    assert json.loads(done.stdout)["messages"] == 144
    with open_store(source) as before, open_store(target) as after:
        assert rich.seen(after) == rich.seen(before)


def test_killed_on_a_server(source: str, postgresql_url: str, mariadb_url: str) -> None:
    for target in (postgresql_url, mariadb_url):
        for point, when in ((9, "after"), (16, "before"), (6, "after")):
            assert run(point, when, signal.SIGKILL, source, target).returncode == -signal.SIGKILL
        done = run(-1, "", 0, source, target)
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert report["is_resumed"]
        assert report["copied"] < report["messages"] == 144
        with open_store(source) as before, open_store(target) as after:
            assert rich.seen(after) == rich.seen(before)


def test_ctrl_c(source: str, tmp_path: Path) -> None:
    target = f"sqlite:///{tmp_path / 'target.db'}"
    done = run(12, "before", signal.SIGINT, source, target)
    assert (done.returncode, done.stdout) == (1, "")
    assert "interrupted" in done.stderr
    assert migrate(source, target).is_resumed
    with open_store(source) as before, open_store(target) as after:
        assert rich.seen(after) == rich.seen(before)


def test_a_source_that_has_changed_since(source: str, tmp_path: Path) -> None:
    target = f"sqlite:///{tmp_path / 'target.db'}"
    assert run(14, "after", signal.SIGKILL, source, target).returncode == -signal.SIGKILL
    with open_store(source) as adapter:
        first = next(iter(adapter.queue_message_store(rich.PLAIN).recover()))
        assert first.message_id is not None
        adapter.queue_message_store(rich.PLAIN).remove_message(first.message_id).result()
    assert migrate(source, target).messages == 143
    with open_store(source) as before, open_store(target) as after:
        assert rich.seen(after) == rich.seen(before)


def test_what_is_complete_is_not_done_again(source: str, tmp_path: Path) -> None:
    target = f"sqlite:///{tmp_path / 'target.db'}"
    migrate(source, target)
    with pytest.raises(ConfigurationError, match="not empty"):
        migrate(source, target)
    with open_store(target) as adapter:
        adapter.delete_all_messages()
    migrate(source, target)
    with open_store(source) as before, open_store(target) as after:
        assert rich.seen(after) == rich.seen(before)
