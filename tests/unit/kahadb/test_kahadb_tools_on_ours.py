"""The tools on directories that a store of ours wrote, while it is open and afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.destination import Queue
from jdbcstore.errors import LockHeld
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.journal.kahadb.diagnosis import Diagnosis
from jdbcstore.store.journal.kahadb.inspection import check
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.kahadb.repair import repair
from jdbcstore.store.journal.kahadb.survey import survey
from jdbcstore.store.journal.replay import replay
from jdbcstore.testing import text_message

QUEUE = Queue("A")
WAIT_S = 30.0


def test_a_directory_of_ours_is_sound_and_repaired_to_the_same(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    options = KahaDBOptions(journal_max_file_length_bytes=4096, virtual_topic_consumers="")
    with KahaDBPersistenceAdapter(old, options) as adapter:
        store = adapter.queue_message_store(QUEUE)
        adapter.queue_message_store(Queue("EMPTY"))
        for number in range(60):
            store.add_message(text_message(number, destination=QUEUE)).result(WAIT_S)
        report = check(old)
        assert report.findings == []
        assert report.survey.running
        assert report.messages == 60
        with pytest.raises(LockHeld, match="holds the lock"):
            repair(old, new)
        # Our own lock is not lost by asking.
        store.add_message(text_message(60, destination=QUEUE)).result(WAIT_S)
    report = check(old)
    assert report.findings == []
    assert not report.survey.running
    assert any("one of jdbcstore" in note for note in report.notes)
    with survey(old) as found:
        assert Diagnosis.of(found.pins()).holders[QUEUE].files == sorted(found.sizes)[:-1]
    repair(old, new)
    with KahaDBPersistenceAdapter(new, options) as adapter:
        assert [message.message_id for message in adapter.queue_message_store(QUEUE).recover()] == [
            message.message_id for message in (text_message(number, destination=QUEUE) for number in range(61))
        ]
    assert len(replay(Journal(new)).destinations[QUEUE]) == 61
