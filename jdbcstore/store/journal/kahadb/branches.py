"""Branches (XA) of which the journal does not tell any more how they ended.

An ack compaction of a Java broker copies acknowledgements and commits, and then the file goes: with the rollback of a
branch, which is in doubt again by the journal, or with the prepare of one that is in doubt, which is forgotten. The
index tells one thing about it: where the first transaction in progress begins.

* A branch that ends before that place is over. What is left of a commit is copied, so it was rolled back.
* The one that begins at that place is in doubt, if the broker was stopped in order: it rolls all others back then.

Of several branches that have lost their prepare nobody knows more than the first. The others may as well have lost
their rollback, and are taken for rolled back.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from jdbcstore.errors import StoreError
from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.journal.commands import Prepare, Rollback
from jdbcstore.store.journal.kahadb.blank_index import is_brokers_index
from jdbcstore.store.journal.kahadb.journal import JournalFile, KahaDBLocation
from jdbcstore.store.journal.kahadb.pagefile import IndexPlace, PageFile
from jdbcstore.store.journal.records import AnyJournal
from jdbcstore.store.journal.replay import Replay
from jdbcstore.store.journal.state import State, StoredTransaction

__all__ = ["branches_by_index", "correct_branches", "last_update_of", "settle_branches"]

log = logging.getLogger(__name__)

#: Behind the last record of a file.
_FILE_END: Final = 1 << 31


def correct_branches(progress: Replay, journal: AnyJournal, index_directory: Path) -> None:
    """Apply, behind the last record, what only the index of the broker tells; an index that cannot be read is left.

    Args:
        progress: has read all records.
        journal: which.
        index_directory: of the broker's index, if there is one.

    Raises:
        StoreError: the journal cannot be read.
    """
    state = progress.finish()
    if not (state.prepared or state.unfinished) or not is_brokers_index(index_directory):
        return
    try:
        with PageFile(index_directory) as index:
            settle_branches(progress, journal, index)
    except StoreError as error:  # of a broker at work, or one that was killed; nothing else is taken from there
        log.warning("which branches (XA) are in doubt is told by the journal alone: %s", error)


def settle_branches(progress: Replay, journal: AnyJournal, index: PageFile) -> list[Rollback | Prepare]:
    """Apply, behind the last record, what only an index tells; what that was.

    Raises:
        IndexDamaged: it is damaged.
        StoreError: index or journal cannot be read.
    """
    state = progress.finish()
    last = last_update_of(index, journal) if state.prepared or state.unfinished else None
    commands = [] if last is None else branches_by_index(index, last, state)
    end = KahaDBLocation(max(journal.files, default=0), _FILE_END, 0)
    progress.apply([(end, command) for command in commands])
    return commands


def last_update_of(index: PageFile, journal: AnyJournal) -> IndexPlace | None:
    """The last record that is in an index; None if it is empty, or of another journal.

    Raises:
        StoreError: the journal cannot be read.
    """
    last = index.last_update
    if last is None or last.file not in journal.files:
        return None
    with journal.opened(last.file) as source:
        records = JournalFile(source, last.file).records()
        return last if any(location[:2] == last for location, _ in records) else None


def branches_by_index(index: PageFile, last: IndexPlace, state: State) -> list[Rollback | Prepare]:
    """What the journal has lost of the branches, and the index of its broker tells.

    Args:
        index: of the broker.
        last: the last record that is in it.
        state: what the journal tells.

    Raises:
        IndexDamaged: the index is damaged.
        StoreError: it cannot be read.
    """
    over: list[Rollback | Prepare] = [Rollback(one.transaction_id) for one in _over(index, last, state)]
    return over + [Prepare(one.transaction_id) for one in state.unfinished.values() if _is_in_doubt(index, one)]


def _over(index: PageFile, last: IndexPlace, state: State) -> list[StoredTransaction]:
    """Transactions in doubt that the index does not know. They were rolled back: what is left of a commit is copied.

    A broker that started may have left out what stands behind a marker, and so have forgotten a transaction that is in
    doubt.
    """
    first = index.first_in_progress
    found: list[StoredTransaction] = []
    for one in state.prepared.values():
        end = one.operations[-1][:2]
        files = {place.file for place in (*one.operations, one.prepared_at) if place is not None}
        if end <= last and (first is None or end < first) and files.isdisjoint(state.rewritten_files):
            found.append(one)
    if index.closed_cleanly or not found:
        return found
    # Brokers before 5.16 did not keep commits. Messages of one are in the index.
    sent = {(where, message_id) for one in found for where, message_id, _ in one.added}
    committed = {
        place
        for indexed in index.destinations()
        for message in indexed.messages()
        if (place := (indexed.destination, message.message_id)) in sent
    }
    return [one for one in found if committed.isdisjoint((where, message_id) for where, message_id, _ in one.added)]


def _is_in_doubt(index: PageFile, transaction: StoredTransaction) -> bool:
    """Whether a transaction that nothing ends was prepared: a broker that stops rolls all others back."""
    return (
        index.closed_cleanly
        and isinstance(transaction.transaction_id, XATransactionId)
        and transaction.operations[0][:2] == index.first_in_progress
    )
