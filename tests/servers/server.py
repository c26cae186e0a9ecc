"""What all test servers share: a folder, a port, a life.

A server is its folder: `server.json` in it says how to reach it, so that another process can attach to a server that
this one started.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Self

KEEPER = Path(__file__).with_name("keeper.py")
CHECKOUT = Path(__file__).parents[2]
USER = PASSWORD = "jdbcstore"
PAUSE_TIMEOUT_S = 60.0
#: Runs a statement as the administrator, in autocommit; the rows it answers.
Execute = Callable[[str], list[tuple[Any, ...]]]


class ServerMissing(Exception):
    """The server's program is not installed."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is not installed: run `make test-servers`, which installs the servers that the tests need"
        )


class ServerFailed(Exception):
    """The server did not start or stop; the message ends with the last lines of its log."""


class DatabaseServer:
    """One private server. Use it as a context manager, or call `start` and `remove`.

    Args:
        guard_pid: the server ends when this process ends; None means this process.
        folder: where it keeps everything; None means a new temporary folder.
        is_flushed: every commit is on the disk, as in production. A server that is never started again after a crash
            need not: nothing that it does for its clients is different, only sooner.
    """

    scheme: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]
    start_timeout_s: ClassVar[float] = 60.0
    #: Of its end, clean or not.
    stop_timeout_s: ClassVar[float] = 60.0

    def __init__(self, guard_pid: int | None = None, folder: Path | None = None, *, is_flushed: bool = True) -> None:
        self.is_flushed = is_flushed
        self.folder = folder or Path(tempfile.mkdtemp(prefix="jdbcstore-server-"))
        self.guard_pid = guard_pid or os.getpid()
        self.port = 0
        #: Where it listens, and what begins its command: another one on a host of its own (`tests.servers.network`).
        self.address = "127.0.0.1"
        self.inside: Sequence[str] = ()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    # what each kind of server says

    def initialise(self) -> None:
        """Make the data directory."""
        raise NotImplementedError

    def command(self) -> Sequence[str]:
        """The server in the foreground."""
        raise NotImplementedError

    def user_id(self) -> int | None:
        """The user who must run the server, when this one must not."""
        return None

    def ping(self) -> None:
        """Raise the driver's error unless the server answers a statement."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Create the ordinary user, once, after the first start."""
        raise NotImplementedError

    def version(self) -> str:
        """What SELECT version() answers."""
        raise NotImplementedError

    def create_database(self, name: str) -> None:
        """A new empty database, owned by the ordinary user."""
        raise NotImplementedError

    def drop_database(self, name: str) -> None:
        """Remove a database and end its sessions first."""
        raise NotImplementedError

    def kill_sessions(self, database: str | None = None, execute: Execute | None = None) -> int:
        """End the sessions of one database, or all but our own.

        Args:
            database: whose; None means every one.
            execute: runs statements in a session of the administrator's, which stays; None means one made for it.

        Returns:
            How many there were.
        """
        raise NotImplementedError

    def session(self, database: str) -> AbstractContextManager[Execute]:
        """Run statements in a database as the administrator, in autocommit: each call answers its rows."""
        raise NotImplementedError

    # what is the same for all

    def url(self, database: str) -> str:
        """SQLAlchemy's URL of a database, for the ordinary user."""
        return f"{self.scheme}://{USER}:{PASSWORD}@{self.address}:{self.port}/{database}"

    def start(self) -> None:
        """Start the server and wait until it answers. Starting it again after `stop` or `kill` keeps port and data."""
        first = self.port == 0
        if first:
            self.initialise()
            self.port = free_port()
        self._run()
        if first:
            self.prepare()
            save(self.folder / "server.json", {"port": self.port})

    def attach(self) -> bool:
        """Use the server that another process started in this folder. False when there is none."""
        try:
            self.port = json.loads((self.folder / "server.json").read_text())["port"]
        except FileNotFoundError:
            return False
        return True

    def stop(self) -> None:
        """Stop the server cleanly; the data stays."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """`kill -9` the server; the data stays as a crash leaves it."""
        self._end(signal.SIGUSR1)

    def pause(self) -> None:
        """SIGSTOP every process of the server: connections stay open, nothing is answered. `proceed` ends it.

        Returns when they have stopped, which on a busy machine is some time after the signal.
        """
        deadline = time.monotonic() + PAUSE_TIMEOUT_S
        for process in self._signal_all(signal.SIGSTOP):
            while is_at_work(process):
                if time.monotonic() > deadline:
                    raise ServerFailed(f"process {process} does not stop within {PAUSE_TIMEOUT_S:g} s")
                time.sleep(0.001)

    def proceed(self) -> None:
        """SIGCONT."""
        self._signal_all(signal.SIGCONT)

    def restart(self) -> None:
        """Stop cleanly and start again on the same port."""
        self.stop()
        self.start()

    def remove(self) -> None:
        """Kill the server and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log_tail(self) -> str:
        """The last lines of the server's log."""
        try:
            lines = (self.folder / "log").read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return "(no log)"
        return "\n".join(lines[-20:])

    def _run(self) -> None:
        (self.folder / "keeper.pid").unlink(missing_ok=True)
        order = {
            "command": [*self.inside, *self.command()],
            "folder": str(self.folder),
            "guard_pid": self.guard_pid,
            "user_id": None if self.inside else self.user_id(),
            "stop_signal": int(self.stop_signal),
        }
        with (self.folder / "log").open("ab") as log:
            subprocess.run(
                [sys.executable, "-I", str(KEEPER), json.dumps(order)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
                timeout=60,
            )
        deadline = time.monotonic() + self.start_timeout_s
        while True:
            try:
                self.ping()
            except Exception as error:
                if time.monotonic() > deadline or self._has_ended():
                    self.kill()
                    raise ServerFailed(f"{type(self).__name__} did not start: {error}\n{self.log_tail()}") from error
                time.sleep(0.02)
            else:
                return

    def _has_ended(self) -> bool:
        try:
            keeper = self._keeper()
        except FileNotFoundError:  # not yet written
            return False
        if keeper is None:
            return True
        os.close(keeper)
        return False

    def _keeper(self) -> int | None:
        """A pidfd of the keeper; None when it has ended."""
        try:
            return os.pidfd_open(int((self.folder / "keeper.pid").read_text()))
        except ProcessLookupError:
            return None

    def _signal_all(self, number: signal.Signals) -> list[int]:
        parents = [int((self.folder / "keeper.pid").read_text())]
        signalled: list[int] = []
        while parents:
            parents = [child for parent in parents for child in children(parent)]
            for child in parents:
                with contextlib.suppress(ProcessLookupError):  # ended meanwhile
                    os.kill(child, number)
                    signalled.append(child)
        return signalled

    def _end(self, number: signal.Signals) -> None:
        try:
            keeper = self._keeper()
        except FileNotFoundError:
            return
        if keeper is None:
            return
        try:
            signal.pidfd_send_signal(keeper, number)
            poll = select.poll()
            poll.register(keeper, select.POLLIN)
            if not poll.poll(self.stop_timeout_s * 1000):
                signal.pidfd_send_signal(keeper, signal.SIGUSR1)
                within = f"within {self.stop_timeout_s:.0f} s"
                raise ServerFailed(f"{type(self).__name__} did not stop {within} and was killed\n{self.log_tail()}")
        except ProcessLookupError:
            pass
        finally:
            os.close(keeper)


def is_at_work(pid: int) -> bool:
    """Whether a process is there and a thread of it not stopped: they stop one after the other."""
    for thread in _threads(pid):
        try:
            state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state not in "TtZX":
            return True
    return False


def _threads(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return []


def children(pid: int) -> list[int]:
    """The processes that a process has started, none when it has ended."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


@cache
def _ports_of(pid: int) -> Iterator[int]:
    """Ports below those that the kernel gives to clients, in turns: those that a process gave last come last.

    No other process has them: between looking at a port and listening there another one may look, too.
    """
    lock = socket.socket(socket.AF_UNIX)  # known by name wherever ports are shared, and gone with this process
    for share in range(_SHARES):
        with contextlib.suppress(OSError):
            lock.bind(f"\0jdbcstore-test-ports-{share}")
            atexit.register(lock.close)  # and keeps it
            ports = range(15_000 + share, 30_000, _SHARES)
            start = random.SystemRandom().randrange(len(ports))
            return cycle([*ports[start:], *ports[:start]])
    lock.close()
    raise ServerFailed(f"{_SHARES} other processes start servers for tests on this machine: wait for one to end")


#: Into how many shares the ports are cut: more than there are processes that start servers at the same time.
_SHARES: Final = 32


def free_port() -> int:
    """A loopback port that nobody listens on, and that is still free after a restart of who will."""
    for port in islice(_ports_of(os.getpid()), 15_000 // _SHARES):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ServerFailed("no port of this process's share of 15000 to 30000 on 127.0.0.1 is free")


def save(path: Path, value: object) -> None:
    """Write JSON, whole or not at all."""
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(value))
    temporary.rename(path)
