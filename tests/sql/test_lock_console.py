"""``jdbcstore lock``: what it tells about who is master, and that it clears the right lock only."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from jdbcstore.cli import run
from jdbcstore.config.urls import open_store, store_url
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.contract import Locker
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.dialect import dialect_for
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.lease import LockerOptions

pytestmark = pytest.mark.has_tables

#: As a Java broker writes its lease; this one's clock is an hour ahead.
JAVA = "UPDATE ACTIVEMQ_LOCK SET BROKER_NAME='java', TIME={now} + 3610000 WHERE ID = 1"

Lockers = Callable[..., Locker]


@pytest.fixture
def lockers(database_url: str) -> Iterator[Lockers]:
    """Makes lockers on every database in turn."""
    yield from made(database_url)


@pytest.fixture
def server_lockers(sql_server_url: str) -> Iterator[Lockers]:
    """Makes lockers on every database server in turn."""
    yield from made(sql_server_url)


def made(url: str) -> Iterator[Lockers]:
    all_: list[Locker] = []

    def new(kind: str = "lease", lease_ms: int = 30_000) -> Locker:
        adapter = open_store(url, JdbcOptions(locker=kind, lock=LockerOptions(lease_ms=lease_ms)))
        assert isinstance(adapter, JdbcPersistenceAdapter)
        all_.append(adapter.locker())
        return all_[-1]

    yield new
    for locker in all_:
        locker.release()


@pytest.mark.has_tables(False)
def test_the_lock_of_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"kahadb:{tmp_path / 'kahadb'}"
    with open_store(url):
        assert run(["lock", "status", url, "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        holder = report["holder"]
        assert (report["state"], report["term"]) == ("file", 1)
        assert run(["lock", "status", url]) == 0
        assert capsys.readouterr().out.startswith(f"{holder} is master; its lock is that of a file")
        assert run(["lock", "release", url, "--holder", str(holder)]) == 2
        assert "there is nothing to release" in capsys.readouterr().err
    assert run(["lock", "status", url]) == 0
    assert capsys.readouterr().out == "Nobody is master.\n"


def test_what_is_for_databases_does_not_recommend_directories() -> None:
    with pytest.raises(ConfigurationError, match="this is for SQL stores only") as told:
        store_url("kahadb:nowhere")
    assert "DIRECTORY" not in str(told.value)


def without_ours(url: str) -> None:
    """Leave the tables that a Java broker knows."""
    for table in ("JDBCSTORE_VERSION", "JDBCSTORE_TERM", "JDBCSTORE_PRODUCERS"):
        execute(url, f"DROP TABLE {table}")


def execute(url: str, statement: str) -> list[Any]:
    engine = create_engine(store_url(url), isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            now = dialect_for(engine.dialect.name).epoch_ms
            result = connection.execute(text(statement.format(now=now)))
            return list(result.all()) if result.returns_rows else []
    finally:
        engine.dispose()


class Told:
    """A command's exit code and what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        capsys.readouterr()
        self.code = run(["lock", *arguments])
        captured = capsys.readouterr()
        # The servers that tests share flush nothing, and that is told.
        lines = [line for line in captured.out.splitlines(keepends=True) if not line.startswith("Careful: ")]
        self.out, self.err = "".join(lines), captured.err


def holder_of(locker: Locker) -> str:
    assert locker.lease is not None
    return locker.lease.holder


def row(url: str) -> tuple[Any, ...]:
    return tuple(execute(url, "SELECT BROKER_NAME, TIME FROM ACTIVEMQ_LOCK WHERE ID = 1")[0])


# -- status ----------------------------------------------------------------------------------------------------------


def test_status_of_a_master(database_url: str, lockers: Lockers, capsys: pytest.CaptureFixture[str]) -> None:
    one = lockers()
    one.acquire()
    told = Told(capsys, "status", database_url)
    assert told.code == 0
    assert re.fullmatch(
        rf"{holder_of(one)} is master in term 1; its lease is good for another (2\d|30)\.\d s\.\n", told.out
    )
    found = json.loads(Told(capsys, "status", database_url, "--json").out)
    assert 0 < found.pop("expires_in_ms") <= 30_000
    replicas = {name: found.pop(name) for name in ("replication", "replicas", "weaknesses")}
    assert found == {"state": "held", "holder": holder_of(one), "term": 1, "last_holder": holder_of(one)}
    assert replicas["replication"] == "none"
    one.renew()


def test_status_when_nobody_is_master(database_url: str, lockers: Lockers, capsys: pytest.CaptureFixture[str]) -> None:
    one = lockers()
    one.acquire()
    last = holder_of(one)
    one.release()
    told = Told(capsys, "status", database_url)
    assert told.code == 0
    assert told.out == (f"Nobody is master.\nThe last of our brokers that was master is {last}, in term 1.\n")
    found = json.loads(Told(capsys, "status", database_url, "--json").out)
    assert {name: found[name] for name in ("state", "holder", "expires_in_ms", "term", "last_holder")} == {
        "state": "free",
        "holder": None,
        "expires_in_ms": None,
        "term": 1,
        "last_holder": last,
    }


def test_status_before_anybody_was_master(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = Told(capsys, "status", database_url)
    assert (told.code, told.out) == (0, "Nobody is master.\n")


def test_status_of_a_lease_that_ran_out(
    database_url: str, lockers: Lockers, capsys: pytest.CaptureFixture[str]
) -> None:
    one = lockers()
    one.acquire()
    execute(database_url, "UPDATE ACTIVEMQ_LOCK SET TIME = {now} - 5000 WHERE ID = 1")
    told = Told(capsys, "status", database_url)
    assert told.code == 0
    assert re.fullmatch(
        rf"The lease of {holder_of(one)} in term 1 ran out [5-9]\.\d s ago\. Whoever asks next is master\.\n", told.out
    )
    assert json.loads(Told(capsys, "status", database_url, "--json").out)["state"] == "expired"


def test_status_of_a_java_broker_on_tables_that_no_broker_of_ours_used(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    without_ours(database_url)
    execute(database_url, JAVA)
    told = Told(capsys, "status", database_url)
    assert told.code == 0
    lines = told.out.splitlines()
    assert re.fullmatch(r"java is master; its lease is good for another 36\d\d\.\d s\.", lines[0])
    assert "a Java broker" in lines[1]
    assert lines[2].endswith("jdbcstore lock release URL --holder 'java'")
    assert "no table of terms" in lines[3]
    found = json.loads(Told(capsys, "status", database_url, "--json").out)
    assert (found["holder"], found["term"], found["last_holder"]) == ("java", None, None)


def test_status_of_a_java_broker_after_one_of_ours(
    database_url: str, lockers: Lockers, capsys: pytest.CaptureFixture[str]
) -> None:
    one = lockers()
    one.acquire()
    last = holder_of(one)
    one.release()
    execute(database_url, JAVA)
    told = Told(capsys, "status", database_url)
    assert told.out.startswith("java is master; ")
    assert told.out.endswith(f"The last of our brokers that was master is {last}, in term 1.\n")


def test_status_of_an_exclusive_row_lock(
    sql_server_url: str, server_lockers: Lockers, capsys: pytest.CaptureFixture[str]
) -> None:
    one = server_lockers("database")
    one.acquire()
    told = Told(capsys, "status", sql_server_url)
    assert told.code == 0
    assert told.out.startswith("A session has an exclusive lock on the row of ACTIVEMQ_LOCK")
    assert holder_of(one) in told.out
    assert json.loads(Told(capsys, "status", sql_server_url, "--json").out)["state"] == "locked"
    one.renew()


def test_status_of_other_tables_in_the_same_database(
    database_url: str, lockers: Lockers, capsys: pytest.CaptureFixture[str]
) -> None:
    lockers().acquire()
    told = Told(capsys, "status", f"{database_url}?tablePrefix=X_")
    assert told.code == 1
    assert "there is no table x_activemq_lock" in told.err.lower()


def test_status_of_what_is_no_store(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert Told(capsys, "status", f"sqlite:///{tmp_path}/none.db").code == 2
    assert Told(capsys, "status", "memory:").code == 2


# -- release ---------------------------------------------------------------------------------------------------------


def test_a_stuck_lease_of_a_java_broker_is_cleared(
    database_url: str, lockers: Lockers, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(database_url, JAVA)
    one = lockers()
    assert one.acquire() is None
    told = Told(capsys, "release", database_url, "--holder", "java", "--yes")
    assert told.code == 0
    assert told.out == "The lease of java is cleared. Whoever asks next is master.\n"
    assert "two masters will write" in told.err
    assert row(database_url) == (None, 0)
    assert one.acquire() == 1


def test_it_is_cleared_without_our_table_of_terms_too(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    without_ours(database_url)
    execute(database_url, JAVA)
    assert Told(capsys, "release", database_url, "--holder", "java", "--yes").code == 0
    assert row(database_url) == (None, 0)


def test_one_of_ours_that_was_released_like_this_writes_nothing_any_more(
    database_url: str, lockers: Lockers, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = lockers(), lockers()
    one.acquire()
    told = Told(capsys, "release", database_url, "--holder", holder_of(one), "--yes")
    assert told.code == 0
    assert "it writes nothing any more" in told.err
    assert other.acquire() == 2


def test_the_lock_of_another_is_left_alone(
    database_url: str, lockers: Lockers, capsys: pytest.CaptureFixture[str]
) -> None:
    one = lockers()
    one.acquire()
    before = row(database_url)
    for name in ("java", holder_of(one)[:-1], holder_of(one).upper()):
        told = Told(capsys, "release", database_url, "--holder", name, "--yes")
        assert told.code == 1
        assert f"nothing was done: the lock is not {name}'s. {holder_of(one)} is master" in told.err
    assert row(database_url) == before
    one.renew()


def test_nobody_s_lock_is_nobody_s(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = Told(capsys, "release", database_url, "--holder", "java", "--yes")
    assert told.code == 1
    assert "Nobody is master" in told.err


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_it_asks_before(
    database_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    execute(database_url, JAVA)
    answers = iter(answer.splitlines())

    def asked(prompt: str = "") -> str:
        try:
            return next(answers)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("click.termui.visible_prompt_func", asked)
    told = Told(capsys, "release", database_url, "--holder", "java")
    assert told.code == code
    assert row(database_url)[0] == (None if code == 0 else "java")


def test_who_renewed_meanwhile_under_another_name_keeps_the_lock(
    database_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(database_url, JAVA)

    def takes_over(*arguments: object, **options: object) -> bool:
        execute(database_url, "UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = 'faster' WHERE ID = 1")
        return True

    monkeypatch.setattr("click.confirm", takes_over)
    told = Told(capsys, "release", database_url, "--holder", "java")
    assert told.code == 1
    assert "meanwhile the lock is not java's any more" in told.err
    assert row(database_url)[0] == "faster"
