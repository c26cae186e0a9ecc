"""Our broker in a process of its own, as users run it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers.server import ServerFailed, free_port

__all__ = ["BrokerProcess"]


class BrokerProcess:
    """``jdbcstore broker`` on a free port. A context manager that starts it and ends it.

    Args:
        url: of its store.
        folder: for its log, and its working directory.
        arguments: more of the command line.
        program: how to run it.
    """

    def __init__(
        self,
        url: str,
        folder: Path,
        *arguments: str,
        program: Sequence[str] = (sys.executable, "-m", "jdbcstore"),
    ) -> None:
        self.port = free_port()
        self.log_file = folder / f"broker-{self.port}.log"
        self._folder = folder
        self._command = [*program, "broker", "--url", url, "--bind", f"127.0.0.1:{self.port}", *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.stop()

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def start(self, timeout_s: float = 30) -> None:
        """Start it and return when clients may connect."""
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=self._environment(),
            )
        deadline = time.monotonic() + timeout_s
        while "listens for STOMP" not in self.log():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise ServerFailed(f"the broker did not start\n{self.log()[-4000:]}")
            time.sleep(0.02)

    def stop(self) -> int:
        """Ask it to stop; returns its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """``kill -9``."""
        self._end(signal.SIGKILL)

    def log(self) -> str:
        """Everything that it has printed."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        process, self._process = self._process, None
        process.send_signal(number)
        try:
            return process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ServerFailed(f"the broker did not end after {number.name}\n{self.log()[-4000:]}") from None

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONUNBUFFERED": "1"}
