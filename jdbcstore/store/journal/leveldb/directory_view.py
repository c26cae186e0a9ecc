"""Looking into a LevelDB directory, also one that a broker is running on: nothing is locked, nothing is changed."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from jdbcstore.errors import StoreError
from jdbcstore.identifiers import ProducerId
from jdbcstore.store.journal.directory_view import NothingIsWritten
from jdbcstore.store.journal.leveldb.adapter import LevelDBPersistenceAdapter
from jdbcstore.store.journal.leveldb.committer import Committer
from jdbcstore.store.journal.leveldb.directory_kind import refuse_what_is_no_leveldb_store
from jdbcstore.store.journal.leveldb.loading import load
from jdbcstore.store.journal.leveldb.message_reader import MessageReader
from jdbcstore.store.journal.leveldb.options import LevelDBOptions
from jdbcstore.store.journal.leveldb.recovery import recover
from jdbcstore.store.journal.leveldb.transactions import LevelDBTransactionStore

__all__ = ["LevelDBView"]


class LevelDBView(LevelDBPersistenceAdapter):
    """A LevelDB directory, to read: what the log says at that moment. Messages that ActiveMQ had lost are left out.

    Args:
        directory: it is there.
        options: where the log is.
    """

    def __init__(self, directory: Path | str, options: LevelDBOptions | None = None) -> None:
        log_directory = "" if options is None else options.log_directory
        super().__init__(
            directory, LevelDBOptions(use_lock=False, virtual_topic_consumers="", log_directory=log_directory)
        )

    def start(self) -> None:
        if self._contents is not None:
            raise StoreError("the store is started already")
        refuse_what_is_no_leveldb_store(self.directory)
        found = recover(self.directory, self.log_directory)
        self.reader = MessageReader(found.log_directory, found.files)
        self._contents = load(found, self.reader, self.options).live
        self._transactions = LevelDBTransactionStore(self, self)
        self.committer = cast(Committer, NothingIsWritten())

    def stop(self) -> None:
        live, self._contents = self._contents, None
        if live is not None:
            self.reader.close()
            self._stores.clear()

    def abandon(self) -> None:
        self.stop()

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        live, name = self.reading(), str(producer_id)
        return max(live.seen.get(name, -1), live.producers.get(name, (-1, 0))[0])
