"""Python's search for cycles of objects that nobody needs any more, kept away from what has none.

A worker of Spark's has a hundred thousand objects of the modules that it has imported (pandas, PyArrow, SQLAlchemy). A
search looks at each of them, for about fifty milliseconds.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from pyspark import TaskContext

__all__ = ["modules_aside", "no_cycles", "put_aside"]


@contextmanager
def no_cycles() -> Iterator[None]:
    """Turn the search for cycles off: beside the modules that Spark's workers import it took half of the time.

    Everything that is made here is freed by its reference counts.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def modules_aside() -> Iterator[None]:
    """What a task does. Behind the first one of a worker, what is imported by then is put aside for good.

    Spark's workers search behind each task, before they take the next one. That took ten times as long as a small task.
    In a process that is no worker nothing is changed. Also a decorator; not for generators.
    """
    try:
        yield
    finally:
        if TaskContext.get() is not None:
            put_aside()


@cache
def put_aside() -> None:
    """Put all objects of this process aside, the first time that it is called."""
    gc.collect()
    gc.freeze()
