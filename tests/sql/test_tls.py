"""TLS to MySQL: used where the server knows it, and checked where the URL asks for that."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import OperationalError

from jdbcstore.config.urls import open_engine


def cipher(url: str) -> str:
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            return str(connection.exec_driver_sql("SHOW STATUS LIKE 'Ssl_cipher'").one()[1])
    finally:
        engine.dispose()


def test_it_is_used_without_being_asked_for(mysql_url: str) -> None:
    assert cipher(mysql_url)
    assert cipher(mysql_url)  # by a second connection as well


def test_it_can_be_turned_off(mysql_url: str) -> None:
    assert cipher(f"{mysql_url}?ssl_disabled=true") == ""


def test_a_certificate_is_checked_where_the_url_says_so(mysql_url: str) -> None:
    with pytest.raises(OperationalError, match="certificate verify failed"):  # nobody knows who has signed it
        cipher(f"{mysql_url}?ssl_verify_cert=true")
