"""Runs one server process and ends it, at the latest, when the process it is kept for ends.

Started as a program of its own (`python -I keeper.py '{…}'`), so that no way for a test run to die leaves a server
behind: a `kill -9` of the test run wakes the keeper through a pidfd, a `kill -9` of the keeper reaches the server
through PR_SET_PDEATHSIG. Linux only, standard library only. The argument is a JSON object:

    command       list of strings, the server in the foreground
    folder        its folder; standard output and error go to `log` in it, the keeper's process id to `keeper.pid`
    guard_pid     the process whose end ends the server; the folder is removed with it
    user_id       run the server as this user, or null
    stop_signal   number of the signal that the server stops cleanly at

SIGTERM asks the server to stop; SIGUSR1 kills it. The keeper leaves when no process of the server is left, whichever
way it ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_LOOK_AGAIN_S = 0.005


def main(argument: str) -> int:
    """Start the server, then wait for its end or for the end of the guarded process.

    Returns the server's exit status.
    """
    order = json.loads(argument)
    folder = Path(order["folder"])
    if os.fork() != 0:
        os._exit(0)  # the process that asked for the server has no child to reap
    os.setsid()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    try:
        guard = os.pidfd_open(order["guard_pid"])
    except ProcessLookupError:
        shutil.rmtree(folder, ignore_errors=True)
        return 1
    write_pid(folder)
    server = start(order, folder, libc)
    guard_is_alive = wait(server, guard, wake_read, order["stop_signal"])
    status = server.wait()
    kill_children()
    if not guard_is_alive:
        shutil.rmtree(folder, ignore_errors=True)
    return status


def start(order: dict[str, Any], folder: Path, libc: ctypes.CDLL) -> subprocess.Popen[bytes]:
    """The server, which dies with this process."""
    keeper_pid = os.getpid()

    def die_with_keeper() -> None:  # after the change of user, which would clear the setting
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != keeper_pid:
            os._exit(1)

    user_id = order["user_id"]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            order["command"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_keeper,
            **({} if user_id is None else {"user": user_id, "group": user_id, "extra_groups": []}),
        )


def write_pid(folder: Path) -> None:
    """Publish this process's id, whole or not at all."""
    temporary = folder / "keeper.pid.new"
    temporary.write_text(str(os.getpid()))
    temporary.rename(folder / "keeper.pid")


def wait(server: subprocess.Popen[bytes], guard: int, wake: int, stop_signal: int) -> bool:
    """Return when the server has ended, or kill it when the guarded process has.

    Returns whether the guarded process lives.
    """
    server_fd = os.pidfd_open(server.pid)
    poll = select.poll()
    for descriptor in (server_fd, guard, wake):
        poll.register(descriptor, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if guard in ready:
            server.kill()
            return False
        if server_fd in ready:
            return True
        for number in os.read(wake, 64):
            if number == signal.SIGCHLD:
                reap_orphans(server.pid)
                continue
            server.send_signal(signal.SIGKILL if number == signal.SIGUSR1 else stop_signal)


def reap_orphans(server_pid: int) -> None:
    """Let go of those that have ended and whose parent had before: who waits for their end looks for their ids."""
    while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if found.si_pid == server_pid:
            return  # that it has ended is noticed in another way
        os.waitpid(found.si_pid, 0)


def kill_children() -> None:
    """Kill what outlived the server, again and again until nobody is left.

    A killed PostgreSQL leaves its backends to notice by themselves, and what is killed may have started something just
    now: that is our child only then.
    """
    while True:
        for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_LOOK_AGAIN_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
