"""A Spark session for a command: quiet, on loopback, and with one line of text if it cannot be had.

Spark says a dozen lines while it starts, from Java, past Python's streams. They go into a file, which is named if the
start fails and removed if it does not.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jdbcstore.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark_session"]

_JAVA_LEAST: Final = 17
#: A command that runs for seconds is compiled by the fast compiler only; one that runs for minutes by both.
_SHORT: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@contextmanager
def spark_session(
    master: str | None = None, *, settings: Mapping[str, str] | None = None, is_short: bool = False
) -> Iterator[SparkSession]:
    """The session that is active, or a new one that ends with the block.

    Args:
        master: Spark's: ``local[4]``, ``spark://HOST:7077``, ``yarn``, ``k8s://…``. By default this machine with all of
            its processors, where a task that fails is tried once more.
        settings: more of Spark's settings, which go before ours.
        is_short: whether it will be used for seconds rather than minutes.

    Raises:
        ConfigurationError: Spark, Java or Python is missing, or the session cannot be started.
    """
    _require_spark()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from jdbcstore.spark import register

    # One that was started by another thread is not active in this one, and there can be no second.
    if SparkSession.getActiveSession() is not None or SparkContext._active_spark_context is not None:
        yield register(SparkSession.getActiveSession() or SparkSession.builder.getOrCreate())
        return
    if not (master or "").startswith(("yarn", "k8s")):
        _require_java()
    # Workers would run whatever ``python3`` is in the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_local = master is None or master.startswith("local")
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    builder = SparkSession.builder.master(master or f"local[{max(2, processors)},2]").appName("jdbcstore pipeline")
    for name, value in {**_settings(is_local=is_local, is_short=is_short), **(settings or {})}.items():
        builder = builder.config(name, value)
    with _log_file() as log:
        handler = signal.getsignal(signal.SIGINT)
        try:
            with _standard_error_to(log):
                session = builder.getOrCreate()
        except Exception as error:
            raise ConfigurationError(f"Spark does not start: {_why(error, log)}") from error
        try:
            # Spark's own handler talks to Java in the middle of another talk.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, handler)
            session.sparkContext.setLogLevel("OFF" if is_local else "ERROR")
            yield register(session)
        finally:
            with _standard_error_to(log):
                session.stop()


def _settings(*, is_local: bool, is_short: bool) -> dict[str, str]:
    found = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    }
    if is_local:
        found |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "8",
            "spark.driver.memory": "1g",
            "spark.hadoop.fs.permissions.umask-mode": "077",  # what is archived are messages: nobody else reads them
            "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "jdbcstore-warehouse"),
        }
        if is_short:
            found["spark.driver.extraJavaOptions"] = _SHORT
    return found


def _require_spark() -> None:
    for module in ("pyspark", "pyarrow", "pandas"):
        try:
            __import__(module)
        except ImportError as error:
            raise ConfigurationError(
                f"the pipeline needs {error.name or module}: pip install 'jdbcstore[spark]'"
            ) from error


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    found = shutil.which(java)
    if found is None:
        where = f"there is none in JAVA_HOME={home}" if home else "there is no java in the path, and no JAVA_HOME"
        raise ConfigurationError(f"Spark needs Java {_JAVA_LEAST} or newer: {where}")
    told = subprocess.run([found, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    if version is not None and int(version[1]) < _JAVA_LEAST:
        raise ConfigurationError(f"Spark needs Java {_JAVA_LEAST} or newer, {found} is {version[1]}: set JAVA_HOME")


@contextmanager
def _log_file() -> Iterator[Path]:
    handle, name = tempfile.mkstemp(prefix="jdbcstore-spark-", suffix=".log")
    os.close(handle)
    path = Path(name)
    yield path
    with suppress(OSError):  # who failed has raised before, and the file stays
        path.unlink()


@contextmanager
def _standard_error_to(path: Path) -> Iterator[None]:
    """Let file descriptor 2 lead into a file, also for the processes that are started meanwhile, and for as long as
    they live."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _why(error: BaseException, log: Path) -> str:
    told = str(error).strip()
    if "JAVA_GATEWAY_EXITED" in told:
        lines = (line.strip() for line in log.read_text(errors="replace").splitlines())
        told = next((line for line in lines if "Error" in line or "Exception" in line), "Java ended at once")
    if told.startswith("An error occurred"):
        told = next((line.lstrip(": ") for line in told.splitlines() if line.startswith(":")), told)
    return f"{told.splitlines()[0] if told else type(error).__name__} (all of what it said is in {log})"
