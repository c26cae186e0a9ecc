"""What each store says of itself to operators: what it is, where, and how large."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.store.commit_numbers import CountsCommits
from jdbcstore.store.contract import PersistenceAdapter
from jdbcstore.testing import text_message
from tests.waiting import wait_until


@pytest.mark.parametrize("kind", ["kahadb", "amq", "leveldb", "mkahadb"])
def test_a_directory_tells_what_it_is_and_what_it_takes(kind: str, tmp_path: Path) -> None:
    directory = tmp_path / "store"
    with open_store(f"{kind}:{directory}") as adapter:
        adapter.queue_message_store(Queue("Q")).add_message(text_message(1)).result(30)
        assert adapter.location == f"{kind}:{directory}"
        # Its index may be written meanwhile.
        wait_until(lambda: adapter.size_bytes() == size_bytes(directory) > 0, "the size is that of the files")
        if kind != "mkahadb":  # several, each with its own
            assert isinstance(adapter, CountsCommits)
            assert adapter.commit_numbers is not None
            assert adapter.commit_numbers.writes.total >= 1


def size_bytes(directory: Path) -> int:
    """Of all files; 0 if one has gone while they were looked at."""
    try:
        return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    except FileNotFoundError:
        return 0


def is_counted(adapter: PersistenceAdapter, elsewhere: Path) -> bool:
    return (adapter.size_bytes() or 0) > size_bytes(elsewhere) > 0


def test_what_lies_elsewhere_counts(tmp_path: Path) -> None:
    """The index of a KahaDB, and the log of a LevelDB."""
    index, log = tmp_path / "index", tmp_path / "log"
    for url, elsewhere in (
        (f"kahadb:{tmp_path / 'k'}?indexDirectory={index}", index),
        (f"leveldb:{tmp_path / 'l'}?logDirectory={log}", log),
    ):
        with open_store(url) as adapter:
            adapter.queue_message_store(Queue("Q")).add_message(text_message(1)).result(30)
            wait_until(partial(is_counted, adapter, elsewhere))
