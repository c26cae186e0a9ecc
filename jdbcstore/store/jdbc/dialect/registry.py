"""Which databases there are: the folders beside this file, and what other packages register.

A package registers a database by an entry point of the group ``jdbcstore.databases``, whose name is SQLAlchemy's name
of the database and whose object is a `Database`. A folder here goes before an entry point of the same name.
"""

from __future__ import annotations

from collections.abc import Set
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from pkgutil import iter_modules
from typing import Final

from sqlalchemy import URL, Connection

from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.dialect.base.database import Database
from jdbcstore.store.jdbc.dialect.base.session import Dialect
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.statements import Statements

__all__ = [
    "database_for",
    "database_for_url",
    "database_of",
    "databases",
    "dialect_at",
    "dialect_for",
    "url_for_reading",
]

_GROUP: Final = "jdbcstore.databases"
_PACKAGE: Final = __name__.rpartition(".")[0]
_NO_DATABASE: Final = "base"


@cache
def database_for(name: str) -> Database:
    """The database that SQLAlchemy calls so.

    Raises:
        ConfigurationError: there is none, the text says which there are; or what a package registers is none.
    """
    if name in _folders():
        return _database(import_module(f"{_PACKAGE}.{name}").DATABASE, name)
    for point in entry_points(group=_GROUP, name=name):
        return _database(_loaded(point), name)
    raise ConfigurationError(
        f"no dialect for {name!r}: there are {', '.join(sorted(_names()))}. A package may bring another one by an entry"
        f" point of the group {_GROUP}: see docs/adding-a-database.md"
    )


def database_for_url(scheme: str) -> Database | None:
    """The database whose URLs begin so; None if there is none."""
    if scheme in _folders():
        return database_for(scheme)
    for names in (_folders, _names):  # other packages are asked last: that takes longer
        for database in map(database_for, sorted(names())):
            if scheme in (database.name, *database.aliases):
                return database
    return None


def databases() -> list[Database]:
    """All that there are, by name."""
    return [database_for(name) for name in sorted(_names())]


def database_of(connection: Connection) -> Database:
    """The database that a connection leads to, whatever its URL calls it."""
    return database_for(connection.dialect.name).at(connection)


def dialect_for(name: str) -> type[Dialect]:
    """The dialect of the database that SQLAlchemy calls so. Raises as `database_for`."""
    return database_for(name).dialect()


def url_for_reading(url: URL) -> URL:
    """As `Dialect.for_reading` of the database that a URL names."""
    return dialect_for(url.get_backend_name()).for_reading(url)


def dialect_at(url: URL, options: JdbcOptions) -> Dialect:
    """The dialect of who asks a database beside the store: no page of messages is read with it.

    Args:
        url: of the database, which errors name where it is a file.
        options: of the store.

    Raises:
        ConfigurationError: as `database_for`.
    """
    kind = dialect_for(url.get_backend_name())
    statements = Statements(options.table_names, epoch_ms=kind.epoch_ms, next_term=kind.next_term)
    return kind(options, statements, has_page_index=False, file=kind.file_of(url))


@cache
def _folders() -> Set[str]:
    found = iter_modules([str(Path(__file__).parent)])
    return frozenset(module.name for module in found if module.ispkg and module.name != _NO_DATABASE)


def _names() -> Set[str]:
    return {*_folders(), *(point.name for point in entry_points(group=_GROUP))}


def _loaded(point: EntryPoint) -> object:
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        package = "" if point.dist is None else f" of the package {point.dist.name}"
        raise ConfigurationError(
            f"the database {point.name!r}{package} cannot be loaded ({error}): mend or remove the package"
        ) from error


def _database(found: object, name: str) -> Database:
    if not isinstance(found, Database) or found.name != name:
        raise ConfigurationError(f"what is registered as the database {name!r} is none, but {found!r}")
    return found
