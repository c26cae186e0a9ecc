"""What the errors of PyMySQL mean."""

from __future__ import annotations

import pymysql
import pytest
from sqlalchemy import make_url

from jdbcstore.store.jdbc.dialect import ConnectionLost, Deadlock, dialect_at
from jdbcstore.store.jdbc.options import JdbcOptions

_MYSQL = dialect_at(make_url("mysql://"), JdbcOptions())


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (pymysql.err.InternalError("Packet sequence number wrong - got 1 expected 2"), ConnectionLost),
        (pymysql.err.InterfaceError(0, ""), ConnectionLost),
        (pymysql.err.OperationalError(2013, "Lost connection"), ConnectionLost),
        (pymysql.err.OperationalError(1213, "Deadlock found"), Deadlock),
        (pymysql.err.OperationalError(1020, "Record has changed since last read"), Deadlock),
        (ConnectionResetError(104, "reset"), ConnectionLost),
    ],
)
def test_a_line_that_broke_is_told_from_what_the_server_says(error: Exception, kind: type[Exception]) -> None:
    assert type(_MYSQL.map_error(error)) is kind


def test_an_error_is_told_as_a_sentence_with_its_code() -> None:
    told = _MYSQL.map_error(pymysql.err.OperationalError(1146, "no table"))
    assert str(told) == "no table [1146]"
