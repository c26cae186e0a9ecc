"""Sending in an application's own database transaction (`jdbcstore.store.jdbc.outbox`)."""

from __future__ import annotations

import time
from typing import Any, Final, Unpack

from jdbcstore.broker.schedule import asks_for_schedule, job_of
from jdbcstore.client.outgoing_message import Body, SendOptions, outgoing
from jdbcstore.destination import Destination
from jdbcstore.errors import ConfigurationError, ProtocolError
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.outbox import Outbox

__all__ = ["Enlisted", "enlist"]

_FOR_EVER_MS: Final = (1 << 63) - 1


class Enlisted:
    """What a transaction of an application sends. Made by `enlist`; not for several threads at once."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def send(self, destination: Destination | str, body: Body = None, **options: Unpack[SendOptions]) -> MessageId:
        """Send a message when the application commits, and never if it does not.

        Args:
            destination: ``ORDERS`` or ``queue://ORDERS``, ``topic://PRICES``, several with commas between.
            body: a text, bytes, a mapping, a sequence, or None.
            options: `SendOptions`, but for ``number`` and ``persistent=False``.

        Returns:
            The message's id.

        Raises:
            ConfigurationError: a destination is none, is temporary or the broker's own, or there is no transaction (any
                more).
            CodecError: a property or a value in the body has no counterpart in Java.
            MessageTooLarge: it has more bytes than `JdbcOptions.message_bytes_max`.
            SchemaMismatch: the store's tables are not there; the text says what to run.
            TypeError, ValueError: an argument is not what it can be.
            Whatever the driver raises.
        """
        if options.get("number") is not None:
            raise ConfigurationError("what is sent in a transaction is stored once: leave out number")
        if not options.get("persistent", True):
            raise ConfigurationError("what is sent in a transaction of the database is stored: leave out persistent")
        made = outgoing(destination, body, options)
        now_ms = time.time_ns() // 1_000_000
        message = made.stamped(self._outbox.next_message_id(), now_ms)
        if asks_for_schedule(message):
            _check_schedule(message, now_ms)
        return self._outbox.add_message(message)


def _check_schedule(message: Message, now_ms: int) -> None:
    """Say to the application what the broker could only refuse later. How far ahead it goes is the broker's option."""
    try:
        job_of(message, now_ms, horizon_ms=_FOR_EVER_MS)
    except ProtocolError as error:
        raise ValueError(str(error)) from error


def enlist(connection: Any, options: JdbcOptions | None = None) -> Enlisted:
    """Send messages in the transaction that a connection is in: both are committed, or none.

    The database is the one on which the broker has its store (``jdbcstore broker --url …``); the broker that is master
    takes the messages in, once each. It need not run at that moment. Call this in each transaction anew::

        with engine.begin() as connection:
            connection.execute(insert(orders).values(id=7))
            jdbcstore.enlist(connection).send("ORDERS", "order 7")

    Args:
        connection: SQLAlchemy's `Connection` or `Session`, Django's connection, or that of a driver (psycopg, psycopg2,
            PyMySQL, mysqlclient, sqlite3). It is neither committed nor rolled back here.
        options: of the store: ``JdbcOptions(table_prefix=…)`` if its tables have one.

    Raises:
        ConfigurationError: it is no such connection, or it is in autocommit mode and in no transaction.
    """
    return Enlisted(Outbox(connection, options))
