"""Dropping the secondary indexes of ACTIVEMQ_MSGS and making them again, for those who bring very many rows.

Both may be repeated, also after a crash in between. Neither begins or ends a transaction.
"""

from __future__ import annotations

import logging

from sqlalchemy import Connection
from sqlalchemy.schema import CreateIndex, DropIndex

from jdbcstore.store.jdbc.schema_inspection import inspect_schema
from jdbcstore.store.jdbc.table_names import TableNames
from jdbcstore.store.jdbc.tables import Tables

__all__ = ["build_message_indexes", "drop_message_indexes"]

log = logging.getLogger(__name__)


def drop_message_indexes(connection: Connection, names: TableNames) -> None:
    """Drop those that `build_message_indexes` makes."""
    tables = Tables.on(connection, names)
    there = inspect_schema(connection, names).indexes
    for index in tables.messages_indexes:
        if tables.plain(str(index.name)) in there:
            connection.execute(DropIndex(index))


def build_message_indexes(connection: Connection, names: TableNames) -> None:
    """Make those that are missing."""
    tables = Tables.on(connection, names)
    missing = inspect_schema(connection, names).missing_indexes
    for index in tables.messages_indexes:
        if tables.plain(str(index.name)) in missing:
            log.info("making index %s", index.name)
            connection.execute(CreateIndex(index))
