"""Rows of the message table, written as another broker might: with ids of our choice, at a time of our choice."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, Engine, text

from jdbcstore.config.urls import open_engine
from jdbcstore.destination import parse_destination
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import TextMessage
from jdbcstore.openwire import marshal
from jdbcstore.store.jdbc.schema import create_tables

__all__ = ["insert", "marshalled", "open_tables"]

_INSERT = text(
    "INSERT INTO ACTIVEMQ_MSGS (ID, MSGID_PROD, MSGID_SEQ, CONTAINER, EXPIRATION, PRIORITY, MSG, XID)"
    " VALUES (:id, :producer, :id, :container, 0, 0, :msg, :xid)"
)


def open_tables(url: str) -> Engine:
    """An engine on a database that has the tables now."""
    engine = open_engine(url)
    create_tables(engine)
    return engine


def insert(
    connection: Connection,
    ids: Iterable[int],
    container: str = "queue://A",
    *,
    xid: bytes | None = None,
    producer: str = "ID:test-1:1:1",
    size: int = 0,
) -> None:
    """Insert messages whose text is their id, filled up with blanks to a size."""
    rows = []
    for id in ids:
        msg = marshalled(id, container, producer, size)
        rows.append({"id": id, "producer": producer, "container": container, "msg": msg, "xid": xid})
    if rows:
        connection.execute(_INSERT, rows)


def marshalled(id: int, container: str = "queue://A", producer: str = "ID:test-1:1:1", size: int = 0) -> bytes:
    """The bytes of such a message."""
    message_id = MessageId(ProducerId.parse(producer), id)
    message = TextMessage(destination=parse_destination(container), message_id=message_id)
    message.text = str(id).ljust(size)
    return marshal(message)
