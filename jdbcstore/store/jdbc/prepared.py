"""The transactions in doubt of a store: what is read of them at the start, and kept in memory from then on.

A message that is added or removed in doubt has an XID (`xid`). What is acknowledged in doubt for a durable subscription
stands in our own table JDBCSTORE_PREPARED_ACKS, an interval for each message (see `marks`: between the message before
and this one there is none), and for Java brokers also in column XID of the subscription's row. That column has room for
one transaction, and for one number: up to where the subscription will have acknowledged. We write there what is true
even so: the mark as it would be after that transaction. A Java broker that commits it delivers some messages again,
and loses none.

A Java broker does not know our table. What it does to a transaction meanwhile shows when all is read again:

* Our row says that the column names the transaction, and it does not any more: a Java broker has committed it, rolled
  it back, or put another one over it. What it acknowledged is delivered again, unless the mark says otherwise.
* The column names a transaction that our table knows nothing of: a Java broker has prepared it, and with it everything
  up to the number is acknowledged, since there is no more to it for a Java broker.
* The message is gone, or another one has its id: there is nothing to acknowledge.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, text

from jdbcstore.errors import CodecError, SchemaMismatch
from jdbcstore.identifiers import XATransactionId
from jdbcstore.message import Message
from jdbcstore.openwire import unmarshal_message
from jdbcstore.store.jdbc.marks import Range
from jdbcstore.store.jdbc.rows import Container
from jdbcstore.store.jdbc.statements import Statements
from jdbcstore.store.jdbc.subscriptions import Registry, Shown, Subscription, row_of
from jdbcstore.store.jdbc.xid import AckXid, read_ack_xid, read_message_xid, read_xid
from jdbcstore.subscription import SubscriptionKey

__all__ = ["AddedRow", "Doubts", "Prepared", "messages_of"]

log = logging.getLogger(__name__)

#: Message bodies read at once.
_BODIES_AT_ONCE: Final = 20


class AddedRow(NamedTuple):
    """A message that is added in doubt."""

    id: int
    container: Container
    level: int | None


@dataclass(slots=True)
class Prepared:
    """One transaction in doubt.

    Args:
        added: in the order of ids.
        removed: ids, and where they were.
        acknowledged: of each subscription, by PRIORITY of its row, an interval for each message.
        is_certain: whether it is known to be in the database so; if not, its next outcome looks first.
    """

    added: list[AddedRow] = field(default_factory=list)
    removed: list[tuple[int, Container]] = field(default_factory=list)
    acknowledged: dict[Subscription, dict[int, list[Range]]] = field(default_factory=dict)
    is_certain: bool = True


class Doubts:
    """All transactions in doubt of one store. Changed by the writer only.

    Args:
        statements: names of the tables.
        registry: the durable subscriptions.
        container_of: the container of a name.
        has_table: whether our table of prepared acknowledgements is there.
    """

    def __init__(
        self, statements: Statements, registry: Registry, container_of: Callable[[str], Container], *, has_table: bool
    ) -> None:
        self.has_table = has_table
        self.by_xid: dict[XATransactionId, Prepared] = {}
        #: Ids of messages that are in doubt, whatever the doubt is about.
        self.ids: set[int] = set()
        self._statements = statements
        self._registry = registry
        self._container_of = container_of

    def require_table(self) -> None:
        """Raise `SchemaMismatch` unless our table is there."""
        if not self.has_table:
            raise SchemaMismatch(
                f"the store has no table {self._statements.prepared_acks}, so no XA transaction can acknowledge"
                " messages of durable subscriptions. Run: jdbcstore schema upgrade URL, then start the broker again"
            )

    def load(self, connection: Connection) -> None:
        """Read everything. The registry has read its subscriptions."""
        for xid, prepared in self.read(connection).items():
            self.put(xid, prepared)
            for subscription, rows in prepared.acknowledged.items():
                subscription.in_doubt = {**subscription.in_doubt, xid: rows}
        self._look_at_columns(connection, self.by_xid)
        for prepared in self.by_xid.values():
            for subscription in prepared.acknowledged:
                subscription.see()
        if self.by_xid:
            log.warning("transactions in doubt count=%d; their outcome is up to who prepared them", len(self.by_xid))

    def look_again(self, connection: Connection, xid: XATransactionId) -> Prepared:
        """What is in doubt of one transaction that nobody is certain of. The writer's."""
        found = self.read(connection).get(xid, Prepared())
        self._look_at_columns(connection, {xid})
        return found

    def _look_at_columns(self, connection: Connection, of: Collection[XATransactionId]) -> None:
        for subscription, row, column, xid_column in self._columns(connection):
            if column.transaction_id in of:
                subscription.shown = {**subscription.shown, row: Shown(column.transaction_id, xid_column)}

    def clear(self) -> None:
        """Everything was deleted."""
        self.by_xid.clear()
        self.ids.clear()

    def put(self, xid: XATransactionId, prepared: Prepared) -> None:
        """A transaction is in doubt from now on."""
        self.by_xid[xid] = prepared
        self.ids.update(row.id for row in prepared.added)
        self.ids.update(id for id, _ in prepared.removed)

    def drop(self, xid: XATransactionId) -> None:
        """It is not any more."""
        prepared = self.by_xid.pop(xid, None)
        if prepared is not None:
            self.ids.difference_update(row.id for row in prepared.added)
            self.ids.difference_update(id for id, _ in prepared.removed)

    def read(self, connection: Connection) -> dict[XATransactionId, Prepared]:
        """What is in doubt by the tables, just now. Changes nothing."""
        found: dict[XATransactionId, Prepared] = {}
        added: list[tuple[AddedRow, XATransactionId]] = []
        for id, column, name, level in connection.execute(text(self._statements.messages_in_doubt)):
            try:
                xid, is_added = read_message_xid(_as_text(column))
            except CodecError as error:
                log.warning("message in doubt whose transaction cannot be read id=%d error=%r", id, str(error))
                continue
            container = self._container_of(name)
            if is_added:
                added.append((AddedRow(id, container, level), xid))
            else:
                found.setdefault(xid, Prepared()).removed.append((id, container))
        self._attribute(connection, sorted(added, key=lambda one: one[0].id), found)
        self._read_acknowledged(connection, found)
        return found

    def _attribute(
        self,
        connection: Connection,
        added: Sequence[tuple[AddedRow, XATransactionId]],
        found: dict[XATransactionId, Prepared],
    ) -> None:
        """An added message belongs to the transaction that stands inside it; the column's bytes may be left over."""
        for start in range(0, len(added), _BODIES_AT_ONCE):
            some = added[start : start + _BODIES_AT_ONCE]
            inside = {id: message.transaction_id for id, message in messages_of(connection, self._statements, some)}
            for row, column in some:
                xid = inside.get(row.id)
                found.setdefault(xid if isinstance(xid, XATransactionId) else column, Prepared()).added.append(row)

    def _columns(self, connection: Connection) -> Iterator[tuple[Subscription, int, AckXid, str]]:
        """What the rows of subscriptions say."""
        for container, client_id, name, row, column in connection.execute(text(self._statements.acks_in_doubt)):
            subscription = self._subscription(container, client_id, name)
            if subscription is None or row not in subscription.rows:
                continue
            try:
                yield subscription, int(row), read_ack_xid(_as_text(column)), _as_text(column)
            except CodecError as error:
                log.warning(
                    "subscription whose transaction cannot be read client_id=%r error=%r", client_id, str(error)
                )

    def _read_acknowledged(self, connection: Connection, found: dict[XATransactionId, Prepared]) -> None:
        columns = {(subscription, row): column for subscription, row, column, _ in self._columns(connection)}
        ours: set[tuple[XATransactionId, Subscription, int]] = set()
        for xid, row, subscription, interval, level in self._our_rows(connection, columns):
            ours.add((xid, subscription, row))
            rows = found.setdefault(xid, Prepared()).acknowledged.setdefault(subscription, {})
            rows.setdefault(row_of(level, subscription.rows), []).append(interval)
        for (subscription, row), column in columns.items():
            if (column.transaction_id, subscription, row) not in ours:
                rows = found.setdefault(column.transaction_id, Prepared()).acknowledged.setdefault(subscription, {})
                mark = subscription.rows[row].mark
                if column.upto > mark:
                    rows.setdefault(row, []).append(Range(mark + 1, column.upto))

    def _our_rows(
        self, connection: Connection, columns: Mapping[tuple[Subscription, int], AckXid]
    ) -> Iterator[tuple[XATransactionId, int, Subscription, Range, int | None]]:
        """The rows of our table that hold: transaction, row, whose, interval, PRIORITY of the message."""
        if not self.has_table:
            return
        for xid_text, container, client_id, name, row, first, last, mark, shown, level, id in connection.execute(
            text(self._statements.prepared_acks_all)
        ):
            xid, subscription = read_xid(xid_text), self._subscription(container, client_id, name)
            if subscription is None or row not in subscription.rows or id is None:
                continue
            column = columns.get((subscription, row))
            is_decided = bool(shown) and (column is None or column.transaction_id != xid)
            if not is_decided and subscription.rows[row].mark >= mark:
                yield xid, int(row), subscription, Range(first, last), level

    def _subscription(self, container: str, client_id: str, name: str) -> Subscription | None:
        topic = self._registry.topics.get(container)
        return None if topic is None else topic.by_key.get(SubscriptionKey(client_id, name))


def messages_of(
    connection: Connection, statements: Statements, added: Sequence[tuple[AddedRow, Any]]
) -> list[tuple[int, Message]]:
    """The messages of some added rows that can be read, in the order of their ids, which databases do not keep."""
    blobs = text(statements.message_blobs).bindparams(bindparam("ids", expanding=True))
    found = []
    for id, blob in connection.execute(blobs, {"ids": [row.id for row, _ in added]}):
        try:
            message = unmarshal_message(bytes(blob or b""))
        except CodecError as error:
            log.warning("message in doubt that cannot be read id=%d error=%r", id, str(error))
            continue
        if message.message_id is not None:
            message.message_id.broker_sequence_id = id
        found.append((int(id), message))
    return sorted(found, key=itemgetter(0))


def _as_text(column: str | bytes) -> str:
    """XID; before ActiveMQ 5.9 a column of bytes."""
    return column if isinstance(column, str) else bytes(column).decode("latin-1")
