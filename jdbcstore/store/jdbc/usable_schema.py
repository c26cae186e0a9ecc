"""The schema of a store that is opened: created if there is none, and without what bulk loads have left unfinished."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sqlalchemy import URL, Connection, Engine, NullPool, text
from sqlalchemy.exc import DBAPIError

from jdbcstore.store.jdbc.dialect import dialect_at
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.line_watch import watched_engine
from jdbcstore.store.jdbc.loads import Loads
from jdbcstore.store.jdbc.mapped_errors import mapped
from jdbcstore.store.jdbc.migration import known_revisions
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.schema import (
    SchemaKind,
    SchemaReport,
    create_own_tables,
    create_tables,
    inspect_schema,
    require_term,
    require_usable,
)
from jdbcstore.store.jdbc.tables import Tables

__all__ = ["has_unfinished_loads", "is_up_to_date", "recover_loads", "usable_schema"]

#: How long the index that a bulk load has left out may take to make.
_INDEX_S: Final = 3600.0


def usable_schema(engine: Engine, options: JdbcOptions, *, must_exist: bool = False) -> SchemaReport:
    """The schema, created if there is none, and good enough for the options.

    Args:
        engine: of the database.
        options: of the store.
        must_exist: refuse a database without a store's tables: it may be somebody else's. Ours are still created
            beside those of a Java broker.

    Raises:
        SchemaMismatch: it is not; the text says what to run.
    """
    with mapped(dialect_at(engine.url, options)):
        with engine.connect() as connection:
            found = inspect_schema(connection, options.table_names)
        is_created = options.create_tables_on_startup and not (must_exist and found.kind is SchemaKind.NONE)
        report = _completed(engine, options, found) if is_created else found
        if report is not found:
            engine.dispose()  # its sessions have other timeouts than ours
    require_usable(report)
    if options.locker != "none":
        require_term(report)
    return report


def _completed(engine: Engine, options: JdbcOptions, found: SchemaReport) -> SchemaReport:
    """What is there after creating what a store creates by itself; `found` itself if nobody had to be kept out."""
    names = options.table_names
    report = create_tables(engine, names, found=found)
    if options.locker != "none" and report.is_usable and not report.has_own_tables:
        report = create_own_tables(engine, names)
    return report


def is_up_to_date(connection: Connection, options: JdbcOptions) -> bool:
    """Whether the schema is ours and brokers can take turns on it, as far as one question tells.

    It is enough for a standby. Who becomes master looks at everything (`usable_schema`).

    Raises:
        sqlalchemy.exc.DBAPIError: the connection is lost.
    """
    tables = Tables.on(connection, options.table_names)
    question = (
        f"SELECT V.version_num FROM {tables.version_table} V, {tables.lock.name} L, {tables.term.name} T"
        " WHERE L.ID = 1 AND T.ID = 1"
    )
    try:
        return connection.execute(text(question)).scalars().all() == [known_revisions()[-1]]
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return False  # a table is not there, or whatever else is the matter: who looks at everything can tell


def has_unfinished_loads(engine: Engine, options: JdbcOptions) -> bool:
    """Whether bulk loads have left something that was never committed."""
    dialect = dialect_at(engine.url, options)
    with mapped(dialect), engine.connect() as connection:
        return bool(Loads(connection, dialect, options.table_names).unfinished())


def recover_loads(url: URL, options: JdbcOptions, fence: Fence | None) -> None:
    """Remove what bulk loads have left unfinished: their driver is dead, or it would still be master.

    That may take long, so it is done in a session that has the patience.
    """
    patient = replace(options, query_timeout_s=max(options.query_timeout_s, _INDEX_S))
    dialect = dialect_at(url, patient)
    engine, _ = watched_engine(url, patient, poolclass=NullPool)
    try:
        with mapped(dialect), engine.connect() as connection:
            Loads(connection, dialect, options.table_names).recover(fence)
    finally:
        engine.dispose()
