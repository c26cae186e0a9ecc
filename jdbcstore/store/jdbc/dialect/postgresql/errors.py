"""What PostgreSQL's codes mean, and those of its drivers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import psycopg2

from jdbcstore.errors import (
    DuplicateMessage,
    MessageTooLarge,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreReadOnly,
    TransientStoreError,
)
from jdbcstore.store.jdbc.dialect.base.errors import AccessDenied, ConnectionLost, Deadlock

__all__ = ["KINDS", "code_of"]

#: What the server says when it does not let us in. In another language it is taken for an outage, and told after it.
_DENIED: Final = (
    "authentication failed",
    "no pg_hba.conf entry",
    "no password supplied",
    "is not permitted to log in",
    "permission denied for database",
    'FATAL:  role "',
    'FATAL:  database "',
)

#: Which error of ours a code, or its class, stands for.
KINDS: Final[Mapping[str, type[StoreError]]] = {
    "23505": DuplicateMessage,
    "25P03": ConnectionLost,  # ended by the server's timeouts, as are the next two
    "25P04": ConnectionLost,
    "57P05": ConnectionLost,
    "26000": ConnectionLost,  # what was prepared is gone (DISCARD ALL), and the session's settings are, too
    "25006": StoreReadOnly,
    "40": Deadlock,  # and a serialization failure
    "42P01": SchemaMismatch,  # no such table
    "42703": SchemaMismatch,  # no such column
    "08": ConnectionLost,
    "57P01": ConnectionLost,  # terminated by an administrator
    "57P02": ConnectionLost,
    "57P03": ConnectionLost,  # starting up
    "57P04": ConnectionLost,  # the database is gone
    "57014": TransientStoreError,  # statement timeout
    "55P03": TransientStoreError,  # lock timeout
    "53100": StoreFull,
    "53": TransientStoreError,  # out of memory
    "53300": ConnectionLost,  # too many connections
    "58": TransientStoreError,  # the operating system failed
    "28": AccessDenied,
    "3D000": AccessDenied,  # no such database
    "54000": MessageTooLarge,
}


def code_of(error: BaseException) -> str:
    """The SQLSTATE of a driver's error, empty if it is none."""
    if isinstance(error, psycopg2.Error):
        if error.pgcode:
            return str(error.pgcode)
        # What is said while connecting comes without its code, in the server's language.
        if any(words in str(error) for words in _DENIED):
            return "28000"
        # libpq's own errors have no code: the server went away, or never answered.
        return "08000" if isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError) else ""
    if type(error).__module__.startswith("adbc_driver_manager"):
        state = getattr(error, "sqlstate", None)
        return str(state) if state else "28000" if any(words in str(error) for words in _DENIED) else "08000"
    return ""
