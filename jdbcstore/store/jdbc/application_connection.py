"""A connection of somebody else's program: which database it leads to, how its driver takes values, and whether it is
in a transaction. It is used for single statements only, and stays the program's own."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, text

from jdbcstore.errors import ConfigurationError, SchemaMismatch
from jdbcstore.store.jdbc.dialect import database_for, databases

__all__ = ["ApplicationConnection"]

#: Django's cursors take this for every database.
_DJANGO_PLACEHOLDER: Final = "%s"


class ApplicationConnection:
    """The connection.

    Args:
        connection: SQLAlchemy's, Django's, or a driver's.

    Attributes:
        database: SQLAlchemy's name of the database.

    Raises:
        ConfigurationError: it is none of these.
    """

    def __init__(self, connection: Any) -> None:
        self._alchemy: Connection | None = None
        self._driver: Any = connection
        self._placeholder = _DJANGO_PLACEHOLDER
        # Who has a session has imported it. No broker needs it, and it is a third of SQLAlchemy's import.
        orm = sys.modules.get("sqlalchemy.orm")
        if orm is not None and isinstance(connection, orm.Session):
            connection = connection.connection()
        if isinstance(connection, Connection):
            self._alchemy, self.database = connection, connection.dialect.name
        elif _is_djangos(connection):
            connection.ensure_connection()
            self.database = str(connection.vendor)
        else:
            self.database, self._placeholder = _known_driver(connection)
        self._dialect: Final = database_for(self.database).dialect()
        self.require_transaction()

    def placeholders(self, columns: Sequence[str]) -> list[str]:
        """How a statement for `execute` names these values, which it takes in this order."""
        if self._alchemy is not None:
            return [f":{column}" for column in columns]
        return [self._placeholder] * len(columns)

    def execute(self, statement: str, values: Mapping[str, Any]) -> None:
        """Run a statement with `placeholders`.

        Raises:
            SchemaMismatch: its table is not there.
            Whatever the driver raises.
        """
        try:
            self._run(statement, values)
        except Exception as error:
            if self._says_no_table(error):
                raise SchemaMismatch(
                    "the database of this connection has no outbox: the store's tables are not there, or older than it,"
                    " or have another name (JdbcOptions(table_prefix=...)); start the broker on it once, or run"
                    f" 'jdbcstore schema upgrade URL'. The database says: {str(error).splitlines()[0]}"
                ) from error
            raise

    def _says_no_table(self, error: Exception) -> bool:
        driver_error = getattr(error, "orig", None) or error.__cause__ or error  # SQLAlchemy's and Django's wrap it
        said = f"{_code(driver_error)} {driver_error}"
        return any(words in said for words in self._dialect.no_table_words)

    def _run(self, statement: str, values: Mapping[str, Any]) -> None:
        if self._alchemy is not None:
            self._alchemy.execute(text(statement), values)
            return
        cursor = self._driver.cursor()
        try:
            cursor.execute(statement, tuple(values.values()))
        finally:
            cursor.close()

    def require_transaction(self) -> None:
        """Raise `ConfigurationError` if the next statement would be committed by itself."""
        if self._alchemy is not None:
            raw = self._alchemy.connection.driver_connection
        else:
            raw = self._driver.connection if _is_djangos(self._driver) else self._driver
        if not self._dialect.keeps_uncommitted(raw):
            raise ConfigurationError(
                "the connection is in autocommit mode and in no transaction, so the message would be stored even if"
                " your rows are not: begin one (SQLAlchemy: engine.begin(), Django: transaction.atomic(), drivers:"
                " BEGIN, or autocommit off)"
            )


def _code(error: BaseException) -> str:
    """What the server has called it, if the driver's text does not tell."""
    return str(getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or "")


def _is_djangos(connection: Any) -> bool:
    return hasattr(connection, "vendor") and hasattr(connection, "in_atomic_block")


def _known_driver(connection: Any) -> tuple[str, str]:
    """Which database a driver's connection leads to, and the driver's placeholder."""
    # Drivers let an application derive a class.
    packages = [kind.__module__.partition(".")[0] for kind in type(connection).__mro__]
    known = {driver: (one.name, sign) for one in databases() for driver, sign in one.application_drivers.items()}
    package = next((package for package in packages if package in known), None)
    if package is None or not hasattr(connection, "cursor"):
        raise ConfigurationError(
            f"{type(connection).__qualname__} is no connection to enlist: it takes SQLAlchemy's Connection or Session"
            " (of an AsyncSession: await session.run_sync(...)), Django's connection, or a connection of"
            f" {', '.join(sorted(known))}"
        )
    return known[package]
