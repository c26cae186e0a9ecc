"""Starts ``jdbcstore`` in processes of their own, without that each of them imports everything anew.

Importing is most of the processor time that a start takes. So one process imports what every broker needs, and forks
for each start: the child has its own arguments, environment, working directory and log, and then runs the program's
`main` from its beginning to the end of the interpreter. What it does not have of its own is what
the interpreter reads when it begins, and the command line that ``ps`` shows: a program whose environment is another one
than the first one's, or that is looked at from outside, has to be started in the usual way.

The protocol: a packet with the request in JSON, with it the log and one end of a pair of sockets; on that the process
id is told, and when the process has ended, its exit code.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final

__all__ = ["Launched", "Launcher"]

#: What a broker has imported when it is master, on any store. Nothing that differs from process to process is among it.
_IMPORTED: Final = (
    "alembic.command",
    "alembic.config",
    "jdbcstore.cli",
    "jdbcstore.console.broker",
    "jdbcstore.management.desk",
    "jdbcstore.store.jdbc.adapter",
    "jdbcstore.store.jdbc.dialect.mariadb",
    "jdbcstore.store.jdbc.dialect.mysql.session",
    "jdbcstore.store.jdbc.dialect.mysql.write",
    "jdbcstore.store.jdbc.dialect.postgresql.session",
    "jdbcstore.store.jdbc.dialect.postgresql.write",
    "jdbcstore.store.jdbc.dialect.sqlite.session",
    "jdbcstore.store.jdbc.dialect.sqlite.write",
    "jdbcstore.store.journal.kahadb.adapter",
    "jdbcstore.transport.web.metrics",
    "psycopg2.extras",
    "sqlalchemy.dialects.mysql",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.dialects.sqlite",
    "uvloop",
)
#: Variables that neither the interpreter nor what is imported has read: they may differ.
_READ_LATE: Final = ("JDBCSTORE_", "_JDBCSTORE_", "_CHAOS_", "PYTEST_CURRENT_TEST")
_REQUEST_BYTES_MAX: Final = 200_000


class Launched:
    """A process that was launched; as `subprocess.Popen`.

    Args:
        told: what the launcher writes to.
    """

    def __init__(self, told: socket.socket) -> None:
        self._told = told
        self._lock = threading.Lock()
        self._code: int | None = None
        self.pid = int(self._line())

    def poll(self) -> int | None:
        """Its exit code, minus the signal if one ended it; None while it is there."""
        with self._lock:
            if self._code is None and select.select([self._told], [], [], 0)[0]:
                self._code = int(self._line())
                self._told.close()
            return self._code

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait until it ends; its exit code.

        Raises:
            subprocess.TimeoutExpired: it does not end in this time.
        """
        while (code := self.poll()) is None:
            if not select.select([self._told], [], [], timeout_s)[0]:
                raise subprocess.TimeoutExpired("jdbcstore", timeout_s or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it is there."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """``kill -9`` it, if it is there."""
        self.send_signal(signal.SIGKILL)

    def _line(self) -> str:
        line = b""
        while not line.endswith(b"\n"):
            if not (more := self._told.recv(32)):
                raise ChildProcessError("the launcher has ended")
            line += more
        return line.decode()


class Launcher:
    """The process that forks, which this one starts when it is needed and ends when it ends itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._environment: dict[str, str] = {}

    @property
    def pid(self) -> int | None:
        """The process that forks; None before it is needed."""
        return None if self._process is None else self._process.pid

    def launch(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        log: BinaryIO,
        script: Path | None = None,
    ) -> Launched | None:
        """Run ``python -m jdbcstore`` with these arguments, or a script.

        Args:
            arguments: those behind the name of the program.
            folder: its working directory.
            environment: all of its variables.
            log: where its output goes.
            script: what is run as ``python -P SCRIPT``.

        Returns:
            None if the environment is another one than that of the first call, apart from our own variables.
        """
        with self._lock:
            if self._requests is None:
                self._start(environment)
            if _lasting(environment) != self._environment:
                return None
            assert self._requests is not None
            ours, theirs = socket.socketpair()
            with theirs:
                request = [None if script is None else str(script), list(arguments), str(folder), dict(environment)]
                socket.send_fds(self._requests, [json.dumps(request).encode()], [log.fileno(), theirs.fileno()])
        return Launched(ours)

    def end(self) -> None:
        """End it; what it has launched goes on."""
        if self._process is not None and self._requests is not None:
            self._requests.close()
            self._process.wait()

    def _start(self, environment: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                env=dict(environment),
                pass_fds=[theirs.fileno()],
            )
        self._environment = _lasting(environment)
        self._requests = ours
        atexit.register(self.end)


def _lasting(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables without those that only our program reads, and the one that pytest changes all the time."""
    return {name: value for name, value in environment.items() if not name.startswith(_READ_LATE)}


def _await_turn(requests: socket.socket) -> str | None:
    """Fork for each request; ends the process with its client.

    Returns:
        In a child that is ready to run a script, that; None if it is to run the program.
    """
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    launched: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([requests.fileno(), wake], [], [])
        if wake in ready:
            os.read(wake, 1000)
            _tell_of_ended(launched)
        if requests.fileno() not in ready:
            continue
        packet, fds, _, _ = socket.recv_fds(requests, _REQUEST_BYTES_MAX, 2)
        if not packet:
            sys.exit()
        log, told = fds[0], socket.socket(fileno=fds[1])
        if not (pid := os.fork()):
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.default_int_handler)
            for end in (wake, woken):
                os.close(end)
            for other in (requests, told, *launched.values()):
                other.close()
            return _become(log, *json.loads(packet))
        os.close(log)
        launched[pid] = told
        try:
            told.send(b"%d\n" % pid)
        except BrokenPipeError:  # who asked has waited too long for it, and nobody would end it
            os.kill(pid, signal.SIGKILL)


def _tell_of_ended(launched: dict[int, socket.socket]) -> None:
    while launched:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with launched.pop(pid) as told:
            try:
                told.send(b"%d\n" % os.waitstatus_to_exitcode(status))
            except BrokenPipeError:  # nobody wants to know
                continue


def _become(log: int, script: str | None, arguments: list[str], folder: str, environment: dict[str, str]) -> str | None:
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if script is None:
        main: Any = import_module("jdbcstore.__main__")
        sys.argv = [main.__file__, *arguments]
        sys.path.insert(0, folder)
    else:
        sys.argv = [script, *arguments]
        sys.orig_argv = [sys.executable, "-P", *sys.argv]
    return script


if __name__ == "__main__":
    for module in _IMPORTED:
        import_module(module)
    gc.collect()
    gc.freeze()  # else each broker's first collection of garbage would copy all of it
    if (script := _await_turn(socket.socket(fileno=int(sys.argv[1])))) is None:
        import_module("jdbcstore.cli").main()
    else:
        runpy.run_path(script, run_name="__main__")
