"""What SQLite's names of errors mean."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

from jdbcstore.errors import (
    DuplicateMessage,
    MessageTooLarge,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreReadOnly,
    TransientStoreError,
)
from jdbcstore.store.jdbc.dialect.base.errors import ConnectionLost

__all__ = ["KINDS", "code_of"]

#: Which error of ours a family of names stands for.
KINDS: Final[Mapping[str, type[StoreError]]] = {
    "SQLITE_CONSTRAINT": DuplicateMessage,
    "SQLITE_READONLY": StoreReadOnly,
    "SQLITE_FULL": StoreFull,
    "SQLITE_BUSY": TransientStoreError,
    "SQLITE_LOCKED": TransientStoreError,
    "SQLITE_IOERR": TransientStoreError,
    "SQLITE_CANTOPEN": ConnectionLost,
    "SQLITE_TOOBIG": MessageTooLarge,
    "SQLITE_CORRUPT": StoreError,
    "SQLITE_NOTADB": StoreError,
    "SCHEMA": SchemaMismatch,
}


def code_of(error: BaseException) -> str:
    """The name of an error's family, ``SCHEMA`` for what is missing; empty if it is none of SQLite's."""
    name = getattr(error, "sqlite_errorname", "")
    is_plain = name == "SQLITE_ERROR" or (not name and isinstance(error, sqlite3.OperationalError))
    if is_plain and "no such" in str(error):
        return "SCHEMA"
    # Extended names such as SQLITE_IOERR_WRITE belong to their family.
    return next((family for family in KINDS if str(name).startswith(family)), str(name))
