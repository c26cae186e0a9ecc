"""Connections that are refused leave nothing behind."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import DBAPIError

from jdbcstore.config.urls import open_engine, store_url


def test_nobody_waits_for_an_answer_to_a_login_that_was_refused(sql_server_url: str) -> None:
    """The watch would, until the time to connect is over; the fixture `no_thread_stays_behind` waits less long."""
    engine = open_engine(store_url(sql_server_url).set(database="nowhere").render_as_string(hide_password=False))
    with pytest.raises(DBAPIError, match="nowhere"):
        engine.connect()
    engine.dispose()
