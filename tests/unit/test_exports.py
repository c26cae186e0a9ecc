"""The public API is what ``__all__`` says."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import errors
from tests.servers.prepared import PreparedFile


def test_every_name_is_there() -> None:
    for name in jdbcstore.__all__:
        assert getattr(jdbcstore, name) is not None
    assert set(jdbcstore.__all__) <= set(dir(jdbcstore))


def test_every_error_is_public() -> None:
    assert set(errors.__all__) <= set(jdbcstore.__all__)


def test_every_name_has_a_place_in_the_reference() -> None:
    pages = (Path(__file__).parents[2] / "docs" / "api").glob("*.md")
    shown = {line.split()[1] for page in pages for line in page.read_text().splitlines() if line.startswith(":::")}
    homes = {name: getattr(jdbcstore, name).__module__ for name in jdbcstore.__all__ if name != "__version__"}
    assert {name for name, home in homes.items() if home not in shown} == set()


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        jdbcstore.nonsense  # noqa: B018  # the access is the test


def test_the_version_is_that_of_the_distribution() -> None:
    document = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    assert jdbcstore.__version__ == document["project"]["version"]


def test_importing_the_package_imports_no_database_library() -> None:
    program = "import jdbcstore, sys; print('sqlalchemy' in sys.modules, 'asyncio' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    assert finished.stdout == "False False\n"


def test_a_broker_on_kahadb_starts_without_a_library_for_databases_or_websockets(tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from jdbcstore.config.build import build_broker
from jdbcstore.config.files import load_configuration
from jdbcstore.console import broker
from jdbcstore.transport import listener
from dataclasses import replace
configuration = load_configuration(None, {{}}).checked()
broker = build_broker(replace(configuration, url="kahadb:{tmp_path}"))
broker.adapter.start()
broker.adapter.stop()
print([name for name in ("sqlalchemy", "wsproto") if name in sys.modules])
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    assert finished.stdout == "[]\n"


def test_a_store_that_is_up_to_date_is_opened_without_what_migrations_and_mappers_need(
    tmp_path: Path, prepared_file: PreparedFile
) -> None:
    prepared_file.copy_to(tmp_path / "store.db")
    program = f"""
import sys
from jdbcstore import open_store
with open_store("sqlite:///{tmp_path / "store.db"}"):
    print([name for name in ("alembic", "sqlalchemy.orm") if name in sys.modules])
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    assert finished.stdout == "[]\n"
