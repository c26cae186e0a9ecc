"""Fixtures for everybody: real servers, a fresh database for each test, and a check that no thread stays behind.

A missing server is a failure that says how to install it, never a skip.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import settings

from tests.servers.mariadb import MariaDBServer
from tests.servers.mysql import MySQLServer
from tests.servers.postgresql import PostgreSQLServer
from tests.servers.server import DatabaseServer
from tests.servers.shared import remove_shared_servers, shared_server

SQL_SERVERS = ["postgresql15", "mariadb", "mysql"]
#: One of two versions of the same server is enough for most tests.
EVERY_SQL_SERVER = [*SQL_SERVERS, "postgresql18"]
FIXTURES = {"postgresql15": "postgresql"}  # the kinds whose fixture has another name
RUN_FOLDER = pytest.StashKey[Path]()
LEAK_GRACE_S = 1.0

settings.register_profile("anywhere", deadline=None)  # a busy machine is no defect of what is tested
settings.load_profile("anywhere")


def pytest_configure(config: pytest.Config) -> None:
    """The controlling process makes the folder in which the run's servers live; its workers are told which."""
    if not hasattr(config, "workerinput"):
        folder = Path(tempfile.mkdtemp(prefix="jdbcstore-run-"))
        folder.chmod(0o755)  # PostgreSQL runs as another user when we are root
        config.stash[RUN_FOLDER] = folder


def pytest_unconfigure(config: pytest.Config) -> None:
    """The controlling process ends the run's servers, after its workers."""
    if RUN_FOLDER in config.stash:
        remove_shared_servers(config.stash[RUN_FOLDER])


@pytest.hookimpl(optionalhook=True)  # pytest-xdist's
def pytest_configure_node(node: Any) -> None:  # xdist has no types
    """Tell a new worker the run's folder and the process to keep the servers for."""
    node.workerinput["run_folder"] = str(node.config.stash[RUN_FOLDER])
    node.workerinput["run_pid"] = os.getpid()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a session of Spark come first and so to one worker: each session costs ten seconds and 1 GiB."""
    items.sort(key=lambda item: "spark" not in getattr(item, "fixturenames", ()))


def server(config: pytest.Config, kind: str) -> DatabaseServer:
    """The run's server of a kind."""
    told = getattr(config, "workerinput", None)
    if told is None:
        return shared_server(kind, config.stash[RUN_FOLDER], os.getpid())
    return shared_server(kind, Path(told["run_folder"]), told["run_pid"])


@pytest.fixture(scope="session")
def postgresql(pytestconfig: pytest.Config) -> PostgreSQLServer:
    """PostgreSQL 15, shared by the whole run: do not restart it."""
    return cast(PostgreSQLServer, server(pytestconfig, "postgresql15"))


@pytest.fixture(scope="session")
def postgresql18(pytestconfig: pytest.Config) -> PostgreSQLServer:
    """PostgreSQL 18, shared by the whole run: do not restart it."""
    return cast(PostgreSQLServer, server(pytestconfig, "postgresql18"))


@pytest.fixture(scope="session")
def mariadb(pytestconfig: pytest.Config) -> MariaDBServer:
    """MariaDB, shared by the whole run: do not restart it."""
    return cast(MariaDBServer, server(pytestconfig, "mariadb"))


@pytest.fixture(scope="session")
def mysql(pytestconfig: pytest.Config) -> MySQLServer:
    """MySQL, shared by the whole run: do not restart it."""
    return cast(MySQLServer, server(pytestconfig, "mysql"))


@pytest.fixture
def restartable_postgresql() -> Iterator[PostgreSQLServer]:
    """A PostgreSQL 15 of the test's own, to stop, kill and restart."""
    with PostgreSQLServer(15) as own:
        yield own


@pytest.fixture
def restartable_mariadb() -> Iterator[MariaDBServer]:
    """A MariaDB of the test's own, to stop, kill and restart."""
    with MariaDBServer() as own:
        yield own


@pytest.fixture
def restartable_mysql() -> Iterator[MySQLServer]:
    """A MySQL of the test's own, to stop, kill and restart."""
    with MySQLServer() as own:
        yield own


@pytest.fixture(params=["sqlite", *SQL_SERVERS])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh empty database, on every database in turn."""
    yield from fresh_store(request, tmp_path)


@pytest.fixture(params=["sqlite", *EVERY_SQL_SERVER])
def every_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The same, with every version of a server that is installed."""
    yield from fresh_store(request, tmp_path)


@pytest.fixture(params=["kahadb", "sqlite", *SQL_SERVERS])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh empty store, on every kind in turn."""
    yield from fresh_store(request, tmp_path)


@pytest.fixture(params=SQL_SERVERS)
def sql_server_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a fresh empty database, on every database server in turn."""
    yield from fresh_database(request, request.param)


@pytest.fixture
def postgresql_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a fresh empty database on PostgreSQL 15."""
    yield from fresh_database(request, "postgresql15")


@pytest.fixture
def postgresql18_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a fresh empty database on PostgreSQL 18."""
    yield from fresh_database(request, "postgresql18")


@pytest.fixture
def mariadb_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a fresh empty database on MariaDB."""
    yield from fresh_database(request, "mariadb")


@pytest.fixture
def mysql_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a fresh empty database on MySQL."""
    yield from fresh_database(request, "mysql")


def fresh_store(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """A store of the kind that the fixture's parameter names."""
    if request.param == "kahadb":
        yield f"kahadb:{folder / 'kahadb'}"
    elif request.param == "sqlite":
        yield f"sqlite:///{folder / 'jdbcstore.db'}"
    else:
        yield from fresh_database(request, request.param)


def fresh_database(request: pytest.FixtureRequest, kind: str) -> Iterator[str]:
    """Create a database on the run's server of a kind; drop it afterwards, with whatever sessions the test left."""
    shared: DatabaseServer = request.getfixturevalue(FIXTURES.get(kind, kind))
    name = f"test_{uuid.uuid4().hex[:12]}"
    shared.create_database(name)
    yield shared.url(name)
    shared.drop_database(name)


@pytest.fixture(autouse=True)
def no_thread_stays_behind() -> Iterator[None]:
    """Fail the test that leaves a thread of ours running: a store or a broker was not closed."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + LEAK_GRACE_S
    for thread in our_threads(before):
        thread.join(max(0.0, deadline - time.monotonic()))
    left = [thread.name for thread in our_threads(before)]
    assert not left, f"threads left running: {', '.join(left)}"


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Undo what a test does to logging: its handler writes to a stream that is closed when the test is over."""
    root, ours = logging.getLogger(), logging.getLogger("jdbcstore")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def our_threads(before: set[threading.Thread]) -> list[threading.Thread]:
    """The threads named by us that were not there before."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("jdbcstore") and thread not in before]
