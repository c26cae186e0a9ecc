"""What the remarks of a journal come to, for who reads it without the index."""

from __future__ import annotations

from jdbcstore.store.journal import remarks
from jdbcstore.store.journal.commands import Trace


def told(*traces: Trace) -> remarks.Remarked:
    found = remarks.Remarked()
    for trace in traces:
        found.take(trace)
    return found


def test_a_destination_is_known_until_it_is_released() -> None:
    assert list(told(remarks.known("0:A"), remarks.known("0:B"), remarks.released("0:A")).known) == ["0:B"]


def test_a_cleanup_names_those_that_are_known_anew() -> None:
    assert list(told(remarks.known("0:A"), remarks.unknown(), remarks.known("0:B")).known) == ["0:B"]


def test_producers_never_go_back() -> None:
    assert told(remarks.producer("ID:p", 5), remarks.producer("ID:p", 3)).producers == {"ID:p": 5}


def test_a_producer_that_a_cleanup_has_written_again_is_not_forgotten() -> None:
    assert told(remarks.still("ID:p", 5)).producers == {"ID:p": 5}


def test_producers_are_forgotten_together() -> None:
    assert told(remarks.producer("ID:p", 5), remarks.forgotten(), remarks.producer("ID:q", 1)).producers == {"ID:q": 1}


def test_what_is_not_ours_or_damaged_means_nothing() -> None:
    assert told(Trace("LOADED"), Trace(None), Trace("jdbcstore producer x ID:p")) == remarks.Remarked()
