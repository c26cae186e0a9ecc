"""SQL stores as source or target: where they are, and what is checked before a migration."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sqlalchemy import text

from jdbcstore.config.urls import store_location
from jdbcstore.errors import ConfigurationError, LockHeld
from jdbcstore.store.jdbc.connection import Opened
from jdbcstore.store.jdbc.location import StoreLocation
from jdbcstore.store.jdbc.schema import inspect_schema, require_usable

__all__ = ["PATIENT_S", "location_of", "require_empty", "require_no_master"]

#: For so long a statement may take.
PATIENT_S: Final = 3600.0


def location_of(url: str) -> StoreLocation:
    """A store by its URL; statements in it may take long.

    Raises:
        ConfigurationError: the URL is wrong.
    """
    location = store_location(url)
    return replace(location, options=replace(location.options, query_timeout_s=PATIENT_S))


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
