"""The journal of transactions over several stores, ``txStore``.

A Prepare says that the outcome is a commit, a Commit that it is done everywhere. What it does to scheduled messages
stands behind the Prepare, in its batch: as traces ``jdbcstore scheduled``, with a command of the scheduler in Base64.
ActiveMQ ignores traces, and takes nothing else there.

When a broker starts, what is prepared in a store under an id of ours is committed if its outcome stands here and is not
done, else rolled back.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jdbcstore.errors import StoreUnavailable
from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.disk import force_directory, remove
from jdbcstore.store.journal.commands import Command, Commit, Prepare, Trace
from jdbcstore.store.journal.file_errors import writing
from jdbcstore.store.journal.kahadb.appender import Appender
from jdbcstore.store.journal.kahadb.decoding import Malformed
from jdbcstore.store.journal.kahadb.encoding import encode
from jdbcstore.store.journal.kahadb.journal import Journal, command_of
from jdbcstore.store.journal.kahadb.options import KahaDBOptions

__all__ = ["LOCAL_XA_FORMAT", "Outcomes"]

#: Under which ActiveMQ keeps local transactions in such stores.
LOCAL_XA_FORMAT = 61616
_SCHEDULED: Final = "jdbcstore scheduled "


class Outcomes:
    """The journal; one thread at a time.

    Args:
        directory: ``txStore``; made when it is opened.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._appender: Appender | None = None
        #: Committed, and perhaps not done everywhere: what each does to scheduled messages.
        self.decided: dict[XATransactionId, list[Command]] = {}
        self.is_damaged = False

    def read(self) -> None:
        """Find out what was decided. Raises `StoreError`."""
        self.decided, self.is_damaged = {}, False
        if not self._directory.is_dir():
            return
        journal = Journal(self._directory)
        last_decided: list[Command] = []
        for _, command in journal.records():
            if isinstance(command, Prepare) and isinstance(command.transaction, XATransactionId):
                last_decided = self.decided[command.transaction] = []
            elif isinstance(command, Commit) and isinstance(command.transaction, XATransactionId):
                self.decided.pop(command.transaction, None)
            elif isinstance(command, Trace) and (command.message or "").startswith(_SCHEDULED):
                self._schedule(last_decided, (command.message or "")[len(_SCHEDULED) :])
        last = max(journal.files, default=0)
        self.is_damaged = self.is_damaged or any(not (one.at_the_end and one.file == last) for one in journal.damages)

    def _schedule(self, decided: list[Command], text: str) -> None:
        try:
            decided.append(command_of(base64.b64decode(text, validate=True)))
        except (ValueError, Malformed):
            self.is_damaged = True

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
            self.decided = {}
        appender = Appender(self._directory, options)
        appender.open()
        self._appender = appender

    def decide(self, xid: XATransactionId, scheduled: Sequence[Command] = ()) -> None:
        """It is committed.

        Args:
            xid: of the transaction.
            scheduled: what it does to scheduled messages.

        Raises:
            StoreError: nobody knows whether it is.
        """
        traces = [Trace(_SCHEDULED + base64.b64encode(encode(command)).decode()) for command in scheduled]
        self._write(encode(Prepare(xid)), *map(encode, traces))

    def done(self, xid: XATransactionId) -> None:
        """Everywhere. Raises `StoreError`."""
        self._write(encode(Commit(xid)))

    def _write(self, *payloads: bytes) -> None:
        if self._appender is None:
            raise StoreUnavailable("the store is stopped")
        self._appender.append(payloads)
        if self._appender.options.journal_disk_sync_strategy != "NEVER":
            self._appender.force()  # also with PERIODIC: what was prepared may be on the disk, and committed elsewhere

    def close(self) -> None:
        """Let go of the files."""
        appender, self._appender = self._appender, None
        if appender is not None:
            appender.close()
