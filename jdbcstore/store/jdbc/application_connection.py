"""A connection of somebody else's program: which database it leads to, how its driver takes values, and whether it is
in a transaction. It is used for single statements only, and stays the program's own."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, text
from sqlalchemy.orm import Session

from jdbcstore.errors import ConfigurationError

__all__ = ["ApplicationConnection"]

#: The package of a driver → SQLAlchemy's name of the database that it leads to.
_DRIVERS: Final = {
    "MySQLdb": "mysql",
    "mysql": "mysql",
    "psycopg": "postgresql",
    "psycopg2": "postgresql",
    "pymysql": "mysql",
    "sqlite3": "sqlite",
}
_PARAMSTYLES: Final = {"qmark": "?", "format": "%s", "pyformat": "%s"}
_IN_TRANSACTION: Final = 1  # MySQL's SERVER_STATUS_IN_TRANS
_IDLE: Final = 0  # libpq's PQTRANS_IDLE
_LEGACY_TRANSACTION_CONTROL: Final = -1  # sqlite3's, which has the name since Python 3.12
_WHAT_IS_TAKEN: Final = (
    "SQLAlchemy's Connection or Session (of an AsyncSession: await session.run_sync(...)), Django's connection, or a"
    f" connection of {', '.join(sorted(_DRIVERS))}"
)


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
        self._driver: Any = None
        self._placeholder = ""
        if isinstance(connection, Session):
            connection = connection.connection()
        if isinstance(connection, Connection):
            self._alchemy = connection
            self.database = connection.dialect.name
        elif hasattr(connection, "vendor") and hasattr(connection, "in_atomic_block"):  # Django's
            connection.ensure_connection()
            self._driver, self.database, self._placeholder = connection, str(connection.vendor), "%s"
        else:
            package = type(connection).__module__.partition(".")[0]
            if package not in _DRIVERS or not hasattr(connection, "cursor"):
                raise ConfigurationError(
                    f"{type(connection).__qualname__} is no connection to enlist: it takes {_WHAT_IS_TAKEN}"
                )
            self._driver, self.database = connection, _DRIVERS[package]
            self._placeholder = _PARAMSTYLES[sys.modules[package].paramstyle] if package != "mysql" else "%s"
        self.require_transaction()

    def placeholders(self, columns: Sequence[str]) -> list[str]:
        """How a statement for `execute` names these values, which it takes in this order."""
        if self._alchemy is not None:
            return [f":{column}" for column in columns]
        return [self._placeholder] * len(columns)

    def execute(self, statement: str, values: Mapping[str, Any]) -> None:
        """Run a statement with `placeholders`."""
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
        raw = self._raw()
        if _is_in_transaction(raw) or not _commits_by_itself(raw):
            return
        raise ConfigurationError(
            "the connection is in autocommit mode and in no transaction, so the message would be stored even if your"
            " rows are not: begin one (SQLAlchemy: engine.begin(), Django: transaction.atomic(), psycopg:"
            " connection.transaction())"
        )

    def _raw(self) -> Any:
        if self._alchemy is not None:
            return self._alchemy.connection.driver_connection
        return self._driver.connection if hasattr(self._driver, "in_atomic_block") else self._driver


def _is_in_transaction(raw: Any) -> bool:
    """Whether a driver's connection knows that it is in one."""
    if hasattr(raw, "in_transaction"):  # sqlite3, mysql.connector
        return bool(raw.in_transaction)
    if hasattr(raw, "info") and hasattr(raw.info, "transaction_status"):  # psycopg, psycopg2
        return int(raw.info.transaction_status) != _IDLE
    return bool(getattr(raw, "server_status", 0) & _IN_TRANSACTION)  # PyMySQL


def _commits_by_itself(raw: Any) -> bool:
    """Whether a driver's connection begins no transaction with the next statement."""
    if isinstance(raw, sqlite3.Connection):
        # Since 3.12 there is a mode; before, and without one, an isolation level of None means autocommit.
        mode = getattr(raw, "autocommit", _LEGACY_TRANSACTION_CONTROL)
        return raw.isolation_level is None if mode == _LEGACY_TRANSACTION_CONTROL else mode is True
    if callable(getattr(raw, "get_autocommit", None)):  # PyMySQL, mysqlclient
        return bool(raw.get_autocommit())
    return bool(getattr(raw, "autocommit", False))
