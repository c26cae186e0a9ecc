"""The schema of a store: what is there, creating it, adopting ActiveMQ's, and whether a store can work on it.

Tables are changed in two cases only: somebody asks for it (`upgrade_schema`, ``jdbcstore schema upgrade``), or there
are no tables at all and the store is configured to create them (`create_tables`). Starting a broker never changes
existing tables.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, Engine

from jdbcstore.errors import ConfigurationError, SchemaMismatch
from jdbcstore.store.jdbc.adoption import add_own_table, adopt, refuse_by_hand
from jdbcstore.store.jdbc.dialect import database_for_url, databases
from jdbcstore.store.jdbc.migration import migrate, migrations_sql
from jdbcstore.store.jdbc.own_tables import OWN_TABLES, TERM
from jdbcstore.store.jdbc.schema_inspection import inspect_schema
from jdbcstore.store.jdbc.schema_lock import alone
from jdbcstore.store.jdbc.schema_report import Finding, Remedy, SchemaKind, SchemaReport
from jdbcstore.store.jdbc.table_names import TableNames
from jdbcstore.store.jdbc.tables import Tables

__all__ = [
    "Finding",
    "Remedy",
    "SchemaKind",
    "SchemaReport",
    "create_own_tables",
    "create_tables",
    "inspect_schema",
    "require_term",
    "require_usable",
    "schema_sql",
    "upgrade_schema",
]

#: How long one waits for another who changes the same schema.
WAIT_S: Final = 20.0


def upgrade_schema(
    engine: Engine, names: TableNames | str = "", *, force: bool = False, wait_s: float = WAIT_S
) -> SchemaReport:
    """Create the tables, adopt those of ActiveMQ, or bring ours up to date. Does nothing when all is as it should be.

    All of it happens or nothing; on MySQL and MariaDB each step is committed by itself, and starting over goes on where
    it stopped. Tables are locked while an index is built or a column is widened.

    Args:
        engine: of the database; its timeouts apply to each step.
        names: of the tables, or the prefix of the usual ones.
        force: go on although a broker is running on these tables.
        wait_s: how long to wait for another upgrade, in seconds.

    Returns:
        What is there afterwards.

    Raises:
        LockHeld: a broker is running; nothing was changed.
        SchemaMismatch: something must be decided by hand; nothing was changed.
        TransientStoreError: another upgrade is under way for more than `wait_s`.
    """
    with engine.connect() as connection:
        refuse_by_hand(inspect_schema(connection, names))
    with alone(engine, names, wait_s=wait_s, force=force) as (connection, tables):
        return _upgrade(connection, tables)


def create_tables(
    engine: Engine, names: TableNames | str = "", *, found: SchemaReport | None = None, wait_s: float = WAIT_S
) -> SchemaReport:
    """What ``createTablesOnStartup`` does: create everything if none of the three tables is there, else change nothing.

    Brokers that start together on an empty database wait for the one that creates.

    Args:
        engine: of the database.
        names: of the tables, or the prefix of the usual ones.
        found: what the caller has found there just now; None means that nobody has looked.
        wait_s: how long to wait for another who creates, in seconds.

    Returns:
        What is there, created or found: `found` itself if the tables are ours.
    """
    if found is None:
        with engine.connect() as connection:
            found = inspect_schema(connection, names)
    if found.kind is SchemaKind.OURS:
        return found
    # Look again when nobody is in the middle of creating. Forced, since whoever came first may be running by the time
    # it is our turn; then there is nothing left to create.
    with alone(engine, names, wait_s=wait_s, force=True) as (connection, tables):
        report = inspect_schema(connection, names)
        return report if report.kind is not SchemaKind.NONE else _upgrade(connection, tables)


def create_own_tables(engine: Engine, names: TableNames | str = "", *, wait_s: float = WAIT_S) -> SchemaReport:
    """Create our own tables beside those that ActiveMQ made; nothing of ActiveMQ's is changed or adopted by it.

    Arguments of the same names and the answer are those of `create_tables`.
    """
    with alone(engine, names, wait_s=wait_s, force=True) as (connection, tables):
        _add_own_tables(connection, tables)
        return inspect_schema(connection, names)


def require_usable(report: SchemaReport) -> None:
    """Make sure that a store can work on a schema.

    Raises:
        SchemaMismatch: it cannot; the text says why and what to run.
    """
    if report.is_usable:
        return
    reasons = "; ".join(
        found.text for found in report.findings() if found.remedy in (Remedy.UPGRADE_FIRST, Remedy.BY_HAND)
    )
    if not report.can_upgrade:
        raise SchemaMismatch(f"the store cannot work on this database: {reasons}")
    raise SchemaMismatch(f"the store cannot work on this database: {reasons}. {_what_to_run(report)}")


def require_term(report: SchemaReport) -> None:
    """Make sure that brokers can take turns as master on a schema.

    Raises:
        SchemaMismatch: they cannot; the text says what to run.
    """
    if not (report.has_term_row and report.has_lock_row):
        missing = report.names.full(TERM.name if report.has_lock_row else "ACTIVEMQ_LOCK")
        raise SchemaMismatch(f"no broker can become master: {missing} or its row is missing. {_what_to_run(report)}")


def _what_to_run(report: SchemaReport) -> str:
    return f"Run: {report.upgrade_command}"


def schema_sql(dialect_name: str, names: TableNames | str = "") -> str:
    """The statements that create everything in an empty database, for those who run SQL themselves.

    Args:
        dialect_name: what URLs of the database begin with.
        names: of the tables, or the prefix of the usual ones.

    Raises:
        ConfigurationError: another database, or impossible names.
    """
    database = database_for_url(dialect_name)
    if database is None:
        known = ", ".join(one.name for one in databases())
        raise ConfigurationError(f"no schema for {dialect_name!r}: use one of {known}")
    return migrations_sql(Tables(names, database))


def _add_own_tables(connection: Connection, tables: Tables) -> None:
    """Create what is missing of our own tables."""
    for own in OWN_TABLES:
        add_own_table(connection, tables, own)


def _upgrade(connection: Connection, tables: Tables) -> SchemaReport:
    migrate(connection, tables)
    report = inspect_schema(connection, tables.names)
    if report.kind is SchemaKind.MIXED:
        # The revision was recorded before somebody changed the tables, so no migration was due.
        adopt(connection, tables)
        report = inspect_schema(connection, tables.names)
    if not report.has_own_tables:  # likewise
        _add_own_tables(connection, tables)
        report = inspect_schema(connection, tables.names)
    return report
