"""A Java virtual machine that runs one program after the other: to start one costs more than most programs do."""

from __future__ import annotations

import atexit
import subprocess
import tempfile
import threading
from collections.abc import Sequence

from tests.servers.server import ServerFailed

__all__ = ["run_program"]

#: Those that have nothing to do, by the command that started them.
_idle: dict[tuple[str, ...], list[_VirtualMachine]] = {}


def run_program(command: Sequence[str], program: str, arguments: Sequence[str], timeout_s: float) -> str:
    """Run a Java program in a machine of this process that is idle, or in a new one.

    Args:
        command: how to start a machine: ``java`` with its options, the class path among them.
        program: the class with its main method. It must not end the machine.
        arguments: of the program, without line breaks.
        timeout_s: how long it may take.

    Returns:
        What it has printed.

    Raises:
        ServerFailed: it has thrown something, ended the machine, or took too long. The machine is used no more, and
            neither is one where threads of the program go on.
    """
    idle = _idle.setdefault(tuple(command), [])
    machine = idle.pop() if idle else _VirtualMachine(command)
    try:
        printed, is_over = machine.run(program, arguments, timeout_s)
    except BaseException:
        machine.end()
        raise
    if is_over:
        idle.append(machine)
    else:
        machine.end()
    return printed


class _VirtualMachine:
    """Programs.java in a process."""

    def __init__(self, command: Sequence[str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the machine
        self._process = subprocess.Popen(
            [*command, "Programs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )

    def run(self, program: str, arguments: Sequence[str], timeout_s: float) -> tuple[str, bool]:
        """As `run_program`, and whether the program has left nothing behind; whoever hears of a failure ends it."""
        words = [program, *arguments]
        assert not any("\n" in word or "\r" in word for word in words), words
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(timeout_s, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write("".join(f"{word}\n" for word in [str(len(words)), *words]).encode())
            self._process.stdin.flush()
            code, _, size = self._process.stdout.readline().decode().partition(" ")
            told = self._process.stdout.read(int(size or 0)).decode()
        finally:
            timer.cancel()
        if code not in {"0", "2"}:
            why = told if code else f"it ended the virtual machine, or took more than {timeout_s:g} s"
            raise ServerFailed(f"{' '.join(words)} failed\n{why[-4000:]}\n{self._log_tail()}")
        return told, code == "0"

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        with self._process, self._log:
            self._process.wait()

    def _log_tail(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-4000:]


@atexit.register
def _end_all() -> None:
    for machines in _idle.values():
        for machine in machines:
            machine.end()
