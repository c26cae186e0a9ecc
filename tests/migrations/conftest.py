"""An engine on each fresh database, as the store opens it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from jdbcstore.config.urls import open_engine


@pytest.fixture
def database_url(every_database_url: str) -> str:
    """Here every version of a server counts."""
    return every_database_url


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """An engine on a fresh empty database, on every database in turn."""
    yield from opened(database_url)


@pytest.fixture
def server_engine(sql_server_url: str) -> Iterator[Engine]:
    """An engine on a fresh empty database, on every database server in turn."""
    yield from opened(sql_server_url)


@pytest.fixture(params=["postgresql_url", "postgresql18_url"])
def postgresql_engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An engine on a fresh empty database of each PostgreSQL."""
    yield from opened(request.getfixturevalue(request.param))


@pytest.fixture(params=["mariadb_url", "mysql_url"])
def mysql_engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An engine on a fresh empty database of MariaDB and of MySQL."""
    yield from opened(request.getfixturevalue(request.param))


@pytest.fixture
def sqlite_engine(tmp_path: object) -> Iterator[Engine]:
    """An engine on a fresh SQLite file."""
    yield from opened(f"sqlite:///{tmp_path}/one.db")


def opened(url: str) -> Iterator[Engine]:
    """An engine that is disposed of afterwards."""
    engine = open_engine(url)
    yield engine
    engine.dispose()
