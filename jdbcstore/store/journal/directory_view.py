"""Looking into the directory of a journal, also one that a broker is running on: nothing is locked, nothing is changed.

The journal is replayed into an index of its own, in a folder for temporary files. So it is what the journal said at
that moment, and it takes as long as reading the journal does.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, NoReturn, cast

from jdbcstore.errors import StoreError
from jdbcstore.identifiers import ProducerId
from jdbcstore.store.journal.adapter import JournalPersistenceAdapter
from jdbcstore.store.journal.committer import Committer
from jdbcstore.store.journal.index import FILE_NAME, Index
from jdbcstore.store.journal.transactions import JournalTransactionStore

__all__ = ["DirectoryView", "NothingIsWritten"]


class DirectoryView(JournalPersistenceAdapter):
    """A directory with a journal, to read; the base of a view of each format, before its adapter."""

    _folder: Path | None = None

    def _made_anew(self, path: Path) -> Index:
        """A new index, made of the journal alone."""
        raise NotImplementedError

    def start(self) -> None:
        if self._contents is not None:
            raise StoreError("the store is started already")
        self._refuse_another_store()
        folder = self._folder = Path(tempfile.mkdtemp(prefix="jdbcstore-view-"))
        try:
            self._contents = self._made_anew(folder / FILE_NAME)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._transactions = JournalTransactionStore(self, self)
        self.committer = cast(Committer, NothingIsWritten())

    def stop(self) -> None:
        index, self._contents = self._contents, None
        if index is not None:
            index.close()
            self.reader.close()
            self.scheduler.close()
            self._stores.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def abandon(self) -> None:
        self.stop()

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        return self.reading().last_of_producer(str(producer_id))


class NothingIsWritten:
    """In the place of what writes."""

    def require_sound(self) -> None:
        """It is."""

    def submit(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse."""
        raise StoreError("the directory was opened to look into it: nothing can be written")

    run = submit_remove = write = submit
