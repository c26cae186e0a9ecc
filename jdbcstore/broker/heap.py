"""The heap of the process: C's allocator, which keeps what Python's own does not, bodies of messages above all.

glibc gives each thread an arena of its own, so that threads need not wait for each other. Here one thread makes
messages and others free them or their rows, so each arena keeps room that only its own thread uses again. The
interpreter's lock lets one thread at a time allocate anyway: with one arena for all the same load takes a tenth less
memory, and no more time (``python -m benchmarks.peer``).
"""

from __future__ import annotations

import ctypes
from typing import Final

__all__ = ["use_one_arena"]

#: ``M_ARENA_MAX`` of glibc's ``malloc.h``.
_ARENA_MAX: Final = -8


def use_one_arena() -> bool:
    """Let all threads that begin from now on share the first one's arena.

    Returns:
        False where the C library has no such setting (it is glibc's), and nothing was changed.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl, macOS; Windows has no library without a name
        return False
    return bool(set_option(_ARENA_MAX, 1))
