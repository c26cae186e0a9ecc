"""Rows by workers, with workers of this process: what `pipeline migrate` does but for Spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import text

from jdbcstore.config.urls import open_engine, open_store
from jdbcstore.errors import LockHeld, StoreError
from jdbcstore.migration import Migrated
from jdbcstore.migration import rows as row_ranges
from jdbcstore.migration.journal_rows import journal_plan
from jdbcstore.migration.locations import location_of
from jdbcstore.migration.table_rows import table_plan
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.replay import replay
from tests.migration import rich
from tests.unit.kahadb.journals import unpack

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")


class Here:
    """Workers of this process; what they get was pickled.

    Args:
        before: called before each step, with its title.
    """

    def __init__(self, before: Callable[[str], object] = lambda title: None) -> None:
        self._before = before

    def run(self, title: str, action: Callable[[], T]) -> T:
        self._before(title)
        return action()

    def map(
        self, work: Callable[[Iterable[P]], Iterator[R]], partitions: Sequence[P], tasks_max: int | None = None
    ) -> list[R]:
        found: list[R] = []
        for one in partitions:
            there: Callable[[Iterable[P]], Iterator[R]] = pickle.loads(pickle.dumps(work))
            found += pickle.loads(pickle.dumps(list(there(pickle.loads(pickle.dumps([one]))))))
        return found


class Killed(Exception):
    """A run ends here."""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(row_ranges, "_RANGE_ROWS_MAX", 10)
    url = f"sqlite:///{tmp_path / 'source.db'}"
    with open_store(url) as adapter:
        rich.fill(adapter)
    return url


def migrate(source: str, target: str, before: Callable[[str], object] = lambda title: None) -> Migrated:
    return table_plan(location_of(source), location_of(target), Here(before)).carry_out()


def test_tables_as_they_are(source: str, database_url: str) -> None:
    done = migrate(source, database_url)
    with open_store(source) as one, open_store(database_url) as other:
        assert rich.seen(other) == rich.seen(one)
    assert (done.copied, done.is_resumed) == (done.messages, False)
    assert done.others["JDBCSTORE_SCHEDULED"] == 2


@pytest.mark.parametrize("step", ["making indexes", "copying subscriptions and the rest", "comparing"])
def test_it_goes_on_where_it_stopped(source: str, tmp_path: Path, step: str) -> None:
    def killed(title: str) -> None:
        if title == step:
            raise Killed

    target = f"sqlite:///{tmp_path / 'target.db'}"
    with pytest.raises(Killed):
        migrate(source, target, killed)
    with pytest.raises(LockHeld), open_store(f"{target}?fail_if_locked=true"):
        pass
    done = migrate(source, target)
    assert (done.is_resumed, done.copied) == (True, 0)
    with open_store(source) as one, open_store(target) as other:
        assert rich.seen(other) == rich.seen(one)


def changed(url: str, statement: str) -> None:
    engine = open_engine(url)
    with engine.begin() as connection:
        assert connection.execute(text(statement)).rowcount
    engine.dispose()


NEW = "INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER, MSG) SELECT MAX(ID) + 1, 'queue://NEW', x'00' FROM ACTIVEMQ_MSGS"
LOST = "DELETE FROM ACTIVEMQ_MSGS WHERE ID = (SELECT MIN(ID) FROM ACTIVEMQ_MSGS WHERE CONTAINER = 'queue://ORDERS')"
OTHER = "UPDATE ACTIVEMQ_MSGS SET MSG = x'00' WHERE ID = (SELECT MIN(ID) FROM ACTIVEMQ_MSGS)"


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (NEW, r"queue://NEW: 1 messages there, 0 here"),
        (LOST, r"queue://ORDERS: 29 messages there, 30 here"),
        (OTHER, r"alike: queue://ORDERS\. The target stays closed"),
    ],
)
def test_what_differs(source: str, tmp_path: Path, statement: str, words: str) -> None:
    """Who writes to the source meanwhile is found out, and the next run makes it good."""
    target = f"sqlite:///{tmp_path / 'target.db'}"

    def written(title: str) -> None:
        if title == "comparing":
            changed(source, statement)

    with pytest.raises(StoreError, match=words):
        migrate(source, target, written)
    with pytest.raises(LockHeld), open_store(f"{target}?fail_if_locked=true"):
        pass
    assert migrate(source, target).is_resumed


def test_a_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jdbcstore.migration.journal_rows._PART_BYTES", 2000)
    monkeypatch.setattr("jdbcstore.migration.journal_rows._ROWS_AT_ONCE", 3)
    (store,) = [one for one in unpack("basic", tmp_path)["stores"] if one["kind"] != "scheduler"]
    journal = Journal(tmp_path / store["path"])
    target = f"sqlite:///{tmp_path / 'target.db'}"

    def plan(workers: Here) -> Migrated:
        arguments = str(journal.directory), journal, replay(journal), location_of(target), workers
        return journal_plan(*arguments, skips_damage=False).carry_out()

    def killed(title: str) -> None:
        if title == "making subscriptions":
            raise Killed

    with pytest.raises(Killed):
        plan(Here(killed))
    done = plan(Here())
    assert (done.is_resumed, done.copied) == (True, 0)
    expected = {name: len(one["messages"]) for name, one in store["replay"]["destinations"].items() if one["messages"]}
    assert {name: one.messages for name, one in done.destinations.items()} == expected
