"""The tables at one moment, whoever writes to them meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Connection

__all__ = ["snapshot"]

_BEGIN: Final = {
    "postgresql": ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",),
    "mysql": ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION READ ONLY"),
    "mariadb": ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION READ ONLY"),
    "sqlite": ("BEGIN",),
}


@contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    """Whatever is asked inside is about one moment: that of the first question.

    Args:
        connection: in autocommit mode.
    """
    for statement in _BEGIN[connection.dialect.name]:
        connection.exec_driver_sql(statement)
    try:
        yield
    except BaseException:
        connection.invalidate()
        raise
    connection.exec_driver_sql("ROLLBACK")
