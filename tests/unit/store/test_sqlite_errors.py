"""What SQLite's errors say: which file is meant, since the library does not."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from jdbcstore.cli import run
from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.errors import StoreError
from jdbcstore.spark.batch_reader import planned
from jdbcstore.spark.options import ReadOptions
from jdbcstore.testing import text_message
from tests.servers.server import free_port


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database, whose tables are there."""
    file = tmp_path / "store.db"
    with open_store(f"sqlite:///{file}"):
        pass
    return file


@pytest.mark.parametrize(("start", "said"), [(0, "SQLITE_NOTADB"), (4096, "SQLITE_CORRUPT")])
@pytest.mark.parametrize(
    "command",
    [
        "queues --store",
        "schema status",
        *(pytest.param(one, marks=pytest.mark.exhaustive) for one in ("stats", "schema upgrade", "lock status")),
    ],
)
def test_a_damaged_file_is_named(
    start: int, said: str, command: str, file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:start] + b"\xff" * (len(data) - start))
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(run([*command.split(), f"sqlite:///{file}"]))
    assert ended.value.code in (1, 2)
    told = capfd.readouterr().err
    assert told.startswith(f"jdbcstore: {file}: "), told
    assert f"[{said}]" in told
    assert told.count("\n") == 1


def test_a_write_and_a_read_that_fail_name_the_file(file: Path) -> None:
    store = open_store(f"sqlite:///{file}")
    with store:
        queue = store.queue_message_store(Queue("A"))
        with sqlite3.connect(file) as other:
            other.execute("ALTER TABLE ACTIVEMQ_MSGS RENAME TO GONE")
        with pytest.raises(StoreError, match=f"^{file}: no such table"):
            queue.add_message(text_message(1, destination=Queue("A"))).result(30)
        with pytest.raises(StoreError, match=f"^{file}: no such table"):
            list(queue.recover())


def test_spark_names_a_damaged_file_once(file: Path) -> None:
    file.write_bytes(b"\xff" * 8192)
    with pytest.raises(StoreError, match=rf"^cannot read sqlite:///{file}: file is not a database \[SQLITE_NOTADB\]$"):
        planned(ReadOptions.of({"url": f"sqlite:///{file}"}), ["ID"])


def test_an_error_of_another_database_names_no_file(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = f"postgresql://nobody@127.0.0.1:{free_port()}/x"
    assert run(["migrate", f"sqlite:///{file}", target, "--quiet"]) == 1
    told = capfd.readouterr().err
    assert "Connection refused [08000]" in told
    assert str(file) not in told
