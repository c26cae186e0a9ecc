"""What the driver's errors mean."""

from __future__ import annotations

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

KINDS: Final[Mapping[str, type[StoreError]]] = {
    "CONSTRAINT": DuplicateMessage,
    "FULL": StoreFull,
    "READONLY": StoreReadOnly,
    "TOOBIG": MessageTooLarge,
    "CANTOPEN": ConnectionLost,
    "BUSY": TransientStoreError,
    "LOCKED": TransientStoreError,
    "IOERR": TransientStoreError,
    "CORRUPT": StoreError,
    "NOTADB": StoreError,
    "MISSING": SchemaMismatch,
}


def code_of(error: BaseException) -> str:
    """The second word of the driver's name of an error, empty if it is none of the driver's."""
    words = str(getattr(error, "sqlite_errorname", "")).split("_")
    if words[1:] == ["ERROR"] and "no such" in str(error):
        return "MISSING"
    return words[1] if len(words) > 1 else ""
