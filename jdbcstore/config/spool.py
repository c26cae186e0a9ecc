"""Where non-persistent messages go that do not fit into memory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from sqlalchemy import URL, text

from jdbcstore.store.disk import DiskFile
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.options import JdbcOptions

__all__ = ["Spool"]

#: All connections that are ever needed. They are opened at once: when somebody tidies up the folder, they still work.
_CONNECTIONS: Final = 8


class Spool(JdbcPersistenceAdapter):
    """A store on a SQLite file that is deleted when it stops.

    Args:
        folder: exists, and goes with it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "spool.db"
        # `mode=rw`: a file that somebody removed is not made again, with nothing in it.
        url = URL.create("sqlite", database=self._file.as_uri(), query={"mode": "rw", "uri": "true"})
        super().__init__(url, JdbcOptions(retry_s=0.0, locker="none", pool_size=_CONNECTIONS))

    def start(self) -> None:
        try:
            DiskFile(self._file, create=True).close()
            super().start()
        except BaseException:
            self._remove()
            raise
        assert self._engine is not None
        connections = [self._engine.connect() for _ in range(_CONNECTIONS - 1)]
        for connection in connections:
            connection.execute(text(f"SELECT 1 FROM {self.options.table_names.messages} LIMIT 1"))  # opens the log, too
        for connection in connections:
            connection.close()

    def is_removed(self) -> bool:
        """Whether somebody removed its file."""
        return not os.path.exists(self._file)

    def stop(self) -> None:
        super().stop()
        self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)  # a part may be gone already
