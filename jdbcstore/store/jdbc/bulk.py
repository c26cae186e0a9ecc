"""Many rows in one transaction, each database's fastest way: binary COPY, INSERTs of a packet each, executemany.

A part of a load is one transaction of one session. Its first write is the row of the ledger (JDBCSTORE_LOAD_PARTS), so
a second attempt at the same part waits there for the first, and then finds what that has done. Then come the rows,
streamed: a part is never in memory as a whole. Everything that others may wait for (the proof that the load still goes
on, and that nobody else is master) comes last, in one packet with COMMIT, so that a process that is stopped leaves no
such lock behind.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from sqlalchemy import Connection, text

from jdbcstore.errors import LeaseLost, MessageTooLarge, StoreError
from jdbcstore.store.jdbc.copy_format import FIXED_FIELDS, HEAD, LENGTH, MESSAGE_COLUMNS, TAIL, copy_in, text_field
from jdbcstore.store.jdbc.dialect import Dialect
from jdbcstore.store.jdbc.dialect.postgresql import PostgreSQLDialect
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.rows import Change
from jdbcstore.store.jdbc.writer import raw_connection

__all__ = ["BulkSession", "LoadRow", "Place", "bulk_session", "packed_for_copy"]

#: MSGID_PROD, MSGID_SEQ, CONTAINER, EXPIRATION, PRIORITY, MSG of a message that is to be loaded.
LoadRow: TypeAlias = tuple[str, int, str, int, int, bytes]
#: Where the rows of a part go: the id of the first one in ACTIVEMQ_MSGS, or job and part in JDBCSTORE_STAGED.
Place: TypeAlias = int | tuple[str, int]

#: What is handed to the driver at a time, about.
_CHUNK_BYTES: Final = 256 << 10
#: A packet of MySQL and MariaDB; larger ones are not faster.
_PACKET_BYTES: Final = 1 << 20
_PACKET_MARGIN_BYTES: Final = 1 << 14
#: Column CONTAINER, and MSGID_PROD.
_NAME_MAX: Final = 250

_STAGED_COLUMNS: Final = "NUMBER, MSGID_SEQ, EXPIRATION, PRIORITY, CONTAINER, MSGID_PROD, MSG, JOB, PART"


class BulkSession:
    """A session that brings one part after another into the database.

    Args:
        connection: of its own, in autocommit mode, with time-outs that let a part take long.
        dialect: of the store.
        holder: the run of the load.
    """

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

    def insert(self, place: Place, rows: Iterable[LoadRow]) -> int:
        """Bring rows; returns how many.

        Raises:
            MessageTooLarge, StoreError: a row can never be stored. Drivers' errors are raised as they are.
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

    def _checked(self, rows: Iterable[LoadRow]) -> Iterator[LoadRow]:
        """The rows, or an error for the first that does not fit."""
        bytes_max = self.dialect.message_bytes_max
        for row in rows:
            if len(row[5]) > bytes_max:
                raise MessageTooLarge(f"a message takes {len(row[5])} bytes, this store takes {bytes_max} at most")
            _fitting(row[2])
            _fitting(row[0])
            yield row


class _PostgreSQLSession(BulkSession):
    """COPY FROM STDIN BINARY."""

    dialect: PostgreSQLDialect

    def _connected(self, connection: Connection) -> None:
        # What waits for us to send the next rows is not idle. A peer that is gone is noticed within half a minute: its
        # lock on the row of the ledger would keep the next attempt waiting.
        settings = "statement_timeout=0,tcp_keepalives_idle=10,tcp_keepalives_interval=5,tcp_keepalives_count=3"
        for setting in settings.split(","):
            connection.exec_driver_sql(f"SET {setting}")

    def _insert_ledger_row(self, key: tuple[str, int]) -> bool:
        parts = self.statements.load_parts
        insert = f"INSERT INTO {parts} (JOB,PART,ROWS_LOADED) VALUES (?,?,0) ON CONFLICT DO NOTHING"
        return self._execute(insert, key) == 1

    def insert(self, place: Place, rows: Iterable[LoadRow]) -> int:
        staged = not isinstance(place, int)
        table, columns = (
            (self.statements.staged, _STAGED_COLUMNS) if staged else (self.statements.messages, MESSAGE_COLUMNS)
        )
        count = 0

        def counted() -> Iterator[LoadRow]:
            nonlocal count
            for count, row in enumerate(self._checked(rows), 1):  # noqa: B007  # told below
                yield row

        with self.raw.cursor() as cursor:
            copy_in(cursor, table, columns, packed_for_copy(counted(), place))
        return count

    def conclude(self, changes: Sequence[Change], job: str, fence: Fence | None) -> None:
        literal, loads = self.dialect.literal, self.statements.loads.encode()
        words = [
            b"SELECT 1/COUNT(*) FROM (SELECT 1 FROM %s WHERE JOB=%s AND STATE='loading' AND HOLDER=%s FOR SHARE) load"
            % (loads, literal(job), literal(self.holder))
        ]
        if fence is not None:
            words.append(self.dialect.fence_words(fence))
        words += map(self.dialect.filled, changes)
        with self.raw.cursor() as cursor:
            cursor.execute(b";".join([*words, b"COMMIT"]))


def packed_for_copy(rows: Iterable[LoadRow], place: Place) -> Iterator[bytes]:
    """Rows of ACTIVEMQ_MSGS or JDBCSTORE_STAGED in PostgreSQL's binary COPY format, in chunks."""
    parts, size, tail = [HEAD], 0, b""
    fields, number = 7, place
    if isinstance(place, tuple):
        job, part = place
        fields, number, tail = 9, 0, text_field(job) + struct.pack(">iq", 8, part)
    assert isinstance(number, int)
    pack, pack_length, field, add = FIXED_FIELDS.pack, LENGTH.pack, text_field, parts.append
    for producer, sequence, container, expiration, priority, blob in rows:
        add(pack(fields, 8, number, 8, sequence, 8, expiration, 8, priority))
        add(field(container))
        add(field(producer))
        length = len(blob)
        add(pack_length(length))
        add(blob)
        if tail:
            add(tail)
        number += 1
        size += length + 100
        if size >= _CHUNK_BYTES:
            yield b"".join(parts)
            parts.clear()
            size = 0
    add(TAIL)
    yield b"".join(parts)


class _MySQLSession(BulkSession):
    """INSERTs of many rows, a packet each."""

    def _connected(self, connection: Connection) -> None:
        self.dialect.connected(connection)
        bytes_max = int(connection.execute(text("SELECT @@max_allowed_packet")).scalar_one())
        self._packet_bytes = min(bytes_max - _PACKET_MARGIN_BYTES, _PACKET_BYTES)
        self._room = bytes_max - _PACKET_MARGIN_BYTES
        # Rows may come slowly. Who is gone without a word is noticed after this time.
        mariadb = getattr(connection.dialect, "is_mariadb", False)
        connection.exec_driver_sql(f"SET SESSION {'idle_transaction_timeout' if mariadb else 'wait_timeout'} = 600")

    def _insert_ledger_row(self, key: tuple[str, int]) -> bool:
        parts = self.statements.load_parts
        return self._execute(f"INSERT IGNORE INTO {parts} (JOB,PART,ROWS_LOADED) VALUES (?,?,0)", key) == 1

    def insert(self, place: Place, rows: Iterable[LoadRow]) -> int:
        literal = self.dialect.literal
        head = self.statements.message_insert.encode()
        lead, number = b"(", place
        if isinstance(place, tuple):
            columns = "JOB,PART,NUMBER,MSGID_PROD,MSGID_SEQ,CONTAINER,EXPIRATION,PRIORITY,MSG"
            head = f"INSERT INTO {self.statements.staged} ({columns}) VALUES ".encode()
            lead, number = b"(%s,%d," % (literal(place[0]), place[1]), 0
        assert isinstance(number, int)
        first, size = number, 0
        values: list[bytes] = []
        for producer, sequence, container, expiration, priority, blob in self._checked(rows):
            value = lead + b"%d,%s,%d,%s,%d,%d,%s)" % (
                number,
                literal(producer),
                sequence,
                literal(container),
                expiration,
                priority,
                literal(blob),
            )
            number += 1
            if len(value) + len(head) > self._room:
                raise MessageTooLarge(
                    f"a message takes {len(value)} bytes on the way to the server, its max_allowed_packet leaves room"
                    f" for {self._room}: raise it"
                )
            if size and size + len(value) > self._packet_bytes:
                self.raw.query(head + b",".join(values))
                values, size = [], 0
            values.append(value)
            size += len(value) + 1
        if values:
            self.raw.query(head + b",".join(values))
        return number - first

    def conclude(self, changes: Sequence[Change], job: str, fence: Fence | None) -> None:
        literal, loads = self.dialect.literal, self.statements.loads.encode()
        words = [
            b"SELECT IF((SELECT HOLDER FROM %s WHERE JOB=%s AND STATE='loading' LOCK IN SHARE MODE)=%s,1,"
            b"(SELECT 1 UNION SELECT 2))" % (loads, literal(job), literal(self.holder))
        ]
        if fence is not None:
            words.append(self.dialect.fence_words(fence))  # type: ignore[attr-defined]  # MySQLDialect's
        words += map(self.dialect.filled, changes)
        words.append(b"COMMIT")
        self.raw.query(b";".join(words))
        for _ in words[1:]:
            self.raw.next_result()


class _SQLiteSession(BulkSession):
    """executemany. Whoever is in a writing transaction is alone with the file, so the proofs come as they come."""

    def _insert_ledger_row(self, key: tuple[str, int]) -> bool:
        parts = self.statements.load_parts
        return self._execute(f"INSERT OR IGNORE INTO {parts} (JOB,PART,ROWS_LOADED) VALUES (?,?,0)", key) == 1

    def insert(self, place: Place, rows: Iterable[LoadRow]) -> int:
        count = 0

        def numbered(first: int, lead: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
            nonlocal count
            for producer, sequence, container, expiration, priority, blob in self._checked(rows):
                yield (*lead, first + count, producer, sequence, container, expiration, priority, blob)
                count += 1

        if isinstance(place, int):
            self.raw.executemany(self.statements.message_insert + "(?,?,?,?,?,?,?)", numbered(place, ()))
        else:
            columns = "JOB,PART,NUMBER,MSGID_PROD,MSGID_SEQ,CONTAINER,EXPIRATION,PRIORITY,MSG"
            insert = f"INSERT INTO {self.statements.staged} ({columns}) VALUES (?,?,?,?,?,?,?,?,?)"
            self.raw.executemany(insert, numbered(0, place))
        return count

    def conclude(self, changes: Sequence[Change], job: str, fence: Fence | None) -> None:
        loads, lock = self.statements.loads, self.statements.lock
        own = f"SELECT 1 FROM {loads} WHERE JOB=? AND STATE='loading' AND HOLDER=?"
        is_ours = self._first(own, (job, self.holder)) is not None
        is_master = fence is None or self._first(f"SELECT 1 FROM {lock} WHERE ID=1 AND BROKER_NAME=?", (fence.holder,))
        if not (is_ours and is_master):
            raise LeaseLost("this run of the load is over")
        for statement, values in changes:
            self._execute(statement, values)
        self._execute("COMMIT")

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        return int(self.raw.execute(statement, tuple(values)).rowcount)

    def _first(self, statement: str, values: Sequence[Any]) -> Sequence[Any] | None:
        row: Sequence[Any] | None = self.raw.execute(statement, tuple(values)).fetchone()
        return row


def bulk_session(connection: Connection, dialect: Dialect, holder: str) -> BulkSession:
    """A session for this database; arguments as of `BulkSession`."""
    kinds: dict[str, Callable[[Connection, Dialect, str], BulkSession]] = {
        "postgresql": _PostgreSQLSession,
        "sqlite": _SQLiteSession,
    }
    return kinds.get(connection.dialect.name, _MySQLSession)(connection, dialect, holder)


@lru_cache(maxsize=8192)
def _fitting(name: str) -> None:
    """Raise `StoreError` unless a name fits its column; the same few come again and again."""
    if len(name) > _NAME_MAX or "\0" in name or not name:
        raise StoreError(f"{name[:60]!r} has {len(name)} characters, the columns take 1 to {_NAME_MAX} and no NUL")
