"""One change of a schema at a time, and none under a running broker.

Two connections: one holds the locks in a transaction that stays open, the other changes the schema. On MySQL it could
not be one, since every ALTER commits. On SQLite it must be one, since an exclusive transaction shuts everybody else
out.

While the locks are held the row of ACTIVEMQ_LOCK is locked too, so a broker that starts meanwhile waits for the end
of it. (A Java broker runs its CREATE and ALTER statements before it asks for that row; they wait for ours, or fail,
or do nothing.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError

from jdbcstore.errors import LockHeld, TransientStoreError
from jdbcstore.store.jdbc.dialect import Dialect, database_for
from jdbcstore.store.jdbc.dialect.base.schema import LockedNames
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.schema_inspection import inspect_schema
from jdbcstore.store.jdbc.statements import Statements
from jdbcstore.store.jdbc.table_names import TableNames
from jdbcstore.store.jdbc.tables import Tables

__all__ = ["alone"]


@contextmanager
def alone(
    engine: Engine, names: TableNames | str, *, wait_s: float, force: bool
) -> Iterator[tuple[Connection, Tables]]:
    """Hold the locks; the body gets the connection that changes the schema. Commits at the end, rolls back on an error.

    Args:
        engine: of the database.
        names: of the tables; each set has locks of its own.
        wait_s: how long to wait for somebody else who changes the schema or uses a table, in seconds.
        force: go on even if a broker is running.

    Raises:
        LockHeld: a broker is running on these tables.
        TransientStoreError: somebody else is still at it after `wait_s`.
    """
    database = database_for(engine.dialect.name)
    level = database.schema.isolation_level
    with engine.connect().execution_options(isolation_level=level) as connection:
        tables = Tables.on(connection, names)
        kind = database.dialect()
        dialect = kind(JdbcOptions(), Statements(names, epoch_ms=kind.epoch_ms), has_page_index=False)
        locked = LockedNames(tables.version_table, tables.messages.name)
        with tables.schema.lock(connection, dialect, locked, wait_s) as guard:
            # The guard must not look for the table: on MySQL its transaction would then keep anybody from creating it.
            if not force and inspect(connection).has_table(tables.lock.name):
                _refuse_under_a_broker(guard, dialect, tables)
                if inspect_schema(connection, names).engines:
                    guard.rollback()  # no row was locked, but the table could not be given another engine
            try:
                yield connection, tables
                connection.commit()
            except DBAPIError as error:
                if not dialect.is_locked(error):
                    raise
                busy = f"somebody has used {tables.messages.name} or its sisters for more than {wait_s:g} s"
                raise TransientStoreError(f"{busy}: try again later") from error


def _refuse_under_a_broker(guard: Connection, dialect: Dialect, tables: Tables) -> None:
    """Lock the lock row ourselves; whoever has it is a running broker, and so is whoever has an unexpired lease."""
    lock = tables.lock.name
    try:
        row = guard.execute(text(dialect.statements.lock_row + tables.schema.row_lock)).first()
    except DBAPIError as error:
        if not dialect.is_locked(error):
            raise
        raise LockHeld(f"a broker is running: it has locked the row of {lock}. Stop it first") from error
    if row is not None and row[0] is not None and row[1] is not None and row[1] > 0:
        raise LockHeld(f"broker {row[0]!r} is running: its lease in {lock} is good for {row[1]} ms. Stop it first")
