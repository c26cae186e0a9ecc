"""Where non-persistent messages go that do not fit into memory."""

from __future__ import annotations

import shutil
from pathlib import Path

from jdbcstore.config.urls import store_url
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.options import JdbcOptions

__all__ = ["Spool"]


class Spool(JdbcPersistenceAdapter):
    """A store on a SQLite file that is deleted when it stops.

    Args:
        folder: exists, and goes with it.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(store_url(f"sqlite:///{folder / 'spool.db'}"), JdbcOptions(retry_s=0.0, locker="none"))
        self._folder = folder

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self._folder, ignore_errors=True)
