"""Ports for servers: no two processes look at the same one."""

from __future__ import annotations

import subprocess
import sys

from tests.servers.server import CHECKOUT, free_port

PROGRAM = "from tests.servers.server import free_port; print(free_port(), free_port(), flush=True); input()"


def test_processes_that_run_together_share_no_port() -> None:
    command = [sys.executable, "-c", PROGRAM]  # of one harness or of several: the same worker's name says nothing
    processes = [
        subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    told = []
    for process in processes:
        assert process.stdout is not None
        told.append({int(port) % 32 for port in process.stdout.readline().split()})
    shares = [*told, {free_port() % 32, free_port() % 32}]
    for process in processes:
        process.communicate("\n", timeout=60)
    assert [len(share) for share in shares] == [1, 1, 1]
    assert len(set.union(*shares)) == 3
