"""``jdbcstore migrate`` to KahaDB, and from there to databases again."""

from __future__ import annotations

import signal
from itertools import pairwise
from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.errors import ConfigurationError
from jdbcstore.migration import migrate
from jdbcstore.migration.journals import contents_of_journals
from jdbcstore.testing import text_message
from tests.migration import rich
from tests.migration.test_resuming import run


@pytest.mark.parametrize("commits", [True, False])
def test_a_chain_of_all_kinds_ends_where_it_began(
    tmp_path: Path, postgresql_url: str, mariadb_url: str, commits: bool
) -> None:
    first, last = (f"sqlite:///{tmp_path / name}.db" for name in ("first", "last"))
    journals = [f"kahadb:{tmp_path / name}?journalMaxFileLength=64kb" for name in ("one", "two")]
    with open_store(first) as adapter:
        rich.fill(adapter)
        before = rich.seen(adapter)
    for source, target in pairwise([first, journals[0], postgresql_url, journals[1], mariadb_url, last]):
        done = migrate(source, target)
        assert (done.messages, done.jobs, len(done.transactions), done.producers) == (144, 2, 2, 1)
    ends = []
    with open_store(last) as adapter:
        assert rich.seen(adapter) == before
    for url in (first, last):
        with open_store(url) as adapter:
            rich.decided(adapter, commits=commits)
            ends.append(rich.seen(adapter))
    assert ends[0] == ends[1]


def test_killed_on_the_way_to_a_directory(tmp_path: Path) -> None:
    source, target = f"sqlite:///{tmp_path / 'source.db'}", f"kahadb:{tmp_path / 'target'}"
    with open_store(source) as adapter:
        rich.fill(adapter)
    for point, when in ((9, "after"), (14, "before")):
        assert run(point, when, signal.SIGKILL, source, target).returncode == -signal.SIGKILL
        assert not (tmp_path / "target").exists()
    done = run(-1, "", 0, source, target)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "target.migrating").exists()
    back = f"sqlite:///{tmp_path / 'back.db'}"
    migrate(target, back)
    with open_store(source) as before, open_store(back) as after:
        assert rich.seen(after) == rich.seen(before)


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    source = f"sqlite:///{tmp_path / 'source.db'}"
    with open_store(source):
        pass
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "lock").touch()
    for is_dry in (True, False):
        with pytest.raises(ConfigurationError, match="something in"):
            migrate(source, f"kahadb:{tmp_path / 'target'}", is_dry=is_dry)
    (tmp_path / "target" / "lock").unlink()
    migrate(source, f"kahadb:{tmp_path / 'target'}")  # an empty one will do


def test_a_directory_at_work_is_what_it_was(tmp_path: Path) -> None:
    source = f"kahadb:{tmp_path / 'source'}?journalMaxFileLength=64kb&cleanupInterval=0"
    target = f"sqlite:///{tmp_path / 'target.db'}"
    with open_store(source) as adapter:
        rich.fill(adapter)
        before = rich.seen(adapter)
        orders = adapter.queue_message_store(rich.PLAIN)
        with contents_of_journals(tmp_path / "source") as contents:
            assert contents.is_live
            for number in range(200):
                orders.add_message(text_message(number, "x" * 1000, destination=rich.PLAIN)).result()
            orders.remove_all_messages().result()
            assert sum(1 for _ in contents.messages()) == 144
        for message in list(adapter.queue_message_store(rich.ODD).recover())[:5]:
            assert message.message_id is not None
            adapter.queue_message_store(rich.ODD).remove_message(message.message_id).result()
        done = migrate(source, target)
        assert done.is_live
        now = rich.seen(adapter)
    with open_store(target) as adapter:
        assert rich.seen(adapter) == now != before
