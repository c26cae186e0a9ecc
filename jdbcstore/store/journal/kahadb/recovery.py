"""What Java brokers leave in a KahaDB directory, and what the next of them needs, when the store starts.

A broker leaves traces of having been here: its index ``db.data``, which we remove, since it would be overtaken by what
we write; and in the journal a remark at each start. Before it goes, the journal is made to tell the next broker all
that it told (`jdbcstore.store.journal.kahadb.rebuild`); what only it can tell, in which OpenWire version the messages
are, is left in its place (`blank_index`).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from jdbcstore.openwire import STORE_VERSION
from jdbcstore.store.disk import force_directory, remove
from jdbcstore.store.journal import recovery
from jdbcstore.store.journal.index import Index
from jdbcstore.store.journal.journal_writer import JournalWriter
from jdbcstore.store.journal.kahadb.appender import KAHADB
from jdbcstore.store.journal.kahadb.blank_index import is_brokers_index, leave_blank_index, wire_version_of
from jdbcstore.store.journal.kahadb.branches import correct_branches
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.kahadb.rebuild import make_rebuild_complete
from jdbcstore.store.journal.kahadb.scheduler_journal import SchedulerJournal
from jdbcstore.store.journal.records import Location
from jdbcstore.store.journal.recovery import Noted
from jdbcstore.store.journal.replay import Replay
from jdbcstore.store.journal.state import State

__all__ = ["made_anew", "open_index"]

log = logging.getLogger(__name__)

_SCHEDULERS_INDEX: Final = ("scheduleDB.data", "scheduleDB.redo", "scheduleDB.free")


def open_index(
    directory: Path, options: KahaDBOptions, scheduler: SchedulerJournal, appender: JournalWriter[Location]
) -> Index:
    """The index of a directory, as the journals have it. Their ends are repaired already.

    Args:
        directory: of the journal.
        options: where the index is, how much of it is in memory.
        scheduler: open; it gets what a crash has kept from it.
        appender: open; it gets what only the index of a broker tells.

    Raises:
        JournalDamaged: journal files are missing that messages stand in, and ``ignoreMissingJournalfiles`` is not set.
        StoreError: the journal cannot be read, or the index not be written.
    """
    place = Path(options.index_directory) if options.index_directory else directory
    before = _Broker(directory, place, options, scheduler, appender)
    brokers = place if is_brokers_index(place) else directory
    index, noted = recovery.open_index(directory, KAHADB, options, scheduler, before)
    if noted is None:
        _tell_wire_version(place, options, wire_version_of(place))
        return index
    told = wire_version_of(brokers)
    _tell_wire_version(place, options, noted.wire_version if told is None else told)
    if directory.resolve() != place.resolve():
        leave_blank_index(directory, None)
    gone = [remove(scheduler.directory / name) for name in _SCHEDULERS_INDEX]
    if any(gone):
        force_directory(scheduler.directory)
    return index


class _Broker:
    """The broker whose index is there, if it is."""

    def __init__(
        self,
        directory: Path,
        place: Path,
        options: KahaDBOptions,
        scheduler: SchedulerJournal,
        appender: JournalWriter[Location] | None,
    ) -> None:
        self._directory = directory
        self._place = place
        self._options = options
        self._scheduler = scheduler
        self._appender = appender

    def left(self) -> str | None:
        """Its index, or that the index is to be made anew."""
        if any(is_brokers_index(where) for where in (self._directory, self._place)):
            return "a broker was here: there is a db.data"
        if (self._scheduler.directory / _SCHEDULERS_INDEX[0]).exists():
            return "a broker was here: there is a scheduleDB.data"
        return "forceRecoverIndex is set" if self._options.force_recover_index else None

    def complete(self, state: State, noted: Noted) -> bool:
        """As `make_rebuild_complete`."""
        assert self._appender is not None
        brokers = self._place if is_brokers_index(self._place) else self._directory
        return make_rebuild_complete(
            self._directory,
            brokers,
            self._appender,
            state,
            noted.remarked.known,
            self._options.is_kept,
            ignores_missing=self._options.ignore_missing_journal_files,
        )

    def correct(self, progress: Replay) -> None:
        """What the broker's index knows better is written to the journal instead."""

    def noted(self) -> Noted:
        """As KahaDB's are."""
        return Noted()

    def journal(self, directory: Path) -> Journal:
        """All that is in it."""
        return Journal(directory)


class _OneOfSeveral(_Broker):
    """Who wrote a directory that is only looked into; perhaps it is one of several stores."""

    def correct(self, progress: Replay) -> None:
        """Transactions over several stores ended as ``txStore`` says, others as the index of the broker does."""
        outcomes = self._directory.absolute().parent / "txStore"
        if outcomes.is_dir():
            progress.decide(Journal(outcomes))
        correct_branches(progress, Journal(self._directory), self._place)


def _tell_wire_version(place: Path, options: KahaDBOptions, known: int | None) -> None:
    """Leave the index that tells a broker in which OpenWire version the messages are, if it would not know."""
    configured = options.store_open_wire_version
    version = configured if known is None else known
    if version != configured:
        log.warning(
            "the messages of this directory are in another OpenWire version than is configured, and stay in it"
            " directory=%s version=%d storeOpenWireVersion=%d",
            place,
            version,
            configured,
        )
    if version == configured == STORE_VERSION:
        leave_blank_index(place, None)
    elif is_brokers_index(place) or wire_version_of(place) != version:
        leave_blank_index(place, version)


def made_anew(path: Path, directory: Path, options: KahaDBOptions, scheduler: SchedulerJournal) -> Index:
    """A new index from the journals alone, which are not changed.

    Args:
        path: of the index; one that is there is removed.
        directory: of the journal.
        options: how much of the index is in memory.
        scheduler: not open.

    Raises:
        StoreError: the journal cannot be read, or the index not be written.
    """
    place = Path(options.index_directory) if options.index_directory else directory
    before = _OneOfSeveral(directory, place, options, scheduler, None)
    return recovery.made_anew(path, directory, options, scheduler, before, is_written=False)[0]
