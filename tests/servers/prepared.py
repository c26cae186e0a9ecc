"""Databases that one test after another takes: with our tables, or with nothing in them.

To make the tables costs more than most tests do with them, and so does a new database on PostgreSQL: it is some three
hundred files, and a checkpoint when it goes. So a process keeps the databases that its tests have given back: emptied,
with the rows that a new schema has. A database whose schema is not exactly as it was made, in which a test has left
very many rows, or whose test has failed is dropped instead.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from jdbcstore.config.urls import open_engine, store_options
from jdbcstore.store.jdbc.line_watch import engine_for
from jdbcstore.store.jdbc.schema import upgrade_schema
from tests.servers.server import USER, DatabaseServer, Execute, ServerFailed

__all__ = ["PreparedDatabases", "PreparedFile"]

#: To remove more than these takes longer than to make the tables again.
ROWS_MAX: Final = 5_000
#: What deleted rows may take on PostgreSQL, where making a table's files anew costs more than a short test.
DEAD_BYTES_MAX: Final = 1 << 20
SESSIONS_END_S: Final = 60.0

_POSTGRESQL_SHAPE: Final = (
    "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_(toast|temp)' ORDER BY 1",
    "SELECT relnamespace, relname, relkind, reloptions::text, relrowsecurity, relacl::text FROM pg_class"
    " WHERE relnamespace = 'public'::regnamespace ORDER BY 1, 2",
    "SELECT attrelid, attname, atttypid, atttypmod, attnotnull, attcollation, atthasdef, attisdropped, attstattarget,"
    " attstorage, attoptions::text FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid"
    " WHERE relnamespace = 'public'::regnamespace AND attnum > 0 ORDER BY 1, attnum",
    # Not pg_get_indexdef(), which takes longer than all the rest.
    "SELECT indexrelid, indrelid, indisunique, indisvalid, indkey::text, indclass::text, indcollation::text,"
    " indoption::text, indexprs::text, indpred::text FROM pg_index"
    " JOIN pg_class ON pg_class.oid = indexrelid WHERE relnamespace = 'public'::regnamespace ORDER BY 1",
    "SELECT oid, conname, contype, conrelid FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY 1",
    "SELECT oid, tgname, tgrelid FROM pg_trigger ORDER BY 1",
    "SELECT oid, proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1",
    "SELECT oid, typname FROM pg_type WHERE typnamespace = 'public'::regnamespace ORDER BY 1",
    "SELECT oid, evtname FROM pg_event_trigger ORDER BY 1",
    "SELECT oid, extname FROM pg_extension ORDER BY 1",
    "SELECT setrole, setconfig::text FROM pg_db_role_setting"
    " WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 1",
    "SELECT datdba, datallowconn, datconnlimit, datacl::text FROM pg_database WHERE datname = current_database()",
)
#: Everything that the ordinary role has in a database; what another one has made there stays, and is seen.
_POSTGRESQL_DROP: Final = f"DROP OWNED BY {USER} CASCADE"
_POSTGRESQL_TABLES: Final = (
    "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY 1"
)
_MYSQL_SHAPE: Final = ("SHOW CREATE DATABASE `{database}`", "SHOW FULL TABLES", "SHOW TRIGGERS", "SHOW EVENTS")
_MYSQL_ROUTINES: Final = "SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = '{database}'"


@dataclass
class _Prepared:
    """A database, and how it looked when it was made."""

    name: str
    shape: list[list[tuple[Any, ...]]]
    rows: dict[str, list[tuple[Any, ...]]]


@dataclass
class PreparedDatabases:
    """The databases that this process has on one server.

    Args:
        server: where they are.
        has_tables: ours are in them; otherwise there are none, which is for PostgreSQL alone. Elsewhere a new database
            is made faster than an old one is looked through.
    """

    server: DatabaseServer
    has_tables: bool = True
    _idle: list[_Prepared] = field(default_factory=list)
    _taken: dict[str, _Prepared] = field(default_factory=dict)

    def take(self) -> str:
        """The name of a database without a message that nobody else uses."""
        database = self._idle.pop() if self._idle else self._make()
        self._taken[database.name] = database
        return database.name

    def give_back(self, name: str, *, is_suspect: bool) -> None:
        """Empty it for the next test, or drop it.

        Args:
            name: as taken.
            is_suspect: its test has failed, and may not be through with it.
        """
        database = self._taken.pop(name)
        if not is_suspect and self._is_empty_again(database):
            self._idle.append(database)
        else:
            self.server.drop_database(name)

    def _make(self) -> _Prepared:
        name = f"prepared_{uuid.uuid4().hex[:12]}"
        self.server.create_database(name)
        if self.has_tables:
            engine = open_engine(self.server.url(name))
            upgrade_schema(engine)
            engine.dispose()
        with self.server.session(name) as execute:
            tables = self._tables(execute)
            rows = {table: found for table in tables if (found := execute(f"SELECT * FROM {table}"))}
            return _Prepared(name, self._shape(execute, name), rows)

    def _end_sessions(self, name: str, execute: Execute) -> None:
        """Return when nobody is in the database any more: what ends late must not write to the next test's tables."""
        deadline = time.monotonic() + SESSIONS_END_S
        while self.server.kill_sessions(name, execute):
            if time.monotonic() > deadline:
                raise ServerFailed(f"sessions of {name} do not end within {SESSIONS_END_S:g} s")
            time.sleep(0.002)  # servers tell nobody that a session has ended

    def _is_empty_again(self, database: _Prepared) -> bool:
        """Whether its schema is what it was; if so, bring its rows back to what they were, when nobody is in it."""
        with self.server.session(database.name) as execute:
            self._end_sessions(database.name, execute)
            if not self.has_tables:
                execute(_POSTGRESQL_DROP)
            if self._shape(execute, database.name) != database.shape:
                return False
            full = _those_with_rows(execute, self._tables(execute))
            if _those_with_rows(execute, full, ROWS_MAX):
                return False
            self._empty(execute, full)
            for table, rows in database.rows.items():
                for row in rows:
                    execute(f"INSERT INTO {table} VALUES ({', '.join(_literals(row))})")
            return True

    @property
    def _is_postgresql(self) -> bool:
        return self.server.scheme.startswith("postgresql")

    def _tables(self, execute: Execute) -> list[str]:
        return [str(row[0]) for row in execute(_POSTGRESQL_TABLES if self._is_postgresql else "SHOW TABLES")]

    def _shape(self, execute: Execute, name: str) -> list[list[tuple[Any, ...]]]:
        """Everything about the schema that a statement could change."""
        if self._is_postgresql:
            return [execute(statement) for statement in _POSTGRESQL_SHAPE]
        shape = [execute(statement.format(database=name)) for statement in (*_MYSQL_SHAPE, _MYSQL_ROUTINES)]
        return shape + [execute(f"SHOW CREATE TABLE `{table}`") for table, _ in sorted(shape[1])]

    def _empty(self, execute: Execute, tables: list[str]) -> None:
        """Remove all rows. TRUNCATE makes a table's files anew, which takes longer than to delete a few rows."""
        large = []
        if self._is_postgresql and tables:
            sizes = " UNION ALL ".join(f"SELECT '{table}', pg_total_relation_size('{table}')" for table in tables)
            large = [table for table, size in execute(sizes) if size > DEAD_BYTES_MAX]
            if large:
                execute(f"TRUNCATE {', '.join(large)}")
        for table in tables:
            if table not in large:
                execute(f"DELETE FROM {table}")


@dataclass
class PreparedFile:
    """A SQLite file with our tables, to be copied.

    Args:
        folder: where the original is, of this process alone.
        parameters: of the store's URL, which may give the tables other names.
    """

    folder: Path
    parameters: str = ""

    def copy_to(self, path: Path) -> None:
        """Put a copy there."""
        original = self.folder / "prepared.db"
        if not original.exists():
            url, options = store_options(f"sqlite:///{self.folder / 'making.db'}?{self.parameters}")
            engine = engine_for(url, options)
            upgrade_schema(engine, options.table_names)
            engine.dispose()  # the last to leave puts everything into the file itself
            left = sorted(file.name for file in self.folder.iterdir())
            assert left == ["making.db"], left
            (self.folder / "making.db").rename(original)
        shutil.copyfile(original, path)

    def url(self, path: Path) -> str:
        """The URL of a copy there."""
        self.copy_to(path)
        return f"sqlite:///{path}"


def _those_with_rows(execute: Execute, tables: Iterable[str], more_than: int = 0) -> list[str]:
    """Those of some tables that have rows, or more rows than this."""
    questions = [f"(SELECT '{table}' FROM {table} LIMIT 1 OFFSET {more_than})" for table in tables]
    return [str(table) for (table,) in execute(" UNION ALL ".join(questions))] if questions else []


def _literals(row: Iterable[object]) -> list[str]:
    """The values of a new schema's few rows in SQL."""
    return ["NULL" if value is None else str(value) if isinstance(value, int) else f"'{value}'" for value in row]
