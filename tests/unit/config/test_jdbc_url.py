"""JDBC URLs are taken apart, and what cannot be is told with what would be right."""

from __future__ import annotations

import pytest

from jdbcstore.config.activemq_xml.jdbc_url import JdbcUrl, parse_jdbc_url
from jdbcstore.errors import ConfigurationError


@pytest.mark.parametrize(
    ("url", "backend", "hosts", "database"),
    [
        ("jdbc:postgresql://db/activemq", "postgresql", [("db", 5432)], "activemq"),
        ("jdbc:postgresql://db:5433/activemq", "postgresql", [("db", 5433)], "activemq"),
        ("jdbc:postgresql://[::1]:5740/a", "postgresql", [("::1", 5740)], "a"),
        ("jdbc:postgresql:activemq", "postgresql", [("localhost", 5432)], "activemq"),
        ("jdbc:postgresql:///a%20b", "postgresql", [("localhost", 5432)], "a b"),
        ("jdbc:postgresql://db", "postgresql", [("db", 5432)], ""),
        ("jdbc:postgresql:/", "postgresql", [("localhost", 5432)], ""),
        ("jdbc:postgresql://h1:1,h2/a", "postgresql", [("h1", 1), ("h2", 5432)], "a"),
        ("jdbc:mysql://db/a", "mysql", [("db", 3306)], "a"),
        ("jdbc:mysql:///a", "mysql", [("localhost", 3306)], "a"),
        ("jdbc:mariadb://db:3307/a", "mariadb", [("db", 3307)], "a"),
        ("jdbc:mysql:loadbalance://db/a", "mysql", [("db", 3306)], "a"),
        ("jdbc:mariadb:sequential://db:1/a", "mariadb", [("db", 1)], "a"),
        ("jdbc:mysql://h1,h2:1/a", "mysql", [("h1", 3306), ("h2", 1)], "a"),
        ("jdbc:mysql:failover://h1,h2/a", "mysql", [("h1", 3306), ("h2", 3306)], "a"),
        ("jdbc:mysql:loadbalance://h1,h2/a", "mysql", [("h1", 3306), ("h2", 3306)], "a"),
        ("jdbc:mysql:replication://h1,h2/a", "mysql", [("h1", 3306), ("h2", 3306)], "a"),
        ("jdbc:mariadb:sequential://h1,[::1]:1/a", "mariadb", [("h1", 3306), ("::1", 1)], "a"),
        ("jdbc:mysql://address=(host=h1)(port=1)(type=primary),h2/a", "mysql", [("h1", 1), ("h2", 3306)], "a"),
        ("jdbc:mysql://(host=h1,port=1),(port=2,host=h2)/a", "mysql", [("h1", 1), ("h2", 2)], "a"),
        ("jdbc:sqlite:data/a.db", "sqlite", [], "data/a.db"),
        ("jdbc:sqlite:/var/a.db", "sqlite", [], "/var/a.db"),
    ],
)
def test_a_url_has_its_parts(url: str, backend: str, hosts: list[tuple[str, int]], database: str) -> None:
    assert parse_jdbc_url(url) == JdbcUrl(backend, tuple(hosts), database, ())


def test_parameters_are_decoded() -> None:
    parsed = parse_jdbc_url("jdbc:mysql://joe:p%40ss@db/a?useSSL=false&password=a%26b&flag")
    assert parsed.parameters == (
        ("user", "joe"),
        ("password", "p@ss"),
        ("useSSL", "false"),
        ("password", "a&b"),
        ("flag", ""),
    )


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("jdbc:oracle:thin:@db:1521:orcl", "there is no store for Oracle: use jdbc:postgresql://"),
        ("jdbc:derby:activemq;create=true", "no store for Derby"),
        ("jdbc:h2:mem:a", "no store for H2"),
        ("jdbc:sqlserver://db:1433;databaseName=a", "no store for SQL Server"),
        ("jdbc:db2://db/a", "no store for DB2"),
        ("postgresql://db/a", "is not a JDBC URL"),
        ("jdbc:p6spy:mysql://db/a", "is not a JDBC URL"),
        ("", "is not a JDBC URL"),
        ("jdbc:mariadb:sequential:h1", "write jdbc:mariadb://HOST,HOST/DATABASE"),
        ("jdbc:mysql:srv://h1/a", "jdbc:mysql:srv: is not one of jdbc:mysql:failover://"),
        ("jdbc:mysql://address=(host=db)(port=x)/a", "is not HOST or HOST:PORT"),
        ("jdbc:postgresql://db:port/a", "is not HOST or HOST:PORT"),
        ("jdbc:postgresql://db:99999/a", "is not HOST or HOST:PORT"),
        ("jdbc:sqlite:", "needs a file"),
        ("jdbc:sqlite::memory:", "needs a file"),
    ],
)
def test_what_cannot_be_translated_is_told_what_would_be_right(url: str, what: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_jdbc_url(url)
    assert what in str(caught.value)


def test_no_password_is_in_an_error() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_jdbc_url("jdbc:mysql://joe:secret@h:port/a?password=secret")
    assert "secret" not in str(caught.value)
