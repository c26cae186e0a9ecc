"""The tables at one moment, whoever writes to them meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from jdbcstore.store.jdbc.dialect import database_of

__all__ = ["snapshot"]


@contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    """Whatever is asked inside is about one moment: that of the first question.

    Args:
        connection: in autocommit mode.
    """
    for statement in database_of(connection).schema.snapshot:
        connection.exec_driver_sql(statement)
    try:
        yield
    except BaseException:
        connection.invalidate()
        raise
    connection.exec_driver_sql("ROLLBACK")
