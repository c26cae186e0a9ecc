"""Running Alembic for one set of tables, from the migrations that are shipped with the package.

Alembic keeps what it is doing in a module of its own, so that one thread of a process runs it at a time. It is imported
when there is something to migrate: most starts find a schema that is up to date, and Alembic would be a third of what
they import.
"""

from __future__ import annotations

import io
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection

from jdbcstore.errors import SchemaMismatch
from jdbcstore.store.jdbc.tables import Tables

if TYPE_CHECKING:
    from alembic.config import Config

__all__ = ["known_revisions", "migrate", "migrations_folder", "migrations_sql"]

_ONE_AT_A_TIME: Final = threading.Lock()


def migrations_folder() -> Path:
    """Where the migrations are: inside the installed package, or beside it in a checkout.

    Raises:
        SchemaMismatch: they are nowhere; the installation is incomplete.
    """
    package = Path(__file__).parents[2]
    for folder in (package / "migrations", package.parent / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise SchemaMismatch(f"no migrations beside {package}: the installation is incomplete, install jdbcstore again")


@cache
def known_revisions() -> tuple[str, ...]:
    """The revisions of our migrations, the oldest first: each file is named after its own, in their order."""
    files = (migrations_folder() / "versions").glob("[0-9]*_*.py")
    return tuple(sorted(file.name.partition("_")[0] for file in files))


def migrate(connection: Connection, tables: Tables) -> None:
    """Run the migrations that are due, in the connection's transaction; the caller commits.

    Args:
        connection: in a transaction.
        tables: what to migrate.
    """
    from alembic import command

    config = _config()
    config.attributes |= {"connection": connection, "tables": tables}
    with _ONE_AT_A_TIME:
        command.upgrade(config, "head")


def migrations_sql(tables: Tables) -> str:
    """What `migrate` does to a database without the tables, as text."""
    from alembic import command

    config = _config()
    config.output_buffer = io.StringIO()
    config.attributes |= {"connection": None, "tables": tables}
    with _ONE_AT_A_TIME:
        command.upgrade(config, "head", sql=True)
    return config.output_buffer.getvalue()


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    # Alembic reads options with configparser's interpolation, where a percent sign is written twice.
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    return config
