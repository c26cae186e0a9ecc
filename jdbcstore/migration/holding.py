"""The store that is migrated to: held from the first row to the last comparison, over crashes too.

A broker that started on half of a store would deliver half of it, and a migration that then went on would bring back
what was consumed. So the row of ACTIVEMQ_LOCK names the migration, with a lease of ten years: brokers, Java brokers
with the lease locker too, stand by until the migration is complete. After a crash the same migration takes the lease
over and goes on. Who gives up clears it with ``jdbcstore lock release``.

Each run has a name of its own, and each transaction proves that its run still has the lease: of two runs at once the
older one writes nothing any more.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from jdbcstore.config.urls import store_options
from jdbcstore.errors import ConfigurationError, LeaseLost, LockHeld, StoreError
from jdbcstore.store.jdbc.dialect import Dialect, database_for, dialect_for, raw_connection
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.line_watch import engine_for
from jdbcstore.store.jdbc.location import StoreLocation
from jdbcstore.store.jdbc.schema import create_tables, inspect_schema, require_usable
from jdbcstore.store.jdbc.statements import Statements

__all__ = [
    "Held",
    "Opened",
    "hold",
    "location_of",
    "opened",
    "release",
    "require_empty",
    "require_no_master",
]

_TEN_YEARS_MS: Final = 10 * 365 * 86_400_000
_PATIENT_S: Final = 3600.0


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
                raise LeaseLost("another run of this migration goes on with it, or its lease was cleared") from error
            raise


@dataclass(frozen=True)
class Held:
    """A target that is held.

    Args:
        location: the store.
        fence: what transactions have to prove.
        is_resumed: whether an earlier run has held it.
    """

    location: StoreLocation
    fence: Fence
    is_resumed: bool


def location_of(url: str) -> StoreLocation:
    """A store by its URL; statements in it may take long.

    Raises:
        ConfigurationError: the URL is wrong.
    """
    parsed, options = store_options(url)
    return StoreLocation(parsed, replace(options, query_timeout_s=_PATIENT_S))


@contextmanager
def opened(location: StoreLocation) -> Iterator[Opened]:
    """A connection. Drivers' errors leave it as ours.

    Raises:
        StoreError: the database cannot be reached, or what it said.
    """
    kind = dialect_for(location.url.get_backend_name())
    statements = Statements(location.options.table_names, epoch_ms=kind.epoch_ms)
    dialect = kind(location.options, statements, has_page_index=False)
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


def hold(source: str, location: StoreLocation) -> Held:
    """Make the target's tables if there are none, take its lease, and make sure that it is empty or ours.

    Args:
        source: what tells this migration from others, without a password.
        location: the target.

    Raises:
        LockHeld: a broker or another migration has it.
        ConfigurationError: it has messages or subscriptions of others.
        SchemaMismatch: its tables are too old.
    """
    names = location.options.table_names
    name = f"jdbcstore-migrate-{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    holder = f"{name}-{secrets.token_hex(6)}"  # of this run: what an earlier one still writes proves another
    engine = engine_for(location.url, location.options)
    try:
        create_tables(engine, names)
    finally:
        engine.dispose()
    with opened(location) as store:
        require_usable(inspect_schema(store.connection, names))
        status = store.connection.execute(text(store.statements.lock_row)).first()
        former = status[0] if status is not None and status[0] else None
        is_resumed = former is not None and former.startswith(name)
        if not is_resumed:
            require_empty(store)
        seen = store.connection.execute(text(store.statements.term_row)).scalar()
        taking = {"holder": holder, "lease_ms": _TEN_YEARS_MS, "former": former if is_resumed else None, "seen": seen}
        if store.dialect.is_row_locked(store.connection) or not store.dialect.take_over(store.connection, taking):
            raise LockHeld(f"{former or 'a broker'} is master of the target: stop it first")
        term = store.connection.execute(text(store.statements.term_of_holder), {"holder": holder}).scalar()
        if term is None:
            raise StoreError("the lease of the target was taken by somebody else a moment ago")
        return Held(location, Fence(holder, int(term), idle_ms=int(_PATIENT_S * 1000)), is_resumed)


def release(held: Held) -> None:
    """Let brokers in."""
    with opened(held.location) as store:
        store.connection.execute(text(store.statements.lease_release), {"holder": held.fence.holder})
