"""The seam between the store and the databases: a folder for each, with the same file names in all of them.

==============  ========================================================================================
``__init__``    the `Database`: its name, its URLs, and where the rest is
``session``     connecting, the names and ends of sessions, locks, signals: the `Dialect`
``write``       what is sent to read and write messages, the other half of the `Dialect`
``errors``      what the driver's errors mean
``schema``      types, names and catalogues, changing old tables, the lock of who changes them: the `Schema`
``bulk``        very many rows: the `BulkSession`
``scan``        reading columns of the message table for Spark: the `TableScanner`
==============  ========================================================================================

The store asks for abilities, never for a database's name. ``base`` has what is asked, with defaults. See
docs/adding-a-database.md.
"""

from __future__ import annotations

from jdbcstore.store.jdbc.dialect.base.database import Database
from jdbcstore.store.jdbc.dialect.base.errors import AccessDenied, ConnectionLost, Deadlock, OtherHistory
from jdbcstore.store.jdbc.dialect.base.session import STILL_AT_WORK, Dialect, raw_connection
from jdbcstore.store.jdbc.dialect.registry import (
    database_for,
    database_for_url,
    database_of,
    databases,
    dialect_at,
    dialect_for,
    url_for_reading,
)

__all__ = [
    "STILL_AT_WORK",
    "AccessDenied",
    "ConnectionLost",
    "Database",
    "Deadlock",
    "Dialect",
    "OtherHistory",
    "database_for",
    "database_for_url",
    "database_of",
    "databases",
    "dialect_at",
    "dialect_for",
    "raw_connection",
    "url_for_reading",
]
