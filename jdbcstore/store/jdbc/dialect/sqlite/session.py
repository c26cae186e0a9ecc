"""SQLite's connections, with the standard library's driver.

WAL with synchronous=FULL: a commit survives the loss of power, readers never wait for the writer. When forcing the
log to the disk fails, SQLite takes the transaction back, and the next one is written over it. But a process may end
behind the write of a commit and before its force, also a failed one, and the next process reads the commit out of the
system's memory. So whoever begins to write copies the log into the database first, which forces both: nothing is
believed that the disk has not.

Who only reads opens the file for reading (`SQLiteDialect.for_reading`): the log that a killed broker has left stays as
it is, which needs neither room nor the right to write.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

from sqlalchemy import URL, Connection, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError

from jdbcstore.errors import StoreError, StoreUnavailable
from jdbcstore.store import disk
from jdbcstore.store.jdbc.dialect.base.errors import ConnectionLost
from jdbcstore.store.jdbc.dialect.sqlite.errors import KINDS, code_of
from jdbcstore.store.jdbc.dialect.sqlite.write import SQLiteStatements
from jdbcstore.store.jdbc.options import JdbcOptions

__all__ = ["SQLiteDialect"]

log = logging.getLogger(__name__)

#: How often to try again what SQLite does not wait for.
_LOOK_AGAIN_S: Final = 0.01
#: sqlite3's, which has the name since Python 3.12.
_LEGACY_TRANSACTION_CONTROL: Final = -1


def _path_of(name: str) -> str:
    """The path of a file that SQLite may be given as a URI (https://www.sqlite.org/uri.html)."""
    return unquote(urlsplit(name).path) if name.startswith("file:") else name


class SQLiteDialect(SQLiteStatements):
    """SQLite 3.35 and newer, one file."""

    has_server = False
    gains_by_rebuilding = True
    locked_codes = frozenset({"SQLITE_BUSY", "SQLITE_LOCKED"})
    no_table_words = ("no such table",)

    @classmethod
    def keeps_uncommitted(cls, raw: Any) -> bool:
        # Since Python 3.12 there is a mode; before, and without one, an isolation level of None is autocommit.
        mode = getattr(raw, "autocommit", _LEGACY_TRANSACTION_CONTROL)
        begins = raw.isolation_level is not None if mode == _LEGACY_TRANSACTION_CONTROL else not mode
        return bool(raw.in_transaction or begins)

    @classmethod
    def engine_arguments(cls, options: JdbcOptions, given: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "connect_args": {"timeout": options.query_timeout_s, "check_same_thread": False, "cached_statements": 256},
        }

    @classmethod
    def make_file(cls, arguments: Sequence[object], parameters: Mapping[str, object]) -> None:
        # SQLite would make it readable for everybody; its other files get the mode of this one.
        place = str(arguments[0]) if arguments else ""
        if parameters.get("uri"):
            asked = parse_qs(urlsplit(place).query)
            if "immutable" in asked or asked.get("mode", ["rwc"]) != ["rwc"]:
                return
            place = _path_of(place)
        if not place or place == ":memory:":
            return
        try:
            disk.DiskFile(Path(place), create=True).close()
            reason = 0
        except FileExistsError:
            # Not opened: closing it would take away the locks that this process has on it.
            is_closed = os.path.exists(place) and not os.access(place, os.R_OK)  # a link may lead to none yet
            reason = errno.EISDIR if os.path.isdir(place) else errno.EACCES if is_closed else 0
        except OSError as error:
            reason = error.errno or 0
        if reason not in (0, errno.ENOSPC):  # that SQLite says itself
            raise ConnectionLost(f"cannot open {place}: {os.strerror(reason)}")

    @classmethod
    def for_reading(cls, url: URL) -> URL:
        # To read, SQLite needs log and index, and makes what is not there; a connection that only reads does not
        # remove them. So without a log it is opened as usual, or, where nothing can be written, as a file that nobody
        # changes: whoever has it open has both.
        file = cls.file_of(url)
        place = os.path.realpath(file)  # where SQLite has the log of a link
        only_reads = url.query.get("mode") == "ro" or "immutable" in url.query
        if only_reads or not os.access(place, os.R_OK):  # opening it tells what is the matter
            return url
        log_file, index = f"{place}-wal", f"{place}-shm"
        may_write = os.access(os.path.dirname(place), os.W_OK) and os.access(place, os.W_OK)
        has_log, has_index = os.path.exists(log_file), os.path.exists(index)
        is_in_log = has_log and os.path.getsize(log_file) > 0
        reading = {}
        if (may_write and is_in_log) or (not may_write and has_log and has_index):
            reading = {"mode": "ro"}
        elif not may_write and not is_in_log:
            reading = {"immutable": "1"}
        elif not may_write:
            raise StoreUnavailable(
                f"{file} cannot be read here: what is in its log {log_file} SQLite finds with an index, {index},"
                " which is not there and cannot be made in this directory. Copy both files to where you may write"
            )
        named = {"database": f"file:{quote(file)}", "query": {**url.query, **reading, "uri": "true"}}
        return url.set(**named) if reading else url  # type: ignore[arg-type]  # a dictionary of both

    @classmethod
    def file_of(cls, url: URL) -> str:
        name = url.database or ""
        return _path_of(name) if "uri" in url.query else name

    def connected(self, connection: Connection) -> None:
        limit = sqlite3.SQLITE_LIMIT_LENGTH
        raw: Any = connection.connection.dbapi_connection
        self.message_bytes_max = min(self.options.message_bytes_max, raw.getlimit(limit) - 4096)
        asked = connection.engine.url.query
        if asked.get("mode") != "ro" and "immutable" not in asked:
            self._get_ready_to_write(connection)

    def _get_ready_to_write(self, connection: Connection) -> None:
        self._write_ahead(connection)
        for pragma in ("synchronous=FULL", "wal_autocheckpoint=4000", "cache_size=-8000"):
            connection.exec_driver_sql(f"PRAGMA {pragma}")
        # Until its next statement, a connection that has made a WAL file of another is said to be reading it.
        connection.exec_driver_sql("SELECT COUNT(*) FROM sqlite_master").one()
        _, frames, copied = connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)").one()
        if copied < frames:
            log.warning("somebody reads an old state: what was committed last is forced with the next commit only")

    def _write_ahead(self, connection: Connection) -> None:
        # SQLite waits for nobody who does the same to a file that has no write-ahead log yet: two would wait for ever.
        until = time.monotonic() + self.options.query_timeout_s
        while True:
            try:
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                return
            except DBAPIError as error:
                if not self.is_locked(error) or time.monotonic() > until:
                    raise
            time.sleep(_LOOK_AGAIN_S)

    def take_over(self, connection: Connection, parameters: Mapping[str, object]) -> bool:
        names = self.statements
        take = (
            f"UPDATE {names.lock} SET BROKER_NAME = :holder, TIME = {names.lease_end}"
            f" WHERE ID = 1 AND {names.lease_is_free} AND (SELECT TERM FROM {names.term} WHERE ID = 1) = :seen"
        )
        connection.exec_driver_sql(self.begin)
        taken = connection.execute(text(take), parameters).rowcount > 0
        if taken:
            connection.execute(text(names.term_next), {"holder": parameters["holder"]})
        connection.exec_driver_sql("COMMIT")
        return taken

    def rollback(self, connection: DBAPIConnection) -> None:
        raw: Any = connection
        if raw.in_transaction:
            raw.execute("ROLLBACK")

    def size_query(self) -> str:
        return "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"

    def error_code(self, error: BaseException) -> str:
        return code_of(error)

    def error_kinds(self) -> Mapping[str, type[StoreError]]:
        return KINDS
