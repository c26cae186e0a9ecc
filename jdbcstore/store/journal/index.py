"""The index of a KahaDB directory: where each message stands, in a SQLite database of its own.

A broker's own index, ``db.data``, is neither read nor written: it holds nothing that the journal does not say, and a
broker that finds none makes it anew. This one is a database because pages, commits and the start then cost what they
touch, however many messages wait, and memory stays bounded.

**Nothing in it is ever ahead of the journal, and nothing has to be idempotent.** Its transaction is committed at
checkpoints only, with the place of the last batch that is in it (`position`). After a kill it is exactly what it was at
that batch, and the batches behind it are applied again. A crash of the machine may take the last checkpoints with it
(they are not forced to the disk one by one), and then a few more batches are applied; a file of the journal is removed
only behind a checkpoint that was forced (`checkpoint` with ``force``).

Everybody reads through the one connection, a page at a time under a lock, and so sees what has been applied: what is
committed in the journal.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from jdbcstore.errors import StoreClosed, StoreError, TransientStoreError
from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.disk import DiskFile, force_directory, mode_like, remove
from jdbcstore.store.journal.journal_format import BatchPlace
from jdbcstore.store.journal.known import (
    Known,
    KnownDestination,
    KnownSubscription,
    destination_name,
    named_destination,
)

__all__ = ["FILE_NAME", "HIDDEN", "VISIBLE", "WAITING", "Index", "JobRow", "Operation", "PageRow", "Row", "id_hash"]

FILE_NAME: Final = "jdbcstore-index.sqlite"

#: What `messages.state` says: everybody sees it, a prepared transaction adds it, a prepared transaction removes it.
VISIBLE: Final = 0
WAITING: Final = 1
HIDDEN: Final = 2

#: Of numbers below 2 ** 31.
_DIGITS_MAX: Final = 9

#: Another number is another layout: the index is made anew from the journal.
_LAYOUT: Final = 4

_SCHEMA: Final = """
CREATE TABLE position (
    file INTEGER, offset INTEGER, checksum INTEGER, job_file INTEGER, job_offset INTEGER, job_checksum INTEGER,
    written INTEGER, given INTEGER
);
CREATE TABLE destinations (id INTEGER PRIMARY KEY, name TEXT, kept INTEGER, levels INTEGER, count INTEGER);
CREATE TABLE messages (
    sequence INTEGER PRIMARY KEY, destination INTEGER, level INTEGER, message_id TEXT, id_hash INTEGER, file INTEGER,
    offset INTEGER, size INTEGER, expiration INTEGER, waiting INTEGER, state INTEGER
);
CREATE INDEX messages_in_order ON messages (destination, level, sequence) WHERE state = 0;
CREATE INDEX messages_by_id ON messages (id_hash);
CREATE INDEX messages_by_expiration ON messages (expiration, sequence) WHERE expiration > 0 AND state = 0;
CREATE TABLE subscriptions (
    id INTEGER PRIMARY KEY, destination INTEGER, text TEXT, info BLOB, retroactive INTEGER, file INTEGER,
    offset INTEGER, size INTEGER, count INTEGER
);
CREATE TABLE pending (
    subscription INTEGER, level INTEGER, sequence INTEGER, PRIMARY KEY (subscription, level, sequence)
) WITHOUT ROWID;
CREATE TABLE transactions (
    id INTEGER PRIMARY KEY, format INTEGER, global BLOB, branch BLOB, first_file INTEGER, last_file INTEGER
);
CREATE TABLE operations (
    of INTEGER, place INTEGER, adds INTEGER, sequence INTEGER, subscription INTEGER, file INTEGER,
    PRIMARY KEY (of, place)
) WITHOUT ROWID;
CREATE TABLE files (number INTEGER PRIMARY KEY, live INTEGER);
CREATE TABLE ack_files (file INTEGER, message_file INTEGER, PRIMARY KEY (file, message_file)) WITHOUT ROWID;
CREATE TABLE producers (producer TEXT PRIMARY KEY, last INTEGER, used_ms INTEGER, file INTEGER) WITHOUT ROWID;
CREATE INDEX producers_by_use ON producers (used_ms);
CREATE INDEX producers_by_file ON producers (file);
CREATE TABLE jobs (
    job_id TEXT PRIMARY KEY, due_ms INTEGER, delay_ms INTEGER, period_ms INTEGER, repeat INTEGER, cron TEXT,
    rescheduled INTEGER, file INTEGER, offset INTEGER, size INTEGER
) WITHOUT ROWID;
CREATE INDEX jobs_by_due ON jobs (due_ms, job_id);
"""

_ROW: Final = "sequence, destination, level, message_id, file, offset, size, waiting, state"
#: How many messages have this id, or one that looks like it.
_TWINS: Final = "(SELECT count(*) FROM messages other WHERE other.id_hash = messages.id_hash) AS twins"
_PAGE_ROW: Final = "sequence, file, offset, size"

PAGE: Final = (
    f"SELECT {_PAGE_ROW} FROM messages INDEXED BY messages_in_order"
    " WHERE destination = ? AND level = ? AND state = 0 AND sequence > ? ORDER BY sequence LIMIT ?"
)
SUBSCRIPTION_PAGE: Final = (
    "SELECT p.sequence, m.file, m.offset, m.size FROM pending p JOIN messages m ON m.sequence = p.sequence"
    " WHERE p.subscription = ? AND p.level = ? AND p.sequence > ? ORDER BY p.sequence LIMIT ?"
)
_TOGETHER: Final = "SELECT json_group_array(json_array({columns})) FROM ({rows})"
ROW: Final = f"SELECT {_ROW} FROM messages WHERE sequence = ?"
ROWS: Final = f"SELECT {_ROW}, {_TWINS} FROM messages WHERE sequence IN (SELECT value FROM json_each(?))"
ROWS_BY_ID: Final = (
    f"SELECT {_ROW} FROM messages WHERE id_hash = ? AND message_id = ? AND destination = ? ORDER BY sequence"
)
EXPIRED: Final = (
    "SELECT sequence, destination, level, expiration FROM messages INDEXED BY messages_by_expiration"
    " WHERE expiration > 0 AND state = 0 AND (expiration, sequence) > (?, ?) AND expiration < ?"
    " ORDER BY expiration, sequence LIMIT ?"
)
JOBS: Final = "SELECT * FROM jobs WHERE (due_ms, job_id) > (?, ?) AND due_ms <= ? ORDER BY due_ms, job_id LIMIT ?"
ADD: Final = "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
REMOVE: Final = "DELETE FROM messages WHERE sequence = ?"
REMOVE_ALL: Final = "DELETE FROM messages WHERE sequence IN (SELECT value FROM json_each(?))"
PEND: Final = "INSERT INTO pending VALUES (?, ?, ?)"
#: How many rows one statement inserts. sqlite3 lets go of the interpreter in each statement, and has to wait for the
#: event loop's thread afterwards: that costs more than the rows.
_ROWS_AT_ONCE: Final = (32, 8, 1)
ACKNOWLEDGE: Final = "DELETE FROM pending WHERE subscription = ? AND level = ? AND sequence = ?"


def insert(connection: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows, many with one statement.

    Args:
        connection: of the index.
        statement: `ADD` or `PEND`, for one row.
        rows: the values of each.
    """
    first = 0
    for count in _ROWS_AT_ONCE:
        while len(rows) - first >= count:
            values = list(chain.from_iterable(rows[first : first + count]))
            connection.execute(_inserting(statement, count), values)
            first += count


@cache
def _inserting(statement: str, count: int) -> str:
    head, values = statement.split(" VALUES ")
    return f"{head} VALUES {', '.join([values] * count)}"


class Row(NamedTuple):
    """A message."""

    sequence: int
    destination: int
    level: int
    message_id: str
    file: int
    offset: int
    size: int
    waiting: int
    """Of a topic's: how many subscriptions have not acknowledged it, or only in doubt."""
    state: int
    twins: int = 0
    """How many messages may have its id, itself counted; 0 if that was not asked."""


class PageRow(NamedTuple):
    """A message as a page needs it."""

    sequence: int
    file: int
    offset: int
    size: int


class JobRow(NamedTuple):
    """A scheduled message."""

    job_id: str
    due_ms: int
    delay_ms: int
    period_ms: int
    repeat: int
    cron: str
    rescheduled: int
    file: int
    """Of the scheduler's journal, where the record that added it stands."""
    offset: int
    size: int


class Operation(NamedTuple):
    """Something that a prepared transaction does."""

    adds: bool
    sequence: int
    subscription: int
    """Of an acknowledgement of a topic's message; else 0."""
    file: int
    """Where its record stands."""


def id_hash(message_id: str) -> int:
    """What an id is looked up by: a number of 63 bits. Those of one producer follow each other, and so lie together."""
    producer, _, number = message_id.rpartition(":")
    if len(number) > _DIGITS_MAX or not number.isdecimal():
        producer, number = message_id, "0"
    return (zlib.crc32(producer.encode("utf-8", "surrogatepass")) << 31) + int(number)


class Index:
    """An open index. All methods may be called from any thread; those that write only by the one that applies.

    Args:
        path: the database; made if it is not there.
        cache_pages: how much of it may be in memory, in pages of 4096 bytes.
    """

    def __init__(self, path: Path, cache_pages: int) -> None:
        self.path: Final = path
        #: Held while something is read or a batch is applied.
        self.lock: Final = threading.RLock()
        self.known = Known()
        #: The last batch that is in it; file 0 when none is.
        self.position = BatchPlace(0, 0, 0)
        #: The same of the scheduler's journal.
        self.job_position = BatchPlace(0, 0, 0)
        #: The highest sequence of a message that is in the journal, and the highest that was given to one.
        self.written = self.given = 0
        #: How many messages of each journal file are there, those in doubt too.
        self.live: dict[int, int] = {}
        #: Which journal file acknowledges messages of which.
        self.ack_files: dict[int, set[int]] = {}
        #: How far producers came since the last checkpoint.
        self.producers: dict[str, int] = {}
        self.is_new = False
        #: The file of the last batch at the last checkpoint: what came since stands in it or behind it.
        self._saved_file = 0
        self._ack_files_new: set[tuple[int, int]] = set()
        self._connection: sqlite3.Connection | None = None
        try:
            self._open(cache_pages)
        except BaseException:
            self.close()
            raise

    def _open(self, cache_pages: int) -> None:
        with contextlib.suppress(FileExistsError):  # SQLite's other files get the mode of this one
            DiskFile(self.path, create=True, mode=mode_like(self.path.parent, "db-*.log")).close()
        connection = self._connection = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        connection.execute("PRAGMA page_size = 4096")
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # before WAL: then it needs no shared memory
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = {cache_pages}")
        connection.execute("PRAGMA temp_store = MEMORY")
        layout = connection.execute("PRAGMA user_version").fetchone()[0]
        if layout not in (0, _LAYOUT):
            raise sqlite3.DatabaseError(f"its layout is {layout}, not {_LAYOUT}")
        connection.execute("BEGIN IMMEDIATE")
        if layout == 0:
            self._create(connection)
        else:
            self._load(connection)

    def _create(self, connection: sqlite3.Connection) -> None:
        for statement in _SCHEMA.split(";"):
            if statement.strip():
                connection.execute(statement)
        connection.execute("INSERT INTO position VALUES (0, 0, 0, 0, 0, 0, 0, 0)")
        connection.execute(f"PRAGMA user_version = {_LAYOUT}")
        self.is_new = True

    def _load(self, connection: sqlite3.Connection) -> None:
        *places, self.written, self.given = connection.execute("SELECT * FROM position").fetchone()
        self.position, self.job_position = BatchPlace(*places[:3]), BatchPlace(*places[3:])
        self._saved_file = self.position.file
        known = self.known = Known()
        if connection.execute("SELECT 1 FROM transactions LIMIT 1").fetchone() is None:  # else they may be in doubt
            connection.execute(
                "DELETE FROM destinations WHERE count = 0 AND kept = 0"
                " AND id NOT IN (SELECT destination FROM subscriptions)"
            )
        for id, name, kept, levels, count in connection.execute("SELECT * FROM destinations"):
            found = known.put(KnownDestination(id, named_destination(name), is_kept=bool(kept), levels=levels))
            found.count = count
        for id, destination, text, info, retroactive, *location, count in connection.execute(
            "SELECT * FROM subscriptions ORDER BY id"
        ):
            topic = known.by_id(destination)
            subscription = KnownSubscription(
                id, text, info, tuple(location), topic.destination, retroactive=bool(retroactive), count=count
            )
            topic.subscriptions[text] = subscription
        self.live = dict(connection.execute("SELECT number, live FROM files"))
        self.ack_files = {}
        for file, message_file in connection.execute("SELECT file, message_file FROM ack_files"):
            self.ack_files.setdefault(file, set()).add(message_file)

    # -- life ----------------------------------------------------------------------------------------------------

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection; the caller holds `lock`. Raises `StoreClosed` when it is closed."""
        if self._connection is None:
            raise StoreClosed("the store is stopped; start it first")
        return self._connection

    def checkpoint(self, now_ms: int, *, force: bool = False) -> None:
        """Make durable what is applied.

        Args:
            now_ms: epoch milliseconds, for producers.
            force: wait until it is on the disk, also if the machine fails.

        Raises:
            StoreError: it could not be done. What was applied stays applied, and the journal holds it.
        """
        with self.lock, _errors():
            connection = self.connection
            self._save(connection, now_ms)
            connection.execute("COMMIT")
            try:
                if force:
                    connection.execute("PRAGMA synchronous = FULL")
                    busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
                    connection.execute("PRAGMA synchronous = NORMAL")
                    if busy:
                        raise StoreError("the index could not be forced to the disk: somebody else reads it")
            finally:
                connection.execute("BEGIN IMMEDIATE")

    def _save(self, connection: sqlite3.Connection, now_ms: int) -> None:
        connection.execute(
            "UPDATE position SET file = ?, offset = ?, checksum = ?, job_file = ?, job_offset = ?, job_checksum = ?,"
            " written = ?, given = ?",
            (*self.position, *self.job_position, self.written, self.given),
        )
        connection.executemany(
            "INSERT OR REPLACE INTO destinations VALUES (?, ?, ?, ?, ?)",
            [
                (one.id, destination_name(one.destination), one.is_kept, one.levels_bits, one.count)
                for one in self.known
            ],
        )
        connection.executemany(
            "UPDATE subscriptions SET count = ? WHERE id = ?",
            [(one.count, one.id) for topic in self.known for one in topic.subscriptions.values()],
        )
        connection.execute("DELETE FROM files")
        connection.executemany("INSERT INTO files VALUES (?, ?)", self.live.items())
        connection.executemany("INSERT OR IGNORE INTO ack_files VALUES (?, ?)", self._ack_files_new)
        self._ack_files_new.clear()
        connection.executemany(
            "INSERT INTO producers VALUES (?, ?, ?, ?) ON CONFLICT (producer)"
            " DO UPDATE SET last = max(last, excluded.last), used_ms = excluded.used_ms, file = excluded.file",
            [(producer, last, now_ms, self._saved_file) for producer, last in self.producers.items()],
        )
        self.producers.clear()
        self._saved_file = self.position.file

    def producers_up_to(self, file: int, most: int) -> list[tuple[str, int]]:
        """Producers whose last record may stand in this file or before it, and how far they came; so many at most. What
        came since the last checkpoint is not looked at."""
        statement = "SELECT producer, last FROM producers WHERE file <= ? LIMIT ?"
        with self.lock, _errors():
            return self.connection.execute(statement, (file, most)).fetchall()

    def forget_producers(self, before_ms: int, most: int) -> None:
        """Forget producers that were not heard of since; so many at most."""
        with self.lock, _errors():
            self.connection.execute(
                "DELETE FROM producers WHERE producer IN"
                " (SELECT producer FROM producers WHERE used_ms < ? ORDER BY used_ms LIMIT ?)",
                (before_ms, most),
            )

    def close(self) -> None:
        """Close without a checkpoint: what was applied since the last one is in the journal."""
        with self.lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                with contextlib.suppress(sqlite3.Error):  # it may be the reason why we close
                    connection.close()

    @staticmethod
    def remove(path: Path) -> None:
        """Delete an index, to make it anew."""
        gone = [remove(path.with_name(path.name + suffix)) for suffix in ("-wal", "-shm", "-journal", "")]
        if any(gone):
            force_directory(path.parent)  # else a power failure may leave an old log beside a new index

    # -- reading -------------------------------------------------------------------------------------------------

    def page(self, destination: int, level: int, after: int, rows: int) -> list[PageRow]:
        """The next messages of one level of a destination."""
        with self.lock, _errors():
            return self._page(PAGE, (destination, level, after, rows))

    def subscription_page(self, subscription: int, level: int, after: int, rows: int) -> list[PageRow]:
        """The next messages of one level that a subscription has not acknowledged."""
        with self.lock, _errors():
            return self._page(SUBSCRIPTION_PAGE, (subscription, level, after, rows))

    def _page(self, statement: str, values: tuple[int, ...]) -> list[PageRow]:
        return sorted(map(PageRow._make, self._together(_PAGE_ROW, statement, values)))

    def row(self, sequence: int) -> Row | None:
        """A message by its number."""
        with self.lock, _errors():
            found = self.connection.execute(ROW, (sequence,)).fetchone()
            return None if found is None else Row(*found)

    def rows(self, sequences: Sequence[int]) -> dict[int, Row]:
        """Messages by their numbers, those that there are."""
        if not sequences:
            return {}
        with self.lock, _errors():
            found = self._together(f"{_ROW}, twins", ROWS, (str(list(sequences)),))  # which is JSON, and sooner made
            return {row[0]: Row._make(row) for row in found}

    def _together(self, columns: str, statement: str, values: Sequence[object]) -> list[list[Any]]:
        """The rows of a statement, in any order, in one step.

        Python lets go of its lock for each step, which wakes whoever waits for it: a page of a thousand rows would do
        that a thousand times.
        """
        rows = _TOGETHER.format(columns=columns, rows=statement)
        together: list[list[Any]] = json.loads(self.connection.execute(rows, values).fetchone()[0])
        return together

    def rows_by_id(self, destination: int, message_id: str) -> list[Row]:
        """Messages of an id, the oldest first."""
        with self.lock, _errors():
            found = self.connection.execute(ROWS_BY_ID, (id_hash(message_id), message_id, destination))
            return [Row(*row) for row in found]

    def rows_by_hash(self, hashes: Sequence[int]) -> list[Row]:
        """Messages whose ids have one of these hashes (`id_hash`), whatever their destinations and states."""
        statement = f"SELECT {_ROW} FROM messages WHERE id_hash IN (SELECT value FROM json_each(?))"
        with self.lock, _errors():
            return [Row(*row) for row in self.connection.execute(statement, (json.dumps(hashes),))]

    def rows_of(self, destination: int) -> list[Row]:
        """All messages of a destination that are not in doubt."""
        statement = f"SELECT {_ROW} FROM messages WHERE destination = ? AND level = ? AND state = 0"
        with self.lock, _errors():
            levels = self.known.by_id(destination).levels
            return [Row(*row) for level in levels for row in self.connection.execute(statement, (destination, level))]

    def expiration(self, sequence: int) -> int:
        """When a message expires; 0 if never."""
        with self.lock, _errors():
            found = self.connection.execute(
                "SELECT expiration FROM messages WHERE sequence = ?", (sequence,)
            ).fetchone()
            return 0 if found is None else int(found[0])

    def is_in_doubt(self, destination: int) -> bool:
        """Whether a prepared transaction adds or removes something of a destination."""
        with self.lock, _errors():
            return bool(
                self.connection.execute(
                    "SELECT 1 FROM operations o JOIN messages m ON m.sequence = o.sequence WHERE m.destination = ?"
                    " LIMIT 1",
                    (destination,),
                ).fetchone()
            )

    def expired(self, now_ms: int, rows: int, after: tuple[int, int]) -> list[tuple[int, int, int, int]]:
        """Sequence, destination, level and expiration of messages that have expired."""
        with self.lock, _errors():
            return self.connection.execute(EXPIRED, (*after, now_ms, rows)).fetchall()

    def is_pending(self, subscription: int, level: int, sequence: int) -> bool:
        """Whether a subscription has not acknowledged a message."""
        with self.lock, _errors():
            statement = "SELECT 1 FROM pending WHERE subscription = ? AND level = ? AND sequence = ?"
            return self.connection.execute(statement, (subscription, level, sequence)).fetchone() is not None

    def sizes(self) -> list[tuple[int, int]]:
        """Of each destination with messages how many bytes their records take."""
        with self.lock, _errors():
            return self.connection.execute(
                "SELECT destination, sum(size) FROM messages WHERE state = 0 GROUP BY destination"
            ).fetchall()

    def prepared(self) -> dict[XATransactionId, int]:
        """The transactions in doubt and their numbers, the first prepared before the others."""
        with self.lock, _errors():
            found = self.connection.execute("SELECT id, format, global, branch FROM transactions ORDER BY id")
            return {XATransactionId(format, globally, branch): id for id, format, globally, branch in found}

    def operations(self, transaction: int) -> list[Operation]:
        """What a transaction in doubt does."""
        statement = "SELECT adds, sequence, subscription, file FROM operations WHERE of = ? ORDER BY place"
        with self.lock, _errors():
            found = self.connection.execute(statement, (transaction,))
            return [Operation(bool(adds), *rest) for adds, *rest in found]

    def last_of_producer(self, producer: str) -> int:
        """How far a producer came, -1 if nobody knows."""
        with self.lock, _errors():
            found = self.connection.execute("SELECT last FROM producers WHERE producer = ?", (producer,)).fetchone()
            return max(self.producers.get(producer, -1), -1 if found is None else found[0])

    def remembers_producers(self) -> bool:
        """Whether it knows of any producer how far it came."""
        with self.lock, _errors():
            return bool(self.producers or self.connection.execute("SELECT 1 FROM producers LIMIT 1").fetchone())

    # -- scheduled messages --------------------------------------------------------------------------------------

    def job(self, job_id: str) -> JobRow | None:
        """One of them."""
        with self.lock, _errors():
            found = self.connection.execute("SELECT * FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
            return None if found is None else JobRow(*found)

    def jobs(self, after: tuple[int, str], last_ms: int, rows: int) -> list[JobRow]:
        """Those behind a due time and id that are due until a time, in that order."""
        with self.lock, _errors():
            return [JobRow(*row) for row in self.connection.execute(JOBS, (*after, last_ms, rows))]

    def job_due_first(self) -> int | None:
        """When the first one is due."""
        with self.lock, _errors():
            found = self.connection.execute("SELECT min(due_ms) FROM jobs").fetchone()[0]
            return None if found is None else int(found)

    def job_bytes(self) -> int:
        """How many bytes of the scheduler's journal the jobs take."""
        with self.lock, _errors():
            return int(self.connection.execute("SELECT coalesce(sum(size), 0) FROM jobs").fetchone()[0])

    def jobs_in(self, file: int) -> list[JobRow]:
        """The jobs that stand in a file of the scheduler's journal. Looks through all jobs."""
        with self.lock, _errors():
            found = self.connection.execute("SELECT * FROM jobs WHERE file = ? ORDER BY offset", (file,))
            return [JobRow(*row) for row in found]

    def move_job(self, job_id: str, place: tuple[int, int, int]) -> None:
        """A job stands further behind now: file, offset, size."""
        with self.lock, _errors():
            self.connection.execute(
                "UPDATE jobs SET file = ?, offset = ?, size = ? WHERE job_id = ? AND (file, offset) < (?, ?)",
                (*place, job_id, *place[:2]),
            )

    def job_count(self) -> int:
        """How many there are."""
        with self.lock, _errors():
            return int(self.connection.execute("SELECT count(*) FROM jobs").fetchone()[0])

    # -- what keeps journal files --------------------------------------------------------------------------------

    def refer(self, file: int, message_file: int) -> None:
        """A record of one file acknowledges a message of another one."""
        files = self.ack_files.get(file)
        if files is None:
            files = self.ack_files[file] = set()
        if message_file not in files:
            files.add(message_file)
            self._ack_files_new.add((file, message_file))

    def release(self, file: int) -> None:
        """What a file acknowledges is acknowledged elsewhere, too."""
        if self.ack_files.pop(file, None) is not None:
            self._ack_files_new = {new for new in self._ack_files_new if new[0] != file}
            with self.lock, _errors():
                self.connection.execute("DELETE FROM ack_files WHERE file = ?", (file,))

    def transaction_files(self) -> list[tuple[int, int]]:
        """Of each transaction in doubt the first and the last file that it has to do with."""
        with self.lock, _errors():
            return self.connection.execute("SELECT first_file, last_file FROM transactions").fetchall()

    def subscription_files(self) -> set[int]:
        """The files in which subscriptions began."""
        return {one.location[0] for topic in self.known for one in topic.subscriptions.values()}

    def forget_files(self, numbers: Iterable[int]) -> None:
        """Journal files are gone."""
        with self.lock, _errors():
            for number in numbers:
                self.live.pop(number, None)
                self.ack_files.pop(number, None)
                self.connection.execute("DELETE FROM ack_files WHERE file = ?", (number,))


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """Let SQLite's errors be ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise TransientStoreError(f"the index cannot be used: {error}") from error
