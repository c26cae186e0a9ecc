"""Errors of ours as Spark shows them: a line that says what to do, and no traceback of our own files before it.

Spark runs a source's methods in Python workers and shows the traceback of whatever they raise, unless its setting
``spark.sql.execution.pyspark.udf.hideTraceback.enabled`` says otherwise for everything in the session, users' own
functions included. The setting reaches a worker as an environment variable, which is looked at when an exception is
told; the worker ends after that. So it is set at the last moment, for errors that are meant for the user.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from jdbcstore.errors import JdbcStoreError

__all__ = ["one_line"]

_HIDE: Final = "SPARK_HIDE_TRACEBACK"


@contextmanager
def one_line() -> Iterator[None]:
    """Let Spark show an error of this package without its traceback. Also a decorator; not for generators."""
    try:
        yield
    except JdbcStoreError:
        os.environ[_HIDE] = "1"
        raise
