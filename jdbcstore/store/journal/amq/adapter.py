"""The AMQ store: `jdbcstore.store.journal.adapter` on a directory that brokers 5.0 to 5.8 keep, too."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from jdbcstore.errors import ConfigurationError
from jdbcstore.store.journal.adapter import JournalPersistenceAdapter
from jdbcstore.store.journal.amq.format import AMQ
from jdbcstore.store.journal.amq.journal import file_number
from jdbcstore.store.journal.amq.options import AMQOptions
from jdbcstore.store.journal.amq.recovery import open_index, release_subscriptions
from jdbcstore.store.journal.amq.reference_store import read_reference_store
from jdbcstore.store.journal.amq.store_journal import JOURNAL, StoreJournal
from jdbcstore.store.journal.index import FILE_NAME, Index
from jdbcstore.store.journal.journal_files import journal_files
from jdbcstore.store.journal.journal_writer import JournalWriter
from jdbcstore.store.journal.kahadb.directory_kind import names_in, refuse_a_folder_of_stores
from jdbcstore.store.journal.kahadb.scheduler import warn_of_scheduled_beside
from jdbcstore.store.journal.kahadb.scheduler_journal import SchedulerJournal
from jdbcstore.store.journal.records import Location

__all__ = ["AMQPersistenceAdapter", "is_amq_store", "refuse_what_is_no_amq_store"]

#: ActiveMQ's name for where archived files are.
_ARCHIVE: Final = "archive"


class AMQPersistenceAdapter(JournalPersistenceAdapter):
    """The directory of an AMQ store.

    Args:
        directory: the one with ``journal`` and ``kr-store`` in it; made if it is not there.
        options: how it is kept.
    """

    options: AMQOptions
    scheduler: SchedulerJournal

    def __init__(self, directory: Path | str, options: AMQOptions | None = None) -> None:
        directory, options = Path(directory), options or AMQOptions()
        archive = Path(options.directory_archive or directory / _ARCHIVE) if options.archive_data_logs else None
        scheduler = SchedulerJournal(directory, options)
        super().__init__(directory, directory / JOURNAL, archive, AMQ, options, scheduler)

    def _refuse_another_store(self) -> None:
        refuse_what_is_no_amq_store(self.directory)
        warn_of_scheduled_beside(self.directory)

    def _open_index(self, appender: JournalWriter[Location]) -> Index:
        return open_index(self.directory, self.options, self.scheduler, appender)

    def _finish(self, index: Index) -> None:
        release_subscriptions(self.directory, index)

    def _forget(self, number: int) -> None:
        # What ended a subscription may stand in this file.
        if self.index is not None:
            release_subscriptions(self.directory, self.index)
        super()._forget(number)


def is_amq_store(directory: Path) -> bool:
    """Whether a directory holds the journal of an AMQ store. Raises `StoreError` when it cannot be read."""
    journal = directory / JOURNAL
    return journal.is_dir() and bool(journal_files(journal, file_number))


def refuse_what_is_no_amq_store(directory: Path) -> None:
    """Make sure that a directory is an AMQ store or may become one; nothing is changed.

    Raises:
        ConfigurationError: it is something else, or its journal is gone.
        StoreError: it cannot be read.
    """
    names = names_in(directory, "'journal' and 'kr-store'")
    if names is None:
        return
    if any(name.startswith("db-") and name.endswith(".log") for name in names):
        raise ConfigurationError(f"{directory} holds a KahaDB journal (db-1.log, ...), not an AMQ store: use kahadb:")
    if "store-version.txt" in names:
        raise ConfigurationError(f"{directory} holds a LevelDB store, not an AMQ store: use leveldb:")
    if any(AMQ.file_number(name) is not None for name in names):
        raise ConfigurationError(
            f"{directory} holds the journal itself (data-1, ...), or an archive of it: give the directory above the"
            " journal, with 'kr-store' in it. Of an archive 'jdbcstore journal dump' shows the records"
        )
    if is_amq_store(directory):
        return
    # An index of ours knows better what was in the journal: whoever opens it looks.
    if "kr-store" in names and FILE_NAME not in names and _tells_of_messages(directory):
        raise ConfigurationError(
            f"{directory} holds a reference store (kr-store) that refers to messages, but no journal (journal/data-1,"
            " ...), where they are: restore the journal from a backup, or move 'kr-store' elsewhere to begin anew"
        )
    if "kr-store" not in names:
        refuse_a_folder_of_stores(directory, names)


def _tells_of_messages(directory: Path) -> bool:
    """Whether a reference store, or the control file, says that there was a journal with something in it."""
    has_control = (directory / JOURNAL).is_dir() and bool(StoreJournal(directory).lost())
    return has_control or bool(read_reference_store(directory).files)
