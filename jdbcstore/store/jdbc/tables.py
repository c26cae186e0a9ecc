"""The three tables of ActiveMQ as SQLAlchemy sees them, and the names that belong to one set of them.

ActiveMQ never quotes a name. PostgreSQL therefore keeps ``activemq_msgs`` in lower case, MySQL and MariaDB keep
``ACTIVEMQ_MSGS`` as written, SQLite does not care. The names here are cased the way the database keeps them, so that
SQLAlchemy finds what a Java broker made, a Java broker finds what we made, and quoting makes no difference.

The shape is that of ActiveMQ 5.17 to 6.3 (columns, types, order). Two things are ours: the collation, which tells
``queue://A`` from ``queue://a``, and the lean set of indexes. A Java broker adds the indexes it misses when it
starts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from sqlalchemy import BigInteger, Column, Index, LargeBinary, MetaData, PrimaryKeyConstraint, String, Table, text
from sqlalchemy.dialects.mysql import LONGBLOB
from sqlalchemy.engine import Connection

from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.statements import (
    ACKED_TABLE,
    LOAD_PARTS_TABLE,
    LOADS_INDEX,
    LOADS_TABLE,
    PAGE_INDEX,
    PREPARED_ACKS_TABLE,
    PRODUCERS_TABLE,
    SCHEDULED_INDEX,
    SCHEDULED_TABLE,
    STAGED_TABLE,
    TERM_TABLE,
)
from jdbcstore.store.jdbc.table_names import TableNames

__all__ = ["Tables", "bytewise_collation"]

#: Collations that compare bytes and do not ignore trailing spaces (the plain ``utf8mb4_bin`` does ignore them).
_BYTEWISE: Final = {"mysql": "utf8mb4_0900_bin", "mariadb": "utf8mb4_nopad_bin"}

#: Databases whose names may not begin with a digit unless quoted.
_LETTER_FIRST: Final = frozenset({"postgresql", "sqlite"})


def bytewise_collation(dialect_name: str) -> str | None:
    """The collation of new tables on MySQL or MariaDB; None where equality is bytewise anyway."""
    return _BYTEWISE.get(dialect_name)


class Tables:
    """One set of the three tables.

    Columns are reached by ActiveMQ's upper-case names on every database: ``tables.messages.c.CONTAINER``.

    Args:
        names: what they are called, or the prefix of the usual names.
        dialect_name: ``postgresql``, ``mysql``, ``mariadb`` or ``sqlite``; says how names are cased and bytes are kept.

    Raises:
        ConfigurationError: a name would need quotes.
    """

    #: ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, MSG, PRIORITY, XID
    messages: Table
    #: CONTAINER, SUB_DEST, CLIENT_ID, SUB_NAME, SELECTOR, LAST_ACKED_ID, PRIORITY, XID
    acks: Table
    #: ID, TIME, BROKER_NAME; one row with ID 1
    lock: Table
    #: Ours: ID, TERM, HOLDER; one row with ID 1, changed by every takeover of one of our brokers
    term: Table
    #: Ours: PRODUCER, LAST_SEQ, LAST_USED_MS; how far the producers came that number their messages themselves
    producers: Table
    #: Ours: what durable subscriptions have acknowledged above their marks, as ranges of ids. CONTAINER, CLIENT_ID,
    #: SUB_NAME and PRIORITY are those of a row of ACKS, MARK was its mark then; the last two tell whose message the
    #: last of the range is.
    acked: Table
    #: Ours: messages that are to be sent later, one row each: JOB_ID, DUE_MS (epoch milliseconds), DELAY_MS, PERIOD_MS,
    #: REPEATS, CRON, MSG
    scheduled: Table
    #: Ours: what prepared transactions acknowledge of durable subscriptions, since one column XID in ACKS has room for
    #: one transaction. NUMBER counts within the transaction; the ids are as in JDBCSTORE_ACKED, the last one being that
    #: of the message; SHOWN is 1 if the row of ACKS names this transaction, too.
    prepared_acks: Table
    #: Ours: bulk loads. STATE and MODE are words of `loads`; HOLDER is the run whose parts count, and the name in
    #: ACTIVEMQ_LOCK while it writes by itself; FIRST_ID and LAST_ID are the ids it may have used; REBUILD is 1 while
    #: indexes may be missing for its sake; the times are the database's, epoch milliseconds.
    loads: Table
    #: Ours: JOB, PART, ROWS_LOADED; written in the transaction that brings the rows of the part
    load_parts: Table
    #: Ours: JOB, PART, NUMBER and the columns of a message: what a broker is to take in
    staged: Table

    def __init__(self, names: TableNames | str, dialect_name: str) -> None:
        self.names = TableNames.of(names)
        prefix = self.names.prefix
        if prefix[:1].isdigit() and dialect_name in _LETTER_FIRST:
            raise ConfigurationError(f"table_prefix {prefix!r} must not begin with a digit on {dialect_name}")
        self.dialect_name = dialect_name
        self.metadata = MetaData()
        self.messages = self._messages()
        self.acks = self._acks()
        self.lock = self._lock()
        self.term = self._term()
        self.producers = self._producers()
        self.acked = self._acked()
        self.scheduled = self._scheduled()
        self.scheduled_indexes = (self._index(SCHEDULED_INDEX, self.scheduled, "DUE_MS", "JOB_ID"),)
        self.prepared_acks = self._prepared_acks()
        self.loads = self._loads()
        self.loads_indexes = (self._index(LOADS_INDEX, self.loads, "STATE", "CHANGED_MS"),)
        self.load_parts = self._load_parts()
        self.staged = self._staged()
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
        is_mariadb = getattr(connection.dialect, "is_mariadb", False)
        return _tables(TableNames.of(names), "mariadb" if is_mariadb else connection.dialect.name)

    @property
    def all(self) -> tuple[Table, Table, Table]:
        """ActiveMQ's three tables in the order in which it creates them."""
        return self.messages, self.acks, self.lock

    def cased(self, name: str) -> str:
        """A name of ActiveMQ's statements as the database keeps it."""
        return name.lower() if self.dialect_name == "postgresql" else name

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
            self._column("MSG", _bytes()),
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

    def _term(self) -> Table:
        return self._table(
            TERM_TABLE,
            self._column("ID", BigInteger(), nullable=False),
            self._column("TERM", BigInteger(), nullable=False),
            self._column("HOLDER", String(250)),
            key=("ID",),
        )

    def _producers(self) -> Table:
        return self._table(
            PRODUCERS_TABLE,
            self._column("PRODUCER", String(250), nullable=False),
            self._column("LAST_SEQ", BigInteger(), nullable=False),
            self._column("LAST_USED_MS", BigInteger(), nullable=False),
            key=("PRODUCER",),
        )

    def _acked(self) -> Table:
        return self._table(
            ACKED_TABLE,
            self._column("CONTAINER", String(250), nullable=False),
            self._column("CLIENT_ID", String(250), nullable=False),
            self._column("SUB_NAME", String(250), nullable=False),
            self._column("PRIORITY", BigInteger(), nullable=False),
            self._column("FIRST_ID", BigInteger(), nullable=False),
            self._column("LAST_ID", BigInteger(), nullable=False),
            self._column("MARK", BigInteger(), nullable=False),
            self._column("MSGID_PROD", String(250)),
            self._column("MSGID_SEQ", BigInteger()),
            key=("CONTAINER", "CLIENT_ID", "SUB_NAME", "PRIORITY", "FIRST_ID"),
        )

    def _scheduled(self) -> Table:
        return self._table(
            SCHEDULED_TABLE,
            self._column("JOB_ID", String(250), nullable=False),
            self._column("DUE_MS", BigInteger(), nullable=False),
            self._column("DELAY_MS", BigInteger(), nullable=False),
            self._column("PERIOD_MS", BigInteger(), nullable=False),
            self._column("REPEATS", BigInteger(), nullable=False),
            self._column("CRON", String(250)),
            self._column("MSG", _bytes()),
            key=("JOB_ID",),
        )

    def _prepared_acks(self) -> Table:
        return self._table(
            PREPARED_ACKS_TABLE,
            self._column("XID", String(250), nullable=False),
            self._column("NUMBER", BigInteger(), nullable=False),
            self._column("CONTAINER", String(250), nullable=False),
            self._column("CLIENT_ID", String(250), nullable=False),
            self._column("SUB_NAME", String(250), nullable=False),
            self._column("PRIORITY", BigInteger(), nullable=False),
            self._column("FIRST_ID", BigInteger(), nullable=False),
            self._column("LAST_ID", BigInteger(), nullable=False),
            self._column("MARK", BigInteger(), nullable=False),
            self._column("SHOWN", BigInteger(), nullable=False),
            self._column("MSGID_PROD", String(250)),
            self._column("MSGID_SEQ", BigInteger()),
            key=("XID", "NUMBER"),
        )

    def _loads(self) -> Table:
        return self._table(
            LOADS_TABLE,
            self._column("JOB", String(250), nullable=False),
            self._column("STATE", String(20), nullable=False),
            self._column("MODE", String(20)),
            self._column("HOLDER", String(250)),
            self._column("FIRST_ID", BigInteger()),
            self._column("LAST_ID", BigInteger()),
            self._column("ROWS_LOADED", BigInteger(), nullable=False, default="0"),
            self._column("ROWS_TAKEN", BigInteger(), nullable=False, default="0"),
            self._column("ROWS_REFUSED", BigInteger(), nullable=False, default="0"),
            self._column("REBUILD", BigInteger(), nullable=False, default="0"),
            self._column("BEGUN_MS", BigInteger(), nullable=False),
            self._column("CHANGED_MS", BigInteger(), nullable=False),
            key=("JOB",),
        )

    def _load_parts(self) -> Table:
        return self._table(
            LOAD_PARTS_TABLE,
            self._column("JOB", String(250), nullable=False),
            self._column("PART", BigInteger(), nullable=False),
            self._column("ROWS_LOADED", BigInteger(), nullable=False),
            key=("JOB", "PART"),
        )

    def _staged(self) -> Table:
        return self._table(
            STAGED_TABLE,
            self._column("JOB", String(250), nullable=False),
            self._column("PART", BigInteger(), nullable=False),
            self._column("NUMBER", BigInteger(), nullable=False),
            self._column("CONTAINER", String(250), nullable=False),
            self._column("MSGID_PROD", String(250)),
            self._column("MSGID_SEQ", BigInteger()),
            self._column("EXPIRATION", BigInteger()),
            self._column("MSG", _bytes()),
            self._column("PRIORITY", BigInteger()),
            key=("JOB", "PART", "NUMBER"),
        )

    def _column(
        self, name: str, type_: BigInteger | LargeBinary | String, *, nullable: bool = True, default: str | None = None
    ) -> Column[Any]:
        server_default = None if default is None else text(default)
        return Column(
            self.cased(name), type_, key=name, nullable=nullable, autoincrement=False, server_default=server_default
        )

    def _table(self, name: str, *columns: Column[Any], key: tuple[str, ...]) -> Table:
        # The key has no name of ours. PostgreSQL then calls that of ACKS `activemq_acks_pkey`, which is the name that a
        # starting Java broker drops and makes again with the same four columns. With a prefix it is another name; then
        # its DROP and its ADD both fail, and ActiveMQ goes on.
        options: dict[str, Any] = {}
        if (collation := bytewise_collation(self.dialect_name)) is not None:
            for dialect in ("mysql", "mariadb"):  # SQLAlchemy reads those named as the URL is
                options[f"{dialect}_engine"] = "InnoDB"
                options[f"{dialect}_charset"] = "utf8mb4"
                options[f"{dialect}_collate"] = collation
        return Table(self.cased(self.names.full(name)), self.metadata, *columns, PrimaryKeyConstraint(*key), **options)

    def _index(self, name: str, table: Table, *columns: str, only: str | None = None) -> Index:
        partial = None if only is None else text(self.cased(only))
        return Index(
            self.cased(self.names.full(name)),
            *(
                table.c[column.removesuffix(" DESC")].desc() if column.endswith(" DESC") else table.c[column]
                for column in columns
            ),
            postgresql_where=partial,
            sqlite_where=partial,
        )


@lru_cache(maxsize=64)
def _tables(names: TableNames, dialect_name: str) -> Tables:
    """Nobody changes a set of tables, and it takes longer to describe them than to look whether they are there."""
    return Tables(names, dialect_name)


def _bytes() -> LargeBinary:
    """The type of a column that keeps a message."""
    return LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb")
