"""Connections for tests: to a broker of their own, in memory and on SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import Connection
from tests.servers.prepared import PreparedFile


@pytest.fixture
def sqlite_url(tmp_path: Path, prepared_file: PreparedFile) -> str:
    """A fresh store with tables in it."""
    return prepared_file.url(tmp_path / "store.db")


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest) -> str:
    """A fresh store, of both kinds in turn."""
    if request.param == "memory":
        return "memory:"
    url: str = request.getfixturevalue("sqlite_url")
    return url


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    """A connection with a broker of its own."""
    with jdbcstore.connect(url, client_id="shop") as connection:
        yield connection


@pytest.fixture
def other(connection: Connection) -> Iterator[Connection]:
    """Another connection to the same broker."""
    with jdbcstore.connect(connection.broker, client_id="other") as other:
        yield other
