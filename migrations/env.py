"""Alembic's entry: migrate the connection that the program hands over, or write SQL for its dialect.

There is no alembic.ini. ``jdbcstore schema upgrade`` sets ``connection`` (None to write SQL) and ``tables`` in the
attributes of the configuration; locks and commits are its own.
"""

from __future__ import annotations

from alembic import context

from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.tables import Tables


def run() -> None:
    """Run the migrations between the recorded revision and the wanted one."""
    attributes = context.config.attributes
    tables = attributes.get("tables")
    if not isinstance(tables, Tables):
        raise ConfigurationError("these migrations are run by `jdbcstore schema upgrade URL`, not by alembic itself")
    if context.is_offline_mode():
        context.configure(
            dialect_name=tables.database.name, version_table=tables.version_table, literal_binds=True, as_sql=True
        )
    else:
        context.configure(connection=attributes["connection"], version_table=tables.version_table)
    with context.begin_transaction():
        context.run_migrations()


run()
