"""Drivers' errors leave the store as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from jdbcstore.errors import TransientStoreError
from jdbcstore.store.jdbc.dialect import Dialect

__all__ = ["mapped"]


@contextmanager
def mapped(dialect: Dialect) -> Iterator[None]:
    """Turn a driver's error into ours."""
    try:
        yield
    except DBAPIError as error:
        raise dialect.map_error(error.orig or error) from error
    except PoolTimeout as error:
        raise TransientStoreError(f"all connections for reading are busy: {error}") from error
