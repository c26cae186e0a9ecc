"""A connection to a SQL store's tables, for those who look into them or change them without being its broker."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from jdbcstore.errors import LeaseLost
from jdbcstore.store.jdbc.dialect import Dialect, database_for, dialect_at, raw_connection
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.line_watch import engine_for
from jdbcstore.store.jdbc.location import StoreLocation
from jdbcstore.store.jdbc.statements import Statements

__all__ = ["Opened", "opened", "tell_of_standby"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Opened:
    """A connection to a store, in autocommit mode.

    Args:
        connection: SQLAlchemy's.
        dialect: of the database.
        location: the store.
    """

    connection: Connection
    dialect: Dialect
    location: StoreLocation

    @property
    def statements(self) -> Statements:
        """Names of the tables."""
        return self.dialect.statements

    @property
    def bytewise_statements(self) -> Statements:
        """The same, for queries that tell containers apart that differ in case only."""
        container = self.dialect.container_expression(collation_is_binary=False)
        return Statements(self.location.options.table_names, container, epoch_ms=self.dialect.epoch_ms)

    @property
    def raw(self) -> Any:
        """The driver's connection."""
        return raw_connection(self.connection)

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Bring rows in the transaction that runs; see `BulkSession.insert_rows`."""
        session = database_for(self.connection.dialect.name).bulk_session()
        session.insert_rows(self.raw, self.dialect, table, columns, rows)

    @contextmanager
    def transaction(self, fence: Fence) -> Iterator[None]:
        """A transaction that proves a fence, last of all: it is committed if that holds.

        Raises:
            LeaseLost: it does not. Everything is rolled back, as with any other error.
        """
        raw = self.raw
        try:
            self.connection.exec_driver_sql(self.dialect.begin)
            yield
            self.dialect.prove(raw, fence)
            self.connection.exec_driver_sql("COMMIT")
        except BaseException as error:
            self.dialect.rollback(raw)
            if isinstance(error, Exception) and self.dialect.is_fence(error):
                raise LeaseLost(
                    "the lease of this run is lost: another run of the migration goes on with it, or it was released"
                ) from error
            raise


def tell_of_standby(connection: Connection, dialect: Dialect) -> None:
    """Tell the log what to think of what is read, if it is read from a standby."""
    if dialect.options.read_from != "primary":
        told = dialect.replication(connection).told
        log.warning("read from %s: what was committed just now may not be there, what was removed may be", told)


@contextmanager
def opened(location: StoreLocation) -> Iterator[Opened]:
    """A connection. Drivers' errors leave it as ours.

    Raises:
        StoreError: the database cannot be reached, or what it said.
    """
    dialect = dialect_at(location.url, location.options)
    engine = engine_for(location.url, location.options)
    try:
        with engine.connect() as connection:
            yield Opened(connection, dialect, location)
    except DBAPIError as error:
        raise dialect.map_error(error) from error
    except Exception as error:
        # Drivers are also used past SQLAlchemy.
        if isinstance(error, engine.dialect.loaded_dbapi.Error):
            raise dialect.map_error(error) from error
        raise
    finally:
        engine.dispose()
