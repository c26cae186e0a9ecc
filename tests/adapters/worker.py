"""Real Celery workers, and programs that use them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers.server import CHECKOUT
from tests.waiting import wait_until

__all__ = ["Worker", "environment"]

#: A process of billiard's pool waits for so long, at its end, for its worker to read the result of its last task. The
#: worker never reads it if it loses a connection before it has heard that the task was begun: Celery forgets the task
#: then, with every transport, and a worker that knows of no task reads no results when it ends (docs/celery.md).
_CHILD_WAITS_S = 30.0
_END_S = 30.0


def environment(broker_url: str, folder: Path) -> dict[str, str]:
    """For workers and programs: where the broker is, and results go."""
    results = folder / "results"
    results.mkdir(exist_ok=True)
    places = {"TEST_BROKER": broker_url, "TEST_RESULTS": f"file://{results}"}
    return {**os.environ, **places, "PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"}


class Worker:
    """``celery worker`` on the application of the tests. A context manager that ends it.

    Args:
        broker_url: of its broker.
        folder: for its log and results.
        name: of the node; different for each.
        arguments: more of the command line.
    """

    def __init__(self, broker_url: str, folder: Path, name: str, *arguments: str) -> None:
        self.name = f"{name}@test"
        self.log_file = folder / f"worker-{name}.log"
        command = [sys.executable, "-W", "ignore", "-m", "celery", "-A", "tests.adapters.celery_app", "worker"]
        self._command = [*command, "-n", self.name, "-l", "INFO", *arguments]
        self._environment = environment(broker_url, folder)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=self._environment, start_new_session=True
            )
        wait_until(lambda: " ready." in self.log() or self._process.poll() is not None, self.log)  # type: ignore[union-attr]
        assert self._process.poll() is None, self.log()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._end(signal.SIGTERM, _CHILD_WAITS_S + _END_S)

    def kill(self) -> None:
        """``kill -9``: the worker and its children."""
        self._end(signal.SIGKILL, _END_S)

    def _end(self, number: signal.Signals, timeout_s: float) -> None:
        assert self._process is not None
        process, self._process = self._process, None
        if number is signal.SIGKILL:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGUSR1)  # Celery then tells what each of its threads does
            with suppress(subprocess.TimeoutExpired):
                process.wait(3)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise AssertionError(f"the worker did not end\n{self.log()[-12000:]}") from None

    def signal(self, number: signal.Signals) -> None:
        """To the worker and its children."""
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def log(self) -> str:
        """What it has said."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
