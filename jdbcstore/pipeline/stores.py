"""Looking into a SQL store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jdbcstore.config.inspection import looking_into
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter

__all__ = ["looking_into_sql"]


@contextmanager
def looking_into_sql(url: str) -> Iterator[JdbcPersistenceAdapter]:
    """`looking_into` a SQL store, to ask what only those know.

    Raises:
        ConfigurationError, StoreError: it cannot be opened.
    """
    with looking_into(url) as store:
        assert isinstance(store, JdbcPersistenceAdapter)
        yield store
