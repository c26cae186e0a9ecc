"""MySQL: the real server, unpacked beside its own libraries by `make test-servers`."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import pymysql

from tests.certificates import Authority
from tests.servers.server import CHECKOUT, PASSWORD, USER, DatabaseServer, Execute, ServerMissing

FOLDER_VARIABLE = "JDBCSTORE_TEST_SERVERS_DIR"
#: Attempts to connect as root before an error counts.
_GREETINGS = 3


class MySQLServer(DatabaseServer):
    """A private MySQL server; the binary log is off, and so is TLS on one that may forget commits."""

    scheme = "mysql+pymysql"
    stop_signal = signal.SIGTERM
    #: What lets it forget commits when the machine fails, and spares it the waiting.
    unflushed: ClassVar[Sequence[str]] = (
        "--innodb-flush-method=nosync",
        "--innodb-flush-log-at-trx-commit=2",
        "--skip-innodb-doublewrite",
    )

    def initialise(self) -> None:
        """Copy the data directory that was initialised when the server was installed.

        It gets a certificate. For want of one the server makes RSA keys at its start, with which every connection takes
        longer.
        """
        data = self.folder / "data"
        shutil.copytree(mysql_folder() / "template", data)
        Authority(data, "ca").identity("server-cert").key.rename(data / "server-key.pem")

    def command(self) -> Sequence[str]:
        """mysqld on loopback and on a socket in the folder."""
        return [
            str(mysql_folder() / "mysqld"),
            *self.settings(),
            "--mysqlx=OFF",
            "--performance-schema=OFF",
            "--skip-log-bin",
            "--secure-file-priv=NULL",
            "--innodb-redo-log-capacity=128M",
            # A store makes three connections at its start; their handshakes would be a large part of a short test.
            *([] if self.is_flushed else ["--tls-version="]),
        ]

    def settings(self) -> list[str]:
        """What MySQL and MariaDB are told alike."""
        return [
            f"--datadir={self.folder / 'data'}",
            f"--socket={self.socket}",
            f"--pid-file={self.folder / 'server.pid'}",
            f"--tmpdir={self.folder}",  # a starting MariaDB removes other servers' temporary tables from a shared one
            f"--port={self.port}",
            f"--bind-address={self.address}",
            *(["--skip-name-resolve"] if self.inside else []),  # such hosts have no names, which would be waited for
            "--max-connections=200",
            "--connect-timeout=60",  # for a client that gets no processor in the middle of its greeting
            "--max-allowed-packet=64M",
            "--character-set-server=utf8mb4",
            *([] if self.is_flushed else self.unflushed),
        ]

    @property
    def socket(self) -> Path:
        """The administrator's way in."""
        return self.folder / "socket"

    def ping(self) -> None:
        """Raise unless the server answers."""
        self.version()

    def prepare(self) -> None:
        """Create the ordinary user, who comes over TCP: all rights within databases, none over the server."""
        self.execute(f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'")
        self.execute(f"GRANT ALL ON `%`.* TO '{USER}'@'%'")

    def version(self) -> str:
        """What SELECT version() answers."""
        return str(self.execute("SELECT version()")[0][0])

    def create_database(self, name: str) -> None:
        """A new empty database, in which the ordinary user may do everything."""
        self.execute(f"CREATE DATABASE `{name}`")

    def drop_database(self, name: str) -> None:
        """Remove a database and end its sessions first: one left in a transaction would block the statement."""
        self.kill_sessions(name)
        self.execute(f"DROP DATABASE IF EXISTS `{name}`")

    def kill_sessions(self, database: str | None = None, execute: Execute | None = None) -> int:
        """As `DatabaseServer.kill_sessions`."""
        execute = execute or self.execute
        # Not from information_schema.PROCESSLIST: that converts the text of every statement that runs, and fails at
        # one with bytes in it.
        sessions = [
            session
            for session, user, _, name, *_ in execute("SHOW PROCESSLIST")
            if user == USER and database in (None, name)
        ]
        killed = 0
        for session in sessions:
            try:
                execute(f"KILL {session}")
                killed += 1
            except pymysql.err.OperationalError as error:
                if error.args[0] != pymysql.constants.ER.NO_SUCH_THREAD:
                    raise
        return killed

    def execute(self, statement: str, values: dict[str, object] | None = None) -> list[tuple[object, ...]]:
        """Run one statement as root over the socket; the rows it answers."""
        with closing(self._connect_as_root()) as connection, connection.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall())

    @contextmanager
    def session(self, database: str) -> Iterator[Execute]:
        """Run statements in a database as root, in autocommit: each call answers its rows."""
        with closing(self._connect_as_root()) as connection, connection.cursor() as cursor:
            connection.select_db(database)

            def execute(statement: str) -> list[tuple[Any, ...]]:
                cursor.execute(statement)
                return list(cursor.fetchall())

            yield execute

    def _connect_as_root(self) -> pymysql.Connection:
        for _ in range(_GREETINGS - 1):
            with suppress(pymysql.err.InternalError):  # the server gave up in the middle of its greeting
                return self._greeted_as_root()
        return self._greeted_as_root()

    def _greeted_as_root(self) -> pymysql.Connection:
        connection = pymysql.connect(
            unix_socket=str(self.socket), user="root", autocommit=True, ssl_disabled=True, defer_connect=True
        )
        line = socket.socket(socket.AF_UNIX)  # ours, because PyMySQL leaks the one whose connect() is refused
        line.settimeout(60)
        try:
            line.connect(str(self.socket))
        except OSError:
            line.close()
            raise
        connection.connect(line)
        return connection


def mysql_folder() -> Path:
    """Where `make test-servers` put MySQL."""
    folder = Path(os.environ.get(FOLDER_VARIABLE) or CHECKOUT / ".test-servers") / "mysql"
    if not (folder / "ready").exists():
        raise ServerMissing("MySQL")
    return folder
