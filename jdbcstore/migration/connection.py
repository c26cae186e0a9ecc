"""A SQL store's tables past the store: a connection, fenced transactions, and what is checked before a migration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from jdbcstore.config.urls import store_options
from jdbcstore.errors import ConfigurationError, LeaseLost, LockHeld
from jdbcstore.store.jdbc.dialect import Dialect, database_for, dialect_for, raw_connection
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.line_watch import engine_for
from jdbcstore.store.jdbc.location import StoreLocation
from jdbcstore.store.jdbc.schema import inspect_schema, require_usable
from jdbcstore.store.jdbc.statements import Statements

__all__ = ["PATIENT_S", "Opened", "location_of", "opened", "require_empty", "require_no_master"]

#: For so long a statement may take.
PATIENT_S: Final = 3600.0


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


def location_of(url: str) -> StoreLocation:
    """A store by its URL; statements in it may take long.

    Raises:
        ConfigurationError: the URL is wrong.
    """
    parsed, options = store_options(url)
    return StoreLocation(parsed, replace(options, query_timeout_s=PATIENT_S))


@contextmanager
def opened(location: StoreLocation) -> Iterator[Opened]:
    """A connection. Drivers' errors leave it as ours.

    Raises:
        StoreError: the database cannot be reached, or what it said.
    """
    dialect = dialect_for(location.url.get_backend_name()).for_questions(location.options)
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


def require_no_master(store: Opened, what: str) -> None:
    """Make sure that no broker is master of a store.

    Raises:
        LockHeld: one is.
        SchemaMismatch: it has no tables, or such that are too old.
    """
    require_usable(inspect_schema(store.connection, store.location.options.table_names))
    holder = store.connection.execute(text(store.statements.lease_holder)).scalar()
    if holder is not None or store.dialect.is_row_locked(store.connection):
        raise LockHeld(f"{holder or 'a broker'} is master of the {what}: stop it first, what moves cannot be migrated")


def require_empty(store: Opened) -> None:
    """Make sure that a store has no messages and no subscriptions.

    Raises:
        ConfigurationError: it has.
    """
    for table in (store.statements.messages, store.statements.acks):
        count = store.connection.execute(text(f"SELECT COUNT(*) FROM {table}")).scalar_one()
        if count:
            raise ConfigurationError(
                f"the target is not empty: {table} has {count} rows. Migrate into an empty store; to add messages to"
                " this one archive the source, and replay the archive"
            )
