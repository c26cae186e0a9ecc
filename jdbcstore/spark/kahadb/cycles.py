"""Millions of small objects without cycles among them: Python need not search them for any."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["no_cycles"]


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
