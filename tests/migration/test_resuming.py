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


def run(point: int | str, when: str, number: int, source: str, target: str) -> subprocess.CompletedProcess[str]:
    """Migrate in a process of its own that kills itself at a point."""
    command = [sys.executable, "-m", "tests.migration.interrupted", str(point), when, str(number), source, target]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def source(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'source.db'}"
    with open_store(url) as adapter:
        rich.fill(adapter)
    return url


def test_killed_at_random_points(source: str, tmp_path: Path) -> None:
    target = f"sqlite:///{tmp_path / 'target.db'}"
    chance = random.Random(7)
    for _ in range(4):
        done = run(chance.randint(2, 20), chance.choice(["before", "after"]), signal.SIGKILL, source, target)
        assert done.returncode == -signal.SIGKILL
        with pytest.raises(LockHeld), open_store(f"{target}?fail_if_locked=true"):
            pass  # no broker gets half of a store
    done = run(-1, "", 0, source, target)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["messages"] == 144
    with open_store(source) as before, open_store(target) as after:
        assert rich.seen(after) == rich.seen(before)


@pytest.mark.parametrize("kind", ["postgresql_url", pytest.param("mariadb_url", marks=pytest.mark.exhaustive)])
def test_killed_on_a_server(source: str, request: pytest.FixtureRequest, kind: str) -> None:
    target = request.getfixturevalue(kind)
    for point, when in ((11, "after"), ("_prepare", "before")):
        assert run(point, when, signal.SIGKILL, source, target).returncode == -signal.SIGKILL
    done = migrate(source, target)
    assert (done.is_resumed, done.copied, done.messages) == (True, 0, 144)
    with open_store(source) as before, open_store(target) as after:
        assert rich.seen(after) == rich.seen(before)


def test_a_source_that_has_changed_since(source: str, tmp_path: Path) -> None:
    target = f"sqlite:///{tmp_path / 'target.db'}"
    done = run(14, "before", signal.SIGINT, source, target)
    assert (done.returncode, done.stdout) == (1, "")
    assert "interrupted" in done.stderr
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
