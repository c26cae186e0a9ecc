"""Many rows in one transaction.

A part of a load is one transaction of one session. Its first write is the row of the ledger (JDBCSTORE_LOAD_PARTS), so
a second attempt at the same part waits there for the first, and then finds what that has done. Then come the rows,
streamed: a part is never in memory as a whole. Everything that others may wait for (the proof that the load still goes
on, and that nobody else is master) comes last, in one packet with COMMIT, so that a process that is stopped leaves no
such lock behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias

from sqlalchemy import Connection

from jdbcstore.errors import StoreError
from jdbcstore.store.jdbc.column_text import require_column_text
from jdbcstore.store.jdbc.dialect.base.load_block import LoadBlock, LoadRow
from jdbcstore.store.jdbc.dialect.base.session import Dialect, raw_connection
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.rows import Change
from jdbcstore.store.message_checks import require_size

__all__ = ["BulkSession", "LoadBlock", "LoadRow", "Place", "row_by_row"]

#: Where the rows of a part go: the id of the first one in ACTIVEMQ_MSGS, or job and part in JDBCSTORE_STAGED.
Place: TypeAlias = int | tuple[str, int]


def row_by_row(rows: Iterable[LoadRow | LoadBlock]) -> Iterator[LoadRow]:
    """The same rows, those of blocks one after another."""
    for row in rows:
        if isinstance(row, LoadBlock):
            yield from row
        else:
            yield row


class BulkSession:
    """A session that brings one part after another into the database.

    Args:
        connection: of its own, in autocommit mode, with timeouts that let a part take long.
        dialect: of the store.
        holder: the run of the load.
    """

    #: Whether `insert` takes blocks as they are; else they are given to it row by row.
    takes_blocks: ClassVar[bool] = False

    def __init__(self, connection: Connection, dialect: Dialect, holder: str) -> None:
        self.raw: Any = raw_connection(connection)
        self.dialect = dialect
        self.statements = dialect.statements
        self.holder = holder
        #: What the server calls it.
        self.id = dialect.begin_session(connection, holder)
        self._connected(connection)

    def _connected(self, connection: Connection) -> None:
        """Set what the session needs."""

    def claim(self, job: str, part: int) -> int | None:
        """Begin the transaction of a part. Waits for another attempt that is at it.

        Returns:
            None if the part is ours to do; else the number of rows that an earlier attempt has committed, and then
            there is no transaction.
        """
        while True:
            self._execute(self.dialect.begin)
            if self._insert_ledger_row((job, part)):
                return None
            self.roll_back()
            rows = self.rows_of(job, part)
            if rows is not None:  # else it has just been removed, with everything of an earlier run
                return rows

    def rows_of(self, job: str, part: int) -> int | None:
        """How many rows a part has that is committed; None if it is not."""
        row = self._first(f"SELECT ROWS_LOADED FROM {self.statements.load_parts} WHERE JOB=? AND PART=?", (job, part))
        return None if row is None else int(row[0])

    def insert(self, place: Place, rows: Iterable[Any]) -> int:
        """Bring rows; returns how many.

        Args:
            place: where to.
            rows: each a `LoadRow`, or a `LoadBlock` where `takes_blocks`; read as they are needed.

        Raises:
            MessageTooLarge, StoreError: a row can never be stored. Drivers' errors are raised as they are.
        """
        raise NotImplementedError

    @classmethod
    def insert_rows(
        cls, raw: Any, dialect: Dialect, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
    ) -> None:
        """Bring rows of any table in the transaction that runs.

        Args:
            raw: the driver's connection.
            dialect: of the database.
            table: where to.
            columns: of the values.
            rows: of texts, bytes, whole numbers of 64 bits and None; read as they are needed.

        Raises whatever the driver raises, or what `rows` raises.
        """
        raise NotImplementedError

    def begin(self) -> None:
        """Begin a transaction that has no rows."""
        self._execute(self.dialect.begin)

    def conclude(self, changes: Sequence[Change], job: str, fence: Fence | None) -> None:
        """Prove the run of the load and the mastership, make some last changes, and commit.

        Args:
            changes: soon done.
            job: still being loaded by our run.
            fence: none if the rows go where no master is needed.
        """
        raise NotImplementedError

    def roll_back(self) -> None:
        """Forget what is not committed. Raises what the driver raises if the line is broken."""
        self.dialect.rollback(self.raw)

    def _insert_ledger_row(self, key: tuple[str, int]) -> bool:
        raise NotImplementedError

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement with literals put in; returns how many rows it met."""
        with self.raw.cursor() as cursor:
            cursor.execute(self.dialect.filled((statement, tuple(values))))
            return int(cursor.rowcount)

    def _first(self, statement: str, values: Sequence[Any]) -> Sequence[Any] | None:
        with self.raw.cursor() as cursor:
            cursor.execute(self.dialect.filled((statement, tuple(values))))
            row: Sequence[Any] | None = cursor.fetchone()
            return row

    def _checked(self, rows: Iterable[Any]) -> Iterator[Any]:
        """The rows and blocks, or an error for the first that does not fit."""
        bytes_max = self.dialect.message_bytes_max
        for row in rows:
            if isinstance(row, LoadBlock):
                _fitting("the producer id", row.producer)
                for container in row.containers:
                    _fitting("the destination", container)
                if row.lengths.max() > bytes_max:
                    for message in row.messages().to_pylist():
                        require_size(message, bytes_max)
                yield row
                continue
            require_size(row[5], bytes_max)
            _fitting("the destination", row[2])
            _fitting("the producer id", row[0])
            yield row


@lru_cache(maxsize=8192)
def _fitting(what: str, name: str) -> None:
    """Raise `StoreError` unless a name fits its column; the same few come again and again."""
    if not name:
        raise StoreError(f"{what} is empty")
    require_column_text(what, name)
