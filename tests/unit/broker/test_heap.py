"""`jdbcstore.broker.heap`, as the C library itself tells it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: Four threads allocate at the same time; then glibc lists its arenas.
PROGRAM = """
import ctypes, sys, threading
from jdbcstore.broker.heap import use_one_arena
if sys.argv[2] == "one":
    assert use_one_arena()
together = threading.Barrier(5)
def allocate():
    body = bytes(10_000)
    together.wait()
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
together.wait()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
assert libc.malloc_info(0, file) == 0
libc.fclose(file)
together.wait()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize(("arenas", "is_one"), [("one", True), ("as they are", False)])
def test_threads_share_one_arena(arenas: str, is_one: bool, tmp_path: Path) -> None:
    listed = tmp_path / "malloc.xml"
    subprocess.run([sys.executable, "-c", PROGRAM, str(listed), arenas], check=True)
    assert (listed.read_text().count("<heap nr=") == 1) is is_one
