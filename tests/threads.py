"""A machine that gives a process no more threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["NO_ROOM_BYTES", "no_new_threads"]

#: The stack of a thread that there is no room for, since no more can be addressed.
NO_ROOM_BYTES: Final = 1 << 47


@contextmanager
def no_new_threads() -> Iterator[None]:
    """In this block this process, with all brokers in it, cannot start a thread."""
    before = threading.stack_size(NO_ROOM_BYTES)
    try:
        yield
    finally:
        threading.stack_size(before)
