"""The outbox: an application stores messages in the transaction that stores its own rows.

Either both are committed or none is, without a transaction over two systems. The messages wait in JDBCSTORE_STAGED,
where bulk loads wait, too; the broker that is master takes them out in the commit that brings them to their
destinations (`jdbcstore.broker.intake`), so each arrives once, whatever crashes. An application needs neither a broker
that runs nor a lease: it only inserts.

Nothing of an application's transaction is locked that the broker waits for, and the other way round: rows have random
keys, and the broker removes by the whole key. SQLite has one writer at a time, there a transaction of the application
keeps the broker waiting, as any other writer would.

**Order.** Messages of one transaction arrive in the order in which they were added. PART is made of the wall clock of
the application's machine, so transactions arrive about in the order in which they began to add; one that commits late
arrives late.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Any, Final

from jdbcstore.destination import QUALIFIED_NAME_MAX, Destination, has_control_characters
from jdbcstore.errors import ConfigurationError, MessageTooLarge
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import Message
from jdbcstore.openwire import marshal
from jdbcstore.store.jdbc.application_connection import ApplicationConnection
from jdbcstore.store.jdbc.column_text import COLUMN_CHARACTERS_MAX
from jdbcstore.store.jdbc.dialect import database_for
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.own_tables import OUTBOX_JOB
from jdbcstore.store.jdbc.statements import Statements

__all__ = ["Outbox", "outbox_channel", "sent_ms"]

_COLUMNS: Final = ("JOB", "PART", "NUMBER", "CONTAINER", "MSGID_PROD", "MSGID_SEQ", "EXPIRATION", "MSG", "PRIORITY")
#: A key is (JOB, PART, NUMBER). PART is microseconds since 1970 and random bits (it has room until 2112), NUMBER random
#: bits and the message's place in its transaction: no two transactions have the same, whatever their clocks say.
_PART_RANDOM_BITS: Final = 11
_NUMBER_RANDOM_BITS: Final = 42
_NUMBER_BITS: Final = 20
#: The most messages in one transaction.
_MESSAGES_MAX: Final = (1 << _NUMBER_BITS) - 1


def sent_ms(part: int) -> int:
    """When a message was sent, epoch milliseconds, by its PART."""
    return (part >> _PART_RANDOM_BITS) // 1000


def outbox_channel(statements: Statements) -> str:
    """What PostgreSQL's channel is called on which the broker hears of new messages: of these tables, 41 characters."""
    return f"jdbcstore_{hashlib.sha256(statements.staged.lower().encode()).hexdigest()[:31]}"


class Outbox:
    """One transaction of an application, as far as the outbox is concerned. Not for several threads at once.

    Args:
        connection: with the application's transaction: SQLAlchemy's `Connection` or `Session`, Django's connection, or
            that of a driver (psycopg, psycopg2, PyMySQL, mysqlclient, sqlite3). It is neither committed nor rolled
            back here. In autocommit mode it has to be inside a transaction.
        options: names of the tables, and `message_bytes_max`.
        now_us: the wall clock, epoch microseconds.

    Raises:
        ConfigurationError: it is no connection to a database that a store can be on, or there is no transaction.
    """

    def __init__(
        self,
        connection: Any,
        options: JdbcOptions | None = None,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._options = options or JdbcOptions()
        self._now_us = now_us
        self._connection = ApplicationConnection(connection)
        dialect = database_for(self._connection.database).dialect()
        statements = Statements(self._options.table_names, epoch_ms=dialect.epoch_ms)
        values = ", ".join(self._connection.placeholders(_COLUMNS))
        columns, channel = ", ".join(_COLUMNS), outbox_channel(statements)
        self._insert: Final = dialect.outbox_insert(statements.staged, columns, values, channel)
        self._part = (now_us() << _PART_RANDOM_BITS) | secrets.randbits(_PART_RANDOM_BITS)
        self._first_number = secrets.randbits(_NUMBER_RANDOM_BITS) << _NUMBER_BITS
        self._messages = 0
        # The id of a message stands in many logs: it tells where it came from, and when.
        self._producer = ProducerId(f"ID:outbox-{self._part:x}-{self._first_number:x}-1:1", 1, 1)

    def next_message_id(self) -> MessageId:
        """The id for the next message."""
        return MessageId(self._producer, self._messages + 1)

    def add_message(self, message: Message) -> MessageId:
        """Insert a message: it is sent when the application commits, and never if it does not.

        Args:
            message: with a destination. Without an id it gets one, and without a timestamp the time.

        Returns:
            Its id.

        Raises:
            ConfigurationError: it has no destination, or one that no store takes, a temporary one or one of the
                broker's own; there is no transaction (any more), or there are too many messages in it.
            MessageTooLarge: it has more than `message_bytes_max` bytes.
            SchemaMismatch: the store's tables are not there; the text says what to run.
            Whatever the driver raises.
        """
        if message.destination is None:
            raise ConfigurationError("the message has no destination")
        _check_destination(message.destination)
        if self._messages >= _MESSAGES_MAX:
            raise ConfigurationError(f"at most {_MESSAGES_MAX} messages can be sent in one transaction")
        self._connection.require_transaction()
        if message.message_id is None:
            message.message_id = self.next_message_id()
            message.producer_id = self._producer
        if not message.timestamp:
            message.timestamp = self._now_us() // 1000
        message.persistent = True
        blob = marshal(message)
        if len(blob) > self._options.message_bytes_max:
            raise MessageTooLarge(
                f"the message has {len(blob)} bytes, more than message_bytes_max={self._options.message_bytes_max}"
            )
        id = message.message_id
        row = (
            OUTBOX_JOB,
            self._part,
            self._first_number + self._messages,
            message.destination.qualified_name[:COLUMN_CHARACTERS_MAX],
            str(id.producer_id)[:COLUMN_CHARACTERS_MAX],
            id.producer_sequence_id,
            message.expiration,
            blob,
            message.priority,
        )
        self._connection.execute(self._insert, dict(zip(_COLUMNS, row, strict=True)))
        self._messages += 1
        return id


def _check_destination(destination: Destination) -> None:
    """Say to the application what the broker could only refuse later, when nobody hears of it."""
    for element in destination.elements():
        if element.is_wildcard:
            raise ConfigurationError(
                f"{element.qualified_name} is a pattern: a message in a transaction goes to destinations by their names"
            )
        if element.is_temporary:
            raise ConfigurationError(
                f"{element.qualified_name} is temporary: it ends with the connection that has made it, which the broker"
                " may outlive before it takes the message in; send to a queue or a topic"
            )
        if element.is_advisory:
            raise ConfigurationError(f"{element.qualified_name} is the broker's own: it alone sends advisories")
        if has_control_characters(element.qualified_name):
            raise ConfigurationError(f"{element.qualified_name!r} has control characters: no queue or topic may")
        if not element.is_storable:
            raise ConfigurationError(
                f"{element.qualified_name[:40]!r}… is too long: the name of a destination may have {QUALIFIED_NAME_MAX}"
                " characters with its prefix"
            )
