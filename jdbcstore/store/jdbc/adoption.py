"""Bringing any schema that ActiveMQ ever made to the shape of a new one: each step only where it is needed.

Most databases do all of it in one transaction. Some commit at every ALTER, so each step leaves a schema that both
brokers can work on, and starting over after a crash goes on where it stopped. Nothing that ActiveMQ
made is dropped, except a key or a type that is replaced. No message is read or changed; only its missing priority is
filled in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from sqlalchemy import Connection, Executable, Table, func, insert, inspect, select, text, update
from sqlalchemy.schema import CreateIndex, CreateTable

from jdbcstore.errors import SchemaMismatch
from jdbcstore.store.jdbc.own_tables import OwnTable
from jdbcstore.store.jdbc.schema_inspection import hidden_subscriptions, inspect_schema
from jdbcstore.store.jdbc.schema_report import ACKS_KEY, Remedy, SchemaReport
from jdbcstore.store.jdbc.tables import Tables

__all__ = ["add_expiry_index", "add_own_table", "adopt", "create", "create_own_table", "refuse_by_hand"]

_logger = logging.getLogger(__name__)

#: How many rows get their missing priority at a time.
_ROWS_AT_ONCE: Final = 10_000
_EXPIRY_INDEX: Final = "ACTIVEMQ_MSGS_EIDX"
#: Below every id.
_LEAST_ID: Final = -(1 << 63)


def create(execute: Callable[[Executable], object], tables: Tables, only: Iterable[str] | None = None) -> None:
    """Create tables with their indexes, and the row of the lock table.

    Args:
        execute: runs a statement, or writes it down.
        tables: of which set.
        only: names, without the prefix, of the tables to create; all by default.
    """
    chosen = None if only is None else {tables.cased(tables.names.full(name)) for name in only}
    indexes = {tables.messages: tables.messages_indexes, tables.acks: tables.acks_indexes}
    for table in tables.all:
        if chosen is not None and table.name not in chosen:
            continue
        execute(CreateTable(table))
        for index in indexes.get(table, ()):
            execute(CreateIndex(index))
        if table is tables.lock:
            execute(insert(tables.lock).values(ID=1))


def adopt(connection: Connection, tables: Tables) -> None:
    """Create what is missing and change what is not as in a new schema. Does nothing to a schema that is.

    Args:
        connection: to change them on; the caller commits.
        tables: of which set.

    Raises:
        SchemaMismatch: there is something that must be decided by hand; nothing was changed.
    """
    report = inspect_schema(connection, tables.names)
    refuse_by_hand(report)
    _Adoption(connection, tables, report).run()


def create_own_table(execute: Callable[[Executable], object], tables: Tables, own: OwnTable) -> None:
    """Create a table of our own with its indexes and its first row; the other arguments are those of `create`."""
    execute(CreateTable(tables.own[own]))
    for index in tables.own_indexes[own]:
        execute(CreateIndex(index))
    if own.seed is not None:
        execute(insert(tables.own[own]).values(own.seed))


def add_own_table(connection: Connection, tables: Tables, own: OwnTable) -> None:
    """Create what is missing of a table of our own: an earlier attempt may have stopped anywhere in between.

    Args:
        connection: to change it on; the caller commits.
        tables: of which set.
        own: which one.
    """
    table, catalogue = tables.own[own], inspect(connection)
    if not catalogue.has_table(table.name):
        create_own_table(connection.execute, tables, own)
        return
    if own.indexes:
        names = {tables.plain(str(index["name"])) for index in catalogue.get_indexes(table.name)}
        for index in tables.own_indexes[own]:
            if tables.plain(str(index.name)) not in names:
                connection.execute(CreateIndex(index))
    if own.seed is not None and not _has_first_row(connection, table):
        connection.execute(insert(table).values(own.seed))


def _has_first_row(connection: Connection, table: Table) -> bool:
    return connection.execute(select(table.c.ID).where(table.c.ID == 1)).first() is not None


def add_expiry_index(connection: Connection, tables: Tables) -> None:
    """Create the index of EXPIRATION unless there is one; the arguments are those of `add_own_table`."""
    indexes = inspect(connection).get_indexes(tables.messages.name)
    if _EXPIRY_INDEX not in {tables.plain(str(index["name"])) for index in indexes}:
        for index in tables.messages_indexes:
            if tables.plain(str(index.name)) == _EXPIRY_INDEX:
                connection.execute(CreateIndex(index))


def refuse_by_hand(report: SchemaReport) -> None:
    """Raise `SchemaMismatch` if there is something that must be decided by hand."""
    by_hand = [found.text for found in report.findings() if found.remedy is Remedy.BY_HAND]
    if by_hand:
        raise SchemaMismatch("cannot upgrade: " + "; ".join(by_hand))


class _Adoption:
    """The steps, in an order in which each can rely on those before."""

    def __init__(self, connection: Connection, tables: Tables, report: SchemaReport) -> None:
        self.connection = connection
        self.tables = tables
        self.report = report
        self.schema = tables.schema

    def run(self) -> None:
        self._refuse_transactions_in_doubt()
        self._refuse_doubled_subscriptions()
        if self.report.missing_tables:
            self._note(f"creating {', '.join(self.report.missing_tables)}")
            create(self.connection.execute, self.tables, self.report.missing_tables)
        self._repair_tables()
        self._widen_messages()
        self._add_columns()
        self._make_xids_text()
        self._fill_priorities()
        self._complete_acks_key()
        self._show_hidden_subscriptions()
        self._add_indexes()
        if not self.report.has_lock_row:
            self._note("adding the row of ACTIVEMQ_LOCK")
            self.connection.execute(insert(self.tables.lock).values(ID=1))

    def _note(self, step: str) -> None:
        _logger.info("schema %s: %s", self.tables.messages.name, step)

    def _alter(self, table: Table, change: str) -> None:
        self._note(f"ALTER TABLE {table.name} {change}")
        self.connection.execute(text(f"ALTER TABLE {table.name} {change}"))

    def _table(self, plain_name: str) -> Table:
        return next(table for table in self.tables.all if self.tables.plain(table.name) == plain_name)

    def _was_there(self, table: Table) -> bool:
        return self.tables.plain(table.name) not in self.report.missing_tables

    def _refuse_transactions_in_doubt(self) -> None:
        """Before 5.9 prepared transactions were raw bytes. Only the broker that wrote them can finish them."""
        for name in self.report.binary_xids:
            xid = self._table(name).c.XID
            if self.connection.execute(select(1).where(xid.is_not(None)).limit(1)).first():
                raise SchemaMismatch(
                    f"{self.tables.names.full(name)} has XA transactions that were prepared by an ActiveMQ of before"
                    " 5.9: commit them or roll them back with that broker, then upgrade again"
                )

    def _refuse_doubled_subscriptions(self) -> None:
        """Without a key a subscription may stand there twice, and nobody knows which row is right."""
        if self.report.acks_key:
            return
        key = [
            self.tables.acks.c[name] for name in ACKS_KEY if f"ACTIVEMQ_ACKS.{name}" not in self.report.missing_columns
        ]
        doubled = self.connection.execute(select(*key).group_by(*key).having(func.count() > 1).limit(1)).first()
        if doubled:
            raise SchemaMismatch(
                f"{self.tables.acks.name} has no key and more than one row for the subscription {tuple(doubled)}:"
                " delete all but the right one, then upgrade again"
            )

    def _repair_tables(self) -> None:
        without_transactions = {found.split()[0] for found in self.report.engines}
        for table in filter(self._was_there, self.tables.all):
            has_transactions = self.tables.plain(table.name) not in without_transactions
            change = self.schema.repair(self.connection, table.name, has_transactions=has_transactions)
            if change is not None:
                self._alter(table, change)

    def _widen_messages(self) -> None:
        if self.schema.widening is not None and self.report.message_type != self.schema.message_type:
            self._alter(self.tables.messages, self.schema.widening)

    def _add_columns(self) -> None:
        for full_name in self.report.missing_columns:
            table_name, column = full_name.split(".")
            table = self._table(table_name)
            wanted = table.c[column]
            default = " DEFAULT 5 NOT NULL" if not wanted.nullable else ""
            type_ = wanted.type.compile(dialect=self.connection.dialect)
            self._alter(table, f"ADD {wanted.name} {type_}{default}")
            if full_name == "ACTIVEMQ_ACKS.SUB_DEST":
                # Without wildcards a subscription is to the topic itself.
                self.connection.execute(update(table).values(SUB_DEST=table.c.CONTAINER))

    def _make_xids_text(self) -> None:
        for name in self.report.binary_xids:
            if self.schema.xid_as_text is not None:  # every value is NULL, that was made sure of
                self._alter(self._table(name), self.schema.xid_as_text)

    def _fill_priorities(self) -> None:
        """Give the messages of before 5.4 the priority of all others, a range of ids at a time."""
        if self.report.null_priorities is False:
            return
        table, id_ = self.tables.messages, self.tables.messages.c.ID
        after, filled = _LEAST_ID, 0
        while True:
            ids = select(id_).where(id_ > after).order_by(id_).limit(_ROWS_AT_ONCE)
            upto = self.connection.execute(select(func.max(ids.subquery().c.ID))).scalar()
            if upto is None:
                break
            chosen = (id_.between(after + 1, upto), table.c.PRIORITY.is_(None))
            filled += self.connection.execute(update(table).where(*chosen).values(PRIORITY=0)).rowcount
            if self.schema.commits_each_change:
                self.connection.commit()  # the ALTERs committed anyway; undo of millions of rows would not end
            after = upto
        if filled:
            self._note(f"gave {filled} messages priority 0")

    def _complete_acks_key(self) -> None:
        if set(self.report.acks_key) == set(ACKS_KEY):
            return
        acks = self.tables.acks
        columns = [acks.c[name].name for name in ACKS_KEY]
        change = self.schema.key_change(self.connection, acks.name, columns, has_key=bool(self.report.acks_key))
        if change is None:
            self._rebuild_acks()
        else:
            self._alter(acks, change)

    def _rebuild_acks(self) -> None:
        """Where no key can be changed: copy the table."""
        acks = self.tables.acks
        old = f"{acks.name}_OLD"
        names = ", ".join(column.name for column in acks.c)
        self._alter(acks, f"RENAME TO {old}")
        self.connection.execute(CreateTable(acks))
        self.connection.execute(text(f"INSERT INTO {acks.name} ({names}) SELECT {names} FROM {old}"))
        self.connection.execute(text(f"DROP TABLE {old}"))

    def _show_hidden_subscriptions(self) -> None:
        acks = self.tables.acks
        hidden = hidden_subscriptions(self.connection, self.tables)
        for container, client_id, sub_name in hidden:
            chosen = update(acks).filter_by(CONTAINER=container, CLIENT_ID=client_id, SUB_NAME=sub_name, PRIORITY=5)
            self.connection.execute(chosen.values(PRIORITY=0))
        if hidden:
            self._note(f"moved {len(hidden)} durable subscriptions from priority 5 to 0")

    def _add_indexes(self) -> None:
        missing = inspect_schema(self.connection, self.tables.names).missing_indexes
        for index in (*self.tables.messages_indexes, *self.tables.acks_indexes):
            if self.tables.plain(str(index.name)) in missing:
                self._note(f"creating index {index.name}")
                self.connection.execute(CreateIndex(index))
