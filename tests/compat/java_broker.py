"""ActiveMQ's own program, started from an ``activemq.xml``."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from tests.broker.client import Client
from tests.compat.activemq import ACTIVEMQ_LIBRARIES, quick_start
from tests.servers.server import ServerFailed

__all__ = ["JavaBroker"]


class JavaBroker:
    """ActiveMQ's own program, started from a folder with ``activemq.xml``. A context manager.

    Args:
        class_path: what `compile_java` answered.
        folder: its home, with the file.
        port: of its connector for STOMP.
        options: of the virtual machine.
    """

    def __init__(self, class_path: str, folder: Path, port: int, *options: str) -> None:
        self.port = port
        self._log = folder / "activemq.log"
        libraries = os.pathsep.join([class_path, f"{ACTIVEMQ_LIBRARIES}/optional/*"])
        system = [f"-Dactivemq.{name}={folder}" for name in ("home", "base", "conf", "data")]
        main = "org.apache.activemq.console.command.ShellCommand"
        java = [
            "java",
            *quick_start(class_path),
            *system,
            *options,
            "-cp",
            libraries,
            main,
            "start",
            f"xbean:file:{folder}/activemq.xml",
        ]
        self._command = ["setpriv", "--pdeathsig", "KILL", *java]

    def __enter__(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 90
        while True:
            try:
                with Client(("127.0.0.1", self.port)):
                    return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self._process.kill()
                    raise ServerFailed(f"ActiveMQ did not start\n{self._log.read_text()[-4000:]}") from None
                time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(60)
