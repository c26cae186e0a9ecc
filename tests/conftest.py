"""Fixtures for everybody: real servers, a fresh database for each test, and a check that no thread stays behind.

A missing server is a failure that says how to install it, never a skip.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import settings

from tests.compat.activemq import compile_and_archive
from tests.examples import examples, thin_out
from tests.ordering import arranged
from tests.servers.galera import GaleraCluster
from tests.servers.group_replication import GroupCluster
from tests.servers.mariadb import MariaDBServer
from tests.servers.mysql import MySQLServer
from tests.servers.postgresql import PostgreSQLServer
from tests.servers.prepared import PreparedDatabases, PreparedFile
from tests.servers.server import DatabaseServer
from tests.servers.shared import remove_shared_servers, shared_result, shared_server

SQL_SERVERS = ["postgresql15", "mariadb", "mysql"]
#: One of two versions of the same server is enough for most tests.
EVERY_SQL_SERVER = [*SQL_SERVERS, "postgresql18"]
FIXTURES = {"postgresql15": "postgresql"}  # the kinds whose fixture has another name
#: Fixtures of a server, and those whose parameter says of which.
SERVER_FIXTURES = {
    name + end for name in ("postgresql", "postgresql18", "mariadb", "mysql") for end in ("", "_url")
} | {"galera", "group"}
CHOOSING_FIXTURES = ("database_url", "every_database_url", "second_version_url", "store_url", "sql_server_url")
RUN_FOLDER = pytest.StashKey[Path]()
HAS_FAILED = pytest.StashKey[bool]()
LEAK_GRACE_S = 60.0
#: Names of a broker's threads that are started when they are first needed.
POOLED = ("jdbcstore-reader", "jdbcstore-login")

# Brokers and Spark's workers are started by the hundred; none should compile everything anew, whoever started pytest.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Collecting makes a million objects that all stay: looking for garbage among them, again and again, finds none.
gc.disable()

# A busy machine is no defect of what is tested.
settings.register_profile("anywhere", deadline=None, max_examples=examples(25))
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
    """Mark what needs a database server and what repeats others, and put what takes long first."""
    for item in items:
        if needs_server(item):
            item.add_marker(pytest.mark.server)
    thin_out(items)
    items[:] = arranged(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def pytest_collection_finish() -> None:
    """From here on there is garbage, and what tests leave behind is to be found: in the tests' objects alone.

    What importing has left is told of now, since nobody looks at frozen objects again: by one worker, since all import
    the same and looking takes a second.
    """
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
        gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note for the fixtures that a test has failed."""
    report = yield
    item.stash[HAS_FAILED] = item.stash.get(HAS_FAILED, False) or report.failed
    return report


def needs_server(item: pytest.Item) -> bool:
    """Whether a test asks for one of the run's database servers, by a fixture or by the parameter of one."""
    callspec = getattr(item, "callspec", None)
    chosen = [] if callspec is None else [callspec.params.get(name) for name in CHOOSING_FIXTURES]
    return not SERVER_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())) or not {*EVERY_SQL_SERVER}.isdisjoint(
        chosen
    )


def server(config: pytest.Config, kind: str) -> DatabaseServer:
    """The run's server of a kind."""
    told = getattr(config, "workerinput", None)
    return shared_server(kind, run_folder(config), os.getpid() if told is None else told["run_pid"])


def run_folder(config: pytest.Config) -> Path:
    """The folder of the whole run, which goes when the run ends."""
    told = getattr(config, "workerinput", None)
    return config.stash[RUN_FOLDER] if told is None else Path(told["run_folder"])


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


@pytest.fixture(scope="module")
def galera() -> Iterator[GaleraCluster]:
    """Three nodes of Galera, shared by a module: do not restart them. To have none to do costs them as much as work."""
    with GaleraCluster(is_flushed=False) as own:
        yield own


@pytest.fixture(scope="module")
def group() -> Iterator[GroupCluster]:
    """Three members of a group of MySQL servers, likewise."""
    with GroupCluster(is_flushed=False) as own:
        yield own


@pytest.fixture(scope="session")
def class_path(pytestconfig: pytest.Config) -> str:
    """The compiled Java programs and everything they need, for `ActiveMQ` and its JMS client."""
    return shared_result(run_folder(pytestconfig), "java", compile_and_archive)


@pytest.fixture(scope="session")
def made_once(pytestconfig: pytest.Config) -> Callable[[str, Callable[[Path], str]], str]:
    """Makes what a whole run needs only once: ``made_once(name, make)`` answers what ``make(folder)`` has answered."""
    return partial(shared_result, run_folder(pytestconfig))


@pytest.fixture
def restartable_postgresql() -> Iterator[PostgreSQLServer]:
    """A PostgreSQL 15 of the test's own, to stop, kill and restart."""
    with PostgreSQLServer(15) as own:
        yield own


@pytest.fixture(params=["sqlite", *SQL_SERVERS])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh empty database, on every database in turn."""
    yield from fresh_store(request, tmp_path)


@pytest.fixture(params=["sqlite", *EVERY_SQL_SERVER])
def every_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The same, with every version of a server that is installed."""
    yield from fresh_store(request, tmp_path)


@pytest.fixture(params=["sqlite", *SQL_SERVERS, pytest.param("postgresql18", marks=pytest.mark.exhaustive)])
def second_version_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The same, where what is particular about a version is tested elsewhere: the second one has a marker."""
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


@pytest.fixture(scope="session")
def prepared_databases() -> dict[tuple[str, bool], PreparedDatabases]:
    """What this process has of databases, by kind of server and by whether they have tables."""
    return {}


@pytest.fixture(scope="session")
def prepared_file(tmp_path_factory: pytest.TempPathFactory) -> PreparedFile:
    """The SQLite file with tables in it that tests get a copy of."""
    return PreparedFile(tmp_path_factory.mktemp("prepared"))


def fresh_store(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """A store of the kind that the fixture's parameter names."""
    if request.param == "kahadb":
        yield f"kahadb:{folder / 'kahadb'}"
    elif request.param == "sqlite":
        if has_tables(request):
            request.getfixturevalue("prepared_file").copy_to(folder / "jdbcstore.db")
        yield f"sqlite:///{folder / 'jdbcstore.db'}"
    else:
        yield from fresh_database(request, request.param)


def has_tables(request: pytest.FixtureRequest) -> bool:
    """Whether the test wants our tables in its database, since how they come there is not its subject."""
    mark = request.node.get_closest_marker("has_tables") if request.scope == "function" else None
    return mark is not None and mark.args != (False,)


def fresh_database(request: pytest.FixtureRequest, kind: str) -> Iterator[str]:
    """A database on the run's server of a kind; afterwards the sessions that the test left there are ended."""
    shared: DatabaseServer = request.getfixturevalue(FIXTURES.get(kind, kind))
    with_tables = has_tables(request)
    if with_tables or isinstance(shared, PostgreSQLServer):
        prepared = request.getfixturevalue("prepared_databases").setdefault(
            (kind, with_tables), PreparedDatabases(shared, with_tables)
        )
        name = prepared.take()
        yield shared.url(name)
        prepared.give_back(name, is_suspect=request.node.stash.get(HAS_FAILED, False))
        return
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
    """The threads named by us that were not there before.

    A broker that several tests share starts the threads of its pools when it first needs them, in whichever test that
    is. They end with it.
    """
    is_shared = any(thread.name == "jdbcstore-broker" for thread in before)
    return [
        thread
        for thread in threading.enumerate()
        if thread.name.startswith("jdbcstore")
        and thread not in before
        and not (is_shared and thread.name.startswith(POOLED))
    ]
