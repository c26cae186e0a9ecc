"""Records to rows."""

from __future__ import annotations

from pathlib import Path

from jdbcstore.destination import Queue
from jdbcstore.openwire import marshal
from jdbcstore.store.journal.applier import Applier
from jdbcstore.store.journal.commands import AddMessage
from jdbcstore.store.journal.index import Index
from jdbcstore.store.journal.kahadb.journal import Location
from jdbcstore.testing import text_message


def test_numbers_are_given_by_those_who_send_only(tmp_path: Path) -> None:
    """They count on while a batch is applied: a number that is written back would be given twice."""
    index = Index(tmp_path / "index", 100)
    index.given = 1
    add = AddMessage(None, Queue("A"), "ID:a-1:1:1:1:7", marshal(text_message(7)))
    with index.lock:
        Applier(index).apply((Location(1, offset, 99), add, None) for offset in (28, 127))
    assert (index.given, index.written) == (1, 2)
    index.close()
