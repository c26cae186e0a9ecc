"""What a broker left in an AMQ store, and what the next one needs, when the store starts.

The journal tells nearly everything. What only the reference store tells is written to the journal before that does not
count any more (`jdbcstore.store.journal.amq.reference_store`).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from jdbcstore.errors import CodecError
from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.journal import recovery
from jdbcstore.store.journal.amq.control_file import forget_places
from jdbcstore.store.journal.amq.decoding import message_of, subscription_text
from jdbcstore.store.journal.amq.format import AMQ
from jdbcstore.store.journal.amq.journal import FILE_PATTERN, AMQLocation, Journal
from jdbcstore.store.journal.amq.options import AMQOptions
from jdbcstore.store.journal.amq.reference_store import (
    ReferenceStore,
    keep_subscriptions,
    mark_as_not_clean,
    read_reference_store,
)
from jdbcstore.store.journal.commands import AddMessage, Command, Rollback, Subscription
from jdbcstore.store.journal.index import Index
from jdbcstore.store.journal.journal_writer import JournalWriter
from jdbcstore.store.journal.kahadb.scheduler_journal import SchedulerJournal
from jdbcstore.store.journal.records import CHUNK_BYTES, Location, Record
from jdbcstore.store.journal.recovery import Noted
from jdbcstore.store.journal.state import State
from jdbcstore.subscription import SubscriptionKey

__all__ = ["JOURNAL", "StoreJournal", "made_anew", "open_index", "release_subscriptions"]

log = logging.getLogger(__name__)

#: Of the journal, in the directory of the store.
JOURNAL = "journal"
#: The reference store as a file of the journal: before all others.
_REFERENCE_STORE_FILE = 0


class StoreJournal(Journal):
    """The journal of a store, behind the durable subscriptions of its reference store: brokers replay it that way.

    Args:
        directory: of the whole store.
    """

    def __init__(self, directory: Path | str) -> None:
        super().__init__(Path(directory) / JOURNAL)
        self.reference_store = read_reference_store(Path(directory))

    def records(self, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Record]:
        return itertools.chain(self.subscriptions(), super().records(chunk_bytes=chunk_bytes))

    def subscriptions(self) -> Iterator[Record]:
        """The durable subscriptions of the reference store, as records in front of the first."""
        for place, (info, data) in enumerate(self.reference_store.subscriptions):
            if info.destination is not None:
                text = subscription_text(SubscriptionKey(info.client_id or "", info.subscription_name or ""))
                yield AMQLocation(_REFERENCE_STORE_FILE, place, 0), Subscription(info.destination, text, False, data)

    def corrections(self, state: State) -> list[Command]:
        """What a clean reference store knows better than a replay: subscriptions that ended, and transactions in doubt
        that were rolled back."""
        store = self.reference_store
        if not store.is_clean or store.damage is not None:
            return []
        there = {(info.client_id, info.subscription_name, info.destination) for info, _ in store.subscriptions}
        gone: list[Command] = [
            Subscription(destination, text)
            for destination, stored in state.destinations.items()
            for text, one in stored.subscriptions.items()
            if (one.info.client_id, one.info.subscription_name, destination) not in there
        ]
        if store.prepared is not None:
            gone += [
                Rollback(xid)
                for xid in state.prepared
                if isinstance(xid, XATransactionId) and xid not in store.prepared
            ]
        return gone


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

    def left(self) -> str | None:
        """A reference store that is clean, or that the index is to be made anew."""
        store: ReferenceStore = read_reference_store(self._directory)
        if store.damage is not None:
            log.warning("the reference store cannot be read, the journal alone counts: %s", store.damage)
        if store.is_clean:
            return "a broker was here: its reference store is clean"
        return "forceRecoverReferenceStore is set" if self._options.force_recover_index else None

    def complete(self, state: State, noted: Noted) -> bool:
        """Write what a clean reference store knows better."""
        corrections = StoreJournal(self._directory).corrections(state)
        if not corrections:
            return False
        assert self._appender is not None
        for command in corrections:
            log.warning("written to the journal, what only the reference store told: %s", command)
        self._appender.append([AMQ.encode(command) for command in corrections])
        self._appender.force()
        return True

    def noted(self) -> Noted:
        """Messages of brokers of that time."""
        return _Noted()

    def journal(self, directory: Path) -> Journal:
        """Behind what the reference store knows."""
        return StoreJournal(self._directory)
