"""How a database keeps tables: names, types and catalogues, changing old ones, and the lock of who changes them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from sqlalchemy import Connection, LargeBinary, TextClause

from jdbcstore.errors import TransientStoreError
from jdbcstore.store.jdbc.dialect.base.catalogue import FoundColumn, FoundTable, reflected_tables
from jdbcstore.store.jdbc.dialect.base.session import Dialect

__all__ = ["LockedNames", "Schema"]


class LockedNames(NamedTuple):
    """What is locked while a schema is changed.

    Args:
        lock: a name that no other set of tables has.
        table: the message table of the set.
    """

    lock: str
    table: str

    def busy(self, wait_s: float) -> TransientStoreError:
        """What to raise when somebody else has the lock for longer than `wait_s`."""
        return TransientStoreError(
            f"somebody else is changing the schema of {self.table} for more than {wait_s:g} s: try again later"
        )


class Schema:
    """Facts and fragments about tables. Needs no driver: the SQL for an empty database is written without any.

    The changes are of tables that an old ActiveMQ made, so a database for which no ActiveMQ ever made tables needs
    none of them.
    """

    #: The type of column MSG in a new schema, in the database's words, lower case.
    message_type: str
    #: The most bytes that such a column takes.
    message_bytes_max: int
    #: Whether a column takes only values of its type.
    has_column_types = True
    #: Whether a name that begins with a digit would need quotes.
    names_begin_with_letter = False
    #: The collation of new tables; none where texts are compared bytewise anyway.
    collation: str | None = None
    #: Whether every CREATE and ALTER is a transaction of its own.
    commits_each_change = False
    #: The isolation level in which a schema is changed: without gap locks, which would keep a row out.
    isolation_level = "READ COMMITTED"
    #: What makes a SELECT lock the rows it finds, or fail at once because somebody has them.
    row_lock = " FOR UPDATE NOWAIT"
    #: How a transaction begins in which everything that is asked is about one moment.
    snapshot: tuple[str, ...] = ("BEGIN",)
    #: The change of table ACTIVEMQ_MSGS that makes room for long messages.
    widening: str | None = None
    #: The change of a table whose column XID is of a binary type and has no value.
    xid_as_text: str | None = None

    # -- new tables ----------------------------------------------------------------------------------------------

    def cased(self, name: str) -> str:
        """A name that is written without quotes, in upper case, as the database keeps it."""
        return name

    def blob_type(self) -> LargeBinary:
        """The type of a column that keeps a message."""
        return LargeBinary()

    def table_options(self) -> dict[str, Any]:
        """Keyword arguments for `sqlalchemy.Table`."""
        return {}

    def index_options(self, condition: TextClause) -> dict[str, Any]:
        """Keyword arguments for `sqlalchemy.Index` that leave rows out which do not meet a condition, if it can."""
        return {}

    # -- catalogues ----------------------------------------------------------------------------------------------

    def looked_at(self, connection: Connection) -> AbstractContextManager[None]:
        """Whatever the catalogues are asked inside is about one moment, where a table is described in several answers.

        The transaction that the connection is in goes on.
        """
        return nullcontext()

    def found_tables(self, connection: Connection, names: Sequence[str]) -> dict[str, FoundTable]:
        """Those of some tables that are there, where a statement that names them without more finds them.

        Every start of a store asks this, and every takeover waits for it. The default asks SQLAlchemy, which words its
        questions for each engine anew: plain statements may take half of a start's processor time away.

        Args:
            connection: any; the transaction it is in goes on.
            names: of the tables, as the database keeps them.
        """
        return reflected_tables(connection, names)

    def message_bytes(self, column: FoundColumn) -> int:
        """The most bytes that a column MSG takes."""
        return self.message_bytes_max

    def container_collation(self, connection: Connection, table: str) -> tuple[str | None, bool]:
        """The collation of CONTAINER, and whether it tells all names apart, also ``A`` from ``A`` and a space."""
        return None, True

    def without_transactions(self, connection: Connection, tables: Sequence[str]) -> list[tuple[str, str]]:
        """Those of the tables that know no transactions, each with what keeps it."""
        return []

    # -- changes -------------------------------------------------------------------------------------------------

    def repair(self, connection: Connection, table: str, *, has_transactions: bool) -> str | None:
        """The change that a table needs as a whole, whatever its columns; None if it needs none."""
        return None

    def key_change(self, connection: Connection, table: str, columns: Sequence[str], *, has_key: bool) -> str | None:
        """The change that gives a table a primary key of these columns; None where its rows have to be copied."""
        return f"{'DROP PRIMARY KEY, ' if has_key else ''}ADD PRIMARY KEY ({', '.join(columns)})"

    # -- who changes them ----------------------------------------------------------------------------------------

    def lock(
        self, connection: Connection, dialect: Dialect, names: LockedNames, wait_s: float
    ) -> AbstractContextManager[Connection]:
        """Hold the lock of those who change a set of tables.

        Args:
            connection: that is to change them.
            dialect: of the database.
            names: what is locked.
            wait_s: how long to wait for others, who change the tables or use them, in seconds.

        Returns:
            A context manager whose value is a connection with a transaction, in which the lock row can be locked.

        Raises:
            TransientStoreError: somebody else is changing them: `LockedNames.busy`.
            LockHeld: somebody is using them, where nobody may meanwhile.
        """
        raise NotImplementedError

    def connect(self, connection: Connection) -> Connection:
        """Another connection to the same place, in transactions whatever the engine is set to."""
        return connection.engine.connect().execution_options(isolation_level=self.isolation_level)
