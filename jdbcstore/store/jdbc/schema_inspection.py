"""Reading a schema: from the database's catalogues to a `SchemaReport`. Writes nothing, reads no message.

Every variant that ActiveMQ 4 to 6 left behind is looked for. The tables are frozen since 5.17, but nothing ever
brought older ones to that shape except the statements that a Java broker tries, and may fail, at each start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection, Table, and_, exists, select, text

from jdbcstore.store.jdbc.dialect.base.catalogue import FoundColumn, FoundTable
from jdbcstore.store.jdbc.migration import known_revisions
from jdbcstore.store.jdbc.own_tables import CAPABILITIES, OwnTable
from jdbcstore.store.jdbc.schema_report import ACKS_KEY, SchemaKind, SchemaReport
from jdbcstore.store.jdbc.statements import PAGE_INDEX
from jdbcstore.store.jdbc.table_names import TableNames
from jdbcstore.store.jdbc.tables import Tables

__all__ = ["MessagesTable", "hidden_subscriptions", "inspect_messages", "inspect_schema"]

#: Columns that some version of ActiveMQ did without; the upgrade adds them.
_ADDED_LATER: Final = frozenset(
    {
        "ACTIVEMQ_MSGS.PRIORITY",
        "ACTIVEMQ_MSGS.XID",
        "ACTIVEMQ_ACKS.SUB_DEST",
        "ACTIVEMQ_ACKS.PRIORITY",
        "ACTIVEMQ_ACKS.XID",
    }
)


@dataclass(frozen=True, slots=True)
class MessagesTable:
    """What a reader has to know of the message table; the fields are those of `SchemaReport`."""

    missing_columns: tuple[str, ...]
    foreign_columns: tuple[str, ...]
    collation_is_binary: bool


def inspect_schema(connection: Connection, names: TableNames | str = "") -> SchemaReport:
    """Find out what is there. Catalogue look-ups and a few index probes; nothing is written or locked.

    Args:
        connection: any; the transaction it is in, or that this begins, is the caller's.
        names: of the tables, or the prefix of the usual ones.

    Raises:
        ConfigurationError: they cannot be names.
    """
    tables = Tables.on(connection, names)
    with tables.schema.looked_at(connection):
        return _Inspection(connection, tables).report()


def inspect_messages(connection: Connection, names: TableNames | str = "") -> MessagesTable | None:
    """The same of the message table alone, for those who only read it; None when it is missing."""
    tables = Tables.on(connection, names)
    with tables.schema.looked_at(connection):
        return _Inspection(connection, tables).messages()


def hidden_subscriptions(connection: Connection, tables: Tables) -> list[tuple[str, str, str]]:
    """CONTAINER, CLIENT_ID and SUB_NAME of subscriptions whose only row got the default 5 when 5.4 added the column.

    A subscription to a topic without priorities has a row at 0, one with priorities has ten; who lists them asks for 0.
    """
    alone, other = tables.acks.alias(), tables.acks.alias()
    names = ("CONTAINER", "CLIENT_ID", "SUB_NAME")
    has_another = exists().where(and_(*(other.c[name] == alone.c[name] for name in names)), other.c.PRIORITY != 5)
    query = select(*(alone.c[name] for name in names)).where(alone.c.PRIORITY == 5, ~has_another)
    return [(container, client_id, sub_name) for container, client_id, sub_name in connection.execute(query)]


class _Inspection:
    """One look at one set of tables."""

    def __init__(self, connection: Connection, tables: Tables) -> None:
        self.connection = connection
        self.tables = tables
        self._found = tables.schema.found_tables(
            connection, [*(table.name for table in (*tables.all, *tables.own.values())), tables.version_table]
        )
        self.shapes = {tables.plain(table.name): of for table in tables.all if (of := self._found.get(table.name))}

    def messages(self) -> MessagesTable | None:
        """Of the message table."""
        if "ACTIVEMQ_MSGS" not in self.shapes:
            return None
        missing, foreign = self._columns_amiss()
        return MessagesTable(missing, foreign, self._collation()[1])

    def report(self) -> SchemaReport:
        """Everything, as values."""
        messages, acks = self.shapes.get("ACTIVEMQ_MSGS"), self.shapes.get("ACTIVEMQ_ACKS")
        missing_columns, foreign_columns = self._columns_amiss()
        message_type, message_bytes_max = self._message_type()
        collation, collation_is_binary = self._collation() if messages else (None, True)
        indexes = {name for shape in self.shapes.values() for name in self._indexes(shape)}
        report = SchemaReport(
            names=self.tables.names,
            dialect=self.tables.database.name,
            kind=SchemaKind.NONE,
            revision=self._revision(),
            head=known_revisions()[-1],
            missing_tables=tuple(
                name for table in self.tables.all if (name := self.tables.plain(table.name)) not in self.shapes
            ),
            missing_columns=missing_columns,
            foreign_columns=foreign_columns,
            engines=self._engines(),
            message_type=message_type,
            message_bytes_max=message_bytes_max,
            null_priorities=False,
            hidden_subscriptions=0,
            acks_key=acks.key if acks else ACKS_KEY,
            binary_xids=tuple(
                name
                for name, shape in self.shapes.items()
                if "XID" in shape.columns and self._keeps_bytes(shape.columns["XID"])
            ),
            container_is_nullable=bool(
                messages and "CONTAINER" in messages.columns and messages.columns["CONTAINER"].is_nullable
            ),
            collation=collation,
            collation_is_binary=collation_is_binary,
            has_lock_row=self._has_lock_row(),
            indexes=tuple(sorted(indexes)),
            missing_indexes=tuple(sorted(self._expected_indexes() - indexes)),
            has_paging_index=PAGE_INDEX in indexes,
            capabilities=tuple(
                capability.name for capability in CAPABILITIES if all(map(self._is_complete, capability.tables))
            ),
        )
        report = replace(report, kind=_kind(report))
        if report.kind is SchemaKind.OURS:
            return report  # rows that the adoption put right do not come back
        return replace(
            report, null_priorities=self._null_priorities(), hidden_subscriptions=self._hidden_subscriptions()
        )

    def _indexes(self, found: FoundTable) -> set[str]:
        return {self.tables.plain(index) for index in found.indexes}

    def _revision(self) -> str | None:
        if self.tables.version_table not in self._found:
            return None
        version = text(f"SELECT version_num FROM {self.tables.version_table}")
        found: str | None = self.connection.execute(version).scalar_one_or_none()
        return found

    def _columns_amiss(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Columns that the upgrade can add, and those that make it something else than ActiveMQ's tables."""
        missing: list[str] = []
        foreign: list[str] = []
        for table in self.tables.all:
            name = self.tables.plain(table.name)
            shape = self.shapes.get(name)
            for column in table.c if shape else ():
                full_name = f"{name}.{column.key}"
                found = shape.columns.get(str(column.key)) if shape else None
                if found is None:
                    (missing if full_name in _ADDED_LATER else foreign).append(full_name)
                elif column.key != "XID" and self._keeps_bytes(found, wanted=column.key == "MSG") != (
                    column.key == "MSG"
                ):
                    foreign.append(full_name)
        return tuple(missing), tuple(foreign)

    def _keeps_bytes(self, column: FoundColumn, *, wanted: bool = False) -> bool:
        """Whether a column is of a binary type; where any column takes any value, what is wanted."""
        return column.keeps_bytes if self.tables.schema.has_column_types else wanted

    def _message_type(self) -> tuple[str, int]:
        schema, shape = self.tables.schema, self.shapes.get("ACTIVEMQ_MSGS")
        if shape is None or "MSG" not in shape.columns:
            return schema.message_type, schema.message_bytes_max
        column = shape.columns["MSG"]
        return column.type, schema.message_bytes(column)

    def _collation(self) -> tuple[str | None, bool]:
        """The collation of CONTAINER, and whether it tells all names apart, also ``A`` from ``A`` and a space."""
        return self.tables.schema.container_collation(self.connection, self.tables.messages.name)

    def _engines(self) -> tuple[str, ...]:
        """Tables whose engine knows no transactions."""
        names = [table.name for table in self.tables.all]
        found = self.tables.schema.without_transactions(self.connection, names)
        return tuple(f"{self.tables.plain(table)} ({engine})" for table, engine in found)

    def _has_lock_row(self) -> bool:
        if "ACTIVEMQ_LOCK" not in self.shapes:
            return True
        return self._has_row(self.tables.lock)

    def _is_complete(self, own: OwnTable) -> bool:
        """Whether a table of our own is there, with its indexes and its first row."""
        tables, table = self.tables, self.tables.own[own]
        found = self._found.get(table.name)
        if found is None:
            return False
        if not self._indexes(found) >= {tables.plain(str(index.name)) for index in tables.own_indexes[own]}:
            return False
        return own.seed is None or self._has_row(table)

    def _has_row(self, table: Table) -> bool:
        return self.connection.execute(select(table.c.ID).where(table.c.ID == 1)).first() is not None

    def _expected_indexes(self) -> set[str]:
        """The indexes of a new schema, of the tables that are there."""
        expected: set[str] = set()
        if "ACTIVEMQ_MSGS" in self.shapes:
            expected |= {self.tables.plain(str(index.name)) for index in self.tables.messages_indexes}
        if "ACTIVEMQ_ACKS" in self.shapes:
            expected |= {self.tables.plain(str(index.name)) for index in self.tables.acks_indexes}
        return expected

    def _null_priorities(self) -> bool | None:
        """Whether a row has no priority, by an index probe; None when there is no index to ask."""
        messages, table = self.shapes.get("ACTIVEMQ_MSGS"), self.tables.messages
        if messages is None:
            return False
        if not any(columns[:1] == ("PRIORITY",) for columns in messages.indexes.values()):
            return None
        query = select(table.c.PRIORITY).where(table.c.PRIORITY.is_(None)).limit(1)
        return self.connection.execute(query).first() is not None

    def _hidden_subscriptions(self) -> int:
        acks = self.shapes.get("ACTIVEMQ_ACKS")
        if acks is None or not {*ACKS_KEY} <= acks.columns.keys():
            return 0
        return len(hidden_subscriptions(self.connection, self.tables))


def _kind(report: SchemaReport) -> SchemaKind:
    if report.revision is None:
        nothing = len(report.missing_tables) == 3
        return SchemaKind.NONE if nothing else SchemaKind.ACTIVEMQ
    if report.revision not in known_revisions():
        return SchemaKind.NEWER
    return SchemaKind.OURS if report.has_all_of_a_new_schema else SchemaKind.MIXED
