"""Tables on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, TextClause, inspect, text
from sqlalchemy.exc import DBAPIError

from jdbcstore.store.jdbc.dialect.base.catalogue import FoundColumn, FoundTable
from jdbcstore.store.jdbc.dialect.base.schema import LockedNames, Schema
from jdbcstore.store.jdbc.dialect.base.session import Dialect

__all__ = ["PostgreSQLSchema"]

#: The tables, views and the like that a name without a schema means.
_WANTED: Final = (
    "(SELECT name, to_regclass(name) AS id FROM unnest(:names) name) wanted"
    " JOIN pg_class c ON c.oid = wanted.id AND c.relkind IN ('r', 'p', 'f', 'v', 'm')"
)
_COLUMNS: Final = text(
    "SELECT wanted.name, a.attname, format_type(a.atttypid, NULL), a.atttypid = 'bytea'::regtype, NOT a.attnotnull"
    f" FROM {_WANTED} JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
    " ORDER BY wanted.name, a.attnum"
)
#: An expression has no name.
_INDEXES: Final = text(
    "SELECT wanted.name, i.relname, x.indisprimary, ARRAY("
    "SELECT upper(coalesce(a.attname::text, '')) FROM unnest(x.indkey) WITH ORDINALITY k(number, place)"
    " LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number"
    " WHERE k.place <= x.indnkeyatts ORDER BY k.place)"
    f" FROM {_WANTED} JOIN pg_index x ON x.indrelid = c.oid JOIN pg_class i ON i.oid = x.indexrelid"
)


class PostgreSQLSchema(Schema):
    """PostgreSQL folds names that are not quoted to lower case, and changes everything in one transaction."""

    message_type = "bytea"
    message_bytes_max = (1 << 30) - 1  # by the manual
    names_begin_with_letter = True
    snapshot = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)
    xid_as_text = "ALTER xid TYPE VARCHAR(250) USING NULL"

    def cased(self, name: str) -> str:
        return name.lower()

    def index_options(self, condition: TextClause) -> dict[str, Any]:
        return {"postgresql_where": condition}

    def found_tables(self, connection: Connection, names: Sequence[str]) -> dict[str, FoundTable]:
        wanted = {"names": list(names)}
        columns: dict[str, dict[str, FoundColumn]] = {}
        for table, column, type_, keeps_bytes, is_nullable in connection.execute(_COLUMNS, wanted):
            columns.setdefault(table, {})[column.upper()] = FoundColumn(type_, keeps_bytes, is_nullable)
        keys: dict[str, tuple[str, ...]] = {}
        indexes: dict[str, dict[str, tuple[str, ...]]] = {table: {} for table in columns}
        for table, index, is_key, of in connection.execute(_INDEXES, wanted):
            if table not in columns:
                continue  # somebody has created it since
            if is_key:
                keys[table] = tuple(of)
            else:
                indexes[table][index] = tuple(of)
        return {table: FoundTable(of, keys.get(table, ()), indexes[table]) for table, of in columns.items()}

    def container_collation(self, connection: Connection, table: str) -> tuple[str | None, bool]:
        query = text(
            "SELECT c.collname, c.collisdeterministic FROM pg_attribute a"
            " JOIN pg_collation c ON c.oid = a.attcollation"
            " WHERE a.attrelid = to_regclass(:table) AND a.attname = 'container'"
        )
        found = connection.execute(query, {"table": table}).first()
        return (found[0], found[1]) if found else (None, True)

    def key_change(self, connection: Connection, table: str, columns: Sequence[str], *, has_key: bool) -> str | None:
        # Without a name of ours the new key is called activemq_acks_pkey, and there a Java broker looks for it.
        add = f"ADD PRIMARY KEY ({', '.join(columns)})"
        if not has_key:
            return add
        name = inspect(connection).get_pk_constraint(table)["name"]
        return f'DROP CONSTRAINT "{name}", {add}'

    @contextmanager
    def lock(self, connection: Connection, dialect: Dialect, names: LockedNames, wait_s: float) -> Iterator[Connection]:
        with self.connect(connection) as guard:
            for each in (guard, connection):
                each.execute(text(f"SET LOCAL lock_timeout = {max(1, int(wait_s * 1000))}"))
            key = "hashtextextended('jdbcstore.' || current_schema() || '.' || :name, 0)"
            try:
                guard.execute(text(f"SELECT pg_advisory_xact_lock({key})"), {"name": names.lock})
            except DBAPIError as error:
                if not dialect.is_locked(error):
                    raise
                raise names.busy(wait_s) from error
            yield guard
