"""A standalone Spark cluster on this machine: a master and two worker processes, as `sbin/start-all.sh` starts them.

The package from PyPI has no start scripts for these, but the classes.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.spark.java_options import BRIEF_LIFE

_START_TIMEOUT_S = 60.0
_LOOK_AGAIN_S = 0.05


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """The URL of a cluster whose workers have registered.

    Args:
        folder: logs and work go here.
        workers: processes, each with one core and 1 GiB.
    """
    processes: list[subprocess.Popen[bytes]] = []
    try:
        processes.append(_start(folder, "master", "127.0.0.1", "--port", "0", "--webui-port", "0"))
        master = _logged(folder / "master.log", r"Starting Spark master at (spark://\S+)", processes[0])
        for number in range(workers):
            work = folder / f"work{number}"
            arguments = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "-d", str(work), master)
            # A host of its own, as far as Spark can tell: it never tries a slow task again on the same one.
            processes.append(_start(folder, f"worker{number}", f"127.0.0.{number + 1}", *arguments))
        for number in range(workers):
            _logged(folder / f"worker{number}.log", r"(Successfully registered with master)", processes[number + 1])
        yield master
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _start(folder: Path, name: str, host: str, *arguments: str) -> subprocess.Popen[bytes]:
    kind = name.rstrip("0123456789")
    home = Path(pyspark.__file__).parent
    command = [
        str(home / "bin" / "spark-class"),
        f"org.apache.spark.deploy.{kind}.{kind.title()}",
        "--host",
        host,
        *arguments,
    ]
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": BRIEF_LIFE,
        "PYSPARK_PYTHON": sys.executable,
    }
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def _logged(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    """What a line of a process's log says."""
    until = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < until and process.poll() is None:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found is not None:
            return found[1]
        time.sleep(_LOOK_AGAIN_S)
    raise AssertionError(f"no line like {pattern!r}:\n{log.read_text(errors='replace')[-3000:]}")
