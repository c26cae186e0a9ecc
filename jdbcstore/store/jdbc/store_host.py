"""What the parts of the SQL store get of its adapter (`jdbcstore.store.jdbc.adapter`), which makes them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import Connection, TextClause

from jdbcstore.destination import Destination
from jdbcstore.store.jdbc.dialect.base.session import Dialect
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.prepared import Doubts
from jdbcstore.store.jdbc.rows import Container
from jdbcstore.store.jdbc.statements import Statements
from jdbcstore.store.jdbc.subscriptions import Registry
from jdbcstore.store.jdbc.writer import Writer
from jdbcstore.subscription import SubscriptionInfo

__all__ = ["StoreHost"]


class StoreHost(Protocol):
    """A store that is open."""

    statements: Statements
    dialect: Dialect
    #: The one door to the database's rows.
    writer: Writer
    #: The durable subscriptions.
    registry: Registry
    #: The transactions in doubt.
    doubts: Doubts
    #: The statement that reads a page of one level.
    page_statement: Callable[[int | None], TextClause]

    @property
    def options(self) -> JdbcOptions:
        """Limits and names."""

    @property
    def order(self) -> threading.Lock:
        """Held while a number is given out and its row submitted: rows are committed in the order of their numbers."""

    def next_sequence(self) -> int:
        """The next number. The caller holds `order`."""

    def last_message_broker_sequence_id(self) -> int:
        """The number that was given out last."""

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection to read with; drivers' errors leave it as ours."""

    def require_open(self) -> None:
        """Raise `StoreClosed` unless started."""

    def require_acked(self) -> None:
        """Raise `SchemaMismatch` unless our table of acknowledgements is there."""

    def check_subscription(self, info: SubscriptionInfo) -> None:
        """Raise `ConfigurationError` or `SchemaMismatch` if a durable subscription cannot be kept."""

    def destination_of(self, container: Container) -> Destination:
        """Whose messages a container has."""
