"""ActiveMQ's three tables and our own as SQLAlchemy sees them, and the names that belong to one set of them.

ActiveMQ never quotes a name. PostgreSQL therefore keeps ``activemq_msgs`` in lower case, MySQL and MariaDB keep
``ACTIVEMQ_MSGS`` as written, SQLite does not care. The names here are cased the way the database keeps them, so that
SQLAlchemy finds what a Java broker made, a Java broker finds what we made, and quoting makes no difference.

The shape is that of ActiveMQ 5.17 to 6.3 (columns, types, order). Two things are ours: the collation, which tells
``queue://A`` from ``queue://a``, and the lean set of indexes. A Java broker adds the indexes it misses when it
starts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, Column, Index, LargeBinary, MetaData, PrimaryKeyConstraint, String, Table, text
from sqlalchemy.engine import Connection

from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.dialect import Database, database_for, database_of
from jdbcstore.store.jdbc.own_tables import (
    ACKED,
    LOAD_PARTS,
    LOADS,
    OWN_TABLES,
    PREPARED_ACKS,
    PRODUCERS,
    SCHEDULED,
    STAGED,
    TERM,
    ColumnKind,
    OwnTable,
)
from jdbcstore.store.jdbc.statements import PAGE_INDEX
from jdbcstore.store.jdbc.table_names import TableNames

__all__ = ["Tables"]


class Tables:
    """One set of ActiveMQ's three tables and our own.

    Columns are reached by ActiveMQ's upper-case names on every database: ``tables.messages.c.CONTAINER``.

    Args:
        names: what they are called, or the prefix of the usual names.
        database: where they are, or SQLAlchemy's name of that; says how names are cased and bytes are kept.

    Raises:
        ConfigurationError: a name would need quotes, or there is no such database.
    """

    #: ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, MSG, PRIORITY, XID
    messages: Table
    #: CONTAINER, SUB_DEST, CLIENT_ID, SUB_NAME, SELECTOR, LAST_ACKED_ID, PRIORITY, XID
    acks: Table
    #: ID, TIME, BROKER_NAME; one row with ID 1
    lock: Table
    #: Our own tables, declared in `own_tables`.
    term: Table
    producers: Table
    acked: Table
    scheduled: Table
    prepared_acks: Table
    loads: Table
    load_parts: Table
    staged: Table

    def __init__(self, names: TableNames | str, database: Database | str) -> None:
        self.names = TableNames.of(names)
        self.database = database_for(database) if isinstance(database, str) else database
        self.schema = self.database.schema
        prefix = self.names.prefix
        if prefix[:1].isdigit() and self.schema.names_begin_with_letter:
            raise ConfigurationError(f"table_prefix {prefix!r} must not begin with a digit on {self.database.name}")
        self.metadata = MetaData()
        self.messages = self._messages()
        self.acks = self._acks()
        self.lock = self._lock()
        self.own = {table: self._own(table) for table in OWN_TABLES}
        self.term, self.producers, self.acked = self.own[TERM], self.own[PRODUCERS], self.own[ACKED]
        self.scheduled, self.prepared_acks = self.own[SCHEDULED], self.own[PREPARED_ACKS]
        self.loads, self.load_parts, self.staged = self.own[LOADS], self.own[LOAD_PARTS], self.own[STAGED]
        self.own_indexes = {
            table: tuple(self._index(index.name, self.own[table], *index.columns) for index in table.indexes)
            for table in OWN_TABLES
        }
        self.page_index = self.cased(self.names.full(PAGE_INDEX))
        #: Where Alembic keeps our revision, apart from an ``alembic_version`` that the user may have.
        self.version_table = self.cased(self.names.full("JDBCSTORE_VERSION"))
        self.messages_indexes = (
            self._index("ACTIVEMQ_MSGS_MIDX", self.messages, "MSGID_PROD", "MSGID_SEQ"),
            self._index("ACTIVEMQ_MSGS_XIDX", self.messages, "XID", only="XID IS NOT NULL"),
            self._index("ACTIVEMQ_MSGS_EIDX", self.messages, "EXPIRATION", "ID", only="EXPIRATION > 0"),
            self._index(PAGE_INDEX, self.messages, "CONTAINER", "PRIORITY DESC", "ID"),
        )
        self.acks_indexes = (self._index("ACTIVEMQ_ACKS_XIDX", self.acks, "XID", only="XID IS NOT NULL"),)

    @classmethod
    def on(cls, connection: Connection, names: TableNames | str) -> Tables:
        """The tables as this server names them; a ``mysql`` URL that leads to MariaDB counts as MariaDB."""
        return _tables(TableNames.of(names), database_of(connection))

    @property
    def all(self) -> tuple[Table, Table, Table]:
        """ActiveMQ's three tables in the order in which it creates them."""
        return self.messages, self.acks, self.lock

    def cased(self, name: str) -> str:
        """A name of ActiveMQ's statements as the database keeps it."""
        return self.schema.cased(name)

    def plain(self, name: str) -> str:
        """A name as ActiveMQ writes it by default, without the prefix."""
        return self.names.plain(name)

    def _messages(self) -> Table:
        return self._table(
            "ACTIVEMQ_MSGS",
            self._column("ID", BigInteger(), nullable=False),
            self._column("CONTAINER", String(250), nullable=False),
            self._column("MSGID_PROD", String(250)),
            self._column("MSGID_SEQ", BigInteger()),
            self._column("EXPIRATION", BigInteger()),
            self._column("MSG", self.schema.blob_type()),
            self._column("PRIORITY", BigInteger()),
            self._column("XID", String(250)),
            key=("ID",),
        )

    def _acks(self) -> Table:
        return self._table(
            "ACTIVEMQ_ACKS",
            self._column("CONTAINER", String(250), nullable=False),
            self._column("SUB_DEST", String(250)),
            self._column("CLIENT_ID", String(250), nullable=False),
            self._column("SUB_NAME", String(250), nullable=False),
            self._column("SELECTOR", String(250)),
            self._column("LAST_ACKED_ID", BigInteger()),
            self._column("PRIORITY", BigInteger(), nullable=False, default="5"),
            self._column("XID", String(250)),
            key=("CONTAINER", "CLIENT_ID", "SUB_NAME", "PRIORITY"),
        )

    def _lock(self) -> Table:
        return self._table(
            "ACTIVEMQ_LOCK",
            self._column("ID", BigInteger(), nullable=False),
            self._column("TIME", BigInteger()),
            self._column("BROKER_NAME", String(250)),
            key=("ID",),
        )

    def _own(self, table: OwnTable) -> Table:
        types: dict[ColumnKind, BigInteger | LargeBinary | String] = {
            ColumnKind.NUMBER: BigInteger(),
            ColumnKind.TEXT: String(250),
            ColumnKind.WORD: String(20),
            ColumnKind.MESSAGE: self.schema.blob_type(),
        }
        columns = [
            self._column(column.name, types[column.kind], nullable=column.nullable, default=column.default)
            for column in table.columns
        ]
        return self._table(table.name, *columns, key=table.key)

    def _column(
        self, name: str, type_: BigInteger | LargeBinary | String, *, nullable: bool = True, default: str | None = None
    ) -> Column[Any]:
        server_default = None if default is None else text(default)
        return Column(
            self.cased(name), type_, key=name, nullable=nullable, autoincrement=False, server_default=server_default
        )

    def _table(self, name: str, *columns: Column[Any], key: tuple[str, ...]) -> Table:
        # The key has no name of ours. PostgreSQL then calls that of ACKS "activemq_acks_pkey", which is the name that a
        # starting Java broker drops and makes again with the same four columns. With a prefix it is another name; then
        # its DROP and its ADD both fail, and ActiveMQ goes on.
        return Table(
            self.cased(self.names.full(name)),
            self.metadata,
            *columns,
            PrimaryKeyConstraint(*key),
            **self.schema.table_options(),
        )

    def _index(self, name: str, table: Table, *columns: str, only: str | None = None) -> Index:
        options = {} if only is None else self.schema.index_options(text(self.cased(only)))
        return Index(
            self.cased(self.names.full(name)),
            *(
                table.c[column.removesuffix(" DESC")].desc() if column.endswith(" DESC") else table.c[column]
                for column in columns
            ),
            **options,
        )


@lru_cache(maxsize=64)
def _tables(names: TableNames, database: Database) -> Tables:
    """Nobody changes a set of tables, and it takes longer to describe them than to look whether they are there."""
    return Tables(names, database)
