"""The KahaDB store: `jdbcstore.store.journal.adapter` on a directory that Java brokers keep, too."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from jdbcstore.store.journal.adapter import JournalPersistenceAdapter
from jdbcstore.store.journal.index import Index
from jdbcstore.store.journal.journal_writer import JournalWriter
from jdbcstore.store.journal.kahadb.appender import KAHADB, Appender
from jdbcstore.store.journal.kahadb.blank_index import wire_version_of
from jdbcstore.store.journal.kahadb.directory_kind import refuse_another_store
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.kahadb.recovery import open_index
from jdbcstore.store.journal.kahadb.scheduler import warn_of_scheduled_beside
from jdbcstore.store.journal.kahadb.scheduler_journal import SchedulerJournal
from jdbcstore.store.journal.records import Location

__all__ = ["KahaDBPersistenceAdapter"]

#: ActiveMQ's name for where archived files are.
_ARCHIVE: Final = "data-archive"


class KahaDBPersistenceAdapter(JournalPersistenceAdapter):
    """A KahaDB directory.

    Args:
        directory: where the journal is; made if it is not there.
        options: how it is kept.
    """

    options: KahaDBOptions
    scheduler: SchedulerJournal

    def __init__(self, directory: Path | str, options: KahaDBOptions | None = None) -> None:
        directory, options = Path(directory), options or KahaDBOptions()
        archive = Path(options.directory_archive or directory / _ARCHIVE) if options.archive_data_logs else None
        super().__init__(directory, directory, archive, KAHADB, options, SchedulerJournal(directory, options))

    def _refuse_another_store(self) -> None:
        refuse_another_store(self.directory, ignores_missing=self.options.ignore_missing_journal_files)
        self._look_beside()

    def _new_appender(self) -> Appender:
        return Appender(self.directory, self.options)

    def _open_index(self, appender: JournalWriter[Location]) -> Index:
        index = open_index(self.directory, self.options, self.scheduler, appender)
        told = wire_version_of(Path(self.options.index_directory or self.directory))
        self.wire_version = self.options.store_open_wire_version if told is None else told
        return index

    def _look_beside(self) -> None:
        warn_of_scheduled_beside(self.directory)
