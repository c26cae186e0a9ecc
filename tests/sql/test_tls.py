"""TLS to MySQL: used where the server knows it, and checked where the URL asks for that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy.exc import OperationalError

from jdbcstore.config.urls import open_engine
from tests.servers.mysql import MySQLServer


@pytest.fixture(scope="module")
def tls_url() -> Iterator[str]:
    """A database on a server that speaks TLS, which the run's does not."""
    with MySQLServer() as server:
        server.create_database("store")
        yield server.url("store")


def cipher(url: str) -> str:
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            return str(connection.exec_driver_sql("SHOW STATUS LIKE 'Ssl_cipher'").one()[1])
    finally:
        engine.dispose()


def test_it_is_used_without_being_asked_for(tls_url: str) -> None:
    assert cipher(tls_url)
    assert cipher(tls_url)  # by a second connection as well


def test_it_can_be_turned_off(tls_url: str) -> None:
    assert cipher(f"{tls_url}?ssl_disabled=true") == ""


def test_a_certificate_is_checked_where_the_url_says_so(tls_url: str) -> None:
    with pytest.raises(OperationalError, match="certificate verify failed"):  # nobody knows who has signed it
        cipher(f"{tls_url}?ssl_verify_cert=true")
