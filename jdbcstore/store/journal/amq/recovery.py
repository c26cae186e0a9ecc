"""What a broker left in an AMQ store, and what the next one needs, when the store starts.

The journal tells nearly everything. What only the reference store tells is written to the journal before that does not
count any more (`jdbcstore.store.journal.amq.reference_store`).
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from jdbcstore.errors import CodecError
from jdbcstore.store.journal import recovery
from jdbcstore.store.journal.amq.control_file import forget_places
from jdbcstore.store.journal.amq.decoding import message_of
from jdbcstore.store.journal.amq.format import AMQ
from jdbcstore.store.journal.amq.journal import FILE_PATTERN, Journal
from jdbcstore.store.journal.amq.options import AMQOptions
from jdbcstore.store.journal.amq.reference_store import (
    ReferenceStore,
    keep_subscriptions,
    mark_as_not_clean,
    read_reference_store,
)
from jdbcstore.store.journal.amq.store_journal import JOURNAL, StoreJournal, told_by_the_reference_store
from jdbcstore.store.journal.commands import AddMessage, Command
from jdbcstore.store.journal.index import Index
from jdbcstore.store.journal.journal_writer import JournalWriter
from jdbcstore.store.journal.kahadb.scheduler_journal import SchedulerJournal
from jdbcstore.store.journal.records import Location
from jdbcstore.store.journal.recovery import Noted
from jdbcstore.store.journal.replay import Replay
from jdbcstore.store.journal.state import State

__all__ = ["made_anew", "open_index", "release_subscriptions"]

log = logging.getLogger(__name__)


def open_index(
    directory: Path, options: AMQOptions, scheduler: SchedulerJournal, appender: JournalWriter[Location]
) -> Index:
    """The index of a store, as its journal has it, and a reference store that makes brokers read the journal.

    Args:
        directory: of the whole store.
        options: where the index is, how much of it is in memory.
        scheduler: open; it gets what a crash has kept from it.
        appender: open; it gets what only the reference store tells.

    Raises:
        JournalDamaged: journal files are missing that messages stand in, and ``ignoreMissingJournalfiles`` is not set.
        StoreError: the journal cannot be read, or the index not be written.
    """
    before = _Broker(directory, options, appender)
    place = replace(options, index_directory=options.index_directory or str(directory))
    index, _ = recovery.open_index(directory / JOURNAL, AMQ, place, scheduler, before)
    try:
        mark_as_not_clean(read_reference_store(directory))
        forget_places(directory / JOURNAL, FILE_PATTERN)
        release_subscriptions(directory, index)
    except BaseException:
        index.close()
        raise
    return index


def made_anew(path: Path, directory: Path, options: AMQOptions) -> Index:
    """A new index from the directory alone, which is not changed.

    Args:
        path: of the index; one that is there is removed.
        directory: of the whole store.
        options: how much of the index is in memory.

    Raises:
        StoreError: the journal cannot be read, or the index not be written.
    """
    scheduler = SchedulerJournal(directory, options)
    before = _Broker(directory, options, None)
    return recovery.made_anew(path, directory / JOURNAL, options, scheduler, before, is_written=False)[0]


def release_subscriptions(directory: Path, index: Index) -> None:
    """Take the durable subscriptions that ended out of the reference store, too. Raises `StoreError`."""
    kept = {
        (one.info.key.client_id, one.info.key.subscription_name)
        for known in index.known
        for one in known.subscriptions.values()
    }
    keep_subscriptions(directory, kept)


class _Noted(Noted):
    """What the records of an AMQ store say."""

    def expiration(self, add: AddMessage) -> int:
        try:
            return message_of(add).expiration
        except CodecError:
            return 0


class _Broker:
    """The broker that was here, if one was."""

    def __init__(self, directory: Path, options: AMQOptions, appender: JournalWriter[Location] | None) -> None:
        self._directory = directory
        self._options = options
        self._appender = appender
        self._corrections: list[Command] = []

    def left(self) -> str | None:
        """A reference store that is clean, or that the index is to be made anew."""
        store: ReferenceStore = read_reference_store(self._directory)
        if store.damage is not None:
            log.warning("the reference store cannot be read, the journal alone counts: %s", store.damage)
        if store.is_clean:
            return "a broker was here: its reference store is clean"
        return "forceRecoverReferenceStore is set" if self._options.force_recover_index else None

    def complete(self, state: State, noted: Noted) -> bool:
        """Write what a clean reference store knew better."""
        commands = [*self._corrections, *told_by_the_reference_store(state)]
        if not commands:
            return False
        assert self._appender is not None
        for command in commands:
            log.warning("written to the journal, what only the reference store told: %s", command)
        self._appender.append([AMQ.encode(command) for command in commands])
        self._appender.force()
        return True

    def correct(self, progress: Replay) -> None:
        """What a clean reference store knows better."""
        self._corrections = StoreJournal(self._directory).correct(progress)

    def noted(self) -> Noted:
        """Messages of brokers of that time."""
        return _Noted()

    def journal(self, directory: Path) -> Journal:
        """Behind what the reference store knows."""
        return StoreJournal(self._directory)
