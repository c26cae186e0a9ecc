"""The example of docs/write-a-store.md: under the suites, killed, and on the command line by the scheme of its URL."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore.config.urls import open_store, shown_url, store_url
from jdbcstore.errors import ConfigurationError
from jdbcstore.testing import DurablePersistenceAdapterContract, KilledStoreContract, OpenAdapter
from tests.broker_process import BrokerProcess

FOLDER = str(Path(__file__).parents[2] / "examples" / "logstore")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is on the path with its entry points, here and in other processes, as if it were installed."""
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (FOLDER, os.environ.get("PYTHONPATH", "")))))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"log:{tmp_path / 'log'}"


@pytest.mark.one_in(3)
class TestStore(DurablePersistenceAdapterContract):
    @pytest.fixture
    def open_adapter(self, url: str) -> OpenAdapter:
        return lambda: open_store(url)


class TestKilled(KilledStoreContract):
    @pytest.fixture
    def store_url(self, url: str) -> str:
        return url


def test_the_broker_runs_on_it(url: str, tmp_path: Path) -> None:
    with BrokerProcess(url, tmp_path) as broker:
        address = f"127.0.0.1:{broker.port}"
        for command in (("send", address, "ORDERS", "three apples"), ("receive", address, "ORDERS", "--count", "1")):
            done = subprocess.run(
                [sys.executable, "-m", "jdbcstore", *command], capture_output=True, text=True, timeout=60, check=True
            )
        assert "three apples" in done.stdout


def test_a_torn_line_was_never_stored(url: str) -> None:
    with open_store(url) as store:
        message = jdbcstore.testing.text_message(1)
        store.queue_message_store(jdbcstore.Queue("TEST")).add_message(message).result(60)
    log = Path(url.removeprefix("log:")) / "log"
    log.write_bytes(log.read_bytes() * 2)
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 2)
    with open_store(url) as store:
        assert store.queue_message_store(jdbcstore.Queue("TEST")).message_count == 1


def test_its_url_is_shown_without_what_may_be_a_password() -> None:
    assert shown_url("log:user:secret@somewhere") == "…@somewhere"


def test_what_looks_into_the_stores_of_this_package_says_who_opens_it(url: str) -> None:
    with pytest.raises(ConfigurationError, match="store of another package, and only a broker opens it"):
        store_url(url)


def test_a_package_that_gives_no_store_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "nostore-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: nostore\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[jdbcstore.stores]\nno = builtins:str\nmissing = nowhere:open\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match="store no: of the package nostore gives none, but 'no:x'"):
        open_store("no:x")
    with pytest.raises(ConfigurationError, match="store missing: of the package nostore cannot be loaded"):
        open_store("missing:x")
    with pytest.raises(ConfigurationError, match="log:…, missing:…, no:…, kahadb:DIRECTORY"):
        open_store("nonsense://x")
