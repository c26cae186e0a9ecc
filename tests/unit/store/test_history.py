"""Connections that lead to one history only."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Connection

from jdbcstore.config.urls import store_url
from jdbcstore.errors import StoreError
from jdbcstore.store.jdbc.dialect import Dialect, dialect_at
from jdbcstore.store.jdbc.history import bind
from jdbcstore.store.jdbc.line_watch import pooled_engine
from jdbcstore.store.jdbc.options import JdbcOptions


def test_a_history_that_cannot_be_asked_for_keeps_no_connection(tmp_path: Path) -> None:
    url, options = store_url(f"sqlite:///{tmp_path / 'a.db'}"), JdbcOptions(pool_size=1, query_timeout_s=0.1)
    engine, _ = pooled_engine(url, options)
    dialect = dialect_at(url, options)

    class Silent(type(dialect)):  # type: ignore[misc]  # whichever it is
        def history(self, connection: Connection) -> str:
            raise StoreError("not told")

    silent: Dialect = Silent(options, dialect.statements, has_page_index=False)
    bind(engine, silent, "one")
    kept = []
    for _ in range(4):
        with pytest.raises(StoreError, match="not told") as told:
            engine.connect()
        kept.append(told.value)  # with all that its traceback names
    engine.dispose()
