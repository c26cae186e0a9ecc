"""One server of a kind for a whole test run, however many processes the run has.

The run's folder belongs to its controlling process. Whoever needs a server first starts it there, under a file lock;
the others attach. The servers are kept for the controlling process (see `keeper`), so it does not matter which worker
started them or when that worker leaves.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from tests.servers.mariadb import MariaDBServer
from tests.servers.mysql import MySQLServer
from tests.servers.postgresql import PostgreSQLServer
from tests.servers.server import DatabaseServer


class MakeServer(Protocol):
    """A kind of server; the arguments are those of `DatabaseServer`."""

    def __call__(
        self, guard_pid: int | None = None, folder: Path | None = None, *, is_flushed: bool = True
    ) -> DatabaseServer: ...


KINDS: Final[Mapping[str, MakeServer]] = {
    "postgresql15": partial(PostgreSQLServer, 15),
    "postgresql18": partial(PostgreSQLServer, 18),
    "mariadb": MariaDBServer,
    "mysql": MySQLServer,
}


def shared_server(kind: str, run_folder: Path, run_pid: int) -> DatabaseServer:
    """The run's server of a kind (a key of KINDS), started if nobody has yet.

    Raises:
        ServerMissing: it is not installed.
        ServerFailed: it did not start.
    """
    folder = run_folder / kind
    with _locked(folder):
        server = KINDS[kind](run_pid, folder, is_flushed=False)  # nobody restarts it
        if not server.attach():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            server.start()
        return server


def shared_result(run_folder: Path, name: str, make: Callable[[Path], str]) -> str:
    """What is made once for a whole run, by whichever process is the first to ask.

    Args:
        run_folder: the run's.
        name: of the folder in it that this is made in.
        make: makes it in a new folder and says what others need to know, such as where it is.
    """
    folder = run_folder / name
    with _locked(folder):
        told = folder / "told"
        if not told.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            told.write_text(make(folder))
        return told.read_text()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def remove_shared_servers(run_folder: Path) -> None:
    """Kill every server of the run and remove its folder."""
    for kind, make in KINDS.items():
        if (run_folder / kind).exists():
            make(None, run_folder / kind).remove()
    shutil.rmtree(run_folder, ignore_errors=True)
