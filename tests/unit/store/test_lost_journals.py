"""A journal that is gone, and the index of it that is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.errors import JournalDamaged
from jdbcstore.testing.messages import text_message

A = Queue("A")


@pytest.mark.parametrize(("scheme", "files"), [("kahadb", "db-*.log"), ("amq", "journal/data-[0-9]*")])
def test_an_index_whose_journal_is_gone_does_not_begin_anew(tmp_path: Path, scheme: str, files: str) -> None:
    url = f"{scheme}:{tmp_path}"
    with open_store(url) as adapter:
        adapter.queue_message_store(A).add_message(text_message(1)).result(30)
    for file in tmp_path.glob(files):
        file.unlink()
    with pytest.raises(JournalDamaged, match="1 messages stand in journal files that are missing"):
        open_store(url).start()
    assert not list(tmp_path.glob(files)), "what is missing can still be put back"


@pytest.mark.parametrize(("scheme", "files"), [("kahadb", "db-*.log"), ("amq", "journal/data-[0-9]*")])
def test_nothing_is_missed_when_there_was_nothing(tmp_path: Path, scheme: str, files: str) -> None:
    url = f"{scheme}:{tmp_path}"
    with open_store(url):
        pass
    for file in tmp_path.glob(files):
        file.unlink()
    with open_store(url) as adapter:
        assert adapter.queue_message_store(A).message_count == 0
