"""The lease of a SQL store that is migrated to: held from the first row to the last comparison, over crashes too.

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
from dataclasses import dataclass
from typing import Final

from sqlalchemy import text

from jdbcstore.errors import LockHeld, StoreError
from jdbcstore.migration.locations import PATIENT_S, require_empty
from jdbcstore.store.jdbc.connection import opened
from jdbcstore.store.jdbc.dialect import dialect_at
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.line_watch import engine_for
from jdbcstore.store.jdbc.location import StoreLocation
from jdbcstore.store.jdbc.mapped_errors import mapped
from jdbcstore.store.jdbc.replication import Level
from jdbcstore.store.jdbc.schema import create_tables, inspect_schema, require_usable

__all__ = ["HOLDER_PREFIX", "MigrationLease", "hold", "release"]

#: How the lease of a migration begins.
HOLDER_PREFIX: Final = "jdbcstore-migrate-"
_TEN_YEARS_MS: Final = 10 * 365 * 86_400_000


@dataclass(frozen=True)
class MigrationLease:
    """A SQL store that is held. May be pickled.

    Args:
        location: the store.
        fence: what transactions have to prove.
        is_resumed: whether an earlier run has held it.
    """

    location: StoreLocation
    fence: Fence
    is_resumed: bool


def hold(source: str, location: StoreLocation) -> MigrationLease:
    """Make the target's tables if there are none, take its lease, and make sure that it is empty or ours.

    Args:
        source: what tells this migration from others, without a password.
        location: the target.

    Raises:
        LockHeld: a broker or another migration has it.
        ConfigurationError: it has messages or subscriptions of others, or the URL wants a standby.
        SchemaMismatch: its tables are too old.
        NotReplicated: it has fewer replicas than its options require.
    """
    location.options.require_primary("a migration")
    names = location.options.table_names
    name = f"{HOLDER_PREFIX}{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    holder = f"{name}-{secrets.token_hex(6)}"  # of this run: what an earlier one still writes proves another
    engine = engine_for(location.url, location.options)
    try:
        with mapped(dialect_at(location.url, location.options)):
            create_tables(engine, names)
    finally:
        engine.dispose()
    with opened(location) as store:
        require_usable(inspect_schema(store.connection, names))
        store.dialect.replication(store.connection).require(Level.named(location.options.require_replication))
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
            raise StoreError(
                "another process has just become the holder of the target's lease: stop it, and run the migration again"
            )
        return MigrationLease(location, Fence(holder, int(term), idle_ms=int(PATIENT_S * 1000)), is_resumed)


def release(lease: MigrationLease) -> None:
    """Let brokers in."""
    with opened(lease.location) as store:
        store.dialect.confirm(store.connection)  # all that was copied, before anybody may count on it
        store.connection.execute(text(store.statements.lease_release), {"holder": lease.fence.holder})
