"""Runs ``jdbcstore`` as its command does, and lets the harness see what it does and stop it at a point.

The first argument is a folder of the harness, the rest is the command line. In the folder:

* ``clock_s``: by how many seconds the process's wall clock is off (libfaketime; monotonic clocks stay right);
* ``states``: written here, a line for each change of state: monotonic time in seconds, process id, state, term, and
  for how many seconds the event loop has waited for a processor until then;
* ``stop_before_commit``: when it is there, the process removes it as soon as a batch is about to be sent to the
  database, and stops itself there (SIGSTOP).

Each database session is marked with the folder's name and the process id, for the triggers of `tests.failover.witness`.
Nothing else is changed, no timeout, no order, no statement; unless the variable _CHAOS_WITHOUT names protections that
are to be switched off, so that the harness may be seen to miss them:

* ``confirmation``: a row that is seen counts as stored, whatever became of the wait for the standbys;
* ``terms``: terms grow by one, and nobody remembers which there were;
* ``certification``: a commit reads the row of the lock, and does not write it, although a cluster shares no locks;
* ``history``: a master goes on with whatever data a new connection leads to.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, SupportsIndex

from sqlalchemy import event
from sqlalchemy.pool import Pool

from jdbcstore import faults
from jdbcstore.cli import main

_PRELOADED = "_CHAOS_CLOCK"


def set_clock(folder: Path) -> None:
    """Start this program anew under libfaketime if its clock is to be off."""
    if _PRELOADED in os.environ:
        # libfaketime 0.9.10 spoils the way in which Python sleeps: clock_nanosleep until a time of the monotonic clock.
        time.sleep = sleep
        return
    clock = folder / "clock_s"
    if not clock.exists():
        return
    offset_s, library = clock.read_text().split()
    environment = {
        **os.environ,
        _PRELOADED: "1",
        "LD_PRELOAD": library,
        "FAKETIME": f"{int(offset_s):+d}s",
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    os.execve(sys.executable, sys.orig_argv, environment)


def sleep(seconds: float | SupportsIndex, /) -> None:
    """As `time.sleep`."""
    select.select([], [], [], float(seconds))


def mark_sessions(name: str) -> Callable[[Any, object], None]:
    """Let every database session say whose it is. Returns what listens for connections."""

    def mark(connection: Any, record: object) -> None:
        drivers = {kind.__module__.partition(".")[0] for kind in type(connection).__mro__}
        if "sqlite3" in drivers:
            connection.create_function("chaos_broker", 0, lambda: name)
            return
        with connection.cursor() as cursor:
            cursor.execute(f"SET chaos.broker = '{name}'" if "psycopg2" in drivers else f"SET @chaos_broker = '{name}'")
        connection.commit()

    event.listen(Pool, "connect", mark)
    return mark


class StateLog(logging.Handler):
    """Writes changes of state down, with a time that is the same for every process."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file.open("a", buffering=1)

    def emit(self, record: logging.LogRecord) -> None:
        """One line, unless it is about something else."""
        if record.msg.startswith("state changed") and isinstance(record.args, tuple):
            _, state, term, _ = record.args
            print(time.monotonic(), os.getpid(), state, term or 0, waited_s(os.getpid()), file=self._file)


def waited_s(pid: int) -> float:
    """For how long the first thread of a process, the event loop's, has waited for a processor since its start."""
    _, waited_ns, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(waited_ns) / 1e9


def stop_here(order: Path) -> None:
    """Stop this process if that is wanted."""
    if order.exists():
        order.unlink()
        # To this thread: sent to the process, the signal may stop another thread first, and this one goes on a little.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def switch_off(names: set[str]) -> None:
    """Take protections away from this process."""
    if not names:
        return
    from jdbcstore.store.jdbc import adapter, lockers
    from jdbcstore.store.jdbc.dialect.postgresql.session import PostgreSQLDialect

    away: list[tuple[Any, str, object]] = []
    if "confirmation" in names:
        away.append((PostgreSQLDialect, "_confirm", lambda *_: None))
    if "terms" in names:
        away.append((PostgreSQLDialect, "next_term", "TERM + 1"))
        away.append((lockers._SqlLocker, "_not_before_seen", lambda self, connection, term, holder: term))
    if "certification" in names:
        from jdbcstore.store.jdbc.dialect.mysql import write

        away.append((write, "is_certified", lambda connection: False))
    if "history" in names:
        away.append((lockers._SqlLocker, "_recognise", lambda self, connection: None))
        away.append((adapter, "bind", lambda *_: None))
    for owner, name, nothing in away:
        setattr(owner, name, nothing)


def run(folder: Path) -> None:
    """Run the command line."""
    set_clock(folder)
    del sys.argv[1]
    mark_sessions(f"{folder.name}/{os.getpid()}")
    switch_off(set(os.environ.get("_CHAOS_WITHOUT", "").split()))
    logging.getLogger("jdbcstore.broker.lifecycle").addHandler(StateLog(folder / "states"))
    order = folder / "stop_before_commit"
    with faults.inject("writer.before_commit", lambda: stop_here(order)):
        main()


if __name__ == "__main__":
    run(Path(sys.argv[1]))
