"""``jdbcstore migrate``: what it says, refuses and leaves alone."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from sqlalchemy import text

from jdbcstore.cli import run
from jdbcstore.config.urls import open_engine, open_store
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError
from jdbcstore.message import BytesMessage
from jdbcstore.migration import Showing, migrate, migrate_contents
from jdbcstore.migration.locations import location_of
from jdbcstore.migration.stores import StoreContents
from jdbcstore.migration.tables import contents_of_tables
from jdbcstore.migration.target import StoreTarget
from jdbcstore.store.contract import SupportsTopics
from jdbcstore.store.memory import MemoryPersistenceAdapter
from jdbcstore.testing import text_message
from tests.migration import rich


@pytest.fixture
def source(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'source.db'}"
    with open_store(url) as adapter:
        rich.fill(adapter)
    return url


def test_dry_run_changes_nothing(
    source: str, tmp_path: Path, postgresql_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    new = f"sqlite:///{tmp_path / 'new' / 'target.db'}"
    assert run(["migrate", "--dry-run", source, new]) == 0
    told = capsys.readouterr().out
    assert "queue://ORDERS" in told
    assert "prepared transactions: 2" in told
    assert "scheduled messages: 2" in told
    assert "would be migrated" in told
    assert not (tmp_path / "new").exists()
    assert run(["migrate", "--dry-run", source, postgresql_url]) == 0
    engine = open_engine(postgresql_url)
    with engine.connect() as connection:
        tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'public'"
        assert connection.execute(text(tables)).scalar() == 0
    engine.dispose()


def test_report_and_table(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    target = f"sqlite:///{tmp_path / 'target.db'}"
    assert run(["migrate", "--report", str(report), source, target]) == 0
    out, err = capsys.readouterr()
    assert "144 messages migrated" in out
    assert "both are alike" in out
    assert "copying: done in" in err  # no terminal: lines
    found = json.loads(report.read_text("utf-8"))
    assert found["destinations"]["queue://ORDERS"]["messages"] == 29
    assert len(found["destinations"]["queue://ORDERS"]["content"]) == 16
    assert found["destinations"]["queue://ORDERS"]["seconds"] > 0
    assert found["subscriptions"]["topic://NEWS client/late"] == 15
    assert (len(found["transactions"]), found["jobs"], found["producers"]) == (2, 2, 1)


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


def test_a_bar_on_a_terminal(source: str, tmp_path: Path) -> None:
    terminal = Terminal()
    migrate(source, f"sqlite:///{tmp_path / 'target.db'}", showing=Showing(terminal))
    assert re.search(r"copying.*144/144", terminal.getvalue())
    assert re.search(r"comparing.*144/144", terminal.getvalue())
    assert "done in" not in terminal.getvalue()


def test_refused_in_one_line(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full = f"sqlite:///{tmp_path / 'full.db'}"
    with open_store(full) as adapter:
        adapter.queue_message_store(rich.PLAIN).add_message(text_message(1)).result()
    with open_store(f"sqlite:///{tmp_path / 'at-work.db'}"):
        assert run(["migrate", source, f"sqlite:///{tmp_path / 'at-work.db'}"]) == 3  # its broker has it
    (tmp_path / "empty").mkdir()
    for arguments, code, words in (
        ([source, full], 2, "not empty"),
        (["--dry-run", source, full], 2, "not empty"),
        ([source, source], 2, "the same store"),
        ([f"sqlite:///{tmp_path / 'nothing.db'}", full], 2, "there is no file"),
        ([f"kahadb:{tmp_path / 'empty'}", full], 2, "there is no KahaDB journal"),
        (["--report", str(tmp_path / "no" / "report"), source, full], 2, "report cannot be written"),
        ([source, "postgresql://user:geheim@127.0.0.1:1/x"], 1, "127.0.0.1"),
        ([source, "oracle://user:geheim@127.0.0.1:1/x"], 2, "no store for oracle"),
    ):
        capsys.readouterr()
        assert run(["migrate", "-q", *arguments]) == code, arguments
        out, err = capsys.readouterr()
        assert out == ""
        assert words in err
        assert len(err.strip().splitlines()) == 1
        assert "geheim" not in err


def test_damaged_messages(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = open_engine(source)
    with engine.begin() as connection:
        id = connection.execute(text("SELECT MIN(ID) FROM ACTIVEMQ_MSGS WHERE CONTAINER = 'queue://RANKED'")).scalar()
        connection.execute(text("UPDATE ACTIVEMQ_MSGS SET MSG = x'00' WHERE ID = :id + 5"), {"id": id})
    engine.dispose()
    target = f"sqlite:///{tmp_path / 'target.db'}"
    assert run(["migrate", "-q", source, target]) == 1
    assert "--skip-damage" in capsys.readouterr().err
    assert run(["migrate", "-q", "--skip-damage", source, target]) == 0
    out = capsys.readouterr().out
    assert "left out: " in out
    assert "143 messages migrated" in out


def test_a_store_at_work_is_what_it_was(database_url: str, tmp_path: Path) -> None:
    with open_store(database_url) as adapter:
        rich.fill(adapter)
        assert isinstance(adapter, SupportsTopics)
        with contents_of_tables(location_of(database_url)) as contents:
            assert contents.is_live
            messages = contents.messages()
            found = [next(messages)]
            orders = adapter.queue_message_store(rich.PLAIN)
            for message in list(orders.recover()):
                assert message.message_id is not None
                orders.remove_message(message.message_id).result()
            orders.add_message(text_message(5000, destination=rich.PLAIN)).result()
            adapter.topic_message_store(rich.NEWS).delete_subscription(rich.ALL).result()
            found += messages
            assert len(found) == 144
            assert len(contents.prepared()) == 2
        lines = Showing((tmp_path / "lines").open("w+"))
        with lines.stream:
            done = migrate(database_url, f"sqlite:///{tmp_path / 'target.db'}", showing=lines)
            lines.stream.seek(0)
            assert "a broker is at work on the source" in lines.stream.read()
        assert done.is_live
        assert done.destinations[str(rich.PLAIN)].messages == 2  # with one that is removed in doubt


def test_large_messages_pass_one_at_a_time(tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path / name}.db" for name in "ab"]
    with open_store(urls[0]) as adapter:
        store = adapter.queue_message_store(Queue("LARGE"))
        for number in range(3):
            message = BytesMessage(**{
                name: getattr(text_message(number), name) for name in ("producer_id", "message_id", "destination")
            })  # fmt: skip
            message.body = bytes([number]) * (20 << 20)
            store.add_message(message).result()
    assert migrate(*urls).bytes > 60 << 20


def test_between_stores_of_any_kind(tmp_path: Path) -> None:
    """By the contract alone, as with a store that somebody else has written."""
    with MemoryPersistenceAdapter() as first, MemoryPersistenceAdapter() as second:
        rich.fill(first)
        for xid in (rich.XID, rich.EMPTY_XID):
            first.transaction_store().rollback_prepared(xid).result()
        prioritized = (rich.RANKED, rich.PRICES)
        done = migrate_contents(StoreContents(first, "first", prioritized), StoreTarget(second, "second"))
        assert done.messages == 144
        seen = rich.seen(first)
        assert rich.seen(second) == {**seen, "producer": False}  # which no store tells by itself
        with pytest.raises(ConfigurationError, match="complete"):
            migrate_contents(StoreContents(first, "first", prioritized), StoreTarget(second, "second"))
    with open_store(f"sqlite:///{tmp_path / 'first.db'}") as one, open_store(f"sqlite:///{tmp_path / 'b.db'}") as two:
        rich.fill(one)
        for xid in (rich.XID, rich.EMPTY_XID):
            one.transaction_store().rollback_prepared(xid).result()  # type: ignore[attr-defined]
        migrate_contents(StoreContents(one, "first", prioritized), StoreTarget(two, "second"))
        assert rich.seen(two) == {**rich.seen(one), "producer": False}
