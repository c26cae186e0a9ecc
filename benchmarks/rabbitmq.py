"""A private RabbitMQ with STOMP: Debian's package, on free ports, everything it keeps in a folder of its own.

It is for the comparison only (`benchmarks.peer`); the tests do not need it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.servers.server import ServerFailed, ServerMissing, children, free_port

__all__ = ["RabbitMQ"]

#: Debian's program itself: the one in /usr/sbin changes to a user of the system's own server.
_PROGRAM: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_START_TIMEOUT_S: Final = 120.0
_STOP_TIMEOUT_S: Final = 60.0
#: The load generator logs in as nobody, on a virtual host of this name.
_CONFIGURATION: Final = """
default_vhost = localhost
listeners.tcp = none
stomp.listeners.tcp.1 = 127.0.0.1:{port}
stomp.default_user = guest
stomp.default_pass = guest
log.console = false
"""


class RabbitMQ:
    """One node; a context manager that starts it and ends it.

    Args:
        folder: for its configuration, data and logs.

    Attributes:
        stomp_port: where it listens.
        pid: of the Erlang machine that is all of the broker.
    """

    def __init__(self, folder: Path) -> None:
        self.stomp_port = free_port()
        self.pid = 0
        self._folder = folder
        self._mapper_port = free_port()
        self._node = f"benchmark{self.stomp_port}@localhost"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if not _PROGRAM.exists():
            raise ServerMissing("RabbitMQ (Debian's package rabbitmq-server, which `make benchmark-peer` asks for)")
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def declare_quorum_queue(self, name: str) -> str:
        """Declare a quorum queue; returns the destination that STOMP reaches it by."""
        headers = "x-queue-type:quorum\ndurable:true\nauto-delete:false\nack:client-individual\nid:1"
        frames = f"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0SUBSCRIBE\ndestination:/queue/{name}\n{headers}\n"
        frames += "receipt:declared\n\n\0"
        with socket.create_connection(("127.0.0.1", self.stomp_port), timeout=30) as client:
            client.sendall(frames.encode())
            answer = b""
            while b"receipt-id:declared" not in answer:
                chunk = client.recv(4096)
                if not chunk or b"ERROR" in answer:
                    raise ServerFailed(f"RabbitMQ did not declare the queue {name}: {answer.decode()}")
                answer += chunk
            client.sendall(b"DISCONNECT\n\n\0")
        return f"/amq/queue/{name}"

    # -- its life --------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        (self._folder / "rabbitmq.conf").write_text(_CONFIGURATION.format(port=self.stomp_port))
        (self._folder / "enabled_plugins").write_text("[rabbitmq_stomp].\n")
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_PROGRAM], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment(), cwd=self._folder
            )
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.stomp_port), timeout=1).close()
            except OSError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    lines = (self._folder / "log").read_text(errors="replace").splitlines()[-20:]
                    raise ServerFailed("RabbitMQ did not start\n" + "\n".join(lines)) from error
                time.sleep(0.05)
            else:
                break
        self.pid = self._machine()

    def _environment(self) -> dict[str, str]:
        folder = self._folder
        return {
            **os.environ,
            "HOME": str(folder),  # where Erlang has its cookie
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "environment.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
        }

    def _machine(self) -> int:
        """The Erlang machine among what was started: a shell may stand before it."""
        assert self._process is not None
        candidates = [self._process.pid]
        for pid in candidates:
            if Path(f"/proc/{pid}/comm").read_text().startswith("beam"):
                return pid
            candidates += children(pid)
        raise ServerFailed("RabbitMQ runs, but not in an Erlang machine that was found")

    def _end(self) -> None:
        process = self._process
        if process is None:
            return
        if self.pid and process.poll() is None:
            os.kill(self.pid, signal.SIGTERM)
        try:
            process.wait(_STOP_TIMEOUT_S if self.pid else 1)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        # The port mapper that the node has started outlives it.
        if mapper := shutil.which("epmd"):
            environment = {**os.environ, "ERL_EPMD_PORT": str(self._mapper_port)}
            subprocess.run([mapper, "-kill"], env=environment, capture_output=True, timeout=30, check=False)
