"""The private servers start, answer, restart and end."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, exc, text

from tests.servers.server import CHECKOUT, DatabaseServer
from tests.servers.shared import KINDS
from tests.waiting import wait_until

VERSIONS = {"postgresql15": "PostgreSQL 15", "postgresql18": "PostgreSQL 18", "mariadb": "MariaDB", "mysql": "9."}


#: MySQL's harness is MariaDB's but for its files, and those of all are in use by other tests of every run.
OTHERS = {"postgresql18", "mysql"}


@pytest.fixture(
    params=[pytest.param(kind, marks=pytest.mark.exhaustive) if kind in OTHERS else kind for kind in KINDS],
    scope="module",
)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of server in turn."""
    return str(request.param)


@pytest.fixture(scope="module")
def server(kind: str) -> Iterator[DatabaseServer]:
    """A server of this module's own, with a database `store`."""
    with KINDS[kind](None, None) as own:
        own.create_database("store")
        yield own


def select_one(server: DatabaseServer) -> int:
    engine = create_engine(server.url("store"), poolclass=NullPool)
    with engine.connect() as connection:
        return int(connection.execute(text("SELECT 1")).scalar_one())


def test_the_server_answers_with_its_version(server: DatabaseServer, kind: str) -> None:
    assert VERSIONS[kind] in server.version()


@pytest.mark.parametrize("end", [DatabaseServer.stop, DatabaseServer.kill])
def test_rows_survive_a_restart(server: DatabaseServer, end: Callable[[DatabaseServer], None]) -> None:
    engine = create_engine(server.url("store"), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE IF EXISTS kept"))
        connection.execute(text("CREATE TABLE kept (id INTEGER)"))
        connection.execute(text("INSERT INTO kept VALUES (7)"))
    end(server)
    with pytest.raises(exc.OperationalError):
        select_one(server)
    server.start()
    with engine.connect() as connection:
        assert connection.execute(text("SELECT id FROM kept")).scalars().all() == [7]


def test_killed_sessions_are_dead(server: DatabaseServer) -> None:
    engine = create_engine(server.url("store"), poolclass=NullPool)
    wait_until(lambda: not server.kill_sessions("store"), "nobody is left of the tests before")
    with engine.connect() as connection:
        connection.execute(text("SELECT 1"))
        assert server.kill_sessions("store") == 1
        with pytest.raises(exc.OperationalError):
            connection.execute(text("SELECT 1"))
        connection.invalidate()
    assert select_one(server) == 1


def test_a_database_is_dropped_under_an_open_transaction(server: DatabaseServer) -> None:
    server.create_database("doomed")
    engine = create_engine(server.url("doomed"), poolclass=NullPool)
    with engine.connect() as connection:
        connection.execute(text("CREATE TABLE held (id INTEGER)"))
        connection.commit()
        connection.execute(text("SELECT * FROM held"))
        server.drop_database("doomed")
        connection.invalidate()
    with pytest.raises(exc.OperationalError):
        engine.connect()


def test_the_server_ends_with_the_process_it_was_started_for(kind: str, tmp_path: Path) -> None:
    program = (
        "import os, sys, json; from tests.servers.shared import KINDS\n"
        "server = KINDS[sys.argv[1]](None, None); server.start()\n"
        "print(json.dumps([str(server.folder), int((server.folder / 'keeper.pid').read_text())]), flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, kind], cwd=CHECKOUT, capture_output=True, text=True, timeout=100, check=False
    )
    assert run.returncode == -9, run.stderr
    folder, keeper_pid = json.loads(run.stdout)
    assert has_ended(keeper_pid, timeout_s=60)
    assert not Path(folder).exists()


class Restless(DatabaseServer):
    """A program whose child is another one's parent, as Patroni is while it starts its server."""

    stop_signal = signal.SIGTERM

    def initialise(self) -> None:
        """Nothing."""

    def prepare(self) -> None:
        """Nothing."""

    def command(self) -> Sequence[str]:
        """Three shells, one in the other."""
        return ["sh", "-c", "sh -c 'sh -c \"echo \\$\\$ >innermost; sleep 600; true\"; true'; true"]

    def ping(self) -> None:
        """Raise until the innermost one runs."""
        self.innermost()

    def innermost(self) -> int:
        """Its process."""
        return int((self.folder / "innermost").read_text())


def test_a_killed_server_takes_with_it_whom_its_children_have_started() -> None:
    with Restless() as server:
        innermost = server.innermost()
        server.kill()  # which fails if the innermost one keeps the server from its end
    assert has_ended(innermost, timeout_s=0)


def has_ended(pid: int, timeout_s: float) -> bool:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))
    finally:
        os.close(descriptor)
