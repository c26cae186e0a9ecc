"""The journal of transactions over several stores, ``txStore``.

A Prepare says that the outcome is a commit, a Commit that it is done everywhere.

When a broker starts, what is prepared in a store under an id of ours is committed if its outcome stands here and is not
done, else rolled back.
"""

from __future__ import annotations

from pathlib import Path

from jdbcstore.errors import StoreUnavailable
from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.disk import force_directory, remove
from jdbcstore.store.journal.commands import Commit, Prepare
from jdbcstore.store.journal.file_errors import writing
from jdbcstore.store.journal.kahadb.appender import Appender
from jdbcstore.store.journal.kahadb.encoding import encode
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.kahadb.options import KahaDBOptions

__all__ = ["LOCAL_XA_FORMAT", "Outcomes"]

#: Under which ActiveMQ keeps local transactions in such stores.
LOCAL_XA_FORMAT = 61616


class Outcomes:
    """The journal; one thread at a time.

    Args:
        directory: ``txStore``; made when it is opened.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._appender: Appender | None = None
        #: Committed, and perhaps not done everywhere.
        self.decided: set[XATransactionId] = set()
        self.is_damaged = False

    def read(self) -> None:
        """Find out what was decided. Raises `StoreError`."""
        self.decided, self.is_damaged = set(), False
        if not self._directory.is_dir():
            return
        journal = Journal(self._directory)
        for _, command in journal.records():
            if isinstance(command, Prepare) and isinstance(command.transaction, XATransactionId):
                self.decided.add(command.transaction)
            elif isinstance(command, Commit) and isinstance(command.transaction, XATransactionId):
                self.decided.discard(command.transaction)
        last = max(journal.files, default=0)
        self.is_damaged = any(not (one.at_the_end and one.file == last) for one in journal.damages)

    def open(self, options: KahaDBOptions, *, is_done: bool) -> None:
        """Write from now on.

        Args:
            options: of its files.
            is_done: whether nothing in it is needed any more.

        Raises:
            StoreError: it cannot be written.
        """
        if is_done and self._directory.is_dir():
            with writing(str(self._directory)):
                for path in sorted(self._directory.glob("db-*.log")):
                    remove(path)
                force_directory(self._directory)
            self.decided = set()
        appender = Appender(self._directory, options)
        appender.open()
        self._appender = appender

    def decide(self, xid: XATransactionId) -> None:
        """It is committed. Raises `StoreError`: then nobody knows."""
        self._write(encode(Prepare(xid)))

    def done(self, xid: XATransactionId) -> None:
        """Everywhere. Raises `StoreError`."""
        self._write(encode(Commit(xid)))

    def _write(self, payload: bytes) -> None:
        if self._appender is None:
            raise StoreUnavailable("the store is stopped")
        self._appender.append([payload])
        if self._appender.options.journal_disk_sync_strategy != "NEVER":
            self._appender.force()  # also with PERIODIC: what was prepared may be on the disk, and committed elsewhere

    def close(self) -> None:
        """Let go of the files."""
        appender, self._appender = self._appender, None
        if appender is not None:
            appender.close()
