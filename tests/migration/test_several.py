"""Directories of several KahaDB stores: looked into, checked, repaired, migrated; also with a commit half done."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.cli import main
from jdbcstore.config.inspection import looking_into
from jdbcstore.config.urls import open_store
from jdbcstore.console.stats import collect
from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import ConfigurationError, OutcomeUnknown, StoreError
from jdbcstore.identifiers import XATransactionId
from jdbcstore.migration.migration import migrate
from jdbcstore.store.contract import Commit, SupportsTransactions
from jdbcstore.store.journal.commands import Command
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.mkahadb.adapter import MKahaDBPersistenceAdapter
from jdbcstore.store.journal.mkahadb.filters import directory_name
from jdbcstore.store.journal.mkahadb.outcomes import Outcomes
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing.messages import text_message
from tests.mutations import OF, adapter_seen

A, B, T = Queue("A"), Queue("B"), Topic("T")
XID = XATransactionId(1, b"g", b"b")


@pytest.fixture(params=[False, True], ids=["half done", "decided"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Killed in a commit over two stores, before or behind the moment when the outcome is written."""
    directory = tmp_path / "several"
    adapter = open_store(f"mkahadb:{directory}?perDestination=true")
    assert isinstance(adapter, MKahaDBPersistenceAdapter)
    adapter.start()
    one, two, topic = adapter.queue_message_store(A), adapter.queue_message_store(B), adapter.topic_message_store(T)
    topic.add_subscription(SubscriptionInfo(SubscriptionKey("c", "d"), T, T)).result(30)
    for number in range(6):
        store = (one, two, topic)[number % 3]
        store.add_message(text_message(number, destination=store.destination)).result(30)
    transaction = adapter.transaction_store().begin(XID)
    for number, store in enumerate((one, two)):
        transaction.add_message(store, text_message(20 + number, destination=store.destination))
        first = next(store.recover()).message_id
        assert first is not None
        transaction.remove_message(store, first)
    transaction.prepare().result(30)
    decide = Outcomes.decide

    def killed(self: Outcomes, xid: XATransactionId, scheduled: Sequence[Command]) -> None:
        if request.param:
            decide(self, xid, scheduled)
        for child in adapter.children():
            child.abandon()
        raise OutcomeUnknown("killed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Outcomes, "decide", killed)
        adds = [(one, text_message(30, destination=A)), (two, text_message(31, destination=B))]
        assert isinstance(adapter.commit_together(Commit(adds=adds)).exception(30), OutcomeUnknown)
    children = adapter.children()
    adapter.abandon()
    for child in children:
        child.wait_for_abandoned()
    return directory


def numbers(found: dict[str, bytes] | dict[str, list[str]]) -> list[int]:
    return [int(one.rpartition(":")[2]) for one in found]


def expected(directory: Path) -> dict[str, list[int]]:
    is_decided = any(type(command).__name__ == "Prepare" for _, command in Journal(directory / "txStore").records())
    late = ([30], [31]) if is_decided else ([], [])
    return {str(A): [3, *late[0]], str(B): [4, *late[1]], f"{T}{OF}c:d": [2, 5]}


def test_it_is_looked_into_and_nothing_is_changed(directory: Path) -> None:
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    with looking_into(f"mkahadb:{directory}") as view:
        seen = adapter_seen(view)
        assert {name: numbers(one) for name, one in seen.waiting.items()} == expected(directory)
        assert seen.in_doubt == {str(XID)}
        assert isinstance(view, SupportsTransactions)
        (in_doubt,) = view.transaction_store().prepared_transactions()
        assert len(in_doubt.added) == len(in_doubt.removed) == 2
        assert not list(view.queue_message_store(Queue("NOT.THERE")).recover())
    counted = {row.destination: row.depth for row in collect(f"mkahadb:{directory}")}
    assert counted == {str(A): len(expected(directory)[str(A)]), str(B): len(expected(directory)[str(B)]), str(T): 2}
    assert before == {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("target", ["kahadb:{}/new", "sqlite:///{}/new.db"])
def test_it_is_migrated_to_one_store(directory: Path, tmp_path: Path, target: str) -> None:
    url = target.format(tmp_path)
    done = migrate(f"mkahadb:{directory}", url)
    assert done.damages == []
    with open_store(url) as adapter:
        seen = adapter_seen(adapter)
    assert {name: numbers(one) for name, one in seen.waiting.items()} == expected(directory)
    assert seen.in_doubt == {str(XID)}
    assert not migrate(str(directory), f"kahadb:{tmp_path}/again").damages  # told by what lies there


def test_it_is_no_target(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no target"):
        migrate(f"mkahadb:{directory}", f"mkahadb:{tmp_path / 'm'}")


def journal(*arguments: object) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["jdbcstore", "journal", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0)


def test_the_tools_know_it(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert journal("check", directory, "--json") == 0
    told: Any = json.loads(capsys.readouterr().out)
    assert set(told["stores"]) == {directory_name(str(one)) for one in (A, B, T)}
    assert journal("check", directory) == 0
    assert "3 stores, no problem found" in capsys.readouterr().out
    assert journal("diagnose", directory) == 0
    assert journal("dump", directory, "--command", "Prepare") == 0
    assert "txStore:" in capsys.readouterr().err
    path = next(path for path in (directory / directory_name(str(A))).glob("db-*.log"))
    data = bytearray(path.read_bytes())
    at = data.index(b"message 3")
    data[at] ^= 0xFF
    path.write_bytes(data)
    assert journal("check", directory) == 1
    capsys.readouterr()
    assert journal("repair", directory, tmp_path / "repaired") == 1
    assert "lost: " in capsys.readouterr().out
    with open_store(f"kahadb:{tmp_path / 'repaired'}") as adapter:
        seen = adapter_seen(adapter)
    wanted = expected(directory)
    wanted[str(A)].remove(3)
    assert {name: numbers(one) for name, one in seen.waiting.items()} == {k: v for k, v in wanted.items() if v}


def test_what_holds_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "txStore").mkdir()
    with pytest.raises(ConfigurationError, match="holds no KahaDB stores"), looking_into(f"mkahadb:{tmp_path}"):
        pass
    with pytest.raises(ConfigurationError, match="holds no KahaDB stores"):
        migrate(f"mkahadb:{tmp_path}", f"kahadb:{tmp_path / 'new'}")
    shutil.rmtree(tmp_path / "txStore")


def test_a_copy_of_a_store_beside_it_does_not_count_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever it is called: a broker takes the store with the name of the filter, a migration asks for a decision."""
    directory = tmp_path / "several"
    url = f"mkahadb:{directory}?perDestination=true"
    with open_store(url) as store:
        for number in range(3):
            store.queue_message_store(A).add_message(text_message(number, destination=A)).result(30)
    name = directory_name(A.qualified_name)
    shutil.copytree(directory / name, directory / "A-copy")
    with open_store(url) as store:
        store.queue_message_store(A).add_message(text_message(3, destination=A)).result(30)
    assert {row.destination: row.depth for row in collect(url.partition("?")[0])} == {str(A): 4}
    assert journal("check", directory) == 1
    assert "have the same messages of queue://A (3): one of them is a copy" in capsys.readouterr().out
    with pytest.raises(ConfigurationError, match="one of them is a copy"):
        migrate(url.partition("?")[0], f"kahadb:{tmp_path / 'target'}")
    (directory / "A-copy").rename(tmp_path / "elsewhere")
    assert migrate(url.partition("?")[0], f"kahadb:{tmp_path / 'target'}").messages == 4


def test_a_store_that_has_lost_its_journal_is_not_passed_over(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing looks as if it had no messages; what the others have can be had."""
    lost, said = directory / directory_name(A.qualified_name), "holds an index, but no journal"
    for path in lost.glob("db-*.log"):
        path.unlink()
    for is_dry in (True, False):
        with pytest.raises(StoreError, match=said):
            migrate(f"mkahadb:{directory}", f"kahadb:{directory.parent / 'target'}", is_dry=is_dry)
    for url in (f"mkahadb:{directory}", f"kahadb:{lost}"):
        with pytest.raises(ConfigurationError, match=said):
            collect(url)
    assert journal("check", directory) == 1
    assert f"{lost}: {said}" in capsys.readouterr().out
    for command in ("diagnose", "dump"):
        assert journal(command, directory) == 0
        assert said in capsys.readouterr().err
    assert journal("repair", directory, directory.parent / "repaired") == 1
    assert said in capsys.readouterr().out
    with open_store(f"kahadb:{directory.parent / 'repaired'}") as adapter:
        assert adapter.queue_message_store(B).message_count


def test_a_directory_without_outcomes_is_known_by_its_stores(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(directory / "txStore")
    monkeypatch.setattr(sys, "argv", ["jdbcstore", "journal", "check", str(directory)])
    with pytest.raises(SystemExit):
        main()
    assert "3 stores" in capsys.readouterr().out


def test_of_a_destination_in_two_stores_that_of_the_filter_counts(tmp_path: Path) -> None:
    """As ActiveMQ chooses after filters were changed; a migration brings both parts."""
    for name, filters, numbers in (("d", "", range(3)), ("other", "?filters=queue://A", range(3, 8))):
        with open_store(f"mkahadb:{tmp_path / name}{filters}") as store:
            for number in numbers:
                store.queue_message_store(A).add_message(text_message(number, destination=A)).result(30)
    name = directory_name(A.qualified_name)
    shutil.copytree(tmp_path / "other" / name, tmp_path / "d" / name)
    with open_store(f"mkahadb:{tmp_path / 'd'}") as store:
        assert store.queue_message_store(A).message_count == 5
    assert migrate(f"mkahadb:{tmp_path / 'd'}", f"kahadb:{tmp_path / 'target'}").messages == 8
