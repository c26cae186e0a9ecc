"""The files of a SQLite store: who may read them, and what of them is on the disk."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import pytest

from jdbcstore import open_store
from jdbcstore.config.inspection import check_url
from jdbcstore.destination import Queue
from jdbcstore.testing.messages import text_message


def test_nobody_else_reads_them(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'new' / 'store.db'}") as store:
        store.queue_message_store(Queue("A")).add_message(text_message(1)).result(30)
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()}
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_a_file_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch(0o640)
    path.chmod(0o640)
    with open_store(f"sqlite:///{path}"):
        assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("named", ["{path}?uri=true", "file:{path}?uri=true", "file:{path}?mode=rwc&uri=true"])
def test_a_file_that_is_named_by_a_uri_is_written_through_a_log(tmp_path: Path, named: str) -> None:
    with open_store(f"sqlite:///{named.format(path=tmp_path / 'store.db')}") as store:
        store.queue_message_store(Queue("A")).add_message(text_message(1)).result(30)
        assert (tmp_path / "store.db-wal").stat().st_size > 0


@pytest.mark.parametrize("named", ["file:{path}?uri=true", "file:{path}?mode=rwc&uri=true", "file://{path}?uri=true"])
def test_a_file_that_is_named_by_a_uri_is_a_file_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    """Its folder is made, nobody else reads it, commands find it, and who only reads writes nothing."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    path = tmp_path / "new folder" / "store.db"
    url = f"sqlite:///{named.format(path=quote(str(path)))}"
    with open_store(url) as store:
        store.queue_message_store(Queue("A")).add_message(text_message(1)).result(30)
        assert {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {
            "store.db": 0o600,
            "store.db-wal": 0o600,
            "store.db-shm": 0o600,
        }
        left = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    for name, content in left.items():
        (path.parent / name).write_bytes(content)
    check_url(url)
    with open_store(url, locker="none", reads_only=True) as store:
        assert store.destinations() == {Queue("A")}
    assert (path.parent / "store.db-wal").read_bytes() == left["store.db-wal"]
    assert list(Path.cwd().iterdir()) == []


def test_what_is_found_in_the_log_is_forced_before_it_is_believed(tmp_path: Path) -> None:
    """After a kill the last commit may be in the memory of the system only; its log is copied, which forces it."""
    (tmp_path / "killed").mkdir()
    with open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        store.queue_message_store(Queue("A")).add_message(text_message(1)).result(30)
        for path in tmp_path.glob("store.db*"):
            shutil.copy(path, tmp_path / "killed")
    killed = tmp_path / "killed" / "store.db"
    other = sqlite3.connect(killed)  # else whoever closes the last connection copies the log
    other.execute("SELECT COUNT(*) FROM ACTIVEMQ_MSGS").fetchone()
    with open_store(f"sqlite:///{killed}", locker="none"):
        shutil.copy(killed, tmp_path / "database.db")  # without its log
    other.close()
    rows = sqlite3.connect(tmp_path / "database.db")
    assert rows.execute("SELECT COUNT(*) FROM ACTIVEMQ_MSGS WHERE CONTAINER = 'queue://A'").fetchone() == (1,)
    rows.close()


@pytest.mark.parametrize(("size", "is_kept"), [(6 << 20, True), (12 << 20, False)], ids=["6 MiB", "12 MiB"])
def test_the_writer_keeps_8_mib_of_what_it_changes_until_it_commits(tmp_path: Path, size: int, is_kept: bool) -> None:
    """What has no room in its cache goes into the log before the commit, and is read from there again."""
    with open_store(f"sqlite:///{tmp_path / 'a.db'}") as store:
        connection = cast(Any, store).writer._connection
        log_file = tmp_path / "a.db-wal"
        before = log_file.stat().st_size
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        connection.exec_driver_sql(
            "INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER, MSG) VALUES (1, 'queue://A', zeroblob(?))", (size,)
        )
        assert (log_file.stat().st_size == before) is is_kept
        connection.exec_driver_sql("ROLLBACK")
