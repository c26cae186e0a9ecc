"""Spark's Python, with workers that find their modules imported: forked after that, by the daemon that Spark starts.

Spark's own daemon forks first, and each of the hundreds of workers of a run then imports pandas, PyArrow and us for a
second of processor time. Who is no daemon is run by Python itself. `test_cluster.py` and `test_streaming_crashes.py`
leave Spark its own.
"""

from __future__ import annotations

import gc
import os
import runpy
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

__all__ = ["write_launcher"]

_DAEMON: Final = ("-m", "pyspark.daemon")
#: For libraries that start threads when they are imported, which a fork would lose.
_NO_THREADS: Final = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
_DATABASES: Final = ("mysql", "postgresql", "sqlite")
#: What each worker imports when it meets the store, whichever that is.
_STORES: Final = (
    "jdbcstore.config.urls",
    "jdbcstore.store.jdbc.dialect.mariadb",
    "jdbcstore.store.jdbc.writes",
    "psycopg2.extras",
    *(
        f"jdbcstore.store.jdbc.dialect.{name}.{part}"
        for name in _DATABASES
        for part in ("bulk", "scan", "session", "write")
    ),
    *(f"sqlalchemy.dialects.{name}" for name in _DATABASES),
)
_READING: Final = (
    "pandas",
    "pyarrow.pandas_compat",
    "jdbcstore.spark.batch_reader",
    "jdbcstore.store.jdbc.dialect.postgresql.scan_adbc",
    "jdbcstore.store.jdbc.dialect.sqlite.scan_sqlite3",
    *_STORES,
)
_WRITING: Final = ("jdbcstore.spark.writers", *_STORES)
#: What a kind of worker imports, besides its own module.
_IMPORTED: Final = {
    "pyspark.worker": (*_READING, *_WRITING),
    "pyspark.sql.worker.plan_data_source_read": _READING,
    "pyspark.sql.worker.data_source_pushdown_filters": _READING,
    "pyspark.sql.worker.write_into_data_source": _WRITING,
    "pyspark.sql.worker.commit_data_source_write": _WRITING,
}


def write_launcher(folder: Path) -> Path:
    """A program in a folder, for the variable ``PYSPARK_PYTHON``."""
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P "{__file__}" "$@"\n')
    program.chmod(0o755)
    return program


def _main(arguments: list[str]) -> None:
    if tuple(arguments[:2]) != _DAEMON:
        os.execv(sys.executable, [sys.executable, *arguments])
    sys.path.insert(0, os.getcwd())  # as for every `python -m`
    os.environ |= _NO_THREADS
    (kind,) = arguments[2:]
    for module in (kind, "jdbcstore.spark.source", *_IMPORTED.get(kind, ())):
        import_module(module)
    assert len(os.listdir("/proc/self/task")) == 1, "something that was imported has started a thread"
    gc.collect()
    gc.freeze()  # a worker collects garbage behind each task, and would copy all of it
    sys.argv = arguments[1:]
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main(sys.argv[1:])
