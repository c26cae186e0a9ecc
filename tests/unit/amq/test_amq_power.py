"""The power fails while an AMQ store is at work: whatever is left of it, what was answered is there."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from jdbcstore.store.journal.amq.adapter import AMQPersistenceAdapter
from jdbcstore.store.journal.amq.options import AMQOptions
from tests.examples import sampled
from tests.power.trace import Trace
from tests.unit.kahadb import test_kahadb_power as kahadb
from tests.unit.kahadb.test_kahadb_power import Case, first_loss, record

#: Room for two or three messages.
SMALL: Final = AMQOptions(
    journal_max_file_length_bytes=1500, checkpoint_interval_ms=0, cleanup_interval_ms=0, virtual_topic_consumers=""
)


def amq(directory: Path, options: Any) -> AMQPersistenceAdapter:
    return AMQPersistenceAdapter(directory, options)


CASES: Final = {
    "short": Case(kahadb.short, SMALL, all_subsets=9, store=amq),
    "files that go": Case(kahadb.files_that_go, SMALL, store=amq),
    "files that are archived": Case(kahadb.files_that_go, replace(SMALL, archive_data_logs=True), store=amq),
    "order": Case(kahadb.order, SMALL, store=amq),
    "jobs": Case(kahadb.jobs, SMALL, store=amq),
    "failed force": Case(kahadb.failed_force, SMALL, store=amq),
    "killed": Case(kahadb.killed, SMALL, store=amq),
}


@cache
def recorded(name: str) -> Trace:
    """The trace of a case."""
    return record(CASES[name])


@pytest.mark.parametrize("sector", sampled([512, 4096], 1))
@pytest.mark.parametrize("name", CASES)
def test_whatever_a_power_failure_leaves_what_was_answered_is_there(name: str, sector: int) -> None:
    looked, wrong = first_loss(recorded(name), CASES[name], sector, kahadb.LOOKS_MAX)
    assert wrong is None, f"state {looked}, {wrong}"
    assert looked > 20


@pytest.mark.parametrize(
    ("site", "name"),
    [
        ("journal_writer.JournalWriter.force DiskFile.sync", "short"),
    ],
)
def test_without_one_force_something_is_lost(site: str, name: str) -> None:
    trace = recorded(name)
    assert site in trace.sites, sorted(trace.sites)
    _, wrong = first_loss(trace.without(site), CASES[name])
    assert wrong is not None
