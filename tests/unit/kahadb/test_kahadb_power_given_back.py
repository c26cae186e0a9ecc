"""The power fails while a start makes good what a Java broker's rebuild would miss: either broker may go on."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.kahadb.rebuild import rebuilt
from jdbcstore.store.journal.replay import replay
from jdbcstore.store.journal.state import State as Contents
from tests.examples import sampled
from tests.power.recording import Recorder
from tests.power.search import FAST
from tests.power.states import State, states
from tests.power.trace import Trace
from tests.unit.kahadb.journals import write
from tests.unit.kahadb.test_kahadb_power import foreign, watched_index
from tests.unit.kahadb.test_kahadb_rebuild import SHAPES, outline

OPTIONS: Final = KahaDBOptions(
    checkpoint_interval_ms=0, cleanup_interval_ms=0, cleanup_on_stop=False, preallocation_scope="NONE"
)


@cache
def recorded(shape: str) -> tuple[Trace, dict[str, list[str]]]:
    """What a start and a stop do, and what was there before."""
    folder = Path(tempfile.mkdtemp(dir=FAST))
    (folder / "store").mkdir()
    write(folder / "store", SHAPES[shape])
    there = _sorted(replay(Journal(folder / "store")))
    recorder = Recorder(folder, foreign)
    with watched_index(recorder), recorder.recording() as trace:
        adapter = KahaDBPersistenceAdapter(folder / "store", OPTIONS)
        adapter.start()
        recorder.note("started")
        adapter.stop()
    shutil.rmtree(folder)
    return trace, there


def _sorted(contents: Contents) -> dict[str, list[str]]:
    return {name: sorted(ids) for name, ids in outline(contents).items()}


def first_loss(trace: Trace, there: dict[str, list[str]], sector: int) -> str | None:
    """What is wrong with the first state that is."""
    with tempfile.TemporaryDirectory(dir=FAST) as place:
        for number, state in enumerate(states(trace, sector=sector)):
            wrong = _wrong(state, Path(place) / str(number), there)
            if wrong is not None:
                return f"after {state.moment} operations: {wrong}; files {sorted(state.files)}"
    return None


def _wrong(state: State, folder: Path, there: dict[str, list[str]]) -> str | None:
    folder.mkdir()
    state.write(folder)
    found = _sorted(replay(Journal(folder / "store")))
    brokers = _sorted(rebuilt(Journal(folder / "store")))
    shutil.rmtree(folder)
    if found != there:
        return f"found {found}"
    if "started" in state.notes and brokers != there:
        return f"a Java broker finds {brokers}"
    return None


@pytest.mark.parametrize("sector", sampled([512, 4096], 1))
@pytest.mark.parametrize("shape", SHAPES)
def test_either_broker_goes_on_with_what_a_power_failure_left(shape: str, sector: int) -> None:
    assert first_loss(*recorded(shape), sector) is None


#: Forces of what is made good, and a shape that shows what they are for. Of the last, one alone would do.
NEEDED: Final = {
    ("file_replacement.replaced_file DiskFile.sync",): "messages behind copies",
    ("journal_writer.JournalWriter.force DiskFile.sync",): "the acknowledgement of an earlier message of the same id",
    (
        "file_replacement.replaced_file move",
        "index.Index.remove force_directory",
        "journal_writer.JournalWriter._make_file Disk.sync",
    ): "messages behind copies",
}


@pytest.mark.parametrize("sites", NEEDED, ids=" ".join)
def test_without_one_force_something_is_lost(sites: tuple[str, ...]) -> None:
    trace, there = recorded(NEEDED[sites])
    assert trace.sites.issuperset(sites)
    for site in sites:
        trace = trace.without(site)
    assert first_loss(trace, there, 512) is not None
