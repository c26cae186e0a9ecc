"""Our broker in a process of its own, as users run it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import make_url

from tests.launcher import Launched, Launcher
from tests.servers.server import ServerFailed, free_port, is_at_work
from tests.waiting import wait_until

__all__ = ["PROGRAM", "BrokerProcess", "run_command"]

#: As users run it: for what measures the process or looks at it from outside.
PROGRAM = (sys.executable, "-m", "jdbcstore")
_launcher = Launcher()


def _environment() -> dict[str, str]:
    """What begins with JDBCSTORE_ is taken for an option, and what is none is warned of."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("JDBCSTORE_TEST_")}
    return {**ours, "PYTHONUNBUFFERED": "1"}


def run_command(arguments: Sequence[str], folder: Path, timeout_s: float = 60) -> tuple[int, str]:
    """Run ``jdbcstore`` to its end, forked as brokers are if the environment allows it.

    Args:
        arguments: those behind the name of the program.
        folder: its working directory.
        timeout_s: how long it may take.

    Returns:
        Its exit code, and what it has said on both streams; bytes that are no UTF-8 are replaced.
    """
    with tempfile.TemporaryFile() as said:
        process = _launcher.launch(arguments, folder, _environment(), said)
        if process is None:
            command = [*PROGRAM, *arguments]
            code = subprocess.run(command, cwd=folder, stdout=said, stderr=said, timeout=timeout_s).returncode
        else:
            code = process.wait(timeout_s)
        said.seek(0)
        return code, said.read().decode("utf-8", "replace")


class BrokerProcess:
    """``jdbcstore broker`` on a free port. A context manager that starts it and ends it.

    It is forked from a process that has imported what brokers need (`tests.launcher`), unless it says by which program
    or in which environment it is to run.

    Args:
        url: of its store; None if a configuration file among the arguments says it, and where to listen.
        folder: for its log, and its working directory.
        arguments: more of the command line.
        program: how to run it; ``python -m jdbcstore`` is the default.
        script: what takes the place of the program, and its first arguments.
        environment: variables that it has besides ours.
        is_tls: clients connect with TLS; the arguments name the certificate.
    """

    def __init__(
        self,
        url: str | None,
        folder: Path,
        *arguments: str,
        program: Sequence[str] | None = None,
        script: Sequence[str | Path] = (),
        environment: Mapping[str, str] | None = None,
        is_tls: bool = False,
    ) -> None:
        self.port = free_port()
        self.health_port = free_port()
        self.log_file = folder / f"broker-{self.port}.log"
        self._folder = folder
        self._environment = {**_environment(), **(environment or {})}
        places = ["--health-bind", f"127.0.0.1:{self.health_port}"]
        if url is not None:
            places += ["--url", url, "--bind", f"stomp{'+ssl' if is_tls else ''}://127.0.0.1:{self.port}"]
        self._script = Path(script[0]) if script else None
        self._arguments = [*map(str, script[1:]), "broker", *places, *arguments]
        self._program = program
        self._url = url
        self._process: subprocess.Popen[bytes] | Launched | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(self.end_of_log())
        if self._process is not None:
            self.proceed()
            self.stop()

    # -- its life ------------------------------------------------------------------------------------------------

    def start(self, timeout_s: float = 90) -> None:
        """Start it and return when it is master: clients may connect."""
        self.launch()
        self.wait_for("master", timeout_s=timeout_s)

    def start_standby(self, timeout_s: float = 90) -> None:
        """Start it and return when it knows that another broker is master."""
        self.launch()
        self.wait_for("standby", timeout_s=timeout_s)

    def launch(self) -> None:
        """Start it."""
        with self.log_file.open("ab") as log:
            if self._program is None:
                self._process = _launcher.launch(self._arguments, self._folder, self._environment, log, self._script)
            if self._process is not None:
                return
            started = PROGRAM if self._script is None else (sys.executable, "-P", str(self._script))
            self._process = subprocess.Popen(
                [*(self._program or started), *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=self._environment,
            )

    def stop(self) -> int:
        """Ask it to stop; returns its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """``kill -9``."""
        self._end(signal.SIGKILL)

    def wait(self, timeout_s: float = 60) -> int:
        """Wait until it ends by itself; returns its exit code."""
        assert self._process is not None
        code = self._process.wait(timeout_s)
        self._process = None
        return code

    def pause(self, *, anywhere: bool = False) -> None:
        """Stop it (SIGSTOP); on SQLite between two transactions: inside one it would keep everybody from the file.

        Args:
            anywhere: also inside one.
        """
        self._halt()
        while not anywhere and self._has_file_locked():
            self.proceed()
            time.sleep(0.02)
            self._halt()

    def _halt(self) -> None:
        """Return when it has stopped, which on a busy machine is some time after the signal."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        wait_until(lambda: not is_at_work(self.pid))

    def _has_file_locked(self) -> bool:
        """Whether somebody is in a writing transaction of the store, if it is a SQLite file."""
        if self._url is None or not self._url.startswith("sqlite"):
            return False
        with closing(sqlite3.connect(make_url(self._url).database or "", timeout=0, isolation_level=None)) as file:
            try:
                file.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                return True
            return False

    def proceed(self) -> None:
        """Let it go on (SIGCONT)."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)  # nothing if it has ended

    # -- what it tells -------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def address(self) -> tuple[str, int]:
        """Where clients connect."""
        return "127.0.0.1", self.port

    @property
    def is_running(self) -> bool:
        """Whether there is a process, stopped or not."""
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """Everything that it has printed."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def end_of_log(self) -> str:
        """The last that it has printed, for who reads why a test has failed."""
        return self.log()[-4000:]

    def health(self, path: str = "/live", timeout_s: float = 5) -> tuple[int, dict[str, Any]]:
        """What its health endpoint says: the code of HTTP, and the state. Raises OSError when it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}{path}", timeout=timeout_s) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def state(self) -> str:
        """Where it is in its life; ``gone`` when it does not answer."""
        try:
            return str(self.health()[1]["state"])
        except OSError:
            return "gone"

    def wait_for(self, *states: str, timeout_s: float = 90) -> str:
        """Wait until it is in one of these states; returns which."""
        deadline, pause_s = time.monotonic() + timeout_s, 0.02
        while (state := self.state()) not in states:
            if not self.is_running or time.monotonic() > deadline:
                if self._process is not None:
                    self._process.kill()
                raise ServerFailed(f"the broker is {state}, not {' or '.join(states)}\n{self.end_of_log()}")
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.3, 0.1)  # asking costs both of them processor time
        return state

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        process, self._process = self._process, None
        process.send_signal(number)
        try:
            return process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ServerFailed(f"the broker did not end after {number.name}\n{self.end_of_log()}") from None
