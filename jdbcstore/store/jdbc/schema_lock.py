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
from typing import Final

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError

from jdbcstore.errors import LockHeld, TransientStoreError
from jdbcstore.store.jdbc.dialect import dialect_for
from jdbcstore.store.jdbc.schema_inspection import inspect_schema
from jdbcstore.store.jdbc.table_names import TableNames
from jdbcstore.store.jdbc.tables import Tables

__all__ = ["alone"]

#: Lock and statement time-out of PostgreSQL; no wait of MariaDB and of MySQL; SQLite.
_LOCKED: Final = ("55P03", "57014", (1205,), (3572,), "SQLITE_BUSY", "SQLITE_LOCKED")


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
    with _connect(engine) as connection:
        tables = Tables.on(connection, names)
        lock = {"sqlite": _sqlite_lock, "postgresql": _postgresql_lock}.get(tables.dialect_name, _mysql_lock)
        with lock(connection, tables, wait_s) as guard:
            # The guard must not look for the table: on MySQL its transaction would then keep anybody from creating it.
            if not force and inspect(connection).has_table(tables.lock.name):
                _refuse_under_a_broker(guard, tables)
                if inspect_schema(connection, names).engines:
                    guard.rollback()  # no row was locked, but the table could not be given another engine
            try:
                yield connection, tables
                connection.commit()
            except DBAPIError as error:
                if not _is_locked(error):
                    raise
                busy = f"somebody has used {tables.messages.name} or its sisters for more than {wait_s:g} s"
                raise TransientStoreError(f"{busy}: try again later") from error


def _connect(engine: Engine) -> Connection:
    """A connection in transactions, whatever the engine is set to; without gap locks, which would keep a row out."""
    level = "SERIALIZABLE" if engine.dialect.name == "sqlite" else "READ COMMITTED"
    return engine.connect().execution_options(isolation_level=level)


@contextmanager
def _sqlite_lock(connection: Connection, tables: Tables, wait_s: float) -> Iterator[Connection]:
    timeout_ms = connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one()
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(wait_s * 1000)}")
    try:
        raw = connection.connection.dbapi_connection
        if raw is not None and getattr(raw, "in_transaction", False):
            raw.rollback()  # the engine's own BEGIN, which is not an exclusive one
        try:
            connection.exec_driver_sql("BEGIN EXCLUSIVE")
        except DBAPIError as error:
            if not _is_locked(error):
                raise
            raise LockHeld(f"the database file is in use for more than {wait_s:g} s: stop the broker first") from error
        yield connection
    finally:
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {timeout_ms}")


@contextmanager
def _postgresql_lock(connection: Connection, tables: Tables, wait_s: float) -> Iterator[Connection]:
    with _connect(connection.engine) as guard:
        for each in (guard, connection):
            each.execute(text(f"SET LOCAL lock_timeout = {max(1, int(wait_s * 1000))}"))
        key = "hashtextextended('jdbcstore.' || current_schema() || '.' || :name, 0)"
        try:
            guard.execute(text(f"SELECT pg_advisory_xact_lock({key})"), {"name": tables.version_table})
        except DBAPIError as error:
            if not _is_locked(error):
                raise
            raise TransientStoreError(_busy(tables, wait_s)) from error
        yield guard


@contextmanager
def _mysql_lock(connection: Connection, tables: Tables, wait_s: float) -> Iterator[Connection]:
    name = "CONCAT('jdbcstore.', LEFT(SHA2(CONCAT(DATABASE(), '.', :name), 256), 40))"
    parameters = {"name": tables.version_table, "wait_s": wait_s}
    with _connect(connection.engine) as guard:
        if guard.execute(text(f"SELECT GET_LOCK({name}, :wait_s)"), parameters).scalar() != 1:
            raise TransientStoreError(_busy(tables, wait_s))
        # Past its own time-out the client would be gone, and the server would go on waiting and alter the table.
        before_s = connection.execute(text("SELECT @@SESSION.lock_wait_timeout")).scalar_one()
        connection.execute(text(f"SET SESSION lock_wait_timeout = {max(1, int(wait_s))}"))
        try:
            yield guard
        finally:  # the sessions go back to a pool; whoever waits for the lock wants the row next
            connection.rollback()
            connection.execute(text(f"SET SESSION lock_wait_timeout = {int(before_s)}"))
            guard.rollback()
            guard.execute(text(f"SELECT RELEASE_LOCK({name})"), parameters)


def _is_locked(error: DBAPIError) -> bool:
    """Whether somebody else has the lock, in each driver's words."""
    cause = error.orig
    code = (
        getattr(cause, "pgcode", None) or getattr(cause, "sqlite_errorname", None) or (cause.args if cause else ())[:1]
    )
    return code in _LOCKED


def _busy(tables: Tables, wait_s: float) -> str:
    return f"somebody else is changing the schema of {tables.messages.name} for more than {wait_s:g} s: try again later"


def _refuse_under_a_broker(guard: Connection, tables: Tables) -> None:
    """Lock the lock row ourselves; whoever has it is a running broker, and so is whoever has an unexpired lease."""
    lock = tables.lock.name
    nowait = "" if tables.dialect_name == "sqlite" else " FOR UPDATE NOWAIT"
    columns = f"BROKER_NAME, TIME - {dialect_for(tables.dialect_name).epoch_ms}"
    try:
        row = guard.execute(text(f"SELECT {columns} FROM {lock} WHERE ID = 1{nowait}")).first()
    except DBAPIError as error:
        if not _is_locked(error):
            raise
        raise LockHeld(f"a broker is running: it has locked the row of {lock}. Stop it first") from error
    if row is not None and row[0] is not None and row[1] is not None and row[1] > 0:
        raise LockHeld(f"broker {row[0]!r} is running: its lease in {lock} is good for {row[1]} ms. Stop it first")
