"""Looking into a KahaDB directory (`jdbcstore.store.journal.directory_view`)."""

from __future__ import annotations

from pathlib import Path

from jdbcstore.store.journal.directory_view import DirectoryView
from jdbcstore.store.journal.index import Index
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.journal.kahadb.directory_kind import refuse_an_index_alone, refuse_another_store
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.kahadb.recovery import made_anew

__all__ = ["KahaDBView"]


class KahaDBView(DirectoryView, KahaDBPersistenceAdapter):
    """A KahaDB directory, to read.

    Args:
        directory: of the journal; it is there.
    """

    def __init__(self, directory: Path | str) -> None:
        super().__init__(directory, KahaDBOptions(use_lock=False, virtual_topic_consumers=""))

    def _refuse_another_store(self) -> None:
        refuse_another_store(self.directory, ignores_missing=True)
        refuse_an_index_alone(self.directory)

    def _made_anew(self, path: Path) -> Index:
        return made_anew(path, self.directory, self.options, self.scheduler)
