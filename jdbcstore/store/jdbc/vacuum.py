"""Vacuum: give the room of consumed messages back.

PostgreSQL keeps removed rows until somebody vacuums. Its own daemon wakes once a minute, which a queue outruns:
measured with a backlog of 1 000 the table grew to gigabytes and a page from its start took a second. A vacuum of our
own every twenty thousand removed rows keeps table and index at a few megabytes. With a large backlog it waits for a
share of the rows instead, since it walks the whole index.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from jdbcstore.errors import StoreError
from jdbcstore.store.jdbc.dialect import Dialect
from jdbcstore.store.jdbc.options import JdbcOptions

__all__ = ["Vacuum"]

log = logging.getLogger(__name__)

#: Vacuum when the removed rows reach the option or this share of what is stored, whichever is more.
_BACKLOG_SHARE: Final = 10


class Vacuum:
    """A thread that vacuums when enough rows are gone.

    Args:
        engine: where its connection comes from.
        message_count: tells how many messages there are.
    """

    def __init__(
        self, engine: Engine, dialect: Dialect, options: JdbcOptions, message_count: Callable[[], int]
    ) -> None:
        self._engine = engine
        self._dialect = dialect
        self._rows = options.vacuum_rows
        self._message_count = message_count
        self._removed = 0
        self._due = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="jdbcstore-vacuum", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after the vacuum that runs, if one does."""
        self.abandon()
        if self._thread.is_alive():
            self._thread.join()

    def abandon(self) -> None:
        """Let the thread end when it can; the caller cuts its line."""
        self._stopping = True
        self._due.set()

    def removed(self, rows: int) -> None:
        """So many rows were removed; called by the writer after its commits."""
        self._removed += rows
        if self._removed >= self._rows and not self._due.is_set():
            self._due.set()

    def _run(self) -> None:
        while self._due.wait() and not self._stopping:
            self._due.clear()
            if self._removed < max(self._rows, self._message_count() // _BACKLOG_SHARE):
                continue
            self._removed = 0
            try:
                with self._engine.connect() as connection:
                    self._dialect.vacuum(connection)
            except (DBAPIError, StoreError) as error:
                # Nothing depends on it; the next round tries again.
                log.warning(
                    "vacuum of the message table failed, it is done again later error=%r",
                    str(getattr(error, "orig", error)),
                )
