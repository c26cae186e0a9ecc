"""The fixtures of `tests/conftest.py` do what they promise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, inspect, text

from tests.conftest import SQL_SERVERS
from tests.servers.server import CHECKOUT

#: Files of tests that are run together: to start pytest with our fixtures takes longer than all of them.
FORGETS = """
import threading, time
import tests.conftest
tests.conftest.LEAK_GRACE_S = 0.5

def test_forgets():
    threading.Thread(target=time.sleep, args=(60,), name="jdbcstore-writer", daemon=True).start()
"""
READS = """
import threading
import pytest
from jdbcstore import Broker, BrokerOptions, open_store, running

@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('shared')}/store.db")
    broker = Broker(store, BrokerOptions(bind="127.0.0.1:0"))
    with running(broker):
        yield broker

def test_reads(shared):
    entered = threading.Barrier(5)
    for _ in range(4):
        shared.loop.call_soon_threadsafe(shared.read, entered.wait)
    entered.wait(60)
"""
NEEDS = """
def test_needs_mysql(mysql_url):
    pass
"""


def run_pytest(
    folder: Path, *options: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the tests of a folder with our fixtures."""
    ours = ["-p", "tests.conftest", "-p", "no:cacheprovider", f"--rootdir={folder}"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *ours, *options, str(folder)],
        cwd=CHECKOUT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of our files."""
    folder = tmp_path_factory.mktemp("inner")
    for name, tests in (("forgets", FORGETS), ("reads", READS), ("needs", NEEDS)):
        (folder / f"test_{name}.py").write_text(tests)
    run = run_pytest(folder, "-rA", environment={"JDBCSTORE_TEST_SERVERS_DIR": str(folder)})
    assert run.returncode == 1, run.stdout
    return run.stdout


def test_a_fresh_database_is_empty_and_ours_to_fill(database_url: str) -> None:
    engine = create_engine(database_url, poolclass=NullPool)
    assert inspect(engine).get_table_names() == []
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE mine (id INTEGER PRIMARY KEY)"))
        connection.execute(text("CREATE INDEX mine_index ON mine (id)"))
    assert inspect(engine).get_table_names() == ["mine"]


def test_what_one_server_repeats_of_another_is_for_a_full_run(tmp_path: Path) -> None:
    folder = tmp_path / "sql"
    folder.mkdir()
    (folder / "test_inner.py").write_text(
        "import pytest\n"
        "on_each = pytest.mark.parametrize('sql_server_url', ['postgresql15', 'mariadb', 'mysql'])\n"
        "number = pytest.mark.parametrize('number', range(6))\n"
        "@on_each\n"
        "@number\n"
        "def test_store(sql_server_url, number): pass\n"
        "@on_each\n"
        "@number\n"
        "@pytest.mark.one_in(2, of='mysql')\n"
        "def test_locks(sql_server_url, number): pass\n"
    )
    run = run_pytest(folder, "--collect-only", "-q", "-m", "not exhaustive")
    kept = Counter(re.findall(r"::(test_\w+)\[\d-(\w+)\]", run.stdout))
    assert {server: kept["test_store", server] for server in SQL_SERVERS} == {
        "postgresql15": 6,
        "mariadb": 2,
        "mysql": 1,
    }
    assert {server: kept["test_locks", server] for server in SQL_SERVERS} == {
        "postgresql15": 6,
        "mariadb": 6,
        "mysql": 3,
    }


def test_a_thread_of_ours_left_running_fails_its_test(told: str) -> None:
    assert re.search(r"ERROR \S*test_forgets", told)
    assert "threads left running: jdbcstore-writer" in told


def test_a_broker_that_tests_share_may_start_its_readers_in_any_of_them(told: str) -> None:
    assert re.search(r"PASSED \S*test_reads", told)
    assert not re.search(r"ERROR \S*test_reads", told)


def test_a_missing_server_fails_and_says_what_to_run(told: str) -> None:
    assert re.search(r"ERROR \S*test_needs_mysql", told)
    assert "MySQL is not installed: run `make test-servers`" in told


@pytest.mark.exhaustive
def test_the_workers_of_a_run_share_one_server_that_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "test_inner.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('part', range(4))\n"
        "def test_port(postgresql, part, worker_id):\n"
        f"    with open({str(tmp_path / 'ports')!r}, 'a') as ports:\n"
        "        ports.write(f'{worker_id} {postgresql.port} {postgresql.folder}\\n')\n"
    )
    run = run_pytest(tmp_path, "-n2", "--dist=each")
    assert run.returncode == 0, run.stdout + run.stderr
    lines = [line.split() for line in (tmp_path / "ports").read_text().splitlines()]
    workers, ports, folders = (set(column) for column in zip(*lines, strict=True))
    assert workers == {"gw0", "gw1"}
    assert len(ports) == 1
    assert not Path(folders.pop()).exists()
